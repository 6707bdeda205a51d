"""Pursuits of differences inside groups: pairs written out are the oracle; groups left out, refitted one by one."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import DenseDictionary, Gradient, Squares, pursue
from kernelpursuit.criteria import pairs
from kernelpursuit.criteria.pairs import pairwise_logistic, pairwise_squared
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.pursuit.stopping import n_atoms
from tests.oracle import kmp as reference

SIZES = [7, 1, 12, 7, 3, 10]
N = sum(SIZES)
GROUPS = np.repeat(np.arange(len(SIZES)), SIZES)
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
# Levels of the groups are larger than all that can be learned.
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=N) + 20 * rng.normal(size=len(SIZES))[GROUPS]
GRADES = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] ** 2, [0, 0.7, 1.5])
K = rbf_kernel(X, gamma=0.3)
WEIGHTS = rng.uniform(0.2, 3, size=N)


def all_pairs(groups, weights=None):
    """One row for each pair of a group: sqrt(w_i w_j / W) (e_i - e_j)."""
    w = np.ones(len(groups)) if weights is None else weights
    rows = []
    for i in range(len(groups)):
        for j in range(i):
            if groups[i] == groups[j]:
                row = np.zeros(len(groups))
                row[i], row[j] = 1, -1
                rows.append(np.sqrt(w[i] * w[j] / w[groups == groups[i]].sum()) * row)
    return np.array(rows)


def ranked(variant="prefit", steps=8, **options):
    criterion = Squares(DenseDictionary(K, gram=K), Y, variant=variant, intercept=False, groups=GROUPS, **options)
    return pursue(criterion, n_atoms(steps)), criterion


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_pursuit_of_pairs_written_out(variant, alpha, weights):
    P = all_pairs(GROUPS, weights)
    literal = getattr(reference, variant)(P @ K, P @ Y, 8, alpha=alpha, G=K)
    path, criterion = ranked(variant, alpha=alpha, weights=weights)
    np.testing.assert_array_equal(path.atoms, list(dict.fromkeys(literal.atoms)))
    total = N if weights is None else weights.sum()
    np.testing.assert_allclose([step.loss for step in path.steps], np.array(literal.losses) / total, rtol=1e-9)
    coef = criterion.coef()
    assert coef[0] == 0
    if variant != "basic":
        np.testing.assert_allclose(coef[1:], literal.coef[-1][1], rtol=1e-7)


def refitted_without_groups(atoms, y, alpha, weights=None):
    """Residuals of each group, its mean taken out, where the weights of the atoms are fitted to the others."""
    A, w, found = K[:, atoms], np.ones(N) if weights is None else weights, np.zeros(N)
    penalty = np.sqrt(alpha) * reference.factor(K[np.ix_(atoms, atoms)])
    for group in range(len(SIZES)):
        out = GROUPS == group
        P = all_pairs(GROUPS[~out], w[~out])
        B, t = np.vstack([P @ A[~out], penalty]), np.append(P @ y[~out], np.zeros(len(penalty)))
        residual = y[out] - A[out] @ np.linalg.lstsq(B, t, rcond=None)[0]
        found[out] = residual - np.average(residual, weights=w[out])
    return found


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_groups_left_out_are_refitted(alpha, weights):
    path, criterion = ranked(steps=9, alpha=alpha, weights=weights)
    expected, w = refitted_without_groups(path.atoms, Y, alpha, weights), np.ones(N) if weights is None else weights
    np.testing.assert_allclose(criterion.left_out()[:, 0], expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(path.steps[-1].leave_one_out, w @ expected**2 / w.sum(), rtol=1e-7)


def test_an_atom_that_only_one_group_sees_says_nothing_of_it():
    D = np.column_stack([np.arange(6.0), [0, 0, 0, 0, 1, 3.0]])
    y, groups = np.array([1.0, 2.0, 4.0, 1.0, 3.0, 4.5]), np.array([0, 0, 0, 1, 2, 2])
    criterion = Squares(DenseDictionary(D), y, intercept=False, groups=groups)
    assert pursue(criterion, n_atoms(2)).atoms.tolist() == [0, 1]
    shared = Squares(DenseDictionary(D[:, :1]), y, intercept=False, groups=groups)
    pursue(shared, n_atoms(1))
    np.testing.assert_allclose(criterion.left_out()[4:], shared.left_out()[4:], atol=1e-12)
    assert np.all(np.isfinite(criterion.left_out()))


def test_many_steps_keep_the_left_out_errors():
    """More steps than a block of kept vectors holds."""
    local = np.random.default_rng(1)
    D, y, groups = local.normal(size=(120, 90)), local.normal(size=120), np.arange(120) // 5
    criterion = Squares(DenseDictionary(D), y, intercept=False, groups=groups)
    path = pursue(criterion, n_atoms(70))
    P = np.eye(120) - (groups[:, None] == groups) / 5
    A, t = P @ D[:, path.atoms], P @ y
    Q = np.linalg.qr(A)[0]
    r = t - Q @ (Q.T @ t)
    for group in range(24):
        rows = groups == group
        expected = np.linalg.solve(np.eye(5) - Q[rows] @ Q[rows].T, r[rows])
        np.testing.assert_allclose(criterion.left_out()[rows, 0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weakness", [1.0, 0.5])
def test_blocks_of_atoms_are_certified(weakness):
    local = np.random.default_rng(2)
    D, y, groups = local.normal(size=(90, 200)), local.normal(size=90), local.integers(0, 20, size=90)
    criterion = Squares(DenseDictionary(D), y, intercept=False, groups=groups)
    path = pursue(criterion, n_atoms(15), lookahead=8, weakness=weakness)
    assert criterion.passes < 15
    P = all_pairs(groups)
    X, t, taken = P @ D, P @ y, []
    for step in path.steps:
        rest = reference.outside(X, X[:, taken])
        scores = (rest.T @ reference.outside(t[:, None], X[:, taken]))[:, 0] ** 2
        scores = np.where(np.isin(np.arange(200), taken), -1, scores / np.maximum((rest**2).sum(axis=0), 1e-12))
        assert step.weakness >= weakness
        np.testing.assert_allclose(scores[step.atom] / scores.max(), step.weakness, rtol=1e-8)
        taken.append(step.atom)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("at_once", [5, 60, 2**20])
def test_logistic_loss_of_pairs_written_out(at_once, weights, monkeypatch):
    monkeypatch.setattr(pairs, "_AT_ONCE", at_once)
    order = np.random.default_rng(0).permutation(N)  # groups need not stand together here
    groups, y, f = GROUPS[order], np.digitize(Y, np.quantile(Y, [0.3, 0.7]))[order], X[order, :1]
    w = np.ones(N) if weights is None else weights[order]
    loss = pairwise_logistic(groups, None if weights is None else w)

    def literal(f):
        return sum(
            w[i] * w[j] / w[groups == groups[i]].sum() * np.log1p(np.exp(f[j] - f[i]))
            for i in range(N)
            for j in range(N)
            if groups[i] == groups[j] and y[i] > y[j]
        )

    np.testing.assert_allclose(w @ loss.value(y[:, None], f)[:, 0], literal(f[:, 0]), rtol=1e-12)
    slope = [(literal(f[:, 0] + h) - literal(f[:, 0] - h)) / 2e-6 for h in 1e-6 * np.eye(N)]
    np.testing.assert_allclose(w * loss.gradient(y[:, None], f)[:, 0], slope, atol=1e-7)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_general_criterion_with_the_squared_loss_of_pairs(weights):
    options = {"intercept": False, "groups": GROUPS, "weights": weights, "alpha": 0.01, "variant": "prefit"}
    general = Gradient(DenseDictionary(K, gram=K), Y, pairwise_squared(GROUPS, weights), **options)
    path, criterion = ranked(steps=5, alpha=0.01, weights=weights)
    found = pursue(general, n_atoms(5))
    np.testing.assert_array_equal(found.atoms, path.atoms)
    np.testing.assert_allclose(general.coef(), criterion.coef(), rtol=1e-4)


def test_groups_of_all_sizes_are_centred():
    order = rng.permutation(N)
    groups, columns, w = GROUPS[order], rng.normal(size=(N, 4)), WEIGHTS
    centred = Groups(groups, w, columns).centre(np.sqrt(w)[:, None] * columns) / np.sqrt(w)[:, None]
    for group in range(len(SIZES)):
        rows = groups == group
        mean = np.average(columns[rows], axis=0, weights=w[rows])
        np.testing.assert_allclose(centred[rows], columns[rows] - mean, atol=1e-12)


def test_a_constant_and_groups_are_refused_together():
    with pytest.raises(ValueError, match="intercept must be False"):
        Squares(DenseDictionary(K), Y, groups=GROUPS)
