"""Plain pursuits on parts of the same rows, without an estimator for each.

A pursuit reads the kernel matrix once for each step. Where several of them choose from the same atoms, each on some of
the rows (the folds of a search), they share a matrix of which a step reads a quarter as much: see `SplitKernel`. Scores
that are too close to each other for float32 are computed from the atoms themselves.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from kernelpursuit.arrays import WIDEST_TIE, in_span_limit, squared_rows, tie_tolerance
from kernelpursuit.atoms.dense import one_triangle
from kernelpursuit.atoms.tiles import spans
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.loop import tied
from kernelpursuit.search.split_kernel import SplitKernel

MARGIN = 1e-4  # scores that differ by less are computed from the atoms themselves
# Rounding errors of products, relative, in float32 and float64. They are a tenth of that mostly, and a half at most.
_SINGLE, _DOUBLE = (4 * float(np.finfo(dtype).eps) for dtype in (np.float32, np.float64))
_LITTLE = 1e-5  # share of a squared norm, of the best atom, at which all are computed anew
_NOTHING = 1e-26  # squared length of a direction whose products with the rest are not worth their while
_SMALL = 0.1  # squared length of what W leaves of a direction, from which on all are taken as they are
_NEAR = 0.5  # share of the best score: atoms of which less is told have none that is better
_DOUBTFUL = 0.05  # relative error of scores at which foreseeing ends
SAME = 0.75  # of the margin: how far scores may be from what they turn out to be
_UNKNOWN = 0.2  # relative error above which a score is not known at all
_LARGE = 5e-3  # relative error of some score from which those of each are looked at
_MANY = 64  # atoms that are too close to each other at one step: in narrow kernels all may be
_AT_ONCE = 512  # atoms that are looked at themselves
_WORTH_IT = 8  # steps for which what is left of all atoms is computed, at least: it takes as long as a hundred


class Fit(NamedTuple):
    """The fits after 0, 1, ... steps: atoms are Q R, targets have coordinates `lengths` along Q."""

    R: np.ndarray  # (size, size), diagonal positive
    lengths: np.ndarray  # (size, n_targets)
    energy: np.ndarray  # (n_targets,), squared norms of the targets without the constant


class FoldPursuit:
    """A plain pursuit with the squared loss on one of the parts.

    An atom is d = W g + e with W orthonormal, the smooth directions on these rows. A direction q is W x + q', and its
    product with the atom gᵀx + eᵀq': q' is small as long as atoms lie along W mostly, and so is its rounding error.
    After the first direction of which q' is not small, products are those with both parts of the kernel, L Lᵀq + Eᵀq.
    Pursuits share L, and V, of which W = V T for a small matrix T: they read less memory than if each had its own.

    Parameters
    ----------
    split : SplitKernel
    part : int
        Which of the parts.
    most : int
        Atoms to take.
    jointly : bool
        Whether scores divide by the norm outside the span (pre-fitting) or outside the constant (back-fitting).
    """

    def __init__(self, split: SplitKernel, part: int, *, most: int, jointly: bool):
        self._of, self._jointly = split, jointly
        where, self.places = split.places(part)
        rows = self._rows = split.order[where]
        self._roots = None if np.all(split.roots[rows] == 1) else split.roots[rows]
        self._twins = None if split.twins is None else split.twins[rows]
        squared_rest, along, of_targets = split.over(part, where)
        (V, self._L), y = split.smooth_on(where), split.targets[rows]
        factor = np.linalg.cholesky(V.T @ V)  # which `well_spread` keeps well-conditioned
        self._V, self._T = V, np.linalg.inv(factor).T
        of_rest, smooth = self._T.T @ along, np.take(split.C, rows, axis=1)
        self._g = factor.T @ smooth + of_rest
        self._small = np.maximum(squared_rest - np.einsum("ij,ij->j", of_rest, of_rest), 0.0)
        kept, self._given = split.products is not None, None
        self._part, self._where, self._of_rest, self._squared_rest = part, where, of_rest, squared_rest
        if not kept:
            self._rest, self._given = split.rest_of(where)
            self._times_rest = one_triangle(self._rest)
        self._residual = np.ascontiguousarray(y.T)
        self._a = (y.T @ V) @ smooth + of_targets  # products of the residuals with the atoms
        size, self.size = most + split.intercept, 0
        self._Q = split.spare.take((size, len(rows)), np.float64)
        # Of directions: coordinates along W, and products of what W leaves of them with the atoms. Of those from
        # `_plain` on: products with L, and with the rests.
        self._X, self._P = np.zeros((size, len(V.T))), np.empty((size, len(rows)), float if kept else np.float32)
        self._Z, self._plain = np.zeros((size, len(self._L.T))), size
        self._R, self._lengths = np.zeros((size, size)), np.zeros((size, len(self._residual)))
        self._raw = self._small + np.einsum("ij,ij->j", self._g, self._g)
        self._floor = in_span_limit(self._raw) * self._raw
        self._both = np.stack([self._raw, np.zeros(len(rows))])
        # Squared norms outside the span. And of errors, along what W leaves of directions: squared products, and
        # squared lengths of what steps took off the residuals.
        self.squared, self._doubt = self._both
        self._first = 0  # the first direction that counts in them; see `deflate`
        self._crowds, self._double = 0, 0.0
        self._left: np.ndarray | None = None
        self._expect_errors(squared_rest)
        if split.intercept:
            self._R[0, 0] = length = np.linalg.norm(split.roots[rows])
            constant = np.divide(split.roots[rows], length, out=self._Q[0])
            self._add(constant, self._residual @ constant, None)
        self._start, self._energy = self.squared.copy(), squared_rows(self._residual)
        self.first = float(np.sum(self._energy))
        self._bar(self.squared <= self._floor)

    def _expect_errors(self, squared_rest: np.ndarray) -> None:
        """No error was made so far. Those to come are in proportion to the rests that products are made of."""
        relative = _SINGLE if self._P.dtype == np.float32 else _DOUBLE
        self._errors, self._moved = relative * np.sqrt(squared_rest), 0.0
        self._settled = np.zeros(len(self._rows))
        self._per_error = np.maximum(2 / _UNKNOWN * self._errors, 1e-100) ** -2
        self._doubt[:] = 0.0
        self._reference, self._least = self.squared.copy(), _LITTLE * self.squared

    def deflate(self) -> bool:
        """Put what is left of all atoms in the place of the rests: as many digits are known of it as at first.

        The directions so far have no part in products with the next ones, which are orthogonal to them. False where it
        was done a few steps before, or where atoms cannot be told apart for other reasons, be it in double precision.
        """
        k, n, alike = self.size, len(self._rows), self._crowds > 1 or self._double > _DOUBTFUL
        if self._of.products is not None or alike or k - self._first < _WORTH_IT:
            return False
        Q, squared = self._Q[:k], np.empty(n)
        if self._left is None:
            self._left = self._of.spare.take((n, n), np.float32)
        for some in spans(0, n, _AT_ONCE):
            left = self._atoms_at(np.arange(some.start, some.stop))
            inside = Q @ left.T
            left -= inside.T @ Q
            self._P[:k, some], self._left[some] = inside, left
            squared[some], self._a[:, some] = squared_rows(left), self._residual @ left.T
        self._first, self._small = k, squared
        self._V, self._T, self._g = np.zeros((n, 0)), np.zeros((0, 0)), np.zeros((0, n))
        self._X, self._plain = np.zeros((len(self._X), 0)), len(self._X)
        self.squared[:] = np.where(np.isinf(self.squared), np.inf, squared)
        self._expect_errors(squared)
        self._bar(self.squared <= self._floor)
        return True

    def _bar(self, atoms: np.ndarray | int) -> None:
        """Never look at some atoms again: what scores divide by becomes infinite."""
        self.squared[atoms] = self._start[atoms] = np.inf

    def _renew(self) -> None:
        """Compute all norms anew: they have lost digits by differences."""
        some, n = slice(self._first, self.size), len(self._rows)
        if self._plain < self.size:  # split those directions as well
            plain, self._plain = slice(self._plain, self.size), self.size
            self._X[plain] = (self._Q[plain] @ self._V) @ self._T
            self._P[plain] -= self._X[plain] @ self._of_rest
        X, left = self._X[some], np.empty(n)
        small = self._Q[some] - (X @ self._T.T) @ self._V.T
        products = small @ small.T
        for columns in spans(0, n, _AT_ONCE):
            P, g = self._P[some, columns].astype(np.float64), self._g[:, columns]
            inside = X @ g + P
            outside = g - X.T @ inside
            of_small = self._small[columns] - np.einsum("ij,ij->j", 2 * P - products @ inside, inside)
            left[columns] = np.maximum(of_small, 0.0) + np.einsum("ij,ij->j", outside, outside)
        self.squared[:] = np.where(np.isinf(self.squared) | (self._settled > 0), self.squared, left)
        self._reference, self._least = self.squared.copy(), _LITTLE * self.squared

    def _add(self, q: np.ndarray, lengths: np.ndarray, atom: int | None) -> None:
        """Add a direction, of an atom unless it is the constant, given the lengths of the residuals along it."""
        k, self.size = self.size, self.size + 1
        self._lengths[k] = lengths
        # In place, since the transpose is Fortran's: ten times as fast as NumPy's product of a column and a row.
        dger(-1.0, q, lengths, a=self._residual.T, overwrite_a=True)
        if self.size == len(self._Q):  # no atom will be looked for
            return
        if k < self._plain:
            x = self._X[k] = (q @ self._V) @ self._T
            products = x @ self._g
            share = self._small_part(k, q, x, atom)
        else:
            v = q if self._roots is None else q * self._roots
            self._Z[k] = v @ self._L
            products, share = self._L @ self._Z[k], 1.0
            self._times_rest(v.astype(np.float32), self._P[k])
        products += self._P[k]
        dger(-1.0, products, lengths, a=self._a.T, overwrite_a=True)
        np.multiply(products, products, out=products)
        dger(-1.0, products, np.array([1.0, -share]), a=self._both.T, overwrite_a=True)
        self._moved += share * float(lengths @ lengths)

    def _small_part(self, k: int, q: np.ndarray, x: np.ndarray, atom: int | None) -> float:
        """Products of the rests with what W leaves of direction k. Returns the squared length of that, or a bound."""
        if self._left is not None:
            np.matmul(self._left, q.astype(np.float32), out=self._P[k])
            return 1.0
        if atom is not None and self._of.products is not None:
            return self._by_products(k, atom)
        small = q - self._V @ (self._T @ x)
        share = float(small @ small)
        if share <= _NOTHING:
            self._P[k] = 0.0
        elif self._of.products is None:
            self._plain = self.size if share > _SMALL else self._plain
            if self._roots is not None:
                small *= self._roots
            self._times_rest(small.astype(np.float32), self._P[k])
        else:  # of a constant of which W knows nothing, since the rows hardly count: no score is known
            self._P[k], self._moved = 0.0, np.inf
        return share

    def _by_products(self, k: int, atom: int) -> float:
        """The same for an atom from products that are kept. Its rest is at least as long as what W leaves."""
        row = self._of.product_row(self._part, self._where[atom])[self._where]
        row -= self._of_rest[:, atom] @ self._of_rest
        row -= self._R[:k, k] @ self._P[:k]
        np.divide(row, self._R[k, k], out=self._P[k])
        return float(self._squared_rest[atom] / self._R[k, k] ** 2)

    def best(self, margin: float) -> tuple[int, float]:
        """The atom that plain pursuit takes next, -1 where that cannot be told; and the relative error of its score."""
        scores = self._a[0] * self._a[0] if len(self._a) == 1 else np.einsum("ij,ij->j", self._a, self._a)
        scores /= self.squared if self._jointly else self._start
        best = int(scores.argmax())
        squared = self.squared[best]
        if squared < self._least[best] or squared <= self._floor[best]:
            if squared < self._least[best]:
                self._renew()
            self._bar(self.squared <= self._floor)
            return self.best(margin)
        if not scores[best] > 0:
            return -1, 0.0
        self._double = self._of_double(best, scores[best])
        error = self._largest_error(float(scores[best])) + self._double
        if error > _LARGE:
            return self._best_of_doubtful(scores, best, margin)
        close = scores >= scores[best] * (1 - margin - 2 * error)
        return best if np.count_nonzero(close) == 1 else self._closest(np.flatnonzero(close)), margin + error

    def _largest_error(self, score: float) -> float:
        """No relative error of a score is larger, but of those that are far below this one."""
        known = (self.squared if self._jointly else self._start) * self._per_error
        least = known.min()
        if not least > 0:
            return np.inf
        of_products = self._moved / (_NEAR * score * least)
        if not self._jointly:
            return _UNKNOWN * of_products**0.5
        known *= self.squared
        return _UNKNOWN * (of_products**0.5 + (self._doubt / known).max() ** 0.5)

    def _best_of_doubtful(self, scores: np.ndarray, best: int, margin: float) -> tuple[int, float]:
        """The best atom where some errors are large, each atom by its own."""
        unknown = self._unknown(float(scores[best]))
        if len(unknown) > _AT_ONCE:
            return -1, np.inf
        if len(unknown):
            self._settle(unknown)
            return self.best(margin)
        near = np.flatnonzero(scores >= _NEAR * scores[best])
        margins = margin + self._rounding(near, scores[near])
        margin = float(margins[np.searchsorted(near, best)])
        if margin > _DOUBTFUL:
            return -1, margin
        close = near[scores[near] * (1 + margins) >= scores[best] * (1 - margin)]
        return best if len(close) == 1 else self._closest(close), margin

    def _rounding(self, atoms: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Relative errors of scores: of products with the residuals, and of norms where they divide by these."""
        squared, rest = self.squared[atoms], self._errors[atoms]
        divided = squared if self._jointly else self._start[atoms]
        of_single = rest * np.sqrt((self._moved - self._settled[atoms]) / (scores * divided))
        if self._jointly:
            of_single += rest * np.sqrt(self._doubt[atoms]) / squared
        return 2 * of_single + self._of_double(atoms, scores)

    def _of_double(self, atoms: Any, scores: Any) -> Any:
        """What float64 has in these errors: digits that norms lost by differences since they were new, and products."""
        squared = self.squared[atoms]
        divided = squared if self._jointly else self._start[atoms]
        of_norms = self._reference[atoms] / squared if self._jointly else 0.0
        return _DOUBLE * (of_norms + (self._raw[atoms] * self.first / (divided * scores)) ** 0.5)

    def _unknown(self, score: float) -> np.ndarray:
        """Atoms of which so little is left that no digit of their scores is known, beside one that is so high."""
        known = (self.squared if self._jointly else self._start) * self._per_error
        unknown = known * score < self._moved - self._settled
        if self._jointly:
            unknown |= known * self.squared < self._doubt
        return np.flatnonzero(unknown)

    def _settle(self, atoms: np.ndarray) -> None:
        """Norms and products with the residuals of some atoms from themselves."""
        left = self._left_of(self._atoms_at(atoms))
        self.squared[atoms], self._a[:, atoms] = squared_rows(left), self._residual @ left.T
        self._doubt[atoms], self._settled[atoms] = 0.0, self._moved
        self._reference[atoms], self._least[atoms] = self.squared[atoms], _LITTLE * self.squared[atoms]
        self._bar(self.squared <= self._floor)

    def _left_of(self, atoms: np.ndarray) -> np.ndarray:
        """Atoms outside the span."""
        Q = self._Q[: self.size]
        for _ in range(2):
            atoms = atoms - (atoms @ Q.T) @ Q
        return atoms

    def _closest(self, close: np.ndarray) -> int:
        """The best of atoms that are too close to each other, from the atoms themselves; the first of equal ones.

        -1 where there are many for the second time: a fit takes less time then. Once they are where all atoms that are
        left point the same way, and with the next one nothing is left.
        """
        close = close[np.argsort(self.places[close])]
        if self._twins is not None:
            close = close[np.sort(np.unique(self._twins[close], return_index=True)[1])]
        if len(close) == 1:
            return int(close[0])
        self._crowds += len(close) > _MANY
        if self._crowds > 1:
            return -1
        atoms = self._atoms_at(close)
        raw, atoms = squared_rows(atoms), self._left_of(atoms)
        squared = squared_rows(atoms) if self._jointly else self._start[close]
        scores = squared_rows(atoms @ self._residual.T) / squared
        least = tie_tolerance(self._residual)
        tie = np.clip(least * raw / np.maximum(squared, np.finfo(float).tiny), least, WIDEST_TIE)
        return int(close[np.argmax(tied(scores, tie))])

    def _atoms_at(self, atoms: np.ndarray) -> np.ndarray:
        """Some of the atoms themselves, (len(atoms), n)."""
        values = self._of.values(self._rows[atoms], slice(None)).take(self._rows, axis=1)
        return values if self._roots is None else values * self._roots

    def nothing_left(self) -> bool:
        """Whether all atoms lie in the span of those taken: from the atoms themselves, as plain pursuit decides it."""
        Q = self._Q[: self.size]
        for some in spans(0, len(self._rows), _AT_ONCE):
            left = self._atoms_at(np.arange(some.start, some.stop))
            raw = squared_rows(left)
            left -= (left @ Q.T) @ Q
            if np.any(squared_rows(left) > in_span_limit(raw) * raw):
                return False
        return True

    def take(self, atom: int, error: float) -> float:
        """Take an atom. Returns what the loss, not divided by the rows, loses by it.

        0 where nothing is left of it, or where that is not what its score says, but for an `error`.
        """
        column, Q, k = self._atoms_at(np.array([atom]))[0], self._Q[: self.size], self.size
        inside = self._X[:k] @ self._g[:, atom] + self._P[:k, atom]  # to as many digits as are known
        if self._plain < k:
            inside[self._plain :] += self._Z[self._plain : k] @ self._L[atom]
        column -= inside @ Q
        again = Q @ column
        column -= again @ Q
        squared = float(column @ column)
        if not squared > self._floor[atom]:
            return 0.0
        q = np.divide(column, squared**0.5, out=self._Q[k])
        lengths, foretold = self._residual @ q, self._a[:, atom]
        gain = float(lengths @ lengths)
        said = float(foretold @ foretold) / (float(self.squared[atom]) if self._jointly else squared)
        if not abs(said - gain) <= error * gain:
            return 0.0
        self._R[:k, k], self._R[k, k] = inside + again, squared**0.5
        self._add(q, lengths, atom)
        self._bar(atom if self._twins is None else np.flatnonzero(self._twins == self._twins[atom]))
        return gain

    def give_back(self) -> None:
        """The end: others may use the memory again."""
        arrays = self._Q, self._left, self._given
        self._of.spare.give_back(*(array for array in arrays if array is not None))

    @property
    def fit(self) -> Fit:
        """The fits of all steps."""
        return Fit(self._R[: self.size, : self.size], self._lengths[: self.size], self._energy)


def foresee(
    split: SplitKernel, part: int, most: int, jointly: bool, turn: AbstractContextManager | None = None
) -> tuple[Foreseen, Fit]:
    """The atoms that plain pursuit takes on one of the parts, as far as it can be told, and the fits by them.

    Parameters
    ----------
    split : SplitKernel
    part, most, jointly
        As in `FoldPursuit`.
    turn : context manager, optional
        Held while steps are taken.

    Returns
    -------
    Foreseen
        Atoms by their places in the part.
    Fit
    """
    run = FoldPursuit(split, part, most=most, jointly=jointly)
    atoms: list[int] = []
    gains: list[float] = []
    errors: list[float] = []
    over = False
    # Scores divide by the norms of atoms that turn out to be in the span.
    with turn or nullcontext(), np.errstate(divide="ignore", invalid="ignore"):
        while len(atoms) < most:
            atom, error = run.best(MARGIN)
            gain = run.take(atom, error) if atom >= 0 else 0.0
            if gain == 0.0:
                if (atom >= 0 or error > 0) and run.deflate():
                    continue
                over = atom < 0 and error == 0.0 and run.nothing_left()
                break
            atoms.append(int(run.places[atom]))
            gains.append(gain / run.first)
            errors.append(SAME * error)
    run.give_back()
    return Foreseen(np.array(atoms, dtype=np.intp), np.array(gains), np.array(errors), over), run.fit
