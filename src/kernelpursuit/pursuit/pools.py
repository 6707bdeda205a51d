"""Inner products of a pool of atoms outside the span: what a rehearsal is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, to_host
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.atoms.tiles import inner_products
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.rehearsal_matrices import KeptProducts, pairs
from kernelpursuit.pursuit.ridge import Ridge

_LEAST = 3e-5  # share of ‖d‖² below which inner products of a rehearsal in float32 may be wrong by a percent


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
    single: bool
    size: int
    passes: float
    weigh: Callable[[Array], Array]
    centre: Callable[[Array], Array]
    _raw: np.ndarray
    _kept: KeptProducts | None
    _first: np.ndarray
    _pool: tuple[int, np.ndarray, np.ndarray] | None
    _tails: Callable[[np.ndarray], np.ndarray]
    _narrowed: Callable[[Array], Array]

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

    def little_is_left(self, J: np.ndarray) -> np.ndarray:
        """Of which of the atoms `J` inner products by differences would be wrong."""
        return self.squared[J] < (_LEAST if self.single else 0.0) * self._raw[J]

    def _products(self, missing: list[slice], J: np.ndarray, inside: list[Array]) -> np.ndarray:
        """Products of atoms `J` with some ranges of the directions, given those over the rows."""
        tails = self._tails(J)
        T = self.basis.tails[:, : tails.shape[1]]
        pairs = zip(missing, inside, strict=True)
        products = [to_host(part) + T[rows] @ tails[:, : T.shape[1]].T for rows, part in pairs]
        return np.concatenate([np.zeros((0, len(J))), *products])
