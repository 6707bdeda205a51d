"""How well an order agrees with the grades of rows, group by group; numbers in, numbers out.

Groups are given as LightGBM takes them: the sizes of groups of consecutive rows, which sum to the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import kendalltau

__all__ = ["group_numbers", "group_sizes", "kendall_tau", "ndcg"]


def group_sizes(labels: Any) -> np.ndarray:
    """Sizes of the groups of consecutive rows, from a label of each row (XGBoost's ``qid``).

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Rows of a group stand together.

    Returns
    -------
    ndarray of shape (n_groups,)

    Examples
    --------
    >>> group_sizes(["b", "b", "a", "c", "c", "c"])
    array([2, 1, 3])
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"labels must be one label for each row, got shape {labels.shape}")
    if missing := sum(map(is_missing, labels.tolist())):
        raise ValueError(f"labels must be one label for each row, {missing} of {len(labels)} are missing")
    first = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    if len(set(labels[first].tolist())) < len(first):
        raise ValueError("labels must stand together: a label comes back after another one. Sort the rows by labels")
    return np.diff(np.append(first, len(labels)))


def is_missing(label: Any) -> bool:
    """Whether it is None, pandas' NA, NaN or a time that is none."""
    return label is None or type(label).__name__ == "NAType" or label != label


def group_numbers(group: Any, n: int) -> np.ndarray:
    """Number of the group of each of `n` rows, from the sizes of groups; None is a single group.

    Examples
    --------
    >>> group_numbers([2, 1, 3], 6)
    array([0, 0, 1, 2, 2, 2])
    """
    if group is None:
        return np.zeros(n, dtype=np.intp)
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or not np.all(sizes == np.rint(sizes)) or np.any(sizes < 1):
        raise ValueError(
            f"group must be the sizes of groups of consecutive rows, whole numbers from 1 on, got {group!r}"
        )
    if (total := int(np.sum(sizes))) != n:
        hint = ". One label for each row? ranking.group_sizes makes sizes of them" if len(sizes) == n else ""
        raise ValueError(f"group must sum to the number of rows: {len(sizes)} sizes sum to {total}, not {n}{hint}")
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.intp))


def ndcg(
    y: Any,
    scores: Any,
    group: Any = None,
    *,
    k: int | None = None,
    gain: str = "exponential",
    sample_weight: Any = None,
) -> float:
    """Normalised discounted cumulative gain, the mean over groups: 1 for a perfect order.

    A row of grade y on place p (from 1 on) gives ``(2**y - 1) / log2(1 + p)``; the sum is divided by that of the best
    order. Rows of equal score share their places. A group that has no grade above 0 counts 1, as it does in LightGBM:
    every order of it is right.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Grades, at least 0, usually 0 to 4.
    scores : array-like of shape (n_samples,)
        The higher, the further in front.
    group : array-like of shape (n_groups,), optional
        Sizes of the groups of consecutive rows; None is a single group.
    k : int, optional
        Places that count; all by default.
    gain : {"exponential", "linear"}
        Whether a row is worth ``2**y - 1`` or y.
    sample_weight : array-like of shape (n_samples,), optional
        A group counts by the mean weight of its rows, as in LightGBM.

    Returns
    -------
    float

    References
    ----------
    Järvelin and Kekäläinen, ACM Transactions on Information Systems 20 (2002); Burges et al., ICML (2005).

    Examples
    --------
    >>> ndcg([2, 1, 0], [0.9, 0.5, 0.1]), round(ndcg([2, 1, 0, 1], [0.1, 0.5, 0.9, 0.2], group=[3, 1]), 4)
    (1.0, 0.7934)
    """
    if gain not in ("exponential", "linear"):
        raise ValueError(f"gain must be 'exponential' or 'linear', got {gain!r}")
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1, got {k!r}")
    found = []
    for grades, values in _in_groups(y, scores, group):
        if np.min(grades) < 0:
            raise ValueError(
                f"ndcg needs grades of at least 0 in y, got {np.min(grades):g}: shift y, or use kendall_tau"
            )
        top = np.max(grades)  # 2**y - 1 divided by 2**top, which does not overflow
        gains = grades if gain == "linear" else np.exp2(grades - top) - np.exp2(-top)
        places = np.arange(len(grades))
        discount = np.where(places < (k or len(grades)), 1 / np.log2(places + 2.0), 0.0)
        best = np.sort(gains)[::-1] @ discount
        _, tie, size = np.unique(-values, return_inverse=True, return_counts=True)
        shared = np.add.reduceat(discount, np.cumsum(size) - size) / size  # the mean of the places of a tie
        found.append(gains @ shared[tie] / best if best > 0 else 1.0)
    if sample_weight is None:
        return float(np.mean(found))
    _, weights = zip(*_in_groups(y, sample_weight, group), strict=True)
    return float(np.average(found, weights=[np.mean(of_group) for of_group in weights]))


def kendall_tau(y: Any, scores: Any, group: Any = None) -> float:
    """Kendall's tau (tau-b), the mean over groups: 1 for the order of y, -1 for its reverse, 0 for a constant.

    Groups in which all y are equal have no order and are left out; nan if there is no other.

    Parameters
    ----------
    y, scores : array-like of shape (n_samples,)
    group : array-like of shape (n_groups,), optional
        Sizes of the groups of consecutive rows; None is a single group.

    Returns
    -------
    float

    Examples
    --------
    >>> kendall_tau([1, 2, 3, 5, 4], [0.1, 0.2, 0.3, 0.4, 0.9], group=[3, 2])
    0.0
    """
    found = [
        kendalltau(truth, values).statistic if np.ptp(values) > 0 else 0.0
        for truth, values in _in_groups(y, scores, group)
        if np.ptp(truth) > 0
    ]
    return float(np.mean(found)) if found else np.nan


def wrong_pairs(y: Any, scores: Any, group: Any = None) -> np.ndarray:
    """Share of the pairs of each group that are in the wrong order: a loss from 0 to 1.

    Pairs of equal y do not count, pairs of equal score count half. A group without pairs has loss 0.

    Parameters
    ----------
    y, scores : array-like of shape (n_samples,)
    group : array-like of shape (n_groups,), optional
        Sizes of the groups of consecutive rows; None is a single group.

    Returns
    -------
    ndarray of shape (n_groups,)

    Examples
    --------
    >>> wrong_pairs([1, 2, 3, 5, 4, 4], [0.3, 0.2, 0.4, 0.9, 0.4, 0.9], group=[3, 3])
    array([0.33333333, 0.25      ])
    """
    found = []
    for truth, values in _in_groups(y, scores, group):
        right = np.sign(truth[:, None] - truth)
        found.append((1 - np.sum(right * np.sign(values[:, None] - values)) / max(np.sum(right**2), 1)) / 2)
        found[-1] *= bool(np.any(right))
    return np.array(found)


def _in_groups(y: Any, scores: Any, group: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Targets and scores of each group."""
    y, scores = np.asarray(y, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if y.ndim != 1 or y.shape != scores.shape or len(y) == 0:
        raise ValueError(f"y and scores must have one number for each row, got shapes {y.shape} and {scores.shape}")
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(scores))):
        raise ValueError("y and scores must be finite, got nan or infinity")
    starts = np.flatnonzero(np.diff(group_numbers(group, len(y)))) + 1
    yield from zip(np.split(y, starts), np.split(scores, starts), strict=True)
