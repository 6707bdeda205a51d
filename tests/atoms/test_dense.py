"""Products with a matrix in memory: of one that equals its transpose a half is read, of any other all."""

from contextlib import nullcontext

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KernelDictionary
from kernelpursuit.atoms import dense, kernel, threads
from kernelpursuit.atoms.dense import FEW_VECTORS, FEWER_VECTORS, symmetric_product
from kernelpursuit.atoms.threads import one_blas_thread
from kernelpursuit.kernels import make_kernel
from tests.problems import symmetric_matrix


@pytest.fixture(params=["one thread", "two threads", "two threads, BLAS held"])
def way(request, monkeypatch):
    """Who multiplies."""
    count = 1 if request.param == "one thread" else 2
    for module in (dense, threads):
        monkeypatch.setattr(module, "usable_threads", lambda: count)
    with one_blas_thread() if request.param.endswith("held") else nullcontext():
        yield request.param


@pytest.fixture
def halves(monkeypatch):
    """Numbers of vectors of the products that read one triangle only."""
    seen = []
    for module in (dense, kernel):
        monkeypatch.setattr(
            module, "symmetric_product", lambda matrix, V: seen.append(V.shape[1]) or symmetric_product(matrix, V)
        )
    return seen


@pytest.mark.parametrize("n", [1, 2, 7, 130])
def test_the_lower_triangle_of_a_part_of_an_array_is_enough(n):
    K, whole = symmetric_matrix(n), np.full((n + 3, n + 5), np.nan)
    part = whole[2 : n + 2, 1 : n + 1]
    part[:] = np.where(np.tri(n) > 0, K, np.nan)
    V = np.random.default_rng(1).normal(size=(n, 3))
    np.testing.assert_allclose(symmetric_product(part, V), K @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("vectors", [1, 2, FEWER_VECTORS + 1, FEW_VECTORS, FEW_VECTORS + 1])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_a_symmetric_matrix(dtype, order, vectors, way, halves):
    K = symmetric_matrix(75)
    K = np.asarray((K + K.T) / 2, dtype=dtype, order=order)
    V = np.random.default_rng(1).normal(size=(75, vectors)).astype(dtype)
    products = DenseDictionary(K, gram=K).correlate(V)
    most = FEW_VECTORS if way != "two threads" and dtype == np.float64 else 0
    assert products.dtype == np.float64 and halves == ([vectors] if vectors <= most else [])
    np.testing.assert_allclose(products, K.T @ V, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_a_kept_kernel_matrix(dtype, way, halves):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    X[0] = 1e6  # far from all others
    k, V = make_kernel("rbf", X, gamma=0.5), np.random.default_rng(1).normal(size=(50, 2)).astype(dtype)
    D = KernelDictionary(X, X, k)
    np.testing.assert_allclose(D.correlate(V), k.between(X, X).T @ V, rtol=1e-4 if dtype == np.float32 else 1e-12)
    assert halves == [2] * (way != "two threads" and dtype == np.float64)


@pytest.mark.parametrize("n", [2, 600])
def test_one_different_entry_is_enough(n, halves):
    K, V = symmetric_matrix(n), np.ones((n, 2))
    K[0, n - 1] += 1e-3
    D = DenseDictionary(K, gram=K)
    np.testing.assert_allclose(D.correlate(V), K.T @ V, rtol=1e-12)
    assert not D.kept_symmetric and not halves


def test_other_matrices_are_read_in_full(halves):
    K, V = symmetric_matrix(20), np.ones((20, 1))
    part = K[:10, 5:]  # neither order is contiguous
    for matrix in (part, K):  # this one is symmetric, but no inner products are known to be
        np.testing.assert_allclose(DenseDictionary(matrix).correlate(V[: len(matrix)]), matrix.T @ V[: len(matrix)])
    X = np.random.default_rng(0).normal(size=(20, 2))

    def skewed(A, B):
        return A[:, :1] + 2 * B[:, :1].T

    for Z, function in ((X.copy(), "rbf"), (X, skewed)):
        k = make_kernel(function, X)
        np.testing.assert_allclose(KernelDictionary(X, Z, k).correlate(V), k.between(X, Z).T @ V, rtol=1e-12)
    assert not halves
