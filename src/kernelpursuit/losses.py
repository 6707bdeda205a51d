"""Differentiable losses L(y, f): value and derivative in f, elementwise.

Labels of the classification losses are -1 and +1. Each loss is scaled so that the squared loss is ``(y - f)**2``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from kernelpursuit.arrays import Array, namespace

__all__ = ["LOG", "LOSSES", "Link", "Loss", "by_target", "huber", "poisson", "quantile"]

ROUNDED_SHARE = 0.05  # times the spread of residuals: where a rounded loss is a parabola, so that it has a derivative
TANH_TARGET = 0.65  # keeps the target off the saturated part of tanh
LARGEST_EXPONENT = 80.0  # a trial step of the optimiser may go far; exp(80) fits float32


class Link(NamedTuple):
    """Functions from the mean of a target to the f that is fitted, and back."""

    of_mean: Callable
    mean: Callable


class Loss(ABC):
    """A loss as elementwise functions of targets and predictions; a loss of your own is a subclass.

    A fit calls `value` and `gradient` with all targets, or with one column of y and f alone.

    Attributes
    ----------
    convex : bool
        Whether the loss is convex in f, so that a best constant exists to start from.
    link : Link, optional
        What stands between f and the targets, where f is not of their kind: a model predicts ``link.mean(f)``.
    log_odds : callable, optional
        ``log_odds(f)``, the log odds of the label +1 that the loss estimates, if it estimates any.
    rounded : callable, optional
        Of a loss with a corner: ``rounded(spreads)``, the loss rounded off in proportion to how far the residuals of
        each target spread, which is what a fit minimises. It narrows as the residuals do.

    Examples
    --------
    >>> import numpy as np
    >>> class LogCosh(Loss):
    ...     def value(self, y, f):
    ...         return np.log(np.cosh(f - y))
    ...
    ...     def gradient(self, y, f):
    ...         return np.tanh(f - y)
    >>> y, f = np.array([1.0]), np.array([0.5])
    >>> LogCosh().value(y, f), LOSSES["squared_error"].value(y, f)
    (array([0.12011451]), array([0.25]))
    """

    convex: ClassVar[bool] = True
    link: ClassVar[Link | None] = None
    log_odds: ClassVar[Any] = None
    rounded: ClassVar[Any] = None

    @abstractmethod
    def value(self, y: Array, f: Array) -> Array:
        """The loss of each entry."""

    @abstractmethod
    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""

    def of_target(self, target: int) -> Loss:
        """The loss of one target, for one column of y and f."""
        return self


@dataclass(frozen=True)
class SquaredError(Loss):
    """Squared residuals."""

    def value(self, y: Array, f: Array) -> Array:
        """(y - f)²."""
        return (y - f) ** 2

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return 2 * (f - y)


@dataclass(frozen=True)
class LogLoss(Loss):
    """The negative log likelihood of labels under the logistic model."""

    def value(self, y: Array, f: Array) -> Array:
        """log(1 + exp(-y f))."""
        xp = namespace(f)
        return xp.logaddexp(xp.zeros_like(f), -y * f)

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return -y * 0.5 * (1 + namespace(f).tanh(-0.5 * y * f))

    def log_odds(self, f: Array) -> Array:
        """Values are log odds."""
        return f


@dataclass(frozen=True)
class Exponential(Loss):
    """The loss of boosting, whose expectation is least at half the log odds."""

    def value(self, y: Array, f: Array) -> Array:
        """exp(-y f)."""
        xp = namespace(f)
        return xp.exp(xp.clip(-y * f, None, LARGEST_EXPONENT))

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return -y * self.value(y, f)

    def log_odds(self, f: Array) -> Array:
        """Twice the values."""
        return 2 * f


@dataclass(frozen=True)
class Tanh(Loss):
    """The squared error of tanh(f), which outliers cannot rule."""

    convex = False

    def value(self, y: Array, f: Array) -> Array:
        """(0.65 y - tanh f)²."""
        return (TANH_TARGET * y - namespace(f).tanh(f)) ** 2

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        t = namespace(f).tanh(f)
        return 2 * (t - TANH_TARGET * y) * (1 - t**2)


@dataclass(frozen=True)
class Doom2(Loss):
    """The margin loss of DOOM II, flat for rows that are far on the wrong side."""

    convex = False

    def value(self, y: Array, f: Array) -> Array:
        """1 - tanh(y f)."""
        return 1 - namespace(f).tanh(y * f)

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return -y * (1 - namespace(f).tanh(y * f) ** 2)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """The squared distance to a margin of 1, and nothing beyond it."""

    def value(self, y: Array, f: Array) -> Array:
        """max(0, 1 - y f)²."""
        return namespace(f).clip(1 - y * f, 0, None) ** 2

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return -2 * y * namespace(f).clip(1 - y * f, 0, None)


def _log(mean: Array) -> Array:
    xp = namespace(mean)
    return xp.log(xp.clip(mean, 1e-300 if mean.dtype == xp.float64 else 1e-37, None))


def _exp(f: Array) -> Array:
    xp = namespace(f)
    return xp.exp(xp.clip(f, None, LARGEST_EXPONENT))


LOG = Link(_log, _exp)


@dataclass(frozen=True)
class poisson(Loss):
    """Deviance of a Poisson distribution, for counts and other targets from 0 on; f is the logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import mean_poisson_deviance
    >>> y, f = np.array([0.0, 3.0]), np.array([0.5, 1.0])
    >>> bool(np.isclose(np.mean(poisson().value(y, f)), mean_poisson_deviance(y, np.exp(f))))
    True
    """

    link = LOG

    def value(self, y: Array, f: Array) -> Array:
        """2 (y log y - y f - y + exp f)."""
        xp = namespace(f)
        return 2 * (y * xp.log(xp.where(y > 0, y, xp.ones_like(y))) - y * f - y + _exp(f))

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return 2 * (_exp(f) - y)


@dataclass(frozen=True)
class huber(Loss):
    """Huber's loss: squared up to `delta`, linear beyond.

    Examples
    --------
    >>> import numpy as np
    >>> huber(1.0).value(np.array([0.0]), np.array([3.0]))
    array([5.])
    """

    delta: float

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise ValueError(f"delta must be positive, got {self.delta!r}")

    def value(self, y: Array, f: Array) -> Array:
        """(y - f)² up to `delta`, and its tangent beyond."""
        xp = namespace(f)
        r = xp.abs(y - f)
        return xp.where(r <= self.delta, r**2, self.delta * (2 * r - self.delta))

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        return 2 * namespace(f).clip(f - y, -self.delta, self.delta)


@dataclass(frozen=True)
class quantile(Loss):
    """Twice the check loss, whose expectation is least at a quantile: a parabola within `width`, then linear.

    The absolute error is that of the median, ``quantile(0.5)``. None for `width` leaves the corner in the loss. A fit
    then minimises the loss with a width that follows the residuals: a fortieth to a twentieth of their spread, or less
    where these are so skewed that the share of rows below would change. A fixed width has to be small compared with the
    residuals: within it the loss is squared, and its minimum is no quantile.

    Examples
    --------
    >>> import numpy as np
    >>> above, below = quantile(0.9).value(np.array([3.0, -3.0]), np.zeros(2))
    >>> round(float(above / below))  # misses above cost nine times as much
    9
    """

    share: float
    width: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.share, Real) or not 0 < self.share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share!r}")
        if self.width is not None and not self.width > 0:
            raise ValueError(f"width must be positive or None, got {self.width!r}")

    @property
    def tilt(self) -> float:
        """How much more a miss above costs than one below, from -1 to 1."""
        return 2 * self.share - 1

    def value(self, y: Array, f: Array) -> Array:
        """abs(r) + tilt r for a residual r = y - f, its corner rounded off within `width`."""
        xp = namespace(f)
        r = y - f
        size = xp.abs(r)
        if self.width is not None:
            size = xp.where(size <= self.width, (r**2 / self.width + self.width) / 2, size)
        return size + self.tilt * r

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        xp = namespace(f)
        slope = xp.sign(f - y) if self.width is None else xp.clip((f - y) / self.width, -1, 1)
        return slope - self.tilt

    @property
    def rounded(self) -> Callable[[Iterable[float]], Loss] | None:
        """The loss with a width for each target, from the spreads of their residuals; None where `width` is given."""
        return None if self.width is not None else self._rounded

    def _rounded(self, spreads: Iterable[float]) -> Loss:
        """All quantiles of residuals without spread are their median; a tilted loss would miss it by its width."""
        return by_target(
            [
                quantile(self.share, float(ROUNDED_SHARE * spread)) if spread > 0 else quantile(0.5, ROUNDED_SHARE)
                for spread in spreads
            ]
        )


@dataclass(frozen=True)
class PerTarget(Loss):
    """Losses of several targets, the columns of y and f, one for each."""

    losses: tuple[Loss, ...]

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each entry."""
        values = [loss.value(y[:, t], f[:, t]) for t, loss in enumerate(self.losses)]
        return namespace(f).stack(values, axis=1)

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of `value` in f."""
        slopes = [loss.gradient(y[:, t], f[:, t]) for t, loss in enumerate(self.losses)]
        return namespace(f).stack(slopes, axis=1)

    def of_target(self, target: int) -> Loss:
        """The loss of one target, for one column of y and f."""
        return self.losses[target]


def by_target(losses: list[Loss]) -> Loss:
    """Loss of several targets, the columns of y and f, of which each has its own; convex ones without a link.

    Examples
    --------
    >>> import numpy as np
    >>> by_target([huber(1.0), huber(9.0)]).value(np.zeros((1, 2)), np.full((1, 2), 3.0))
    array([[5., 9.]])
    """
    return losses[0] if len(losses) == 1 else PerTarget(tuple(losses))


LOSSES: dict[str, Loss] = {
    "squared_error": SquaredError(),
    "log_loss": LogLoss(),
    "exponential": Exponential(),
    "tanh": Tanh(),
    "doom2": Doom2(),
    "squared_hinge": SquaredHinge(),
}
