"""Data frames, sparse matrices, single precision, pickles and clones."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from kernelpursuit import KMPClassifier, KMPRegressor, SparseKernelCCA, SparseKernelPCA
from kernelpursuit.losses import Loss, huber
from tests.fitting.test_truncate import PATHS
from tests.problems import classes, data, quiet_fit


def test_data_frames():
    X, y = data()
    names = ["a", "b", "c"]
    plain = KMPRegressor(6).fit(X, y)
    for frame, series in (
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (pl.DataFrame(X, schema=names), pl.Series(y)),
    ):
        model = KMPRegressor(6).fit(frame, series)
        assert list(model.feature_names_in_) == names and model.n_features_in_ == 3
        np.testing.assert_array_equal(model.support_, plain.support_)
        np.testing.assert_allclose(model.predict(frame), plain.predict(X), rtol=1e-12)
        with pytest.raises(ValueError, match="order"):
            model.predict(frame[["b", "a", "c"]])
        with pytest.warns(UserWarning, match="feature names"):
            model.predict(X)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", ["rbf", "cosine"]], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_equals_dense(kernel, weighted, make):
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    w = (np.arange(len(X)) % 3).astype(float) if weighted else None
    dense = quiet_fit(KMPRegressor(7, kernel=kernel), X, y, sample_weight=w)
    thin = quiet_fit(KMPRegressor(7, kernel=kernel), make(X), y, sample_weight=w)
    np.testing.assert_array_equal(dense.support_, thin.support_)
    for new in (X, make(X)):
        np.testing.assert_allclose(thin.predict(new), dense.predict(X), rtol=1e-7, atol=1e-8)
    assert sparse.issparse(thin.support_vectors_)
    np.testing.assert_array_equal(thin.support_vectors_.toarray(), dense.support_vectors_)


def in_parts(X):
    """A sparse matrix each of whose entries is stored as two numbers, their sum."""
    n, d = X.shape
    columns, starts = np.repeat(np.tile(np.arange(d), n), 2), np.arange(0, 2 * d * n + 1, 2 * d)
    return sparse.csr_array((np.repeat(X.ravel() / 2, 2), columns, starts), shape=X.shape)


def test_sparse_entries_in_parts_are_their_sums():
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    parts = in_parts(X)
    for model in (KMPRegressor(7), KMPRegressor(7, gamma=1.0, centers=20, random_state=0), SparseKernelPCA(5)):
        one, two = clone(model).fit(sparse.csr_array(X), y), clone(model).fit(parts, y)
        np.testing.assert_array_equal(one.support_, two.support_)
        for each in (one, two):
            method = each.predict if hasattr(each, "predict") else each.transform
            np.testing.assert_allclose(method(parts), method(X), rtol=1e-7, atol=1e-8)
    for centers in (X[:20], parts[:20]):
        given = KMPRegressor(7, gamma=1.0, centers=centers).fit(parts, y)
        np.testing.assert_allclose(given.predict(X), KMPRegressor(7, gamma=1.0, centers=X[:20]).fit(X, y).predict(X))
    views = SparseKernelCCA(5, n_components=1, alpha=0.1)
    one, two = clone(views).fit(X, X[:, :2]), clone(views).fit(parts, in_parts(X[:, :2]))
    np.testing.assert_allclose(two.transform(parts, in_parts(X[:, :2]))[1], one.transform(X, X[:, :2])[1], rtol=1e-6)
    assert parts.nnz == 2 * X.size  # what was given is as it was


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "poly"])
def test_model_of_dense_data_predicts_sparse_data(kernel):
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0) + np.array([3.0, 0.0, 0.0])
    for centers in (None, X[:20]):
        model = KMPRegressor(3, kernel=kernel, centers=centers).fit(X, y)
        np.testing.assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X), rtol=1e-7, atol=1e-8)
    thin = KMPRegressor(3, kernel=kernel, centers=X[:20]).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(X), model.predict(X), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    "options", [{}, {"variant": "basic"}, {"loss": "huber"}, {"alpha": 0.1}, {"n_atoms": "auto"}], ids=str
)
def test_single_precision(options):
    X, y = data()
    model = KMPRegressor(**{"n_atoms": 6} | options)
    double, single = clone(model).fit(X, y), clone(model).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    assert single.support_vectors_.dtype == np.float32
    assert double.predict(X).dtype == np.float64
    assert next(single.staged_predict(X.astype(np.float32))).dtype == np.float32
    if model.n_atoms != "auto":
        assert np.abs(single.predict(X.astype(np.float32)) - double.predict(X)).max() < 1e-3 * np.abs(y).max()


@pytest.mark.parametrize("model", [*PATHS[:4], KMPRegressor(kernel=["rbf", ("rbf", {"gamma": 0.1})])], ids=repr)
def test_pickle_is_bit_equal(model):
    X, y = data()
    model = clone(model).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.path_ == model.path_ or np.isnan(model.path_.start.score)
    np.testing.assert_array_equal(copy.support_, model.support_)


def test_clone_keeps_parameters():
    kernel = ["rbf", ("rbf", {"gamma": 0.1})]
    model = KMPClassifier(
        3, kernel=kernel, candidates=(0.05, 0.9), loss=huber(0.5), centers=np.ones((2, 2)), random_state=0
    )
    copy = clone(model)
    assert copy.kernel == kernel and copy.candidates == (0.05, 0.9) and copy.n_atoms == 3
    assert isinstance(copy.loss, Loss)
    X, _ = data(d=2)
    np.testing.assert_array_equal(
        model.set_params(centers=None).fit(X, classes(X)).predict(X),
        copy.set_params(centers=None).fit(X, classes(X)).predict(X),
    )
