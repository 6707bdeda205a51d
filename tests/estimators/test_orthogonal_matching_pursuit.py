"""What the guide says of scikit-learn's orthogonal matching pursuit."""

import numpy as np
import pytest
from sklearn.linear_model import OrthogonalMatchingPursuit
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_columns_of_equal_length_are_chosen_alike(seed, equal, fit_intercept):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 2))
    y = 3 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=80)
    columns = rbf_kernel(X, gamma=0.7)
    if equal:
        columns = columns / (columns.std(axis=0) if fit_intercept else np.linalg.norm(columns, axis=0))
    theirs = OrthogonalMatchingPursuit(n_nonzero_coefs=10, fit_intercept=fit_intercept).fit(columns, y)
    ours = KMPRegressor(10, variant="backfit", kernel="precomputed", alpha=0.0, fit_intercept=fit_intercept)
    same = np.sort(ours.fit(columns, y).support_).tolist() == np.flatnonzero(theirs.coef_).tolist()
    assert same == equal
    if equal:
        np.testing.assert_allclose(ours.predict(columns), theirs.predict(columns), rtol=1e-9)
