"""Sparse kernel canonical correlation: one index for two kernel matrices of the same objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelpursuit._array import (
    WIDEST_TIE,
    Array,
    eps,
    in_span_limit,
    namespace,
    squared_norms,
    tie_tolerance,
    to_host,
)
from kernelpursuit.basis import Basis
from kernelpursuit.dictionaries import sweep
from kernelpursuit.pursuit.loop import Step, tied

DEFLATIONS = ("symmetric", "projection")
SHIFT = 2.0  # scores are correlations plus this: positive, so that no live atom looks as if it changed nothing


def feature_space_limit(x: Array) -> float:
    """Share of k(x, x) below which a point counts as lying in the span of others in feature space.

    1e-10, or 100 eps where that is more. A pivot of a partial Cholesky factor is a difference of numbers as large as
    the diagonal, so that one of this share still has six digits. Columns have a limit of their own as well.
    """
    return max(1e-10, in_span_limit(x))


class Deflated(NamedTuple):
    """Some columns of K̃."""

    columns: Array  # (n, b)
    squared: np.ndarray  # (b,), their squared norms
    size: np.ndarray  # (b,), what is left of them: the diagonal of K̃, or the squared norms again
    raw: np.ndarray  # (b,), the same of K
    norm: np.ndarray  # (b,), squared norms of the columns of K


class View(Protocol):
    """A square kernel matrix K, and what is left of it, K̃, after deflation by the atoms taken.

    Taking an atom with direction u changes column j of K̃ by −a_j u; the coefficients a and what counts as the size of
    a column are what deflations differ in.
    """

    D: Any
    limit: float

    def deflate(self, J: np.ndarray) -> Deflated:
        """Columns `J` of K̃, from the definition."""

    def extend(self, atom: int) -> Array | None:
        """Direction that `atom` adds; None if it lies in the span."""

    def give_back(self) -> None:
        """Undo the last `extend`."""

    def products(self, own: Array, other: Array) -> np.ndarray:
        """K̃ᵀ[own, other], (n, 2), with K̃ as it was before `own`, the last direction: one pass over the data."""

    def coefficients(self, own: Array, products: np.ndarray) -> np.ndarray:
        """What each column of K̃ loses along the last direction, given its products."""

    def shrink(self, size: np.ndarray, coefficients: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Sizes of all columns after that, given what they were and the new squared norms."""


class FeatureSpace:
    """Symmetric deflation K̃ ← K̃ − τ τᵀ / τ_i with τ = K̃ e_i, which keeps K̃ = K − U Uᵀ, U a partial Cholesky factor.

    The size of a column is the diagonal of K̃: the squared distance of the point to the span of the points taken.
    """

    def __init__(self, dictionary: Any):
        self.D = dictionary
        like = dictionary.columns(np.array([0]))
        self.limit = feature_space_limit(like)
        self._xp = namespace(like)
        self._rows = self._xp.empty((4, like.shape[0]), dtype=like.dtype, device=like.device)
        self._count = 0

    def deflate(self, J: np.ndarray) -> Deflated:
        """Columns `J` of K − UUᵀ."""
        columns = self.D.columns(J)
        norm = squared = squared_norms(columns)
        raw = size = _diagonal(columns, J)
        if self._count:
            U = self._rows[: self._count, :]
            columns = columns - U.T @ self._xp.take(U, self._xp.asarray(J, device=U.device), axis=1)
            squared, size = squared_norms(columns), _diagonal(columns, J)
        return Deflated(columns, squared, size, raw, norm)

    def extend(self, atom: int) -> Array | None:
        """Next column of the Cholesky factor, u = τ / √τ_i."""
        columns, _, pivot, raw, _ = self.deflate(np.array([atom]))
        if not pivot[0] > self.limit * raw[0]:
            return None
        if self._count == self._rows.shape[0]:
            self._rows = self._xp.concat([self._rows, self._xp.empty_like(self._rows)], axis=0)
        self._rows[self._count, :] = columns[:, 0] / float(np.sqrt(pivot[0]))
        self._count += 1
        return self._rows[self._count - 1, :]

    def give_back(self) -> None:
        """Forget the last column of the factor."""
        self._count -= 1

    def products(self, own: Array, other: Array) -> np.ndarray:
        """(K − UUᵀ)[own, other], U without its last column."""
        U = self._rows[: self._count - 1, :]
        V = self._xp.stack([own, other], axis=1)
        return self.D.correlate(V) - to_host(U.T @ (U @ V))

    def coefficients(self, own: Array, products: np.ndarray) -> np.ndarray:
        """Entries of the new column of the factor."""
        return to_host(own)

    def shrink(self, size: np.ndarray, coefficients: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Diagonal of K − UUᵀ."""
        return size - coefficients**2


class OutputSpace:
    """Projection K̃ ← (I − τ τᵀ / τᵀτ) K̃ with τ = K̃ e_i, which keeps K̃ = (I − U Uᵀ) K, U orthonormal.

    The size of a column is its squared norm.
    """

    def __init__(self, dictionary: Any):
        self.D = dictionary
        like = dictionary.columns(np.array([0]))
        self.limit = in_span_limit(like)
        self._basis = Basis(like)

    def deflate(self, J: np.ndarray) -> Deflated:
        """Columns `J` of (I − UUᵀ) K."""
        columns = self.D.columns(J)
        norm = squared = squared_norms(columns)
        if self._basis.size:
            columns, _, _ = self._basis.complement(columns, np.zeros((len(J), 0)), rounds=1)
            squared = squared_norms(columns)
        return Deflated(columns, squared, squared, norm, norm)

    def extend(self, atom: int) -> Array | None:
        """Unit vector along τ."""
        return self._basis.append(self.D.columns(np.array([atom]))[:, 0])

    def give_back(self) -> None:
        """Forget the last direction."""
        self._basis.truncate(self._basis.size - 1)

    def products(self, own: Array, other: Array) -> np.ndarray:
        """Kᵀ[own, (I − UUᵀ) other], U without its last column, to which `own` is orthogonal."""
        U = self._basis.directions[:-1, :]
        return self.D.correlate(namespace(own).stack([own, other - U.T @ (U @ other)], axis=1))

    def coefficients(self, own: Array, products: np.ndarray) -> np.ndarray:
        """Parts of the columns along the new direction."""
        return products[:, 0]

    def shrink(self, size: np.ndarray, coefficients: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Squared norms."""
        return squared


class Moments(NamedTuple):
    """What the scores are made of, for some atoms; rows are the views."""

    cross: np.ndarray  # (b,), χ = k̃ₓᵀ k̃ᵧ
    squared: np.ndarray  # (2, b), h = ‖k̃‖²
    size: np.ndarray  # (2, b), the diagonal of K̃, or h again
    raw: np.ndarray  # (2, b), the same of K
    norm: np.ndarray  # (2, b), ‖k‖²


class CanonicalCorrelation:
    """Criterion of sparse kernel CCA: the object whose two kernel columns are most alike.

    With k̃ₓ and k̃ᵧ columns i of the two deflated matrices, the score is 2 + ρᵢ, where

        ρᵢ = k̃ₓᵀ k̃ᵧ / (‖k̃ₓ‖ ‖k̃ᵧ‖),

    or 2 + |ρᵢ| if not `signed`. The 2 makes scores positive without changing their order: an atom of negative
    correlation is still an atom. Both matrices are deflated by the same object, in either of two ways
    (`FeatureSpace`, `OutputSpace`).

    *Why the update is exact.* Both deflations change columns by k̃ ← k̃ − a u, so that χ = k̃ₓᵀk̃ᵧ and h = ‖k̃‖² obey

        χ ← χ − aₓ (uₓᵀk̃ᵧ) − aᵧ (uᵧᵀk̃ₓ) + aₓ aᵧ uₓᵀuᵧ,    h ← h − 2 a (uᵀk̃) + a² uᵀu,

    for all atoms at one `correlate` of two vectors for each view and O(n k); memory is O(n k). No matrix is written.
    Atoms whose h has lost half its digits since it was last computed are recomputed from the definition.

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
    >>> from kernelpursuit import DenseDictionary, n_atoms, pursue
    >>> x, y = np.array([[0.0, 0.0, 3.0], [1.0, 2.0, 0.0]]).T, np.array([[0.1, 0.0, 1.0], [0.0, 5.0, 1.0]]).T
    >>> run = CanonicalCorrelation(DenseDictionary(x @ x.T), DenseDictionary(y @ y.T))
    >>> run.scores().round(3)
    array([2.044, 2.877, 2.371])
    >>> pursue(run, n_atoms(2)).atoms
    array([1, 2])
    """

    def __init__(self, x: Any, y: Any, *, deflation: str = "symmetric", signed: bool = True):
        if deflation not in DEFLATIONS:
            raise ValueError(f"deflation must be one of {DEFLATIONS}, got {deflation!r}")
        if not x.shape[0] == x.shape[1] == y.shape[0] == y.shape[1]:
            raise ValueError(f"the two kernel matrices must be square and of one size, got {x.shape} and {y.shape}")
        kind = FeatureSpace if deflation == "symmetric" else OutputSpace
        self._views: tuple[View, View] = (kind(x), kind(y))
        self._signed = signed
        like = x.columns(np.array([0]))
        self._eps, self._tie, self._limit = eps(like), tie_tolerance(like), in_span_limit(like)
        self._narrow = min(x, y, key=lambda dictionary: dictionary.tile)  # whose tiles both can hold
        n = x.shape[0]
        self.alive = np.ones(n, dtype=bool)
        self.passes = 0.0
        self._running: Moments | None = None
        self._reference = np.zeros((2, n))  # h when it was last computed from the definition

    @property
    def tie(self) -> Any:
        """Relative difference under which scores are equal, for each atom where running moments say how exact it is."""
        if self._running is None:
            return self._tie
        kept = np.maximum(np.where(self.alive, self._running.squared, 1.0), np.finfo(float).tiny)
        lost = np.sqrt(self._running.norm / kept) + self._reference / kept
        return np.clip(self._tie * lost.max(axis=0), self._tie, max(self._tie, WIDEST_TIE))

    def start(self) -> Step:
        """State before the first atom."""
        return Step(atom=-1)

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

    def scores(self, J: np.ndarray | None = None) -> np.ndarray:
        """Score of atoms `J` (None: all); ``-inf`` for atoms in the span in either view."""
        if J is None and self._running is None:
            self._sweep()
        indices = np.arange(len(self.alive)) if J is None else np.asarray(J)
        if self._running is None:
            tile = self._narrow.tile
            parts = [self._look(indices[i : i + tile]) for i in range(0, len(indices), tile)]
            moments = Moments(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))
        else:
            moments = self.running_moments(indices)
        alive = self.alive[indices]
        norms = np.sqrt(np.where(alive, moments.squared, 1.0))
        rho = np.clip(moments.cross / norms[0] / norms[1], -1, 1)
        return np.where(alive, SHIFT + (rho if self._signed else np.abs(rho)), -np.inf)

    def take(self, block: list[int], weakness: float = 1.0) -> Iterator[Step]:
        """Take atoms in order, each while its score is at least `weakness` times the best; one pass for each."""
        for atom in block:
            score, share = self._certify(atom)
            if share < weakness or not self._advance(atom):
                return
            yield Step(atom, score=score, weakness=share)

    def _certify(self, atom: int) -> tuple[float, float]:
        """Score of `atom` now, and its share of the best of all where that is known."""
        if self._running is None:
            return float(self.scores(np.array([atom]))[0]), 1.0
        scores = self.scores()
        share = 1.0 if tied(scores, self.tie)[atom] else float(max(scores[atom], 0) / scores.max())
        return float(scores[atom]), share

    def _advance(self, atom: int) -> bool:
        """Deflate both views by `atom`; False if it turns out to lie in a span."""
        self.alive[atom] = False
        directions: list[Array] = []
        for view in self._views:
            direction = view.extend(atom)
            if direction is None:
                for done in self._views[: len(directions)]:
                    done.give_back()
                return False
            directions.append(direction)
        if self._running is not None:
            self._downdate(*directions)
        return True

    def _downdate(self, u: Array, v: Array) -> None:
        """Update the moments of all atoms for the new directions, and recompute those that lost half their digits."""
        assert self._running is not None
        cross, squared, size, *_ = self._running
        p, q = self._views[0].products(u, v), self._views[1].products(v, u)
        self.passes += 1
        a, b = self._views[0].coefficients(u, p), self._views[1].coefficients(v, q)
        cross += -a * q[:, 1] - b * p[:, 1] + float(to_host(u @ v)) * a * b
        for row, (c, own, direction) in enumerate(((a, p[:, 0], u), (b, q[:, 0], v))):
            squared[row] += -2 * c * own + float(to_host(direction @ direction)) * c**2
            size[row] = self._views[row].shrink(size[row], c, squared[row])
        self._refresh()
        self._bar(np.arange(len(self.alive)), self._running)

    def _refresh(self) -> None:
        """Recompute atoms from the definition where cancellation has eaten half the digits."""
        assert self._running is not None
        kept = np.where(self.alive, self._running.squared, np.inf) / np.maximum(self._reference, np.finfo(float).tiny)
        lost = kept.min(axis=0)
        if not lost.min() <= np.sqrt(self._eps):
            return
        stale = np.flatnonzero(lost <= 4 * np.sqrt(self._eps))  # those that would follow soon come along
        for start in range(0, len(stale), self._narrow.tile):
            J = stale[start : start + self._narrow.tile]
            part = self.moments(J)
            for whole, piece in zip(self._running, part, strict=True):
                whole[..., J] = piece
            self._reference[:, J] = part.squared
        self.passes += len(stale) / len(self.alive)

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
        self._reference = self._running.squared.copy()
        self.passes += 1

    def _bar(self, J: np.ndarray, part: Moments) -> None:
        """Never look again at those of `J` that lie in the span in either view."""
        limits = np.array([[view.limit] for view in self._views])
        left = (part.size > limits * part.raw) & (part.squared > self._limit * part.norm)
        self.alive[J] &= np.all(left, axis=0)


def _diagonal(columns: Array, J: np.ndarray) -> np.ndarray:
    """Entries of columns `J` of a square matrix on its diagonal."""
    return to_host(to_host(columns)[J, np.arange(len(J))])


def _inner(x: Array, y: Array) -> np.ndarray:
    """Inner products of the columns of two matrices."""
    if namespace(x) is np:
        return to_host(np.einsum("ij,ij->j", x, y))
    return to_host(namespace(x).sum(x * y, axis=0))
