"""A kernel matrix that does not fit is kept in part; what a fit knows of its atoms at first comes from one pass."""

import numpy as np
import pytest

from kernelpursuit import KernelDictionary, KMPRegressor, Squares, pursue
from kernelpursuit.atoms import kernel as module
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import lookahead, n_atoms
from tests.problems import data

N = 900


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_TILE", 2**16)
    monkeypatch.setattr(module, "COLUMNS", 1)
    monkeypatch.setattr(module, "side_of_tiles", lambda itemsize: 64)


def dictionary(X, Z, **options):
    return KernelDictionary(X, Z, make_kernel("rbf", X, gamma=0.3), **options)


def counted(D, V):
    """A product with all atoms, and how many tiles were made for it."""
    made, tile = [], D._tile
    D._tile = lambda *given: made.append(1) or tile(*given)
    try:
        return D.correlate(V), len(made)
    finally:
        D._tile = tile


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
    assert D._matrix is None and D.in_memory == (share > 1 and Z is X)
    expected, all_tiles = counted(plain, V)
    (first, made), (second, again) = counted(D, V), counted(D, V)
    np.testing.assert_array_equal(second, first)
    if Z is X:  # tiles that are kept are wider: sums of other numbers
        np.testing.assert_allclose(first, expected, rtol=0, atol=1e3 * np.finfo(dtype).eps)
    else:
        np.testing.assert_array_equal(first, expected)
    assert made <= all_tiles
    kept = D._kept.nbytes
    assert 0 < kept <= memory - D.spare
    if share > 1 and Z is X:
        assert again == 0 and kept < 0.7 * matrix and "half of the kernel matrix kept" in D.plan
    else:
        assert again == made - len(D._kept._made) > 0
        assert f"{100 * D.tiles_kept:.0f} % of them kept" in D.plan


def test_no_tile_is_kept_where_nobody_wants_it():
    X, y = data(N)
    D = dictionary(X, X, storage="tiles")
    D.correlate(X)
    assert D._kept is None and D.tiles_kept == 0
    assert not KMPRegressor(3, gamma=0.3, memory=0).fit(X, y).path_.passes < 1


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.1}, {"intercept": False}, {"weights": True}], ids=str)
@pytest.mark.parametrize("gamma", [0.003, 0.3, 3.0])
def test_first_moments_are_those_of_the_definition(dtype, options, gamma):
    X, y = data(N)
    X, y = X.astype(dtype), y.astype(dtype)
    if "weights" in options:
        options = {"weights": np.random.default_rng(0).uniform(0.5, 2, size=N).astype(dtype)}
    D = KernelDictionary(X, X, make_kernel("rbf", X, gamma=gamma))
    run, J = Squares(D, y, **options), np.arange(0, N, 37)
    run.scores()
    a, squared = run.running_moments(J)
    exact, norms = run.moments(J)
    limit = 1e-10 if dtype == np.float64 else 1e-5
    scale = np.sqrt(run.atoms.norms.raw[J])
    np.testing.assert_allclose(a / scale[:, None], exact / scale[:, None], atol=limit * np.linalg.norm(y))
    np.testing.assert_allclose(squared / scale**2, norms / scale**2, atol=limit)


@pytest.mark.parametrize("weakness", [1.0, 0.5])
def test_same_atoms_with_tiles_kept_in_part(weakness, small_tiles):
    X, y = data(N)
    paths = []
    for options in ({"storage": "tiles"}, {"memory": 2**21}):
        run = Squares(dictionary(X, X, **options), y)
        paths.append(pursue(run, n_atoms(25), lookahead="auto", weakness=weakness))
    assert paths[0].atoms.tolist() == paths[1].atoms.tolist()
    np.testing.assert_allclose(paths[0].values("loss"), paths[1].values("loss"), rtol=1e-10)


@pytest.mark.parametrize("gamma", [0.02, 3.0])
def test_pools_pay_or_rest_where_a_half_is_kept(gamma, small_tiles):
    """The atoms are those of a kept matrix, which is read for each of them; narrow kernels take several at a pass."""
    X, y = data(N)
    kernel = make_kernel("rbf", X, gamma=gamma)
    D, whole = KernelDictionary(X, X, kernel, memory=6 * 10**6), KernelDictionary(X, X, kernel, storage="dense")
    assert D._matrix is None and D.in_memory and D.tiles_kept == 1 and not whole.tiles_kept
    half, plain = (pursue(Squares(one, y), n_atoms(60), lookahead="auto") for one in (D, whole))
    assert half.atoms.tolist() == plain.atoms.tolist() and plain.passes >= 61
    assert half.passes < (0.5 if gamma == 3 else 1.1) * plain.passes


def test_pools_that_do_not_pay_are_left_for_a_while(monkeypatch):
    """The next best atom of all is rarely among those tried out: the same atoms by fewer trials."""
    X, y = data(N)
    kernel, tried, paths = make_kernel("rbf", X, gamma=0.1), [], []
    for longest in (0, lookahead._LONGEST_REST):
        monkeypatch.setattr(lookahead, "_LONGEST_REST", longest)
        run = Squares(KernelDictionary(X, X, kernel, storage="tiles"), y)
        run.simulate = lambda J, simulate=run.simulate: tried.append(len(paths)) or simulate(J)
        paths.append(pursue(run, n_atoms(60), lookahead="auto"))
    assert paths[0].atoms.tolist() == paths[1].atoms.tolist()
    assert all(step.weakness == 1 for path in paths for step in path.steps)
    assert tried.count(1) < 0.5 * tried.count(0)


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
