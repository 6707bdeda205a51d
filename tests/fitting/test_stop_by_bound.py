"""Stopping by a bound or a certificate: the bounds on the path are those computed by hand."""

import numpy as np
import pytest

from kernelpursuit import BoundDisplay, KMPClassifier, KMPRegressor, SparseKernelFDA, SparseKernelPCA
from kernelpursuit.bounds import compression_bound, fisher_bound, holdout_bound, path_weights, vc_bound
from kernelpursuit.parameters import bound, certificate, gcv
from tests.problems import classes, data


def noisy_classes(n, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), np.linspace(-1, 1, n_classes + 1)[1:-1])


def parts(n, seed, share=0.2):
    """Rows that a certificate is fitted to and rows that it holds out."""
    order = np.random.default_rng(np.random.RandomState(seed).randint(2**31 - 1)).permutation(n)
    size = int(np.ceil(share * n))
    return np.sort(order[size:]), np.sort(order[:size])


def bounds_after_atoms(path):
    """The bounds after 1, 2, ... steps, whether they were kept or not."""
    return [step.bound for step in [*path.steps, *path.discarded]]


# ---------------------------------------------------------------------------------------------- bounds by the support


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_keep_the_minimiser_of_the_vc_bound(n_classes, loss):
    X, _ = data(400)
    y = classes(X, n_classes)
    model = KMPClassifier(stop=bound(patience=5), loss=loss, alpha=0.01).fit(X, y)
    assert model.path_.reason == "bound" and len(model.path_.discarded) == 5
    longer = KMPClassifier(len(model.path_) + 5, loss=loss, alpha=0.01).fit(X, y)
    functions = pairs = 1 if n_classes == 2 else 3  # pairs of classes are compared; each class has an intercept
    bounds = []
    for k, predicted in enumerate(longer.staged_predict(X), start=1):
        outside = np.setdiff1d(np.arange(400), longer.support_[:k])
        errors = np.sum(predicted[outside] != y[outside])
        bounds.append(vc_bound(k, 400, errors, dimension=functions * (k + 1), n_comparisons=pairs, form="tight"))
    np.testing.assert_allclose(bounds_after_atoms(model.path_), bounds)
    assert np.argmin(bounds) + 1 == len(model.support_)


def test_regressors_stop_by_a_bound_on_equal_rows():
    X, y = data(400)
    model = KMPRegressor(stop="bound").fit(X, y)
    assert model.path_.reason == "bound" and 0 < len(model.support_) < 50
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(400))


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
def test_pca_keeps_the_minimiser_of_the_compression_bound(selection):
    n, scales = 300, np.array([2.0, 1.0, 0.1, 0.01])
    X, new = (np.random.default_rng(seed).normal(size=(size, 4)) * scales for seed, size in ((0, n), (1, 2000)))
    model = SparseKernelPCA(60, gamma=0.1, selection=selection, stop=bound(patience=5)).fit(X)
    assert model.path_.reason == "bound" and len(model.path_.discarded) == 5
    trace = SparseKernelPCA(60, gamma=0.1, selection=selection).fit(X).residual_trace_
    k = np.arange(len(trace))
    bounds = compression_bound(trace / (n - k), k, n)  # the chosen points are in the span: their residual is 0
    np.testing.assert_allclose(bounds_after_atoms(model.path_), bounds[1 : len(model.path_) + 6])
    assert np.argmin(bounds) == len(model.support_) > 0
    assert model.residual(new).mean() < bounds.min(), "what the bound claims of new data"


def test_fda_keeps_the_minimiser_of_the_fisher_bound():
    n, y = 3000, np.arange(3000) % 2
    X = np.where(y, 1.0, -1.0)[:, None] * [1.0, 0.0] + 0.1 * np.random.default_rng(0).normal(size=(n, 2))
    model = SparseKernelFDA(8, gamma=0.3, alpha=1e-2, stop=bound(patience=3)).fit(X, y)
    longer = SparseKernelFDA(8, gamma=0.3, alpha=1e-2).fit(X, y)
    bounds = []
    for k in range(1, len(longer.path_) + 1):
        part = longer.truncate(k)
        gram = np.exp(-0.3 * ((part.support_vectors_[:, None] - part.support_vectors_[None]) ** 2).sum(axis=2))
        length = np.sqrt(part.dual_coef_ @ gram @ part.dual_coef_)
        outside = np.setdiff1d(np.arange(n), part.support_)
        values = (part.decision_function(X)[outside] - part.intercept_) / length
        groups = values[y[outside] == 1], values[y[outside] == 0]
        moments = [g.mean() for g in groups], [g.var() for g in groups]
        bounds.append(fisher_bound(*moments, [len(g) for g in groups], part.intercept_ / length, k, n))
    found = bounds_after_atoms(model.path_)
    np.testing.assert_allclose(found, bounds[: len(found)])
    assert min(bounds) < 1 and np.argmin(bounds) + 1 == len(model.support_)


def test_fda_by_a_bound_needs_two_classes():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="two classes"):
        SparseKernelFDA(5, stop="bound").fit(X, np.arange(60) % 3)
    model = SparseKernelFDA(5, stop="bound").fit(X, np.arange(60) % 2)
    assert len(model.support_) == 1  # vacuous everywhere: the first atom alone


# ---------------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize(("n_classes", "share"), [(2, 0.2), (3, 0.5)])
def test_certificate_of_a_classifier_by_hand(n_classes, share):
    X, y = noisy_classes(203, n_classes=n_classes)
    model = KMPClassifier(stop=certificate(share, patience=6), random_state=3, gamma=0.5).fit(X, y)
    train, held_out = parts(203, 3, share)
    plain = KMPClassifier(gamma=0.5, stop=gcv(patience=6)).fit(X[train], y[train])  # the same path
    steps = len(plain.path_) + len(plain.path_.discarded)
    models = [plain.truncate(k) for k in range(steps + 1)]
    errors = np.array([np.sum(one.predict(X[held_out]) != y[held_out]) for one in models])
    bounds = holdout_bound(errors, len(held_out), weight=path_weights(steps, preferred=len(plain.path_)))
    assert len(model.path_) == np.argmin(bounds) and model.path_.reason == "certificate"
    np.testing.assert_allclose([model.path_.start.bound, *bounds_after_atoms(model.path_)], bounds)
    kept = models[len(model.path_)]
    np.testing.assert_array_equal(model.support_, train[kept.support_])
    np.testing.assert_allclose(model.decision_function(X), kept.decision_function(X))
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
    expected = holdout_bound(missed, len(held_out), weight=weights[len(model.path_)])
    assert model.path_.values("bound")[-1] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constants_have_a_certificate_too():
    """It is the last value on the path, whether an atom was kept or none."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 2, 150)
    constant = set()
    for seed in range(8):
        path = KMPClassifier(20, gamma=0.5, stop="certificate", random_state=seed).fit(X, y).path_
        assert f"{path.values('bound')[-1]:.3g}" in path.sentence
        constant.add(len(path) == 0)
    assert constant == {True, False}


def test_what_a_certificate_needs():
    X, y = noisy_classes(60)
    with pytest.raises(ValueError, match="equal rows"):
        KMPClassifier(stop="certificate").fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="number for n_atoms"):
        KMPClassifier(stop="certificate", loss="log_loss").fit(X, y)
    logistic = KMPClassifier(4, stop="certificate", loss="log_loss", random_state=0).fit(X, y)
    assert logistic.path_.reason == "certificate" and 0 < logistic.path_.values("bound").min() < 1


def test_certificate_of_a_kernel_matrix():
    X, y = noisy_classes(60)
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    direct = KMPClassifier(4, stop="certificate", gamma=1.0, random_state=0).fit(X, y)
    matrix = KMPClassifier(4, stop="certificate", kernel="precomputed", random_state=0).fit(kernel, y)
    np.testing.assert_array_equal(matrix.support_, direct.support_)
    np.testing.assert_allclose(matrix.path_.values("bound"), direct.path_.values("bound"))


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


# ---------------------------------------------------------------------------------------------- pictures


@pytest.mark.filterwarnings("ignore:the model has no atoms")
def test_bounds_of_a_fit_can_be_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    (X, y), (X_new, y_new) = noisy_classes(200, 0), noisy_classes(300, 1)
    model = KMPClassifier(stop="certificate", random_state=0).fit(X, y)
    display = BoundDisplay.from_estimator(model, X_new, y_new)
    k, steps, errors = len(model.path_), len(model.path_) + len(model.path_.discarded), display.observed["error rate"]
    assert display.k.tolist() == list(range(steps + 1))
    assert display.curves["certificate"][k] == model.path_.values("bound")[-1]
    assert errors[k] == pytest.approx(1 - model.score(X_new, y_new))
    assert len(errors) == steps + 1 and np.all(np.isfinite(errors))
    bounded = BoundDisplay.from_estimator(KMPRegressor(stop="bound").fit(X, X[:, 0]), X_new, X_new[:, 0], yscale="log")
    assert "bound" in bounded.curves and bounded.ax_.get_yscale() == "log"
    span = BoundDisplay.from_estimator(SparseKernelPCA(20, stop="bound").fit(X), X_new)
    assert span.trivial == pytest.approx(1) and np.sum(np.isfinite(span.observed["mean squared distance"])) == 1
    fisher = SparseKernelFDA(5, stop="bound").fit(X, y)
    assert np.isinf(BoundDisplay.from_estimator(fisher).curves["bound"][0])
    with pytest.raises(ValueError, match="stop='certificate'"):
        BoundDisplay.from_estimator(KMPClassifier(3).fit(X, y))
