"""Numbers as targets: the losses for them, targets without outliers, which rows are errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.losses import LOG, Link, Loss, by_target, huber, poisson, quantile
from kernelpursuit.math.medians import medians, spreads

LARGEST_COUNT = 1e30  # whose logarithm an optimiser may overshoot without an overflow


def regression_loss(loss: Any, data: TrainingData) -> Loss | None:
    """Loss behind the parameter; None is the squared one, which has a criterion of its own."""
    if loss == "squared_error":
        return None
    if not isinstance(loss, str):
        return loss
    if loss == "poisson":
        check_poisson_targets(data.y)
        return poisson()
    if loss == "huber":
        return by_target([huber(1.345 * (size or 1.0)) for size in spreads(data.y, data.weights)])
    return quantile(0.5)


def grows_linearly(loss: Any) -> bool:
    """Whether a loss grows as residuals do, and not as their squares, by the parameter `loss`."""
    return loss == "absolute_error" or (isinstance(loss, quantile) and loss.width is None)


def suits_any_unit(loss: Any) -> bool:
    """Whether a fit may scale the targets, by the parameter `loss`: a loss with a scale of its own forbids it."""
    return (isinstance(loss, str) and loss != "poisson") or grows_linearly(loss)


def link_of(loss: Any) -> Link | None:
    """What stands between the expansion and the targets, by the parameter `loss`."""
    if isinstance(loss, str):
        return LOG if loss == "poisson" else None
    return loss.link


def check_poisson_targets(y: np.ndarray) -> None:
    """An error for targets of which no logarithm of a mean can be fitted."""
    if np.any(y < 0):
        raise ValueError(f"loss='poisson' needs targets from 0 on, got {np.min(y):g} in y")
    if not np.all(np.any(y > 0, axis=0)):
        raise ValueError("loss='poisson' needs some targets above 0: all of y, or of a column of it, is 0")
    if np.max(y) > LARGEST_COUNT:
        raise ValueError(f"loss='poisson' needs targets up to {LARGEST_COUNT:g}, got {np.max(y):g} in y: scale them")


def clip_outliers(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Targets that stay within three standard deviations of their median, by a robust estimate of these."""
    middle = medians(y, weights)
    scale = medians(np.abs(y - middle), weights)
    reach = np.where(scale > 0, 3 * 1.4826 * scale, np.inf)
    return np.clip(y, middle - reach, middle + reach).astype(y.dtype)


def beyond_spread(targets: np.ndarray, residuals: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Rows that miss a target by more than its standard deviation in training."""
    return np.any(np.abs(residuals) > np.std(seen, axis=0), axis=1)
