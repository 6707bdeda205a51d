"""Losses of regression in other units: y + c, s * y, and the objective that a number for `alpha` stands for."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor, PursuitSearchCV, losses
from kernelpursuit.losses import quantile
from kernelpursuit.math.medians import spreads
from kernelpursuit.parameters import tolerance, validation
from tests.pairwise import pairwise

SHARES = {"absolute_error": 0.5, "low": 0.1, "high": 0.9}
LOSSES = {
    "huber": {"loss": "huber"},
    "absolute_error": {"loss": "absolute_error"},
    "low": {"loss": quantile(0.1)},
    "high": {"loss": quantile(0.9)},
}
RULES = {
    "auto": {},
    "number": {"alpha": 0.1},
    "prefit": {"variant": "prefit"},
    "basic": {"variant": "basic", "alpha": 0.1},
    "chosen": {"n_atoms": "auto", "stop": validation(patience=3)},
    "certificate": {"stop": "certificate", "random_state": 0},
    "bound": {"stop": "bound"},
    "candidates": {"candidates": 20, "random_state": 0, "alpha": 0.3},
}


def rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_t(2, size=n)


def fitted(loss, rule, X, y, weights=None, n_atoms=5):
    return KMPRegressor(**{"n_atoms": n_atoms, **LOSSES[loss], **RULES[rule]}).fit(X, y, weights)


def literal_loss(loss, y, weights, residuals):
    """In the units of y; for quantiles rounded off as narrowly as a fit may do it, by its residuals."""
    if loss == "huber":
        return losses.huber(1.345 * spreads(y[:, None], weights)[0])
    return losses.quantile(SHARES[loss], 0.025 * spreads(residuals[:, None], weights)[0])


@pytest.mark.filterwarnings("ignore:the share of training rows")  # few steps, and not all of them refitted
@pytest.mark.parametrize(
    "rule, offset, loss", pairwise(RULES, [-3.0, 2000.0, 1e6], ["huber", "absolute_error", "high"])
)
def test_a_constant_that_is_added_to_y_is_added_to_predictions(loss, rule, offset):
    X, y = rows()
    model, moved = fitted(loss, rule, X, y), fitted(loss, rule, X, y + offset)
    np.testing.assert_array_equal(moved.support_, model.support_)
    np.testing.assert_allclose(moved.predict(X) - offset, model.predict(X), atol=1e-6)
    np.testing.assert_allclose(moved.alpha_, model.alpha_, rtol=1e-6)
    np.testing.assert_allclose(moved.path_.values("loss"), model.path_.values("loss"), rtol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "low"])
def test_single_precision_beside_y_far_from_zero(loss):
    X, y = rows()
    X = X.astype(np.float32)
    model, moved = (fitted(loss, "auto", X, y + offset) for offset in (0.0, 1e6))
    np.testing.assert_array_equal(moved.support_, model.support_)
    np.testing.assert_allclose(moved.alpha_, model.alpha_, rtol=1e-3)
    np.testing.assert_allclose(moved.dual_coef_, model.dual_coef_, atol=1e-3)


@pytest.mark.filterwarnings("ignore:the share of training rows")
@pytest.mark.parametrize(
    "rule, scale, loss",
    pairwise(["auto", "prefit", "chosen", "certificate"], [1e-6, 0.37, 1e6], ["huber", "absolute_error", "low"]),
)
def test_under_auto_a_factor_of_y_is_one_of_predictions(loss, rule, scale):
    X, y = rows()
    model, larger = fitted(loss, rule, X, y), fitted(loss, rule, X, scale * y)
    np.testing.assert_array_equal(larger.support_, model.support_)
    np.testing.assert_allclose(larger.predict(X) / scale, model.predict(X), atol=1e-6)
    degree = 2 if loss == "huber" else 1
    np.testing.assert_allclose(larger.alpha_, model.alpha_ * scale ** (degree - 2), rtol=1e-6)
    np.testing.assert_allclose(larger.path_.values("loss"), model.path_.values("loss") * scale**degree, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 37.0, 1e6])
def test_under_auto_a_factor_of_counts_is_one_of_predictions(scale):
    X, y = rows()
    counts = np.random.default_rng(1).poisson(np.exp(1 + y / 2)).astype(float)
    model, larger = (KMPRegressor(6, loss="poisson").fit(X, factor * counts) for factor in (1, scale))
    np.testing.assert_array_equal(larger.support_, model.support_)
    np.testing.assert_allclose(larger.predict(X) / scale, model.predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    "loss, weighted, units, intercept",
    pairwise(LOSSES, [False, True], [(0, 1), (3000, 1), (0, 1e-3), (-1e4, 1e3)], [True, False]),
)
def test_a_number_for_alpha_is_the_penalty_in_the_units_of_y(loss, weighted, units, intercept):
    X, y = rows()
    offset, scale = units if intercept else (0, units[1])
    y = scale * y + offset
    weights = np.random.default_rng(1).uniform(0.5, 3, size=len(y)) if weighted else np.ones(len(y))
    alpha = 0.1 if loss == "huber" else 0.1 / scale
    model = KMPRegressor(5, alpha=alpha, stop=tolerance(0), fit_intercept=intercept, **LOSSES[loss])
    model.fit(X, y, weights if weighted else None)
    K, S = (rbf_kernel(A, model.support_vectors_, gamma=model.gamma_) for A in (X, model.support_vectors_))
    form = literal_loss(loss, y, weights, y - model.predict(X))

    def objective(v):
        c, f = v[:-1] * scale, K @ v[:-1] * scale + v[-1] * scale + offset
        slope = weights * form.gradient(y, f)
        value = weights @ form.value(y, f) + alpha * c @ S @ c
        return value, np.r_[slope @ K + 2 * alpha * S @ c, intercept * slope.sum()] * scale

    start = np.r_[model.dual_coef_ / scale, (model.intercept_ - offset) / scale]
    reached, slope = objective(start)
    best = minimize(objective, np.zeros(6), jac=True, method="BFGS")
    far = 1e-9
    if loss == "huber":
        assert np.max(np.abs(slope)) < 1e-5 * reached  # it is convex: where the slope is 0 there is the least
    else:  # in a fit it is rounded off within twice the width, or within the same
        far = 0.01
    assert reached <= best.fun * (1 + far)
    np.testing.assert_allclose(model.path_.values("loss")[-1], reached / weights.sum(), rtol=far)
    assert model.alpha_ == alpha


@pytest.mark.parametrize("loss", ["absolute_error", "high"])
def test_a_number_for_alpha_weighs_as_much_more_as_y_is_larger(loss):
    X, y = rows()
    for scale in (1e-3, 700.0):
        larger = KMPRegressor(8, alpha=0.3 / scale, **LOSSES[loss]).fit(X, scale * y)
        model = KMPRegressor(8, alpha=0.3, **LOSSES[loss]).fit(X, y)
        np.testing.assert_array_equal(larger.support_, model.support_)
        np.testing.assert_allclose(larger.predict(X) / scale, model.predict(X), atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "low"])
def test_several_targets_move_one_by_one(loss):
    X, y = rows()
    both, offsets = np.c_[y, np.cos(X[:, 0]) + y / 5], np.array([1e5, -20.0])
    model, moved = (KMPRegressor(6, **LOSSES[loss]).fit(X, targets) for targets in (both, both + offsets))
    np.testing.assert_array_equal(moved.support_, model.support_)
    np.testing.assert_allclose(moved.predict(X) - offsets, model.predict(X), atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_a_search_chooses_alike_in_all_units(loss):
    X, y = rows(60)
    search = PursuitSearchCV(
        KMPRegressor(**LOSSES[loss]), max_atoms=6, gammas=[0.3, 1.0], cv=2, one_standard_error=True
    )
    model, other = (clone(search).fit(X, targets) for targets in (y, 700 * y + 1e5))
    assert other.best_params_ == model.best_params_
    np.testing.assert_allclose((other.predict(X) - 1e5) / 700, model.predict(X), atol=1e-6)


@pytest.mark.parametrize("alpha", ["auto", 0.02])
def test_going_on_keeps_ridge_and_path(alpha, tmp_path):
    X, y = rows()
    y = 300 + 7 * y
    whole = KMPRegressor(8, loss="absolute_error", alpha=alpha).fit(X, y)
    alpha = whole.alpha_ if alpha == "auto" else alpha
    model = KMPRegressor(3, loss="absolute_error", alpha=alpha, resume=True).fit(X, y)
    model.set_params(n_atoms=8).fit(X, y)
    np.testing.assert_array_equal(model.support_, whole.support_)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-7)
    np.testing.assert_allclose(model.path_.values("loss"), whole.path_.values("loss"), rtol=1e-7)
    kept = KMPRegressor(8, loss="absolute_error", alpha=alpha, resume=tmp_path / "fit").fit(X, y)
    assert kept.alpha_ == whole.alpha_
    np.testing.assert_allclose(kept.predict(X), whole.predict(X), rtol=1e-7)
    np.testing.assert_allclose(
        whole.truncate(3).predict(X),
        KMPRegressor(3, loss="absolute_error", alpha=alpha).fit(X, y).predict(X),
        rtol=1e-7,
    )


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_how_far_an_outlier_is_does_not_matter(loss):
    X, y = rows()
    near, far = (KMPRegressor(5, alpha=0.1, **LOSSES[loss]).fit(X, np.r_[size, y[1:]]) for size in (1e3, 1e9))
    np.testing.assert_array_equal(near.support_, far.support_)
    np.testing.assert_allclose(near.predict(X), far.predict(X), atol=1e-3)
