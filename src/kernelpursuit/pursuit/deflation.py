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
from kernelpursuit.atoms.protocol import Dictionary, each_piece, exact_columns, pieces, sweep, sweep_in_threads
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.directions import Apart, Deflated, Joined, check_finite
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.pursuit.pools import PASS_ERROR, Pools
from kernelpursuit.pursuit.rehearsal_matrices import KeptProducts
from kernelpursuit.pursuit.ridge import Ridge
from kernelpursuit.pursuit.rounding import KNOWN, doubtful, is_known, stale, ties
from kernelpursuit.pursuit.row_weights import RowWeights

_DIFFERENCE = 1e-8  # share of ‖d‖² from which on a norm in float64 may be a difference


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
    settles : bool
        Whether the criterion calls `settle`. If so, an atom may be taken as long as float64 tells it from the span; if
        not, as long as a pass in the precision of the data does.

    Notes
    -----
    Columns that become directions are float64, and so is all that is computed from the definition. Passes over the data
    are in the precision of `like`. In float32 a product of a pass is wrong by about a tenth of eps ‖d‖ ‖v‖, which is
    much for an atom of which little is left. Bounds on these errors are kept. `settle` computes from the definition
    what would decide a choice and is not known well enough.
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
        settles: bool = False,
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
        # Penalty coordinates come from differences of squared norms, so they carry half as many digits as columns do.
        wide = xp.empty((n, 0), dtype=xp.float64, device=like.device)
        self._limit = max(in_span_limit(wide if settles else like), 1e-10 if alpha > 0 else 0.0)
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
            self._directions = Joined(self.basis, self.ridge, columns, known, once=self.single)
        self.extend, self.give_back = self._directions.extend, self._directions.give_back
        self.solve, self.coefficients = self._directions.solve, self._directions.coefficients
        self.alive = np.ones(m, dtype=bool)
        self.squared = self.start = self._raw = self._reference = np.zeros(0)
        self._error = np.zeros(0)  # bound on the rounding error of `squared`, where passes are in float32
        self._unit_error: np.ndarray | None = None  # of products with a unit vector
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

    def deflate(self, J: np.ndarray, columns: Array | None = None, fully: bool = True) -> Deflated:
        """Atoms `J` outside the span, from the definition; `columns` are the atoms where they are known.

        If not `fully`, norms are differences where these keep half of their digits, and the vectors keep what they have
        inside the span. Their products with vectors outside of it are the same, at half the cost.
        """
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
            left = None if fully else to_host(start) + penalty - np.sum(inside**2, axis=0)
            if left is not None and np.all(left > _DIFFERENCE * to_host(raw)):
                return Deflated(columns, tails, left, to_host(start) + penalty, to_host(raw) + penalty)
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
            if self.single:
                self._ties = ties(self._error, self.squared, self.alive, self._tie, most=KNOWN)
            else:
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
        self._unit_error, self._floor = None, self._limit * self._raw
        self._ties = None
        self._reference = self.squared.copy()
        self._error = np.zeros_like(self.squared)
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
        self._raw, start, self._unit_error = raw + penalty, start + penalty, None
        self._floor = self._limit * self._raw
        inside = products[:, :size]
        self.start = start - (inside[:, 0] ** 2 if self.intercept else 0.0)
        self.squared, self._reference = start.copy(), start.copy()
        self._error = self.pass_error(np.sqrt(self._raw))  # of the sums of squares
        self.passes += 1
        a = products[:, size:].copy()
        if not self.D.in_memory and not isinstance(Q, np.ndarray):
            self._first = inside.T.copy()
        for J, part in self.downdate_norms(inside):
            self.start[J], a[J] = part.start, part.products(samples, tails)
        return a

    def pass_error(self, length: Any) -> np.ndarray:
        """Error of the products of all atoms with a vector of this `length` in one pass."""
        if self._unit_error is None:
            self._unit_error = PASS_ERROR * self.eps * np.sqrt(self._raw)
        return length * self._unit_error

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
        if self.single:
            sizes = np.abs(products[:, 0]) if products.shape[1] == 1 else np.sum(np.abs(products), axis=1)
            self._error += self.pass_error(np.add(sizes, sizes, out=sizes))
            low = self.alive > (self.squared > self._floor)
            if low.any():
                J = np.flatnonzero(low)
                self.alive[J] = self.squared[J] + self._error[J] > self._floor[J]  # where that is certain
            np.maximum(self.squared, self._floor, out=self.squared)
            return
        known = np.where(self.alive, self.squared, np.inf)
        yield from self._recompute(stale(known, np.sqrt(self.eps) * self._reference))
        self.alive &= self.squared > self._floor

    def settle(
        self, a: np.ndarray, error: np.ndarray, products: Callable[[Deflated], np.ndarray], jointly: bool
    ) -> np.ndarray | None:
        """After passes in float32: compute scores from the definition that may be the best and are not known well.

        Returns the scores of all atoms then, and None where passes are in float64.

        Parameters
        ----------
        a : ndarray of shape (n_atoms, t)
            Running products of all atoms, changed in place.
        error : ndarray of shape (n_atoms,)
            Bound on their error, changed in place.
        products : callable
            Products of deflated atoms, the definition.
        jointly : bool
            As in `scores`.
        """
        while self.single:
            start, scores = None if jointly else self.start, self.scores(None, a, products, jointly)
            atoms = doubtful(scores, a, error, self.squared, self._error, self._floor, start)
            if not len(atoms):
                return scores
            for J, part in self._recompute(atoms):
                a[J], error[J] = products(part), 0
                self.bar(J, part)
        return None

    def known(self, atom: int, a: np.ndarray, error: np.ndarray, jointly: bool) -> bool:
        """Whether the score of one atom is known to `KNOWN`, given its product and a bound on the error of that."""
        size, norm = float(np.sqrt(a[atom] @ a[atom])), float((self.squared if jointly else self.start)[atom])
        wide = float(self._error[atom]) if jointly else 0.0
        return is_known(size, float(error[atom]), norm, wide, float(self._floor[atom]))

    def set_norm(self, atom: int, squared: float) -> None:
        """The squared norm of an atom outside the span, found by making a direction of it."""
        self.squared[atom] = self._reference[atom] = squared
        self._error[atom], self._ties = 0, None

    def _recompute(self, atoms: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Norms of some atoms from the definition, tile by tile."""
        for J, part in each_piece(self.D, lambda J: self.deflate(J, fully=not self.single), atoms):
            self.squared[J] = self._reference[J] = part.squared
            self._error[J] = 0
            yield J, part
        self._ties = None
        self.passes += len(atoms) / len(self.alive)
