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


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize("power", [-1000, -700, 700, 990])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.1}, {"loss": "huber"}], ids=str)
@pytest.mark.parametrize("one_standard_error", [False, True])
def test_a_search_chooses_alike_for_any_size_of_y(options, one_standard_error, power):
    """Squares of such targets are 0 or infinite: where they were the scores, the first width and one atom won."""
    X, y = data(80)
    y = y / np.abs(y).max()
    how = {"max_atoms": 12, "cv": 3, "gammas": [0.01, 0.1, 1.0], "one_standard_error": one_standard_error}
    model = PursuitSearchCV(KMPRegressor(**options), **how)
    one = clone(model).fit(X, y)
    with pytest.warns(UserWarning, match=r"best_score_ and cv_results_ are -(0|inf)"):
        two = clone(model).fit(X, y * 2.0**power)
    assert one.best_params_ == two.best_params_ and one.best_params_["n_atoms"] > 1
    assert_same_model(one.best_estimator_, two.best_estimator_, one.predict(X), two.predict(X) / 2.0**power)
    np.testing.assert_array_equal(one.cv_results_["rank_test_score"], two.cv_results_["rank_test_score"])
    np.testing.assert_allclose(two.best_estimator_.dual_coef_ / 2.0**power, one.best_estimator_.dual_coef_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_search_has_scores_in_the_units_of_y():
    X, y = data(80)
    one, two = (
        PursuitSearchCV(KMPRegressor(), max_atoms=5, cv=3, gammas=[0.1]).fit(X, y * size) for size in (1.0, 2.0**400)
    )
    np.testing.assert_allclose(two.best_score_ / 2.0**800, one.best_score_)
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        np.testing.assert_allclose(two.cv_results_[name] / 2.0**800, one.cv_results_[name])
