"""Expansions: chosen atoms as plain data, with widths of atoms and weights of inputs; few rows and many."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import kernelpursuit as kp
from kernelpursuit.arrays import on_host
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.kernels import Kernel, make_kernel
from kernelpursuit.parameters import columns

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(50, 3)), RNG.normal(size=(7, 3))
WIDTHS = np.array([0.01, 0.1, 0.5, 1.0, 5.0, 20.0, 0.0])
WEIGHTS = np.array([2.0, 0.0, 0.3])


def literal(X, Z, widths, weights):
    differences = (X[:, None].astype(np.float64) - Z[None].astype(np.float64)) * weights
    return np.exp(-widths * np.sum(differences**2, axis=2))


def shaped(Z, widths=WIDTHS, weights=WEIGHTS, kernel=None):
    kernel = make_kernel("rbf", Z, gamma=0.7) if kernel is None else kernel
    return Expansion(Z, [kernel], widths=widths, input_weights=weights)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", ["both", "widths", "weights"])
def test_widths_and_input_weights(case, dtype, library):
    xp = pytest.importorskip(library)
    widths = None if case == "weights" else WIDTHS
    weights = None if case == "widths" else WEIGHTS
    A, B = X.astype(dtype), Z.astype(dtype)
    values = shaped(xp.asarray(B), widths, weights).columns(xp.asarray(A))
    assert values.dtype == getattr(xp, dtype)
    expected = literal(A, B, 0.7 if widths is None else widths, 1.0 if weights is None else weights)
    np.testing.assert_allclose(on_host(values), expected, rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [1e4, 1e10])
def test_shaped_atoms_far_from_the_centre(dtype, offset):
    """Points far from the others, near each other: by products of float64 numbers, or by differences."""
    far = (np.round(Z * 8) / 8 + offset).astype(dtype)
    centers, rows = np.vstack([Z.astype(dtype)] * 2 + [far]), np.vstack([X.astype(dtype), far + dtype(0.125)])
    widths = np.tile(WIDTHS, 3)
    expansion = shaped(centers, widths, kernel=Kernel("rbf", {"gamma": 1.0}, np.zeros(3, dtype=dtype)))
    expected = literal(rows, centers, widths, WEIGHTS)
    np.testing.assert_allclose(expansion.columns(rows), expected, atol=3e-4 if dtype is np.float64 else 0.1)


def test_sparse_rows_and_centres():
    thin, centers = np.where(X > 0, X, 0), np.where(Z > 0, Z, 0)
    expected = literal(thin, centers, WIDTHS, WEIGHTS)
    for A in (thin, sparse.csr_array(thin)):
        for B in (centers, sparse.csr_array(centers)):
            np.testing.assert_allclose(shaped(B).columns(A), expected, atol=1e-12)
    only = shaped(sparse.csr_array(centers), weights=None).columns(sparse.csr_array(thin))
    np.testing.assert_allclose(only, literal(thin, centers, WIDTHS, 1.0), atol=1e-12)


def test_far_rows_are_zero_not_an_error():
    expansion, far = replace(shaped(Z, WIDTHS, None), coef=np.ones((8, 1))), np.full((2, 3), 1e200)
    np.testing.assert_array_equal(expansion.columns(far), np.tile((WIDTHS == 0).astype(float), (2, 1)))
    np.testing.assert_array_equal(expansion.predict(far), 2)  # the intercept and the atom of width 0


def test_subsets_and_pickles():
    expansion, J = shaped(Z), np.array([5, 0, 3])
    expansion.columns(X)
    np.testing.assert_allclose(expansion.subset(J).columns(X), expansion.columns(X)[:, J], rtol=1e-13)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(expansion)).columns(X), expansion.columns(X))
    np.testing.assert_allclose(expansion.truncate(2).columns(X), expansion.columns(X)[:, :2], rtol=1e-13)


def test_subsets_of_kernels_and_functions():
    kernels = [make_kernel(("rbf", {"gamma": 0.5}), Z), make_kernel("linear", Z)]
    sources, places = np.array([1, -1, 0, -1, 0]), np.array([2, 0])
    expansion = Expansion(Z[:3], kernels, sources, [np.sin], places)
    whole = expansion.columns(X)
    np.testing.assert_allclose(whole[:, 0], X @ Z[0])
    np.testing.assert_allclose(whole[:, 1], np.sin(X[:, 2]))
    for J in (np.array([3, 0, 4]), np.array([4, 1]), np.array([2]), np.array([1, 3])):
        np.testing.assert_allclose(expansion.subset(J).columns(X), whole[:, J], rtol=1e-13)


def test_widths_are_for_one_gaussian_kernel():
    with pytest.raises(ValueError, match="Gaussian"):
        Expansion(Z, [make_kernel("linear", Z)], widths=WIDTHS)


# ---------------------------------------------------------------------------------------------- fitted estimators

Y = np.sin(2 * X[:, 0]) + X[:, 1]
FITTED = {
    "regressor": (kp.KMPRegressor(5), Y, "predict"),
    "classifier": (kp.KMPClassifier(5), np.digitize(Y, [-0.5, 0.5]), "decision_function"),
    "fda": (kp.SparseKernelFDA(5), np.digitize(Y, [-0.5, 0.5]), "decision_function"),
    "pca": (kp.SparseKernelPCA(5), None, "transform"),
    "nystroem": (kp.PursuitNystroem(n_components=5), None, "transform"),
    "faces": (kp.PolytopeFacesRegressor(5), Y, "predict"),
}


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_model_is_an_expansion(name):
    """Centres, a kernel's name and parameters, weights and intercepts: enough to predict by hand."""
    estimator, y, method = FITTED[name]
    model = clone(estimator).fit(X, y)
    expansion = model._expansion
    (kernel,) = expansion.kernels
    assert kernel.name == "rbf" and kernel.params == {"gamma": model.gamma_}
    values = literal(X, expansion.centers, model.gamma_, 1.0) @ expansion.coef[1:] + expansion.coef[0]
    expected = getattr(model, method)(X)
    np.testing.assert_allclose(values.reshape(expected.shape), expected, rtol=1e-8, atol=1e-8)


def test_both_views_are_expansions():
    views = X, np.cos(X)
    model = kp.SparseKernelCCA(6).fit(*views)
    expansions = model._x_expansion, model._y_expansion
    for view, expansion, scores in zip(views, expansions, model.transform(*views), strict=True):
        gamma = expansion.kernels[0].params["gamma"]
        values = literal(view, expansion.centers, gamma, 1.0) @ expansion.coef[1:] + expansion.coef[0]
        np.testing.assert_allclose(values, scores, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "gamma"),
    [
        (kp.KMPRegressor(3, gamma=0.3), 0.3),
        (kp.KMPRegressor(3), 1 / (3 * X.var())),
        (kp.KMPRegressor(1, kernel="linear"), None),
        (kp.KMPRegressor(3, kernel=[("rbf", {"gamma": 2.0}), "linear", "rbf"], gamma=0.5), [2.0, None, 0.5]),
        (kp.SparseKernelNovelty(5, gamma="auto"), 1 / 3),
    ],
    ids=repr,
)
def test_the_width_that_was_used_is_an_attribute(model, gamma):
    assert model.fit(X, X[:, 0]).gamma_ == (pytest.approx(gamma) if isinstance(gamma, float) else gamma)


# ---------------------------------------------------------------------------------------------- few rows and many


MODELS = {
    "one": (kp.KMPRegressor(12, alpha=1e-3), X, Y),
    "several": (kp.KMPRegressor(12, alpha=1e-3), X + 1e6, np.stack([Y, X[:, 2]], axis=1)),
    "classes": (kp.KMPClassifier(8), X, np.digitize(Y, [-0.5, 0.5])),
    "refined": (kp.RefinedKMPRegressor(5, random_state=0), X * [1, 1000, 1e-3], Y),  # widths, weights of inputs
    "laplacian": (kp.KMPRegressor(3, kernel="laplacian"), X, Y),
    "two kernels": (kp.KMPRegressor(3, kernel=["rbf", "linear"]), X, Y),
    "functions": (kp.KMPRegressor(3, kernel=["rbf", columns(lambda X: X[:, 0])]), X, Y),
    "float32": (kp.KMPRegressor(5), X.astype(np.float32), Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_few_rows_give_what_many_give(name):
    """A few rows of a Gaussian kernel take fewer calls of NumPy."""
    estimator, rows, y = MODELS[name]
    model = clone(estimator).fit(rows, y)
    predict, expansion = getattr(model, "decision_function", model.predict), model._expansion
    few = (rows[:20] + RNG.normal(size=(20, 3)) * rows.std(axis=0)).astype(rows.dtype)
    expected = np.squeeze(expansion.columns(few) @ expansion.coef[1:] + expansion.coef[0])
    rtol, scale = (1e-5, 1.0) if name == "float32" else (1e-12, np.sum(np.abs(expansion.coef)))
    for found in (predict(few), predict(np.tile(few, (300, 1)))[:20]):
        assert found.dtype == rows.dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-2 * rtol * scale)


@pytest.mark.parametrize("distance", [1e7, 1e160, 1e300])
def test_far_from_all_atoms_the_constant_is_left(distance):
    model = kp.KMPRegressor(5, gamma=0.5).fit(X, Y)
    np.testing.assert_array_equal(model.predict(np.full((1, 3), distance)), model.intercept_)


def test_other_weights_are_noticed():
    expansion = replace(kp.KMPRegressor(5).fit(X, Y)._expansion)
    first = expansion.predict(X[:2])
    expansion.coef = 2 * expansion.coef
    np.testing.assert_allclose(expansion.predict(X[:2]), 2 * first, rtol=1e-12)
