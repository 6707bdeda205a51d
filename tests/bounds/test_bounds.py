"""Every bound as a claim: it holds in at least 1 - delta of many samples of a known distribution."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.svm import SVC

from kernelpursuit import DenseDictionary, Squares, bounds, pursue
from kernelpursuit.bounds import (
    binomial_bound,
    cca_bound,
    compression_bound,
    fisher_bound,
    kpca_bound,
    mdl_bound,
    pseudo_dimension_bound,
    svm_bound,
    vc_bound,
)
from kernelpursuit.bounds.numbers import log_binomial
from kernelpursuit.pursuit import n_atoms

SAMPLES, DELTA = 500, 0.05
# A share of failures that a bound with failure probability delta exceeds with probability below 1e-6.
MOST = binom.isf(1e-6, SAMPLES, DELTA) / SAMPLES


def share_of_failures(claim, samples=SAMPLES):
    """Share of samples in which `claim(rng)` = (truth, bound) has the truth above the bound."""
    rng = np.random.default_rng(0)
    return np.mean([truth > bound for truth, bound in (claim(rng) for _ in range(samples))])


def share_of_failing_fits(claim, fits):
    """The same of claims about fitted models."""
    return np.mean([truth > bound for truth, bound in map(claim, fits)])


def sphere(rng, n, d=4):
    X = rng.standard_normal((n, d)) * np.array([3.0, 1.0, 0.3, 0.1])[:d]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


LARGE = sphere(np.random.default_rng(1), 200_000)
SECOND_MOMENT = LARGE.T @ LARGE / len(LARGE)


def test_compression_bound_holds_for_greedy_spans():
    def claim(rng):
        X = sphere(rng, 40)
        k = 2
        support = [int(np.argmax(np.sum((X @ X.T) ** 2, axis=0)))]  # the point that explains most, then the worst left
        P = np.outer(X[support[0]], X[support[0]])
        support.append(int(np.argmax(np.sum(X**2, axis=1) - np.sum((X @ P) * X, axis=1))))
        Q, _ = np.linalg.qr(X[support].T)
        rest = np.delete(np.arange(40), support)
        residual = np.mean(1 - np.sum((X[rest] @ Q) ** 2, axis=1))
        return 1 - np.trace(Q.T @ SECOND_MOMENT @ Q), compression_bound(residual, k=k, n=40, delta=DELTA)

    assert share_of_failures(claim) <= DELTA


@pytest.mark.parametrize("ceiling", [1.0, 100.0])
def test_compression_bound_scales_with_the_ceiling_and_the_printed_one_does_not(ceiling):
    """Losses of 0 or the ceiling with equal probability, support of one point fixed beforehand."""

    def claim(form):
        def one(rng):
            losses = ceiling * rng.integers(0, 2, 100)
            return ceiling / 2, compression_bound(losses[1:].mean(), 1, 100, DELTA, ceiling=ceiling, form=form)

        return one

    assert share_of_failures(claim("corrected")) <= DELTA
    assert (share_of_failures(claim("paper")) > MOST) == (ceiling > 1)


@pytest.mark.parametrize("form", ["sharp", "published"])
def test_kpca_bound_holds(form):
    def claim(rng):
        X = sphere(rng, 60)
        values, vectors = np.linalg.eigh(X.T @ X / 60)
        Q = vectors[:, -2:]
        return 1 - np.trace(Q.T @ SECOND_MOMENT @ Q), kpca_bound(values[:-2].sum(), 2, 60, DELTA, form=form)

    assert share_of_failures(claim) <= DELTA
    assert kpca_bound(0.1, 3, 500) < kpca_bound(0.1, 3, 500, form="published")


def pursuit_on_sample(rng, n, labels=False):
    """Two atoms of a small dictionary fitted to a sample, and a function that applies the model."""
    x = rng.uniform(-2, 2, n)
    noise = rng.standard_normal(n)
    y = np.sign(x + 0.3 * noise) if labels else np.sin(2 * x) + 0.2 * noise
    centers = x[:8]
    run = Squares(DenseDictionary(np.exp(-((x[:, None] - centers) ** 2))), y, intercept=False)
    path = pursue(run, n_atoms(2))
    coef = np.array([*run.weight_path(2)])[-1, 1:, 0]
    return x, y, path.atoms, lambda x: np.exp(-((x[:, None] - centers[path.atoms]) ** 2)) @ coef


@cache
def pursuits_on_samples(n, labels=False):
    """Fits to as many samples as a claim is tried on; claims of the same models share them."""
    rng = np.random.default_rng(0)
    return [pursuit_on_sample(rng, n, labels) for _ in range(SAMPLES)]


GRID = np.random.default_rng(2)
X_NEW, NOISE_NEW = GRID.uniform(-2, 2, 2000), GRID.standard_normal(2000)


@pytest.mark.parametrize("form", ["corrected", "tight"])
def test_vc_bound_holds(form):
    def claim(fitted):
        x, y, atoms, f = fitted
        outside = np.delete(np.arange(400), atoms)
        errors = np.sum(np.abs(f(x[outside]) - y[outside]) > 1)
        truth = np.mean(np.abs(f(X_NEW) - np.sin(2 * X_NEW) - 0.2 * NOISE_NEW) > 1)
        return truth, vc_bound(2, 400, errors, DELTA, form=form)

    assert share_of_failing_fits(claim, pursuits_on_samples(400)) <= DELTA
    assert claim(pursuits_on_samples(400)[3])[1] < 1.5


def test_vc_bound_values_and_forms():
    assert vc_bound(k=17, n=450, errors=0, delta=0.05) == pytest.approx(1.26, abs=0.005)
    assert vc_bound(k=17, n=450, errors=0, delta=0.05, form="paper") == pytest.approx(0.87, abs=0.005)
    k = np.arange(1, 30)
    corrected, tight, printed = (vc_bound(k, 5000, 20, form=form) for form in ("corrected", "tight", "paper"))
    assert np.all(tight < corrected)
    np.testing.assert_allclose(printed, corrected * np.log(2))  # the natural logarithm is too small
    assert np.all(np.diff(corrected) > 0)
    assert np.all(cca_bound(k, 5000, 20) > corrected)
    np.testing.assert_allclose(cca_bound(k, 5000, 20, form="paper"), printed)  # printed with k + 1 for 2k + 1


def test_cca_bound_holds_for_two_views_on_one_atom():
    def claim(rng):
        x = rng.uniform(-1, 1, 2000)
        y = x + 0.3 * rng.standard_normal(2000)
        scale = np.abs(x).mean() / np.abs(y).mean()  # one atom in each view, its weight from the data
        errors = np.sum(np.abs(x[1:] - scale * y[1:]) > 0.8)
        truth = np.mean(np.abs(X_NEW / 2 - scale * (X_NEW / 2 + 0.3 * NOISE_NEW)) > 0.8)
        return truth, cca_bound(1, 2000, errors, DELTA)

    assert share_of_failures(claim) <= DELTA
    assert 0 < claim(np.random.default_rng(3))[0] < claim(np.random.default_rng(3))[1] < 1


@pytest.mark.parametrize("kind", ["finite", "compression"])
def test_mdl_bound_holds_for_quantised_weights(kind):
    def claim(fitted):
        n, bits = 300, 6
        x, y, atoms, f = fitted
        scale = np.abs(f(x)).max()
        levels = 2.0 ** (bits - 1)

        def classify(x):  # rounding the output stands for rounding two weights: coarser is only worse
            return np.sign(np.round(f(x) / scale * levels) + 0.5)

        outside = np.delete(np.arange(n), atoms)
        errors = np.sum(classify(x[outside]) != y[outside])
        truth = np.mean(classify(X_NEW) != np.sign(X_NEW + 0.3 * NOISE_NEW))
        return truth, mdl_bound(2, n, errors, bits, DELTA, kind=kind)

    assert share_of_failing_fits(claim, pursuits_on_samples(300, labels=True)) <= DELTA


def test_mdl_forms():
    assert mdl_bound(10, 1000, 20, 8) > mdl_bound(10, 1000, 20, 8, form="paper")
    # with no atoms and no errors: 2 A / n, A = ln(1 / delta)
    assert mdl_bound(0, 1000, 0, 8, 0.05, form="paper") == pytest.approx(2 * np.log(20) / 1000)
    assert svm_bound(30, 300) == pytest.approx(0.1)


def test_svm_bound_holds_in_expectation():
    """Mean error of SVMs on n - 1 points is at most the mean share of support vectors on n points."""
    rng = np.random.default_rng(0)
    X_new = rng.normal(size=(500, 2))
    y_new = X_new[:, 0] > 0.3 * rng.normal(size=500)
    errors, bounds = [], []
    for _ in range(300):
        X = rng.normal(size=(25, 2))
        y = X[:, 0] > 0.3 * rng.normal(size=25)
        if min(y[:-1].sum(), 24 - y[:-1].sum()) > 0:
            errors.append(np.mean(SVC(kernel="linear").fit(X[:-1], y[:-1]).predict(X_new) != y_new))
            bounds.append(svm_bound(len(SVC(kernel="linear").fit(X, y).support_), 25))
    assert np.mean(errors) <= np.mean(bounds)


def test_binomial_bound_inverts_the_tail_exactly():
    for k, n, errors, bits in [(0, 50, 3, 0), (5, 200, 0, 0), (3, 100, 40, 2), (2, 1000, 7, 8)]:
        p = binomial_bound(k, n, errors, DELTA, bits=bits)
        share = np.exp(np.log(DELTA) - np.log(n) - log_binomial(n, k) - k * bits * np.log(2))
        assert binom.cdf(errors, n - k, p) == pytest.approx(share, rel=1e-6)
    assert binomial_bound(3, 10, 7) == 1
    assert binomial_bound(5, 500, 10, bits=4) < mdl_bound(5, 500, 10, 4)  # the same claim by an inequality


def test_binomial_bound_holds_when_the_support_is_chosen_to_fit():
    """A threshold on one training point, chosen among all of them to make the fewest errors."""

    def claim(rng):
        n = 60
        x = rng.uniform(-1, 1, n)
        y = np.where(rng.uniform(size=n) < 0.2, -1, 1) * np.sign(x - 0.1)
        wrong = np.sign(x[:, None] - x[None, :] + 1e-12) != y[:, None]
        np.fill_diagonal(wrong, False)
        best = int(np.argmin(wrong.sum(axis=0)))
        truth = 0.2 + 0.6 * abs(x[best] - 0.1) / 2
        return truth, binomial_bound(1, n, wrong[:, best].sum(), DELTA)

    assert share_of_failures(claim) <= DELTA


def test_pseudo_dimension_bound_solves_its_equation():
    n, delta = 20_000, 0.05
    k = np.array([1.0, 5.0, 50.0])
    epsilon = pseudo_dimension_bound(0.0, k, n, delta, scale=0.5)
    left = (n - k) * epsilon**2 / 32 + k * np.log(epsilon)
    right = k * np.log(np.e * n / k) + k * np.log(32 * np.e * (n - k) / k) + np.log(4 * n / delta)
    np.testing.assert_allclose(left, right, rtol=1e-10)
    np.testing.assert_allclose(pseudo_dimension_bound(0.1, k, n, delta, scale=3.0), 0.1 + 36 * epsilon)


@pytest.mark.parametrize(("n", "printed", "root"), [(450, 3.45, 3.07), (5000, 1.18, 1.11), (10**6, 0.1027, 0.1021)])
def test_pseudo_dimension_values(n, printed, root):
    assert pseudo_dimension_bound(0.0, 10, n, scale=0.5) == pytest.approx(root, rel=5e-3)
    assert pseudo_dimension_bound(0.0, 10, n, scale=0.5, form="paper") == pytest.approx(printed, rel=5e-3)


def test_printed_pseudo_dimension_bound_is_not_implied_for_one_atom():
    assert pseudo_dimension_bound(0.0, 1, 450, scale=0.5, form="paper") < pseudo_dimension_bound(0.0, 1, 450, scale=0.5)


def test_pseudo_dimension_bound_holds():
    def claim(fitted):
        x, y, atoms, f = fitted
        outside = np.delete(np.arange(400), atoms)
        clipped = np.clip(f(x[outside]), -2, 2) - np.clip(y[outside], -2, 2)
        truth = np.mean((np.clip(f(X_NEW), -2, 2) - np.clip(np.sin(2 * X_NEW) + 0.2 * NOISE_NEW, -2, 2)) ** 2)
        return truth, pseudo_dimension_bound(np.mean(clipped**2), 2, 400, DELTA, scale=2.0)

    assert share_of_failing_fits(claim, pursuits_on_samples(400)) <= DELTA


@pytest.mark.parametrize(("count", "value"), [(500, 0.86), (5000, 0.46), (50_000, 0.18)])
def test_fisher_values(count, value):
    arguments = ((0.9, -0.9), (0.001, 0.001), (count, count), 0.0, 5, 2 * count + 5)
    assert fisher_bound(*arguments) == pytest.approx(value, abs=0.005)
    assert fisher_bound(*arguments, form="paper") > fisher_bound(*arguments)
    assert fisher_bound((0.01, -0.9), (0.001, 0.001), (50, 50), 0.0, 5, 105) == 1


def test_fisher_bound_holds_where_chebyshev_is_tight():
    """Each class sits on two points, one of them on the border with probability 0.1: Chebyshev's is an equality."""
    wrong = 0.1

    def claim(rng):
        n = 2000
        flips = rng.uniform(size=(2, n)) < wrong
        plus, minus = np.where(flips[0], 0.0, 0.9), np.where(flips[1], 0.0, -0.9)
        moments = [plus[1:].mean(), minus[1:].mean()], [plus[1:].var(), minus[1:].var()]
        return wrong, fisher_bound(*moments, (n - 1, n - 1), 0.0, 2, 2 * n, DELTA)

    assert share_of_failures(claim) <= DELTA
    assert wrong < claim(np.random.default_rng(3))[1] < 1

    def without_deviations(rng):  # the test can tell: plain Chebyshev with sample moments fails half of the time
        plus = np.where(rng.uniform(size=2000) < wrong, 0.0, 0.9)
        return wrong, plus.var() / (plus.var() + plus.mean() ** 2)

    assert share_of_failures(without_deviations, 300) > 0.2


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


def test_folds_have_errors_and_sizes():
    for errors, sizes, message in (
        ([1, 2], [10], "2 errors and 1 sizes"),
        ([1], [10, 10], "1 errors and 2 sizes"),
        ([], [], "0 errors and 0 sizes"),
    ):
        with pytest.raises(ValueError, match=message):
            bounds.cross_bound(errors, sizes)
    assert bounds.cross_bound([3, 4], 10) == bounds.cross_bound([3, 4], [10, 10])
