"""Scores of a search, (settings, folds, numbers of atoms): which are the best, and how they are shown."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit._warning import warn
from kernelpursuit.pursuit.loop import count

_ROUNDING = 1e-12  # share of the scores by which equal ones may differ


class Setting(NamedTuple):
    """What a path is fitted with."""

    gamma: float | None  # None where the kernel has none
    alpha: float | None = None  # None where the ridge is not searched for
    learned: bool = False  # whether inputs have weights

    def __str__(self) -> str:
        width = "one width" if self.gamma is None else f"gamma={self.gamma:.4g}"
        said = ["learned weights"] * self.learned + [width]
        return ", ".join(said if self.alpha is None else [*said, f"alpha={self.alpha:.4g}"])


def check_classes(
    estimator: Any, y: np.ndarray, weights: np.ndarray | None, folds: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    """Refuse folds whose training rows are of one class where the rows are of several."""
    counted = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    classes, sizes = np.unique(y[counted], return_counts=True)
    for number, (train, _) in enumerate(folds, 1):
        left = np.unique(y[train][counted[train]])
        if len(left) != 1 or len(classes) < 2:
            continue
        other = int(np.argmax(classes != left[0]))
        rows, single = count(int(sizes[other]), "row"), type(estimator).__name__.removesuffix("CV")
        raise ValueError(
            f"cv={estimator.cv!r}: the training rows of fold {number} of {len(folds)} are all of class {left[0]}. "
            f"Class {classes[other]} of y has {rows}, none of them there. Give "
            + (
                "StratifiedKFold(2), or more folds up to that number, which has rows of all classes in every fold"
                if sizes[other] > 1
                else f"more rows of that class, or take {single}, which needs no folds"
            )
        )


def without_undefined_folds(table: np.ndarray) -> np.ndarray:
    """Scores, with a warning where a fold has none at all; an error where no fold has any."""
    undefined = np.all(np.isnan(table), axis=(0, 2))
    if undefined.all():
        raise ValueError("every score is nan: the folds have too few classes or no weight, or scoring does not fit")
    if undefined.any():
        places = [int(fold) for fold in np.flatnonzero(undefined)]
        warn(
            f"the scores of folds {places} (counted from 0) are all nan, so the others alone decide: they have one "
            "class only, no weight, or scoring does not fit them. Use other folds (StratifiedKFold, fewer of them)"
        )
    return table


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
    mean, size = folds.mean(axis=1), np.abs(folds).mean(axis=1)
    order = np.argsort(-mean, axis=None)
    order = order[np.isfinite(mean.flat[order])]
    falling, rounding = mean.flat[order], _ROUNDING * size.flat[order]
    apart = -np.diff(falling) > np.maximum(rounding[1:], rounding[:-1])
    largest = np.flatnonzero(np.concatenate([[True], apart])[: len(order)])  # of each set of equal ones
    mean.flat[order] = np.repeat(falling[largest], np.diff([*largest, len(order)]))
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


def cv_results(table: np.ndarray, settings: list[Setting]) -> dict[str, np.ndarray]:
    """Scores in the layout of scikit-learn's searches."""
    n_settings, n_folds, longest = table.shape
    mean = mean_scores(table).ravel()
    ranked = np.nan_to_num(-mean, nan=np.inf)  # nan comes last
    gammas, alphas, learned = zip(*settings, strict=True)
    results = {"param_gamma": np.repeat(np.array(gammas, dtype=object if gammas[0] is None else np.float64), longest)}
    if alphas[0] is not None:
        results["param_alpha"] = np.repeat(alphas, longest)
    if any(learned):
        results["param_input_weights"] = np.repeat(np.where(learned, "learned", "equal"), longest)
    results |= {
        "param_n_atoms": np.tile(np.arange(1, longest + 1), n_settings),
        "mean_test_score": mean,
        "std_test_score": defined_folds(table).std(axis=1).ravel(),
        "rank_test_score": np.searchsorted(np.sort(ranked), ranked) + 1,
    }
    return results | {f"split{i}_test_score": table[:, i].ravel() for i in range(n_folds)}


def accuracy(y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Share of rows whose class is right, or all of whose labels are.

    scikit-learn's checks of its arguments would take longer than the fit.
    """
    right = y == prediction
    if sample_weight is None and right.ndim == 1:
        return np.count_nonzero(right) / len(right)
    return float(np.average(right.all(axis=1) if right.ndim == 2 else right, weights=sample_weight))
