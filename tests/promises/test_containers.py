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
from tests.pairwise import pairwise
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


def thinned():
    """Rows with many zeros, and a column that is not centred at 0."""
    X, y = data()
    return np.where(np.abs(X) > 0.5, X, 0.0) + np.array([3.0, 0.0, 0.0]), y


@pytest.mark.parametrize(
    ("kernel", "weighted", "centers", "make"),
    pairwise(
        ["rbf", "linear", "poly", "laplacian", ["rbf", "cosine"]],
        [False, True],
        [None, 20],
        [sparse.csr_array, sparse.csr_matrix, sparse.csc_array],
    ),
    ids=str,
)
def test_sparse_equals_dense(kernel, weighted, centers, make):
    X, y = thinned()
    weights = (np.arange(len(X)) % 3).astype(float) if weighted else None
    model = KMPRegressor(5, kernel=kernel, centers=None if centers is None else X[:centers])
    dense = quiet_fit(clone(model), X, y, sample_weight=weights)
    thin = quiet_fit(clone(model), make(X), y, sample_weight=weights)
    np.testing.assert_array_equal(dense.support_, thin.support_)
    for one in (dense, thin):
        for new in (X, make(X)):
            np.testing.assert_allclose(one.predict(new), dense.predict(X), rtol=1e-7, atol=1e-8)
    found = thin.support_vectors_
    assert sparse.issparse(found) == (centers is None)
    np.testing.assert_array_equal(found if centers else found.toarray(), dense.support_vectors_)


def in_parts(X):
    """A sparse matrix each of whose entries is stored as two numbers, their sum."""
    n, d = X.shape
    columns, starts = np.repeat(np.tile(np.arange(d), n), 2), np.arange(0, 2 * d * n + 1, 2 * d)
    return sparse.csr_array((np.repeat(X.ravel() / 2, 2), columns, starts), shape=X.shape)


def test_sparse_entries_in_parts_are_their_sums():
    X, y = thinned()
    parts = in_parts(X)
    for model in (KMPRegressor(7), KMPRegressor(7, gamma=1.0, centers=20, random_state=0), SparseKernelPCA(5)):
        one, two = clone(model).fit(sparse.csr_array(X), y), clone(model).fit(parts, y)
        np.testing.assert_array_equal(one.support_, two.support_)
        for each in (one, two):
            method = each.predict if hasattr(each, "predict") else each.transform
            np.testing.assert_allclose(method(parts), method(X), rtol=1e-7, atol=1e-8)
    expected = KMPRegressor(7, gamma=1.0, centers=X[:20]).fit(X, y).predict(X)
    for centers in (X[:20], parts[:20]):
        np.testing.assert_allclose(KMPRegressor(7, gamma=1.0, centers=centers).fit(parts, y).predict(X), expected)
    views = SparseKernelCCA(5, n_components=1, alpha=0.1)
    one, two = clone(views).fit(X, X[:, :2]), clone(views).fit(parts, in_parts(X[:, :2]))
    np.testing.assert_allclose(two.transform(parts, in_parts(X[:, :2]))[1], one.transform(X, X[:, :2])[1], rtol=1e-6)
    assert parts.nnz == 2 * X.size  # what was given is as it was


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
