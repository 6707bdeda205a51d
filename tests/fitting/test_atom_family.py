"""What the atoms are: functions, centres, lists of kernels."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from kernelpursuit import KMPRegressor
from kernelpursuit.parameters import columns
from tests.problems import data, quiet_fit

X, Y = data()
K = rbf_kernel(X)


def test_functions_join_the_dictionary():
    y = 3 * X[:, 0] ** 3 - 2 * X[:, 1] + 1
    functions = [columns(lambda X: X[:, 0] ** 3), columns(lambda X: X[:, 1:])]
    model = quiet_fit(KMPRegressor(3, kernel=functions), X, y)
    assert set(model.support_[:2]) == {0, 1} and set(model.support_kernels_) == {-1}
    np.testing.assert_allclose(model.predict(X), y, atol=1e-10)
    both = quiet_fit(KMPRegressor(5, kernel=["rbf", *functions]), X, y)
    assert {60, 61} <= set(both.support_[both.support_kernels_ == -1])
    assert len(both.support_vectors_) == np.sum(both.support_kernels_ == 0)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (X, {"kernel": []}, "kernel is an empty list"),
        (X, {"kernel": ["rbf", columns(np.sin), columns(lambda X: X[:-1])]}, "columns.*one row for each"),
        (X, {"kernel": [columns(lambda X: 1.0)]}, "columns.*one row for each"),
        (X, {"kernel": [columns(lambda X: np.zeros((len(X), 2, 2)))]}, "columns.*one row for each"),
        (X, {"kernel": [columns(lambda X: np.full(len(X), np.nan))]}, "columns.*infinite or missing"),
        (X, {"kernel": [columns(lambda X: np.full(len(X), np.inf))]}, "columns.*infinite or missing"),
        (X, {"centers": np.zeros((4, 2))}, "centers"),
        (X, {"centers": np.full((4, 3), np.nan)}, "centers"),
        (K, {"kernel": "precomputed", "centers": np.zeros((4, 60))}, "precomputed"),
        (K, {"kernel": ["precomputed", columns(np.sin)]}, "precomputed"),
        (K[:, :10], {"kernel": "precomputed"}, "square"),
    ],
)
def test_wrong_functions_and_centres_are_named(rows, options, message):
    with pytest.raises(ValueError, match=message):
        KMPRegressor(3, **options).fit(rows, Y)


@pytest.mark.parametrize("kernel", ["rbf", ["rbf", ("rbf", {"gamma": 0.1})]], ids=str)
@pytest.mark.parametrize("centers", [None, 20, "array"])
@pytest.mark.parametrize("weights", [None, np.arange(60.0) % 3], ids=["plain", "weighted"])
def test_support_points_at_the_centres(centers, kernel, weights):
    points = data(25, seed=5)[0]
    model = KMPRegressor(8, kernel=kernel, centers=points if centers == "array" else centers, random_state=1)
    model.fit(X, Y, sample_weight=weights)
    rows = points if centers == "array" else X
    np.testing.assert_array_equal(rows[model.support_ % len(rows)], model.support_vectors_)
    np.testing.assert_array_equal(model.support_ // len(rows), model.support_kernels_)


def test_more_centres_than_rows_warn_where_the_user_asked_for_them():
    with pytest.warns(UserWarning, match="centers=1000"):
        KMPRegressor(8, centers=1000).fit(X, Y)
    # as many as rows, of which validation takes a part away, are no mistake: a warning would be an error here
    assert KMPRegressor(5, centers=len(X), stop="validation", random_state=0).fit(X, Y).path_.reason == "validation"


def test_a_list_of_kernels_and_functions_by_hand():
    kernels = [("rbf", {"gamma": 2.0}), "linear", ("laplacian", {"gamma": 0.2}), lambda A, B: (1 + A @ B.T) ** 2]
    model = KMPRegressor(14, kernel=[*kernels, columns(np.cos)]).fit(X, Y)
    new = data(20, seed=9)[0]
    products, laplacian = new @ X.T, pairwise_kernels(new, X, metric="laplacian", gamma=0.2)
    atoms = np.hstack([rbf_kernel(new, X, gamma=2.0), products, laplacian, (1 + products) ** 2, np.cos(new)])
    expected = atoms[:, model.support_] @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-8, atol=1e-8)
    assert len(set(model.support_kernels_)) > 1
    sources = np.where(model.support_ >= 4 * len(X), -1, model.support_ // len(X))
    np.testing.assert_array_equal(model.support_kernels_, sources)
