"""Where a model cut to k steps is that of a fit with k atoms, and where it is not."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import KMPClassifier, KMPRegressor, SparseKernelFDA

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2))
y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=80)
FIXED = [
    *(
        KMPRegressor(12, alpha=alpha, variant=variant)
        for alpha in (0, 0.1)
        for variant in ("prefit", "backfit", "basic")
    ),
    KMPRegressor(12, alpha=0.1, loss="huber"),
    KMPRegressor(12, alpha=0.1, loss="huber"),
    KMPRegressor(12, alpha=0.1, candidates=9, random_state=0),
    KMPRegressor(12, alpha=0.1, kernel="sigmoid"),
    KMPRegressor(12, variant="basic"),  # for which "auto" is 0
    KMPClassifier(12, alpha=0.1),
    KMPClassifier(12, alpha=0.1, loss="log_loss"),
    SparseKernelFDA(12),
]


def cut_and_fitted(model, k):
    target = y if isinstance(model, KMPRegressor) else y > 0
    long, short = (clone(model).set_params(n_atoms=n).fit(X, target) for n in (12, k))
    return long.truncate(k), short


@pytest.mark.parametrize("model", FIXED, ids=str)
@pytest.mark.parametrize("k", [1, 7])
def test_with_a_ridge_that_is_given_it_is_the_same_model(model, k):
    cut, fitted = cut_and_fitted(model, k)
    np.testing.assert_array_equal(cut.support_, fitted.support_)
    np.testing.assert_allclose(cut.dual_coef_, fitted.dual_coef_, rtol=1e-8)


def test_under_auto_the_ridge_is_that_of_the_whole_path():
    cut, fitted = cut_and_fitted(KMPRegressor(), 4)
    np.testing.assert_array_equal(cut.support_, fitted.support_)
    assert cut.alpha_ == clone(KMPRegressor(12)).fit(X, y).alpha_ != fitted.alpha_
    same = KMPRegressor(4, alpha=cut.alpha_).fit(X, y)
    assert np.array_equal(same.support_, cut.support_)  # here: it takes part in the choice
    np.testing.assert_allclose(cut.predict(X), same.predict(X), atol=1e-8)
