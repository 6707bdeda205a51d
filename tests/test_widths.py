"""FeatureWidths: a width for each input."""

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.externals import array_api_compat
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelpursuit import FeatureWidths, KMPClassifier, KMPRegressor
from kernelpursuit.estimators.widths import JITTER, evidence


@parametrize_with_checks([FeatureWidths(n_landmarks=10, random_state=0), FeatureWidths(20, prior=0.0, max_rows=30)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def problem(n=150, p=6, noise=0.1, seed=0):
    """Targets that depend on inputs 1 and 4 only, quickly on the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(3 * X[:, 1]) + 0.5 * X[:, 4] + noise * rng.normal(size=n)


def dense_bound(theta, X, Z, Y):
    """The bound as Titsias writes it, with n x n matrices: ln N(y | 0, Q + v I) - tr(K - Q) / 2v, without 2 pi."""
    weights, signal, noise = np.exp(theta[:-2]), np.exp(theta[-2]), np.exp(theta[-1])

    def kernel(A, B):
        return signal * np.exp(-np.sum(((A[:, None] - B[None]) * weights) ** 2, axis=-1))

    K, M = kernel(X, Z), kernel(Z, Z) + JITTER * signal * np.eye(len(Z))
    Q = K @ np.linalg.solve(M, K.T)
    normal = multivariate_normal(np.zeros(len(X)), Q + noise * np.eye(len(X)))
    constant = len(X) / 2 * np.log(2 * np.pi)
    return sum(normal.logpdf(y) + constant - (len(X) * signal - np.trace(Q)) / (2 * noise) for y in Y.T)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 12))
def test_evidence_is_the_dense_bound_and_its_gradient_the_slope(seed, q, m):
    rng = np.random.default_rng(seed)
    X, Y, theta = rng.normal(size=(15, 3)), rng.normal(size=(15, q)), 0.5 * rng.normal(size=5)
    value, gradient = evidence(theta, X, X[:m], Y, 0.0)
    assert value == pytest.approx(-dense_bound(theta, X, X[:m], Y), rel=1e-6, abs=1e-6)
    slope = approx_fprime(theta, lambda t: evidence(t, X, X[:m], Y, 0.7)[0], 1e-7)
    gradient = evidence(theta, X, X[:m], Y, 0.7)[1]
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-3 * (1 + np.abs(slope).max()))


def test_inputs_without_effect_get_small_weights():
    X, y = problem()
    weights = FeatureWidths(50, random_state=0).fit(X, y).weights_
    assert weights.argmax() == 1
    assert weights[[0, 2, 3, 5]].max() < 0.3 * weights[4] < weights[1]


def test_units_do_not_matter():
    X, y = problem()
    unit = np.array([1e-6, 10.0, 1e5, 1.0, 1e-3, 7.0])
    plain, other = (FeatureWidths(50, random_state=0).fit(inputs, y) for inputs in (X, X * unit + 3 * unit))
    np.testing.assert_allclose(other.weights_ * unit, plain.weights_, rtol=0.1)
    np.testing.assert_allclose(FeatureWidths(50, random_state=0).fit(X, 1e6 * y - 5).weights_, plain.weights_, rtol=0.1)


def test_prior_makes_weights_equal():
    X, y = problem()
    X /= X.std(axis=0)
    spread = [
        np.ptp(np.log(FeatureWidths(50, prior=prior, random_state=0).fit(X, y).weights_)) for prior in (0, 1, 1e8)
    ]
    assert spread[0] > spread[1] > 1 and spread[2] < 1e-3


def test_classes_of_any_kind():
    X, y = problem()
    sign = np.where(y > 0, 1, -1)
    first = FeatureWidths(50, random_state=0).fit(X, sign).weights_
    for same in (np.where(y > 0, "yes", "no"), y > 0, sign.astype(float)):
        np.testing.assert_allclose(FeatureWidths(50, random_state=0).fit(X, same).weights_, first, rtol=1e-6)
    X, y = load_iris(return_X_y=True)
    assert FeatureWidths(50, random_state=0).fit(X, y).weights_.argmax() in (2, 3)  # the petals


def test_several_targets():
    X, y = problem()
    weights = FeatureWidths(50, random_state=0).fit(X, np.column_stack([y, 100 * X[:, 2]])).weights_
    assert weights[2] > 3 * weights[[0, 3, 5]].max()


def test_fewer_atoms_are_enough():
    X, y = problem(400, 10)
    scores = [
        cross_val_score(model, X, y, cv=3).mean()
        for model in (
            KMPRegressor(15, gamma=0.05),
            make_pipeline(FeatureWidths(random_state=0), KMPRegressor(15, gamma=1.0)),
        )
    ]
    assert scores[0] < 0.8 < 0.95 < scores[1]
    classifier = make_pipeline(FeatureWidths(random_state=0), KMPClassifier(10, gamma=1.0))
    assert classifier.fit(X, y > 0).score(X, y > 0) > 0.9


@pytest.mark.parametrize("y", [np.ones(40), np.full(40, "a"), np.arange(40.0) * 1e300])
def test_targets_without_information(y):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 2] = 5
    widths = FeatureWidths(50, random_state=0).fit(X, y)
    assert np.all(np.isfinite(widths.weights_)) and np.all(widths.weights_ > 0)
    assert np.all(np.isfinite(widths.transform(X)))


def test_what_cannot_be_used():
    X, y = problem(30)
    with pytest.raises(TypeError, match="dense data is required"):
        FeatureWidths().fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="requires y"):
        FeatureWidths().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FeatureWidths().fit(X, y[:-1])


@pytest.mark.parametrize("space", ["torch", "array_api_strict"])
def test_other_arrays(space):
    xp = pytest.importorskip(space)
    X, y = problem(60)
    expected = FeatureWidths(n_landmarks=20, random_state=0).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        there = xp.asarray(X)
        widths = FeatureWidths(n_landmarks=20, random_state=0).fit(there, xp.asarray(y))
        found = widths.transform(there)
        assert array_api_compat.array_namespace(found) is array_api_compat.array_namespace(there)
        np.testing.assert_allclose(np.asarray(found), expected.transform(X), rtol=0.02, atol=1e-3)
        with pytest.raises(ValueError, match="same namespace"):
            widths.transform(X)
