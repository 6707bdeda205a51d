"""The Fisher criterion against the literal deflation: same atoms, running moments equal to their definition."""

import array_api_strict
import numpy as np
import pytest

import tests.oracle.fisher as literal
import tests.oracle.kmp as ref
from kernelpursuit import DenseDictionary, pursue
from kernelpursuit.criteria.fisher import Fisher
from kernelpursuit.math.discriminants import Within, class_codes
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import propose

PROBLEMS = {name: (D, Y, G) for name, D, Y, G in ref.problems(0) if name.endswith("-1")}
CLOSE = 1e-8  # two atoms whose scores differ by less, relatively, may change places
LABELS = ["centred", "raw"]


def classes(Y, n_classes):
    """Unequal classes."""
    edges = np.quantile(Y, np.linspace(0, 1, n_classes + 1)[1:-1] ** 1.5)
    return np.digitize(Y, edges)


def clear_steps(run):
    """Steps before the first choice that is tied."""
    gaps = [np.sort(s)[-1] - np.sort(s)[-2] > 1e-6 * np.sort(s)[-1] for s in run.all_scores]
    return gaps.index(False) if False in gaps else len(gaps)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_equals_literal_deflation(problem, n_classes, labels):
    D, Y, _ = PROBLEMS[problem]
    index = classes(Y, n_classes)
    path = pursue(Fisher(DenseDictionary(D), index, labels=labels), n_atoms(15))
    atoms = [step.atom for step in path.steps]
    oracle = literal.fisher(D, index, 15, labels, path=atoms)
    for step, score, scores in zip(path.steps, oracle.scores, oracle.all_scores, strict=True):
        assert score >= scores.max() * (1 - CLOSE)
        assert step.score == pytest.approx(score, rel=1e-6)
    free = literal.fisher(D, index, 15, labels)
    clear = clear_steps(free)
    assert atoms[:clear] == free.atoms[:clear]
    assert clear >= min(len(atoms), 2) or problem.startswith("duplicates")
    assert len(set(atoms)) == len(atoms) <= np.linalg.matrix_rank(D)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_running_moments_equal_their_definition(problem, n_classes, labels):
    D, Y, _ = PROBLEMS[problem]
    run = Fisher(DenseDictionary(D), classes(Y, n_classes), labels=labels)
    run.scores()
    start = float(np.max(np.abs(run.moments(np.arange(D.shape[1]))[0])))
    raw = np.sum(D**2, axis=0)
    for _ in range(25):
        if not (block := propose(run)):
            break
        list(run.take(block))
        J = np.flatnonzero(run.available)
        if not len(J):
            break
        (a, eta, nu), (a_true, eta_true, nu_true) = run.running_moments(J), run.moments(J)
        np.testing.assert_allclose(a, a_true, rtol=1e-6, atol=1e-12 * start)
        np.testing.assert_allclose(nu, nu_true, rtol=1e-6)
        assert np.all(np.abs(eta - eta_true) <= 1e-6 * np.maximum(eta_true, 1e-12 * raw[J]))
        assert np.all(eta >= 0)


@pytest.mark.parametrize("labels", LABELS)
def test_orthonormal_to_the_end(labels):
    for D, Y, _ in PROBLEMS.values():
        run = Fisher(DenseDictionary(D), classes(Y, 2), labels=labels)
        path = pursue(run, n_atoms(10**6))
        assert path.reason == "exhausted"
        Q = run.deflation.basis.directions
        assert np.abs(Q @ Q.T - np.eye(len(Q))).max() < 1e-12


def test_two_classes_are_the_published_formula():
    rng = np.random.default_rng(1)
    index = (rng.random(40) < 0.3).astype(int)
    y = np.where(index == 1, 1.0, -1.0)
    np.testing.assert_allclose(literal.within_B(index), literal.binary_B(y), atol=1e-15)
    V = rng.normal(size=(40, 3))
    within = Within(index, V)
    np.testing.assert_allclose(within.apply(V), literal.binary_B(y) @ V, atol=1e-14)
    np.testing.assert_allclose(within.forms(V), np.einsum("ij,ij->j", V, literal.binary_B(y) @ V))
    for labels in LABELS:
        np.testing.assert_allclose(class_codes(index, labels), literal.codes(index, labels), atol=1e-15)
        three = rng.integers(3, size=40)
        np.testing.assert_allclose(class_codes(three, labels), literal.codes(three, labels), atol=1e-15)


def test_fisher_identity():
    """(y_cᵀg)² / gᵀBg is the Fisher ratio times 2 m₊m₋ / m; for more classes the ratio of traces."""
    rng = np.random.default_rng(2)
    g = rng.normal(size=(60, 1)) + 3
    for n_classes in (2, 3, 4):
        index = classes(g[:, 0] + rng.normal(size=60), n_classes)
        groups = [g[index == c, 0] for c in range(n_classes)]
        sizes, means = np.array([len(one) for one in groups]), np.array([one.mean() for one in groups])
        within = sum(one.var() for one in groups)
        h = n_classes / np.sum(1 / sizes)
        ratio = 2 * h * np.sum((means - means.mean()) ** 2) / within
        assert Fisher(DenseDictionary(g), index).scores()[0] == pytest.approx(ratio, rel=1e-12)
        if n_classes == 2:
            m = sizes.sum()
            expected = 2 * sizes[0] * sizes[1] / m * (means[0] - means[1]) ** 2 / within
            assert ratio == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("labels", LABELS)
def test_multi_class_formula_with_two_classes_takes_the_same_atoms(labels):
    """Two columns, one for each class, in place of one: the formula for C classes at C = 2."""
    D, Y, _ = PROBLEMS["rbf-1"]
    index = classes(Y, 2)
    one = pursue(Fisher(DenseDictionary(D), index, labels=labels), n_atoms(10))
    run = Fisher(DenseDictionary(D), index, labels=labels)
    y = run._codes
    run._codes = run._u = np.concatenate([-y, y], axis=1) / np.sqrt(2)
    two = pursue(run, n_atoms(10))
    assert one.atoms.tolist() == two.atoms.tolist()
    np.testing.assert_allclose(one.values("score")[1:], two.values("score")[1:])


def test_constant_on_each_class_is_finite_and_first():
    index = np.array([0, 0, 0, 1, 1])
    D = np.column_stack([index * 2.0 + 1, np.arange(5.0), np.ones(5)])
    run = Fisher(DenseDictionary(D), index)
    assert np.all(np.isfinite(run.scores())) and propose(run) == [0]
    assert run.scores()[2] == pytest.approx(0, abs=1e-10)
    path = pursue(Fisher(DenseDictionary(D), index), n_atoms(5))
    assert path.atoms[0] == 0 and len(path) <= 3


def test_scale_of_the_kernel_changes_nothing():
    D, Y, G = PROBLEMS["rbf-1"]
    index = classes(Y, 3)
    runs = [Fisher(DenseDictionary(D * s, gram=G * s), index) for s in (1.0, 2.0**100, 2.0**-100)]
    paths = [pursue(run, n_atoms(10)).atoms.tolist() for run in runs]
    assert paths[0] == paths[1] == paths[2]
    outputs = [
        D[:, paths[0]] @ run.discriminants(10, 1e-8).axes * s
        for run, s in zip(runs, (1, 2.0**100, 2.0**-100), strict=True)
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-10)
    np.testing.assert_allclose(outputs[0], outputs[2], rtol=1e-10)


def test_float32():
    D, Y, _ = PROBLEMS["rbf-1"]
    index = classes(Y, 2)
    single = Fisher(DenseDictionary(D.astype(np.float32)), index)
    path = pursue(single, n_atoms(6))
    assert single.deflation.basis.directions.dtype == np.float64  # only passes over the data are in float32
    oracle = literal.fisher(D, index, 6, path=path.atoms.tolist())
    assert all(score >= scores.max() * 0.999 for score, scores in zip(oracle.scores, oracle.all_scores, strict=True))


def test_wrong_arguments_are_named():
    D = DenseDictionary(np.eye(3))
    with pytest.raises(ValueError, match="labels"):
        Fisher(D, np.array([0, 1, 1]), labels="central")
    with pytest.raises(ValueError, match="rows"):
        Fisher(D, np.array([0, 1, 1, 0]))
    for wrong in ([0, 0, 0], [0, 2, 2], [-1, 0, 1], [0.0, 1.0, 1.0], [[0, 1, 1]]):
        with pytest.raises(ValueError, match="classes_index"):
            Fisher(D, np.array(wrong))
    with pytest.raises(ValueError, match="overflow"):
        Fisher(DenseDictionary(np.array([[1e153], [-1e153], [1e153]]) * 10), np.array([0, 1, 1])).scores()


def test_a_scatter_of_nothing_has_a_floor():
    """An atom that is constant on each class but for 1e-9 has a finite ratio, as if 1e-12 of it varied."""
    index, rng = np.arange(40) % 2, np.random.default_rng(3)
    means = np.where(index == 1, 1.0, -1.0)
    D = np.column_stack([means + 1e-9 * rng.normal(size=40), means, means + rng.normal(size=40)])
    run = Fisher(DenseDictionary(D), index)
    scores = run.scores()
    # The codes are ±1 and the atom too: (dᵀu)² / (1e-12 ‖d‖²) = 40² / (1e-12 · 40).
    np.testing.assert_allclose(scores[:2], 40 * 1e12, rtol=1e-6)
    assert scores[2] < 1e4


def test_scatters_are_renewed_where_they_lose_their_digits():
    """Atoms that share all but 1e-6 of their scatter with the first: long still, but of a scatter that cancelled."""
    index, rng = np.arange(60) % 2, np.random.default_rng(3)
    within = rng.normal(size=60)
    within -= np.where(index, within[index == 1].mean(), within[index == 0].mean())
    atoms = [within + np.where(index, 1.0, -1.0) + 1e-6 * rng.normal(size=60) for _ in range(8)]
    run = Fisher(DenseDictionary(np.column_stack([within, *atoms])), index)
    run.scores()
    list(run.take([0], weakness=0.0))
    (_, scatter, norms), (_, true, true_norms) = run.running_moments(np.arange(1, 9)), run.moments(np.arange(1, 9))
    assert np.all(true < 1e-9 * true_norms)
    np.testing.assert_allclose(norms, true_norms, rtol=1e-10)
    np.testing.assert_allclose(scatter, true, rtol=1e-6)


def test_discriminants_of_another_array_library():
    D, Y, G = PROBLEMS["rbf-1"]
    index = classes(Y, 3)
    runs = [Fisher(DenseDictionary(xp.asarray(D), gram=G), index) for xp in (array_api_strict, np)]
    for run in runs:
        pursue(run, n_atoms(8))
    for one, two in zip(*(run.discriminants(8, 1e-6) for run in runs), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-9)
