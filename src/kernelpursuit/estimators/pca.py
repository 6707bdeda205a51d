"""Sparse kernel principal components: principal axes inside the span of a few training points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from kernelpursuit._sklearn import EstimatorSupport, StrOptions
from kernelpursuit.arrays import Array, namespace, to_host
from kernelpursuit.criteria.rayleigh import SELECTIONS
from kernelpursuit.fitting.constraints import AT_LEAST_ONE, RESUME_CONSTRAINTS
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.pipeline import Settings, fits
from kernelpursuit.fitting.placement import (
    as_dtype,
    check_new,
    is_precomputed,
    labels_on_host,
    to_namespace_of,
)
from kernelpursuit.fitting.rows import lazy_for_collections, rows_of_fit
from kernelpursuit.fitting.span import SPAN_CONSTRAINTS, SpanParameters, finite_values
from kernelpursuit.fitting.training import TrainingData, check_training, training_data
from kernelpursuit.kernels.kernels import gamma_of
from kernelpursuit.math.principal import principal_axes
from kernelpursuit.parameters import bound, record_of, tolerance


@described
class SparseKernelPCA(
    SpanParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, EstimatorSupport, BaseEstimator
):
    """Kernel PCA in the span of a few training points, chosen one at a time.

    Points A are chosen so that their span in feature space comes close to all the data. With the kernel matrix K and
    its Nyström approximation ``K̃ = K[:, A] K[A, A]⁻¹ K[A, :]`` the trace of ``K - K̃`` is the sum of the squared
    distances to the span, and each step lowers it. The coordinates ``ψ(x) = Λ⁻¹ k_A(x)``, where ``ΛΛᵀ = K[A, A]``, then
    go through an ordinary PCA, which takes off their mean. With all points this is
    :class:`sklearn.decomposition.KernelPCA`. With k points the fit takes O(n² k) time and, unless the kernel matrix
    fits into `memory`, O(n k) space; a new point takes k kernel values.

    Parameters
    ----------
    n_atoms : int, default=100
        The most points to choose.
    one_kernel
    gamma
    n_components : int or None, default=None
        Number of principal axes to keep. None keeps all whose eigenvalue is not zero.
    selection
    stop : {"bound"}, bound, tolerance or None, default=None
        "bound" keeps the number of points, up to `n_atoms`, for which `bounds.compression_bound` on the squared
        distance of new data to the span is lowest. ``tolerance(0.01)`` stops when the residual trace has fallen to that
        share of the trace of K. See `kernelpursuit.parameters`.
    candidates
    weakness
    memory
    resume
    random_state : int, RandomState or None, default=None
        Seed for ``selection="random"`` and `candidates`.
    verbose

    Attributes
    ----------
    support_ : ndarray of shape (k,)
        Indices of the chosen training rows, in the order of choice.
    support_vectors_
    gamma_
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred Nyström matrix K̃, decreasing, on the scale of `KernelPCA`.
    residual_trace_ : ndarray of shape (k + 1,)
        Trace of K - K̃ after 0, 1, ..., k points.
    path_
    n_features_in_
    feature_names_in_

    References
    ----------
    Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008; Smola and Schölkopf, Sparse greedy matrix
    approximation for machine learning, ICML 2000; Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import SparseKernelPCA
    >>> t = np.linspace(0, 2 * np.pi, 200)
    >>> X = np.column_stack([np.cos(t), np.sin(t)])
    >>> model = SparseKernelPCA(n_atoms=12, n_components=2).fit(X)
    >>> model.transform(X).shape, bool(model.residual(X).max() < 0.01)
    ((200, 2), True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **SPAN_CONSTRAINTS,
        "selection": [StrOptions(set(SELECTIONS))],
        "n_components": [AT_LEAST_ONE, None],
        "stop": [StrOptions({"bound"}), bound, tolerance, None],
        **RESUME_CONSTRAINTS,
    }

    def __init__(
        self,
        n_atoms=100,
        *,
        kernel="rbf",
        gamma="scale",
        n_components=None,
        selection="rayleigh",
        stop=None,
        candidates=None,
        weakness=1.0,
        memory=None,
        resume=False,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.selection = selection
        self.stop = stop
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SparseKernelPCA:
        """Choose the points and find the principal axes in their span.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The square kernel matrix for ``kernel="precomputed"``. Or a Dask array or dataframe: its rows stay on the
            workers, and of more than 50,000 rows 10,000 drawn at random are the points to choose from.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; a row of weight 0 is absent and cannot be chosen.

        Returns
        -------
        self
        """
        with rows_of_fit(self, X, None, sample_weight, self._check_rows) as data:
            return self._fit_rows(data)

    def _check_rows(self, X: Any, y: None, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked."""
        return training_data(check_training(self, X, sample_weight=sample_weight), None, sample_weight)

    def _fit_rows(self, data: TrainingData) -> SparseKernelPCA:
        """Choose points among the rows, and find the principal axes in their span."""
        if self.n_components is not None and self.n_components > self.n_atoms:
            raise ValueError(f"n_components={self.n_components} must be at most n_atoms={self.n_atoms}")
        settings = Settings.of(self, data, getattr(self, "path_", None))
        self._span, features = self._choose_points(data, settings, record_of(self.stop, bound))
        mean, axes, eigenvalues = principal_axes(features, self.n_components, data.weights)
        onto_axes = self._span.expansion.coef @ axes
        onto_axes[0] -= mean @ axes
        self._expansion = replace(self._span.expansion, coef=onto_axes)
        self.gamma_ = gamma_of(self._expansion.kernels)
        self.eigenvalues_ = to_namespace_of(eigenvalues, self._expansion.centers)
        self.path_ = self._span.path
        self.support_vectors_ = self._span.expansion.centers
        self.residual_trace_ = to_namespace_of(self.path_.values("loss") * data.total, self._expansion.centers)
        self._n_features_out = len(eigenvalues)
        return self

    @lazy_for_collections
    def transform(self, X: Any) -> Array:
        """Coordinates along the principal axes, ``(ψ(x) - mean) @ axes``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Kernel values with all training rows for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        X = self._checked(X, "transform")
        return as_dtype(finite_values(self._expansion, X), X.dtype)

    def residual(self, X: Any, diagonal: Any = None) -> Array:
        """Squared distance to the span in feature space, ``k(x, x) - k_A(x)ᵀ K[A, A]⁻¹ k_A(x)``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        diagonal : array-like of shape (n_samples,), optional
            k(x, x), needed for ``kernel="precomputed"`` only.

        Returns
        -------
        ndarray of shape (n_samples,)
            Not negative; zero at the points chosen.
        """
        X = self._checked(X, "residual")
        if is_precomputed(self.kernel) and diagonal is None:
            raise ValueError("diagonal, the values k(x, x), must be given when kernel='precomputed'")
        if diagonal is None:
            known = self._span.diagonal(X)
        else:
            known = to_namespace_of(to_host(check_array(labels_on_host(diagonal), ensure_2d=False)), X)
        if known.shape != (X.shape[0],):
            raise ValueError(
                f"diagonal must have one value for each of the {X.shape[0]} rows, got shape {tuple(known.shape)}"
            )
        distances = self._span.residual(X, known)
        return namespace(distances).astype(distances, X.dtype)

    def approximate_kernel(self, X: Any, Y: Any = None) -> Array:
        """Nyström approximation ``k_A(x)ᵀ K[A, A]⁻¹ k_A(y)`` of the kernel.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Y : {array-like, sparse matrix} of shape (n_others, n_features), optional
            Default: X.

        Returns
        -------
        ndarray of shape (n_samples, n_others)
        """
        X = self._checked(X, "approximate_kernel")
        left = self._span.features(X)
        right = left if Y is None else self._span.features(self._checked(Y, "approximate_kernel"))
        return namespace(left).astype(left @ right.T, X.dtype)

    @property
    def support_(self) -> np.ndarray:
        """Training rows chosen, in order, NumPy wherever X lives."""
        return self._span.support

    def _checked(self, X: Any, method: str) -> Any:
        check_is_fitted(self)
        return check_new(self, X, self.kernel, self.support_vectors_, method)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
