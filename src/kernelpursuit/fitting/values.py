"""Numbers as targets: their units, the losses for them, targets without outliers, errors, the score R²."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array

from kernelpursuit.arrays import namespace, to_host
from kernelpursuit.fitting.placement import labels_on_host
from kernelpursuit.fitting.training import TrainingData, largest_size
from kernelpursuit.losses import LOG, Link, Loss, by_target, huber, poisson, quantile
from kernelpursuit.math.medians import medians, spreads
from kernelpursuit.pursuit.loop import Path, Step

LARGEST_COUNT = 1e30  # an optimiser may overshoot its logarithm without an overflow
_FAR = 16  # times half their range: from there on float32 targets are centred, or they would lose digits


class Units(NamedTuple):
    """Units of fitted targets: y was turned into (y - zero) / size.

    A ridge penalty scales as the square of the targets. A `linear` loss such as |r| does not: for scaled targets the
    same objective has the ridge ``alpha * ridge``.
    """

    size: float = 1.0
    zero: np.ndarray | float = 0.0
    linear: bool = False  # whether the loss scales as the targets, not as their squares

    @property
    def loss(self) -> float:
        """Factor from losses of fitted targets to losses of y."""
        return self.size if self.linear else self.size * self.size

    @property
    def ridge(self) -> float:
        """Factor from a ridge for y to the ridge for fitted targets."""
        return self.size if self.linear else 1.0

    def restored(self, fitted: Any) -> Any:
        """A model of fitted targets turned into a model of y."""
        alpha = None if fitted.alpha is None else fitted.alpha / self.ridge
        weights, losses = fitted.weights.times(self.size, self.zero), fitted.losses_before_ridge
        losses = None if losses is None else losses * self.loss
        path = self.path(fitted.path)
        return fitted._replace(path=path, weights=weights, alpha=alpha, losses_before_ridge=losses)

    def path(self, path: Path) -> Path:
        """The path of a fit to fitted targets in the units of y."""
        return in_units(path, self.size, score=1.0 if self.linear else self.size * self.size, loss=self.loss)


def in_units(path: Path, unit: float, score: float, loss: float | None = None) -> Path:
    """Path of a fit to targets that were divided by `unit`, in the units of y.

    `score` is the unit of the scores, `loss` the unit of the losses, by default the square of `unit`.
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
    """Squared loss at which nothing is left to fit: the rounding error of the targets."""
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
    """Targets with constant columns moved to 0, and what was subtracted from each column.

    Neither the size nor the rounding of a constant target may count beside the others. In single precision columns far
    from 0 are moved as well: few digits would be left for their variation.
    """
    xp = namespace(y)
    low, high = (to_host(end) / 2 for end in (xp.min(y, axis=0), xp.max(y, axis=0)))
    far = np.abs(low + high) > _FAR * (high - low) if np.finfo(dtype).eps > 1e-10 else low == high
    zero = np.where(far, low + high, 0.0)
    return (y - zero, zero) if np.any(zero) else (y, 0.0)


def scale_targets(y: Any, wanted: bool = True) -> tuple[Any, float]:
    """Targets divided by the power of two that brings them near 1, which is exact; their squares cannot overflow."""
    largest = largest_size(y)
    if largest == 0 or not wanted:
        return y, 1.0
    bound = 120 if y.dtype == np.float32 else 1000
    exponent = int(np.clip(np.frexp(largest)[1], -bound, bound))
    return namespace(y).ldexp(y, -exponent), float(2.0**exponent)


def regression_loss(loss: Any, data: TrainingData) -> Loss | None:
    """Loss that the parameter `loss` stands for; None for the squared loss, which has a criterion of its own."""
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
    """Whether a loss scales as residuals, not as their squares, by the parameter `loss`."""
    return loss == "absolute_error" or (isinstance(loss, quantile) and loss.width is None)


def suits_any_unit(loss: Any) -> bool:
    """Whether a fit may scale the targets, by the parameter `loss`: not for a loss with a scale of its own."""
    return (isinstance(loss, str) and loss != "poisson") or grows_linearly(loss)


def link_of(loss: Any) -> Link | None:
    """Link function between the expansion and the mean of the targets, by the parameter `loss`."""
    if isinstance(loss, str):
        return LOG if loss == "poisson" else None
    return loss.link


def check_poisson_targets(y: np.ndarray) -> None:
    """Raise an error for targets that a Poisson loss cannot have."""
    if np.any(y < 0):
        raise ValueError(f"loss='poisson' needs targets from 0 on, got {np.min(y):g} in y")
    if not np.all(np.any(y > 0, axis=0)):
        raise ValueError("loss='poisson' needs some targets above 0: all of y, or of a column of it, is 0")
    if np.max(y) > LARGEST_COUNT:
        raise ValueError(f"loss='poisson' needs targets up to {LARGEST_COUNT:g}, got {np.max(y):g} in y: scale them")


def clip_outliers(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Targets clipped to three standard deviations around their median, both estimated robustly."""
    middle = medians(y, weights)
    scale = medians(np.abs(y - middle), weights)
    reach = np.where(scale > 0, 3 * 1.4826 * scale, np.inf)
    return np.clip(y, middle - reach, middle + reach).astype(y.dtype)


def beyond_spread(targets: np.ndarray, residuals: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Rows that miss a target by more than its standard deviation in training."""
    return np.any(np.abs(residuals) > np.std(seen, axis=0), axis=1)


def as_predicted(y: np.ndarray, weights: np.ndarray | None, dtype: Any) -> np.ndarray:
    """Targets, of which those that are constant are rounded as predictions of this dtype are.

    R² divides by the variance: that of a constant is rounding error, and no prediction but an equal one is good enough.
    """
    columns = y.reshape(len(y), -1)
    judged = columns if weights is None else columns[weights > 0]
    constant = np.all(judged == judged[:1], axis=0)
    with np.errstate(over="ignore"):  # of others that are not used
        rounded = np.where(constant, columns.astype(dtype), columns)
    return rounded.reshape(y.shape)


class ValueScore(RegressorMixin):
    """`RegressorMixin` whose score knows that predictions are rounded, and that squares of numbers may be none."""

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R² of the predictions, as scikit-learn defines it.

        A target that is constant counts as met where the prediction is that constant in its own precision, which is
        that of X. Sums are made in float64, of numbers near 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            1 at best; 0 for the mean of y.
        """
        prediction = self.predict(X)
        if isinstance(prediction, np.ndarray) and (values := np.asarray(y)).dtype.kind in "iuf" and len(values):
            weights = None if sample_weight is None else labels_on_host(sample_weight)
            y = as_predicted(values, weights, prediction.dtype).astype(np.float64)
            exponent = np.frexp(max(np.max(np.abs(y)), np.max(np.abs(prediction))))[1]
            y, prediction = (np.ldexp(one, -exponent) for one in (y, prediction.astype(np.float64)))
        return r2_score(y, prediction, sample_weight=sample_weight)
