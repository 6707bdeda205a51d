"""Folds that share a kernel matrix find what folds with kernels of their own find."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold

import kernelpursuit.search.search_paths as search_paths
import kernelpursuit.search.shared_matrix as shared_matrix
from kernelpursuit import KMPClassifierCV, KMPRegressorCV, SparseKernelFDACV
from kernelpursuit.kernels import make_kernel

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms")


def data(n=80, targets=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(targets or 1) + 0.1 * rng.normal(size=(n, targets or 1))
    return X, y if targets else y[:, 0]


def apart(model, X, y, monkeypatch, **options):
    with monkeypatch.context() as patch:
        for name in ("kernel_matrix", "values_when_asked"):
            patch.setattr(search_paths, name, lambda *arguments: None)
        return clone(model).fit(X, y, **options)


def assert_same(one, other):
    for name, expected in other.cv_results_.items():
        if "score" in name:
            np.testing.assert_allclose(one.cv_results_[name], expected, rtol=1e-6, err_msg=name)
    assert (one.best_n_atoms_, one.gamma_) == (other.best_n_atoms_, other.gamma_)


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"alpha": 0.0}, {"tol": 0.3}, {"cv": KFold(3, shuffle=True, random_state=0)}, {"variant": "backfit"},
        {"variant": "basic"}, {"kernel": "laplacian"}, {"kernel": "linear", "gammas": None}, {"alphas": [1e-3, 1.0]},
        {"fit_intercept": False}, {"scoring": "r2"}, {"weakness": 0.7},
    ],
    ids=str,
)  # fmt: skip
def test_values(options, targets, monkeypatch):
    X, y = data(targets=targets)
    model = KMPRegressorCV(9, **{"cv": 3, "gammas": [1e-3, 5.0]} | options)
    one, other = clone(model).fit(X, y), apart(model, X, y, monkeypatch)
    assert_same(one, other)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("options", [{"loss": "logistic"}, {"scoring": "neg_log_loss"}, {"loss": "huber"}], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_losses_scorers_and_sparse_rows(options, form, monkeypatch):
    X, y = data(60)
    X, y = form(X), (y > 0) if options.get("loss") != "huber" else y
    model = (KMPRegressorCV if options.get("loss") == "huber" else KMPClassifierCV)(5, gammas=[0.3], cv=3, **options)
    weights = np.arange(60) % 4 / 2.0  # some have none
    assert_same(clone(model).fit(X, y, sample_weight=weights), apart(model, X, y, monkeypatch, sample_weight=weights))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", [KMPClassifierCV, SparseKernelFDACV])
def test_classes(estimator, n_classes, monkeypatch):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], np.array(["one", "two", "three"])[y[y < n_classes]]
    model = estimator(6, cv=3, gammas=[0.1, 1.0])
    one, other = clone(model).fit(X, y), apart(model, X, y, monkeypatch)
    assert_same(one, other)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X))


def test_rows_that_are_equal_end_paths_early(monkeypatch):
    X, y = data(20)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    model = KMPRegressorCV(40, gammas=[0.5], cv=3, alpha=0.0)
    one, other = clone(model).fit(X, y), apart(model, X, y, monkeypatch)
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-5, atol=1e-12
    )


def test_where_a_matrix_is_shared():
    X, _ = data()
    own = [
        KMPRegressorCV(kernel=["rbf", "laplacian"]), KMPRegressorCV(functions=[np.sin]), KMPRegressorCV(centers=10),
        KMPRegressorCV(candidates=10), KMPRegressorCV(memory=0), KMPRegressorCV(kernel="precomputed"),
        KMPRegressorCV(kernel=("rbf", {"gamma": 1.0})), KMPRegressorCV(kernel=rbf_kernel),
    ]  # fmt: skip
    assert all(search_paths.kernel_matrix(model, X, 0.5) is None for model in own)
    K = search_paths.kernel_matrix(KMPRegressorCV(), X, 0.5)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, rbf_kernel(X, gamma=0.5))
    assert search_paths.kernel_matrix(KMPRegressorCV(), X.astype(np.float32), 0.5) is None


@pytest.mark.parametrize("options", [{}, {"alphas": [0.0, 1e-3]}, {"variant": "basic"}, {"scoring": "r2"}], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_in_float32_are_searched_as_in_float64(form, options):
    X, y = data(200)
    X = X.astype(np.float32)
    model = KMPRegressorCV(20, gammas=[0.01, 0.1, 1.0], **options)
    one, other = (clone(model).fit(form(rows), y) for rows in (X, X.astype(np.float64)))
    assert_same(one, other)
    np.testing.assert_array_equal(one.support_, other.support_)
    assert one.predict(X).dtype == np.float32
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-3)


def test_many_rows_in_float32_stay_what_they_are(monkeypatch):
    X = np.ones((60, 2), dtype=np.float32)
    assert shared_matrix.as_shared(KMPRegressorCV(), X).dtype == np.float64
    with monkeypatch.context() as patch:
        patch.setattr(shared_matrix, "free_memory", lambda X: 8 * X.size * shared_matrix.SHARE - 1)
        assert shared_matrix.as_shared(KMPRegressorCV(), X) is X
    monkeypatch.setattr(shared_matrix, "MOST_ROWS", 50)
    assert shared_matrix.as_shared(KMPRegressorCV(), X) is X
    assert shared_matrix.as_shared(KMPRegressorCV(kernel="precomputed"), X[:10]).dtype == np.float32


@pytest.mark.parametrize("far", [False, True])
def test_values_that_are_asked_for_are_those_of_the_kernel(far):
    X, _ = data(40)
    X[:3] *= 1e6 if far else 1.0
    kernel = make_kernel("rbf", X, gamma=0.3)
    values, K = shared_matrix.values_when_asked(kernel, X), rbf_kernel(X, gamma=0.3)
    everything = slice(0, 40)
    for rows, columns in (np.array([7]), everything), (slice(2, 9), np.array([1, 0, 39])), (everything, everything):
        np.testing.assert_allclose(values(rows, columns), K[rows][:, columns], atol=1e-14)


@pytest.mark.parametrize("n", [20, 30])
def test_values_of_many_inputs_are_kept_and_of_few_computed(n, monkeypatch):
    X = np.random.default_rng(0).normal(size=(70, n))
    model, made, matrix = KMPRegressorCV(9, gammas=[0.01, 0.1], cv=3), [], search_paths.kernel_matrix
    monkeypatch.setattr(search_paths, "kernel_matrix", lambda *given: made.append(1) or matrix(*given))
    one = clone(model).fit(X, X[:, 0])
    assert len(made) == (2 if n > 20 else 0)
    assert_same(one, apart(model, X, X[:, 0], monkeypatch))


def test_a_fold_without_a_class(monkeypatch):
    X, _ = data(30)
    y = np.repeat([0, 1, 2], 10)
    model = KMPClassifierCV(4, gammas=[0.5], cv=KFold(3))
    assert_same(clone(model).fit(X, y), apart(model, X, y, monkeypatch))
