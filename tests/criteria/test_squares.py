"""Criteria against the literal oracle: same atoms, same fits, running moments equal to their definition."""

import numpy as np
import pytest
from scipy.special import expit

import tests.oracle.kmp as ref
from kernelpursuit import DenseDictionary, Gradient, Squares, pursue
from kernelpursuit.losses import LOSSES, huber
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import propose
from tests.pairwise import pairwise

PROBLEMS = {name: (D, Y, G) for name, D, Y, G in ref.problems(0)}
ORACLE = {"prefit": ref.prefit_deflation, "backfit": ref.backfit, "basic": ref.basic}
CLOSE = 1e-8  # two atoms whose scores differ by less, relatively, may change places

# alpha, weighted, intercept
SETTINGS = [(0.0, False, False), (0.0, False, True), (0.0, True, True), (0.3, False, False), (0.3, True, True)]


def row_weights(n, weighted):
    return np.random.default_rng(7).uniform(0.3, 3.0, n) if weighted else None


def assert_same_choices(path, oracle):
    """Every choice is the oracle's, or tied with it to within `CLOSE`."""
    for step, score, scores in zip(path.steps, oracle.scores, oracle.all_scores, strict=True):
        assert score >= scores.max() * (1 - CLOSE)
        assert step.score == pytest.approx(score, rel=1e-6, abs=1e-10 * max(oracle.scores[0], 1e-300))


@pytest.mark.parametrize(("problem", "variant", "setting"), pairwise(PROBLEMS, ORACLE, SETTINGS))
def test_squares_equals_oracle(problem, variant, setting):
    D, Y, G = PROBLEMS[problem]
    alpha, weighted, intercept = setting
    options = {"weights": row_weights(len(D), weighted), "intercept": intercept, "alpha": alpha}
    run = Squares(DenseDictionary(D, gram=G), Y, variant=variant, **options)
    path = pursue(run, n_atoms(12))
    atoms = [step.atom for step in path.steps]
    oracle = ORACLE[variant](D, Y, 12, G=G, path=atoms, **options)
    assert_same_choices(path, oracle)
    # without ties the oracle, left to itself, takes the same atoms
    free = ORACLE[variant](D, Y, len(atoms), G=G, **options)
    gaps = [np.sort(s)[-1] - np.sort(s)[-2] > 1e-6 * np.sort(s)[-1] for s in free.all_scores]
    clear = gaps.index(False) if False in gaps else len(gaps)
    assert atoms[:clear] == free.atoms[:clear]
    assert clear >= min(len(atoms), 2) or problem.startswith("duplicates")
    # the loss and the coefficients are those of least squares on these atoms
    total = len(D) if options["weights"] is None else options["weights"].sum()
    np.testing.assert_allclose(
        [s.loss * total for s in path.steps], oracle.losses, rtol=1e-7, atol=1e-12 * np.sum(Y**2)
    )
    coef = np.array([*run.weight_path(len(path))])[-1]
    b, c = oracle.coef[-1]
    f = b + D[:, atoms] @ c
    np.testing.assert_allclose(coef[0] + D[:, path.atoms] @ coef[1:], f, atol=1e-6 * np.abs(Y).max())


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name.endswith("1")])
def test_atoms_end_with_the_rank(problem):
    D, Y, _ = PROBLEMS[problem]
    run = Squares(DenseDictionary(D), Y, intercept=False)
    path = pursue(run, n_atoms(10**6))
    assert path.reason in ("exhausted", "n_atoms")
    assert len(set(path.atoms)) == len(path.atoms) <= np.linalg.matrix_rank(D)
    limit = 1e-12
    Q = run.deflation.basis.directions
    assert np.abs(Q @ Q.T - np.eye(len(Q))).max() < limit


@pytest.mark.parametrize(("problem", "alpha", "variant"), pairwise(PROBLEMS, [0.0, 0.3], ORACLE))
def test_running_moments_equal_their_definition(problem, alpha, variant):
    D, Y, G = PROBLEMS[problem]
    run = Squares(DenseDictionary(D, gram=G), Y, alpha=alpha, variant=variant, weights=row_weights(len(D), True))
    run.scores()
    degenerate = not problem.startswith(("rbf", "rectangular"))
    start = float(np.max(np.abs(run.moments(np.arange(D.shape[1]))[0])))
    for step in range(40):
        if not (block := propose(run)):
            break
        list(run.take(block))
        J = np.flatnonzero(run.available)
        if step > 3 and step % 3:  # a running number that has gone wrong stays wrong
            continue
        if not len(J):
            break
        (a, squared), (a_true, squared_true) = run.running_moments(J), run.moments(J)
        np.testing.assert_allclose(squared, squared_true, rtol=1e-6 if degenerate else 1e-7)
        np.testing.assert_allclose(a, a_true, rtol=1e-6, atol=1e-12 * start)
        assert np.all(squared > 0)


@pytest.mark.parametrize(
    ("problem", "alpha", "weighted", "variant"),
    pairwise(
        ["rbf-1", "rbf-3", "duplicates-1", "scaled-3", "rectangular-1"],
        [0.0, 0.3],
        [False, True],
        ["prefit", "backfit"],
    ),
)
def test_leave_one_out_equals_n_refits(problem, alpha, weighted, variant):
    D, Y, G = PROBLEMS[problem]
    w = row_weights(len(D), weighted)
    run = Squares(DenseDictionary(D, gram=G), Y, alpha=alpha, variant=variant, weights=w)
    start = run.initial_step()
    steps = [start, *(step for _ in range(8) for step in run.take(propose(run)))]
    A = [step.atom for step in steps[1:]]
    ones = np.ones(len(D)) if w is None else w
    for k in (0, 3, 8):
        options = {"weights": w, "intercept": True, "alpha": alpha}
        left_out = ref.leave_one_out(D[:, A[:k]], Y, G_AA=None if G is None else G[np.ix_(A[:k], A[:k])], **options)
        assert steps[k].leave_one_out == pytest.approx(ones @ np.sum(left_out**2, axis=1) / ones.sum(), rel=1e-7)
    np.testing.assert_allclose(run.left_out(), left_out, rtol=1e-6, atol=1e-9)


def labels(Y):
    return np.where(Y > np.median(Y, axis=0), 1.0, -1.0)


LOSS_PAIRS = {name: (LOSSES[name], ref.LOSSES[name]) for name in LOSSES} | {"huber": (huber(0.5), ref.huber(0.5))}


FEW_PROBLEMS = ["rbf-1", "scaled-3", "duplicates-1", "scaled-1"]


@pytest.mark.parametrize(("problem", "name", "variant"), pairwise(FEW_PROBLEMS, LOSS_PAIRS, ORACLE))
def test_gradient_equals_oracle(problem, name, variant):
    D, Y, G = PROBLEMS[problem]
    Y = Y if name in ("huber", "squared_error") else labels(Y)
    loss, oracle_loss = LOSS_PAIRS[name]
    options = {"weights": row_weights(len(D), True), "alpha": 0.5, "variant": variant}
    run = Gradient(DenseDictionary(D, gram=G), Y, loss, intercept=True, **options)
    path = pursue(run, n_atoms(6))
    atoms = [step.atom for step in path.steps]
    oracle = ref.greedy_gradient(D, Y, *oracle_loss, 6, G=G, path=atoms, intercept=True, convex=loss.convex, **options)
    total = options["weights"].sum()
    np.testing.assert_allclose([s.loss * total for s in path.steps], oracle.losses, rtol=1e-6)
    for score, scores in zip(oracle.scores, oracle.all_scores, strict=True):
        assert score >= scores.max() * (1 - 1e-4)  # optimisers agree to about 1e-5 in the gradient
    assert np.all(np.diff(path.values("loss")) <= 1e-12)


@pytest.mark.parametrize("name", [name for name in LOSS_PAIRS if name != "squared_error"])
@pytest.mark.parametrize("problem", ["rbf-1", "quadratic-3"])
def test_refit_reaches_the_optimum(problem, name):
    D, Y, G = PROBLEMS[problem]
    Y = Y if name == "huber" else labels(Y)
    loss, oracle_loss = LOSS_PAIRS[name]
    run = Gradient(DenseDictionary(D, gram=G), Y, loss, alpha=0.1)
    path = pursue(run, n_atoms(8))
    A = path.atoms
    coef = np.array([*run.weight_path(len(path))])[-1]
    start = (coef[0], coef[1:])
    value, _, _ = ref.optimum(D[:, A], Y, *oracle_loss, None, True, 0.1, G[np.ix_(A, A)], start)
    assert path.steps[-1].loss * len(D) == pytest.approx(value, rel=1e-8)


def test_gradient_with_squared_loss_is_squares():
    D, Y, G = PROBLEMS["rbf-3"]
    for variant in ("prefit", "backfit", "basic"):
        squares = Squares(DenseDictionary(D, gram=G), Y, variant=variant, alpha=0.1)
        gradient = Gradient(DenseDictionary(D, gram=G), Y, LOSSES["squared_error"], variant=variant, alpha=0.1)
        one, two = pursue(squares, n_atoms(8)), pursue(gradient, n_atoms(8))
        assert [s.atom for s in one.steps] == [s.atom for s in two.steps]
        np.testing.assert_allclose(np.array([*squares.weight_path(8)]), np.array([*gradient.weight_path(8)]), atol=1e-4)


def test_stochastic_gradient_candidates():
    D, Y, G = PROBLEMS["rbf-1"]
    full = Gradient(DenseDictionary(D, gram=G), labels(Y), LOSSES["log_loss"], alpha=0.1)
    sampled = Gradient(DenseDictionary(D, gram=G), labels(Y), LOSSES["log_loss"], alpha=0.1)
    for _ in range(4):
        np.testing.assert_allclose(sampled.scores(np.arange(50)), full.scores(), rtol=1e-6, atol=1e-12)
        block = propose(full)
        list(full.take(block)), list(sampled.take(block))


def test_probabilities_are_the_minimisers_of_expected_loss():
    p = 0.8
    f = np.linspace(-4, 4, 80001)
    for name in ("log_loss", "exponential"):
        expected = p * LOSSES[name].value(np.ones_like(f), f) + (1 - p) * LOSSES[name].value(-np.ones_like(f), f)
        assert expit(LOSSES[name].log_odds(f[[np.argmin(expected)]]))[0] == pytest.approx(p, abs=1e-3)


@pytest.mark.parametrize("criterion", [Squares, lambda D, y, **kw: Gradient(D, y, LOSSES["squared_error"], **kw)])
def test_wrong_arguments_are_named(criterion):
    with pytest.raises(ValueError, match="variant"):
        criterion(DenseDictionary(np.eye(3)), np.ones(3), variant="forward")
    with pytest.raises(ValueError, match="rows"):
        criterion(DenseDictionary(np.eye(3)), np.ones(4))


@pytest.mark.parametrize("criterion", [Squares, lambda D, y, **kw: Gradient(D, y, LOSSES["squared_error"], **kw)])
def test_an_atom_in_the_span_is_barred_and_adds_nothing(criterion):
    D = np.column_stack([np.zeros(4), np.arange(4.0), 2 * np.arange(4.0)])
    run = criterion(DenseDictionary(D), np.array([1.0, 0.0, 2.0, 1.0]), intercept=False)
    assert list(run.take([0], weakness=0.0)) == [] and not run.available[0]
    assert [step.atom for step in run.take([1], weakness=0.0)] == [1]
    run.scores()
    assert list(run.take([2], weakness=0.0)) == [] and not run.available[2]
    assert pursue(run, n_atoms(3)).reason == "exhausted"


def test_a_row_of_high_leverage_is_left_out_exactly():
    """A leverage of 0.9999 is not 1: the left-out residual of that row is thousands of times its residual."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(30, 2))
    D[0, 0] = 400.0
    y = rng.normal(size=(30, 1))
    run = Squares(DenseDictionary(D), y)
    list(run.take([0]))
    leverage = np.sum(run.deflation.basis.directions[:, 0] ** 2)
    assert 1e-6 < 1 - leverage < 1e-3
    np.testing.assert_allclose(run.left_out(), ref.leave_one_out(D[:, [0]], y, intercept=True), rtol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_products_are_recomputed_when_the_residual_is_small(scale):
    """A target that lies in the span of some atoms but for 1e-13: products with what is left are not differences."""
    rng = np.random.default_rng(1)
    D = rng.normal(size=(40, 12))
    run = Squares(DenseDictionary(D), scale * (D[:, :4] @ rng.normal(size=4) + 1e-13 * D[:, 7]), intercept=False)
    run.scores()
    atoms = [step.atom for _ in range(4) for step in run.take(propose(run))]
    J = np.flatnonzero(run.available)
    a_true = D[:, J].T @ run.residual()
    assert sorted(atoms) == [0, 1, 2, 3]
    np.testing.assert_allclose(run.running_moments(J)[0], a_true, atol=1e-8 * np.abs(a_true).max())


def test_an_atom_whose_penalised_part_is_rounding_error_is_barred():
    """Two atoms equal to 1e-6: under a ridge 1e-12 of the second is left, less than its coordinates know."""
    rng = np.random.default_rng(2)
    D = rng.normal(size=(30, 3))
    D[:, 1] = D[:, 0] + 1e-6 * rng.normal(size=30)
    y = D @ np.ones(3)
    plain, ridge = (Squares(DenseDictionary(D, gram=D.T @ D), y, alpha=alpha, intercept=False) for alpha in (0.0, 1e-3))
    assert len(pursue(plain, n_atoms(3))) == 3
    path = pursue(ridge, n_atoms(3))
    assert len(path) == 2 and 2 in path.atoms
