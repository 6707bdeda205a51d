"""The table of scores of a search, (settings, folds, numbers of atoms): which are best, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kernelpursuit._warning import warn
from kernelpursuit.pursuit.loop import count
from kernelpursuit.search.settings import Setting

_ROUNDING = 1e-12  # share of the scores by which equal ones may differ


@dataclass
class Scores:
    """Scores of a search, as far as it has come."""

    table: np.ndarray  # (settings, folds, numbers of atoms), nan where there is none
    n_done: int = 0  # paths that have their scores, in the order of the table
    n_steps: int = 0  # of the path that was ended early
    ended: str = ""  # "interrupted" or "callback", where the search was ended early

    @property
    def known(self) -> np.ndarray:
        """Scores of the settings of which all folds are finished; if there is none, those of the first setting."""
        return self.table[: max(1, self.n_done // self.table.shape[1])]

    def best(self, one_standard_error: bool) -> tuple[int, int]:
        """Index of the setting and number of atoms: the best, or after an early end the best that is known.

        Settings of which all folds are finished are compared; if there is none, the finished folds of the first setting
        decide. Without a finished fold, the number of atoms is that of the path that was ended.
        """
        known = self.known if self.n_done >= self.table.shape[1] else self.table[:1, : self.n_done]
        return (0, max(1, self.n_steps)) if np.all(np.isnan(known)) else best_pair(known, one_standard_error)


def refuse_folds_of_one_class(y: np.ndarray, weights: np.ndarray | None, folds: list[tuple[Any, Any]]) -> None:
    """Refuse folds whose training rows are of one class where the rows are of several."""
    counted = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    classes, sizes = np.unique(y[counted], return_counts=True)
    for number, (train, _) in enumerate(folds, start=1):
        left = np.unique(y[train][counted[train]])
        if len(left) == 1 < len(classes):
            raise ValueError(
                f"the training rows of fold {number} of {len(folds)} are all of class {left[0]}; of the rarest class "
                f"there are {count(int(min(sizes)), 'row')} in all. Give cv=StratifiedKFold with at most as many "
                "folds, or more rows of that class"
            )


def check_folds(table: np.ndarray) -> None:
    """Warn where a fold has no score at all; an error where no fold has any."""
    undefined = np.all(np.isnan(table), axis=(0, 2))
    if undefined.all():
        raise ValueError("every score is nan: the folds have too few classes or no weight, or scoring does not fit")
    if undefined.any():
        warn(
            f"the scores of folds {np.flatnonzero(undefined).tolist()} (counted from 0) are all nan, so the others "
            "alone decide: they have one class only, no weight, or scoring does not fit them. Use other folds "
            "(StratifiedKFold, fewer of them)"
        )


def defined_folds(table: np.ndarray) -> np.ndarray:
    """Scores of the folds that have any, (settings, folds, numbers); all of them where none has."""
    undefined = np.all(np.isnan(table), axis=(0, 2))
    return table if undefined.all() else table[:, ~undefined]


def mean_scores(table: np.ndarray) -> np.ndarray:
    """Means over the folds that have scores, (settings, numbers); nan where one of these folds has none.

    Means that differ by rounding alone are made equal, so that it has no part in what is chosen.

    Examples
    --------
    >>> mean_scores(np.array([[[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]], [[0.3, 0.4], [0.3, 0.4]]]))
    array([[0.3, 0.3],
           [0.3, 0.4]])
    """
    folds = defined_folds(table)
    mean = folds.mean(axis=1)
    rounding = _ROUNDING * np.abs(folds).mean(axis=1)
    best_first = [place for place in np.argsort(-mean, axis=None) if np.isfinite(mean.flat[place])]
    for better, next_best in pairwise(best_first):
        if mean.flat[better] - mean.flat[next_best] <= max(rounding.flat[better], rounding.flat[next_best]):
            mean.flat[next_best] = mean.flat[better]
    return mean


def best_pair(table: np.ndarray, one_standard_error: bool) -> tuple[int, int]:
    """Index of the setting and number of atoms with the best mean score in `table` (settings, folds, numbers).

    Of several it is the one with the fewest atoms, and of these the first setting. A mean that is nan is never the
    best.
    """
    mean = np.nan_to_num(mean_scores(table), nan=-np.inf)
    if not np.any(mean > -np.inf):
        raise ValueError("no setting and number of atoms has a score in every fold: all means are nan")
    k, setting = (int(index) for index in np.unravel_index(np.argmax(mean.T), mean.T.shape))
    chosen = table[setting, :, k]
    chosen = chosen[~np.isnan(chosen)]
    if one_standard_error and len(chosen) > 1:  # one fold has no standard error
        error = chosen.std(ddof=1) / np.sqrt(len(chosen)) + _ROUNDING * np.abs(chosen).mean()
        k = int(np.argmax(np.any(mean >= mean[setting, k] - error, axis=0)))  # the fewest atoms with any setting
        setting = int(np.argmax(mean[:, k]))
    return setting, k + 1


def cv_results(table: np.ndarray, settings: list[Setting]) -> dict[str, Any]:
    """Scores in the layout of scikit-learn's searches."""
    _, n_folds, longest = table.shape
    mean = mean_scores(table).ravel()
    ranked = np.nan_to_num(-mean, nan=np.inf)  # nan comes last
    columns: list[dict[str, Any]] = [setting.parameters for setting in settings]
    if any(setting.input_weights == "learned" for setting in settings):
        columns = [one | {"input_weights": s.input_weights} for one, s in zip(columns, settings, strict=True)]
    parameters = [{"n_atoms": k, **column} for column in columns for k in range(1, longest + 1)]
    results: dict[str, Any] = {f"param_{name}": np.array([one[name] for one in parameters]) for name in parameters[0]}
    return results | {
        "mean_test_score": mean,
        "std_test_score": defined_folds(table).std(axis=1).ravel(),
        **{f"split{i}_test_score": table[:, i].ravel() for i in range(n_folds)},
        "rank_test_score": np.searchsorted(np.sort(ranked), ranked) + 1,
        "params": parameters,
    }


def best_so_far(table: np.ndarray, settings: list[Setting]) -> str:
    """A line about the last setting of the table, and about the best one."""
    mean = np.nan_to_num(mean_scores(table), nan=-np.inf)
    last, best = len(mean) - 1, int(np.argmax(mean.max(axis=1)))
    lines = [
        f"{settings[i]}: mean score {mean[i].max():.4g} with {count(int(mean[i].argmax()) + 1, 'atom')}"
        for i in (last, best)
    ]
    return lines[0] + ("; the best so far" if best == last else f"; best so far {lines[1]}")
