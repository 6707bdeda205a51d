"""One fold of a search: a path fitted to its training rows, and scored on its test rows for every number of atoms."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit._warning import without
from kernelpursuit.arrays import gather, on_host
from kernelpursuit.estimators.ranker import KMPRanker
from kernelpursuit.fitting.callbacks import as_subtask
from kernelpursuit.fitting.pipeline import say
from kernelpursuit.fitting.placement import is_precomputed, labels_to, take_rows
from kernelpursuit.fitting.rules import mean_loss
from kernelpursuit.fitting.training import by_class, largest_size, training_data
from kernelpursuit.fitting.values import regression_loss
from kernelpursuit.losses import LOSSES, Loss
from kernelpursuit.pursuit.loop import Path, count
from kernelpursuit.ranking import group_sizes, ndcg

SMALLEST, LARGEST = 1e-75, 1e75  # sizes of targets whose squares, and squares of these, are numbers of float64
# judge(model, X_test, y_test, steps, **options): scores of the models after each of these numbers of steps
Judge = Callable[..., dict[int, float]]


class SearchRows(NamedTuple):
    """The rows of a search, of which every fold takes some."""

    X: Any
    y: np.ndarray  # on the host wherever X is
    weights: np.ndarray | None
    groups: np.ndarray | None  # label of the group of each row, where the estimator is a ranker

    def split(self, kernel: Any, train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
        """X of the training rows and of the test rows; of a kernel matrix the columns of the training rows."""
        if is_precomputed(kernel):
            columns = gather(self.X, train, axis=1)
            return gather(columns, train), gather(columns, test)
        return take_rows(self.X, train), take_rows(self.X, test)

    def options(self, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
        """Weights and sizes of groups of some rows, as keywords; none of them where there are no weights or groups."""
        options = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return options if self.groups is None else options | {"group": group_sizes(self.groups[rows])}


class FoldScores(NamedTuple):
    """The scores of one fold and setting."""

    scores: np.ndarray | None  # for 1, 2, ... atoms; None where the path was ended before it had all of them
    n_steps: int = 0
    ended: str = ""  # "interrupted" or "callback", where the search is to end


def score_fold(
    model: Any,
    rows: SearchRows,
    train: np.ndarray,
    test: np.ndarray,
    judge: Judge,
    label: str = "",
    place: Any = None,
) -> FoldScores:
    """Fit the longest path to the rows `train` and score all of its models on the rows `test`.

    Parameters
    ----------
    model : estimator
        Unfitted, with as many atoms as are tried.
    rows : SearchRows
    train, test : ndarray of int
        The scores are nan where all test rows have weight 0.
    judge : callable
        `judge_predictions` with a metric, or `judge_models` with a scorer.
    label : str
        Name of the fold in the line that is printed about it; no line is printed if it is empty.
    place : object, optional
        Where callbacks hear of the fit, see `as_subtask`.
    """
    began = time.perf_counter()
    if rows.weights is not None and not np.any(rows.weights[test] > 0):
        return FoldScores(np.full(model.n_atoms, np.nan))
    if getattr(model, "class_weight", None) is not None:  # the training rows may lack a class
        model.set_params(class_weight=by_class(model.class_weight, rows.y))
    X_train, X_test = rows.split(model.kernel, train, test)
    try:
        with without(UserWarning), as_subtask(place, model, X_train, rows.y[train]) as stop_requests:
            model.fit(X_train, rows.y[train], **rows.options(train))
    except KeyboardInterrupt:
        if not hasattr(model, "path_"):
            raise
        return FoldScores(None, len(model.path_), "interrupted")
    if model.path_.reason == "callback":
        return FoldScores(None, len(model.path_), "callback")
    steps = steps_to_numbers(model.path_, model.n_atoms)
    found = judge(model, X_test, rows.y[test], set(steps), **rows.options(test))
    scores = np.array([found[k] for k in steps])
    if label:
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))
        seconds = time.perf_counter() - began
        say(f"{label}: best score {scores[best]:.4g} with {count(best + 1, 'atom')}, {seconds:.1f} s")
    return FoldScores(scores, len(model.path_), "callback" if stop_requests else "")


def steps_to_numbers(path: Path, most: int) -> list[int]:
    """Number of steps after which a path first has 1, 2, ... `most` atoms; all of its steps where it never has them.

    Examples
    --------
    >>> from kernelpursuit.pursuit import Step
    >>> steps_to_numbers(Path(Step(-1), [Step(0), Step(1), Step(2, released=(0,)), Step(3)]), 4)
    [1, 2, 4, 4]
    """
    numbers = np.cumsum([1 - len(step.released) for step in path.steps])
    first = 1 + np.searchsorted(np.maximum.accumulate(numbers), np.arange(1, most + 1))
    return np.minimum(first, len(path)).tolist()


def judge_predictions(
    metric: Callable[..., float], model: Any, X: Any, y: np.ndarray, steps: Collection[int], **options: Any
) -> dict[int, float]:
    """Scores by a metric of predictions: the kernel is evaluated once for all numbers of steps."""
    predictions = dict(enumerate(model.staged_predict(X), start=1)) or {0: model.predict(X)}
    return {k: metric(y, on_host(predictions[k]), **options) for k in steps}


def judge_models(
    scorer: Callable[..., float], model: Any, X: Any, y: np.ndarray, steps: Collection[int], **options: Any
) -> dict[int, float]:
    """Scores by a scorer of scikit-learn, called for each number of steps; it knows of weights, but of no groups."""
    options.pop("group", None)
    return {k: scorer(model.truncate(k), X, labels_to(y, X), **options) for k in steps}


def own_metric(estimator: Any, rows: SearchRows) -> Callable[..., float]:
    """Accuracy for a classifier, NDCG for a ranker, else minus the mean of the loss that the estimator fits."""
    if is_classifier(estimator):
        return accuracy
    if isinstance(estimator, KMPRanker):
        return mean_ndcg
    targets = rows.y.reshape(len(rows.y), -1).astype(np.float64)
    size = largest_size(targets)
    if size > 0 and not SMALLEST < size < LARGEST:
        raise ValueError(
            f"y has values up to {size:g}, whose squares are no numbers of float64: scale y to compare them"
        )
    loss = regression_loss(getattr(estimator, "loss", "squared_error"), training_data(rows.X, targets, rows.weights))
    return partial(minus_mean_loss, loss or LOSSES["squared_error"])


def scorer_of_metric(estimator: Any) -> str | None:
    """Name of scikit-learn's scorer that gives what `own_metric` does."""
    if is_classifier(estimator):
        return "accuracy"
    squared = getattr(estimator, "loss", "squared_error") == "squared_error" and not isinstance(estimator, KMPRanker)
    return "neg_mean_squared_error" if squared else None


def accuracy(y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Share of rows whose class is right, or all of whose labels are.

    scikit-learn's checks of its arguments would take longer than the fit.
    """
    right = y == prediction
    right = right.all(axis=1) if right.ndim == 2 else right
    return float(np.average(right, weights=sample_weight))


def mean_ndcg(
    y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None, group: np.ndarray | None = None
) -> float:
    """Mean NDCG of the groups."""
    return ndcg(y, prediction, group, sample_weight=sample_weight)


def minus_mean_loss(
    loss: Loss, y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Minus the mean loss of predictions, a mean over the targets too."""
    targets, values = (one.reshape(len(y), -1).astype(np.float64) for one in (y, prediction))
    values = values if loss.link is None else loss.link.of_mean(values)
    return -mean_loss(loss.value, targets, values, sample_weight) / targets.shape[1]
