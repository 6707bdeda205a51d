"""Scores of one path of a search for every number of atoms."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit._warning import without
from kernelpursuit.arrays import gather, on_host
from kernelpursuit.fitting.callbacks import inside
from kernelpursuit.fitting.pipeline import say
from kernelpursuit.fitting.placement import host_dtype, is_precomputed, labels_beside, take_rows
from kernelpursuit.fitting.training import by_class
from kernelpursuit.fitting.value_scores import as_predicted
from kernelpursuit.pursuit.loop import count


class Interrupted(KeyboardInterrupt):
    """An interrupt of a path that has some steps."""

    def __init__(self, steps: int):
        super().__init__(steps)
        self.steps = steps


class Ended(NamedTuple):
    """A path at which a callback asked to stop the search."""

    scores: np.ndarray | None  # None where it was ended before they were known
    steps: int


def path_scores(
    model: Any,
    X: Any,
    y: np.ndarray,
    weights: np.ndarray | None,
    train: Any,
    test: Any,
    scorer: Any,
    metric: Callable,
    label: str = "",
    place: Any = None,
) -> np.ndarray | Ended:
    """Score on the test rows after 1 .. n_atoms steps; a path that ends early keeps its last score.

    The scores are nan where all test rows have weight 0. A line with `label` says what came out. `place` is where
    callbacks hear of the fit, see `inside`.
    """
    began = time.perf_counter()
    w_train, w_test = (None, None) if weights is None else (weights[train], weights[test])
    if w_test is not None and not np.any(w_test > 0):
        return np.full(model.n_atoms, np.nan)
    if hasattr(model, "class_weight"):  # of all classes: a fold may lack some
        model.class_weight = by_class(model.class_weight, y)
    pairwise = is_precomputed(model.kernel)
    X_train, X_test = (take_pairs(X, rows, train) if pairwise else take_rows(X, rows) for rows in (train, test))
    try:
        with inside(place, model, X_train, y[train]) as noted:
            model.fit(X_train, y[train], **weight_option(w_train))
    except KeyboardInterrupt as interrupt:
        raise (Interrupted(len(model.path_)) if hasattr(model, "path_") else interrupt) from None
    if model.path_.reason == "callback":
        return Ended(None, len(model.path_))
    options = weight_option(w_test)
    if scorer is None:
        predictions = list(model.staged_predict(X_test)) or [model.predict(X_test)]  # nothing to fit: the constant
        scores = [metric(y[test], on_host(prediction), **options) for prediction in predictions]
    else:
        y_test = labels_beside((y if is_classifier(model) else as_predicted(y, weights, host_dtype(X)))[test], X)
        models = [model.truncate(k) for k in range(1, len(model.path_) + 1)] or [model]
        scores = [scorer(one, X_test, y_test, **options) for one in models]
    say_best(label, scores, began)
    known = np.array(scores + [scores[-1]] * (model.n_atoms - len(scores)))
    return Ended(known, len(model.path_)) if noted else known


def scored_by_metric(estimator: Any, X: Any, weights: np.ndarray | None) -> bool:
    """Whether the metric of a search is what `scoring` asks for, by name too: it takes all numbers of atoms at once.

    Weights of rows count in the metric; whether they do in a scorer is for scikit-learn to say. In float32 the scores
    of wide kernels would differ in the fifth digit from those of the models' own predictions.
    """
    if estimator.scoring is None:
        return True
    if is_classifier(estimator):
        name = "accuracy"
    else:
        name = "neg_mean_squared_error" if estimator.loss == "squared" else ""
    named = isinstance(estimator.scoring, str) and estimator.scoring == name
    return named and weights is None and host_dtype(X) == np.float64


def say_best(label: str, scores: Any, began: float) -> None:
    """A line about the scores of a path, unless `label` is empty."""
    if label:
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))
        seconds = time.perf_counter() - began
        say(f"{label}: best score {scores[best]:.4g} with {count(best + 1, 'atom')}, {seconds:.1f} s")


def quiet_path_scores(*job: Any) -> np.ndarray | Ended:
    """Score a path without warnings of its fit: the fit on all rows repeats what matters."""
    with without(UserWarning):
        return path_scores(*job)


def weight_option(weights: np.ndarray | None) -> dict[str, np.ndarray]:
    """Keyword for functions that may not know of weights."""
    return {} if weights is None else {"sample_weight": weights}


def take_pairs(K: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Entries of a kernel matrix in these rows and columns."""
    return gather(gather(K, rows), columns, axis=1)
