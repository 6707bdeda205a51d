"""Stages of a path, truncated models and shorter fits are one and the same; targets share the atoms."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor
from kernelpursuit.parameters import basic, columns
from tests.problems import data

PATHS = [
    KMPRegressor(9, alpha=0.0),
    KMPRegressor(9, variant="backfit", alpha=0.1),
    KMPRegressor(9, variant=basic(0.5)),
    KMPRegressor(9, loss="huber", alpha=0.0),
    KMPRegressor(9, kernel=["rbf", "linear", columns(np.sin)], fit_intercept=False, alpha=0.0),
    KMPRegressor(9, candidates=10, random_state=3, alpha=0.0),
]


@pytest.mark.parametrize("model", PATHS, ids=repr)
@pytest.mark.parametrize("targets", [None, 2])
def test_stages_are_truncations_are_shorter_fits(model, targets):
    X, y = data(targets=targets)
    test = data(20, seed=9)[0]
    model = clone(model).fit(X, y)
    stages = list(model.staged_predict(test))
    assert len(stages) == len(model.path_)
    whole = model.predict(test)
    np.testing.assert_allclose(stages[-1], whole, rtol=1e-9, atol=1e-9)
    for k in (1, 2, 5, 9):
        short = model.truncate(k)
        np.testing.assert_allclose(short.predict(test), stages[k - 1], rtol=1e-9, atol=1e-9)
        fresh = clone(model).set_params(n_atoms=k).fit(X, y)
        np.testing.assert_array_equal(fresh.support_, short.support_)
        np.testing.assert_allclose(fresh.predict(test), stages[k - 1], rtol=1e-8, atol=1e-8)
        assert len(short.path_) == k and len(short.dual_coef_) == len(short.support_) == len(short.support_kernels_)
        assert len(short.path_.steps) + len(short.path_.discarded) == 9
    np.testing.assert_array_equal(model.predict(test), whole)
    assert len(model.path_) == 9
    constant = model.truncate(0).predict(test)
    assert np.ptp(constant, axis=0) == pytest.approx(0)


def test_truncate_refuses_other_numbers():
    X, y = data()
    model = KMPRegressor(4)
    with pytest.raises(NotFittedError):
        model.truncate(1)
    model.fit(X, y)
    for k in (-1, 5, 1.5, "2"):
        with pytest.raises(ValueError, match="k must be an integer from 0 to 4"):
            model.truncate(k)


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_targets_share_one_support(variant):
    X, Y = data(targets=3)
    model = KMPRegressor(7, variant=variant).fit(X, Y)
    assert model.support_.ndim == 1 and model.dual_coef_.shape == (len(model.support_), 3)
    assert model.intercept_.shape == (3,) and model.predict(X).shape == Y.shape
    K = rbf_kernel(X, X[model.support_], gamma=1 / (3 * X.var()))
    np.testing.assert_allclose(model.predict(X), K @ model.dual_coef_ + model.intercept_, rtol=1e-9)
    # one column is the same model as the vector
    column, vector = KMPRegressor(7).fit(X, Y[:, :1]), KMPRegressor(7).fit(X, Y[:, 0])
    assert column.predict(X).shape == (len(X), 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], vector.predict(X))
