"""Tiles, threads and devices: the same numbers whatever computes them."""

import os
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from scipy import sparse
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_info

from kernelpursuit import DenseDictionary, KernelDictionary, StackedDictionary
from kernelpursuit._sklearn import usable_threads
from kernelpursuit.arrays import on_host
from kernelpursuit.atoms import fused, threads, tiles
from kernelpursuit.atoms import kernel as kernel_module
from kernelpursuit.atoms.threads import in_threads, spans
from kernelpursuit.atoms.tiles import Blocks, cache_blocks, parts_of_pass
from kernelpursuit.kernels.kernels import KERNEL_NAMES, Kernel, make_kernel

try:
    import torch
except ImportError:
    torch = None

try:
    import array_api_strict
except ImportError:
    array_api_strict = None

needs_strict = pytest.mark.skipif(array_api_strict is None, reason="array-api-strict is not installed")
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
needs_cuda = pytest.mark.skipif(torch is None or not torch.cuda.is_available(), reason="no CUDA device here")
LIBRARIES = [
    pytest.param(lambda: array_api_strict, id="strict", marks=needs_strict),
    pytest.param(lambda: torch, id="torch", marks=needs_torch),
]


def data(n=1200, m=900, d=5, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(k, d)).astype(dtype) for k in (n, m)]


def exact(X, Z, gamma):
    """Gaussian kernel in float64, by differences."""
    return np.exp(-gamma * cdist(X.astype(np.float64), Z.astype(np.float64), "sqeuclidean"))


# ---------------------------------------------------------------------------------------------- tiles and threads


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
    assert [len(range(10**6)[part]) for part in spans(0, 5, 2)] == [2, 2, 1]
    assert len(parts_of_pass(10**6, 10, Blocks(1000, 10))) >= 32  # few centres: there is still work for many threads


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_nothing(monkeypatch, kernel, dtype):
    X, Z = data(dtype=dtype)
    V = np.random.default_rng(1).normal(size=(len(X), 4)).astype(dtype)
    results = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_threads", lambda count=count: count)
        k = make_kernel(kernel, X, gamma=0.1)
        D, kept, square = (
            KernelDictionary(X, Z, k, storage="tiles"),
            KernelDictionary(X, Z, k, storage="dense"),
            KernelDictionary(X, X, k),
        )
        columns = D.columns(np.arange(len(Z))[::-1])
        results.append(
            (D.correlate(V), columns, kept.columns(np.arange(700)), square.correlate(V), D.gram(None, np.arange(700)))
        )
    for several in results[1:]:
        for one, other in zip(results[0], several, strict=True):
            scale = np.max(np.abs(one))
            np.testing.assert_allclose(other, one, rtol=0, atol=scale * (1e-6 if dtype is np.float32 else 1e-14))
            assert np.array_equal(np.argmax(np.abs(other), axis=0), np.argmax(np.abs(one), axis=0))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_gets_its_threads_back(monkeypatch):
    """Also when passes overlap, and when a task fails."""
    monkeypatch.setattr(threads, "usable_threads", lambda: 3)
    before = blas_threads()

    def one_pass(_):
        return in_threads(lambda k: k * k, range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(result == [k * k for k in range(20)] for result in pool.map(one_pass, range(30)))
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k: 1 / k, range(3))
    assert blas_threads() == before


def test_users_callables_are_called_from_one_thread(monkeypatch):
    from threading import get_ident

    monkeypatch.setattr(threads, "usable_threads", lambda: 4)
    seen = set()

    def function(A, B):
        seen.add(get_ident())
        return A @ B.T + A[:, :1]  # not symmetric

    X, Z = data(dtype=np.float64)
    D = KernelDictionary(X, Z, make_kernel(function, X), storage="tiles")
    V = np.ones((len(X), 2))
    np.testing.assert_allclose(D.correlate(V), function(X, Z).T @ V, rtol=1e-10, atol=1e-10)
    assert seen == {get_ident()}


@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_pass_takes_a_tile_for_each_thread(count, monkeypatch):
    """Far less than the matrix, 61 MiB. Of several threads, products of all pairs of stripes may wait to be added."""
    monkeypatch.setattr(threads, "usable_threads", lambda: count)
    X, _ = data(4000, d=10)
    D = KernelDictionary(X, X, make_kernel("rbf", X), storage="tiles")
    V = np.ones((4000, 8), dtype=np.float32)
    tracemalloc.start()
    D.correlate(V)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    waiting = 0 if count == 1 else (-(-4000 // 512) + 1) * V.size * 8
    assert peak < (count + 2) * tiles.CACHE_TILE + waiting


def test_workers_of_joblib_do_not_oversubscribe(monkeypatch):
    """As many threads in one of two worker processes as leave the processors enough for both."""
    for name in [name for name in os.environ if name.endswith("_NUM_THREADS")]:
        monkeypatch.delenv(name)
    try:
        (inside,) = joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(usable_threads)()])
    finally:
        get_reusable_executor().shutdown(kill_workers=True)  # others start in another environment
    assert 1 <= inside <= max(1, joblib.cpu_count() // 2)


def test_plan():
    X, Z = data(200, 100)
    k = make_kernel("rbf", X)
    assert KernelDictionary(X, Z, k, memory=2**20).plan == "kernel matrix kept: 200 x 100 float32, 0.1 of 1 MiB"
    plan = KernelDictionary(X, Z, k, memory=2**15).plan
    assert plan.startswith("kernel recomputed in tiles of 200 x 10 at each pass, 16 % of them kept: "), plan
    assert "the matrix would take 0.1 MiB" in plan


# ---------------------------------------------------------------------------------------------- the Gaussian kernel


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accuracy_for_wide_and_narrow_kernels(dtype, gamma, shift):
    X = (np.round(data(300)[0] * 64) / 64 + shift).astype(dtype)  # numbers that both precisions hold
    near = X + dtype(2**-5) * (np.arange(5) == 0)
    k = make_kernel("rbf", X, gamma=gamma)
    error = 3e-5 if dtype is np.float32 else 1e-13 + 1e-15 * gamma * np.max(np.sum((X - X.mean(0)) ** 2, axis=1))
    for Z in (X, near.astype(dtype)):
        values = k.between(X, Z)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, exact(X, Z, gamma), rtol=0, atol=error)
    np.testing.assert_allclose(np.diagonal(k.between(X, X)), 1, rtol=0, atol=error)


def test_a_few_far_points_are_computed_in_float64():
    X, _ = data(600)
    X[::50] *= 200
    near = X.copy()
    near[:, 0] += 0.25
    k = make_kernel("rbf", X, gamma=0.1)
    points = k.prepare(X)
    assert 0 < len(points.far_rows) <= 12 and np.max(-points.rows[:, 5]) > 1000
    for Z in (X, near):
        for storage in ("dense", "tiles"):
            D = KernelDictionary(X, Z, k, storage=storage)
            np.testing.assert_allclose(D.columns(np.arange(600)), exact(X, Z, 0.1), rtol=0, atol=1e-4)
            V = np.eye(600, 40, dtype=np.float32)[::-1].copy()
            np.testing.assert_allclose(D.correlate(V), exact(X, Z, 0.1).T @ V, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_points_have_equal_columns(dtype):
    X = data(300, dtype=dtype)[0][np.random.default_rng(0).integers(0, 40, 300)]
    D = KernelDictionary(X, X, make_kernel("rbf", X), storage="tiles")
    columns = D.columns(np.arange(300))
    for j in range(300):
        twins = np.flatnonzero(np.all(X == X[j], axis=1))
        np.testing.assert_allclose(columns[:, twins], columns[:, [j] * len(twins)], rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_undefined_points_are_refused(bad, dtype):
    X, Z = data(dtype=dtype)
    k = make_kernel("rbf", X)
    Z[3, 1] = bad
    with pytest.raises(ValueError, match="infinite or undefined"):
        KernelDictionary(X, Z, k)


def test_sparse_and_dense_sides_may_be_mixed():
    X, Z = data(dtype=np.float64)
    k = make_kernel("rbf", X, gamma=0.2)
    for A, B in ((sparse.csr_array(X), Z), (X, sparse.csr_array(Z))):
        np.testing.assert_allclose(KernelDictionary(A, B, k).columns(np.arange(9)), exact(X, Z[:9], 0.2), atol=1e-12)
        np.testing.assert_allclose(k.between(A, B), exact(X, Z, 0.2), atol=1e-12)


@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
def test_kernels_can_be_pickled(name):
    X = np.abs(data(30, dtype=np.float64)[0])
    k = make_kernel(name, X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(k)).between(X, X), k.between(X, X))


# ---------------------------------------------------------------------------------------------- other libraries


@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
@pytest.mark.parametrize("library", LIBRARIES)
def test_kernel_dictionary_of_other_arrays(library, name, dtype, storage):
    xp = library()
    X, Z = (np.abs(points) for points in data(50, 30, dtype=getattr(np, dtype)))
    Z[4] = 0  # 0 / 0 in chi2 and cosine
    V = np.random.default_rng(1).normal(size=(50, 3)).astype(dtype)
    weights = np.arange(50.0)
    host = KernelDictionary(X, Z, make_kernel(name, X, weights=weights), storage=storage)
    k = make_kernel(name, xp.asarray(X), weights=weights)
    D = KernelDictionary(
        xp.asarray(X), xp.asarray(Z), k, storage=storage, memory=8 * 50 * 4 * 7 if storage == "tiles" else 2**30
    )
    close = {"rtol": 2e-5, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}
    for J in (np.array([5]), np.arange(30), np.array([7, 3, 3, 29])):
        columns = D.columns(J)
        assert type(columns) is type(xp.asarray(X)) and columns.dtype == getattr(xp, dtype)
        np.testing.assert_allclose(on_host(columns), host.columns(J), **close)
        for one, other in ((D.gram(None, J), host.gram(None, J)), (D.gram_diagonal(J), host.gram_diagonal(J))):
            assert isinstance(one, np.ndarray) and one.dtype == np.float64
            np.testing.assert_allclose(one, other, **close)
    products = D.correlate(xp.asarray(V))
    assert isinstance(products, np.ndarray) and products.dtype == np.float64
    np.testing.assert_allclose(products, host.correlate(V), rtol=close["rtol"], atol=100 * close["atol"])


@pytest.mark.parametrize("library", LIBRARIES)
def test_far_points_of_other_arrays(library):
    xp = library()
    X, _ = data(200)
    X[::20] *= 200
    D = KernelDictionary(xp.asarray(X), xp.asarray(X), make_kernel("rbf", xp.asarray(X), gamma=0.1), storage="tiles")
    np.testing.assert_allclose(on_host(D.columns(np.arange(200))), exact(X, X, 0.1), rtol=0, atol=1e-4)


@pytest.mark.parametrize("library", LIBRARIES)
def test_dense_and_stacked_of_other_arrays(library):
    xp = library()
    rng = np.random.default_rng(0)
    A, B, V = rng.normal(size=(8, 5)), rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    D = StackedDictionary([DenseDictionary(xp.asarray(A)), DenseDictionary(xp.asarray(B))])
    whole = np.hstack([A, B])
    for J in (np.array([6]), np.arange(8), np.array([7, 0, 5, 1]), np.array([2, 3])):
        columns = D.columns(J)
        assert type(columns) is type(xp.asarray(A))
        np.testing.assert_array_equal(on_host(columns), whole[:, J])
    np.testing.assert_allclose(D.correlate(xp.asarray(V)), whole.T @ V, atol=1e-12)
    np.testing.assert_array_equal(D.gram(None, np.arange(8)), np.eye(8))
    gram = xp.asarray(A.T @ A)
    tensor = DenseDictionary(xp.asarray(A), gram=gram)
    np.testing.assert_allclose(tensor.gram(np.array([3, 1]), np.array([0, 4, 2])), (A.T @ A)[[3, 1]][:, [0, 4, 2]])
    np.testing.assert_allclose(tensor.gram_diagonal(np.array([1, 2])), np.diagonal(A.T @ A)[1:3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_is_moved_unasked(library):
    xp = library()
    X, Z = data(20, 10)
    with pytest.raises(ValueError, match="bring both to one place"):
        KernelDictionary(xp.asarray(X), Z, make_kernel("rbf", xp.asarray(X)))
    with pytest.raises(ValueError, match="bring both to one place"):
        KernelDictionary(X, xp.asarray(Z), make_kernel("rbf", X))


@needs_torch
def test_devices_must_agree():
    X = torch.ones((4, 2))
    with pytest.raises(ValueError, match=r"cpu \(torch\).*meta"):
        KernelDictionary(X, torch.ones((3, 2), device="meta"), make_kernel("rbf", X))


@needs_torch
def test_callables_of_tensors():
    X, Z = (torch.asarray(points) for points in data(20, 10))
    D = KernelDictionary(X, Z, make_kernel(lambda A, B: A @ B.T, X))
    assert torch.allclose(D.columns(np.arange(10)), X @ Z.T, atol=1e-6)
    with pytest.raises(ValueError, match="must map n and m rows"):
        make_kernel(lambda a, b: (a * b).sum(), X)
    with pytest.raises(ValueError, match="must map n and m rows"):
        make_kernel(lambda A, B: A.numpy() @ B.numpy().T, X)
    with pytest.raises(ValueError, match="must map n and m rows") as caught:
        make_kernel(failing, X)
    assert str(caught.value.__cause__) == "mine"
    with pytest.raises(ValueError, match="negative values"):
        make_kernel("chi2", X).between(X, Z)


def failing(A, B):
    raise RuntimeError("mine")


@needs_torch
def test_out_of_device_memory_is_explained():
    def function(A, B):
        if A.shape[0] == 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return A @ B.T

    X = torch.ones((20, 2))
    with pytest.raises(MemoryError, match=r"tiles of 20 x 20 .*smaller memory= makes smaller tiles") as caught:
        KernelDictionary(X, X, Kernel(function=function), storage="tiles").correlate(X)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    with pytest.raises(RuntimeError, match="mine"):
        KernelDictionary(X, X, Kernel(function=failing), storage="tiles").correlate(X)


@needs_torch
def test_blocks_of_rows_on_a_device(monkeypatch):
    """Tiles shorter than the columns, as on an accelerator."""
    monkeypatch.setattr(kernel_module, "DEVICE_ROWS", 16)
    X, Z = (torch.asarray(points) for points in data(50, 30, dtype=np.float64))
    k = make_kernel("rbf", X, gamma=0.2)
    for storage, memory in (("tiles", 50 * 8 * 4), ("dense", 50 * 8 * 4)):
        D = KernelDictionary(X, Z, k, storage=storage, memory=memory)
        expected = exact(X.numpy(), Z.numpy(), 0.2)
        np.testing.assert_allclose(on_host(D.columns(np.arange(30))), expected, atol=1e-12)
        np.testing.assert_allclose(D.correlate(X), expected.T @ X.numpy(), atol=1e-11)


# ---------------------------------------------------------------------------------------------- the fused pass


def emulated_loop(zh, zl, xh, xl, vh, vl, out, n, m, span, *, B, CHUNK, **_):
    """What the compiled loop computes, in plain tensor operations."""
    z, x, v = zh + zl, xh + xl, vh + vl
    for part in range(out.shape[0]):
        out[part] = 0
        for start in range(part * span, min((part + 1) * span, n), CHUNK):
            rows = slice(start, min(start + CHUNK, (part + 1) * span, n))
            out[part] += (torch.exp2(z @ x[rows].T) @ v[:, rows].T).to(torch.float64)


class Launcher:
    def __getitem__(self, grid):
        return emulated_loop


@needs_torch
@pytest.mark.parametrize("far", [False, True])
def test_layout_of_the_fused_pass(monkeypatch, far):
    """Everything but the compiled loop itself: padding, splitting, far pairs, parts."""
    from contextlib import nullcontext
    from types import SimpleNamespace

    monkeypatch.setattr(fused, "compiled_loop", Launcher)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    properties = SimpleNamespace(multi_processor_count=2, shared_memory_per_block_optin=232448)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    X, Z = data(1111, 301, d=7)
    if far:
        X[::40] *= 300
        Z[::30] = X[::40][: len(Z[::30])]
        X[0], X[1] = 1e6, -1e6
    k = make_kernel("rbf", torch.asarray(X), gamma=0.1)
    P, Q = k.prepare(torch.asarray(X)), k.prepare(torch.asarray(Z))
    assert far == (P.far is not None)
    for b in (1, 16, 70):
        V = np.random.default_rng(b).normal(size=(1111, b)).astype(np.float32)
        out = fused.FusedPass(P, Q)(torch.asarray(V))
        assert out.dtype == torch.float64 and out.shape == (301, b)
        other = fused.FusedPass(P, Q, fused.Config(64, 32, 4, 1))(torch.asarray(V))
        np.testing.assert_allclose(other.numpy(), out.numpy(), rtol=0, atol=1e-4)
        np.testing.assert_allclose(out.numpy(), exact(X, Z, 0.1).T @ V.astype(float), rtol=0, atol=2e-4)
    limits = {(64, 16): 128, (64, 64): 128, (128, 64): 64, (256, 16): 64}
    assert all(fused.fitting_config(*sizes, 232448).centres == centres for sizes, centres in limits.items())
    high, low = fused.split_bits(torch, torch.asarray(X))
    assert torch.equal(high + low, torch.asarray(X)) and torch.all(torch.abs(low) <= 2.0**-10 * torch.abs(high))


@needs_torch
def test_without_a_cuda_device_nothing_is_fused(monkeypatch):
    X = torch.asarray(data(30)[0])
    k = make_kernel("rbf", X)
    assert fused.FusedPass.for_points(k.prepare(X), k.prepare(X)) is None
    assert fused.FusedPass.for_points(X, X) is None

    def no_compiler():
        raise ImportError("no triton")

    monkeypatch.setattr(fused, "compiled_loop", no_compiler)
    D = KernelDictionary(X, X, k, storage="tiles")
    D._fused = fused.FusedPass(k.prepare(X), k.prepare(X))
    with pytest.warns(RuntimeWarning, match="fused pass is not available"):
        products = D.correlate(X)
    np.testing.assert_allclose(D.correlate(X), products)  # said once
    np.testing.assert_allclose(products, exact(X.numpy(), X.numpy(), k.params["gamma"]).T @ X.numpy(), atol=1e-4)


@needs_cuda
@pytest.mark.parametrize("b", [1, 16, 33, 70])
@pytest.mark.parametrize("n, m, d", [(1000, 777, 3), (5003, 131, 54), (70001, 300, 100)])
def test_fused_pass_on_a_device(n, m, d, b):
    pytest.importorskip("triton", reason="Triton is not installed")
    X, Z = data(n, m, d)
    X[:: n // 7] *= 50
    Z[:3] = X[:: n // 7][:3]
    gamma = 0.5 / d
    V = np.random.default_rng(b).normal(size=(n, b)).astype(np.float32)
    points, centres, vectors = (torch.asarray(x, device="cuda") for x in (X, Z, V))
    D = KernelDictionary(points, centres, make_kernel("rbf", points, gamma=gamma), storage="tiles")
    assert D._fused is not None
    products = D.correlate(vectors)
    assert D._fused._works
    expected = exact(X, Z, gamma).T @ V.astype(float)
    scale = np.sqrt(np.sum(exact(X, Z, gamma) ** 2, axis=0))[:, None]
    assert np.max(np.abs(products - expected) / np.maximum(scale, 1)) < 1e-4
    D._fused = None
    np.testing.assert_allclose(D.correlate(vectors), products, rtol=0, atol=1e-4 * np.max(scale))
