"""`Fitted`, the result of a pursuit, and `PursuitModel`, the base of estimators with a path of models."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._sklearn import ARRAY_API_SUPPORT, EstimatorSupport
from kernelpursuit.arrays import Array, from_host
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.fitting.placement import check_new, host_dtype, is_precomputed, take_rows, to_namespace_of
from kernelpursuit.kernels.kernels import gamma_of, make_kernel
from kernelpursuit.math.calibration import Calibration, no_surer
from kernelpursuit.math.weights import KeptWeights, WeightPath
from kernelpursuit.pursuit.loop import Path


class Fitted(NamedTuple):
    """Result of a pursuit, ready for an estimator's attributes.

    The arrays hold all steps taken: those that the path keeps, and after them those that its stop rule discarded.
    """

    path: Path
    support: np.ndarray
    expansion: Expansion
    weights: WeightPath | KeptWeights  # of the atoms after each step
    alpha: float | np.ndarray | None = None  # the ridge, where the estimator has one
    losses_before_ridge: np.ndarray | None = None  # of the steps, where a ridge was chosen for the atoms afterwards
    calibration: Calibration | None = None  # of the values of a classifier, where its loss estimates no probabilities


class PursuitModel(EstimatorSupport, BaseEstimator):
    """Prediction, truncation and tags of a fitted expansion; estimators add `fit` and what they predict."""

    gamma_: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.array_api_support = ARRAY_API_SUPPORT
        return tags

    def truncate(self, k: int) -> Any:
        """Model with the first `k` steps of the path only, and the weights that these atoms have without the others.

        Where `alpha` is a number, this is the model that a fit with ``n_atoms=k`` gives; probabilities are calibrated
        at some numbers of atoms and interpolated in between. With ``alpha="auto"`` the ridge is that of this model,
        while a fit with ``n_atoms=k`` chooses its own: its weights differ a little, and so may its atoms for a loss
        other than the squared one, where the ridge takes part in their choice.

        Parameters
        ----------
        k : int
            From 0 (the constant) to the number of steps taken, including those that the stop rule discarded.

        Returns
        -------
        estimator
            A fitted copy; the model itself does not change.
        """
        check_is_fitted(self)
        most = len(self._taken.weights)
        if not isinstance(k, Integral) or not 0 <= k <= most:
            raise ValueError(f"k must be an integer from 0 to {most}, the steps taken, got {k!r}")
        model = copy.copy(self)
        model._set(self._taken._replace(path=self.path_.truncate(k)))
        model._says_that_it_has(k)
        return model

    def _says_that_it_has(self, k: int) -> None:
        """Parameters and attributes of a truncated model; a clone of it takes as many steps."""
        if hasattr(self, "n_atoms"):
            self.n_atoms, self.stop = k, None

    @property
    def support_(self) -> np.ndarray:
        """Atoms in the order chosen, NumPy wherever X lives."""
        return self._taken.support[: len(self.path_.atoms)]

    @property
    def support_kernels_(self) -> np.ndarray:
        """Kernel of each atom, -1 for a column of a function, NumPy wherever X lives."""
        return self._expansion.sources

    @property
    def _weights(self) -> WeightPath | KeptWeights:
        """Weights of the atoms after each step of this model."""
        return self._taken.weights.truncate(len(self.path_))

    def _calibrated(self, values: Array) -> Array:
        """Log-odds of each class, or of the second of two, from decision values."""
        slope, bias, limit = self._line(values.shape[1])
        slope = from_host(slope, values) if np.ndim(slope) else slope
        return no_surer(values * slope + from_host(bias, values), limit)

    def _line(self, width: int) -> tuple[Any, np.ndarray, Any]:
        """Slope and biases that turn `width` decision values into log-odds, and the largest log-odds allowed."""
        calibration, k = self._taken.calibration, len(self.path_)
        assert calibration is not None, "a loss without log-odds of its own is calibrated by fit"
        slope, bias = calibration.at(k)
        return slope, bias if width > 1 else bias[1:] - bias[:1], calibration.limit(k)

    def _set(self, fitted: Fitted) -> None:
        """Attributes of a fitted model."""
        self._taken, self.path_ = fitted, fitted.path
        if fitted.alpha is not None:
            self.alpha_ = fitted.alpha
        k, weights = len(self.support_), self._weights.last()
        kept = fitted.expansion if k == len(fitted.support) else fitted.expansion.truncate(k)
        self._expansion = replace(kept, coef=weights)
        centers = self.support_vectors_ = kept.centers
        coef = weights.astype(host_dtype(centers))
        self.dual_coef_ = to_namespace_of(coef[1:, 0] if self._one_target else coef[1:], centers)
        self.intercept_ = float(coef[0, 0]) if self._one_target else to_namespace_of(coef[0], centers)
        self.gamma_ = gamma_of(kept.kernels)

    def _raw(self, X: Any, method: str) -> Array:
        """Values of the expansion at new rows, (n_rows, n_targets); errors name `method`."""
        X = check_new(self, X, self.kernel, getattr(self, "support_vectors_", None), method)
        return self._expansion.predict(X)

    def _staged_raw(self, X: Any, method: str) -> Iterator[Array]:
        """Values after 1, 2, ... steps. Kernel values are computed once for as many steps as fit into memory."""
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.support_vectors_, method)
        yield from self._expansion.staged(X, islice(self._weights, 1, None))


def attributes_of(estimator: Any, fitted: Fitted) -> dict[str, Any]:
    """Attributes that `fitted` would give to an estimator, which does not change."""
    model = copy.copy(estimator)
    model._set(fitted)
    model._fit_task = None  # which holds the data
    return {name: value for name, value in vars(model).items() if value is not vars(estimator).get(name)}


def with_input_weights(model: PursuitModel, X: Any, input_weights: np.ndarray, names: Any = None) -> PursuitModel:
    """Model for inputs X, from a model with a Gaussian kernel that was fitted to X times `input_weights`.

    Parameters
    ----------
    model : fitted estimator
    X : array of shape (n_samples, n_features)
        All rows of the fit, without weights.
    input_weights : ndarray of shape (n_features,)
    names : ndarray of str, optional
        Names of the columns of X.

    Returns
    -------
    estimator
        A fitted copy.
    """
    taken, kernel = model._taken, make_kernel("rbf", X, gamma=model.gamma_)
    expansion = replace(
        taken.expansion, centers=take_rows(X, taken.support), kernels=[kernel], input_weights=input_weights
    )
    model = copy.copy(model)
    model._set(taken._replace(expansion=expansion))
    if names is not None:
        model.feature_names_in_ = names
    return model
