"""KMPRanker: ridges, stop rules, certificates, groups of all kinds; its criterion is in criteria/test_pairs.py."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import (
    BoundDisplay,
    KMPRanker,
    KMPRegressor,
    PursuitPathDisplay,
)
from kernelpursuit.bounds import loss_bound
from kernelpursuit.fitting.pipeline import Pursuit
from kernelpursuit.parameters import certificate, tolerance
from kernelpursuit.ranking import kendall_tau, ndcg, wrong_pairs
from tests.criteria.test_pairs import GRADES, GROUPS, SIZES, WEIGHTS, K, N, X, Y, refitted_without_groups


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


def test_in_a_pipeline_and_cloned():
    model = make_pipeline(StandardScaler(), KMPRanker(5)).fit(X, GRADES, kmpranker__group=SIZES)
    with config_context(enable_metadata_routing=True):  # without it a pipeline leaves `group` out of the score
        ranker = KMPRanker(5).set_fit_request(group=True).set_score_request(group=True)
        routed = make_pipeline(StandardScaler(), ranker).fit(X, GRADES, group=SIZES)
        assert routed.score(X, GRADES, group=SIZES) == ndcg(GRADES, model.predict(X), SIZES)
    again = clone(model).fit(X, GRADES, kmpranker__group=SIZES)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert list(model[-1].truncate(3).staged_predict(X))[-1].shape == (N,)


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
