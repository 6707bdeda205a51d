"""Certificates beside exact probabilities: a constant that is a fifth too small or too large is noticed."""

from decimal import Decimal, localcontext
from math import comb, erf, log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from kernelpursuit.bounds import (
    cross_bound,
    drawn_bound,
    gibbs_error,
    holdout_bound,
    loss_bound,
    pac_bayes_bound,
    path_weights,
    stability_bound,
)
from kernelpursuit.bounds.certificates import coin_divergence, log_likelihood_ratio

DELTA, SAMPLES = 0.05, 1000


def tail(errors, n, p):
    """P(Bin(n, p) <= errors) in 50 digits."""
    with localcontext(prec=50):
        p = Decimal(float(p))
        return float(sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(errors + 1)))


def normal_cdf(x):
    return (1 + erf(x / sqrt(2))) / 2


@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize(("errors", "n"), [(0, 20), (3, 50), (40, 200), (49, 50)])
def test_holdout_bound_is_the_exact_limit(errors, n, weight):
    """At the bound, so few errors have probability delta and no other: neither slack nor short."""
    bound = holdout_bound(errors, n, DELTA, weight=weight)
    assert tail(errors, n, bound) == pytest.approx(weight * DELTA, rel=1e-9)
    assert holdout_bound(n, n) == 1


def test_path_weights():
    for steps, preferred, share in [(7, 0, 0.5), (7, 7, 0.8), (1, 0, 0.5), (3, 1, 1.0)]:
        weights = path_weights(steps, preferred, share)
        assert len(weights) == steps + 1 and weights.sum() == pytest.approx(1)
        assert weights[preferred] == share
        others = np.delete(weights, preferred)
        np.testing.assert_allclose(others, (1 - share) / steps)
    np.testing.assert_array_equal(path_weights(0, 0), [1.0])
    assert path_weights(5, 2)[2] == 0.9


def test_weights_pay_for_choosing_the_model_by_its_bound():
    """Twenty models of equal true rate, tested on the same number of rows each: the lowest bound is a fair one."""
    rng = np.random.default_rng(0)
    n, truth, models = 80, 0.2, 20
    weights = path_weights(models - 1, preferred=3)
    errors = rng.binomial(n, truth, size=(SAMPLES, models))
    counts = np.arange(n + 1)
    preferred, other, unpaid = (holdout_bound(counts, n, DELTA, weight=w) for w in (weights[3], weights[0], 1.0))
    bounds = np.where(np.arange(models) == 3, preferred[errors], other[errors])
    assert np.mean(bounds.min(axis=1) < truth) <= DELTA
    assert np.mean(unpaid[errors].min(axis=1) < truth) > 5 * DELTA
    gaps = [limits[errors[:, 3]].mean() - truth for limits in (preferred, unpaid)]
    assert gaps[0] < 1.05 * gaps[1]  # what the preferred model pays


def test_cross_bound():
    errors, sizes = [4, 9, 0], [50, 60, 55]
    parts = [holdout_bound(e, n, DELTA / 3) for e, n in zip(errors, sizes, strict=True)]
    assert cross_bound(errors, sizes, DELTA) == pytest.approx(np.mean(parts))
    # All folds may err in the same way: then the level of each fold is what counts, exactly.
    limits = np.array([cross_bound([e] * 4, 100, DELTA) for e in range(40)])
    np.testing.assert_allclose(binom.cdf(np.arange(40), 100, limits), DELTA / 4)


def divergence(q, p):
    return (q * log(q / p) if q else 0.0) + ((1 - q) * log((1 - q) / (1 - p)) if q < 1 else 0.0)


@pytest.mark.parametrize(("gibbs", "kl", "n"), [(0.0, 0.0, 20), (0.1, 2.0, 100), (0.3, 7.5, 1000)])
def test_pac_bayes_bound_solves_its_equation(gibbs, kl, n):
    """The constant of Maurer by its definition, as an exact sum."""
    constant = sum(comb(n, i) * (i / n) ** i * (1 - i / n) ** (n - i) for i in range(n + 1))
    assert sqrt(n) <= constant <= 2 * sqrt(n)
    p = float(pac_bayes_bound(gibbs, kl, n, DELTA))
    assert divergence(gibbs, p) == pytest.approx((kl + log(constant / DELTA)) / n, rel=1e-9)
    assert coin_divergence(gibbs, p) == pytest.approx(divergence(gibbs, p))
    assert gibbs < p < 1


def test_gibbs_error_is_that_of_drawn_weights():
    rng = np.random.default_rng(0)
    w, phi, y = rng.normal(size=4), rng.normal(size=(30, 4)), rng.choice([-1, 1], 30)
    margins = y * (phi @ w) / np.linalg.norm(phi, axis=1)
    drawn = w + 0.7 * rng.normal(size=(40_000, 4))
    normed = y * (drawn @ phi.T) / np.linalg.norm(phi, axis=1)
    for shift in (0.0, 1.3):
        assert gibbs_error(margins, 0.7, shift) == pytest.approx(np.mean(normed <= 0.7 * shift), abs=3e-3)
    assert gibbs_error([0.6], 0.5, 0.2) == pytest.approx(normal_cdf(0.2 - 1.2))


def fitted_thresholds(samples=SAMPLES, n=100, noise=0.15):
    """Models sign(x - t) that fit rows best: x uniform on [-2, 2], labels sign(x) with noise; rows, labels, t."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (samples, n))
    y = np.where(rng.uniform(size=(samples, n)) < noise, -1, 1) * np.sign(x)
    grid = np.linspace(-2, 2, 81)
    errors = np.stack([np.sum(np.sign(x - t) != y, axis=1) for t in grid])
    return x, y, grid[np.argmin(errors, axis=0)]


def true_error(t, noise=0.15):
    return noise + (1 - 2 * noise) * np.minimum(np.abs(t), 2) / 4


def test_pac_bayes_bound_holds_for_a_posterior_that_follows_the_rows():
    """The prior is a normal distribution of thresholds, the posterior sits where the rows fit best."""
    x, y, best = fitted_thresholds()
    scale = 0.5
    gibbs = np.array([gibbs_error(y[i] * (x[i] - best[i]), scale) for i in range(SAMPLES)])
    bound = pac_bayes_bound(gibbs, best**2 / (2 * scale**2), 100, DELTA)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    truth = true_error(best[:, None] + scale * nodes) @ weights / weights.sum()
    assert np.mean(truth > bound) <= DELTA
    assert np.mean(bound - truth) < 0.16  # says something: the mean error is 0.22


@pytest.mark.parametrize(("n", "p"), [(30, 0.3), (100, 0.05), (400, 0.6), (30, 0.95)])
def test_likelihood_ratio_has_mean_one(n, p):
    """All that `drawn_bound` rests on, by exact enumeration; and q is where n kl(q, p) is the number of nats."""
    i = np.arange(n + 1)
    ratios = log_likelihood_ratio(i, n, p, 4.0)
    assert np.sum(binom.pmf(i, n, p) * np.exp(ratios)) == pytest.approx(1)
    slope, value = np.diff(ratios)[0], ratios[0]
    odds = np.exp(slope) * p / (1 - p)
    q = odds / (1 + odds)
    assert n * divergence(q, p) == pytest.approx(4.0, rel=1e-6)
    assert value == pytest.approx(n * log((1 - q) / (1 - p)))


@pytest.mark.parametrize(("errors", "n", "log_ratio"), [(10, 100, 0.5), (0, 50, 0.0), (300, 1000, -1.0)])
def test_drawn_bound_solves_its_equation(errors, n, log_ratio):
    p = float(drawn_bound(errors, log_ratio, n, DELTA, nats=1.5))
    ratio = log_likelihood_ratio(errors, n, p, 1.5 + log(1 / DELTA))
    assert ratio == pytest.approx(log(1 / DELTA) + log_ratio, rel=1e-6)
    beyond = np.linspace(p, 1, 500)[1:-1]
    assert np.all(log_likelihood_ratio(errors, n, beyond, 1.5 + log(1 / DELTA)) > log(1 / DELTA) + log_ratio)
    assert drawn_bound(n, 0.0, n) == 1


def test_drawn_bound_holds_for_a_posterior_that_follows_the_rows():
    x, y, best = fitted_thresholds()
    scale = 0.2
    t = best + scale * np.random.default_rng(1).normal(size=SAMPLES)
    log_ratio = (t**2 - (t - best) ** 2) / (2 * scale**2)
    bound = drawn_bound(np.sum(np.sign(x - t[:, None]) != y, axis=1), log_ratio, 100, DELTA)
    assert np.mean(true_error(t) > bound) <= DELTA
    assert np.mean(bound - true_error(t)) < 0.13


def test_stability_bound():
    assert stability_bound(0.1, 400, 0.0, DELTA) == pytest.approx(0.1 + sqrt(1 / (2 * 400 * DELTA)))
    assert stability_bound(0.1, 400, 0.01, DELTA) == pytest.approx(0.1 + sqrt((1 + 6 * 4) / (2 * 400 * DELTA)))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: holdout_bound(5, 4), "errors"),
        (lambda: holdout_bound(0, 0), "n"),
        (lambda: holdout_bound(0, 9, weight=1.1), "weight"),
        (lambda: holdout_bound(0, 9, weight=-0.1), "weight"),
        (lambda: holdout_bound(0, 9, delta=1.0), "delta"),
        (lambda: path_weights(3, 4), "preferred"),
        (lambda: path_weights(3, -1), "preferred"),
        (lambda: path_weights(3, 0, 1.1), "share"),
        (lambda: path_weights(3, 0, 0.0), "share"),
        (lambda: pac_bayes_bound(1.1, 1.0, 9), "gibbs"),
        (lambda: pac_bayes_bound(-0.1, 1.0, 9), "gibbs"),
        (lambda: pac_bayes_bound(0.1, -1.0, 9), "divergence"),
        (lambda: pac_bayes_bound(0.1, 1.0, 0), "n"),
        (lambda: drawn_bound(10, 1.0, 9), "errors"),
        (lambda: drawn_bound(1, 1.0, 9, nats=-0.1), "nats"),
        (lambda: gibbs_error([1.0], 0.0), "scale"),
        (lambda: stability_bound(-0.1, 9, 0.0), "left_out"),
        (lambda: stability_bound(0.1, 9, -0.1), "change"),
        (lambda: stability_bound(0.1, 0, 0.1), "n"),
    ],
)
def test_arguments_out_of_range_are_named(call, name):
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        call()


def test_certificates_broadcast():
    errors, n = np.arange(3), np.array([[10], [100]])
    assert holdout_bound(errors, n).shape == (2, 3)
    assert pac_bayes_bound(errors / 10, 1.0, n).shape == (2, 3)
    assert drawn_bound(errors, 1.0, n).shape == (2, 3)
    assert np.ndim(drawn_bound(1, 1.0, 10)) == np.ndim(pac_bayes_bound(0.1, 1.0, 10)) == 0


def test_folds_have_errors_and_sizes():
    for errors, sizes in (([1, 2], [10]), ([1], [10, 10]), ([], [])):
        with pytest.raises(ValueError, match=f"{len(errors)} errors and {len(sizes)} sizes"):
            cross_bound(errors, sizes)
    assert cross_bound([3, 4], 10) == cross_bound([3, 4], [10, 10])


# ---------------------------------------------------------------------------------------------- mean losses

DRAWS = {  # name -> draw and mean
    "coin": (lambda rng, size: (rng.random(size) < 0.15) * 1.0, 0.15),
    "rare": (lambda rng, size: (rng.random(size) < 0.02) * 1.0, 0.02),
    "narrow": (lambda rng, size: rng.beta(2, 8, size), 0.2),
    "skewed": (lambda rng, size: rng.beta(0.1, 0.9, size), 0.1),
    "uniform": (lambda rng, size: rng.random(size), 0.5),
}


def owned(losses, m, delta):
    """What is owned after all rows, bet by bet."""
    n, wealth, seen, squares = len(losses), 1.0, [0.5], [0.25]
    for loss in losses:
        bet = np.sqrt(2 * np.log(1 / delta) / (n * np.mean(squares)))
        wealth *= 1 + min(bet, 0.75 / (1 - m)) * (m - loss)
        seen.append(loss)
        squares.append((loss - np.mean(seen)) ** 2)
    return wealth


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("delta", [0.05, 0.005])
def test_loss_bound_is_the_bet_written_out(name, delta):
    losses = DRAWS[name][0](np.random.default_rng(0), 60)
    for weight in (1.0, 0.3):
        bound = loss_bound(losses, delta, weight=weight)
        assert owned(losses, bound - 1e-9, weight * delta) <= 1 / (weight * delta)
        assert owned(losses, min(bound + 1e-9, 1 - 1e-12), weight * delta) >= (1 - 1e-5) / (weight * delta)


@pytest.mark.parametrize("name", DRAWS)
def test_loss_bound_fails_no_more_often_than_it_says(name):
    draw, mean = DRAWS[name]
    losses = draw(np.random.default_rng(1), (1000, 60))
    assert np.mean(loss_bound(losses, 0.2) < mean) <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 1000)


@pytest.mark.parametrize(
    ("name", "n", "most"), [("narrow", 400, 0.018), ("uniform", 400, 0.037), ("skewed", 400, 0.033)]
)
def test_loss_bound_is_not_slack(name, n, most):
    """At most 1.8 times the normal approximation; Hoeffding's inequality has 0.061."""
    draw, mean = DRAWS[name]
    assert np.mean(loss_bound(draw(np.random.default_rng(3), (200, 400)))) - mean < most


def test_loss_bounds_of_several_models_and_wrong_arguments():
    losses = np.random.default_rng(4).random((3, 50))
    weights = np.array([0.9, 0.05, 0.05])
    each = [loss_bound(one, weight=weight) for one, weight in zip(losses, weights, strict=True)]
    np.testing.assert_allclose(loss_bound(losses, weight=weights), each)
    assert loss_bound(np.ones(10)) == 1
    for wrong in ([0.5, 1.5], [-0.1], [], 0.3):
        with pytest.raises(ValueError, match="losses"):
            loss_bound(wrong)
    with pytest.raises(ValueError, match="weight"):
        loss_bound(losses, weight=2.0)
