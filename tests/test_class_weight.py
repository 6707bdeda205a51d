"""Weights of classes in every classifier; losses of medians and quantiles."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone

from kernelpursuit import (
    KMPClassifier,
    KMPClassifierCV,
    KMPRegressor,
    KMPRegressorCV,
    SparseKernelFDA,
    SparseKernelFDACV,
    losses,
)

EACH = [
    KMPClassifier(5), KMPClassifier(5, loss="logistic"),
    KMPClassifierCV(5, gammas=[0.5], cv=3, one_standard_error=True),
]  # fmt: skip


def unequal(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=n) < 0.15, "rare", "often")
    return rng.normal(size=(n, 2)) + 1.2 * (y == "rare")[:, None], y


@pytest.mark.parametrize("model", EACH, ids=repr)
def test_class_weights_are_weights_of_rows(model):
    X, y = unequal()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    by_hand = np.where(y == "rare", 4.0, 1.0)
    one = clone(model).set_params(class_weight={"rare": 4.0}).fit(X, y, sample_weight=w)
    two = clone(model).fit(X, y, sample_weight=w * by_hand * w.sum() / np.sum(w * by_hand))
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X))
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-6)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    counts = {label: len(y) / (2 * np.sum(y == label)) for label in ("rare", "often")}
    named = clone(model).set_params(class_weight=counts).fit(X, y)
    np.testing.assert_allclose(balanced.decision_function(X), named.decision_function(X))
    assert np.sum(balanced.predict(X) == "rare") > np.sum(clone(model).fit(X, y).predict(X) == "rare")


@pytest.mark.parametrize(
    "model", [SparseKernelFDA(5), SparseKernelFDACV(5, gammas=[0.5], cv=3, one_standard_error=True)], ids=repr
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_discriminants_move_their_thresholds(model, n_classes):
    X, y = unequal()
    y = np.where((n_classes == 3) & (X[:, 0] < -1), "third", y)
    plain = clone(model).fit(X, y)
    np.testing.assert_array_equal(
        plain.predict(X), clone(model).set_params(class_weight="balanced").fit(X, y).predict(X)
    )
    dear = clone(model).set_params(class_weight={"rare": 5.0}).fit(X, y)
    assert np.sum(dear.predict(X) == "rare") > np.sum(plain.predict(X) == "rare")
    place = plain.classes_.tolist().index("rare")
    odds, before = (np.exp(m.predict_log_proba(X)) for m in (dear, plain))
    if len(dear.support_) == len(plain.support_):
        others = np.delete(np.arange(n_classes), place)
        ratio = odds[:, place] / odds[:, others].sum(axis=1) / (before[:, place] / before[:, others].sum(axis=1))
        np.testing.assert_allclose(ratio, 5.0, rtol=1e-6)
    with pytest.raises(ValueError, match="class_weight"):
        clone(model).set_params(class_weight={"rare": -1.0}).fit(X, y)


def test_balance_counts_weights_and_not_rows_that_are_absent():
    X, y = unequal()
    w = np.where(y == "rare", 3.0, 1.0)
    w[:20] = 0
    one = KMPClassifier(5, class_weight="balanced").fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(len(y)), w.astype(int))
    two = KMPClassifier(5, class_weight="balanced").fit(X[rows], y[rows])
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("value", ["even", 3, {"absent": 2.0, "rare": -1.0}])
def test_bad_class_weights_are_named(value):
    X, y = unequal()
    with pytest.raises(ValueError, match="class_weight"):
        KMPClassifier(3, class_weight=value).fit(X, y)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_quantiles_of_a_constant_and_their_derivative(share):
    loss = losses.quantile(share, 0.05)
    y = np.random.default_rng(0).normal(size=400)
    grid = np.linspace(-2, 2, 2001)
    best = grid[np.argmin([np.sum(loss.value(y, np.full(400, f))) for f in grid])]
    assert best == pytest.approx(np.quantile(y, share), abs=0.06)
    for f in (-1.3, 0.02, 0.7):
        value = lambda f: float(np.sum(loss.value(y[:9], f * np.ones(9))))  # noqa: E731
        slope = lambda f: float(np.sum(loss.gradient(y[:9], f * np.ones(9))))  # noqa: E731
        assert check_grad(value, slope, [f]) < 1e-5


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_regressor_estimates_quantiles(share):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(300, 1))
    y = np.sin(X[:, 0]) + (0.2 + 0.1 * np.abs(X[:, 0])) * rng.normal(size=300)
    model = KMPRegressor(8, loss="quantile", quantile=share).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(share, abs=0.04)
    scaled = KMPRegressor(8, loss="quantile", quantile=share).fit(X, 1000 * y + 50)
    np.testing.assert_allclose(scaled.predict(X), 1000 * model.predict(X) + 50, rtol=0.02, atol=20)


def test_medians_do_not_follow_outliers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(200, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    y[::10] += 30
    model = KMPRegressor(8, loss="absolute").fit(X, y)
    same = KMPRegressor(8, loss="quantile").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert np.mean(np.abs(model.predict(X) - np.sin(X[:, 0]))) < 0.1
    search = KMPRegressorCV(6, gammas=[0.5], cv=3, loss="absolute", one_standard_error=True).fit(X, y)
    assert np.mean(np.abs(search.predict(X) - np.sin(X[:, 0]))) < 0.2


def test_bad_quantiles_are_named():
    X, y = np.zeros((5, 1)), np.arange(5.0)
    for value in (0, 1.0, "half"):
        with pytest.raises(ValueError, match="quantile"):
            KMPRegressor(2, loss="quantile", quantile=value).fit(X, y)
    for arguments, name in (((1.0, 0.1), "share"), ((0.5, 0), "width")):
        with pytest.raises(ValueError, match=name):
            losses.quantile(*arguments)
