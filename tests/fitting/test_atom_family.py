"""What the atoms are: functions, centres, lists of kernels."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from kernelpursuit import KMPRegressor
from kernelpursuit.parameters import columns
from tests.problems import data, quiet_fit


def test_functions_join_the_dictionary():
    X, _ = data()
    y = 3 * X[:, 0] ** 3 - 2 * X[:, 1] + 1
    functions = [columns(lambda X: X[:, 0] ** 3), columns(lambda X: X[:, 1:])]
    model = quiet_fit(KMPRegressor(3, kernel=functions), X, y)
    assert set(model.support_[:2]) == {0, 1} and set(model.support_kernels_) == {-1}
    np.testing.assert_allclose(model.predict(X), y, atol=1e-10)
    both = quiet_fit(KMPRegressor(5, kernel=["rbf", *functions]), X, y)
    chosen = both.support_[both.support_kernels_ == -1]
    assert {60, 61} <= set(chosen)
    assert len(both.support_vectors_) == np.sum(both.support_kernels_ == 0)
    with pytest.raises(ValueError, match="kernel is an empty list"):
        KMPRegressor(3, kernel=[]).fit(X, y)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda X: X[:-1], "one row for each"),
        (lambda X: 1.0, "one row for each"),
        (lambda X: np.zeros((len(X), 2, 2)), "one row for each"),
        (lambda X: np.full(len(X), np.nan), "infinite or missing"),
        (lambda X: np.full(len(X), np.inf), "infinite or missing"),
    ],
)
def test_wrong_functions_are_named(function, what):
    X, y = data()
    with pytest.raises(ValueError, match=rf"columns.*{what}"):
        KMPRegressor(3, kernel=["rbf", columns(np.sin), columns(function)]).fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", ["rbf", ("rbf", {"gamma": 0.1})]], ids=str)
@pytest.mark.parametrize("centers", [None, 20, "array"])
@pytest.mark.parametrize("weighted", [False, True])
def test_support_points_at_the_centers(centers, kernel, weighted):
    X, y = data()
    w = (np.arange(len(X)) % 3).astype(float) if weighted else None
    points = data(25, seed=5)[0]
    model = KMPRegressor(8, kernel=kernel, centers=points if centers == "array" else centers, random_state=1)
    model.fit(X, y, sample_weight=w)
    rows = points if centers == "array" else X
    np.testing.assert_array_equal(rows[model.support_ % len(rows)], model.support_vectors_)
    np.testing.assert_array_equal(model.support_ // len(rows), model.support_kernels_)
    if centers == 20:
        with pytest.warns(UserWarning, match="centers=1000"):
            clone(model).set_params(centers=1000).fit(X, y)


def test_all_rows_as_centers_are_enough_for_validation():
    """`centers` equal to the rows is no mistake of the user when a part of them is held out."""
    X, y = data()
    model = KMPRegressor(5, centers=len(X), stop="validation", random_state=0).fit(X, y)  # a warning would be an error
    assert model.path_.reason == "validation" and len(model.support_) <= 5


def test_centers_must_fit_x():
    X, y = data()
    with pytest.raises(ValueError, match="centers"):
        KMPRegressor(3, centers=np.zeros((4, 2))).fit(X, y)
    with pytest.raises(ValueError, match="centers"):
        KMPRegressor(3, centers=np.full((4, 3), np.nan)).fit(X, y)
    with pytest.raises(ValueError, match="precomputed"):
        KMPRegressor(3, kernel="precomputed", centers=np.zeros((4, 60))).fit(rbf_kernel(X), y)
    with pytest.raises(ValueError, match="precomputed"):
        KMPRegressor(3, kernel=["precomputed", columns(np.sin)]).fit(rbf_kernel(X), y)
    with pytest.raises(ValueError, match="square"):
        KMPRegressor(3, kernel="precomputed").fit(rbf_kernel(X)[:, :10], y)


def test_kernel_list_by_hand():
    X, y = data()
    kernels = [("rbf", {"gamma": 2.0}), "linear", ("laplacian", {"gamma": 0.2}), lambda A, B: (1 + A @ B.T) ** 2]
    model = KMPRegressor(14, kernel=[*kernels, columns(np.cos)]).fit(X, y)
    test = data(20, seed=9)[0]
    by_hand = [
        rbf_kernel(test, X, gamma=2.0),
        test @ X.T,
        pairwise_kernels(test, X, metric="laplacian", gamma=0.2),
        (1 + test @ X.T) ** 2,
        np.cos(test),
    ]
    everything = np.hstack(by_hand)
    np.testing.assert_allclose(
        model.predict(test), everything[:, model.support_] @ model.dual_coef_ + model.intercept_, rtol=1e-8, atol=1e-8
    )
    assert len(set(model.support_kernels_)) > 1
    expected = np.where(model.support_ >= 4 * len(X), -1, model.support_ // len(X))
    np.testing.assert_array_equal(model.support_kernels_, expected)
