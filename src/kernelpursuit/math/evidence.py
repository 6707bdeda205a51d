"""Variances by evidence: those of signal and noise, or their ratio, under which the targets are most probable.

The ratio is a ridge for atoms that are chosen already. Their fit is given by its coordinates θ along the orthonormal
directions of the constant and the atoms, whose columns are A = Q R, and by the inner products G of the atoms under the
penalty ``alpha * cᵀ G c``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq

_FLOOR = 1e-10  # share of the largest eigenvalue of G to which smaller eigenvalues are raised
_SMALLEST, _LARGEST, _GRID = 1e-13, 1e2, 46  # ridges to try, in units of the largest squared singular value
ROUNDING = (16 * np.finfo(np.float64).eps) ** 2  # share of a squared norm that is rounding error of its vector
_STEP = 0.4  # of the grid over the logarithm of the ratio of signal and noise

Limits = tuple[float, float]
Eigen = tuple[np.ndarray, np.ndarray]  # eigenvalues and vectors of G


def eigen(G: np.ndarray) -> Eigen:
    """Eigenvalues, ascending, and vectors of a matrix that is symmetric but for rounding."""
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    return values, vectors


def evidence_ridge(
    R: np.ndarray, G: np.ndarray, lengths: np.ndarray, residual: np.ndarray, n: float, known: Eigen | None = None
) -> float:
    """Ridge under which the targets are most probable, their noise and the scale of the weights being unknown.

    With weights of prior covariance s G⁻¹ and noise of variance ``ridge * s``, the logarithm of the density of a target
    is, up to constants, ``-(n log(|r|² + Σ (1 - f) u²) + Σ log(1 + S²/ridge)) / 2`` at the best s. Here ``R G^(-1/2)``
    is U S Vᵀ, ``u = Uᵀ lengths``, ``f = S² / (S² + ridge)``, and r is the residual of least squares: no term of the sum
    is negative, so nothing cancels where atoms interpolate. Targets share the ridge and have a variance each.

    Parameters
    ----------
    R : ndarray of shape (k, k)
        Triangular factor of the atoms, the constant taken out.
    G : ndarray of shape (k, k)
    lengths : ndarray of shape (k, n_targets)
        Coordinates of the targets along the directions of the atoms.
    residual : ndarray of shape (n_targets,)
        Squared norms of the residuals of the targets, which the atoms do not fit. A target without length and residual
        is constant, and ignored.
    n : float
        Number of rows, less one for the constant.
    known : (ndarray, ndarray), optional
        Eigenvalues and vectors of G, as `eigen` returns them.

    Returns
    -------
    float
        0 where the targets have no noise that a ridge could take out.

    Examples
    --------
    >>> import numpy as np
    >>> evidence_ridge(np.eye(2), np.eye(2), np.array([[3.0], [1.0]]), np.array([0.0]), 10.0)  # a perfect fit
    0.0
    """
    energy = residual + np.sum(lengths**2, axis=0)
    varied = energy > 0
    lengths, residual, energy = lengths[:, varied], residual[varied], energy[varied]
    if lengths.size == 0:
        return 0.0
    values, vectors = eigen(G) if known is None else known
    if not values[-1] > 0:
        return 0.0
    U, S, _ = np.linalg.svd(R @ vectors / np.sqrt(np.maximum(values, _FLOOR * values[-1])))
    captured, S2 = (U.T @ lengths) ** 2, S**2
    residual = np.maximum(residual, ROUNDING * energy)  # what is rounding error says nothing

    ridges = S2[0] * np.geomspace(_SMALLEST, _LARGEST, _GRID)
    strength = S2 / ridges[:, None]
    left = residual + (1 / (1 + strength)) @ captured
    curve = n * np.log(left).sum(axis=1) + len(energy) * np.log1p(strength).sum(axis=1)
    best = int(np.argmin(curve))
    if best == 0 or not np.isfinite(curve[best]):
        return 0.0
    if best < len(ridges) - 1:  # the lowest point of the parabola through three points, on the scale of logarithms
        before, lowest, after = curve[best - 1 : best + 2]
        curvature = before - 2 * lowest + after
        shift = 0.5 * (before - after) / curvature if curvature > 0 else 0.0
        return float(ridges[best] * (ridges[best + 1] / ridges[best]) ** shift)
    return float(ridges[best])


class RidgeFit(NamedTuple):
    """A fit under a ridge, along orthonormal directions of its own."""

    turn: np.ndarray  # (size, size): column t holds new direction t in the old ones; its length may be below 1
    lengths: np.ndarray  # (size, n_targets)
    coefficients: np.ndarray  # (size, size), upper triangular: the new directions in the constant and the atoms


def ridge_fit(R: np.ndarray, G: np.ndarray, theta: np.ndarray, alpha: float, known: Eigen | None = None) -> RidgeFit:
    """The fits with 1, 2, ... atoms under the ridge, as lengths along directions: each step adds one.

    ``|θ - R c|² + alpha cᵀ G c`` is the squared norm of what [R; P] c leaves of [θ; 0], with PᵀP = alpha G. So the new
    directions are those of a QR factorisation of [R; P], of which the lower part is a matter of the penalty alone.

    Parameters
    ----------
    R : ndarray of shape (size, size)
        Triangular factor of the atoms, the constant before them if there is one.
    G : ndarray of shape (k, k)
        Of the atoms: `size` less one for the constant.
    theta : ndarray of shape (size, n_targets)
    alpha : float
    known : (ndarray, ndarray), optional
        Eigenvalues and vectors of G, as `eigen` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> fit = ridge_fit(np.eye(1), np.eye(1), np.array([[3.0]]), 2.0)
    >>> fit.coefficients @ fit.lengths  # 3 / (1 + 2)
    array([[1.]])
    """
    size, k = len(R), len(G)
    values, vectors = eigen(G) if known is None else known
    penalty = np.sqrt(alpha * np.maximum(values, 0))[:, None] * vectors.T
    Q, triangle = np.linalg.qr(np.concatenate([R, np.pad(penalty, ((0, 0), (size - k, 0)))]))
    sign = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
    turn = Q[:size] * sign
    return RidgeFit(turn, turn.T @ theta, solve_triangular(triangle * sign[:, None], np.eye(size)))


def ridge_fit_by_evidence(
    R: np.ndarray, G: np.ndarray, theta: np.ndarray, residual: np.ndarray, n: float, kept: int | None = None
) -> tuple[float, RidgeFit | None]:
    """The ridge that the evidence of the first `kept` atoms prefers, and the fits of all under it; None where it is 0.

    Parameters
    ----------
    R, G, theta
        As in `ridge_fit`.
    residual : ndarray of shape (n_targets,)
        Squared norms of what all atoms leave of the targets.
    n : float
        Number of rows.
    kept : int, optional
        All atoms unless given.
    """
    constants, kept = len(R) - len(G), len(G) if kept is None else kept
    mine, known = slice(constants, constants + kept), eigen(G)
    energies = theta**2
    constant = np.sum(energies[constants:], axis=0) + residual <= ROUNDING * (residual + np.sum(energies, axis=0))
    residual = residual + np.sum(energies[constants + kept :], axis=0)
    lengths = np.where(constant, 0.0, theta[mine])  # constant targets are ignored
    own = known if kept == len(G) else None
    ridge = evidence_ridge(
        R[mine, mine], G[:kept, :kept], lengths, np.where(constant, 0.0, residual), n - constants, own
    )
    return ridge, None if ridge == 0 else ridge_fit(R, G, theta, ridge, known)


def best_variances(
    eigenvalues: np.ndarray,
    projected: np.ndarray,
    squares: float,
    total: float,
    q: int,
    *,
    signal: Limits,
    noise: Limits,
    lost: float = 0.0,
) -> tuple[float, float]:
    """Signal and noise variance within their limits that make the evidence largest.

    For a given ratio t of the two the best noise variance is the mean of the residual squares, so that a search over
    ln t remains: the best point of a grid, then the root of the slope next to it.

    Parameters
    ----------
    eigenvalues, projected : arrays of shape (n_terms,)
        Of AᵀA, where the signal has the covariance AAᵀ but for its variance, and the squares of Aᵀy along the
        eigenvectors, summed over targets.
    squares : float
        Of all targets.
    total : float
        Number of rows, less one where a mean was taken out.
    q : int
        Number of targets.
    signal, noise : pairs of float
        Limits of the variances.
    lost : float, default=0.0
        How much of the signal's variance lies outside the terms, summed over the rows.

    Returns
    -------
    tuple of float
    """

    def noise_of(t: Any, left: Any) -> Any:
        """Best noise variance within the limits of both, given the squares that are `left`."""
        least, most = np.maximum(noise[0], signal[0] / t), np.minimum(noise[1], signal[1] / t)
        return np.minimum(np.maximum(left / (q * total), least), most)

    def slope(log_t: float) -> float:
        """Slope of minus two times the evidence by ln t. Where the signal is at a limit, the noise changes with t."""
        t = np.exp(log_t)
        share = t / (1 + t * eigenvalues)
        left = squares - projected @ share
        v = noise_of(t, left)
        by_noise = left / v - q * total if v in (signal[0] / t, signal[1] / t) else 0.0
        return q * (eigenvalues @ share + t * lost) - projected @ share**2 / t / v + by_noise

    first, last = np.log(signal[0] / noise[1]), np.log(signal[1] / noise[0])
    grid = np.linspace(first, last, 2 + int((last - first) / _STEP))
    t = np.exp(grid)
    b = 1 + t[:, None] * eigenvalues
    left = squares - t * ((1 / b) @ projected)
    v = noise_of(t, left)
    best = int(np.argmin(q * (total * np.log(v) + np.sum(np.log(b), axis=1) + t * lost) + left / v))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    log_t = low if slope(low) >= 0 else high if slope(high) <= 0 else brentq(slope, low, high, xtol=1e-12)
    ratio = float(np.exp(log_t))
    best_noise = float(noise_of(ratio, squares - projected @ (ratio / (1 + ratio * eigenvalues))))
    return ratio * best_noise, best_noise
