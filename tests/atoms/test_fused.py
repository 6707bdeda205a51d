"""The fused pass on CUDA devices; without one, all but the compiled loop."""

import numpy as np
import pytest

from kernelpursuit import KernelDictionary
from kernelpursuit.atoms import fused
from kernelpursuit.kernels import make_kernel
from tests.problems import gaussian_kernel, points_and_centres

torch = pytest.importorskip("torch", reason="torch is not installed")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


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


@pytest.mark.parametrize("far", [False, True])
def test_layout_of_the_fused_pass(monkeypatch, far):
    """Everything but the compiled loop itself: padding, splitting, far pairs, parts."""
    from contextlib import nullcontext
    from types import SimpleNamespace

    monkeypatch.setattr(fused, "compiled_loop", Launcher)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    properties = SimpleNamespace(multi_processor_count=2, shared_memory_per_block_optin=232448)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    X, Z = points_and_centres(1111, 301, d=7)
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
        np.testing.assert_allclose(out.numpy(), gaussian_kernel(X, Z, 0.1).T @ V.astype(float), rtol=0, atol=2e-4)
    limits = {(64, 16): 128, (64, 64): 128, (128, 64): 64, (256, 16): 64}
    assert all(fused.fitting_config(*sizes, 232448).centres == centres for sizes, centres in limits.items())
    high, low = fused.split_bits(torch, torch.asarray(X))
    assert torch.equal(high + low, torch.asarray(X)) and torch.all(torch.abs(low) <= 2.0**-10 * torch.abs(high))


def test_without_a_cuda_device_nothing_is_fused(monkeypatch):
    X = torch.asarray(points_and_centres(30)[0])
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
    np.testing.assert_allclose(
        products, gaussian_kernel(X.numpy(), X.numpy(), k.params["gamma"]).T @ X.numpy(), atol=1e-4
    )


@needs_cuda
@pytest.mark.parametrize("b", [1, 16, 33, 70])
@pytest.mark.parametrize("n, m, d", [(1000, 777, 3), (5003, 131, 54), (70001, 300, 100)])
def test_fused_pass_on_a_device(n, m, d, b):
    pytest.importorskip("triton", reason="Triton is not installed")
    X, Z = points_and_centres(n, m, d)
    X[:: n // 7] *= 50
    Z[:3] = X[:: n // 7][:3]
    gamma = 0.5 / d
    V = np.random.default_rng(b).normal(size=(n, b)).astype(np.float32)
    points, centres, vectors = (torch.asarray(x, device="cuda") for x in (X, Z, V))
    D = KernelDictionary(points, centres, make_kernel("rbf", points, gamma=gamma), storage="tiles")
    assert D._fused is not None
    products = D.correlate(vectors)
    assert D._fused._works
    expected = gaussian_kernel(X, Z, gamma).T @ V.astype(float)
    scale = np.sqrt(np.sum(gaussian_kernel(X, Z, gamma) ** 2, axis=0))[:, None]
    assert np.max(np.abs(products - expected) / np.maximum(scale, 1)) < 1e-4
    D._fused = None
    np.testing.assert_allclose(D.correlate(vectors), products, rtol=0, atol=1e-4 * np.max(scale))
