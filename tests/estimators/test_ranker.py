"""Ranking: pairs written out are the oracle; groups left out, refitted one by one."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import (
    BoundDisplay,
    DenseDictionary,
    Gradient,
    KMPRanker,
    KMPRegressor,
    PursuitPathDisplay,
    Squares,
    pursue,
)
from kernelpursuit.bounds import loss_bound
from kernelpursuit.criteria import pairs
from kernelpursuit.criteria.pairs import pairwise_logistic, pairwise_squared
from kernelpursuit.fitting.pipeline import Pursuit
from kernelpursuit.parameters import certificate, tolerance
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.pursuit.stopping import n_atoms
from kernelpursuit.ranking import group_numbers, group_sizes, kendall_tau, ndcg, wrong_pairs
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


def test_all_atoms_with_a_ridge_are_rank_rls():
    """(K L K + alpha K) a = K L y with L the Laplacian of the graph of pairs (Pahikkala et al. 2009)."""
    sizes, alpha = np.array(SIZES), 0.5
    weights = sizes[GROUPS].astype(float)  # all pairs count alike
    L = np.zeros((N, N))
    for i in range(N):
        for j in range(N):
            if i != j and GROUPS[i] == GROUPS[j]:
                L[i, j] -= 1
                L[i, i] += 1
    a = np.linalg.solve(L @ K + alpha * np.eye(N), L @ Y)
    model = KMPRanker(N, kernel="precomputed", alpha=alpha, stop=tolerance(0)).fit(
        K, Y, sample_weight=weights, group=SIZES
    )
    np.testing.assert_allclose(model.predict(K), K @ a, rtol=1e-5, atol=1e-6 * np.ptp(K @ a))


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
def test_a_ridge_by_evidence_and_the_groups_left_out_of_it(weights):
    model = KMPRanker(9, kernel="precomputed").fit(K, GRADES, sample_weight=weights, group=SIZES)
    assert 0 < model.alpha_ < 10
    fixed = KMPRanker(9, kernel="precomputed", alpha=0).fit(K, GRADES, sample_weight=weights, group=SIZES)
    np.testing.assert_array_equal(model.support_, fixed.support_)  # the ridge comes after the choice
    for k in (1, 4, 9):
        e, w = refitted_without_groups(model.support_[:k], GRADES, model.alpha_, weights), weights
        w = np.ones(N) if weights is None else weights
        np.testing.assert_allclose(model.path_.steps[k - 1].leave_one_out, w @ e**2 / w.sum(), rtol=1e-7)


def test_the_logistic_loss_takes_a_ridge_of_its_own_measure():
    weak, strong = (
        KMPRanker(9, loss=loss, gamma=0.3).fit(X, GRADES, group=SIZES) for loss in ("log_loss", "squared_error")
    )
    assert 0.01 * strong.alpha_ < weak.alpha_ < 0.5 * strong.alpha_  # it bends at most an eighth as much
    assert KMPRanker(9, loss="log_loss", variant="basic").fit(X, GRADES, group=SIZES).alpha_ == 0


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


@pytest.mark.parametrize("steps", [40, 70])
def test_many_steps_keep_the_left_out_errors(steps):
    """More steps than a block of kept vectors holds."""
    local = np.random.default_rng(1)
    D, y, groups = local.normal(size=(120, 90)), local.normal(size=120), np.arange(120) // 5
    criterion = Squares(DenseDictionary(D), y, intercept=False, groups=groups)
    path = pursue(criterion, n_atoms(steps))
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


@pytest.mark.parametrize("alpha", [0.0, 0.1, "auto"])
def test_one_group_is_least_squares_with_a_constant(alpha):
    model, plain = (make(8, gamma=0.3, alpha=alpha).fit(X, GRADES) for make in (KMPRanker, KMPRegressor))
    assert model.alpha_ == pytest.approx(plain.alpha_)
    assert (alpha == 0) == (model.alpha_ == 0)
    np.testing.assert_array_equal(model.support_, plain.support_)
    np.testing.assert_allclose(model.predict(X), plain.predict(X) - plain.intercept_, rtol=1e-8, atol=1e-8)
    assert np.isnan(model.path_.steps[-1].leave_one_out)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_levels_of_groups_and_their_order_do_not_matter(loss):
    model = KMPRanker(6, loss=loss, gamma=0.3).fit(X, Y, group=SIZES)
    np.testing.assert_allclose(
        KMPRanker(6, loss=loss, gamma=0.3).fit(X, Y - 100 * GROUPS, group=SIZES).predict(X), model.predict(X), rtol=1e-6
    )
    order = np.argsort(-GROUPS, kind="stable")
    turned = KMPRanker(6, loss=loss, gamma=0.3).fit(X[order], Y[order], group=SIZES[::-1])
    np.testing.assert_array_equal(order[turned.support_], model.support_)
    np.testing.assert_allclose(turned.predict(X), model.predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [KMPRanker(6), KMPRanker(6, loss="log_loss", alpha=0.1), KMPRanker(6, alpha=0.1), KMPRanker(gamma=1.0, stop="gcv")],
    ids=["plain", "log_loss", "ridge", "auto"],
)
def test_a_row_of_weight_w_is_w_rows(model):
    counts = np.random.default_rng(3).integers(0, 3, size=N)
    rows = np.repeat(np.arange(N), counts)
    sizes = [int(counts[GROUPS == group].sum()) for group in range(len(SIZES))]
    repeated = clone(model).fit(X[rows], GRADES[rows], group=[size for size in sizes if size])
    weighted = clone(model).fit(X, GRADES, sample_weight=counts, group=SIZES)
    np.testing.assert_array_equal(rows[repeated.support_], weighted.support_)
    np.testing.assert_allclose(repeated.predict(X), weighted.predict(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("alpha", [0.0, 1e-2])
def test_float32_takes_the_atoms_of_float64(gamma, alpha):
    local = np.random.default_rng(4)
    X = local.normal(size=(300, 4)).astype(np.float32).astype(np.float64)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + local.normal(size=60)[np.arange(300) // 5] * 10).astype(np.float32)
    wide, narrow = (
        KMPRanker(12, gamma=gamma, alpha=alpha).fit(X.astype(kind), y.astype(kind), group=[5] * 60)
        for kind in (np.float64, np.float32)
    )
    np.testing.assert_array_equal(wide.support_, narrow.support_)
    centred = [f - f.mean() for f in (wide.predict(X), narrow.predict(X))]
    np.testing.assert_allclose(*centred, atol=2e-3 * np.ptp(centred[0]))


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_arrays(library, loss):
    xp = pytest.importorskip(library)
    model = KMPRanker(5, loss=loss, alpha=0.01)
    expected = clone(model).fit(X, Y, sample_weight=WEIGHTS, group=SIZES)
    with config_context(array_api_dispatch=True):
        found = model.fit(xp.asarray(X), xp.asarray(Y), sample_weight=xp.asarray(WEIGHTS), group=SIZES)
        values = np.asarray(found.predict(xp.asarray(X)))
        assert found.score(xp.asarray(X), xp.asarray(GRADES), group=SIZES) == pytest.approx(
            expected.score(X, GRADES, group=SIZES)
        )
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(values, expected.predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("stop", ["gcv", "leave_one_group_out", "validation"])
def test_rules_stop_where_new_groups_are_ordered_best(stop):
    local = np.random.default_rng(5)
    X = local.normal(size=(600, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * local.normal(size=600) + 5 * local.normal(size=60)[np.arange(600) // 10]
    train = np.arange(600) < 300
    model = KMPRanker(gamma=0.5, stop=stop, random_state=0).fit(X[train], y[train], group=[10] * 30)
    longest = model.truncate(len(model.path_) + len(model.path_.discarded))
    taus = [kendall_tau(y[~train], f, [10] * 30) for f in longest.staged_predict(X[~train])]
    assert kendall_tau(y[~train], model.predict(X[~train]), [10] * 30) > max(taus) - 0.05
    assert model.path_.reason in ("gcv", "leave_one_out", "validation")
    assert 3 < len(model.path_) < 60


@pytest.fixture
def rows_of_fits(monkeypatch):
    seen, run = [], Pursuit.run

    def noted(self, *args, **kwargs):
        seen.append(self.data.rows)
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Pursuit, "run", noted)
    return seen


def test_validation_holds_whole_groups_out(rows_of_fits):
    KMPRanker(20, stop="validation", random_state=0).fit(X, Y, group=SIZES)
    first, last = rows_of_fits
    assert len(last) == N
    assert not set(GROUPS[first]) & set(np.delete(GROUPS, first))
    for _ in range(2):  # alike, unless a seed says otherwise
        KMPRanker(20, stop="validation").fit(X, Y, group=SIZES)
    assert rows_of_fits[2].tolist() == rows_of_fits[4].tolist()


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_a_certificate_is_of_groups_that_had_no_part(loss, rows_of_fits):
    local = np.random.default_rng(6)
    X, groups = local.normal(size=(240, 3)), np.repeat(np.arange(40), 6)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * local.normal(size=240)
    model = KMPRanker(6, loss=loss, gamma=0.3, stop=certificate(0.4), random_state=0)
    model.fit(X, y, group=[6] * 40)
    seen = np.unique(np.concatenate(rows_of_fits))  # by any fit: that of the ridge of a logistic loss too
    aside = np.setdiff1d(np.arange(240), seen)
    assert len(aside) == 6 * 16
    assert not set(groups[seen]) & set(groups[aside])
    path, longest = model.path_, model.truncate(len(model.path_) + len(model.path_.discarded))
    taken = [path.start, *path.steps, *path.discarded]
    bounds = [step.bound for step in taken]
    assert np.argmin(bounds) == len(path)
    for k, bound in enumerate(bounds):
        losses = wrong_pairs(y[aside], longest.truncate(k).predict(X[aside]), [6] * 16)
        shares = [loss_bound(losses, weight=share) for share in (0.9, 0.1 / (len(taken) - 1))]
        assert any(bound == pytest.approx(share) for share in shares)
    assert path.reason == "certificate"
    assert f"{bounds[len(path)]:.3g}" in path.sentence


def test_displays_of_a_ranker_need_an_error_that_knows_the_groups():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    sizes = [6] * 40
    y = np.repeat(np.arange(3), 80) % 3 + np.tile([0, 1], 120)
    X = np.column_stack([y + 0.3 * np.random.default_rng(7).normal(size=240), np.ones(240)])
    model = KMPRanker(4, gamma=0.3, stop="certificate", random_state=0).fit(X, y, group=sizes)
    for display in (PursuitPathDisplay, BoundDisplay):
        display.from_estimator(model)
        with pytest.raises(ValueError, match="give measure"):
            display.from_estimator(model, X, y)
        shown = display.from_estimator(model, X, y, measure=lambda y, f: wrong_pairs(y, f, sizes).mean())
        (line,) = (line for name, line in shown.lines_.items() if name in ("test error", "error on new data"))
        known = line.get_ydata()[len(model.path_)]
        assert known == pytest.approx(wrong_pairs(y, model.predict(X), sizes).mean())
    pipeline = make_pipeline(StandardScaler(), KMPRanker(3)).fit(X, y, kmpranker__group=sizes)
    with pytest.raises(ValueError, match="give measure"):
        PursuitPathDisplay.from_estimator(pipeline, X, y)
    matplotlib.pyplot.close("all")


def test_share_of_wrong_pairs_written_out():
    scores = np.round(rng.normal(size=N), 1)
    for found, rows in zip(
        wrong_pairs(GRADES, scores, SIZES), np.split(np.arange(N), np.cumsum(SIZES)[:-1]), strict=True
    ):
        terms = [
            0.5 if scores[i] == scores[j] else float(scores[i] < scores[j])
            for i in rows
            for j in rows
            if GRADES[i] > GRADES[j]
        ]
        assert found == pytest.approx(np.mean(terms) if terms else 0.0)


def test_in_a_pipeline_and_cloned():
    model = make_pipeline(StandardScaler(), KMPRanker(5)).fit(X, GRADES, kmpranker__group=SIZES)
    with config_context(enable_metadata_routing=True):  # without it a pipeline leaves `group` out of the score
        ranker = KMPRanker(5).set_fit_request(group=True).set_score_request(group=True)
        routed = make_pipeline(StandardScaler(), ranker).fit(X, GRADES, group=SIZES)
        assert routed.score(X, GRADES, group=SIZES) == ndcg(GRADES, model.predict(X), SIZES)
    again = clone(model).fit(X, GRADES, kmpranker__group=SIZES)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert list(model[-1].truncate(3).staged_predict(X))[-1].shape == (N,)


def test_ndcg_is_scikit_learns():
    scores = np.round(rng.normal(size=N), 1)  # with ties
    for k in (None, 3):
        for gain, gains in (("exponential", 2.0**GRADES - 1), ("linear", GRADES)):
            expected = [
                1.0 if len(rows) == 1 or not gains[rows].any() else ndcg_score([gains[rows]], [scores[rows]], k=k)
                for rows in np.split(np.arange(N), np.cumsum(SIZES)[:-1])
            ]
            assert ndcg(GRADES, scores, SIZES, k=k, gain=gain) == pytest.approx(np.mean(expected), rel=1e-12)


def test_ndcg_of_large_grades_and_of_groups_without_any():
    assert ndcg([2000.0, 1999.0], [0, 1]) == pytest.approx((0.5 + 1 / np.log2(3)) / (1 + 0.5 / np.log2(3)))
    assert ndcg([0, 0, 1, 0], [1, 2, 2, 1], [2, 2]) == 1.0
    assert ndcg([1, 0, 1, 0], [1, 2, 2, 1], [2, 2], sample_weight=[1, 5, 2, 4]) == pytest.approx(
        (1 + 1 / np.log2(3)) / 2
    )
    assert ndcg([1, 0], [5, 5]) == pytest.approx((1 + 1 / np.log2(3)) / 2)  # a constant is worth the mean place


def test_kendall_tau_is_the_mean_over_groups_that_have_an_order():
    scores = rng.normal(size=N)
    parts = [rows for rows in np.split(np.arange(N), np.cumsum(SIZES)[:-1]) if len(rows) > 1]
    expected = np.mean([kendalltau(Y[rows], scores[rows]).statistic for rows in parts])
    assert kendall_tau(Y, scores, SIZES) == pytest.approx(expected, rel=1e-12)
    assert kendall_tau(Y, np.zeros(N), SIZES) == 0
    assert np.isnan(kendall_tau(np.ones(N), scores, SIZES))


def test_sizes_of_groups():
    labels = np.array(list("aaabcc"))
    np.testing.assert_array_equal(group_numbers(group_sizes(labels), 6), [0, 0, 0, 1, 2, 2])
    with pytest.raises(ValueError, match="stand together"):
        group_sizes(["a", "b", "a"])
    assert group_sizes(np.array(["a", "a", 3], dtype=object)).tolist() == [2, 1]
    for labels in (
        pd.Series(["a", None, "b"]),
        pd.Series(["a", "a", pd.NA], dtype="string"),
        [1.0, np.nan, 2.0],
        np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="datetime64[D]"),
    ):
        with pytest.raises(ValueError, match="1 of 3 are missing"):
            group_sizes(labels)
    wrong = {"sum to 7, not 6": [3, 4], "from 1 on": [0, 6], "sizes": [[6]], "label": [1, 2, 3, 1, 1, 1]}
    for said, group in wrong.items():
        with pytest.raises(ValueError, match=said):
            group_numbers(group, 6)


@pytest.mark.parametrize(
    ("model", "group", "said"),
    [
        (KMPRanker(3), [N - 1], "group must sum"),
        (KMPRanker(3), [1] * N, "two rows"),
        (KMPRanker(stop="leave_one_group_out"), None, "several groups"),
        (KMPRanker(stop="gcv", loss="log_loss"), SIZES, "loss='squared_error'"),
        (KMPRanker(stop="bound"), SIZES, "stop"),
        (KMPRanker(stop="certificate"), None, "needs several"),
        (KMPRanker(stop="certificate", loss="log_loss"), SIZES, "number for n_atoms"),
    ],
)
def test_errors_say_what_would_be_valid(model, group, said):
    with pytest.raises(ValueError, match=said):
        model.fit(X, Y, group=group)


def test_negative_grades_are_refused_by_the_score():
    model = KMPRanker(3).fit(X, Y, group=SIZES)
    with pytest.raises(ValueError, match="at least 0"):
        model.score(X, Y, group=SIZES)


def test_a_constant_and_groups_are_refused_together():
    with pytest.raises(ValueError, match="intercept must be False"):
        Squares(DenseDictionary(K), Y, groups=GROUPS)
