"""Differentiable losses L(y, f): value and derivative in f, elementwise.

Labels of the classification losses are -1 and +1. Each loss is scaled so that the squared loss is ``(y - f)**2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from kernelpursuit.arrays import Array, namespace

__all__ = ["LOG", "LOSSES", "Link", "Loss", "by_target", "huber", "poisson", "quantile"]

_ROUNDED = 0.05  # times the spread of residuals: where a rounded loss is a parabola, so that it has a derivative
_TANH_TARGET = 0.65  # keeps the target off the saturated part of tanh


class Link(NamedTuple):
    """Functions from the mean of a target to the f that is fitted, and back."""

    of_mean: Callable
    mean: Callable


class Loss(NamedTuple):
    """A loss as elementwise functions of targets and predictions.

    A fit calls them with all targets, or with one column of y and f alone.

    Attributes
    ----------
    value : callable
        ``value(y, f)``.
    gradient : callable
        ``gradient(y, f)``, the derivative of `value` in f.
    log_odds : callable, optional
        ``log_odds(f)``, the log odds of the label +1 that the loss estimates, if it estimates any.
    convex : bool
        Whether the loss is convex in f, so that a best constant exists to start from.
    link : Link, optional
        What stands between f and the targets, where f is not of their kind: a model predicts ``link.mean(f)``.
    rounded : callable, optional
        Of a loss with a corner: ``rounded(spreads)``, the loss rounded off in proportion to how far the residuals of
        each target spread, which is what a fit minimises. It narrows as the residuals do.
    each : tuple of Loss, optional
        The losses of the targets, one for each, where they differ: see `by_target`.

    Examples
    --------
    >>> import numpy as np
    >>> y, f = np.array([1.0]), np.array([0.5])
    >>> LOSSES["squared"].value(y, f), LOSSES["squared"].gradient(y, f)
    (array([0.25]), array([-1.]))
    """

    value: Callable
    gradient: Callable
    log_odds: Callable | None = None
    convex: bool = True
    link: Link | None = None
    rounded: Callable | None = None
    each: tuple[Any, ...] | None = None

    def of_target(self, target: int) -> Loss:
        """The loss of one target, for one column of y and f."""
        return self if self.each is None else self.each[target]


def _squared(y: Array, f: Array) -> Array:
    return (y - f) ** 2


def _squared_gradient(y: Array, f: Array) -> Array:
    return 2 * (f - y)


def _expit(f: Array) -> Array:
    return 0.5 * (1 + namespace(f).tanh(0.5 * f))


def _logistic(y: Array, f: Array) -> Array:
    xp = namespace(f)
    return xp.logaddexp(xp.zeros_like(f), -y * f)


def _logistic_gradient(y: Array, f: Array) -> Array:
    return -y * _expit(-y * f)


def _exponential(y: Array, f: Array) -> Array:
    xp = namespace(f)
    return xp.exp(xp.clip(-y * f, None, _LARGEST_EXPONENT))


def _exponential_gradient(y: Array, f: Array) -> Array:
    return -y * _exponential(y, f)


def _quantile(y: Array, f: Array, tilt: float, width: float) -> Array:
    xp = namespace(f)
    r = y - f
    size = xp.abs(r)
    return xp.where(size <= width, (r**2 / width + width) / 2, size) + tilt * r


def _quantile_gradient(y: Array, f: Array, tilt: float, width: float) -> Array:
    return namespace(f).clip((f - y) / width, -1, 1) - tilt


def _check(y: Array, f: Array, tilt: float) -> Array:
    r = y - f
    return namespace(f).abs(r) + tilt * r


def _check_gradient(y: Array, f: Array, tilt: float) -> Array:
    return namespace(f).sign(f - y) - tilt


def _rounded_check(spreads: Iterable[float], share: float) -> Loss:
    """All quantiles of what has no spread are its median. The rounded loss of another would be least beside it."""
    return by_target([quantile(share, _ROUNDED * size) if size > 0 else quantile(0.5, _ROUNDED) for size in spreads])


def _same(f: Array) -> Array:
    return f


def _twice(f: Array) -> Array:
    return 2 * f  # the minimiser of the expected exponential loss is half the log odds


def _tanh(y: Array, f: Array) -> Array:
    return (_TANH_TARGET * y - namespace(f).tanh(f)) ** 2


def _tanh_gradient(y: Array, f: Array) -> Array:
    t = namespace(f).tanh(f)
    return 2 * (t - _TANH_TARGET * y) * (1 - t**2)


def _doom2(y: Array, f: Array) -> Array:
    return 1 - namespace(f).tanh(y * f)


def _doom2_gradient(y: Array, f: Array) -> Array:
    return -y * (1 - namespace(f).tanh(y * f) ** 2)


def _squared_hinge(y: Array, f: Array) -> Array:
    return namespace(f).clip(1 - y * f, 0, None) ** 2


def _squared_hinge_gradient(y: Array, f: Array) -> Array:
    return -2 * y * namespace(f).clip(1 - y * f, 0, None)


def _huber(y: Array, f: Array, delta: float) -> Array:
    xp = namespace(f)
    r = xp.abs(y - f)
    return xp.where(r <= delta, r**2, delta * (2 * r - delta))


def _huber_gradient(y: Array, f: Array, delta: float) -> Array:
    return 2 * namespace(f).clip(f - y, -delta, delta)


_LARGEST_EXPONENT = 80.0  # a trial step of the optimiser may go far; exp(80) fits float32

LOSSES: dict[str, Loss] = {
    "squared": Loss(_squared, _squared_gradient),
    "logistic": Loss(_logistic, _logistic_gradient, _same),
    "exponential": Loss(_exponential, _exponential_gradient, _twice),
    "tanh": Loss(_tanh, _tanh_gradient, convex=False),
    "doom2": Loss(_doom2, _doom2_gradient, convex=False),
    "squared_hinge": Loss(_squared_hinge, _squared_hinge_gradient),
}


def _log(mean: Array) -> Array:
    xp = namespace(mean)
    return xp.log(xp.clip(mean, 1e-300 if mean.dtype == xp.float64 else 1e-37, None))


def _exp(f: Array) -> Array:
    xp = namespace(f)
    return xp.exp(xp.clip(f, None, _LARGEST_EXPONENT))


def _poisson(y: Array, f: Array) -> Array:
    xp = namespace(f)
    return 2 * (y * xp.log(xp.where(y > 0, y, xp.ones_like(y))) - y * f - y + _exp(f))


def _poisson_gradient(y: Array, f: Array) -> Array:
    return 2 * (_exp(f) - y)


LOG = Link(_log, _exp)


def poisson() -> Loss:
    """Deviance of a Poisson distribution, for counts and other targets from 0 on; f is the logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import mean_poisson_deviance
    >>> y, f = np.array([0.0, 3.0]), np.array([0.5, 1.0])
    >>> bool(np.isclose(np.mean(poisson().value(y, f)), mean_poisson_deviance(y, np.exp(f))))
    True
    """
    return Loss(_poisson, _poisson_gradient, link=LOG)


def huber(delta: float) -> Loss:
    """Huber's loss: squared up to `delta`, linear beyond.

    Examples
    --------
    >>> import numpy as np
    >>> huber(1.0).value(np.array([0.0]), np.array([3.0]))
    array([5.])
    """
    if not delta > 0:
        raise ValueError(f"delta must be positive, got {delta!r}")
    return Loss(partial(_huber, delta=delta), partial(_huber_gradient, delta=delta))


def quantile(share: float, width: float | None = None) -> Loss:
    """Twice the check loss, whose expectation is least at a quantile: a parabola within `width`, then linear.

    The absolute loss is that of the median, ``quantile(0.5)``. None for `width` leaves the corner in the loss. A fit
    then minimises the loss with a width that follows the residuals: a fortieth to a twentieth of their spread, or less
    where these are so skewed that the share of rows below would be another. A fixed width has to be small beside the
    residuals: within it the loss is squared, which is no loss of quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> above, below = quantile(0.9).value(np.array([3.0, -3.0]), np.zeros(2))
    >>> round(float(above / below))  # misses above cost nine times as much
    9
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share!r}")
    tilt = 2 * share - 1
    if width is None:
        sharp = partial(_check, tilt=tilt), partial(_check_gradient, tilt=tilt)
        return Loss(*sharp, rounded=partial(_rounded_check, share=share))
    if not width > 0:
        raise ValueError(f"width must be positive or None, got {width!r}")
    return Loss(partial(_quantile, tilt=tilt, width=width), partial(_quantile_gradient, tilt=tilt, width=width))


def by_target(losses: list[Loss]) -> Loss:
    """Loss of several targets, the columns of y and f, of which each has its own; convex ones without a link.

    Examples
    --------
    >>> import numpy as np
    >>> by_target([huber(1.0), huber(9.0)]).value(np.zeros((1, 2)), np.full((1, 2), 3.0))
    array([[5., 9.]])
    """
    if len(losses) == 1:
        return losses[0]
    value = partial(_by_target, [loss.value for loss in losses])
    return Loss(value, partial(_by_target, [loss.gradient for loss in losses]), each=tuple(losses))


def _by_target(functions: list[Callable], y: Array, f: Array) -> Array:
    return namespace(f).stack([function(y[:, t], f[:, t]) for t, function in enumerate(functions)], axis=1)
