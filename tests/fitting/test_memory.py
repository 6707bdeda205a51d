"""The limit of memory is held, or refused with the numbers; what is kept of the kernel matrix changes no atom."""

import re
import tracemalloc
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from kernelpursuit import KernelDictionary, KMPRegressor, Squares, pursue
from kernelpursuit.atoms import StackedDictionary
from kernelpursuit.atoms import kernel as kernel_module
from kernelpursuit.atoms.threads import one_blas_thread
from kernelpursuit.fitting import memory as memory_module
from kernelpursuit.fitting.memory import SHARE, free_memory, limit_spare, physical_memory, plan_memory
from kernelpursuit.kernels import make_kernel
from kernelpursuit.parameters import tolerance
from kernelpursuit.pursuit import n_atoms
from tests.pairwise import pairwise
from tests.problems import data


@contextmanager
def traced():
    """Peak of the memory that is allocated in the block."""
    found = SimpleNamespace()
    tracemalloc.start()
    try:
        yield found
        found.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.1},
        {"variant": "basic"},
        {"stop": "validation"},
        {"candidates": 3000},
        {"kernel": ["rbf", "linear"]},
    ],
    ids=str,
)
def test_memory_is_held(options):
    X, y = data(3000)
    with traced() as found:
        model = KMPRegressor(5, memory=20 * 10**6, random_state=0, **options).fit(X, y)
    assert found.peak < 3000**2 * 8 / 2 and len(model.support_) == 5


def test_a_kernel_that_may_not_be_symmetric_is_turned_in_parts():
    X, _ = data(1500)
    kernel = make_kernel(lambda A, B: A[:, :1] + B[:, :1].T, X)
    with traced() as found:
        D = KernelDictionary(X, X, kernel)
    assert D.in_memory and found.peak < 1.7 * 1500**2 * 8


# ---------------------------------------------------------------------------------------------- what is refused


def bytes_refused(rows, dtype=np.float64, **options):
    """How many bytes a fit of 150 atoms asks for where it may have a few; 0 if those are enough."""
    X, y = (one.astype(dtype) for one in data(rows))
    try:
        KMPRegressor(150, memory=8 * rows, stop=tolerance(0.5), **options).fit(X, y)
    except ValueError as error:
        return int(re.search(r"need (\d+) bytes", str(error)).group(1))
    return 0


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_what_a_ridge_keeps_is_counted(variant):
    """As many numbers as the directions again, where all atoms have running scores."""
    directions = 0 if variant == "basic" else 200 * 8 * 150
    assert bytes_refused(200, variant=variant, alpha=0.0) == directions
    assert bytes_refused(200, variant=variant, alpha=0.1) == directions + 200 * 8 * 150
    assert bytes_refused(200, variant=variant, alpha=0.1, candidates=59) == directions


def test_fewer_centres_have_a_smaller_ridge():
    assert bytes_refused(400, alpha=0.1, centers=200) == 400 * (8 + 4) * 150


def test_directions_are_counted_in_float64_whatever_the_data():
    assert bytes_refused(400, np.float32) == bytes_refused(400) > 0


def test_memory_refused_with_the_numbers():
    X, y = data(200)
    with pytest.raises(ValueError, match="memory=50000 ") as error:
        KMPRegressor(150, memory=50_000).fit(X, y)
    fits = int(re.search(r"n_atoms=(\d+) would fit", str(error.value)).group(1))
    assert 0 < fits < 150
    KMPRegressor(fits, memory=50_000, stop=tolerance(0.5)).fit(X, y)
    # no number of atoms fits: say what would, in a unit that shows it
    with pytest.raises(ValueError, match=r"memory=100\b.*\b1600\b") as error:
        KMPRegressor(1, memory=100).fit(X, y)
    assert "n_atoms=0" not in str(error.value)


# ---------------------------------------------------------------------------------------------- what is free


def test_the_default_is_a_share_of_what_is_free():
    """Ten per cent more rows do not fall off the edge of a fixed number of bytes."""
    source = SimpleNamespace(in_files=False, free_memory=lambda X: 8 * 10**9)

    def plan(n):
        return plan_memory(SimpleNamespace(X=None, rows=range(n), source=source), 300, 8 * n, None)[0]

    for n in (10_000, 12_000, 15_000):
        assert plan(n) == 2 * 10**9 >= n * n * 8
    assert plan(20_000) < 20_000**2 * 8
    with pytest.raises(ValueError, match="bytes that are free"):
        plan(10**7)


def test_free_memory_is_no_more_than_there_is():
    assert 0 < free_memory(np.zeros(1)) <= physical_memory()


def test_what_is_kept_of_atoms_on_an_accelerator_is_bounded_by_the_memory_of_this_machine(monkeypatch):
    """Of two kernels together, too."""
    X, _ = data(50)
    monkeypatch.setattr(memory_module, "free_memory", lambda X: 4000 if X is None else 10**12)
    one = KernelDictionary(X, X, make_kernel("rbf", X), memory=10**6)
    for dictionary in (one, StackedDictionary([one, one])):
        one.spare = 10**6
        limit_spare(dictionary, X)
        assert dictionary.spare > 10**5, "the rows are here"
        limit_spare(dictionary, SimpleNamespace(is_cuda=True))
        assert dictionary.spare == 4000 // SHARE


# ---------------------------------------------------------------------------------------------- the atoms


N, ATOMS = 400, 25


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(kernel_module, "LARGEST_TILE", 2**16)
    monkeypatch.setattr(kernel_module, "COLUMNS", 1)
    monkeypatch.setattr(kernel_module, "side_of_tiles", lambda itemsize: 64)


def atoms_of(D, targets, alpha=0.0, count=ATOMS, **how):
    return pursue(Squares(D, targets, alpha=alpha), n_atoms(count), **how).atoms.tolist()


def problem(dtype=np.float64, targets=1):
    X, y = data(N)
    more = [np.cos(3 * X[:, 0]), X[:, 1] * X[:, 2]]
    return X.astype(dtype), np.stack([y, *more[: targets - 1]], axis=1).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "gamma", "more"),
    pairwise([np.float32, np.float64], [0.01, 0.1, 1.0, 10.0], [(0.0, 1), (0.1, 1), (0.0, 3)]),
)
def test_any_memory_gives_the_same_atoms(dtype, gamma, more, small_tiles):
    alpha, targets = more
    X, Y = problem(dtype, targets)
    kernel = make_kernel("rbf", X, gamma=gamma)
    plain = atoms_of(KernelDictionary(X, X, kernel, storage="dense"), Y, alpha)
    kept = []
    for share in (0.0, 0.45, 0.99):  # of the matrix that memory would hold
        how = {"memory": int(share * X.itemsize * N**2)} if share else {"storage": "tiles"}
        D = KernelDictionary(X, X, kernel, **how)
        kept.append(D.tiles_kept)
        assert atoms_of(D, Y, alpha, lookahead="auto") == plain, share
    assert kept[0] == 0 < kept[1] < kept[2] == 1


@pytest.mark.parametrize("name", ["laplacian", "poly", "callable"])
@pytest.mark.parametrize("centres", [N, 300])
def test_other_kernels_and_shapes(name, centres, small_tiles):
    X, Y = problem()
    given = {
        "laplacian": "laplacian",
        "poly": ("poly", {"degree": 5}),  # of rank 56: more atoms would be noise
        "callable": lambda A, B: 1 / (1 + np.abs(A[:, None] - B[None]).sum(axis=2)),
    }[name]
    kernel, Z = make_kernel(given, X), X if centres == N else X[:centres]
    plain = atoms_of(KernelDictionary(X, Z, kernel, storage="dense"), Y, count=15)
    for share in (0.5, 0.95):
        D = KernelDictionary(X, Z, kernel, memory=int(share * 8 * N * centres))
        assert atoms_of(D, Y, count=15, lookahead="auto") == plain, share


@pytest.mark.parametrize("gamma", [0.02, 1.0])
def test_blas_at_one_thread(gamma, monkeypatch):
    """Pools and atoms computed anew are multiplied in threads then: the same atoms, and the same bits in any number."""
    X, Y = problem()
    monkeypatch.setattr("kernelpursuit.atoms.threads.FEW_ENTRIES", 0)
    monkeypatch.setattr("kernelpursuit.atoms.protocol.FEW_ENTRIES", 0)
    kernel = make_kernel("rbf", X, gamma=gamma)

    def path():
        D = KernelDictionary(X, X, kernel, storage="tiles")
        return pursue(Squares(D, Y), n_atoms(ATOMS), lookahead="auto")

    paths = []
    for threads in (1, 3):
        monkeypatch.setattr("kernelpursuit.atoms.threads.usable_threads", lambda threads=threads: threads)
        with one_blas_thread():
            paths.append(path())
    assert paths[0].atoms.tolist() == paths[1].atoms.tolist() == path().atoms.tolist()
    assert paths[0].values("loss").tolist() == paths[1].values("loss").tolist()


@pytest.mark.parametrize(("memory", "line"), [(0, "no kernel matrix kept"), (6 * N * N, "% of them kept")])
def test_verbose_says_what_is_kept_and_predictions_are_the_same(memory, line, capsys):
    X, Y = problem()
    whole = KMPRegressor(20, gamma=0.3, verbose=1).fit(X, Y[:, 0])
    assert "kernel matrix kept" in capsys.readouterr().out
    model = KMPRegressor(20, gamma=0.3, memory=memory, verbose=1).fit(X, Y[:, 0])
    assert line in capsys.readouterr().out
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-8)
