"""Prediction for a few rows is that for many."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import KMPClassifier, KMPRegressor, RefinedKMPRegressor
from kernelpursuit.fitting.expansion import FEW_VALUES, few_rows_of
from kernelpursuit.parameters import columns

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]


MODELS = {
    "one": (KMPRegressor(n_atoms=12, alpha=1e-3), X, Y),
    "several": (KMPRegressor(n_atoms=12, alpha=1e-3), X + 1e6, np.stack([Y, X[:, 2]], axis=1)),
    "classes": (KMPClassifier(n_atoms=8), X, np.searchsorted([-0.5, 0.5], Y)),
    "refined": (RefinedKMPRegressor(n_atoms=5, random_state=0), X * [1, 1000, 1e-3], Y),  # widths, weights of inputs
}


@pytest.mark.parametrize("name", MODELS)
def test_few_rows_give_what_many_give(name):
    model, rows, targets = MODELS[name]
    expansion = clone(model).fit(rows, targets)._expansion
    centers = np.asarray(expansion.centers)
    rows = centers[RNG.integers(len(centers), size=20)] + RNG.normal(size=(20, 3)) * centers.std(axis=0)
    few = few_rows_of(expansion)
    assert few is not None
    expected = expansion.columns(rows) @ expansion.coef[1:] + expansion.coef[0]
    scale = np.sum(np.abs(expansion.coef))
    np.testing.assert_allclose(few.predict(rows), expected, rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(expansion.predict(rows), expected, rtol=1e-12, atol=1e-14 * scale)
    many = np.tile(rows, (FEW_VALUES, 1))[: FEW_VALUES // len(centers) + 20]
    np.testing.assert_allclose(expansion.predict(many)[:20], expected, rtol=1e-12, atol=1e-14 * scale)


def test_far_rows_take_the_careful_way():
    model = KMPRegressor(n_atoms=5, gamma=0.5).fit(X, Y)
    few = few_rows_of(model._expansion)
    for far in (1e7, 1e160, 1e300):
        row = np.full((1, 3), far)
        assert few.predict(row) is None
        np.testing.assert_array_equal(model.predict(row), model.intercept_)  # all terms vanish


def test_other_weights_are_noticed():
    expansion = replace(KMPRegressor(n_atoms=5).fit(X, Y)._expansion)
    first = expansion.predict(X[:2])
    expansion.coef = 2 * expansion.coef
    np.testing.assert_allclose(expansion.predict(X[:2]), 2 * first, rtol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(n_atoms=3, kernel="laplacian"),
        KMPRegressor(n_atoms=3, kernel=["rbf", "linear"]),
        KMPRegressor(n_atoms=3, kernel=["rbf", columns(lambda X: X[:, 0])]),
    ],
    ids=["laplacian", "two kernels", "functions"],
)
def test_other_atoms_have_no_such_form(model):
    model.fit(X, Y)
    assert few_rows_of(model._expansion) is None
    np.testing.assert_allclose(model.predict(X[:1]), model.predict(X)[:1], rtol=1e-12)


def test_single_precision_is_left_to_the_general_way():
    model = KMPRegressor(n_atoms=5).fit(X.astype(np.float32), Y)
    assert few_rows_of(model._expansion) is None
    assert model.predict(X[:1].astype(np.float32)).dtype == np.float32
