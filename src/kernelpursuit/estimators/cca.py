"""Sparse kernel canonical correlation analysis."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from kernelpursuit._sklearn import ARRAY_API_SUPPORT, EstimatorSupport, StrOptions, check_feature_names
from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, eps, on_host, to_host
from kernelpursuit.atoms import WeightedDictionary
from kernelpursuit.criteria.cca import DEFLATIONS, CanonicalCorrelation
from kernelpursuit.fitting.atom_family import AtomFamily
from kernelpursuit.fitting.constraints import AT_LEAST_ONE, KERNEL_CONSTRAINTS, NOT_NEGATIVE, PURSUIT_CONSTRAINTS
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.fit_warnings import warn_if_one_column_rules, warn_if_short
from kernelpursuit.fitting.pipeline import Pursuit, Settings, fits
from kernelpursuit.fitting.placement import (
    as_dtype,
    check_new,
    columns_of,
    is_precomputed,
    move_to,
    summed,
    take_rows,
    to_namespace_of,
    validated,
    x_options,
)
from kernelpursuit.fitting.training import TrainingData, training_data
from kernelpursuit.kernels.kernels import gamma_of, kernel_list
from kernelpursuit.math.canonical import canonical, correlation, nystroem_map
from kernelpursuit.math.cholesky import pivot_limit
from kernelpursuit.pursuit.stopping import n_atoms


def _as_view(y: Any, kernel: Any, dtype: Any) -> Any:
    """Second view as a matrix; a vector is one column."""
    Y = check_array(y, input_name="y", ensure_2d=False, **(x_options(kernel, y) | {"dtype": dtype}))
    return Y[:, None] if Y.ndim == 1 else summed(Y)


def text_names(y: Any) -> list[str] | None:
    """Names of the columns of y, if they are texts, as scikit-learn checks them for X."""
    bearer = SimpleNamespace()
    check_feature_names(bearer, y, reset=True)
    return getattr(bearer, "feature_names_in_", np.array(())).tolist() or None


def check_names_of_y(estimator: Any, y: Any, fitted: list[str] | None) -> None:
    """Check the column names of y against those of the fit, with scikit-learn's messages for X."""
    names, model = text_names(y), type(estimator).__name__
    if names is None and fitted is not None:
        warn(f"y does not have valid feature names, but {model} was fitted with a y that has them")
    elif names is not None and fitted is None:
        warn(f"y has feature names, but {model} was fitted with a y without them")
    elif names is not None:
        try:
            check_feature_names(SimpleNamespace(feature_names_in_=np.array(fitted, dtype=object)), y, reset=False)
        except ValueError as error:
            raise ValueError(f"Of y: {error}") from error


@described
class SparseKernelCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EstimatorSupport, BaseEstimator):
    """Kernel canonical correlation analysis on a few training objects.

    A pursuit chooses objects one at a time, the same for both views, by the cosine between their two deflated kernel
    columns (`CanonicalCorrelation`). Canonical correlation analysis of the two views then runs in the span of the
    kernel functions on the chosen objects. With k of n objects it takes O(n² k) time instead of O(n³), and new data are
    compared with k objects instead of n.

    Parameters
    ----------
    n_atoms : int, default=50
        Number of objects to choose. There are fewer, with a warning, if the others lie in their span in one of the
        views.
    kernel : str, callable, (str, dict) or pair of these, default="rbf"
        Kernel of both views, or a pair, one for each: a name of scikit-learn's pairwise kernels, a function of two
        matrices or of two rows, or "precomputed". Then the view is given as its kernel matrix, square in `fit` and
        against the training objects in `transform`. scikit-learn's cross-validation cuts the columns of a precomputed
        X, but not of y.
    gamma : {"scale", "auto"}, float or pair of these, default="scale"
        Parameter of both kernels, or a pair, one for each, as in scikit-learn's SVC.
    alpha : float, default=1e-3
        Ridge on the covariance matrices C of the features, as a share of their traces: C + alpha tr(C) I.
    n_components : int, default=2
        Number of pairs of canonical variates. There are fewer, with a warning, if a view has fewer dimensions.
    deflation : {"symmetric", "projection"}, default="symmetric"
        How chosen objects are taken out: of the kernel matrices in feature space (partial Cholesky), or of their
        columns by orthogonal projection.
    signed : bool, default=True
        Whether a negative cosine is small. If not, it counts as much as a positive one.
    candidates
    weakness
    memory
    candidates_seed
    verbose

    Attributes
    ----------
    correlations_ : ndarray of shape (n_components,)
        Canonical correlations on the training data, descending, damped by `alpha`.
    support_ : ndarray of shape (k,)
        Indices of the chosen objects, in the order of choice.
    x_support_vectors_, y_support_vectors_ : {ndarray, CSR array} of shape (k, n_features)
        Their rows in the two views. Empty for a precomputed kernel.
    x_weights_, y_weights_ : ndarray of shape (k, n_components)
        Weights of the kernel functions in the canonical variates.
    x_intercept_, y_intercept_ : ndarray of shape (n_components,)
        Constant terms of the canonical variates.
    gamma_ : list of float or None
        The numbers that `gamma` came to in the two kernels. None for a kernel without one.
    cosines_ : ndarray of shape (k,)
        Cosine between the two deflated kernel columns of each object when it was chosen, absolute if not `signed`.
    path_
    n_features_in_
    feature_names_in_

    See Also
    --------
    sklearn.cross_decomposition.CCA : Its linear counterpart.

    References
    ----------
    Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import SparseKernelCCA
    >>> t = np.linspace(0, 6, 100)
    >>> X, Y = np.stack([np.cos(t), np.sin(t)], axis=1), np.stack([t, t**2], axis=1)
    >>> model = SparseKernelCCA(n_atoms=10).fit(X, Y)
    >>> (model.correlations_ > 0.95).tolist()
    [True, True]
    >>> x_scores, y_scores = model.transform(X, Y)
    >>> x_scores.shape
    (100, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": [AT_LEAST_ONE],
        "n_components": [AT_LEAST_ONE],
        "kernel": KERNEL_CONSTRAINTS["kernel"],
        "gamma": [*KERNEL_CONSTRAINTS["gamma"], tuple, list],
        "deflation": [StrOptions(set(DEFLATIONS))],
        "signed": ["boolean"],
        "alpha": [NOT_NEGATIVE],
        **PURSUIT_CONSTRAINTS,
    }

    def __init__(
        self,
        n_atoms=50,
        *,
        kernel="rbf",
        gamma="scale",
        alpha=1e-3,
        n_components=2,
        deflation="symmetric",
        signed=True,
        candidates=None,
        weakness=1.0,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.n_components = n_components
        self.deflation = deflation
        self.signed = signed
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(kernel_list(self.kernel)[0])
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = ARRAY_API_SUPPORT
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.correlations_.shape[0]

    @fits
    def fit(self, X, y, sample_weight=None):
        """Choose objects and find the canonical variates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_x)
            First view.
        y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_features_y)
            Second view of the same objects; a vector is one column. It is converted to the dtype of X.
        sample_weight : array-like of shape (n_samples,), optional
            An object of weight w counts as w objects; one of weight 0 is absent and cannot be chosen.

        Returns
        -------
        self
        """
        X, Y = self._check_training_data(X, y, sample_weight)
        data, settings = training_data(X, None, sample_weight), Settings.of(self)
        Y = Y if len(data.rows) == data.n_rows else take_rows(Y, data.rows)
        families = [
            AtomFamily(data._replace(X=view), settings.rng, kernel=kernel, gamma=gamma)
            for view, kernel, gamma in zip((data.X, Y), *self._kernels_and_gammas(), strict=True)
        ]
        pursuit = Pursuit.plan([family.dictionary for family in families], settings, data, self.n_atoms)
        views = pursuit.dictionaries
        if data.weights is not None:
            views = [WeightedDictionary(view, data.weights / np.mean(data.weights)) for view in views]
        criterion = CanonicalCorrelation(*views, deflation=self.deflation, signed=self.signed)
        self.path_ = path = pursuit.run(criterion, [n_atoms(self.n_atoms)], steps=self.n_atoms)
        warn_if_short(path, criterion, data, self.n_atoms)
        self._chosen = data.rows[path.atoms].tolist()
        self.cosines_ = to_namespace_of(path.values("score")[1:], X)
        self._x_expansion, self._y_expansion = (family.expansion(path.atoms) for family in families)
        self.x_support_vectors_ = self._x_expansion.centers
        self.y_support_vectors_ = self._y_expansion.centers
        self._analyse(data, *(dictionary.columns(path.atoms) for dictionary in pursuit.dictionaries))
        return self

    def transform(self, X, y=None):
        """Canonical variates of new data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_x)
        y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_features_y), optional

        Returns
        -------
        x_scores : ndarray of shape (n_samples, n_components)
        y_scores : ndarray of shape (n_samples, n_components)
            Only if `y` is given.
        """
        check_is_fitted(self)
        (kernel_x, kernel_y), _ = self._kernels_and_gammas()
        X = check_new(self, X, kernel_x, self.x_support_vectors_, "transform")
        x_scores = self._x_expansion.predict(X)
        if y is None:
            return x_scores
        check_consistent_length(X, y)
        check_names_of_y(self, y, self._y_names)
        Y = _as_view(move_to(y, X), kernel_y, self.y_support_vectors_.dtype)
        if Y.shape[1] != self._n_features_y:
            raise ValueError(f"y has {Y.shape[1]} columns, but in fit it had {self._n_features_y}")
        return x_scores, as_dtype(self._y_expansion.predict(Y), X.dtype)

    def fit_transform(self, X, y):
        """Fit and return the variates of X alone, as a step of a pipeline must; ``fit(X, y).transform(X, y)`` has both.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_x)
        y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_features_y)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y).transform(X)

    def score(self, X, y):
        """Mean correlation of the pairs of canonical variates on given data, which is what to compare on data held out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_x)
        y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_features_y)

        Returns
        -------
        float
            Between -1 and 1. A component that was asked for and could not be found, or that does not vary, counts as 0.
        """
        x_scores, y_scores = self.transform(X, y)  # in whatever container `set_output` asks for
        return float(np.sum(correlation(on_host(x_scores), on_host(y_scores))) / self.n_components)

    def _kernels_and_gammas(self) -> tuple[list[Any], list[Any]]:
        """The kernels of the two views, and their gammas: pairs, or one of each for both views."""
        kernels = kernel_list(self.kernel)
        gammas = list(self.gamma) if isinstance(self.gamma, (tuple, list)) else [self.gamma]
        for name, values in (("kernel", kernels), ("gamma", gammas)):
            if len(values) not in (1, 2):
                raise ValueError(f"{name} must be one for both views or a pair, one for each, got {values!r}")
        return kernels * (2 // len(kernels)), gammas * (2 // len(gammas))

    def _check_training_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """The two views, checked and of one dtype."""
        kernels, gammas = self._kernels_and_gammas()
        options = x_options(kernels[0], X) | {"ensure_min_samples": 2}, x_options(kernels[1], y) | {"ensure_2d": False}
        X, Y = validated(self, X, y, validate_separately=options)
        check_consistent_length(X, Y)
        Y = _as_view(move_to(Y, X), kernels[1], X.dtype)
        columns = getattr(self, "feature_names_in_", None), columns_of(y) or None
        for name, view, kernel, gamma, own in zip("Xy", (X, Y), kernels, gammas, columns, strict=True):
            if is_precomputed(kernel) and view.shape[0] != view.shape[1]:
                raise ValueError(
                    f"with kernel='precomputed' for {name} it must be the square kernel matrix in fit, got shape "
                    f"{view.shape}"
                )
            warn_if_one_column_rules(view, kernel, gamma, sample_weight, name, own)
        self._n_features_y, self._y_names = Y.shape[1], text_names(y)
        return X, Y

    @property
    def support_(self) -> np.ndarray:
        """Chosen objects, in order, NumPy wherever X lives."""
        return np.array(self._chosen, dtype=np.intp)

    def _analyse(self, data: TrainingData, x: Array, y: Array) -> None:
        """Canonical correlations of the features that the chosen columns of the two kernel matrices make."""
        limit, X = pivot_limit(eps(x)), data.X
        roots = np.ones((len(data.rows), 1)) if data.weights is None else np.sqrt(data.weights)[:, None]
        maps, features, means, scales = [], [], [], []
        for columns in (to_host(x), to_host(y)):
            maps.append(nystroem_map(columns[self.path_.atoms], limit))
            F = columns @ maps[-1]
            scales.append(float(np.sum((roots * F) ** 2)))
            means.append(roots[:, 0] ** 2 @ F / data.total)
            features.append(roots * (F - means[-1]))
        found = canonical(
            *features,
            alpha=self.alpha,
            n_components=self.n_components,
            limits=(limit, scales[0], scales[1]),
            total=data.total,
        )
        if len(found.correlations) < self.n_components:
            warn(
                f"n_components={self.n_components} was asked for but the views have "
                f"{len(found.correlations)} pairs of dimensions to correlate on the chosen atoms",
                ConvergenceWarning,
            )
        self.correlations_ = to_namespace_of(found.correlations, X)
        x_coef, y_coef = (
            np.concatenate([-mean[None] @ weights, T @ weights])
            for T, mean, weights in zip(maps, means, (found.x_weights, found.y_weights), strict=True)
        )
        self._x_expansion.coef, self._y_expansion.coef = x_coef, y_coef
        self.x_intercept_, self.x_weights_ = to_namespace_of(x_coef[0], X), to_namespace_of(x_coef[1:], X)
        self.y_intercept_, self.y_weights_ = to_namespace_of(y_coef[0], X), to_namespace_of(y_coef[1:], X)
        self.gamma_ = [gamma_of(one.kernels) for one in (self._x_expansion, self._y_expansion)]
