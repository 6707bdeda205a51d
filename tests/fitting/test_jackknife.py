"""Jackknife+ intervals of a pursuit beside n refits in the same span."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from kernelpursuit import ConformalRegressor, KMPClassifier, KMPRegressor, PursuitSearchCV
from kernelpursuit.fitting.jackknife import LeftOut
from kernelpursuit.parameters import columns

GAMMA = 0.5


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def kernel(X, Z):
    return np.exp(-GAMMA * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


def refits(model, X, y, new, w=None):
    """Predictions at the row left out and at new rows, of the models without one row each."""
    constant = int(model.fit_intercept)
    A, B = (np.column_stack([np.ones((len(Z), constant)), kernel(Z, model.support_vectors_)]) for Z in (X, new))
    P = np.zeros((A.shape[1], A.shape[1]))
    P[constant:, constant:] = model.alpha_ * kernel(model.support_vectors_, model.support_vectors_)
    own, others = [], []
    W = np.diag(np.ones(len(y)) if w is None else w)
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        weighed = A[rest].T @ W[np.ix_(rest, rest)]
        c = np.linalg.solve(weighed @ A[rest] + P, weighed @ y[rest])
        own.append(A[i] @ c)
        others.append(B @ c)
    return np.array(own), np.array(others)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.3}, {"fit_intercept": False}, {"variant": "backfit"}])
def test_models_without_a_row_are_refits(options):
    X, y = data()
    new = data(7, 1)[0]
    model = KMPRegressor(6, gamma=GAMMA, **options).fit(X, y)
    own, others = refits(model, X, y, new)
    found = LeftOut.of(model, X, y)
    A = np.column_stack([np.ones((len(X), int(model.fit_intercept))), kernel(X, model.support_vectors_)])
    P = np.zeros((A.shape[1], A.shape[1]))
    P[A.shape[1] - 6 :, A.shape[1] - 6 :] = model.alpha_ * kernel(model.support_vectors_, model.support_vectors_)
    spent = np.trace(A @ np.linalg.solve(A.T @ A + P, A.T))
    inflation = (1 - spent / 60) / (1 - (2 * spent - int(model.fit_intercept)) / 60)
    np.testing.assert_allclose(found.errors, np.abs(y - own) * inflation, rtol=1e-6)
    # the interval's ends: order statistics of all models less, and plus, their errors
    low = np.sort(others - found.errors[:, None], axis=0)[5]  # 0.1 of 61 is 6.1
    high = np.sort(others + found.errors[:, None], axis=0)[54]  # 0.9 of 61 is 54.9
    np.testing.assert_allclose(found.intervals(new, 0.9), np.column_stack([low, high]), rtol=1e-6)
    whole = ConformalRegressor(model, calibration_fraction=None).fit(X, y)
    np.testing.assert_allclose(whole.predict_interval(new), np.column_stack([low, high]), rtol=1e-6)
    np.testing.assert_allclose(whole.residuals_, np.sort(found.errors), rtol=1e-9)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"alpha": 0.3}])
def test_models_without_a_row_that_has_a_weight(options):
    """A row is left out with all of its weight; in the quantiles it counts once."""
    X, y = data()
    new, w = data(7, 1)[0], np.random.default_rng(2).uniform(0.2, 3, size=60)
    model = KMPRegressor(6, gamma=GAMMA, **options).fit(X, y, sample_weight=w)
    own, others = refits(model, X, y, new, w)
    found = LeftOut.of(model, X, y, w)
    inflation = found.errors / np.abs(y - own)
    np.testing.assert_allclose(inflation, inflation[0], rtol=1e-6)
    low = np.sort(others - found.errors[:, None], axis=0)[5]
    high = np.sort(others + found.errors[:, None], axis=0)[54]
    whole = ConformalRegressor(model, calibration_fraction=None).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(whole.predict_interval(new), np.column_stack([low, high]), rtol=1e-6)


def test_coverage_is_what_was_asked_for():
    """About 0.9, rather more where the function is smooth and the search easy; less without the charge for it."""
    covered = {"charged": [], "plain": []}
    for seed in range(30):
        X, y = data(100, seed)
        new, y_new = data(300, 1000 + seed)
        model = ConformalRegressor(KMPRegressor(12, gamma=GAMMA), calibration_fraction=None).fit(X, y)
        low, high = model.predict_interval(new).T
        covered["charged"].append(np.mean((low <= y_new) & (y_new <= high)))
        inflation = (1 - 13 / 100) / (1 - 25 / 100)
        plain = model._left_out._replace(errors=model._left_out.errors / inflation)
        low, high = plain.intervals(new, 0.9).T
        covered["plain"].append(np.mean((low <= y_new) & (y_new <= high)))
    assert 0.89 < np.mean(covered["charged"]) < 0.94
    assert np.mean(covered["plain"]) < np.mean(covered["charged"]) - 0.015


@pytest.mark.parametrize("n", [9, 8])
def test_few_rows(n):
    """Nine rows are the fewest with a finite interval of 90 %."""
    X, y = data(n)
    model = ConformalRegressor(KMPRegressor(1), calibration_fraction=None)
    if n == 8:
        with pytest.warns(UserWarning, match="too few"):
            model.fit(X, y)
    else:
        model.fit(X, y)
    assert np.all(np.isfinite(model.predict_interval(X))) == (n == 9)


def test_other_forms_of_data_and_models():
    X, y = data()
    K = kernel(X, X)
    direct = ConformalRegressor(KMPRegressor(5, gamma=GAMMA), calibration_fraction=None).fit(X, y)
    precomputed = ConformalRegressor(KMPRegressor(5, kernel="precomputed"), calibration_fraction=None).fit(K, y)
    np.testing.assert_allclose(direct.predict_interval(X), precomputed.predict_interval(K), rtol=1e-8)
    single = ConformalRegressor(KMPRegressor(5, gamma=GAMMA), calibration_fraction=None).fit(X.astype("f4"), y)
    np.testing.assert_allclose(
        direct.predict_interval(X), single.predict_interval(X.astype("f4")), rtol=1e-3, atol=1e-3
    )
    for alpha in ("auto", 0.3):
        one = KMPRegressor(5, gamma=GAMMA, alpha=alpha)
        listed = KMPRegressor(5, kernel=[("rbf", {"gamma": GAMMA})], alpha=alpha)
        ends = [ConformalRegressor(m, calibration_fraction=None).fit(X, y).predict_interval(X) for m in (one, listed)]
        np.testing.assert_allclose(*ends, rtol=1e-8)
    two = KMPRegressor(5, kernel=[("rbf", {"gamma": 0.5}), ("rbf", {"gamma": 2.0}), columns(lambda X: X)])
    assert np.all(np.isfinite(ConformalRegressor(two, calibration_fraction=None).fit(X, y).predict_interval(X)))
    searched = PursuitSearchCV(KMPRegressor(), max_atoms=8, cv=3, one_standard_error=True)
    assert ConformalRegressor(searched, calibration_fraction=None).fit(X, y).predict_interval(X).shape == (60, 2)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KMPRegressor(3, loss="huber"), "closed form"),
        (KMPRegressor(3, variant="basic"), "closed form"),
        (KMPRegressor(3, stop="certificate"), "all rows"),
    ],
)
def test_what_is_refused(estimator, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        ConformalRegressor(estimator, calibration_fraction=None).fit(X, y)
    with pytest.raises(ValueError, match="regressor"):
        ConformalRegressor(KMPClassifier(3), calibration_fraction=None).fit(X, y)


def unequal(n, seed):
    """Noise that grows from left to right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + (0.05 + 0.25 * X[:, 0]) * rng.normal(size=n)


def test_adaptive_intervals_are_wide_where_errors_are_large():
    covered, plain = [], []
    for seed in range(20):
        X, y = unequal(300, seed)
        new, y_new = unequal(500, 1000 + seed)
        both = []
        for adaptive in (True, False):
            model = ConformalRegressor(KMPRegressor(), adaptive=adaptive, random_state=seed).fit(X, y)
            low, high = model.predict_interval(new).T
            inside, right = (low <= y_new) & (y_new <= high), new[:, 0] > 3
            both.append((inside.mean(), inside[right].mean(), (high - low)[right].mean() / (high - low)[~right].mean()))
        covered.append(both[0])
        plain.append(both[1])
    (whole, right, ratio), (_, plain_right, plain_ratio) = np.mean(covered, axis=0), np.mean(plain, axis=0)
    assert abs(whole - 0.9) < 0.02
    assert plain_right < right - 0.03 and ratio > 1.4 and plain_ratio == pytest.approx(1)


def test_adaptive_scores_are_errors_over_the_scale():
    X, y = unequal(200, 0)
    model = ConformalRegressor(KMPRegressor(), adaptive=True, random_state=0).fit(X, y)
    low, high = model.predict_interval(X).T
    scale = np.exp(model.scale_estimator_.predict(X) / 2)
    np.testing.assert_allclose((high - low) / 2, model.quantile_ * scale)
    np.testing.assert_allclose((high + low) / 2, model.predict(X))
    scores = np.abs(y - model.predict(X)) / scale
    assert np.sum(scores <= model.quantile_ * (1 + 1e-12)) >= np.sum(model.residuals_ <= model.quantile_)
    assert np.isin(np.round(model.residuals_, 9), np.round(scores, 9)).all()
    exact = ConformalRegressor(KMPRegressor(3), adaptive=True, random_state=0).fit(X, np.zeros(200))
    assert np.all(exact.predict_interval(X) == 0)
    with pytest.raises(ValueError, match="rows set aside"):
        ConformalRegressor(adaptive=True, calibration_fraction=None).fit(X, y)
    with pytest.raises(ValueError, match=r"^adaptive=True needs left-out"):
        ConformalRegressor(LinearRegression(), adaptive=True).fit(X, y)


def test_a_row_with_an_atom_of_its_own_counts_as_infinitely_wrong():
    """A kernel so narrow that an atom is one row: without that row it has no weight, and nothing else changes."""
    X, y = data()
    model = KMPRegressor(3, gamma=1e9, alpha=0.0).fit(X, y)
    found = LeftOut.of(model, X, y)
    assert np.flatnonzero(np.isinf(found.errors)).tolist() == sorted(model.support_)
    assert np.all(found.steps[model.support_] == 0)
    assert np.all(np.isfinite(found.intervals(X, 0.9)))  # three of sixty rows are less than a tenth
    assert np.all(np.isinf(found.intervals(X, 0.97)))
