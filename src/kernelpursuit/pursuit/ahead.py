"""Lengths and losses of all steps of a block, read at once where each read has a long way."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, energies, from_host, namespace, padded, to_host
from kernelpursuit.pursuit.directions import Direction

_FALLEN = 1e-3  # share of the energy from which on differences have lost too many digits


class Later(np.lib.mixins.NDArrayOperatorsMixin):
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
        plain = [float(one) if isinstance(one, Later) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)


class Ahead:
    """Changes of the squared loss along directions that wait.

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
        self._directions, self._share, self._known = directions, share, known
        self.lengths: list[np.ndarray] = []
        self._energies: list[float] = []
        self._left_out: list[Any] = []
        self._after: list[tuple[Array, Any]] = []
        if known is not None:
            self._inner = None
            return
        samples = namespace(residual).stack([direction.sample for direction in directions], axis=0)
        width = max(len(tail), *(len(direction.tail) for direction in directions))
        self._tails = np.concatenate([padded(direction.tail[None], 1, width) for direction in directions])
        self._tail = padded(tail, width)
        # Not read yet: they come along with whatever is read first.
        self._inside, self._start = samples @ residual, energies(residual)
        self._inner = None if orthogonal else samples @ samples.T

    def go(self, residual: Array, left_out: Any) -> None:
        """Walk along the directions; `left_out` follows on its own copy."""
        if self._known is not None:
            inside, energy = self._known
        else:
            inside = to_host(self._inside) + self._tails @ self._tail
            energy = float(np.sum(to_host(self._start)) + np.sum(self._tail**2))
        inner = np.eye(len(inside))
        if self._inner is not None:
            inner = to_host(self._inner) + self._tails @ self._tails.T
        self._first, left_out = energy, copy(left_out)
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
                self._left_out.append(namespace(residual).sum(left_out.residual * left_out.residual))

    def after(self, place: int) -> tuple[Array, Any] | None:
        """The residual and the left-out ones after a step, where they were followed."""
        return self._after[place] if self._after else None

    def energy(self, place: int) -> float | None:
        """Squared norm of the residuals after a step, penalty included; None where it has to be measured."""
        energy = self._energies[place]
        return energy if energy > _FALLEN * self._first else None

    def left_out(self, place: int, divisor: float) -> Any:
        """Sum of squared left-out residuals after a step over `divisor`; nan where nobody follows them."""
        return Later(self._left_out[place], divisor) if self._left_out else np.nan
