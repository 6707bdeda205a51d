"""Shifted and scaled inputs, targets, kernels and weights give the same model."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor, PursuitSearchCV
from tests.problems import data

SCALED = [{}, {"variant": "backfit"}, {"variant": "basic"}, {"loss": "huber"}, {"n_atoms": "auto"}]


def grid(X):
    """X rounded to multiples of 2^-10: shifts by 1e6 are exact."""
    return np.round(X * 1024) / 1024


def assert_same_model(one, two, f_one, f_two):
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_allclose(f_one, f_two, rtol=1e-8, atol=1e-8 * np.abs(f_two).max())


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_shift_of_x(options, kernel):
    X, y = data()
    X = grid(X)
    model = KMPRegressor(**{"n_atoms": 10, "kernel": kernel} | options)
    here, far = clone(model).fit(X, y), clone(model).fit(X + 1e6, y)
    assert_same_model(here, far, here.predict(X), far.predict(X + 1e6))


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("power", [-40, 3, 60])
def test_scale_of_x_with_gamma(options, power):
    X, y = data()
    for kernel, exponent in (("rbf", 2), ("laplacian", 1), ("poly", 2)):
        model = KMPRegressor(**{"n_atoms": 10, "gamma": 0.25, "kernel": kernel} | options)
        one = clone(model).fit(X, y)
        two = clone(model).set_params(gamma=0.25 * 2.0 ** (-exponent * power)).fit(X * 2.0**power, y)
        assert_same_model(one, two, one.predict(X), two.predict(X * 2.0**power))


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("power", [-60, 5, 300])
def test_scale_of_y(options, power):
    X, y = data()
    model = KMPRegressor(**{"n_atoms": 10} | options)
    one, two = clone(model).fit(X, y), clone(model).fit(X, y * 2.0**power)
    assert_same_model(one, two, one.predict(X), two.predict(X) * 2.0**-power)
    np.testing.assert_allclose(one.path_.values("loss"), two.path_.values("loss") * 4.0**-power, rtol=1e-8)


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("power", [-60, 5, 300])
def test_scale_of_a_precomputed_kernel(options, power):
    X, y = data()
    K = rbf_kernel(X)
    model = KMPRegressor(**{"n_atoms": 10, "kernel": "precomputed"} | options)
    one, two = clone(model).fit(K, y), clone(model).fit(K * 2.0**power, y)
    assert_same_model(one, two, one.predict(K), two.predict(K * 2.0**power))


def test_scale_of_weights():
    X, y = data()
    w = np.random.default_rng(0).uniform(0.5, 2, len(X))
    for options in ({}, {"variant": "basic"}, {"loss": "huber"}):
        model = KMPRegressor(8, alpha=0.0, **options)
        one, two = clone(model).fit(X, y, sample_weight=w), clone(model).fit(X, y, sample_weight=w * 2.0**20)
        np.testing.assert_array_equal(one.support_, two.support_)
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_search_refuses_targets_whose_squares_are_no_numbers(size):
    """Their scores would be 0 or infinite: the first width and one atom would win."""
    X, y = data(80)
    with pytest.raises(ValueError, match="y has values up to"):
        PursuitSearchCV(KMPRegressor(), max_atoms=3, cv=3).fit(X, y / np.abs(y).max() * size)
