"""Of a matrix that equals its transpose a half is read or computed, of any other all; products are the same."""

from contextlib import nullcontext

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KernelDictionary
from kernelpursuit.atoms import dense, kernel, threads, tiles
from kernelpursuit.atoms.dense import FEW_VECTORS, FEWER_VECTORS, symmetric_product
from kernelpursuit.atoms.threads import one_blas_thread
from kernelpursuit.atoms.tiles import Blocks, symmetric_pass, tiled_pass
from kernelpursuit.kernels import make_kernel


def symmetric(n):
    A = np.random.default_rng(n).normal(size=(n, n))
    return A @ A.T / n


def parts_of(matrix):
    return lambda atoms: lambda rows: matrix[atoms, rows]


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
    """Small tiles for small matrices; which passes used one triangle only, and of how many vectors."""
    seen = []

    def by_triangle(matrix, V):
        seen.append(V.shape[1])
        return symmetric_product(matrix, V)

    def by_tiles(n, tiles, V, *options):
        seen.append(V.shape[1])
        return symmetric_pass(n, tiles, V, *options)

    for module in (dense, kernel):
        monkeypatch.setattr(module, "symmetric_product", by_triangle)
    monkeypatch.setattr(kernel, "symmetric_pass", by_tiles)
    monkeypatch.setattr(kernel, "side_of_tiles", lambda itemsize: 8)
    monkeypatch.setattr(kernel, "FEW_ENTRIES", 0)
    return seen


@pytest.mark.parametrize("vectors", [1, 2, 9])
@pytest.mark.parametrize(("n", "side"), [(1, 3), (7, 7), (8, 7), (40, 3), (61, 5)])
def test_one_triangle_is_enough(n, side, vectors):
    K = symmetric(n)
    V = np.random.default_rng(1).normal(size=(n, vectors))
    upper = np.where(np.arange(n) // side >= np.arange(n)[:, None] // side, K, np.nan)  # tiles below the diagonal
    np.testing.assert_allclose(symmetric_pass(n, parts_of(upper), V, side), K @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 130])
def test_the_lower_triangle_of_a_part_of_an_array_is_enough(n):
    K = symmetric(n)
    whole = np.full((n + 3, n + 5), np.nan)
    part = whole[2 : n + 2, 1 : n + 1]
    part[:] = np.where(np.tri(n) > 0, K, np.nan)
    V = np.random.default_rng(1).normal(size=(n, 3))
    np.testing.assert_allclose(symmetric_product(part, V), K @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("blocks", [Blocks(1, 1), Blocks(4, 7), Blocks(100, 3), Blocks(3, 100)])
def test_tiles_cover_a_matrix_of_any_shape(blocks):
    A, V = np.random.default_rng(0).normal(size=(23, 31)), np.random.default_rng(1).normal(size=(31, 4))
    np.testing.assert_allclose(tiled_pass(31, 23, parts_of(A), V, blocks), A @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("one_way", [symmetric_pass, tiled_pass])
def test_the_bits_do_not_depend_on_the_number_of_threads(one_way, monkeypatch):
    K, V, found = symmetric(200), np.random.default_rng(1).normal(size=(200, 3)), []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_threads", lambda count=count: count)
        sizes = (200, parts_of(K), V, 16) if one_way is symmetric_pass else (200, 200, parts_of(K), V, Blocks(16, 16))
        found.append(one_way(*sizes))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_float32_sums_are_short():
    """Sums over tiles are float64, so that the error of a product does not grow with the rows."""
    n = 4096
    K = np.ones((n, n), dtype=np.float32)
    V = np.full((n, 1), 0.1, dtype=np.float32)
    exact = n * float(np.float32(0.1))
    assert np.max(np.abs(symmetric_pass(n, parts_of(K), V, 64) - exact)) < 1e-6 * exact


@pytest.mark.parametrize("vectors", [1, 2, FEWER_VECTORS + 1, FEW_VECTORS, FEW_VECTORS + 1])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_a_kernel_matrix(dtype, order, vectors, way, halves):
    K = np.asarray(symmetric(75), dtype=dtype)
    K = np.asarray((K + K.T) / 2, order=order)
    V = np.random.default_rng(1).normal(size=(75, vectors)).astype(dtype)
    products = DenseDictionary(K, gram=K).correlate(V)
    most = FEW_VECTORS if way != "two threads" and dtype == np.float64 else 0
    assert products.dtype == np.float64 and halves == ([vectors] if vectors <= most else [])
    np.testing.assert_allclose(products, K.T @ V, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5)


@pytest.mark.parametrize("n", [2, 600])
def test_one_different_entry_is_enough(n, way, halves):
    K = symmetric(n)
    K[0, n - 1] += 1e-3
    assert DenseDictionary(symmetric(n), gram=None).kept_symmetric is False
    V = np.ones((n, 2))
    np.testing.assert_allclose(DenseDictionary(K, gram=K).correlate(V), K.T @ V, rtol=1e-12)
    assert not halves


def test_other_matrices_are_read_in_full(halves):
    K = symmetric(20)
    part = K[:10, 5:]  # neither order is contiguous
    np.testing.assert_allclose(DenseDictionary(part).correlate(np.ones((10, 1))), part.T @ np.ones((10, 1)), rtol=1e-12)
    np.testing.assert_allclose(DenseDictionary(K).correlate(np.ones((20, 1))), K.T @ np.ones((20, 1)), rtol=1e-12)
    assert not halves


@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_the_training_points(dtype, storage, way, halves):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    X[0] = 1e6  # far from all others
    k = make_kernel("rbf", X, gamma=0.5)
    V = np.random.default_rng(1).normal(size=(50, 2)).astype(dtype)
    D = KernelDictionary(X, X, k, storage=storage)
    np.testing.assert_allclose(D.correlate(V), k.between(X, X).T @ V, rtol=1e-4 if dtype == np.float32 else 1e-12)
    half = storage == "tiles" or (way != "two threads" and dtype == np.float64)
    assert halves == [2] * half


@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_other_centres(storage, halves):
    X = np.random.default_rng(0).normal(size=(50, 3))
    k = make_kernel("rbf", X, gamma=0.5)
    D = KernelDictionary(X, X[:50].copy(), k, storage=storage)
    np.testing.assert_allclose(D.correlate(np.ones((50, 2))), k.between(X, X).T @ np.ones((50, 2)), rtol=1e-12)
    assert not halves


@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_a_function_of_the_user_need_not_be_symmetric(storage, halves):
    X = np.random.default_rng(0).normal(size=(30, 2))

    def skewed(A, B):
        return A[:, :1] + 2 * B[:, :1].T

    V = np.ones((30, 1))
    D = KernelDictionary(X, X, make_kernel(skewed, X), storage=storage)
    np.testing.assert_allclose(D.correlate(V), skewed(X, X).T @ V, rtol=1e-12)
    assert not halves


def test_tiles_of_a_cache():
    assert tiles.side_of_tiles(4) ** 2 * 4 <= 2 * tiles.CACHE_TILE >= tiles.side_of_tiles(8) ** 2 * 8
