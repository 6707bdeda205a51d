"""Small problems that several files of tests share."""

import warnings

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning


def data(n=60, d=3, seed=0, targets=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, np.cos(X[:, 1]), X.sum(axis=1)])
    Y += 0.1 * rng.normal(size=Y.shape)
    return X, Y[:, 0] if targets is None else Y[:, :targets]


def points_and_centres(n=1200, m=900, d=5, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(k, d)).astype(dtype) for k in (n, m)]


def gaussian_kernel(X, Z, gamma):
    """In float64, by differences."""
    return np.exp(-gamma * cdist(X.astype(np.float64), Z.astype(np.float64), "sqeuclidean"))


def symmetric_matrix(n):
    A = np.random.default_rng(n).normal(size=(n, n))
    return A @ A.T / n


def classes(X, n_classes=2):
    return np.digitize(X[:, 0] * X[:, 1], np.quantile(X[:, 0] * X[:, 1], np.linspace(0, 1, n_classes + 1)[1:-1]))


def quiet_fit(model, *args, **kwargs):
    """Fit without the warning that the data have fewer atoms than were asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)
