"""Sparse kernel canonical correlation: atoms are objects, of which there are two kernel matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import (
    Array,
    eps,
    from_host,
    gather,
    in_span_limit,
    namespace,
    narrowest_tie,
    squared_norms,
    to_host,
)
from kernelpursuit.atoms.protocol import Dictionary, pieces
from kernelpursuit.criteria.base import Criterion
from kernelpursuit.math.basis import Basis
from kernelpursuit.math.cholesky import PartialCholesky, pivot_limit
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.pool_matrices import LowRankDifference, PoolSimulation, pairs_of_pieces
from kernelpursuit.pursuit.rounding import stale, tie_tolerances

DEFLATIONS = ("symmetric", "projection")


class DeflatedColumns(NamedTuple):
    """Some columns of a deflated kernel matrix K̃."""

    columns: Array  # (n, b)
    squared: np.ndarray  # (b,), their squared norms
    size: np.ndarray  # (b,), what is left of them: the diagonal of K̃, or their squared norms
    raw: np.ndarray  # (b,), their size in K
    norm: np.ndarray  # (b,), squared norms of the columns of K


class View(ABC):
    """A square kernel matrix K deflated by the atoms taken, K̃.

    Taking an atom with direction u changes column j of K̃ by −a_j u. The two kinds of deflation, `FeatureSpace` and
    `OutputSpace`, differ in the coefficients a, and in what counts as the size of a column. The directions of a block
    of atoms wait until their atoms are accepted: before that K̃ does not know of them.

    Parameters
    ----------
    dictionary : Dictionary

    Attributes
    ----------
    limit, norm_limit : float
        Shares of its first size, and of its first squared norm, below which a column lies in the span.
    """

    limit: float
    norm_limit: float
    _factor: PartialCholesky | Basis  # holds the directions

    def __init__(self, dictionary: Dictionary):
        self.D = dictionary
        self._like = dictionary.columns(np.array([0]))
        self._taken = 0  # directions in use; others may wait behind them

    @property
    @abstractmethod
    def _directions(self) -> Array:
        """Directions in use and waiting, one in each row."""

    @abstractmethod
    def deflate(self, J: np.ndarray) -> DeflatedColumns:
        """Columns `J` of K̃, from the definition."""

    @abstractmethod
    def extend(self, block: list[int]) -> int:
        """Compute the directions of the atoms of `block` in order, to wait. Returns how many directions there are.

        The block ends before the first atom that lies in the span of those before it.
        """

    @abstractmethod
    def products(self, own: Array, other: Array) -> tuple[np.ndarray, np.ndarray]:
        """K̃ᵀu and K̃ᵀv, (n, b) each, for the waiting directions u in `own` and as many v in `other`: one pass.

        For each pair K̃ is what it will be when its turn comes: all directions before u are accepted then.
        """

    def waiting(self, count: int) -> Array:
        """The first `count` directions that wait, (n, count)."""
        return self._directions[self._taken : self._taken + count, :].T

    def accept(self) -> None:
        """Take the direction that has waited longest out of K̃."""
        self._taken += 1

    def give_back(self) -> None:
        """Forget the directions that wait."""
        self._factor.truncate(self._taken)


class FeatureSpace(View):
    """Symmetric deflation K̃ ← K̃ − τ τᵀ / τ_i with τ = K̃ e_i, which keeps K̃ = K − U Uᵀ, U a partial Cholesky factor.

    The size of a column is the diagonal of K̃: the squared distance of the point to the span of the points taken.
    Directions are columns of U, u = τ / √τ_i, and the coefficients a are the entries of u.
    """

    _factor: PartialCholesky

    def __init__(self, dictionary: Dictionary):
        super().__init__(dictionary)
        self.limit = pivot_limit(eps(self._like))
        # Entries of K − UUᵀ are wrong by eps times those of K, and so are norms: three digits of a column are known.
        self.norm_limit = (1000 * eps(self._like)) ** 2
        self._factor = PartialCholesky(self._like)

    @property
    def _directions(self) -> Array:
        return self._factor.rows

    def _in_own_precision(self, x: Array) -> Array:
        return namespace(x).astype(x, self._like.dtype)

    def deflate(self, J: np.ndarray) -> DeflatedColumns:
        """Columns `J` of K − UUᵀ."""
        columns = self.D.columns(J)
        norm = squared = squared_norms(columns)
        raw = size = _diagonal(columns, J)
        if self._taken:
            left = self._factor.left(columns, J, self._taken)
            squared, size = squared_norms(left), _diagonal(left, J)
            columns = self._in_own_precision(left)
        return DeflatedColumns(columns, squared, size, raw, norm)

    def extend(self, block: list[int]) -> int:
        """Next columns of the Cholesky factor."""
        columns = self.D.columns(np.array(block))
        return len(self._factor.extend(columns, block, self.limit * _diagonal(columns, np.array(block))))

    def products(self, own: Array, other: Array) -> tuple[np.ndarray, np.ndarray]:
        """(K − UUᵀ)[own, other], U the columns before each of `own`."""
        b = own.shape[1]
        products = self.D.correlate(self._in_own_precision(namespace(own).concat([own, other], axis=1)))
        explained = [self._factor.explained(V, self._taken) for V in (own, other)]
        return products[:, :b] - explained[0], products[:, b:] - explained[1]


class OutputSpace(View):
    """Projection K̃ ← (I − τ τᵀ / τᵀτ) K̃ with τ = K̃ e_i, which keeps K̃ = (I − U Uᵀ) K, U orthonormal.

    The size of a column is its squared norm. Directions are unit vectors along τ, and the coefficients a are K̃ᵀu.
    """

    _factor: Basis

    def __init__(self, dictionary: Dictionary):
        super().__init__(dictionary)
        self.limit = self.norm_limit = in_span_limit(self._like)
        self._factor = Basis(self._like)

    @property
    def _directions(self) -> Array:
        return self._factor.directions

    def deflate(self, J: np.ndarray) -> DeflatedColumns:
        """Columns `J` of (I − UUᵀ) K."""
        columns = self.D.columns(J)
        norm = squared = squared_norms(columns)
        if self._taken:
            columns, _, _ = self._factor.complement(columns, np.zeros((len(J), 0)), rounds=1, size=self._taken)
            squared = squared_norms(columns)
        return DeflatedColumns(columns, squared, squared, norm, norm)

    def extend(self, block: list[int]) -> int:
        """Next directions of the basis."""
        return self._factor.extend(self.D.columns(np.array(block)))

    def products(self, own: Array, other: Array) -> tuple[np.ndarray, np.ndarray]:
        """Kᵀ[own, (I − UUᵀ) other], U the directions before each of `own`, to which `own` is orthogonal."""
        b = own.shape[1]
        U = self._factor.directions[: self._taken + b, :]
        other = other - U.T @ from_host(np.triu(to_host(U @ other), 1 - self._taken), U)
        products = self.D.correlate(namespace(own).concat([own, other], axis=1))
        return products[:, :b], products[:, b:]


class Moments(NamedTuple):
    """Numbers that the scores of some atoms are made of; rows are the views."""

    cross: np.ndarray  # (b,), χ = k̃ₓᵀ k̃ᵧ
    squared: np.ndarray  # (2, b), h = ‖k̃‖²
    size: np.ndarray  # (2, b), the diagonal of K̃, or h again
    raw: np.ndarray  # (2, b), their size in K
    norm: np.ndarray  # (2, b), ‖k‖²


class Changes(NamedTuple):
    """Changes of the two views by directions u and v; the first axis is the view, the last the direction."""

    lost: np.ndarray  # (2, n, b), a: column j of K̃ loses a_j u
    own: np.ndarray  # (2, n, b), K̃ₓᵀu and K̃ᵧᵀv
    other: np.ndarray  # (2, n, b), K̃ₓᵀv and K̃ᵧᵀu
    energy: np.ndarray  # (2, b), uᵀu and vᵀv
    inner: np.ndarray  # (b,), uᵀv


class CanonicalCorrelation(Criterion):
    """Criterion of sparse kernel CCA: the object whose two kernel columns are most alike.

    With k̃ₓ and k̃ᵧ columns i of the two deflated matrices, an atom is worth its correlation

        ρᵢ = k̃ₓᵀ k̃ᵧ / (‖k̃ₓ‖ ‖k̃ᵧ‖),

    or ``|ρᵢ|`` if not `signed`: its score. The loss of a step is 1 less the score of its atom. An atom of negative
    correlation is still an atom. Both matrices are deflated by the same object, in either of two ways (`FeatureSpace`,
    `OutputSpace`).

    *Why the update is exact.* Both deflations change columns by k̃ ← k̃ − a u, so that χ = k̃ₓᵀk̃ᵧ and h = ‖k̃‖² obey

        χ ← χ − aₓ (uₓᵀk̃ᵧ) − aᵧ (uᵧᵀk̃ₓ) + aₓ aᵧ uₓᵀuᵧ,    h ← h − 2 a (uᵀk̃) + a² uᵀu,

    for all atoms at one `correlate` of two vectors for each view and O(n k); memory is O(n k). No matrix is written.
    In a block of atoms K̃ is another one for each atom. But it differs by directions that are known before the pass, so
    that one `correlate` serves the whole block. The moments of an atom are computed from the definition again when h
    may have lost half of its digits.

    What is left of a column is known to eps times what the column was. Atoms are taken as long as three digits of that
    are known. So in float32, where little is left to explain, a correlation may be wrong by 0.005, and its certificate
    with it.

    Parameters
    ----------
    x, y : Dictionary
        Square kernel matrices of the same objects in the two views, (n, n). Symmetric and positive semi-definite for
        the symmetric deflation.
    deflation : {"symmetric", "projection"}
    signed : bool
        Whether negative correlations count as small, or as large as positive ones.

    References
    ----------
    Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, pursue
    >>> from kernelpursuit.pursuit import n_atoms
    >>> x, y = np.array([[0.0, 0.0, 3.0], [1.0, 2.0, 0.0]]).T, np.array([[0.1, 0.0, 1.0], [0.0, 5.0, 1.0]]).T
    >>> run = CanonicalCorrelation(DenseDictionary(x @ x.T), DenseDictionary(y @ y.T))
    >>> run.scores().round(3)
    array([0.044, 0.877, 0.371])
    >>> pursue(run, n_atoms(2)).atoms
    array([1, 2])
    """

    ends_early_in_float32 = True
    baseline = -2.0  # below all correlations, and far enough for ties that are relative to the distance from it

    def __init__(self, x: Dictionary, y: Dictionary, *, deflation: str = "symmetric", signed: bool = True):
        if deflation not in DEFLATIONS:
            raise ValueError(f"deflation must be one of {DEFLATIONS}, got {deflation!r}")
        if not x.shape[0] == x.shape[1] == y.shape[0] == y.shape[1]:
            raise ValueError(f"the two kernel matrices must be square and of one size, got {x.shape} and {y.shape}")
        self._symmetric = deflation == "symmetric"
        kind = FeatureSpace if self._symmetric else OutputSpace
        self._views: tuple[View, View] = (kind(x), kind(y))
        self._signed = signed
        like = x.columns(np.array([0]))
        self._eps, self._narrowest_tie = eps(like), narrowest_tie(like)
        self._limits = self._views[0].limit, self._views[0].norm_limit
        self._narrow = min(x, y, key=lambda dictionary: dictionary.tile)  # whose tiles both can hold
        n = x.shape[0]
        self.available = np.ones(n, dtype=bool)
        self.passes = 0.0
        self._running: Moments | None = None
        self._error = np.zeros((2, n))  # rounding error of h / ‖k‖² since it was last computed from the definition

    @property
    def tie_tolerance(self) -> Any:
        """Relative difference under which scores are equal; one for each atom where moments are kept up to date."""
        if self._running is None:
            return self._narrowest_tie
        share = self._share_left()
        error = self._narrowest_tie * (np.sqrt(share) + self._error / self._eps)
        return tie_tolerances(error, share, self.available, self._narrowest_tie).max(axis=0)

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return all(view.D.in_memory for view in self._views)

    def initial_step(self) -> Step:
        """State before the first atom: nothing is correlated yet."""
        return Step(atom=-1, loss=1.0)

    def moments(self, J: np.ndarray) -> Moments:
        """Definition of the running numbers of atoms `J`, from deflated columns."""
        x, y = (view.deflate(J) for view in self._views)
        squared, size, raw, norm = (np.stack(pair) for pair in zip(x[1:], y[1:], strict=True))
        if not np.all(np.isfinite(norm)):
            raise ValueError("the atoms overflow: scale X and Y, or change kernel or gamma")
        return Moments(_inner(x.columns, y.columns), squared, size, raw, norm)

    def running_moments(self, J: np.ndarray) -> Moments:
        """Running numbers of atoms `J`, see `moments`."""
        assert self._running is not None, "moments run from the first call of scores() on"
        return Moments(*(part[..., J] for part in self._running))

    @property
    def tracks_all_scores(self) -> bool:
        """Whether the score of every atom is known."""
        return self._running is not None

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Correlations; ``-inf`` for atoms in the span in either view."""
        indices = np.arange(len(self.available)) if J is None else np.asarray(J)
        if J is None and self._running is None:
            self._running = self._look_at(indices)
        moments = self._look_at(indices) if self._running is None else self.running_moments(indices)
        return correlation_scores(moments, self.available[indices], self._signed)

    def _prepare(self, block: list[int]) -> tuple[list[int], Changes | None]:
        count = min(view.extend(block) for view in self._views)
        return block[:count], self._changes(count)

    def _accept(self, prepared: Changes | None, index: int, atom: int, score: float) -> Step:
        self.available[atom] = False
        for view in self._views:
            view.accept()
        if prepared is not None:
            self._downdate(prepared, index)
        return Step(atom, score=score, loss=1 - score)

    def _give_back(self, prepared: Changes | None, taken: int) -> None:
        for view in self._views:
            view.give_back()

    def simulate(self, J: np.ndarray) -> CorrelationSimulation | None:
        """The choices of this criterion among atoms `J` alone."""
        if self._running is None:
            return None
        p = len(J)
        own, inside, cross = np.empty((2, p, p)), np.empty((2, p, p)), np.empty((p, p))

        def load(part: np.ndarray) -> list[Array]:
            return [view.deflate(part).columns for view in self._views]

        for one, two, mine, theirs in pairs_of_pieces(J, self._narrow.tile, len(self.available), load):
            for row in range(2):
                own[row, one, two] = to_host(mine[row].T @ theirs[row])
                own[row, two, one] = own[row, one, two].T
                if one == two:
                    inside[row, :, one] = to_host(gather(mine[row], J))
            cross[one, two] = to_host(mine[0].T @ theirs[1])
            cross[two, one] = to_host(theirs[0].T @ mine[1])
            del mine, theirs
        self.passes += p / len(self.available)
        diagonal, moments = inside if self._symmetric else None, self.running_moments(J)
        return CorrelationSimulation(own, diagonal, cross, moments, self._limits, self._signed)

    def _changes(self, count: int) -> Changes | None:
        """Changes of the moments of all atoms by the next `count` directions, where moments are kept: one pass."""
        if self._running is None or count == 0:
            return None
        u, v = (view.waiting(count) for view in self._views)
        (own_x, other_x), (own_y, other_y) = self._views[0].products(u, v), self._views[1].products(v, u)
        self.passes += 1
        own = np.stack([own_x, own_y])
        lost = np.stack([to_host(u), to_host(v)]) if self._symmetric else own
        return Changes(lost, own, np.stack([other_x, other_y]), np.stack([_inner(u, u), _inner(v, v)]), _inner(u, v))

    def _downdate(self, changes: Changes, index: int) -> None:
        """Update the moments of all atoms for one direction, and recompute those that lost half their digits."""
        assert self._running is not None
        cross, squared, size, *_ = self._running
        lost, own, other = changes.lost[:, :, index], changes.own[:, :, index], changes.other[:, :, index]
        cross += -lost[0] * other[1] - lost[1] * other[0] + changes.inner[index] * lost[0] * lost[1]
        squared += -2 * lost * own + changes.energy[:, index, None] * lost**2
        # Products with u are wrong by about eps ‖k‖ ‖u‖.
        norms = np.sqrt(np.where(self.available, self._running.norm, np.inf))
        self._error += 2 * self._eps * np.abs(lost) / norms * np.sqrt(changes.energy[:, index, None])
        size[:] = size - lost**2 if self._symmetric else squared
        self._refresh()
        self.available &= outside(self._running, *self._limits)

    def _refresh(self) -> None:
        """Recompute atoms from the definition where cancellation has eaten half the digits."""
        assert self._running is not None
        # The definition itself is wrong by eps ‖k‖ ‖k̃‖: errors of a few times that are no reason to go back to it.
        share = self._share_left()
        allowed = np.maximum(max(1e-7, np.sqrt(self._eps)) * share, 32 * self._eps * np.sqrt(share))
        lost = stale(allowed, np.where(self.available, self._error, 0))
        for J in pieces(self._narrow, lost):
            part = self.moments(J)
            for whole, piece in zip(self._running, part, strict=True):
                whole[..., J] = piece
            self._error[:, J] = 0
        self.passes += len(lost) / len(self.available)

    def _share_left(self) -> np.ndarray:
        """Share of ‖k‖² that is left of all atoms in both views, positive; 1 for atoms that are not available."""
        assert self._running is not None
        squared, norm = (np.where(self.available, part, 1.0) for part in (self._running.squared, self._running.norm))
        return np.maximum(squared / norm, self._limits[1])

    def _look_at(self, J: np.ndarray) -> Moments:
        """Moments of atoms `J` from the definition, tile by tile; those in the span are barred."""
        parts = []
        for tile in pieces(self._narrow, J):
            part = self.moments(tile)
            self.available[tile] &= outside(part, *self._limits)
            parts.append(part)
        self.passes += len(J) / len(self.available)
        return Moments(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


class CorrelationSimulation:
    """The choices of `CanonicalCorrelation` in a pool of atoms, given the inner products of their deflated columns.

    Each view is a `PoolSimulation`: of K̃ with the form K̃ᵀK̃ in the symmetric deflation, and of K̃ᵀK̃ in the other. With
    aₓ, oₓ = K̃ₓᵀu and fₓ = K̃ₓᵀv, the products between the views change by

        K̃ₓᵀK̃ᵧ ← K̃ₓᵀK̃ᵧ − aₓ (fᵧ − uᵀv aᵧ)ᵀ − fₓaᵧᵀ.

    Parameters
    ----------
    own : ndarray of shape (2, p, p)
        K̃ᵀK̃ of the pool in each view.
    inside : ndarray of shape (2, p, p), optional
        K̃ itself on the pool, for the symmetric deflation.
    cross : ndarray of shape (p, p)
        K̃ₓᵀK̃ᵧ.
    moments : Moments
        Diagonals of these, more exact.
    limits : tuple
        As of `outside`.
    signed : bool
    """

    def __init__(
        self,
        own: np.ndarray,
        inside: np.ndarray | None,
        cross: np.ndarray,
        moments: Moments,
        limits: tuple[float, float],
        signed: bool,
    ):
        self._views = [
            PoolSimulation(own[row], moments.squared[row])
            if inside is None
            else PoolSimulation(inside[row], moments.size[row], form=own[row], energy=moments.squared[row])
            for row in range(2)
        ]
        self._products, self._moments = LowRankDifference(cross), moments._replace(cross=moments.cross.copy())
        self._limits, self._signed = limits, signed

    def scores(self) -> np.ndarray:
        """Score of each atom of the pool."""
        return correlation_scores(self._moments, outside(self._moments, *self._limits), self._signed)

    def take(self, i: int) -> None:
        """Take atom `i` of the pool."""
        roots = np.sqrt([view.squared[i] for view in self._views])
        other = self._products.column(i) / roots[1], self._products.row(i) / roots[0]  # K̃ₓᵀv and K̃ᵧᵀu
        inner = self._moments.cross[i] / roots[0] / roots[1]
        lost = [view.take(i)[0] for view in self._views]
        self._products.subtract(lost[0], other[1] - inner * lost[1])
        self._products.subtract(other[0], lost[1])
        cross = self._moments.cross - lost[0] * other[1] - lost[1] * other[0] + inner * lost[0] * lost[1]
        size = np.stack([view.squared for view in self._views])
        squared = np.stack([view.squared if view.energy is None else view.energy for view in self._views])
        self._moments = self._moments._replace(cross=cross, squared=squared, size=size)


def outside(part: Moments, limit: float, norm_limit: float) -> np.ndarray:
    """Which atoms lie outside the span in both views: more than these shares are left of their sizes and norms."""
    return np.all((part.size > limit * part.raw) & (part.squared > norm_limit * part.norm), axis=0)


def correlation_scores(part: Moments, possible: np.ndarray, signed: bool) -> np.ndarray:
    """Cosines, or their absolute values; ``-inf`` for atoms not `possible`."""
    norms = np.sqrt(np.where(possible, part.squared, 1.0))
    rho = np.clip(part.cross / norms[0] / norms[1], -1, 1)
    return np.where(possible, rho if signed else np.abs(rho), -np.inf)


def _inner(x: Array, y: Array) -> np.ndarray:
    """Inner products of the columns of two matrices."""
    return to_host(namespace(x).sum(x * y, axis=0))


def _diagonal(columns: Array, J: np.ndarray) -> np.ndarray:
    """Entries of columns `J` of a square matrix on its diagonal."""
    return np.diagonal(to_host(gather(columns, J))).copy()
