"""Kernel matching pursuit with its number of atoms and its kernel width chosen by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.estimators.classification import CLASSIFICATION_LOSS, ClassifierModel, KMPClassifier
from kernelpursuit.estimators.regression import REGRESSION_LOSS, KMPRegressor, RegressorModel
from kernelpursuit.fitting.classes import check_training_classes
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.pipeline import fits
from kernelpursuit.fitting.placement import host_dtype
from kernelpursuit.fitting.rules import mean_loss
from kernelpursuit.fitting.task_parameters import ClassSearchParameters, ValueSearchParameters
from kernelpursuit.fitting.training import check_training, training_data
from kernelpursuit.fitting.units import Units, cast_targets
from kernelpursuit.fitting.values import LINEAR, link_of, regression_loss
from kernelpursuit.losses import LOSSES
from kernelpursuit.search.score_table import accuracy
from kernelpursuit.search.search import SearchModel, search

FAR_FROM_ONE = 300  # exponent of two of targets whose squares, and sums of these, may overflow or have few digits


@described
class KMPRegressorCV(ValueSearchParameters, SearchModel, RegressorModel):
    """`KMPRegressor` with the number of atoms and the kernel width chosen by cross-validation.

    A path of `max_atoms` steps holds the models of all smaller numbers. So each fold and width costs one fit, and every
    number of atoms is cross-validated.

    search_groups

    Parameters
    ----------
    max_atoms : int, default=100
        Number of steps of the longest path. A warning says when the best number is this one.
    gammas
    search_alpha
    alphas
    input_weights
    value_loss
    quantile
    cv
    scoring : str, callable or None, default=None
        None is minus the mean of the loss that is fitted, for "squared" the negative mean squared error, computed for
        all numbers of atoms at once, also where it is asked for by name. Another scorer of scikit-learn is called for
        each number.
    one_standard_error
    n_jobs
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
    candidates
    weakness
    memory
    search_seed
    search_verbose

    Attributes
    ----------
    best_n_atoms_
    gamma_
    target_alpha_
    input_weights_
    best_score_
    cv_results_
    refitted_support_
    support_vectors_
    support_kernels_
    target_dual_coef_
    target_intercept_
    path_
    n_features_in_
    feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(100, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=100)
    >>> model = KMPRegressorCV(max_atoms=20, cv=3).fit(X, y)
    >>> model.cv_results_["mean_test_score"].shape, len(model.support_) == model.best_n_atoms_
    ((100,), True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **ValueSearchParameters._parameter_constraints,
        "loss": REGRESSION_LOSS,
    }

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> KMPRegressorCV:
        """Choose width and number of atoms, then fit on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Used in the fits and in the scores.
        groups : array-like of shape (n_samples,), optional
            Group of each row, for a `cv` that keeps the rows of a group together, such as ``GroupKFold()``.

        Returns
        -------
        self
        """
        X, y = check_training(self, X, y, sample_weight=sample_weight, multi_output=True, y_numeric=True)
        unit = self._unit_of_scores(on_host(y))
        if unit != 1.0:
            cast_targets(on_host(y), host_dtype(X))  # or an error
            y = y / unit
        rows = on_host(y).reshape(X.shape[0], -1).astype(np.float64)
        loss = regression_loss(self.loss, training_data(X, rows, sample_weight), self.quantile) or LOSSES["squared"]

        def metric(y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
            columns = y.reshape(len(y), -1), prediction.reshape(len(y), -1).astype(np.float64)
            if loss.link is not None:
                columns = columns[0], loss.link.of_mean(columns[1])
            return -mean_loss(loss.value, *columns, sample_weight) / columns[0].shape[1]

        found = search(self, KMPRegressor, metric, X, y, sample_weight, groups)
        self._adopt(found)
        if unit != 1.0:
            self._set(Units(unit).restored(found.model._taken))
            self._scores_in(unit)
        return self

    def _unit_of_scores(self, y: np.ndarray) -> float:
        """A power of two to divide y by, so that squares of it are numbers; 1 where they are, or where it matters not.

        Whoever gives a scorer wants it called with the y that he gave. Losses that grow as residuals do need no unit.
        """
        exponent = int(np.frexp(np.max(np.abs(y)))[1])
        known = isinstance(self.loss, str) and self.loss not in LINEAR and link_of(self.loss) is None
        if abs(exponent) < FAR_FROM_ONE or not np.any(y) or not known:
            return 1.0
        if self.scoring is None:
            return float(2.0 ** np.clip(exponent, -1000, 1000))
        warn(
            f"y has values of the size of {np.max(np.abs(y)):.1g}, of which scoring={self.scoring!r} may take squares: "
            "these are 0 or infinite in float64, and so would be all scores. Scale y, or give scoring=None"
        )
        return 1.0

    def _scores_in(self, unit: float) -> None:
        """Scores of y that was divided by `unit`, in its own units. Ranks are of the scores before."""
        with np.errstate(over="ignore", under="ignore"):
            for name, scores in self.cv_results_.items():
                if name.endswith("_test_score") and not name.startswith("rank"):
                    self.cv_results_[name] = scores * unit * unit
            self.best_score_ = float(np.float64(self.best_score_) * unit * unit)
        if not 0 < abs(self.best_score_) < np.inf:
            warn(
                f"best_score_ and cv_results_ are {self.best_score_:g}: squares of y are no numbers of float64. "
                "Width and number of atoms were chosen for y divided by its size, as rank_test_score shows. "
                "Scale y to see scores"
            )


@described
class KMPClassifierCV(ClassSearchParameters, SearchModel, ClassifierModel):
    """`KMPClassifier` with the number of atoms and the kernel width chosen by cross-validation.

    A path of `max_atoms` steps holds the models of all smaller numbers. So each fold and width costs one fit, and every
    number of atoms is cross-validated.

    search_groups

    Parameters
    ----------
    max_atoms : int, default=100
        Number of steps of the longest path. A warning says when the best number is this one.
    gammas
    search_alpha
    alphas
    input_weights
    class_loss
    class_weight
    cv
    scoring : str, callable or None, default=None
        None is the accuracy, as in scikit-learn's searches, whatever the loss. It is computed for all numbers of atoms
        at once, as is "accuracy". Another scorer of scikit-learn, "neg_log_loss" say, is called for each number. Scores
        of probabilities are near those of `cross_val_score` but not the same: the probabilities are calibrated for
        about two numbers of atoms in each doubling, and in between by interpolation. The final model is calibrated for
        its own number.
    one_standard_error
    n_jobs
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
    candidates
    weakness
    memory
    search_seed
    search_verbose

    Attributes
    ----------
    classes_
    best_n_atoms_
    gamma_
    alpha_
    input_weights_
    best_score_
    cv_results_
    refitted_support_
    support_vectors_
    support_kernels_
    dual_coef_ : ndarray of shape (k,) or (k, n_classes)
        Weights of the atoms, for more than two classes a column for each.
    class_intercept_
    path_
    n_features_in_
    feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelpursuit import KMPClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KMPClassifierCV(max_atoms=10, one_standard_error=True).fit(X, y)
    >>> len(model.support_) == model.best_n_atoms_, model.score(X, y) > 0.95
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **ClassSearchParameters._parameter_constraints,
        "loss": CLASSIFICATION_LOSS,
    }

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> KMPClassifierCV:
        """Choose width and number of atoms, then fit on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes; or 0 and 1, which labels each row has.
        sample_weight : array-like of shape (n_samples,), optional
            Used in the fits and in the scores; `class_weight` is used in the fits alone.
        groups : array-like of shape (n_samples,), optional
            Group of each row, for a `cv` that keeps the rows of a group together, such as ``GroupKFold()``.

        Returns
        -------
        self
        """
        X, y, self._labels = check_training_classes(self, X, y, sample_weight)
        found = search(self, KMPClassifier, accuracy, X, y, sample_weight, groups)
        self._adopt(found)
        self.classes_ = found.model.classes_
        return self
