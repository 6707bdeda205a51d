"""Stopping by a certificate: the bound on the path is the one computed by hand from the rows held out."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import BoundDisplay, KMPClassifier, KMPRegressor, SparseKernelFDA, SparseKernelPCA
from kernelpursuit.bounds import holdout_bound, path_weights
from kernelpursuit.fitting.pipeline import generator
from kernelpursuit.parameters import bound, certificate, gcv

SAMPLES = 200  # of 1,000 fits 29 failed, where 50 may; mean gap 0.154, of the plain test bound 0.148


def noisy_classes(n, rng, classes=2):
    X = rng.normal(size=(n, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), np.linspace(-1, 1, classes + 1)[1:-1])
    return X, y


def parts(n, seed, share=0.2):
    order = generator(seed).permutation(n)
    size = int(np.ceil(share * n))
    return np.sort(order[size:]), np.sort(order[:size])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_certificate_of_a_classifier_by_hand(n_classes):
    X, y = noisy_classes(203, np.random.default_rng(0), n_classes)
    model = KMPClassifier(stop=certificate(patience=6), random_state=3, gamma=0.5).fit(X, y)
    train, held_out = parts(203, 3)
    plain = KMPClassifier(gamma=0.5, stop=gcv(patience=6)).fit(X[train], y[train])  # the same path
    preferred, steps = len(plain.path_), len(plain.path_) + len(plain.path_.discarded)
    models = [plain.truncate(k) for k in range(steps + 1)]
    errors = np.array([np.sum(one.predict(X[held_out]) != y[held_out]) for one in models])
    bounds = holdout_bound(errors, len(held_out), weight=path_weights(steps, preferred))
    assert len(model.path_) == np.argmin(bounds) and model.path_.reason == "certificate"
    noted = [step.bound for step in [model.path_.start, *model.path_.steps, *model.path_.discarded]]
    np.testing.assert_allclose(noted, bounds)
    np.testing.assert_array_equal(model.support_, train[models[len(model.path_)].support_])
    np.testing.assert_allclose(model.decision_function(X), models[len(model.path_)].decision_function(X))
    assert f"{bounds.min():.3g}" in model.path_.sentence
    assert model.truncate(2).path_.steps[-1].bound == pytest.approx(bounds[2])


def test_certificate_of_a_regressor_counts_misses_beyond_the_spread_of_its_own_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 1))
    y = 1000 * (np.sin(2 * X[:, 0]) + rng.standard_t(2, size=150))
    model = KMPRegressor(stop="certificate", random_state=0, n_atoms=15).fit(X, y)
    train, held_out = parts(150, 0)
    plain = KMPRegressor(stop="gcv", n_atoms=15).fit(X[train], y[train])
    missed = np.sum(np.abs(model.predict(X[held_out]) - y[held_out]) > y[train].std())
    weights = path_weights(len(plain.path_) + len(plain.path_.discarded), preferred=len(plain.path_))
    bound = holdout_bound(missed, len(held_out), weight=weights[len(model.path_)])
    assert model.path_.values("bound")[-1] == pytest.approx(bound)


def test_the_documented_place_of_a_certificate_is_there_for_a_constant():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 2, 150)
    found = set()
    for seed in range(8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KMPClassifier(20, gamma=0.5, stop="certificate", random_state=seed).fit(X, y)
        promised = model.path_.values("bound")[-1]
        assert f"{promised:.3g}" in model.path_.sentence
        found.add(len(model.path_) == 0)
    assert found == {True, False}


def test_certificate_holds_for_the_very_model():
    """Two normal classes, so that the true error of each model can be computed."""
    rng = np.random.default_rng(0)
    X_new = np.linspace(-5, 5, 2001)[:, None]
    density = np.stack([norm.pdf(X_new[:, 0], loc=mean) for mean in (-1.0, 1.0)])
    density /= density.sum()
    failures, gaps, plain = [], [], []
    for seed in range(SAMPLES):
        y = rng.integers(0, 2, 60)
        X = rng.normal(size=(60, 1)) + (2 * y - 1)[:, None]
        model = KMPClassifier(3, stop=certificate(0.5), gamma=0.3, random_state=seed).fit(X, y)
        truth = density[1 - model.predict(X_new), np.arange(len(X_new))].sum()
        bound = model.path_.values("bound")[-1]
        failures.append(truth > bound)
        gaps.append(bound - truth)
        errors = np.sum(model.predict(X[parts(60, seed, 0.5)[1]]) != y[parts(60, seed, 0.5)[1]])
        plain.append(holdout_bound(errors, 30) - truth)
    assert np.sum(failures) <= binom.isf(1e-3, SAMPLES, 0.05)
    assert np.mean(gaps) < 1.25 * np.mean(plain) < 0.2  # not slack: beside the bound of a model fixed beforehand


def test_what_a_certificate_needs():
    X, y = noisy_classes(60, np.random.default_rng(0))
    with pytest.raises(ValueError, match="equal rows"):
        KMPClassifier(stop="certificate").fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="number for n_atoms"):
        KMPClassifier(stop="certificate", loss="log_loss").fit(X, y)
    logistic = KMPClassifier(4, stop="certificate", loss="log_loss", random_state=0).fit(X, y)
    assert logistic.path_.reason == "certificate" and 0 < logistic.path_.values("bound").min() < 1
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    precomputed = KMPClassifier(4, stop="certificate", kernel="precomputed", random_state=0).fit(kernel, y)
    direct = KMPClassifier(4, stop="certificate", gamma=1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(precomputed.support_, direct.support_)
    np.testing.assert_allclose(precomputed.path_.values("bound"), direct.path_.values("bound"))


@pytest.mark.parametrize(
    "model", [KMPRegressor(stop=gcv(patience=4), alpha=0.0), KMPClassifier(stop=gcv(patience=4), alpha=0.0)]
)
def test_steps_that_were_discarded_can_be_had(model):
    X, y = noisy_classes(120, np.random.default_rng(2))
    fitted = model.fit(X, y)
    k = len(fitted.path_)
    assert len(fitted.path_.discarded) == 4
    longer = type(model)(k + 4, alpha=0.0).fit(X, y)
    more = fitted.truncate(k + 4)
    np.testing.assert_array_equal(more.support_, longer.support_)
    np.testing.assert_allclose(more.predict(X), longer.predict(X))
    again = more.truncate(k)
    np.testing.assert_allclose(again.predict(X), fitted.predict(X))
    np.testing.assert_allclose(fitted.truncate(1).truncate(k).dual_coef_, fitted.dual_coef_)
    with pytest.raises(ValueError, match=f"from 0 to {k + 4}"):
        fitted.truncate(k + 5)


def test_discriminants_beyond_the_chosen_number():
    X, y = noisy_classes(150, np.random.default_rng(2))
    fitted = SparseKernelFDA(12, stop=bound(patience=3), gamma=0.5).fit(X, y)
    k = len(fitted.path_)
    longer = SparseKernelFDA(k + 3, gamma=0.5).fit(X, y)
    np.testing.assert_allclose(fitted.truncate(k + 3).decision_function(X), longer.decision_function(X))
    np.testing.assert_allclose(fitted.truncate(k + 3).transform(X), longer.transform(X))


@pytest.mark.filterwarnings("ignore:the model has no atoms")
def test_bounds_of_a_fit_can_be_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rng = np.random.default_rng(0)
    X, y = noisy_classes(200, rng)
    X_new, y_new = noisy_classes(300, rng)
    model = KMPClassifier(stop="certificate", random_state=0).fit(X, y)
    display = BoundDisplay.from_estimator(model, X_new, y_new)
    steps = len(model.path_) + len(model.path_.discarded)
    assert display.k.tolist() == list(range(steps + 1))
    assert display.curves["certificate"][len(model.path_)] == model.path_.values("bound")[-1]
    assert display.observed["error rate"][len(model.path_)] == pytest.approx(1 - model.score(X_new, y_new))
    assert len(display.observed["error rate"]) == steps + 1 and np.all(np.isfinite(display.observed["error rate"]))
    bounded = BoundDisplay.from_estimator(KMPRegressor(stop="bound").fit(X, X[:, 0]), X_new, X_new[:, 0], yscale="log")
    assert "bound" in bounded.curves and bounded.ax_.get_yscale() == "log"
    span = BoundDisplay.from_estimator(SparseKernelPCA(20, stop="bound").fit(X), X_new)
    assert span.trivial == pytest.approx(1) and np.sum(np.isfinite(span.observed["mean squared distance"])) == 1
    fisher = SparseKernelFDA(5, stop="bound").fit(X, y)
    assert np.isinf(BoundDisplay.from_estimator(fisher).curves["bound"][0])
    with pytest.raises(ValueError, match="stop='certificate'"):
        BoundDisplay.from_estimator(KMPClassifier(3).fit(X, y))


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_rows_held_out_have_no_part_in_the_ridge(loss):
    """The ridge of another loss comes from a fit of its own, which must not see them either."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] + X[:, 1] ** 2 > 0.7
    train, held_out = parts(60, 0)
    other = y.copy()
    other[held_out[:3]] = ~y[held_out[:3]]
    model, flipped = (KMPClassifier(5, loss=loss, stop="certificate", random_state=0).fit(X, one) for one in (y, other))
    assert model.alpha_ == flipped.alpha_ > 0 and np.all(np.isin(model.truncate(5).support_, train))
    np.testing.assert_array_equal(model.truncate(5).decision_function(X), flipped.truncate(5).decision_function(X))


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_rows_held_out_have_no_part_in_a_robust_loss(loss):
    """Its threshold is a multiple of the spread of the rows that are fitted to, whatever the others are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=100)
    train, held_out = parts(100, 5)
    other = y.copy()
    most = np.abs(y[train]).max()  # targets keep their unit
    y[held_out], other[held_out] = np.clip(y[held_out], -most, most), rng.uniform(-most, most, len(held_out))
    models = [KMPRegressor(4, loss=loss, stop="certificate", random_state=5).fit(X, one) for one in (y, other)]
    stages = [model.truncate(4).predict(X) for model in models]
    np.testing.assert_allclose(stages[0], stages[1], rtol=1e-7)  # descents begin at different constants
