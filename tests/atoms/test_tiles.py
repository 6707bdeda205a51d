"""Passes over a kernel matrix that does not fit: its tiles are made anew, or kept in part."""

import tracemalloc

import numpy as np
import pytest

from kernelpursuit import KernelDictionary, KMPRegressor, Squares, pursue
from kernelpursuit.atoms import kernel as module
from kernelpursuit.atoms import threads
from kernelpursuit.atoms.tiles import (
    CACHE_TILE,
    Blocks,
    cache_blocks,
    parts_of_pass,
    side_of_tiles,
    symmetric_pass,
    tiled_pass,
)
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms
from tests.problems import data, symmetric_matrix

N = 900


def parts_of(matrix):
    return lambda atoms: lambda rows: matrix[atoms, rows]


def test_parts_cover_the_matrix_once():
    for n, m in ((1, 1), (5, 3), (1000, 3), (3, 1000), (2000, 1500)):
        for itemsize, limit in ((4, 2**30), (8, 100), (8, 1)):
            blocks = cache_blocks(n, m, itemsize, limit)
            assert blocks.rows * blocks.columns * itemsize <= max(limit, itemsize) and min(blocks) >= 1
            if n * m > 10**5 and limit < 1000:
                continue
            seen = np.zeros((n, m), dtype=int)
            for rows, columns in parts_of_pass(n, m, blocks):
                seen[rows, columns] += 1
            assert np.all(seen == 1)
    assert len(parts_of_pass(10**6, 10, Blocks(1000, 10))) >= 32  # few centres: there is still work for many threads
    assert all(itemsize * side_of_tiles(itemsize) ** 2 <= 2 * CACHE_TILE for itemsize in (4, 8))


@pytest.mark.parametrize("vectors", [1, 2, 9])
@pytest.mark.parametrize(("n", "side"), [(1, 3), (7, 7), (8, 7), (40, 3), (61, 5)])
def test_tiles_above_the_diagonal_are_enough(n, side, vectors):
    K, V = symmetric_matrix(n), np.random.default_rng(1).normal(size=(n, vectors))
    upper = np.where(np.arange(n) // side >= np.arange(n)[:, None] // side, K, np.nan)
    np.testing.assert_allclose(symmetric_pass(n, parts_of(upper), V, side), K @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("blocks", [Blocks(1, 1), Blocks(4, 7), Blocks(100, 3), Blocks(3, 100)])
def test_tiles_cover_a_matrix_of_any_shape(blocks):
    A, V = np.random.default_rng(0).normal(size=(23, 31)), np.random.default_rng(1).normal(size=(31, 4))
    np.testing.assert_allclose(tiled_pass(31, 23, parts_of(A), V, blocks), A @ V, rtol=1e-12, atol=1e-12)


def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    K, V = symmetric_matrix(200), np.random.default_rng(1).normal(size=(200, 3))
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_threads", lambda count=count: count)
        passes = (
            symmetric_pass(200, parts_of(K), V, 16),
            tiled_pass(200, 200, parts_of(K), V, Blocks(16, 16)),
        )
        found.append(np.stack(passes))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_float32_sums_are_short():
    """Sums over tiles are float64, so that the error of a product does not grow with the rows."""
    n = 4096
    K, V = np.ones((n, n), dtype=np.float32), np.full((n, 1), 0.1, dtype=np.float32)
    expected = n * float(np.float32(0.1))
    assert np.max(np.abs(symmetric_pass(n, parts_of(K), V, 64) - expected)) < 1e-6 * expected


@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_pass_takes_a_tile_for_each_thread(count, monkeypatch):
    """Far less than the matrix, 61 MiB. Of several threads, products of all pairs of stripes may wait to be added."""
    monkeypatch.setattr(threads, "usable_threads", lambda: count)
    X = np.random.default_rng(0).normal(size=(4000, 10)).astype(np.float32)
    D, V = KernelDictionary(X, X, make_kernel("rbf", X), storage="tiles"), np.ones((4000, 8), dtype=np.float32)
    tracemalloc.start()
    D.correlate(V)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    waiting = 0 if count == 1 else (-(-4000 // 512) + 1) * V.size * 8
    assert peak < (count + 2) * CACHE_TILE + waiting


def test_a_symmetric_kernel_is_computed_by_halves(monkeypatch):
    X = np.random.default_rng(0).normal(size=(640, 3))
    monkeypatch.setattr(module, "side_of_tiles", lambda itemsize: 64)
    V, skewed = np.ones((640, 2)), lambda A, B: A[:, :1] + 2 * B[:, :1].T
    for kernel, Z, half in (("rbf", X, True), ("rbf", X.copy(), False), (skewed, X, False)):
        k = make_kernel(kernel, X)
        D = KernelDictionary(X, Z, k, storage="tiles")
        products, entries = counted(D, V)
        np.testing.assert_allclose(products, k.between(X, Z).T @ V, rtol=1e-10, atol=1e-10)
        assert entries == (640**2 + 640 * 64) / 2 if half else 640**2


# ---------------------------------------------------------------------------------------------- tiles that are kept


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_TILE", 2**16)
    monkeypatch.setattr(module, "COLUMNS", 1)
    monkeypatch.setattr(module, "side_of_tiles", lambda itemsize: 64)


def dictionary(X, Z, **options):
    return KernelDictionary(X, Z, make_kernel("rbf", X, gamma=0.3), **options)


def counted(D, V):
    """A product with all atoms, and how many kernel values were computed for it."""
    kernel, made = D.kernel, []

    class Counting:
        symmetric, parallel = kernel.symmetric, kernel.parallel

        def finite(self, X, Z, out=None):
            made.append(X.shape[0] * Z.shape[0])
            return kernel.finite(X, Z, out)

    D.kernel = Counting()
    products, D.kernel = D.correlate(V), kernel
    return products, sum(made)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("centres", [N, 600])
@pytest.mark.parametrize("share", [0.3, 0.9, 1.4])
def test_what_fits_is_kept_and_changes_no_bit(dtype, centres, share, small_tiles):
    X = data(N)[0].astype(dtype)
    Z = X if centres == N else X[:centres]
    matrix = N * len(Z) * X.itemsize
    memory = int(share * matrix / (2 if Z is X else 1.01) / module.KEPT_SHARE)  # of what is to be kept at most
    V = np.random.default_rng(0).normal(size=(N, 3)).astype(dtype)
    D, plain = dictionary(X, Z, memory=min(memory, matrix - 1)), dictionary(X, Z, memory=memory, storage="tiles")
    assert D.in_memory == (share > 1 and Z is X)
    expected, all_values = counted(plain, V)
    for computed_before in (0.0, D.tiles_kept):
        products, computed = counted(D, V)
        np.testing.assert_array_equal(products, expected)
        assert computed == pytest.approx((1 - computed_before) * all_values, abs=0.05 * all_values)
    if D.in_memory:
        assert computed == 0 and memory - D.spare < 0.8 * matrix and "half of the kernel matrix kept" in D.plan
    else:
        assert 0 < computed and f"{100 * D.tiles_kept:.0f} % of them kept" in D.plan


def test_no_tile_is_kept_where_nobody_wants_it():
    X, y = data(N)
    D = dictionary(X, X, storage="tiles")
    D.correlate(X)
    assert D.tiles_kept == 0
    assert KMPRegressor(3, gamma=0.3, memory=0).fit(X, y).path_.passes >= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("centres", [N, 300])
def test_moments_are_sums_in_float64(dtype, storage, centres):
    X = data(N)[0].astype(dtype)
    Z = X if centres == N else X[:centres]
    D, rng = dictionary(X, Z, storage=storage), np.random.default_rng(0)
    V, weights = rng.normal(size=(N, 2)), rng.uniform(0.5, 2, size=N)
    K = D.columns(np.arange(len(Z))).astype(np.float64)
    products, squares = D.moments(V, weights)
    limit = 1e-12 if dtype == np.float64 else 1e-6  # values of float32 tiles may differ by a last digit
    np.testing.assert_allclose(products, K.T @ V, atol=limit * N)
    np.testing.assert_allclose(squares, (K * K).T @ weights, rtol=limit)


@pytest.mark.parametrize("gamma", [0.02, 3.0])
def test_pools_pay_or_rest_where_a_half_is_kept(gamma, small_tiles):
    """The atoms are those of a kept matrix, which is read for each of them; narrow kernels take several at a pass."""
    X, y = data(N)
    kernel = make_kernel("rbf", X, gamma=gamma)
    D, whole = KernelDictionary(X, X, kernel, memory=6 * 10**6), KernelDictionary(X, X, kernel, storage="dense")
    assert D.in_memory and D.tiles_kept == 1 and not whole.tiles_kept
    half, plain = (pursue(Squares(one, y), n_atoms(60), lookahead="auto") for one in (D, whole))
    assert half.atoms.tolist() == plain.atoms.tolist() and plain.passes >= 61
    assert half.passes < (0.5 if gamma == 3 else 1.1) * plain.passes
