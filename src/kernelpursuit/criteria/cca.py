"""Sparse kernel canonical correlation: one index for two kernel matrices of the same objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, eps, gather, namespace, tie_tolerance, to_host
from kernelpursuit.atoms.protocol import Dictionary, pieces, sweep
from kernelpursuit.criteria.base import Taking
from kernelpursuit.criteria.deflated_kernels import FeatureSpace, OutputSpace, View
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.rehearsal_matrices import Downdated, pairs
from kernelpursuit.pursuit.rounding import stale, ties

DEFLATIONS = ("symmetric", "projection")


class Moments(NamedTuple):
    """What the scores are made of, for some atoms; rows are the views."""

    cross: np.ndarray  # (b,), χ = k̃ₓᵀ k̃ᵧ
    squared: np.ndarray  # (2, b), h = ‖k̃‖²
    size: np.ndarray  # (2, b), the diagonal of K̃, or h again
    raw: np.ndarray  # (2, b), the same of K
    norm: np.ndarray  # (2, b), ‖k‖²


class Changes(NamedTuple):
    """What directions u and v change in the two views; the first axis is the view, the last the direction."""

    lost: np.ndarray  # (2, n, b), a: column j of K̃ loses a_j u
    own: np.ndarray  # (2, n, b), K̃ₓᵀu and K̃ᵧᵀv
    other: np.ndarray  # (2, n, b), K̃ₓᵀv and K̃ᵧᵀu
    energy: np.ndarray  # (2, b), uᵀu and vᵀv
    inner: np.ndarray  # (b,), uᵀv


class CanonicalCorrelation(Taking):
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

    origin = -2.0  # below all correlations, and far enough for ties that are relative to the distance from it

    def __init__(self, x: Dictionary, y: Dictionary, *, deflation: str = "symmetric", signed: bool = True):
        if deflation not in DEFLATIONS:
            raise ValueError(f"deflation must be one of {DEFLATIONS}, got {deflation!r}")
        if not x.shape[0] == x.shape[1] == y.shape[0] == y.shape[1]:
            raise ValueError(f"the two kernel matrices must be square and of one size, got {x.shape} and {y.shape}")
        kind = FeatureSpace if deflation == "symmetric" else OutputSpace
        self._views: tuple[View, View] = (kind(x), kind(y))
        self._signed = signed
        like = x.columns(np.array([0]))
        self._eps, self._tie = eps(like), tie_tolerance(like)
        self._limits = self._views[0].limit, self._views[0].norm_limit
        self._narrow = min(x, y, key=lambda dictionary: dictionary.tile)  # whose tiles both can hold
        n = x.shape[0]
        self.alive = np.ones(n, dtype=bool)
        self.passes = 0.0
        self._running: Moments | None = None
        self._error = np.zeros((2, n))  # rounding error of h / ‖k‖² since it was last computed from the definition

    @property
    def tie(self) -> Any:
        """Relative difference under which scores are equal; one for each atom where moments are kept up to date."""
        if self._running is None:
            return self._tie
        share = self._share_left()
        return ties(self._tie * (np.sqrt(share) + self._error / self._eps), share, self.alive, self._tie).max(axis=0)

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return all(view.D.in_memory for view in self._views)

    def start(self) -> Step:
        """State before the first atom: nothing is correlated yet."""
        return Step(atom=-1, loss=1.0)

    def moments(self, J: np.ndarray) -> Moments:
        """Definition of the running quantities of atoms `J`, from deflated columns."""
        x, y = (view.deflate(J) for view in self._views)
        squared, size, raw, norm = (np.stack(pair) for pair in zip(x[1:], y[1:], strict=True))
        if not np.all(np.isfinite(norm)):
            raise ValueError("the atoms overflow: scale X and Y, or change kernel or gamma")
        return Moments(_inner(x.columns, y.columns), squared, size, raw, norm)

    def running_moments(self, J: np.ndarray) -> Moments:
        """The same as they are kept up to date."""
        assert self._running is not None, "moments run from the first call of scores() on"
        return Moments(*(part[..., J] for part in self._running))

    @property
    def follows(self) -> bool:
        """Whether the score of every atom is known."""
        return self._running is not None

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Correlations; ``-inf`` for atoms in the span in either view."""
        if J is None and self._running is None:
            self._sweep()
        indices = np.arange(len(self.alive)) if J is None else np.asarray(J)
        if self._running is None:
            parts = [self._look(tile) for tile in pieces(self._narrow, indices)]
            self.passes += len(indices) / len(self.alive)
            moments = Moments(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))
        else:
            moments = self.running_moments(indices)
        return correlation_scores(moments, self.alive[indices], self._signed)

    def _prepare(self, block: list[int]) -> tuple[list[int], Changes | None]:
        count = min(view.extend(block) for view in self._views)
        return block[:count], self._changes(count)

    def _accept(self, waiting: Changes | None, place: int, atom: int, score: float) -> Step:
        self.alive[atom] = False
        for view in self._views:
            view.accept()
        if waiting is not None:
            self._downdate(waiting, place)
        return Step(atom, score=score, loss=1 - score)

    def _give_back(self, waiting: Changes | None, taken: int) -> None:
        for view in self._views:
            view.give_back()

    def rehearse(self, J: np.ndarray) -> CorrelationRehearsal | None:
        """The criterion on atoms `J` alone."""
        if self._running is None:
            return None
        p = len(J)
        own, inside, cross = np.empty((2, p, p)), np.empty((2, p, p)), np.empty((p, p))

        def load(part: np.ndarray) -> list[Array]:
            return [view.deflate(part).columns for view in self._views]

        for one, two, mine, theirs in pairs(J, self._narrow.tile, len(self.alive), load):
            for row in range(2):
                own[row, one, two] = to_host(mine[row].T @ theirs[row])
                own[row, two, one] = own[row, one, two].T
                if one == two:
                    inside[row, :, one] = to_host(gather(mine[row], J))
            cross[one, two] = to_host(mine[0].T @ theirs[1])
            cross[two, one] = to_host(theirs[0].T @ mine[1])
            del mine, theirs
        self.passes += p / len(self.alive)
        return CorrelationRehearsal(
            own,
            inside if isinstance(self._views[0], FeatureSpace) else None,
            cross,
            self.running_moments(J),
            limits=self._limits,
            signed=self._signed,
        )

    def _changes(self, count: int) -> Changes | None:
        """What the next `count` directions change in the moments of all atoms, where those are kept: one pass."""
        if self._running is None or count == 0:
            return None
        u, v = (view.waiting(count) for view in self._views)
        (own_x, other_x), (own_y, other_y) = self._views[0].products(u, v), self._views[1].products(v, u)
        self.passes += 1
        own = np.stack([own_x, own_y])
        lost = np.stack([view.coefficients(w, part) for view, w, part in zip(self._views, (u, v), own, strict=True)])
        return Changes(lost, own, np.stack([other_x, other_y]), np.stack([_inner(u, u), _inner(v, v)]), _inner(u, v))

    def _downdate(self, changes: Changes, place: int) -> None:
        """Update the moments of all atoms for one direction, and recompute those that lost half their digits."""
        assert self._running is not None
        cross, squared, size, *_ = self._running
        lost, own, other = changes.lost[:, :, place], changes.own[:, :, place], changes.other[:, :, place]
        cross += -lost[0] * other[1] - lost[1] * other[0] + changes.inner[place] * lost[0] * lost[1]
        squared += -2 * lost * own + changes.energy[:, place, None] * lost**2
        # Products with u are wrong by about eps ‖k‖ ‖u‖.
        norms = np.sqrt(np.where(self.alive, self._running.norm, np.inf))
        self._error += 2 * self._eps * np.abs(lost) / norms * np.sqrt(changes.energy[:, place, None])
        for row, view in enumerate(self._views):
            size[row] = view.shrink(size[row], lost[row], squared[row])
        self._refresh()
        self._bar(np.arange(len(self.alive)), self._running)

    def _refresh(self) -> None:
        """Recompute atoms from the definition where cancellation has eaten half the digits."""
        assert self._running is not None
        # The definition itself is wrong by eps ‖k‖ ‖k̃‖: errors of a few times that are no reason to go back to it.
        share = self._share_left()
        allowed = np.maximum(max(1e-7, np.sqrt(self._eps)) * share, 32 * self._eps * np.sqrt(share))
        lost = stale(allowed, np.where(self.alive, self._error, 0))
        for J in pieces(self._narrow, lost):
            part = self.moments(J)
            for whole, piece in zip(self._running, part, strict=True):
                whole[..., J] = piece
            self._error[:, J] = 0
        self.passes += len(lost) / len(self.alive)

    def _share_left(self) -> np.ndarray:
        """Share of ‖k‖² that is left of all atoms in both views, positive; 1 for atoms that are not alive."""
        assert self._running is not None
        squared, norm = (np.where(self.alive, part, 1.0) for part in (self._running.squared, self._running.norm))
        return np.maximum(squared / norm, self._limits[1])

    def _look(self, J: np.ndarray) -> Moments:
        """Moments of atoms `J` from the definition; those in the span are barred."""
        part = self.moments(J)
        self._bar(J, part)
        return part

    def _sweep(self) -> None:
        """Make the running moments of all atoms, in one pass."""

        def tile(J: np.ndarray) -> tuple[np.ndarray, ...]:
            part = self._look(J)
            return tuple(field.T for field in part)

        self._running = Moments(*(field.T.copy() for field in sweep(self._narrow, tile)))
        self.passes += 1

    def _bar(self, J: np.ndarray, part: Moments) -> None:
        """Never look again at those of `J` that lie in the span in either view."""
        self.alive[J] &= outside(part, *self._limits)


class CorrelationRehearsal:
    """`CanonicalCorrelation` on a pool of atoms, given the inner products of their deflated columns.

    Taking atom i with sᵢ = K̃ᵢᵢ (or ‖k̃ᵢ‖²) in each view makes u = k̃ᵢ / √sᵢ, so that uᵀk̃ⱼ, uᵀu and, in the symmetric
    deflation, the coefficients a = u are entries of the matrices here over √sᵢ. With aₓ, oₓ = K̃ₓᵀu, fₓ = K̃ₓᵀv and so on

        K̃ₓᵀK̃ₓ ← K̃ₓᵀK̃ₓ − aₓoₓᵀ − oₓaₓᵀ + uᵀu aₓaₓᵀ,    K̃ₓᵀK̃ᵧ ← K̃ₓᵀK̃ᵧ − aₓ (fᵧ − uᵀv aᵧ)ᵀ − fₓaᵧᵀ.

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
        *,
        limits: tuple[float, float],
        signed: bool,
    ):
        self._own = [Downdated(part) for part in own]
        self._inside = None if inside is None else [Downdated(part) for part in inside]
        self._cross = Downdated(cross)
        self._moments = Moments(*(part.copy() for part in moments))
        self._limits, self._signed = limits, signed
        self._free = np.ones(len(cross), dtype=bool)

    def scores(self) -> np.ndarray:
        """Score of each atom of the pool."""
        possible = self._free & outside(self._moments, *self._limits)
        return correlation_scores(self._moments, possible, self._signed)

    def take(self, i: int) -> None:
        """Take atom `i` of the pool."""
        now = self._moments
        roots = np.sqrt(now.size[:, i])
        own = np.stack([part.column(i) for part in self._own]) / roots[:, None]
        lost = own if self._inside is None else np.stack([part.column(i) for part in self._inside]) / roots[:, None]
        other = np.stack([self._cross.column(i) / roots[1], self._cross.row(i) / roots[0]])  # K̃ₓᵀv and K̃ᵧᵀu
        energy, inner = now.squared[:, i] / now.size[:, i], now.cross[i] / roots[0] / roots[1]
        for row in range(2):
            self._own[row].deflate(lost[row], own[row], energy[row])
            if self._inside is not None:
                self._inside[row].subtract(lost[row], lost[row])
        self._cross.subtract(lost[0], other[1] - inner * lost[1])
        self._cross.subtract(other[0], lost[1])
        squared = now.squared - 2 * lost * own + energy[:, None] * lost**2
        cross = now.cross - lost[0] * other[1] - lost[1] * other[0] + inner * lost[0] * lost[1]
        size = squared if self._inside is None else now.size - lost**2
        self._moments = now._replace(cross=cross, squared=squared, size=size)
        self._free[i] = False


def outside(part: Moments, limit: float, norm_limit: float) -> np.ndarray:
    """Which atoms lie outside the span in both views: more than these shares are left of their sizes and norms."""
    return np.all((part.size > limit * part.raw) & (part.squared > norm_limit * part.norm), axis=0)


def correlation_scores(part: Moments, alive: np.ndarray, signed: bool) -> np.ndarray:
    """Cosines, or their absolute values; ``-inf`` for atoms not `alive`."""
    norms = np.sqrt(np.where(alive, part.squared, 1.0))
    rho = np.clip(part.cross / norms[0] / norms[1], -1, 1)
    return np.where(alive, rho if signed else np.abs(rho), -np.inf)


def _inner(x: Array, y: Array) -> np.ndarray:
    """Inner products of the columns of two matrices."""
    if namespace(x) is np:
        return to_host(np.einsum("ij,ij->j", x, y))
    return to_host(namespace(x).sum(x * y, axis=0))
