"""Refined pursuit: chosen atoms move to where they serve best."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from kernelpursuit._sklearn import StrOptions, fit_context
from kernelpursuit.arrays import column_means, gather, namespace, on_host, to_host
from kernelpursuit.atoms.threads import one_blas_thread
from kernelpursuit.fitting.callbacks import with_callbacks
from kernelpursuit.fitting.classes import (
    as_labels,
    code_classes,
    like_labels,
    take_classes,
    two_or_more_classes,
)
from kernelpursuit.fitting.placement import (
    as_like,
    labels_on_host,
    to_namespace_of,
    validated,
    widest,
    x_options,
)
from kernelpursuit.fitting.rows import lazy_for_collections, rows_of_fit
from kernelpursuit.fitting.training import TrainingData, training_data, with_class_weight
from kernelpursuit.fitting.values import ValueScore, as_targets
from kernelpursuit.refined.base import Outcome, RefinedModel
from kernelpursuit.refined.descent import softmax
from kernelpursuit.refined.refining import (
    errors_within_margin,
    fitted_slope,
    of_all_targets,
    squared_errors,
    warn_of_few_rows,
)

VANISHED = 1e12  # standard deviations of an input from its mean, where all terms are 0; squares of more may overflow


class RefinedKMPRegressor(ValueScore, RefinedModel):
    """Kernel regression with few terms that moved to where they serve best. Nothing needs to be tuned or scaled.

    ``f(x) = intercept_ + Σ_j dual_coef_[j] exp(-widths_[j] Σ_d input_weights_[d]² (x_d - centers_[j, d])²)``.
    Matching pursuit chooses training rows as centres; then centres, a width for each term and a weight for each input
    are moved to raise the evidence of the targets. How far, and which of them, rows held out decide: where widths of
    their own do not pay, as on small noisy data, all terms keep one width, as in a sparse Gaussian process.

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of terms, fewer with a warning where the rows that are not held out, four fifths of a few hundred, cannot
        tell so many apart. "auto" doubles it while rows held out gain by it.
    epochs : int or "auto", default="auto"
        Most passes over the rows. Where these are so many that mini-batches are used, "auto" makes about 6,000 steps,
        and 60 to 300 passes, four times as many on an NVIDIA GPU: more of them give lower errors, slowly. Where all
        rows are used at once, rows held out say when to stop.
    random_state : int, RandomState or None, default=None
        Draws the rows held out, the rows that atoms are chosen from, and the mini-batches.
    verbose : int, default=0
        1 prints what is tried and what came of it.
    resume : False or path, default=False
        A path names a file to which each thing that was tried is added, and each tenth of a descent. After a crash, a
        kill or an interrupt the same call goes on with it, and ends with the same model. A file of other data or
        parameters is refused.

    Attributes
    ----------
    centers_ : array of shape (k, n_features)
        In the units of X.
    widths_ : array of shape (k,)
        Parameter gamma of each term, for inputs that are multiplied by `input_weights_`.
    input_weights_ : array of shape (n_features,)
        In 1 / the units of X; 0 for an input that is constant.
    start_centers_ : array of shape (k, n_features)
        Where the centres were before they moved.
    dual_coef_ : array of shape (k,) or (k, n_targets)
        Coefficients of the terms.
    intercept_ : float or array of shape (n_targets,)
        Constant term.
    noise_ : float or array of shape (n_targets,)
        Standard deviation of what is left of y, by the errors of rows held out where there are any.
    moved_ : {"nothing", "centers", "all"}
        What was moved: nothing; the centres and the weights of the inputs; or the width of each term as well.
    n_iter_ : int
        Iterations of the evidence, or passes, that moved everything.
    n_features_in_ : int
        Number of columns of X in `fit`.
    feature_names_in_ : ndarray of str
        When X has column names.

    Notes
    -----
    Some thousand rows are handled by evidence and L-BFGS; where n_samples n_atoms² exceeds 10⁹ by Adam on mini-batches.
    Several targets share the terms and count alike, each in units of its own spread, whatever its unit: one that the
    inputs say nothing about takes its share, too, so fit it apart. One that is constant has no part.

    An interrupt (Ctrl-C) is raised again after the best model so far is set. With
    ``sklearn.config_context(array_api_dispatch=True)`` tensors, on any device, are fitted where they live.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import RefinedKMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 1000, 1e-3, 1]
    >>> y = np.sin(X[:, 0] + X[:, 1] / 500)
    >>> model = RefinedKMPRegressor(n_atoms=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    """

    def __init__(self, n_atoms="auto", *, epochs="auto", random_state=None, verbose=0, resume=False):
        self.n_atoms = n_atoms
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose
        self.resume = resume

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RefinedKMPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In any units. Or a Dask array or dataframe, with y and the weights alike: at most 20,000 rows come here, and
            all others stay on the workers of the cluster.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows. Weights that sum to less than the number of rows are taken in
            proportion.

        Returns
        -------
        self
        """
        with (
            one_blas_thread.for_small_fit(),
            rows_of_fit(self, X, y, sample_weight, self._check_rows, as_targets) as data,
        ):
            self._one_target = data.given_y.ndim == 1
            return self._fit_rows(data.source.bring_few(data))

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked."""
        X, y = validated(self, X, y, multi_output=True, y_numeric=True, **x_options("precomputed", X))
        return training_data(X, as_targets(on_host(y)), sample_weight)._replace(given_y=y)

    def _fit_rows(self, data: TrainingData) -> RefinedKMPRegressor:
        """Fit to targets that are centred and divided by their standard deviation."""
        xp = namespace(data.y)
        largest = to_host(xp.max(xp.abs(data.y), axis=0))
        unit = np.where(largest > 0, largest, 1.0)
        scaled = data.y / unit  # first, so that no square overflows
        mean = column_means(scaled, data.weights)
        spread = np.sqrt(column_means((scaled - mean) ** 2, data.weights))
        varies = spread > 1e-14
        Y = (scaled - mean) / np.where(varies, spread, 1)
        J = np.flatnonzero(varies) if np.any(varies) else np.arange(len(varies))  # a constant has no say in the others
        Y = Y if len(J) == len(varies) else gather(Y, J, axis=1)
        outcome = self._refine(data, Y, squared_errors, "squared_error")
        outcome = of_all_targets(outcome, J, len(varies))
        self._set(self.centers_, outcome, mean * unit, np.where(varies, spread, 0.0) * unit)
        return self._done(outcome)

    def _set(self, X: Any, outcome: Outcome, mean: np.ndarray, unit: np.ndarray) -> None:
        model, fit = outcome.model, outcome.fit
        self._set_coefficients(X, model.coef * unit, model.intercept * unit + mean)
        self._uncertainty = fit, unit, outcome.inflation
        noise = np.sqrt((1.0 if fit is None else fit.evidence.noise) * outcome.inflation) * unit
        self.noise_ = float(noise[0]) if self._one_target else to_namespace_of(noise, X)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets for X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new target: noise and the uncertainty of the coefficients, together
            brought to the size of the errors of rows held out. It knows nothing of the uncertainty of centres
            and widths; far from the data, where all terms vanish, it tells little more than the noise. Of a model of
            fewer than 10 rows it tells next to nothing, and a warning says so. After mini-batches it is the same for
            all rows.

        Returns
        -------
        values : array of shape (n_samples,) or (n_samples, n_targets)
        std : array of the same shape
            If `return_std`.
        """
        values = self._means(X)
        return (values, self._deviations(X)) if return_std else values

    @lazy_for_collections
    def _means(self, X: Any) -> Any:
        """Means of new targets."""
        values = self._values(self._check_new(X, "predict"))
        return values[:, 0] if self._one_target else values

    @lazy_for_collections
    def _deviations(self, X: Any) -> Any:
        """Standard deviations of new targets."""
        X = self._check_new(X, "predict")
        fit, unit, inflation = self._uncertainty
        warn_of_few_rows(fit)
        variance = np.ones(X.shape[0])
        if fit is not None:
            with np.errstate(over="ignore"):
                rows = self._frame(widest(X))
            variance = fit.variance(namespace(rows).clip(rows, -VANISHED, VANISHED))
        std = np.sqrt(variance)[:, None] * (np.sqrt(inflation) * unit)
        return as_like(std[:, 0] if self._one_target else std, X)


class RefinedKMPClassifier(ClassifierMixin, RefinedModel):
    """Kernel classifier with few terms that moved to where they serve best. Nothing needs to be tuned or scaled.

    One set of terms serves all classes, each class with coefficients of its own. Small sets are fitted by the evidence
    of a regression on ±1, many rows by mini-batches of the logistic or softmax loss; rows held out decide what moves,
    and scale the values so that probabilities are right.

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of terms, fewer with a warning where the rows that are not held out, four fifths of a few hundred, cannot
        tell so many apart. "auto" doubles it while rows held out gain by it.
    epochs : int or "auto", default="auto"
        Most passes over the rows. Where these are so many that mini-batches are used, "auto" makes about 6,000 steps,
        and 60 to 300 passes, four times as many on an NVIDIA GPU: more of them give lower errors, slowly. Where all
        rows are used at once, rows held out say when to stop.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied by `sample_weight`.
    random_state : int, RandomState or None, default=None
        Draws the rows held out, the rows that atoms are chosen from, and the mini-batches.
    verbose : int, default=0
        1 prints what is tried and what came of it.
    resume : False or path, default=False
        A path names a file to which each thing that was tried is added, and each tenth of a descent. After a crash, a
        kill or an interrupt the same call goes on with it, and ends with the same model. A file of other data or
        parameters is refused.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes, sorted.
    centers_ : array of shape (k, n_features)
        In the units of X.
    start_centers_ : array of shape (k, n_features)
        Where the centres were before they moved.
    widths_ : array of shape (k,)
        Parameter gamma of each term, for inputs that are multiplied by `input_weights_`.
    input_weights_ : array of shape (n_features,)
        In 1 / the units of X; 0 for an input that is constant.
    moved_ : {"nothing", "centers", "all"}
        What was moved: nothing; the centres and the weights of the inputs; or the width of each term as well.
    n_iter_ : int
        Iterations of the evidence, or passes, that moved everything.
    n_features_in_ : int
        Number of columns of X in `fit`.
    feature_names_in_ : ndarray of str
        When X has column names.
    dual_coef_ : array of shape (k,) or (k, n_classes)
        Coefficients of the terms.
    intercept_ : float or array of shape (n_classes,)
        Constant term.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import RefinedKMPClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 100, 1]
    >>> y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] / 100 > 0, "above", "below")
    >>> model = RefinedKMPClassifier(n_atoms=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RefinedModel._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(self, n_atoms="auto", *, epochs="auto", class_weight=None, random_state=None, verbose=0, resume=False):
        self.n_atoms = n_atoms
        self.epochs = epochs
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.resume = resume

    @fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RefinedKMPClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In any units. Or a Dask array or dataframe, with y and the weights alike: at most 20,000 rows come here, and
            all others stay on the workers of the cluster.
        y : array-like of shape (n_samples,)
            Two or more classes.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows. Weights that sum to less than the number of rows are taken in
            proportion.

        Returns
        -------
        self
        """
        with (
            one_blas_thread.for_small_fit(),
            rows_of_fit(self, X, y, sample_weight, self._check_rows, as_labels) as data,
        ):
            return self._fit_rows(data.source.bring_few(data))

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked; `class_weight` is a part of their weights."""
        X, y = validated(self, X, y, **x_options("precomputed", X))
        check_classification_targets(y)
        labels = labels_on_host(y)
        sample_weight, _ = with_class_weight(self.class_weight, labels, sample_weight, X)
        return training_data(X, labels, sample_weight)._replace(given_y=y)

    def _fit_rows(self, data: TrainingData) -> RefinedKMPClassifier:
        """Fit to classes coded -1 and +1."""
        classes = two_or_more_classes(data)
        self.classes_ = like_labels(classes, data.given_y)
        Y = data.source.map(code_classes, data.y, classes, np.float64)
        self._one_target = Y.shape[1] == 1
        loss = "log_loss" if self._one_target else "softmax"
        outcome = self._refine(data, Y, errors_within_margin, loss)
        slope, model = fitted_slope(outcome, data, Y, loss), outcome.model
        self._set_coefficients(self.centers_, slope * model.coef, slope * model.intercept)
        return self._done(outcome)

    @lazy_for_collections
    def decision_function(self, X: Any) -> Any:
        """Log odds of the second of two classes, else a value for each class, of which `predict_proba` is the softmax.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
        """
        values = self._values(self._check_new(X, "decision_function"))
        return values[:, 0] if self._one_target else values

    @lazy_for_collections
    def predict(self, X: Any) -> Any:
        """Predict classes for X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        values = self._values(self._check_new(X, "predict"))
        xp = namespace(values)
        index = xp.astype(values[:, 0] > 0, xp.int64) if self._one_target else xp.argmax(values, axis=1)
        return take_classes(self.classes_, index)

    @lazy_for_collections
    def predict_proba(self, X: Any) -> Any:
        """Probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return self._probabilities(X, "predict_proba")

    @lazy_for_collections
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            p = self._probabilities(X, "predict_log_proba")
            return namespace(p).log(p)

    def _probabilities(self, X: Any, method: str) -> Any:
        values = self._values(self._check_new(X, method))
        if self._one_target:
            values = namespace(values).concat([-values / 2, values / 2], axis=1)
        return softmax(values)
