"""The pictures: what is drawn is what was measured, names are shown as they are, nothing is opened."""

import subprocess
import sys
import warnings
from inspect import signature

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.dummy import DummyClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelpursuit import (
    BoundDisplay,
    KMPClassifier,
    KMPRegressor,
    MovedCentersDisplay,
    PursuitNystroem,
    PursuitPathDisplay,
    PursuitSearchCV,
    ResidualTraceDisplay,
    SparseKernelPCA,
    SupportDisplay,
)
from kernelpursuit.parameters import columns, gcv
from kernelpursuit.pursuit import Path, Step

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_and_never_shown(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: pytest.fail("plt.show was called"))
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(200, noise=0.25, random_state=0)
    return X[:120], y[:120], X[120:], y[120:]


def labels(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_path_of_a_regressor(diabetes):
    A, a, B, b = diabetes
    model = KMPRegressor(n_atoms=12, alpha=0.0).fit(A, a)
    other = KernelRidge(kernel="rbf").fit(A, a)
    display = PursuitPathDisplay.from_estimator(model, B, b, baseline=other)
    train, test = display.lines_["training error"], display.lines_["test error"]
    np.testing.assert_allclose(train.get_ydata(), model.path_.values("loss"))
    assert test.get_xdata().tolist() == list(range(13))
    assert test.get_ydata()[-1] == pytest.approx(np.mean((model.predict(B) - b) ** 2))
    assert test.get_ydata()[0] == pytest.approx(np.mean((a.mean() - b) ** 2))
    assert set(display.chosen_line_.get_xdata()) == {12}
    assert set(display.baseline_line_.get_ydata()) == {np.mean((other.predict(B) - b) ** 2)}
    assert display.ax_.get_ylabel() == "mean squared error" and display.loss_ax_ is None
    assert labels(display)[-2].startswith("KernelRidge")


def test_training_curve_goes_on_where_the_rule_looked(diabetes):
    A, a, B, b = diabetes
    model = KMPRegressor(stop=gcv(patience=7), alpha=0.0).fit(A, a)
    display = PursuitPathDisplay.from_estimator(model, B, b)
    assert len(display.lines_["training error"].get_xdata()) == len(model.path_) + len(model.path_.discarded) + 1
    assert len(display.lines_["test error"].get_xdata()) == len(model.path_) + 8
    longer = KMPRegressor(n_atoms=len(model.path_) + 7, alpha=0.0).fit(A, a)
    expected = [np.mean((prediction - b) ** 2) for prediction in longer.staged_predict(B)]
    np.testing.assert_allclose(display.lines_["test error"].get_ydata()[1:], expected)
    assert display.chosen == len(model.path_)


def test_path_of_a_classifier(moons):
    A, a, B, b = moons
    model = KMPClassifier(n_atoms=8).fit(A, a)
    display = PursuitPathDisplay.from_estimator(model, B, b, X_train=A, y_train=a, baseline=SVC().fit(A, a))
    assert display.ax_.get_ylabel() == "error rate"
    assert display.lines_["test error"].get_ydata()[-1] == pytest.approx(1 - model.score(B, b))
    assert display.lines_["training error"].get_ydata()[-1] == pytest.approx(1 - model.score(A, a))
    assert display.loss_ax_ is None
    display = PursuitPathDisplay.from_estimator(model, B, b, baseline=DummyClassifier().fit(A, a))
    assert "training error" not in display.lines_
    np.testing.assert_allclose(display.loss_ax_.lines[0].get_ydata(), model.path_.values("loss"))
    assert "training loss (right)" in labels(display)


def test_losses_in_other_units_have_their_own_axis(diabetes):
    A, a, B, b = diabetes
    huber = PursuitPathDisplay.from_estimator(KMPRegressor(n_atoms=4, loss="huber").fit(A, a), B, b)
    assert huber.loss_ax_ is not None
    ridge = PursuitPathDisplay.from_estimator(KMPRegressor(n_atoms=4, alpha=0.1).fit(A, a), B, b)
    assert "training error + penalty" in ridge.lines_
    alone = PursuitPathDisplay.from_estimator(KMPRegressor(n_atoms=4, loss="huber").fit(A, a))
    assert not alone.lines_ and alone.loss_ax_ is not None


@pytest.mark.parametrize("targets", [1, 2])
def test_cross_validated_regressor(diabetes, targets):
    A, a, B, b = diabetes
    if targets == 2:
        a, b = np.column_stack([a, a]), np.column_stack([b, b])
    model = PursuitSearchCV(KMPRegressor(), max_atoms=6, gammas=[0.1, 1.0], cv=3).fit(A, a)
    display = PursuitPathDisplay.from_estimator(model, B, b)
    curve = display.lines_["cross-validated error"]
    assert curve.get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    assert curve.get_ydata()[model.best_params_["n_atoms"] - 1] == pytest.approx(-model.best_score_ * targets)
    assert display.lines_["test error"].get_ydata()[-1] == pytest.approx(targets * np.mean((model.predict(B) - b) ** 2))


@pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")
def test_cross_validated_classifier(moons):
    A, a, B, b = moons
    model = PursuitSearchCV(KMPClassifier(), max_atoms=5, gammas=[0.1, 1.0], cv=3).fit(A, a)
    curve = PursuitPathDisplay.from_estimator(model, B, b).lines_["cross-validated error"]
    assert curve.get_ydata().min() == pytest.approx(1 - model.best_score_)
    scored = PursuitSearchCV(KMPClassifier(), max_atoms=5, gammas=[1.0], cv=3, scoring="balanced_accuracy").fit(A, a)
    assert "cross-validated error" not in PursuitPathDisplay.from_estimator(scored, B, b).lines_


def test_path_alone(diabetes):
    A, a, _, _ = diabetes
    display = PursuitPathDisplay.from_path(KMPRegressor(n_atoms=5).fit(A, a).path_)
    assert sorted(display.lines_) == ["leave-one-out error", "training loss"]
    assert display.ax_.get_xlabel() == "number of atoms"
    path = Path(Step(-1, loss=2.0), [Step(3, loss=1.0), Step(3, loss=0.5)])
    display = PursuitPathDisplay.from_path(path)
    assert list(display.lines_) == ["training loss"] and display.ax_.get_xlabel() == "number of steps"


def test_what_the_path_display_refuses(diabetes):
    A, a, B, b = diabetes
    model = KMPRegressor(n_atoms=3).fit(A, a)
    with pytest.raises(ValueError, match="y must be given"):
        PursuitPathDisplay.from_estimator(model, B)

    class Unstaged:
        path_ = model.path_

    with pytest.raises(TypeError, match="no staged_predict"):
        PursuitPathDisplay.from_estimator(Unstaged(), B, b)


@pytest.mark.parametrize("yscale", ["linear", "log"])
def test_bound_display(yscale):
    k = np.arange(1, 21)
    curves = {"a": k / 10, "b": k / 100, "all$x_$": k + 1.0, "infinite": np.where(k < 3, 0.5, np.inf)}
    display = BoundDisplay(k, curves, observed={"train": k / 500, "test": k / 300}).plot(yscale=yscale)
    assert display.informative("a").tolist() == list(range(1, 10))
    assert display.ax_.get_yscale() == yscale
    assert display.ax_.get_ylim()[1] == pytest.approx(1.3)
    assert set(display.lines_) == {"train", "test", *curves}
    np.testing.assert_allclose(display.lines_["a"].get_ydata()[:10], k[:10] / 10)
    assert np.all(np.isnan(display.lines_["a"].get_ydata()[10:]))
    dotted = [line.get_ydata() for line in display.ax_.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(dotted[0], k / 10)  # nothing is clipped
    shown = labels(display)
    assert {"a (up to 2)", "b", "dotted: vacuous (above 1)"} <= set(shown)
    assert any(label.endswith(" (vacuous, from 2 on)") for label in shown)
    display.figure_.draw_without_rendering()
    alone = BoundDisplay(k, {"b": k / 100}, observed=k / 300).plot()
    assert "observed" in alone.lines_ and not any("dotted" in label for label in labels(alone))


def test_support_of_a_classifier(moons):
    A, a, _, _ = moons
    model = KMPClassifier(n_atoms=7).fit(A, a)
    display = SupportDisplay.from_estimator(model, A, a, resolution=40)
    np.testing.assert_allclose(display.rings_.get_offsets(), model.support_vectors_)
    assert [text.get_text() for text in display.texts_] == [str(i) for i in range(1, 8)]
    for text, center in zip(display.texts_, model.support_vectors_, strict=True):
        assert text.xy == tuple(center)
    at = np.column_stack([axis.ravel() for axis in display.grid])
    np.testing.assert_allclose(display.response.ravel(), model.decision_function(at))
    few = display.plot(numbers=3)
    assert len(few.texts_) == 3 and "atoms, the first 3 numbered" in labels(few)


def test_support_of_several_classes_and_of_string_names():
    X, y = load_iris(return_X_y=True)
    names = np.array(["se$to_sa$", "_versi", "virginica"])[y]
    display = SupportDisplay.from_estimator(KMPClassifier(n_atoms=6).fit(X[:, 2:], names), X[:, 2:], names)
    assert set(np.unique(display.response)) <= {0.0, 1.0, 2.0}
    display.figure_.draw_without_rendering()
    shown = labels(display)
    assert r"se\$to_sa\$" in shown and len(shown) == 4


def test_support_of_a_regressor_with_functions_and_two_kernels(diabetes):
    X, y = diabetes[0][:, [2, 8]], diabetes[1]
    kernels = [("rbf", {"gamma": 10.0}), ("rbf", {"gamma": 100.0})]
    model = KMPRegressor(n_atoms=10, kernel=[*kernels, columns(lambda X: X)], centers=X[:4]).fit(X, y)
    display = SupportDisplay.from_estimator(model, sparse.csr_array(X), y, resolution=30)
    assert len(display.order) == np.sum(model.support_kernels_ >= 0) < 10
    shown = [int(number) for text in display.texts_ for number in text.get_text().split(", ")]
    assert sorted(shown) == (1 + np.flatnonzero(model.support_kernels_ >= 0)).tolist()
    assert len(display.texts_) <= 4  # one label for each place
    display.figure_.draw_without_rendering()


def test_column_names_are_shown_as_they_are(moons):
    pd = pytest.importorskip("pandas")
    A, a, _, _ = moons
    frame = pd.DataFrame(A, columns=["a_$b_$", "_$c^$"])
    display = SupportDisplay.from_estimator(KMPClassifier(n_atoms=3).fit(frame, a), frame, a, resolution=20)
    display.figure_.draw_without_rendering()
    assert display.ax_.get_xlabel() == r"a_\$b_\$"


def test_what_the_support_display_refuses(moons):
    A, a, _, _ = moons
    model = KMPClassifier(n_atoms=3).fit(A, a)
    with pytest.raises(ValueError, match="one feature or two"):
        SupportDisplay.from_estimator(model, np.column_stack([A, A[:, 0]]), a)
    with pytest.raises(ValueError, match="one target"):
        SupportDisplay.from_estimator(model, A, a[:5])
    precomputed = KMPClassifier(n_atoms=2, kernel="precomputed").fit(A @ A.T, a)
    with pytest.raises(ValueError, match="precomputed"):
        SupportDisplay.from_estimator(precomputed, A, a)


def test_one_feature_of_a_regressor():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, size=(120, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=120)
    model = KMPRegressor(n_atoms=5).fit(x, y)
    display = SupportDisplay.from_estimator(model, x, y, resolution=2000)
    np.testing.assert_allclose(display.surface_.get_ydata(), model.predict(display.grid[0][:, None]))
    spots = np.column_stack([model.support_vectors_, model.predict(model.support_vectors_)])
    np.testing.assert_allclose(display.rings_.get_offsets(), spots, atol=1e-4)
    assert [text.get_text() for text in display.texts_] == ["1", "2", "3", "4", "5"]
    assert display.ax_.get_ylabel() == "target" and labels(display)[:2] == ["data", "prediction"]
    display.figure_.draw_without_rendering()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_feature_of_a_classifier(n_classes):
    x = np.random.default_rng(0).uniform(0, 6, size=(120, 1))
    y = np.array(["a", "$b$", "c"])[(x[:, 0] * n_classes / 6).astype(int)]
    model = KMPClassifier(n_atoms=5).fit(x, y)
    display = SupportDisplay.from_estimator(model, x, y, resolution=50)
    predicted = np.searchsorted(model.classes_, model.predict(display.grid[0][:, None]))
    np.testing.assert_array_equal(display.surface_.get_array().reshape(2, 50), np.tile(predicted, (2, 1)))
    assert len(display.ax_.get_yticks()) == n_classes and len(display.texts_) == 5
    display.figure_.draw_without_rendering()


@pytest.mark.parametrize("before", [[], [StandardScaler()]])
def test_pipelines_are_drawn_as_their_last_step(moons, before):
    A, a, B, b = moons
    whole = make_pipeline(*before, KMPClassifier(n_atoms=6)).fit(5 * A, a)
    path = PursuitPathDisplay.from_estimator(whole, 5 * B, b, X_train=5 * A, y_train=a, baseline=SVC().fit(5 * A, a))
    assert path.lines_["test error"].get_ydata()[-1] == pytest.approx(1 - whole.score(5 * B, b))
    assert path.lines_["training error"].get_ydata()[-1] == pytest.approx(1 - whole.score(5 * A, a))
    assert path.baseline[1] == pytest.approx(np.mean(SVC().fit(5 * A, a).predict(5 * B) != b))
    support = SupportDisplay.from_estimator(whole, 5 * A, a, resolution=30)
    np.testing.assert_allclose(support.rings_.get_offsets(), whole[-1].support_vectors_)
    at = np.column_stack([axis.ravel() for axis in support.grid])
    np.testing.assert_allclose(support.response.ravel(), whole[-1].decision_function(at))
    for model in (SparseKernelPCA(n_atoms=6), PursuitNystroem(n_components=6)):
        traces = ResidualTraceDisplay.from_estimator(make_pipeline(*before, model).fit(A))
        assert len(traces.residual_trace) == 7 and list(traces.lines_) == [type(model).__name__]


def test_searches_are_drawn_as_what_they_found(moons):
    A, a, B, b = moons
    search = GridSearchCV(make_pipeline(StandardScaler(), KMPClassifier()), {"kmpclassifier__n_atoms": [3, 5]}, cv=2)
    display = PursuitPathDisplay.from_estimator(search.fit(A, a), B, b)
    assert display.lines_["test error"].get_ydata()[-1] == pytest.approx(1 - search.score(B, b))


def test_errors_that_span_decades_have_a_logarithmic_axis(diabetes):
    A, a, B, b = diabetes
    x = np.linspace(0, 6, 100)[:, None]
    steep = PursuitPathDisplay.from_estimator(KMPRegressor(n_atoms=6).fit(x, np.sin(x[:, 0])))
    assert steep.ax_.get_yscale() == "log" and steep.plot(yscale="linear").ax_.get_yscale() == "linear"
    flat = PursuitPathDisplay.from_estimator(KMPRegressor(n_atoms=6).fit(A, a), B, b)
    assert flat.ax_.get_yscale() == "linear"
    forced = PursuitPathDisplay.from_estimator(KMPRegressor(n_atoms=6).fit(A, a), B, b, yscale="log")
    assert forced.ax_.get_yscale() == "log"
    zero = PursuitPathDisplay({"error": (np.arange(3), np.array([1.0, 0.01, 0.0]))}).plot()
    assert zero.ax_.get_yscale() == "linear"  # a logarithm has no zero
    for display in (steep, flat, forced, zero):
        display.figure_.draw_without_rendering()


DISPLAYS = [PursuitPathDisplay, SupportDisplay, BoundDisplay, ResidualTraceDisplay, MovedCentersDisplay]


@pytest.mark.parametrize("display", DISPLAYS)
def test_displays_are_made_of_an_estimator_x_and_y(display):
    """By position, as scikit-learn's are."""
    assert list(signature(display.from_estimator).parameters)[:3] == ["estimator", "X", "y"]


def test_residual_trace():
    X, y = load_iris(return_X_y=True)
    model = SparseKernelPCA(n_atoms=20).fit(X)
    display = ResidualTraceDisplay.from_estimator(model, X, y, compare={"co$mpare_$": model.residual_trace_ * 2})
    line = display.lines_["SparseKernelPCA"]
    np.testing.assert_allclose(line.get_ydata(), model.residual_trace_)
    assert line.get_xdata()[0] == 0 and display.ax_.get_yscale() == "log"
    display.figure_.draw_without_rendering()
    zeros = ResidualTraceDisplay(np.array([3.0, 1.0, 0.0]), name="n").plot().lines_["n"]
    assert np.isnan(zeros.get_ydata()[-1])


def test_axes_given_are_used(moons):
    A, a, B, b = moons
    figure, axes = plt.subplots(2, 2)
    model = KMPClassifier(n_atoms=3).fit(A, a)
    shown = [
        PursuitPathDisplay.from_estimator(model, B, b, ax=axes[0, 0]),
        SupportDisplay.from_estimator(model, A, a, ax=axes[0, 1], resolution=20),
        BoundDisplay([1, 2], {"b": [0.1, 2.0]}).plot(axes[1, 0]),
        ResidualTraceDisplay([2.0, 1.0]).plot(axes[1, 1]),
    ]
    assert [display.ax_ for display in shown] == axes.ravel().tolist()
    assert all(display.figure_ is figure for display in shown)
    assert plt.get_fignums() == [figure.number]


def test_one_predicted_class_or_one_target_value_can_be_drawn(moons):
    A, a, _, _ = moons
    model = KMPClassifier(n_atoms=1).fit(A, a).truncate(0)
    one_class = SupportDisplay.from_estimator(model, A, a, resolution=20)
    one_class.figure_.draw_without_rendering()
    assert len(set(model.predict(A))) == 1 and one_class.ax_.has_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = KMPRegressor(n_atoms=1).fit(A, np.ones(len(A)))
    one_value = SupportDisplay.from_estimator(flat, A, np.ones(len(A)), resolution=20)
    one_value.figure_.draw_without_rendering()
    assert one_value.ax_.has_data()


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"install kernelpursuit with its extra 'plot'"):
        BoundDisplay([1, 2], {"b": [0.1, 2.0]}).plot()


def test_matplotlib_is_not_imported_with_the_module():
    code = "import sys, kernelpursuit.plots; sys.exit('matplotlib' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
