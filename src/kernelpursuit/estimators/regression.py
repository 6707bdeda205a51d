"""Kernel matching pursuit for regression."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array

from kernelpursuit._sklearn import StrOptions
from kernelpursuit.arrays import namespace, on_host, to_host
from kernelpursuit.dask.arrays import Sharded
from kernelpursuit.dask.collections import lazily, rows_on_cluster
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.kmp import KernelMatchingPursuit
from kernelpursuit.fitting.model import PursuitModel
from kernelpursuit.fitting.pipeline import fits
from kernelpursuit.fitting.placement import host_dtype, is_collection
from kernelpursuit.fitting.task_parameters import ValuePursuitParameters
from kernelpursuit.fitting.training import (
    TrainingData,
    check_split,
    check_training,
    largest_size,
    training_data,
)
from kernelpursuit.fitting.units import Units
from kernelpursuit.fitting.value_scores import ValueScore
from kernelpursuit.losses import LOG, Link, Loss, by_target, huber, poisson
from kernelpursuit.losses import quantile as quantile_loss
from kernelpursuit.math.medians import medians, spreads

REGRESSION_LOSS: list = [StrOptions({"squared", "huber", "absolute", "quantile", "poisson"}), Loss]
LARGEST_COUNT = 1e30  # whose logarithm an optimiser may overshoot without an overflow
LINEAR = ("absolute", "quantile")  # losses that grow as residuals do, and not as their squares
_FAR = 16  # times half their range: targets that float32 had better hold without their middle


class RegressorModel(ValueScore, PursuitModel):
    """What a fitted expansion says about numbers."""

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """Predict targets for X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        return self._predicted(self._raw(X, "predict"))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions of the models with 1, 2, ... steps, the kernel evaluated once for all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        for values in self._staged_raw(X, "staged_predict"):
            yield self._predicted(values)

    def _predicted(self, values: Any) -> Any:
        link = link_of(self.loss)
        values = values if link is None else link.mean(values)
        return values[:, 0] if self._one_target else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = isinstance(self.loss, str) and self.loss == "poisson"
        return tags


@described
class KMPRegressor(ValuePursuitParameters, KernelMatchingPursuit, RegressorModel):
    """Kernel regression on a few training points, chosen one at a time by matching pursuit.

    The model is ``f(x) = intercept_ + sum_j dual_coef_[j] * k(x, support_vectors_[j])``. Each step takes the atom
    ``k(., z)`` that lowers the training loss most. You choose how many terms the model has, and one fit holds the
    models of all smaller numbers (`staged_predict`, `truncate`).

    parameter_groups

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of steps. Each step adds an atom; only the basic variant may change the weight of an old one instead.
        "auto" means ``stop="gcv"``, the rule that came closest to the best number in hindsight on 28 data sets and
        three widths (``docs/evidence/auto_n_atoms.md``). For other losses and for the basic variant it means
        ``stop="validation"``. It takes 1,000 at most, and warns there: without noise in y more are always better, and
        the time grows with their square. With `stop` given, a number is the most steps to take.
    gamma
    alpha
    value_loss
    quantile
    kernels
    degree
    coef0
    kernel_params
    functions
    centers
    variant
    refit_every
    shrinkage
    fit_intercept
    tol
    stop : {"gcv", "leave_one_out", "validation", "bound", "certificate"}, callable or None, default=None
        Rule that chooses the number of steps. "gcv" is generalised cross-validation that charges two degrees of freedom
        for an atom, one of them for having searched for it. "leave_one_out" is the exact leave-one-out error of the
        atoms as they are; it does not know that they were chosen. "validation" holds rows out and judges by the loss
        that is fitted. "bound" is ``bounds.vc_bound(k, n, errors, form="tight", dimension=k + 1)`` for one target, with
        `errors` the rows missed by more than the standard deviation of y; no strict promise, as the same y are fitted.
        "certificate" fits the model to some rows and leaves it at that; the others give a limit of the same share,
        `bounds.holdout_bound`, that holds for all numbers of atoms at once with probability 95 %. It is
        ``path_.values("bound")[-1]``. Or write a rule of your own, ``stop(path) -> Stop | None``.
    validation_fraction
    patience
    candidates
    weakness
    memory
    kmp_warm_start
    checkpoint
    fit_seed
    verbose

    Attributes
    ----------
    chosen_support_
    support_vectors_
    support_kernels_
    gamma_
    target_alpha_
    target_dual_coef_
    target_intercept_
    path_
    n_features_in_
    feature_names_in_

    Notes
    -----
    With ``sklearn.config_context(array_api_dispatch=True)`` tensors are fitted where they are, on any device. The
    targets and weights follow X, and so do the fitted arrays and the predictions. Indices (`support_`,
    `support_kernels_`) and `path_` are NumPy's. New data must be where X was.

    An interrupt (Ctrl-C) leaves the model of the steps taken so far and is then raised again.

    References
    ----------
    Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KMPRegressor(n_atoms=5).fit(X, np.sin(X[:, 0]))
    >>> len(model.support_), round(model.score(X, np.sin(X[:, 0])), 4)
    (5, 0.9999)
    """

    _parameter_constraints: ClassVar[dict] = {
        **ValuePursuitParameters._parameter_constraints,
        "loss": REGRESSION_LOSS,
    }

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KMPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or a Dask array or dataframe, with y and the weights alike: its rows stay on the workers of the cluster.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets share the atoms; scale them alike if they should count alike.
        sample_weight : array-like of shape (n_samples,), optional
            Weights are counts: a row of weight w counts as w rows, so that weights that sum to more also buy more atoms
            under ``n_atoms="auto"``. A row of weight 0 is absent and cannot become an atom.

        Returns
        -------
        self
        """
        if is_collection(X):
            self._one_target = getattr(y, "ndim", 1) == 1
            with rows_on_cluster(self, X, y, sample_weight, as_targets) as data:
                targets, zero = near_zero(data.y, data.X.dtype) if self.fit_intercept else (data.y, 0.0)
                return self._fit_rows(data._replace(y=cast_on_shards(targets, data.X.dtype)), zero)
        X, y = check_training(self, X, y, sample_weight=sample_weight, multi_output=True, y_numeric=True)
        self._one_target = y.ndim == 1
        # A loss of the user's own may mean something else for scaled targets.
        scaled = isinstance(self.loss, str) and link_of(self.loss) is None
        columns = on_host(y).reshape(X.shape[0], -1)
        cast_targets(columns, host_dtype(X))  # or an error
        data, zero = training_data(X, columns, sample_weight), 0.0
        if scaled and self.fit_intercept:
            columns, zero = near_zero(data.y, host_dtype(X))
            if self.loss != "squared":  # so that iterations begin alike wherever y is, outliers having no say
                middle = medians(columns, data.weights)
                columns, zero = columns - middle, zero + middle
            data = data._replace(y=columns)
        data = data._replace(y=cast_targets(data.y, host_dtype(X)))
        return self._fit_rows(data, zero, scaled, clip_outliers=partial(without_outliers, weights=data.weights))

    def _fit_rows(self, data: TrainingData, zero: Any, scaled: bool = True, **options: Any) -> KMPRegressor:
        """Fit to rows wherever they are. `zero` was taken off their targets, which are divided if `scaled`."""
        targets, unit = scale_targets(data.y, wanted=scaled)
        data = data._replace(y=targets)
        loss = regression_loss(self.loss, data, self.quantile)
        if loss is not None and loss.link is not None and self.stop in ("bound", "certificate"):
            raise ValueError(f"stop={self.stop!r} counts large residuals, which a loss with a link does not have")
        how: dict[str, Any] = {"split": random_split, "is_error": beyond_spread, "n_comparisons": 2 * data.y.shape[1]}
        how["loss_of"] = partial(regression_loss, self.loss, quantile=self.quantile)
        units = Units(unit, zero, linear=isinstance(self.loss, str) and self.loss in LINEAR)
        self._set(self._choose_and_fit(data, data.y, loss, **how, units=units, **options))
        return self


def cast_targets(y: np.ndarray, dtype: Any) -> np.ndarray:
    """Targets as columns of the dtype of X."""
    with np.errstate(over="ignore"):
        targets = y.reshape(len(y), -1).astype(dtype)
    if not np.all(np.isfinite(targets)):
        raise ValueError(
            f"y has values too large for {np.dtype(dtype)}, the precision of X: scale y or give X as float64"
        )
    return targets


def as_targets(y: np.ndarray) -> np.ndarray:
    """The targets of some rows, checked, as columns."""
    y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    return y.reshape(len(y), -1).astype(np.float64)


def cast_on_shards(y: Any, dtype: Any) -> Any:
    """Targets on shards, with the dtype of X."""
    largest = largest_size(y)
    if largest > np.finfo(dtype).max:
        raise ValueError(f"y has values too large for {dtype}, the precision of X: scale y or give X as float64")
    targets = namespace(y).astype(y, dtype)
    targets.largest = float(np.dtype(dtype).type(largest))
    return targets


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


def scale_targets(y: np.ndarray, wanted: bool = True) -> tuple[np.ndarray, float]:
    """Targets divided by a power of two that brings them near 1: exact, and their squares cannot overflow."""
    largest = largest_size(y)
    if largest == 0 or not wanted:
        return y, 1.0
    bound = 120 if y.dtype == np.float32 else 1000
    exponent = int(np.clip(np.frexp(largest)[1], -bound, bound))
    scaled, unit = namespace(y).ldexp(y, -exponent), float(2.0**exponent)
    if isinstance(scaled, Sharded):
        scaled.largest = largest / unit
    return scaled, unit


def regression_loss(loss: Any, data: TrainingData, quantile: float = 0.5) -> Loss | None:
    """Loss behind the parameters; None is the squared one, which has a criterion of its own."""
    if loss == "squared":
        return None
    if not isinstance(loss, str):
        return loss
    if loss == "poisson":
        check_counts(data.y)
        return poisson()
    if loss == "huber":
        return by_target([huber(1.345 * (size or 1.0)) for size in spreads(data.y, data.weights)])
    return quantile_loss(quantile if loss == "quantile" else 0.5)


def link_of(loss: Any) -> Link | None:
    """What stands between the expansion and the targets, by the parameter `loss`."""
    if isinstance(loss, str):
        return LOG if loss == "poisson" else None
    return loss.link


def check_counts(y: np.ndarray) -> None:
    """An error for targets of which no logarithm of a mean can be fitted."""
    if np.any(y < 0):
        raise ValueError(f"loss='poisson' needs targets from 0 on, got {np.min(y):g} in y")
    if not np.all(np.any(y > 0, axis=0)):
        raise ValueError("loss='poisson' needs some targets above 0: all of y, or of a column of it, is 0")
    if np.max(y) > LARGEST_COUNT:
        raise ValueError(f"loss='poisson' needs targets up to {LARGEST_COUNT:g}, got {np.max(y):g} in y: scale them")


def without_outliers(y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Targets that stay within three standard deviations of their median, by a robust estimate of these."""
    middle = medians(y, weights)
    scale = medians(np.abs(y - middle), weights)
    reach = np.where(scale > 0, 3 * 1.4826 * scale, np.inf)
    return np.clip(y, middle - reach, middle + reach).astype(y.dtype)


def random_split(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to hold out."""
    check_split(len(data.y), share)
    seed = int(rng.integers(2**31))
    train, held_out = train_test_split(np.arange(len(data.y)), test_size=share, random_state=seed)
    return np.sort(train), np.sort(held_out)


def beyond_spread(targets: np.ndarray, residuals: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Rows that miss a target by more than its standard deviation in training."""
    return np.any(np.abs(residuals) > np.std(seen, axis=0), axis=1)
