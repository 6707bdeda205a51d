"""A kernel dictionary says what it keeps, and works with arrays of any library."""

import array_api_strict
import numpy as np
import pytest

from kernelpursuit import KernelDictionary
from kernelpursuit.arrays import on_host
from kernelpursuit.atoms import kernel as kernel_module
from kernelpursuit.kernels.kernels import KERNEL_NAMES, Kernel, make_kernel
from tests.problems import gaussian_kernel, points_and_centres

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
LIBRARIES = [
    pytest.param(lambda: array_api_strict, id="strict"),
    pytest.param(lambda: torch, id="torch", marks=needs_torch),
]


def test_plan():
    X, Z = points_and_centres(200, 100)
    k = make_kernel("rbf", X)
    assert KernelDictionary(X, Z, k, memory=2**20).plan == "kernel matrix kept: 200 x 100 float32, 0.1 of 1 MiB"
    plan = KernelDictionary(X, Z, k, memory=2**15).plan
    assert plan.startswith("kernel recomputed in tiles of 200 x 10 at each pass, 16 % of them kept: "), plan
    assert "the matrix would take 0.1 MiB" in plan


@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
@pytest.mark.parametrize("library", LIBRARIES)
def test_kernel_dictionary_of_other_arrays(library, name, dtype, storage):
    xp = library()
    X, Z = (np.abs(points) for points in points_and_centres(50, 30, dtype=getattr(np, dtype)))
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
    X, _ = points_and_centres(200)
    X[::20] *= 200
    D = KernelDictionary(xp.asarray(X), xp.asarray(X), make_kernel("rbf", xp.asarray(X), gamma=0.1), storage="tiles")
    np.testing.assert_allclose(on_host(D.columns(np.arange(200))), gaussian_kernel(X, X, 0.1), rtol=0, atol=1e-4)


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_is_moved_unasked(library):
    xp = library()
    X, Z = points_and_centres(20, 10)
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
    X, Z = (torch.asarray(points) for points in points_and_centres(20, 10))
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
    X, Z = (torch.asarray(points) for points in points_and_centres(50, 30, dtype=np.float64))
    k = make_kernel("rbf", X, gamma=0.2)
    for storage, memory in (("tiles", 50 * 8 * 4), ("dense", 50 * 8 * 4)):
        D = KernelDictionary(X, Z, k, storage=storage, memory=memory)
        expected = gaussian_kernel(X.numpy(), Z.numpy(), 0.2)
        np.testing.assert_allclose(on_host(D.columns(np.arange(30))), expected, atol=1e-12)
        np.testing.assert_allclose(D.correlate(X), expected.T @ X.numpy(), atol=1e-11)
