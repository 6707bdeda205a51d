"""From decision values to probabilities: a slope says how sure they are, and biases how frequent each class is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

_STEPS, _CLOSE = 100, 1e-10  # of Newton, at most, and the relative length of the last
_LEAST = 1e-6  # slope of values that say nothing, or the contrary: the order of the classes stays


@dataclass(frozen=True, eq=False)
class Calibration:
    """Log-odds of the classes for models of several sizes: ``slope * value + bias``.

    Between the sizes at which they were fitted, slopes and biases are interpolated on the scale of logarithms.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Increasing numbers of steps.
    slopes : ndarray of shape (n_sizes,) or (n_sizes, n_labels)
        Positive. Labels that do not exclude each other have one each.
    biases : ndarray of shape (n_sizes, n_classes)

    Examples
    --------
    >>> import numpy as np
    >>> slope, bias = Calibration(np.array([1, 4]), np.array([1.0, 4.0]), np.zeros((2, 2))).at(2)
    >>> round(slope, 2)
    1.85
    """

    sizes: np.ndarray
    slopes: np.ndarray
    biases: np.ndarray

    def at(self, size: int) -> tuple[Any, np.ndarray]:
        """Slope and biases for a model of so many steps."""
        place, x = np.log1p(size), np.log1p(self.sizes)
        columns = np.log(self.slopes).reshape(len(self.sizes), -1).T
        slopes = np.exp([np.interp(place, x, column) for column in columns])
        slope = slopes if self.slopes.ndim == 2 else float(slopes[0])
        return slope, np.array([np.interp(place, x, column) for column in self.biases.T])


def fit_calibration(
    values: np.ndarray, index: np.ndarray, weights: np.ndarray | None, biased: bool = False
) -> tuple[float, np.ndarray]:
    """Slope, and biases if asked for, under which the classes are most probable given decision values.

    Targets are softened as by Platt: a row of a class with N rows belongs to it with probability (N + 1) / (N + 2), so
    that classes which are perfectly told apart have finite slopes.

    Parameters
    ----------
    values : ndarray of shape (n, n_classes)
        As they were for models that did not know the row.
    index : ndarray of int, shape (n,)
        Class of each row.
    weights : ndarray of shape (n,), optional
    biased : bool
        Whether to fit biases; they sum to 0.

    Returns
    -------
    tuple of float and ndarray of shape (n_classes,)
    """
    n, n_classes = values.shape
    w = np.ones(n) if weights is None else weights
    sizes = np.bincount(index, weights=w, minlength=n_classes)
    own = (sizes[index] + 1) / (sizes[index] + 2)
    member = index[:, None] == np.arange(n_classes)
    target = np.where(member, own[:, None], (1 - own[:, None]) / (n_classes - 1))
    unit = float(np.sqrt(np.average(np.mean(values**2, axis=1), weights=w))) or 1.0
    scaled, total = values / unit, float(np.sum(w))
    if n_classes == 2 and not biased:
        return _slope(scaled[:, 1] - scaled[:, 0], target[:, 1], w) / unit, np.zeros(2)

    def surprise(theta: np.ndarray) -> tuple[float, np.ndarray]:
        logits = theta[0] * scaled + theta[1:]
        logits = logits - logits.max(axis=1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        excess = w[:, None] * (np.exp(logs) - target)
        pull = 1e-6 * theta[1:]  # of all biases that differ by a constant the smallest
        slope = np.concatenate([[np.sum(excess * scaled)], np.sum(excess, axis=0) if biased else 0 * pull])
        slope[1:] += total * pull
        return (
            (-float(np.sum(w[:, None] * target * logs)) + total * float(theta[1:] @ pull) / 2) / total,
            slope / total,
        )

    start = np.zeros(1 + n_classes)
    start[0] = 1.0
    bounds = [(_LEAST, None)] + [(None, None) if biased else (0, 0)] * n_classes
    theta = minimize(surprise, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(theta[0]) / unit, theta[1:] - np.mean(theta[1:])


def _slope(odds: np.ndarray, target: np.ndarray, weights: np.ndarray) -> float:
    """The slope s ≥ `_LEAST` of two classes, with Σ w (σ(s odds) − target) odds = 0: by Newton's steps.

    The sum rises with s. A step that leaves the interval in which it is known to change its sign is cut in half way.
    """
    low, high, slope = _LEAST, np.inf, 1.0
    for _ in range(_STEPS):
        p = expit(slope * odds)
        excess = float(np.sum(weights * (p - target) * odds))
        rise = float(np.sum(weights * p * (1 - p) * odds * odds))
        if excess == 0:  # values that are all 0 too
            break
        low, high = (slope, high) if excess < 0 else (low, slope)
        last, slope = slope, slope - excess / rise if rise > 0 else np.inf
        if not low <= slope <= high:
            slope = (low + high) / 2 if high < np.inf else 2 * low
        if abs(slope - last) <= _CLOSE * slope:
            break
    return slope
