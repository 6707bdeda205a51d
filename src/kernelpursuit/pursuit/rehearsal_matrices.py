"""Small matrices over a pool of atoms, for criteria that try out their choices before they pay for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from kernelpursuit.arrays import padded

Columns = TypeVar("Columns")


def pairs(
    J: np.ndarray, width: int, rows: int, load: Callable[[np.ndarray], Columns]
) -> Iterator[tuple[slice, slice, Columns, Columns]]:
    """All pairs of pieces of a pool, each with the columns of both pieces. Inner products within the pool need these.

    Two pieces may always take the room of the inner products. So all pairs together load no more columns than a pass
    over `rows` atoms does, however small `width` is.

    Parameters
    ----------
    J : ndarray of int
        The pool.
    width : int
        Atoms in a piece, at least.
    rows : int
        Rows of a column.
    load : callable
        ``load(atoms)``, the columns of some atoms. It is called again for each pair, so that only two pieces are in
        memory at a time, if the caller gives those of a pair up (``del``) before it asks for the next.

    Examples
    --------
    >>> [(one.tolist(), two.tolist()) for *_, one, two in pairs(np.arange(3), 2, 100, lambda J: J)]
    [([0, 1], [0, 1]), ([0, 1], [2]), ([2], [2])]
    """
    width = max(1, width, len(J) ** 2 // (2 * max(1, rows)))
    parts = [slice(start, min(start + width, len(J))) for start in range(0, len(J), width)]
    for place, part in enumerate(parts):
        columns = load(J[part])
        yield part, part, columns, columns
        for other in parts[place + 1 :]:
            yield part, other, columns, load(J[other])


class Downdated:
    """A matrix A − Σ x yᵀ whose sum is never carried out, because only some of its rows and columns are looked at.

    `PartialCholesky` would not do here. A rehearsal chooses its pivots one at a time, and what it takes off need not be
    symmetric.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)

    Examples
    --------
    >>> A = Downdated(np.eye(2))
    >>> A.subtract(np.array([1.0, 2.0]), np.array([0.0, 3.0]))
    >>> A.column(1), A.row(1)
    (array([-3., -5.]), array([ 0., -5.]))
    """

    def __init__(self, matrix: np.ndarray):
        self._matrix, self._count = matrix, 0
        self._left, self._right = np.empty((0, len(matrix))), np.empty((0, len(matrix)))

    def column(self, i: int) -> np.ndarray:
        """Column `i`."""
        if not self._count:
            return self._matrix[:, i]
        return self._matrix[:, i] - self._right[: self._count, i] @ self._left[: self._count]

    def row(self, i: int) -> np.ndarray:
        """Row `i`."""
        if not self._count:
            return self._matrix[i]
        return self._matrix[i] - self._left[: self._count, i] @ self._right[: self._count]

    def subtract(self, x: np.ndarray, y: np.ndarray) -> None:
        """Take x yᵀ off."""
        if self._count == len(self._left):
            size = 2 * self._count + 8
            self._left, self._right = padded(self._left, size), padded(self._right, size)
        self._left[self._count], self._right[self._count] = x, y
        self._count += 1

    def deflate(self, a: np.ndarray, g: np.ndarray, energy: float) -> None:
        """Take a gᵀ + g aᵀ − energy a aᵀ off.

        That is what KᵀBK loses when K loses u aᵀ, with g = KᵀBu and energy = uᵀBu.
        """
        half = g - 0.5 * energy * a
        self.subtract(half, a)
        self.subtract(a, half)


class KeptProducts:
    """Products of all atoms with the directions taken, for as many directions as fit into memory.

    Parameters
    ----------
    first : int
        Number of directions before the first that is kept.
    n_atoms : int
    dtype : dtype
    memory : int
        Bytes.
    expected : int
        Directions that there may be: room for them is made at once, as memory that is not used costs nothing.
    """

    def __init__(self, first: int, n_atoms: int, dtype: Any, memory: int, expected: int = 0):
        self.first = first  # directions before it
        self._count = 0
        self._most = memory // (np.dtype(dtype).itemsize * n_atoms)
        self._rows = np.empty((min(expected, self._most), n_atoms), dtype=dtype)

    def append(self, products: np.ndarray) -> None:
        """Keep the products with the next direction if there is room."""
        if self._count == self._most:
            return
        if self._count == len(self._rows):
            grown = np.empty((min(self._most, 2 * self._count + 16), self._rows.shape[1]), dtype=self._rows.dtype)
            grown[: self._count] = self._rows
            self._rows = grown
        self._rows[self._count] = products
        self._count += 1

    def at(self, J: np.ndarray) -> np.ndarray:
        """Products of atoms `J` with the directions kept, (count, len(J))."""
        return self._rows[: self._count, J]

    def all(self) -> np.ndarray:
        """Products of all atoms with the directions kept, (count, n_atoms)."""
        return self._rows[: self._count]

    def missing(self, size: int) -> list[slice]:
        """Ranges of the first `size` directions that are not kept."""
        ranges = slice(0, self.first), slice(self.first + self._count, size)
        return [rows for rows in ranges if rows.stop > rows.start]
