"""First norms and products of a matrix that is kept: float64 sums, the same bits for any number of threads."""

import numpy as np
import pytest

from kernelpursuit import KernelDictionary
from kernelpursuit.atoms.tiles import kept_moments
from kernelpursuit.kernels import make_kernel
from kernelpursuit.kernels.gaussian import gaussian, gaussian_points


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(("m", "n", "vectors"), [(1, 1, 1), (16, 8192, 2), (17, 8193, 3), (600, 300, 7)])
def test_sums_of_values_and_squares(m, n, vectors, equal, dtype):
    rng = np.random.default_rng(0)
    matrix, V = rng.random((m, n)).astype(dtype), rng.normal(size=(n, vectors))
    if equal:
        V[:, -1] = 0.3
    given = matrix.copy()
    found = kept_moments(matrix, V)
    wide = matrix.astype(np.float64)
    np.testing.assert_allclose(found[:, :-1], wide @ V[:, :-1], atol=1e-12 * n)
    np.testing.assert_allclose(found[:, -1], wide**2 @ V[:, -1], atol=1e-12 * n)
    np.testing.assert_array_equal(matrix, given)
    np.testing.assert_array_equal(kept_moments(matrix, V, parallel=False), found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kept_matrix_has_the_moments_of_its_tiles(dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 3)).astype(dtype)
    V, weights = rng.normal(size=(700, 2)), rng.uniform(size=700)
    kernel = make_kernel("rbf", X, gamma=0.5)
    kept, tiled = (
        KernelDictionary(X, X, kernel, storage=storage).moments(V, weights) for storage in ("dense", "tiles")
    )
    for one, other in zip(kept, tiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0])
def test_values_too_small_to_square_are_zero_wherever_points_lie(scale, dtype):
    X = (scale * np.random.default_rng(2).normal(size=(60, 2))).astype(dtype)
    points = gaussian_points(X, 1.0)
    values = gaussian(points[:30], points[30:])
    assert np.all((values == 0) | (values >= 0.99 * np.sqrt(np.finfo(dtype).tiny)))
    assert np.all(2 * points.highest >= np.sum(points.rows[:, :2].astype(float) ** 2, axis=1) * (1 - 1e-6))
