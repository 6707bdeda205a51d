"""The Poisson loss of the regressors: the logarithm of a mean is fitted, and the mean is predicted."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import check_estimator

import kernelpursuit
from kernelpursuit import ConformalRegressor, KMPClassifier, KMPRegressor, PursuitSearchCV
from kernelpursuit.losses import LOG, Loss, poisson


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    mean = np.exp(1 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1])
    return X, rng.poisson(mean), mean


def test_the_gradient_is_the_derivative():
    y, f = np.array([0.0, 1.0, 7.5]), np.array([-1.0, 0.3, 2.0])
    loss, h = poisson(), 1e-6
    np.testing.assert_allclose(loss.gradient(y, f), (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_minimise_the_deviance(alpha, weighted):
    """Against a direct minimisation over the chosen atoms."""
    X, y, _ = data(80)
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


def test_the_mean_of_the_targets_without_atoms():
    """With an intercept a fit by the deviance has the mean of the targets, whatever their size."""
    X, y, _ = data()
    for scale in (1e-6, 1.0, 1e9):
        model = KMPRegressor(5, loss="poisson", alpha=0).fit(X, scale * y)
        assert np.mean(model.predict(X)) == pytest.approx(scale * np.mean(y), rel=1e-4)
        assert model.truncate(0).predict(X)[0] == pytest.approx(scale * np.mean(y), rel=1e-6)


def test_closer_to_the_means_than_least_squares():
    X, y, mean = data(600)
    train, test = slice(300), slice(300, None)
    counts = KMPRegressor(30, loss="poisson").fit(X[train], y[train]).predict(X[test])
    squares = np.maximum(KMPRegressor(30).fit(X[train], y[train]).predict(X[test]), 0.1)
    assert np.all(counts > 0)
    assert mean_poisson_deviance(mean[test], counts) < 0.7 * mean_poisson_deviance(mean[test], squares)


def test_a_ridge_by_default():
    """Forty atoms on 300 counts overfit without one; in other units the model is the same."""
    X, y, mean = data()
    ours, none = (KMPRegressor(40, loss="poisson", alpha=alpha).fit(X, y) for alpha in ("auto", 0))
    assert ours.alpha_ > 0
    assert mean_poisson_deviance(mean, ours.predict(X)) < 0.5 * mean_poisson_deviance(mean, none.predict(X))
    scaled = KMPRegressor(40, loss="poisson").fit(X, 1000.0 * y)
    assert scaled.alpha_ == pytest.approx(1000 * ours.alpha_, rel=1e-6)
    np.testing.assert_allclose(scaled.predict(X), 1000 * ours.predict(X), rtol=1e-2)


def test_the_number_of_atoms_is_chosen_on_rows_held_out():
    X, y, _ = data()
    model = KMPRegressor(loss="poisson").fit(X, y)
    assert model.path_.reason == "validation" and 2 < len(model.support_) < 60


def test_several_targets_and_single_precision():
    X, y, _ = data()
    both = KMPRegressor(6, loss="poisson").fit(X, np.column_stack([y, 10 * y]))
    assert both.predict(X).shape == (len(y), 2) and np.all(both.predict(X) > 0)
    single = KMPRegressor(6, loss="poisson").fit(X.astype("f4"), y)
    assert single.predict(X.astype("f4")).dtype == np.float32
    np.testing.assert_allclose(
        single.predict(X.astype("f4")), KMPRegressor(6, loss="poisson").fit(X, y).predict(X), rtol=1e-3
    )


def test_targets_that_have_no_mean_to_fit_are_refused():
    X, y, _ = data(50)
    with pytest.raises(ValueError, match=r"loss='poisson' needs targets from 0 on, got -1 in y"):
        KMPRegressor(loss="poisson").fit(X, y - y.min() - 1)
    with pytest.raises(ValueError, match="some targets above 0"):
        KMPRegressor(loss="poisson").fit(X, 0 * y)
    with pytest.raises(ValueError, match="scale them"):
        KMPRegressor(loss="poisson").fit(X, y * 1e40)
    for stop in ("bound", "certificate"):
        with pytest.raises(ValueError, match=f"stop='{stop}' counts large residuals"):
            KMPRegressor(5, loss="poisson", stop=stop).fit(X, y)
    with pytest.raises(ValueError, match="leave_one_out"):
        KMPRegressor(loss="poisson", stop="leave_one_out").fit(X, y)
    with pytest.raises(ValueError, match="calibration_fraction=None"):
        ConformalRegressor(KMPRegressor(5, loss="poisson"), calibration_fraction=None).fit(X, y)
    with pytest.raises(ValueError, match="loss"):
        KMPClassifier(loss="poisson").fit(X, y > 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_scores_by_the_deviance():
    X, y, _ = data()
    model = PursuitSearchCV(KMPRegressor(loss="poisson"), max_atoms=6, gammas=[0.3], cv=3).fit(X, y)
    scored = PursuitSearchCV(
        KMPRegressor(loss="poisson"), max_atoms=6, gammas=[0.3], cv=3, scoring="neg_mean_poisson_deviance"
    ).fit(X, y)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], scored.cv_results_["mean_test_score"], rtol=1e-6)


def test_intervals_around_means():
    X, y, _ = data(600)
    model = ConformalRegressor(KMPRegressor(10, loss="poisson"), random_state=0).fit(X[:400], y[:400])
    low, high = model.predict_interval(X[400:]).T
    assert abs(np.mean((low <= y[400:]) & (y[400:] <= high)) - 0.9) < 0.07


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_saved_and_in_onnx(tmp_path):
    pytest.importorskip("safetensors")
    X, y, _ = data()
    model = KMPRegressor(6, loss="poisson", resume=str(tmp_path / "fit")).fit(X, y)
    again = KMPRegressor(6, loss="poisson", resume=str(tmp_path / "fit")).fit(X, y)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)
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
    X, y, _ = data(100)
    model = KMPRegressor(5, loss=poisson(), alpha=0.1).fit(X, y)
    named = KMPRegressor(5, loss="poisson", alpha=0.1).fit(X, y)
    np.testing.assert_allclose(model.predict(X), named.predict(X), rtol=1e-6)
    assert isinstance(poisson(), Loss) and poisson().link is LOG


def test_dask_collections_are_refused():
    da = pytest.importorskip("dask.array")
    X, y, _ = data()
    with pytest.raises(ValueError, match="loss='poisson' is not for Dask collections"):
        KMPRegressor(5, loss="poisson").fit(da.from_array(X), da.from_array(y))


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


def test_the_ridge_of_each_target_goes_with_its_size():
    X, y, _ = data(100)
    scales = np.array([1.0, 1e-3, 1e5])
    model = KMPRegressor(8, loss="poisson").fit(X, y[:, None] * scales)
    np.testing.assert_allclose(model.alpha_ / scales, model.alpha_[0], rtol=1e-6)
    predicted = model.predict(X) / scales
    np.testing.assert_allclose(predicted, predicted[:, :1] + np.zeros(3), rtol=1e-4)


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
    X, y, _ = data(60)
    assert np.ndim(KMPClassifier(4, loss=loss).fit(X, np.digitize(y, [1, 3])).alpha_) == 0
