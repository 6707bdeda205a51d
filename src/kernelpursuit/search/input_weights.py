"""Weights of the inputs in a search: learned from the training rows of each fold, in the end from all rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from kernelpursuit._warning import without
from kernelpursuit.arrays import Array
from kernelpursuit.estimators.classification import KMPClassifier
from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.estimators.regression import KMPRegressor
from kernelpursuit.estimators.widths import FeatureWidths
from kernelpursuit.fitting.pipeline import draw_seed
from kernelpursuit.fitting.placement import take_rows
from kernelpursuit.fitting.training import by_class, with_class_weight
from kernelpursuit.kernels.gaussian import center_of, centred
from kernelpursuit.search.folds import SearchRows

WITH_INPUT_WEIGHTS = (KMPRegressor, KMPClassifier, SparseKernelFDA)


def check_input_weights(estimator: Any, X: Any, kind: str) -> None:
    """Refuse learned weights where there can be none."""
    centers, problem = getattr(estimator, "centers", None), None
    if not isinstance(estimator, WITH_INPUT_WEIGHTS):
        names = ", ".join(one.__name__ for one in WITH_INPUT_WEIGHTS)
        problem = f"is for {names}, got {type(estimator).__name__}"
    elif not isinstance(estimator.kernel, str) or estimator.kernel != "rbf":
        problem = f"needs kernel='rbf', got {estimator.kernel!r}"
    elif sparse.issparse(X):
        problem = "needs dense X, got a sparse matrix"
    elif not (centers is None or isinstance(centers, Integral)):
        problem = "needs centers=None or a number of rows, got points"
    if problem is not None:
        raise ValueError(f"input_weights={kind!r} {problem}; input_weights='equal' takes the inputs as they are")


def feature_widths_for(estimator: Any, y: np.ndarray) -> FeatureWidths:
    """Unfitted `FeatureWidths` for targets `y`; clones of it draw the same rows and landmarks."""
    task = "classification" if is_classifier(estimator) and y.ndim == 1 else "regression"
    state = estimator.random_state
    # Without a seed the draws are the same in every fit: a model that cannot be had again helps nobody.
    seed = 0 if state is None else int(state) if isinstance(state, Integral) else draw_seed(state)
    return FeatureWidths(task=task, random_state=seed)


def learn_weights(
    widths: FeatureWidths, estimator: Any, X: Any, rows: SearchRows, taken: np.ndarray | slice = slice(None)
) -> None:
    """Fit `widths` to the rows `taken`, whose inputs are X. A row counts by its own weight and that of its class."""
    y, weights = rows.y[taken], None if rows.weights is None else rows.weights[taken]
    class_weight = by_class(getattr(estimator, "class_weight", None), rows.y)
    widths.fit(X, y, with_class_weight(class_weight, y, weights, X)[0])


def learned_in_folds(
    widths: FeatureWidths, estimator: Any, rows: SearchRows, folds: list[tuple[np.ndarray, np.ndarray]]
) -> list[FeatureWidths]:
    """The weights that the training rows of each fold give. Warnings are left to the fit to all rows."""
    learned = []
    for train, _ in folds:
        own = clone(widths)
        with without(UserWarning):
            learn_weights(own, estimator, take_rows(rows.X, train), rows, train)
        learned.append(own)
    return learned


def weighted_inputs(X: Any, widths: FeatureWidths) -> Array:
    """Inputs times their weights, centred first: far from 0 single precision would round the products."""
    return widths.transform(centred(X, center_of(X)))
