"""Targets in units that suit arithmetic, and models of them in the units that they came in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.fitting.training import largest_size
from kernelpursuit.pursuit.loop import Path, Step


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
        if fitted.pursued is not None:  # of the squared loss, whatever the loss of this fit
            return self._replace(linear=False)._restored(fitted)
        return self._restored(fitted)

    def _restored(self, fitted: Any) -> Any:
        alpha = None if fitted.alpha is None else fitted.alpha / self.ridge
        weights = fitted.weights.times(self.size, self.zero)
        return fitted._replace(path=self.path(fitted.path), weights=weights, alpha=alpha)

    def path(self, path: Path) -> Path:
        """The path of the scaled targets as one of those that came."""
        return in_units(path, self.size, score=1.0 if self.linear else self.size * self.size, loss=self.loss)

    def scaled_path(self, path: Path) -> Path:
        """The other way."""
        return self._replace(size=1 / self.size).path(path)


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
