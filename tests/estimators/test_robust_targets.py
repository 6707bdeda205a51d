"""Losses that depend on the spread of the targets: ties, constants, signs, several targets."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor

from kernelpursuit import KMPRegressor, PursuitSearchCV
from kernelpursuit.criteria import gradient
from kernelpursuit.losses import quantile
from kernelpursuit.math.medians import spreads, weighted_median

ROBUST = [{"loss": "huber"}, {"loss": "absolute_error"}, *({"loss": quantile(q)} for q in (0.1, 0.5, 0.9))]


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_t(2, size=n)


@pytest.mark.parametrize("constant", [1e6, -5.0, 0.0])
@pytest.mark.parametrize("loss", ROBUST)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_target_is_predicted(loss, constant, dtype):
    X, y = rows(40)
    y, weights = np.full(40, constant, dtype), np.ones(40)
    y[0], weights[0] = 7, 0  # which is absent
    model = KMPRegressor(3, **loss).fit(X.astype(dtype), y, weights)
    np.testing.assert_allclose(model.predict(X[:3].astype(dtype)), y[1], rtol=1e-6)


@pytest.mark.parametrize("loss", ROBUST)
def test_a_constant_among_targets_is_predicted_and_changes_nothing(loss):
    X, y = rows(100)
    both = KMPRegressor(3, alpha=0.1, **loss).fit(X, np.c_[y, np.full(100, 3.0)]).predict(X)
    np.testing.assert_allclose(both[:, 1], 3.0, rtol=1e-9)
    np.testing.assert_allclose(both[:, 0], KMPRegressor(3, alpha=0.1, **loss).fit(X, y).predict(X), atol=1e-6)


def test_a_search_predicts_a_constant():
    X, _ = rows(40)
    model = PursuitSearchCV(KMPRegressor(loss=quantile(0.9)), max_atoms=3, cv=2).fit(X, np.full(40, 5.0))
    np.testing.assert_allclose(model.predict(X), 5.0)


def test_a_target_in_small_units_has_its_own_quantile():
    X, y = rows(300)
    scales = np.array([1.0, 1000.0, 2000.0, 3000.0])
    model = KMPRegressor(0, loss=quantile(0.9)).fit(X, y[:, None] * scales)
    alone = KMPRegressor(0, loss=quantile(0.9)).fit(X, y).intercept_
    np.testing.assert_allclose(model.intercept_ / scales, alone, rtol=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["ties", "two values", "one outlier"])
def test_the_constant_of_tied_targets_is_a_quantile(kind, share):
    X, y = rows(401)
    y = {
        "ties": np.where(np.arange(401) % 4 < 3, 100.0, 100 + y),
        "two values": (np.arange(401) % 4 == 0).astype(float),
        "one outlier": np.where(np.arange(401) == 0, 1e3, 1.0),
    }[kind]
    expected = QuantileRegressor(quantile=share, alpha=0).fit(np.zeros((401, 1)), y).intercept_
    model = KMPRegressor(0, loss=quantile(share)).fit(X, y)
    assert abs(model.intercept_ - expected) <= 0.05 * spreads(y[:, None], None)[0] < 0.01


@pytest.mark.parametrize("n", [30, 31])
@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
@pytest.mark.parametrize("alpha", ["auto", 0.1])
def test_a_change_of_sign_changes_the_sign(n, loss, alpha):
    X, y = rows(n)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=n)
    for given in ({}, {"sample_weight": np.r_[weights[: n // 2], weights[: n - n // 2]]}):
        model, other = (KMPRegressor(4, loss=loss, alpha=alpha).fit(X, one, **given) for one in (y, -y))
        np.testing.assert_array_equal(model.predict(X), -other.predict(X))


def test_repeated_rows_are_rows_with_weights():
    X, y = rows(30)
    counts = np.random.default_rng(1).integers(1, 4, size=30)
    for loss in ROBUST:
        weighted = KMPRegressor(4, alpha=0, **loss).fit(X, y, sample_weight=counts)
        repeated = KMPRegressor(4, alpha=0, **loss).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)


def test_a_weighted_median_is_that_of_repeated_values():
    rng = np.random.default_rng(0)
    for size in range(1, 12):
        values, counts = rng.integers(0, 9, size=size).astype(float), rng.integers(1, 5, size=size)
        assert weighted_median(values, counts * 0.1) == np.median(np.repeat(values, counts))


def price_and_rate(seed, n=200):
    """Two targets that depend on different inputs, the second in units that are smaller by seven digits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    price = 2e5 * np.exp(0.5 * np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n))
    return X, np.c_[price, 0.03 + 0.01 * np.cos(2 * X[:, 1]) + 0.003 * rng.normal(size=n)]


@pytest.mark.parametrize("alpha", ["auto", 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_target_in_small_units_is_fitted_nearly_as_well_as_alone(seed, alpha):
    X, Y = price_and_rate(seed)
    options = {"n_atoms": 20, "loss": "absolute_error", "alpha": alpha}
    both, alone = (KMPRegressor(**options).fit(X, y).predict(X) for y in (Y, Y[:, 1]))
    errors = [np.mean(np.abs(Y[:, 1] - one)) for one in (both[:, 1], alone)]
    assert errors[0] < 1.3 * errors[1]  # the atoms serve both


@pytest.mark.parametrize("loss", ROBUST)
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 0.1, 1e8])
def test_each_target_is_fitted_to_the_atoms_as_if_it_were_alone(scale, loss):
    X, Y = price_and_rate(0, 100)
    Y = np.c_[Y[:, 0] / 1e5, Y[:, 1] * 100 * scale]
    both = KMPRegressor(8, alpha=0.0, **loss).fit(X, Y)
    for t in range(2):
        alone = KMPRegressor(8, alpha=0.0, centers=both.support_vectors_, gamma=both.gamma_, **loss).fit(X, Y[:, t])
        spread = np.std(Y[:, t])
        np.testing.assert_allclose(both.predict(X)[:, t] / spread, alone.predict(X) / spread, atol=0.02)


@pytest.mark.parametrize("loss", ROBUST[1:])
@pytest.mark.parametrize("scale", [1e-8, 100.0])
def test_a_target_in_other_units_has_the_ridge_of_these(scale, loss):
    X, y = rows(100)
    model = KMPRegressor(8, **loss).fit(X, np.c_[y, scale * y])
    assert model.alpha_[1] == pytest.approx(model.alpha_[0] / scale, rel=1e-6)  # of weights squared
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted[:, 1] / scale, predicted[:, 0], atol=1e-4)


def test_weights_that_do_not_minimise_the_loss_are_named(monkeypatch):
    """With an optimiser that gives up at once, until the fit is over."""
    X, Y = price_and_rate(0, 60)
    unconverged = gradient.Gradient.unconverged

    def impatient(*given, options, **more):
        return minimize(*given, options=options | {"maxiter": 1}, **more)

    def asked(criterion):
        monkeypatch.setattr(gradient, "minimize", minimize)
        return unconverged(criterion)

    monkeypatch.setattr(gradient, "minimize", impatient)
    monkeypatch.setattr(gradient.Gradient, "unconverged", asked)
    with pytest.warns(ConvergenceWarning, match="do not minimise the loss of column [01] of y"):
        KMPRegressor(15, loss="absolute_error", alpha=0.0).fit(X, Y)
