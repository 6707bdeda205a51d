"""Weights of the rows, as factors of every vector over the samples."""

from __future__ import annotations

import numpy as np

from kernelpursuit._array import Array, from_host, to_host


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
            w = to_host(weights)
            self.unit = unit_of_weights(w)
            root = np.sqrt(w) / np.sqrt(self.unit)
            self._root = from_host(root[:, None], like)
            self._share = from_host(1 / np.maximum(w, 1), like)
            self.total = float(np.sum(root**2))

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


def unit_of_weights(weights: np.ndarray) -> float:
    """The power of four next to the mean of `weights`: dividing by it, or by its root, costs no digit.

    Examples
    --------
    >>> unit_of_weights(np.array([1.0, 2.0])), unit_of_weights(np.array([1e-3, 2e-3])) * 4**5
    (1.0, 1.0)
    """
    largest = float(np.max(weights))
    return 4.0 ** int(np.round(np.log2(largest) / 2 + np.log2(np.mean(weights / largest)) / 2))
