"""The steps of a block foreseen: lengths and losses of all of them, read at once where each read has a long way."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from kernelpursuit._array import Array, energies, from_host, namespace, to_host
from kernelpursuit.pursuit.directions import Direction

_FALLEN = 1e-3  # share of the energy from which on differences have lost too many digits


class Ahead:
    """What the squared loss does along directions that wait.

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

    Attributes
    ----------
    lengths : list of ndarray of shape (n_targets,)
    """

    def __init__(self, residual: Array, tail: np.ndarray, directions: list[Direction], share: float, orthogonal: bool):
        self._directions, self._share = directions, share
        samples = namespace(residual).stack([direction.sample for direction in directions], axis=0)
        width = max(len(tail), *(len(direction.tail) for direction in directions))
        self._tails = np.stack([np.pad(direction.tail, (0, width - len(direction.tail))) for direction in directions])
        self._tail = np.pad(tail, ((0, width - len(tail)), (0, 0)))
        # Not read yet: they come along with whatever is read first.
        self._inside, self._start = samples @ residual, energies(residual)
        self._inner = None if orthogonal else samples @ samples.T
        self.lengths: list[np.ndarray] = []
        self._energies: list[float] = []
        self._left_out: list[Any] = []

    def go(self, residual: Array, left_out: Any) -> None:
        """Walk along the directions; `left_out` follows on its own copy."""
        inside = to_host(self._inside) + self._tails @ self._tail
        inner = np.eye(len(inside))
        if self._inner is not None:
            inner = to_host(self._inner) + self._tails @ self._tails.T
        energy = float(np.sum(to_host(self._start)) + np.sum(self._tail**2))
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
                self._left_out.append(namespace(residual).sum(left_out.residual * left_out.residual))

    def energy(self, place: int) -> float | None:
        """Squared norm of the residuals after a step, penalty included; None where it has to be measured."""
        energy = self._energies[place]
        return energy if energy > _FALLEN * self._first else None

    def left_out(self, place: int) -> float:
        """Sum of squared left-out residuals after a step, nan where nobody follows them."""
        return float(np.sum(to_host(self._left_out[place]))) if self._left_out else np.nan
