"""Checks of arguments, binomial coefficients and roots for all bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

Numbers = Any  # a number or an array of numbers


def check_sizes(
    k: Numbers, n: Numbers, delta: float, form: str, forms: tuple[str, ...] = ("corrected", "paper"), smallest: int = 0
) -> tuple[Numbers, Numbers]:
    """Check the arguments k, n, delta and form that most bounds have; returns k and n as floats."""
    if form not in forms:
        raise ValueError(f"form must be one of {forms}, got {form!r}")
    check_delta(delta)
    n, k = check_whole(n, "n", "rows"), check_whole(k, "k", "atoms")
    if not np.all(n >= 2):
        raise ValueError(f"n must be at least 2, got {n!r}")
    if not np.all((k >= smallest) & (k < n)):
        raise ValueError(f"k must be from {smallest} to n - 1, got {k!r}")
    return k, n


def check_whole(value: Numbers, name: str, of: str) -> Numbers:
    """Refuse shares where a number of rows, or `of` other things, is meant; returns floats."""
    numbers = np.asarray(value, dtype=np.float64)
    if np.any(np.isfinite(numbers) & (numbers != np.floor(numbers))):
        raise ValueError(f"{name} is a number of {of}, not a share; got {value!r}")
    return numbers[()]


def check_delta(delta: float) -> None:
    """Refuse numbers that are no probability between 0 and 1."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}")


def log_failure(delta: float, weight: Numbers) -> Numbers:
    """Logarithm of ``weight * delta``, the probability with which the bound of one of several models may fail."""
    check_delta(delta)
    weight = check_at_least(weight, 0, "weight")
    if not np.all(weight <= 1):
        raise ValueError(f"weight must be at most 1, got {weight!r}")
    with np.errstate(divide="ignore"):
        return np.log(weight * delta)


def check_error_counts(value: Numbers, most: Numbers, name: str, of: str = "the points outside the support") -> Numbers:
    """Refuse counts that are not whole numbers from 0 to `most`, the number `of` something; returns floats."""
    value = check_whole(value, name, "rows")
    if not np.all((value >= 0) & (value <= most)):
        raise ValueError(f"{name} must be from 0 to {plain_number(most)}, {of}, got {value!r}")
    return value


def plain_number(most: Numbers) -> str:
    """A number, or several, without the decimals of a whole one."""
    return f"{most:g}" if np.ndim(most) == 0 else str(most)


def check_at_least(value: Numbers, least: Numbers, name: str) -> Numbers:
    """Refuse numbers below `least`; returns floats."""
    value = np.asarray(value, dtype=np.float64)
    if not np.all(value >= least):
        raise ValueError(f"{name} must be at least {least}, got {value!r}")
    return value[()]


def log_binomial(n: Numbers, k: Numbers) -> Numbers:
    """Return ln C(n, k)."""
    return gammaln(np.asarray(n) + 1.0) - gammaln(np.asarray(k) + 1.0) - gammaln(np.asarray(n) - k + 1.0)


def binomial_upper_limit(errors: Numbers, trials: Numbers, log_share: Numbers) -> Numbers:
    """Largest p for which at most `errors` among `trials` have probability ``exp(log_share)``, elementwise.

    Found in logarithms: the shares of a union bound are smaller than any float.

    Examples
    --------
    >>> import numpy as np
    >>> print(binomial_upper_limit(0, 10, np.log(0.05)).round(4), binomial_upper_limit(0, 10_000, -10_000).round(4))
    0.2589 0.6321
    """

    def one(errors: float, trials: float, log_share: float) -> float:
        if errors >= trials or log_share >= 0:
            return 1.0 if errors >= trials else 0.0
        i = np.arange(int(errors) + 1)
        ways = log_binomial(trials, i)

        def excess(p: float) -> float:
            return log_sum(ways + i * np.log(p) + (trials - i) * np.log1p(-p)) - log_share

        # At most `errors` wrong means that one of the C(trials, errors) sets of the other size is right.
        high = -np.expm1((log_share - ways[-1]) / (trials - errors))
        if errors == 0 or excess(min(high, np.nextafter(1, 0))) >= 0:
            return high
        low = errors / trials if excess(errors / trials) > 0 else np.finfo(float).tiny
        return float(brentq(excess, low, min(high, np.nextafter(1, 0)), xtol=1e-17, rtol=1e-14))

    return np.vectorize(one, otypes=[np.float64])(errors, trials, log_share)[()]


def log_sum(x: np.ndarray) -> float:
    """Logarithm of a sum of exponentials, without the checks of SciPy's, which take longer than the sum."""
    largest = np.max(x)
    return float(largest + np.log(np.sum(np.exp(x - largest))))


def log_cells(hyperplanes: float, dimension: float) -> float:
    """Logarithm of the most cells that hyperplanes cut out of a space: the sum of C(hyperplanes, i), i <= dimension."""
    i = np.arange(min(int(dimension), int(hyperplanes)) + 1)
    return log_sum(log_binomial(hyperplanes, i))


def k_log(k: Numbers, n: Numbers) -> Numbers:
    """Return k ln(e n / k), 0 for k = 0: at least ln C(n, k)."""
    return k * np.log(np.e * n / np.where(np.asarray(k) > 0, k, 1))


def increasing_root(function: Callable[[Numbers], Numbers]) -> Numbers:
    """Positive zero of an increasing function, by bisection of the exponent, elementwise."""
    shape = np.shape(function(np.float64(1.0)))
    low, high = np.full(shape, -60.0), np.full(shape, 60.0)
    for _ in range(100):
        middle = (low + high) / 2
        above = function(np.exp(middle)) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(high)[()]


def decreasing_root(function: Callable[[Numbers], Numbers], start: Numbers) -> Numbers:
    """Largest p from `start` to 1 at which a decreasing function is at least 0, by bisection, elementwise."""
    low = np.zeros(np.shape(function(np.asarray(start)))) + start
    high = np.ones_like(low)
    for _ in range(60):
        middle = (low + high) / 2
        enough = function(middle) >= 0
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return high[()]
