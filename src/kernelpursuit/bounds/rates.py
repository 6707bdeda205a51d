"""Bounds on the probability of an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.bounds.numbers import (
    Numbers,
    binomial_upper_limit,
    check_at_least,
    check_error_counts,
    check_sizes,
    k_log,
    log_binomial,
    log_cells,
)


def vc_bound(
    k: Numbers,
    n: Numbers,
    errors: Numbers,
    delta: float = 0.05,
    *,
    dimension: Numbers | None = None,
    n_comparisons: Numbers = 2,
    choices: Numbers | None = None,
    form: str = "corrected",
) -> Numbers:
    """Probability that a function on `k` atoms misses by more than a threshold fixed beforehand.

    With m = n - k - errors and d the dimension,
    ``2/m [(d+1) log2(2 n_comparisons em/(d+1)) + k log2(en/k) + errors log2(e(n-k)/errors) + log2(2n²/delta)]``.

    Parameters
    ----------
    k, n, errors, delta
        See the module; an error is a point outside the support with ``|f(x) - y|`` above the threshold.
    dimension : int or array, optional
        Free numbers of the function, default `k`: ``(k + 1) t`` for t targets with an intercept each.
    n_comparisons : int or array, default=2
        How many hyperplanes in the space of these numbers part the errors at one point from the rest: 2 for a
        threshold on both sides, 2 t for one at each of t targets; 1 for two classes, t (t - 1) / 2 for t of them.
    choices : int or array, optional
        Atoms there were to choose from; default `n`, one for each point.
    form : {"corrected", "tight", "paper"}
        Printed in [S0], theorem 3, with an unnamed logarithm; the proof needs base 2, the natural one is too small by
        ln 2. "tight" has exact binomial coefficients and the number of cells that ``2 n_comparisons m`` hyperplanes cut
        from d dimensions.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(vc_bound(k=17, n=450, errors=0).round(2), vc_bound(k=17, n=450, errors=0, form="paper").round(2))
    1.26 0.87
    """
    k, n = check_sizes(k, n, delta, form, ("corrected", "tight", "paper"))
    choices = n if choices is None else check_at_least(choices, k, "choices")
    d = k if dimension is None else check_at_least(dimension, 0, "dimension")
    return _arrangement_bound(k, n, errors, d, check_at_least(n_comparisons, 1, "n_comparisons"), choices, delta, form)


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
    k, n = check_sizes(k, n, delta, form, ("corrected", "tight", "paper"))
    return _arrangement_bound(k, n, errors, k if form == "paper" else 2 * k, 2, n, delta, form)


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
    training errors, and "compression" is ``(A + ln C(n, e)) / (n - e)``.

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
        and for "compression" the errors too. [S3] has neither, and for "compression" the factor 2/n, which is not
        implied where more than half of the points are wrong.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(mdl_bound(k=10, n=5000, errors=50, bits=8).round(3))
    0.074
    """
    k, n = check_sizes(k, n, delta, form)
    if kind not in ("finite", "compression"):
        raise ValueError(f"kind must be 'finite' or 'compression', got {kind!r}")
    errors = check_error_counts(errors, n - k if form == "corrected" else n, "errors")
    A = log_binomial(n, k) + k * check_at_least(bits, 0, "bits") * np.log(2) - np.log(delta)
    points = n
    if form == "corrected":
        A, points = A + np.log(n) * (1 if kind == "finite" else 2), n - k
    if kind == "compression":
        with np.errstate(divide="ignore"):  # all points wrong: infinite
            factor = 2 / points if form == "paper" else np.divide(1.0, points - errors)
        return factor * (A + log_binomial(points, errors))
    return errors / points + A / points * (1 + np.sqrt(1 + 2 * errors / A))


def svm_bound(k: Numbers, n: Numbers) -> Numbers:
    """Expected error rate of an SVM with `k` support vectors on average, trained on n - 1 points: ``k / n``.

    Examples
    --------
    >>> print(svm_bound(k=100, n=1000))
    0.1
    """
    k, n = check_sizes(k, n, 0.5, "corrected")
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
        "paper" has the deviations of [S2]: 2 + sqrt(2Λ) for 1 + sqrt(2Λ), and twice the second moment's.

    Returns
    -------
    float

    Examples
    --------
    >>> round(fisher_bound((0.9, -0.9), (0.001, 0.001), (5000, 5000), 0.0, k=5, n=10005), 2)
    0.46
    """
    check_sizes(k, n, delta, form)
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.shape != (2,) or np.any(sizes < 1):
        raise ValueError(f"counts must be two numbers from 1 on, got {counts!r}")
    spread = np.sqrt(2 * (np.log(4 * n / delta) + log_binomial(n, k)))
    first, second = (1 + spread, 1 + spread) if form == "corrected" else (2 + spread, 2 * (2 + spread))
    mean = np.asarray(means, dtype=np.float64)
    deviation = radius / np.sqrt(sizes) * first
    v = np.asarray(variances) + radius**2 / np.sqrt(sizes) * second + 2 * np.abs(mean) * deviation
    margin = np.array([1.0, -1.0]) * (mean + bias) - deviation
    return float(np.max(np.where(margin > 0, v / (v + margin**2), 1.0)))


def binomial_bound(
    k: Numbers,
    n: Numbers,
    errors: Numbers,
    delta: float = 0.05,
    *,
    bits: Numbers = 0,
    choices: Numbers | None = None,
) -> Numbers:
    """Error rate of a function on `k` training points, by exact inversion of the binomial tail.

    The largest p for which ``Bin(n - k, p) <= errors`` has probability at least
    ``delta / (n C(choices, k) 2**(k bits))``.
    The function must be determined by its support and `bits` bits for each atom: 0 where the weights come from the
    support alone, the precision of the weights where they were fitted to all points. The other points then test it.
    Tight where the others are vacuous: no inequality is used but the union bound.

    Parameters
    ----------
    k, n, errors, delta
        See the module.
    bits : int or array
        Bits of each weight.
    choices : int or array, optional
        Training points that the support was chosen from, drawn beforehand; default `n`, all of them.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(binomial_bound(k=0, n=1000, errors=0, delta=0.05).round(4))  # close to -ln(delta / n) / n
    0.0099
    """
    k, n = check_sizes(k, n, delta, "corrected")
    errors = check_error_counts(errors, n - k, "errors")
    choices = n if choices is None else check_at_least(choices, k, "choices")
    log_share = np.log(delta / n) - log_binomial(choices, k) - k * check_at_least(bits, 0, "bits") * np.log(2)
    return binomial_upper_limit(errors, n - k, log_share)


def _arrangement_bound(
    k: Numbers,
    n: Numbers,
    errors: Numbers,
    dimension: Numbers,
    n_comparisons: Numbers,
    choices: Numbers,
    delta: float,
    form: str,
) -> Numbers:
    """Bound of `vc_bound` for functions of `dimension` parameters on k of `choices` atoms."""
    errors = check_error_counts(errors, n - k - 1, "errors")
    m = n - k - errors
    hyperplanes = 2 * n_comparisons * m  # the points and as many new ones
    if form == "tight":
        first = np.vectorize(log_cells)(hyperplanes, dimension)
        bracket = first + log_binomial(choices, k) + log_binomial(n - k, errors) + np.log(2 * n**2 / delta)
    else:
        effective = np.minimum(dimension + 1, hyperplanes)  # N hyperplanes cut no more than 2^N cells
        bracket = k_log(effective, hyperplanes) + k_log(k, choices) + k_log(errors, n - k) + np.log(2 * n**2 / delta)
    return 2 / m * bracket / (1.0 if form == "paper" else np.log(2))
