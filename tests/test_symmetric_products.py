"""A kept matrix that equals its transpose is read by one triangle, any other is not."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KernelDictionary
from kernelpursuit.dictionaries import dense
from kernelpursuit.dictionaries.dense import FEW_VECTORS, is_symmetric
from kernelpursuit.kernels import make_kernel


def symmetric(n):
    A = np.random.default_rng(n).normal(size=(n, n))
    return A @ A.T / n


@pytest.fixture
def counted(monkeypatch):
    """How many vectors were multiplied by one triangle, with one thread."""
    seen = []
    monkeypatch.setattr(dense, "usable_threads", lambda: 1)
    true = dense.dsymv
    monkeypatch.setattr(dense, "dsymv", lambda *a: seen.append(1) or true(*a))
    return seen


@pytest.mark.parametrize("vectors", [1, 2, FEW_VECTORS, FEW_VECTORS + 1])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 7, 600])
def test_products_of_a_symmetric_matrix(n, order, vectors, counted):
    K = np.asarray(symmetric(n), order=order)
    V = np.random.default_rng(1).normal(size=(n, vectors))
    products = DenseDictionary(K, gram=K).correlate(V)
    np.testing.assert_allclose(products, K.T @ V, rtol=1e-12, atol=1e-12)
    assert len(counted) == (vectors if vectors <= FEW_VECTORS else 0)


@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_several_threads_read_all_of_it(dtype, order, vectors, counted, monkeypatch):
    monkeypatch.setattr(dense, "usable_threads", lambda: 2)
    K = np.asarray(symmetric(40), order=order, dtype=dtype)
    K[0, 1] += 1  # a product with the transpose would be another one
    V = np.random.default_rng(1).normal(size=(40, vectors)).astype(dtype)
    products = DenseDictionary(K, gram=K).correlate(V)
    assert products.dtype == np.float64 and not counted
    np.testing.assert_allclose(products, K.T @ V, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize("n", [2, 600])
def test_one_different_entry_is_enough(n, counted):
    K = symmetric(n)
    K[0, n - 1] += 1e-3
    assert not is_symmetric(K) and is_symmetric(symmetric(n))
    V = np.ones((n, 2))
    np.testing.assert_allclose(DenseDictionary(K, gram=K).correlate(V), K.T @ V, rtol=1e-12)
    assert not counted


def test_parts_of_a_matrix_and_other_grams_are_left_alone(counted):
    K = symmetric(20)
    V = np.ones((10, 1))
    part = K[:10, :10]  # neither order is contiguous
    np.testing.assert_allclose(DenseDictionary(part, gram=part).correlate(V), part.T @ V, rtol=1e-12)
    np.testing.assert_allclose(DenseDictionary(K).correlate(np.ones((20, 1))), K.T @ np.ones((20, 1)), rtol=1e-12)
    assert not counted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_the_training_points(dtype, counted):
    """float32 sums of one triangle would be less exact than the bounds on them say."""
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    k = make_kernel("rbf", X, gamma=0.5)
    V = np.random.default_rng(1).normal(size=(50, 2)).astype(dtype)
    D = KernelDictionary(X, X, k)
    np.testing.assert_allclose(D.correlate(V), k.between(X, X).T @ V, rtol=1e-4 if dtype == np.float32 else 1e-12)
    assert len(counted) == (2 if dtype == np.float64 else 0)


def test_a_function_of_the_user_need_not_be_symmetric(counted):
    X = np.random.default_rng(0).normal(size=(30, 2))

    def skewed(A, B):
        return A[:, :1] + 2 * B[:, :1].T

    V = np.ones((30, 1))
    D = KernelDictionary(X, X, make_kernel(skewed, X))
    np.testing.assert_allclose(D.correlate(V), skewed(X, X).T @ V, rtol=1e-12)
    assert not counted
