"""Bounds on expected losses: squared distances and squared errors."""

from __future__ import annotations

import numpy as np

from kernelpursuit.bounds.numbers import Numbers, check_at_least, check_sizes, increasing_root, k_log, log_binomial


def compression_bound(
    residual: Numbers, k: Numbers, n: Numbers, delta: float = 0.05, *, ceiling: float = 1.0, form: str = "corrected"
) -> Numbers:
    """Expected squared distance to the span of `k` chosen training points (sparse kernel PCA).

    ``residual + ceiling * sqrt((ln C(n, k) + ln(n / delta)) / (2 (n - k)))``: Hoeffding's inequality on the n - k
    points outside the support, a union over the supports and their sizes. All sizes hold at once and the spans are
    nested, so the minimum over sizes up to k is a bound too (``np.minimum.accumulate`` along a path).

    Parameters
    ----------
    residual : float or array
        Mean squared distance of the points outside the support.
    k, n, delta
        See the module.
    ceiling : float
        Largest k(x, x), 1 for the Gaussian kernel.
    form : {"corrected", "paper"}
        Printed in [S0], theorem 2: ``k ln(e n / k) + ln(2 n / delta)`` in the bracket, which is safe, and the ceiling
        under the root, which is too small for a ceiling above 1.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(compression_bound(0.2, k=43, n=450, delta=0.05).round(3))
    0.627
    """
    k, n = check_sizes(k, n, delta, form)
    residual = check_at_least(residual, 0, "residual")
    if form == "paper":
        bracket = k_log(k, n) + np.log(2 * n / delta)
        return residual + np.sqrt(ceiling * bracket / (2 * (n - k)))
    return residual + ceiling * np.sqrt((log_binomial(n, k) + np.log(n / delta)) / (2 * (n - k)))


def kpca_bound(
    residual: Numbers,
    k: Numbers,
    n: Numbers,
    delta: float = 0.05,
    *,
    ceiling: float = 1.0,
    mean_square: float | None = None,
    form: str = "sharp",
) -> Numbers:
    """Expected squared distance to the first `k` principal axes of full kernel PCA, for comparison.

    Parameters
    ----------
    residual : float or array
        Sum of the eigenvalues of the kernel matrix after the k-th, divided by n.
    k, n, delta
        See the module.
    ceiling : float
        Largest k(x, x).
    mean_square : float, optional
        Mean of k(x, x)²; default ``ceiling**2``.
    form : {"sharp", "published"}
        ``residual + ceiling (sqrt(k/n) + sqrt(ln(n/delta) / (2n)))``, by McDiarmid's inequality for all projections of
        rank k; or the bound of [K],
        ``residual + (1 + sqrt(k)) sqrt(2 mean_square / n) + ceiling sqrt(18 ln(2n/delta) / n)``.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(kpca_bound(0.1, k=30, n=1000).round(3), kpca_bound(0.1, k=30, n=1000, form="published").round(3))
    0.344 0.826
    """
    k, n = check_sizes(k, n, delta, form, ("sharp", "published"))
    residual = check_at_least(residual, 0, "residual")
    if form == "published":
        square = ceiling**2 if mean_square is None else mean_square
        middle = (1 + np.sqrt(k)) * np.sqrt(2 * square / n)
        return residual + middle + ceiling * np.sqrt(18 / n * np.log(2 * n / delta))
    return residual + ceiling * (np.sqrt(k / n) + np.sqrt(np.log(n / delta) / (2 * n)))


def pseudo_dimension_bound(
    residual: Numbers, k: Numbers, n: Numbers, delta: float = 0.05, *, scale: float = 1.0, form: str = "corrected"
) -> Numbers:
    """Expected squared error of a function on `k` atoms, by its pseudo-dimension.

    ``residual + 4 scale² eps`` with eps the root of
    ``(n-k) eps²/32 + d ln eps = k ln(en/k) + d ln(32e(n-k)/d) + ln(4n/delta)``, d = min(k, n-k).

    Parameters
    ----------
    residual : float or array
        Mean squared error outside the support.
    k, n, delta
        See the module.
    scale : float
        Outputs and targets lie in [-scale, scale]; 1/2 stands for an interval of length 1.
    form : {"corrected", "paper"}
        [S1], theorem 1 and corollary 2: a closed form that its proof does not give for k = 1, and a factor 2 scale
        where squared errors scale by its square.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(pseudo_dimension_bound(0.0, k=10, n=450, scale=0.5).round(2))
    3.07
    >>> print(pseudo_dimension_bound(0.0, k=10, n=450, scale=0.5, form="paper").round(2))
    3.45
    """
    k, n = check_sizes(k, n, delta, form, smallest=1)
    residual, m = check_at_least(residual, 0, "residual"), n - k
    if form == "paper":
        G = k_log(k, n) + k * np.log(32 * np.e * m) + 1 + np.log(4 * k * n / delta)
        return residual + 2 * scale * (np.sqrt(32**2 + 128 * m * G) - 32) / (2 * m)
    d = np.minimum(k, m)  # m points shatter no more dimensions
    right = k_log(k, n) + d * np.log(32 * np.e * m / d) + np.log(4 * n / delta)
    return residual + 4 * scale**2 * increasing_root(lambda e: m * e**2 / 32 + d * np.log(e) - right)
