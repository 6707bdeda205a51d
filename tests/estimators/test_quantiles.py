"""Quantiles: how many rows lie below the predictions, however well the target is predicted."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import KMPRegressor, PursuitSearchCV
from kernelpursuit.losses import quantile
from kernelpursuit.parameters import basic, validation
from tests.pairwise import pairwise

NOISES = {"normal": np.random.Generator.normal, "exponential": np.random.Generator.exponential}
MODELS = {
    "plain": {},
    "prefit": {"variant": "prefit"},
    "auto": {"n_atoms": "auto", "stop": validation(patience=3)},
    "no ridge": {"alpha": 0},
}


def rows(noise="normal", size=0.03, n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 1))
    return X, np.sin(X[:, 0]) + NOISES[noise](rng, scale=size, size=n)


def share_below(model, X, y, weights=None):
    return np.average(y <= model.predict(X), axis=0, weights=weights)


@pytest.mark.parametrize(
    "share, size, noise, options",
    pairwise([0.05, 0.1, 0.5, 0.9, 0.95], [0.01, 0.03, 0.1, 1.0], NOISES, MODELS),
)
def test_the_share_of_rows_below_is_the_one_asked_for(share, size, noise, options):
    X, y = rows(noise, size)
    model = KMPRegressor(**{"n_atoms": 12, "gamma": 0.5, **MODELS[options]}, loss=quantile(share))
    assert abs(share_below(model.fit(X, y), X, y) - share) < 0.02


@pytest.mark.parametrize("size", [0.01, 0.1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_half_of_the_rows_lie_below_medians_of_skewed_noise(size, dtype):
    X, y = rows("exponential", size)
    X = X.astype(dtype)
    assert abs(share_below(KMPRegressor(12, gamma=0.5, loss="absolute_error").fit(X, y), X, y) - 0.5) < 0.02


def test_each_target_has_its_own_share():
    X, y = rows(size=0.01)
    targets = np.c_[y, 300 * rows(size=0.5)[1], 7 + 0 * y]
    model = KMPRegressor(12, gamma=0.5, loss=quantile(0.9)).fit(X, targets)
    np.testing.assert_allclose(share_below(model, X, targets)[:2], 0.9, atol=0.02)


def test_rows_with_weights_count_by_them():
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0, 2, size=len(y)) * (1 + 9 * (X[:, 0] > 1))
    model = KMPRegressor(12, gamma=0.5, loss=quantile(0.1)).fit(X, y, weights)
    assert abs(share_below(model, X, y, weights) - 0.1) < 0.02


def test_every_stage_of_a_path_has_the_share():
    X, y = rows()
    model = KMPRegressor(10, gamma=0.5, alpha=0, loss=quantile(0.9)).fit(X, y)
    for values in model.staged_predict(X):
        assert abs(np.mean(y <= values) - 0.9) < 0.03


def test_a_loss_without_a_width_is_that_of_the_name():
    X, y = rows()
    named, given = (
        KMPRegressor(8, alpha=0, **loss).fit(X, y).predict(X)
        for loss in ({"loss": quantile(0.9)}, {"loss": quantile(0.9, None)})
    )
    np.testing.assert_allclose(given, named, atol=1e-6)


def test_path_losses_do_not_rise_as_the_rounding_narrows():
    X, y = rows()
    path = KMPRegressor(12, gamma=0.5, alpha=0, loss=quantile(0.9)).fit(X, y).path_
    assert np.all(np.diff(path.values("loss")) <= 1e-9)


def test_without_noise_the_fit_goes_on():
    X = np.linspace(-3, 3, 200)[:, None]
    model = KMPRegressor(15, gamma=0.5, alpha=0, loss=quantile(0.9)).fit(X, np.sin(X[:, 0]))
    assert np.max(np.abs(model.predict(X) - np.sin(X[:, 0]))) < 1e-3


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_search_is_scored_by_the_loss_without_rounding(share):
    X, y = rows(n=300)
    model = PursuitSearchCV(KMPRegressor(loss=quantile(share)), max_atoms=10, gammas=[0.5], cv=2).fit(X, y)
    assert abs(share_below(model, X, y) - share) < 0.02
    half = len(y) // 2
    found = []
    for train, test in ((slice(half, None), slice(half)), (slice(half), slice(half, None))):
        part = KMPRegressor(10, gamma=0.5, loss=quantile(share)).fit(X[train], y[train])
        r = y[test] - list(part.staged_predict(X[test]))[-1]
        found.append(-2 * np.mean(np.maximum(share * r, (share - 1) * r)))
    np.testing.assert_allclose(model.cv_results_["mean_test_score"][-1], np.mean(found), rtol=1e-3)


@pytest.mark.parametrize("options", [{"variant": "basic"}, {"fit_intercept": False, "gamma": 50.0}])
def test_a_share_that_is_another_is_said(options):
    X, y = rows()
    model = KMPRegressor(3, loss=quantile(0.9), **options)
    with pytest.warns(ConvergenceWarning, match=next(iter(options))):
        model.fit(X, y - 5)
    assert abs(share_below(model, X, y - 5) - 0.9) > 0.05


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("sigma", [2, 3, 5, 8])
def test_low_quantiles_of_skewed_noise(sigma, share, sign):
    """Rows are much closer to each other there than they are spread; once none of them lay below, without a word."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(1000, 1))
    y = sign * np.exp(X[:, 0] + sigma * rng.normal(size=1000))
    model = KMPRegressor(4, loss=quantile(share if sign > 0 else 1 - share))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        below = share_below(model.fit(X, y), X, y)
    off = abs((below if sign > 0 else 1 - below) - share)
    is_said = any("share of training rows below" in str(one.message) for one in said)
    assert off <= 0.2 * share + 0.006 or (sigma > 3 and is_said)
    assert not is_said or off > 0.4 * share


def test_a_small_share_that_is_another_is_said():
    """By its size: no row below is far from a twentieth of them."""
    X, y = rows()
    model = KMPRegressor(3, loss=quantile(0.04), variant=basic(0.5))
    with pytest.warns(ConvergenceWarning, match="share of training rows below.*variant='basic'"):
        model.fit(X, y)
    assert 0.02 < abs(share_below(model, X, y) - 0.04) < 0.05
