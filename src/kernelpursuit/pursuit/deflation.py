"""The atoms outside the span of the chosen ones: what every criterion that orthogonalises keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, energies, eps, in_double, in_span_limit, namespace, narrowest_tie, to_host
from kernelpursuit.atoms.protocol import (
    Dictionary,
    each_piece,
    exact_columns,
    in_float64,
    pieces,
    sweep,
)
from kernelpursuit.atoms.threads import inner_products
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.directions import Deflated, Direction, RawDirections, SpanDirections
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.pursuit.pool_matrices import KeptProducts, pairs_of_pieces
from kernelpursuit.pursuit.ridge import Ridge
from kernelpursuit.pursuit.rounding import RunningNorms, tie_tolerances
from kernelpursuit.pursuit.row_weights import RowWeights

_IN_SPAN_WITH_RIDGE = 1e-10  # share of ‖d‖² at which an atom counts as in the span where there is a penalty
_MANY = 0.1  # share of the norms; where more are computed again after a pass, passes go over to float64
_LEAST_IN_POOL = 3e-5  # share of ‖d‖² below which inner products of a pool in float32 may be wrong by a percent


class Deflation:
    """The atoms as vectors from which the chosen ones are taken out, step by step.

    Rows are multiplied by the roots of their weights, and the ridge penalty is appended to the vectors as a tail (see
    `Ridge`). So a criterion need not know of weights or of a penalty. Weights are counted in a `unit` near their mean,
    so that their scale changes no choice. From `measure` or `measure_exactly` on, the squared norms of all deflated
    atoms are kept up to date. A norm that has lost half of its digits is computed from the definition again (LAPACK's
    rule for pivoted QR).

    Parameters
    ----------
    dictionary : Dictionary
    like : array of shape (n_samples, ...)
        Sets namespace, device and dtype.
    alpha : float
        Ridge penalty, see `Squares`.
    weights : array of shape (n_samples,), optional
    counts : array of shape (n_samples,), optional
        How many rows each row stands for, see `RowWeights`.
    intercept : bool
    groups : ndarray of shape (n_samples,), optional
        Group of each row: a constant for each group is taken out of all vectors. Then there is no intercept.
    orthogonal : bool
        Whether chosen atoms join the span. If not, only the constant is in it.

    Attributes
    ----------
    available : ndarray of bool, shape (n_atoms,)
        Atoms that are not chosen and do not lie in the span.
    norms : RunningNorms
        Squared norms of all deflated atoms, from `measure` or `measure_exactly` on; empty before.
    size : int
        Directions in use, that of the constant included. Those of a block wait behind them until its atoms are taken.
    eps : float
        Unit roundoff of a pass over the data.
    single : bool
        Whether passes are made in float32.
    passes : float
        Passes over the data so far.

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
        self.passes = 0.0
        self._pass_in_precision_of(like)
        wide = xp.empty((n, 0), dtype=xp.float64, device=like.device)
        # Penalty coordinates come from differences of squared norms, so they carry half as many digits as columns do.
        self._limit = _IN_SPAN_WITH_RIDGE if alpha > 0 else in_span_limit(wide)
        rows = RowWeights(weights, wide, counts)
        self.scale_rows, self.unscale_rows, self.leverage = rows.scale_rows, rows.unscale_rows, rows.leverage
        self.total_weight, self.unit = rows.total, rows.unit
        self.groups = None if groups is None else Groups(groups, weights, wide)
        self.basis = Basis(wide)
        self.ridge = Ridge(dictionary, alpha / self.unit, wide) if alpha > 0 else None
        if intercept:
            self.basis.append(self.scale_rows(xp.ones((n, 1), dtype=wide.dtype, device=wide.device))[:, 0])
        self.size = self.basis.size
        self._directions = (SpanDirections if orthogonal else RawDirections)(self.basis)
        self.give_back = self._directions.give_back
        self.solve, self.coefficients = self._directions.solve, self._directions.coefficients
        self.available = np.ones(m, dtype=bool)
        self.norms = RunningNorms(np.zeros(0), np.zeros(0), np.zeros(0), self._limit, self.eps)
        self._recomputed = 0  # norms computed from the definition again since the last pass
        self._set_aside = np.zeros(m, dtype=bool)  # atoms barred because float32 does not tell them from the span
        self._inside: np.ndarray | None = None  # products of all atoms with the directions, from `measure` to a step
        self._kept_products: KeptProducts | None = None  # from the first pool on

    # -- atoms from the definition

    def columns(self, J: np.ndarray) -> Array:
        """Atoms `J`, weighted, in float64, without the constants of groups."""
        columns = self.scale_rows(exact_columns(self.D, J))
        return self.centre(self.centre(columns))  # once leaves eps of what was taken out

    def centre(self, columns: Array) -> Array:
        """Weighted `columns` without the constants of groups, where there are groups."""
        return columns if self.groups is None else self.groups.centre(columns)

    def deflate(self, J: np.ndarray) -> Deflated:
        """Atoms `J` outside the span, from the definition."""
        columns, raw, centred = self._weighted(exact_columns(self.D, J))
        tails = self._tails(J)
        rest = np.zeros(len(J)) if self.ridge is None else self.ridge.rest(J, tails)
        penalty = np.sum(tails**2, axis=1) + rest
        if self.intercept:
            constant = self.basis.directions[:1, :]
            columns = columns - constant.T @ (constant @ columns)
            centred = energies(columns)
        squared = centred
        if self.size > self.intercept:  # one round: eps of the norm is left inside
            columns, tails, _ = self.basis.complement(columns, tails, rounds=1, size=self.size)
            squared = energies(columns)
        raw, centred, squared = (to_host(norms) for norms in (raw, centred, squared))  # read together
        _check_finite(raw)
        return Deflated(columns, tails, squared + np.sum(tails**2, axis=1) + rest, centred + penalty, raw + penalty)

    def _weighted(self, columns: Array) -> tuple[Array, Array, Array]:
        """Atoms weighted and centred, with their squared norms before and after the centring."""
        columns = self.scale_rows(columns)
        raw = energies(columns)
        columns = self.centre(columns)
        return columns, raw, raw if self.groups is None else energies(columns)

    def _tails(self, J: np.ndarray) -> np.ndarray:
        return np.zeros((len(J), 0)) if self.ridge is None else self.ridge.tails(J)

    def look_at(self, J: np.ndarray | None, f: Callable[[Deflated], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Numbers ``f(part)`` of atoms `J` (None: all), deflated tile by tile; those in the span are barred."""

        def tile(some: np.ndarray) -> tuple[np.ndarray, ...]:
            part = self.deflate(some)
            self.available[some] &= part.squared > self._limit * part.raw
            return f(part)

        self.passes += (len(self.available) if J is None else len(J)) / len(self.available)
        return sweep(self.D, tile, J)

    # -- passes over all atoms, and running norms

    def measure_exactly(self, products: Callable[[Deflated], np.ndarray]) -> np.ndarray:
        """Make the running norms of all atoms from the definition and return `products` of all of them, in one pass."""
        joined, squared, centred, raw = self.look_at(
            None, lambda part: (products(part), part.squared, part.centred, part.raw)
        )
        self.norms = RunningNorms(squared, centred, raw, self._limit, self.eps)
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
            columns, raw, centred = self._weighted(in_double(self.D.columns(J)))
            return columns.T @ vectors, raw, centred

        if self.groups is None and hasattr(self.D, "moments") and self._xp is np:
            weights = self.scale_rows(np.ones((len(vectors), 1)))[:, 0] ** 2
            products, raw = self.D.moments(self.scale_rows(vectors), weights)
            squared = raw
        else:
            products, raw, squared = sweep(self.D, tile, parallel=self._xp is np)
        _check_finite(raw)
        penalty = np.zeros(len(raw))
        if self.ridge is not None:
            for J in pieces(self.D):
                own = self._tails(J)
                for columns, other in ((slice(size), self.basis.tails[:size].T), (slice(size, None), tails)):
                    width = min(own.shape[1], len(other))
                    products[J, columns] += own[:, :width] @ other[:width]
                penalty[J] = np.sum(own**2, axis=1) + self.ridge.rest(J, own)
        inside, a = products[:, :size], products[:, size:].copy()
        centred = squared + penalty - (inside[:, 0] ** 2 if self.intercept else 0.0)
        self.norms = RunningNorms(squared + penalty, centred, raw + penalty, self._limit, self.eps)
        self.passes += 1
        self._inside = inside.T
        for J, part in self._recompute(self.norms.downdate(inside, self.available)):
            self.norms.centred[J], a[J] = part.centred, part.products(samples, tails)
        self._bar_in_span()
        return a

    def correlate(self, samples: Array, tails: np.ndarray) -> np.ndarray:
        """Products of all atoms with the vectors (samples ; tails), (n_atoms, b), in one pass over the data.

        Those of a vector lie together: the steps ask for one after the other.
        """
        self.passes += 1
        self._recomputed = 0
        products = self.D.correlate(self._in_precision_of_passes(self.scale_rows(samples)))
        if self.ridge is not None:
            products += self.ridge.correlate(tails)
        return np.asfortranarray(products)

    def downdate(self, products: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Take a unit direction out of the running norms, given its `products` with all atoms.

        Yields, tile by tile, the atoms whose norms were computed from the definition again, so that the caller can do
        as much for its own running numbers.
        """
        self._inside = None
        if self._kept_products is not None and self.orthogonal:
            self._kept_products.append(products)
        yield from self._recompute(self.norms.downdate(products[:, None], self.available))
        self._bar_in_span()

    def _recompute(self, atoms: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Norms of some atoms from the definition, tile by tile."""
        for J, part in each_piece(self.D, self.deflate, atoms):
            self.norms.replace(J, part.squared)
            yield J, part
        self._recomputed += len(atoms)
        self.passes += len(atoms) / len(self.available)

    def _bar_in_span(self) -> None:
        """Bar atoms whose running norm is too small from being taken; in float32 only until passes are in float64."""
        low = self.available & (self.norms.squared <= self.norms.floor)
        self.available &= ~low
        if self.single:
            self._set_aside |= low

    # -- precision of passes

    def _pass_in_precision_of(self, like: Array) -> None:
        self._dtype, self.eps, self.narrowest_tie = like.dtype, eps(like), narrowest_tie(like)
        self.single = self.eps > 1e-10

    def _in_precision_of_passes(self, vectors: Array) -> Array:
        return vectors if vectors.dtype == self._dtype else self._xp.astype(vectors, self._dtype)

    @property
    def needs_float64(self) -> bool:
        """Whether passes lose too many digits: since the last one too many norms were computed from the definition."""
        return self.single and self._recomputed > _MANY * len(self.available)

    def raise_precision(self) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Make passes in float64 from now on.

        Yields all atoms that may be taken, tile by tile, as `downdate` does those whose norms were computed again.
        """
        self.D = in_float64(self.D)
        self._pass_in_precision_of(self.basis.directions)
        self.norms = RunningNorms(self.norms.squared, self.norms.centred, self.norms.raw, self._limit, self.eps)
        self._inside = self._kept_products = None
        self.available |= self._set_aside
        for J, part in self._recompute(np.flatnonzero(self.available)):
            self.norms.centred[J] = part.centred
            yield J, part
        self._bar_in_span()

    @property
    def tie_tolerance(self) -> Any:
        """Relative difference under which scores are equal; one for each atom where running norms are kept.

        A norm that has fallen to a share x of what it was is known 1/x times less well.
        """
        norms, least = self.norms, self.narrowest_tie
        return tie_tolerances(least * norms.raw, norms.squared, self.available, least) if len(norms.raw) else least

    # -- directions of chosen atoms

    def extend(self, block: list[int]) -> list[Direction]:
        """Directions that the atoms of `block` add one after the other. They wait until `choose` or `give_back`."""
        atoms = np.array(block)
        tails = np.zeros((len(block), 0)) if self.ridge is None else self.ridge.extend(atoms)
        return self._directions.extend(block, self.columns(atoms), tails)

    def choose(self, atom: int) -> None:
        """Record that `atom` was taken, so that it is in the span now."""
        if self.orthogonal:
            self.available[atom] = False
            self.size += 1

    # -- inner products of a pool of atoms, for simulations

    def pool_gram(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of deflated atoms `J`, (len(J), len(J)), and norms at which each lies in the span.

        No column is deflated: D̃ᵀD̃ = DᵀD − PᵀP with P the products of the atoms with the directions. These were computed
        for all atoms when the directions were taken, and are kept from the first pool on. In float32 an atom of which
        little is left counts as in the span of the pool.
        """
        n, dtype = self.D.shape[0], np.dtype(np.float32 if self.single else np.float64)
        spare = getattr(self.D, "spare", 0)
        if self._kept_products is None:
            memory = max(2 * self.D.tile * n * dtype.itemsize, spare // 2)
            first = np.zeros((0, len(self.available))) if self._inside is None else self._inside
            self._kept_products = KeptProducts(self.size, first, dtype, memory, self.basis.capacity)
        # Columns of a pool that is cut are made again for each pair.
        width = max(self.D.tile, spare // (4 * n * dtype.itemsize))
        gram = np.zeros((len(J), len(J))) if self.ridge is None else self.ridge.gram(J)
        inside = np.empty((self.size, len(J)))
        for part, other, columns, others in pairs_of_pieces(J, width, n, self._columns_of_pass):
            inner = inner_products(columns, others)  # where reading is slow, it is read with those below
            if part == other:
                own = self._products_with_directions(J[part], columns)
                inside[:, part] = self._kept_products.completed(J[part], self.size, own)
            products = to_host(inner)
            gram[part, other] += products
            if part != other:
                gram[other, part] += products.T
            del columns, others  # before the next ones are made
        gram -= inside.T @ inside
        self.passes += len(J) / len(self.available)
        little = self.norms.squared[J] < (_LEAST_IN_POOL if self.single else 0.0) * self.norms.raw[J]
        return gram, np.where(little, np.inf, self.norms.floor[J])

    def _columns_of_pass(self, J: np.ndarray) -> Array:
        """Atoms `J`, weighted and centred, in the precision of passes."""
        return self._in_precision_of_passes(self.centre(self.scale_rows(self.D.columns(J))))

    def _products_with_directions(self, J: np.ndarray, columns: Array) -> Callable[[slice], np.ndarray]:
        """Function of a range of directions: their products with atoms `J`, given the `columns` of these."""
        tails = self._tails(J)
        T = self.basis.tails[:, : tails.shape[1]]

        def products(rows: slice) -> np.ndarray:
            Q = self._in_precision_of_passes(self.basis.directions[rows, :])
            return to_host(Q @ columns) + T[rows] @ tails[:, : T.shape[1]].T

        return products


def _check_finite(norms: np.ndarray) -> None:
    """An error where the squared norms of atoms overflow."""
    if not np.all(np.isfinite(norms)):
        raise ValueError("the atoms overflow on X: scale X, or change kernel or gamma")
