"""Samples of candidates: how they are drawn, and that the best of each is taken."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.oracle.kmp as reference
from kernelpursuit import (
    DenseDictionary,
    Gradient,
    KernelDictionary,
    KMPRegressor,
    Rayleigh,
    SparseKernelFDA,
    Squares,
    pursue,
)
from kernelpursuit.kernels import make_kernel
from kernelpursuit.losses import LOSSES
from kernelpursuit.pursuit import everything, growing_subset, loss_below, n_atoms, random_subset, sample_size
from tests.problems import classes, data

PROBLEMS = {name: (D, Y) for name, D, Y, _ in reference.problems(1)}


def squares(D, Y, **options):
    return Squares(DenseDictionary(D), Y, **options)


def logistic(D, Y, **options):
    return Gradient(DenseDictionary(D), np.where(Y > np.median(Y, axis=0), 1.0, -1.0), LOSSES["log_loss"], **options)


def rayleigh(K, Y, **options):
    return Rayleigh(DenseDictionary(K, gram=K), **options)


# ---------------------------------------------------------------------------------------------- draws


def test_random_subset_draws_available_atoms_without_replacement():
    rng = np.random.default_rng(0)
    available = rng.random(40) < 0.5
    candidates = random_subset(10, rng)
    draws = [candidates(available) for _ in range(300)]
    for J in draws:
        assert len(J) == len(set(J)) == 10 and np.all(available[J]) and np.all(np.diff(J) > 0)
    counts = np.bincount(np.concatenate(draws), minlength=40)[available]
    expected = 300 * 10 / available.sum()
    assert np.all(np.abs(counts - expected) < 6 * np.sqrt(expected))
    assert random_subset(100, rng)(available).tolist() == np.flatnonzero(available).tolist()
    assert everything(available) is None


def test_growing_samples_grow():
    draw = growing_subset(np.random.default_rng(0))
    available = np.ones(400, dtype=bool)
    available[:50] = False
    drawn = [draw(available) for _ in range(300)]
    sizes = [len(J) for J in drawn]
    assert sizes[:3] == [59, 61, 63] and sizes == sorted(sizes) and sizes[-1] == 350
    assert all(J.min() >= 50 and len(set(J.tolist())) == len(J) for J in drawn)


def test_sample_size():
    assert sample_size(0.05, 0.95) == 59
    for pair in ((0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1), (0.5, np.nan)):
        with pytest.raises(ValueError, match=r"epsilon|quantile"):
            sample_size(*pair)
    # the best of that many is above the quantile with the promised probability
    rng = np.random.default_rng(0)
    best = rng.random((2000, sample_size(0.1, 0.9))).max(axis=1)
    assert np.mean(best > 0.9) > 0.9 - 0.02


# ---------------------------------------------------------------------------------------------- pursuits


def literal_sample(size, available, step):
    """The first available atoms of a random order of its own for each step."""
    order = np.random.default_rng([7, step]).permutation(len(available))
    return np.array(sorted([j for j in order if available[j]][:size]))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    size=st.integers(5, 40),
    variant=st.sampled_from(["prefit", "backfit", "basic"]),
    alpha=st.sampled_from([0.0, 0.2]),
    weighted=st.booleans(),
    n_targets=st.integers(1, 3),
)
def test_the_best_of_each_sample_is_taken(seed, size, variant, alpha, weighted, n_targets):
    rng = np.random.default_rng(seed)
    rows, targets = rng.normal(size=(40, 2)), rng.normal(size=(40, n_targets))
    G = reference.rbf(rows, rows, 0.5)
    weights = rng.uniform(0.5, 2, 40) if weighted else None
    run = Squares(DenseDictionary(G, gram=G), targets, variant=variant, alpha=alpha, weights=weights)
    atoms = []
    pursue(
        run,
        n_atoms(7),
        lambda available: literal_sample(size, available, len(atoms)),
        lambda path: atoms.append(path.steps[-1].atom),
    )
    found = getattr(reference, variant)(G, targets, None, weights=weights, intercept=True, alpha=alpha, G=G, path=atoms)
    for step, (atom, scores) in enumerate(zip(atoms, found.all_scores, strict=True)):
        sample = literal_sample(size, np.isfinite(scores), step)
        assert atom == sample[reference.choose(scores[sample], 1e-9)]


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
@pytest.mark.parametrize("criterion", [squares, logistic])
@pytest.mark.parametrize("problem", ["rbf-1", "duplicates-3"])
def test_a_sample_of_all_atoms_is_plain_greedy(problem, criterion, variant):
    D, Y = PROBLEMS[problem]
    plain = pursue(criterion(D, Y, variant=variant), n_atoms(8))
    sample = random_subset(D.shape[1], np.random.default_rng(0))
    sampled = pursue(criterion(D, Y, variant=variant), n_atoms(8), sample)
    assert [s.atom for s in plain.steps] == [s.atom for s in sampled.steps]
    assert 0 < sampled.passes <= 8 * (D.shape[1] + 1) / D.shape[1]


def test_samples_reproduce_and_never_repeat():
    D, Y = PROBLEMS["duplicates-1"]
    paths = [pursue(squares(D, Y), n_atoms(40), random_subset(3, np.random.default_rng(5))) for _ in range(2)]
    assert paths[0].atoms.tolist() == paths[1].atoms.tolist()
    assert len(set(paths[0].atoms)) == len(paths[0])
    full = pursue(squares(D, Y), n_atoms(1000))
    endless = pursue(squares(D, Y), n_atoms(1000), random_subset(3, np.random.default_rng(5)))
    assert endless.reason == "exhausted" and abs(len(endless) - len(full)) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_useless_candidates_do_not_end_the_pursuit(seed):
    """A sample of atoms that are orthogonal to the residual says nothing about the others."""
    y = np.zeros(30)
    y[[3, 17]] = 1.0, 2.0
    draw = random_subset(2, np.random.default_rng(seed))
    path = pursue(squares(np.eye(30), y, intercept=False), loss_below(1e-12), draw)
    assert path.reason == "tolerance" and set(path.atoms) >= {3, 17}


CRITERIA = {
    "squares": squares,
    "rayleigh": rayleigh,
    "diagonal": lambda K, Y: rayleigh(K, Y, selection="diagonal"),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", CRITERIA)
def test_a_sample_is_drawn_once_a_step(name, known):
    """Also where the scores of all atoms happen to be known, the best of a sample is compared with nobody else."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    run = CRITERIA[name](reference.rbf(X, X, 1.0), np.sin(X[:, 0]))
    if known:
        run.scores()
    draws = []
    draw = random_subset(5, np.random.default_rng(0))

    def candidates(available):
        draws.append(draw(available))
        return draws[-1]

    path = pursue(run, n_atoms(20), candidates)
    assert len(draws) == len(path) == 20
    for step, sample in zip(path.steps, draws, strict=True):
        assert step.atom in sample


def test_growing_samples_of_the_farthest_point():
    """The farthest of each sample: nearer than the farthest of all, which has certificate 1."""
    X = np.random.default_rng(1).normal(size=(400, 2))
    run = rayleigh(reference.rbf(X, X, 1.0), None, selection="diagonal")
    shares = [step.weakness for step in pursue(run, n_atoms(30), growing_subset(np.random.default_rng(0), 4)).steps]
    assert len(shares) == 30 and min(shares) < 0.9 and max(shares) <= 1


class Counted(KernelDictionary):
    asked = 0

    def columns(self, J):
        self.asked += len(J)
        return super().columns(J)

    def exact_columns(self, J):
        if self._itemsize < 8:
            self.asked += len(J)
        return super().exact_columns(J)


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_a_step_computes_the_columns_of_its_sample_and_of_its_atom(variant, dtype, alpha):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)).astype(dtype), rng.normal(size=80).astype(dtype)
    D = Counted(X, X, make_kernel("rbf", X, gamma=0.5), storage="tiles")
    run = Squares(D, y, variant=variant, alpha=alpha, weights=rng.random(80) + 0.5)
    path = pursue(run, n_atoms(6), random_subset(11, np.random.default_rng(1)))
    assert D.asked == 6 * (11 + 1)
    assert np.all(np.diff(path.values("loss")) <= 1e-12)
    coef = run.coef()[:, 0]
    atoms = list(dict.fromkeys(path.atoms.tolist()))
    fitted = coef[0] + D.kernel.between(X, X[atoms]) @ coef[1:]
    np.testing.assert_allclose(run.residual()[:, 0], y - fitted, atol=2e-5 if dtype == np.float32 else 1e-10)


# ---------------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("weakness", [1.0, 0.5])
@pytest.mark.parametrize(
    "options", [{}, {"variant": "basic"}, {"kernel": ["rbf", "laplacian"]}, {"centers": 90}], ids=str
)
def test_as_many_candidates_as_atoms_are_all_atoms(options, weakness):
    X, y = data(150)
    plain = KMPRegressor(20, random_state=4, **options).fit(X, y)
    sampled = KMPRegressor(20, random_state=4, candidates=300, weakness=weakness, **options).fit(X, y)
    np.testing.assert_array_equal(plain.support_, sampled.support_)
    assert plain.path_.passes == sampled.path_.passes
    assert all(step.weakness == 1 for step in sampled.path_.steps)


@pytest.mark.parametrize("model", [KMPRegressor(20), SparseKernelFDA(12)], ids=["regressor", "fda"])
def test_growing_candidates(model):
    X, y = data(150)
    model.set_params(candidates="growing", random_state=1)
    y = classes(X, 3) if isinstance(model, SparseKernelFDA) else y
    atoms = model.fit(X, y).path_.atoms
    assert len(atoms) > 0
    np.testing.assert_array_equal(model.fit(X, y).path_.atoms, atoms)


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("gamma", [0.5, 0.01])
def test_float32_explains_as_much_as_float64(gamma, variant):
    X, y = (part.astype(np.float32) for part in data(150))
    model = KMPRegressor(24, candidates=30, gamma=gamma, variant=variant, random_state=1, alpha=0.0)
    single = model.fit(X, y).path_.values("loss")
    np.testing.assert_allclose(single, model.fit(X.astype(float), y.astype(float)).path_.values("loss"), rtol=0.01)


def test_samples_need_no_matrix():
    """Memory is O(n (s + k)), and a pass over all atoms is never made."""
    X = np.random.default_rng(0).normal(size=(3000, 4))
    y = np.sin(X[:, 0])
    KMPRegressor(2, candidates=20, random_state=0).fit(X[:50], y[:50])  # imports
    tracemalloc.start()
    model = KMPRegressor(10, candidates=20, random_state=0).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 3000 * 3000 / 4
    assert model.path_.passes < 10 * 21 / 3000 + 1e-9
