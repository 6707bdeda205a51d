"""Kernels that are not positive semidefinite: spans of their positive part, and a ridge on their weights."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel, sigmoid_kernel

import kernelpursuit as kp
from kernelpursuit.atoms import DenseDictionary
from kernelpursuit.criteria.rayleigh import SELECTIONS
from kernelpursuit.pursuit.ridge import penalty_products

X = np.random.default_rng(0).normal(size=(150, 6))
INDEFINITE = "is not positive semidefinite"


# ---------------------------------------------------------------------------------------------- spans


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("selection", [*SELECTIONS, "prefit"])
@pytest.mark.parametrize("kernel", ["sigmoid", sigmoid_kernel, "precomputed"])
def test_features_of_an_indefinite_kernel_are_of_its_positive_part(kernel, selection, dtype):
    K = sigmoid_kernel(X)
    rows = (K if kernel == "precomputed" else X).astype(dtype)
    model = kp.PursuitNystroem(kernel, n_components=80, selection=selection, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"{INDEFINITE} .* drawn at random"):
        Z = model.fit_transform(rows, X[:, 0])
    eigenvalues, U = np.linalg.eigh(K)
    positive = (U * np.maximum(eigenvalues, 0)) @ U.T
    assert Z.shape == (150, 80) and len(set(model.component_indices_)) == 80
    assert np.linalg.norm(Z @ Z.T - positive) < 0.2 * np.linalg.norm(positive)


SPANS = [*(kp.SparseKernelPCA(50, selection=one, random_state=0) for one in SELECTIONS), kp.SparseKernelNovelty(50)]


@pytest.mark.parametrize("kernel", ["sigmoid", ("sigmoid", {"coef0": -1})], ids=str)
@pytest.mark.parametrize("model", SPANS, ids=repr)
def test_the_kernel_is_named_once(model, kernel):
    with pytest.warns(ConvergenceWarning, match=f"kernel='sigmoid' {INDEFINITE}") as caught:
        clone(model).set_params(kernel=kernel).fit(X)
    assert len(caught) == 1


def test_a_matrix_with_a_few_negative_eigenvalues_is_still_followed():
    """Atoms for which Cauchy-Schwarz holds are taken, and what they leave is nowhere negative."""
    K = rbf_kernel(X, gamma=0.05) - 0.05 * np.outer(X[:, 0], X[:, 0])
    with pytest.warns(ConvergenceWarning, match=f"kernel='precomputed' {INDEFINITE}"):
        model = kp.SparseKernelPCA(100, kernel="precomputed").fit(K)
    assert np.all(np.diag(K - model.approximate_kernel(K)) >= -1e-8 * K.max())


ROWS = {
    "line": np.linspace(0, 3.5, 200)[:, None],
    "plane": X[:, :2],
    "duplicates": np.repeat(X[:50, :3], 3, axis=0),
    "weights far apart": X[:, :4],
}


@pytest.mark.parametrize("gamma", [1e-3, 1e-2, 1e-1, 1, 10])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ROWS)
def test_rounding_is_no_negative_eigenvalue_and_does_not_grow(name, dtype, gamma):
    """What an atom takes off may exceed what is left by rounding; taken on, that grew to 35 times K on the line."""
    rows = ROWS[name].astype(dtype)
    weights = 10.0 ** np.random.default_rng(1).uniform(-3, 3, len(rows)) if name == "weights far apart" else None
    K = rbf_kernel(rows.astype(np.float64), gamma=gamma)
    for settings in ({}, {"weakness": 0.5, "memory": 0}, {"selection": "diagonal"}, {"candidates": 3}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=f".*{INDEFINITE}")
            model = kp.SparseKernelPCA(len(rows), gamma=gamma, random_state=0, **settings).fit(
                rows, sample_weight=weights
            )
        left = K - model.approximate_kernel(rows)
        assert np.linalg.norm(left) < (1e-4 if dtype == np.float64 else 2e-2) * np.linalg.norm(K)


def test_a_path_that_float32_ends_says_so():
    rows = X[:, :4]
    with pytest.warns(ConvergenceWarning, match="digits of float32 .X in float64"):
        kp.SparseKernelPCA(100, gamma=0.01).fit(rows.astype(np.float32))
    with pytest.warns(ConvergenceWarning) as caught:
        kp.SparseKernelPCA(150, gamma=1e-3).fit(rows)
    assert not [one for one in caught if "float32" in str(one.message)]


# ---------------------------------------------------------------------------------------------- the ridge


def distances(A, B):
    return np.sqrt(np.sum((A[:, None] - B[None]) ** 2, axis=2))


def minus_distance(A, B):
    return -distances(A, B)


KERNELS = {
    "distance": minus_distance,
    "log": lambda A, B: -np.log1p(distances(A, B) ** 2),
    "multiquadric": lambda A, B: np.sqrt(1 + distances(A, B) ** 2),
    "thin plate": lambda A, B: distances(A, B) ** 2 * np.log(distances(A, B) + 1e-9),
    "tanh": lambda A, B: np.tanh(A @ B.T - 1),
    "sigmoid": "sigmoid",
}
rng = np.random.default_rng(0)
PLANE = rng.normal(size=(80, 2))
Y = np.sin(2 * PLANE[:, 0]) + 0.5 * rng.normal(size=80)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_alpha_is_a_penalty_on_the_squares_of_the_weights(name, dtype):
    """The weights are argmin |y - b - K c|² + alpha |c|²."""
    sizes = []
    for alpha in (0.1, 10.0, 1e6, "auto"):
        model = kp.KMPRegressor(12, kernel=KERNELS[name], alpha=alpha).fit(PLANE.astype(dtype), Y)
        kernel = partial(sigmoid_kernel, gamma=model.gamma_) if name == "sigmoid" else KERNELS[name]
        K = kernel(PLANE, PLANE[model.support_])
        K -= K.mean(axis=0)
        expected = np.linalg.solve(K.T @ K + model.alpha_ * np.eye(12), K.T @ (Y - Y.mean()))
        tolerance = (1e-6 if dtype == np.float64 else 1e-2) * np.max(np.abs(expected))
        np.testing.assert_allclose(model.dual_coef_, expected, rtol=0, atol=tolerance)
        sizes.append(np.linalg.norm(model.dual_coef_))
    assert sizes[0] > sizes[1] > 1e3 * sizes[2]


@pytest.mark.parametrize(
    "model",
    [
        kp.KMPRegressor(8, kernel=minus_distance, loss="huber"),
        kp.KMPRegressor(8, kernel=minus_distance, loss="absolute_error"),
        kp.KMPClassifier(8, kernel="sigmoid"),
        kp.KMPRanker(8, kernel="sigmoid"),
    ],
    ids=["huber", "absolute_error", "classes", "ranks"],
)
def test_other_losses_have_a_ridge_too(model):
    group = {"group": [40, 40]} if isinstance(model, kp.KMPRanker) else {}
    y = Y if isinstance(model, kp.KMPRegressor) else (Y > 0).astype(int)
    sizes = [np.linalg.norm(model.set_params(alpha=a).fit(PLANE, y, **group).dual_coef_) for a in (0.1, 10.0, 1e4)]
    assert sizes[0] > sizes[1] > 10 * sizes[2]


def test_a_kernel_matrix_has_the_ridge_of_its_function():
    by_matrix = kp.KMPRegressor(8, kernel="precomputed", alpha=1.0).fit(minus_distance(PLANE, PLANE), Y)
    by_function = kp.KMPRegressor(8, kernel=minus_distance, alpha=1.0).fit(PLANE, Y)
    np.testing.assert_array_equal(by_matrix.support_, by_function.support_)
    np.testing.assert_allclose(by_matrix.dual_coef_, by_function.dual_coef_)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "cosine", "poly", "chi2"])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_positive_kernels_keep_their_own_penalty(kernel, dtype, scale):
    rows = (scale * np.abs(PLANE)).astype(dtype)
    K = pairwise_kernels(np.concatenate([rows, rows]), metric=kernel).astype(np.float64)
    dictionary = DenseDictionary(K, gram=K)
    assert penalty_products(dictionary.gram, dictionary.shape[1]) == dictionary.gram
