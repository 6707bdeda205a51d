"""A fit with the squared loss along orthonormal directions over the rows: a ridge for it, and rows left out of it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from kernelpursuit.arrays import Array, from_host, in_double
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.pursuit.left_out import leave_out

_AT_ONCE = 32  # directions that are turned by one product


@dataclass(frozen=True, eq=False)
class OrthogonalFit:
    """The fits after 0, 1, ... steps, in coordinates along orthonormal directions.

    There is a direction for the constant and one for each atom. Every fit that reaches a direction has the same
    coordinate along it.

    Parameters
    ----------
    criterion : Squares
        After its pursuit; it holds the directions and the weights of the rows.
    targets : array of shape (n_samples, n_targets)
    lengths : ndarray of shape (size, n_targets)
    turn : ndarray of shape (size, size), optional
        The directions, as columns in coordinates of those of the criterion, where they are not the same.
    """

    criterion: Squares
    targets: Array
    lengths: np.ndarray
    turn: np.ndarray | None = None

    @classmethod
    def of(cls, criterion: Squares, targets: Array, weights: WeightPath) -> OrthogonalFit:
        """The fit of a pursuit with the `weights` of its path."""
        lengths = weights.lengths
        if criterion.atoms.intercept:
            constant = weights.constants[:1] * criterion.atoms.basis.R[0, 0]
            lengths = np.concatenate([constant, lengths])
        return cls(criterion, targets, lengths)

    def residuals(self, sizes: Container[int] | None = None) -> Iterator[tuple[Array, Array]]:
        """Residuals y_i - f⁻ⁱ(x_i), weights refitted without row i, and y_i - f(x_i), after 0, 1, ... steps.

        Each (n_samples, n_targets). Without its group where there are groups; nan where there is a single one. With
        `sizes` only those after so many steps.
        """
        atoms = self.criterion.atoms
        r = atoms.centre(atoms.scale_rows(in_double(self.targets)))
        left_out = leave_out(r, atoms)

        def now(size: int) -> Iterator[tuple[Array, Array]]:
            if sizes is None or size in sizes:
                residual = left_out.residual if left_out is not None else r * np.nan
                yield atoms.unscale_rows(residual), atoms.unscale_rows(r)

        if not atoms.intercept:
            yield from now(0)
        for t, sample in enumerate(self._directions()):
            r = r - sample[:, None] * from_host(self.lengths[t], r)[None, :]
            if left_out is not None:
                left_out.move(sample, self.lengths[t], r)
            yield from now(t + 1 - atoms.intercept)

    def _directions(self) -> Iterator[Array]:
        """Directions over the rows, one after the other."""
        Q = self.criterion.atoms.basis.directions[: len(self.lengths), :]
        for start in range(0, len(self.lengths), _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, len(self.lengths)))
            block = Q[some, :] if self.turn is None else from_host(self.turn[:, some].T, Q) @ Q
            for row in range(block.shape[0]):
                yield block[row, :]
