"""Evidence of Gaussian process regression through landmarks: how well a width for each input explains the targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import Array, from_host, namespace, to_host
from kernelpursuit.atoms.threads import FEW_ENTRIES, in_threads, spans
from kernelpursuit.math.evidence import best_variances

TILE_ROWS = 256  # kernel values of so many rows are made, multiplied and used up in a core's cache
JITTER = 1e-6  # of k(x, x), added to the kernel matrix of the landmarks
SIGNAL, NOISE = (np.exp(-4), np.exp(6)), (1e-4, 2.0)  # variances, of targets of variance 1


class WidthEvidence(NamedTuple):
    """Log evidence of a width for each input, its slope, and the variances that it is largest with."""

    value: float
    gradient: np.ndarray  # by the logarithms of the weights
    signal: float
    noise: float


def _gaussian(A: Array, B: Array) -> Array:
    """Kernel values exp(-|a - b|²); the exponent is one product, of [2a, -|a|², 1] and [b, 1, -|b|²]."""
    xp = namespace(A)
    a, b = -xp.sum(A * A, axis=1)[:, None], -xp.sum(B * B, axis=1)[:, None]
    exponent = xp.concat([2 * A, a, xp.ones_like(a)], axis=1) @ xp.concat([B, xp.ones_like(b), b], axis=1).T
    return np.exp(exponent, out=exponent) if xp is np else xp.exp(exponent)


def _sums(weights: Array, A: Array) -> Array:
    """Sums over the rows a of weights times 1, a and a², side by side: of shape (m, 1 + 2 n_features)."""
    xp = namespace(A)
    return weights.T @ xp.concat([xp.ones_like(A[:, :1]), A, A * A], axis=1)


def _spread(sums: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Sum over pairs of weights times (a - b)², for each column, from `_sums`."""
    p = B.shape[1]
    return np.sum(sums[:, :1] * B**2 - 2 * sums[:, 1 : 1 + p] * B + sums[:, 1 + p :], axis=0)


def evidence(
    log_weights: np.ndarray,
    X: Array,
    Z: Array,
    Y: Array,
    prior: float = 0.0,
    counts: np.ndarray | None = None,
    variances: tuple[float, float] | None = None,
) -> WidthEvidence:
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
    WidthEvidence

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y, log_weights = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), rng.normal(size=3) / 5
    >>> step = 1e-5 * np.eye(3)[1]
    >>> values = [evidence(log_weights + h, X, X[:6], Y, 1.0).value for h in (step, -step)]
    >>> bool(np.isclose(evidence(log_weights, X, X[:6], Y, 1.0).gradient[1], (values[0] - values[1]) / 2e-5))
    True
    """
    n, q, m, total = X.shape[0], Y.shape[1], Z.shape[0], X.shape[0] if counts is None else float(np.sum(counts))
    tiles = spans(0, n, TILE_ROWS if isinstance(X, np.ndarray) else n)
    parallel = isinstance(X, np.ndarray) and n * m > FEW_ENTRIES // 4
    scale = from_host(np.exp(log_weights), X)
    landmarks = Z * scale
    M = to_host(_gaussian(landmarks, landmarks))
    inverse = solve_triangular(np.linalg.cholesky(M + JITTER * np.eye(m)), np.eye(m), lower=True)
    whiten = from_host(inverse.T, X)

    def products(rows: slice) -> tuple[Array, Array, Array, Array, Array]:
        """K, A and Y of some rows, with AᵀA and AᵀY."""
        K, y = _gaussian(X[rows, ...] * scale, landmarks), Y[rows, ...]
        if counts is not None:  # a row counted c times is c rows, or one row times √c
            root = from_host(np.sqrt(counts[rows])[:, None], X)
            K, y = K * root, y * root
        A = K @ whiten
        return K, A, y, A.T @ A, A.T @ y

    made = in_threads(products, tiles, parallel)
    inner, along = (sum(to_host(tile[i]) for tile in made) for i in (3, 4))
    eigenvalues, U = np.linalg.eigh(inner)  # not from KᵀK, whose rounding errors L⁻¹ would magnify
    eigenvalues = np.maximum(eigenvalues, 0)
    projected = U.T @ along
    squares = sum(float(namespace(y).sum(y * y)) for _, _, y, _, _ in made)
    lost = total - np.sum(eigenvalues)
    along = np.sum(projected**2, axis=1)
    signal, noise = variances or best_variances(
        eigenvalues, along, squares, total, q, signal=SIGNAL, noise=NOISE, lost=lost
    )
    s, t = np.sqrt(signal), signal / noise
    b = 1 + t * eigenvalues  # eigenvalues of B
    C = U @ (projected * (t / s / b)[:, None])
    # The slope by A is q t A (I - B⁻¹) + s R Cᵀ / v; that by K is the same times L⁻¹.
    by_A, by_R = (U * (q * t * (1 - 1 / b))) @ (U.T @ inverse), s / noise * C.T @ inverse
    fit, by_A, by_R = from_host(s * C, X), from_host(by_A, X), from_host(by_R, X)

    def slopes(tile: tuple[slice, tuple]) -> tuple[float, Array]:
        """|R|² of some rows, and the sums of the slope by K that the slope by the weights needs."""
        rows, (K, A, y, _, _) = tile
        R = y - A @ fit
        return float(namespace(R).sum(R * R)), _sums((A @ by_A + R @ by_R) * K, X[rows, ...])

    found = in_threads(slopes, zip(tiles, made, strict=True), parallel)
    left = sum(part for part, _ in found)
    value = -0.5 * (q * (total * np.log(noise) + np.sum(np.log(b)) + t * lost) + left / noise + np.sum(C**2))
    by_M = -0.5 * inverse.T @ ((U * (q * (b - 2 + 1 / b))) @ U.T + C @ C.T) @ inverse * M
    Z_host = to_host(Z)
    spread = _spread(sum(to_host(sums) for _, sums in found) + _sums(by_M, Z_host), Z_host)
    deviation = log_weights - log_weights.mean()
    gradient = -2 * np.exp(2 * log_weights) * spread - prior * deviation
    return WidthEvidence(value - prior / 2 * np.sum(deviation**2), gradient, signal, noise)
