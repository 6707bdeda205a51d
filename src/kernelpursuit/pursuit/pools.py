"""Inner products of a pool of atoms outside the span: what a rehearsal is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, squared_norms, squared_rows, to_host
from kernelpursuit.atoms.protocol import Dictionary, exact_columns, pieces
from kernelpursuit.atoms.tiles import inner_products
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.directions import Deflated
from kernelpursuit.pursuit.rehearsal_matrices import KeptProducts, pairs
from kernelpursuit.pursuit.ridge import Ridge
from kernelpursuit.pursuit.rounding import may_be_best

PASS_ERROR = 0.25  # times eps times ‖d‖ ‖v‖: error of a product dᵀv in a pass (0.05 to 0.11 on average)
_LITTLE = 1e-3  # share of ‖d‖² below which a norm in float32 is not a difference of larger ones,
_LEAST = 3e-5  # nor the inner products of a rehearsal, which may be wrong by a percent
_FIRST = 4  # one in so many directions, the first, hold nearly all of an atom of which little is left
_AT_ONCE = 256  # directions that are narrowed at once


class Known(NamedTuple):
    """Inner products of some atoms that a rehearsal has brought."""

    inside: np.ndarray  # (size, b), with the directions
    gram: np.ndarray  # (b, b), with each other, outside the span
    kept: np.ndarray  # (size, n_atoms), those of all atoms with the directions


class Pools:
    """The part of `Deflation` that multiplies atoms of a pool with each other; it does not stand alone."""

    D: Dictionary
    basis: Basis
    ridge: Ridge | None
    alive: np.ndarray
    squared: np.ndarray
    start: np.ndarray
    single: bool
    size: int
    eps: float
    passes: float
    weigh: Callable[[Array], Array]
    centre: Callable[[Array], Array]
    floor: Callable[[np.ndarray], np.ndarray]
    _xp: Any
    _raw: np.ndarray
    _floor: np.ndarray
    _error: np.ndarray
    _reference: np.ndarray
    _ties: np.ndarray | None
    _kept: KeptProducts | None
    _first: np.ndarray
    _pool: tuple[int, np.ndarray, np.ndarray] | None
    _read: Callable[[Array], tuple[Array, Array, Array]]
    _tails: Callable[[np.ndarray], np.ndarray]
    _narrowed: Callable[[Array], Array]
    _recompute: Callable[[np.ndarray], Iterator[tuple[np.ndarray, Deflated]]]
    bar: Callable[[np.ndarray, Deflated], None]
    tie: Any

    def rehearsed_gram(self, J: np.ndarray) -> np.ndarray:
        """Inner products of deflated atoms `J`, (len(J), len(J)), without deflating their columns.

        D̃ᵀD̃ = DᵀD − PᵀP with P the products of the atoms with the directions. These were computed for all atoms when
        the directions were taken, and are kept from the first rehearsal on.
        """
        spare, dtype = getattr(self.D, "spare", 0), np.dtype(np.float32 if self.single else np.float64)
        column = self.D.shape[0] * dtype.itemsize
        if self._kept is None:
            room = max(2 * self.D.tile * column, spare // 2)
            first = self._first if len(self._first) == self.size else self._first[:0]
            self._kept = KeptProducts(self.size - len(first), len(self.alive), dtype, room, self.basis.capacity)
            for products in first:
                self._kept.append(products)
        width = max(self.D.tile, spare // (4 * column))  # columns of a pool that is cut are made again for each pair
        missing = self._kept.missing(self.size)
        gram = np.zeros((len(J), len(J))) if self.ridge is None else self.ridge.gram(J)
        rest = np.empty((sum(rows.stop - rows.start for rows in missing), len(J)))
        found = []  # read when all of it is under way
        for part, other, columns, others in pairs(
            J, width, self.D.shape[0], lambda part: self._narrowed(self.centre(self.weigh(self.D.columns(part))))
        ):
            own = missing if other == part else []
            inside = [self._narrowed(self.basis.directions[rows, :]) @ columns for rows in own]
            found.append((part, other, inner_products(columns, others), inside))
            del columns, others  # before the next ones are made
        for part, other, inner, inside in found:
            products = to_host(inner)
            gram[part, other] += products
            if other == part:
                rest[:, part] = self._products(missing, J[part], inside)
            else:
                gram[other, part] += products.T
        for products in (self._kept.at(J), rest):
            gram -= products.T @ products
        self.passes += len(J) / len(self.alive)
        self._pool = self.size, J, gram.copy()  # a rehearsal changes its own
        return gram

    def rehearsed(self, block: list[int]) -> Known | None:
        """What the last rehearsal has brought about the atoms of `block`; None where it has not brought all of it."""
        if self._pool is None or self._kept is None or self._kept.missing(self.size):
            return None
        size, J, gram = self._pool
        places = np.searchsorted(J, block)
        if size != self.size or size != self.basis.size or not np.array_equal(J[np.minimum(places, len(J) - 1)], block):
            return None
        inside = self._kept.at(np.array(block))
        return Known(inside, gram[np.ix_(places, places)], self._kept.all())

    def products_kept(self, J: np.ndarray, columns: Array) -> np.ndarray | None:
        """Products of atoms `J`, given their columns, with the directions: most of them kept, so of a pass's digits.

        None where few were kept, or where a block waits behind the directions in use.
        """
        if self._kept is None or self.size != self.basis.size or not isinstance(columns, np.ndarray):
            return None
        missing = self._kept.missing(self.size)
        if 2 * sum(rows.stop - rows.start for rows in missing) > self.size:
            return None
        products = self._kept.at(J)
        inside = np.empty((self.size, len(J)))
        inside[self._kept.first : self._kept.first + len(products)] = products
        for rows in missing:
            inside[rows] = self._products([rows], J, [self.basis.directions[rows, :] @ columns])
        return inside

    def settle_sample(
        self, J: np.ndarray, a: np.ndarray, error: np.ndarray, products: Callable[[Deflated], np.ndarray], jointly: bool
    ) -> None:
        """After passes in float32: the best of atoms `J` is to be that of the definition, and none may lie in the span.

        `Deflation.settle` says what the parameters are.
        """
        while self.single and len(J):
            norms, wide = (self.squared[J], self._error[J]) if jointly else (self.start[J], self.tie[J] * self.start[J])
            best = may_be_best(np.sqrt(squared_rows(a[J])), error[J], norms, wide, self.alive[J])
            in_span = self.alive[J] & (self.squared[J] - self._error[J] <= self._floor[J])
            atoms = J[(best | in_span) & (error[J] + self._error[J] > 0)]
            if not len(atoms):
                return
            for some, part in self._recompute(atoms):
                a[some], error[some] = products(part), 0
                self.bar(some, part)

    def little_is_left(self, J: np.ndarray) -> np.ndarray:
        """Of which of the atoms `J` inner products by differences would be wrong: columns must be deflated instead."""
        return self.squared[J] < (_LEAST if self.single else 0.0) * self._raw[J]

    def deflated_gram(self, J: np.ndarray, products: Callable[[Deflated], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of deflated atoms `J` from their columns, and `products` of them; their norms are settled.

        What the first directions take, most of an atom where little is left, is removed from the columns in float64;
        what the others take is subtracted from inner products in the precision of a pass, as in `rehearsed_gram`. Atoms
        of which that would leave too few digits are deflated altogether.
        """
        first = min(self.size, max(64, self.size // _FIRST))
        narrow, tailed, squared, own = [], [], [], []
        for tile in pieces(self.D, J):
            part = self._nearly_deflated(tile, first)
            narrow.append(self._narrowed(part.columns))
            tailed.append(part.tails)
            squared.append(part.squared)
            own.append(products(part))
        columns, tails = self._xp.concat(narrow, axis=1), np.concatenate(tailed)
        length = np.sqrt(np.concatenate(squared))
        later = [slice(start, min(start + _AT_ONCE, self.size)) for start in range(first, self.size, _AT_ONCE)]
        far = []  # where each read has a long way: they come along with the first
        if hasattr(columns, "surface"):
            far = [self._narrowed(self.basis.directions[rows, :]) @ columns for rows in later]
        gram = to_host(columns.T @ columns) + tails @ tails.T
        if self.ridge is not None:
            inside = self.ridge.tails(J)
            gram += self.ridge.gram(J) - inside @ inside.T
        taken, spread = np.zeros(len(J)), np.zeros(len(J))
        for place, rows in enumerate(later):
            T = self.basis.tails[rows, : tails.shape[1]]
            inside = far[place] if far else self._narrowed(self.basis.directions[rows, :]) @ columns
            found = to_host(inside) + T @ tails[:, : T.shape[1]].T
            gram -= found.T @ found
            taken += np.sum(found**2, axis=0)
            spread += np.sum(np.abs(found), axis=0)
        error = 2 * PASS_ERROR * self.eps * length * spread
        better = error < self._error[J]
        K = J[better]
        self.squared[K] = self._reference[K] = np.maximum((length**2 - taken)[better], self.floor(K))
        self._error[K] = error[better]
        self._ties = None
        self.passes += len(J) / len(self.alive)
        self._pool = self.size, J, gram.copy()
        return gram, np.concatenate(own)

    def _nearly_deflated(self, J: np.ndarray, first: int) -> Deflated:
        """Atoms `J` without what the first directions take, in float64, or outside the span if little is left then."""
        columns, raw, start = self._read(exact_columns(self.D, J))
        tails = self._tails(J)
        rest = np.zeros(len(J)) if self.ridge is None else self.ridge.rest(J, tails)
        for size in (first, self.size):
            columns, tails, _ = self.basis.complement(columns, tails, rounds=1, size=size)
            squared = squared_norms(columns) + np.sum(tails**2, axis=1) + rest
            if np.min(self.squared[J] / squared) > _LITTLE:
                break
        return Deflated(columns, tails, squared, to_host(start), to_host(raw))

    def _products(self, missing: list[slice], J: np.ndarray, inside: list[Array]) -> np.ndarray:
        """Products of atoms `J` with some ranges of the directions, given those over the rows."""
        tails = self._tails(J)
        T = self.basis.tails[:, : tails.shape[1]]
        pairs = zip(missing, inside, strict=True)
        products = [to_host(part) + T[rows] @ tails[:, : T.shape[1]].T for rows, part in pairs]
        return np.concatenate([np.zeros((0, len(J))), *products])
