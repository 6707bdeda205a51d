"""The Gaussian kernel of dense data: its exponent is one matrix product, of any array library.

Data are centred first, since distances come from products: at an offset of 1e6 those of float64 data would be wrong in
the fourth digit. Atoms may have widths of their own, and inputs weights: φⱼ(x) = exp(-γⱼ Σ w²(x - zⱼ)²).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, eps, from_host, gather, namespace, to_host

# Largest relative error of a kernel value. An exponent made by one product is wrong by about eps γ (|x|² + |z|²), which
# is too much in float32 from γ |x|² = 42 on.
EXPONENT_ERROR = 1e-5
NOT_FINITE = "kernel gives infinite or undefined values on X: scale X, or change kernel or gamma"

_ROWS_FOR_CENTER = 4096  # of which the median is taken; the centre only has to lie among most of the rows


def center_of(X: Array) -> Array:
    """Median of each column of dense `X`, of a sample of the rows if there are many.

    A mean would follow one far row away from all others, which then lose their digits. The median is a number of the
    column, so differences to it are exact for the rows around it, in float32 too.

    Examples
    --------
    >>> import numpy as np
    >>> center_of(np.array([[1.0, 5.0], [2.0, 4.0], [1e10, 6.0]]))
    array([2., 5.])
    """
    n, some = X.shape[0], X
    if n > _ROWS_FOR_CENTER:
        some = gather(X, np.random.default_rng(0).integers(0, n, _ROWS_FOR_CENTER))  # the same ones at each call
    middle = some.shape[0] // 2
    if isinstance(some, np.ndarray):
        return np.partition(some, middle, axis=0)[middle]
    return namespace(some).sort(some, axis=0)[middle, :]


def centred(X: Array, offset: Array) -> Array:
    """X less its centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        return X - offset


class GaussianPoints:
    """Centred points in the form that makes the exponent of the Gaussian kernel one matrix product.

    With x' = [√(2γ) x, -γ|x|², 1] and z' = [√(2γ) z, 1, -γ|z|²] the product x'·z' is -γ|x - z|². A centre with a width
    of its own has γⱼ/γ times that z'.

    Parameters
    ----------
    rows : array of shape (n, n_features + 2)
        The x', of any array namespace.
    far : ndarray of bool of shape (n,) or None
        Points so far from the centre that the product of two of them loses too many digits; None: there are none.
    shares : ndarray of shape (n,), optional
        γⱼ/γ, at most 1, of centres with widths of their own. Such points can only be the second argument of `gaussian`.
    """

    def __init__(self, rows: Array, far: np.ndarray | None, shares: np.ndarray | None = None):
        self.rows = rows
        self.far = far
        self.shares = shares
        self.shape = (rows.shape[0], rows.shape[1] - 2)

    def __getitem__(self, J: slice | np.ndarray) -> GaussianPoints:
        rows = self.rows[J, :] if isinstance(J, slice) else gather(self.rows, J)
        far, shares = (None if values is None else values[J] for values in (self.far, self.shares))
        return GaussianPoints(rows, far, shares)

    @property
    def far_rows(self) -> np.ndarray:
        """Indices of the far points."""
        return np.zeros(0, dtype=np.intp) if self.far is None else np.flatnonzero(self.far)

    @cached_property
    def turned(self) -> Array:
        """The z' of the same points."""
        d = self.shape[1]
        turned = gather(self.rows, np.array([*range(d), d + 1, d]), axis=1)
        return turned if self.shares is None else turned * from_host(self.shares[:, None], self.rows)


def gaussian_points(centred: Array, gamma: float, shares: np.ndarray | None = None) -> GaussianPoints:
    """Centred points, ready for `gaussian`; `shares` are those of centres with widths of their own."""
    xp = namespace(centred)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = centred * float(np.sqrt(2 * gamma))
        wide = scaled if eps(scaled) < 1e-10 else xp.astype(scaled, xp.float64)
        halves = xp.sum(wide * wide, axis=1) / 2  # γ|x|² of the rounded coordinates, so that k(x, x) is near 1
    heights = to_host(halves)
    if not np.all(heights <= float(xp.finfo(scaled.dtype).max)):  # NaN and infinite coordinates end here too
        raise ValueError(NOT_FINITE)
    norms = xp.astype(-halves, scaled.dtype)[:, None]
    far = heights * (1.0 if shares is None else shares) > EXPONENT_ERROR / (2 * eps(scaled))
    rows = xp.concat([scaled, norms, xp.ones_like(norms)], axis=1)
    return GaussianPoints(rows, far if np.any(far) else None, shares)


def gaussian(P: GaussianPoints, Q: GaussianPoints, out: np.ndarray | None = None) -> Array:
    """exp(-γ|x - z|²), (n_p, n_q): one product and an exponential in place; pairs of far points by `gaussian_float64`.

    Pairs with one far point need no care: either their distance is so large that the value is 0, or the sum of their
    squared lengths is below five times the limit.
    """
    rows, columns = P.far_rows, Q.far_rows
    pairs = len(rows) * len(columns)
    if pairs and (8 * pairs > P.shape[0] * Q.shape[0] or not _takes_indices(P.rows)):
        return gaussian_float64(P, Q)
    turn_first = P.shape[0] <= Q.shape[0] and Q.shares is None
    left, right = (P.turned, Q.rows) if turn_first else (P.rows, Q.turned)  # the shorter is copied
    with np.errstate(over="ignore", invalid="ignore"):  # of pairs of far points, which are replaced
        values = left @ right.T if out is None else np.matmul(left, right.T, out=out)
        values = _exponential(values)
    if pairs:
        xp = namespace(values)
        i, j = (xp.asarray(index, device=values.device) for index in (rows, columns))
        values[i[:, None], j[None, :]] = gaussian_float64(P[rows], Q[columns])
    return values


def gaussian_float64(P: GaussianPoints, Q: GaussianPoints) -> Array:
    """Gaussian kernel values by a product in float64, or by differences of coordinates where that loses digits too."""
    xp, d = namespace(P.rows), P.shape[1]
    x, z = (xp.astype(points.rows[:, :d], xp.float64) for points in (P, Q))
    with np.errstate(over="ignore", invalid="ignore"):
        heights = [xp.sum(points * points, axis=1) / 2 for points in (x, z)]
        limit = EXPONENT_ERROR / (2 * eps(x))
        if all(bool(xp.any(height > limit)) for height in heights):
            exponent = -sum_over_features(lambda a, b: (a - b) ** 2, x, z) / 2
        else:
            exponent = x @ z.T - heights[0][:, None] - heights[1][None, :]
        if Q.shares is not None:
            exponent = exponent * from_host(Q.shares[None, :], x)
        # An exponent above 0 can only be rounding.
        values = _exponential(xp.where(exponent > 0, xp.zeros_like(exponent), exponent), P.rows.dtype)
    if not all_finite(values):
        raise ValueError(NOT_FINITE)
    return xp.astype(values, P.rows.dtype)


def gaussian_by_differences(x: Array, z: Array, gamma: np.ndarray) -> Array:
    """exp(-γⱼ|x - zⱼ|²) of centred points, one coordinate after the other: 0, not an error, where squares overflow."""
    roots = from_host(np.sqrt(gamma)[None, :], x)  # not γ times the sum: 0 times infinity
    with np.errstate(over="ignore"):
        return namespace(x).exp(-sum_over_features(lambda a, b: (roots * (a - b)) ** 2, x, z))


def _takes_indices(x: Array) -> bool:
    """Whether values may be put at index arrays, which the array API standard does not ask for."""
    return isinstance(x, np.ndarray) or hasattr(x, "index_put_")


def _exponential(values: Array, dtype: Any = None) -> Array:
    """exp, in place where the library can; on a processor 0 where its square would be no normal number of `dtype`.

    Arithmetic with such small numbers takes up to a hundred times as long, and no sum with a value of 1 changes.
    """
    if isinstance(values, np.ndarray):
        limit = np.log(np.finfo(dtype or values.dtype).tiny) / 2
        if np.min(values, initial=0.0) < limit:
            np.putmask(values, values < limit, -np.inf)
        return np.exp(values, out=values)
    return values.exp_() if hasattr(values, "exp_") else namespace(values).exp(values)


def all_finite(values: Array) -> bool:
    """Whether all entries are finite; a finite sum is enough."""
    xp = namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(xp.isfinite(xp.sum(values))) or bool(xp.all(xp.isfinite(values)))


def sum_over_features(term: Callable[[Array, Array], Array], X: Array, Z: Array) -> Array:
    """Sum of a function of two coordinates, one feature at a time: an (n_x, n_z, n_features) array would be large."""
    total = term(X[:, :1], Z[:, :1].T)
    for k in range(1, X.shape[1]):
        total = total + term(X[:, k : k + 1], Z[:, k : k + 1].T)
    return total
