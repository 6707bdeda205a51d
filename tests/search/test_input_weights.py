"""Searches that learn weights of the inputs: those of a loop written out, without rows that are held out."""

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from kernelpursuit import (
    FeatureWidths,
    KMPClassifier,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitSearchCV,
    load,
    refine,
    save,
    to_onnx,
)
from kernelpursuit.fitting.training import with_class_weight
from kernelpursuit.plots.path import _cross_validated

pytestmark = [
    pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms"),
    pytest.mark.filterwarnings("ignore:the weights are not at a maximum"),
]
FOLDS = KFold(2, shuffle=True, random_state=0)
MOST = 4


def data(n=48):
    """Only the first of three inputs matters, in units that hide it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [1e-2, 1.0, 1e3]
    return X, np.sin(2e2 * X[:, 0]) + 0.05 * rng.normal(size=n)


def learned(estimator=KMPRegressor(), **options):  # noqa: B008
    given = {"max_atoms": MOST, "gammas": [0.5, 2.0], "cv": FOLDS, "input_weights": "learned"} | options
    return PursuitSearchCV(estimator, **given)


@pytest.fixture(scope="module")
def fitted():
    return learned().fit(*data())


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_a_loop(weighted):
    """The weights of a fold come from its training rows, those of the model from all rows."""
    X, y = data()
    w = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None

    def of(rows):
        return {} if w is None else {"sample_weight": w[rows]}

    model = learned(KMPRegressor(random_state=3), alphas=[0.0, 0.1]).fit(X, y, sample_weight=w)
    table = np.empty((2, 2, 2, MOST))
    for fold, (train, test) in enumerate(FOLDS.split(X)):
        widths = FeatureWidths(random_state=3, task="regression").fit(X[train], y[train], **of(train))
        A, B = widths.transform(X[train]), widths.transform(X[test])
        for i, gamma in enumerate([0.5, 2.0]):
            for j, alpha in enumerate([0.0, 0.1]):
                path = KMPRegressor(MOST, gamma=gamma, alpha=alpha).fit(A, y[train], **of(train))
                for k, values in enumerate(path.staged_predict(B)):
                    weights = None if w is None else w[test]
                    table[i, j, fold, k] = -np.average((y[test] - values) ** 2, weights=weights)
    results = model.cv_results_
    np.testing.assert_allclose(results["mean_test_score"], table.mean(axis=2).ravel(), rtol=1e-8)
    assert set(results["param_input_weights"]) == {"learned"}
    widths = FeatureWidths(random_state=3, task="regression").fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(model.input_weights_, widths.weights_)
    best, chosen = model.best_estimator_, dict(model.best_params_)
    assert chosen.pop("input_weights") == "learned"
    alone = KMPRegressor(**chosen)
    alone.fit(widths.transform(X), y, sample_weight=w)
    np.testing.assert_array_equal(best.support_, alone.support_)
    np.testing.assert_array_equal(best.support_vectors_, X[best.support_])
    np.testing.assert_allclose(model.predict(X), alone.predict(widths.transform(X)), rtol=1e-8)
    written_out = np.exp(
        -best.gamma_ * np.sum(((X[:, None] - best.support_vectors_) * model.input_weights_) ** 2, axis=2)
    )
    np.testing.assert_allclose(model.predict(X), written_out @ best.dual_coef_ + best.intercept_, rtol=1e-7)


def test_both_keeps_the_better(fitted):
    X, y = data()
    with pytest.warns(UserWarning, match="has 100.0% of the variance"):  # learned weights absorb the units
        equal = learned(input_weights="equal", gammas=None).fit(X, y)
    both = learned(input_weights="both", gammas=None).fit(X, y)
    own = learned(gammas=None).fit(X, y)
    results = both.cv_results_
    assert both.best_score_ == own.best_score_ > equal.best_score_ and "param_input_weights" not in equal.cv_results_
    np.testing.assert_array_equal(equal.input_weights_, np.ones(3))
    np.testing.assert_array_equal(both.input_weights_, own.input_weights_)
    for kind, alone in (("equal", equal), ("learned", own)):
        mine = results["param_input_weights"] == kind
        np.testing.assert_array_equal(results["param_gamma"][mine], alone.cv_results_["param_gamma"])
        np.testing.assert_allclose(results["mean_test_score"][mine], alone.cv_results_["mean_test_score"], rtol=1e-9)
    assert set(own.cv_results_["param_gamma"]) == {0.25, 1.0, 4.0, 16.0}
    assert set(fitted.cv_results_["param_gamma"]) == {0.5, 2.0}
    assert len(_cross_validated(both, classifier=False)[0]) == MOST
    # Widths that suit these units, and not weights that suit 1.
    X = 100 * X / [1e-2, 1.0, 1e3]
    y = np.sin(0.01 * np.sum(X, axis=1))
    both = learned(input_weights="both", gammas=[1e-5]).fit(X, y)
    np.testing.assert_array_equal(both.input_weights_, np.ones(3))
    one = KMPRegressor(both.best_params_["n_atoms"], gamma=1e-5).fit(X, y)
    np.testing.assert_array_equal(both.predict(X), one.predict(X))


def test_other_ways_to_use_it(fitted):
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), learned()).fit(X, y)
    np.testing.assert_allclose(pipeline.predict(X), fitted.predict(X), rtol=1e-5, atol=1e-5)  # units do not matter
    found = GridSearchCV(learned(gammas=[1.0]), {"input_weights": ["equal", "learned"]}, cv=2).fit(X, y)
    assert found.best_params_ == {"input_weights": "learned"}
    drawn = learned(KMPRegressor(centers=20, random_state=0)).fit(X, y).best_estimator_
    np.testing.assert_array_equal(drawn.support_vectors_, X[drawn.support_])
    with parallel_config(backend="threading"):
        np.testing.assert_array_equal(learned(n_jobs=2).fit(X, y).predict(X), fitted.predict(X))
    single = learned().fit(X.astype(np.float32), y)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), fitted.predict(X), atol=1e-3)
    np.testing.assert_allclose(list(fitted.staged_predict(X))[-1], fitted.predict(X))
    shorter = fitted.truncate(2)
    np.testing.assert_allclose(shorter.predict(X), list(fitted.staged_predict(X))[1])
    np.testing.assert_allclose([fitted.predict(X[[i]])[0] for i in range(5)], fitted.predict(X[:5]))
    assert len(fitted.truncate(0).predict(X)) == len(X)
    moved = refine(fitted, X, y)
    assert moved.score(X, y) > 0.5


@pytest.mark.parametrize("calls", [0, 2])
def test_an_interrupt(calls, monkeypatch):
    """In a fold nothing is known yet. While weights of all rows are learned the best so far are kept."""
    X, y = data()
    fit, seen = FeatureWidths.fit, []

    def interrupting(self, X, y, sample_weight=None):
        seen.append(len(X))
        if len(seen) <= calls:
            return fit(self, X, y, sample_weight)
        fit(self, X, y, sample_weight)
        raise KeyboardInterrupt

    monkeypatch.setattr(FeatureWidths, "fit", interrupting)
    model = learned()
    with pytest.raises(KeyboardInterrupt, match="interrupted while input weights" if calls else None):
        model.fit(X, y)
    assert hasattr(model, "best_estimator_") == (calls == 2)
    if calls == 2:
        assert np.all(np.isfinite(model.predict(X)))


def test_lines_say_which_weights(capsys):
    X, y = data()
    learned(input_weights="both", gammas=[1.0], verbose=1).fit(X, y)
    said = capsys.readouterr().out
    assert "fold 1 of 2, gamma=1:" in said and "fold 1 of 2, learned weights, gamma=1:" in said
    assert "chosen: learned weights, gamma=1" in said


def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] * [1, 1e3, 1, 1e-3], y[::3]


@pytest.mark.parametrize("targets", ["classes", "labels", "values", "whole numbers"])
def test_kinds_of_targets(targets):
    """The model is that of a pipeline of both estimators."""
    X, y = iris()
    y = np.stack([y == 0, y == 2], axis=1).astype(int) if targets == "labels" else y
    y = np.stack([y, X[:, 0]], axis=1) if targets == "values" else y
    estimator = KMPClassifier() if targets in ("classes", "labels") else KMPRegressor()
    model = learned(estimator, gammas=[1.0]).fit(X, y)
    task = "classification" if targets == "classes" else "regression"
    widths = FeatureWidths(random_state=0, task=task).fit(X, y)
    np.testing.assert_array_equal(model.input_weights_, widths.weights_)
    alone = clone(estimator).set_params(n_atoms=model.best_params_["n_atoms"], gamma=1.0).fit(widths.transform(X), y)
    method = "predict_proba" if isinstance(estimator, KMPClassifier) else "predict"
    np.testing.assert_allclose(getattr(model, method)(X), getattr(alone, method)(widths.transform(X)), rtol=1e-6)


def test_weights_of_classes_are_those_of_rows():
    X, y = iris()
    costs = {0: 1.0, 1: 1.0, 2: 5.0}
    estimator = KMPClassifier(MOST, gamma=1.0, alpha=0.1, class_weight=costs)
    model = learned(estimator, gammas=[1.0]).fit(X, y)
    scores = []
    for train, test in FOLDS.split(X):
        widths = FeatureWidths(random_state=0, task="classification")
        widths.fit(X[train], y[train], with_class_weight(costs, y[train], None, X[train])[0])
        alone = clone(estimator).fit(widths.transform(X[train]), y[train])
        scores.append(alone.score(widths.transform(X[test]), y[test]))
    assert model.cv_results_["mean_test_score"][-1] == pytest.approx(np.mean(scores), rel=1e-9)


def test_models_are_kept_and_converted(fitted, tmp_path):
    pytest.importorskip("safetensors")
    X, _ = data()
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.input_weights_, fitted.input_weights_)
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(fitted, dtype=np.float64).SerializeToString())
    values = session.run(None, {session.get_inputs()[0].name: X})[0].ravel()
    np.testing.assert_allclose(values, fitted.predict(X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (KMPRegressor(kernel="laplacian"), {}, "needs kernel='rbf', got 'laplacian'"),
        (KMPRegressor(kernel=["rbf"]), {}, "needs kernel='rbf'"),
        (KMPRegressor(centers=np.ones((2, 3))), {}, "needs centers=None or a number"),
        (KMPRegressor(), {"input_weights": "own"}, "'input_weights' parameter"),
        (PolytopeFacesRegressor(), {}, "is for KMPRegressor, KMPClassifier, SparseKernelFDA, got Polytope"),
    ],
    ids=str,
)
def test_what_does_not_go_together(estimator, options, message):
    with pytest.raises(ValueError, match=message):
        learned(estimator, **options).fit(*data())


def test_sparse_rows_are_refused():
    X, y = data()
    sparse_tags = [get_tags(learned(input_weights=kind)).input_tags.sparse for kind in ("equal", "learned", "both")]
    assert sparse_tags == [True, False, False]
    with pytest.raises(ValueError, match="input_weights='learned' needs dense X"):
        learned().fit(sparse.csr_array(X), y)
