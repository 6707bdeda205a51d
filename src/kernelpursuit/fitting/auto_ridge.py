"""The ridge that ``alpha="auto"`` stands for: by the evidence of chosen atoms, carried to other losses by curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelpursuit.arrays import energies, from_host, in_double, squared_norms, to_host
from kernelpursuit.criteria.pairs import pairwise_squared
from kernelpursuit.fitting.orthogonal import OrthogonalFit
from kernelpursuit.fitting.training import TrainingData, varying
from kernelpursuit.losses import Loss
from kernelpursuit.math.evidence import RidgeFit, ridge_fit_by_evidence
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.parameters import bound, is_basic, record_of
from kernelpursuit.pursuit.loop import Path
from kernelpursuit.pursuit.ridge import penalty_products

Curvature = Callable[[Loss, np.ndarray, np.ndarray, TrainingData], "float | np.ndarray"]  # targets, fitted values


def has_evidence_ridge(model: Any) -> bool:
    """Whether an estimator with these parameters chooses its ridge by the evidence."""
    return isinstance(getattr(model, "alpha", 0.0), str) and chooses_ridge(model)


def chooses_ridge(model: Any) -> bool:
    """Whether ``alpha="auto"`` chooses a ridge: not for the basic variant, nor with a bound on the fit without one."""
    return not is_basic(getattr(model, "variant", "prefit")) and not isinstance(record_of(model.stop, bound), bound)


def with_evidence_ridge(fit: OrthogonalFit, path: Path, n: float) -> tuple[float, OrthogonalFit, WeightPath, Path]:
    """The ridge that maximises the evidence of the chosen atoms, and the fit, weights and path under this ridge.

    The evidence is that of the steps kept, or of all steps if none is kept: another loss may keep some under this
    ridge, and needs it most where all is noise. Scores in the path are those of the choice, made without a ridge. `n`
    is the number of rows.
    """
    deflation = fit.criterion.deflation
    constants, taken = int(deflation.intercept), path.truncate(len(path) + len(path.discarded))
    size, kept = constants + len(taken), len(path) or len(taken)
    R, theta = deflation.basis.R[:size, :size], fit.lengths[:size]
    G = penalty_products(deflation.D.gram, deflation.D.shape[1])(taken.atoms, taken.atoms)
    residual = deflation.centre(deflation.scale_rows(in_double(fit.targets)))
    residual = residual - deflation.basis.directions[:size, :].T @ from_host(theta, residual)
    left = squared_norms(residual)
    ridge, small = ridge_fit_by_evidence(R, G, theta, left, n, kept)
    if small is None:
        return 0.0, fit, fit.criterion.weight_path(len(taken)), path
    turned = OrthogonalFit(fit.criterion, fit.targets, small.lengths, small.turn)
    return (
        ridge * deflation.unit,
        turned,
        weight_path(small, constants),
        with_losses(path, turned, left + np.sum(theta[constants:] ** 2, axis=0)),
    )


def weight_path(fit: RidgeFit, constants: int) -> WeightPath:
    """Weights of the atoms after each step of a shrunk fit, the intercept first."""
    first, size = 1 - constants, len(fit.lengths)
    directions = np.zeros((first + size, first + size))
    directions[first:, first:] = fit.coefficients
    lengths = np.concatenate([np.zeros((first, fit.lengths.shape[1])), fit.lengths])
    return WeightPath.of(directions[0, :, None] * lengths, lengths[1:], directions[1:, 1:])


def with_losses(path: Path, fit: OrthogonalFit, energy: np.ndarray) -> Path:
    """Path with the losses, left-out errors and step lengths of another fit of its atoms.

    `energy` is the squared norm of each target without its constant.
    """
    deflation = fit.criterion.deflation
    lengths = fit.lengths[int(deflation.intercept) :]
    losses = (np.sum(energy) - np.cumsum(np.sum(lengths**2, axis=1))) / deflation.total_weight
    norms = [energies(deflation.scale_rows(one)) for one, _ in fit.residuals()]  # a device queues them; read below
    left_out = [float(np.sum(to_host(one)) / deflation.total_weight) for one in norms]
    weights = (lengths * np.sqrt(deflation.unit)).tolist()
    steps: list[Any] = [
        step._replace(loss=float(max(loss, 0.0)), leave_one_out=error, weight=tuple(weight))
        for step, loss, error, weight in zip(path.steps + path.discarded, losses, left_out[1:], weights, strict=True)
    ]
    path.steps, path.discarded = steps[: len(path)], steps[len(path) :]
    return path


def curvature_of_constant(
    loss: Loss, targets: np.ndarray, data: TrainingData, curvature: Curvature
) -> float | np.ndarray:
    """The curvature of a loss at the means of the targets; 2 for one that is flat there, or curved both ways."""
    if not loss.convex:
        return 2.0
    targets = targets.astype(np.float64)
    mean = np.average(targets, axis=0, weights=data.weights)
    values = np.zeros_like(targets) + (mean if loss.link is None else to_host(loss.link.of_mean(mean)))
    found = curvature(loss, targets, values, data)
    return np.where(found > 0, found, 2.0) if np.ndim(found) else found or 2.0


def mean_curvature(loss: Loss, targets: np.ndarray, values: np.ndarray, data: TrainingData) -> float:
    """Weighted mean second derivative of a loss at fitted values, by finite differences; 2 for the squared loss."""
    J, weights = varying(targets), data.weights  # a constant target has no residuals to measure at
    if loss.link is not None:  # targets and values have different units
        step = 1e-3
    else:  # half a residual: a loss may have corners
        step = 0.5 * spread((targets - values)[:, J], weights) or 1e-3 * spread(targets[:, J], weights) or 1.0
    slopes = [loss.gradient(targets, values + sign * step)[:, J] for sign in (1, -1)]
    return max(0.0, float(np.average(np.mean(slopes[0] - slopes[1], axis=1), weights=weights)) / (2 * step))


def curvatures(loss: Loss, targets: np.ndarray, values: np.ndarray, data: TrainingData) -> float | np.ndarray:
    """`mean_curvature` of each of several targets, which may differ in units; a constant one has the others' mean."""
    if targets.shape[1] == 1:
        return mean_curvature(loss, targets, values, data)
    J = varying(targets)
    each = [mean_curvature(loss.of_target(t), targets[:, [t]], values[:, [t]], data) for t in J]
    found = np.full(targets.shape[1], np.mean(each))
    found[J] = each
    return found


def spread(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Weighted standard deviation of all entries."""
    mean = np.mean(np.average(values, axis=0, weights=weights))
    return float(np.sqrt(np.mean(np.average((values - mean) ** 2, axis=0, weights=weights))))


def curvature_of_pairs(loss: Loss, targets: np.ndarray, values: np.ndarray, data: TrainingData) -> float:
    """Curvature of a loss of pairs along fitted values, as a multiple of that of the squared loss, which is 2."""
    squared = pairwise_squared(data.groups, data.weights)
    along, of_squares = (curvature_along(one, targets, values, data.weights) for one in (loss, squared))
    return 2 * along / of_squares if of_squares > 0 else 0.0


def curvature_along(loss: Loss, targets: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> float:
    """Curvature of a loss along the fitted `values`, by differences of slopes, as a share of their squared norm."""
    w = np.ones((len(values), 1)) if weights is None else weights[:, None]
    step = 1e-4
    slopes = [np.sum(w * loss.gradient(targets, (1 + h) * values) * values) for h in (step, -step)]
    return float((slopes[0] - slopes[1]) / (2 * step))
