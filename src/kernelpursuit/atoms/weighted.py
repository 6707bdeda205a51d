"""A kernel matrix whose rows have weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, from_host


class WeightedDictionary:
    """A kernel matrix K of points with weights, as the matrix SKS with S the roots of the weights.

    A pursuit then works as if each row were repeated as many times as its weight says, in feature space and in every
    sum over rows. Coordinates of the rows are multiplied by the roots.

    Parameters
    ----------
    dictionary : Dictionary
        Square: rows and centres are the same points.
    weights : ndarray of shape (n_samples,)
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit.atoms import DenseDictionary
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> D = WeightedDictionary(DenseDictionary(K, gram=K), np.array([4.0, 1.0]))
    >>> D.columns(np.array([0, 1])), D.gram_diagonal(None)
    (array([[4., 1.],
           [1., 1.]]), array([4., 1.]))
    """

    def __init__(self, dictionary: Any, weights: np.ndarray):
        self.inner = dictionary
        self.shape, self.tile = dictionary.shape, dictionary.tile
        self.roots = np.sqrt(weights)
        self._rows = self._roots_of_rows()

    def _roots_of_rows(self) -> Array:
        """Roots of the weights of the rows, (n_rows, 1)."""
        return from_host(self.roots[:, None], self.inner.columns(np.zeros(1, dtype=np.intp)))

    @property
    def in_memory(self) -> bool:
        """Whether the matrix is kept."""
        return self.inner.in_memory

    def columns(self, J: np.ndarray) -> Array:
        """Columns `J`, (n_samples, len(J))."""
        return self._rows * self.inner.columns(J) * from_host(self.roots[J][None, :], self._rows)

    def correlate(self, V: Array) -> np.ndarray:
        """Products of all columns with the columns of V."""
        return self.roots[:, None] * self.inner.correlate(self._rows * V)

    def gram(self, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Kernel values of the centres, times the roots of their weights."""
        rows = slice(None) if I is None else I
        return self.roots[rows][:, None] * self.inner.gram(I, J) * self.roots[J]

    def gram_diagonal(self, J: np.ndarray | None) -> np.ndarray:
        """Diagonal of `gram` at atoms `J` (None: all)."""
        return self.roots[slice(None) if J is None else J] ** 2 * self.inner.gram_diagonal(J)
