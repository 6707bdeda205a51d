"""The variances of signal and noise that maximise the evidence of the targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

Limits = tuple[float, float]
_STEP = 0.4  # of the grid over the logarithm of their ratio


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

    For a given ratio t of the two the best noise variance is the mean of what is left of the squares, so that a search
    over ln t remains: the best point of a grid, then the root of the slope beside it.

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
        """Best noise variance within the limits of both, for what is `left` of the squares."""
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
