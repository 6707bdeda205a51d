"""The growing QR factorisation: Q R = columns, orthonormal whatever the data."""

import array_api_strict
import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from kernelpursuit import DenseDictionary, Gradient, Squares, pursue
from kernelpursuit.losses import huber
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit import n_atoms
from tests.pairwise import pairwise

NAMESPACES = [np, array_api_strict]
LIMIT = {np.float64: 1e-12, np.float32: 1e-5}


def whole(basis):
    """Directions with their tails, (size, n_samples + tail)."""
    return np.hstack([np.asarray(basis.directions, dtype=np.float64), basis.tails])


def orthogonality(Q):
    return np.abs(Q @ Q.T - np.eye(len(Q))).max(initial=0)


@pytest.mark.parametrize("xp", NAMESPACES, ids=lambda xp: xp.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("tails", [False, True])
def test_factorisation_after_each_append(xp, dtype, tails):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(30, 14)).astype(dtype)
    # the tail of column k has k + 1 entries, as those of a ridge penalty have
    tail = np.tril(rng.normal(size=(14, 14))) * tails
    basis = Basis(xp.asarray(columns))
    for k in range(14):
        q = basis.append(xp.asarray(columns[:, k]), tail[k, : k + 1] if tails else None)
        assert q is not None and basis.size == k + 1 and q.dtype == basis.directions.dtype
        np.testing.assert_array_equal(np.asarray(q), np.asarray(basis.directions)[-1])
        Q = whole(basis)
        assert orthogonality(Q) < LIMIT[dtype]
        joined = np.zeros((k + 1, Q.shape[1]))
        joined[:, :30] = columns[:, : k + 1].T
        joined[:, 30 : 30 + min(14, Q.shape[1] - 30)] = tail[: k + 1, : Q.shape[1] - 30]
        np.testing.assert_allclose(basis.R.T @ Q, joined, atol=10 * LIMIT[dtype])
        assert np.all(np.tril(basis.R, -1) == 0) and np.all(np.diagonal(basis.R) > 0)
        np.testing.assert_allclose(basis.inverse() @ basis.R, np.eye(k + 1), atol=1e-9)


@pytest.mark.parametrize("xp", NAMESPACES, ids=lambda xp: xp.__name__)
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_dependent_columns_are_refused_at_any_scale(xp, scale):
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(20, 5)) * scale
    basis = Basis(xp.asarray(columns))
    for column in columns.T:
        basis.append(xp.asarray(column))
    R, Q = basis.R.copy(), whole(basis).copy()
    for weights in (np.eye(5)[2], rng.normal(size=5), rng.normal(size=5) * 1e-6):
        assert basis.append(xp.asarray(columns @ weights)) is None
    assert basis.append(xp.asarray(np.zeros(20))) is None
    assert basis.append(xp.asarray(np.full(20, np.nan))) is None
    assert basis.size == 5
    np.testing.assert_array_equal(basis.R, R)
    np.testing.assert_array_equal(whole(basis), Q)
    # a tail of its own makes a dependent column independent
    assert basis.append(xp.asarray(columns[:, 0]), np.array([scale])) is not None
    assert orthogonality(whole(basis)) < 1e-12


def test_no_more_directions_than_samples():
    rng = np.random.default_rng(2)
    basis = Basis(np.zeros((6, 1)))
    accepted = [basis.append(column) is not None for column in rng.normal(size=(20, 6))]
    assert accepted == [True] * 6 + [False] * 14


@pytest.mark.parametrize("tails", [False, True])
def test_truncate_gives_back(tails):
    rng = np.random.default_rng(3)
    columns, tail = rng.normal(size=(20, 9)), rng.normal(size=(9, 3)) * tails

    def filled(indices, basis=None):
        basis = Basis(columns) if basis is None else basis
        for k in indices:
            basis.append(columns[:, k], tail[k] if tails else None)
        return basis

    basis = filled(range(7))
    basis.truncate(4)
    short = filled(range(4))
    np.testing.assert_array_equal(whole(basis), whole(short))
    np.testing.assert_array_equal(basis.R, short.R)
    filled([8, 7], basis)
    np.testing.assert_allclose(whole(basis), whole(filled([0, 1, 2, 3, 8, 7])), atol=1e-13)
    assert np.all(np.tril(basis.R, -1) == 0)
    basis.truncate(0)
    assert basis.size == 0 and basis.R.shape == (0, 0) and basis.inverse().shape == (0, 0)


def test_complement_splits_columns():
    rng = np.random.default_rng(4)
    basis = Basis(np.zeros((20, 1)))
    for k in range(6):
        basis.append(rng.normal(size=20), rng.normal(size=k))
    columns, tails = rng.normal(size=(20, 3)), rng.normal(size=(3, basis.tails.shape[1]))
    before = tails.copy()
    rest, rest_tails, inside = basis.complement(columns, tails)
    np.testing.assert_array_equal(tails, before)
    Q = whole(basis)
    joined, left = np.hstack([columns.T, tails]), np.hstack([rest.T, rest_tails])
    np.testing.assert_allclose(left + inside.T @ Q, joined, atol=1e-13)
    np.testing.assert_allclose(left @ Q.T, 0, atol=1e-13)


# ---------------------------------------------------------------------------------------------- whole pursuits

KERNELS = {
    "rbf": {"gamma": 0.5},
    "laplacian": {"gamma": 0.5},
    "linear": {},
    "poly": {"degree": 3, "gamma": 0.5, "coef0": 1.0},
    "sigmoid": {"gamma": 0.1, "coef0": 0.5},
}


def features(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    if kind == "duplicated":
        X[30:] = X[:30]
    elif kind == "collinear":
        X = np.linspace(-2, 2, 60)[:, None] * np.array([1.0, -2.0, 0.5, 3.0])
    elif kind == "constant feature":
        X[:, 0] = 7.0
    return X


KINDS = ["random", "duplicated", "collinear", "constant feature"]


@pytest.mark.parametrize(
    ("kernel", "kind", "alpha", "dtype"), pairwise(KERNELS, KINDS, [0.0, 0.1], [np.float64, np.float32])
)
def test_full_pursuits_stay_orthogonal(kernel, kind, alpha, dtype):
    X = features(kind)
    K = pairwise_kernels(X, metric=kernel, **KERNELS[kernel])
    y = np.sin(2 * X[:, 1]) + 0.3 * np.random.default_rng(6).normal(size=60)
    # the sigmoid kernel is indefinite: no penalty by its values
    gram = None if kernel == "sigmoid" else K
    for variant in ("prefit", "backfit"):
        run = Squares(DenseDictionary(K.astype(dtype), gram=gram), y.astype(dtype), variant=variant, alpha=alpha)
        path = pursue(run, n_atoms(60))
        assert orthogonality(whole(run.deflation.basis)) < LIMIT[dtype]
        assert len(set(path.atoms.tolist())) == len(path) and path.reason
        assert run.deflation.basis.size == len(path) + 1
        assert np.all(np.diff(path.values("loss")) <= (1e-10 if dtype is np.float64 else 1e-5) * np.mean(y**2))
        if alpha == 0:
            distinct = np.unique(X, axis=0).shape[0]
            assert len(path) <= distinct


@pytest.mark.parametrize("kind", ["random", "duplicated"])
def test_full_pursuits_of_another_loss_stay_orthogonal(kind):
    X = features(kind)
    K = pairwise_kernels(X, metric="rbf", gamma=0.5)
    run = Gradient(DenseDictionary(K, gram=K), np.sin(2 * X[:, 1]), huber(0.3))
    pursue(run, n_atoms(25))
    assert orthogonality(whole(run.deflation.basis)) < 1e-12


@pytest.mark.parametrize("left", [1.0, 1e-3, 1e-5])
@pytest.mark.parametrize("ridge", [False, True])
def test_blocks_of_nearly_dependent_columns(left, ridge):
    rng = np.random.default_rng(0)
    common = rng.normal(size=(200, 4))
    columns = common @ rng.normal(size=(4, 24)) + left * rng.normal(size=(200, 24))
    columns[:, :4] = common
    tails = 0.1 * rng.normal(size=(24, 3)) if ridge else np.zeros((24, 0))
    basis = Basis(columns[:, :1])
    for start in range(0, 24, 6):
        assert basis.extend(columns[:, start : start + 6], tails[start : start + 6]) == 6
    Q = np.hstack([basis.directions, basis.tails[:, : tails.shape[1]]])
    assert orthogonality(Q) < 1e-12
    given = np.hstack([columns.T, tails])
    np.testing.assert_allclose(basis.R.T @ Q, given, atol=1e-12 * np.abs(given).max() * 24)
