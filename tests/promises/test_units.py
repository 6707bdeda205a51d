"""Shifted and scaled inputs, targets and kernels give the same model, whatever the loss and the precision."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline

import kernelpursuit as kp
from kernelpursuit.fitting.fit_warnings import warn_if_one_column_rules
from kernelpursuit.losses import quantile
from kernelpursuit.math.medians import spreads
from kernelpursuit.parameters import tolerance, validation
from kernelpursuit.refined.refining import frame_of
from tests.pairwise import pairwise
from tests.problems import data

pytestmark = [
    pytest.mark.filterwarnings("ignore:the best number of atoms"),
    pytest.mark.filterwarnings("ignore:the share of training rows"),  # few steps, and not all of them refitted
]


def assert_same_model(one, two, f_one, f_two, atol=None):
    np.testing.assert_array_equal(one.support_, two.support_)
    atol = 1e-8 * np.abs(f_two).max() if atol is None else atol
    np.testing.assert_allclose(f_one, f_two, rtol=1e-8, atol=atol)


UNITS = [  # kernel, factor and shift of X, factor of y
    *((kernel, 1, 1e6, 1) for kernel in ("rbf", "laplacian")),
    *((kernel, 2.0**power, 0, 1) for kernel in ("rbf", "laplacian", "poly") for power in (-40, 3, 60)),
    *((kernel, 2.0**power, 0, 1) for kernel in ("precomputed",) for power in (-60, 5, 300)),
    *(("rbf", 1, 0, 2.0**power) for power in (-60, 5, 300)),
]


@pytest.mark.parametrize(
    "options", [{}, {"variant": "backfit"}, {"variant": "basic"}, {"loss": "huber"}, {"n_atoms": "auto"}], ids=str
)
@pytest.mark.parametrize(("kernel", "factor", "shift", "size"), UNITS)
def test_units_of_inputs_and_targets(options, kernel, factor, shift, size):
    X, y = data()
    X = rbf_kernel(X) if kernel == "precomputed" else np.round(X * 1024) / 1024  # a shift by 1e6 is exact
    gamma, degree = (0.25, 1 if kernel == "laplacian" else 2) if 0 == shift and size == 1 else ("scale", 0)
    one = kp.KMPRegressor(**{"n_atoms": 10, "kernel": kernel, "gamma": gamma} | options).fit(X, y)
    two = (
        clone(one).set_params(gamma=gamma if degree == 0 else gamma * factor**-degree).fit(factor * X + shift, size * y)
    )
    assert_same_model(one, two, one.predict(X), two.predict(factor * X + shift) / size)
    np.testing.assert_allclose(two.path_.values("loss") / size**2, one.path_.values("loss"), rtol=1e-8)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_search_refuses_targets_whose_squares_are_no_numbers(size):
    """Their scores would be 0 or infinite: the first width and one atom would win."""
    X, y = data(80)
    with pytest.raises(ValueError, match="y has values up to"):
        kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, cv=3).fit(X, y / np.abs(y).max() * size)


def test_a_search_has_scores_in_the_units_of_y():
    X, y = data(80)
    how = {"max_atoms": 5, "cv": 3, "gammas": [0.1]}
    one, two = (kp.PursuitSearchCV(kp.KMPRegressor(), **how).fit(X, y * size) for size in (1.0, 2.0**200))
    np.testing.assert_allclose(two.best_score_ / 2.0**400, one.best_score_)
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        np.testing.assert_allclose(two.cv_results_[name] / 2.0**400, one.cv_results_[name])


# ---------------------------------------------------------------------------------------------- losses

SHARES = {"absolute_error": 0.5, "low": 0.1, "high": 0.9}
LOSSES = {
    "huber": {"loss": "huber"},
    "absolute_error": {"loss": "absolute_error"},
    "low": {"loss": quantile(0.1)},
    "high": {"loss": quantile(0.9)},
}
RULES = {
    "auto": {},
    "number": {"alpha": 0.1},
    "prefit": {"variant": "prefit"},
    "basic": {"variant": "basic", "alpha": 0.1},
    "chosen": {"n_atoms": "auto", "stop": validation(patience=3)},
    "certificate": {"stop": "certificate", "random_state": 0},
    "bound": {"stop": "bound"},
    "candidates": {"candidates": 20, "random_state": 0, "alpha": 0.3},
}


def rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_t(2, size=n)


def fitted(loss, rule, X, y):
    return kp.KMPRegressor(**{"n_atoms": 5, **LOSSES[loss], **RULES[rule]}).fit(X, y)


@pytest.mark.parametrize(
    ("rule", "units", "loss"),
    pairwise(RULES, [(-3, 1), (2000, 1), (1e6, 1), (0, 1e-6), (0, 0.37), (0, 700), (0, 1e6)], LOSSES),
)
def test_predictions_are_in_the_units_of_y(loss, rule, units):
    """A number for alpha is beside the loss: it has a unit where the loss is not squared."""
    (X, y), (offset, scale) = rows(), units
    degree = 2 if loss == "huber" else 1
    model = fitted(loss, rule, X, y)
    moved = clone(model)
    if "alpha" in RULES[rule]:
        moved.set_params(alpha=model.alpha * scale ** (degree - 2))
    moved.fit(X, scale * y + offset)
    assert_same_model(moved, model, (moved.predict(X) - offset) / scale, model.predict(X), atol=1e-6)
    np.testing.assert_allclose(moved.alpha_, model.alpha_ * scale ** (degree - 2), rtol=1e-6)
    np.testing.assert_allclose(moved.path_.values("loss"), model.path_.values("loss") * scale**degree, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 37.0, 1e6])
def test_under_auto_a_factor_of_counts_is_one_of_predictions(scale):
    X, y = rows()
    counts = np.random.default_rng(1).poisson(np.exp(1 + y / 2)).astype(float)
    model, larger = (kp.KMPRegressor(6, loss="poisson").fit(X, factor * counts) for factor in (1, scale))
    assert_same_model(larger, model, larger.predict(X) / scale, model.predict(X), atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "low"])
def test_several_targets_move_one_by_one(loss):
    X, y = rows()
    both, offsets = np.c_[y, np.cos(X[:, 0]) + y / 5], np.array([1e5, -20.0])
    model, moved = (kp.KMPRegressor(6, **LOSSES[loss]).fit(X, targets) for targets in (both, both + offsets))
    assert_same_model(moved, model, moved.predict(X) - offsets, model.predict(X), atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_a_search_with_a_loss_chooses_alike_in_all_units(loss):
    X, y = rows()
    how = {"max_atoms": 6, "gammas": [0.3, 1.0], "cv": 2, "one_standard_error": True}
    model, other = (kp.PursuitSearchCV(kp.KMPRegressor(**LOSSES[loss]), **how).fit(X, t) for t in (y, 700 * y + 1e5))
    assert other.best_params_ == model.best_params_
    np.testing.assert_allclose((other.predict(X) - 1e5) / 700, model.predict(X), atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_how_far_an_outlier_is_does_not_matter(loss):
    X, y = rows()
    near, far = (kp.KMPRegressor(5, alpha=0.1, **LOSSES[loss]).fit(X, np.r_[size, y[1:]]) for size in (1e3, 1e9))
    assert_same_model(near, far, near.predict(X), far.predict(X), atol=1e-3)


def literal_loss(loss, y, weights, residuals):
    """In the units of y; for quantiles rounded off as narrowly as a fit may do it, by its residuals."""
    if loss == "huber":
        return kp.losses.huber(1.345 * spreads(y[:, None], weights)[0])
    return kp.losses.quantile(SHARES[loss], 0.025 * spreads(residuals[:, None], weights)[0])


@pytest.mark.parametrize(
    ("loss", "weighted", "units", "intercept"),
    pairwise(LOSSES, [False, True], [(0, 1), (3000, 1), (0, 1e-3), (-1e4, 1e3)], [True, False]),
)
def test_a_number_for_alpha_is_the_penalty_in_the_units_of_y(loss, weighted, units, intercept):
    X, y = rows()
    offset, scale = units if intercept else (0, units[1])
    y = scale * y + offset
    weights = np.random.default_rng(1).uniform(0.5, 3, size=len(y)) if weighted else np.ones(len(y))
    alpha = 0.1 if loss == "huber" else 0.1 / scale
    model = kp.KMPRegressor(5, alpha=alpha, stop=tolerance(0), fit_intercept=intercept, **LOSSES[loss])
    model.fit(X, y, weights if weighted else None)
    K, S = (rbf_kernel(A, model.support_vectors_, gamma=model.gamma_) for A in (X, model.support_vectors_))
    form = literal_loss(loss, y, weights, y - model.predict(X))

    def objective(v):
        c, f = v[:-1] * scale, K @ v[:-1] * scale + v[-1] * scale + offset
        slope = weights * form.gradient(y, f)
        value = weights @ form.value(y, f) + alpha * c @ S @ c
        return value, np.r_[slope @ K + 2 * alpha * S @ c, intercept * slope.sum()] * scale

    start = np.r_[model.dual_coef_ / scale, (model.intercept_ - offset) / scale]
    reached, slope = objective(start)
    best = minimize(objective, np.zeros(6), jac=True, method="BFGS")
    far = 1e-9 if loss == "huber" else 0.01  # a quantile is rounded off in a fit within twice the width
    if loss == "huber":  # it is convex: where the slope is 0 there is the least
        assert np.max(np.abs(slope)) < 1e-5 * reached
    assert reached <= best.fun * (1 + far)
    np.testing.assert_allclose(model.path_.values("loss")[-1], reached / weights.sum(), rtol=far)
    assert model.alpha_ == alpha


@pytest.mark.parametrize("alpha", ["auto", 0.02])
def test_resuming_keeps_ridge_and_path(alpha, tmp_path):
    X, y = rows()
    y = 300 + 7 * y
    whole = kp.KMPRegressor(8, loss="absolute_error", alpha=alpha).fit(X, y)
    make = clone(whole).set_params(alpha=whole.alpha_ if alpha == "auto" else alpha).set_params
    short = clone(make(n_atoms=3)).fit(X, y)
    np.testing.assert_allclose(whole.truncate(3).predict(X), short.predict(X), rtol=1e-7)
    resumed = clone(make(resume=True)).fit(X, y).set_params(n_atoms=8).fit(X, y)
    kept = clone(make(n_atoms=8, resume=tmp_path / "fit")).fit(X, y)
    for model in (resumed, kept):
        assert_same_model(model, whole, model.predict(X), whole.predict(X), atol=1e-5)
        np.testing.assert_allclose(model.path_.values("loss"), whole.path_.values("loss"), rtol=1e-7)
        assert model.alpha_ == whole.alpha_


# ---------------------------------------------------------------------------------------------- single precision


def far_rows(offset, n=80):
    """Rows as float32 holds them (map coordinates, times); little noise, so that weights are large and cancel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.02 * rng.normal(size=n)
    return (X + offset).astype(np.float32), y


def in_both(make, X, y):
    """A model of float32 rows, and of the same numbers as float64."""
    return [clone(make).fit(X.astype(dtype), y) for dtype in (np.float32, np.float64)]


@pytest.fixture(scope="module")
def models():
    return in_both(kp.RefinedKMPRegressor(6, random_state=0), *far_rows([1e5, 0]))


def test_refined_values_and_deviations(models):
    X, y = far_rows([1e5, 0])
    (values, std), (wanted, wanted_std) = (
        model.predict(X.astype(dtype), return_std=True)
        for model, dtype in zip(models, (np.float32, np.float64), strict=True)
    )
    assert values.dtype == std.dtype == np.float32
    np.testing.assert_allclose(values, wanted, atol=1e-4)
    np.testing.assert_allclose(std, wanted_std, rtol=1e-3)
    assert np.mean((values - y) ** 2) < 1.5**2 * np.mean(std**2)
    for model in models:  # rows of the other precision, and a few of them
        for dtype in (np.float32, np.float64):
            np.testing.assert_allclose(model.predict(X[:3].astype(dtype)), wanted[:3], atol=1e-4)


def test_the_formula_with_the_attributes(models):
    X = far_rows([1e5, 0])[0].astype(np.float64)
    for model in models:
        squares = ((X[:, None, :] - model.centers_[None]) * model.input_weights_) ** 2
        literal = np.exp(-squares.sum(axis=2) * model.widths_) @ model.dual_coef_ + model.intercept_
        np.testing.assert_allclose(model.predict(X), literal, atol=1e-6)


def test_files_and_graphs(models, tmp_path):
    X, _ = far_rows([1e5, 0])
    kp.save(models[0], tmp_path / "model")
    np.testing.assert_array_equal(kp.load(tmp_path / "model").predict(X), models[0].predict(X))
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    for dtype in ("float32", "float64"):
        session = runtime.InferenceSession(kp.to_onnx(models[0], dtype=dtype).SerializeToString())
        found = session.run(None, {"X": X.astype(dtype)})[0]
        np.testing.assert_allclose(found[:, 0], models[0].predict(X), atol=1e-4)


def test_refinement_of_a_model_far_from_zero(models):
    X, y = far_rows([1e5, 0])
    again = [kp.refine(models[0], X.astype(dtype), y, random_state=0) for dtype in (np.float32, np.float64)]
    np.testing.assert_allclose(again[0].predict(X), again[1].predict(X.astype(np.float64)), atol=1e-3)


def test_refined_classes_and_tensors():
    X, y = far_rows(1e5)
    classifier, labels = kp.RefinedKMPClassifier(4, epochs=10, random_state=0), y > 0
    found, wanted = in_both(classifier, X, labels)
    expected = wanted.predict_proba(X.astype(np.float64))
    np.testing.assert_allclose(found.predict_proba(X), expected, atol=1e-3)
    torch = pytest.importorskip("torch")
    with config_context(array_api_dispatch=True):
        there = clone(classifier).fit(torch.from_numpy(X), torch.from_numpy(labels))
        values = there.predict_proba(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(values, expected, atol=1e-2)


def test_searches_that_learn_weights():
    X, y = far_rows([0, 1e5])
    how = {"max_atoms": 8, "gammas": [1.0], "cv": 2, "input_weights": "learned"}
    found, wanted = in_both(kp.PursuitSearchCV(kp.KMPRegressor(alpha=1e-6), **how), X, y)
    for one, two in ((found, wanted), (found.truncate(3), wanted.truncate(3))):
        np.testing.assert_allclose(one.predict(X), two.predict(X.astype(np.float64)), atol=5e-3)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_coarse_columns_are_not_constant(offset):
    """At 1e6 float32 still tells 60 values of a normal column apart."""
    X, y = far_rows(offset)
    np.testing.assert_array_equal(frame_of(X, None).spread, frame_of(X.astype(np.float64), None).spread)
    found, wanted = in_both(kp.FeatureWidths(20, random_state=0), X, y)
    np.testing.assert_array_equal(found.weights_, wanted.weights_)


def test_columns_that_single_precision_made_constant():
    rounded = np.nextafter(np.float32(0.1), np.where(np.arange(80) % 3, 1, 0).astype(np.float32))
    assert len(np.unique(rounded)) == 2
    with pytest.warns(UserWarning, match="columns 0 of X differ between rows by hardly more than float32 rounds"):
        assert np.isinf(frame_of(rounded[:, None], None).spread[0])
    with pytest.warns(UserWarning, match="columns 0, 1 of X differ between rows"):
        kp.FeatureWidths(20, random_state=0).fit(*far_rows(1e7))


def test_weighted_columns_that_single_precision_cannot_hold():
    X, y = far_rows([1e6, 0])
    widths = kp.FeatureWidths(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="columns 0 of X lie so far from 0 that float32 rounds"):
        assert widths.transform(X).dtype == np.float32
    widths.transform(X.astype(np.float64))  # no warning
    X, y = far_rows([1e4, 0])
    make_pipeline(kp.FeatureWidths(20, random_state=0), kp.KMPRegressor(4, gamma=1.0)).fit(X, y).predict(X)


def test_no_column_seems_to_rule_for_its_offset():
    """The mean of many float32 numbers far from 0, summed in float32, is wrong by more than they vary."""
    X = (np.random.default_rng(0).normal(size=(100_000, 2)) + np.array([0, 1e6])).astype(np.float32)
    warn_if_one_column_rules(X, "rbf", "scale")  # no warning
    X[:, 1] = 50 * (X[:, 1] - 1e6) + 1e6
    with pytest.warns(UserWarning, match="column 1 of X has 100.0% of the variance"):
        warn_if_one_column_rules(X, "rbf", "scale")


@pytest.mark.parametrize("offset", [1e5, 1e6])
def test_targets_far_from_zero_beside_single_precision_rows(offset):
    """Their rounding error in float32 is more than they vary by: the model would be a constant."""
    X, y = far_rows(0)
    found, wanted = in_both(kp.KMPRegressor(10), X, offset + y)
    error = found.predict(X) - wanted.predict(X.astype(np.float64))
    assert_same_model(found, wanted, error, 0 * error, atol=offset * np.finfo(np.float32).eps)
    found, wanted = in_both(kp.PursuitNystroem(n_components=8, selection="prefit"), X, offset + y)
    np.testing.assert_array_equal(found.component_indices_, wanted.component_indices_)


@pytest.mark.parametrize("loss", ["huber", "low"])
def test_losses_of_targets_far_from_zero_beside_single_precision_rows(loss):
    X, y = rows()
    model, moved = (fitted(loss, "auto", X.astype(np.float32), y + offset) for offset in (0.0, 1e6))
    assert_same_model(moved, model, moved.dual_coef_, model.dual_coef_, atol=1e-3)
    np.testing.assert_allclose(moved.alpha_, model.alpha_, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", [0, 1e5, 1e7])
def test_faces_of_targets_far_from_zero(offset):
    X, y = far_rows(0)
    rows = X.astype(float)  # float32 predictions could not hold it
    wanted, model = kp.PolytopeFacesRegressor(20).fit(rows, y), kp.PolytopeFacesRegressor(20).fit(X, y + offset)
    assert_same_model(model, wanted, model.predict(rows) - offset, wanted.predict(rows), atol=2e-3)
    np.testing.assert_allclose(list(model.staged_predict(rows))[-1], model.predict(rows), rtol=1e-12)
    assert abs(model.truncate(0).intercept_ - offset - y.mean()) < 1e-6 * max(1, offset / 1e5)
