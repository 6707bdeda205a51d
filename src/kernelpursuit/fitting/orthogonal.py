"""A squared-loss fit in coordinates along orthonormal directions, with its leave-one-out residuals."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from kernelpursuit.arrays import Array, from_host, in_double
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.pursuit.left_out import leave_out

_AT_ONCE = 32  # directions rotated by one product


@dataclass(frozen=True, eq=False)
class OrthogonalFit:
    """The squared-loss fits after 0, 1, ... steps, in coordinates along orthonormal directions over the rows.

    One direction is for the constant and one for each atom. All fits with a direction have the same coordinate along
    it.

    Parameters
    ----------
    criterion : Squares
        After its pursuit; holds the directions and the weights of the rows.
    targets : array of shape (n_samples, n_targets)
    lengths : ndarray of shape (size, n_targets)
    turn : ndarray of shape (size, size), optional
        Rotation from the directions of the criterion to these, where they differ.
    """

    criterion: Squares
    targets: Array
    lengths: np.ndarray
    turn: np.ndarray | None = None

    @classmethod
    def of(cls, criterion: Squares, targets: Array, weights: WeightPath) -> OrthogonalFit:
        """The fit after a pursuit, from the `weights` along its path."""
        lengths = weights.lengths
        if criterion.deflation.intercept:
            constant = weights.constants[:1] * criterion.deflation.basis.R[0, 0]
            lengths = np.concatenate([constant, lengths])
        return cls(criterion, targets, lengths)

    def residuals(self, sizes: Container[int] | None = None) -> Iterator[tuple[Array, Array]]:
        """Leave-one-out residuals y_i - f⁻ⁱ(x_i) and residuals y_i - f(x_i) after 0, 1, ... steps, or after `sizes`.

        Each (n_samples, n_targets). With groups, f⁻ⁱ is fitted without the group of row i; nan if there is one group.
        """
        deflation = self.criterion.deflation
        r = deflation.centre(deflation.scale_rows(in_double(self.targets)))
        left_out = leave_out(r, deflation)

        def now(size: int) -> Iterator[tuple[Array, Array]]:
            if sizes is None or size in sizes:
                residual = left_out.residual if left_out is not None else r * np.nan
                yield deflation.unscale_rows(residual), deflation.unscale_rows(r)

        if not deflation.intercept:
            yield from now(0)
        for t, sample in enumerate(self._directions()):
            r = r - sample[:, None] * from_host(self.lengths[t], r)[None, :]
            if left_out is not None:
                left_out.move(sample, self.lengths[t], r)
            yield from now(t + 1 - deflation.intercept)

    def _directions(self) -> Iterator[Array]:
        """The directions over the rows, one by one."""
        Q = self.criterion.deflation.basis.directions[: len(self.lengths), :]
        for start in range(0, len(self.lengths), _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, len(self.lengths)))
            block = Q[some, :] if self.turn is None else from_host(self.turn[:, some].T, Q) @ Q
            for row in range(block.shape[0]):
                yield block[row, :]
