"""Steps of the squared loss on remote rows: all numbers of a block of atoms are read in one message."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, energies, from_host, namespace, padded, to_host
from kernelpursuit.dask.basis import RemoteBasis
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Direction

_FALLEN = 1e-3  # share of the energy from which on differences have lost too many digits


class PoolProducts(NamedTuple):
    """Inner products of some atoms of the last pool."""

    inside: np.ndarray  # (size, b), with the directions
    gram: np.ndarray  # (b, b), with each other, outside the span
    kept: np.ndarray  # (size, n_atoms), those of all atoms with the directions


class RemoteDeflation(Deflation):
    """A `Deflation` of remote rows, which remembers the inner products of the last pool."""

    basis: RemoteBasis
    basis_type = RemoteBasis
    _pool: tuple[int, np.ndarray, np.ndarray] | None = None  # directions then, atoms, inner products

    def _add_constant(self, column: Array) -> None:
        self.basis.begin(column, self.total_weight)

    def pool_gram(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As of `Deflation`."""
        gram, floor = super().pool_gram(J)
        self._pool = self.size, J, gram.copy()  # a simulation changes its own
        return gram, floor

    def products_of_pool(self, block: list[int]) -> PoolProducts | None:
        """Inner products of the atoms of `block` that the last pool has brought; None where it has not brought all."""
        kept = None if self.kept_products is None else self.kept_products.all_of(self.size)
        if self._pool is None or kept is None:
            return None
        size, J, gram = self._pool
        index = np.searchsorted(J, block)
        if size != self.size or size != self.basis.size or not np.array_equal(J[np.minimum(index, len(J) - 1)], block):
            return None
        return PoolProducts(kept[:, block], gram[np.ix_(index, index)], kept)


class LazyScalar(np.lib.mixins.NDArrayOperatorsMixin):
    """A number that is read when somebody asks for it, or comes along with what is read before.

    Parameters
    ----------
    total : array
        Its entries are added up.
    divisor : float
    """

    def __init__(self, total: Any, divisor: float):
        self._total, self._divisor = total, divisor

    def __float__(self) -> float:
        return float(np.sum(to_host(self._total)) / self._divisor)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(float(self), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [float(one) if isinstance(one, LazyScalar) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)


class BlockSteps:
    """The steps that the squared loss makes along the directions of a block.

    With r₀ the residual before the block, direction t is taken with length z_t = share (q_tᵀr₀ − Σ_s q_tᵀq_s z_s), and
    ‖r‖² changes by z_t² ‖q_t‖² − 2 z_t q_tᵀr. For directions that are orthogonal the inner products are 0.

    Parameters
    ----------
    residual : array of shape (n_samples, n_targets)
    tail : ndarray of shape (any, n_targets)
        Its penalty coordinates.
    directions : list of Direction
    share : float
        Of the full step.
    orthogonal : bool
    known : tuple of ndarray of shape (len(directions), n_targets) and float, optional
        q_tᵀr₀ and ‖r₀‖², penalty included, where they have been read.

    Attributes
    ----------
    lengths : list of ndarray of shape (n_targets,)
    """

    def __init__(
        self,
        residual: Array,
        tail: np.ndarray,
        directions: list[Direction],
        share: float,
        orthogonal: bool,
        known: tuple[np.ndarray, float] | None = None,
    ):
        self._residual, self._directions, self._share, self._known = residual, directions, share, known
        self.lengths: list[np.ndarray] = []
        self._energies: list[float] = []
        self._left_out: list[Any] = []
        self._after: list[tuple[Array, Any]] = []
        if known is not None or not directions:
            self._inner = None
            return
        samples = namespace(residual).stack([direction.sample for direction in directions], axis=0)
        width = max(len(tail), *(len(direction.tail) for direction in directions))
        self._tails = np.concatenate([padded(direction.tail[None], 1, width) for direction in directions])
        self._tail = padded(tail, width)
        # Not read yet: they come along with whatever is read first.
        self._inside, self._start = samples @ residual, energies(residual)
        self._inner = None if orthogonal else samples @ samples.T

    def walk(self, left_out: Any = None) -> BlockSteps:
        """Read what is not known, and walk along the directions; `left_out` follows on its own copy."""
        if not self._directions:
            return self
        if self._known is not None:
            inside, energy = self._known
        else:
            inside = to_host(self._inside) + self._tails @ self._tail
            energy = float(np.sum(to_host(self._start)) + np.sum(self._tail**2))
        inner = np.eye(len(inside))
        if self._inner is not None:
            inner = to_host(self._inner) + self._tails @ self._tails.T
        self._first, left_out, residual = energy, copy(left_out), self._residual
        for t, direction in enumerate(self._directions):
            now = inside[t] - sum(inner[t, s] * length for s, length in enumerate(self.lengths))
            length = self._share * now
            energy += float(np.sum(length**2 * inner[t, t] - 2 * length * now))
            self.lengths.append(length)
            self._energies.append(energy)
            if left_out is not None:
                residual = residual - direction.sample[:, None] * from_host(length, residual)[None, :]
                left_out.move(direction.sample, length, residual)
                self._after.append((residual, copy(left_out)))
                self._left_out.append(energies(left_out.residual))
        return self

    def after(self, index: int) -> tuple[Array, Any] | None:
        """The residual and the left-out ones after a step, where they were followed."""
        return self._after[index] if self._after else None

    def energy(self, index: int) -> float | None:
        """Squared norm of the residuals after a step, penalty included; None where it has to be measured."""
        energy = self._energies[index]
        return energy if energy > _FALLEN * self._first else None

    def left_out(self, index: int, divisor: float) -> Any:
        """Sum of squared left-out residuals after a step over `divisor`; nan where nobody follows them."""
        return LazyScalar(self._left_out[index], divisor) if self._left_out else np.nan


class BlockDirections(NamedTuple):
    """Directions that a block of atoms adds to the span, and the products that a criterion needs of them."""

    directions: list[Direction]
    products: np.ndarray  # (n_atoms, b), of all atoms with the directions
    inside: np.ndarray  # (b, t), products of the directions with the residual
    energy: float  # squared norm of the residual


def remote_block_directions(
    atoms: RemoteDeflation, block: list[int], residual: Array, tail: np.ndarray
) -> BlockDirections | None:
    """The directions of `block`, made of the inner products that its simulation has brought, and checked by one read.

    With C the columns and Q the directions, S = QᵀC and what is left of CᵀC are known. So Q₁ = (C - QS) R₁⁻¹ needs no
    read. It is orthonormal but for rounding, and one read says how far from it: then Q₂ = (Q₁ - Q QᵀQ₁) R₂⁻¹, and the
    products of all atoms, which were made with Q₁, follow from those with Q, which are kept.

    Parameters
    ----------
    atoms : RemoteDeflation
    block : list of int
    residual : array of shape (n_samples, t)
        Outside the span.
    tail : ndarray of shape (any, t)

    Returns
    -------
    BlockDirections or None
        None where these products are not known, or not well enough.
    """
    known = atoms.products_of_pool(block)
    if known is None:
        return None
    J, basis = np.array(block), atoms.basis
    tails = np.zeros((len(J), 0)) if atoms.ridge is None else atoms.ridge.extend(J)
    width, before = tails.shape[1], basis.size
    near = basis.first_round(atoms.columns(J), tails, known.inside, known.gram)
    if near.samples.shape[1] < len(block):  # where it ends is for exact columns to say, as on one machine
        return None
    Q = basis.directions
    reads = Q @ near.samples, near.samples.T @ near.samples, near.samples.T @ residual, energies(residual)
    products = atoms.correlate(near.samples, near.tails.T)  # this one is read, and the others come along
    along, gram, inside, energy = (to_host(one) for one in reads)
    turned = basis.second_round(near, along, gram)
    if turned is None:
        return None
    products = np.asfortranarray((products - known.kept.T @ turned.along) @ turned.turn)
    common = min(len(tail), near.tails.shape[1])
    inside = turned.turn.T @ (inside + near.tails[:, :common] @ tail[:common])  # the residual has no part along Q
    directions = [
        Direction(atom, basis.directions[row, :], basis.tails[row, :width])
        for row, atom in enumerate(block[: basis.size - before], start=before)
    ]
    return BlockDirections(directions, products, inside, float(np.sum(energy) + np.sum(tail**2)))
