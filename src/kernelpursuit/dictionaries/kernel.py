"""A dictionary of kernel functions centred on points, computed in tiles or kept as a matrix when it fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit._array import to_host
from kernelpursuit.dictionaries.dense import as_slice
from kernelpursuit.kernels import Kernel

STORAGES = ("auto", "dense", "tiles")
MIB = 2**20
LARGEST_TILE = 32 * MIB


class KernelDictionary:
    """Atoms ``k(x, z_j)``, one per centre z_j, evaluated at the rows of X.

    Parameters
    ----------
    X : {array, CSR array} of shape (n_samples, n_features)
        Points at which the atoms are evaluated.
    Z : {array, CSR array} of shape (n_atoms, n_features)
        Centres.
    kernel : Kernel
    memory : int
        Bytes that the matrix, or one tile of it, may take.
    storage : {"auto", "dense", "tiles"}
        Keep the whole matrix, recompute tiles at each pass, or (auto) keep it if it fits `memory`.
    """

    def __init__(self, X: Any, Z: Any, kernel: Kernel, *, memory: int = 1024 * MIB, storage: str = "auto"):
        self.kernel = kernel
        self.dtype = X.dtype
        self.shape = (X.shape[0], Z.shape[0])
        n, m = self.shape
        column = n * self.dtype.itemsize
        if column > memory:
            raise ValueError(f"memory={memory} bytes is too small for one kernel column of {n} rows: needs {column}")
        # A tile, its deflated copy and temporaries must fit together; larger ones than this are not faster.
        self.tile = int(min(m, max(1, min(memory // 4, LARGEST_TILE) // column)))
        self._X = kernel.prepare(X)
        self._Z = self._X if Z is X else kernel.prepare(Z)
        self._symmetric = Z is X and kernel.symmetric
        self._matrix = None
        if storage == "dense" or (storage == "auto" and m * column <= memory):
            self._matrix = self._build()

    @property
    def in_memory(self) -> bool:
        """Whether the matrix is kept."""
        return self._matrix is not None

    def _build(self) -> np.ndarray:
        """The whole matrix, by blocks of rows, which lie together in memory."""
        n, m = self.shape
        rows = max(1, LARGEST_TILE // (m * self.dtype.itemsize))
        if rows >= n:
            return np.ascontiguousarray(self._evaluate(slice(None)))
        matrix = np.empty(self.shape, dtype=self.dtype)
        for start in range(0, n, rows):
            matrix[start : start + rows] = self._finite(self._X[start : start + rows], slice(None))
        return matrix

    def _evaluate(self, J: Any) -> np.ndarray:
        return self._finite(self._X, J)

    def _finite(self, points: Any, J: Any) -> np.ndarray:
        """Kernel values of points with centres `J`."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(self.kernel(points, self._Z[J]), dtype=self.dtype)
        if not np.all(np.isfinite(values)):
            raise ValueError("kernel gives infinite or undefined values on X: scale X, or change kernel or gamma")
        return values

    def columns(self, J: np.ndarray) -> np.ndarray:
        """Columns `J`, (n_samples, len(J))."""
        if self._matrix is None:
            return self._evaluate(J)
        tile = as_slice(J)
        if self._symmetric:  # rows lie together in memory, columns do not: gathering them takes 30 times as long
            return self._matrix[J if tile is None else tile].T
        return self._matrix[:, J if tile is None else tile]

    def correlate(self, V: np.ndarray) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1]): one pass over the matrix, or one computation of all its tiles."""
        if self._matrix is not None:
            return to_host((V.T @ self._matrix).T)  # for several vectors twice as fast as matrix.T @ V
        out = np.empty((self.shape[1], V.shape[1]))
        for start in range(0, self.shape[1], self.tile):
            J = slice(start, start + self.tile)
            out[J] = (V.T @ self._evaluate(J)).T
        return out

    def gram(self, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Kernel values of centres `I` (None: all) with centres `J`: inner products in the kernel's feature space."""
        return to_host(self._finite(self._Z if I is None else self._Z[I], J))

    def gram_diagonal(self, J: np.ndarray | None) -> np.ndarray:
        """k(z, z) of centres `J` (None: all)."""
        indices = np.arange(self.shape[1]) if J is None else np.asarray(J)
        blocks = [indices[i : i + 256] for i in range(0, len(indices), 256)]  # diagonals of small squares: no n x n
        return np.concatenate([np.diagonal(self.gram(block, block)) for block in blocks])
