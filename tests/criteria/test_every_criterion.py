"""What every criterion promises: samples score like all atoms, a step is one pass, tiles change nothing."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KernelDictionary, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import propose
from tests.criteria.every import CRITERIA, FEW, criterion, points, problem_data


class Counted(DenseDictionary):
    """Notes how many vectors each product has; nothing may be written to its matrix."""

    def __init__(self, matrix):
        super().__init__(matrix.copy(), gram=matrix)
        self.matrix.setflags(write=False)
        self.widths = []

    def correlate(self, V):
        self.widths.append(V.shape[1])
        return super().correlate(V)


@pytest.mark.parametrize("problem", ["narrow", "linear", "duplicates"])
@pytest.mark.parametrize("name", FEW)
def test_samples_score_like_all_atoms(name, problem):
    full, sampled = criterion(name, problem), criterion(name, problem)
    everyone = np.arange(90)
    largest = np.abs(full.scores()).max()
    for _ in range(6):
        np.testing.assert_allclose(sampled.scores(everyone), full.scores(), rtol=1e-6, atol=1e-10 * largest)
        np.testing.assert_array_equal(sampled.available, full.available)
        if not (block := propose(full)):
            break
        (one,), (two,) = full.take(block), sampled.take(block)
        assert one.loss == pytest.approx(two.loss, abs=1e-12) and one.score == pytest.approx(two.score)
    assert sampled.passes <= 6 + 1e-9


@pytest.mark.parametrize("name", FEW)
def test_a_step_is_one_product_with_few_vectors(name):
    Kx, Ky, Y, classes = problem_data("narrow")
    x, y = Counted(Kx), Counted(Ky)
    path = pursue(CRITERIA[name](x, y, Y, classes), n_atoms(12))
    width = 2 if name.startswith(("fisher", "cca")) else 1
    assert len(path) == 12 and x.widths == [width] * 12
    assert y.widths == ([2] * 12 if name.startswith("cca") else [])
    assert path.passes == pytest.approx(13)  # and one to begin with


@pytest.mark.parametrize("columns", [1, 7, 90])
@pytest.mark.parametrize("name", FEW)
def test_tiles_change_nothing(name, columns):
    X, Z, Y, classes = points(90, 22)
    kernels = [make_kernel("rbf", A, gamma=0.2) for A in (X, Z)]
    whole = [DenseDictionary(K := kernel.between(A, A), gram=K) for A, kernel in zip((X, Z), kernels, strict=True)]
    memory = 90 * 8 * 4 * columns
    tiles = [
        KernelDictionary(A, A, kernel, memory=memory, storage="tiles")
        for A, kernel in zip((X, Z), kernels, strict=True)
    ]
    one, two = (pursue(CRITERIA[name](*views, Y, classes), n_atoms(20)) for views in (whole, tiles))
    assert [step.atom for step in one.steps] == [step.atom for step in two.steps]
    assert one.atoms.max() < 90 - 22  # of duplicates the lower index
