"""Cross-validation of every number of atoms and every kernel width, at one path for each fold and width."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, check_scoring, mean_squared_error
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import validate_data

from kernelpursuit._array import gather, on_host
from kernelpursuit._sklearn import fit_context
from kernelpursuit.estimators._fitting import check_square, host_weights
from kernelpursuit.estimators._parameters import SEARCH_CONSTRAINTS, SearchParameters
from kernelpursuit.estimators._spaces import is_precomputed, labels_beside, take_rows, x_options
from kernelpursuit.estimators.classification import CLASSIFICATION_LOSS, ClassifierModel, KMPClassifier
from kernelpursuit.estimators.regression import REGRESSION_LOSS, KMPRegressor, RegressorModel
from kernelpursuit.kernels import scale_gamma, uses_gamma


class KMPRegressorCV(SearchParameters, RegressorModel):
    """`KMPRegressor` with the number of atoms and the kernel width chosen by cross-validation.

    A path of `max_atoms` steps holds the models of all smaller numbers, so each fold and width costs one fit and every
    number of atoms is cross-validated. Parameters not listed are those of `KMPRegressor`.

    Parameters
    ----------
    max_atoms : int, default=100
        Longest path.
    gammas : array-like, optional
        Kernel widths to try. Default: five, a factor 4 apart, from 1/64 to 4 times ``gamma="scale"``. Kernels without
        `gamma` have one path per fold.
    cv : int, splitter or iterable, default=None
        As in scikit-learn; None is 5-fold.
    scoring : str, callable or None, default=None
        None is the negative mean squared error, computed for all numbers of atoms at once. A scorer is called for each.
    n_jobs : int, optional
        Paths run at the same time.
    one_standard_error : bool, default=False
        Take the fewest atoms whose mean score is within one standard error of the best.
    variant, loss, refit_every, kernel, degree, coef0, kernel_params, functions, centers, candidates
        See `KMPRegressor`.
    weakness, alpha, shrinkage, fit_intercept, tol, memory, random_state, verbose
        See `KMPRegressor`.

    Attributes
    ----------
    best_n_atoms_ : int
    gamma_ : float or None
        None when the kernel has no `gamma`.
    best_score_ : float
    cv_results_ : dict of ndarrays
        One entry for each pair of width and number of atoms, as in scikit-learn's searches: ``param_gamma``,
        ``param_n_atoms``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``, ``split0_test_score``, ...
    support_, support_vectors_, support_kernels_, dual_coef_, intercept_, path_, n_features_in_, feature_names_in_
        Of the model fitted to all rows with these choices, see `KMPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRegressorCV
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KMPRegressorCV(max_atoms=10, cv=3).fit(X, np.sin(X[:, 0]))
    >>> model.cv_results_["mean_test_score"].shape, len(model.support_) == model.best_n_atoms_
    ((50,), True)
    """

    _parameter_constraints: ClassVar[dict] = {**SearchParameters._parameter_constraints, "loss": REGRESSION_LOSS}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KMPRegressorCV:
        """Choose width and number of atoms, then fit on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Used in the fits and in the scores.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **x_options(self.kernel, X))
        check_square(X, self.kernel)
        self.__dict__.update(search(KMPRegressor, squared_error, X, y, sample_weight, self.get_params(deep=False)))
        return self


class KMPClassifierCV(SearchParameters, ClassifierModel):
    """`KMPClassifier` with the number of atoms and the kernel width chosen by cross-validation.

    See `KMPRegressorCV` for how, and for the parameters and attributes not listed.

    Parameters
    ----------
    max_atoms, gammas, cv, n_jobs, one_standard_error
        See `KMPRegressorCV`.
    scoring : str, callable or None, default=None
        None is the accuracy, computed for all numbers of atoms at once. A scorer is called for each.
    variant, loss, refit_every, kernel, degree, coef0, kernel_params, functions, centers, candidates
        See `KMPClassifier`.
    weakness, alpha, shrinkage, fit_intercept, tol, memory, random_state, verbose
        See `KMPRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    best_n_atoms_, gamma_, best_score_, cv_results_
        See `KMPRegressorCV`.
    support_, support_vectors_, support_kernels_, dual_coef_, intercept_, path_, n_features_in_, feature_names_in_
        See `KMPClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelpursuit import KMPClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KMPClassifierCV(max_atoms=10, one_standard_error=True).fit(X, y)
    >>> len(model.support_) == model.best_n_atoms_, model.score(X, y) > 0.95
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {**SearchParameters._parameter_constraints, "loss": CLASSIFICATION_LOSS}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KMPClassifierCV:
        """Choose width and number of atoms, then fit on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Used in the fits and in the scores.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, **x_options(self.kernel, X))
        check_square(X, self.kernel)
        check_classification_targets(y)
        self.__dict__.update(search(KMPClassifier, accuracy_score, X, y, sample_weight, self.get_params(deep=False)))
        return self


def search(make: Callable, metric: Callable, X: Any, y: Any, sample_weight: Any, options: dict) -> dict[str, Any]:
    """Cross-validate all widths and numbers of atoms, fit the best on all rows and return the attributes to set.

    Parameters
    ----------
    make : callable
        ``make(n_atoms=, gamma=, ...)`` gives the estimator.
    metric : callable
        ``metric(y, prediction, sample_weight=)``, larger is better; used when no scorer is given.
    X, y, sample_weight
        Checked data.
    options : dict
        Values of the parameters in `SEARCH_CONSTRAINTS`, and those of the estimator.
    """
    params = {name: value for name, value in options.items() if name not in SEARCH_CONSTRAINTS}
    weights = None if sample_weight is None else host_weights(sample_weight, X)
    if weights is not None and not np.any(weights > 0):
        raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
    gammas = width_grid(options["gammas"], params["kernel"], X, weights)
    scorer = None if options["scoring"] is None else check_scoring(make(), scoring=options["scoring"])
    known = on_host(y)
    splitter = check_cv(options["cv"], known, classifier=is_classifier(make()))
    folds = list(splitter.split(X, known))
    jobs = [(gamma, train, test) for gamma in gammas for train, test in folds]
    scores = Parallel(n_jobs=options["n_jobs"])(
        delayed(path_scores)(
            make(n_atoms=options["max_atoms"], gamma="scale" if gamma is None else gamma, **params),
            X, known, weights, train, test, scorer, metric,
        )
        for gamma, train, test in jobs
    )  # fmt: skip
    table = np.reshape(scores, (len(gammas), len(folds), options["max_atoms"]))
    width, k = best_pair(table, options["one_standard_error"])
    gamma = gammas[width]
    model = make(n_atoms=k, gamma="scale" if gamma is None else gamma, **params)
    model.fit(X, y, **weight_option(weights))
    given = {*model.get_params(deep=False), "n_features_in_", "feature_names_in_"}
    fitted = {name: value for name, value in vars(model).items() if name not in given}
    return fitted | {
        "cv_results_": cv_results(table, gammas),
        "best_n_atoms_": k,
        "best_score_": float(table[width, :, k - 1].mean()),
        "gamma_": gamma,
    }


def width_grid(gammas: Any, kernel: Any, X: Any, weights: np.ndarray | None) -> list[float | None]:
    """Widths to try; [None] for kernels that have none."""
    if is_precomputed(kernel) or not uses_gamma(kernel):
        if gammas is not None:
            raise ValueError(f"gammas is given but kernel={kernel!r} has no gamma; set gammas=None")
        return [None]
    if gammas is None:
        counted = X if weights is None else take_rows(X, np.flatnonzero(weights > 0))
        positive = None if weights is None else weights[weights > 0]
        return [scale_gamma(counted, positive) * 4.0**power for power in range(-3, 2)]
    grid = np.asarray(gammas)
    grid = grid.astype(np.float64) if grid.dtype.kind in "iuf" else np.empty(0)
    if grid.ndim != 1 or len(grid) == 0 or not np.all(np.isfinite(grid) & (grid >= 0)):
        raise ValueError(f"gammas must be a list of non-negative numbers with at least one entry, got {gammas!r}")
    return [float(gamma) for gamma in grid]


def path_scores(
    model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, train: Any, test: Any, scorer: Any, metric: Callable
) -> np.ndarray:
    """Score on the test rows after 1 .. n_atoms steps; a path that ends early keeps its last score."""
    pairwise = is_precomputed(model.kernel)
    X_train, X_test = take_rows(X, train), take_rows(X, test)
    if pairwise:
        X_train, X_test = gather(X_train, train, axis=1), gather(X_test, train, axis=1)
    w_train, w_test = (None, None) if weights is None else (weights[train], weights[test])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X_train, y[train], **weight_option(w_train))
    if model.path_.reason == "interrupted":
        raise KeyboardInterrupt
    options = weight_option(w_test)
    if scorer is None:
        predictions = list(model.staged_predict(X_test)) or [model.predict(X_test)]  # nothing to fit: the constant
        scores = [metric(y[test], on_host(prediction), **options) for prediction in predictions]
    else:
        y_test = labels_beside(y[test], X)
        models = [model.truncate(k) for k in range(1, len(model.path_) + 1)] or [model]
        scores = [scorer(one, X_test, y_test, **options) for one in models]
    return np.array(scores + [scores[-1]] * (model.n_atoms - len(scores)))


def best_pair(table: np.ndarray, one_standard_error: bool) -> tuple[int, int]:
    """Index of the width and number of atoms with the best mean score in `table` (widths, folds, numbers)."""
    mean = table.mean(axis=1)
    width, k = (int(index) for index in np.unravel_index(np.argmax(mean), mean.shape))
    if one_standard_error and table.shape[1] > 1:  # one fold has no standard error
        error = table[width, :, k].std(ddof=1) / np.sqrt(table.shape[1])
        k = int(np.argmax(np.any(mean >= mean[width, k] - error, axis=0)))  # the fewest atoms at any width
        width = int(np.argmax(mean[:, k]))
    return width, k + 1


def cv_results(table: np.ndarray, gammas: list[float | None]) -> dict[str, np.ndarray]:
    """Scores in the layout of scikit-learn's searches."""
    n_widths, n_folds, longest = table.shape
    mean = table.mean(axis=1).ravel()
    results = {
        "param_gamma": np.repeat(np.array(gammas, dtype=object if gammas[0] is None else np.float64), longest),
        "param_n_atoms": np.tile(np.arange(1, longest + 1), n_widths),
        "mean_test_score": mean,
        "std_test_score": table.std(axis=1).ravel(),
        "rank_test_score": np.searchsorted(np.sort(-mean), -mean) + 1,
    }
    return results | {f"split{i}_test_score": table[:, i].ravel() for i in range(n_folds)}


def weight_option(weights: np.ndarray | None) -> dict[str, np.ndarray]:
    """Keyword for functions that may not know of weights."""
    return {} if weights is None else {"sample_weight": weights}


def squared_error(y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Mean squared error, negative: larger is better."""
    return -mean_squared_error(y, prediction, sample_weight=sample_weight)
