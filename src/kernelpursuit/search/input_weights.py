"""Weights of the inputs in a search: learned from the training rows of each fold, and part of the model in the end."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from kernelpursuit.arrays import Array, on_host
from kernelpursuit.estimators.widths import FeatureWidths
from kernelpursuit.fitting.pipeline import draw_seed
from kernelpursuit.fitting.placement import take_rows
from kernelpursuit.fitting.training import by_class, with_class_weight
from kernelpursuit.kernels.gaussian import center_of, centred
from kernelpursuit.kernels.kernels import make_kernel

KINDS = {"equal": (False,), "learned": (True,), "both": (False, True)}
WIDTHS = [0.25, 1.0, 4.0, 16.0]  # gammas to try with learned weights, which suit 1: with many rows narrower ones do


def kinds_to_try(estimator: Any, X: Any) -> tuple[bool, ...]:
    """Whether weights are learned, for each kind that the parameter asks for; an error where they cannot be."""
    asked = getattr(estimator, "input_weights", "equal")
    if asked == "equal":
        return KINDS[asked]
    problem = None
    if not isinstance(estimator.kernel, str) or estimator.kernel != "rbf":
        problem = f"needs kernel='rbf', got {estimator.kernel!r}"
    elif sparse.issparse(X):
        problem = "needs dense X, got a sparse matrix"
    elif estimator.functions is not None:
        problem = "cannot be combined with functions"
    elif not (estimator.centers is None or isinstance(estimator.centers, Integral)):
        problem = "needs centers=None or a number of rows, got points"
    if problem is not None:
        raise ValueError(f"input_weights={asked!r} {problem}; input_weights='equal' takes the inputs as they are")
    return KINDS[asked]


def unfitted(estimator: Any, y: np.ndarray) -> FeatureWidths:
    """What learns the weights for targets `y`. A clone of it draws the same rows and landmarks."""
    task, state = "classification" if is_classifier(estimator) and y.ndim == 1 else "regression", estimator.random_state
    # Drawn alike in every fit unless a seed says otherwise, as rows that are held out.
    seed = 0 if state is None else int(state) if isinstance(state, Integral) else draw_seed(state)
    return FeatureWidths(task=task, random_state=seed)


def learned_in_folds(
    widths: FeatureWidths,
    estimator: Any,
    X: Any,
    y: np.ndarray,
    weights: np.ndarray | None,
    folds: list[tuple[Any, Any]],
    verbose: int,
) -> list[FeatureWidths]:
    """The weights by the training rows of each fold."""
    found = []
    for train, _ in folds:
        one = clone(widths).set_params(verbose=max(0, verbose - 1))
        with warnings.catch_warnings():  # those of all rows say it again
            warnings.simplefilter("ignore", UserWarning)
            given = None if weights is None else weights[train]
            learn(one, estimator, take_rows(X, train), y[train], given, labels=y)
        found.append(one)
    return found


def learn(
    widths: FeatureWidths, estimator: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, labels: Any = None
) -> None:
    """Fit to rows, each with its own weight times that of its class, if the estimator of the search has such.

    `labels` are those of all rows, where these are some: they may lack a class.
    """
    class_weight = by_class(getattr(estimator, "class_weight", None), y if labels is None else labels)
    widths.fit(X, y, with_class_weight(class_weight, y, weights, X)[0])


def weighed(X: Any, widths: FeatureWidths) -> Array:
    """Inputs times their weights. They are centred first: far from 0 single precision would round the products."""
    return widths.transform(centred(X, center_of(X)))


def of_inputs_as_they_are(model: Any, X: Any, weights: Array) -> None:
    """Make a model that was fitted to weighted inputs one of the inputs X themselves, which has their weights."""
    taken = model._taken
    kernel = make_kernel("rbf", X, gamma=model.gamma_)
    expansion = replace(
        taken.expansion, centers=take_rows(X, taken.support), kernels=[kernel], input_weights=on_host(weights)
    )
    model._set(taken._replace(expansion=expansion))
