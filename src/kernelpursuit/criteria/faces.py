"""Polytope faces pursuit: a walk along the faces of the polar polytope that releases atoms whose sign turns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import (
    WIDEST_TIE,
    Array,
    eps,
    from_host,
    in_double,
    namespace,
    narrowest_tie,
    squared_norms,
    to_host,
)
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.criteria.base import OrthogonalCriterion
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Deflated, Direction
from kernelpursuit.pursuit.loop import Step


class Stage(NamedTuple):
    """Model after some step: with releases a later model does not contain an earlier one."""

    atoms: tuple[int, ...]  # active, in the order taken
    coef: np.ndarray  # (1 + k,), the intercept first


class Faces(OrthogonalCriterion):
    """Criterion of polytope faces pursuit, a greedy walk towards min ‖α‖₁ subject to Kα = y.

    The dual program is max yᵀc over the polytope ``|kᵢᵀc| <= 1``, one pair of faces for each atom. With A the active
    atoms times their signs σ, the fit is α = A⁺y, the residual r = y - Aα, and c = (A⁺)ᵀ1 the smallest vector on all
    active faces, Aᵀc = 1. The walk goes from c along r, and meets face i after ``(1 - σᵢ kᵢᵀc) / |kᵢᵀr|``, with σᵢ the
    sign of kᵢᵀr. The first face met is the one with the largest score::

        |kᵢᵀr| / (1 - σᵢ kᵢᵀc)

    Its atom joins. With `release`, atoms whose α has turned against their sign then leave, the most negative first, and
    so do atoms whose α is zero to rounding error. An atom that leaves in the step in which it came is not taken again
    with that sign until another one leaves.

    With q the new direction, ρ its length, p = Kᵀq, e = qᵀr and z = (1 - σ kᵀc) / ρ the update is exact::

        r -= e q,   c += σ z q,   Kᵀr -= e p,   Kᵀc += σ z p

    at one ``correlate`` for each atom, and another one after a release, when the columns left are factored anew.

    Parameters
    ----------
    dictionary : Dictionary
        The atoms, (n_samples, n_atoms).
    y : array of shape (n_samples,)
        In sample space.
    release : bool
        Whether atoms with a negative weight leave. If not, the fit is least squares on the atoms chosen.
    guard : bool
        Whether a face that c has already crossed is taken at once (score infinity). If not, it is never taken.
    intercept : bool
        Whether a constant is in the span from the start. It has no face and never leaves.
    weights : array of shape (n_samples,), optional
        Positive weights of the rows: one of weight w counts as w rows in every inner product.

    Attributes
    ----------
    theta : list of float
        max ``|kᵢᵀr|`` over the atoms not active, at the start and after each step.
    stages : list of Stage
        The model at the start and after each step.
    active : list of int
        Atoms of the last one.
    scale : float
        ‖y‖ max‖kᵢ‖, the constant removed from both: what a threshold for `theta` is relative to.
    floor : float
        Rounding error of `theta`.

    References
    ----------
    Plumbley, Recovery of sparse representations by polytope faces pursuit, ICA 2006.
    Diethe and Hussain, Kernel polytope faces pursuit, ECML PKDD 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, pursue
    >>> from kernelpursuit.pursuit import n_atoms
    >>> K = np.array([[1.0, 0.0, 0.8], [0.0, 1.0, 0.8]])
    >>> run = Faces(DenseDictionary(K), np.array([1.0, 0.2]), intercept=False)
    >>> path = pursue(run, n_atoms(2))
    >>> [(step.atom, step.released) for step in path.steps]
    [(0, ()), (2, ())]
    >>> run.stages[-1].coef
    array([0.  , 0.8 , 0.25])
    """

    _running_products: np.ndarray  # (n_atoms, 2), products of all atoms with r and c

    def __init__(
        self,
        dictionary: Dictionary,
        y: Array,
        *,
        release: bool = True,
        guard: bool = False,
        intercept: bool = True,
        weights: Array | None = None,
    ):
        if y.ndim != 1:
            raise ValueError(f"y must have one dimension: faces pursuit fits one target, got shape {tuple(y.shape)}")
        self.deflation = Deflation(dictionary, y[:, None], intercept=intercept, weights=weights)
        self._y = self.deflation.scale_rows(in_double(y[:, None]))
        self._release, self._guard = release, guard
        self._close = narrowest_tie(y)
        self.active: list[int] = []
        self._signs: list[float] = []
        self._banned: set[tuple[int, float]] = set()
        self._V: Array  # r and c, (n_samples, 2)
        self._coordinates: np.ndarray  # of y and c along the directions, (k, 2), the constant first
        self._possible = self.deflation.available.copy()
        self._restart()
        self._running_products = self.deflation.measure_exactly(self._products)  # products of all atoms with r and c
        self._possible = self.deflation.available.copy()
        self._noise = 16 * eps(y) * float(np.sqrt(squared_norms(self._y)[0])) * np.sqrt(self.deflation.norms.raw)
        longest = np.sqrt(squared_norms(self._V[:, :1])[0]) * np.sqrt(np.max(self.deflation.norms.centred, initial=0))
        self.scale = self.deflation.unit * float(longest)
        self.floor = self.deflation.unit * float(np.max(self._noise, initial=0))
        self.theta: list[float] = []
        self.stages: list[Stage] = []
        self._refreshed_at = self._loss()
        self._record()

    @property
    def tie_tolerance(self) -> np.ndarray:
        """Relative uncertainty of each score: numerator and denominator may both be differences of larger numbers."""
        g, omega, gap = self._face()
        lost = (1 + np.abs(omega)) / np.maximum(np.abs(gap), self._close)
        ties = self._close * lost + self._noise / np.maximum(np.abs(g), np.maximum(self._noise, np.finfo(float).tiny))
        return np.clip(ties, self._close, max(self._close, WIDEST_TIE))

    def moments(self, J: np.ndarray) -> np.ndarray:
        """Definition of the running numbers of atoms `J`: kᵀr and kᵀc, (len(J), 2)."""
        return to_host(self.deflation.columns(J).T @ self._V)

    def running_moments(self, J: np.ndarray) -> np.ndarray:
        """Running numbers of atoms `J`, see `moments`."""
        return self._running_products[J]

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores; ``-inf`` for atoms active, in the span, banned, or beyond their face."""
        g, omega, gap = self._face()
        met = np.abs(gap) <= self._close * (1 + np.abs(omega))
        ratio = np.abs(g) / np.where(met | (gap < 0), 1.0, gap)
        ratio = np.where(met, np.inf, np.where(gap < 0, np.inf if self._guard else -np.inf, ratio))
        barred = ~self.available | ~(np.abs(g) > self._noise)
        for atom, sign in self._banned:
            barred[atom] |= _sign(g[atom]) == sign
        scores = np.where(barred, -np.inf, ratio)
        return scores if J is None else scores[J]

    def _prepare(self, block: list[int]) -> tuple[list[int], tuple[list[Direction], None]]:
        return self._prepare_first(block)  # a release changes what the next one would add

    def _accept(self, prepared: tuple[list[Direction], None], index: int, atom: int, score: float) -> Step:
        length = self._add(prepared[0][index])
        before = self.active
        released = self._negative() if self._release else []
        if released:
            released += self._restart(unchanged=sum(a == b for a, b in zip(before, self.active, strict=False)))
            self._refresh()
        self._record()
        weight = (length * float(np.sqrt(self.deflation.unit)),)
        return Step(atom, score * self.deflation.unit, loss=self._loss(), weight=weight, released=tuple(released))

    def _face(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """kᵀr, kᵀc and 1 - σkᵀc of all atoms."""
        g, omega = self._running_products[:, 0], self._running_products[:, 1]
        return g, omega, 1 - _sign(g) * omega

    def _products(self, part: Deflated) -> np.ndarray:
        return part.products(self._V, np.zeros((0, 2)))

    def _add(self, direction: Direction) -> float:
        """Move r and c by the direction that an atom adds; returns the length for r."""
        atom, q, R = direction.atom, direction.sample, self.deflation.basis.R
        sign = float(_sign(self._running_products[atom, 0]))
        e = float(to_host(q @ self._V[:, 0]))
        z = (sign - float(R[:-1, -1] @ self._coordinates[:, 1])) / float(R[-1, -1])
        move = np.array([[-e, z]])
        self._V = self._V + q[:, None] * from_host(move, self._V)
        self._running_products = self._running_products + self.deflation.correlate(q[:, None], np.zeros((0, 1))) * move
        self._coordinates = np.concatenate([self._coordinates, [[e, z]]])
        self.deflation.choose(atom)
        self.active.append(atom)
        self._signs.append(sign)
        if self._lost_digits(self._loss()):
            self._refresh()
        return e

    def _negative(self) -> list[int]:
        """Release atoms without a positive weight, the most negative first, refitting the others after each."""
        R, target, offset = self.deflation.basis.R, self._coordinates[:, 0], int(self.deflation.intercept)
        newest, released = self.active[-1], []
        kept = np.arange(len(self.active))
        while len(kept):
            columns = np.concatenate([np.arange(offset), offset + kept])
            Q, triangle = np.linalg.qr(R[:, columns])
            weights = solve_triangular(triangle, Q.T @ target)[offset:] * np.array(self._signs)[kept]
            zero = self._close * np.abs(weights).max()
            if weights.min() > zero:
                break
            j = int(np.argmax(weights <= weights.min() + zero))
            atom, sign = self.active[kept[j]], self._signs[kept[j]]
            if atom == newest:
                self._banned.add((atom, sign))
            else:
                self._banned.clear()
            released.append(atom)
            kept = np.delete(kept, j)
        self.active, self._signs = [self.active[i] for i in kept], [self._signs[i] for i in kept]
        return released

    def _restart(self, unchanged: int = 0) -> list[int]:
        """Factor the active columns behind the first `unchanged` anew, and set r and c.

        Returns atoms that turn out to lie in the span of others.
        """
        basis, signs = self.deflation.basis, dict(zip(self.active, self._signs, strict=True))
        basis.truncate(int(self.deflation.intercept) + unchanged)
        self.deflation.available[:] = self._possible
        kept, waiting = self.active[:unchanged], self.active[unchanged:]
        while waiting:
            taken = len(self.deflation.extend(waiting))
            kept, waiting = kept + waiting[:taken], waiting[max(1, taken) :]
        self.active, self._signs = kept, [signs[atom] for atom in kept]
        self.deflation.available[self.active] = False
        r, _, inside = basis.complement(self._y, np.zeros((1, 0)))
        faces = np.concatenate([np.zeros(int(self.deflation.intercept)), self._signs])
        along = solve_triangular(basis.R, faces, trans="T") if basis.size else np.zeros(0)
        c = basis.directions.T @ from_host(along[:, None], self._y)
        self._coordinates = np.column_stack([inside[:, 0], along])
        self._V = namespace(self._y).concat([r, c], axis=1)
        dropped = [atom for atom in signs if atom not in self.active]
        self.deflation.available[dropped] = False
        return dropped

    def _record(self) -> None:
        """Append the present theta and model to `theta` and `stages`."""
        outside = np.ones(len(self._running_products), dtype=bool)
        outside[self.active] = False
        self.theta.append(self.deflation.unit * float(np.max(np.abs(self._running_products[outside, 0]), initial=0)))
        basis = self.deflation.basis
        coef = solve_triangular(basis.R, self._coordinates[:, 0]) if basis.size else np.zeros(0)
        if not self.deflation.intercept:
            coef = np.concatenate([[0.0], coef])
        self.stages.append(Stage(tuple(self.active), coef))

    def _refresh(self) -> None:
        """Products of all atoms with r and c from their definition."""
        self._refreshed_at = self._loss()
        self._running_products = self.deflation.correlate(self._V, np.zeros((0, 2)))

    def _loss(self) -> float:
        return float(squared_norms(self._V[:, :1])[0] / self.deflation.total_weight)


def _sign(values: Any) -> Any:
    """1 for positive values, -1 for others."""
    return np.where(values > 0, 1.0, -1.0)
