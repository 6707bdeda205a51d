"""Sparse kernel CCA: agreement with dense CCA, degenerate views."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tests.oracle.cca as ref
from kernelpursuit import SparseKernelCCA
from kernelpursuit.math.canonical import canonical, nystroem_map

few = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def views(n=120, seed=0, noise=0.3):
    """Two views of two hidden variables."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, size=(n, 2))
    X = np.stack([Z[:, 0], Z[:, 0] ** 2, Z[:, 1]], axis=1) + noise * rng.normal(size=(n, 3))
    Y = np.stack([np.sin(3 * Z[:, 0]), Z[:, 1] ** 3], axis=1) + noise * rng.normal(size=(n, 2))
    return X, Y


X, Y = views()


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
def test_correlations_are_those_of_dense_cca(deflation, alpha):
    model = SparseKernelCCA(
        n_atoms=8,
        n_components=3,
        gamma=1.0,
        deflation=deflation,
        alpha=alpha,
    ).fit(X, Y)
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


@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
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
    options = {"gamma": 5.0, "alpha": 0.05, "n_components": 2}
    model = SparseKernelCCA(n_atoms=30, **options).fit(A, B)
    H = np.eye(30) - 1 / 30
    C = [H @ rbf_kernel(Z, gamma=5.0) @ H / 30 for Z in (A, B)]
    # correlations of K (K + κ)^-1 in sample space: square roots of eigenvalues of the product
    shrunk = [K @ np.linalg.inv(K + 0.05 * np.trace(K) * np.eye(30)) for K in C]
    rho = np.sqrt(np.sort(np.linalg.eigvals(shrunk[0] @ shrunk[1]).real)[::-1][:2])
    np.testing.assert_allclose(model.correlations_, rho, rtol=1e-8)


@pytest.mark.parametrize("which", ["x", "y", "both"])
def test_precomputed_equals_computed(which):
    options = {"n_atoms": 10, "gamma": 1.0}
    computed = SparseKernelCCA(**options).fit(X[:100], Y[:100])
    inputs = {"x": X, "y": Y}
    for name in ("x", "y"):
        if which in (name, "both"):
            inputs[name] = rbf_kernel(inputs[name], inputs[name][:100], gamma=1.0)
    kernel = tuple("precomputed" if which in (name, "both") else "rbf" for name in ("x", "y"))
    model = SparseKernelCCA(**options, kernel=kernel).fit(inputs["x"][:100], inputs["y"][:100])
    assert model.support_.tolist() == computed.support_.tolist()
    one, two = model.transform(inputs["x"][100:], inputs["y"][100:]), computed.transform(X[100:], Y[100:])
    np.testing.assert_allclose(np.hstack(one), np.hstack(two), atol=1e-8)


def test_sparse_equals_dense():
    A, B = np.where(np.abs(X) > 0.3, X, 0), np.where(np.abs(Y) > 0.3, Y, 0)
    dense = SparseKernelCCA(n_atoms=10).fit(A, B)
    for S, T in ((sparse.csr_array(A), B), (A, sparse.csr_array(B)), (sparse.csr_matrix(A), sparse.csc_matrix(B))):
        model = SparseKernelCCA(n_atoms=10).fit(S, T)
        assert model.support_.tolist() == dense.support_.tolist()
        np.testing.assert_allclose(np.hstack(model.transform(S, T)), np.hstack(dense.transform(A, B)), atol=1e-6)


def test_float32_stays_float32():
    model = SparseKernelCCA(n_atoms=10, gamma=1.0).fit(X.astype(np.float32), Y.astype(np.float32))
    double = SparseKernelCCA(n_atoms=10, gamma=1.0).fit(X, Y)
    x_scores, y_scores = model.transform(X.astype(np.float32), Y.astype(np.float32))
    assert x_scores.dtype == y_scores.dtype == model.x_support_vectors_.dtype == np.float32
    assert model.support_.tolist() == double.support_.tolist()
    np.testing.assert_allclose(model.correlations_, double.correlations_, atol=1e-4)


@pytest.mark.parametrize("options", [{"memory": 0}, {"memory": 120 * 8 * 80}, {"candidates": 120}])
def test_ways_to_compute_do_not_matter(options):
    plain = SparseKernelCCA(n_atoms=15).fit(X, Y)
    model = SparseKernelCCA(n_atoms=15, **options).fit(X, Y)
    assert model.support_.tolist() == plain.support_.tolist()
    np.testing.assert_allclose(model.correlations_, plain.correlations_, rtol=1e-9)


def test_too_little_memory_is_refused():
    with pytest.raises(ValueError, match="n_atoms=5 would fit"):
        SparseKernelCCA(n_atoms=50, memory=2 * 120 * 8 * 5).fit(X, Y)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
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


def test_random_state_and_repetition():
    options = {"n_atoms": 10, "candidates": (0.05, 0.9), "random_state": 3}
    one, two = (SparseKernelCCA(**options).fit(X, Y) for _ in range(2))
    assert one.support_.tolist() == two.support_.tolist()


def test_in_pipeline_and_search():
    pipeline = make_pipeline(StandardScaler(), SparseKernelCCA(n_atoms=10))
    assert pipeline.fit_transform(X, Y).shape == (120, 2)
    assert pipeline.score(X, Y) > 0.5
    search = GridSearchCV(SparseKernelCCA(n_atoms=10), {"alpha": [1e-3, 0.1]}, cv=3).fit(X, Y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert list(pipeline[-1].get_feature_names_out()) == ["sparsekernelcca0", "sparsekernelcca1"]


@few
@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
@pytest.mark.parametrize("rank", [1, 2])
def test_low_rank_gives_fewer_atoms_and_components(rank, deflation):
    options = {"kernel": ("linear", "rbf"), "n_atoms": 10, "n_components": 5, "deflation": deflation}
    with pytest.warns(ConvergenceWarning, match="n_atoms=10"):
        model = SparseKernelCCA(**options).fit(X[:, :rank], Y)
    assert len(model.support_) == rank and model.path_.reason == "exhausted"
    with pytest.warns(ConvergenceWarning, match="n_components=5"):
        SparseKernelCCA(**options).fit(X[:, :rank], Y)
    assert model.transform(X[:, :rank]).shape == (120, rank)


@few
@pytest.mark.parametrize("kernel", ["linear", "rbf", "sigmoid"])
@pytest.mark.parametrize("deflation", ["symmetric", "projection"])
def test_constant_view_has_nothing_to_correlate(kernel, deflation):
    constant = np.full((120, 2), 3.0)
    options = {"kernel": kernel, "n_atoms": 5, "deflation": deflation}
    for A, B in ((X, constant), (constant, Y), (0 * constant, Y), (constant, constant)):
        with pytest.warns(ConvergenceWarning, match="n_components"):
            model = SparseKernelCCA(**options).fit(A, B)
        x_scores, y_scores = model.transform(A, B)
        assert x_scores.shape == y_scores.shape == (120, 0)
        assert model.score(A, B) == 0.0


SHAPES = {
    "random": lambda rng, n: rng.normal(size=(n, 3)),
    "constant": lambda rng, n: np.full((n, 2), 7.0),
    "zero": lambda rng, n: np.zeros((n, 1)),
    "rank one": lambda rng, n: rng.normal(size=(n, 1)) * np.array([[1.0, 2.0, -1.0]]),
    "two points": lambda rng, n: rng.integers(0, 2, size=(n, 1)) * np.ones((1, 3)),
    "one outlier": lambda rng, n: np.eye(n)[:, :1] * 1e3,
    "offset": lambda rng, n: 1e6 + rng.normal(size=(n, 2)),
}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from(sorted(SHAPES)),
    st.integers(2, 30),
    st.integers(1, 40),
    st.sampled_from([0.0, 1e-3, 1.0]),
    st.sampled_from(["symmetric", "projection"]),
    st.sampled_from(["rbf", "linear", "poly", "sigmoid"]),
    st.sampled_from([1e-150, 1e-5, 1.0, 1e5, 1e60]),
    st.sampled_from([np.float64, np.float32]),
    st.booleans(),
    st.integers(0, 5),
)
def test_never_nan(shape_x, shape_y, n, k, alpha, deflation, kernel, scale, dtype, flag, seed):
    rng = np.random.default_rng(seed)
    A, B = SHAPES[shape_x](rng, n), SHAPES[shape_y](rng, n)
    A = (A * (scale if dtype is np.float64 else min(scale, 1e5))).astype(dtype)
    model = SparseKernelCCA(
        n_atoms=k,
        n_components=3,
        kernel=(kernel, "rbf"),
        gamma=("auto", "scale"),
        alpha=alpha,
        deflation=deflation,
        signed=not flag,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            x_scores, y_scores = model.fit(A, B.astype(dtype)).transform(A, B.astype(dtype))
        except ValueError as error:
            large = scale > 1 or (dtype is np.float32 and kernel == "poly")  # the cube of an offset, squared
            assert large and any(word in str(error) for word in ("kernel", "overflow"))
            return
        score = model.score(A, B.astype(dtype))
    assert np.all(np.isfinite(x_scores)) and np.all(np.isfinite(y_scores))
    assert -1 <= score <= 1
    assert np.all((model.correlations_ >= 0) & (model.correlations_ <= 1))
    assert len(set(model.support_)) == len(model.support_) <= min(n, k)
    assert x_scores.shape[1] == len(model.correlations_) <= 3


@few
def test_indefinite_kernels():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(20, 20))
    K = K + K.T
    for deflation in ("symmetric", "projection"):
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
    pd = pytest.importorskip("pandas")
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
        GridSearchCV(SparseKernelCCA(5), {"alpha": [0.1, 0.2]}, cv=2).fit(X, table)
    with pytest.warns(UserWarning, match="y has feature names, but SparseKernelCCA was fitted"):
        model.fit(X, Y).transform(X, table)
