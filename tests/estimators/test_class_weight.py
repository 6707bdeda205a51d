"""Weights of classes in every classifier; losses of medians and quantiles."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.model_selection import KFold

from kernelpursuit import KMPClassifier, KMPRegressor, PursuitSearchCV, RefinedKMPClassifier, SparseKernelFDA, losses
from kernelpursuit.losses import quantile

EACH = [KMPClassifier(5), KMPClassifier(5, loss="log_loss")]


def unequal(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=n) < 0.15, "rare", "often")
    return rng.normal(size=(n, 2)) + 1.2 * (y == "rare")[:, None], y


@pytest.mark.parametrize("model", EACH, ids=repr)
def test_class_weights_are_weights_of_rows(model):
    X, y = unequal()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    by_hand = np.where(y == "rare", 4.0, 1.0)
    fixed = clone(model).set_params(alpha=0.1)  # the evidence of a ridge counts rows
    one = clone(fixed).set_params(class_weight={"rare": 4.0}).fit(X, y, sample_weight=w)
    two = clone(fixed).fit(X, y, sample_weight=w * by_hand * w.sum() / np.sum(w * by_hand))
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X))
    if model.loss == "log_loss":  # calibration counts rows
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-6)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    counts = {label: len(y) / (2 * np.sum(y == label)) for label in ("rare", "often")}
    named = clone(model).set_params(class_weight=counts).fit(X, y)
    np.testing.assert_allclose(balanced.decision_function(X), named.decision_function(X))
    assert np.sum(balanced.predict(X) == "rare") > np.sum(clone(model).fit(X, y).predict(X) == "rare")


@pytest.mark.parametrize(
    "model",
    [SparseKernelFDA(5), PursuitSearchCV(SparseKernelFDA(), max_atoms=5, gammas=[0.5], cv=3, one_standard_error=True)],
    ids=repr,
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_discriminants_move_their_thresholds(model, n_classes):
    X, y = unequal()
    y = np.where((n_classes == 3) & (X[:, 0] < -1), "third", y)
    plain = clone(model).fit(X, y)
    name = "estimator__class_weight" if isinstance(model, PursuitSearchCV) else "class_weight"
    np.testing.assert_array_equal(plain.predict(X), clone(model).set_params(**{name: "balanced"}).fit(X, y).predict(X))
    dear = clone(model).set_params(**{name: {"rare": 5.0}}).fit(X, y)
    assert np.sum(dear.predict(X) == "rare") > np.sum(plain.predict(X) == "rare")
    place = plain.classes_.tolist().index("rare")
    odds, before = (np.exp(m.predict_log_proba(X)) for m in (dear, plain))
    if len(list(dear.staged_predict(X))) == len(list(plain.staged_predict(X))):  # as many atoms
        others = np.delete(np.arange(n_classes), place)
        ratio = odds[:, place] / odds[:, others].sum(axis=1) / (before[:, place] / before[:, others].sum(axis=1))
        np.testing.assert_allclose(ratio, 5.0, rtol=1e-6)
    with pytest.raises(ValueError, match="class_weight"):
        clone(model).set_params(**{name: {"rare": -1.0}}).fit(X, y)


def test_balance_counts_weights_and_not_rows_that_are_absent():
    X, y = unequal()
    w = np.where(y == "rare", 3.0, 1.0)
    w[:20] = 0
    one = KMPClassifier(5, class_weight="balanced").fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(len(y)), w.astype(int))
    two = KMPClassifier(5, class_weight="balanced").fit(X[rows], y[rows])
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*are duplicates of others")  # which is right
@pytest.mark.parametrize("alpha", [0.0, 0.3, "auto"])
@pytest.mark.parametrize("n_atoms", ["auto", 6])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_counts_are_rows_beside_weights_of_classes(n_classes, n_atoms, alpha):
    """A row of weight 2 is the row twice, whatever its class weighs: in all that is chosen and in probabilities."""
    X, y = unequal()
    y = np.where((n_classes == 3) & (X[:, 0] < -1), "third", y)
    w = np.random.default_rng(3).integers(0, 4, len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), w.astype(int))
    model = KMPClassifier(n_atoms, class_weight="balanced", alpha=alpha)
    one, two = clone(model).fit(X, y, sample_weight=w), clone(model).fit(X[rows], y[rows])
    assert one.support_.tolist() == rows[two.support_].tolist()
    np.testing.assert_allclose(one.alpha_, two.alpha_, rtol=1e-5)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-4)
    np.testing.assert_allclose(one.path_.values("leave_one_out"), two.path_.values("leave_one_out"), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_errors_leave_the_whole_row_out(weighted):
    """By refitting: a row of a rare class is one row, however much its error counts."""
    X, y = unequal(60)
    w = np.random.default_rng(5).integers(1, 3, 60).astype(float) if weighted else np.ones(60)
    factor = np.where(y == "rare", 5.0, 0.5)
    model = KMPClassifier(4, gamma=0.5, alpha=0.2, class_weight={"rare": 5.0, "often": 0.5}).fit(X, y, sample_weight=w)
    factor *= w.sum() / np.sum(w * factor)
    K = np.exp(-0.5 * ((X[:, None] - X[model.support_]) ** 2).sum(axis=2))
    A = np.c_[np.ones(60), K]
    penalty = np.zeros((5, 5))
    penalty[1:, 1:] = 0.2 * K[model.support_]
    target, errors = np.where(y == model.classes_[1], 1.0, -1.0), np.zeros(60)
    for i in range(60):
        v = (w - (np.arange(60) == i)) * factor  # one copy less
        c = np.linalg.solve(A.T * v @ A + penalty, A.T @ (v * target))
        errors[i] = target[i] - A[i] @ c
    wanted = np.average(errors**2, weights=w * factor)
    np.testing.assert_allclose(model.path_.values("leave_one_out")[-1], wanted, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the model has no atoms")
def test_weights_of_classes_make_no_rows():
    """Ten rows are ten rows: noise stays noise, and equal weights of classes are none."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), (np.arange(500) < 10).astype(int)
    model = KMPClassifier(class_weight="balanced").fit(X, y)
    assert len(model.support_) < 10
    assert np.ptp(model.predict_proba(rng.normal(size=(500, 3)))[:, 1]) < 0.97
    X, y = unequal()
    equal, plain = KMPClassifier(class_weight={"rare": 3.0, "often": 3.0}).fit(X, y), KMPClassifier().fit(X, y)
    assert equal.support_.tolist() == plain.support_.tolist()
    np.testing.assert_allclose(equal.predict_proba(X), plain.predict_proba(X), rtol=1e-6)


def test_a_search_knows_that_weights_of_classes_make_no_rows():
    X, y = unequal()
    found = PursuitSearchCV(
        KMPClassifier(class_weight="balanced"), max_atoms=20, gammas=[0.5], cv=3, one_standard_error=True
    ).fit(X, y)
    plain = KMPClassifier(found.best_params_["n_atoms"], gamma=0.5, class_weight="balanced").fit(X, y)
    assert found.best_estimator_.alpha_ == pytest.approx(plain.alpha_, rel=1e-6)
    np.testing.assert_allclose(found.predict_proba(X), plain.predict_proba(X), rtol=1e-5)


FEW_ROWS_OF_A_CLASS = np.repeat([0, 1, 2], [60, 57, 3])


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize(
    "search",
    [
        PursuitSearchCV(KMPClassifier(), max_atoms=3, gammas=[0.5], cv=KFold(3)),
        PursuitSearchCV(KMPClassifier(), max_atoms=3, gammas=[0.5], cv=KFold(3), n_jobs=1, input_weights="learned"),
        PursuitSearchCV(SparseKernelFDA(), max_atoms=3, gammas=[0.5], cv=KFold(3)),
    ],
    ids=["kmp", "learned inputs", "fda"],
)
def test_a_fold_without_a_class_that_has_a_weight(search):
    """Classes that are not named have weight 1 there, too."""
    y = FEW_ROWS_OF_A_CLASS
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    one = clone(search).set_params(estimator__class_weight={2: 5.0}).fit(X, y)
    two = clone(search).set_params(estimator__class_weight={0: 1.0, 1: 1.0, 2: 5.0}).fit(X, y)
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    with pytest.raises(ValueError, match=r"class_weight names \[7\].*\[0, 1, 2\]"):
        clone(search).set_params(estimator__class_weight={7: 5.0}).fit(X, y)


@pytest.mark.parametrize("model", [*EACH, SparseKernelFDA(5), RefinedKMPClassifier(3, random_state=0)], ids=repr)
def test_a_class_of_weight_nothing_that_has_a_weight(model):
    y = FEW_ROWS_OF_A_CLASS
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    one = clone(model).set_params(class_weight={2: 5.0}).fit(X, y, sample_weight=(y < 2) * 1.0)
    assert one.classes_.tolist() == [0, 1]
    if not isinstance(model, RefinedKMPClassifier):  # which draws other rows
        two = clone(model).fit(X[y < 2], y[y < 2])
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match=r"class_weight names \['two'\].*\[0, 1, 2\]"):
        clone(model).set_params(class_weight={"two": 5.0}).fit(X, y)


@pytest.mark.parametrize("value", ["even", 3, {"absent": 2.0, "rare": -1.0}])
def test_bad_class_weights_are_named(value):
    X, y = unequal()
    with pytest.raises(ValueError, match="class_weight"):
        KMPClassifier(3, class_weight=value).fit(X, y)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_quantiles_of_a_constant_and_their_derivative(share):
    loss = losses.quantile(share, 0.05)
    y = np.random.default_rng(0).normal(size=400)
    grid = np.linspace(-2, 2, 2001)
    best = grid[np.argmin([np.sum(loss.value(y, np.full(400, f))) for f in grid])]
    assert best == pytest.approx(np.quantile(y, share), abs=0.06)
    for f in (-1.3, 0.02, 0.7):
        value = lambda f: float(np.sum(loss.value(y[:9], f * np.ones(9))))  # noqa: E731
        slope = lambda f: float(np.sum(loss.gradient(y[:9], f * np.ones(9))))  # noqa: E731
        assert check_grad(value, slope, [f]) < 1e-5


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_regressor_estimates_quantiles(share):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(300, 1))
    y = np.sin(X[:, 0]) + (0.2 + 0.1 * np.abs(X[:, 0])) * rng.normal(size=300)
    model = KMPRegressor(8, loss=quantile(share)).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(share, abs=0.04)
    scaled = KMPRegressor(8, loss=quantile(share)).fit(X, 1000 * y + 50)
    np.testing.assert_allclose(scaled.predict(X), 1000 * model.predict(X) + 50, rtol=0.02, atol=20)


def test_medians_do_not_follow_outliers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(200, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    y[::10] += 30
    model = KMPRegressor(8, loss="absolute_error").fit(X, y)
    same = KMPRegressor(8, loss=quantile(0.5)).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert np.mean(np.abs(model.predict(X) - np.sin(X[:, 0]))) < 0.1
    search = PursuitSearchCV(
        KMPRegressor(loss="absolute_error"), max_atoms=6, gammas=[0.5], cv=3, one_standard_error=True
    ).fit(X, y)
    assert np.mean(np.abs(search.predict(X) - np.sin(X[:, 0]))) < 0.2


def test_bad_quantiles_are_named():
    for arguments, name in (((0,), "share"), ((1.0, 0.1), "share"), (("half",), "share"), ((0.5, 0), "width")):
        with pytest.raises(ValueError, match=name):
            losses.quantile(*arguments)


def test_rows_that_do_not_count_have_no_say_in_what_is_balanced_when_refined():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.normal(size=80) > 0.8).astype(int)
    there = np.ones(80)
    there[np.flatnonzero(y == 0)[:30]] = 0.0
    model = RefinedKMPClassifier(3, class_weight="balanced", random_state=0)
    weighed = clone(model).fit(X, y, sample_weight=there).predict_proba(X)
    alone = clone(model).fit(X[there > 0], y[there > 0]).predict_proba(X)
    np.testing.assert_allclose(weighed, alone, atol=1e-3)
