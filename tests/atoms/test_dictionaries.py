"""Contract of the dictionaries: each is its dense matrix, whatever is kept in memory."""

import numpy as np
import pytest
from scipy import sparse

from kernelpursuit import DenseDictionary, KernelDictionary, KMPRegressor, Squares, StackedDictionary, pursue
from kernelpursuit.arrays import on_host
from kernelpursuit.atoms import sweep
from kernelpursuit.atoms.protocol import in_float64
from kernelpursuit.kernels import Kernel, make_kernel
from kernelpursuit.pursuit import n_atoms
from tests.pairwise import pairwise

N, M = 40, 28


def points(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(dtype)
    return np.where(np.abs(X) > 0.3, X, 0).astype(dtype), rng.normal(size=(M, 3)).astype(dtype)


def tiled(X, Z, kernel, tiles):
    """Kernel dictionary of a given number of tiles, made through the memory it may take."""
    tile = -(-Z.shape[0] // tiles)
    D = KernelDictionary(X, Z, kernel, memory=4 * X.shape[0] * X.dtype.itemsize * tile, storage="tiles")
    assert D.tile == tile and not D.in_memory
    return D


def kernel_of(X, gamma=0.5):
    return make_kernel("rbf", X, gamma=gamma)


def full(X, Z, gamma=0.5):
    k = kernel_of(X, gamma)
    return k(k.prepare(X), k.prepare(Z))


def dictionaries(dtype=np.float64):
    """Name -> (dictionary, its matrix, its gram)."""
    X, Z = points(dtype)
    k = kernel_of(X)
    D, G = full(X, Z), full(Z, Z)
    wide = full(X, Z, 0.05)
    extra = np.random.default_rng(1).normal(size=(N, 5)).astype(dtype)
    made = {
        "dense": (DenseDictionary(D, gram=G), D, G),
        "dense without gram": (DenseDictionary(D), D, np.eye(M)),
        "kernel in memory": (KernelDictionary(X, Z, k), D, G),
        "kernel sparse": (
            KernelDictionary(
                sparse.csr_array(X), sparse.csr_array(Z), make_kernel("rbf", sparse.csr_array(X), gamma=0.5)
            ),
            D,
            G,
        ),
        "training points": (KernelDictionary(X, X, k), full(X, X), full(X, X)),
    }
    for tiles in (1, 2, 7):
        made[f"kernel in {tiles} tiles"] = (tiled(X, Z, k, tiles), D, G)
    parts = [tiled(X, Z, k, 2), DenseDictionary(extra), KernelDictionary(X, Z, kernel_of(X, 0.05))]
    gram = np.zeros((2 * M + 5, 2 * M + 5))
    gram[:M, :M], gram[M : M + 5, M : M + 5], gram[M + 5 :, M + 5 :] = G, np.eye(5), full(Z, Z, 0.05)
    made["stacked"] = (StackedDictionary(parts), np.hstack([D, extra, wide]), gram)
    return made


NAMES = list(dictionaries())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, dtype):
    D, matrix, gram = dictionaries(dtype)[name]
    close = {"rtol": 0, "atol": 1e-13 if dtype is np.float64 else 1e-5}
    m = matrix.shape[1]
    rng = np.random.default_rng(2)
    assert tuple(D.shape) == matrix.shape and 1 <= D.tile
    for J in (np.array([3]), np.arange(m), rng.permutation(m), np.array([m - 1, 0, 5, 5])):
        columns = D.columns(J)
        assert columns.dtype == dtype and columns.shape == (N, len(J))
        np.testing.assert_allclose(columns, matrix[:, J], **close)
        np.testing.assert_allclose(D.gram(None, J), gram[:, J], **close)
        rows = rng.permutation(m)[:6]
        np.testing.assert_allclose(D.gram(rows, J), gram[np.ix_(rows, J)], **close)
        np.testing.assert_allclose(D.gram_diagonal(J), np.diagonal(gram)[J], **close)
    np.testing.assert_allclose(D.gram_diagonal(None), np.diagonal(gram), **close)
    assert D.gram(None, np.array([0])).dtype == D.gram_diagonal(None).dtype == np.float64
    for t in (1, 4):
        V = rng.normal(size=(N, t)).astype(dtype)
        products = D.correlate(V)
        assert isinstance(products, np.ndarray) and products.dtype == np.float64 and products.shape == (m, t)
        np.testing.assert_allclose(products, matrix.T @ V, rtol=0, atol=1e-12 if dtype is np.float64 else 1e-4)
    joined, twice = sweep(D, lambda J: (J, 2 * J))
    np.testing.assert_array_equal(joined, np.arange(m))
    np.testing.assert_array_equal(twice, 2 * joined)


@pytest.mark.parametrize("name", ["numpy", "array_api_strict", "torch"])
def test_dense_and_stacked_of_any_library(name):
    xp = pytest.importorskip(name)
    rng = np.random.default_rng(0)
    A, B, V = rng.normal(size=(8, 5)), rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    D = StackedDictionary([DenseDictionary(xp.asarray(A)), DenseDictionary(xp.asarray(B))])
    whole = np.hstack([A, B])
    for J in (np.array([6]), np.arange(8), np.array([0, 2, 7]), np.array([7, 0, 5, 1]), np.array([2, 3])):
        columns = D.columns(J)
        assert type(columns) is type(xp.asarray(A))
        np.testing.assert_array_equal(on_host(columns), whole[:, J])
    np.testing.assert_allclose(D.correlate(xp.asarray(V)), whole.T @ V, atol=1e-12)
    np.testing.assert_array_equal(D.gram(None, np.arange(8)), np.eye(8))
    gram = xp.asarray(A.T @ A)
    tensor = DenseDictionary(xp.asarray(A), gram=gram)
    np.testing.assert_allclose(tensor.gram(np.array([3, 1]), np.array([0, 4, 2])), (A.T @ A)[[3, 1]][:, [0, 4, 2]])
    np.testing.assert_allclose(tensor.gram_diagonal(np.array([1, 2])), np.diagonal(A.T @ A)[1:3])
    with pytest.raises(ValueError, match="same number of rows"):
        StackedDictionary([DenseDictionary(np.eye(2)), DenseDictionary(np.eye(3))])


@pytest.mark.parametrize(("seed", "alpha", "variant"), pairwise(range(10), [0.0, 0.1], ["prefit", "backfit", "basic"]))
def test_same_support_whatever_the_storage(seed, alpha, variant):
    """Ten data sets, half of them with duplicated points."""
    rng = np.random.default_rng([7, seed])
    X = rng.normal(size=(70, 3))
    if seed % 2:
        X = X[rng.integers(0, 25, 70)]
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=70)
    k = kernel_of(X, 0.3)
    K = k(k.prepare(X), k.prepare(X))
    made = [DenseDictionary(K, gram=K), KernelDictionary(X, X, k), *(tiled(X, X, k, tiles) for tiles in (1, 2, 7))]
    made.append(StackedDictionary([tiled(X, X[:30], k, 3), KernelDictionary(X, X[30:], k)]) if alpha == 0 else made[0])
    paths = [pursue(Squares(D, y, variant=variant, alpha=alpha), n_atoms(15)) for D in made]
    atoms = [step.atom for step in paths[0].steps]
    for path in paths[1:]:
        assert [step.atom for step in path.steps] == atoms
        np.testing.assert_allclose(path.values("loss"), paths[0].values("loss"), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "n_atoms"), [("rbf", 3), ("linear", 3), ("poly", 3), ("laplacian", 3), ("linear", 4)]
)
def test_same_estimator_whatever_the_storage(kernel, n_atoms):
    """Of four features the last of four linear atoms may be any, so that only the tie rule makes the choice."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 4))
    y = np.sin(X[:, 0]) + X[:, 1]
    basis, column = n_atoms * 90 * 8, 90 * 8  # room for the basis and a few columns: 7, 2 and 1 tiles
    memories = [None, 10**6, 0, *(basis + 4 * column * t for t in (13, 45, 90))]
    models = [KMPRegressor(n_atoms, kernel=kernel, memory=memory).fit(X, y) for memory in memories]
    for model in models:
        assert model.support_.tolist() == models[0].support_.tolist()
        np.testing.assert_allclose(model.predict(X), models[0].predict(X), rtol=1e-8, atol=1e-8)


def test_matrix_is_kept_only_where_it_fits():
    X, Z = points()
    k = kernel_of(X)
    bytes_of = N * M * 8
    assert KernelDictionary(X, Z, k, memory=bytes_of).in_memory
    assert not KernelDictionary(X, Z, k, memory=bytes_of - 1).in_memory
    assert KernelDictionary(X, Z, k, memory=bytes_of - 1, storage="dense").in_memory
    assert not KernelDictionary(X, Z, k, storage="tiles").in_memory
    assert KernelDictionary(X, Z, k, memory=N * 8).tile == 1
    with pytest.raises(ValueError, match=rf"memory={N * 8 - 1} bytes .*{N * 8}"):
        KernelDictionary(X, Z, k, memory=N * 8 - 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_kernel_values_must_be_numbers(bad, storage):
    X, Z = points()

    def function(A, B):
        values = A @ B.T
        values[-1, -1] = bad
        return values

    with pytest.raises(ValueError, match="kernel gives infinite or undefined values"):
        D = KernelDictionary(X, Z, Kernel(function=function), storage=storage)
        D.correlate(np.ones((N, 1)))
    with pytest.raises(ValueError, match="kernel gives infinite or undefined values"):
        KMPRegressor(3, kernel=function, memory=0 if storage == "tiles" else None).fit(X, X[:, 0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_a_dictionary_in_float64_has_exact_columns(name, dtype):
    D, matrix, _ = dictionaries(dtype)[name]
    exact = D.exact_columns(np.arange(matrix.shape[1]))
    wide, V = in_float64(D), np.random.default_rng(3).normal(size=(N, 3))
    assert exact.dtype == wide.columns(np.array([2, 0])).dtype == np.float64 and wide.shape == D.shape
    np.testing.assert_allclose(wide.columns(np.array([2, 0])), exact[:, [2, 0]], rtol=1e-14)
    np.testing.assert_allclose(wide.correlate(V), exact.T @ V, atol=1e-12)
    np.testing.assert_allclose(wide.gram(None, np.array([1])), D.gram(None, np.array([1])), rtol=1e-14)
