"""Special cases that are other known methods."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import orthogonal_mp
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor
from kernelpursuit.parameters import tolerance
from tests.problems import data, quiet_fit


@pytest.mark.parametrize("seed", range(5))
def test_backfit_is_orthogonal_matching_pursuit(seed):
    X, y = data(60, seed=seed)
    K = rbf_kernel(X, gamma=0.5)
    coef = orthogonal_mp(K / np.linalg.norm(K, axis=0), y, n_nonzero_coefs=10)
    model = KMPRegressor(10, variant="backfit", gamma=0.5, fit_intercept=False, alpha=0.0).fit(X, y)
    assert set(model.support_) == set(np.flatnonzero(coef))
    np.testing.assert_allclose(model.predict(X), (K / np.linalg.norm(K, axis=0)) @ coef, atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_all_atoms_are_kernel_ridge(seed, variant, alpha):
    X, Y = data(40, seed=seed, targets=2)
    w = np.random.default_rng(seed).uniform(0.5, 2, len(X))
    model = KMPRegressor(len(X), alpha=alpha, gamma=0.3, fit_intercept=False, stop=tolerance(0), variant=variant)
    test = data(20, seed=9)[0]
    for weights in (None, w):
        expected = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.3).fit(X, Y, sample_weight=weights).predict(test)
        got = quiet_fit(clone(model), X, Y, sample_weight=weights).predict(test)
        np.testing.assert_allclose(got, expected, atol=1e-6 * np.abs(Y).max())
