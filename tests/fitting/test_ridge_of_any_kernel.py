"""A ridge restrains the weights under kernels that are not positive definite too."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from kernelpursuit import KMPClassifier, KMPRanker, KMPRegressor
from kernelpursuit.atoms import DenseDictionary
from kernelpursuit.pursuit.ridge import penalty_products


def distances(A, B):
    return np.sqrt(np.sum((A[:, None] - B[None]) ** 2, axis=2))


INDEFINITE = {
    "distance": lambda A, B: -distances(A, B),
    "log": lambda A, B: -np.log1p(distances(A, B) ** 2),
    "multiquadric": lambda A, B: np.sqrt(1 + distances(A, B) ** 2),
    "thin plate": lambda A, B: distances(A, B) ** 2 * np.log(distances(A, B) + 1e-9),
    "tanh": lambda A, B: np.tanh(A @ B.T - 1),
    "sigmoid": "sigmoid",
}
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2))
y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=80)


def penalised(K, y, alpha):
    """argmin |y - b - K c|² + alpha |c|², by its definition."""
    centred = K - K.mean(axis=0)
    return np.linalg.solve(centred.T @ centred + alpha * np.eye(K.shape[1]), centred.T @ (y - y.mean()))


@pytest.mark.parametrize("name", INDEFINITE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_alpha_acts_as_its_definition_says(name, dtype):
    kernel = INDEFINITE[name]
    sizes = []
    for alpha in (0.1, 10.0, 1e6, "auto"):
        model = KMPRegressor(12, kernel=kernel, alpha=alpha).fit(X.astype(dtype), y)
        given = {"gamma": model.gamma_, "coef0": 1} if isinstance(kernel, str) else {}
        K = pairwise_kernels(X, X[model.support_], metric=kernel, **given) if given else kernel(X, X[model.support_])
        expected = penalised(K, y, model.alpha_)
        tolerance = (1e-6 if dtype == np.float64 else 1e-2) * np.max(np.abs(expected))
        np.testing.assert_allclose(model.dual_coef_, expected, rtol=0, atol=tolerance)
        sizes.append(np.linalg.norm(model.dual_coef_))
    assert sizes[0] > sizes[1] > 1e3 * sizes[2]


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_other_losses(loss):
    sizes = [
        np.linalg.norm(KMPRegressor(8, kernel=INDEFINITE["distance"], loss=loss, alpha=alpha).fit(X, y).dual_coef_)
        for alpha in (0.1, 10.0, 1e4)
    ]
    assert sizes[0] > sizes[1] > 10 * sizes[2]


def test_a_matrix_is_as_its_function():
    kernel = INDEFINITE["distance"]
    by_matrix = KMPRegressor(8, kernel="precomputed", alpha=1.0).fit(kernel(X, X), y)
    by_function = KMPRegressor(8, kernel=kernel, alpha=1.0).fit(X, y)
    np.testing.assert_array_equal(by_matrix.support_, by_function.support_)
    np.testing.assert_allclose(by_matrix.dual_coef_, by_function.dual_coef_)


def test_classes_and_ranks():
    for model in (KMPClassifier(8, kernel="sigmoid"), KMPRanker(8, kernel="sigmoid")):
        given = {} if isinstance(model, KMPClassifier) else {"group": [40, 40]}
        target = (y > 0).astype(int)
        weak, strong = (
            np.linalg.norm(model.set_params(alpha=alpha).fit(X, target, **given).dual_coef_) for alpha in (0.1, 1e3)
        )
        assert weak > 10 * strong


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "cosine", "poly", "chi2"])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_positive_kernels_keep_their_own_penalty(kernel, dtype, scale):
    rows = (scale * np.abs(X)).astype(dtype)
    K = pairwise_kernels(np.concatenate([rows, rows]), metric=kernel).astype(np.float64)
    dictionary = DenseDictionary(K, gram=K)
    assert penalty_products(dictionary.gram, dictionary.shape[1]) == dictionary.gram
