"""Probabilities from decision values: log-odds are a slope times the values, plus a bias for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, from_host, namespace

_LEAST = 1e-6  # slope of values without information, or with the wrong sign: the order of the classes stays
_STEPS = 100  # far more than are needed: a handful of Newton's, or bisections


@dataclass(frozen=True, eq=False)
class Calibration:
    """Log-odds of the classes for models of several sizes: ``slope * value + bias``, no larger than a limit.

    Between the sizes at which they were fitted, slopes and biases are interpolated on the scale of logarithms.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Increasing numbers of steps.
    slopes : ndarray of shape (n_sizes,) or (n_sizes, n_labels)
        Positive. Labels that do not exclude each other have one each.
    biases : ndarray of shape (n_sizes, n_classes)
    limits : ndarray of the shape of `slopes`, optional
        The largest log-odds that a training row has, of a class against another or of a label. See `no_surer`.

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
    limits: np.ndarray | None = None  # models that are older than these have none

    def at(self, size: int) -> tuple[Any, np.ndarray]:
        """Slope and biases for a model of so many steps."""
        slopes = np.exp(self._between(np.log(self.slopes), size))
        return (slopes if self.slopes.ndim == 2 else float(slopes)), self._between(self.biases, size)

    def limit(self, size: int) -> Any:
        """The largest log-odds of a model of so many steps; an array where each label has its own."""
        return np.inf if self.limits is None else self._between(self.limits, size)

    def _between(self, values: np.ndarray, size: int) -> Any:
        """Values of the sizes that were fitted, interpolated on the scale of logarithms of sizes."""
        columns = values.reshape(len(self.sizes), -1).T
        found = np.array([np.interp(np.log1p(size), np.log1p(self.sizes), column) for column in columns])
        return found if values.ndim == 2 else float(found[0])


def no_surer(odds: Array, limit: Any) -> Array:
    """Log-odds, (n, n_values), of which rows beyond `limit` are shrunk until their largest entry is the limit.

    Many atoms on few rows may have enormous values between the rows, whose signs mean little. Slopes were fitted to
    values no larger than those of the training rows, so no row is surer than the surest of these. The order of the
    classes stays.

    Parameters
    ----------
    odds : array of shape (n, n_values)
        Of each class, of which differences count, or of the second of two; with several limits, of each label.
    limit : float or ndarray of shape (n_values,)

    Examples
    --------
    >>> import numpy as np
    >>> no_surer(np.array([[3.0], [-50.0]]), 5.0)[:, 0], no_surer(np.array([[1.0, 0.0], [90.0, -10.0]]), 5.0)[1]
    (array([ 3., -5.]), array([ 4.5, -0.5]))
    """
    xp, one_each = namespace(odds), np.ndim(limit) > 0
    if not one_each and not np.isfinite(limit):
        return odds
    limit = from_host(limit, odds) if one_each else limit
    if one_each or odds.shape[1] == 1:
        size = xp.abs(odds)
    else:
        size = xp.max(odds, axis=1, keepdims=True) - xp.min(odds, axis=1, keepdims=True)
    beyond = size > limit
    one = xp.ones_like(size)
    return odds * xp.where(beyond, limit / xp.where(beyond, size, one), one)


def within_range(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Decision values of rows left out, clipped to the range of the values `seen`, of the model of all rows.

    Without a row of leverage h the error at it is 1 / (1 - h) times as large. Where a row has atoms almost to itself,
    that is beyond all bounds: without the row these atoms would not have been chosen. Such a value says nothing about
    new rows, and a single one on the wrong side would bring the slope to 0. So it counts as wrong and surely so, but
    no surer than any row that was seen.

    Parameters
    ----------
    values, seen : ndarray of shape (n, n_values)

    Examples
    --------
    >>> import numpy as np
    >>> within_range(np.array([[0.5], [-1e9], [-0.8]]), np.array([[0.6], [1.0], [-0.9]]))[:, 0]
    array([ 0.5, -0.9, -0.8])
    """
    return np.clip(values, np.min(seen, axis=0), np.max(seen, axis=0))


def fit_slope(
    values: np.ndarray, index: np.ndarray, weights: np.ndarray | None, counts: np.ndarray | None = None
) -> float:
    """Slope under which the classes are most probable given decision values.

    Targets are softened as by Platt: a row of a class with N rows belongs to it with probability (N + 1) / (N + 2), and
    else to the class that comes next, so that classes which are perfectly separated have a finite slope. Of more than
    two classes one may lie far from all others. It does not change how sure these are of each other: no row counts as
    farther from the next class than the rows of the class with the smallest margins are in the mean. The negative log
    likelihood is a convex function of the slope: Newton's steps find its minimum, and bisection takes over where they
    would leave the interval that encloses it.

    Parameters
    ----------
    values : ndarray of shape (n, n_classes)
        Decision values of models that did not know the row.
    index : ndarray of int, shape (n,)
        Class of each row.
    weights : ndarray of shape (n,), optional
    counts : ndarray of shape (n,), optional
        How many rows each stands for; `weights` unless given.
    """
    n, n_classes = values.shape
    w = np.ones(n) if weights is None else weights
    sizes = np.bincount(index, weights=w if counts is None else counts, minlength=n_classes)
    own = (sizes[index] + 1) / (sizes[index] + 2)
    unit = float(np.sqrt(np.average(np.mean(values**2, axis=1), weights=w))) or 1.0
    scaled = np.ascontiguousarray(values.T) / unit  # one row for each class: a sum over them is fast
    at_own = scaled[index, np.arange(n)]
    rivals = scaled.copy()
    rivals[index, np.arange(n)] = -np.inf
    margins = at_own - np.max(rivals, axis=0)
    if n_classes > 2:
        means = np.bincount(index, weights=w * margins)[index] / np.bincount(index, weights=w)[index]
        margins = np.minimum(margins, max(0.0, np.min(means)))
    wanted = w @ (at_own - (1 - own) * margins)
    slope, low, high = 1.0, 0.0, np.inf
    for _ in range(_STEPS):
        odds = slope * scaled
        odds -= np.max(odds, axis=0)
        np.exp(odds, out=odds)
        odds /= np.sum(odds, axis=0)
        odds *= scaled
        mean = np.sum(odds, axis=0)
        first = w @ mean - wanted  # derivatives of the negative log likelihood
        odds *= scaled
        second = w @ (np.sum(odds, axis=0) - mean**2)
        if first == 0 or (first > 0 and slope == _LEAST):  # the first also where all values are equal
            break
        low, high = (low, slope) if first > 0 else (slope, high)
        step = max(slope - first / second, _LEAST) if second > 0 else 0.0
        if not low < step < high:
            step = (low + high) / 2 if high < np.inf else 10 * slope
        if abs(step - slope) <= 1e-9 * slope:
            break
        slope = step
    return slope / unit
