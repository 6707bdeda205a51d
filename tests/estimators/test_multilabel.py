"""Rows with several labels: a matrix of 0 and 1, whose columns share the atoms."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelpursuit
from kernelpursuit import KMPClassifier, KMPRegressor, PursuitSearchCV, RefinedKMPClassifier, SparseKernelFDA

LOSSES = ["squared_error", "log_loss", "exponential", "huber"]


def data(n=160, labels=3, seed=0):
    return make_multilabel_classification(n, 6, n_classes=labels, n_labels=2, random_state=seed)


def test_the_squared_loss_is_a_regression_on_plus_and_minus_one():
    X, Y = data()
    model = KMPClassifier(12).fit(X, Y)
    values = KMPRegressor(12).fit(X, 2.0 * Y - 1)
    np.testing.assert_array_equal(model.support_, values.support_)
    np.testing.assert_allclose(model.decision_function(X), values.predict(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (values.predict(X) > 0).astype(int))
    assert model.classes_.tolist() == [0, 1, 2] and model.dual_coef_.shape == (12, 3)
    assert model.score(X, Y) == accuracy_score(Y, model.predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_probabilities_are_of_each_label(loss):
    """They say more than the frequencies of the labels, agree with the prediction, and need not sum to 1."""
    X, Y = data(400)
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
    X, Y = data()
    model = KMPClassifier(8, alpha=0).fit(X, Y)
    at = model.support_vectors_
    for label in range(3):
        alone = KMPClassifier(8, alpha=0, centers=at).fit(X, Y[:, label])
        np.testing.assert_allclose(alone.predict_proba(X)[:, 1], model.predict_proba(X)[:, label], rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"loss": "log_loss"}, {"stop": "leave_one_out"}, {"stop": "validation"}], ids=repr
)
def test_the_number_of_atoms_is_chosen(options):
    X, Y = data()
    model = KMPClassifier(**options).fit(X, Y)
    assert 2 < len(model.support_) < 100
    assert model.score(X, Y) > np.mean(np.all(Y == np.round(Y.mean(axis=0)), axis=1))


def test_certificates_count_rows_with_any_wrong_label():
    X, Y = data(400)
    model = KMPClassifier(10, stop="certificate", random_state=0).fit(X, Y)
    assert 0 < model.path_.start.bound <= 1
    words = model.path_.sentence
    assert "held-out rows are wrong" in words
    bound = KMPClassifier(10, stop="bound").fit(X, Y)
    assert 0 < bound.path_.steps[-1].bound < bound.path_.start.bound


def test_weights_are_counts():
    X, Y = data()
    w = np.arange(len(Y)) % 3
    model = KMPClassifier(6).fit(X, Y, sample_weight=w)
    repeated = KMPClassifier(6).fit(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0))
    np.testing.assert_allclose(model.decision_function(X), repeated.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X), repeated.predict_proba(X), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["list", "bool", "float", "sparse", "frame", "nullable"])
def test_matrices_as_they_come(kind):
    X, Y = data()
    given = {"list": Y.tolist(), "bool": Y.astype(bool), "float": Y.astype(float), "sparse": sparse.csr_array(Y)}
    if kind in ("frame", "nullable"):
        pd = pytest.importorskip("pandas")
        given[kind] = pd.DataFrame(Y, columns=["a", "b", "c"]).astype("Int64" if kind == "nullable" else "int8")
    expected = KMPClassifier(5).fit(X, Y)
    model = KMPClassifier(5).fit(X, given[kind])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.predict(X).dtype.kind == "i"


def test_a_label_that_all_rows_have():
    X, Y = data()
    Y = np.column_stack([Y, np.ones(len(Y), dtype=int), np.zeros(len(Y), dtype=int)])
    model = KMPClassifier(5).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, 3:], Y[:, 3:])
    assert np.all(model.predict_proba(X)[:, 3] > 0.9) and np.all(model.predict_proba(X)[:, 4] < 0.1)


def test_what_is_refused_says_why():
    X, Y = data()
    with pytest.raises(ValueError, match=r"class_weight='balanced' is for classes of which each row has one"):
        KMPClassifier(class_weight="balanced").fit(X, Y)
    with pytest.raises(ValueError, match=r"class_weight='balanced' is for classes"):
        PursuitSearchCV(KMPClassifier(class_weight="balanced")).fit(X, Y)
    with pytest.raises(ValueError, match=r"must be 0 and 1, whether a row has the label, got \[-1, 1\]"):
        KMPClassifier().fit(X, 2 * Y - 1)
    with pytest.raises(ValueError, match="1d array"):
        KMPClassifier().fit(X, Y + 2 * Y[:, ::-1])
    for model in (SparseKernelFDA(), RefinedKMPClassifier()):
        with pytest.raises(ValueError, match="1d array"):
            model.fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_counts_rows_with_all_labels_right():
    X, Y = data()
    model = PursuitSearchCV(KMPClassifier(), max_atoms=8, gammas=[0.01, 0.1], cv=3).fit(X, Y)
    at_most = model.cv_results_["param_n_atoms"] == 8  # fewer have the ridge of all eight in the search
    for gamma, score in zip([0.01, 0.1], model.cv_results_["mean_test_score"][at_most], strict=True):
        predicted = cross_val_predict(KMPClassifier(8, gamma=gamma), X, Y, cv=3)
        assert score == pytest.approx(accuracy_score(Y, predicted), abs=0.005)  # folds differ in size by one
    assert model.predict(X).shape == Y.shape and model.predict_proba(X).shape == Y.shape
    scored = PursuitSearchCV(KMPClassifier(), max_atoms=4, gammas=[0.1], cv=3, scoring="f1_macro").fit(X, Y)
    assert 0 < scored.best_score_ < 1


def test_in_a_pipeline_in_a_search_and_along_the_path():
    X, Y = data()
    search = GridSearchCV(make_pipeline(StandardScaler(), KMPClassifier(5)), {"kmpclassifier__gamma": [0.1, 1.0]}, cv=2)
    assert search.fit(X, Y).predict(X).shape == Y.shape
    model = KMPClassifier(5).fit(X, Y)
    stages = list(model.staged_predict(X))
    np.testing.assert_array_equal(stages[2], model.truncate(3).predict(X))
    assert model.truncate(3).predict_proba(X).shape == Y.shape


def test_saved_loaded_and_gone_on_with(tmp_path):
    pytest.importorskip("safetensors")
    X, Y = data()
    model = KMPClassifier(6, resume=str(tmp_path / "fit")).fit(X, Y)
    again = KMPClassifier(6, resume=str(tmp_path / "fit")).fit(X, Y)
    kernelpursuit.save(model, tmp_path / "model")
    loaded = kernelpursuit.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    longer = KMPClassifier(4, resume=True).fit(X, Y).set_params(n_atoms=6).fit(X, Y)
    np.testing.assert_allclose(longer.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_onnx(loss):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    X, Y = data()
    model = KMPClassifier(6, loss=loss).fit(X, Y)
    graph = kernelpursuit.to_onnx(model)
    labels, p = runtime.InferenceSession(graph.SerializeToString()).run(None, {"X": X})
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_allclose(p, model.predict_proba(X), rtol=1e-9)


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    from sklearn import config_context

    X, Y = data()
    model = KMPClassifier(5).fit(X, Y)
    with config_context(array_api_dispatch=True):
        there = KMPClassifier(5).fit(torch.asarray(X), torch.asarray(Y))
        found, p = there.predict(torch.asarray(X)), there.predict_proba(torch.asarray(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), model.predict(X))
    np.testing.assert_allclose(p.numpy(), model.predict_proba(X), rtol=1e-6)


def test_dask_collections_are_refused():
    da = pytest.importorskip("dask.array")
    X, Y = data()
    with pytest.raises(ValueError, match="a matrix of labels is not for Dask collections"):
        KMPClassifier().fit(da.from_array(X), da.from_array(Y))
