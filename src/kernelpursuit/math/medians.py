"""Weighted medians, and robust standard deviations made of medians."""

from __future__ import annotations

import numpy as np


def spreads(y: np.ndarray, weights: np.ndarray | None) -> list[float]:
    """Standard deviations of normal targets, from weighted medians of |y - median|; 0 for targets that are constant.

    Where most rows are tied the median is 0. Then the square of the mean root is used instead, in which a few outliers
    count for little.
    """
    weights = np.ones(len(y)) if weights is None else weights.astype(np.float64)
    sizes = []
    for column in y.T.astype(np.float64):
        deviation = np.abs(column - weighted_median(column, weights))
        typical = 1.4826 * weighted_median(deviation, weights)
        sizes.append(float(typical or np.average(np.sqrt(deviation), weights=weights) ** 2))
    return sizes


def in_ties(y: np.ndarray, weights: np.ndarray | None, least: float) -> np.ndarray:
    """Which values make up more than a share `least` of their column, by weight.

    Examples
    --------
    >>> in_ties(np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 3.0]]), None, 0.4).T
    array([[ True,  True, False],
           [False, False, False]])
    """
    many = np.zeros(y.shape, dtype=bool)
    for column in range(y.shape[1]):
        value = np.unique(y[:, column], return_inverse=True)[1]
        totals = np.bincount(value, weights=weights)
        many[:, column] = (totals > least * totals.sum())[value]
    return many


def medians(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Weighted medians of columns."""
    weights = np.ones(len(y)) if weights is None else weights
    return np.array([weighted_median(column, weights) for column in y.T])


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Value with half of the weight below it; the middle of two values where half lies below each number between."""
    order = np.argsort(values, kind="stable")
    values, cumulative = values[order], np.cumsum(weights[order], dtype=np.float64)
    half, rounding = 0.5 * cumulative[-1], 4 * np.finfo(np.float64).eps * len(values) * cumulative[-1]
    low, high = np.searchsorted(cumulative, [half - rounding, half + rounding])
    return float(0.5 * (values[low] + values[min(high, len(values) - 1)]))
