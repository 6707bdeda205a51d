"""A kernel matrix in two parts, which pursuits on parts of the same rows share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from kernelpursuit._array import Spare
from kernelpursuit.dictionaries.tiles import spans

Values = Callable[[Any, Any], np.ndarray]

SMOOTH = 64  # directions that hold most of the atoms of a wide kernel
# Shares of the largest diagonal entry: no less than the first need be left, and where more than the second is left they
# are not worth their cost. Of a rest in float64, and in float32.
_ENOUGH, _WORTH = {True: 1e-3, False: 1e-12}, {True: 0.05, False: 0.5}
_LONGEST = 1e4  # see `well_spread`
# Rows and parts up to which products of all rests are kept, in float64. They take n³ operations, but then a step reads
# no matrix, which of few rows would be a third of it or more.
FEW_ROWS, _FEW_PARTS = 1500, 10
_MULTIPLIED = 512  # columns whose products are one task: of larger blocks with themselves NumPy copies half, slowly
_COLUMNS = 256  # at once, where the parts are made
_AT_ONCE = 16  # rows that are gathered at once: they stay in a core's cache


def smooth_directions(values: Values, n: int, double: bool, most: int = SMOOTH) -> np.ndarray:
    """Columns of the partial Cholesky factor of a kernel matrix, (n, r); none if they hold too little of it."""
    left = np.concatenate([np.diagonal(values(some, some)) for some in spans(0, n, _COLUMNS)])
    whole, rows = float(left.max(initial=0.0)), np.empty((min(most, n), n))
    size = 0
    while size < len(rows):
        pivot = int(np.argmax(left))
        if not left[pivot] > _ENOUGH[double] * whole:
            break
        row = values(np.array([pivot]), slice(None))[0] - rows[:size, pivot] @ rows[:size]
        if not row[pivot] > 0:
            break
        rows[size] = row / np.sqrt(row[pivot])
        left -= rows[size] ** 2
        left[pivot] = 0.0
        size += 1
    return rows[: size if left.max(initial=0.0) <= _WORTH[double] * whole else 0].T


def well_spread(V: np.ndarray, outside: Sequence[np.ndarray]) -> list[int]:
    """Which of some orthonormal columns to take, so that they stay independent where the rows `outside` are left out.

    The factors U of Cholesky of their inner products on the other rows, and the inverses of these, grow side by side.
    No column of an inverse may have a squared length above `_LONGEST`: so every combination of the columns keeps a
    share of 1 / (`_LONGEST` r) of its squared length.
    """
    r, kept = V.shape[1], list[int]()
    grams, factors, inverses = (np.zeros((len(outside), r, r)) for _ in range(3))
    for gram, rows in zip(grams, outside, strict=True):
        gram[:] = np.eye(r) - V[rows].T @ V[rows]
    for column in range(r):
        before, k = factors[:, : len(kept)], len(kept)
        along = before[:, :, column]
        row = grams[:, column] - np.einsum("fk,fkr->fr", along, before)
        squared, turned = row[:, column], np.einsum("fij,fj->fi", inverses[:, :k, :k], along)
        if np.all(1 + np.sum(turned**2, axis=1) <= _LONGEST * squared):
            roots = np.sqrt(squared)[:, None]
            factors[:, k], inverses[:, :k, k], inverses[:, k, k] = row / roots, -turned / roots, 1 / roots[:, 0]
            kept.append(column)
    return kept


def spread_basis(columns: np.ndarray, outside: Sequence[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Orthonormal directions of some columns that are `well_spread`, and which columns these are.

    Others, such as those of a row far from all others, are left out of what the directions are made of.
    """
    taken = list(range(columns.shape[1]))
    while True:
        V = np.linalg.qr(columns[:, taken])[0]
        kept = well_spread(V, outside)
        if len(kept) == len(taken):
            return V, taken
        taken = [taken[place] for place in kept]


def in_one_piece(rows: np.ndarray) -> np.ndarray | slice:
    """Rows that follow each other as a slice, which takes no copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and np.all(np.diff(rows) == 1):
        return slice(rows[0], rows[-1] + 1)
    return rows


def multiply_block(A: np.ndarray, out: np.ndarray, some: slice) -> None:
    """Products of some columns of A with each other and with all before them, into both triangles."""
    np.matmul(A[:, some].T, A[:, some], out=out[some, some])
    np.matmul(A[:, some].T, A[:, : some.start], out=out[some, : some.start])
    for start in range(some.start, some.stop, _COLUMNS):  # block by block: in a core's cache
        rows = slice(start, min(start + _COLUMNS, some.stop))
        for other in range(0, some.start, _COLUMNS):
            columns = slice(other, min(other + _COLUMNS, some.start))
            out[columns, rows] = out[rows, columns].T


class SplitKernel:
    """Kernel values, split into a few smooth directions and a small rest, K = L Lᵀ + E.

    A step of a pursuit on some of the rows needs the products of all atoms with one vector. Of its part along the
    directions they are made of coordinates in float64. Of the rest one triangle of E is read, in float32, whose
    rounding errors are in proportion to E. So a pursuit can be followed to where a millionth of wide atoms is left. Of
    few rows the inner products of all columns of E are kept instead, in float64.

    Parameters
    ----------
    values : callable
        ``values(rows, columns)``: kernel values of some rows with some others, both slices or indices.
    targets : ndarray of shape (n, t)
    roots : ndarray of shape (n,) or None
        Square roots of the weights of the rows.
    parts : sequence of ndarray of int
        Rows of each pursuit, of positive weight, in the order in which equal atoms are preferred. One more, of all
        rows of positive weight, is added at the end.
    intercept : bool
    twins : ndarray of int, shape (n,)
        A number for each atom, the same for atoms that are equal.
    each : callable
        ``each(function, items)``, what the function makes of each of them: `map`, or the same in threads.
    spare : Spare, optional
        Where large arrays come from, and go when nobody needs them any more.
    """

    def __init__(
        self,
        values: Values,
        targets: np.ndarray,
        roots: np.ndarray | None,
        parts: Sequence[np.ndarray],
        intercept: bool,
        twins: np.ndarray,
        each: Callable[..., Iterable[Any]] = map,
        spare: Spare | None = None,
    ):
        n, everything = len(targets), np.arange(len(targets))
        self.values, self.twins, self.intercept = values, twins, intercept
        self.roots = np.ones(n) if roots is None else roots
        self.targets = targets * self.roots[:, None]
        self.spare = Spare() if spare is None else spare
        self.parts = [*parts, np.flatnonzero(self.roots > 0)]
        outside = [np.delete(everything, rows) for rows in parts]
        kept = n <= FEW_ROWS and len(parts) <= _FEW_PARTS
        L = smooth_directions(values, n, double=kept)
        weighted = L * self.roots[:, None]
        columns = np.column_stack([self.roots, weighted]) if intercept else weighted
        self.V, taken = spread_basis(columns, outside)
        taken = [column - intercept for column in taken if column >= intercept]
        L = np.ascontiguousarray(L[:, taken])
        self.C = (self.V.T @ weighted[:, taken]) @ L.T  # along V, of the smooth parts of the atoms
        left_out = np.concatenate([*outside, everything[:0]])
        self._disjoint = len(parts) > 1 and np.array_equal(np.sort(left_out), everything)
        self.order = left_out if self._disjoint else everything
        self._groups = outside if self._disjoint else [everything, *outside]
        self._starts = np.cumsum([0, *map(len, self._groups)])
        self._vectors = np.column_stack([self.V, self.targets])
        self._sums = np.empty((len(self._groups), 1 + self._vectors.shape[1], n))
        self.products: np.ndarray | None = None
        if kept:
            self._keep_products(L, each)
        else:
            self._make_rest(L, each)
        self._whole = self._sums.sum(axis=0) if self._disjoint else self._sums[0]
        self._left_out = self._sums if self._disjoint else self._sums[1:]

    def _keep_products(self, L: np.ndarray, each: Callable[..., Iterable[Any]]) -> None:
        """Inner products of the rests of all atoms over the rows of each group, (groups, n, n)."""
        n, G = len(self.targets), len(self._groups)
        self._rests = [self.spare.take((len(rows), n), np.float64) for rows in self._groups]
        self.products = products = self.spare.take((G, n, n), np.float64)
        weakref.finalize(self, self.spare.give_back, products).atexit = False
        list(each(partial(self._split, L), [(0, some) for some in spans(0, n, _COLUMNS)]))
        blocks = spans(0, n, _MULTIPLIED)[::-1]  # the longest first
        tasks = [(*pair, some) for some in blocks for pair in zip(self._rests, products, strict=True)]
        list(each(lambda task: multiply_block(*task), tasks))
        self.spare.give_back(*self._rests)
        del self._rests
        # Rows of a pursuit are those of all other groups, or all rows without those of its own.
        own, one = np.eye(G), np.ones((1, G))
        self._signs = np.vstack([one - own, one] if self._disjoint else [own[:1] - own[1:], own[:1]])

    def product_row(self, part: int, atom: int) -> np.ndarray:
        """Inner products of the rest of one atom with those of all, over the rows of one pursuit."""
        assert self.products is not None
        return self._signs[part] @ self.products[:, atom]

    def _make_rest(self, L: np.ndarray, each: Callable[..., Iterable[Any]]) -> None:
        """The rest in the order of the rows, and sums over each group of them.

        Where each pursuit leaves out a group of its own, its rows follow each other in a circle of the groups, and all
        pursuits read the same array: the triangle E[i, j], i >= j, goes on with i - n in place of i, and j, where that
        is needed. Entry i, j is at i n + j: in this band no two entries are at the same place.
        """
        n, G = len(self.targets), len(self._groups)
        rows = n + (self._starts[G - 2] if self._disjoint else 0)
        self._band = self.spare.take((rows * (n + 1),), np.float32)
        weakref.finalize(self, self.spare.give_back, self._band).atexit = False
        groups = pairwise(self._starts if self._disjoint else [0, n])
        blocks = [(group, some) for group, ends in enumerate(groups) for some in spans(*ends, _COLUMNS)]
        list(each(partial(self._split, L), blocks))

    def _view(self, row: int, column: int, shape: tuple[int, int]) -> np.ndarray:
        """Entries of the rest in the band."""
        n = len(self.targets)
        return np.lib.stride_tricks.as_strided(self._band[row * n + column :], shape, (4 * n, 4))

    def _split(self, L: np.ndarray, block: tuple[int, slice]) -> None:
        """Make the rests of some atoms of one group, and sums over each group of rows.

        These are squared norms of the rests, and their products with V and the targets.
        """
        of, some = block
        chosen = in_one_piece(self.order[some])
        for group, (rows, out) in enumerate(zip(self._groups, self._sums, strict=True)):
            piece = in_one_piece(rows)
            rest = L[piece] @ L[chosen].T
            np.subtract(self.values(piece, chosen), rest, out=rest)
            for down, right in self._turns(group, of) if self.products is None else ():
                self._view(self._starts[group] + down, some.start + right, rest.shape)[:] = rest
            if not np.all(self.roots[piece] == 1):
                rest *= self.roots[piece, None]
            if self.products is not None:
                self._rests[group][:, some] = rest
            out[0, some] = np.einsum("ij,ij->j", rest, rest)
            np.matmul(self._vectors[piece].T, rest, out=out[1:, some])

    def _turns(self, rows: int, columns: int) -> list[tuple[int, int]]:
        """Where the band has entries of two groups: what is added to their rows and columns, a turn of the circle."""
        n = len(self.targets)
        if not self._disjoint:
            return [(0, 0)] if rows == 0 else []  # the first group is of all rows
        if rows >= columns:
            return [(0, 0), (n, n)] if rows < len(self._groups) - 2 else [(0, 0)]
        return [(n, 0)] if columns > rows + 1 else []

    def places(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows of a pursuit are in the order of the rest, and the place of each of them in its part."""
        rows, n = self.parts[part], len(self.targets)
        place = np.full(n, -1)
        place[rows] = np.arange(len(rows))
        if self._disjoint and len(rows) < n:
            where = (self._starts[part + 1] + np.arange(len(rows))) % n
        else:
            where = np.flatnonzero(place[self.order] >= 0)
        return where, place[self.order[where]]

    def over(self, part: int, where: np.ndarray) -> tuple[np.ndarray, ...]:
        """Sums over the rows of one pursuit for its own atoms, see `_split`."""
        sums = self._whole if part == len(self.parts) - 1 else self._whole - self._left_out[part]
        sums, r = np.take(sums, where, axis=1), self.V.shape[1]
        return np.maximum(sums[0], 0.0), sums[1 : 1 + r], sums[1 + r :]

    def rest_of(self, where: np.ndarray) -> np.ndarray:
        """The rest among the rows of a pursuit: the lower triangle."""
        n, size = len(self.targets), len(where)
        if size == n or self._disjoint:
            return self._view(where[0], where[0], (size, size))
        whole, out = self._view(0, 0, (n, n)), self.spare.take((size, size), np.float32)
        for some in spans(0, size, _AT_ONCE):
            np.take(whole[where[some]], where[: some.stop], axis=1, out=out[some, : some.stop], mode="clip")
        return out
