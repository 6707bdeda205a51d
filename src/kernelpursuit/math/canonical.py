"""Canonical correlation analysis of Nyström features: small dense linear algebra."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular, svd

from kernelpursuit.math.cholesky import pivots


class Canonical(NamedTuple):
    """Correlations in descending order, and weights of the features of the two views, (k, n_components) each."""

    correlations: np.ndarray
    x_weights: np.ndarray
    y_weights: np.ndarray


class Whitened(NamedTuple):
    """Features F = Q diag(s) Bᵀ without the directions that are noise, and s with the ridge."""

    Q: np.ndarray  # (n, r), orthonormal
    B: np.ndarray  # (k, r), orthonormal
    s: np.ndarray  # (r,)
    damped: np.ndarray  # (r,), √(s² + n κ)


def nystroem_map(G: np.ndarray, limit: float) -> np.ndarray:
    """Matrix T, (k, r), that makes Nyström features K(·, chosen) T of kernel values with k chosen points.

    With G the kernel matrix of these points, TᵀGT = I: T = Λ⁻ᵀ with G = ΛΛᵀ. A feature depends on its own point and
    those before it. A point that lies in the span of those before it, so that its pivot is below `limit` of the
    diagonal entry, adds no feature; r is then less than k.

    Examples
    --------
    >>> import numpy as np
    >>> nystroem_map(np.array([[4.0, 4.0, 2.0], [4.0, 4.0, 2.0], [2.0, 2.0, 2.0]]), 1e-10)
    array([[ 0.5, -0.5],
           [ 0. ,  0. ],
           [ 0. ,  1. ]])
    """
    factor, kept = pivots(G, limit * np.diagonal(G))
    T = np.zeros((len(G), len(kept)))
    if len(kept):
        T[kept] = solve_triangular(factor[kept], np.eye(len(kept)), lower=True).T
    return T


def whiten(F: np.ndarray, scale: float, limit: float, alpha: float) -> Whitened:
    """Singular value decomposition of features, (n, k), without directions whose share of `scale` is below `limit`."""
    Q, s, Bt = svd(F, full_matrices=False)
    s = s[s**2 > limit * scale]
    return Whitened(Q[:, : len(s)], Bt[: len(s)].T, s, np.sqrt(s**2 + alpha * np.sum(s**2)))


def canonical(
    Fx: np.ndarray,
    Fy: np.ndarray,
    *,
    alpha: float,
    n_components: int,
    limits: tuple[float, float, float],
    total: float | None = None,
) -> Canonical:
    """Canonical correlation analysis of features with an additive ridge.

    Singular values and vectors of (Cₓₓ + κₓI)^-½ Cₓᵧ (Cᵧᵧ + κᵧI)^-½ with C = FᵀF/n and κ = alpha · tr C. With
    F = Q diag(s) Bᵀ that is the matrix of cosines Qₓᵀ Qᵧ with rows and columns scaled by s / √(s² + nκ) ≤ 1.

    Parameters
    ----------
    Fx, Fy : ndarray of shape (n, k)
        Features, centred if they are to be.
    alpha : float
    n_components : int
        Fewer come back if either view has fewer dimensions.
    limits : (limit, scale_x, scale_y)
        Directions whose squared norm is below limit · scale are noise.
    total : float, optional
        Number of rows, where they have weights: the sum of these. The features are then times the roots of the weights.

    Examples
    --------
    >>> import numpy as np
    >>> F = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> canonical(F, F[:, :1], alpha=0.0, n_components=2, limits=(1e-10, 10.0, 2.0)).correlations
    array([1.])
    """
    limit, *scales = limits
    x, y = (whiten(F, scale, limit, alpha) for F, scale in zip((Fx, Fy), scales, strict=True))
    inner = (x.Q.T @ y.Q) * (x.s / x.damped)[:, None] * (y.s / y.damped)[None, :]
    count = min(n_components, *inner.shape)
    if count == 0:
        return Canonical(np.zeros(0), np.zeros((Fx.shape[1], 0)), np.zeros((Fy.shape[1], 0)))
    G, rho, Ht = svd(inner, full_matrices=False)
    root = np.sqrt(len(Fx) if total is None else total)
    x_weights = x.B @ (G[:, :count] / x.damped[:, None]) * root
    y_weights = y.B @ (Ht[:count].T / y.damped[:, None]) * root
    signs = np.sign(x_weights[np.argmax(np.abs(x_weights), axis=0), np.arange(count)])
    return Canonical(np.clip(rho[:count], 0, 1), x_weights * signs, y_weights * signs)


def correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Correlation of each column of `a` with that of `b`; 0 where one of them does not vary.

    Examples
    --------
    >>> import numpy as np
    >>> correlation(np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([[3.0, 3.0], [1.0, 4.0]]))
    array([-1.,  0.])
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    norms = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    return np.clip(np.sum(a * b, axis=0) / np.where(norms > 0, norms, 1.0), -1, 1)
