"""Stopping by a bound in the estimators that learn in a span: the minimiser of the bound, computed by hand."""

import numpy as np
import pytest

from kernelpursuit import SparseKernelFDA, SparseKernelPCA
from kernelpursuit.bounds import compression_bound, fisher_bound
from kernelpursuit.parameters import bound


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
def test_pca_keeps_the_minimiser_of_the_compression_bound(selection):
    n = 300
    X = np.random.default_rng(0).normal(size=(n, 4)) * np.array([2.0, 1.0, 0.1, 0.01])
    model = SparseKernelPCA(60, gamma=0.1, selection=selection, stop=bound(patience=5)).fit(X)
    assert model.path_.reason == "bound" and len(model.path_.discarded) == 5
    trace = SparseKernelPCA(60, gamma=0.1, selection=selection).fit(X).residual_trace_
    k = np.arange(len(trace))
    bounds = compression_bound(trace / (n - k), k, n)  # the chosen points are in the span: their residual is 0
    assert np.argmin(bounds) == len(model.support_) > 0
    # the claim: the residual of new data is below the bound
    new = np.random.default_rng(1).normal(size=(2000, 4)) * np.array([2.0, 1.0, 0.1, 0.01])
    assert model.residual(new).mean() < bounds.min()


def test_fda_keeps_the_minimiser_of_the_fisher_bound():
    rng = np.random.default_rng(0)
    n = 3000
    y = np.arange(n) % 2
    X = np.where(y, 1.0, -1.0)[:, None] * np.array([1.0, 0.0]) + 0.1 * rng.normal(size=(n, 2))
    model = SparseKernelFDA(8, gamma=0.3, alpha=1e-2, stop=bound(patience=3)).fit(X, y)
    longer = SparseKernelFDA(8, gamma=0.3, alpha=1e-2).fit(X, y)
    bounds = []
    for k in range(1, len(longer.path_) + 1):
        part = longer.truncate(k)
        gram = np.exp(-0.3 * ((part.support_vectors_[:, None] - part.support_vectors_[None]) ** 2).sum(axis=2))
        length = np.sqrt(part.dual_coef_ @ gram @ part.dual_coef_)
        outside = np.setdiff1d(np.arange(n), part.support_)
        values = (part.decision_function(X)[outside] - part.intercept_) / length
        groups = values[y[outside] == 1], values[y[outside] == 0]
        moments = [g.mean() for g in groups], [g.var() for g in groups]
        bounds.append(fisher_bound(*moments, [len(g) for g in groups], part.intercept_ / length, k, n))
    assert min(bounds) < 1
    assert len(model.support_) == int(np.argmin(bounds)) + 1


def test_fda_by_a_bound_needs_two_classes():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="two classes"):
        SparseKernelFDA(5, stop="bound").fit(X, np.arange(60) % 3)
    model = SparseKernelFDA(5, stop="bound").fit(X, np.arange(60) % 2)
    assert len(model.support_) == 1  # vacuous everywhere: the first atom alone
