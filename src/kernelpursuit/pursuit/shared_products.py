"""Inner products of atoms over parts of the same rows, which several pursuits share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit._array import Spare
from kernelpursuit.dictionaries.tiles import spans

SMOOTH = 64  # directions that hold most of the atoms of a wide kernel
_NEEDED = {8: (1e-3, 0.05), 4: (1e-12, 0.5)}  # by bytes of a product: what they may leave of the largest diagonal
# entry, as a share: so little is enough, more is not worth their cost
_CONDITION = {8: 1e-2, 4: 1e-5}  # squared length that every combination of them must keep on the rows of each pursuit
_COLUMNS = 256  # at once, where sums are made
_MULTIPLIED = 512  # columns whose products are one task: of larger blocks with themselves NumPy copies half, slowly


def smooth_directions(K: np.ndarray, dtype: type, most: int = SMOOTH) -> np.ndarray:
    """Columns of the partial Cholesky factor of a kernel matrix, (n, r), as many as products of this dtype need.

    None where they would hold too little of it.
    """
    left, enough, worth = np.diagonal(K).copy(), *_NEEDED[np.dtype(dtype).itemsize]
    whole, rows = float(left.max(initial=0.0)), np.empty((min(most, len(K)), len(K)))
    size = 0
    while size < len(rows):
        pivot = int(np.argmax(left))
        if not left[pivot] > enough * whole:
            break
        row = K[pivot] - rows[:size, pivot] @ rows[:size]
        if not row[pivot] > 0:
            break
        rows[size] = row / np.sqrt(row[pivot])
        left -= rows[size] ** 2
        left[pivot] = 0.0
        size += 1
    return rows[: size if left.max(initial=0.0) <= worth * whole else 0].T


def well_spread(V: np.ndarray, outside: Sequence[np.ndarray], least: float) -> np.ndarray:
    """The first of orthonormal directions, as many as stay independent when the rows `outside` are left out.

    Every combination of them keeps a squared length of `least` then.
    """
    inside = [np.eye(V.shape[1]) - V[rows].T @ V[rows] for rows in outside]
    size = V.shape[1]
    while size and min(np.linalg.eigvalsh(M[:size, :size])[0] for M in inside) < least:
        size //= 2
    return V[:, :size]


class Sums(NamedTuple):
    """Sums over the rows of each of some groups."""

    raw: np.ndarray  # (groups, n), squared norms of the atoms,
    small: np.ndarray  # (groups, n), of their small parts
    along: np.ndarray  # (groups, r, n), products of the small parts with V
    of_targets: np.ndarray  # (groups, n, t), with the targets


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


class Products:
    """Inner products of atoms over the rows of several pursuits.

    An atom is a sum of two parts, d = V c + e. V are a few orthonormal directions that are the same for all pursuits,
    the constant and those that hold most of a wide kernel. The products of the small parts e are kept, those of the
    others are made of their coordinates. So no product has a rounding error of the size of the atoms, of which a
    pursuit soon leaves a millionth.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel values of all rows.
    targets : ndarray of shape (n, t)
    roots : ndarray of shape (n,) or None
        Square roots of the weights of the rows.
    parts : sequence of ndarray of int
        Rows of each pursuit, of positive weight, in the order in which equal atoms are preferred. One more, of all
        rows of positive weight, is added at the end.
    intercept : bool
    twins : ndarray of int, shape (n,)
        A number for each atom, the same for atoms that are equal.
    dtype : type
        Of the products that are kept.
    each : callable
        ``each(function, items)``, what the function makes of each of them: `map`, or the same in threads.
    spare : Spare, optional
        Where large arrays come from, and go when nobody needs them any more.
    """

    def __init__(
        self,
        K: np.ndarray,
        targets: np.ndarray,
        roots: np.ndarray | None,
        parts: Sequence[np.ndarray],
        intercept: bool,
        twins: np.ndarray,
        dtype: type,
        each: Callable[..., Iterable[Any]] = map,
        spare: Spare | None = None,
    ):
        n = len(K)
        self.roots = np.ones(n) if roots is None else roots
        columns = smooth_directions(K, dtype) * self.roots[:, None]
        if intercept:
            columns = np.column_stack([self.roots, columns])
        self.parts = [*parts, np.flatnonzero(self.roots > 0)]
        self.outside = [np.delete(np.arange(n), rows) for rows in parts]
        self.V = well_spread(np.linalg.qr(columns)[0], self.outside, _CONDITION[np.dtype(dtype).itemsize])
        self.targets, self.intercept, self.twins = targets * self.roots[:, None], intercept, twins
        self.dtype, self.spare, self._each = np.dtype(dtype), Spare() if spare is None else spare, each
        everything, left_out = np.arange(n), np.concatenate(self.outside)
        disjoint = len(parts) > 1 and np.array_equal(np.sort(left_out), everything)
        self._groups = [in_one_piece(rows) for rows in (self.outside if disjoint else [*self.outside, everything])]
        self._K, self._weights = K, roots
        along = self._along_directions()
        self.C = along.sum(axis=0) if disjoint else along[-1].copy()
        self._small = [self.spare.take((len(self.V[rows]), n), self.dtype) for rows in self._groups]
        groups, t = len(self._groups), self.targets.shape[1]
        self._sums = Sums(np.empty((groups, n)), np.empty((groups, n)), along, np.empty((groups, n, t)))
        list(each(self._split, spans(0, n, _COLUMNS)))
        for rows, W in zip(self._groups, along, strict=True):  # of the small parts: V VᵀV C is taken out
            W -= (self.V[rows].T @ self.V[rows]) @ self.C
        # Rows of a pursuit are those of all other groups, or all rows without those of its own.
        own = np.eye(groups, dtype=self.dtype)
        self._shares = np.vstack([1 - own, np.ones_like(own[:1])] if disjoint else [own[-1] - own[:-1], own[-1:]])
        self.outside.append(everything[:0])
        self._whole = Sums(*(one.sum(axis=0) if disjoint else one[-1] for one in self._sums))
        self._multiply()

    def _along_directions(self) -> np.ndarray:
        """Products of the atoms with V over the rows of each group, (groups, r, n)."""
        V, K = self.V if self._weights is None else self.V * self._weights[:, None], self._K
        made = self.spare.take((len(self._groups), V.shape[1], len(K)), np.float64)
        weakref.finalize(self, self.spare.give_back, made).atexit = False

        def multiply(some: slice) -> None:
            for rows, out in zip(self._groups, made, strict=True):
                np.matmul(V[rows].T, K[rows, some], out=out[:, some])

        list(self._each(multiply, spans(0, len(K), _COLUMNS)))
        return made

    def _split(self, some: slice) -> None:
        """Split some of the atoms into their two parts."""
        sums, roots = self._sums, self._weights
        for place, rows in enumerate(self._groups):
            A = self._K[rows, some] if roots is None else self._K[rows, some] * roots[rows, None]
            rest = np.matmul(self.V[rows], self.C[:, some], out=self.spare.take(A.shape, A.dtype))
            sums.raw[place, some] = np.einsum("ij,ij->j", A, A)
            np.subtract(A, rest, out=rest)
            self._small[place][:, some] = rest
            sums.small[place, some] = np.einsum("ij,ij->j", rest, rest)
            sums.of_targets[place, some] = rest.T @ self.targets[rows]
            self.spare.give_back(rest)

    def _multiply(self) -> None:
        """Make the products of the small parts: most of the time and of the memory."""
        n = len(self.V)
        self.products = self.spare.take((len(self._groups), n, n), self.dtype)  # over the rows of each group
        weakref.finalize(self, self.spare.give_back, self.products).atexit = False
        blocks = spans(0, n, _MULTIPLIED)[::-1]  # the longest first
        tasks = [(*pair, some) for some in blocks for pair in zip(self._small, self.products, strict=True)]
        list(self._each(lambda task: multiply_block(*task), tasks))
        self.spare.give_back(*self._small)
        del self._small, self._K

    def over(self, part: int) -> tuple[np.ndarray, ...]:
        """Sums over the rows of one pursuit for its own atoms, but those of products."""
        rows, whole = self.parts[part], part == len(self.parts) - 1
        sums = self._whole if whole else [every - own[part] for every, own in zip(self._whole, self._sums, strict=True)]
        return tuple(np.take(one, rows, axis=axis, mode="clip") for one, axis in zip(sums, (0, 0, 1, 0), strict=True))

    def row(self, part: int, atom: int) -> np.ndarray:
        """Products of the small part of one atom with those of all atoms over the rows of one pursuit."""
        return self._shares[part] @ self.products[:, atom]
