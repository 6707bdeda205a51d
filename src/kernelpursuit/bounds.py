"""Generalisation bounds of the matching pursuit family: numbers in, numbers out.

Arguments mean the same everywhere and broadcast: `k` atoms, `n` training points, `errors` a count of training points
*outside* the support that are wrong, `residual` a mean loss over the points outside the support, `delta` the
probability with which the bound may fail. A bound above its trivial value is returned as it is.

``form="corrected"`` is what the proof gives; ``form="paper"`` what was printed, where that differs.

References
----------
.. [S0] Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008.
.. [S1] Diethe and Hussain, Kernel polytope faces pursuit, ECML 2009.
.. [S2] Diethe, Hussain, Hardoon and Shawe-Taylor, Matching pursuit kernel Fisher discriminant analysis, AISTATS 2009.
.. [S3] Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002).
.. [K] Shawe-Taylor, Williams, Cristianini and Kandola, IEEE Transactions on Information Theory 51 (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import beta

Numbers = Any  # a number or an array of numbers


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
    k, n = _sizes(k, n, delta, form)
    residual = _losses(residual)
    if form == "paper":
        bracket = _k_log(k, n) + np.log(2 * n / delta)
        return residual + np.sqrt(ceiling * bracket / (2 * (n - k)))
    return residual + ceiling * np.sqrt((_log_binomial(n, k) + np.log(n / delta)) / (2 * (n - k)))


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
    k, n = _sizes(k, n, delta, form, ("sharp", "published"))
    residual = _losses(residual)
    if form == "published":
        square = ceiling**2 if mean_square is None else mean_square
        middle = (1 + np.sqrt(k)) * np.sqrt(2 * square / n)
        return residual + middle + ceiling * np.sqrt(18 / n * np.log(2 * n / delta))
    return residual + ceiling * (np.sqrt(k / n) + np.sqrt(np.log(n / delta) / (2 * n)))


def vc_bound(k: Numbers, n: Numbers, errors: Numbers, delta: float = 0.05, *, form: str = "corrected") -> Numbers:
    """Probability that a function on `k` atoms misses by more than a threshold fixed beforehand.

    With m = n - k - errors,
    ``2/m [(k+1) log2(4em/(k+1)) + k log2(en/k) + errors log2(e(n-k)/errors) + log2(2n²/delta)]``.

    Parameters
    ----------
    k, n, errors, delta
        See the module; an error is a point outside the support with ``|f(x) - y|`` above the threshold.
    form : {"corrected", "tight", "paper"}
        Printed in [S0], theorem 3, with an unnamed logarithm; the proof needs base 2, the natural one is too small by
        ln 2. "tight" has exact binomial coefficients and the number of cells that 4m hyperplanes cut from k dimensions.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(vc_bound(k=17, n=450, errors=0).round(2), vc_bound(k=17, n=450, errors=0, form="paper").round(2))
    1.26 0.87
    """
    k, n = _sizes(k, n, delta, form, ("corrected", "tight", "paper"))
    return _arrangement_bound(k, n, errors, k, delta, form)


def cca_bound(k: Numbers, n: Numbers, errors: Numbers, delta: float = 0.05, *, form: str = "corrected") -> Numbers:
    """Probability that the two views of a canonical pair on `k` atoms differ by more than a threshold.

    As `vc_bound` with 2k dimensions: the first term is ``(2k+1) log2(4em/(2k+1))``.

    Parameters
    ----------
    k, n, errors, delta
        See the module.
    form : {"corrected", "tight", "paper"}
        [S0], theorem 4, has k + 1 for 2k + 1, and an unnamed logarithm.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(cca_bound(k=5, n=2000, errors=10) > vc_bound(k=5, n=2000, errors=10))
    True
    """
    k, n = _sizes(k, n, delta, form, ("corrected", "tight", "paper"))
    return _arrangement_bound(k, n, errors, k if form == "paper" else 2 * k, delta, form)


def pseudo_dimension_bound(
    residual: Numbers, k: Numbers, n: Numbers, delta: float = 0.05, *, scale: float = 1.0, form: str = "corrected"
) -> Numbers:
    """Expected squared error of a function on `k` atoms, by its pseudo-dimension.

    ``residual + 4 scale² eps`` with eps the root of
    ``(n-k) eps²/32 + k ln eps = k ln(en/k) + k ln(32e(n-k)/k) + ln(4n/delta)``.

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
    k, n = _sizes(k, n, delta, form, smallest=1)
    residual, m = _losses(residual), n - k
    if form == "paper":
        G = _k_log(k, n) + k * np.log(32 * np.e * m) + 1 + np.log(4 * k * n / delta)
        return residual + 2 * scale * (np.sqrt(32**2 + 128 * m * G) - 32) / (2 * m)
    right = _k_log(k, n) + k * np.log(32 * np.e * m / k) + np.log(4 * n / delta)
    return residual + 4 * scale**2 * _increasing_root(lambda e: m * e**2 / 32 + k * np.log(e) - right)


def mdl_bound(
    k: Numbers,
    n: Numbers,
    errors: Numbers,
    bits: Numbers,
    delta: float = 0.05,
    *,
    kind: str = "finite",
    form: str = "corrected",
) -> Numbers:
    """Error rate of a classifier on `k` atoms with weights of `bits` bits, by the length of its description.

    With ``A = ln C(n, k) + k bits ln 2 - ln delta``, the kind "finite" is ``e/n + A/n (1 + sqrt(1 + 2e/A))`` for e
    training errors, and "compression" is ``2/n (A + ln C(n, e))``.

    Parameters
    ----------
    k, n, errors, delta
        See the module.
    bits : int or array
        Bits of each weight, the fewest that leave the training errors as they are.
    kind : {"finite", "compression"}
    form : {"corrected", "paper"}
        Atoms sit on training points and their number is chosen after seeing them. "corrected" therefore counts errors
        and points outside the support (n - k of them) and pays ln n for each number that was not fixed beforehand: k,
        and for "compression" the errors too. [S3] has neither.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(mdl_bound(k=10, n=5000, errors=50, bits=8).round(3))
    0.074
    """
    k, n = _sizes(k, n, delta, form)
    if kind not in ("finite", "compression"):
        raise ValueError(f"kind must be 'finite' or 'compression', got {kind!r}")
    errors = _counts(errors, n - k if form == "corrected" else n, "errors")
    A = _log_binomial(n, k) + k * np.asarray(bits) * np.log(2) - np.log(delta)
    points = n
    if form == "corrected":
        A, points = A + np.log(n) * (1 if kind == "finite" else 2), n - k
    if kind == "compression":
        return 2 / points * (A + _log_binomial(points, errors))
    return errors / points + A / points * (1 + np.sqrt(1 + 2 * errors / A))


def svm_bound(k: Numbers, n: Numbers) -> Numbers:
    """Expected error rate of an SVM with `k` support vectors on average, trained on n - 1 points: ``k / n``.

    Examples
    --------
    >>> print(svm_bound(k=100, n=1000))
    0.1
    """
    k, n = _sizes(k, n, 0.5, "corrected")
    return k / n


def fisher_bound(
    means: Any,
    variances: Any,
    counts: Any,
    bias: float,
    k: int,
    n: int,
    delta: float = 0.05,
    *,
    radius: float = 1.0,
    form: str = "corrected",
) -> float:
    """Error rate of a Fisher discriminant on `k` atoms, by the concentration of class means and second moments.

    With Λ = ln(4n/delta) + ln C(n, k), for each class s with sign ±1, ``c = radius/sqrt(count) (1 + sqrt(2Λ))``,
    ``v = variance + radius c + 2 |mean| c`` and ``t = s (mean + bias) - c``, the one-sided Chebyshev inequality gives
    ``max_s v / (v + t²)``, and 1 where t <= 0. It holds for all weights and biases at once.

    Parameters
    ----------
    means, variances : pair of float
        Mean and variance of wᵀψ(x) for the positive and the negative class, over points outside the support, for the
        weight vector scaled to norm 1.
    counts : pair of int
        How many points outside the support each class has.
    bias : float
        Bias, scaled alike.
    k, n, delta
        See the module.
    radius : float
        Largest norm of ψ(x), 1 for the Gaussian kernel.
    form : {"corrected", "paper"}
        "paper" has the deviations of [S2] as they are remembered: 2 + sqrt(2Λ) for 1 + sqrt(2Λ), and twice the second
        moment's.

    Returns
    -------
    float

    Examples
    --------
    >>> round(fisher_bound((0.9, -0.9), (0.001, 0.001), (5000, 5000), 0.0, k=5, n=10005), 2)
    0.46
    """
    _sizes(k, n, delta, form)
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.shape != (2,) or np.any(sizes < 1):
        raise ValueError(f"counts must be two numbers from 1 on, got {counts!r}")
    spread = np.sqrt(2 * (np.log(4 * n / delta) + _log_binomial(n, k)))
    first, second = (1 + spread, 1 + spread) if form == "corrected" else (2 + spread, 2 * (2 + spread))
    mean = np.asarray(means, dtype=np.float64)
    deviation = radius / np.sqrt(sizes) * first
    v = np.asarray(variances) + radius**2 / np.sqrt(sizes) * second + 2 * np.abs(mean) * deviation
    margin = np.array([1.0, -1.0]) * (mean + bias) - deviation
    return float(np.max(np.where(margin > 0, v / (v + margin**2), 1.0)))


def binomial_bound(k: Numbers, n: Numbers, errors: Numbers, delta: float = 0.05, *, bits: Numbers = 0) -> Numbers:
    """Error rate of a function on `k` training points, by exact inversion of the binomial tail.

    The largest p for which ``Bin(n - k, p) <= errors`` has probability at least ``delta / (n C(n, k) 2**(k bits))``.
    The function must be determined by its support and `bits` bits for each atom: 0 where the weights come from the
    support alone, the precision of the weights where they were fitted to all points. The other points then test it.
    Tight where the others are vacuous: no inequality is used but the union bound.

    Parameters
    ----------
    k, n, errors, delta
        See the module.
    bits : int or array
        Bits of each weight.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(binomial_bound(k=0, n=1000, errors=0, delta=0.05).round(4))  # close to -ln(delta / n) / n
    0.0099
    """
    k, n = _sizes(k, n, delta, "corrected")
    errors = _counts(errors, n - k, "errors")
    share = np.exp(np.log(delta) - np.log(n) - _log_binomial(n, k) - k * np.asarray(bits) * np.log(2))
    return np.where(errors < n - k, beta.isf(share, errors + 1, np.maximum(n - k - errors, 1)), 1.0)[()]


def _arrangement_bound(k: Numbers, n: Numbers, errors: Numbers, dimension: Numbers, delta: float, form: str) -> Numbers:
    """Bound of `vc_bound` for functions of `dimension` parameters."""
    errors = _counts(errors, n - k - 1, "errors")
    m = n - k - errors
    if form == "tight":
        first = np.vectorize(_log_cells)(4 * m, dimension)
        bracket = first + _log_binomial(n, k) + _log_binomial(n - k, errors) + np.log(2 * n**2 / delta)
    else:
        first = (dimension + 1) * np.log(4 * np.e * m / (dimension + 1))
        bracket = first + _k_log(k, n) + _k_log(errors, n - k) + np.log(2 * n**2 / delta)
    return 2 / m * bracket / (1.0 if form == "paper" else np.log(2))


def _log_cells(hyperplanes: float, dimension: float) -> float:
    """Logarithm of the most cells that hyperplanes cut out of a space: the sum of C(hyperplanes, i), i <= dimension."""
    i = np.arange(min(int(dimension), int(hyperplanes)) + 1)
    return float(logsumexp(_log_binomial(hyperplanes, i)))


def _k_log(k: Numbers, n: Numbers) -> Numbers:
    """Return k ln(e n / k), 0 for k = 0: at least ln C(n, k)."""
    return k * np.log(np.e * n / np.where(np.asarray(k) > 0, k, 1))


def _log_binomial(n: Numbers, k: Numbers) -> Numbers:
    return gammaln(np.asarray(n) + 1.0) - gammaln(np.asarray(k) + 1.0) - gammaln(np.asarray(n) - k + 1.0)


def _increasing_root(function: Callable[[Numbers], Numbers]) -> Numbers:
    """Positive zero of an increasing function, by bisection of the exponent, elementwise."""
    shape = np.shape(function(np.float64(1.0)))
    low, high = np.full(shape, -60.0), np.full(shape, 60.0)
    for _ in range(100):
        middle = (low + high) / 2
        above = function(np.exp(middle)) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(high)[()]


def _sizes(
    k: Numbers, n: Numbers, delta: float, form: str, forms: tuple[str, ...] = ("corrected", "paper"), smallest: int = 0
) -> tuple[Numbers, Numbers]:
    """Check what all bounds share; returns k and n as floats."""
    if form not in forms:
        raise ValueError(f"form must be one of {forms}, got {form!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
    n = np.asarray(n, dtype=np.float64)
    if not np.all(n >= 2):
        raise ValueError(f"n must be at least 2, got {n!r}")
    k = np.asarray(k, dtype=np.float64)
    if not np.all((k >= smallest) & (k < n)):
        raise ValueError(f"k must be from {smallest} to n - 1, got {k!r}")
    return k[()], n[()]


def _losses(residual: Numbers) -> Numbers:
    if not np.all(np.asarray(residual) >= 0):
        raise ValueError(f"residual must be a mean loss, not negative, got {residual!r}")
    return residual


def _counts(value: Numbers, most: Numbers, name: str) -> Numbers:
    value = np.asarray(value, dtype=np.float64)
    if not np.all((value >= 0) & (value <= most)):
        raise ValueError(f"{name} must be from 0 to {most}, the points outside the support, got {value!r}")
    return value[()]
