"""Prediction intervals: split conformal for any regressor, jackknife+ for pursuits that know their left-out errors."""

from __future__ import annotations

import math
from fractions import Fraction
from inspect import Parameter, signature
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter, validate_data

from kernelpursuit._sklearn import (
    EstimatorSupport,
    HasMethods,
    Interval,
    check_feature_names,
    check_sample_weight,
    check_y,
    fit_context,
    get_config,
    num_samples,
    safe_indexing,
)
from kernelpursuit._warning import warn, without
from kernelpursuit.arrays import Array, is_array, namespace, on_host
from kernelpursuit.estimators.regression import KMPRegressor
from kernelpursuit.fitting.callbacks import as_subtask, subtask_of, verbosity, with_callbacks
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.duplicates import DUPLICATES, FOR_A_PROMISE, warn_of_duplicates
from kernelpursuit.fitting.jackknife import LeftOut, check_leaves_out
from kernelpursuit.fitting.pipeline import say
from kernelpursuit.fitting.placement import (
    check_new,
    check_place,
    labels_on_host,
    numeric,
    take_rows,
    to_namespace_of,
    widest,
    x_options,
)
from kernelpursuit.fitting.rows import refuse_collections
from kernelpursuit.fitting.training import check_square
from kernelpursuit.fitting.values import ValueScore


def rows_at(X: Any, J: np.ndarray) -> Any:
    """Rows `J`, host indices, of data as users give them: lists and tables too."""
    return take_rows(X, J) if is_array(X) else safe_indexing(X, J)


def conformal_quantile(residuals: np.ndarray, coverage: float) -> float:
    """Entry ``ceil((n + 1) coverage)`` of `residuals`, which are sorted; infinite if there is none.

    `coverage` is taken as the decimal that it prints as, so that 0.7 of 10 is 7 and not the next number above.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 10.0), coverage=0.9), conformal_quantile(np.arange(1.0, 10.0), coverage=0.95)
    (9.0, inf)
    """
    rank = math.ceil((len(residuals) + 1) * Fraction(repr(float(coverage))))
    return float(residuals[rank - 1]) if rank <= len(residuals) else math.inf


def rows_needed(coverage: float) -> int:
    """Fewest calibration rows with a finite quantile.

    Examples
    --------
    >>> rows_needed(0.9), rows_needed(0.95)
    (9, 19)
    """
    return math.ceil(1 / (1 - Fraction(repr(float(coverage))))) - 1


def one_target(y: Any, name: str) -> np.ndarray:
    """One column of finite numbers."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    y = labels_on_host(y)
    shape = y.shape
    if len(shape) > 1 and shape[1] > 1:
        raise ValueError(f"y must be one target for {name}, got shape {shape}: fit one model for each target")
    return numeric(check_y(y, multi_output=False, y_numeric=True))


def split_rows(n: int, share: float, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to set aside, at least one of each."""
    if n < 2 or n - math.ceil(share * n) < 1:
        raise ValueError(f"calibration_fraction={share} of n_samples = {n} rows leaves none to fit: give more rows")
    rows, aside = train_test_split(np.arange(n), test_size=share, random_state=random_state)
    return np.sort(rows), np.sort(aside)


def row_weights(fit_params: dict[str, Any], estimator: Any, n: int) -> tuple[str, np.ndarray | None]:
    """The weights among what `fit` was given besides the data, checked, and their name; nothing else is known there.

    They are no named parameter of `fit`, because that would promise that a row of weight 2 is the same as two rows. A
    row is set aside or fitted to as a whole; of two rows one may be set aside.
    """
    given = {name: value for name, value in fit_params.items() if value is not None}
    name = next((name for name in given if name.split("__")[-1] == "sample_weight"), "sample_weight")
    weights = given.pop(name, None)
    if given:
        raise TypeError(f"fit takes X, y and sample_weight, got {', '.join(sorted(given))} as well")
    if weights is None:
        return name, None
    check_takes_weights(estimator, name)
    weights = check_sample_weight(labels_on_host(weights), np.empty((n, 0)), ensure_non_negative=True)
    if not np.any(weights > 0):
        raise ValueError(f"{name} must have at least one positive entry: all weights are zero")
    return name, weights


def check_takes_weights(estimator: Any, name: str) -> None:
    """Refuse weights of this name that no fit of the estimator would take, and say what a pipeline needs."""
    routed = get_config()["enable_metadata_routing"]
    if isinstance(estimator, Pipeline) and "__" not in name and not routed:
        raise ValueError(
            f"{name} must name a step of the pipeline, as in {estimator.steps[-1][0]}__{name}. Or turn metadata "
            f"routing on, by sklearn.set_config(enable_metadata_routing=True), and call set_fit_request({name}=True) "
            "of that step"
        )
    kinds = [parameter.kind for parameter in signature(estimator.fit).parameters.values()]
    if not (has_fit_parameter(estimator, name) or Parameter.VAR_KEYWORD in kinds):
        raise ValueError(f"{name} must be None for an estimator whose fit takes none, got {estimator!r}")


@described
class ConformalRegressor(MetaEstimatorMixin, ValueScore, EstimatorSupport, BaseEstimator):
    """Regressor with prediction intervals that cover the target with a probability of your choice.

    Some rows are set aside and the estimator is fitted to the others. A quantile of its absolute errors on the rows set
    aside, `quantile_`, is half the width of every interval. If these rows and a new one are exchangeable (drawn
    independently from one distribution, say), the new target lies in its interval with probability at least `coverage`,
    whatever the distribution and however bad the model. Without ties among the errors it is at most
    ``1 / (n_calibration + 1)`` more. The probability is over the rows set aside and the new row together. It does not
    hold for each x, and the share covered with one set of rows set aside varies around it. Duplicate rows, targets
    and all, are not exchangeable with new ones: a warning says where a tenth of the rows are duplicates.

    ``calibration_fraction=None`` sets no rows aside. A squared-loss pursuit knows the n models that have its atoms and
    weights fitted without one row each. The ends of an interval are quantiles of what they predict less, and plus,
    their errors on the rows left out (jackknife+). The errors are enlarged for the search of the atoms, which saw all
    rows. No theorem covers that: `benchmarks/intervals.py` measures it on ten sets.

    Parameters
    ----------
    estimator : regressor, optional
        The regressor to fit. Default: ``KMPRegressor()``.
    coverage : float, default=0.9
        Probability with which a new target lies in its interval.
    calibration_fraction : float or None, default=0.25
        Share of the rows set aside. For a finite interval there must be ``coverage / (1 - coverage)`` of them at least.
        None sets none aside, for `KMPRegressor` with the squared loss, also in a search.
    adaptive : bool, default=False
        Whether intervals are wider where errors are larger. The same kind of model, with ``n_atoms="auto"``, is fitted
        to the logarithms of the left-out errors of the rows not set aside. Errors and widths are in units of the root
        of what it predicts: half of the way, so that a poor guess does little harm. The coverage is promised as before.
        For the same estimators as ``calibration_fraction=None``, and not together with that.
    random_state : int, RandomState or None, default=None
        Seed for the split. `estimator` has its own.
    verbose : int, default=0
        1 prints how many rows were fitted to and set aside, and how wide the intervals are. `estimator` has its own.

    Attributes
    ----------
    estimator_ : regressor
        The regressor, fitted to the rows that were not set aside.
    quantile_ : float
        Half the width of the intervals; about that, where no rows are set aside; in units of the scale, where that is
        adaptive. Infinite if there are too few rows.
    scale_estimator_ : regressor or None
        Model of the logarithm of the errors, for ``adaptive=True``.
    residuals_ : ndarray of shape (n_calibration,)
        Absolute errors on the rows set aside, or of all rows when left out, in the same unit, increasing.
    n_features_in_
    feature_names_in_

    References
    ----------
    Papadopoulos, Proedrou, Vovk and Gammerman, Inductive confidence machines for regression, ECML 2002; Lei, G'Sell,
    Rinaldo, Tibshirani and Wasserman, Distribution-free predictive inference for regression, JASA 113 (2018); Barber,
    Candès, Ramdas and Tibshirani, Predictive inference with the jackknife+, Annals of Statistics 49 (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(600, 1))
    >>> y = np.sin(X[:, 0]) + rng.normal(scale=0.2, size=600)
    >>> model = ConformalRegressor(random_state=0).fit(X[:400], y[:400])
    >>> low, high = model.predict_interval(X[400:]).T
    >>> bool(abs(np.mean((low <= y[400:]) & (y[400:] <= high)) - 0.9) < 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit"]), None],  # a stack predicts when it is fitted
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "calibration_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "adaptive": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        coverage=0.9,
        calibration_fraction=0.25,
        adaptive=False,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.coverage = coverage
        self.calibration_fraction = calibration_fraction
        self.adaptive = adaptive
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    @with_callbacks
    def fit(self, X: Any, y: Any, **fit_params: Any) -> ConformalRegressor:
        """Fit the estimator to some rows and measure its errors on the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Whatever the estimator accepts; the square kernel matrix if its kernel is precomputed.
        y : array-like of shape (n_samples,)
        **fit_params : dict
            ``sample_weight`` goes to the fit of the estimator, for the rows that it is fitted to; rows of weight 0 are
            left out altogether. Each row set aside counts once whatever its weight: the coverage is a promise about
            rows as they come. For a pipeline it is ``STEP__sample_weight``, or ``sample_weight`` with metadata routing
            on, which then decides whether the estimator gets it.

        Returns
        -------
        self
        """
        refuse_collections(self, "fit", X, y)
        estimator = self._check_estimator()
        pairwise = get_tags(estimator).input_tags.pairwise
        y = one_target(y, type(self).__name__)
        X = self._checked(X, pairwise, reset=True)
        check_consistent_length(X, y)
        if pairwise:
            check_square(X, "precomputed")
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        name, weights = row_weights(fit_params, estimator, num_samples(X))
        present = np.arange(num_samples(X)) if weights is None else np.flatnonzero(weights > 0)
        rows = aside = present
        if self.calibration_fraction is not None:
            parts = split_rows(len(present), self.calibration_fraction, self.random_state)
            rows, aside = (present[part] for part in parts)
        self._columns = rows.tolist() if pairwise else None
        X_rows, X_aside = (self._fitted_columns(rows_at(X, some)) for some in (rows, aside))
        y_rows, y_aside = y[rows], y[aside]
        weights = None if weights is None else weights[rows]
        interrupt = self._fit_estimator(clone(estimator), X_rows, y_rows, {} if weights is None else {name: weights})
        warn_of_duplicates(rows_at(X, present), y[present, None], share=FOR_A_PROMISE)
        self.scale_estimator_ = self._fit_scale(X_rows, y_rows, weights) if self.adaptive else None
        predicted, self._left_out = self.estimator_.predict(X_aside), None
        if self.calibration_fraction is None:
            self._left_out = LeftOut.of(self.estimator_, self._as_fitted(X_aside), y_aside, weights)
            errors = self._left_out.errors
        else:
            errors = np.abs(y_aside.astype(np.float64) - on_host(predicted)) / on_host(self._scale(X_aside, predicted))
        errors = np.sort(errors)
        self.residuals_ = to_namespace_of(errors, predicted)
        self.quantile_ = conformal_quantile(errors, self.coverage)
        if verbosity(self):
            set_aside = "none" if self.calibration_fraction is None else len(aside)
            say(f"{len(rows)} rows fitted to, {set_aside} set aside; intervals are ±{self.quantile_:.4g}")
        if np.isinf(self.quantile_):
            warn(self._why_infinite(errors))
        if interrupt is not None:
            self._interrupt = interrupt
        return self

    def _check_estimator(self) -> Any:
        """The regressor, if it can have the intervals that are asked for."""
        estimator = self._base()
        if not is_regressor(estimator):
            raise ValueError(f"estimator must be a regressor, got {estimator!r}")
        if self.adaptive:
            check_leaves_out(estimator, "adaptive=True")
        if self.calibration_fraction is None:
            if self.adaptive:
                raise ValueError("adaptive=True needs rows set aside: give a calibration_fraction")
            check_leaves_out(estimator, "calibration_fraction=None")
        return estimator

    def _why_infinite(self, errors: np.ndarray) -> str:
        """What to do about infinite intervals."""
        n, coverage = len(errors), f"coverage={self.coverage}: the intervals are infinite"
        if n >= rows_needed(self.coverage):  # left out, and without errors that they could have
            return (
                f"{int(np.isinf(errors).sum())} of {n} rows have atoms to themselves, so that nothing is known of "
                f"the error without them, too many for {coverage}. Give fewer atoms, a ridge (alpha='auto'), or a "
                "calibration_fraction"
            )
        return (
            f"{n} calibration rows are too few for {coverage}. Give {rows_needed(self.coverage)} calibration rows at "
            "least, a lower coverage or a larger calibration_fraction"
        )

    def _fit_estimator(
        self, estimator: Any, X: Any, y: np.ndarray, options: dict[str, np.ndarray]
    ) -> KeyboardInterrupt | None:
        """Fit; an interrupt is returned where it left a model."""
        self.estimator_ = estimator
        try:
            # A warning of duplicates follows, of all rows.
            with without(UserWarning, DUPLICATES), as_subtask(subtask_of(self, "fit"), estimator, X, y):
                estimator.fit(X, y, **options)
        except KeyboardInterrupt as stopped:
            if not (hasattr(estimator, "path_") or hasattr(estimator, "best_estimator_")):  # no model was left
                raise
            return stopped
        return None

    def _fit_scale(self, X: Any, y: np.ndarray, weights: np.ndarray | None) -> Any:
        """Model of the logarithm of the left-out errors; the smallest tenth of them counts as equal."""
        errors = LeftOut.of(self.estimator_, self._as_fitted(X), y, weights).errors
        errors = np.minimum(errors, errors[np.isfinite(errors)].max(initial=0.0))
        floor = np.quantile(errors, 0.1)
        logarithms = np.log(np.maximum(errors, floor)) if floor > 0 else np.zeros(len(y))
        model = clone(self._base())
        if hasattr(model, "n_atoms"):
            model.set_params(n_atoms="auto", stop=None)
        with without(UserWarning):  # the first fit had these rows; equal errors make a constant
            return model.fit(X, logarithms, sample_weight=weights)

    def _scale(self, X: Any, like: Array) -> Array:
        """Unit of the errors at rows of X: the root of what the model of errors says, or 1."""
        if self.scale_estimator_ is None:
            return namespace(like).ones_like(like)
        logarithm = widest(self.scale_estimator_.predict(X))
        return namespace(logarithm).exp(logarithm / 2)

    def _as_fitted(self, X: Any) -> Any:
        """X as the estimator itself sees it: an array of numbers."""
        model = getattr(self.estimator_, "best_estimator_", self.estimator_)  # of a search
        return check_new(model, X, model.kernel, model.support_vectors_, "predict")

    def predict(self, X: Any) -> Array:
        """Predictions of the estimator, the middle of the intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._check_new(X, "predict")
        return self.estimator_.predict(X)

    def predict_interval(self, X: Any) -> Array:
        """Lower and upper end of the interval for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        X = self._check_new(X, "predict_interval")
        middle = widest(self.estimator_.predict(X))
        if self._left_out is not None:
            return to_namespace_of(self._left_out.intervals(self._as_fitted(X), self.coverage), middle)
        half = self.quantile_ * widest(self._scale(X, middle))
        return namespace(middle).stack([middle - half, middle + half], axis=1)

    def _check_new(self, X: Any, method: str) -> Any:
        """New rows as the estimator takes them."""
        check_is_fitted(self)
        if get_config()["array_api_dispatch"]:
            check_place(self, X, self.residuals_, method)
        return self._fitted_columns(self._checked(X, pairwise=self._columns is not None, reset=False))

    def _fitted_columns(self, X: Any) -> Any:
        """X, or of kernel values those with the rows that the estimator was fitted to."""
        return X if self._columns is None else safe_indexing(X, np.array(self._columns), axis=1)

    def _checked(self, X: Any, pairwise: bool, reset: bool) -> Any:
        """X as rows that can be taken; its values are the estimator's to check, but for a kernel matrix."""
        if pairwise:
            return validate_data(self, X, reset=reset, **x_options(None, X))
        if reset:
            validate_data(self, X, skip_check_array=True)
        else:
            check_feature_names(self, X, reset=False)
        return indexable(X)[0]

    def _base(self) -> Any:
        return KMPRegressor() if self.estimator is None else self.estimator

    def get_metadata_routing(self) -> MetadataRouter:
        """What of metadata goes where: see scikit-learn's user guide on routing.

        Returns
        -------
        MetadataRouter
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self._base(), method_mapping=to_fit)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        whole = get_tags(self._base())
        tags.array_api_support = whole.array_api_support
        inner = whole.input_tags
        tags.input_tags.pairwise = inner.pairwise
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags
