"""Weights of the rows, as factors of every vector over the samples."""

from __future__ import annotations

import numpy as np

from kernelpursuit.arrays import Array, in_double, namespace, to_host

MOST_COUNTED = 1e100  # rows, by their weights


class RowWeights:
    """Multiplication of rows by the roots of their weights, so that no other code has to know of weights.

    Weights are counted in a `unit` near their mean. So their scale changes no choice and no tolerance.

    Parameters
    ----------
    weights : array of shape (n_samples,), optional
        Positive. None: all are 1.
    like : array of shape (n_samples, ...)
        Sets namespace, device and dtype.
    counts : array of shape (n_samples,), optional
        How many rows each stands for: `weights`, unless these say also how much an error matters. See `as_counts`.
    """

    def __init__(self, weights: Array | None, like: Array, counts: Array | None = None):
        self._root = self._share = None
        self.total, self.unit = float(like.shape[0]), 1.0
        if weights is not None:
            w, xp = in_double(weights), namespace(weights)
            self.unit = unit_of_weights(w)
            root = xp.sqrt(w) / float(np.sqrt(self.unit))
            repeats = as_counts(w if counts is None else in_double(counts), w.shape[0])
            self._root, self._share = root[:, None], 1 / xp.where(repeats > 1, repeats, xp.ones_like(w))
            self.total = float(to_host(xp.sum(root**2)))

    def scale_rows(self, columns: Array) -> Array:
        """Rows times the root of their weights."""
        return columns if self._root is None else columns * self._root

    def unscale_rows(self, columns: Array) -> Array:
        """Rows divided by the root of their weights."""
        return columns if self._root is None else columns / self._root

    def leverage(self, sample: Array) -> Array:
        """Change of the leverage of each row, the share of its own target in its fitted value, by a unit direction.

        A row that stands for c rows is that often there. Leave-one-out removes one of them, or the whole row if c < 1.
        """
        return sample * sample if self._share is None else sample * sample * self._share


def unit_of_weights(weights: Array) -> float:
    """The power of four next to the mean of `weights`. To divide by it, or by its root, costs no digit.

    Examples
    --------
    >>> unit_of_weights(np.array([1.0, 2.0])), unit_of_weights(np.array([1e-3, 2e-3])) * 4**5
    (1.0, 1.0)
    """
    xp = namespace(weights)
    largest = float(to_host(xp.max(weights)))
    mean = float(to_host(xp.sum(weights / largest))) / weights.shape[0]
    return 4.0 ** int(np.round(np.log2(largest) / 2 + np.log2(mean) / 2))


def as_counts(weights: Array, n: int) -> Array:
    """Weights as counts, of sum `n` at least: weights that were scaled down still stand for whole rows.

    And of sum `MOST_COUNTED` at most: squares of larger numbers would overflow.
    """
    xp = namespace(weights)
    total = float(to_host(xp.sum(weights)))
    if n <= total <= MOST_COUNTED:
        return weights
    weights = weights / float(to_host(xp.max(weights)))  # first, so that nothing underflows
    return weights * (min(max(total, n), MOST_COUNTED) / float(to_host(xp.sum(weights))))
