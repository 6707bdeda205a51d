"""A kernel matrix in two parts, which pursuits on parts of the same rows share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np

from kernelpursuit.arrays import Spare
from kernelpursuit.atoms.tiles import spans

Values = Callable[[Any, Any], np.ndarray]
Block = tuple[int, int, slice]  # rows of a group with atoms of a group: which of these, by their places in the order

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
        self.values, self.intercept = values, intercept
        self.twins = twins if len(np.unique(twins)) < n else None
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
        turns = np.concatenate([self.order, self.order]) if self._disjoint else self.order
        self._L, self._V = L[turns], self.V[turns]
        self._vectors = np.column_stack([self.V, self.targets])
        self._sums = self.spare.take((len(self._groups), 1 + self._vectors.shape[1], n), np.float64)
        self._sums[:] = 0.0
        weakref.finalize(self, self.spare.give_back, self._sums).atexit = False
        self.products: np.ndarray | None = None
        if kept:
            self._keep_products(each)
        else:
            self._make_rest(each)
        self._whole = self._sums.sum(axis=0) if self._disjoint else self._sums[0].copy()  # of `for_all_rows` as well
        self._left_out = self._sums if self._disjoint else self._sums[1:]

    def _keep_products(self, each: Callable[..., Iterable[Any]]) -> None:
        """Inner products of the rests of all atoms over the rows of each group, (groups, n, n)."""
        n, G = len(self.targets), len(self._groups)
        self._rests = [self.spare.take((len(rows), n), np.float64) for rows in self._groups]
        self.products = products = self.spare.take((G, n, n), np.float64)
        weakref.finalize(self, self.spare.give_back, products).atexit = False
        list(each(self._split, self._blocks()))
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

    def _make_rest(self, each: Callable[..., Iterable[Any]]) -> None:
        """The rest in the order of the rows, and sums over each group of them.

        Where each pursuit leaves out a group of its own, its rows follow each other in a circle of the groups, and all
        pursuits read the same array: the triangle E[i, j], i >= j, goes on with i - n in place of i, and j, where that
        is needed. Entry i, j is at i w + j, where no pursuit has more than w rows: in this band, i - j < w, no two
        entries are at the same place.
        """
        self._band: np.ndarray | None = self.spare.take((self._length,), np.float32)
        weakref.finalize(self, self.spare.give_back, self._band).atexit = False
        list(each(self._split, self._blocks()))

    @property
    def _width(self) -> int:
        """How far rows of the band are apart."""
        return len(self.targets) - (min(map(len, self._groups)) if self._disjoint else 0)

    @property
    def _length(self) -> int:
        """Of the band, and no less than that of a matrix of all rows, which may take its place."""
        n = len(self.targets)
        return max(n * n, (n + self._starts[-3]) * (self._width + 1) if self._disjoint else 0)

    def for_all_rows(self) -> SplitKernel:
        """The same for the last pursuit alone, whose rest is made again: a tenth of the work takes less than memory."""
        if self.products is not None:
            return self
        other = copy(self)
        other._band = None
        del other._sums, other._left_out
        return other

    def _view(self, row: int, column: int, shape: tuple[int, int]) -> np.ndarray:
        """Entries of the rest in the band."""
        assert self._band is not None
        width = self._width
        return np.lib.stride_tricks.as_strided(self._band[row * width + column :], shape, (4 * width, 4))

    def _blocks(self) -> list[Block]:
        """Pairs of groups if they have all rows, of which those below the diagonal are the same; else some columns."""
        if not self._disjoint:
            return [(0, 0, some) for some in spans(0, len(self.targets), _COLUMNS)]
        groups = [slice(*ends) for ends in pairwise(self._starts)]
        return [(one, other, groups[other]) for one in range(len(groups)) for other in range(one, len(groups))]

    def _split(self, block: Block) -> None:
        """Make the rests of some atoms on the rows of a group, and of those rows' atoms on the other rows."""
        group, other, columns = block
        rows = slice(self._starts[group], self._starts[group] + len(self._groups[group]))
        piece = in_one_piece(self._groups[group])
        for some in spans(columns.start, columns.stop, _COLUMNS):
            chosen = in_one_piece(self.order[some])
            rest = self._L[rows] @ self._L[some].T
            np.subtract(self.values(piece, chosen), rest, out=rest)
            self._put(rest, group, rows, other, some)
            if group != other:
                self._put(rest.T, other, some, group, rows)

    def _put(self, rest: np.ndarray, group: int, rows: slice, other: int, columns: slice) -> None:
        """Keep rests of atoms of one group on rows of another, both by their places in the order."""
        for down, right in self._turns(group, other) if self.products is None else ():
            place = self._view(rows.start + down, columns.start + right, rest.shape)
            if group == other:  # above the diagonal the band has other entries
                below = np.tri(len(rest), len(rest.T), int(rows.start - columns.start), dtype=bool)
                np.copyto(place, rest, where=below, casting="same_kind")
                continue
            for some in spans(0, len(rest.T), _AT_ONCE if rest.flags.f_contiguous else len(rest.T)):
                place[:, some] = rest[:, some]
        self._add_up(rest, group, self.order[rows], rows.start - self._starts[group], columns)
        for one, left_out in enumerate(() if self._disjoint else self._groups[1:], start=1):
            self._add_up(rest[left_out], one, left_out, 0, columns)

    def _add_up(self, rest: np.ndarray, group: int, rows: np.ndarray, first: int, columns: slice) -> None:
        """Add rows of a group to its sums: squared norms of the rests, and their products with V and the targets."""
        piece = in_one_piece(rows)
        if not np.all(self.roots[piece] == 1):
            rest = rest * self.roots[piece, None]
        if self.products is not None:
            self._rests[group][first : first + len(rows), columns] = rest
        sums = self._sums[group, :, columns]
        sums[0] += np.einsum("ij,ij->j", rest, rest)
        sums[1:] += self._vectors[piece].T @ rest

    def _turns(self, rows: int, columns: int) -> list[tuple[int, int]]:
        """Where the band has entries of two groups: what is added to their rows and columns, a turn of the circle."""
        n = len(self.targets)
        if not self._disjoint:
            return [(0, 0)]  # one group of all rows
        if rows >= columns:
            both = [(0, 0), (n, n)] if rows < len(self._groups) - 2 else [(0, 0)]
            return both if rows - columns < len(self._groups) - 1 else []
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

    def smooth_on(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V and L on the rows of a pursuit; where these follow each other not a copy."""
        some = slice(where[0], where[0] + len(where)) if self._disjoint else where
        return self._V[some], self._L[some]

    def over(self, part: int, where: np.ndarray) -> tuple[np.ndarray, ...]:
        """Sums over the rows of one pursuit for its own atoms, see `_add_up`."""
        sums = self._whole if part == len(self.parts) - 1 else self._whole - self._left_out[part]
        sums, r = np.take(sums, where, axis=1), self.V.shape[1]
        return np.maximum(sums[0], 0.0), sums[1 : 1 + r], sums[1 + r :]

    def rest_of(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The rest among the rows of a pursuit, its lower triangle; and memory that is to be given back at the end."""
        n, size = len(self.targets), len(where)
        if size < n and self._disjoint:
            return self._view(where[0], where[0], (size, size)), None
        if size == n or self._band is None:
            memory = self.spare.take((self._length,), np.float32)
            return self._triangle(where, memory[: size * size].reshape(size, size)), memory
        whole, out = self._view(0, 0, (n, n)), self.spare.take((size, size), np.float32)
        for some in spans(0, size, _AT_ONCE):
            np.take(whole[where[some]], where[: some.stop], axis=1, out=out[some, : some.stop], mode="clip")
        return out, out

    def _triangle(self, where: np.ndarray, out: np.ndarray) -> np.ndarray:
        """The rest among some rows, computed again."""
        for some in spans(0, len(where), _COLUMNS):
            for columns in spans(0, some.stop, _COLUMNS):
                one, other = in_one_piece(where[some]), in_one_piece(where[columns])
                values = self.values(in_one_piece(self.order[one]), in_one_piece(self.order[other]))
                np.subtract(values, self._L[one] @ self._L[other].T, out=out[some, columns], casting="same_kind")
        return out
