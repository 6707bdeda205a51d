"""Whatever of the kernel matrix is kept, a fit at weakness 1 takes the atoms of plain greedy choice."""

import numpy as np
import pytest

from kernelpursuit import KernelDictionary, KMPRegressor, Squares, pursue
from kernelpursuit.atoms import kernel as module
from kernelpursuit.atoms.threads import one_blas_thread
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms
from tests.pairwise import pairwise
from tests.problems import data

N, ATOMS = 400, 25
SHARES = [0.0, 0.45, 0.99]  # of the matrix that memory would hold


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_TILE", 2**16)
    monkeypatch.setattr(module, "COLUMNS", 1)
    monkeypatch.setattr(module, "side_of_tiles", lambda itemsize: 64)


def atoms_of(D, targets, alpha, count=ATOMS, **how):
    return pursue(Squares(D, targets, alpha=alpha), n_atoms(count), **how).atoms.tolist()


def problem(dtype, targets):
    X, y = data(N)
    more = [np.cos(3 * X[:, 0]), X[:, 1] * X[:, 2]]
    return X.astype(dtype), np.stack([y, *more[: targets - 1]], axis=1).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "gamma", "more"),
    pairwise([np.float32, np.float64], [0.01, 0.1, 1.0, 10.0], [(0.0, 1), (0.1, 1), (0.0, 3)]),
)
def test_any_memory(dtype, gamma, more, small_tiles):
    alpha, targets = more
    X, Y = problem(dtype, targets)
    kernel = make_kernel("rbf", X, gamma=gamma)
    plain = atoms_of(KernelDictionary(X, X, kernel, storage="dense"), Y, alpha)
    shares = []
    for share in SHARES:
        how = {"memory": int(share * X.itemsize * N**2)} if share else {"storage": "tiles"}
        D = KernelDictionary(X, X, kernel, **how)
        shares.append(D.tiles_kept)
        assert atoms_of(D, Y, alpha, lookahead="auto") == plain, share
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1 and len(set(shares)) == len(shares)


@pytest.mark.parametrize("name", ["laplacian", "poly", "callable"])
@pytest.mark.parametrize("centres", [N, 300])
def test_other_kernels_and_shapes(name, centres, small_tiles):
    X, Y = problem(np.float64, 1)
    given = (lambda A, B: 1 / (1 + np.abs(A[:, None] - B[None]).sum(axis=2))) if name == "callable" else name
    kernel = make_kernel(("poly", {"degree": 5}) if name == "poly" else given, X)  # of rank 56: the last would be noise
    Z = X if centres == N else X[:centres]
    plain = atoms_of(KernelDictionary(X, Z, kernel, storage="dense"), Y, 0.0, 15)
    for share in (0.5, 0.95):
        D = KernelDictionary(X, Z, kernel, memory=int(share * 8 * N * centres))
        assert D._matrix is None and atoms_of(D, Y, 0.0, 15, lookahead="auto") == plain, share


@pytest.mark.parametrize("gamma", [0.02, 1.0])
def test_blas_at_one_thread(gamma, monkeypatch):
    """Pools and atoms computed anew are multiplied in threads then: the same atoms, and the same bits in any number."""
    X, Y = problem(np.float64, 1)
    monkeypatch.setattr("kernelpursuit.atoms.threads.FEW_ENTRIES", 0)
    monkeypatch.setattr("kernelpursuit.atoms.protocol.FEW_ENTRIES", 0)
    kernel, paths = make_kernel("rbf", X, gamma=gamma), []
    for threads in (1, 3):
        monkeypatch.setattr("kernelpursuit.atoms.threads.usable_threads", lambda threads=threads: threads)
        with one_blas_thread():
            D = KernelDictionary(X, X, kernel, storage="tiles")
            paths.append(pursue(Squares(D, Y), n_atoms(ATOMS), lookahead="auto"))
    free = pursue(Squares(KernelDictionary(X, X, kernel, storage="tiles"), Y), n_atoms(ATOMS), lookahead="auto")
    assert paths[0].atoms.tolist() == paths[1].atoms.tolist() == free.atoms.tolist()
    assert paths[0].values("loss").tolist() == paths[1].values("loss").tolist()


def test_estimators(capsys):
    """The report says what is kept, and predictions are the same."""
    X, Y = problem(np.float64, 1)
    said, predictions = [], []
    for memory in (None, 0, 6 * N * N):
        model = KMPRegressor(20, gamma=0.3, memory=memory, verbose=1).fit(X, Y[:, 0])
        said.append(capsys.readouterr().out)
        predictions.append(model.predict(X))
    assert "kernel matrix kept" in said[0] and "no kernel matrix kept" in said[1] and "kept" in said[2]
    np.testing.assert_allclose(predictions[1], predictions[0], atol=1e-8)
    np.testing.assert_allclose(predictions[2], predictions[0], atol=1e-8)
