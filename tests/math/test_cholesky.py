"""The growing partial Cholesky factor: every pivot rule and every loop over pivots is this one."""

import numpy as np
import pytest

from kernelpursuit.math.cholesky import PartialCholesky, forward, pivots


def kernel(n=40, gamma=0.3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X[7] = X[3]  # a duplicate
    return np.exp(-gamma * np.sum((X[:, None] - X[None]) ** 2, axis=2))


@pytest.mark.parametrize("gamma", [3.0, 0.3, 0.003])
def test_pivots_passed_over_are_those_in_the_span(gamma):
    """Each is kept if and only if what those kept before it leave of it, by least squares, is above its floor."""
    K = kernel(12, gamma)
    floor = np.full(12, 1e-6)
    factor, kept = pivots(K, floor)
    chosen: list[int] = []
    for i in range(12):
        inside = K[i, chosen] @ np.linalg.lstsq(K[np.ix_(chosen, chosen)], K[chosen, i], rcond=None)[0] if chosen else 0
        if K[i, i] - inside > floor[i]:
            chosen.append(i)
    assert kept.tolist() == chosen
    assert np.all(np.triu(factor[kept], 1) == 0)
    np.testing.assert_allclose(factor @ factor[kept].T, K[:, kept], atol=1e-9)


def test_an_indefinite_or_undefined_pivot_is_passed_over():
    _, kept = pivots(np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, np.nan]]), np.zeros(3))
    assert kept.tolist() == [0]


@pytest.mark.parametrize("blocks", [[[5, 2, 30, 11]], [[5], [2], [30], [11]], [[5, 2], [30, 11]]])
@pytest.mark.parametrize("gamma", [3.0, 0.01])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_blocks_give_the_factor_that_single_points_give(library, gamma, blocks):
    K = kernel(gamma=gamma)
    like = K if library == "numpy" else pytest.importorskip("torch").asarray(K)
    factor = PartialCholesky(like)
    for block in blocks:
        assert factor.extend(like[:, block], block, np.zeros(len(block))).tolist() == list(range(len(block)))
    U, chosen = np.asarray(factor.rows), factor.pivots
    inside = K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
    np.testing.assert_allclose(U.T @ U, inside, atol=1e-9)
    np.testing.assert_allclose((U.T @ U)[chosen], K[chosen], atol=1e-14)  # the columns of the pivots are explained
    assert np.all(np.tril(U[:, chosen], -1) == 0)  # exactly
    np.testing.assert_allclose(np.asarray(factor.left(like, np.arange(40))), K - U.T @ U, atol=1e-14)


def test_a_block_ends_at_a_dependent_point_or_passes_it_over():
    K = kernel()
    for skip, places in ((False, [0, 1]), (True, [0, 1, 3])):
        factor = PartialCholesky(K)
        floor = 1e-10 * np.ones(4)
        assert factor.extend(K[:, [3, 5, 7, 9]], [3, 5, 7, 9], floor, skip).tolist() == places
    assert factor.pivots == [3, 5, 9]


def test_points_given_up_can_be_replaced():
    K = kernel()
    factor, plain = PartialCholesky(K), PartialCholesky(K)
    factor.extend(K[:, [1, 20, 30]], [1, 20, 30], np.zeros(3))
    factor.truncate(1)
    factor.extend(K[:, [4]], [4], np.zeros(1))
    plain.extend(K[:, [1, 4]], [1, 4], np.zeros(2))
    np.testing.assert_allclose(factor.rows, plain.rows, atol=1e-14)


def test_what_earlier_pivots_explain():
    """Vector t is multiplied by the pivots before the one it belongs to."""
    K = kernel()
    factor = PartialCholesky(K)
    factor.extend(K[:, [1, 20, 30]], [1, 20, 30], np.zeros(3))
    V = np.random.default_rng(1).normal(size=(40, 2))
    U = factor.rows
    expected = np.column_stack([U[:1].T @ (U[:1] @ V[:, 0]), U[:2].T @ (U[:2] @ V[:, 1])])
    np.testing.assert_allclose(factor.explained(V, taken=1), expected, atol=1e-13)


@pytest.mark.parametrize("gamma", [1.0, 0.03, 0.001])
def test_forward_is_as_exact_as_substitution(gamma):
    """With pivots down to 1e-10 of the diagonal: what L times the solution leaves is rounding error all the same."""
    K = kernel(gamma=gamma)
    factor, kept = pivots(K, np.full(40, 1e-10))
    L, columns = factor[kept], K[kept]
    found = forward(L, columns)
    assert np.max(np.abs(L @ found - columns) / (np.abs(L) @ np.abs(found))) < 1e-14
