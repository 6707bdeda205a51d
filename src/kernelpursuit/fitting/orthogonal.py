"""A fit with the squared loss along orthonormal directions over the rows: a ridge for it, and rows left out of it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, energies, from_host, in_double, squared_norms, to_host
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.math.evidence import RidgeFit, ridge_fit_by_evidence
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.parameters import bound, is_basic, record_of
from kernelpursuit.pursuit.left_out import leave_out
from kernelpursuit.pursuit.loop import Path
from kernelpursuit.pursuit.ridge import penalty_products

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


def rows_counted(data: TrainingData) -> float:
    """How many rows the weights stand for; weights that were scaled down still stand for whole rows."""
    return max(float(len(data.rows)), data.total)


def has_evidence_ridge(model: Any) -> bool:
    """Whether the ridge of a model with these parameters is chosen by the evidence of its rows."""
    return isinstance(getattr(model, "alpha", 0.0), str) and chooses_ridge(model)


def chooses_ridge(model: Any) -> bool:
    """Whether ``alpha="auto"`` is a ridge: not without a joint fit, nor in a statement about the fit without one."""
    return not is_basic(getattr(model, "variant", "prefit")) and not isinstance(record_of(model.stop, bound), bound)


def effective_sample_size(data: TrainingData) -> float:
    """How many rows of equal weight would say as much as these.

    Weights of classes make errors of some rows count for more, but make no rows. A mean over rows that stand for f_i
    and have weights w_i = a_i f_i varies as one over (Σ w)² / Σ a w equal rows. That is Σ f where all a are equal.
    """
    if data.counts is None:
        return rows_counted(data)
    weights, counts = (np.asarray(one, dtype=np.float64) for one in (data.weights, data.counts))
    size = np.sum(weights) ** 2 / np.sum(weights * (weights / counts))
    return float(size * max(1.0, len(counts) / np.sum(counts)))


def with_evidence_ridge(fit: OrthogonalFit, path: Path, n: float) -> tuple[float, OrthogonalFit, WeightPath, Path]:
    """Fit chosen atoms under the ridge that their evidence prefers: the ridge, the fit, its weights and its path.

    The ridge is that of the steps which the path keeps, or of all where it keeps none: another loss may keep some under
    it, and needs it most where all is noise. Scores, and what they certify, are those of the choice, which was made
    without a ridge. `n` is the number of rows.
    """
    atoms = fit.criterion.atoms
    constants, taken = int(atoms.intercept), path.truncate(len(path) + len(path.discarded))
    size, kept = constants + len(taken), len(path) or len(taken)
    R, theta = atoms.basis.R[:size, :size], fit.lengths[:size]
    G = penalty_products(atoms.D.gram, atoms.D.shape[1])(taken.atoms, taken.atoms)
    centred = atoms.centre(atoms.scale_rows(in_double(fit.targets)))
    centred = centred - atoms.basis.directions[:constants, :].T @ from_host(theta[:constants], centred)
    energy = squared_norms(centred)
    ridge, small = ridge_fit_by_evidence(R, G, theta, energy, n, kept)
    if small is None:
        return 0.0, fit, fit.criterion.weight_path(len(taken)), path
    turned = OrthogonalFit(fit.criterion, fit.targets, small.lengths, small.turn)
    return ridge * atoms.unit, turned, weight_path(small, constants), with_losses(path, turned, energy)


def weight_path(fit: RidgeFit, constants: int) -> WeightPath:
    """Weights of the atoms after each step, the intercept first."""
    first, size = 1 - constants, len(fit.lengths)
    directions = np.zeros((first + size, first + size))
    directions[first:, first:] = fit.coefficients
    lengths = np.concatenate([np.zeros((first, fit.lengths.shape[1])), fit.lengths])
    return WeightPath.of(directions[0, :, None] * lengths, lengths[1:], directions[1:, 1:])


def with_losses(path: Path, fit: OrthogonalFit, energy: np.ndarray) -> Path:
    """Path with the losses, left-out errors and step lengths of another fit of its atoms.

    `energy` is the squared norm of each target without its constant.
    """
    atoms = fit.criterion.atoms
    lengths = fit.lengths[int(atoms.intercept) :]
    losses = (np.sum(energy) - np.cumsum(np.sum(lengths**2, axis=1))) / atoms.total_weight
    norms = [energies(atoms.scale_rows(one)) for one, _ in fit.residuals()]  # read when all are under way
    left_out = [float(np.sum(to_host(one)) / atoms.total_weight) for one in norms]
    steps: list[Any] = [
        step._replace(loss=float(max(loss, 0.0)), leave_one_out=error, weight=tuple((z * np.sqrt(atoms.unit)).tolist()))
        for step, loss, error, z in zip(path.steps + path.discarded, losses, left_out[1:], lengths, strict=True)
    ]
    path.steps, path.discarded = steps[: len(path)], steps[len(path) :]
    return path
