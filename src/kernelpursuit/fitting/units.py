"""Targets in units that suit arithmetic, and models of them in the units that they came in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from kernelpursuit.arrays import namespace, to_host
from kernelpursuit.fitting.training import largest_size
from kernelpursuit.pursuit.loop import Path, Step

_FAR = 16  # times half their range: targets that float32 had better hold without their middle


class Units(NamedTuple):
    """What was taken off the targets, and what they were divided by then.

    The penalty of a ridge goes with the square of the targets. A loss of residuals r that is `linear`, as |r| is, does
    not: for scaled targets the same objective has the ridge ``alpha * ridge``.
    """

    size: float = 1.0
    zero: np.ndarray | float = 0.0
    linear: bool = False  # whether the loss grows as the targets do, and not as their squares

    @property
    def loss(self) -> float:
        """What a loss of scaled targets is to be multiplied by."""
        return self.size if self.linear else self.size * self.size

    @property
    def ridge(self) -> float:
        """What a ridge becomes for scaled targets."""
        return self.size if self.linear else 1.0

    def restored(self, fitted: Any) -> Any:
        """A model of the scaled targets as one of those that came."""
        alpha = None if fitted.alpha is None else fitted.alpha / self.ridge
        weights, losses = fitted.weights.times(self.size, self.zero), fitted.losses_before_ridge
        losses = None if losses is None else losses * self.loss
        path = self.path(fitted.path)
        return fitted._replace(path=path, weights=weights, alpha=alpha, losses_before_ridge=losses)

    def path(self, path: Path) -> Path:
        """The path of the scaled targets as one of those that came."""
        return in_units(path, self.size, score=1.0 if self.linear else self.size * self.size, loss=self.loss)


def in_units(path: Path, unit: float, score: float, loss: float | None = None) -> Path:
    """Path of targets that were divided by `unit`, in their own units.

    `score` is the unit of the scores, `loss` that of the losses: the square of `unit` unless given.
    """
    loss = unit * unit if loss is None else loss

    def convert(step: Step) -> Step:
        return step._replace(
            score=step.score * score,
            loss=step.loss * loss,
            leave_one_out=step.leave_one_out * loss,
            validation=step.validation * loss,
            weight=tuple(w * unit for w in step.weight),
        )

    path.start = convert(path.start)
    path.steps, path.discarded = [convert(s) for s in path.steps], [convert(s) for s in path.discarded]
    return path


def least_loss(targets: Any) -> float:
    """Squared loss below which there is nothing left to fit: the rounding error of the targets."""
    return float((16 * np.finfo(targets.dtype).eps * largest_size(targets)) ** 2)


def cast_targets(y: Any, dtype: Any) -> Any:
    """Targets in the dtype of X."""
    if largest_size(y) > float(np.finfo(dtype).max):
        raise ValueError(
            f"y has values too large for {np.dtype(dtype)}, the precision of X: scale y or give X as float64"
        )
    return namespace(y).astype(y, dtype)


def as_targets(y: np.ndarray) -> np.ndarray:
    """Targets of some rows as columns of numbers, checked."""
    y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    return y.reshape(len(y), -1).astype(np.float64)


def near_zero(y: Any, dtype: Any) -> tuple[Any, np.ndarray | float]:
    """Targets of which those that are constant became 0, and what was taken off each.

    A constant says nothing about the others: neither its size nor its rounding may count beside them. Targets that are
    far from 0 are moved too where `dtype` is single precision, which would hold few digits of how they vary.
    """
    xp = namespace(y)
    low, high = (to_host(end) / 2 for end in (xp.min(y, axis=0), xp.max(y, axis=0)))
    far = np.abs(low + high) > _FAR * (high - low) if np.finfo(dtype).eps > 1e-10 else low == high
    zero = np.where(far, low + high, 0.0)
    return (y - zero, zero) if np.any(zero) else (y, 0.0)


def scale_targets(y: Any, wanted: bool = True) -> tuple[Any, float]:
    """Targets divided by a power of two that brings them near 1: exact, and their squares cannot overflow."""
    largest = largest_size(y)
    if largest == 0 or not wanted:
        return y, 1.0
    bound = 120 if y.dtype == np.float32 else 1000
    exponent = int(np.clip(np.frexp(largest)[1], -bound, bound))
    return namespace(y).ldexp(y, -exponent), float(2.0**exponent)
