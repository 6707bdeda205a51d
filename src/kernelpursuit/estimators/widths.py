"""A width for each input: scale the columns of X so that one Gaussian kernel suits them all."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from kernelpursuit._array import Array, from_host, namespace, on_host, to_host
from kernelpursuit.estimators._fitting import generator
from kernelpursuit.estimators._spaces import beside, check_new, follow, labels_on_host, take_rows, widest, x_options

JITTER = 1e-6  # of k(x, x), added to the kernel matrix of the landmarks
WIDEST_RATIO = 1e3  # of a width to where it starts
STARTS, FIRST_ITERATIONS = (1 / 4, 2.0, 16.0), 30  # values of gamma times the number of inputs
SIGNAL, NOISE = (np.exp(-4), np.exp(6)), (1e-4, 2.0)  # variances, of targets of variance 1


class FeatureWidths(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Multiply each column of X by its own weight, so that a Gaussian kernel with ``gamma=1`` fits y.

    ``exp(-Σ w_d² (x_d - z_d)²)`` has a width for each input. Inputs that say nothing about y get a weight near 0 and
    those that matter most the largest. The weights maximise the evidence (marginal likelihood) of Gaussian process
    regression of y through random landmarks: the variational bound of Titsias (2009), plus a normal prior that
    draws the logarithms of the weights to each other. Columns are compared after standardisation, so their units
    do not matter.

    Put it before any estimator with a Gaussian kernel and choose ``gamma`` among 1, 4, 16, ...: through few landmarks
    only smooth functions can be seen, so with many rows the common width comes out too large, while the ratios of the
    weights are right. A pursuit on weighted inputs often needs a fraction of the atoms; where all inputs matter alike
    nothing is gained, so let cross-validation decide.

    Parameters
    ----------
    n_landmarks : int, default=150
        Rows that the Gaussian process is expanded on.
    max_rows : int, default=10000
        Rows used, drawn at random if there are more.
    prior : float, default=1
        Precision of the prior: 1 / variance of the logarithms of the weights. 0 leaves them to the data; large values
        make all weights equal.
    max_iter : int, default=60
        Iterations of L-BFGS; each costs about as much as `n_landmarks` steps of a pursuit.
    random_state : int, RandomState or None, default=None
        Draws the rows and landmarks.

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        What the columns are multiplied by.
    noise_ : float
        Share of the variance of y that the inputs do not explain.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import FeatureWidths
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> widths = FeatureWidths(random_state=0).fit(X, np.sin(2 * X[:, 3]))
    >>> int(np.argmax(widths.weights_)), bool(np.sort(widths.weights_)[-1] > 10 * np.sort(widths.weights_)[-2])
    (3, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "max_rows": [Interval(Integral, 2, None, closed="left")],
        "prior": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_landmarks=150, *, max_rows=10_000, prior=1.0, max_iter=60, random_state=None):
        self.n_landmarks = n_landmarks
        self.max_rows = max_rows
        self.prior = prior
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> FeatureWidths:
        """Find the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Floats are values to predict; anything else is classes.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X = validate_data(self, X, **x_options("precomputed", X))  # dense: sparse data have too many columns
        targets = _columns(y)
        check_consistent_length(X, targets)
        drawn = generator(self.random_state).permutation(X.shape[0])[: self.max_rows]
        rows, Y = widest(take_rows(X, drawn)), _standardised(targets[drawn])
        xp = namespace(rows)
        rows = rows - xp.mean(rows, axis=0)
        spread = np.sqrt(to_host(xp.mean(rows * rows, axis=0)))
        unit = 1 / np.where(spread > 0, spread, 1)
        rows = rows * from_host(unit, rows)
        found = self._maximise(rows, from_host(Y, rows))
        p = X.shape[1]
        self.weights_ = follow(np.exp(found.x[:p]) * unit, X)
        self.noise_, self.n_iter_ = float(np.exp(found.x[-1])), int(found.nit)
        return self

    def transform(self, X: Any) -> Array:
        """Weighted columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        X = check_new(self, X, "precomputed", getattr(self, "weights_", None), "transform")
        return X * beside(on_host(self.weights_), X)

    def _maximise(self, X: Array, Y: Array) -> Any:
        """Climb a little from several common widths, for there are local maxima, and to the top from the best of them.

        X is standardised: rows are 2p apart (squared) in the mean.
        """
        p, Z, room = X.shape[1], X[: self.n_landmarks, ...], np.log(WIDEST_RATIO)

        def climb(theta: np.ndarray, iterations: int) -> Any:
            bounds = [(value - room, value + room) for value in theta[:p]] + [np.log(SIGNAL), np.log(NOISE)]
            return minimize(
                evidence, theta, (X, Z, Y, self.prior), "L-BFGS-B", jac=True, bounds=bounds,
                options={"maxiter": iterations},
            )  # fmt: skip

        starts = [np.array([0.5 * np.log(gamma / p)] * p + [0.0, np.log(0.3)]) for gamma in STARTS]
        first = min((climb(start, min(FIRST_ITERATIONS, self.max_iter)) for start in starts), key=lambda r: r.fun)
        return climb(first.x, self.max_iter)


def evidence(theta: np.ndarray, X: Array, Z: Array, Y: Array, prior: float) -> tuple[float, np.ndarray]:
    """Minus the log evidence of Gaussian process regression on landmarks, and its gradient.

    With K the kernel matrix of rows and landmarks, M = L Lᵀ that of the landmarks, s² signal and v noise variance, and
    B = I + L⁻¹ Kᵀ K L⁻ᵀ / v, the bound of Titsias (2009) for q targets is, but for a constant,

        -(q n / 2) ln v - (q / 2) ln |B| - ⟨Y, Y - K β⟩ / 2v - (q / 2v) (n s² - tr(M⁻¹ Kᵀ K)),

    β = (M + Kᵀ K / v)⁻¹ Kᵀ Y / v. To it comes ``-(prior / 2) Σ (log w_d - mean)²``.

    Parameters
    ----------
    theta : array of shape (n_features + 2,)
        Logarithms of the weights, of s² and of v.
    X, Z : arrays of shape (n, n_features) and (n_landmarks, n_features)
    Y : array of shape (n, q)
        Centred.
    prior : float

    Returns
    -------
    value : float
    gradient : array of shape (n_features + 2,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y, theta = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.normal(size=5) / 5
    >>> step = 1e-6 * np.eye(5)[1]
    >>> values = [evidence(theta + h, X, X[:6], Y, 1.0)[0] for h in (step, -step)]
    >>> bool(np.isclose(evidence(theta, X, X[:6], Y, 1.0)[1][1], (values[0] - values[1]) / 2e-6))
    True
    """
    n, q, m = X.shape[0], Y.shape[1], Z.shape[0]
    log_weights, signal, noise = theta[:-2], float(np.exp(theta[-2])), float(np.exp(theta[-1]))
    scale = from_host(np.exp(log_weights), X)
    K, M = _gaussian(X * scale, Z * scale, signal), to_host(_gaussian(Z * scale, Z * scale, signal))
    inverse = solve_triangular(np.linalg.cholesky(M + JITTER * signal * np.eye(m)), np.eye(m), lower=True)
    A = K @ from_host(inverse.T, K)
    inner = to_host(A.T @ A)  # not from KᵀK, whose rounding errors L⁻¹ would magnify
    half = np.linalg.cholesky(np.eye(m) + inner / noise)
    half_inverse = solve_triangular(half, np.eye(m), lower=True)
    whitened = half_inverse @ inverse  # (M + KᵀK / v)⁻¹ is whitenedᵀ whitened
    M_inverse, S_inverse = inverse.T @ inverse, whitened.T @ whitened
    beta = S_inverse @ to_host(K.T @ Y) / noise
    residual = Y - K @ from_host(beta, K)
    left = float(namespace(K).sum(residual * residual))
    lost = n * signal - np.trace(inner)
    fit = (left + np.sum(beta * to_host(K.T @ residual))) / noise  # ⟨Y, Y - Kβ⟩ / v
    value = -0.5 * (q * n * np.log(noise) + 2 * q * np.sum(np.log(np.diag(half))) + fit + q * lost / noise)

    by_K = (K @ from_host(q * (M_inverse - S_inverse), K) + residual @ from_host(beta.T, K)) * K / noise
    by_M = 0.5 * (q * (M_inverse - S_inverse) - beta @ beta.T - q / noise * inverse.T @ inner @ inverse)
    squares = _spread(by_K, X, Z) + _spread(from_host(by_M * M, K), Z, Z)
    deviation = log_weights - log_weights.mean()
    by_weights = -2 * np.exp(2 * log_weights) * squares - prior * deviation
    by_signal = float(namespace(K).sum(by_K)) + np.sum(by_M * M) + JITTER * signal * np.trace(by_M)
    by_signal -= q * n * signal / (2 * noise)
    by_noise = 0.5 * (q * (m - n - np.sum(half_inverse**2)) + (left + q * lost) / noise)  # tr(B⁻¹(B - I)) = m - tr B⁻¹
    value -= prior / 2 * np.sum(deviation**2)
    return -value, -np.concatenate([by_weights, [by_signal, by_noise]])


def _gaussian(A: Array, B: Array, signal: float) -> Array:
    """Kernel values s² exp(-|a - b|²)."""
    xp = namespace(A)
    squared = xp.sum(A * A, axis=1)[:, None] + xp.sum(B * B, axis=1)[None, :] - 2 * A @ B.T
    return signal * xp.exp(-xp.clip(squared, 0, None))


def _spread(weights: Array, A: Array, B: Array) -> np.ndarray:
    """Sum over pairs of weights times squared difference, for each column."""
    xp = namespace(A)
    pairs = xp.sum(weights, axis=1) @ (A * A) + xp.sum(weights, axis=0) @ (B * B)
    return to_host(pairs - 2 * xp.sum(A * (weights @ B), axis=0))


def _columns(y: Any) -> np.ndarray:
    """Targets as float columns on the host: values, or indicators of all classes but, of two, the first."""
    values = check_array(labels_on_host(y), ensure_2d=False, dtype=None, input_name="y")
    if values.dtype.kind != "f" and (values.ndim == 1 or values.shape[1] == 1):
        labels = column_or_1d(values)
        classes = np.unique(labels)
        values = labels[:, None] == (classes[1:] if len(classes) == 2 else classes)[None, :]
    return values.astype(np.float64).reshape(len(values), -1)


def _standardised(Y: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, or 0."""
    scale = np.max(np.abs(Y), axis=0, initial=0)  # first, so that no square overflows
    Y = Y / np.where(scale > 0, scale, 1)
    Y = Y - Y.mean(axis=0)
    spread = Y.std(axis=0)
    return Y / np.where(spread > 1e-12, spread, np.inf)
