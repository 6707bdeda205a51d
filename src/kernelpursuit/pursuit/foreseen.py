"""Atoms that plain pursuits on parts of the same rows will take, found by products in float32.

Each step of a pursuit multiplies the kernel matrix by one vector, which takes as long as reading the matrix. Where
several pursuits choose from the same atoms, each on some of the rows (the folds of a search), the matrix is split once
for all of them into a few smooth directions in float64 and the rest in float32, of which a product reads one triangle.
What comes out is near enough to tell the best atom, but for some that are compared from their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kernelpursuit._array import WIDEST_TIE, in_span_limit, tie_tolerance
from kernelpursuit.dictionaries.dense import symmetric_product
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.loop import tied

SMOOTH = 64  # directions that hold most of the atoms of a wide kernel
_ALL, _LITTLE = 1e-12, 0.02  # shares of the largest diagonal entry: nothing is left; so little that it is worth it
MARGIN = 1e-4  # scores that differ by less, relative, are always computed from the columns
_ROUNDING = 32  # times eps: rounding errors in float64
_PRODUCT = 64 * float(np.finfo(np.float32).eps)  # error of a product, times the root mean square of the rest
_FAR_DOWN = 1e-10  # share of the loss without atoms at which foreseeing ends
_SAME = 1e-5  # how far gains may be from what they turn out to be
_MOST_COLUMNS = 4  # for each atom: columns that are computed for comparisons until foreseeing does not pay
_AT_ONCE = 256  # of them
_FEW_RUNS = 16  # of rows that follow each other
_BAND = 64  # rows of a matrix that are computed at once


def smooth_directions(K: np.ndarray, most: int = SMOOTH) -> np.ndarray:
    """Columns of the partial Cholesky factor of a kernel matrix, (n, r); none where too much of it would be left."""
    left = np.diagonal(K).copy()
    whole, rows = float(left.max(initial=0.0)), np.empty((min(most, len(K)), len(K)))
    size = 0
    while size < len(rows):
        pivot = int(np.argmax(left))
        if not left[pivot] > _ALL * whole:
            break
        row = K[pivot] - rows[:size, pivot] @ rows[:size]
        if not row[pivot] > 0:
            break
        rows[size] = row / np.sqrt(row[pivot])
        left -= rows[size] ** 2
        left[pivot] = 0.0
        size += 1
    return rows[: size if left.max(initial=0.0) <= _LITTLE * whole else 0].T


class SplitKernel:
    """Kernel values of all rows, K = L Lᵀ + S with S in float32.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric, in float64.
    roots : ndarray of shape (n,)
        Square roots of the weights of the rows.
    each : callable
        ``each(function, items)``, what the function makes of each of them: `map`, or the same in threads.
    """

    def __init__(self, K: np.ndarray, roots: np.ndarray, each: Callable[..., Iterable[Any]] = map):
        n = len(K)
        self.K, self.smooth, self.rest = K, smooth_directions(K), np.empty((n, n), dtype=np.float32)

        def fill(start: int) -> tuple[np.ndarray, np.ndarray]:
            band = slice(start, start + _BAND)
            rest = K[band] - self.smooth[band] @ self.smooth.T if self.smooth.shape[1] else K[band].copy()
            self.rest[band] = rest
            return weighed_squares(K[band].copy(), roots[band]), weighed_squares(rest, roots[band])

        norms, rests = zip(*each(fill, range(0, n, _BAND)), strict=True)
        self.norms, self.rests = sum(norms), sum(rests)  # squared norms of the atoms, and of what is left of them


def weighed_squares(columns: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Squared norms of columns whose rows have square roots of weights. The columns are used up."""
    return roots**2 @ np.multiply(columns, columns, out=columns)


class FoldPursuit:
    """A plain pursuit with the squared loss on some of the rows, whose atoms are these rows.

    It keeps directions q, residuals r, and for all atoms d̃ᵀr and ‖d̃‖² with what their errors may be. An atom is a sum
    d = V g + e, V orthonormal directions on these rows that hold most of a wide kernel, and so is a direction,
    q = V x + f. Products are dᵀq = gᵀx + eᵀf, of which only the last is in float32. From these parts, norms can be
    computed anew that have lost digits by differences: a pursuit with a wide kernel soon leaves 1e-12 of them.

    Parameters
    ----------
    kernel : SplitKernel
    rows : ndarray of int
        Rows of positive weight, in the order in which equal atoms are preferred.
    targets : ndarray of shape (n, t)
    roots : ndarray of shape (n,)
        Square roots of the weights of the rows.
    twins : ndarray of int, shape (n,)
        A number for each atom, the same for atoms that are equal.
    most : int
        Atoms to take.
    intercept : bool
    jointly : bool
        Whether scores divide by the norm outside the span (pre-fitting) or outside the constant (back-fitting).
    """

    def __init__(
        self,
        kernel: SplitKernel,
        rows: np.ndarray,
        targets: np.ndarray,
        roots: np.ndarray,
        twins: np.ndarray,
        *,
        most: int,
        intercept: bool,
        jointly: bool,
    ):
        self._K, self._rows, self._roots, self._twins, self._jointly = kernel.K, rows, roots[rows], twins[rows], jointly
        n, outside = len(rows), np.setdiff1d(np.arange(len(roots)), rows)
        self.raw = (kernel.norms - weighed_squares(kernel.K[outside], roots[outside]))[rows]
        self._h = self.raw
        if kernel.smooth.shape[1]:  # coordinates will be taken off
            self._h = (kernel.rests - weighed_squares(kernel.rest[outside].astype(np.float64), roots[outside]))[rows]
        self.squared, self._floor = self.raw.copy(), in_span_limit(self.raw) * self.raw
        self._start, self._wide = self.squared, kernel.smooth.shape[1] > 0
        self._rest, self._error = square_part(kernel.rest, rows), _PRODUCT * np.sqrt(np.maximum(self._h, 0) / n)
        self._coordinates(kernel.smooth[rows], most + 1)
        self._Q, self._size, self._renewed = np.zeros((most + 1, n)), 0, 0
        self._r = targets[rows].T * self._roots
        self._a, self.computed = np.zeros_like(self._r), 0
        self._errors_of_squares, self._errors_of_products = np.empty(n), np.empty(n)
        if intercept:
            self._move(self._roots / np.linalg.norm(self._roots))
        whole = np.zeros((len(roots), 1 + len(self._r)))
        whole[rows] = (np.vstack([self._Q[:1], self._r]) * self._roots).T
        products = symmetric_product(kernel.K, whole)[rows].T
        self._a, self.squared = np.ascontiguousarray(products[1:]), self.raw - products[0] ** 2
        self.first = float(np.sum(self._r**2))
        self._set_errors(slice(None), self.raw)
        if self._wide:
            self._renew()
        self._start = self.squared.copy()
        self._bar(self.squared <= self._floor)

    def _coordinates(self, L: np.ndarray, most: int) -> None:
        """Directions V, coordinates g of the atoms along them, and the squared norms of e."""
        self._V = np.linalg.qr(L * self._roots[:, None])[0]
        V = np.zeros((len(self._K), self._V.shape[1]))
        V[self._rows] = self._V * self._roots[:, None]
        self._g = (self._K @ V)[self._rows]
        along = self._g - L @ (L.T @ V[self._rows])
        self._h = np.maximum(self._h - np.einsum("ij,ij->i", along, along), 0.0)
        self._X, shape = np.zeros((most, V.shape[1])), (most if self._wide else 0, len(L))
        self._P, self._B = np.zeros(shape), np.zeros(shape)  # products of atoms with directions; eᵀf alone
        self._F, self._Y = np.zeros(shape), np.zeros((most, most))  # f of all directions, and their products

    def _bar(self, atoms: Any) -> None:
        """Never look at some atoms again: what scores divide by becomes infinite."""
        self.squared[atoms] = self._start[atoms] = np.inf

    def _set_errors(self, J: Any, lost: np.ndarray) -> None:
        """What errors d̃ᵀr and ‖d̃‖² of atoms will have from now on, when directions are taken out of them."""
        error, eps = self._error[J], _ROUNDING * np.finfo(np.float64).eps
        self._errors_of_squares[J] = 2 * error * np.sqrt(np.minimum(self._h[J], np.abs(self.squared[J]))) + eps * lost
        self._errors_of_products[J] = np.linalg.norm(self._r) * (error + eps * np.sqrt(self.raw[J]))

    def best(self) -> int:
        """The atom that plain pursuit takes next; -1 where there is none, or it takes too long to tell."""
        power = np.einsum("tj,tj->j", self._a, self._a)
        below = self.squared if self._jointly else self._start
        scores = power / below
        best = int(np.argmax(scores))
        if not scores[best] > 0:
            return -1
        spread = MARGIN * scores + 2 * self._errors_of_products * np.sqrt(power) / below
        if self._jointly:
            spread += scores * self._errors_of_squares / below
        close = np.flatnonzero(scores + spread >= scores[best] - spread[best])
        if len(close) == 1:
            return best
        if self._wide and spread[best] > 2 * MARGIN * scores[best] and self._renewed < self._size:
            self._renew()
            return self.best()
        close = close[np.sort(np.unique(self._twins[close], return_index=True)[1])]
        return int(close[0]) if len(close) == 1 else self._closest(close)

    def _closest(self, close: np.ndarray) -> int:
        """The best of atoms that are too close to each other, from their columns; the first of equal ones."""
        if self.computed > _MOST_COLUMNS * len(self._rows):
            return -1
        self._compute(close)
        squared = self.squared[close]
        scores = np.sum(self._a[:, close] ** 2, axis=0) / (squared if self._jointly else self._start[close])
        if not np.any(scores > 0):
            return -1
        least = tie_tolerance(self.raw)
        tie = np.clip(least * self.raw[close] / np.maximum(squared, np.finfo(float).tiny), least, WIDEST_TIE)
        return int(close[np.argmax(tied(scores, tie))])

    def _compute(self, J: np.ndarray) -> None:
        """d̃ᵀr and ‖d̃‖² of some atoms from their columns."""
        Q = self._Q[: self._size]
        for start in range(0, len(J), _AT_ONCE):
            some = J[start : start + _AT_ONCE]
            D = self._columns(some)
            for _ in range(2):
                D -= (D @ Q.T) @ Q
            self.squared[some], self._a[:, some] = np.einsum("ji,ji->j", D, D), self._r @ D.T
        self.computed += len(J)
        self._set_errors(J, np.sqrt(self.raw[J] * self.squared[J]))
        self._bar(J[self.squared[J] <= self._floor[J]])

    def _renew(self) -> None:
        """d̃ᵀr and ‖d̃‖² of all atoms from their parts."""
        k = self._size
        P = self._P[:k]
        outside = self._g - P.T @ self._X[:k]
        small = self._h - np.einsum("tj,tj->j", P, 2 * self._B[:k] - self._Y[:k, :k] @ P)
        squared = np.einsum("ij,ij->i", outside, outside) + np.maximum(small, 0.0)
        self.squared = np.where(np.isinf(self.squared), self.squared, squared)
        along = self._r @ self._V
        self._a = along @ self._g.T + self._rests(self._r - along @ self._V.T)
        self._set_errors(slice(None), np.sqrt(self.raw * squared))
        # What products eᵀf may be wrong by, in the sums above.
        self._errors_of_squares += 2 * self._error * np.sqrt(np.diagonal(self._Y)[:k] @ P**2)
        self._renewed = self._size

    def _rests(self, vectors: np.ndarray) -> np.ndarray:
        """Products of the rest of all atoms with vectors, (t, n)."""
        return symmetric_product(self._rest, (vectors * self._roots).T).T

    def _columns(self, J: np.ndarray) -> np.ndarray:
        """Atoms at the rows, (len(J), n)."""
        return np.take(self._K[self._rows[J]], self._rows, axis=1) * self._roots

    def take(self, atom: int) -> float | None:
        """Take an atom. Returns what the loss, not divided by the rows, loses by it; None where it is in the span."""
        Q, q = self._Q[: self._size], self._columns(np.array([atom]))[0]
        for _ in range(2):
            q -= (Q @ q) @ Q
        squared = float(q @ q)
        if not squared > self._floor[atom]:
            self._bar(atom)
            return None
        gain = self._move(q / np.sqrt(squared))
        self._bar(atom)
        if np.any(lost := self.squared <= 4 * self._errors_of_squares):
            if self._wide and self._renewed < self._size:
                self._renew()
                lost = self.squared <= 4 * self._errors_of_squares
            self._compute(np.flatnonzero(lost))
        if np.any(inside := self.squared <= self._floor):
            self._bar(inside)
        return gain

    def _move(self, q: np.ndarray) -> float:
        """Take out a direction. Returns what the loss loses by it."""
        k, along, x = self._size, self._r @ q, q @ self._V
        f = q - self._V @ x
        p = self._rests(f[None])[0]
        if self._wide:
            self._B[k], p = p, self._g @ x + p
            self._P[k], self._F[k] = p, f
            self._Y[k, : k + 1] = self._Y[: k + 1, k] = self._F[: k + 1] @ f
        self._Q[k], self._X[k], self._size = q, x, k + 1
        self._r -= along[:, None] * q
        self._a -= along[:, None] * p
        self.squared -= p * p
        return float(along @ along)


def square_part(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows and columns of a matrix; of rows that follow each other whole pieces are copied, and not if they are all."""
    if np.array_equal(rows, np.arange(len(matrix))):
        return matrix
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    out, stops = np.empty((len(rows), len(rows)), dtype=matrix.dtype), np.cumsum([len(run) for run in runs])
    for run, stop in zip(runs, stops, strict=True) if len(runs) <= _FEW_RUNS else ():
        for other, end in zip(runs, stops, strict=True):
            piece = matrix[run[0] : run[-1] + 1, other[0] : other[-1] + 1]
            out[stop - len(run) : stop, end - len(other) : end] = piece
    for start in range(0, len(rows), 16) if len(runs) > _FEW_RUNS else ():  # whole rows, in a core's cache
        some = slice(start, start + 16)
        np.take(matrix[rows[some]], rows, axis=1, out=out[some], mode="clip")
    return out


def foresee(run: FoldPursuit, most: int) -> Foreseen:
    """The first atoms that a pursuit takes, by their places among its rows, as far as it can be told.

    An interrupt leaves those that are known; one before the first is raised.
    """
    atoms: list[int] = []
    gains: list[float] = []
    interrupted = False
    try:
        while len(atoms) < most and sum(gains) < 1 - _FAR_DOWN and (atom := run.best()) >= 0:
            if (gain := run.take(atom)) is None:
                continue
            if not gain > 0:
                break
            gains.append(gain / run.first)
            atoms.append(atom)
    except KeyboardInterrupt:
        if not atoms:
            raise
        interrupted = True
    known = len(atoms)
    return Foreseen(np.array(atoms, dtype=np.intp), np.array(gains[:known]), np.full(known, _SAME), interrupted)
