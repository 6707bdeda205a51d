"""Atoms that plain pursuits on parts of the same rows will take, found by inner products of atoms.

Each step of a pursuit reads the whole kernel matrix for one vector. Where several pursuits choose from the same atoms,
each on some of the rows (the folds of a search), the inner products of all atoms over these rows cost one matrix
product for all of them together, and then a step reads no matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dger

from kernelpursuit._array import WIDEST_TIE, in_span_limit, squared_rows, tie_tolerance
from kernelpursuit.basis import Basis
from kernelpursuit.dictionaries.tiles import spans
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.loop import tied
from kernelpursuit.pursuit.shared_products import Products

_FAR_DOWN = 1e-8  # share of the loss without atoms at which foreseeing ends
MARGIN = {8: 1e-6, 4: 5e-4}  # by bytes of a product: scores that differ by less are computed from the atoms themselves
_LITTLE, _LEAST = 1e-3, 1e-8  # shares of a squared norm, of the best atom or of any, at which all are computed anew
_ROUNDING = 4  # times eps: rounding errors, which were up to 3 times what they are on average
_OF_WHOLE = 6, 128  # the same where products of whole atoms are kept, in float32 and float64: 4.7 and 130 at most
_EPS = float(np.finfo(np.float64).eps)
_DOUBTFUL = 0.05  # relative error of scores at which foreseeing ends
SAME = 0.75  # of the margin: how far scores may be from what they turn out to be
_AT_ONCE = 512  # atoms that are looked at themselves


class FoldPursuit:
    """A plain pursuit with the squared loss on one of the parts, without an array over the rows.

    On these rows V = W Lᵀ with W orthonormal. Atoms are known by their coordinates g along W, and by products of what
    is left of their small parts. A direction q is x along W and a combination of small parts, of which the products
    with all atoms are kept. Where W is the constant at most, products of whole directions are kept.

    Parameters
    ----------
    products : Products
    part : int
        Which of the parts.
    most : int
        Atoms to take.
    jointly : bool
        Whether scores divide by the norm outside the span (pre-fitting) or outside the constant (back-fitting).
    K : ndarray of shape (n, n)
        Kernel values of all rows, for scores that are too close to each other.
    """

    def __init__(
        self,
        products: Products,
        part: int,
        *,
        most: int,
        jointly: bool,
        K: np.ndarray,
    ):
        self._of, self._part, self._jointly, self._K = products, part, jointly, K
        out, rows, V = products.outside[part], products.parts[part], products.V
        r, (raw, small, along, of_targets) = V.shape[1], products.over(part)
        self._smooth = r > products.intercept
        self._rows, self._raw = rows, raw
        L = np.linalg.cholesky(np.eye(r) - V[out].T @ V[out])
        inverse = np.linalg.inv(L)  # which `well_spread` keeps well-conditioned
        N = inverse @ along  # small parts along W
        self._g, self._r = L.T @ np.take(products.C, rows, axis=1, mode="clip") + N, r
        self._small = np.maximum(small - np.einsum("ij,ij->j", N, N), 0.0)  # squared norms of small parts outside
        y = inverse @ (V[rows].T @ products.targets[rows])
        self._rv, self._yh = y, of_targets.T - y.T @ N  # residuals along W; products of small parts with targets
        self._energy = float(np.sum(products.targets[rows] ** 2))
        self._X, self._Y = np.zeros((most + 1, r)), np.zeros((most + 1, most + 1))  # Y: products of small parts
        # Of small parts with W, then of what W leaves of directions with what it leaves of the small parts of atoms.
        self._P = products.spare.take((r + most + 1, len(rows)), np.float64)
        self._P[:r], self._P[r] = N, 0.0
        self._lengths = np.zeros((most + 1, y.shape[1]))
        self._size = 0
        self._basis, self._spanned = Basis(np.empty((len(rows), 0))), list[int]()  # of the atoms themselves
        self.squared = self._small + np.einsum("ij,ij->j", self._g, self._g)  # squared norms outside the span
        self._a = y.T @ self._g + self._yh  # products of the residuals with atoms
        if products.intercept:
            self._basis.append(products.roots[rows])
            x = inverse @ (V[rows].T @ products.roots[rows])
            self._X[0] = x / np.linalg.norm(x)
            self._move(self._X[0] @ self._g, self._X[0] @ y)
        self._start = self.squared.copy()
        self._floor, self._eps = in_span_limit(self._raw) * self._raw, np.finfo(products.dtype).eps
        self._bar(self.squared <= self._floor)
        self._set_reference()
        self.first = self._energy

    def _bar(self, atoms: Any) -> None:
        """Never look at some atoms again: what scores divide by becomes infinite."""
        self.squared[atoms] = self._start[atoms] = np.inf

    def _set_reference(self) -> None:
        self._reference, self._least = self.squared.copy(), _LEAST * self.squared

    def _move(self, products: np.ndarray, lengths: np.ndarray) -> None:
        """Take out the last direction, given its products with the atoms and with the residuals."""
        self._lengths[self._size] = lengths
        self._rv = self._rv - self._X[self._size][:, None] * lengths
        self._energy -= float(lengths @ lengths)
        self._size += 1
        # In place, since the transpose is Fortran's: ten times as fast as NumPy's product of a column and a row.
        dger(-1.0, products, lengths, a=self._a.T, overwrite_a=True)
        np.multiply(products, products, out=products)
        self.squared -= products

    def best(self, margin: float, taken: list[int]) -> tuple[int, float]:
        """The atom that plain pursuit takes next, -1 where that cannot be told; and the relative error of its score."""
        scores = self._a[0] * self._a[0] if len(self._a) == 1 else np.einsum("ij,ij->j", self._a, self._a)
        scores /= self.squared if self._jointly else self._start
        best = int(scores.argmax())
        if not scores[best] > 0:
            return -1, 0.0
        if self._smooth and self.squared[best] < _LITTLE * self._reference[best]:
            self._renew()
            return self.best(margin, taken)
        margin = margin + self._rounding(best, float(scores[best]))
        if margin > _DOUBTFUL:
            return -1, margin
        close = scores >= scores[best] * (1 - margin)
        return best if np.count_nonzero(close) == 1 else self._closest(np.flatnonzero(close), taken), margin

    def _rounding(self, atom: int, score: float) -> float:
        """Relative error of a score: of products of small parts, of norms, and of what was taken off before."""
        squared = float(self.squared[atom])
        small, whole, before = self._small[atom] / squared, self._raw[atom] / squared, (self.first / score) ** 0.5
        of_small, of_whole = (_ROUNDING, _ROUNDING) if self._smooth else _OF_WHOLE
        return float(of_small * self._eps * small * before + of_whole * _EPS * (whole + whole**0.5 * before))

    def _closest(self, close: np.ndarray, taken: list[int]) -> int:
        """The best of atoms that are too close to each other, from the atoms themselves; the first of equal ones."""
        rows = self._rows
        close = close[np.sort(np.unique(self._of.twins[rows[close]], return_index=True)[1])]
        if len(close) == 1:
            return int(close[0])
        Q, r = self._span(taken).T, self._of.targets[rows]
        atoms = self._atoms_at(close).T
        raw = np.einsum("ij,ij->j", atoms, atoms)
        for _ in range(2):
            atoms, r = atoms - Q @ (Q.T @ atoms), r - Q @ (Q.T @ r)
        squared = np.einsum("ij,ij->j", atoms, atoms)
        scores = squared_rows(atoms.T @ r) / (squared if self._jointly else self._start[close])
        least = tie_tolerance(raw)
        tie = np.clip(least * raw / np.maximum(squared, np.finfo(float).tiny), least, WIDEST_TIE)
        return int(close[np.argmax(tied(scores, tie))])

    def _atoms_at(self, places: np.ndarray) -> np.ndarray:
        """Some of the atoms themselves, (len(places), n): entries of a row of the kernel matrix are read together."""
        rows = self._rows
        return np.array([self._K[row].take(rows) for row in rows[places]]) * self._of.roots[rows]

    def _span(self, taken: list[int]) -> np.ndarray:
        """Orthonormal directions, (size, n), that span the constant and the atoms taken."""
        fresh = np.array(taken[len(self._spanned) :], dtype=np.intp)
        self._spanned = list(taken)
        columns = self._atoms_at(fresh).T if len(fresh) else np.empty((len(self._rows), 0))
        while columns.shape[1] and (added := self._basis.extend(columns)):
            columns = columns[:, added:]
        return self._basis.directions

    def nothing_left(self, taken: list[int]) -> bool:
        """Whether all atoms lie in the span of those taken: from the atoms themselves, as plain pursuit decides it."""
        Q = self._span(taken)
        for some in spans(0, len(self._rows), _AT_ONCE):
            left = self._atoms_at(np.arange(some.start, some.stop))
            raw = squared_rows(left)
            left -= (left @ Q.T) @ Q
            if np.any(squared_rows(left) > in_span_limit(raw) * raw):
                return False
        return True

    def take(self, atom: int) -> float:
        """Take an atom. Returns what the loss, not divided by the rows, loses by it; 0 where nothing is left of it."""
        products, squared = (self._part_by_part if self._smooth else self._as_a_whole)(atom)
        if not squared > self._floor[atom]:
            return 0.0
        length = squared**0.5
        products /= length
        lengths = self._a[:, atom] / length
        self._move(products, lengths)
        self._bar(atom)
        if self._smooth and (self.squared < self._least).any():
            self._renew()
        if (spanned := self.squared <= self._floor).any():
            self._bar(spanned)
        return float(lengths @ lengths)

    def _left_of_small(self, atom: int, along: np.ndarray) -> np.ndarray:
        """Products of an atom's small part with all others, W and combinations `along` directions taken out."""
        P, row = self._P[: self._r + self._size], self._of.row(self._part, self._rows[atom])[self._rows]
        return row - np.concatenate([P[: self._r, atom], along]) @ P

    def _as_a_whole(self, atom: int) -> tuple[np.ndarray, float]:
        """Products of an atom outside the span with all, and its squared norm: where W is the constant at most."""
        products = self._left_of_small(atom, self._P[self._r : self._r + self._size, atom])
        squared = float(products[atom])
        np.divide(products, max(squared, np.finfo(float).tiny) ** 0.5, out=self._P[self._r + self._size])
        return products, squared

    def _part_by_part(self, atom: int) -> tuple[np.ndarray, float]:
        """The same where most of an atom may lie along W: that part has no rounding errors of the size of the atom."""
        k, g, place = self._size, self._g[:, atom].copy(), self._r + self._size
        X, Y, own = self._X[:k], self._Y[:k, :k], self._P[self._r : place, atom].copy()
        c = X @ g + own
        x = g - c @ X
        again = X @ x + own - Y @ c  # a second round
        c += again
        x -= again @ X
        inside = Y @ c
        outside = max(0.0, float(self._small[atom] - c @ (2 * own - inside)))
        squared = float(x @ x) + outside
        length = max(squared, np.finfo(float).tiny) ** 0.5
        small = self._left_of_small(atom, c)
        self._X[k] = x / length
        np.divide(small, length, out=self._P[place])
        self._Y[k, :k] = self._Y[:k, k] = (own - inside) / length
        self._Y[k, k] = outside / length**2
        small += x @ self._g
        return small, squared

    def _renew(self) -> None:
        """Compute all norms and products anew: they have lost digits by differences."""
        k = self._size
        P, X, Y = self._P[self._r : self._r + k], self._X[:k], self._Y[:k, :k]
        inside = X @ self._g
        inside += P
        outside = self._g - X.T @ inside
        small = self._small - np.einsum("ij,ij->j", 2 * P - Y @ inside, inside)
        squared = np.maximum(small, 0.0) + np.einsum("ij,ij->j", outside, outside)
        self.squared = np.where(np.isinf(self.squared), self.squared, squared)
        self._set_reference()
        self._a = self._rv.T @ self._g + self._yh - self._lengths[:k].T @ P

    def give_back(self) -> None:
        """The end: others may use the memory again."""
        self._of.spare.give_back(self._P)

    @property
    def far_down(self) -> bool:
        """Whether what is left of the loss is not known well."""
        return self._energy <= _FAR_DOWN * self.first


def foresee(
    products: Products,
    part: int,
    most: int,
    jointly: bool,
    K: np.ndarray,
) -> Foreseen:
    """The atoms that plain pursuit takes on one of the parts, as far as it can be told.

    Parameters
    ----------
    products : Products
    part, most, jointly, K
        As in `FoldPursuit`.

    Returns
    -------
    Foreseen
        Atoms by their places in the part.
    """
    margin = MARGIN[products.dtype.itemsize]
    run = FoldPursuit(products, part, most=most, jointly=jointly, K=K)
    atoms: list[int] = []
    gains: list[float] = []
    errors: list[float] = []
    over = False
    while len(atoms) < most and not run.far_down:
        atom, error = run.best(margin, atoms)
        gain = run.take(atom) if atom >= 0 else 0.0
        if gain == 0.0:
            over = atom < 0 and error == 0.0 and run.nothing_left(atoms)
            break
        atoms.append(atom)
        gains.append(gain / run.first)
        errors.append(SAME * error)
    run.give_back()
    return Foreseen(np.array(atoms, dtype=np.intp), np.array(gains), np.array(errors), over)
