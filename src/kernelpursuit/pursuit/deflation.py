"""The atoms outside the span of the chosen ones: what every criterion that orthogonalises keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import proxy

import numpy as np

from kernelpursuit.arrays import (
    Array,
    energies,
    eps,
    gather,
    in_double,
    in_span_limit,
    namespace,
    squared_rows,
    tie_tolerance,
    to_host,
)
from kernelpursuit.atoms.protocol import (
    Dictionary,
    each_piece,
    exact_columns,
    in_float64,
    pieces,
    sweep,
    sweep_in_threads,
)
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.directions import Apart, Deflated, Joined, check_finite
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.pursuit.pools import Pools
from kernelpursuit.pursuit.rehearsal_matrices import KeptProducts
from kernelpursuit.pursuit.ridge import Ridge
from kernelpursuit.pursuit.rounding import stale, ties
from kernelpursuit.pursuit.row_weights import RowWeights

_IN_SPAN_WITH_RIDGE = 1e-10  # share of ‖d‖² at which an atom counts as in the span where there is a penalty
_MANY = 0.1  # share of the norms that a block may have computed anew; with more, passes go over to float64


class Deflation(Pools):
    """The atoms as vectors from which the chosen ones are taken out, step by step.

    Rows are multiplied by the roots of their weights, and the ridge penalty is appended to the vectors as a tail (see
    `Ridge`). So a criterion need not know of weights or of a penalty. Weights are counted in a `unit` near their mean,
    so that their scale changes no choice. From `sweep` or `measure` on, the squared norms of all deflated atoms are
    kept up to date. A norm that has lost half of its digits is computed from the definition again (LAPACK's rule for
    pivoted QR).

    Parameters
    ----------
    dictionary : Dictionary
    like : array of shape (n_samples, ...)
        Sets namespace, device and dtype.
    alpha : float
        Ridge penalty, see `Squares`.
    weights : array of shape (n_samples,), optional
    intercept : bool
    groups : ndarray of shape (n_samples,), optional
        Group of each row: a constant for each group is taken out of all vectors. Then there is no intercept.
    orthogonal : bool
        Whether chosen atoms join the span. If not, only the constant is in it.

    Notes
    -----
    Columns that become directions are float64, and so is all that is computed from the definition. Passes over the data
    are in the precision of `like`. In float32 a norm has few digits to lose. Where many norms of a block must be
    computed from the definition again, passes are made in float64 from then on (`raise_precision`).
    """

    def __init__(
        self,
        dictionary: Dictionary,
        like: Array,
        *,
        alpha: float = 0.0,
        weights: Array | None = None,
        counts: Array | None = None,
        intercept: bool = True,
        groups: np.ndarray | None = None,
        orthogonal: bool = True,
    ):
        n, m = dictionary.shape
        if intercept and groups is not None:
            raise ValueError("intercept must be False with groups: each of them has a constant of its own")
        if like.shape[0] != n:
            raise ValueError(f"targets must have as many rows as the dictionary, got {like.shape[0]} and {n}")
        xp = self._xp = namespace(like)
        self.D = dictionary
        self.orthogonal = orthogonal
        self.intercept = intercept
        self.eps = eps(like)
        self.passes = 0.0
        self._dtype = like.dtype  # of a pass; all else is float64
        self.single = self.eps > 1e-10
        self._tie = tie_tolerance(like)
        self._ties: np.ndarray | None = None  # of each atom, until the next step
        wide = xp.empty((n, 0), dtype=xp.float64, device=like.device)
        # Penalty coordinates come from differences of squared norms, so they carry half as many digits as columns do.
        self._limit = _IN_SPAN_WITH_RIDGE if alpha > 0 else in_span_limit(wide)
        rows = RowWeights(weights, wide, counts)
        self.weigh, self.unweigh, self.leverage = rows.weigh, rows.unweigh, rows.leverage
        self.total_weight, self.unit = rows.total, rows.unit
        self.groups = None if groups is None else Groups(groups, weights, wide)
        self.basis = Basis(wide)
        self.ridge = Ridge(dictionary, alpha / self.unit, wide) if alpha > 0 else None
        if intercept:
            ones = xp.ones((n, 1), dtype=wide.dtype, device=wide.device)
            column = self.weigh(ones)[:, 0]
            if isinstance(column, np.ndarray):
                self.basis.append(column)
            else:  # each read has a long way
                self.basis.begin(column, self.total_weight)
        self.size = self.basis.size  # directions in use; a block waits behind them until its atoms are taken
        own = proxy(self)  # in a circle a matrix would wait for the garbage collector, beside that of the next fit
        columns, known = lambda J: own.columns(J), lambda J, columns: own.products_kept(J, columns)
        self._directions: Joined | Apart = Apart(self.basis, self.ridge, columns)
        if orthogonal:
            self._directions = Joined(self.basis, self.ridge, columns, known)
        self.extend, self.give_back = self._directions.extend, self._directions.give_back
        self.solve, self.coefficients = self._directions.solve, self._directions.coefficients
        self.alive = np.ones(m, dtype=bool)
        self.squared = self.start = self._raw = self._reference = np.zeros(0)
        self._recomputed = 0  # norms computed anew since the last block
        self._floor = np.zeros(0)  # squared norms at which atoms lie in the span
        self._kept: KeptProducts | None = None  # from the first rehearsal on
        self._looked_at: tuple[np.ndarray, Any] = (np.zeros(0, dtype=np.intp), None)  # a sample of atoms, ascending
        self._first = np.zeros((0, m))  # the same for the directions before that, where each read has a long way
        self._pool: tuple[int, np.ndarray, np.ndarray] | None = None  # of the last rehearsal: size, atoms, products

    def columns(self, J: np.ndarray) -> Array:
        """Atoms `J`, weighted, in float64, without the constants of groups."""
        seen, columns = self._looked_at
        places = np.searchsorted(seen, J) if len(seen) else J
        if len(seen) and np.array_equal(seen.take(places, mode="clip"), J):
            columns = gather(columns, places, axis=1)  # computed when they were scored
        else:
            columns = exact_columns(self.D, J)
        return self.centre(self.centre(self.weigh(columns)))  # once leaves eps of what was taken out

    def centre(self, columns: Array) -> Array:
        """Weighted `columns` without the constants of groups, where there are groups."""
        return columns if self.groups is None else self.groups.centre(columns)

    def _read(self, columns: Array) -> tuple[Array, Array, Array]:
        """Atoms weighted and centred, with their squared norms before and after that, where they are."""
        columns = self.weigh(columns)
        raw = energies(columns)
        columns = self.centre(columns)
        return columns, raw, raw if self.groups is None else energies(columns)

    def _tails(self, J: np.ndarray) -> np.ndarray:
        return np.zeros((len(J), 0)) if self.ridge is None else self.ridge.tails(J)

    def deflate(self, J: np.ndarray, columns: Array | None = None) -> Deflated:
        """Atoms `J` outside the span, from the definition; `columns` are the atoms where they are known."""
        columns, raw, start = self._read(exact_columns(self.D, J) if columns is None else columns)
        tails = self._tails(J)
        rest = np.zeros(len(J)) if self.ridge is None else self.ridge.rest(J, tails)
        penalty = np.sum(tails**2, axis=1) + rest
        if self.intercept:
            constant = self.basis.directions[:1, :]
            columns = columns - constant.T @ (constant @ columns)
            start = energies(columns)
        squared = start
        if self.size > self.intercept:
            inside = self.basis.inside(columns, tails, self.size)
            columns, tails = self.basis.without(columns, tails, inside)  # one round: eps of the norm is left inside
            squared = energies(columns)
        raw, start, squared = (to_host(norms) for norms in (raw, start, squared))  # read together
        check_finite(raw)
        return Deflated(columns, tails, squared + np.sum(tails**2, axis=1) + rest, start + penalty, raw + penalty)

    def scores(
        self,
        J: np.ndarray | None,
        running: np.ndarray | None,
        products: Callable[[Deflated], np.ndarray],
        jointly: bool,
    ) -> np.ndarray:
        """Squared products of atoms `J` (None: all) over their squared norms; ``-inf`` for atoms in the span.

        Parameters
        ----------
        J : ndarray or None
        running : ndarray of shape (n_atoms, t) or None
            Products of all atoms, where they are kept up to date.
        products : callable
            Their definition, used where they are not.
        jointly : bool
            Whether to divide by the norm of the part outside the span. If not, by that outside the constant only.
        """
        if running is None:
            assert J is not None
            a, norms = sweep(self.D, lambda tile: self._look(tile, products, jointly), J)
            self.passes += len(J) / len(self.alive)
        else:
            a, norms = running, self.squared if jointly else self.start
            if J is not None:
                a, norms = a[J], norms[J]
        alive = self.alive if J is None else self.alive[J]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # atoms that are not alive
            gain = squared_rows(a) / norms
        gain[~alive] = -np.inf
        if not gain.max(initial=0) < np.inf:
            raise ValueError("the products of atoms and targets overflow: scale X or y, or change kernel or gamma")
        return gain

    def _look(
        self, J: np.ndarray, products: Callable[[Deflated], np.ndarray], jointly: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Products and norms of atoms `J` from the definition; those in the span are barred."""
        columns = exact_columns(self.D, J)
        if np.all(np.diff(J) > 0):
            self._looked_at = J, columns
        part = self.deflate(J, columns)
        self.bar(J, part)
        return products(part), part.squared if jointly else part.start

    @property
    def tie(self) -> Any:
        """Relative difference under which scores are equal; one for each atom where running norms are kept.

        A norm that has fallen to a share x of what it was is known 1/x times less well.
        """
        if not len(self.squared):
            return self._tie
        if self._ties is None:
            self._ties = ties(self._tie * self._raw, self.squared, self.alive, self._tie)
        return self._ties

    def bar(self, J: np.ndarray, part: Deflated) -> None:
        """Never look again at those of `J` that lie in the span."""
        self.alive[J] &= part.squared > self._limit * part.raw

    def floor(self, J: np.ndarray) -> np.ndarray:
        """The squared norm at which each of atoms `J` counts as lying in the span."""
        return self._floor[J]

    def sweep(self, products: Callable[[Deflated], np.ndarray]) -> np.ndarray:
        """Make the running norms of all atoms and return `products` of all of them, in one pass."""

        def tile(J: np.ndarray) -> tuple[np.ndarray, ...]:
            part = self.deflate(J)
            self.bar(J, part)
            return products(part), part.squared, part.start, part.raw

        joined, self.squared, self.start, self._raw = sweep(self.D, tile)
        self._set_floor()
        self._ties = None
        self._reference = self.squared.copy()
        self.passes += 1
        return joined

    def measure(self, samples: Array, tails: np.ndarray) -> np.ndarray:
        """Make the running norms of all atoms, and return their products with vectors outside the span, in one pass.

        The norms are differences, ‖d̃‖² = ‖d‖² − Σ (dᵀq)² over the directions q. Only columns that lose their digits by
        the difference are deflated.

        Parameters
        ----------
        samples : array of shape (n_samples, t)
        tails : ndarray of shape (any, t)
        """
        size, Q = self.size, self.basis.directions[: self.size, :]
        vectors = self._xp.concat([Q.T, samples], axis=1)

        # All is summed in float64: most of a wide kernel is constant.
        def tile(J: np.ndarray) -> tuple[Array, ...]:
            columns, raw, start = self._read(in_double(self.D.columns(J)))
            return columns.T @ vectors, raw, start

        if self.groups is None and hasattr(self.D, "moments") and self._xp is np:
            weights = self.weigh(np.ones((len(vectors), 1)))[:, 0] ** 2
            products, raw = self.D.moments(self.weigh(vectors), weights)
            start = raw
        else:
            products, raw, start = (sweep_in_threads if self._xp is np else sweep)(self.D, tile)
        check_finite(raw)
        penalty = np.zeros(len(raw))
        if self.ridge is not None:
            for J in pieces(self.D):
                own = self._tails(J)
                for columns, other in ((slice(size), self.basis.tails[:size].T), (slice(size, None), tails)):
                    width = min(own.shape[1], len(other))
                    products[J, columns] += own[:, :width] @ other[:width]
                penalty[J] = np.sum(own**2, axis=1) + self.ridge.rest(J, own)
        self._raw, start = raw + penalty, start + penalty
        self._set_floor()
        inside = products[:, :size]
        self.start = start - (inside[:, 0] ** 2 if self.intercept else 0.0)
        self.squared, self._reference = start.copy(), start.copy()
        self.passes += 1
        a = products[:, size:].copy()
        if not self.D.in_memory and not isinstance(Q, np.ndarray):
            self._first = inside.T.copy()
        for J, part in self.downdate_norms(inside):
            self.start[J], a[J] = part.start, part.products(samples, tails)
        return a

    def _set_floor(self) -> None:
        """Note at which squared norm each atom counts as lying in the span, in the precision of passes."""
        self._floor = (max(self._limit, self.eps) if self.single else self._limit) * self._raw

    def chosen(self, atom: int) -> None:
        """Record that `atom` was taken: it is in the span now."""
        if self.orthogonal:
            self.alive[atom] = False
            self.size += 1

    def _narrowed(self, vectors: Array) -> Array:
        """Sample-space vectors in the precision of a pass."""
        return vectors if vectors.dtype == self._dtype else self._xp.astype(vectors, self._dtype)

    def correlate(self, samples: Array, tails: np.ndarray) -> np.ndarray:
        """Products of all atoms with the vectors (samples ; tails), (n_atoms, b), in one pass over the data.

        Those of a vector lie together: the steps ask for one after the other.
        """
        self.passes += 1
        products = self.D.correlate(self._narrowed(self.weigh(samples)))
        if self.ridge is not None:
            products += self.ridge.correlate(tails)
        return np.asfortranarray(products)

    def downdate(self, products: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Take a unit direction out of the running norms, given its `products` with all atoms.

        Yields, tile by tile, the atoms whose norms were computed anew, so that the caller can do the same.
        """
        if self._kept is not None and self.orthogonal:
            self._kept.append(products)
        yield from self.downdate_norms(products[:, None])

    def downdate_norms(self, products: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """The same for several directions, (n_atoms, b)."""
        self.squared -= squared_rows(products)
        self._ties = None
        known = np.where(self.alive, self.squared, np.inf)
        # Products in float32 are wrong by eps ‖d‖, however little is left of d.
        lengths = np.sqrt(self._raw) * np.sqrt(self._reference) if self.single else self._reference
        lost = stale(known, np.sqrt(self.eps) * lengths)
        self._recomputed += len(lost)
        yield from self._recompute(lost)
        self.alive &= self.squared > self._floor

    def ends_block(self) -> bool:
        """Note that a block of atoms is taken; whether its norms say that passes should be made in float64."""
        many, self._recomputed = self._recomputed > _MANY * len(self.alive), 0
        return self.single and many

    def raise_precision(self) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Make passes in float64 from now on.

        Yields all atoms that may be taken, tile by tile, as `downdate` does those whose norms were computed anew.
        """
        self.D, self._dtype, self.single = in_float64(self.D), self._xp.float64, False
        like = self.basis.directions
        self.eps, self._tie, self._kept = eps(like), tie_tolerance(like), None
        self._set_floor()
        for J, part in self._recompute(np.flatnonzero(self.alive)):
            self.start[J] = part.start
            yield J, part
        self.alive &= self.squared > self._floor

    def _recompute(self, atoms: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Norms of some atoms from the definition, tile by tile."""
        for J, part in each_piece(self.D, self.deflate, atoms):
            self.squared[J] = self._reference[J] = part.squared
            yield J, part
        self._ties = None
        self.passes += len(atoms) / len(self.alive)
