"""Probabilities of every classifier: values of rows left out, slopes fitted to them, and limits to their certainty."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from kernelpursuit import KMPClassifier, PursuitSearchCV, SparseKernelFDA
from kernelpursuit.math.calibration import Calibration, fit_slope, no_surer

pytestmark = pytest.mark.filterwarnings("ignore:n_atoms", "ignore:the best number of atoms")
GAMMA = 0.5


def groups(n=90, n_classes=3):
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, n_classes, n))
    centres = 2 * np.stack([np.cos(2.5 * np.arange(n_classes)), np.sin(2.5 * np.arange(n_classes))], axis=1)
    return centres[y] + rng.normal(size=(n, 2)), np.array(["a", "b", "c", "d"])[y]


def kernel(X, Z):
    return rbf_kernel(X, Z, gamma=GAMMA)


def coded(y):
    classes = np.unique(y)
    return np.where(y[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)


def values_of(model, X):
    """Decision values, one column for each class."""
    values = model.decision_function(X)
    return values if values.ndim == 2 else np.column_stack([-values, values]) / 2


def slope_of(model, X):
    """Log-odds over decision values."""
    return np.median(np.ptp(model.predict_log_proba(X), axis=1) / np.ptp(values_of(model, X), axis=1))


# ---------------------------------------------------------------------------------------------- slopes


def surprise(slope, values, index, weights):
    """Of the classes given values, softened, row by row: doubt that lowers a row's value by a part of its margin."""
    sizes = np.bincount(index, weights=weights)
    margins = np.array([v[c] - np.delete(v, c).max() for v, c in zip(values, index, strict=True)])
    least = min(np.average(margins[index == c], weights=weights[index == c]) for c in range(len(sizes)))
    total = 0.0
    for v, c, margin, w in zip(values, index, margins, weights, strict=True):
        doubt = margin if len(sizes) == 2 else min(margin, max(least, 0.0))
        total -= w * (log_softmax(slope * v)[c] - slope * doubt / (sizes[c] + 2))
    return total


def best_slope(values, seen, y, weights):
    """Slope of least surprise, by a method without derivatives; no value is outside those of the rows as seen."""
    values, index = np.clip(values, seen.min(axis=0), seen.max(axis=0)), np.unique(y, return_inverse=True)[1]
    if values.shape[1] == 1:
        values = np.column_stack([-values, values]) / 2
    best = minimize_scalar(lambda s: surprise(np.exp(s), values, index, weights), (-1, 1), options={"xtol": 1e-9})
    return np.exp(best.x)


def slope_by_refits(model, X, y):
    """From ridge fits in the span of the atoms of a model, made without one row each."""
    A = np.column_stack([np.ones(len(X)), kernel(X, model.support_vectors_)])
    P = np.zeros((A.shape[1], A.shape[1]))
    P[1:, 1:] = model.alpha_ * kernel(model.support_vectors_, model.support_vectors_)
    T, left_out = coded(y), []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        left_out.append(A[i] @ np.linalg.solve(A[rest].T @ A[rest] + P, A[rest].T @ T[rest]))
    return best_slope(np.array(left_out), model.decision_function(X).reshape(len(X), -1), y, np.ones(len(y)))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"alpha": 0.0}, {"alpha": 0.3}, {"stop": "gcv"}], ids=str)
def test_slopes_come_from_models_that_did_not_know_the_row(n_classes, options):
    X, y = groups(n_classes=n_classes)
    model = KMPClassifier(6, gamma=GAMMA, **options).fit(X, y)
    log_p = log_softmax(slope_by_refits(model, X, y) * values_of(model, X), axis=1)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(log_p), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    short = model.truncate(3)  # sizes in between are interpolated
    assert slope_of(short, X) == pytest.approx(slope_by_refits(short, X, y), rel=0.1)


def fisher_values(X, y, i, Z, labels, alpha):
    """Discriminants made without row i, at this row, from means and scatter; weights of classes as with the row."""
    F = np.linalg.solve(np.linalg.cholesky(kernel(Z, Z)), kernel(Z, X)).T
    classes, n_c = np.unique(y, return_counts=True)
    h, rest = len(classes) / np.sum(1 / n_c), np.arange(len(y)) != i
    means = np.array([F[rest & (y == c)].mean(axis=0) for c in classes])
    S = alpha * np.eye(F.shape[1])
    for c, mean, m in zip(classes, means, n_c, strict=True):
        apart = F[rest & (y == c)] - mean
        S += h / m * apart.T @ apart
    grand = means.mean(axis=0)
    if labels == "raw":
        U = coded(y)[rest].T @ F[rest] / (2 if len(classes) > 2 else 1)
    else:
        U = h * (means - grand) if len(classes) > 2 else h * (means[1:] - means[:1])
    middle = (means + grand) / 2 if len(classes) > 2 else grand[None]
    return np.array([u @ np.linalg.solve(S, F[i] - m) for u, m in zip(U, middle, strict=True)])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("labels", ["centred", "raw"])
def test_slopes_of_discriminants_come_from_those_without_the_row(n_classes, labels):
    X, y = groups(40, n_classes)
    model = SparseKernelFDA(4, gamma=GAMMA, labels=labels, alpha=1e-8).fit(X, y)
    left_out = np.array([fisher_values(X, y, i, model.support_vectors_, labels, 1e-8) for i in range(40)])
    _, index, sizes = np.unique(y, return_inverse=True, return_counts=True)
    weights = 40 / (n_classes * sizes[index])  # every class has an equal say
    expected = best_slope(left_out, model.decision_function(X).reshape(40, -1), y, weights)
    assert slope_of(model, X) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("apart", [0.0, 0.5, 3.0, 30.0])
def test_the_slope_is_the_one_of_least_surprise(apart, unit, weighted):
    rng = np.random.default_rng(round(10 * apart))
    index = rng.permutation(np.arange(80) % 4)
    values = unit * (rng.normal(size=(80, 4)) + apart * (index[:, None] == np.arange(4)))
    weights = rng.uniform(0.1, 5, 80) if weighted else np.ones(80)
    slope = fit_slope(values, index, weights if weighted else None)
    ends = np.log([1e-6 / unit, 1e3 / unit])
    least = minimize_scalar(lambda s: surprise(np.exp(s), values, index, weights), bounds=ends, method="bounded")
    assert surprise(slope, values, index, weights) <= least.fun + 1e-10 * abs(least.fun)


def test_values_that_say_nothing():
    index = np.array([0, 1, 0, 1])
    assert 0 < fit_slope(np.array([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]]), index, None) < 1e-4
    assert 0 < fit_slope(np.array([[-1.0, 1.0], [1.0, -1.0]] * 2), index, None) < 1e-4, "the contrary is true"
    assert fit_slope(np.zeros((4, 2)), index, None) > 0
    separated = fit_slope(np.array([[5.0, -5.0], [-5.0, 5.0]] * 10), np.array([0, 1] * 10), None)
    assert np.exp(10 * separated) / (1 + np.exp(10 * separated)) == pytest.approx(11 / 12, rel=1e-6)


def test_a_calibration_at_one_size_is_that_of_all():
    constant = Calibration(np.array([2]), np.array([3.0]), np.zeros((1, 2)))
    assert constant.at(0)[0] == pytest.approx(3) and constant.at(9)[0] == pytest.approx(3)
    odds = np.array([[1e9]])
    assert no_surer(odds, constant.limit(2)) == odds, "models that are older than limits have none"


def test_a_class_far_away_makes_no_other_unsure():
    """Two classes that touch, and one at a distance that says nothing about them."""
    index = np.arange(150) % 3
    values = np.random.default_rng(0).normal(size=(150, 3)) + 4 * (index[:, None] == np.arange(3))
    away = np.where(index == 0, 1.0, -1.0)[:, None] * [1.0, 0.0, 0.0]
    near, far, farther = (fit_slope(values + distance * away, index, None) for distance in (0.0, 30.0, 300.0))
    assert farther == pytest.approx(far, rel=0.02) and far > near / 2


# ---------------------------------------------------------------------------------------------- few rows, many atoms


def few_values_and_far_rows(n_classes):
    """Rows that repeat each other, but for three far ones: each has an atom to itself."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, size=(120, 3)).astype(float)
    y = np.digitize(X[:, 0] + 0.6 * rng.normal(size=120), [1] if n_classes == 2 else [0.5, 1.5])
    X[:3] = np.array([[2, 2, 9], [2, 12, 2], [-8, 2, 0]]) + 0.1 * rng.normal(size=(3, 3))
    return X, y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("model", "dtype", "weighted"),
    [
        (SparseKernelFDA(30), np.float32, False),
        (SparseKernelFDA(30, labels="raw"), np.float64, False),
        (SparseKernelFDA(30, labels="raw"), np.float64, True),
        (SparseKernelFDA(30, class_weight={0: 1.0, 1: 1.5}), np.float32, False),
        (PursuitSearchCV(SparseKernelFDA(), max_atoms=30, cv=3), np.float64, False),
    ],
    ids=str,
)
def test_rows_that_an_atom_fits_alone_do_not_take_the_slope(model, dtype, weighted, n_classes):
    X, y = few_values_and_far_rows(n_classes)
    X, weights = X.astype(dtype), np.random.default_rng(0).uniform(0.5, 3, len(X)) if weighted else None
    model = clone(model).fit(X, y, sample_weight=weights)
    assert log_loss(y, model.predict_proba(X)) < 0.88 * np.log(n_classes)
    assert model.score(X, y) > 0.65


@pytest.mark.parametrize("seed", [0, 3])
def test_many_atoms_on_few_distinct_values(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(120, 4)) * (rng.uniform(size=(120, 4)) < 0.5).astype(float)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=120) > 1).astype(int)
    model = KMPClassifier(40, gamma=0.3, alpha=0.0).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 0.5 and model.score(X, y) > 0.75
    labels = np.column_stack([y, y ^ (X[:, 2] > 0)])
    several = KMPClassifier(40, gamma=0.05, alpha=0.0).fit(X, labels)
    assert np.all(np.ptp(several.predict_proba(X), axis=0) > 0.4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gamma", ["scale", 20.0])
@pytest.mark.parametrize("k", [30, 60, 75])
def test_many_atoms_on_few_rows_are_better_than_a_coin(k, gamma, seed):
    """Between the rows their values are enormous, and the signs of these mean little."""
    X, y = make_moons(150, noise=0.3, random_state=seed)
    A, b = make_moons(1000, noise=0.3, random_state=100 + seed)
    model = SparseKernelFDA(k, gamma=gamma).fit(X, y)
    assert log_loss(b, model.predict_proba(A)) < 0.6


@pytest.mark.parametrize("k", [10, 20])
def test_discriminants_of_few_rows_are_as_sure_as_they_are_right(k):
    X, y = load_iris(return_X_y=True)
    A, B, a, b = train_test_split(scale(X), y, random_state=1, stratify=y, train_size=0.6)
    model = SparseKernelFDA(k).fit(A, a)
    sure = model.predict_proba(B).max(axis=1).mean()
    assert abs(sure - model.score(B, b)) < 0.08 and log_loss(b, model.predict_proba(B)) < 0.25


def certainty(p, labels):
    """The largest log-odds of a class against another, or of each label."""
    return np.max(np.abs(logit(p)), axis=0) if labels else np.max(np.ptp(np.log(p), axis=1))


NEW = np.random.default_rng(1).uniform(-6, 6, size=(4000, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (SparseKernelFDA(40), 2),
        (SparseKernelFDA(40), 3),
        (KMPClassifier(30, alpha=0.0, gamma=0.3), 2),
        (KMPClassifier(30, alpha=0.0, gamma=0.3), 3),
        (KMPClassifier(30, alpha=0.0, gamma=0.3), "labels"),
    ],
    ids=str,
)
def test_no_row_is_surer_than_the_surest_training_row(model, classes, dtype):
    X, y = groups(80, 2 if classes == 2 else 3)
    X, new = X.astype(dtype), NEW.astype(dtype)
    labels = classes == "labels"
    model = clone(model).fit(X, np.column_stack([y == "a", y == "b"]).astype(int) if labels else y)
    for one in (model, model.truncate(16)):
        p, seen = one.predict_proba(new), one.predict_proba(X)
        rounding = 1e-3 if dtype == np.float64 else 1e-2
        np.testing.assert_allclose(certainty(p, labels), certainty(seen, labels), rtol=rounding)
        np.testing.assert_array_equal(p > 0.5 if labels else one.classes_[p.argmax(axis=1)], one.predict(new))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_classes_move_the_limit_of_discriminants(n_classes):
    X, y = groups(80, n_classes)
    plain, dear = (SparseKernelFDA(40, class_weight=weights).fit(X, y) for weights in (None, {"a": 5.0}))
    p = dear.predict_proba(NEW)
    assert certainty(p, False) == pytest.approx(certainty(plain.predict_proba(X), False) + np.log(5))
    np.testing.assert_array_equal(dear.classes_[p.argmax(axis=1)], dear.predict(NEW))


# ---------------------------------------------------------------------------------------------- every classifier


@pytest.mark.parametrize(
    "model",
    [
        KMPClassifier(4, loss="squared_hinge"), KMPClassifier(4, variant="basic"), KMPClassifier(4, loss="huber"),
        KMPClassifier(4, loss="log_loss"), KMPClassifier(4, stop="certificate", random_state=0),
        PursuitSearchCV(KMPClassifier(), max_atoms=4, cv=3, one_standard_error=True), SparseKernelFDA(4),
        PursuitSearchCV(SparseKernelFDA(), max_atoms=4, cv=3, scoring="neg_log_loss"),
    ],
    ids=repr,
)  # fmt: skip
def test_every_classifier_has_them(model):
    X, y = groups(120)
    proba = clone(model).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert log_loss(y, proba) < 0.6  # three classes by chance: 1.1
    soft = VotingClassifier([("one", clone(model)), ("other", KMPClassifier(3))], voting="soft").fit(X, y)
    assert soft.score(X, y) > 0.8


@pytest.mark.parametrize("model", [KMPClassifier(5), SparseKernelFDA(5)], ids=repr)
def test_kernel_matrices_have_the_same_and_order_stays(model):
    X, y = groups(80, 2)
    direct = clone(model).set_params(gamma=GAMMA).fit(X, y)
    matrix = clone(model).set_params(kernel="precomputed").fit(kernel(X, X), y)
    np.testing.assert_allclose(matrix.predict_proba(kernel(X, X)), direct.predict_proba(X), atol=1e-6)
    order = np.argsort(direct.decision_function(X))
    assert np.all(np.diff(direct.predict_proba(X)[order, 1]) >= 0)


def test_classes_of_unequal_size():
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=400) < 0.1).astype(int)
    X = rng.normal(size=(400, 2)) + 1.5 * y[:, None]
    shares = {0: 1 - y.mean(), 1: y.mean()}
    for model in (SparseKernelFDA(6, class_weight=shares), KMPClassifier(6)):
        assert model.fit(X, y).predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.04)
    equal = SparseKernelFDA(6).fit(X, y)
    assert equal.predict_proba(X)[:, 1].mean() > 0.2
    np.testing.assert_array_equal(equal.predict_proba(X).argmax(axis=1), equal.predict(X))


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_better_than_calibration_by_folds_on_real_data(load):
    X, y = load(return_X_y=True)
    A, B, a, b = train_test_split(scale(X), y, test_size=0.4, random_state=0)
    ours = log_loss(b, KMPClassifier().fit(A, a).predict_proba(B))
    peer = log_loss(b, CalibratedClassifierCV(KMPClassifier(), cv=5).fit(A, a).predict_proba(B))
    assert ours < 1.05 * peer
    assert log_loss(b, KMPClassifier(20, loss="log_loss").fit(A, a).predict_proba(B)) < 1.2 * peer


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities_are_exact_in_the_tails(loss, n_classes):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 1)) + 4 * c for c in range(n_classes)])
    kernel, low, high = ("linear", -2000, 2000) if n_classes == 2 else ("rbf", -6, 14)
    model = KMPClassifier(6, loss=loss, kernel=kernel).fit(X, np.repeat(np.arange(n_classes), 60))
    new = np.linspace(low, high, 81)[:, None]
    logs = model.predict_log_proba(new)
    odds = model.decision_function(new).reshape(81, -1) * (1 if loss == "log_loss" else 2)
    assert np.all(np.isfinite(logs))
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(new))
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
    if n_classes == 2:
        np.testing.assert_allclose(logs[:, 1] - logs[:, 0], odds[:, 0], rtol=1e-9, atol=1e-9)
        assert logs.min() < -1000
    else:
        alone = -np.logaddexp(0, -odds)
        np.testing.assert_allclose(logs - logs[:, :1], alone - alone[:, :1], rtol=1e-9, atol=1e-9)
