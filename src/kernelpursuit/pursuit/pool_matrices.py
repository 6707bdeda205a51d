"""Small matrices over a pool of atoms, by which a criterion tries choices out before it pays for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from kernelpursuit.arrays import padded

Columns = TypeVar("Columns")


def pairs_of_pieces(
    J: np.ndarray, width: int, rows: int, load: Callable[[np.ndarray], Columns]
) -> Iterator[tuple[slice, slice, Columns, Columns]]:
    """All pairs of pieces of a pool of atoms, with the columns of both, for the inner products within the pool.

    The columns of two pieces take as much memory as the p x p inner products of the pool at least, however small
    `width` is. So all pairs together load no more columns than a pass over `rows` atoms.

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
    >>> [(one.tolist(), two.tolist()) for *_, one, two in pairs_of_pieces(np.arange(3), 2, 100, lambda J: J)]
    [([0, 1], [0, 1]), ([0, 1], [2]), ([2], [2])]
    """
    width = max(1, width, len(J) ** 2 // (2 * max(1, rows)))
    parts = [slice(start, min(start + width, len(J))) for start in range(0, len(J), width)]
    for index, part in enumerate(parts):
        columns = load(J[part])
        yield part, part, columns, columns
        for other in parts[index + 1 :]:
            yield part, other, columns, load(J[other])


class LowRankDifference:
    """A matrix A − Σ x yᵀ whose sum is never carried out, because only some of its rows and columns are looked at.

    `PartialCholesky` would not do here: a simulation chooses its pivots one at a time, and takes off what need not be
    symmetric.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)

    Examples
    --------
    >>> A = LowRankDifference(np.eye(2))
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

    def subtract_form(self, a: np.ndarray, g: np.ndarray, energy: float) -> None:
        """Take a gᵀ + g aᵀ − energy a aᵀ off.

        That is what KᵀBK loses when K loses u aᵀ, with g = KᵀBu and energy = uᵀBu.
        """
        half = g - 0.5 * energy * a
        self.subtract(half, a)
        self.subtract(a, half)


class PoolSimulation:
    """A criterion that knows a pool of atoms only, to try out which of them it would take one after the other.

    K holds the inner products of what is left of the atoms, and s is its diagonal. With l = Keᵢ / √sᵢ, taking atom i
    changes K by −l lᵀ and products a with a target by −l aᵢ / √sᵢ. A second form H = D̃ᵀBD̃ of the atoms, of diagonal h,
    changes by −l gᵀ − g lᵀ + (hᵢ / sᵢ) l lᵀ, where g = Heᵢ / √sᵢ.

    Parameters
    ----------
    inner : ndarray of shape (p, p)
        K.
    squared : ndarray of shape (p,)
        s, more exact than the diagonal of `inner`.
    floor : ndarray of shape (p,), optional
        The s at which an atom lies in the span.
    score : callable, optional
        ``score(simulation, possible)``, the scores of the pool given a mask of the atoms outside the span.
    products : ndarray of shape (p, t), optional
        a.
    form : ndarray of shape (p, p), optional
        H.
    energy : ndarray of shape (p,), optional
        h, more exact than the diagonal of `form`.
    share : float
        Share of the full step that the products take.
    joins : bool
        Whether atoms taken join the span. If not, K and s stay.
    """

    def __init__(
        self,
        inner: np.ndarray,
        squared: np.ndarray,
        floor: Any = 0.0,
        score: Callable[[PoolSimulation, np.ndarray], np.ndarray] | None = None,
        *,
        products: np.ndarray | None = None,
        form: np.ndarray | None = None,
        energy: np.ndarray | None = None,
        share: float = 1.0,
        joins: bool = True,
    ):
        self._inner, self.squared, self._floor, self._score = LowRankDifference(inner), squared.copy(), floor, score
        self.products = None if products is None else products.copy()
        self._form = None if form is None else LowRankDifference(form)
        self.energy = None if energy is None else energy.copy()
        self._share, self._joins = share, joins

    def scores(self) -> np.ndarray:
        """Score of each atom of the pool, ``-inf`` for those in the span."""
        assert self._score is not None
        return self._score(self, self.squared > self._floor)

    def take(self, i: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Take atom `i` of the pool; returns l, g and hᵢ / sᵢ, which are l, l and 1 without a second form."""
        root = np.sqrt(self.squared[i])
        l = self._inner.column(i) / root  # noqa: E741
        g, share = l, 1.0
        if self.products is not None:
            self.products -= self._share * l[:, None] * (self.products[i] / root)
        if self._form is not None and self.energy is not None:
            g, share = self._form.column(i) / root, float(self.energy[i] / self.squared[i])
            self._form.subtract_form(l, g, share)
            self.energy = np.maximum(self.energy - 2 * l * g + share * l**2, 0)
        if self._joins:
            self._inner.subtract(l, l)
            self.squared = self.squared - l**2
            self.squared[i] = 0.0
        return l, g, share


class KeptProducts:
    """Products of all atoms with the directions taken, for as many directions as fit into memory.

    Parameters
    ----------
    size : int
        Directions so far.
    products : ndarray of shape (any, n_atoms)
        Products with all of these, or none.
    dtype : dtype
    memory : int
        Bytes.
    expected : int
        Directions that there may be: room for them is made at once, as memory that is not used costs nothing.
    """

    def __init__(self, size: int, products: np.ndarray, dtype: Any, memory: int, expected: int = 0):
        self._first = size - len(products)  # directions before those kept
        self._count = 0
        self._most = memory // (np.dtype(dtype).itemsize * products.shape[1])
        self._rows = np.empty((min(expected, self._most), products.shape[1]), dtype=dtype)
        for row in products:
            self.append(row)

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

    def completed(self, J: np.ndarray, size: int, compute: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Products of atoms `J` with the first `size` directions, (size, len(J)).

        Those with a range of directions that are not kept are ``compute(range)``.
        """
        kept, end = self._rows[: self._count, J], self._first + self._count
        before = [compute(slice(self._first))] if self._first else []
        after = [compute(slice(end, size))] if end < size else []
        return np.concatenate([*before, kept, *after])
