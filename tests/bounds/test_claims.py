"""Every bound as a claim: it holds in at least 1 - delta of many samples of a known distribution."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from kernelpursuit import DenseDictionary, Squares, pursue
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
from kernelpursuit.pursuit import n_atoms

SAMPLES, DELTA = 500, 0.05
# A share of failures that a bound with failure probability delta exceeds with probability below 1e-6.
MOST = binom.isf(1e-6, SAMPLES, DELTA) / SAMPLES


def share_of_failures(claim, samples=None):
    """Share of samples, or of `SAMPLES` generators, of which `claim(sample)` = (truth, bound) has truth above bound."""
    samples = [np.random.default_rng(0)] * SAMPLES if samples is None else samples
    return np.mean([truth > bound for truth, bound in map(claim, samples)])


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

    assert share_of_failures(claim, pursuits_on_samples(400)) <= DELTA
    assert claim(pursuits_on_samples(400)[3])[1] < 1.5


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

    assert share_of_failures(claim, pursuits_on_samples(300, labels=True)) <= DELTA


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


def test_pseudo_dimension_bound_holds():
    def claim(fitted):
        x, y, atoms, f = fitted
        outside = np.delete(np.arange(400), atoms)
        clipped = np.clip(f(x[outside]), -2, 2) - np.clip(y[outside], -2, 2)
        truth = np.mean((np.clip(f(X_NEW), -2, 2) - np.clip(np.sin(2 * X_NEW) + 0.2 * NOISE_NEW, -2, 2)) ** 2)
        return truth, pseudo_dimension_bound(np.mean(clipped**2), 2, 400, DELTA, scale=2.0)

    assert share_of_failures(claim, pursuits_on_samples(400)) <= DELTA


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

    assert share_of_failures(without_deviations) > 0.2
