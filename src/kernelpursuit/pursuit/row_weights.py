"""Weights of the rows, as factors of every vector over the samples."""

from __future__ import annotations

import numpy as np

from kernelpursuit._array import Array, in_double, namespace, to_host


class RowWeights:
    """Rows are multiplied by the root of their weights, so that nobody else has to know them.

    Weights are counted in a `unit` near their mean: their scale then changes no choice and no tolerance.

    Parameters
    ----------
    weights : array of shape (n_samples,), optional
        Positive. None: all are 1.
    like : array of shape (n_samples, ...)
        Sets namespace, device and dtype.
    """

    def __init__(self, weights: Array | None, like: Array):
        self._root = self._share = None
        self.total, self.unit = float(like.shape[0]), 1.0
        if weights is not None:
            w, xp = in_double(weights), namespace(weights)
            self.unit = unit_of_weights(w)
            root = xp.sqrt(w) / float(np.sqrt(self.unit))
            self._root, self._share = root[:, None], 1 / xp.where(w > 1, w, xp.ones_like(w))
            self.total = float(to_host(xp.sum(root**2)))

    def weigh(self, columns: Array) -> Array:
        """Rows times the root of their weights."""
        return columns if self._root is None else columns * self._root

    def unweigh(self, columns: Array) -> Array:
        """Inverse of `weigh`."""
        return columns if self._root is None else columns / self._root

    def leverage(self, sample: Array) -> Array:
        """Share of each row's own target in its fitted value that a unit direction adds, per unit of weight.

        A row of weight w counts as w rows, of which leave-one-out removes one (all of it if w < 1).
        """
        return sample * sample if self._share is None else sample * sample * self._share


def unit_of_weights(weights: Array) -> float:
    """The power of four next to the mean of `weights`: dividing by it, or by its root, costs no digit.

    Examples
    --------
    >>> unit_of_weights(np.array([1.0, 2.0])), unit_of_weights(np.array([1e-3, 2e-3])) * 4**5
    (1.0, 1.0)
    """
    xp = namespace(weights)
    largest = float(to_host(xp.max(weights)))
    mean = float(to_host(xp.sum(weights / largest))) / weights.shape[0]
    return 4.0 ** int(np.round(np.log2(largest) / 2 + np.log2(mean) / 2))
