"""Row weights are counts: a weight is a repetition, zero an absence."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import FeatureWidths, KMPClassifier, KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.parameters import basic, columns
from tests.problems import classes, data

WEIGHTED = {
    "prefit": KMPRegressor(8),
    "backfit": KMPRegressor(8, variant="backfit"),
    "basic": KMPRegressor(8, variant=basic(0.7)),
    "ridge": KMPRegressor(8, alpha=0.05),
    "ridge-auto": KMPRegressor(alpha=0.05),
    "leave-one-out": KMPRegressor(),
    "no-intercept": KMPRegressor(8, fit_intercept=False),
    "poly": KMPRegressor(8, kernel=("poly", {"degree": 2})),
    "list": KMPRegressor(8, kernel=["rbf", ("rbf", {"gamma": 0.05}), "linear"]),
    "functions": KMPRegressor(8, kernel=["rbf", columns(lambda X: X), columns(lambda X: X[:, 0] ** 3)]),
    "huber": KMPRegressor(5, loss="huber"),
    "classifier": KMPClassifier(8),
    "classifier-auto": KMPClassifier(),
    "log_loss": KMPClassifier(5, loss="log_loss", alpha=0.1),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weight_is_repetition_and_zero_is_absence(name):
    X, y = data(40)
    y = classes(X, 3) if name.startswith("classifier") or name == "log_loss" else y
    counts = np.random.default_rng(3).integers(0, 4, len(X))
    assert (counts == 0).any()
    rows = np.repeat(np.arange(len(X)), counts)
    weighted = clone(WEIGHTED[name]).fit(X, y, sample_weight=counts)
    repeated = clone(WEIGHTED[name]).fit(X[rows], y[rows])
    test = data(30, seed=9)[0]
    value = "decision_function" if hasattr(weighted, "decision_function") else "predict"
    # losses other than the squared one are minimised by iteration, so their coefficients have fewer digits
    rtol = 1e-7 if name not in ("huber", "huber-prefit-no-refit", "log_loss") else 1e-4
    expected = getattr(repeated, value)(test)
    np.testing.assert_allclose(getattr(weighted, value)(test), expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    kernel_atoms = weighted.support_[weighted.support_kernels_ >= 0] % len(X)
    assert np.all(counts[kernel_atoms] > 0)
    np.testing.assert_array_equal(X[kernel_atoms], weighted.support_vectors_)
    assert len(weighted.path_) == len(repeated.path_)


def test_zero_weight_rows_with_a_precomputed_kernel():
    X, y = data(40)
    K = rbf_kernel(X)
    w = np.random.default_rng(3).integers(0, 3, len(X)).astype(float)
    keep = np.flatnonzero(w)
    test = rbf_kernel(data(30, seed=9)[0], X)
    for options in ({}, {"alpha": 0.1}, {"centers": 15, "random_state": 0}, {"centers": 15, "alpha": 0.1}):
        options = {"random_state": 0} | options
        weighted = KMPRegressor(6, kernel="precomputed", **options).fit(K, y, sample_weight=w)
        absent = KMPRegressor(6, kernel="precomputed", **options).fit(K[np.ix_(keep, keep)], y[keep], w[keep])
        np.testing.assert_array_equal(weighted.support_, keep[absent.support_])
        np.testing.assert_allclose(weighted.predict(test), absent.predict(test[:, keep]), rtol=1e-9)
        direct = KMPRegressor(6, gamma=1 / 3, **options).fit(X, y, sample_weight=w)
        np.testing.assert_array_equal(direct.support_, weighted.support_)
        np.testing.assert_allclose(direct.predict(data(30, seed=9)[0]), weighted.predict(test), rtol=1e-7)


def test_bad_weights_are_named():
    X, y = data(20)
    for w in (np.zeros(20), -np.ones(20), np.full(20, np.nan), np.ones(19)):
        with pytest.raises(ValueError, match=r"[wW]eight"):
            KMPRegressor(3).fit(X, y, sample_weight=w)
    with pytest.raises(ValueError, match="y must have two classes"):
        KMPClassifier(3).fit(X, np.arange(20) % 2, sample_weight=np.arange(20) % 2)


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize(
    "model",
    [
        RefinedKMPRegressor(3, random_state=0),
        RefinedKMPClassifier(3, random_state=0),
        FeatureWidths(random_state=0),
        KMPClassifier(3),
    ],
    ids=repr,
)
def test_enormous_weights(model):
    """Nobody has so many rows; squares of these numbers overflow."""
    X, y = data()
    y = y if isinstance(model, RefinedKMPRegressor) else (y > 0).astype(int)
    fits = [clone(model).fit(X, y, sample_weight=np.full(len(y), size)) for size in (1e100, 1e200, 1e305)]
    results = [one.weights_ if isinstance(one, FeatureWidths) else one.predict(X) for one in fits]
    for one in results[1:]:
        np.testing.assert_allclose(one, results[0], rtol=1e-6)
    with pytest.raises(ValueError, match="the sum of sample_weight overflows: divide"):
        clone(model).fit(X, y, sample_weight=np.full(len(y), 1.7e308))
