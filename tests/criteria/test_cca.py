"""The criterion of sparse kernel CCA against the literal deflation of both matrices."""

import numpy as np
import pytest

import tests.oracle.cca as ref
from kernelpursuit import CanonicalCorrelation, DenseDictionary, pursue
from kernelpursuit.pursuit import n_atoms, random_subset
from kernelpursuit.pursuit.loop import propose
from tests.pairwise import pairwise

PROBLEMS = {f"{name}-{seed}": (Kx, Ky) for seed in (0, 1) for name, Kx, Ky in ref.kernels(seed)}
RANKS = {"quadratic": 15, "linear": 4, "linear-duplicates": 4, "mixed": 5}


def criterion(Kx, Ky, **options):
    return CanonicalCorrelation(DenseDictionary(Kx), DenseDictionary(Ky), **options)


WAYS = pairwise(PROBLEMS, ["symmetric", "projection"], [True, False])


@pytest.mark.parametrize(("problem", "deflation", "signed"), WAYS)
def test_equals_literal_deflation(problem, deflation, signed):
    Kx, Ky = PROBLEMS[problem]
    path = pursue(criterion(Kx, Ky, deflation=deflation, signed=signed), n_atoms(25))
    atoms = [step.atom for step in path.steps]
    forced = ref.sparse_cca(Kx, Ky, len(atoms), deflation=deflation, signed=signed, path=atoms)
    for step, rho, everyone in zip(path.steps, forced.rho, forced.all_rho, strict=True):
        assert rho >= everyone.max() - 1e-7  # the best, or tied with it
        assert step.score == pytest.approx(rho, abs=2e-6)
    # left to itself, the oracle takes the same atoms until a tie
    free = ref.sparse_cca(Kx, Ky, 25, deflation=deflation, signed=signed)
    gaps = [np.diff(np.sort(rho)[-2:])[0] > 1e-6 for rho in free.all_rho]
    clear = gaps.index(False) if False in gaps else len(gaps)
    assert atoms[:clear] == free.atoms[:clear]
    name = problem.rsplit("-", 1)[0]
    if name not in ("same", "duplicates", "linear-duplicates"):
        assert clear >= min(len(atoms), 3)
    assert len(set(atoms)) == len(atoms) == min(25, RANKS.get(name, 25))
    assert path.reason == ("n_atoms" if len(atoms) == 25 else "exhausted")


@pytest.mark.parametrize(("problem", "deflation", "signed"), WAYS)
def test_running_moments_equal_their_definition(problem, deflation, signed):
    Kx, Ky = PROBLEMS[problem]
    run = criterion(Kx, Ky, deflation=deflation, signed=signed)
    run.scores()
    tight = problem.startswith("narrow")
    for step in range(30):
        if not (block := propose(run)):
            break
        list(run.take(block))
        J = np.flatnonzero(run.available)
        if step > 3 and step % 3:  # a running number that has gone wrong stays wrong
            continue
        running, true = run.running_moments(J), run.moments(J)
        for name in ("squared", "size", "raw"):
            rtol = 1e-9 if tight else 2e-6
            np.testing.assert_allclose(getattr(running, name), getattr(true, name), rtol=rtol, err_msg=name)
        scale = np.sqrt(true.squared[0] * true.squared[1])
        assert np.all(np.abs(running.cross - true.cross) <= (1e-9 if tight else 2e-6) * scale)
        assert np.all(running.squared > 0) and np.all(running.size > 0)


@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
@pytest.mark.parametrize("problem", ["narrow-0", "linear-0"])
def test_definition_is_that_of_the_overwritten_matrices(problem, deflation):
    Kx, Ky = PROBLEMS[problem]
    run = criterion(Kx, Ky, deflation=deflation)
    path = pursue(run, n_atoms(3))
    X, Y = ref.sparse_cca(Kx, Ky, 3, deflation=deflation, path=path.atoms).matrices[-1]
    J = np.flatnonzero(run.available)
    part = run.moments(J)
    np.testing.assert_allclose(part.cross, np.sum(X * Y, axis=0)[J], atol=1e-9 * np.abs(Kx).max() * np.abs(Ky).max())
    np.testing.assert_allclose(part.squared, [(X**2).sum(axis=0)[J], (Y**2).sum(axis=0)[J]], rtol=1e-8)
    np.testing.assert_allclose(part.size, [ref.size(X, deflation)[J], ref.size(Y, deflation)[J]], rtol=1e-8)


def test_random_candidates_end_with_the_rank():
    Kx, Ky = PROBLEMS["linear-0"]
    path = pursue(criterion(Kx, Ky), n_atoms(40), random_subset(5, np.random.default_rng(0)))
    assert len(path) == 4 and path.reason == "exhausted"


def test_float32():
    Kx, Ky = (K.astype(np.float32) for K in PROBLEMS["narrow-0"])
    path = pursue(criterion(Kx, Ky), n_atoms(10))
    assert path.atoms.tolist() == pursue(criterion(*PROBLEMS["narrow-0"]), n_atoms(10)).atoms.tolist()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="deflation"):
        criterion(np.eye(3), np.eye(3), deflation="none")
    with pytest.raises(ValueError, match="square"):
        criterion(np.eye(3), np.eye(4))
    with pytest.raises(ValueError, match="overflow"):
        criterion(np.eye(3) * 1e200, np.eye(3)).scores()


@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
@pytest.mark.parametrize("swap", [False, True])
def test_an_atom_in_a_span_is_refused_and_leaves_no_trace(swap, deflation):
    Kx, Ky = PROBLEMS["half-duplicates-0"]  # objects 0 and 51 are twins in the first view only
    views = (Ky, Kx) if swap else (Kx, Ky)
    run, other = criterion(*views, deflation=deflation), criterion(*views, deflation=deflation)
    for one in (run, other):
        assert [step.atom for step in one.take([0])] == [0]
    assert list(run.take([51])) == [] and not run.available[51]
    assert [step.atom for step in run.take([3])] == [step.atom for step in other.take([3])] == [3]
    J = np.arange(4, 51)
    for mine, theirs in zip(run.moments(J), other.moments(J), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
def test_moments_are_recomputed_where_cancellation_bites(deflation):
    """Wide kernels: squared norms fall by twelve orders of magnitude before the atoms are in the span."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = X + 0.3 * rng.normal(size=(60, 2))
    Kx, Ky = (np.exp(-0.02 * ((A[:, None] - A[None]) ** 2).sum(axis=2)) for A in (X, Y))
    run = criterion(Kx, Ky, deflation=deflation)
    run.scores()
    start = run.running_moments(np.arange(60)).squared
    fallen = 1.0
    while block := propose(run):
        list(run.take(block))
        J = np.flatnonzero(run.available)
        if len(J) == 0:
            break
        running, true = run.running_moments(J), run.moments(J)
        # What is left of a column is known to eps times what it was, from its definition as well.
        known = np.maximum(2e-6, 64 * np.finfo(float).eps * np.sqrt(start[:, J] / true.squared))
        assert np.all(np.abs(running.squared - true.squared) <= known * true.squared)
        assert np.all(np.abs(running.cross - true.cross) <= known.max(axis=0) * np.sqrt(np.prod(true.squared, axis=0)))
        fallen = min(fallen, float((true.squared / start[:, J]).min()))
    assert fallen < 1e-12
    assert run.passes > 1


@pytest.mark.parametrize("signed", [True, False])
def test_scores_are_correlations_and_negative_ones_are_taken_too(signed):
    """Columns that point away from each other: their scores are the cosines, and a step's score is that of its atom."""
    Kx = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    Ky = np.array([[2.0, -1.9, 0.0], [-1.9, 2.0, 0.3], [0.0, 0.3, 1.0]])
    Ky = Kx * np.array([[-1.0], [-1.0], [-1.0]]) + 0.1 * Ky  # indefinite: the projection does not mind
    run = criterion(Kx, Ky, deflation="projection", signed=signed)
    cosines = np.sum(Kx * Ky, axis=0) / np.linalg.norm(Kx, axis=0) / np.linalg.norm(Ky, axis=0)
    assert np.all(cosines < 0)
    np.testing.assert_allclose(run.scores(), cosines if signed else -cosines, rtol=1e-12)
    path = pursue(run, n_atoms(2))
    assert len(path) == 2
    assert path.steps[0].score == pytest.approx(np.max(cosines if signed else -cosines))
    assert path.steps[0].loss == 1 - path.steps[0].score


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("seed", [0, 1])
def test_certificates_are_true_until_all_is_explained(seed, gamma, dtype):
    """Symmetric deflation in long double: a certificate of 1 is the best correlation of the points not in the span.

    In float64 a point is in the span when 1e-10 of k(x, x) is left of it, as documented.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 1))
    Y = X + rng.normal(size=(200, 1))
    K = [np.exp(-gamma * (A - A.T) ** 2).astype(dtype) for A in (X, Y)]
    path = pursue(criterion(*K), n_atoms(200))
    left = [k.astype(np.longdouble) for k in K]
    norms = [np.sum(k**2, axis=0) for k in left]
    rounding = np.finfo(dtype).eps
    limit = max(1e-10, 100 * rounding)

    def outside():
        sizes = np.min([np.diag(k) for k in left], axis=0) > 1.5 * limit
        shares = np.min([np.sum(k**2, axis=0) / n for k, n in zip(left, norms, strict=True)], axis=0)
        return sizes & (shares > 2 * (1000 * rounding) ** 2)

    for step in path.steps:
        with np.errstate(all="ignore"):
            rho = np.sum(left[0] * left[1], axis=0) / np.sqrt(
                np.sum(left[0] ** 2, axis=0) * np.sum(left[1] ** 2, axis=0)
            )
        best = np.max(rho[outside()], initial=-1)
        assert step.weakness == 1 and rho[step.atom] >= best - (1e-4 if dtype is np.float64 else 5e-3)
        for k in left:
            column = k[:, step.atom] / np.sqrt(k[step.atom, step.atom])
            k -= np.outer(column, column)
    assert path.reason == "exhausted" and not outside().any()
