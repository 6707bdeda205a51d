"""What the estimators promise: weights, scale and shift, awkward data, memory, and equality with known methods."""

import pickle
import re
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import orthogonal_mp
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from kernelpursuit import KMPClassifier, KMPRegressor
from kernelpursuit.bounds import vc_bound
from kernelpursuit.losses import LOSSES, Loss, huber
from kernelpursuit.pursuit import Stop


def data(n=60, d=3, seed=0, targets=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, np.cos(X[:, 1]), X.sum(axis=1)])
    Y += 0.1 * rng.normal(size=Y.shape)
    return X, Y[:, 0] if targets is None else Y[:, :targets]


def classes(X, n_classes=2):
    return np.digitize(X[:, 0] * X[:, 1], np.quantile(X[:, 0] * X[:, 1], np.linspace(0, 1, n_classes + 1)[1:-1]))


def quiet_fit(model, *args, **kwargs):
    """Fit without the warning that the data have fewer atoms than were asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


# ---------------------------------------------------------------------------------------------- sample weights

WEIGHTED = {
    "prefit": KMPRegressor(8),
    "backfit": KMPRegressor(8, variant="backfit"),
    "basic": KMPRegressor(8, variant="basic", shrinkage=0.7),
    "ridge": KMPRegressor(8, alpha=0.05),
    "ridge-auto": KMPRegressor(alpha=0.05),
    "leave-one-out": KMPRegressor(),
    "no-intercept": KMPRegressor(8, fit_intercept=False),
    "poly": KMPRegressor(8, kernel="poly", degree=2),
    "list": KMPRegressor(8, kernel=["rbf", ("rbf", {"gamma": 0.05}), "linear"]),
    "functions": KMPRegressor(8, functions=[lambda X: X, lambda X: X[:, 0] ** 3]),
    "huber": KMPRegressor(5, loss="huber"),
    "huber-prefit-no-refit": KMPRegressor(5, loss="huber", refit_every=None),
    "classifier": KMPClassifier(8),
    "classifier-auto": KMPClassifier(),
    "logistic": KMPClassifier(5, loss="logistic", alpha=0.1),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weight_is_repetition_and_zero_is_absence(name):
    X, y = data(40)
    y = classes(X, 3) if name.startswith("classifier") or name == "logistic" else y
    counts = np.random.default_rng(3).integers(0, 4, len(X))
    assert (counts == 0).any()
    rows = np.repeat(np.arange(len(X)), counts)
    weighted = clone(WEIGHTED[name]).fit(X, y, sample_weight=counts)
    repeated = clone(WEIGHTED[name]).fit(X[rows], y[rows])
    test = data(30, seed=9)[0]
    value = "decision_function" if hasattr(weighted, "decision_function") else "predict"
    # losses other than the squared one are minimised by iteration, so their coefficients have fewer digits
    rtol = 1e-7 if name not in ("huber", "huber-prefit-no-refit", "logistic") else 1e-4
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


# ---------------------------------------------------------------------------------------------- scale and shift

SCALED = [{}, {"variant": "backfit"}, {"variant": "basic"}, {"loss": "huber"}, {"n_atoms": "auto"}]


def grid(X):
    """X rounded to multiples of 2^-10: shifts by 1e6 are exact."""
    return np.round(X * 1024) / 1024


def assert_same_model(one, two, f_one, f_two):
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_allclose(f_one, f_two, rtol=1e-8, atol=1e-8 * np.abs(f_two).max())


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_shift_of_x(options, kernel):
    X, y = data()
    X = grid(X)
    model = KMPRegressor(**{"n_atoms": 10, "kernel": kernel} | options)
    here, far = clone(model).fit(X, y), clone(model).fit(X + 1e6, y)
    assert_same_model(here, far, here.predict(X), far.predict(X + 1e6))


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("power", [-40, 3, 60])
def test_scale_of_x_with_gamma(options, power):
    X, y = data()
    for kernel, exponent in (("rbf", 2), ("laplacian", 1), ("poly", 2)):
        model = KMPRegressor(**{"n_atoms": 10, "gamma": 0.25, "kernel": kernel} | options)
        one = clone(model).fit(X, y)
        two = clone(model).set_params(gamma=0.25 * 2.0 ** (-exponent * power)).fit(X * 2.0**power, y)
        assert_same_model(one, two, one.predict(X), two.predict(X * 2.0**power))


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("power", [-60, 5, 300])
def test_scale_of_y(options, power):
    X, y = data()
    model = KMPRegressor(**{"n_atoms": 10} | options)
    one, two = clone(model).fit(X, y), clone(model).fit(X, y * 2.0**power)
    assert_same_model(one, two, one.predict(X), two.predict(X) * 2.0**-power)
    np.testing.assert_allclose(one.path_.values("loss"), two.path_.values("loss") * 4.0**-power, rtol=1e-8)


@pytest.mark.parametrize("options", SCALED, ids=str)
@pytest.mark.parametrize("power", [-60, 5, 300])
def test_scale_of_a_precomputed_kernel(options, power):
    X, y = data()
    K = rbf_kernel(X)
    model = KMPRegressor(**{"n_atoms": 10, "kernel": "precomputed"} | options)
    one, two = clone(model).fit(K, y), clone(model).fit(K * 2.0**power, y)
    assert_same_model(one, two, one.predict(K), two.predict(K * 2.0**power))


def test_scale_of_weights():
    X, y = data()
    w = np.random.default_rng(0).uniform(0.5, 2, len(X))
    for options in ({}, {"variant": "basic"}, {"loss": "huber"}):
        model = KMPRegressor(8, **options)
        one, two = clone(model).fit(X, y, sample_weight=w), clone(model).fit(X, y, sample_weight=w * 2.0**20)
        np.testing.assert_array_equal(one.support_, two.support_)
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------------------------------------- awkward data

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
SEEDS = st.integers(0, 2**32 - 1)


def pick(rng, options):
    return {name: values[rng.integers(len(values))] for name, values in options.items()}


@PROPERTY
@given(SEEDS)
def test_regression_is_finite_or_says_why(seed):
    rng = np.random.default_rng(seed)
    options = pick(rng, OPTIONS | {"variant": ["prefit", "backfit"]})
    finite_or_named(KMPRegressor(**options), *awkward(rng))


@PROPERTY
@given(SEEDS)
def test_other_losses_and_sampling_are_finite_or_say_why(seed):
    rng = np.random.default_rng(seed)
    choices = {"variant": ["prefit", "basic"], "candidates": [None, 1, 5], "loss": ["squared", "huber"]}
    options = pick(rng, OPTIONS | choices | {"n_atoms": [1, 4, 8, "auto"]})
    finite_or_named(KMPRegressor(**options, random_state=0), *awkward(rng))


@PROPERTY
@given(SEEDS)
def test_classification_is_finite_or_says_why(seed):
    rng = np.random.default_rng(seed)
    options = pick(rng, OPTIONS | {"loss": ["squared", "logistic"], "n_atoms": [1, 5, "auto"]})
    X, y = awkward(rng)
    finite_or_named(KMPClassifier(**options, random_state=0), X, rng.integers(0, rng.integers(1, 5), len(y)))


# one sign of infinity: of both scikit-learn itself takes the sum
MAGNITUDES = st.floats(-1e150, 1e150) | st.sampled_from([np.nan, np.inf, 0.0, 1e-310])


@PROPERTY
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=MAGNITUDES))
def test_any_floats_at_all(X):
    finite_or_named(KMPRegressor(3), X, np.arange(len(X)) * 1.0)


@pytest.mark.parametrize("scale", [1e155, 1e200, 1e300])
def test_huge_targets(scale):
    X, y = data()
    model = KMPRegressor(5).fit(X, y / np.abs(y).max() * scale)
    np.testing.assert_allclose(
        model.predict(X) / scale, KMPRegressor(5).fit(X, y / np.abs(y).max()).predict(X), rtol=1e-8
    )


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


# ---------------------------------------------------------------------------------------------- the rank


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("wanted", [30, 10**12])
def test_more_atoms_than_the_rank(variant, wanted):
    X, y = data(40)
    with pytest.warns(ConvergenceWarning, match="n_atoms"):
        model = KMPRegressor(wanted, kernel="linear", variant=variant, tol=0).fit(X, y)
    assert len(model.support_) == 3 and model.path_.reason == "exhausted"
    X = np.tile(X[:10], (4, 1))
    with pytest.warns(ConvergenceWarning, match="n_atoms"):
        model = KMPRegressor(wanted, variant=variant, tol=0, fit_intercept=False).fit(X, np.tile(y, 4)[: len(X)])
    assert len(model.support_) <= 10


def test_a_constant_is_enough():
    X, _ = data()
    for y in (np.zeros(len(X)), np.full(len(X), 3.7)):
        model = KMPRegressor(5).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, rtol=1e-14)
        assert len(model.support_) == 0 and model.path_.reason
        assert list(model.staged_predict(X)) == []


# ---------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.1},
        {"variant": "basic"},
        {"stop": "validation"},
        {"candidates": 3000},
        {"kernel": ["rbf", "linear"]},
    ],
    ids=str,
)
def test_memory_is_held(options):
    n = 3000
    X, y = data(n)
    memory = 20 * 10**6
    tracemalloc.start()
    try:
        model = KMPRegressor(5, memory=memory, random_state=0, **options).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * n * 8 / 2
    assert len(model.support_) == 5


def test_memory_refused_with_the_numbers():
    X, y = data(1000)
    with pytest.raises(ValueError, match="memory=1000000 ") as error:
        KMPRegressor(500, memory=10**6).fit(X, y)
    fits = int(re.search(r"n_atoms=(\d+) would fit", str(error.value)).group(1))
    assert 0 < fits < 500
    KMPRegressor(fits, memory=10**6, tol=0.5).fit(X, y)
    # no number of atoms fits: say what would, in a unit that shows it
    with pytest.raises(ValueError, match=r"memory=100\b.*\b8000\b") as error:
        KMPRegressor(1, memory=100).fit(X, y)
    assert "n_atoms=0" not in str(error.value)


# ---------------------------------------------------------------------------------------------- known methods


@pytest.mark.parametrize("seed", range(5))
def test_backfit_is_orthogonal_matching_pursuit(seed):
    X, y = data(60, seed=seed)
    K = rbf_kernel(X, gamma=0.5)
    coef = orthogonal_mp(K / np.linalg.norm(K, axis=0), y, n_nonzero_coefs=10)
    model = KMPRegressor(10, variant="backfit", gamma=0.5, fit_intercept=False).fit(X, y)
    assert set(model.support_) == set(np.flatnonzero(coef))
    np.testing.assert_allclose(model.predict(X), (K / np.linalg.norm(K, axis=0)) @ coef, atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_all_atoms_are_kernel_ridge(seed, variant, alpha):
    X, Y = data(40, seed=seed, targets=2)
    w = np.random.default_rng(seed).uniform(0.5, 2, len(X))
    model = KMPRegressor(len(X), alpha=alpha, gamma=0.3, fit_intercept=False, tol=0, variant=variant)
    test = data(20, seed=9)[0]
    for weights in (None, w):
        expected = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.3).fit(X, Y, sample_weight=weights).predict(test)
        got = quiet_fit(clone(model), X, Y, sample_weight=weights).predict(test)
        np.testing.assert_allclose(got, expected, atol=1e-6 * np.abs(Y).max())


# ---------------------------------------------------------------------------------------------- the path

PATHS = [
    KMPRegressor(9),
    KMPRegressor(9, variant="backfit", alpha=0.1),
    KMPRegressor(9, variant="basic", shrinkage=0.5),
    KMPRegressor(9, loss="huber", refit_every=3),
    KMPRegressor(9, kernel=["rbf", "linear"], functions=[np.sin], fit_intercept=False),
    KMPRegressor(9, candidates=10, random_state=3),
]


@pytest.mark.parametrize("model", PATHS, ids=repr)
@pytest.mark.parametrize("targets", [None, 2])
def test_stages_are_truncations_are_shorter_fits(model, targets):
    X, y = data(targets=targets)
    test = data(20, seed=9)[0]
    model = clone(model).fit(X, y)
    stages = list(model.staged_predict(test))
    assert len(stages) == len(model.path_)
    whole = model.predict(test)
    np.testing.assert_allclose(stages[-1], whole, rtol=1e-9, atol=1e-9)
    for k in (1, 2, 5, 9):
        short = model.truncate(k)
        np.testing.assert_allclose(short.predict(test), stages[k - 1], rtol=1e-9, atol=1e-9)
        fresh = clone(model).set_params(n_atoms=k).fit(X, y)
        np.testing.assert_array_equal(fresh.support_, short.support_)
        np.testing.assert_allclose(fresh.predict(test), stages[k - 1], rtol=1e-8, atol=1e-8)
        assert len(short.path_) == k and len(short.dual_coef_) == len(short.support_) == len(short.support_kernels_)
        assert len(short.path_.steps) + len(short.path_.discarded) == 9
    np.testing.assert_array_equal(model.predict(test), whole)
    assert len(model.path_) == 9
    constant = model.truncate(0).predict(test)
    assert np.ptp(constant, axis=0) == pytest.approx(0)


def test_truncate_refuses_other_numbers():
    X, y = data()
    model = KMPRegressor(4)
    with pytest.raises(NotFittedError):
        model.truncate(1)
    model.fit(X, y)
    for k in (-1, 5, 1.5, "2"):
        with pytest.raises(ValueError, match="k must be an integer from 0 to 4"):
            model.truncate(k)


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_targets_share_one_support(variant):
    X, Y = data(targets=3)
    model = KMPRegressor(7, variant=variant).fit(X, Y)
    assert model.support_.ndim == 1 and model.dual_coef_.shape == (len(model.support_), 3)
    assert model.intercept_.shape == (3,) and model.predict(X).shape == Y.shape
    K = rbf_kernel(X, X[model.support_], gamma=1 / (3 * X.var()))
    np.testing.assert_allclose(model.predict(X), K @ model.dual_coef_ + model.intercept_, rtol=1e-9)
    # one column is the same model as the vector
    column, vector = KMPRegressor(7).fit(X, Y[:, :1]), KMPRegressor(7).fit(X, Y[:, 0])
    assert column.predict(X).shape == (len(X), 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], vector.predict(X))


# ---------------------------------------------------------------------------------------------- atoms


def test_functions_join_the_dictionary():
    X, _ = data()
    y = 3 * X[:, 0] ** 3 - 2 * X[:, 1] + 1
    functions = [lambda X: X[:, 0] ** 3, lambda X: X[:, 1:]]
    model = quiet_fit(KMPRegressor(3, kernel=None, functions=functions), X, y)
    assert set(model.support_[:2]) == {0, 1} and set(model.support_kernels_) == {-1}
    np.testing.assert_allclose(model.predict(X), y, atol=1e-10)
    both = quiet_fit(KMPRegressor(5, functions=functions), X, y)
    columns = both.support_[both.support_kernels_ == -1]
    assert {60, 61} <= set(columns)
    assert len(both.support_vectors_) == np.sum(both.support_kernels_ == 0)
    with pytest.raises(ValueError, match="kernel is None or empty and functions is empty"):
        KMPRegressor(3, kernel=None).fit(X, y)


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
    with pytest.raises(ValueError, match=rf"functions\[1\].*{what}"):
        KMPRegressor(3, functions=[np.sin, function]).fit(X, y)


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
        KMPRegressor(3, kernel="precomputed", functions=[np.sin]).fit(rbf_kernel(X), y)
    with pytest.raises(ValueError, match="square"):
        KMPRegressor(3, kernel="precomputed").fit(rbf_kernel(X)[:, :10], y)


def test_kernel_list_by_hand():
    X, y = data()
    kernels = [("rbf", {"gamma": 2.0}), "linear", ("laplacian", {"gamma": 0.2}), lambda A, B: (1 + A @ B.T) ** 2]
    functions = [np.cos]
    model = KMPRegressor(14, kernel=kernels, functions=functions).fit(X, y)
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


# ---------------------------------------------------------------------------------------------- containers, dtypes


def test_data_frames():
    X, y = data()
    names = ["a", "b", "c"]
    plain = KMPRegressor(6).fit(X, y)
    for frame, series in (
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (pl.DataFrame(X, schema=names), pl.Series(y)),
    ):
        model = KMPRegressor(6).fit(frame, series)
        assert list(model.feature_names_in_) == names and model.n_features_in_ == 3
        np.testing.assert_array_equal(model.support_, plain.support_)
        np.testing.assert_allclose(model.predict(frame), plain.predict(X), rtol=1e-12)
        with pytest.raises(ValueError, match="order"):
            model.predict(frame[["b", "a", "c"]])
        with pytest.warns(UserWarning, match="feature names"):
            model.predict(X)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", ["rbf", "cosine"]], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_equals_dense(kernel, weighted, make):
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    w = (np.arange(len(X)) % 3).astype(float) if weighted else None
    dense = quiet_fit(KMPRegressor(7, kernel=kernel), X, y, sample_weight=w)
    thin = quiet_fit(KMPRegressor(7, kernel=kernel), make(X), y, sample_weight=w)
    np.testing.assert_array_equal(dense.support_, thin.support_)
    for new in (X, make(X)):
        np.testing.assert_allclose(thin.predict(new), dense.predict(X), rtol=1e-7, atol=1e-8)
    assert sparse.issparse(thin.support_vectors_)
    np.testing.assert_array_equal(thin.support_vectors_.toarray(), dense.support_vectors_)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "poly"])
def test_model_of_dense_data_predicts_sparse_data(kernel):
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0) + np.array([3.0, 0.0, 0.0])
    for centers in (None, X[:20]):
        model = KMPRegressor(3, kernel=kernel, centers=centers).fit(X, y)
        np.testing.assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X), rtol=1e-7, atol=1e-8)
    thin = KMPRegressor(3, kernel=kernel, centers=X[:20]).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(X), model.predict(X), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    "options", [{}, {"variant": "basic"}, {"loss": "huber"}, {"alpha": 0.1}, {"n_atoms": "auto"}], ids=str
)
def test_single_precision(options):
    X, y = data()
    model = KMPRegressor(**{"n_atoms": 6} | options)
    double, single = clone(model).fit(X, y), clone(model).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    assert single.support_vectors_.dtype == np.float32
    assert double.predict(X).dtype == np.float64
    assert next(single.staged_predict(X.astype(np.float32))).dtype == np.float32
    if model.n_atoms != "auto":
        assert np.abs(single.predict(X.astype(np.float32)) - double.predict(X)).max() < 1e-3 * np.abs(y).max()


@pytest.mark.parametrize("model", [*PATHS[:4], KMPRegressor(kernel=["rbf", ("rbf", {"gamma": 0.1})])], ids=repr)
def test_pickle_is_bit_equal(model):
    X, y = data()
    model = clone(model).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.path_ == model.path_ or np.isnan(model.path_.start.score)
    np.testing.assert_array_equal(copy.support_, model.support_)


def test_clone_keeps_parameters():
    kernel = ["rbf", ("rbf", {"gamma": 0.1})]
    model = KMPClassifier(
        3, kernel=kernel, candidates=(0.05, 0.9), loss=huber(0.5), centers=np.ones((2, 2)), random_state=0
    )
    copy = clone(model)
    assert copy.kernel == kernel and copy.candidates == (0.05, 0.9) and copy.n_atoms == 3
    assert isinstance(copy.loss, Loss)
    X, _ = data(d=2)
    np.testing.assert_array_equal(
        model.set_params(centers=None).fit(X, classes(X)).predict(X),
        copy.set_params(centers=None).fit(X, classes(X)).predict(X),
    )


# ---------------------------------------------------------------------------------------------- classification

ALL_LOSSES = [*LOSSES, "huber"]


@pytest.mark.parametrize("loss", ALL_LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_every_loss_classifies(loss, n_classes, variant):
    X, _ = data(80)
    y = np.array(["ant", "bee", "cat"])[classes(X, n_classes)]
    model = KMPClassifier(12, loss=loss, variant=variant).fit(X, y)
    decision = model.decision_function(X)
    assert np.all(np.isfinite(decision)) and decision.shape == ((80,) if n_classes == 2 else (80, 3))
    assert list(model.classes_) == ["ant", "bee", "cat"][:n_classes]
    assert model.score(X, y) > (0.6 if n_classes == 2 else 0.5)
    stages = list(model.staged_predict(X))
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    for k in (1, 5):
        np.testing.assert_array_equal(model.truncate(k).predict(X), stages[k - 1])
    assert np.all(np.diff(model.path_.values("loss")) <= 1e-10)
    assert (
        hasattr(model, "predict_proba") == hasattr(model, "predict_log_proba") == (loss in ("logistic", "exponential"))
    )
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        assert np.all(p >= 0)
        np.testing.assert_array_equal(model.classes_[np.argmax(p, axis=1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)
    else:
        with pytest.raises(AttributeError, match="predict_proba"):
            _ = model.predict_proba


def test_separable_classes_have_finite_weights():
    X = np.concatenate([np.linspace(-2, -1, 15), np.linspace(1, 2, 15)])[:, None]
    y = np.repeat([0, 1], 15)
    for loss in ALL_LOSSES:
        model = quiet_fit(KMPClassifier(5, loss=loss), X, y)
        assert np.all(np.isfinite(model.decision_function(X))) and model.score(X, y) == 1
        if hasattr(model, "predict_proba"):
            assert np.all(np.isfinite(model.predict_proba(X)))


# ---------------------------------------------------------------------------------------------- stopping


def test_stop_parameter():
    X, y = data(150)
    auto = KMPRegressor().fit(X, y)
    assert auto.path_.reason == "gcv"
    loss = np.concatenate([auto.path_.values("loss"), [s.loss for s in auto.path_.discarded]])
    curve = loss / (1 - (1 + 2 * np.arange(len(loss))) / len(X)) ** 2  # two degrees of freedom an atom
    assert np.argmin(curve) == len(auto.path_) and len(auto.path_.discarded) == 10
    np.testing.assert_array_equal(auto.support_, KMPRegressor(stop="gcv").fit(X, y).support_)
    exact = KMPRegressor(stop="leave_one_out").fit(X, y).path_
    curve = np.concatenate([exact.values("leave_one_out"), [s.leave_one_out for s in exact.discarded]])
    assert exact.reason == "leave_one_out" and np.argmin(curve) == len(exact) and len(exact.discarded) == 10
    named = KMPRegressor(stop="leave_one_out", patience=3).fit(X, y)
    assert len(named.path_.discarded) <= 3
    capped = KMPRegressor(4, stop="leave_one_out").fit(X, y)
    assert len(capped.support_) <= 4
    held_out = KMPRegressor(stop="validation", random_state=0).fit(X, y)
    assert held_out.path_.reason == "validation" and 0 < len(held_out.path_) < 120
    assert held_out.path_.values("loss")[-1] == pytest.approx(np.mean((y - held_out.predict(X)) ** 2))
    own = KMPRegressor(stop=lambda path: Stop(len(path) - 1, "mine") if len(path) == 6 else None).fit(X, y)
    assert own.path_.reason == "mine" and len(own.support_) == 5 and len(own.path_.discarded) == 1
    for options in ({"variant": "basic"}, {"loss": "huber"}):
        assert KMPRegressor(**options, random_state=0).fit(X, y).path_.reason == "validation"
        for stop in ("leave_one_out", "gcv"):
            with pytest.raises(ValueError, match=stop):
                KMPRegressor(stop=stop, **options).fit(X, y)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_stop_by_a_bound(loss):
    X, _ = data(400)
    for n_classes in (2, 3):
        y = classes(X, n_classes)
        model = KMPClassifier(stop="bound", loss=loss, alpha=0.01, patience=5).fit(X, y)
        assert model.path_.reason == "bound" and len(model.path_.discarded) == 5
        longer = KMPClassifier(len(model.path_) + 5, loss=loss, alpha=0.01).fit(X, y)
        values = [np.inf]
        for k, predicted in enumerate(longer.staged_predict(X), start=1):
            outside = np.setdiff1d(np.arange(len(X)), longer.support_[:k])
            targets, cuts = (1, 1) if n_classes == 2 else (3, 3)  # pairs of classes; each has an intercept
            errors = np.sum(predicted[outside] != y[outside])
            values.append(vc_bound(k, len(X), errors, dimension=targets * (k + 1), cuts=cuts, form="tight"))
        assert np.argmin(values) == len(model.support_)
    X, y = data(400)
    model = KMPRegressor(stop="bound").fit(X, y)
    assert model.path_.reason == "bound" and 0 < len(model.support_) < 50
    with pytest.raises(ValueError, match="sample_weight"):
        KMPRegressor(stop="bound").fit(X, y, sample_weight=np.ones(400))


def test_classifier_stops():
    X, _ = data(120)
    for loss, n_classes in (("squared", 2), ("logistic", 3), ("squared", 3)):
        model = KMPClassifier(loss=loss, stop="validation", random_state=0, patience=3).fit(X, classes(X, n_classes))
        assert model.path_.reason == "validation"
    assert KMPClassifier().fit(X, classes(X)).path_.reason == "gcv"


def test_too_few_rows_for_validation():
    X, y = data(1)
    with pytest.raises(ValueError, match="validation_fraction"):
        KMPRegressor(stop="validation").fit(X, y)


def test_random_state_reproduces():
    X, y = data()
    for options in ({"candidates": 5}, {"centers": 20}, {"stop": "validation"}, {"candidates": (0.3, 0.8)}):
        one, two = (KMPRegressor(8, random_state=4, **options).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(one.support_, two.support_)
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
    supports = {tuple(KMPRegressor(8, random_state=s, candidates=3).fit(X, y).support_) for s in range(5)}
    assert len(supports) > 1


def test_verbose_prints_lines(capsys):
    X, y = data()
    KMPRegressor(12).fit(X, y)
    assert capsys.readouterr().out == ""
    KMPRegressor(12, verbose=1).fit(X, y)
    plan, *lines = capsys.readouterr().out.splitlines()
    assert "kernel matrix kept" in plan
    *lines, last = lines
    assert [int(line.split()[1]) for line in lines] == [1, 2, 5, 10] and all("loss" in line for line in lines)
    assert "stopped with 12 steps: 12 steps were taken, the most that n_atoms allows" in last
    KMPRegressor(12, verbose=2).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) == 1 + 12 + 1


# ---------------------------------------------------------------------------------------------- interrupts


def interrupting(calls, form=rbf_kernel):
    """Kernel that is interrupted at a call once the fit has begun."""
    count = [0]

    def kernel(A, B):
        count[0] += 1
        if count[0] == calls:
            raise KeyboardInterrupt
        return form(A, B, gamma=0.5)

    return kernel


@pytest.mark.parametrize("options", [{}, {"variant": "basic"}, {"loss": "huber"}, {"alpha": 0.1}], ids=str)
@pytest.mark.parametrize("calls", [4, 5, 6, 7])
def test_interrupt_leaves_a_usable_model(options, calls):
    X, y = data()
    plain = KMPRegressor(20, gamma=0.5, **options).fit(X, y)
    model = KMPRegressor(20, kernel=interrupting(calls), memory=0, **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    if not hasattr(model, "path_"):  # before the first step
        return
    k = len(model.path_)
    assert model.path_.reason == "interrupted" and k < 20
    np.testing.assert_array_equal(model.support_, plain.truncate(k).support_)
    np.testing.assert_allclose(model.predict(X), plain.truncate(k).predict(X), rtol=1e-5, atol=1e-6)
    assert len(list(model.staged_predict(X))) == k


@pytest.mark.parametrize("options", [{}, {"stop": "leave_one_out"}, {"loss": "huber"}, {"stop": "validation"}], ids=str)
def test_interrupt_in_the_report_of_a_step(options, monkeypatch):
    X, y = data()

    def progress(*args):
        def callback(path):
            if len(path) == 5:
                raise KeyboardInterrupt

        return callback

    monkeypatch.setattr("kernelpursuit.estimators._pipeline.progress", progress)
    model = KMPRegressor(20, verbose=1, random_state=0, **options)
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(X, y)
    assert model.path_.reason == "interrupted" and 1 <= len(model.support_) <= 5
    assert np.all(np.isfinite(model.predict(X)))
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)


def test_interrupt_in_the_fit_after_validation(monkeypatch):
    """The first pursuit chooses the number of atoms, the second is interrupted: the model must say so."""
    X, y = data()
    runs = []

    def progress(*args):
        runs.append(1)
        second = len(runs) == 2

        def callback(path):
            if second:
                raise KeyboardInterrupt

        return callback

    monkeypatch.setattr("kernelpursuit.estimators._pipeline.progress", progress)
    model = KMPRegressor(20, verbose=1, stop="validation", random_state=0)
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(X, y)
    assert len(model.path_) == 1 and model.path_.reason == "interrupted"


# ---------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_atoms", 0), ("n_atoms", "many"), ("variant", "forward"), ("loss", "absolute"), ("kernel", "gauss"),
        ("kernel", ["rbf", "gauss"]), ("kernel", [("rbf", {"width": 1})]), ("gamma", -1.0), ("gamma", "wide"),
        ("candidates", (0.1,)), ("candidates", (0.1, 2.0)), ("candidates", 0), ("alpha", -1), ("shrinkage", 0),
        ("tol", -1), ("stop", "never"), ("validation_fraction", 1.0), ("patience", 0), ("memory", -1),
        ("centers", 0), ("functions", np.sin), ("kernel_params", {"gamma": 1.0}),
        ("refit_every", 0), ("random_state", "seed"), ("fit_intercept", "yes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [KMPRegressor, KMPClassifier])
def test_errors_name_the_parameter(make, name, value):
    X, y = data()
    y = classes(X) if make is KMPClassifier else y
    # epsilon and quantile are named inside "candidates"
    with pytest.raises(ValueError, match=name.replace("_", "[_ ]")):
        make(**{name: value}).fit(X, y)


def test_own_loss():
    X, y = data()
    absolute = Loss(lambda y, f: np.sqrt(1 + (y - f) ** 2), lambda y, f: (f - y) / np.sqrt(1 + (y - f) ** 2))
    model = KMPRegressor(6, loss=absolute).fit(X, y)
    assert model.path_.values("loss")[-1] == pytest.approx(np.mean(np.sqrt(1 + (y - model.predict(X)) ** 2)))
