"""The atoms outside the span of the chosen ones: what every criterion that orthogonalises keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import (
    Array,
    energies,
    eps,
    in_double,
    in_span_limit,
    namespace,
    narrowest_tie,
    squared_rows,
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
from kernelpursuit.atoms.tiles import inner_products
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.directions import Deflated, Direction, RawDirections, SpanDirections
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.pursuit.pool_matrices import KeptProducts, pairs_of_pieces
from kernelpursuit.pursuit.ridge import Ridge
from kernelpursuit.pursuit.rounding import stale, tie_tolerances
from kernelpursuit.pursuit.row_weights import RowWeights

_IN_SPAN_WITH_RIDGE = 1e-10  # share of ‖d‖² at which an atom counts as in the span where there is a penalty
_MANY = 0.1  # share of the norms; where more are computed again after a pass, passes go over to float64
_PASS_ERROR = 0.05  # times eps ‖d‖ ‖v‖: error of a product dᵀv of float32 numbers, about
_LEAST_IN_POOL = 3e-5  # share of ‖d‖² below which inner products of a pool in float32 may be wrong by a percent


class PoolProducts(NamedTuple):
    """Inner products of some atoms of the last pool."""

    inside: np.ndarray  # (size, b), with the directions
    gram: np.ndarray  # (b, b), with each other, outside the span
    kept: np.ndarray  # (size, n_atoms), those of all atoms with the directions


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
    squared : ndarray of shape (n_atoms,)
        Running squared norms of the deflated atoms.
    centred : ndarray of shape (n_atoms,)
        Squared norms of the atoms with only the constant removed.
    size : int
        Directions in use, that of the constant included. Those of a block wait behind them until its atoms are taken.
    passes : float
        Passes over the data so far.

    Notes
    -----
    Columns that become directions are float64, and so is all that is computed from the definition. Passes over the data
    are in the precision of `like`. In float32 a norm has few digits to lose. Where many norms of a block must be
    computed from the definition again, passes are made in float64 from then on (`raise_precision`).
    """

    basis_type: type[Basis] = Basis
    keeps_first = False  # whether products with the directions before the first pass are kept: they cost no read

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
        self._narrowest_tie = narrowest_tie(like)
        self._tie_tolerances: np.ndarray | None = None  # of each atom, until the next step
        wide = xp.empty((n, 0), dtype=xp.float64, device=like.device)
        # Penalty coordinates come from differences of squared norms, so they carry half as many digits as columns do.
        self._limit = _IN_SPAN_WITH_RIDGE if alpha > 0 else in_span_limit(wide)
        rows = RowWeights(weights, wide, counts)
        self.scale_rows, self.unscale_rows, self.leverage = rows.scale_rows, rows.unscale_rows, rows.leverage
        self.total_weight, self.unit = rows.total, rows.unit
        self.groups = None if groups is None else Groups(groups, weights, wide)
        self.basis = self.basis_type(wide)
        self.ridge = Ridge(dictionary, alpha / self.unit, wide) if alpha > 0 else None
        if intercept:
            self._add_constant(self.scale_rows(xp.ones((n, 1), dtype=wide.dtype, device=wide.device))[:, 0])
        self.size = self.basis.size
        self._directions = (SpanDirections if orthogonal else RawDirections)(self.basis)
        self.solve, self.coefficients = self._directions.solve, self._directions.coefficients
        self.available = np.ones(m, dtype=bool)
        self.squared = self.centred = self._raw = np.zeros(0)
        self._reference = np.zeros(0)  # squared norms when they were last computed from the definition
        self._recomputed = 0  # norms computed from the definition again since the last pass
        self._set_aside = np.zeros(m, dtype=bool)  # atoms barred because float32 does not tell them from the span
        self._floor = np.zeros(0)  # squared norms at which atoms lie in the span
        self._kept: KeptProducts | None = None  # from the first pool on
        self._first = np.zeros((0, m))  # products with the directions before that, where `keeps_first`
        self._pool: tuple[int, np.ndarray, np.ndarray] | None = None  # of the last pool: size, atoms, inner products

    def _add_constant(self, column: Array) -> None:
        """Make the constant, weighted, the first direction."""
        self.basis.append(column)

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

    def bar_in_span(self, J: np.ndarray, part: Deflated) -> None:
        """Bar those of atoms `J` that lie in the span from being taken, given these atoms deflated."""
        self.available[J] &= part.squared > self._limit * part.raw

    # -- scores

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
            a, norms = sweep(self.D, lambda tile: self._products_and_norms(tile, products, jointly), J)
            self.passes += len(J) / len(self.available)
        else:
            a, norms = running, self.squared if jointly else self.centred
            if J is not None:
                a, norms = a[J], norms[J]
        gain = ratios(a, norms, self.available if J is None else self.available[J])
        if not gain.max(initial=0) < np.inf:
            raise ValueError("the products of atoms and targets overflow: scale X or y, or change kernel or gamma")
        return gain

    def _products_and_norms(
        self, J: np.ndarray, products: Callable[[Deflated], np.ndarray], jointly: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Products and norms of atoms `J` from the definition; those in the span are barred."""
        part = self.deflate(J)
        self.bar_in_span(J, part)
        return products(part), part.squared if jointly else part.centred

    @property
    def tie_tolerance(self) -> Any:
        """Relative difference under which scores are equal; one for each atom where running norms are kept.

        A norm that has fallen to a share x of what it was is known 1/x times less well.
        """
        if not len(self.squared):
            return self._narrowest_tie
        if self._tie_tolerances is None:
            error = self._narrowest_tie * self._raw
            self._tie_tolerances = tie_tolerances(error, self.squared, self.available, self._narrowest_tie)
        return self._tie_tolerances

    def floor(self, J: np.ndarray) -> np.ndarray:
        """The squared norm at which each of atoms `J` counts as lying in the span."""
        return self._floor[J]

    # -- running norms of all atoms

    def measure_exactly(self, products: Callable[[Deflated], np.ndarray]) -> np.ndarray:
        """Make the running norms of all atoms from the definition and return `products` of all of them, in one pass."""

        def tile(J: np.ndarray) -> tuple[np.ndarray, ...]:
            part = self.deflate(J)
            self.bar_in_span(J, part)
            return products(part), part.squared, part.centred, part.raw

        joined, self.squared, self.centred, self._raw = sweep(self.D, tile)
        self._set_floor()
        self._tie_tolerances = None
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
            columns, raw, centred = self._weighted(in_double(self.D.columns(J)))
            return columns.T @ vectors, raw, centred

        if self.groups is None and hasattr(self.D, "moments") and self._xp is np:
            weights = self.scale_rows(np.ones((len(vectors), 1)))[:, 0] ** 2
            products, raw = self.D.moments(self.scale_rows(vectors), weights)
            squared = raw
        else:
            products, raw, squared = (sweep_in_threads if self._xp is np else sweep)(self.D, tile)
        _check_finite(raw)
        penalty = np.zeros(len(raw))
        if self.ridge is not None:
            for J in pieces(self.D):
                own = self._tails(J)
                for columns, other in ((slice(size), self.basis.tails[:size].T), (slice(size, None), tails)):
                    width = min(own.shape[1], len(other))
                    products[J, columns] += own[:, :width] @ other[:width]
                penalty[J] = np.sum(own**2, axis=1) + self.ridge.rest(J, own)
        self._raw, squared = raw + penalty, squared + penalty
        self._set_floor()
        inside = products[:, :size]
        self.centred = squared - (inside[:, 0] ** 2 if self.intercept else 0.0)
        self.squared, self._reference = squared.copy(), squared.copy()
        self.passes += 1
        a = products[:, size:].copy()
        if self.keeps_first:
            self._first = inside.T.copy()
        for J, part in self._downdate(inside):
            self.centred[J], a[J] = part.centred, part.products(samples, tails)
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
        if self._kept is not None and self.orthogonal:
            self._kept.append(products)
        yield from self._downdate(products[:, None])

    def _downdate(self, products: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Take several directions out of the running norms, given their products (n_atoms, b) with all atoms."""
        self.squared -= squared_rows(products)
        self._tie_tolerances = None
        known = np.where(self.available, self.squared, np.inf)
        needed = np.sqrt(self.eps) * self._reference
        if self.single:  # products are wrong by a share of eps ‖d‖, however little is left of d
            needed = _PASS_ERROR * np.sqrt(self.eps) * np.sqrt(self._raw) * np.sqrt(self._reference)
            needed = np.maximum(needed, self._floor)  # no atom is barred before its norm was computed in float64
        lost = stale(known, needed)
        self._recomputed += len(lost)
        yield from self._recompute(lost)
        self._bar_below_floor()

    def _bar_below_floor(self) -> None:
        """Bar atoms whose running norm is too small from being taken; in float32 only until passes are in float64."""
        low = self.available & (self.squared <= self._floor)
        self.available &= ~low
        if self.single:
            self._set_aside |= low

    def _recompute(self, atoms: np.ndarray) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Norms of some atoms from the definition, tile by tile."""
        for J, part in each_piece(self.D, self.deflate, atoms):
            self.squared[J] = self._reference[J] = part.squared
            yield J, part
        self._tie_tolerances = None
        self.passes += len(atoms) / len(self.available)

    def _set_floor(self) -> None:
        """Note at which squared norm each atom counts as lying in the span, in the precision of passes."""
        self._floor = (max(self._limit, self.eps) if self.single else self._limit) * self._raw

    # -- precision of passes

    @property
    def needs_float64(self) -> bool:
        """Whether passes lose too many digits: since the last one too many norms were computed from the definition."""
        return self.single and self._recomputed > _MANY * len(self.available)

    def raise_precision(self) -> Iterator[tuple[np.ndarray, Deflated]]:
        """Make passes in float64 from now on.

        Yields all atoms that may be taken, tile by tile, as `downdate` does those whose norms were computed again.
        """
        self.D, self._dtype, self.single = in_float64(self.D), self._xp.float64, False
        like = self.basis.directions
        self.eps, self._narrowest_tie, self._kept = eps(like), narrowest_tie(like), None
        self._set_floor()
        self.available |= self._set_aside
        for J, part in self._recompute(np.flatnonzero(self.available)):
            self.centred[J] = part.centred
            yield J, part
        self._bar_below_floor()

    def _in_precision_of_passes(self, vectors: Array) -> Array:
        return vectors if vectors.dtype == self._dtype else self._xp.astype(vectors, self._dtype)

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

    def give_back(self, directions: list[Direction]) -> None:
        """Undo `extend` for its last `directions`."""
        self._directions.give_back(len(directions))

    # -- inner products of a pool of atoms, for simulations

    def pool_gram(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of deflated atoms `J`, (len(J), len(J)), and norms at which each lies in the span.

        No column is deflated: D̃ᵀD̃ = DᵀD − PᵀP with P the products of the atoms with the directions. These were computed
        for all atoms when the directions were taken, and are kept from the first pool on. In float32 an atom of which
        little is left counts as in the span of the pool.
        """
        if self._kept is None:
            self._kept = self._room_for_products()
        spare, itemsize = getattr(self.D, "spare", 0), np.dtype(np.float32 if self.single else np.float64).itemsize
        # Columns of a pool that is cut are made again for each pair.
        width = max(self.D.tile, spare // (4 * self.D.shape[0] * itemsize))
        missing = self._kept.missing(self.size)
        gram = np.zeros((len(J), len(J))) if self.ridge is None else self.ridge.gram(J)
        rest = np.empty((sum(rows.stop - rows.start for rows in missing), len(J)))
        found = []  # read when all of it is under way
        for part, other, columns, others in pairs_of_pieces(J, width, self.D.shape[0], self._columns_of_pool):
            own = missing if other == part else []
            inside = [self._in_precision_of_passes(self.basis.directions[rows, :]) @ columns for rows in own]
            found.append((part, other, inner_products(columns, others), inside))
            del columns, others  # before the next ones are made
        for part, other, inner, inside in found:
            products = to_host(inner)
            gram[part, other] += products
            if other == part:
                rest[:, part] = self._with_tails(missing, J[part], inside)
            else:
                gram[other, part] += products.T
        for products in (self._kept.at(J), rest):
            gram -= products.T @ products
        self.passes += len(J) / len(self.available)
        self._pool = self.size, J, gram.copy()  # a simulation changes its own
        little = self.squared[J] < (_LEAST_IN_POOL if self.single else 0.0) * self._raw[J]
        return gram, np.where(little, np.inf, self._floor[J])

    def _columns_of_pool(self, J: np.ndarray) -> Array:
        return self._in_precision_of_passes(self.centre(self.scale_rows(self.D.columns(J))))

    def _room_for_products(self) -> KeptProducts:
        """Where products of all atoms with the directions from now on are kept, as far as there is memory."""
        dtype = np.dtype(np.float32 if self.single else np.float64)
        memory = max(2 * self.D.tile * self.D.shape[0] * dtype.itemsize, getattr(self.D, "spare", 0) // 2)
        first = self._first if len(self._first) == self.size else self._first[:0]
        kept = KeptProducts(self.size - len(first), len(self.available), dtype, memory, self.basis.capacity)
        for products in first:
            kept.append(products)
        return kept

    def products_of_pool(self, block: list[int]) -> PoolProducts | None:
        """Inner products of the atoms of `block` that the last pool has brought; None where it has not brought all."""
        if self._pool is None or self._kept is None or self._kept.missing(self.size):
            return None
        size, J, gram = self._pool
        index = np.searchsorted(J, block)
        if size != self.size or size != self.basis.size or not np.array_equal(J[np.minimum(index, len(J) - 1)], block):
            return None
        return PoolProducts(self._kept.at(np.array(block)), gram[np.ix_(index, index)], self._kept.all())

    def _with_tails(self, ranges: list[slice], J: np.ndarray, inside: list[Array]) -> np.ndarray:
        """Products of atoms `J` with some ranges of the directions, given those over the rows."""
        tails = self._tails(J)
        T = self.basis.tails[:, : tails.shape[1]]
        products = [
            to_host(part) + T[rows] @ tails[:, : T.shape[1]].T for rows, part in zip(ranges, inside, strict=True)
        ]
        return np.concatenate([np.zeros((0, len(J))), *products])


def ratios(products: np.ndarray, norms: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Scores ‖a‖² / norm of some atoms, a the rows of `products`; ``-inf`` where an atom is not `possible`."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # atoms that are not possible
        gain = squared_rows(products) / norms
    gain[~possible] = -np.inf
    return gain


def _check_finite(norms: np.ndarray) -> None:
    """An error where the squared norms of atoms overflow."""
    if not np.all(np.isfinite(norms)):
        raise ValueError("the atoms overflow on X: scale X, or change kernel or gamma")
