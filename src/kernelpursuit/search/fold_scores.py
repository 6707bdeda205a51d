"""One fold of a search: a path fitted to its training rows, scored on the others for every number of atoms."""

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
from kernelpursuit.fitting.placement import host_dtype, is_precomputed, labels_to, take_rows
from kernelpursuit.fitting.training import by_class
from kernelpursuit.fitting.values import as_predicted
from kernelpursuit.pursuit.loop import Path, count
from kernelpursuit.ranking import group_sizes
from kernelpursuit.search.metrics import Metric


class SearchRows(NamedTuple):
    """The rows of a search, of which every fold takes some."""

    X: Any
    y: np.ndarray  # on the host wherever X is
    weights: np.ndarray | None
    groups: np.ndarray | None  # label of the group of each row, where the estimator is a ranker

    def split(self, kernel: Any, train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
        """X of the training rows and of the others; of a kernel matrix the columns of the training rows."""
        if is_precomputed(kernel):
            columns = gather(self.X, train, axis=1)
            return gather(columns, train), gather(columns, test)
        return take_rows(self.X, train), take_rows(self.X, test)

    def options(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Weights and sizes of groups of some rows, as keywords of a fit or a metric that may not know of them."""
        options = {} if self.weights is None else {"sample_weight": self.weights[rows]}
        return options if self.groups is None else options | {"group": group_sizes(self.groups[rows])}


class FoldScores(NamedTuple):
    """What came out of a fold."""

    scores: np.ndarray | None  # for 1, 2, ... atoms; None where the path was ended before it had all of them
    n_steps: int = 0
    ended: str = ""  # "interrupted" or "callback", where the search is to end


def score_fold(
    model: Any,
    rows: SearchRows,
    train: np.ndarray,
    test: np.ndarray,
    judge: Metric | Callable[..., float],
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
    judge : Metric or callable
        A scorer is called for each number of atoms.
    label : str
        What a printed line says of the fold; none is printed if empty.
    place : object, optional
        Where callbacks are told of the fit, see `inside`.
    """
    began = time.perf_counter()
    if rows.weights is not None and not np.any(rows.weights[test] > 0):
        return FoldScores(np.full(model.n_atoms, np.nan))
    if getattr(model, "class_weight", None) is not None:  # the training rows may lack a class
        model.set_params(class_weight=by_class(model.class_weight, rows.y))
    X_train, X_test = rows.split(model.kernel, train, test)
    try:
        with without(UserWarning), inside(place, model, X_train, rows.y[train]) as stop_requests:
            model.fit(X_train, rows.y[train], **rows.options(train))
    except KeyboardInterrupt:
        if not hasattr(model, "path_"):
            raise
        return FoldScores(None, len(model.path_), "interrupted")
    if model.path_.reason == "callback":
        return FoldScores(None, len(model.path_), "callback")
    scores = scores_of_numbers(model, rows, X_test, test, judge)
    if label:
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))
        seconds = time.perf_counter() - began
        say(f"{label}: best score {scores[best]:.4g} with {count(best + 1, 'atom')}, {seconds:.1f} s")
    return FoldScores(scores, len(model.path_), "callback" if stop_requests else "")


def scores_of_numbers(model: Any, rows: SearchRows, X_test: Any, test: np.ndarray, judge: Any) -> np.ndarray:
    """Scores of the models with 1, 2, ... atoms of a fitted path. One that ends early keeps its last score."""
    steps = steps_to_numbers(model.path_, model.n_atoms)
    if isinstance(judge, Metric):
        predictions = dict(enumerate(model.staged_predict(X_test), start=1)) or {0: model.predict(X_test)}
        options = rows.options(test)
        scores = {k: judge.score(rows.y[test], on_host(predictions[k]), **options) for k in set(steps)}
    else:
        y = rows.y if is_classifier(model) else as_predicted(rows.y, rows.weights, host_dtype(rows.X))
        y_test = labels_to(y[test], rows.X)
        options = {} if rows.weights is None else {"sample_weight": rows.weights[test]}
        scores = {k: judge(model.truncate(k), X_test, y_test, **options) for k in set(steps)}
    return np.array([scores[k] for k in steps])


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
