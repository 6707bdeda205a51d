"""Prediction for a few rows at a time, as a server asks for them: what does not depend on the rows is made once.

For one row the cost is that of Python calls, not of arithmetic. This is the product of `kernels.gaussian` again,
for the common case: one Gaussian kernel, dense rows and centres in double precision, none of them far away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.kernels.gaussian import EXPONENT_ERROR

FEW_VALUES = 4096  # kernel values; with more of them the calls no longer count
FAR = EXPONENT_ERROR / (2 * np.finfo(np.float64).eps)  # γ|x|² from which on the product loses digits


class FewRows(NamedTuple):
    """Atoms and weights in the form that takes the fewest operations.

    With x' = √(2γ) w (x - offset) and z' alike, atom j is exp(sⱼ (x'·z'ⱼ - |x'|²/2 - |z'ⱼ|²/2)), sⱼ its share of the
    largest γ.
    """

    coef: np.ndarray  # the array of the expansion, to notice another one
    offset: np.ndarray
    scale: Any
    directions: np.ndarray  # (d, k): sⱼ z'ⱼ
    heights: np.ndarray  # (k,): sⱼ |z'ⱼ|²/2
    shares: Any  # (k,), or 1
    weights: np.ndarray
    constant: np.ndarray

    def predict(self, X: np.ndarray) -> np.ndarray | None:
        """Values at rows of X, (n, q); None where a row is too far away, or not a number."""
        rows = (X - self.offset) * self.scale
        lengths = np.einsum("ij,ij->i", rows, rows)[:, None] * 0.5
        if not lengths.max() <= FAR:
            return None
        exponents = rows @ self.directions
        exponents -= lengths * self.shares
        exponents -= self.heights
        return np.exp(exponents, out=exponents) @ self.weights + self.constant


def few_rows_of(expansion: Any) -> FewRows | None:
    """The form for few rows, where there is one."""
    kernels, centers, coef = expansion.kernels, expansion.centers, expansion.coef
    if len(kernels) != 1 or kernels[0].name != "rbf" or kernels[0].offset is None or expansion.precomputed is not None:
        return None
    if type(centers) is not np.ndarray or centers.dtype != np.float64 or not len(centers) or len(expansion.functions):
        return None
    gammas = kernels[0].params["gamma"] if expansion.widths is None else expansion.widths
    largest = float(np.max(gammas))
    shares = 1.0 if expansion.widths is None else gammas / (largest or 1.0)
    scale = np.sqrt(2 * largest) * (1.0 if expansion.input_weights is None else expansion.input_weights)
    with np.errstate(over="ignore", invalid="ignore"):
        points = (centers - kernels[0].offset) * scale
        heights = shares * np.sum(points * points, axis=1) / 2
    if not np.all(heights <= FAR):
        return None
    directions = np.ascontiguousarray((points * np.reshape(shares, (-1, 1))).T)
    weights = np.ascontiguousarray(coef[1:], dtype=np.float64)
    return FewRows(
        coef, kernels[0].offset, scale, directions, heights, shares, weights, np.asarray(coef[0], np.float64)
    )
