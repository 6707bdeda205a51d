"""Every bound beside its formula written out with exact integers, and beside the events that it counts.

That a bound holds in many samples cannot tell a constant from one a fifth smaller: the union bound is slack.
"""

from decimal import Decimal, localcontext
from math import comb, e, inf, log, log2, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from kernelpursuit import bounds
from kernelpursuit.bounds import (
    binomial_bound,
    cca_bound,
    compression_bound,
    fisher_bound,
    kpca_bound,
    mdl_bound,
    pseudo_dimension_bound,
    vc_bound,
)

DELTA = 0.03
SIZES = [(3, 40, 2), (7, 450, 0), (20, 2000, 150)]  # k, n, errors


def close(value, expected):
    assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("k", "n", "errors"), SIZES)
def test_compression_bound(k, n, errors):
    union = log(n * comb(n, k) / DELTA)
    close(compression_bound(0.2, k, n, DELTA, ceiling=3.0), 0.2 + 3 * sqrt(union / (2 * (n - k))))
    printed = k * log(e * n / k) + log(2 * n / DELTA)
    close(compression_bound(0.2, k, n, DELTA, ceiling=3.0, form="paper"), 0.2 + sqrt(3 * printed / (2 * (n - k))))


@pytest.mark.parametrize(("k", "n", "errors"), SIZES)
def test_kpca_bound(k, n, errors):
    close(kpca_bound(0.2, k, n, DELTA, ceiling=3.0), 0.2 + 3 * (sqrt(k / n) + sqrt(log(n / DELTA) / (2 * n))))
    published = (1 + sqrt(k)) * sqrt(2 * 5.0 / n) + 3 * sqrt(18 * log(2 * n / DELTA) / n)
    close(kpca_bound(0.2, k, n, DELTA, ceiling=3.0, mean_square=5.0, form="published"), 0.2 + published)
    published = kpca_bound(0.2, k, n, DELTA, ceiling=3.0, mean_square=9.0, form="published")
    close(kpca_bound(0.2, k, n, DELTA, ceiling=3.0, form="published"), published)


def arrangement(k, n, errors, dimension, n_comparisons, choices, form):
    m = n - k - errors
    union = log2(2 * n * n / DELTA)
    if form == "tight":
        cells = sum(comb(2 * n_comparisons * m, i) for i in range(dimension + 1))
        return 2 / m * (log2(cells) + log2(comb(choices, k)) + log2(comb(n - k, errors)) + union)
    wrong = errors * log2(e * (n - k) / errors) if errors else 0.0
    bits = (
        (dimension + 1) * log2(2 * n_comparisons * e * m / (dimension + 1)) + k * log2(e * choices / k) + wrong + union
    )
    return 2 / m * bits * (log(2) if form == "paper" else 1)


@pytest.mark.parametrize("form", ["corrected", "tight", "paper"])
@pytest.mark.parametrize(("k", "n", "errors"), SIZES)
def test_vc_and_cca_bound(k, n, errors, form):
    close(vc_bound(k, n, errors, DELTA, form=form), arrangement(k, n, errors, k, 2, n, form))
    close(
        cca_bound(k, n, errors, DELTA, form=form),
        arrangement(k, n, errors, k if form == "paper" else 2 * k, 2, n, form),
    )
    assert vc_bound(k, n, errors, DELTA, dimension=0, form=form) < vc_bound(k, n, errors, DELTA, form=form)
    options = {"dimension": 3 * (k + 1), "n_comparisons": 3, "choices": 5 * n}
    close(vc_bound(k, n, errors, DELTA, form=form, **options), arrangement(k, n, errors, *options.values(), form))


def test_vc_bound_counts_the_patterns_of_errors():
    """One weight, 2m points: as many sets of points with |w x - y| > 1 as there are, found by trying all weights."""
    rng = np.random.default_rng(0)
    m = 6
    most = 0
    for _ in range(200):
        x, y = rng.normal(size=2 * m), 3 * rng.normal(size=2 * m)
        edges = np.sort(np.concatenate([(y - 1) / x, (y + 1) / x]))
        weights = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
        patterns = np.abs(weights[:, None] * x - y) > 1
        most = max(most, len(np.unique(patterns, axis=0)))
    n = m + 1  # one atom, no errors
    bits = vc_bound(1, n, 0, DELTA, form="tight") * m / 2 - log2(n) - log2(2 * n * n / DELTA)
    assert 2**bits == pytest.approx(4 * m + 1)
    assert 2 * m + 1 < most <= 4 * m + 1  # 2m hyperplanes are too few, 4m are enough


@pytest.mark.parametrize(("t", "n_comparisons"), [(2, 1), (3, 3)])
def test_comparisons_count_the_patterns_of_classes(t, n_comparisons):
    """Constants w_1 .. w_t added to given scores: the patterns of wrong classes are at most the cells of the cuts."""
    rng = np.random.default_rng(1)
    m, d = 2, t if t > 2 else 1
    scores, y = rng.normal(size=(2 * m, t)), rng.integers(0, t, 2 * m)
    w = np.zeros((20_000, t))
    w[:, : max(d, 1)] = 3 * rng.normal(size=(20_000, max(d, 1)))
    patterns = np.argmax(scores[None] + w[:, None], axis=2) != y
    n = m + 1
    bits = (
        vc_bound(1, n, 0, DELTA, dimension=d, n_comparisons=n_comparisons, form="tight") * m / 2
        - log2(n)
        - log2(2 * n * n / DELTA)
    )
    assert len(np.unique(patterns, axis=0)) <= 2**bits * (1 + 1e-9)


def test_arrangement_bounds_stay_in_their_domain():
    """More dimensions than hyperplanes: no more than 2^N cells, never a negative number of bits."""
    for bound in (vc_bound, cca_bound):
        for form in ("corrected", "tight"):
            for k in (60, 90, 98):
                m = 100 - k
                smallest = 2 / m * (log2(comb(100, k)) + log2(2 * 100**2 / DELTA))
                assert bound(k, 100, 0, DELTA, form=form) >= smallest
                assert bound(k, 100, 0, DELTA, form="corrected") >= bound(k, 100, 0, DELTA, form="tight")
        assert bound(98, 100, 0, DELTA, form="paper") > 1


@pytest.mark.parametrize(("k", "n", "errors"), SIZES)
def test_pseudo_dimension_bound(k, n, errors):
    m = n - k
    G = k * log(e * n / k) + k * log(32 * e * m) + 1 + log(4 * k * n / DELTA)
    closed = (sqrt(32**2 + 128 * m * G) - 32) / (2 * m)
    close(pseudo_dimension_bound(0.2, k, n, DELTA, scale=3.0, form="paper"), 0.2 + 2 * 3.0 * closed)
    eps = (pseudo_dimension_bound(0.2, k, n, DELTA, scale=3.0) - 0.2) / (4 * 9.0)
    left = m * eps**2 / 32 + k * log(eps)
    close(left, k * log(e * n / k) + k * log(32 * e * m / k) + log(4 * n / DELTA))


def test_pseudo_dimension_bound_with_more_atoms_than_points_left():
    values = pseudo_dimension_bound(0.0, np.arange(40, 100), 100, DELTA)
    assert np.all(values > 1) and np.all(np.diff(values[20:]) > 0)


@pytest.mark.parametrize(("k", "n", "errors"), SIZES)
def test_mdl_bound(k, n, errors):
    bits, m = 6, n - k
    printed = log(comb(n, k)) + k * bits * log(2) - log(DELTA)
    proof = printed + log(n)
    finite = errors / m + proof / m * (1 + sqrt(1 + 2 * errors / proof))
    close(mdl_bound(k, n, errors, bits, DELTA), finite)
    paper = errors / n + printed / n * (1 + sqrt(1 + 2 * errors / printed))
    close(mdl_bound(k, n, errors, bits, DELTA, form="paper"), paper)
    compression = (printed + 2 * log(n) + log(comb(m, errors))) / (m - errors)
    close(mdl_bound(k, n, errors, bits, DELTA, kind="compression"), compression)
    paper = 2 / n * (printed + log(comb(n, errors)))
    close(mdl_bound(k, n, errors, bits, DELTA, kind="compression", form="paper"), paper)


def test_mdl_compression_holds_where_most_points_are_wrong():
    """A fixed function of true error .9: the printed factor 2 / n would promise less in every sample."""
    rng = np.random.default_rng(0)
    n = 1000
    errors = rng.binomial(n, 0.9, size=1000)
    assert np.mean(mdl_bound(0, n, errors, 0, 0.05, kind="compression") < 0.9) <= 0.05
    assert np.all(mdl_bound(0, n, errors, 0, 0.05, kind="compression", form="paper") < 0.9)
    assert mdl_bound(0, n, n, 0, 0.05, kind="compression") == inf


@pytest.mark.parametrize("means", [(2.5, -2.0), (1.8, -2.5)])  # the worse class is the second, the first
@pytest.mark.parametrize("form", ["corrected", "paper"])
@pytest.mark.parametrize(("k", "n", "errors"), SIZES)
def test_fisher_bound(k, n, errors, form, means):
    counts, variances, bias, radius = (n, 2 * n), (0.3, 0.4), 0.1, 1.5
    k, n = min(k, 4), 3 * n + k
    counts = tuple(1000 * c for c in counts)
    spread = sqrt(2 * (log(4 * n / DELTA) + log(comb(n, k))))
    first, second = (1 + spread, 1 + spread) if form == "corrected" else (2 + spread, 2 * (2 + spread))
    rates = []
    for sign, count, mean, variance in zip((1, -1), counts, means, variances, strict=True):
        c = radius / sqrt(count) * first
        v = variance + radius**2 / sqrt(count) * second + 2 * abs(mean) * c
        t = sign * (mean + bias) - c
        rates.append(v / (v + t * t) if t > 0 else 1.0)
    assert max(rates) < 1
    close(fisher_bound(means, variances, counts, bias, k, n, DELTA, radius=radius, form=form), max(rates))
    swapped = fisher_bound(means[::-1], variances, counts, bias, k, n, DELTA, radius=radius, form=form)
    assert swapped == 1
    near = fisher_bound((0.5, -9.0), (1e-4, 0.1), (10**9, 10**9), -0.45, 1, 100, DELTA)  # a margin of .05 is one
    assert near < 1


@pytest.mark.parametrize(("k", "n", "errors"), [*SIZES, (140, 10_000, 0), (300, 10_000, 700), (90, 100, 10)])
@pytest.mark.parametrize("bits", [0, 5])
def test_binomial_bound_is_the_root_of_the_exact_tail(k, n, errors, bits):
    """The tail in 60 digits: no float is small enough for the share that each support gets."""
    p = float(binomial_bound(k, n, errors, DELTA, bits=bits))
    m = n - k
    if m == errors:
        assert p == 1
        return
    with localcontext(prec=60):
        odds = Decimal(p) / (1 - Decimal(p))
        term = tail = Decimal(1)
        for i in range(errors):
            term *= odds * (m - i) / (i + 1)
            tail += term
        log_tail = float(tail.ln() + m * (1 - Decimal(p)).ln())
    assert log_tail == pytest.approx(log(DELTA / n) - log(comb(n, k)) - k * bits * log(2), rel=1e-6)


def test_binomial_bound_grows_with_the_support_where_floats_underflow():
    values = binomial_bound(np.arange(100, 2000, 50), 10_000, 0)
    assert np.all(np.diff(values) > 0) and np.all(values < 1)
    few = binomial_bound(50, 10_000, 30, choices=100)
    share = DELTA / 10_000 / comb(100, 50)
    assert binom.cdf(30, 9950, binomial_bound(50, 10_000, 30, DELTA, choices=100)) == pytest.approx(share, rel=1e-6)
    assert few < binomial_bound(50, 10_000, 30)


def test_nothing_is_infinite_or_missing():
    for bound in (vc_bound, cca_bound, binomial_bound):
        values = np.array([bound(k, 30, errors) for k in range(30) for errors in range(30 - k)])
        assert np.all((values > 0) & (values < inf))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: vc_bound(5, 5, 0), "k"),
        (lambda: vc_bound(-1, 50, 0), "k"),
        (lambda: vc_bound(5, 50, 45), "errors"),
        (lambda: vc_bound(5, 50, -1), "errors"),
        (lambda: vc_bound(5, 50, 0, delta=0.0), "delta"),
        (lambda: vc_bound(5, 50, 0, form="printed"), "form"),
        (lambda: kpca_bound(0.1, 5, 50, form="paper"), "form"),
        (lambda: compression_bound(0.1, 5, 1), "n"),
        (lambda: compression_bound(-0.1, 5, 50), "residual"),
        (lambda: kpca_bound(np.nan, 5, 50), "residual"),
        (lambda: pseudo_dimension_bound([0.1, -0.1], 5, 50), "residual"),
        (lambda: pseudo_dimension_bound(0.1, 0, 50), "k"),
        (lambda: mdl_bound(5, 50, 2, 8, kind="vapnik"), "kind"),
        (lambda: fisher_bound((0, 0), (1, 1), (0, 5), 0.0, 2, 50), "counts"),
        (lambda: binomial_bound(5, 50, 46), "errors"),
        (lambda: vc_bound(5, 50, 0, choices=4), "choices"),
        (lambda: vc_bound(5, 50, 0, dimension=-1), "dimension"),
        (lambda: vc_bound(5, 50, 0, n_comparisons=0.9), "n_comparisons"),
        (lambda: binomial_bound(5, 50, 0, choices=4), "choices"),
        (lambda: binomial_bound(5, 50, 0, bits=-1), "bits"),
        (lambda: mdl_bound(5, 50, 0, bits=-1), "bits"),
    ],
)
def test_arguments_out_of_range_are_named(call, name):
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        call()


def test_bounds_broadcast():
    k, n = np.arange(1, 6), np.array([[100], [1000]])
    for bound in (lambda: vc_bound(k, n, 3), lambda: compression_bound(0.1, k, n), lambda: binomial_bound(k, n, 3)):
        assert bound().shape == (2, 5)
    assert pseudo_dimension_bound(np.zeros(5), k, n).shape == (2, 5)
    assert np.ndim(vc_bound(3, 100, 2)) == 0


@pytest.mark.parametrize(
    "bound",
    [
        lambda errors: bounds.holdout_bound(errors, 100),
        lambda errors: bounds.holdout_bound([3, errors], 100),
        lambda errors: bounds.binomial_bound(2, 100, errors),
        lambda errors: bounds.drawn_bound(errors, 1.0, 100),
        lambda errors: bounds.cross_bound([errors, 2], [50, 50]),
        lambda errors: bounds.vc_bound(2, 100, errors),
        lambda errors: bounds.cca_bound(2, 100, errors),
        lambda errors: bounds.mdl_bound(2, 100, errors, bits=8),
    ],
)
def test_errors_are_counted(bound):
    with pytest.raises(ValueError, match=r"errors is a number of rows, not a share; got .*0\.3"):
        bound(0.3)
    assert np.all(bound(30.0) == bound(30)) and np.all(bound(np.int64(30)) == bound(30))
    assert np.all(bound(np.float32(30)) == bound(30))


def test_atoms_and_rows_are_counted():
    with pytest.raises(ValueError, match=r"k is a number of atoms, not a share; got 0\.1"):
        bounds.binomial_bound(0.1, 100, 3)
    with pytest.raises(ValueError, match=r"n is a number of rows, not a share; got 99\.5"):
        bounds.holdout_bound(3, 99.5)
