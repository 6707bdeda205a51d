"""Split conformal intervals: coverage and the rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from kernelpursuit import ConformalRegressor, KMPRegressor
from kernelpursuit.estimators.conformal import conformal_quantile, rows_needed, split_rows

few_rows = pytest.mark.filterwarnings("ignore:.*calibration rows are too few:UserWarning")


def draw(rng, n):
    """Heteroscedastic, skewed noise around a curve."""
    X = rng.uniform(-2, 2, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + (0.2 + 0.3 * np.abs(X[:, 0])) * (rng.exponential(size=n) - 1)


def covered(model, X, y):
    low, high = model.predict_interval(X).T
    return (low <= y) & (y <= high)


@pytest.mark.parametrize(
    ("estimator", "coverage", "n"),
    [(KMPRegressor(n_atoms=4), 0.9, 80), (LinearRegression(), 0.7, 50)],
    ids=["pursuit", "linear"],
)
def test_coverage_over_resamples(estimator, coverage, n, resamples=80, new=1000):
    """The share of new rows that one fit covers is Beta(r, n + 1 - r) for n calibration rows: its mean is exact."""
    rng = np.random.default_rng(0)
    model = ConformalRegressor(estimator, coverage=coverage, random_state=0)
    shares = []
    for _ in range(resamples):
        X, y = draw(rng, n + new)
        shares.append(covered(model.fit(X[:n], y[:n]), X[n:], y[n:]).mean())
    n_calibration = len(model.residuals_)
    rank = np.ceil((n_calibration + 1) * coverage)
    share = stats.beta(rank, n_calibration + 1 - rank)
    assert coverage <= share.mean() <= coverage + 1 / (n_calibration + 1)
    assert abs(np.mean(shares) - share.mean()) < 3.3 * np.sqrt((share.var() + 0.25 / new) / resamples)
    assert 0.7 < np.std(shares) / np.sqrt(share.var() + share.mean() * (1 - share.mean()) / new) < 1.4


def test_coverage_on_real_data(capsys):
    X, y = load_diabetes(return_X_y=True)
    model = ConformalRegressor(KMPRegressor(n_atoms=10), coverage=0.9, random_state=0)
    shares = []
    for seed in range(100):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
        shares.append(covered(model.fit(X_train, y_train), X_test, y_test).mean())
    assert abs(np.mean(shares) - 0.9) < 0.02
    model.set_params(verbose=1).fit(X, y)
    assert "331 rows fitted to, 111 set aside; intervals are ±" in capsys.readouterr().out


@given(st.integers(1, 60), st.integers(1, 99))
def test_rank_is_the_smallest_that_suffices(n, percent):
    """Rank r covers with probability r / (n + 1); in integers, so that no rounding can hide in the comparison."""
    residuals = np.arange(1.0, n + 1)
    quantile = conformal_quantile(residuals, percent / 100)
    suffices = [r for r in range(1, n + 1) if 100 * r >= (n + 1) * percent]
    assert quantile == (suffices[0] if suffices else np.inf)
    assert np.isfinite(quantile) == (n >= rows_needed(percent / 100))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 0.95), st.floats(1e-3, 1e3), st.floats(-100, 100))
@few_rows
def test_intervals_contain_the_prediction_and_follow_the_units(seed, coverage, scale, shift):
    X, y = draw(np.random.default_rng(seed), 60)
    model = ConformalRegressor(KMPRegressor(n_atoms=3), coverage=coverage, random_state=0).fit(X, y)
    interval, middle = model.predict_interval(X), model.predict(X)
    assert interval.shape == (60, 2)
    assert np.all(interval[:, 0] <= middle) and np.all(middle <= interval[:, 1])
    other = clone(model).fit(X, scale * y + shift)
    size = scale * np.abs(y).max() + abs(shift)
    np.testing.assert_allclose(other.predict_interval(X), scale * interval + shift, rtol=1e-6, atol=1e-7 * size)
    lower = clone(model).set_params(coverage=coverage / 2).fit(X, y)
    assert lower.quantile_ <= model.quantile_


def test_atoms_for_single_rows_warn_of_themselves():
    X = np.concatenate([100.0 * np.arange(1, 13)[:, None], np.zeros((28, 1))])  # twelve far from all others
    y = np.concatenate([np.arange(12) - 20.0, np.arange(28) % 2])
    model = ConformalRegressor(KMPRegressor(12, gamma=1.0, alpha=0.0), calibration_fraction=None)
    with pytest.warns(UserWarning, match=r"1\d of 40 rows have atoms to themselves.*fewer atoms, a ridge"):
        model.fit(X, y)
    assert model.quantile_ == np.inf


def test_too_few_rows_warn_and_give_infinite_intervals():
    X, y = draw(np.random.default_rng(0), 20)
    with pytest.warns(UserWarning, match=r"5 calibration rows are too few for coverage=0.9.*Give 9"):
        model = ConformalRegressor(random_state=0).fit(X, y)
    assert model.quantile_ == np.inf
    assert covered(model, X, y).all() and np.isfinite(model.predict(X)).all()


def test_precomputed_kernel_gives_the_same_intervals():
    X, y = draw(np.random.default_rng(0), 80)
    K = rbf_kernel(X, gamma=1.0)
    direct = ConformalRegressor(KMPRegressor(n_atoms=4, gamma=1.0), random_state=3).fit(X, y)
    computed = ConformalRegressor(KMPRegressor(n_atoms=4, kernel="precomputed"), random_state=3).fit(K, y)
    np.testing.assert_allclose(computed.predict_interval(K[:7]), direct.predict_interval(X[:7]), rtol=1e-8)


def test_what_is_refused():
    X, y = draw(np.random.default_rng(0), 60)
    with pytest.raises(ValueError, match=r"one target.*got shape \(60, 2\)"):
        ConformalRegressor().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="estimator must be a regressor"):
        ConformalRegressor(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match=r"calibration_fraction=0.99 of n_samples = 60"):
        ConformalRegressor(calibration_fraction=0.99).fit(X, y)
    with pytest.raises(ValueError, match="coverage"):
        ConformalRegressor(coverage=1).fit(X, y)
    with pytest.raises(ValueError, match="at least one"):
        ConformalRegressor().fit(X, y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="whose fit takes none"):
        ConformalRegressor(KNeighborsRegressor()).fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(TypeError, match="groups"):
        ConformalRegressor().fit(X, y, groups=np.ones(60))


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"calibration_fraction": None}])
def test_weights_shape_the_fit_and_rows_of_none_are_absent(options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y, w = X[:, 0] + rng.normal(size=80), rng.integers(0, 4, size=80).astype(float)
    model = ConformalRegressor(KMPRegressor(5), coverage=0.8, random_state=0, **options)
    weighed = clone(model).fit(X, y, sample_weight=w)
    present = w > 0
    absent = clone(model).fit(X[present], y[present], sample_weight=w[present])
    np.testing.assert_array_equal(weighed.predict_interval(X), absent.predict_interval(X))
    plain = clone(model).fit(X[present], y[present])
    assert np.any(weighed.predict(X) != plain.predict(X))
    if not options:  # the same rows are fitted to and set aside: only the fit has weights
        rows, _ = split_rows(present.sum(), 0.25, 0)
        inner = KMPRegressor(5).fit(X[present][rows], y[present][rows], sample_weight=w[present][rows])
        np.testing.assert_array_equal(weighed.predict(X), inner.predict(X))
        assert len(weighed.residuals_) == len(plain.residuals_)


@pytest.mark.parametrize("scaled", [False, True])
def test_weights_reach_the_step_of_a_pipeline(scaled):
    """By routing, as scikit-learn's own meta-estimators do it, or by the name of the step."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y, w = X[:, 0] + rng.normal(size=80), rng.integers(0, 4, size=80).astype(float)
    alone = ConformalRegressor(KMPRegressor(5), random_state=0).fit(X, y, sample_weight=w)
    steps = (
        [("scale", FunctionTransformer()), ("pursuit", KMPRegressor(5))] if scaled else [("pursuit", KMPRegressor(5))]
    )
    named = ConformalRegressor(Pipeline(steps), random_state=0).fit(X, y, pursuit__sample_weight=w)
    np.testing.assert_array_equal(named.predict_interval(X), alone.predict_interval(X))
    with config_context(enable_metadata_routing=True):
        steps[-1][1].set_fit_request(sample_weight=True)
        model = ConformalRegressor(Pipeline(steps), random_state=0).set_score_request(sample_weight=False)
        routed = clone(model).fit(X, y, sample_weight=w)
        np.testing.assert_array_equal(routed.predict_interval(X), alone.predict_interval(X))
        scores = [cross_validate(model, X, y, params=given, cv=3) for given in ({"sample_weight": w}, {})]
        assert np.all(scores[0]["test_score"] != scores[1]["test_score"])
        unset = ConformalRegressor(KMPRegressor(5), random_state=0)
        with pytest.raises(UnsetMetadataPassedError, match="KMPRegressor"):
            unset.fit(X, y, sample_weight=w)
        refused = ConformalRegressor(KMPRegressor(5).set_fit_request(sample_weight=False), random_state=0)
        with pytest.raises(TypeError, match="sample_weight"):
            refused.fit(X, y, sample_weight=w)
        assert unset.fit(X, y).predict(X).shape == (80,)
    with pytest.raises(ValueError, match=r"as in pursuit__sample_weight. Or turn metadata routing on"):
        ConformalRegressor(Pipeline(steps)).fit(X, y, sample_weight=w)


@pytest.mark.parametrize(
    "around",
    [
        lambda model: GridSearchCV(model, {"gamma": [0.5]}, cv=2),
        lambda model: TransformedTargetRegressor(model, transformer=FunctionTransformer()),
        lambda model: VotingRegressor([("one", model)]),
        lambda model: StackingRegressor([("one", model)], final_estimator=LinearRegression(), cv=2),
    ],
    ids=["search", "transformed", "votes", "stack"],
)
def test_weights_go_through_models_that_hold_others(around):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y, w = X[:, 0] + rng.normal(size=80), rng.integers(1, 4, size=80).astype(float)
    model = ConformalRegressor(around(KMPRegressor(5)), random_state=0)
    weighed, plain = clone(model).fit(X, y, sample_weight=w), clone(model).fit(X, y)
    rows, _ = split_rows(80, 0.25, 0)
    inner = around(KMPRegressor(5)).fit(X[rows], y[rows], sample_weight=w[rows])
    np.testing.assert_array_equal(weighed.predict(X), inner.predict(X))
    assert np.any(weighed.predict(X) != plain.predict(X))
