"""Evidence of Gaussian process regression through landmarks: how well a width for each input explains the targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit._array import Array, from_host, namespace, to_host

JITTER = 1e-6  # of k(x, x), added to the kernel matrix of the landmarks
SIGNAL, NOISE = (np.exp(-4), np.exp(6)), (1e-4, 2.0)  # variances, of targets of variance 1


class Evidence(NamedTuple):
    """Log evidence of a width for each input, its slope, and the variances that it is largest with."""

    value: float
    gradient: np.ndarray  # by the logarithms of the weights
    signal: float
    noise: float


def evidence(
    log_weights: np.ndarray,
    X: Array,
    Z: Array,
    Y: Array,
    prior: float = 0.0,
    counts: np.ndarray | None = None,
    variances: tuple[float, float] | None = None,
) -> Evidence:
    """Log evidence of the weights of the inputs, at the best signal and noise variance, and its gradient.

    The kernel is k(x, z) = exp(-Σ w_d² (x_d - z_d)²), s² the signal and v the noise variance, t = s² / v. With K the
    kernel matrix of rows and landmarks, M = L Lᵀ that of the landmarks, A = K L⁻ᵀ and B = I + t AᵀA, the bound of
    Titsias (2009) for q targets is, but for a constant,

        -(q n / 2) ln v - (q / 2) ln |B| - |R|² / 2v - |C|² / 2 - (q t / 2) (n - |A|²),

    where C = s B⁻¹ AᵀY / v are the weights of a ridge regression on sA and R = Y - sAC is what it leaves. Nothing in it
    is a difference of large numbers. The eigenvalues of AᵀA give its value for any s² and v at once, so both are
    maximised over and the gradient is that at fixed s² and v. To all this comes ``-(prior / 2) Σ (log w_d - mean)²``.

    Parameters
    ----------
    log_weights : array of shape (n_features,)
        Logarithms of the weights w.
    X, Z : arrays of shape (n, n_features) and (n_landmarks, n_features)
    Y : array of shape (n, q)
        Of mean 0 and variance 1.
    prior : float
    counts : array of shape (n,), optional
        How many times each row counts.
    variances : (s², v), optional
        Default: the best.

    Returns
    -------
    Evidence

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y, log_weights = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.normal(size=3) / 5
    >>> step = 1e-5 * np.eye(3)[1]
    >>> values = [evidence(log_weights + h, X, X[:6], Y, 1.0).value for h in (step, -step)]
    >>> bool(np.isclose(evidence(log_weights, X, X[:6], Y, 1.0).gradient[1], (values[0] - values[1]) / 2e-5))
    True
    """
    q, m, total = Y.shape[1], Z.shape[0], X.shape[0] if counts is None else float(np.sum(counts))
    scale = from_host(np.exp(log_weights), X)
    K, M = _gaussian(X * scale, Z * scale), to_host(_gaussian(Z * scale, Z * scale))
    if counts is not None:  # a row counted c times is c rows, or one row times √c
        root = from_host(np.sqrt(counts)[:, None], X)
        K, Y = K * root, Y * root
    inverse = solve_triangular(np.linalg.cholesky(M + JITTER * np.eye(m)), np.eye(m), lower=True)
    A = K @ from_host(inverse.T, K)
    eigenvalues, U = np.linalg.eigh(to_host(A.T @ A))  # not from KᵀK, whose rounding errors L⁻¹ would magnify
    eigenvalues = np.maximum(eigenvalues, 0)
    projected = U.T @ to_host(A.T @ Y)
    squares = float(namespace(Y).sum(Y * Y))
    signal, noise = variances or best_variances(eigenvalues, np.sum(projected**2, axis=1), squares, total, q)
    s, t = np.sqrt(signal), signal / noise
    b = 1 + t * eigenvalues  # eigenvalues of B
    C = U @ (projected * (t / s / b)[:, None])
    R = Y - A @ from_host(s * C, A)
    left, lost = float(namespace(R).sum(R * R)), total - np.sum(eigenvalues)
    value = -0.5 * (q * (total * np.log(noise) + np.sum(np.log(b)) + t * lost) + left / noise + np.sum(C**2))

    by_A = (U * (q * t * (1 - 1 / b))) @ (U.T @ inverse)  # q t A (I - B⁻¹) + s R Cᵀ / v, both times L⁻¹
    by_K = (A @ from_host(by_A, A) + R @ from_host(s / noise * C.T @ inverse, A)) * K
    by_M = -0.5 * inverse.T @ ((U * (q * (b - 2 + 1 / b))) @ U.T + C @ C.T) @ inverse * M
    spread = _spread(by_K, X, Z) + _spread(from_host(by_M, K), Z, Z)
    deviation = log_weights - log_weights.mean()
    gradient = -2 * np.exp(2 * log_weights) * spread - prior * deviation
    return Evidence(value - prior / 2 * np.sum(deviation**2), gradient, signal, noise)


def best_variances(
    eigenvalues: np.ndarray, projected: np.ndarray, squares: float, total: float, q: int
) -> tuple[float, float]:
    """Signal and noise variance within their bounds that make the evidence largest.

    For a given ratio t of the two the best noise variance is the mean of what is left of the squares, so that a search
    over t remains: on a grid, again and again around the best point.

    Parameters
    ----------
    eigenvalues, projected : arrays of shape (n_landmarks,)
        Of AᵀA, and the squares of the targets along its eigenvectors, summed over targets.
    squares : float
        Of all targets.
    total : float
        Number of rows.
    q : int
        Number of targets.
    """
    lost = total - np.sum(eigenvalues)

    def noise_of(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left = squares - np.sum(projected / (1 / t[:, None] + eigenvalues), axis=1)
        least, most = np.maximum(NOISE[0], SIGNAL[0] / t), np.minimum(NOISE[1], SIGNAL[1] / t)
        return np.clip(left / (q * total), least, most), left

    low, high = np.log(SIGNAL[0] / NOISE[1]), np.log(SIGNAL[1] / NOISE[0])
    log_t = np.linspace(low, high, 65)
    while high - low > 1e-10:
        t = np.exp(log_t)
        noise, left = noise_of(t)
        value = q * (total * np.log(noise) + np.sum(np.log1p(t[:, None] * eigenvalues), axis=1) + t * lost)
        best = int(np.argmin(value + left / noise))
        low, high = log_t[max(best - 1, 0)], log_t[min(best + 1, len(log_t) - 1)]
        log_t = np.linspace(low, high, 17)
    ratio = float(np.exp((low + high) / 2))
    best_noise = float(noise_of(np.array([ratio]))[0][0])
    return ratio * best_noise, best_noise


def _gaussian(A: Array, B: Array) -> Array:
    """Kernel values exp(-|a - b|²)."""
    xp = namespace(A)
    squared = xp.sum(A * A, axis=1)[:, None] + xp.sum(B * B, axis=1)[None, :] - 2 * A @ B.T
    return xp.exp(-xp.clip(squared, 0, None))


def _spread(weights: Array, A: Array, B: Array) -> np.ndarray:
    """Sum over pairs of weights times squared difference, for each column."""
    xp = namespace(A)
    pairs = xp.sum(weights, axis=1) @ (A * A) + xp.sum(weights, axis=0) @ (B * B)
    return to_host(pairs - 2 * xp.sum(A * (weights @ B), axis=0))
