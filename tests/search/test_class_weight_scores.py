"""Searches with weights of classes, which are for the fits: scores are those of a grid over the single model."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

from kernelpursuit import FeatureWidths, KMPClassifier, PursuitSearchCV, SparseKernelFDA
from kernelpursuit.fitting.training import with_class_weight

COSTS = {0: 1.0, 1: 1.0, 2: 5.0}
FOLDS = StratifiedKFold(3)
pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms")


def rows(n_classes=3, n=100, dtype=np.float64):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3)).astype(dtype)
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], [-0.5, 1.2])
    return X, np.minimum(y, n_classes - 1)


def by_grid(single, X, y, scoring, most=4):
    grid = GridSearchCV(single, {"n_atoms": list(range(1, most + 1))}, cv=FOLDS, scoring=scoring).fit(X, y)
    return grid.cv_results_["mean_test_score"], grid.best_params_["n_atoms"]


@pytest.mark.parametrize(("weights", "scoring"), [(COSTS, None), ("balanced", "f1_macro")], ids=["costs", "balanced"])
@pytest.mark.parametrize("how", ["three", "two", "float32", "processes", "no ridge", "log_loss"])
def test_scores_are_those_of_a_grid(how, weights, scoring):
    X, y = rows(2 if how == "two" else 3, dtype=np.float32 if how == "float32" else np.float64)
    weights = {0: 3.0} if how == "two" and weights is COSTS else weights
    options = {"alpha": 0.0 if how == "no ridge" else 0.1, "class_weight": weights}
    options |= {"loss": "log_loss"} if how == "log_loss" else {}
    jobs = 1 if how == "processes" else None
    model = PursuitSearchCV(
        KMPClassifier(**options), max_atoms=4, gammas=[0.5], cv=FOLDS, scoring=scoring, n_jobs=jobs
    ).fit(X, y)
    wanted, best = by_grid(KMPClassifier(gamma=0.5, **options), X, y, scoring)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], wanted, rtol=1e-12)
    assert model.best_params_["n_atoms"] == best


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("weights", "scoring"), [(COSTS, None), (COSTS, "accuracy"), (COSTS, "neg_log_loss"), ("balanced", None)]
)
def test_scores_of_discriminants_are_those_of_a_grid(scoring, weights, n_classes):
    X, y = rows(n_classes)
    weights = {0: 3.0} if n_classes == 2 and weights is COSTS else weights
    model = PursuitSearchCV(
        SparseKernelFDA(class_weight=weights), max_atoms=4, gammas=[0.3], cv=FOLDS, scoring=scoring
    ).fit(X, y)
    wanted, best = by_grid(SparseKernelFDA(gamma=0.3, class_weight=weights), X, y, scoring)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], wanted, rtol=1e-9)
    assert model.best_params_["n_atoms"] == best


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_truncated_discriminant_has_the_thresholds_of_its_size(n_classes):
    X, y = rows(n_classes)
    long = SparseKernelFDA(9, gamma=0.3, class_weight={1: 5.0}).fit(X, y)
    for k in (1, 5, 7, 9):
        fit = SparseKernelFDA(k, gamma=0.3, class_weight={1: 5.0}).fit(X, y)
        np.testing.assert_allclose(long.truncate(k).decision_function(X), fit.decision_function(X), rtol=1e-8)
        np.testing.assert_allclose(long.truncate(k).predict_proba(X), fit.predict_proba(X), rtol=1e-8)


def test_rows_count_in_scores_and_classes_do_not():
    """The score of each fold by hand: `sample_weight` is in it, the weights of the classes are not."""
    X, y = rows()
    w = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    for class_weight in (COSTS, "balanced"):
        options = {"gamma": 0.5, "alpha": 0.1, "class_weight": class_weight}
        single = KMPClassifier(4, **options)
        scores = [
            accuracy_score(y[b], clone(single).fit(X[a], y[a], w[a]).predict(X[b]), sample_weight=w[b])
            for a, b in FOLDS.split(X, y)
        ]
        model = PursuitSearchCV(
            KMPClassifier(alpha=0.1, class_weight=class_weight), max_atoms=4, gammas=[0.5], cv=FOLDS
        )
        found = model.fit(X, y, sample_weight=w).cv_results_
        assert found["mean_test_score"][3] == pytest.approx(np.mean(scores), rel=1e-12)


def test_learned_input_weights_know_the_classes_that_count():
    X, y = rows()
    options = {"alpha": 0.1, "class_weight": COSTS}
    model = PursuitSearchCV(
        KMPClassifier(random_state=0, **options), max_atoms=3, gammas=[1.0], cv=FOLDS, input_weights="learned"
    ).fit(X, y)
    scores = []
    for a, b in FOLDS.split(X, y):
        widths = FeatureWidths(task="classification", random_state=0)
        widths.fit(X[a], y[a], with_class_weight(COSTS, y[a], None, X[a])[0])
        single = make_pipeline(widths, KMPClassifier(3, gamma=1.0, **options))
        single[-1].fit(widths.transform(X[a]), y[a])
        scores.append(single.score(X[b], y[b]))
    assert model.cv_results_["mean_test_score"][2] == pytest.approx(np.mean(scores), rel=1e-9)
