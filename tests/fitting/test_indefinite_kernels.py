"""Kernels that are not positive semidefinite are named as such; rounding errors of those that are do no harm."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel, sigmoid_kernel

from kernelpursuit import PursuitNystroem, SparseKernelNovelty, SparseKernelPCA
from kernelpursuit.criteria.rayleigh import SELECTIONS

X = np.random.default_rng(0).normal(size=(150, 6))
Y = X[:, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("selection", [*SELECTIONS, "prefit"])
@pytest.mark.parametrize("kernel", ["sigmoid", sigmoid_kernel, "precomputed"])
def test_features_of_an_indefinite_kernel_are_of_its_positive_part(kernel, selection, dtype):
    K = sigmoid_kernel(X)
    rows = (K if kernel == "precomputed" else X).astype(dtype)
    model = PursuitNystroem(kernel, n_components=80, selection=selection, random_state=0)
    with pytest.warns(ConvergenceWarning, match="is not positive semidefinite .* drawn at random"):
        Z = model.fit_transform(rows, Y)
    eigenvalues, U = np.linalg.eigh(K)
    positive = (U * np.maximum(eigenvalues, 0)) @ U.T
    assert Z.shape == (150, 80) and len(set(model.component_indices_)) == 80
    assert np.linalg.norm(Z @ Z.T - positive) < 0.2 * np.linalg.norm(positive)


NAMED = [*(SparseKernelPCA(50, selection=one, random_state=0) for one in SELECTIONS), SparseKernelNovelty(50)]


@pytest.mark.parametrize("model", NAMED, ids=repr)
def test_the_reason_is_said(model):
    with pytest.warns(ConvergenceWarning, match="kernel='sigmoid' is not positive semidefinite") as caught:
        clone(model).set_params(kernel="sigmoid").fit(X)
    assert len(caught) == 1
    with pytest.warns(ConvergenceWarning, match="kernel='sigmoid' is not positive semidefinite"):
        clone(model).set_params(kernel=("sigmoid", {"coef0": -1})).fit(X)


def test_a_matrix_with_a_few_negative_eigenvalues_is_still_followed():
    """Atoms for which Cauchy-Schwarz holds are taken, and what they leave is nowhere negative."""
    K = rbf_kernel(X, gamma=0.05) - 0.05 * np.outer(Y, Y)
    with pytest.warns(ConvergenceWarning, match="kernel='precomputed' is not positive semidefinite"):
        model = SparseKernelPCA(100, kernel="precomputed").fit(K)
    left = np.diag(K - model.approximate_kernel(K))
    assert np.all(left >= -1e-8 * K.max())


ROWS = {
    "line": np.linspace(0, 3.5, 200)[:, None],
    "plane": X[:, :2],
    "copies": np.repeat(X[:50, :3], 3, axis=0),
    "weights far apart": X[:, :4],
}


@pytest.mark.parametrize("gamma", [1e-3, 1e-2, 1e-1, 1, 10])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ROWS)
def test_rounding_is_no_negative_eigenvalue_and_does_not_grow(name, dtype, gamma):
    """What an atom takes off may exceed what is left by rounding; taken on, that grew to 35 times K on the line."""
    rows = ROWS[name].astype(dtype)
    weights = 10.0 ** np.random.default_rng(1).uniform(-3, 3, len(rows)) if name == "weights far apart" else None
    K = rbf_kernel(rows.astype(np.float64), gamma=gamma)
    for settings in ({}, {"weakness": 0.5, "memory": 0}, {"selection": "diagonal"}, {"candidates": 3}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = SparseKernelPCA(len(rows), gamma=gamma, random_state=0, **settings).fit(rows, sample_weight=weights)
        assert not [one for one in caught if "semidefinite" in str(one.message)]
        left = K - model.approximate_kernel(rows)
        assert np.linalg.norm(left) < (1e-4 if dtype == np.float64 else 2e-2) * np.linalg.norm(K)


def test_a_path_that_float32_ends_says_so():
    rows = X[:, :4]
    with pytest.warns(ConvergenceWarning, match="digits of float32 .X in float64"):
        SparseKernelPCA(100, gamma=0.01).fit(rows.astype(np.float32))
    with pytest.warns(ConvergenceWarning) as caught:
        SparseKernelPCA(150, gamma=1e-3).fit(rows)
    assert not [one for one in caught if "float32" in str(one.message)]
