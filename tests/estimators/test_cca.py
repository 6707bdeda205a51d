"""SparseKernelCCA: agreement with dense CCA, kernels of two views, degenerate views."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tests.oracle.cca as ref
from kernelpursuit import SparseKernelCCA
from kernelpursuit.math.canonical import canonical, nystroem_map

few = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
each_deflation = pytest.mark.parametrize("deflation", ["symmetric", "projection"])


def views(n=120, seed=0, noise=0.3):
    """Two views of two hidden variables."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, size=(n, 2))
    X = np.stack([Z[:, 0], Z[:, 0] ** 2, Z[:, 1]], axis=1) + noise * rng.normal(size=(n, 3))
    Y = np.stack([np.sin(3 * Z[:, 0]), Z[:, 1] ** 3], axis=1) + noise * rng.normal(size=(n, 2))
    return X, Y


X, Y = views()


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.1])
@each_deflation
def test_correlations_are_those_of_dense_cca(deflation, alpha):
    model = SparseKernelCCA(8, n_components=3, gamma=1.0, deflation=deflation, alpha=alpha).fit(X, Y)
    Fx, Fy = (ref.features(rbf_kernel(A, gamma=1.0), model.support_) for A in (X, Y))
    kappa = [alpha * np.sum((F - F.mean(axis=0)) ** 2) / len(F) for F in (Fx, Fy)]
    rho, Wx, Wy = ref.dense_cca(Fx, Fy, kappa)
    np.testing.assert_allclose(model.correlations_, rho[:3], rtol=1e-7)
    Fx, Fy = Fx - Fx.mean(axis=0), Fy - Fy.mean(axis=0)
    x_scores, y_scores = model.transform(X, Y)
    signs = np.sign(np.sum(x_scores * (Fx @ Wx)[:, :3], axis=0))
    np.testing.assert_allclose(x_scores, (Fx @ Wx)[:, :3] * signs, atol=1e-6)
    np.testing.assert_allclose(y_scores, (Fy @ Wy)[:, :3] * signs, atol=1e-6)
    if alpha == 0:
        assert model.score(X, Y) == pytest.approx(model.correlations_.mean())


@each_deflation
def test_support_is_that_of_the_literal_deflation(deflation):
    Kx, Ky = rbf_kernel(X, gamma=1.0), rbf_kernel(Y, gamma=1.0)
    model = SparseKernelCCA(n_atoms=12, gamma=1.0, deflation=deflation).fit(X, Y)
    oracle = ref.sparse_cca(Kx, Ky, 12, deflation=deflation)
    assert model.support_.tolist() == oracle.atoms
    np.testing.assert_allclose(model.cosines_, oracle.rho, atol=1e-7)
    np.testing.assert_array_equal(model.x_support_vectors_, X[model.support_])
    np.testing.assert_array_equal(model.y_support_vectors_, Y[model.support_])
    assert model.path_.reason == "n_atoms"


def test_all_atoms_equal_dense_kernel_cca():
    """With every object chosen the span is all of feature space."""
    A, B = X[:30], Y[:30]
    model = SparseKernelCCA(30, gamma=5.0, alpha=0.05).fit(A, B)
    H = np.eye(30) - 1 / 30
    C = [H @ rbf_kernel(Z, gamma=5.0) @ H / 30 for Z in (A, B)]
    # correlations of K (K + κ)^-1 in sample space: square roots of eigenvalues of the product
    shrunk = [K @ np.linalg.inv(K + 0.05 * np.trace(K) * np.eye(30)) for K in C]
    rho = np.sqrt(np.sort(np.linalg.eigvals(shrunk[0] @ shrunk[1]).real)[::-1][:2])
    np.testing.assert_allclose(model.correlations_, rho, rtol=1e-8)


@pytest.mark.parametrize("which", ["x", "y", "both"])
def test_each_view_has_its_kernel(which):
    """A pair of kernels and gammas beside the matrices of these kernels."""
    kernels, gammas = ("rbf", ("poly", {"degree": 2})), (0.7, 1.5)
    plain = SparseKernelCCA(5, kernel=kernels, gamma=gammas).fit(X[:100], Y[:100])
    assert plain.gamma_ == [0.7, 1.5]
    x, y = rbf_kernel(X, X[:100], gamma=0.7), polynomial_kernel(Y, Y[:100], degree=2, gamma=1.5, coef0=1)
    x, y = X if which == "y" else x, Y if which == "x" else y
    kernel = ["precomputed" if which in (name, "both") else own for name, own in zip("xy", kernels, strict=True)]
    model = SparseKernelCCA(5, kernel=kernel, gamma=gammas).fit(x[:100], y[:100])
    assert model.support_.tolist() == plain.support_.tolist()
    one, two = model.transform(x[100:], y[100:]), plain.transform(X[100:], Y[100:])
    np.testing.assert_allclose(np.hstack(one), np.hstack(two), atol=1e-8)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
@each_deflation
def test_scale_of_kernels_does_not_matter(scale, deflation):
    Kx, Ky = rbf_kernel(X, gamma=1.0), rbf_kernel(Y, gamma=1.0)
    options = {"n_atoms": 10, "kernel": "precomputed", "deflation": deflation}
    one, two = SparseKernelCCA(**options).fit(Kx, Ky), SparseKernelCCA(**options).fit(scale * Kx, Ky)
    assert one.support_.tolist() == two.support_.tolist()
    np.testing.assert_allclose(np.hstack(one.transform(Kx, Ky)), np.hstack(two.transform(scale * Kx, Ky)), atol=1e-8)


def test_finds_what_the_views_share():
    train, test = slice(0, 200), slice(200, None)
    A, B = views(400, seed=1, noise=0.1)
    model = SparseKernelCCA(n_atoms=30).fit(A[train], B[train])
    assert model.score(A[test], B[test]) > 0.85
    order = np.random.default_rng(0).permutation(200)
    assert abs(SparseKernelCCA(n_atoms=30).fit(A[train], B[train][order]).score(A[test], B[test])) < 0.4


def test_in_pipeline_and_search():
    pipeline = make_pipeline(StandardScaler(), SparseKernelCCA(n_atoms=10))
    assert pipeline.fit_transform(X, Y).shape == (120, 2)
    assert pipeline.score(X, Y) > 0.5
    grid = {"alpha": [1e-3, 0.1], "gamma": [1.0, (0.1, 1.0)], "kernel": ["rbf", ("rbf", "laplacian")]}
    search = GridSearchCV(SparseKernelCCA(n_atoms=10), grid, cv=3).fit(X, Y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@few
@each_deflation
@pytest.mark.parametrize("rank", [1, 2])
def test_low_rank_gives_fewer_atoms_and_components(rank, deflation):
    model = SparseKernelCCA(10, kernel=("linear", "rbf"), n_components=5, deflation=deflation)
    with pytest.warns(ConvergenceWarning, match="n_atoms=10"), pytest.warns(ConvergenceWarning, match="n_components=5"):
        model.fit(X[:, :rank], Y)
    assert len(model.support_) == rank and model.path_.reason == "exhausted"
    assert model.transform(X[:, :rank]).shape == (120, rank)


@few
@pytest.mark.parametrize("kernel", ["linear", "rbf", "sigmoid"])
@each_deflation
def test_constant_view_has_nothing_to_correlate(kernel, deflation):
    constant = np.full((120, 2), 3.0)
    for A, B in ((X, constant), (constant, Y), (0 * constant, Y), (constant, constant)):
        with pytest.warns(ConvergenceWarning, match="n_components"):
            model = SparseKernelCCA(5, kernel=kernel, deflation=deflation).fit(A, B)
        x_scores, y_scores = model.transform(A, B)
        assert x_scores.shape == y_scores.shape == (120, 0)
        assert model.score(A, B) == 0.0


@few
@each_deflation
def test_indefinite_kernels(deflation):
    K = np.random.default_rng(0).normal(size=(20, 20))
    K = K + K.T
    model = SparseKernelCCA(n_atoms=5, kernel=("precomputed", "rbf"), deflation=deflation).fit(K, Y[:20])
    assert np.all(np.isfinite(model.transform(K)))


def test_nystroem_map_and_canonical_are_exact():
    rng = np.random.default_rng(0)
    G = np.cov(rng.normal(size=(5, 50)))
    T = nystroem_map(G, 1e-10)
    np.testing.assert_allclose(T.T @ G @ T, np.eye(5), atol=1e-12)
    F = rng.normal(size=(40, 5))
    found = canonical(F, F[:, ::-1], alpha=0.0, n_components=9, limits=(1e-10, 1.0, 1.0))
    np.testing.assert_allclose(found.correlations, np.ones(5))


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="kernel='precomputed' for y it must be the square"):
        SparseKernelCCA(kernel=("rbf", "precomputed")).fit(X, Y)
    for options in ({"kernel": ["rbf"] * 3}, {"gamma": (1.0, 2.0, 3.0)}, {"gamma": (1.0, "wide")}):
        with pytest.raises(ValueError, match=next(iter(options))):
            SparseKernelCCA(**options).fit(X, Y)
    model = SparseKernelCCA(n_atoms=5).fit(X, Y)
    with pytest.raises(ValueError, match="y has 1 columns"):
        model.transform(X, Y[:, :1])
    with pytest.raises(ValueError, match="inconsistent"):
        model.transform(X, Y[:5])
    with pytest.raises(ValueError, match="inconsistent"):
        SparseKernelCCA().fit(X, Y[:5])
    with pytest.raises(ValueError, match="requires y"):
        SparseKernelCCA().fit(X, None)


def test_columns_of_y_are_checked_as_those_of_x():
    table = pd.DataFrame(Y, columns=["one", "two"])
    model = SparseKernelCCA(n_atoms=5).fit(X, table)
    for method in (model.transform, model.score):
        with pytest.raises(ValueError, match=r"Of y: The feature names .*\n.*same order"):
            method(X, table[["two", "one"]])
        with pytest.raises(ValueError, match=r"Of y: The feature names .*\n.*unseen"):
            method(X, table.rename(columns={"two": "three"}))
        with pytest.warns(UserWarning, match="y does not have valid feature names"):
            method(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = SparseKernelCCA(n_atoms=5).fit(X, Y).score(X, Y)
        assert model.score(X, table) == pytest.approx(wanted, rel=1e-12)  # columns lie otherwise in memory
    with pytest.warns(UserWarning, match="y has feature names, but SparseKernelCCA was fitted"):
        model.fit(X, Y).transform(X, table)
