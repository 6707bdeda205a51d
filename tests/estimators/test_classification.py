"""KMPClassifier: every loss, weights of classes, rows with several labels."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.preprocessing import scale

import kernelpursuit
from kernelpursuit import (
    DenseDictionary,
    Gradient,
    KMPClassifier,
    KMPRegressor,
    PursuitSearchCV,
    RefinedKMPClassifier,
    SparseKernelFDA,
    pursue,
)
from kernelpursuit.losses import LOSSES
from kernelpursuit.pursuit import n_atoms
from tests.pairwise import pairwise
from tests.problems import classes, data, quiet_fit

ALL_LOSSES = [*LOSSES, "huber"]


@pytest.mark.filterwarnings("ignore:loss='doom2' with variant='basic'")  # which has no ridge by default, and says so
@pytest.mark.parametrize(("loss", "n_classes", "variant"), pairwise(ALL_LOSSES, [2, 3], ["prefit", "backfit", "basic"]))
def test_every_loss_classifies(loss, n_classes, variant):
    X, _ = data(80)
    y = np.array(["ant", "bee", "cat"])[classes(X, n_classes)]
    model = KMPClassifier(12, loss=loss, variant=variant).fit(X, y)
    decision = model.decision_function(X)
    assert np.all(np.isfinite(decision)) and decision.shape == ((80,) if n_classes == 2 else (80, 3))
    assert list(model.classes_) == ["ant", "bee", "cat"][:n_classes]
    assert model.score(X, y) > (0.6 if n_classes == 2 else 0.5)
    stages = list(model.staged_predict(X))
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    for k in (1, 5):
        np.testing.assert_array_equal(model.truncate(k).predict(X), stages[k - 1])
    assert np.all(np.diff(model.path_.values("loss")) <= 1e-10)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert np.all(p >= 0)
    np.testing.assert_array_equal(model.classes_[np.argmax(p, axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)


@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_separable_classes_have_finite_weights(loss):
    X = np.concatenate([np.linspace(-2, -1, 15), np.linspace(1, 2, 15)])[:, None]
    y = np.repeat([0, 1], 15)
    model = quiet_fit(KMPClassifier(5, loss=loss), X, y)
    assert np.all(np.isfinite(model.decision_function(X))) and model.score(X, y) == 1
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_several_classes_keep_fewer_atoms_than_the_lowest_score():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16, y[:500]
    model, lowest = KMPClassifier().fit(X, y), KMPClassifier(stop="gcv").fit(X, y)
    assert len(model.support_) < 0.7 * len(lowest.support_)
    assert len(model.path_) + len(model.path_.discarded) < len(lowest.path_)
    np.testing.assert_array_equal(model.support_, lowest.support_[: len(model.support_)])
    two = KMPClassifier().fit(X, y > 4)
    np.testing.assert_array_equal(two.support_, KMPClassifier(stop="gcv").fit(X, y > 4).support_)


# ---------------------------------------------------------------------------------------------- losses that become flat


def moons():
    X, y = make_moons(300, noise=0.3, random_state=0)
    return scale(X), y


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("problem", [moons, iris])
def test_flat_losses_fit_better_with_more_atoms(problem):
    X, new, y, expected = train_test_split(*problem(), random_state=0)
    model = KMPClassifier(10, loss="doom2").fit(X, y)  # a warning is an error
    other = KMPClassifier(10, loss="tanh").fit(X, y)
    assert model.alpha_ > 0 and other.alpha_ > 0
    assert np.max(np.abs(model.decision_function(X))) < 20
    few, many = (model.truncate(k).score(new, expected) for k in (1, 10))
    assert many > few + 0.05 and many > other.score(new, expected) - 0.1
    losses = model.path_.values("loss")
    assert losses[-1] < 0.6 * losses[1]


@pytest.mark.parametrize("scale_of_X", [1.0, 1e3])
def test_flat_losses_and_weights_of_classes_and_rows(scale_of_X):
    X, y = moons()
    weights = np.random.default_rng(0).uniform(0.01, 1, size=len(y))
    model = KMPClassifier(15, loss="doom2", class_weight="balanced").fit(scale_of_X * X, y, sample_weight=weights)
    assert model.score(scale_of_X * X, y) > 0.88


@pytest.mark.parametrize("options", [{"alpha": 0}, {"variant": "basic"}], ids=str)
def test_a_model_that_ran_into_the_flat_says_so(options):
    X, _, y, _ = train_test_split(*moons(), random_state=0)
    with pytest.warns(ConvergenceWarning, match="loss='doom2' hardly changes any more.*larger alpha"):
        KMPClassifier(20, loss="doom2", **options).fit(X, y)


def test_a_loss_that_fits_is_not_called_flat():
    X, y = iris()
    KMPClassifier(30, loss="doom2", alpha=0).fit(X[:100], y[:100])  # two classes that are apart: a warning is an error


def test_the_basic_variant_says_that_it_has_no_ridge():
    X, new, y, expected = train_test_split(*iris(), random_state=0)
    model = KMPClassifier(20, loss="doom2", variant="basic")
    with pytest.warns(ConvergenceWarning, match=r"variant='basic' has no ridge under alpha='auto'.*such as 0\.1"):
        plain = clone(model).fit(X, y)
    advised = clone(model).set_params(alpha=0.1).fit(X, y)  # a warning is an error
    assert advised.score(new, expected) > plain.score(new, expected)
    assert 5 * np.max(np.abs(advised.dual_coef_)) < np.max(np.abs(plain.dual_coef_))
    clone(model).set_params(loss="tanh").fit(X, y)


def test_a_refit_does_not_stay_where_all_rows_are_of_one_class():
    """A third of the rows are of class 1: the constant -infinity is a minimum, in which no slope is left."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(90, 4))
    y = np.where(D[:, 0] + D[:, 1] > np.quantile(D[:, 0] + D[:, 1], 2 / 3), 1.0, -1.0)
    criterion = Gradient(DenseDictionary(D), y, LOSSES["doom2"], alpha=0.1)
    path = pursue(criterion, n_atoms(2))
    assert sorted(path.atoms) == [0, 1]
    assert np.mean((y - criterion.residual()[:, 0] > 0) == (y > 0)) > 0.95


# ---------------------------------------------------------------------------------------------- weights of classes


EACH = [KMPClassifier(5), KMPClassifier(5, loss="log_loss")]


def unequal(n=200, n_classes=2):
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=n) < 0.15, "rare", "often")
    X = rng.normal(size=(n, 2)) + 1.2 * (y == "rare")[:, None]
    return X, np.where((n_classes == 3) & (X[:, 0] < -1), "third", y)


@pytest.mark.parametrize("model", EACH, ids=repr)
def test_weights_of_classes_are_weights_of_rows(model):
    X, y = unequal()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    by_hand = np.where(y == "rare", 4.0, 1.0)
    fixed = clone(model).set_params(alpha=0.1)  # the evidence of a ridge counts rows
    one = clone(fixed).set_params(class_weight={"rare": 4.0}).fit(X, y, sample_weight=w)
    two = clone(fixed).fit(X, y, sample_weight=w * by_hand * w.sum() / np.sum(w * by_hand))
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X))
    if model.loss == "log_loss":  # calibration counts rows
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-6)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    counts = {label: len(y) / (2 * np.sum(y == label)) for label in ("rare", "often")}
    named = clone(model).set_params(class_weight=counts).fit(X, y)
    np.testing.assert_allclose(balanced.decision_function(X), named.decision_function(X))
    assert np.sum(balanced.predict(X) == "rare") > np.sum(clone(model).fit(X, y).predict(X) == "rare")


@pytest.mark.filterwarnings("ignore:.*are duplicates of others")  # which is right
@pytest.mark.parametrize(("n_classes", "n_atoms", "alpha"), pairwise([2, 3], ["auto", 6], [0.0, 0.3, "auto"]))
def test_counts_are_rows_beside_weights_of_classes(n_classes, n_atoms, alpha):
    """A row of weight 2 is the row twice, whatever its class weighs: in all that is chosen and in probabilities."""
    X, y = unequal(n_classes=n_classes)
    w = np.random.default_rng(3).integers(0, 4, len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), w.astype(int))
    model = KMPClassifier(n_atoms, class_weight="balanced", alpha=alpha)
    one, two = clone(model).fit(X, y, sample_weight=w), clone(model).fit(X[rows], y[rows])
    assert one.support_.tolist() == rows[two.support_].tolist()
    np.testing.assert_allclose(one.alpha_, two.alpha_, rtol=1e-5)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-4)
    np.testing.assert_allclose(one.path_.values("leave_one_out"), two.path_.values("leave_one_out"), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_errors_leave_the_whole_row_out(weighted):
    """By refitting: a row of a rare class is one row, however much its error counts."""
    X, y = unequal(60)
    w = np.random.default_rng(5).integers(1, 3, 60).astype(float) if weighted else np.ones(60)
    factor = np.where(y == "rare", 5.0, 0.5)
    model = KMPClassifier(4, gamma=0.5, alpha=0.2, class_weight={"rare": 5.0, "often": 0.5}).fit(X, y, sample_weight=w)
    factor *= w.sum() / np.sum(w * factor)
    K = np.exp(-0.5 * ((X[:, None] - X[model.support_]) ** 2).sum(axis=2))
    A = np.c_[np.ones(60), K]
    penalty = np.zeros((5, 5))
    penalty[1:, 1:] = 0.2 * K[model.support_]
    target, errors = np.where(y == model.classes_[1], 1.0, -1.0), np.zeros(60)
    for i in range(60):
        v = (w - (np.arange(60) == i)) * factor  # one copy less
        c = np.linalg.solve(A.T * v @ A + penalty, A.T @ (v * target))
        errors[i] = target[i] - A[i] @ c
    wanted = np.average(errors**2, weights=w * factor)
    np.testing.assert_allclose(model.path_.values("leave_one_out")[-1], wanted, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the model has no atoms")
def test_weights_of_classes_make_no_rows():
    """Ten rows are ten rows: noise stays noise, and equal weights of classes are none."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), (np.arange(500) < 10).astype(int)
    model = KMPClassifier(class_weight="balanced").fit(X, y)
    assert len(model.support_) < 10
    assert np.ptp(model.predict_proba(rng.normal(size=(500, 3)))[:, 1]) < 0.97
    X, y = unequal()
    equal, plain = KMPClassifier(class_weight={"rare": 3.0, "often": 3.0}).fit(X, y), KMPClassifier().fit(X, y)
    assert equal.support_.tolist() == plain.support_.tolist()
    np.testing.assert_allclose(equal.predict_proba(X), plain.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("model", [*EACH, SparseKernelFDA(5), RefinedKMPClassifier(3, random_state=0)], ids=repr)
def test_a_class_that_is_absent_may_have_a_weight(model):
    y = np.repeat([0, 1, 2], [60, 57, 3])
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    one = clone(model).set_params(class_weight={2: 5.0}).fit(X, y, sample_weight=(y < 2) * 1.0)
    assert one.classes_.tolist() == [0, 1]
    if not isinstance(model, RefinedKMPClassifier):  # which draws other rows
        two = clone(model).fit(X[y < 2], y[y < 2])
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match=r"class_weight names \['two'\].*\[0, 1, 2\]"):
        clone(model).set_params(class_weight={"two": 5.0}).fit(X, y)


def test_absent_rows_have_no_say_in_what_is_balanced():
    X, y = unequal(80)
    there = np.ones(80)
    there[np.flatnonzero(y == "often")[:30]] = 0.0
    for model in (KMPClassifier(5), RefinedKMPClassifier(3, random_state=0)):
        model.set_params(class_weight="balanced")
        weighed = clone(model).fit(X, y, sample_weight=there).predict_proba(X)
        alone = clone(model).fit(X[there > 0], y[there > 0]).predict_proba(X)
        np.testing.assert_allclose(weighed, alone, atol=1e-3)


@pytest.mark.parametrize("value", ["even", 3, {"absent": 2.0, "rare": -1.0}])
def test_bad_class_weights_are_named(value):
    with pytest.raises(ValueError, match="class_weight"):
        KMPClassifier(3, class_weight=value).fit(*unequal())


# ---------------------------------------------------------------------------------------------- several labels a row


def several_labels(n=160):
    return make_multilabel_classification(n, 6, n_classes=3, n_labels=2, random_state=0)


def test_the_squared_loss_of_labels_is_a_regression_on_plus_and_minus_one():
    X, Y = several_labels()
    model = KMPClassifier(12).fit(X, Y)
    values = KMPRegressor(12).fit(X, 2.0 * Y - 1)
    np.testing.assert_array_equal(model.support_, values.support_)
    np.testing.assert_allclose(model.decision_function(X), values.predict(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (values.predict(X) > 0).astype(int))
    assert model.classes_.tolist() == [0, 1, 2] and model.dual_coef_.shape == (12, 3)
    assert model.score(X, Y) == accuracy_score(Y, model.predict(X))
    np.testing.assert_array_equal(list(model.staged_predict(X))[2], model.truncate(3).predict(X))
    assert model.truncate(3).predict_proba(X).shape == Y.shape


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "exponential", "huber"])
def test_probabilities_are_of_each_label(loss):
    """They say more than the frequencies of the labels, agree with the prediction, and need not sum to 1."""
    X, Y = several_labels(400)
    model = KMPClassifier(20, loss=loss).fit(X[:200], Y[:200])
    p = model.predict_proba(X[200:])
    assert p.shape == (200, 3) and np.all((p > 0) & (p < 1))
    np.testing.assert_array_equal(p > 0.5, model.predict(X[200:]) == 1)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X[200:]), rtol=1e-9)
    assert np.ptp(p.sum(axis=1)) > 0.1
    for label in range(3):
        share = Y[:200, label].mean()
        assert log_loss(Y[200:, label], p[:, label]) < 0.9 * log_loss(Y[200:, label], np.full(200, share))


def test_a_slope_for_each_label_is_that_of_the_label_alone():
    """With the same atoms and no ridge, the calibration of a label does not know of the others."""
    X, Y = several_labels()
    model = KMPClassifier(8, alpha=0).fit(X, Y)
    for label in range(3):
        alone = KMPClassifier(8, alpha=0, centers=model.support_vectors_).fit(X, Y[:, label])
        np.testing.assert_allclose(alone.predict_proba(X)[:, 1], model.predict_proba(X)[:, label], rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"loss": "log_loss"}, {"stop": "leave_one_out"}, {"stop": "validation"}], ids=repr
)
def test_the_number_of_atoms_is_chosen_for_all_labels(options):
    X, Y = several_labels()
    model = KMPClassifier(**options).fit(X, Y)
    assert 2 < len(model.support_) < 100
    assert model.score(X, Y) > np.mean(np.all(Y == np.round(Y.mean(axis=0)), axis=1))


def test_bounds_count_rows_with_any_wrong_label():
    X, Y = several_labels(400)
    model = KMPClassifier(10, stop="certificate", random_state=0).fit(X, Y)
    assert 0 < model.path_.start.bound <= 1 and "held-out rows are wrong" in model.path_.sentence
    bound = KMPClassifier(10, stop="bound").fit(X, Y)
    assert 0 < bound.path_.steps[-1].bound < bound.path_.start.bound


@pytest.mark.parametrize("kind", ["list", "bool", "float", "sparse", "frame", "nullable", "tensor"])
def test_matrices_of_labels_as_they_come(kind):
    X, Y = several_labels()
    expected = KMPClassifier(5).fit(X, Y)
    if kind == "tensor":
        torch = pytest.importorskip("torch")
        with config_context(array_api_dispatch=True):
            given = torch.asarray(X)
            model = KMPClassifier(5).fit(given, torch.asarray(Y))
            found, p = model.predict(given), model.predict_proba(given)
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(p.numpy(), expected.predict_proba(X), rtol=1e-6)
    else:
        frame = pd.DataFrame(Y, columns=["a", "b", "c"])
        given = {"list": Y.tolist(), "bool": Y.astype(bool), "float": Y.astype(float), "sparse": sparse.csr_array(Y)}
        given |= {"frame": frame.astype("int8"), "nullable": frame.astype("Int64")}
        found = KMPClassifier(5).fit(X, given[kind]).predict(X)
        assert found.dtype.kind == "i"
    np.testing.assert_array_equal(np.asarray(found), expected.predict(X))


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_labels_that_no_row_or_every_row_has(loss):
    X, Y = several_labels()
    more = np.column_stack([Y, np.zeros(len(Y), dtype=int), np.ones(len(Y), dtype=int)])
    alone, model = (KMPClassifier(8, loss=loss).fit(X, labels) for labels in (Y, more))
    assert model.alpha_ == pytest.approx(alone.alpha_, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X)[:, :3], alone.decision_function(X), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X)[:, 3:], more[:, 3:])
    p = model.predict_proba(X)
    assert np.all(p[:, 3] < 0.1) and np.all(p[:, 4] > 0.9)


def test_labels_that_are_refused():
    X, Y = several_labels()
    for model in (KMPClassifier(class_weight="balanced"), PursuitSearchCV(KMPClassifier(class_weight="balanced"))):
        with pytest.raises(ValueError, match=r"class_weight='balanced' is for classes of which each row has one"):
            model.fit(X, Y)
    with pytest.raises(ValueError, match=r"must be 0 and 1, whether a row has the label, got \[-1, 1\]"):
        KMPClassifier().fit(X, 2 * Y - 1)
    for model, given in ((KMPClassifier(), Y + 2 * Y[:, ::-1]), (SparseKernelFDA(), Y), (RefinedKMPClassifier(), Y)):
        with pytest.raises(ValueError, match="1d array"):
            model.fit(X, given)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="a matrix of labels is not for Dask collections"):
        KMPClassifier().fit(da.from_array(X), da.from_array(Y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_counts_rows_with_all_labels_right():
    X, Y = several_labels()
    model = PursuitSearchCV(KMPClassifier(), max_atoms=8, gammas=[0.01, 0.1], cv=3).fit(X, Y)
    at_most = model.cv_results_["param_n_atoms"] == 8  # fewer have the ridge of all eight in the search
    for gamma, score in zip([0.01, 0.1], model.cv_results_["mean_test_score"][at_most], strict=True):
        predicted = cross_val_predict(KMPClassifier(8, gamma=gamma), X, Y, cv=3)
        assert score == pytest.approx(accuracy_score(Y, predicted), abs=0.005)  # folds differ in size by one
    scored = PursuitSearchCV(KMPClassifier(), max_atoms=4, gammas=[0.1], cv=3, scoring="f1_macro").fit(X, Y)
    assert 0 < scored.best_score_ < 1


def test_models_of_labels_are_kept_and_go_on(tmp_path):
    pytest.importorskip("safetensors")
    X, Y = several_labels()
    model = KMPClassifier(6, resume=str(tmp_path / "fit")).fit(X, Y)
    again = KMPClassifier(6, resume=str(tmp_path / "fit")).fit(X, Y)
    kernelpursuit.save(model, tmp_path / "model")
    loaded = kernelpursuit.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12)
    longer = KMPClassifier(4, resume=True).fit(X, Y).set_params(n_atoms=6).fit(X, Y)
    np.testing.assert_allclose(longer.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_models_of_labels_in_onnx(loss):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    X, Y = several_labels()
    model = KMPClassifier(6, loss=loss).fit(X, Y)
    labels, p = runtime.InferenceSession(kernelpursuit.to_onnx(model).SerializeToString()).run(None, {"X": X})
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(p, model.predict_proba(X), rtol=1e-9)
