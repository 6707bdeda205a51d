"""Atoms that plain pursuits on parts of the same rows will take, found by inner products of atoms.

Each step of a pursuit reads the whole kernel matrix for one vector. Where several pursuits choose from the same atoms,
each on some of the rows (the folds of a search), the inner products of all atoms over these rows cost one matrix
product for all of them together, and then a step reads no matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit._array import WIDEST_TIE, in_span_limit, squared_rows, tie_tolerance
from kernelpursuit.basis import Basis
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.loop import tied

SMOOTH = 64  # directions that hold most of the atoms of a wide kernel
_NEEDED = {8: (1e-3, 0.05), 4: (1e-12, 0.95)}  # by bytes of a product: what they may leave of the largest diagonal
# entry, as a share: so little is enough, more is not worth their cost
_CONDITION = 1e-2  # squared length that every combination of them must keep on the rows of each pursuit
_FAR_DOWN = 1e-8  # share of the loss without atoms at which foreseeing ends
MARGIN = {8: 1e-6, 4: 5e-4}  # by bytes of a product: scores that differ by less are computed from the atoms themselves
_LITTLE, _LEAST = 1e-3, 1e-8  # shares of a squared norm, of the best atom or of any, at which all are computed anew
_ROUNDING = 4  # times eps: rounding errors, which were up to 3 times what they are on average
_DOUBTFUL = 0.05  # relative error of scores at which foreseeing ends
SAME = 0.75  # of the margin: how far scores may be from what they turn out to be


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


def well_spread(V: np.ndarray, outside: Sequence[np.ndarray]) -> np.ndarray:
    """The first of orthonormal directions, as many as stay independent when the rows `outside` are left out."""
    inside = [np.eye(V.shape[1]) - V[rows].T @ V[rows] for rows in outside]
    size = V.shape[1]
    while size and min(np.linalg.eigvalsh(M[:size, :size])[0] for M in inside) < _CONDITION:
        size //= 2
    return V[:, :size]


class Sums(NamedTuple):
    """Sums over some rows."""

    raw: np.ndarray  # (n,), squared norms of the atoms,
    small: np.ndarray  # (n,), of their small parts
    along: np.ndarray  # (r, n), products of the small parts with V
    of_targets: np.ndarray  # (n, t), with the targets
    products: np.ndarray  # (n, n), with each other


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
        Rows of each pursuit, of positive weight, in the order in which equal atoms are preferred.
    intercept : bool
    twins : ndarray of int, shape (n,)
        A number for each atom, the same for atoms that are equal.
    dtype : type
        Of the products that are kept.
    each : callable
        ``each(function, items)``, what the function makes of each of them: `map`, or the same in threads.
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
    ):
        n = len(K)
        self.roots = np.ones(n) if roots is None else roots
        columns = smooth_directions(K, dtype) * self.roots[:, None]
        if intercept:
            columns = np.column_stack([self.roots, columns])
        self.parts, everything = list(parts), np.arange(n)
        self.outside = [np.setdiff1d(everything, rows) for rows in parts]
        self.V = well_spread(np.linalg.qr(columns)[0], self.outside)
        self.C = (self.V if roots is None else self.V * roots[:, None]).T @ K
        self.targets, self.intercept, self.twins = targets * self.roots[:, None], intercept, twins

        def sums(rows: np.ndarray) -> Sums:
            A = K[rows] if roots is None else K[rows] * roots[rows, None]
            raw = np.einsum("ij,ij->j", A, A)
            A -= self.V[rows] @ self.C
            narrow = A.astype(dtype)
            small, along = np.einsum("ij,ij->j", A, A), self.V[rows].T @ A
            return Sums(raw, small, along, A.T @ self.targets[rows], narrow.T @ narrow)

        self.beside = list(each(sums, self.outside))
        disjoint = len(parts) > 1 and np.array_equal(np.sort(np.concatenate(self.outside)), everything)
        self._apart = None if disjoint else sums(everything)
        self.itemsize = np.dtype(dtype).itemsize

    def over(self, part: int) -> tuple[np.ndarray, ...]:
        """Sums over the rows of one pursuit, but those of products."""
        if self._apart is not None:
            pairs = zip(self._apart[:-1], self.beside[part][:-1], strict=True)
            return tuple(whole - other for whole, other in pairs)
        others = [sums[:-1] for place, sums in enumerate(self.beside) if place != part]
        return tuple(reduce(np.add, some) for some in zip(*others, strict=True))

    def row(self, part: int, atom: int) -> np.ndarray:
        """Products of the small part of one atom with those of all atoms over the rows of one pursuit."""
        if self._apart is not None:
            return self._apart.products[atom] - self.beside[part].products[atom]
        return reduce(np.add, [sums.products[atom] for place, sums in enumerate(self.beside) if place != part])


class FoldPursuit:
    """A plain pursuit with the squared loss on one of the parts, without an array over the rows.

    Atoms outside the span are known by their coordinates g̃ along V and by products with the directions taken. A
    direction q is x along V and a combination of small parts, of which the products with all atoms are kept.

    Parameters
    ----------
    products : Products
    part : int
        Which of the parts.
    most : int
        Atoms to take.
    jointly : bool
        Whether scores divide by the norm outside the span (pre-fitting) or outside the constant (back-fitting).
    columns : callable
        ``columns(atoms)``, the atoms at all rows, for scores that are too close to each other.
    """

    def __init__(
        self,
        products: Products,
        part: int,
        *,
        most: int,
        jointly: bool,
        columns: Callable[[np.ndarray], np.ndarray],
    ):
        self._of, self._part, self._jointly, self._columns = products, part, jointly, columns
        out, rows, V, n = products.outside[part], products.parts[part], products.V, len(products.V)
        r, (self.raw, small, along, of_targets) = V.shape[1], products.over(part)
        self._L = np.linalg.cholesky(np.eye(r) - V[out].T @ V[out])
        self._N = np.linalg.solve(self._L, along)  # e along the directions of V on these rows
        self._g = np.ascontiguousarray((self._L.T @ products.C + self._N).T)
        self._h = np.maximum(small - np.einsum("ij,ij->j", self._N, self._N), 0.0)  # of small parts outside V
        y = np.linalg.solve(self._L, V[rows].T @ products.targets[rows])
        self._rv, self._yh = y, of_targets - self._N.T @ y  # residuals along V; small parts times targets
        self._energy = float(np.sum(products.targets[rows] ** 2))
        self._X = np.zeros((most + 1, r))
        dtype = products.beside[part].products.dtype
        self._narrow = self._N.astype(dtype)
        self._P = np.zeros((most + 1, n))  # products of the small parts of atoms with directions
        self._along = np.zeros((most + 1, y.shape[1]))  # lengths of the steps
        self._Y = np.zeros((most + 1, most + 1))  # products of the small parts of directions
        self._size = 0
        self._basis, self._spanned = Basis(np.empty((len(rows), 0))), list[int]()  # of the atoms themselves
        if products.intercept:
            self._basis.append(products.roots[rows])
        alive = np.zeros(n, dtype=bool)
        alive[rows] = True
        self.squared = self._h + np.einsum("ij,ij->i", self._g, self._g)
        if products.intercept:
            x = np.linalg.solve(self._L, V[rows].T @ products.roots[rows])
            self._take_out(x / np.linalg.norm(x))
        self._start = self.squared.copy()
        self._a = self._g @ self._rv + self._yh
        self._limit, self._eps = in_span_limit(self.raw), np.finfo(dtype).eps
        self._floor = self._limit * self.raw
        self._bar(~alive | (self.squared <= self._floor))
        self._reference, self._least = self.squared.copy(), _LEAST * self.squared
        self.first = self._energy

    def _bar(self, atoms: np.ndarray) -> None:
        """Never look at some atoms again: what scores divide by becomes infinite."""
        self.squared[atoms] = self._start[atoms] = np.inf

    def _take_out(self, x: np.ndarray) -> None:
        """Take out the constant, which lies along V."""
        length = x @ self._rv
        self._rv = self._rv - x[:, None] * length
        self._energy -= float(length @ length)
        self.squared -= (self._g @ x) ** 2
        self._X[0], self._size = x, 1

    def best(self, margin: float, taken: list[int]) -> tuple[int, float]:
        """The atom that plain pursuit takes next, -1 where that cannot be told; and the relative error of its score."""
        scores = squared_rows(self._a) / (self.squared if self._jointly else self._start)
        best = int(np.argmax(scores))
        if not scores[best] > 0:
            return -1, 0.0
        if self.squared[best] < _LITTLE * self._reference[best]:
            self._renew()
            return self.best(margin, taken)
        margin = margin + self._rounding(best, float(scores[best]))
        if margin > _DOUBTFUL:
            return -1, margin
        close = np.flatnonzero(scores >= scores[best] * (1 - margin))
        return int(close[0]) if len(close) == 1 else self._closest(close, taken), margin

    def _rounding(self, atom: int, score: float) -> float:
        """Relative error of a score: of products of small parts, of norms, and of what was taken off before."""
        small, whole = self._h[atom] / self.squared[atom], self.raw[atom] / self.squared[atom]
        before, eps = np.sqrt(self.first / score), np.finfo(np.float64).eps
        return float(_ROUNDING * (self._eps * small * before + eps * (whole + np.sqrt(whole) * before)))

    def _closest(self, close: np.ndarray, taken: list[int]) -> int:
        """The best of atoms that are too close to each other, from the atoms themselves; the first of equal ones."""
        rows, span = self._of.parts[self._part], np.array(taken, dtype=np.intp)
        close = rows[np.isin(rows, close)]  # in the order of the rows
        close = close[np.sort(np.unique(self._of.twins[close], return_index=True)[1])]
        if len(close) == 1:
            return int(close[0])
        fresh = span[len(self._spanned) :]
        D = (self._columns(np.concatenate([fresh, close])) * self._of.roots[:, None])[rows]
        self._spanned = list(taken)
        columns, r = D[:, : len(fresh)], self._of.targets[rows]
        while columns.shape[1] and (added := self._basis.extend(columns)):
            columns = columns[:, added:]
        atoms, Q = D[:, len(fresh) :], self._basis.directions.T
        raw = np.einsum("ij,ij->j", atoms, atoms)
        for _ in range(2):
            atoms, r = atoms - Q @ (Q.T @ atoms), r - Q @ (Q.T @ r)
        squared = np.einsum("ij,ij->j", atoms, atoms)
        scores = squared_rows(atoms.T @ r) / (squared if self._jointly else self._start[close])
        least = tie_tolerance(raw)
        tie = np.clip(least * raw / np.maximum(squared, np.finfo(float).tiny), least, WIDEST_TIE)
        return int(close[np.argmax(tied(scores, tie))])

    def take(self, atom: int) -> float:
        """Take an atom. Returns what the loss, not divided by the rows, loses by it."""
        k, g, P, X, Y = self._size, self._g[atom], self._P, self._X, self._Y
        own = P[:k, atom].copy()
        c = X[:k] @ g + own
        c += X[:k] @ (g - c @ X[:k]) + own - Y[:k, :k] @ c  # a second round
        x = g - c @ X[:k]
        taken = self._of.row(self._part, atom) - self._narrow[:, atom] @ self._narrow
        small = taken - c @ P[:k]
        products = self._g @ x + small
        outside = max(0.0, float(self._h[atom] - c @ (2 * own - Y[:k, :k] @ c)))
        squared = float(x @ x) + outside
        if not squared > self._floor[atom]:
            return 0.0
        length = np.sqrt(squared)
        products /= length
        X[k], P[k] = x / length, small / length
        Y[k, :k] = Y[:k, k] = (own - Y[:k, :k] @ c) / length
        Y[k, k] = outside / squared
        along = self._a[atom] / length
        self._size += 1
        self._rv = self._rv - X[k][:, None] * along
        self._along[k] = along
        self._a -= products[:, None] * along
        self.squared -= products * products
        self.squared[atom] = self._start[atom] = np.inf
        if np.any(self.squared < self._least):
            self._renew()
        if (inside := self.squared <= self._floor).any():
            self._bar(inside)
        gain = float(along @ along)
        self._energy -= gain
        return gain

    def _renew(self) -> None:
        """Compute all norms and products anew: they have lost digits by differences."""
        k = self._size
        P, X, Y = self._P[:k], self._X[:k], self._Y[:k, :k]
        inside = X @ self._g.T + P
        outside = self._g - inside.T @ X
        small = self._h - np.einsum("ij,ij->j", 2 * P - Y @ inside, inside)
        squared = np.maximum(small, 0.0) + np.einsum("ij,ij->i", outside, outside)
        self.squared = np.where(np.isinf(self.squared), self.squared, squared)
        self._reference, self._least = self.squared.copy(), _LEAST * self.squared
        self._a = self._g @ self._rv + self._yh - P.T @ self._along[:k]

    @property
    def far_down(self) -> bool:
        """Whether what is left of the loss is not known well."""
        return self._energy <= _FAR_DOWN * self.first


def foresee(
    products: Products,
    part: int,
    most: int,
    jointly: bool,
    columns: Callable[[np.ndarray], np.ndarray],
) -> Foreseen:
    """The atoms that plain pursuit takes on one of the parts, as far as it can be told.

    Parameters
    ----------
    products : Products
    part, most, jointly, columns
        As in `FoldPursuit`.

    Returns
    -------
    Foreseen
        Atoms by their places in the part.
    """
    margin = MARGIN[products.itemsize]
    run = FoldPursuit(products, part, most=most, jointly=jointly, columns=columns)
    atoms: list[int] = []
    gains: list[float] = []
    errors: list[float] = []
    while len(atoms) < most and not run.far_down:
        atom, error = run.best(margin, atoms)
        gain = run.take(atom) if atom >= 0 else 0.0
        if gain == 0.0:
            break
        atoms.append(atom)
        gains.append(gain / run.first)
        errors.append(SAME * error)
    places = np.full(len(products.V), -1)
    places[products.parts[part]] = np.arange(len(products.parts[part]))
    return Foreseen(places[np.array(atoms, dtype=np.intp)], np.array(gains), np.array(errors))
