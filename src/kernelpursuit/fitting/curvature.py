"""How much losses are curved at fitted values: in this proportion a ridge is carried from one loss to another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelpursuit.arrays import to_host
from kernelpursuit.criteria.pairs import pairwise_squared
from kernelpursuit.fitting.training import TrainingData, varying
from kernelpursuit.losses import Loss

Curvature = Callable[[Loss, np.ndarray, np.ndarray, TrainingData], "float | np.ndarray"]  # targets, fitted values


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
    """Weighted mean of the second derivative of a loss at fitted values, by differences; 2 for the squared loss."""
    J, weights = varying(targets), data.weights  # at what is constant no loss is curved as it is elsewhere
    if loss.link is not None:  # targets and values are not of one kind
        step = 1e-3
    else:  # as large as residuals: a loss may have corners
        step = 0.5 * spread((targets - values)[:, J], weights) or 1e-3 * spread(targets[:, J], weights) or 1.0
    slopes = [loss.gradient(targets, values + sign * step)[:, J] for sign in (1, -1)]
    return max(0.0, float(np.average(np.mean(slopes[0] - slopes[1], axis=1), weights=weights)) / (2 * step))


def curvatures(loss: Loss, targets: np.ndarray, values: np.ndarray, data: TrainingData) -> float | np.ndarray:
    """`mean_curvature` of each target, where there are several: they may have units of their own.

    A target that is constant has the mean of the others.
    """
    if targets.shape[1] == 1:
        return mean_curvature(loss, targets, values, data)
    J = varying(targets)
    each = [mean_curvature(loss.of_target(t), targets[:, [t]], values[:, [t]], data) for t in J]
    found = np.full(targets.shape[1], np.mean(each))
    found[J] = each
    return found


def spread(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Standard deviation of all entries; rows with weights count so many times."""
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
