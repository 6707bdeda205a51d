"""Scores of folds whose atoms are foreseen, made of a few products, are those of the fits that they save."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, ShuffleSplit

import kernelpursuit.search.search as search
import kernelpursuit.search.split_kernel as split_kernel
from kernelpursuit import KMPClassifierCV, KMPRegressorCV
from kernelpursuit.arrays import Spare
from kernelpursuit.search.fold_path import FoldPath, class_scores, highest_at, staged, value_scores
from kernelpursuit.search.foreseen import foresee
from kernelpursuit.search.shared_matrix import values_of_matrix
from kernelpursuit.search.split_kernel import SplitKernel
from tests.pairwise import pairwise

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True, params=["products kept", "passes"])
def few_rows(request, monkeypatch):
    """Both ways to know what a step adds: that of few rows, and that of more."""
    monkeypatch.setattr(split_kernel, "FEW_ROWS", 1500 if request.param == "products kept" else 0)
    return request.param


def data(n=120, targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(targets) + 0.1 * rng.normal(size=(n, targets))
    return X, y[:, 0] if targets == 1 else y


@pytest.mark.parametrize("at_once", [1, 50, 2**19])
def test_predictions_and_scores_by_arrays(at_once, monkeypatch):
    monkeypatch.setattr("kernelpursuit.search.fold_path._AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    T, lengths, weights = rng.normal(size=(7, 6)), rng.normal(size=(6, 3)), rng.uniform(size=7)
    values = np.concatenate([steps.copy() for steps in staged(T, lengths, 1)])
    expected = np.array([T[:, :k] @ lengths[:k] for k in range(2, 7)])
    np.testing.assert_allclose(values.swapaxes(1, 2), expected)
    y, labels, classes = rng.normal(size=(7, 3)), np.array([*"abcabz", "c"]), np.array([*"abc"])
    for w in (None, weights):
        missed = [-np.average(np.mean((one - y) ** 2, axis=1), weights=w) for one in expected]
        np.testing.assert_allclose(value_scores(y, values, w), missed)
        right = [np.average(classes[np.argmax(one, axis=1)] == labels, weights=w) for one in expected]
        np.testing.assert_allclose(class_scores(labels, values, w, classes), right)
        several = [np.average(np.all((one > 0) == (y > 0), axis=1), weights=w) for one in expected]
        np.testing.assert_allclose(class_scores((y > 0).astype(int), values, w, None), several)


def test_of_equal_values_the_first_is_the_highest():
    values = np.random.default_rng(0).integers(0, 3, (5, 3, 40)).astype(float)
    for place in range(3):
        wanted = np.argmax(values, axis=1) == place
        np.testing.assert_array_equal(highest_at(values, np.full(40, place)), wanted)
        np.testing.assert_array_equal(
            highest_at(values[:, :1] - 1, np.full(40, place)), (values[:, 0] > 1) == (place == 1)
        )


def values_of(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


def both_ways(model, X, y, monkeypatch, **options):
    """How many folds were scored without a fit, and whether all came out as when every fold is fitted."""
    quick, scores = [], FoldPath.scores

    def noting(path, one):
        quick.append(isinstance(found := scores(path, one), np.ndarray))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FoldPath, "scores", noting)
        one = clone(model).fit(X, y, **options)
    with monkeypatch.context() as patch:
        patch.setattr(search.Foreseeing, "of", lambda *given: None)
        other = clone(model).fit(X, y, **options)
    np.testing.assert_array_equal(one.support_, other.support_)
    np.testing.assert_array_equal(values_of(one, X), values_of(other, X))
    assert one.best_n_atoms_ == other.best_n_atoms_ and one.gamma_ == other.gamma_
    assert one.path_.reason == other.path_.reason
    for name in ("loss", "leave_one_out"):
        np.testing.assert_array_equal(one.path_.values(name), other.path_.values(name), err_msg=name)
    for name, values in other.cv_results_.items():
        if "score" in name and "rank" not in name:
            np.testing.assert_allclose(one.cv_results_[name], values, rtol=1e-8, atol=1e-12, err_msg=name)
    return sum(quick), len(quick)


OPTIONS = [
    {}, {"alpha": 0.0}, {"fit_intercept": False}, {"variant": "backfit"}, {"kernel": "laplacian"}, {"n_jobs": 1},
    {"one_standard_error": True}, {"cv": KFold(3, shuffle=True, random_state=0)},
    {"cv": ShuffleSplit(3, random_state=0)}, {"verbose": 1}, {"kernel": "poly", "degree": 2}, {"kernel": "sigmoid"},
]  # fmt: skip


@pytest.mark.parametrize(("options", "weighted", "targets"), pairwise(OPTIONS, [False, True], [1, 2]), ids=str)
def test_values(options, weighted, targets, monkeypatch):
    X, y = data(targets=targets)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    model = KMPRegressorCV(8, **{"cv": 3, "gammas": [0.3, 0.02]} | options)
    quick, paths = both_ways(model, X, y, monkeypatch, sample_weight=weights)
    assert paths == 6 and quick >= (3 if options.get("kernel") == "sigmoid" else 6)  # which has negative eigenvalues


@pytest.mark.parametrize("kind", ["two", "three", "strings", "labels"])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes(kind, weighted, monkeypatch):
    X, y = data(targets=2)
    classes = (y[:, 0] > 0).astype(int) + (kind != "two") * (y[:, 1] > 0)
    classes = np.array(["one", "two", "three"])[classes] if kind == "strings" else classes
    weights = np.random.default_rng(1).integers(0, 3, len(X)) + 0.5 * (np.arange(len(X)) < 4) if weighted else None
    model = KMPClassifierCV(8, cv=3, gammas=[0.3, 0.02])
    y = (y > 0).astype(int) if kind == "labels" else classes
    assert both_ways(model, X, y, monkeypatch, sample_weight=weights) == (6, 6)


def test_a_class_without_weight(monkeypatch):
    X, y = data()
    classes, weights = (y > 0).astype(int), np.ones(len(X))
    classes[:12], weights[:12] = 2, 0.0
    model = KMPClassifierCV(8, cv=3, gammas=[0.3, 0.02])
    assert both_ways(model, X, classes, monkeypatch, sample_weight=weights) == (6, 6)


@pytest.mark.filterwarnings("ignore:best_score_ and cv_results_ are")  # of tiny targets
@pytest.mark.parametrize("case", ["rank", "twins", "exact", "tol", "huge", "tiny", "constant", "outlier", "far"])
def test_where_paths_end_early_or_atoms_are_alike(case, monkeypatch):
    X, y = data()
    options = {"cv": 3, "gammas": [0.3, 0.02]}
    if case == "rank":
        options |= {"kernel": "linear", "gammas": None}
    elif case == "twins":
        X, y = np.concatenate([X[:40], X[:40][::-1]]), np.concatenate([y[:40], y[:40][::-1] + 0.01])
        options["cv"] = KFold(3, shuffle=True, random_state=0)
    elif case == "exact":
        y = rbf_kernel(X, X[:2], gamma=0.3) @ [1.0, -2.0]
    elif case == "tol":
        options["tol"] = 0.2
    elif case == "constant":
        y = np.full(len(y), 3.0)
    elif case == "outlier":
        X[0] = 1e3
    elif case == "far":
        y = y + 1e4
    y = y * {"huge": 1e75, "tiny": 1e-200}.get(case, 1.0)
    both_ways(KMPRegressorCV(10, **options), X, y, monkeypatch)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["values", "classes", "backfit", "no constant"])
def test_a_path_that_ends_because_no_atom_is_left_needs_no_fit(kind, weighted, monkeypatch):
    X, y = data()
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    model = (KMPClassifierCV if kind == "classes" else KMPRegressorCV)(10, cv=4, kernel="linear")
    model.set_params(**{"backfit": {"variant": "backfit"}, "no constant": {"fit_intercept": False}}.get(kind, {}))
    y = (y > 0).astype(int) if kind == "classes" else y
    assert both_ways(model, X, y, monkeypatch, sample_weight=weights) == (4, 4)


def test_arrays_that_are_used_again_change_nothing():
    """The same width three times, in memory that others have used."""
    X, y = data()
    model = KMPRegressorCV(8, cv=3, gammas=[0.3, 5.0, 0.3, 1e-3, 0.3]).fit(X, y)
    table = model.cv_results_["mean_test_score"].reshape(5, 8)
    np.testing.assert_array_equal(table[0], table[2])
    np.testing.assert_array_equal(table[0], table[4])
    spare, K, parts = Spare(), rbf_kernel(X), [train for train, _ in KFold(3).split(X)]
    shared = SplitKernel(values_of_matrix(K), y[:, None], None, parts, True, np.arange(len(X)), spare=spare)
    first, kept = foresee(shared, 0, 5, True)[0], shared._band if shared.products is None else shared.products
    mine, given = id(kept), (kept.shape, kept.dtype)
    del shared, kept
    assert id(spare.take(*given)) == mine and len(first.atoms) == 5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("folds", [KFold(4), ShuffleSplit(3, random_state=0)], ids=str)
def test_the_atoms_of_all_rows_are_foreseen_too(folds, weighted):
    X, y = data()
    K, parts = rbf_kernel(X, gamma=0.3), [train for train, _ in folds.split(X)]
    counted = np.arange(len(X)) % 3 > 0 if weighted else np.ones(len(X), dtype=bool)
    parts, roots = [rows[counted[rows]] for rows in parts], counted.astype(float)
    everyone = np.flatnonzero(counted)
    shared = SplitKernel(values_of_matrix(K), y[:, None], roots if weighted else None, parts, True, np.arange(len(X)))
    few, n = K[np.ix_(everyone, everyone)], len(everyone)
    alone = SplitKernel(values_of_matrix(few), y[everyone, None], None, [np.arange(n)], True, np.arange(n))
    found = foresee(shared, len(parts), 12, True)[0]
    assert found.atoms.tolist() == foresee(alone, 0, 12, True)[0].atoms.tolist()
    assert found.first(3).atoms.tolist() == found.atoms[:3].tolist() and len(found.first(3).errors) == 3
