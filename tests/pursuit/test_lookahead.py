"""Several atoms for one pass: the same choices as with a pass for each, or ones as good as was asked for."""

from functools import cache

import numpy as np
import pytest

from kernelpursuit import (
    CanonicalCorrelation,
    DenseDictionary,
    Fisher,
    KernelDictionary,
    Rayleigh,
    Squares,
    StackedDictionary,
    pursue,
)
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import Path, Step, Stop, first_of, loss_below, lowest_gcv, n_atoms, random_subset
from kernelpursuit.pursuit.loop import certified_weakness
from tests.criteria.every import CRITERIA, FEW, PROBLEMS, SQUARES, begun, criterion, points, problem_data


def length(name, problem):
    """Atoms to take: the basic variant never ends; after twelve of a linear kernel it fits rounding errors."""
    return 12 if name.startswith("basic") and problem == "linear" else 30


@cache
def plain(name, problem):
    """The path of one pass for each atom."""
    return pursue(criterion(name, problem), n_atoms(length(name, problem)))


def atoms_of(path):
    return [step.atom for step in path.steps]


def assert_same(path, other, rtol=1e-6):
    assert atoms_of(path) == atoms_of(other)
    for name in ("score", "loss", "leave_one_out"):
        mine, theirs = path.values(name), other.values(name)
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-10 * np.nanmax(np.abs(theirs), initial=0))
    assert all(step.weakness == 1 for step in path.steps)


def assert_running(run):
    """Running moments of the atoms left equal their definition, to the digits that down-dating leaves near the rank."""
    rtol = 1e-5
    J = np.flatnonzero(run.available)
    if not len(J):
        return
    running, true = run.running_moments(J), run.moments(J)
    for place, (mine, theirs) in enumerate(zip(running, true, strict=True)):
        scale = rtol * np.abs(theirs)
        if isinstance(run, CanonicalCorrelation) and place == 0:  # an inner product may cancel
            scale = rtol * np.sqrt(true.squared[0] * true.squared[1])
        elif place == 0 and mine.ndim == 2:  # so may products with residuals or codes
            scale = scale + 1e-11 * run.largest
        elif isinstance(run, Fisher) and place == 1:
            scale = np.maximum(scale, 1e-6 * 1e-12 * run.deflation.norms.raw[J])
        assert np.all(np.abs(mine - theirs) <= scale), (place, np.max(np.abs(mine - theirs) / scale))


def in_blocks(name, problem, weakness):
    """The path of blocks of nine to its end; running moments equal their definition at places all over the blocks."""
    run = begun(criterion(name, problem))

    def every_seventh(path):
        if len(path) % 7 == 1:
            assert_running(run)

    steps = length(name, problem) if name.startswith("basic") else 10**6
    return pursue(run, n_atoms(steps), lookahead=9, weakness=weakness, callback=every_seventh)


def assert_shares(name, problem, path, weakness):
    """The share written down is that of a fresh criterion that takes the same atoms one by one."""
    replay = criterion(name, problem)
    for step in path.steps[: length(name, problem)]:
        scores = replay.scores()
        share = scores[step.atom] / scores.max()
        assert weakness <= step.weakness <= 1
        # Correlations are known to so many digits of 1, not of themselves.
        assert step.weakness == pytest.approx(share, rel=1e-4 if name.startswith("cca") else 1e-5)
        (again,) = replay.take([step.atom], weakness=0.0)
        assert again.score == pytest.approx(step.score, rel=1e-5)
        np.testing.assert_allclose(again.loss, step.loss, rtol=1e-6, atol=1e-12 * np.abs(path.start.loss))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", CRITERIA)
def test_blocks(name, problem):
    """Without weakness nothing changes; with some each atom reaches its share of the best. Both end with the rank."""
    strong, weak = (in_blocks(name, problem, weakness) for weakness in (1.0, 0.5))
    assert_same(strong.truncate(min(len(strong), length(name, problem))), plain(name, problem))
    assert_shares(name, problem, weak, 0.5)
    for path in (strong, weak):
        if problem in ("linear", "duplicates") and not name.startswith("basic"):
            assert path.reason == "exhausted"
            assert len(set(atoms_of(path))) == len(path) <= 90 - 90 // 4
            assert problem != "linear" or len(path) == 4


@pytest.mark.parametrize("place", range(len(CRITERIA)), ids=CRITERIA)
def test_blocks_of_other_sizes(place):
    """Each criterion and each problem meets both sizes, and a smaller share."""
    name = [*CRITERIA][place]
    for problem, lookahead in zip(PROBLEMS, (2, 64, 2, 64) if place % 2 else (64, 2, 64, 2), strict=True):
        path = pursue(criterion(name, problem), n_atoms(length(name, problem)), lookahead=lookahead)
        expected = plain(name, problem)
        assert_same(path, expected)
        assert path.reason == expected.reason
    problem = PROBLEMS[place % 4]
    path = pursue(criterion(name, problem), n_atoms(length(name, problem)), lookahead="auto", weakness=0.3)
    assert_shares(name, problem, path, 0.3)


@pytest.mark.parametrize("problem", ["wide", "narrow"])
@pytest.mark.parametrize("name", FEW)
def test_passes_are_saved(name, problem):
    """A pool of 100 to 200 atoms costs up to 0.6 of a pass where there are only 320; on large data it costs little."""
    for weakness, most in ((1.0, 0.9), (0.5, 0.4)):
        path = pursue(criterion(name, problem, n=320), n_atoms(60), lookahead=64, weakness=weakness)
        assert len(path) == 60 and path.passes < most * 60


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", CRITERIA)
def test_a_block_that_is_cut_leaves_no_trace(name, problem):
    """A wrong atom ends its block; what comes after goes on as if the rest had never been proposed."""
    right = atoms_of(plain(name, problem))[:4]
    run, other = begun(criterion(name, problem)), begun(criterion(name, problem))
    worst = int(np.argmin(np.where(run.available, run.scores(), np.inf)))
    alive = run.available.copy()
    assert list(run.take([worst, *right])) == []
    np.testing.assert_array_equal(run.available, alive)
    assert atoms_of_steps(run.take([*right[:2], worst, *right[2:]])) == right[:2]
    assert atoms_of_steps(other.take(right[:2])) == right[:2]
    assert_running(run)
    for block in (right[2:3], right[3:]):
        for one, two in zip(run.take(block), other.take(block), strict=True):
            np.testing.assert_allclose(one[1:5], two[1:5], rtol=1e-7, atol=1e-12)
        assert_running(run)
    np.testing.assert_array_equal(run.available, other.available)


def atoms_of_steps(steps):
    return [step.atom for step in steps]


@pytest.mark.parametrize("name", [name for name in FEW if not name.startswith("basic")])
def test_an_atom_in_the_span_of_its_block_is_not_barred(name):
    """Twins in one block: the second adds nothing to the first, but if the first is not taken it may be."""
    run, n = begun(criterion(name, "duplicates")), 90
    free, twin = 5, n - n // 4 + 5
    best = int(np.argmax(run.scores()))
    list(run.take([best, free, twin], weakness=1.0))
    assert run.available[twin] or free == best
    scores = run.scores()
    assert scores[twin] == pytest.approx(scores[free], rel=1e-6)
    assert atoms_of_steps(run.take([free, twin], weakness=0.0)) == [free]
    assert not run.available[twin]


@pytest.mark.parametrize("name", CRITERIA)
def test_the_rule_ends_in_the_middle_of_a_block(name):
    """Basis and coefficients are those of the atoms kept."""
    for keep in (1, 3, 6, 7):
        assert_ended(name, keep)


def assert_ended(name, keep):
    runs = [criterion(name, "narrow") for _ in range(2)]
    paths = [pursue(run, n_atoms(keep), lookahead=lookahead) for run, lookahead in zip(runs, (16, 1), strict=True)]
    assert_same(*paths)
    J = np.flatnonzero(runs[1].available)
    np.testing.assert_array_equal(runs[0].available, runs[1].available)
    for mine, theirs in zip(runs[0].moments(J), runs[1].moments(J), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)
    if name in SQUARES:
        np.testing.assert_allclose(
            np.array([*runs[0].weight_path(keep)]), np.array([*runs[1].weight_path(keep)]), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(runs[0].coef(), runs[1].coef(), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(runs[0].residual(), runs[1].residual(), rtol=1e-8, atol=1e-10)
    elif name == "rayleigh":
        np.testing.assert_allclose(runs[0].factor(), runs[1].factor(), atol=1e-10)
    elif name.startswith("fisher"):
        mine, theirs = (run.discriminants(keep, 1e-3) for run in runs)
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["prefit-ridge", "backfit-plain", "basic-plain"])
def test_a_rule_that_looks_back(name):
    """Steps given up were in the middle of a block and in others after it."""

    def stop(path):
        return Stop(5, "enough") if len(path) == 21 else None

    runs = [criterion(name, "narrow") for _ in range(2)]
    paths = [pursue(run, stop, lookahead=lookahead) for run, lookahead in zip(runs, (7, 1), strict=True)]
    assert_same(*paths)
    assert [len(path) for path in paths] == [5, 5] and len(paths[0].discarded) == 16
    np.testing.assert_allclose(
        np.array([*runs[0].weight_path(5)]), np.array([*runs[1].weight_path(5)]), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("problem", ["narrow", "duplicates"])
@pytest.mark.parametrize("name", FEW)
def test_float32(name, problem):
    """Single precision: choices are those of one pass for each atom until scores are closer than rounding error."""
    paths = [
        pursue(criterion(name, problem, dtype=np.float32), n_atoms(12), lookahead=lookahead) for lookahead in (6, 1)
    ]
    assert_same(*paths, rtol=2e-3)
    weak = pursue(criterion(name, problem, dtype=np.float32), n_atoms(12), lookahead=6, weakness=0.5)
    assert all(step.weakness >= 0.5 for step in weak.steps)


@pytest.mark.parametrize("name", FEW)
def test_tiles_change_nothing(name):
    X, Z, Y, classes = points(90, 22)
    kernels = [make_kernel("rbf", A, gamma=0.2) for A in (X, Z)]
    tiled = [
        KernelDictionary(A, A, kernel, memory=90 * 8 * 4 * 7, storage="tiles")
        for A, kernel in zip((X, Z), kernels, strict=True)
    ]
    path, expected = (
        pursue(CRITERIA[name](*tiled, Y, classes), n_atoms(25), lookahead=lookahead) for lookahead in ("auto", 1)
    )
    assert_same(path, expected)
    assert path.passes < 0.7 * expected.passes


@pytest.mark.parametrize("name", FEW)
def test_little_memory_does_not_make_pools_quadratic(name):
    """Columns that a simulation reads are no more than those of its pool and of a pass, whatever a tile may hold."""
    X, Z, Y, classes = points(90)
    loaded = []

    class Counting(KernelDictionary):
        def columns(self, J):
            loaded.append(len(J))
            return super().columns(J)

    kernels = [make_kernel("rbf", A, gamma=0.2) for A in (X, Z)]
    tiny = [Counting(A, A, k, memory=90 * 8, storage="tiles") for A, k in zip((X, Z), kernels, strict=True)]
    assert all(dictionary.tile == 1 for dictionary in tiny)
    run = CRITERIA[name](*tiny, Y, classes)
    run.scores()
    for _ in run.take([int(np.argmax(run.scores()))]):
        pass
    loaded.clear()
    run.simulate(np.arange(0, 90, 2))
    views = 2 if name.startswith("cca") else 1
    assert sum(loaded) <= views * (45 + 90)


def test_auto_pays_a_pass_for_each_atom_of_a_matrix_in_memory():
    for name in FEW:
        run = criterion(name, "narrow")
        assert run.in_memory and pursue(run, n_atoms(5), lookahead="auto").passes == 6
        assert pursue(criterion(name, "narrow"), n_atoms(5), lookahead="auto", weakness=0.9).passes < 6


@pytest.mark.parametrize("name", [*SQUARES, "fisher-2", "fisher-3"])
def test_stacked_dictionaries(name):
    Kx, Ky, Y, classes = problem_data("narrow")

    def stacked():
        parts = [DenseDictionary(Kx, gram=Kx), DenseDictionary(Ky, gram=Ky), DenseDictionary(points()[0])]
        return CRITERIA[name](StackedDictionary(parts), None, Y, classes)

    assert_same(pursue(stacked(), n_atoms(30), lookahead=16), pursue(stacked(), n_atoms(30)))


@pytest.mark.parametrize("name", FEW)
def test_a_pool_in_pieces_gives_the_same_matrices(name):
    Kx, Ky, Y, classes = problem_data("narrow")
    simulations = []
    for tile in (128, 7):
        x, y = (DenseDictionary(K, gram=K, tile=tile) for K in (Kx, Ky))
        run = begun(CRITERIA[name](x, y, Y, classes))
        list(run.take(atoms_of(plain(name, "narrow"))[:3]))
        simulations.append(run.simulate(np.flatnonzero(run.scores() > 0)[::3]))
    whole, pieces = simulations
    for _ in range(6):
        np.testing.assert_allclose(pieces.scores(), whole.scores(), rtol=1e-9, atol=1e-12)
        i = int(np.argmax(whole.scores()))
        whole.take(i), pieces.take(i)


@pytest.mark.parametrize("name", CRITERIA)
def test_a_simulation_on_all_atoms_is_the_criterion(name):
    """With every atom in the pool its scores are those of the criterion, step by step; the criterion is not touched."""
    run = begun(criterion(name, "narrow"))
    list(run.take(atoms_of(plain(name, "narrow"))[:3]))
    before = run.scores().copy()
    simulation = run.simulate(np.arange(90))
    for _ in range(12):
        simulated, true = simulation.scores(), run.scores()
        np.testing.assert_array_equal(np.isneginf(simulated), np.isneginf(true))
        live = np.isfinite(true)
        np.testing.assert_allclose(simulated[live], true[live], rtol=1e-6, atol=1e-10 * before.max())
        atom = int(np.argmax(true))
        simulation.take(atom)
        assert atoms_of_steps(run.take([atom])) == [atom]


def test_no_simulation_where_it_would_save_nothing():
    for selection in ("diagonal", "random"):
        K = problem_data("narrow")[0]
        run = Rayleigh(DenseDictionary(K, gram=K), selection=selection, rng=np.random.default_rng(0))
        run.scores()
        assert run.simulate(np.arange(10)) is None
        assert pursue(run, n_atoms(9), lookahead=4).passes == 0
    for name in FEW:  # moments do not run before all atoms were looked at
        assert criterion(name, "narrow").simulate(np.arange(10)) is None
        sample = random_subset(20, np.random.default_rng(0))
        path = pursue(criterion(name, "narrow"), n_atoms(6), sample, lookahead=4)
        assert len(path) == 6 and path.passes < 2


@pytest.mark.parametrize("name", [name for name in FEW if name != "rayleigh"])
def test_other_namespaces(name):
    strict = pytest.importorskip("array_api_strict")
    Kx, Ky, Y, classes = problem_data("narrow")

    def make(xp):
        x, y = (DenseDictionary(xp.asarray(K), gram=K) for K in (Kx, Ky))
        if name in SQUARES:
            return Squares(x, xp.asarray(Y), variant=name.split("-")[0], alpha=0.1 if "ridge" in name else 0.0)
        return CRITERIA[name](x, y, Y, classes)

    assert_same(pursue(make(strict), n_atoms(12), lookahead=5), pursue(make(np), n_atoms(12), lookahead=5))


def test_wrong_arguments_are_named():
    for option in ({"lookahead": 0}, {"lookahead": "all"}, {"lookahead": 2.5}, {"weakness": 0.0}, {"weakness": 1.5}):
        with pytest.raises(ValueError, match=next(iter(option))):
            pursue(criterion("rayleigh", "narrow"), n_atoms(3), **option)


@pytest.mark.parametrize("scores", [np.zeros(3), np.full(3, -np.inf), np.array([-np.inf, 0.0, -np.inf])])
def test_where_no_score_is_positive_no_atom_has_a_share(scores):
    """Plain greedy choice ends there, and so must a block."""
    assert [certified_weakness(scores, 1e-12, atom) for atom in range(3)] == [0.0] * 3


def test_a_block_ends_where_the_fit_is_exact():
    D = DenseDictionary(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    run = Squares(D, np.array([1.0, 0.0, 0.0]), intercept=False)
    run.scores()
    assert atoms_of_steps(run.take([0, 1])) == [0]


# ---------------------------------------------------------------------------------------------- ends of blocks


class Watched(Squares):
    """Notes the length of each block and the steps before it."""

    def take(self, block, weakness=1.0):
        self.__dict__.setdefault("blocks", []).append((len(block), len(self._steps)))
        return super().take(block, weakness)


def narrow_kernel(dtype=np.float64, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(dtype)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)).astype(dtype)
    return KernelDictionary(X, X, make_kernel("rbf", X, gamma=0.3)), y


def unpredictable(rule):
    """A rule of which nothing is known before it is asked."""
    return lambda path: rule(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weakness", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("options", [{}, {"alpha": 1e-3}, {"variant": "backfit"}, {"variant": "basic"}])
def test_no_more_atoms_are_proposed_than_the_rule_takes(dtype, weakness, options):
    D, y = narrow_kernel(dtype)
    run, blind = Watched(D, y, **options), Watched(D, y, **options)
    path = pursue(run, first_of(n_atoms(21), loss_below(0.0)), lookahead=16, weakness=weakness)
    other = pursue(blind, unpredictable(n_atoms(21)), lookahead=16, weakness=weakness)
    np.testing.assert_array_equal(path.atoms, other.atoms)
    assert len(path) == 21 and path.reason == "n_atoms"
    assert all(length <= 22 - taken for length, taken in run.blocks)  # the best atom may have been in no pool
    assert sum(length for length, _ in run.blocks) <= sum(length for length, _ in blind.blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_ends_where_the_loss_is_low_enough(dtype):
    D, y = narrow_kernel(dtype)
    losses = [step.loss for step in pursue(Squares(D, y), n_atoms(60), lookahead=64, weakness=0.2).steps]
    goal = losses[40]
    run, blind = Watched(D, y), Watched(D, y)
    path = pursue(run, loss_below(0.0, goal), lookahead=64, weakness=0.2)
    other = pursue(blind, unpredictable(loss_below(0.0, goal)), lookahead=64, weakness=0.2)
    np.testing.assert_array_equal(path.atoms, other.atoms)
    assert path.steps[-1].loss <= goal < path.steps[-2].loss
    (length, taken), (longer, _) = run.blocks[-1], blind.blocks[-1]
    assert length < longer and length <= len(path) - taken + 2


def test_a_rule_that_reads_more_than_the_loss_says_nothing_ahead():
    path = Path(Step(-1, loss=4.0), [Step(0, loss=2.0)])
    rule = first_of(n_atoms(5), loss_below(0.1), lowest_gcv(100, 2.0, patience=3))
    assert rule.ends(path, 5, np.nan) and rule.ends(path, 2, 0.4)
    assert not rule.ends(path, 4, np.nan) and not rule.ends(path, 4, 0.41)
    assert not first_of(lowest_gcv(100, 2.0, patience=3)).ends(path, 99, 0.0)
