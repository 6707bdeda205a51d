"""Folds that go together find what folds one by one find."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold

import kernelpursuit.estimators._search as search
from kernelpursuit import KMPClassifierCV, KMPRegressorCV, SparseKernelFDACV
from kernelpursuit.estimators._fold_paths import can_share, fold_paths

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms")


def data(n=80, targets=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(targets or 1) + 0.1 * rng.normal(size=(n, targets or 1))
    return X, y if targets else y[:, 0]


def one_by_one(model, X, y, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(search, "can_share", lambda *arguments: False)
        return clone(model).fit(X, y)


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize(
    "options", [{}, {"alpha": 0.0}, {"tol": 0.3}, {"cv": KFold(3, shuffle=True, random_state=0)}], ids=str
)
def test_values(options, targets, monkeypatch):
    X, y = data(targets=targets)
    model = KMPRegressorCV(12, gammas=[1e-3, 0.3, 5.0], **{"cv": 3} | options)
    assert can_share(model, X, None)
    one, other = clone(model).fit(X, y), one_by_one(model, X, y, monkeypatch)
    for name, expected in other.cv_results_.items():
        np.testing.assert_allclose(one.cv_results_[name], expected, rtol=1e-6, err_msg=name)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes, monkeypatch):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], np.array(["one", "two", "three"])[y[y < n_classes]]
    model = KMPClassifierCV(15, cv=4)
    one, other = clone(model).fit(X, y), one_by_one(model, X, y, monkeypatch)
    for name, expected in other.cv_results_.items():
        np.testing.assert_allclose(one.cv_results_[name], expected, err_msg=name)
    assert one.best_n_atoms_ == other.best_n_atoms_ and one.gamma_ == other.gamma_


def test_rows_that_are_equal_end_paths_early(monkeypatch):
    X, y = data(20)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    model = KMPRegressorCV(40, gammas=[0.5], cv=3, alpha=0.0)
    one, other = clone(model).fit(X, y), one_by_one(model, X, y, monkeypatch)
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-5, atol=1e-12
    )


def test_directions_are_orthonormal_for_a_wide_kernel():
    X, y = data(120)
    K = np.exp(-1e-3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    folds = list(KFold(3).split(X))
    for (train, _), path in zip(folds, fold_paths(K, y[:, None], folds, 40, 1e-12), strict=True):
        Q = path.Q[:, train]
        assert np.abs(Q @ Q.T - np.eye(len(Q))).max() < 1e-10
        A = np.column_stack([np.ones(len(train)), K[np.ix_(train, path.atoms)]])
        np.testing.assert_allclose(Q.T @ path.R, A, atol=1e-10)
        assert len(set(path.atoms)) == len(path.atoms) and set(path.atoms) <= set(train.tolist())


def test_what_does_not_go_together():
    X, y = data()
    alone = [
        KMPRegressorCV(kernel="laplacian"), KMPRegressorCV(variant="backfit"), KMPRegressorCV(alphas=[0.1]),
        KMPRegressorCV(loss="huber"), KMPRegressorCV(functions=[np.sin]), KMPRegressorCV(scoring="r2"),
        KMPRegressorCV(alpha=0.1), KMPRegressorCV(fit_intercept=False), SparseKernelFDACV(),
    ]  # fmt: skip
    assert not any(can_share(model, X, None) for model in alone)
    plain = KMPRegressorCV()
    assert can_share(plain, X, None)
    assert not can_share(plain, X.astype(np.float32), None) and not can_share(plain, X, np.ones(len(y)))


def test_a_fold_without_a_class_goes_alone(monkeypatch):
    X, _ = data(30)
    y = np.repeat([0, 1, 2], 10)
    model = KMPClassifierCV(4, gammas=[0.5], cv=KFold(3))
    one, other = clone(model).fit(X, y), one_by_one(model, X, y, monkeypatch)
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
