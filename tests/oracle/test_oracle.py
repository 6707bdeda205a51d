"""Sanity of the oracle itself; the library is not involved."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, orthogonal_mp

import tests.oracle.kmp as ref
from tests.pairwise import pairwise

PROBLEMS = {name: problem for name, *problem in ref.problems(0)}
METHODS = [ref.basic, ref.backfit, ref.prefit, ref.prefit_deflation]
SETTINGS = [
    {},
    {"intercept": True},
    {"alpha": 0.1, "weighted": True},
    {"intercept": True, "alpha": 0.1, "weighted": True},
]


def settings(options, n, G):
    """Keyword arguments of a pursuit: resolved weights, and G where it exists."""
    options = dict(options)
    if options.pop("weighted", False):
        options["weights"] = np.random.default_rng(5).uniform(0.5, 3.0, n)
    return {**options, "G": G}


def signs(n=45, t=1, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = np.sign(X[:, :t] + 0.8 * rng.standard_normal((n, t)))
    return ref.rbf(X, X, 0.5), Y


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_prefit_twice(name, options):
    D, Y, G = PROBLEMS[name]
    options = settings(options, len(D), G)
    one, two = ref.prefit(D, Y, 6, **options), ref.prefit_deflation(D, Y, 6, **options)
    if one.atoms != two.atoms:  # only at a tie, as in the last step before the rank is exhausted
        two = ref.prefit_deflation(D, Y, 6, path=one.atoms, **options)
        best = [s.max() for s in two.all_scores]
        np.testing.assert_allclose(two.scores, best, rtol=1e-8)
    np.testing.assert_allclose(one.scores, two.scores, rtol=1e-7)
    np.testing.assert_allclose(-np.diff(one.losses), one.scores[1:], rtol=1e-6, atol=1e-10 * one.losses[0])


@pytest.mark.parametrize(("name", "options", "method"), pairwise(PROBLEMS, SETTINGS, METHODS))
def test_losses_are_those_of_the_coefficients_and_never_rise(name, options, method):
    D, Y, G = PROBLEMS[name]
    options = settings(options, len(D), G)
    out = method(D, Y, 6, **options)
    w = options.pop("weights", np.ones(len(D)))
    alpha = options.get("alpha", 0.0)
    G = np.eye(D.shape[1]) if G is None else G
    for s, (b, c) in enumerate(out.coef):
        A = out.atoms[: s + 1]
        loss = ref.objective(D[:, A], Y, ref.LOSSES["squared_error"].value, b, c, w, alpha, G[np.ix_(A, A)])
        assert loss == pytest.approx(out.losses[s], rel=1e-9)
    assert (np.diff(out.losses) <= 1e-12 * out.losses[0]).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_backfit_is_orthogonal_mp(name):
    D, Y, _ = PROBLEMS[name]
    Y = Y.reshape(len(D), -1)[:, 0]
    D = D / np.sqrt(ref.squared_norms(D))
    k = min(4, len(ref.backfit(D, Y, 4).atoms))
    out = ref.backfit(D, Y, k)
    theirs = orthogonal_mp(D, Y, n_nonzero_coefs=k)
    mine = np.zeros(D.shape[1])
    mine[out.atoms] = out.coef[-1][1][:, 0]
    np.testing.assert_allclose(D @ mine, D @ theirs, atol=1e-8)
    assert set(out.atoms) == set(np.flatnonzero(theirs))


def test_ties_go_to_the_lowest_index():
    assert ref.choose(np.array([-np.inf, 1.0, 1.0 + 1e-13, 0.0])) == 1
    assert ref.choose(np.array([-np.inf, 1.0, 1.0 + 1e-11, 0.0])) == 2
    assert ref.choose(np.array([-np.inf, 0.0, 0.0])) == 1


def test_duplicates_and_rank():
    atoms = {name: ref.backfit(D, Y, 50, intercept=True).atoms for name, D, Y, _ in ref.problems(1) if name[-1] == "1"}
    ranks = {"linear-1": 4, "quadratic-1": 14, "rectangular-1": 40}  # a quadratic has 15 with the constant
    assert {name: len(atoms[name]) for name in ranks} == ranks
    assert len(atoms["duplicates-1"]) <= 41 and max(atoms["duplicates-1"]) < 41
    assert ref.backfit(np.zeros((5, 3)), np.ones(5), 2).atoms == []
    assert ref.basic(np.ones((5, 3)), np.arange(5.0), 2, intercept=True).atoms == []


def test_all_atoms_with_ridge_are_kernel_ridge():
    _, K, Y, _ = next(p for p in ref.problems(2) if p[0] == "rbf-3")
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(K))
    for method in (ref.backfit, ref.prefit_deflation):
        out = method(K, Y, len(K), alpha=0.3, G=K, weights=w)
        assert len(out.atoms) == len(K)
        theirs = KernelRidge(alpha=0.3, kernel="precomputed").fit(K, Y, sample_weight=w).predict(K)
        np.testing.assert_allclose(K[:, out.atoms] @ out.coef[-1][1], theirs, atol=1e-8)


def test_ridge_with_intercept():
    rng = np.random.default_rng(0)
    D, Y, w = rng.standard_normal((30, 5)), rng.standard_normal((30, 2)), rng.uniform(0.5, 2.0, 30)
    b, c = ref.backfit(D, Y, 5, alpha=0.7, intercept=True, weights=w, path=range(5)).coef[-1]
    theirs = Ridge(alpha=0.7).fit(D, Y, sample_weight=w)
    np.testing.assert_allclose(b, theirs.intercept_)
    np.testing.assert_allclose(c, theirs.coef_.T)


def test_integer_weights_are_repetitions():
    rng = np.random.default_rng(0)
    D, Y, w = rng.standard_normal((30, 8)), rng.standard_normal((30, 2)), rng.integers(1, 4, 30)
    rows = np.repeat(np.arange(30), w)
    options = {"intercept": True, "alpha": 0.5}
    for method in METHODS:
        one, two = method(D, Y, 5, weights=w, **options), method(D[rows], Y[rows], 5, **options)
        assert one.atoms == two.atoms
        np.testing.assert_allclose(one.losses, two.losses)
    left_out = ref.leave_one_out(D, Y, weights=w, **options)
    np.testing.assert_allclose(left_out[rows], ref.leave_one_out(D[rows], Y[rows], **options))


def test_leave_one_out_is_the_leverage_formula():
    rng = np.random.default_rng(0)
    D, Y = rng.standard_normal((20, 4)), rng.standard_normal((20, 2))
    H = np.hstack([np.ones((20, 1)), D])
    H = H @ np.linalg.solve(H.T @ H + 0.3 * np.diag([0, 1, 1, 1, 1]), H.T)
    expected = (Y - H @ Y) / (1 - np.diag(H))[:, None]
    np.testing.assert_allclose(ref.leave_one_out(D, Y, intercept=True, alpha=0.3), expected)


def test_basic_shrinkage_and_repetition():
    _, D, Y, _ = next(ref.problems(0))
    full, half = ref.basic(D, Y, 1), ref.basic(D, Y, 1, shrinkage=0.5)
    np.testing.assert_allclose(half.coef[0][1], 0.5 * full.coef[0][1])
    assert len(set(ref.basic(D, Y, 60).atoms)) < 60


@pytest.mark.parametrize("name", ref.LOSSES)
def test_gradients(name):
    loss, (y, f) = ref.LOSSES[name], np.random.default_rng(0).standard_normal((2, 40))
    y = y if name in ("squared_error", "huber") else np.sign(y)
    slope = (loss.value(y, f + 1e-6) - loss.value(y, f - 1e-6)) / 2e-6
    np.testing.assert_allclose(loss.gradient(y, f), slope, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    ("variant", "options"),
    # not basic with an intercept: there the line search leaves the intercept alone, `ref.basic` does not
    [(v, s) for v in ("basic", "backfit", "prefit") for s in SETTINGS if v != "basic" or "intercept" not in s],
)
def test_squared_loss_gives_the_squared_methods(variant, options):
    for _, D, Y, G in ref.problems(4):
        keywords = settings(options, len(D), G)
        expected = getattr(ref, variant)(D, Y, 3, **keywords)
        out = ref.greedy_gradient(D, Y, *ref.LOSSES["squared_error"], 3, variant=variant, **keywords)
        assert out.atoms == expected.atoms
        np.testing.assert_allclose(out.losses, expected.losses, rtol=1e-9)
        np.testing.assert_allclose(out.scores, 4 * np.array(expected.scores), rtol=1e-6)


@pytest.mark.parametrize("name", ref.LOSSES)
@pytest.mark.parametrize("variant", ["basic", "backfit", "prefit"])
def test_any_loss_never_rises(name, variant):
    D, Y = signs(t=2)
    free = name != "doom2"  # its best constant is infinite
    options = {"intercept": free, "alpha": 0.05, "G": D, "weights": np.linspace(0.5, 2.0, len(D))}
    out = ref.greedy_gradient(D, Y, *ref.LOSSES[name], 5, variant=variant, refit_every=2, **options)
    assert len(out.atoms) == 5
    assert (np.diff(out.losses) <= 1e-12).all()
    assert out.losses[-1] < 0.95 * out.losses[0]


@pytest.mark.parametrize("name", ["log_loss", "exponential", "squared_hinge", "huber"])
def test_optimum_is_stationary_and_does_not_depend_on_the_start(name):
    D, Y = signs(t=2)
    D, G, loss, w = D[:, :6], D[:6, :6], ref.LOSSES[name], np.linspace(0.5, 2.0, len(D))
    value, b, c = ref.optimum(D, Y, *loss, w, True, 0.1, G)
    slope = w[:, None] * loss.gradient(Y, b + D @ c)
    np.testing.assert_allclose(slope.sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(D.T @ slope + 0.2 * G @ c, 0, atol=1e-9)
    again = ref.optimum(D, Y, *loss, w, True, 0.1, G, start=(b + 1, c - 1))
    assert again[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(again[2], c, atol=1e-7)
