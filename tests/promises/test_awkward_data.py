"""Any data at all: a finite prediction, or an error that names what is wrong; more atoms than the rank."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import KMPClassifier, KMPRegressor
from kernelpursuit.parameters import tolerance
from tests.problems import data

NAMES = re.compile(
    r"\b(X|y|kernel|gamma|degree|coef0|functions|centers|sample_weight|n_atoms|memory|validation_fraction)\b"
)


def awkward(rng):
    """Data of any size and magnitude, with duplicates, constant columns and a few values that are not numbers."""
    n, d = rng.integers(1, 51), rng.integers(1, 6)
    X = rng.normal(size=(n, d)) if rng.random() < 0.5 else rng.integers(-2, 3, (n, d)) * 1.0
    if rng.random() < 0.3:
        X[:, 0] = rng.choice([0.0, 1.0, -3.5])
    if rng.random() < 0.3:
        X = X[rng.integers(0, n, n)]
    y = [rng.normal(size=n), np.ones(n), np.zeros(n), X[:, -1]][rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]
    X = X * 10.0 ** rng.choice([0, -150, -20, 20, 100, 150], p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    y = y * 10.0 ** rng.choice([0, -150, -20, 20, 150], p=[0.6, 0.1, 0.1, 0.1, 0.1])
    if rng.random() < 0.1:
        target = X if rng.random() < 0.5 else y
        target[rng.integers(n)] = rng.choice([np.nan, np.inf, -np.inf])
    return X, y


def finite_or_named(model, X, y):
    """A finite prediction, or a ValueError that names X, y or a parameter; other warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, y)
        except ValueError as error:
            assert NAMES.search(str(error)), f"names nothing: {error}"
            return
    assert np.all(np.isfinite(X)) and np.all(np.isfinite(y))
    values = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    assert np.all(np.isfinite(values))
    assert model.path_.reason
    assert len(set(model.support_.tolist())) == len(model.support_) <= len(X) + 5


PROPERTY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
OPTIONS = {
    "kernel": ["rbf", "linear", "poly", "laplacian", "sigmoid", "cosine", ["rbf", "linear"]],
    "n_atoms": [1, 4, 100, "auto"],
    "alpha": [0.0, 0.0, 1e-3],
    "fit_intercept": [True, False],
}
FEW = {"n_atoms": [1, 4, 8, "auto"], "loss": ["squared_error", "huber"]}
MODELS = {
    "regression": (KMPRegressor, {"variant": ["prefit", "backfit"]}),
    "other losses": (KMPRegressor, {"variant": ["prefit", "basic"], "candidates": [None, 1, 5]} | FEW),
    "classes": (KMPClassifier, {"loss": ["squared_error", "log_loss"], "n_atoms": [1, 5, "auto"]}),
}


@PROPERTY
@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_fit_is_finite_or_says_why(name, seed):
    rng, (make, more) = np.random.default_rng(seed), MODELS[name]
    options = {option: values[rng.integers(len(values))] for option, values in (OPTIONS | more).items()}
    X, y = awkward(rng)
    y = rng.integers(0, rng.integers(1, 5), len(y)) if make is KMPClassifier else y
    finite_or_named(make(**options, random_state=0), X, y)


# one sign of infinity: of both scikit-learn itself takes the sum
MAGNITUDES = st.floats(-1e150, 1e150) | st.sampled_from([np.nan, np.inf, 0.0, 1e-310])


@PROPERTY
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=MAGNITUDES))
def test_any_floats_at_all(X):
    finite_or_named(KMPRegressor(3), X, np.arange(len(X)) * 1.0)


@pytest.mark.parametrize("scale", [1e155, 1e200, 1e300])
def test_huge_targets(scale):
    X, y = data()
    y = y / np.abs(y).max()
    huge, model = (KMPRegressor(5).fit(X, y * size) for size in (scale, 1))
    np.testing.assert_allclose(huge.predict(X) / scale, model.predict(X), rtol=1e-8)


def test_targets_beyond_the_range_of_float32_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="y"):
        KMPRegressor(5).fit(X.astype(np.float32), y * 1e150)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "poly"])
@pytest.mark.parametrize("candidates", [None, 7])
@pytest.mark.parametrize("gamma", [1.0, "scale"])
@pytest.mark.parametrize("scale", [1e160, 1e300])
def test_features_that_overflow(kernel, candidates, gamma, scale):
    X, y = data()
    finite_or_named(KMPRegressor(5, kernel=kernel, candidates=candidates, gamma=gamma), X * scale, y)


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("wanted", [30, 10**12])
@pytest.mark.parametrize(("options", "rank"), [({"kernel": "linear"}, 3), ({"fit_intercept": False}, 10)], ids=str)
def test_more_atoms_than_the_rank(variant, wanted, options, rank):
    X, y = data(40)
    X = X if rank == 3 else np.tile(X[:10], (4, 1))
    with pytest.warns(ConvergenceWarning, match="n_atoms"):
        model = KMPRegressor(wanted, variant=variant, stop=tolerance(0), **options).fit(X, y)
    assert len(model.support_) == rank and model.path_.reason == "exhausted"


@pytest.mark.parametrize("value", [0.0, 3.7])
def test_a_constant_is_enough(value):
    X, _ = data()
    model = KMPRegressor(5).fit(X, np.full(len(X), value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-14)
    assert len(model.support_) == 0 and model.path_.reason
    assert list(model.staged_predict(X)) == []
