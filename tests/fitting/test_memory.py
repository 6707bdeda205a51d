"""The limit of memory is held, or refused with the numbers."""

import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from kernelpursuit import KernelDictionary, KMPRegressor
from kernelpursuit.atoms import StackedDictionary
from kernelpursuit.fitting import memory as memory_module
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.kernels import make_kernel
from kernelpursuit.parameters import tolerance
from tests.problems import data


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
    n = 3000
    X, y = data(n)
    memory = 20 * 10**6
    tracemalloc.start()
    try:
        model = KMPRegressor(5, memory=memory, random_state=0, **options).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * n * 8 / 2
    assert len(model.support_) == 5


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


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_what_a_ridge_keeps_is_counted(variant):
    """As many numbers as the directions again, where all atoms have running scores."""
    X, y = data(200)
    needed = {}
    for name, options in {"none": {}, "ridge": {"alpha": 0.1}, "sampled": {"alpha": 0.1, "candidates": 59}}.items():
        model = KMPRegressor(150, variant=variant, memory=1600, stop=tolerance(0.5), **{"alpha": 0.0, **options})
        try:
            model.fit(X, y)
            needed[name] = 0
        except ValueError as error:
            needed[name] = int(re.search(r"need (\d+) bytes", str(error)).group(1))
    directions = 0 if variant == "basic" else 200 * 8 * 150
    assert needed == {"none": directions, "ridge": directions + 200 * 8 * 150, "sampled": directions}


def test_fewer_centres_have_a_smaller_ridge():
    X, y = data(400)
    with pytest.raises(ValueError, match=f"need {400 * (8 + 4) * 150} bytes"):
        KMPRegressor(150, alpha=0.1, centers=200, memory=200_000).fit(X, y)


def test_what_is_kept_here_of_atoms_elsewhere_is_bounded_by_the_memory_here(monkeypatch):
    monkeypatch.setattr(memory_module, "free_memory", lambda X: 10**9 if X is None else 10**12)
    far, near = SimpleNamespace(is_cuda=True), np.zeros((2, 2))
    for X, expected in ((far, 10**9 // memory_module.SHARE), (near, 10**11)):
        dictionary = SimpleNamespace(spare=10**11)
        memory_module.limit_spare(dictionary, X)
        assert dictionary.spare == expected


def test_directions_are_counted_in_float64_whatever_the_data():
    X, y = data(400)
    said = []
    for dtype in (np.float32, np.float64):
        with pytest.raises(ValueError, match="memory=200000 ") as error:
            KMPRegressor(300, memory=200_000).fit(X.astype(dtype), y.astype(dtype))
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_kernel_that_may_not_be_symmetric_is_turned_in_parts():
    X, _ = data(1500)
    kernel = make_kernel(lambda A, B: A[:, :1] + B[:, :1].T, X)
    tracemalloc.start()
    try:
        D = KernelDictionary(X, X, kernel)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert D.in_memory and peak < 1.7 * 1500 * 1500 * 8


def test_the_default_is_a_share_of_what_is_free(monkeypatch):
    """Ten per cent more rows do not fall off the edge of a fixed number of bytes."""
    monkeypatch.setattr("kernelpursuit.fitting.rows.free_memory", lambda X: 8 * 10**9)

    def plan(n):
        return memory_module.plan_memory(TrainingData(None, None, None, range(n), n), 300, 8 * n, None)[0]

    for n in (10_000, 12_000, 15_000):
        assert plan(n) == 2 * 10**9 >= n * n * 8
    assert plan(20_000) < 20_000**2 * 8
    with pytest.raises(ValueError, match="bytes that are free"):
        plan(10**7)


def test_free_memory_is_no_more_than_there_is():
    assert 0 < memory_module.free_memory(np.zeros(1)) <= memory_module.physical_memory()


def test_what_is_spare_beside_an_accelerator_is_memory_of_this_machine(monkeypatch):
    """Of two kernels together, too."""
    X, _ = data(50)
    monkeypatch.setattr(memory_module, "free_memory", lambda X: 4000)
    one = KernelDictionary(X, X, make_kernel("rbf", X), memory=10**6)
    for dictionary in (one, StackedDictionary([one, one])):
        assert dictionary.spare > 10**5
        memory_module.limit_spare(dictionary, SimpleNamespace(is_cuda=True))
        assert dictionary.spare == 4000 // memory_module.SHARE
        one.spare = 10**6
