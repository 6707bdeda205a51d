"""The Gaussian kernel by one matrix product: accurate wherever the points lie."""

import numpy as np
import pytest
from scipy import sparse

from kernelpursuit import KernelDictionary
from kernelpursuit.kernels import make_kernel
from kernelpursuit.kernels.gaussian import center_of
from tests.problems import gaussian_kernel, points_and_centres


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accuracy_for_wide_and_narrow_kernels(dtype, gamma, shift):
    X = (np.round(points_and_centres(300)[0] * 64) / 64 + shift).astype(dtype)  # numbers that both precisions hold
    near = X + dtype(2**-5) * (np.arange(5) == 0)
    k = make_kernel("rbf", X, gamma=gamma)
    error = 3e-5 if dtype is np.float32 else 1e-13 + 1e-15 * gamma * np.max(np.sum((X - X.mean(0)) ** 2, axis=1))
    for Z in (X, near.astype(dtype)):
        values = k.between(X, Z)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, gaussian_kernel(X, Z, gamma), rtol=0, atol=error)
    np.testing.assert_allclose(np.diagonal(k.between(X, X)), 1, rtol=0, atol=error)


def test_a_few_far_points_are_computed_in_float64():
    X, _ = points_and_centres(600)
    X[::50] *= 200
    near = X.copy()
    near[:, 0] += 0.25
    k = make_kernel("rbf", X, gamma=0.1)
    points = k.prepare(X)
    assert 0 < len(points.far_rows) <= 12 and np.max(-points.rows[:, 5]) > 1000
    V = np.eye(600, 40, dtype=np.float32)[::-1].copy()
    for Z in (X, near):
        K = gaussian_kernel(X, Z, 0.1)
        for storage in ("dense", "tiles"):
            D = KernelDictionary(X, Z, k, storage=storage)
            np.testing.assert_allclose(D.columns(np.arange(600)), K, rtol=0, atol=1e-4)
            np.testing.assert_allclose(D.correlate(V), K.T @ V, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_points_have_equal_columns(dtype):
    X = points_and_centres(300, dtype=dtype)[0][np.random.default_rng(0).integers(0, 40, 300)]
    D = KernelDictionary(X, X, make_kernel("rbf", X), storage="tiles")
    columns = D.columns(np.arange(300))
    for j in range(300):
        duplicates = np.flatnonzero(np.all(X == X[j], axis=1))
        np.testing.assert_allclose(
            columns[:, duplicates], columns[:, [j] * len(duplicates)], rtol=4 * np.finfo(dtype).eps
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_undefined_points_are_refused(bad, dtype):
    X, Z = points_and_centres(dtype=dtype)
    k = make_kernel("rbf", X)
    Z[3, 1] = bad
    with pytest.raises(ValueError, match="infinite or undefined"):
        KernelDictionary(X, Z, k)


def test_sparse_and_dense_sides_may_be_mixed():
    X, Z = points_and_centres(dtype=np.float64)
    k = make_kernel("rbf", X, gamma=0.2)
    for A, B in ((sparse.csr_array(X), Z), (X, sparse.csr_array(Z))):
        np.testing.assert_allclose(
            KernelDictionary(A, B, k).columns(np.arange(9)), gaussian_kernel(X, Z[:9], 0.2), atol=1e-12
        )
        np.testing.assert_allclose(k.between(A, B), gaussian_kernel(X, Z, 0.2), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_value_has_a_square_that_is_not_a_normal_number(dtype):
    """Processors take many times as long for such numbers; what is larger keeps its digits."""
    X = np.arange(60, dtype=dtype)[:, None]
    K = make_kernel("rbf", X, gamma=0.5).between(X, X)
    exact = np.exp(-0.5 * (X - X.T).astype(np.float64) ** 2)
    small = exact < 0.99 * np.sqrt(np.finfo(dtype).tiny)
    assert np.all(K[small] == 0) and np.any(small)
    assert np.min(K[K > 0]) ** 2 >= 0.9 * np.finfo(dtype).tiny
    np.testing.assert_allclose(
        K[~small & (K > 0)], exact[~small & (K > 0)], rtol=1e-4 if dtype == np.float32 else 1e-11
    )


def test_center_is_a_value_of_each_column_whatever_far_rows_do():
    X = np.random.default_rng(0).uniform(0.1, 2, (20, 4))
    X[:5] = 1e300
    center = center_of(X)
    assert all(value in column and value < 2.1 for value, column in zip(center, X.T, strict=True))
    many = np.tile(np.sort(X[5:], axis=0), (3000, 1))
    assert np.all((center_of(many) >= many[5]) & (center_of(many) <= many[9]))
