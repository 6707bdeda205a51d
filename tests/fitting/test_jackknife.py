"""Jackknife+ intervals of a pursuit, compared with n refits in the same span; intervals in proportion to a scale."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from kernelpursuit import ConformalRegressor, KMPClassifier, KMPRegressor, PursuitSearchCV
from kernelpursuit.parameters import columns

GAMMA = 0.5


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


X, Y = data()
NEW = data(7, 1)[0]


def kernel(X, Z):
    return np.exp(-GAMMA * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


def jackknife(model, **options):
    """Intervals by rows left out, fitted to all rows."""
    return ConformalRegressor(model, calibration_fraction=None, **options)


def system(model):
    """Atoms at the training rows and at new ones, and the penalty of a model."""
    constant, Z = int(model.fit_intercept), model.support_vectors_
    A, B = (np.column_stack([np.ones((len(rows), constant)), kernel(rows, Z)]) for rows in (X, NEW))
    P = np.zeros((A.shape[1], A.shape[1]))
    P[constant:, constant:] = model.alpha_ * kernel(Z, Z)
    return A, B, P


def refits(model, w):
    """Errors at the row left out and predictions at new rows, of the models without one row each."""
    A, B, P = system(model)
    errors, predictions = [], []
    for i in range(len(Y)):
        rest = np.arange(len(Y)) != i
        weighed = A[rest].T * w[rest]
        c = np.linalg.solve(weighed @ A[rest] + P, weighed @ Y[rest])
        errors.append(abs(Y[i] - A[i] @ c))
        predictions.append(B @ c)
    return np.array(errors), np.array(predictions)


def assert_intervals(model, errors, predictions):
    """Their ends are order statistics of the predictions of all models less, and plus, their errors."""
    low = np.sort(predictions - errors[:, None], axis=0)[5]  # 0.1 of 61 is 6.1
    high = np.sort(predictions + errors[:, None], axis=0)[54]  # 0.9 of 61 is 54.9
    np.testing.assert_allclose(model.predict_interval(NEW), np.column_stack([low, high]), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.3}, {"fit_intercept": False}, {"variant": "backfit"}], ids=str)
def test_models_without_a_row_are_refits(options):
    """Their errors are inflated by what the choice of the atoms has cost: the freedom of the fit is counted twice."""
    model = jackknife(KMPRegressor(6, gamma=GAMMA, **options)).fit(X, Y)
    errors, predictions = refits(model.estimator_, np.ones(60))
    A, _, P = system(model.estimator_)
    spent = np.trace(A @ np.linalg.solve(A.T @ A + P, A.T))
    errors *= (1 - spent / 60) / (1 - (2 * spent - int(model.estimator_.fit_intercept)) / 60)
    np.testing.assert_allclose(model.residuals_, np.sort(errors), rtol=1e-6)
    assert_intervals(model, errors, predictions)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_models_without_a_row_that_has_a_weight(alpha):
    """A row is left out with all of its weight; in the quantiles it counts once."""
    w = np.random.default_rng(2).uniform(0.2, 3, size=60)
    model = jackknife(KMPRegressor(6, gamma=GAMMA, alpha=alpha)).fit(X, Y, sample_weight=w)
    errors, predictions = refits(model.estimator_, w)
    inflation = model.residuals_ / np.sort(errors)
    np.testing.assert_allclose(inflation, inflation[0], rtol=1e-6)
    assert_intervals(model, inflation[0] * errors, predictions)


def share_inside(model, X, y):
    low, high = model.predict_interval(X).T
    return np.mean((low <= y) & (y <= high))


def test_coverage_is_what_was_asked_for():
    """About 0.9, rather more where the function is smooth and the search easy."""
    models = [jackknife(KMPRegressor(12, gamma=GAMMA)).fit(*data(100, seed)) for seed in range(30)]
    covered = [share_inside(model, *data(300, 1000 + seed)) for seed, model in enumerate(models)]
    assert 0.89 < np.mean(covered) < 0.94


def test_nine_rows_are_the_fewest_with_a_finite_interval():
    assert np.all(np.isfinite(jackknife(KMPRegressor(1)).fit(X[:9], Y[:9]).predict_interval(NEW)))
    with pytest.warns(UserWarning, match="too few"):
        model = jackknife(KMPRegressor(1)).fit(X[:8], Y[:8])
    assert not np.any(np.isfinite(model.predict_interval(NEW)))


def test_a_row_with_an_atom_of_its_own_counts_as_infinitely_wrong():
    """A kernel so narrow that an atom is one row: without that row it has no weight, and nothing else changes."""
    narrow = KMPRegressor(3, gamma=1e9, alpha=0.0)
    model = jackknife(narrow).fit(X, Y)
    assert np.isinf(model.residuals_).tolist() == [False] * 57 + [True] * 3
    assert np.all(np.isfinite(model.predict_interval(X)))  # three of sixty rows are less than a tenth
    with pytest.warns(UserWarning, match="3 of 60 rows have atoms to themselves"):
        assert np.all(np.isinf(jackknife(narrow, coverage=0.97).fit(X, Y).predict_interval(X)))


@pytest.mark.parametrize("alpha", ["auto", 0.3])
def test_other_forms_of_data_and_kernels(alpha):
    def ends(rows, **options):
        return jackknife(KMPRegressor(5, alpha=alpha, **options)).fit(rows, Y).predict_interval(rows)

    direct, K = ends(X, gamma=GAMMA), kernel(X, X)
    np.testing.assert_allclose(ends(K, kernel="precomputed"), direct, rtol=1e-8)
    np.testing.assert_allclose(ends(X, kernel=[("rbf", {"gamma": GAMMA})]), direct, rtol=1e-8)
    np.testing.assert_allclose(ends(X.astype("f4"), gamma=GAMMA), direct, rtol=1e-3, atol=1e-3)
    several = [("rbf", {"gamma": 0.5}), ("rbf", {"gamma": 2.0}), columns(lambda X: X)]
    assert np.all(np.isfinite(ends(X, kernel=several)))


def test_a_search_has_intervals():
    search = PursuitSearchCV(KMPRegressor(), max_atoms=8, cv=3, one_standard_error=True)
    assert np.all(np.isfinite(jackknife(search).fit(X, Y).predict_interval(X)))


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (KMPRegressor(3, loss="huber"), {}, "closed form"),
        (KMPRegressor(3, variant="basic"), {}, "closed form"),
        (KMPRegressor(3, stop="certificate"), {}, "all rows"),
        (KMPClassifier(3), {}, "regressor"),
        (KMPRegressor(3), {"adaptive": True}, "rows set aside"),
        (LinearRegression(), {"adaptive": True, "calibration_fraction": 0.25}, "^adaptive=True needs left-out"),
    ],
)
def test_what_is_refused(estimator, options, message):
    with pytest.raises(ValueError, match=message):
        jackknife(estimator).set_params(**options).fit(X, Y)


# ---------------------------------------------------------------------------------------------- adaptive intervals


def unequal(n, seed):
    """Noise that grows from left to right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + (0.05 + 0.25 * X[:, 0]) * rng.normal(size=n)


def test_adaptive_intervals_are_wide_where_errors_are_large():
    found = {True: [], False: []}
    for seed in range(20):
        new, y_new = unequal(500, 1000 + seed)
        right = new[:, 0] > 3
        for adaptive, shares in found.items():
            model = ConformalRegressor(KMPRegressor(), adaptive=adaptive, random_state=seed).fit(*unequal(300, seed))
            widths = np.ptp(model.predict_interval(new), axis=1)
            of_right = share_inside(model, new[right], y_new[right])
            shares.append((share_inside(model, new, y_new), of_right, widths[right].mean() / widths[~right].mean()))
    (share, right, ratio), (_, plain_right, plain_ratio) = (np.mean(found[one], axis=0) for one in (True, False))
    assert abs(share - 0.9) < 0.02
    assert plain_right < right - 0.03 and ratio > 1.4 and plain_ratio == pytest.approx(1)


def test_adaptive_scores_are_errors_over_the_scale():
    X, y = unequal(200, 0)
    model = ConformalRegressor(KMPRegressor(), adaptive=True, random_state=0).fit(X, y)
    low, high = model.predict_interval(X).T
    scale = np.exp(model.scale_estimator_.predict(X) / 2)
    np.testing.assert_allclose((high - low) / 2, model.quantile_ * scale)
    np.testing.assert_allclose((high + low) / 2, model.predict(X))
    scores = np.abs(y - model.predict(X)) / scale
    assert np.isin(np.round(model.residuals_, 9), np.round(scores, 9)).all()
    exact = ConformalRegressor(KMPRegressor(3), adaptive=True, random_state=0).fit(X, np.zeros(200))
    assert np.all(exact.predict_interval(X) == 0)
