"""KMPRegressor: parameters, targets of all kinds, and the losses whose scale depends on the targets."""

import warnings

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import OrthogonalMatchingPursuit, QuantileRegressor
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import check_estimator

import kernelpursuit
from kernelpursuit import (
    ConformalRegressor,
    FeatureWidths,
    KMPClassifier,
    KMPRanker,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitNystroem,
    PursuitSearchCV,
    RefinedKMPRegressor,
)
from kernelpursuit.criteria import gradient
from kernelpursuit.losses import LOG, Loss, poisson, quantile
from kernelpursuit.math.medians import spreads, weighted_median
from kernelpursuit.parameters import basic, gcv, tolerance, validation
from tests.pairwise import pairwise
from tests.problems import classes, data

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_atoms", -1), ("n_atoms", "many"), ("variant", "forward"), ("loss", "cubic"), ("kernel", "gauss"),
        ("kernel", ["rbf", "gauss"]), ("kernel", [("rbf", {"width": 1})]), ("gamma", -1.0), ("gamma", "wide"),
        ("candidates", (0.1,)), ("candidates", (0.1, 2.0)), ("candidates", 0), ("alpha", -1),
        ("stop", "never"), ("memory", -1), ("centers", 0), ("kernel", 5),
        ("random_state", "seed"), ("fit_intercept", "yes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [KMPRegressor, KMPClassifier])
def test_errors_name_the_parameter(make, name, value):
    X, y = data()
    y = classes(X) if make is KMPClassifier else y
    # epsilon and quantile are named inside "candidates"
    with pytest.raises(ValueError, match=name.replace("_", "[_ ]")):
        make(**{name: value}).fit(X, y)


@pytest.mark.parametrize("options", [{"stop": validation}, {"stop": tolerance}, {"n_atoms": 3, "stop": gcv}])
def test_a_class_instead_of_a_record_is_named(options):
    X, y = data()
    with pytest.raises(ValueError, match=rf"the class {options['stop'].__name__}, not a record"):
        KMPRegressor(**options).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("equal", [False, True])
def test_columns_of_equal_length_are_chosen_as_by_orthogonal_matching_pursuit(equal, fit_intercept):
    """What the guide says of scikit-learn's estimator, which does not divide by the lengths of the columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = 3 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=80)
    columns = rbf_kernel(X, gamma=0.7)
    if equal:
        columns = columns / (columns.std(axis=0) if fit_intercept else np.linalg.norm(columns, axis=0))
    theirs = OrthogonalMatchingPursuit(n_nonzero_coefs=10, fit_intercept=fit_intercept).fit(columns, y)
    ours = KMPRegressor(10, variant="backfit", kernel="precomputed", alpha=0.0, fit_intercept=fit_intercept)
    same = np.sort(ours.fit(columns, y).support_).tolist() == np.flatnonzero(theirs.coef_).tolist()
    assert same == equal
    if equal:
        np.testing.assert_allclose(ours.predict(columns), theirs.predict(columns), rtol=1e-9)


class RootLoss(Loss):
    """sqrt(1 + r²)."""

    def value(self, y, f):
        return np.sqrt(1 + (y - f) ** 2)

    def gradient(self, y, f):
        return (f - y) / np.sqrt(1 + (y - f) ** 2)


def test_own_loss():
    X, y = data()
    model = KMPRegressor(6, loss=RootLoss(), alpha=0.0).fit(X, y)
    assert model.path_.values("loss")[-1] == pytest.approx(np.mean(np.sqrt(1 + (y - model.predict(X)) ** 2)))


# ---------------------------------------------------------------------------------------------- numbers in strings


X = np.random.default_rng(0).normal(size=(90, 3))
TEXTS = np.array([f"{v:.2f}" for v in X[:, 0]])


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(3), KMPRegressor(3, loss="absolute_error"), PolytopeFacesRegressor(3), KMPRanker(3),
        PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[0.5], cv=3),
        PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[0.5], cv=3, scoring="r2"),
        RefinedKMPRegressor(3, epochs=2, random_state=0), ConformalRegressor(random_state=0),
    ],
    ids=str,
)  # fmt: skip
def test_texts_are_the_numbers_they_spell(model):
    wanted = model.fit(X, TEXTS.astype(float)).predict(X)
    for y in (TEXTS, TEXTS.tolist(), TEXTS.astype(object), TEXTS.astype(bytes)):
        np.testing.assert_array_equal(model.fit(X, y).predict(X), wanted)


@pytest.mark.parametrize(
    "model", [KMPRegressor(3), PursuitSearchCV(KMPRegressor(), max_atoms=3), ConformalRegressor()], ids=str
)
@pytest.mark.parametrize(("text", "words"), [("nan", "NaN"), ("inf", "infinity"), ("a", "could not convert")])
def test_other_texts_are_refused(model, text, words):
    y = np.where(np.arange(90) == 7, text, TEXTS)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)


def test_several_targets_in_texts():
    two = np.column_stack([TEXTS, TEXTS[::-1]])
    wanted = KMPRegressor(3).fit(X, two.astype(float)).predict(X)
    np.testing.assert_array_equal(KMPRegressor(3).fit(X, two).predict(X), wanted)


# ---------------------------------------------------------------------------------------------- constant targets


T = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * np.random.default_rng(1).normal(size=90)
NEW = np.random.default_rng(2).normal(size=(20, 3))
ROBUST = [{"loss": "huber"}, {"loss": "absolute_error"}, *({"loss": quantile(q)} for q in (0.1, 0.5, 0.9))]


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(), KMPRegressor(10, alpha=0.0), KMPRegressor(stop="leave_one_out"),
        KMPRegressor(stop="validation", random_state=0), KMPRegressor(stop="bound"),
        KMPRegressor(stop="certificate", random_state=0), KMPRegressor(10, variant="basic"),
        *(KMPRegressor(4, **loss) for loss in ROBUST),
        PursuitSearchCV(KMPRegressor(), max_atoms=6, gammas=[0.1, 0.4], cv=2),
        PursuitSearchCV(KMPRegressor(random_state=0), max_atoms=6, gammas=[0.5, 2.0], cv=2, input_weights="learned"),
        RefinedKMPRegressor(4, epochs=20, random_state=0),
    ],
    ids=lambda model: str(model).replace("\n", ""),
)  # fmt: skip
def test_a_constant_among_targets_changes_nothing(model):
    alone = clone(model).fit(X, T)
    for constant in (0.1, -1e9):
        found = clone(model).fit(X, np.column_stack([T, np.full(90, constant)]))
        values = found.predict(NEW)
        np.testing.assert_allclose(values[:, 0], alone.predict(NEW), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(values[:, 1], constant, rtol=1e-9)


def test_the_ridge_beside_constants_and_with_weights():
    """Rows of weight 0 are absent: a target that varies in these alone is constant."""
    alone = KMPRegressor(20).fit(X, T)
    many = KMPRegressor(20).fit(X, np.column_stack([np.ones((90, 4)), T]))
    assert many.alpha_ == pytest.approx(alone.alpha_, rel=1e-9)
    np.testing.assert_array_equal(many.truncate(3).predict(NEW)[:, 0], 1.0)
    w = (np.arange(90) >= 10).astype(float)
    unseen = np.where(w > 0, 7.0, 1e6 * T)
    found = KMPRegressor(20).fit(X, np.column_stack([T, unseen]), sample_weight=w)
    assert found.alpha_ == pytest.approx(KMPRegressor(20).fit(X, T, sample_weight=w).alpha_, rel=1e-9)
    np.testing.assert_array_equal(found.predict(NEW)[:, 1], 7.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_size_of_a_constant_does_not_hide_the_others(dtype):
    """Targets are fitted until what is left is their rounding error, which is not that of a large constant."""
    smooth = np.sin(X[:, 0]).astype(dtype)
    both = np.column_stack([smooth, np.full(90, 1e8 if dtype == np.float32 else 1e16)])
    alone, found = (KMPRegressor(8).fit(X.astype(dtype), y) for y in (smooth, both))
    np.testing.assert_array_equal(found.support_, alone.support_)
    names = {"selection": "prefit", "n_components": 8}
    chosen = [PursuitNystroem(**names).fit(X.astype(dtype), y).component_indices_ for y in (smooth, both)]
    np.testing.assert_array_equal(*chosen)


@pytest.mark.filterwarnings("ignore:n_atoms=2 terms were asked for")
@pytest.mark.parametrize("constant", [0.1, 16777217.0, 1e6 + 0.1])
@pytest.mark.parametrize("model", [KMPRegressor(4), RefinedKMPRegressor(2, epochs=1, random_state=0)], ids=str)
def test_the_score_does_not_take_the_rounding_of_a_constant_for_an_error(model, constant):
    """Such a constant is no number of float32, in which predictions beside float32 rows are."""
    single, both = X.astype(np.float32), np.column_stack([T, np.full(90, constant)])
    alone = clone(model).fit(single, T).score(single, T)
    found = clone(model).fit(single, both)
    assert found.score(single, both) == pytest.approx((alone + 1) / 2, abs=1e-6)
    for dtype in (np.float32, np.float64):
        y = both[:, 1].astype(dtype)
        assert clone(model).fit(single, y).score(single, y) == 1
        assert clone(model).fit(single, y).score(single, 2 * y, sample_weight=np.ones(90)) == 0


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_the_score_is_the_same_for_any_size(size):
    found, expected = (KMPRegressor(4).fit(X, T * scale).score(X, T * scale) for scale in (size, 1.0))
    assert 0 < expected < 1 and found == pytest.approx(expected)


def test_a_constant_without_an_intercept_is_a_target():
    found = KMPRegressor(15, fit_intercept=False).fit(X, np.column_stack([T, np.ones(90)]))
    assert np.any(found.dual_coef_[:, 1] != 0)
    np.testing.assert_array_equal(found.intercept_, 0)


def test_of_targets_that_are_all_constant_the_model_is_them():
    y = np.column_stack([np.full(90, 0.1), np.full(90, -3.0)])
    np.testing.assert_array_equal(KMPRegressor(3).fit(X, y).predict(NEW), y[:20])


def test_constants_beside_refined_models_and_weights_of_inputs():
    alone = RefinedKMPRegressor(4, epochs=20, random_state=0).fit(X, T)
    found = RefinedKMPRegressor(4, epochs=20, random_state=0).fit(X, np.column_stack([np.full(90, 5.0), T]))
    np.testing.assert_allclose(found.centers_, alone.centers_, rtol=1e-6)
    np.testing.assert_allclose(found.noise_, [0, alone.noise_], rtol=1e-6)
    std = found.predict(NEW, return_std=True)[1]
    np.testing.assert_array_equal(std[:, 0], 0)
    np.testing.assert_allclose(std[:, 1], alone.predict(NEW, return_std=True)[1], rtol=1e-6)
    both = np.column_stack([np.full(90, 0.3), T, np.ones(90)])
    alone, found = (FeatureWidths(30, random_state=0).fit(X, y) for y in (T, both))
    np.testing.assert_allclose(found.weights_, alone.weights_, rtol=1e-6)
    assert found.noise_ == pytest.approx(alone.noise_)


@pytest.mark.parametrize("constant", [1e6, -5.0, 0.0])
@pytest.mark.parametrize("loss", ROBUST)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_robust_losses_predict_a_constant(loss, constant, dtype):
    y, weights = np.full(90, constant, dtype), np.ones(90)
    y[0], weights[0] = 7, 0  # which is absent
    model = KMPRegressor(3, **loss).fit(X.astype(dtype), y, weights)
    np.testing.assert_allclose(model.predict(X[:3].astype(dtype)), y[1], rtol=1e-6)


# ---------------------------------------------------------------------------------------------- losses by the spread


def heavy_tails(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_t(2, size=n)


def price_and_rate(seed, n=200):
    """Two targets that depend on different inputs, the second in units that are smaller by seven digits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    price = 2e5 * np.exp(0.5 * np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n))
    return X, np.c_[price, 0.03 + 0.01 * np.cos(2 * X[:, 1]) + 0.003 * rng.normal(size=n)]


def test_a_target_in_small_units_has_its_own_quantile():
    X, y = heavy_tails(300)
    scales = np.array([1.0, 1000.0, 2000.0, 3000.0])
    model = KMPRegressor(0, loss=quantile(0.9)).fit(X, y[:, None] * scales)
    alone = KMPRegressor(0, loss=quantile(0.9)).fit(X, y).intercept_
    np.testing.assert_allclose(model.intercept_ / scales, alone, rtol=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["ties", "two values", "one outlier"])
def test_the_constant_of_tied_targets_is_a_quantile(kind, share):
    X, y = heavy_tails(401)
    y = {
        "ties": np.where(np.arange(401) % 4 < 3, 100.0, 100 + y),
        "two values": (np.arange(401) % 4 == 0).astype(float),
        "one outlier": np.where(np.arange(401) == 0, 1e3, 1.0),
    }[kind]
    expected = QuantileRegressor(quantile=share, alpha=0).fit(np.zeros((401, 1)), y).intercept_
    model = KMPRegressor(0, loss=quantile(share)).fit(X, y)
    assert abs(model.intercept_ - expected) <= 0.05 * spreads(y[:, None], None)[0] < 0.01


@pytest.mark.parametrize("n", [30, 31])
@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
@pytest.mark.parametrize("alpha", ["auto", 0.1])
def test_a_change_of_sign_changes_the_sign(n, loss, alpha):
    X, y = heavy_tails(n)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=n)
    for given in ({}, {"sample_weight": np.r_[weights[: n // 2], weights[: n - n // 2]]}):
        model, other = (KMPRegressor(4, loss=loss, alpha=alpha).fit(X, one, **given) for one in (y, -y))
        np.testing.assert_array_equal(model.predict(X), -other.predict(X))


def test_a_weighted_median_is_that_of_repeated_values():
    rng = np.random.default_rng(0)
    for size in range(1, 12):
        values, counts = rng.integers(0, 9, size=size).astype(float), rng.integers(1, 5, size=size)
        assert weighted_median(values, counts * 0.1) == np.median(np.repeat(values, counts))


@pytest.mark.parametrize("alpha", ["auto", 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_target_in_small_units_is_fitted_nearly_as_well_as_alone(seed, alpha):
    X, Y = price_and_rate(seed)
    options = {"n_atoms": 20, "loss": "absolute_error", "alpha": alpha}
    both, alone = (KMPRegressor(**options).fit(X, y).predict(X) for y in (Y, Y[:, 1]))
    errors = [np.mean(np.abs(Y[:, 1] - one)) for one in (both[:, 1], alone)]
    assert errors[0] < 1.3 * errors[1]  # the atoms serve both


@pytest.mark.parametrize("loss", ROBUST)
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 0.1, 1e8])
def test_each_target_is_fitted_to_the_atoms_as_if_it_were_alone(scale, loss):
    X, Y = price_and_rate(0, 100)
    Y = np.c_[Y[:, 0] / 1e5, Y[:, 1] * 100 * scale]
    both = KMPRegressor(8, alpha=0.0, **loss).fit(X, Y)
    for t in range(2):
        alone = KMPRegressor(8, alpha=0.0, centers=both.support_vectors_, gamma=both.gamma_, **loss).fit(X, Y[:, t])
        spread = np.std(Y[:, t])
        np.testing.assert_allclose(both.predict(X)[:, t] / spread, alone.predict(X) / spread, atol=0.02)


@pytest.mark.parametrize("loss", ROBUST[1:])
@pytest.mark.parametrize("scale", [1e-8, 100.0])
def test_a_target_in_other_units_has_the_ridge_of_these(scale, loss):
    X, y = heavy_tails(100)
    model = KMPRegressor(8, **loss).fit(X, np.c_[y, scale * y])
    assert model.alpha_[1] == pytest.approx(model.alpha_[0] / scale, rel=1e-6)  # of weights squared
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted[:, 1] / scale, predicted[:, 0], atol=1e-4)


def test_weights_that_do_not_minimise_the_loss_are_named(monkeypatch):
    """With an optimiser that gives up at once, until the fit is over."""
    X, Y = price_and_rate(0, 60)
    unconverged = gradient.Gradient.unconverged

    def impatient(*given, options, **more):
        return minimize(*given, options=options | {"maxiter": 1}, **more)

    def asked(criterion):
        monkeypatch.setattr(gradient, "minimize", minimize)
        return unconverged(criterion)

    monkeypatch.setattr(gradient, "minimize", impatient)
    monkeypatch.setattr(gradient.Gradient, "unconverged", asked)
    with pytest.warns(ConvergenceWarning, match="do not minimise the loss of column [01] of y"):
        KMPRegressor(15, loss="absolute_error", alpha=0.0).fit(X, Y)


# ---------------------------------------------------------------------------------------------- quantiles


NOISES = {"normal": np.random.Generator.normal, "exponential": np.random.Generator.exponential}
MODELS = {"plain": {}, "auto": {"n_atoms": "auto", "stop": validation(patience=3)}, "no ridge": {"alpha": 0}}


def wave(noise="normal", size=0.03, n=600):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    return X, np.sin(X[:, 0]) + NOISES[noise](rng, scale=size, size=n)


def share_below(model, X, y, weights=None):
    return np.average(y <= model.predict(X), axis=0, weights=weights)


@pytest.mark.parametrize(
    "share, size, noise, options", pairwise([0.05, 0.1, 0.5, 0.9, 0.95], [0.01, 0.03, 0.1, 1.0], NOISES, MODELS)
)
def test_the_share_of_rows_below_is_the_one_asked_for(share, size, noise, options):
    X, y = wave(noise, size)
    model = KMPRegressor(**{"n_atoms": 12, "gamma": 0.5, **MODELS[options]}, loss=quantile(share)).fit(X, y)
    assert abs(share_below(model, X, y) - share) < 0.02
    assert np.all(np.diff(model.path_.values("loss")) <= 1e-9) or model.alpha_  # as the rounding narrows


@pytest.mark.parametrize("size", [0.01, 0.1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_half_of_the_rows_lie_below_medians_of_skewed_noise(size, dtype):
    X, y = wave("exponential", size)
    X = X.astype(dtype)
    assert abs(share_below(KMPRegressor(12, gamma=0.5, loss="absolute_error").fit(X, y), X, y) - 0.5) < 0.02


def test_quantiles_of_each_target_weights_and_stages():
    X, y = wave()
    targets = np.c_[y, 300 * wave(size=0.5)[1], 7 + 0 * y]
    model = KMPRegressor(12, gamma=0.5, loss=quantile(0.9)).fit(X, targets)
    np.testing.assert_allclose(share_below(model, X, targets)[:2], 0.9, atol=0.02)
    weights = np.random.default_rng(1).uniform(0, 2, size=len(y)) * (1 + 9 * (X[:, 0] > 1))
    model = KMPRegressor(12, gamma=0.5, loss=quantile(0.1)).fit(X, y, weights)
    assert abs(share_below(model, X, y, weights) - 0.1) < 0.02
    model = KMPRegressor(10, gamma=0.5, alpha=0, loss=quantile(0.9)).fit(X, y)
    for values in model.staged_predict(X):
        assert abs(np.mean(y <= values) - 0.9) < 0.03


def test_without_noise_the_fit_goes_on():
    X = np.linspace(-3, 3, 200)[:, None]
    model = KMPRegressor(15, gamma=0.5, alpha=0, loss=quantile(0.9)).fit(X, np.sin(X[:, 0]))
    assert np.max(np.abs(model.predict(X) - np.sin(X[:, 0]))) < 1e-3


def test_medians_do_not_follow_outliers():
    X, y = wave(size=0.1, n=200)
    y[::10] += 30
    model = KMPRegressor(8, loss="absolute_error").fit(X, y)
    same = KMPRegressor(8, loss=quantile(0.5)).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert np.mean(np.abs(model.predict(X) - np.sin(X[:, 0]))) < 0.1
    search = PursuitSearchCV(KMPRegressor(loss="absolute_error"), max_atoms=6, gammas=[0.5], cv=3).fit(X, y)
    assert np.mean(np.abs(search.predict(X) - np.sin(X[:, 0]))) < 0.2


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_search_is_scored_by_the_loss_without_rounding(share):
    X, y = wave(n=300)
    model = PursuitSearchCV(KMPRegressor(loss=quantile(share)), max_atoms=10, gammas=[0.5], cv=2).fit(X, y)
    assert abs(share_below(model, X, y) - share) < 0.02
    half = len(y) // 2
    found = []
    for train, test in ((slice(half, None), slice(half)), (slice(half), slice(half, None))):
        part = KMPRegressor(10, gamma=0.5, loss=quantile(share)).fit(X[train], y[train])
        r = y[test] - list(part.staged_predict(X[test]))[-1]
        found.append(-2 * np.mean(np.maximum(share * r, (share - 1) * r)))
    np.testing.assert_allclose(model.cv_results_["mean_test_score"][-1], np.mean(found), rtol=1e-3)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("sigma", [2, 3, 5, 8])
def test_low_quantiles_of_skewed_noise(sigma, share, sign):
    """Rows are much closer to each other there than they are spread; once none of them lay below, without a word."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(1000, 1))
    y = sign * np.exp(X[:, 0] + sigma * rng.normal(size=1000))
    model = KMPRegressor(4, loss=quantile(share if sign > 0 else 1 - share))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        below = share_below(model.fit(X, y), X, y)
    off = abs((below if sign > 0 else 1 - below) - share)
    is_said = any("share of training rows below" in str(one.message) for one in said)
    assert off <= 0.2 * share + 0.006 or (sigma > 3 and is_said)
    assert not is_said or off > 0.4 * share


@pytest.mark.parametrize("options", [{"variant": "basic"}, {"fit_intercept": False, "gamma": 50.0}])
def test_a_share_that_is_another_is_said(options):
    X, y = wave()
    model = KMPRegressor(3, loss=quantile(0.9), **options)
    with pytest.warns(ConvergenceWarning, match=next(iter(options))):
        model.fit(X, y - 5)
    assert abs(share_below(model, X, y - 5) - 0.9) > 0.05


def test_a_small_share_that_is_another_is_said():
    """By its size: no row below is far from a twentieth of them."""
    X, y = wave()
    model = KMPRegressor(3, loss=quantile(0.04), variant=basic(0.5))
    with pytest.warns(ConvergenceWarning, match="share of training rows below.*variant='basic'"):
        model.fit(X, y)
    assert 0.02 < abs(share_below(model, X, y) - 0.04) < 0.05


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_loss_of_a_quantile_and_its_derivative(share):
    loss = quantile(share, 0.05)
    y = np.random.default_rng(0).normal(size=400)
    grid = np.linspace(-2, 2, 2001)
    best = grid[np.argmin([np.sum(loss.value(y, np.full(400, f))) for f in grid])]
    assert best == pytest.approx(np.quantile(y, share), abs=0.06)
    for f in (-1.3, 0.02, 0.7):
        value = lambda f: float(np.sum(loss.value(y[:9], f * np.ones(9))))  # noqa: E731
        slope = lambda f: float(np.sum(loss.gradient(y[:9], f * np.ones(9))))  # noqa: E731
        assert check_grad(value, slope, [f]) < 1e-5
    for arguments, name in (((0,), "share"), ((1.0, 0.1), "share"), (("half",), "share"), ((0.5, 0), "width")):
        with pytest.raises(ValueError, match=name):
            quantile(*arguments)


# ---------------------------------------------------------------------------------------------- counts


def counts(n=300):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    mean = np.exp(1 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1])
    return X, rng.poisson(mean), mean


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_poisson_weights_minimise_the_deviance(alpha, weighted):
    """Against a direct minimisation over the chosen atoms."""
    X, y, _ = counts(80)
    w = np.arange(len(y)) % 3 + 1.0 if weighted else np.ones(len(y))
    model = KMPRegressor(4, loss="poisson", alpha=alpha, gamma=0.5).fit(X, y, sample_weight=w if weighted else None)
    K, G = rbf_kernel(X, model.support_vectors_, 0.5), rbf_kernel(model.support_vectors_, gamma=0.5)

    def objective(c):
        f = c[0] + K @ c[1:]
        return np.sum(w * poisson().value(y.astype(float), f)) + alpha * c[1:] @ G @ c[1:]

    best = minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    ours = objective(np.concatenate([[model.intercept_], model.dual_coef_]))
    assert ours <= best.fun + 1e-6
    np.testing.assert_allclose(model.predict(X), np.exp(best.x[0] + K @ best.x[1:]), rtol=1e-3)
    assert model.path_.steps[-1].loss == pytest.approx(ours / np.sum(w), rel=1e-9)
    y, f, h = np.array([0.0, 1.0, 7.5]), np.array([-1.0, 0.3, 2.0]), 1e-6
    slope = (poisson().value(y, f + h) - poisson().value(y, f - h)) / (2 * h)
    np.testing.assert_allclose(poisson().gradient(y, f), slope, rtol=1e-6)


def test_the_mean_of_counts():
    """With an intercept a fit by the deviance has the mean of the targets, whatever their size."""
    X, y, _ = counts()
    for scale in (1e-6, 1.0, 1e9):
        model = KMPRegressor(5, loss="poisson", alpha=0).fit(X, scale * y)
        assert np.mean(model.predict(X)) == pytest.approx(scale * np.mean(y), rel=1e-4)
        assert model.truncate(0).predict(X)[0] == pytest.approx(scale * np.mean(y), rel=1e-6)


def test_closer_to_the_means_than_least_squares():
    X, y, mean = counts(600)
    train, test = slice(300), slice(300, None)
    found = KMPRegressor(30, loss="poisson").fit(X[train], y[train]).predict(X[test])
    squares = np.maximum(KMPRegressor(30).fit(X[train], y[train]).predict(X[test]), 0.1)
    assert np.all(found > 0)
    assert mean_poisson_deviance(mean[test], found) < 0.7 * mean_poisson_deviance(mean[test], squares)


def test_a_ridge_for_counts_by_default():
    """Forty atoms on 300 counts overfit without one; in other units the model is the same."""
    X, y, mean = counts()
    ours, none = (KMPRegressor(40, loss="poisson", alpha=alpha).fit(X, y) for alpha in ("auto", 0))
    assert ours.alpha_ > 0
    assert mean_poisson_deviance(mean, ours.predict(X)) < 0.5 * mean_poisson_deviance(mean, none.predict(X))
    scaled = KMPRegressor(40, loss="poisson").fit(X, 1000.0 * y)
    assert scaled.alpha_ == pytest.approx(1000 * ours.alpha_, rel=1e-6)
    np.testing.assert_allclose(scaled.predict(X), 1000 * ours.predict(X), rtol=1e-2)
    chosen = KMPRegressor(loss="poisson").fit(X, y)
    assert chosen.path_.reason == "validation" and 2 < len(chosen.support_) < 60


def test_counts_in_single_precision():
    X, y, _ = counts()
    single = KMPRegressor(6, loss="poisson").fit(X.astype("f4"), y).predict(X.astype("f4"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, KMPRegressor(6, loss="poisson").fit(X, y).predict(X), rtol=1e-3)


def test_targets_that_have_no_mean_to_fit_are_refused():
    X, y, _ = counts(50)
    for model, given, said in (
        (KMPRegressor(loss="poisson"), y - y.min() - 1, "loss='poisson' needs targets from 0 on, got -1 in y"),
        (KMPRegressor(loss="poisson"), 0 * y, "some targets above 0"),
        (KMPRegressor(loss="poisson"), y * 1e40, "scale them"),
        (KMPRegressor(5, loss="poisson", stop="bound"), y, "stop='bound' counts large residuals"),
        (KMPRegressor(5, loss="poisson", stop="certificate"), y, "stop='certificate' counts large residuals"),
        (KMPRegressor(loss="poisson", stop="leave_one_out"), y, "leave_one_out"),
        (ConformalRegressor(KMPRegressor(5, loss="poisson"), calibration_fraction=None), y, "calibration_fraction"),
        (KMPClassifier(loss="poisson"), y > 1, "loss"),
    ):
        with pytest.raises(ValueError, match=said):
            model.fit(X, given)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="loss='poisson' is not for Dask collections"):
        KMPRegressor(5, loss="poisson").fit(da.from_array(X), da.from_array(y))


def test_a_search_of_counts_and_intervals_around_means():
    X, y, _ = counts(600)
    model = PursuitSearchCV(KMPRegressor(loss="poisson"), max_atoms=6, gammas=[0.3], cv=3).fit(X, y)
    scored = clone(model).set_params(scoring="neg_mean_poisson_deviance").fit(X, y)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], scored.cv_results_["mean_test_score"], rtol=1e-6)
    model = ConformalRegressor(KMPRegressor(10, loss="poisson"), random_state=0).fit(X[:400], y[:400])
    low, high = model.predict_interval(X[400:]).T
    assert abs(np.mean((low <= y[400:]) & (y[400:] <= high)) - 0.9) < 0.07


def test_models_of_counts_are_kept_and_converted(tmp_path):
    pytest.importorskip("safetensors")
    X, y, _ = counts()
    model = KMPRegressor(6, loss="poisson").fit(X, y)
    kernelpursuit.save(model, tmp_path / "model")
    np.testing.assert_array_equal(kernelpursuit.load(tmp_path / "model").predict(X), model.predict(X))
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    for one in (model, PursuitSearchCV(KMPRegressor(loss="poisson"), max_atoms=3, gammas=[0.3], cv=2).fit(X, y)):
        graph = kernelpursuit.to_onnx(one)
        (values,) = runtime.InferenceSession(graph.SerializeToString()).run(None, {"X": X})
        np.testing.assert_allclose(values.ravel(), one.predict(X), rtol=1e-9)


def test_a_link_of_your_own():
    """A Loss with a link predicts on the scale of the targets; the name and the object are one model."""
    X, y, _ = counts(100)
    model = KMPRegressor(5, loss=poisson(), alpha=0.1).fit(X, y)
    named = KMPRegressor(5, loss="poisson", alpha=0.1).fit(X, y)
    np.testing.assert_allclose(model.predict(X), named.predict(X), rtol=1e-6)
    assert isinstance(poisson(), Loss) and poisson().link is LOG


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks():
    """All that scikit-learn asks of a regressor of positive targets; one check gives several targets of both signs."""
    negative = {"check_regressor_multioutput": "its targets are negative whatever the tags say"}
    check_estimator(KMPRegressor(3, loss="poisson"), expected_failed_checks=negative)


def small_and_large_counts(n=300):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    visits, cents = 3 * np.exp(np.sin(2 * X[:, 0])), 30000 * np.exp(np.sin(2 * X[:, 1]))
    return X, np.c_[rng.poisson(visits), rng.poisson(cents)].astype(float)


def test_small_counts_have_a_ridge_of_their_own_beside_large_ones():
    X, Y = small_and_large_counts()
    model = KMPRegressor(20, loss="poisson").fit(X, Y)
    np.testing.assert_allclose(model.alpha_[1] / model.alpha_[0], np.mean(Y[:, 1]) / np.mean(Y[:, 0]), rtol=0.05)
    explained = [d2_tweedie_score(y, f, power=1) for y, f in zip(Y.T, model.predict(X).T, strict=True)]
    assert explained[0] > 0.3 and explained[1] > 0.9


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_the_ridge_of_each_target_is_the_penalty_of_its_weights(loss):
    """Against a fit of one target to the same atoms, with the ridge as a number."""
    X, Y = small_and_large_counts(100)
    both = KMPRegressor(6, loss=loss).fit(X, Y)
    for t in range(2):
        options = {"centers": both.support_vectors_, "gamma": both.gamma_, "alpha": both.alpha_[t]}
        alone = KMPRegressor(6, loss=loss, **options).fit(X, Y[:, t])
        np.testing.assert_allclose(both.predict(X)[:, t], alone.predict(X), rtol=1e-4)


def test_a_fit_that_goes_on_keeps_the_ridge_of_each_target(tmp_path):
    X, Y = small_and_large_counts(100)
    model = KMPRegressor(4, loss="poisson", resume=True).fit(X, Y)
    ridge = model.alpha_
    model.set_params(n_atoms=6).fit(X, Y)
    np.testing.assert_array_equal(model.alpha_, ridge)
    kernelpursuit.save(model, tmp_path / "model.kmp")
    np.testing.assert_array_equal(kernelpursuit.load(tmp_path / "model.kmp").alpha_, ridge)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_classes_share_a_ridge(loss):
    X, y, _ = counts(60)
    assert np.ndim(KMPClassifier(4, loss=loss).fit(X, np.digitize(y, [1, 3])).alpha_) == 0
