"""Weights along a path are derived from what each step adds, to the last bit."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kernelpursuit as kp
from kernelpursuit.losses import LOSSES
from kernelpursuit.math.weights import KeptWeights, WeightPath
from kernelpursuit.pursuit.loop import propose

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("k, targets", [(0, 1), (1, 2), (6, 3)])
def test_weights_are_sums_of_directions(k, targets):
    constants, lengths = RNG.normal(size=(k + 1, targets)), RNG.normal(size=(k, targets))
    directions = np.triu(RNG.normal(size=(k, k)))
    path = WeightPath.of(constants, lengths, directions)
    stages = list(path)
    assert len(path) == k and len(stages) == k + 1
    for s, coef in enumerate(stages):
        expected = np.vstack([constants[: s + 1].sum(axis=0), directions[:, :s] @ lengths[:s]])
        np.testing.assert_allclose(coef, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(path.truncate(s).last(), coef[: s + 1])
    np.testing.assert_array_equal(path.times(4.0).last(), 4 * path.last())
    np.testing.assert_array_equal(path.directions(), directions)


def test_an_atom_may_come_again():
    """Basic pursuit: a step changes the weight of one atom, new or old."""
    directions = np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0]])
    path = WeightPath.of(np.zeros((4, 1)), np.ones((3, 1)), directions)
    assert len(path.entries) == 3
    assert [coef[1:, 0].tolist() for coef in path] == [[0, 0], [2, 0], [2, 5], [5, 5]]
    assert path.truncate(1).last().shape == (2, 1)


def test_kept_weights_are_padded():
    path = KeptWeights([np.ones((1, 1)), np.ones((2, 1)), np.ones((3, 1))])
    assert [coef[:, 0].tolist() for coef in path] == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert path.truncate(1).last().shape == (2, 1) and path.times(2.0).last()[0] == 2


@pytest.mark.parametrize("options", [{"variant": variant} for variant in ("prefit", "backfit", "basic")])
@pytest.mark.parametrize("intercept", [True, False])
def test_weights_of_other_losses_are_those_of_their_directions(options, intercept):
    """After every step the kept weights are the coordinates of the fit, solved for."""
    X = RNG.normal(size=(60, 3))
    Y = np.column_stack([np.sign(X[:, 0]), np.sign(X[:, 1] - 0.3)])
    D = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    run = kp.Gradient(kp.DenseDictionary(D), Y, LOSSES["log_loss"], intercept=intercept, **options)
    expected = [run.coef()]
    for _ in range(7):
        list(run.take(propose(run)))
        expected.append(run.coef())
    found = list(run.weight_path(7))
    assert len(found) == 8 and len(run.weight_path(7)) == 7
    for coef, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(coef[: len(wanted)], wanted, rtol=1e-10, atol=1e-12)
        assert not np.any(coef[len(wanted) :])
    half = run.weight_path(7).truncate(4).times(2.0)
    np.testing.assert_allclose(half.last()[: len(expected[4])], 2 * expected[4], rtol=1e-10, atol=1e-12)


MODELS = [
    kp.KMPRegressor(12),
    kp.KMPRegressor(12, variant="basic", fit_intercept=False),
    kp.KMPRegressor(12, alpha=0.1),
    kp.KMPClassifier(9, loss="log_loss"),
    kp.SparseKernelFDA(8),
    kp.KMPRegressor(stop="gcv"),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_truncated_models_are_equal_to_the_last_bit(model):
    X = RNG.normal(size=(80, 2))
    y = np.sin(2 * X[:, 0]) if "Regressor" in type(model).__name__ else (X[:, 0] > 0) + (X[:, 1] > 1).astype(int)
    model.fit(X, y)
    raw = "predict" if "Regressor" in type(model).__name__ else "decision_function"
    staged = list(getattr(model, f"staged_{raw}")(X))
    assert len(staged) == len(model.path_)
    np.testing.assert_allclose(staged[-1], getattr(model, raw)(X), rtol=1e-9, atol=1e-10)
    steps = len(model.path_)
    for k in range(steps + 1):
        short = model.truncate(k)
        values = getattr(short, raw)(X)
        if k:
            np.testing.assert_allclose(values, staged[k - 1], rtol=1e-9, atol=1e-10)
        for again in (model.truncate(steps).truncate(k), model.truncate(min(k + 1, steps)).truncate(k)):
            np.testing.assert_array_equal(getattr(again, raw)(X), values)
        np.testing.assert_array_equal(getattr(pickle.loads(pickle.dumps(short)), raw)(X), values)


def test_size_of_a_pickled_model():
    """Centres, weights and k²/2 numbers of the path; all weights of all steps would take ten times as much."""
    X, y = load_digits(return_X_y=True)
    k = 150
    model = kp.KMPClassifier(k, gamma=1e-3).fit(X, y)
    essential = 8 * (k * 64 + 10 * (k + 1))
    assert len(pickle.dumps(model)) < essential + 4 * k * k + 500 * k
