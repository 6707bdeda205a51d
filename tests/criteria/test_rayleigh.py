"""The trace criterion against the literal deflation of the whole matrix, LAPACK and its own definition."""

import numpy as np
import pytest
from scipy.linalg.lapack import dpstrf

import tests.oracle.rayleigh as ref
from kernelpursuit import DenseDictionary, KernelDictionary, Rayleigh, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import propose

PROBLEMS = ref.problems()


def dictionary(K):
    return DenseDictionary(K, gram=K)


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_choices_are_those_of_the_literal_deflation(problem, selection):
    K = PROBLEMS[problem]
    run = Rayleigh(dictionary(K), selection=selection)
    path = pursue(run, n_atoms(20))
    atoms = path.atoms.tolist()
    chosen, all_scores, traces, rest = ref.deflation(K, 20, selection, path=atoms)
    assert chosen == atoms
    for step, scores in zip(path.steps, all_scores, strict=True):
        assert scores[step.atom] >= scores.max() * (1 - 1e-8)
        np.testing.assert_allclose(step.score, scores[step.atom], rtol=1e-6)
    free, _, _, _ = ref.deflation(K, 20, selection)
    gaps = [np.sort(s)[-2] < (1 - 1e-7) * np.sort(s)[-1] for s in all_scores]
    clear = gaps.index(False) if False in gaps else len(gaps)
    assert free[:clear] == atoms[:clear]
    assert len(free) == len(atoms)
    np.testing.assert_allclose(path.values("loss") * len(K), traces, rtol=1e-9, atol=1e-12 * traces[0])
    np.testing.assert_allclose(K - run.factor() @ run.factor().T, rest, atol=1e-9 * np.abs(K).max())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_score_is_the_drop_of_the_trace(problem):
    K = PROBLEMS[problem]
    path = pursue(Rayleigh(dictionary(K)), n_atoms(15))
    drops = -np.diff(path.values("loss")) * len(K)
    np.testing.assert_allclose([s.score for s in path.steps], drops, rtol=1e-6, atol=1e-12 * np.trace(K))


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal", "random"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_factor_gives_the_nystroem_matrix(problem, selection):
    K = PROBLEMS[problem]
    run = Rayleigh(dictionary(K), selection=selection, rng=np.random.default_rng(0))
    path = pursue(run, n_atoms(10))
    L = run.factor()
    np.testing.assert_allclose(L @ L.T, ref.nystroem(K, path.atoms), atol=1e-7 * np.abs(K).max())
    triangle = L[path.atoms]
    np.testing.assert_array_equal(triangle, np.tril(triangle))
    np.testing.assert_allclose(run.diagonal, np.diag(K) - np.sum(L**2, axis=1), atol=1e-12 * np.abs(K).max())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_diagonal_choice_is_lapacks_pivoted_cholesky(problem):
    K = PROBLEMS[problem]
    path = pursue(Rayleigh(dictionary(K), selection="diagonal"), n_atoms(10**6))
    _, pivots, rank, _ = dpstrf(K, tol=1e-9 * np.diag(K).max())
    _, all_scores, _, _ = ref.deflation(K, len(path), "diagonal", path=path.atoms.tolist())
    gaps = [np.sort(s)[-2] < (1 - 1e-11) * np.sort(s)[-1] for s in all_scores[:rank]]
    gaps[0] = True  # exact ties of the first step: both take the lowest index
    clear = gaps.index(False) if False in gaps else len(gaps)
    assert path.atoms[:clear].tolist() == (pivots[:clear] - 1).tolist()
    assert clear == len(gaps) or problem == "identity" or "duplicates" in problem


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
def test_ties_go_to_the_lowest_index(selection):
    """Of two equal points the first is taken, and the second never."""
    for problem in ("rbf-duplicates", "linear-duplicates"):
        K = PROBLEMS[problem]
        path = pursue(Rayleigh(dictionary(K), selection=selection), n_atoms(10**6))
        assert path.atoms.max() < len(K) - 9
    assert pursue(Rayleigh(dictionary(np.eye(7)), selection=selection), n_atoms(7)).atoms.tolist() == list(range(7))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_running_moments_equal_their_definition(problem):
    K = PROBLEMS[problem]
    run = Rayleigh(dictionary(K))
    run.scores()
    while block := propose(run):
        list(run.take(block))
        J = np.flatnonzero(run.available)
        if not len(J):
            break
        (h, d), (h_true, d_true) = run.running_moments(J), run.moments(J)
        np.testing.assert_allclose(h, h_true, rtol=1e-6)
        np.testing.assert_allclose(d, d_true, rtol=1e-5)
        assert np.all(d > 0) and np.all(h >= d**2)


def test_running_norms_survive_cancellation():
    """A wide kernel to the end of its numerical rank: the residual falls by ten orders of magnitude."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    K = np.exp(-0.1 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    run = Rayleigh(dictionary(K))
    run.scores()
    steps = 0
    while block := propose(run):
        steps += len(list(run.take(block)))
        J = np.flatnonzero(run.available)
        if len(J):
            np.testing.assert_allclose(run.running_moments(J)[0], run.moments(J)[0], rtol=1e-5)
    assert 40 < steps < 200
    assert run.passes < 1.5 * steps


@pytest.mark.parametrize("problem", PROBLEMS)
def test_atoms_end_with_the_rank(problem):
    K = PROBLEMS[problem]
    path = pursue(Rayleigh(dictionary(K)), n_atoms(10**6))
    assert path.reason == "exhausted"
    assert len(set(path.atoms)) == len(path) <= np.linalg.matrix_rank(K, tol=1e-12 * np.linalg.norm(K, 2))
    loss = path.values("loss")
    assert np.all(np.diff(loss) <= 0) and loss[-1] <= 1e-9 * loss[0]


class Columns(DenseDictionary):
    """Counts the columns that are asked for."""

    asked = 0

    def columns(self, J):
        self.asked += len(J)
        return super().columns(J)


@pytest.mark.parametrize("selection", ["diagonal", "random"])
def test_the_other_selections_look_at_the_columns_of_the_atoms_only(selection):
    D = Columns(PROBLEMS["rbf"], gram=PROBLEMS["rbf"])
    path = pursue(Rayleigh(D, selection=selection, rng=np.random.default_rng(0)), n_atoms(20))
    assert path.passes == 0 and D.asked == 1 + 20  # one says of what library the matrix is


def test_random_choice_follows_the_diagonal():
    d = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    K = np.diag(d)
    rng = np.random.default_rng(0)
    first = [pursue(Rayleigh(dictionary(K), selection="random", rng=rng), n_atoms(1)).atoms[0] for _ in range(1500)]
    share = np.bincount(first, minlength=5) / 1500
    np.testing.assert_allclose(share, d / d.sum(), atol=0.045)
    assert share[3] == 0


def test_same_seed_same_draw():
    K = PROBLEMS["rbf"]
    runs = [
        pursue(Rayleigh(dictionary(K), selection="random", rng=np.random.default_rng(4)), n_atoms(10)) for _ in range(2)
    ]
    assert runs[0].atoms.tolist() == runs[1].atoms.tolist()
    assert len(pursue(Rayleigh(dictionary(K), selection="random"), n_atoms(3))) == 3


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_tiles_and_precision_change_nothing(storage, selection):
    X = np.random.default_rng(1).normal(size=(80, 3))
    X[70:] = X[:10]
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    plain = pursue(Rayleigh(dictionary(K), selection=selection), n_atoms(25))
    for dtype, columns in ((np.float64, 7), (np.float32, 80)):
        data = X.astype(dtype)
        kernel = make_kernel("rbf", data, gamma=0.5)
        D = KernelDictionary(data, data, kernel, memory=4 * columns * 80 * data.itemsize, storage=storage)
        path = pursue(Rayleigh(D, selection=selection), n_atoms(25))
        if dtype == np.float64:
            assert path.atoms.tolist() == plain.atoms.tolist()
        np.testing.assert_allclose(path.values("loss"), plain.values("loss"), rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("rank", [3, 8])
def test_float32_stops_at_the_rank(rank):
    X = np.random.default_rng(2).normal(size=(100, rank)).astype(np.float32)
    path = pursue(Rayleigh(dictionary(X @ X.T)), n_atoms(50))
    assert len(path) == rank and path.reason == "exhausted"


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="selection"):
        Rayleigh(dictionary(np.eye(3)), selection="greedy")
    with pytest.raises(ValueError, match="square"):
        Rayleigh(DenseDictionary(np.ones((3, 2))))
    with pytest.raises(ValueError, match="scale X"):
        pursue(Rayleigh(dictionary(1e200 * np.eye(3))), n_atoms(1))
    with pytest.raises(ValueError, match="scale X"):
        Rayleigh(dictionary(np.full((2, 2), np.inf)))


def test_indefinite_and_zero_matrices_end():
    assert pursue(Rayleigh(dictionary(np.zeros((3, 3)))), n_atoms(2)).reason == "exhausted"
    path = pursue(Rayleigh(dictionary(np.diag([1.0, -1.0, 2.0]))), n_atoms(3))
    assert path.atoms.tolist() == [2, 0]
