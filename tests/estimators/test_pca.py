"""SparseKernelPCA against KernelPCA and full matrices."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tests.oracle.rayleigh as ref
from kernelpursuit import SparseKernelPCA
from kernelpursuit.fitting.pipeline import Settings, storage_for
from kernelpursuit.fitting.span import kernel_diagonal
from kernelpursuit.kernels import make_kernel
from kernelpursuit.parameters import tolerance


def data(n=80, p=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal", "random"])
@pytest.mark.parametrize(
    ("kernel", "options"), [("rbf", {"gamma": 0.5}), ("poly", {"gamma": 0.5, "degree": 5}), ("laplacian", {"gamma": 1})]
)
def test_all_atoms_and_centring_are_kernel_pca(kernel, options, selection):
    X, new = data(60), data(20, seed=1)
    model = SparseKernelPCA(60, kernel=(kernel, options), selection=selection, random_state=0).fit(X)
    if kernel == "laplacian":
        full = KernelPCA(eigen_solver="dense", kernel="precomputed").fit(laplacian_kernel(X, gamma=1))
        full_X, full_new = (
            full.transform(laplacian_kernel(X, gamma=1)),
            full.transform(laplacian_kernel(new, X, gamma=1)),
        )
    else:
        full = KernelPCA(eigen_solver="dense", coef0=1, kernel=kernel, **options).fit(X)
        full_X, full_new = full.transform(X), full.transform(new)
    assert len(model.support_) == 60
    np.testing.assert_allclose(model.eigenvalues_, full.eigenvalues_, rtol=1e-6, atol=1e-10 * full.eigenvalues_[0])
    top = 10
    np.testing.assert_allclose(model.transform(X)[:, :top], full_X[:, :top], atol=1e-7 * 60)
    np.testing.assert_allclose(model.transform(new)[:, :top], full_new[:, :top], atol=1e-6 * 60)


def test_few_components_of_all_atoms():
    X = data(50)
    model = SparseKernelPCA(50, n_components=3, gamma=0.3).fit(X)
    full = KernelPCA(n_components=3, kernel="rbf", gamma=0.3).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, full.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(full.transform(X)), atol=1e-9)


def test_axes_are_those_of_the_nystroem_matrix():
    X = data(70)
    model = SparseKernelPCA(12, gamma=0.2).fit(X)
    approximation = ref.nystroem(rbf_kernel(X, gamma=0.2), model.support_)
    approximation = approximation - approximation.mean(axis=0)
    approximation = approximation - approximation.mean(axis=1, keepdims=True)
    values = np.linalg.eigvalsh(approximation)[::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[:12], atol=1e-9 * values[0])
    Z = model.transform(X)
    np.testing.assert_allclose(Z.T @ Z, np.diag(model.eigenvalues_), atol=1e-8 * values[0])
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal", "random"])
def test_residual_and_approximate_kernel_against_full_matrices(selection):
    X, new = data(60), data(25, seed=1)
    model = SparseKernelPCA(15, gamma=0.2, selection=selection, random_state=3).fit(X)
    A = X[model.support_]
    inverse = np.linalg.inv(rbf_kernel(A, gamma=0.2))

    def nystroem(U, V):
        return rbf_kernel(U, A, gamma=0.2) @ inverse @ rbf_kernel(A, V, gamma=0.2)

    np.testing.assert_allclose(model.approximate_kernel(X, new), nystroem(X, new), atol=1e-9)
    np.testing.assert_allclose(model.approximate_kernel(new), nystroem(new, new), atol=1e-9)
    np.testing.assert_allclose(model.residual(new), 1 - np.diag(nystroem(new, new)), atol=1e-9)
    residual = model.residual(X)
    assert residual.min() >= 0 and residual[model.support_].max() < 1e-12
    assert residual.sum() == pytest.approx(model.residual_trace_[-1])
    assert model.residual_trace_[0] == pytest.approx(60) and len(model.residual_trace_) == 16
    assert np.all(np.diff(model.residual_trace_) < 0)
    np.testing.assert_array_equal(model.support_vectors_, A)


def test_choices_are_the_literal_ones():
    X = data(90, 3)
    model = SparseKernelPCA(15, gamma=0.4).fit(X)
    assert model.support_.tolist() == ref.deflation(rbf_kernel(X, gamma=0.4), 15)[0]
    np.testing.assert_array_equal(model.path_.atoms, model.support_)


def test_greedy_choice_beats_random_points():
    X = data(200, 3)
    K = rbf_kernel(X, gamma=0.2)
    chosen = SparseKernelPCA(20, gamma=0.2).fit(X).residual_trace_[-1]
    rng = np.random.default_rng(0)
    drawn = [np.trace(K - ref.nystroem(K, rng.choice(200, 20, replace=False))) for _ in range(10)]
    assert chosen < min(drawn)


def test_precomputed_equals_the_kernel():
    X, new = data(50), data(9, seed=1)
    K, K_new = polynomial_kernel(X, degree=2), polynomial_kernel(new, X, degree=2)
    plain = SparseKernelPCA(8, kernel=("poly", {"degree": 2}), gamma="auto").fit(X)
    model = SparseKernelPCA(8, kernel="precomputed").fit(K)
    np.testing.assert_array_equal(model.support_, plain.support_)
    np.testing.assert_allclose(model.transform(K_new), plain.transform(new), atol=1e-9)
    np.testing.assert_allclose(model.approximate_kernel(K_new, K), plain.approximate_kernel(new, X), atol=1e-8)
    diagonal = np.diag(polynomial_kernel(new, degree=2))
    np.testing.assert_allclose(model.residual(K_new, diagonal), plain.residual(new), atol=1e-8)
    with pytest.raises(ValueError, match="diagonal"):
        model.residual(K_new)
    with pytest.raises(ValueError, match="diagonal"):
        model.residual(K_new, diagonal[:3])
    with pytest.raises(ValueError, match="square"):
        SparseKernelPCA(kernel="precomputed").fit(K[:, :5])


def test_callable_pair_and_sparse_are_the_same_kernel():
    X = data(40)
    X[X < 0.5] = 0
    plain = SparseKernelPCA(6, gamma=0.3).fit(X)
    for kernel, rows in (
        ((rbf_kernel, {"gamma": 0.3}), X),
        ((lambda x, z, g: np.exp(-g * np.sum((x - z) ** 2)), {"g": 0.3}), X),
        (("rbf", {"gamma": 0.3}), X),
        (("rbf", {"gamma": 0.3}), sparse.csr_array(X)),
    ):
        model = SparseKernelPCA(6, kernel=kernel).fit(rows)
        np.testing.assert_array_equal(model.support_, plain.support_)
        np.testing.assert_allclose(model.transform(rows), plain.transform(X), atol=1e-10)
        np.testing.assert_allclose(model.residual(rows), plain.residual(X), atol=1e-10)
    assert sparse.issparse(model.support_vectors_)
    with pytest.raises(ValueError, match="single kernel"):
        SparseKernelPCA(kernel=("rbf", "linear")).fit(X)


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal", "random"])
def test_more_atoms_than_the_rank(selection):
    X = data(40, 3)
    with pytest.warns(ConvergenceWarning, match="after 3 steps"):
        model = SparseKernelPCA(10, kernel="linear", selection=selection).fit(X)
    assert model.transform(X).shape == (40, 3)
    assert model.path_.reason == "exhausted"
    assert model.residual(X).max() < 1e-10
    with pytest.warns(ConvergenceWarning):
        same = SparseKernelPCA(10).fit(np.ones((5, 2)))
    assert same.transform(np.ones((2, 2))).shape == (2, 1)
    with pytest.warns(ConvergenceWarning):
        assert SparseKernelPCA(30, n_components=8, kernel="linear").fit(X).transform(X).shape == (40, 3)


def test_tol_ends_the_path():
    model = SparseKernelPCA(100, stop=tolerance(0.1), gamma=0.05).fit(data(150, 3))
    share = model.residual_trace_ / model.residual_trace_[0]
    assert share[-1] <= 0.1 < share[-2] and model.path_.reason == "tolerance"


def test_memory_and_tiles_change_nothing():
    X = data(100, 3)
    plain = SparseKernelPCA(20).fit(X)
    tiles = SparseKernelPCA(20, memory=20 * 800 + 8 * 800).fit(X)
    np.testing.assert_array_equal(plain.support_, tiles.support_)
    np.testing.assert_allclose(plain.transform(X), tiles.transform(X), atol=1e-9)
    with pytest.raises(ValueError, match="n_atoms=10 would fit"):
        SparseKernelPCA(20, memory=10 * 800).fit(X)


def test_the_matrix_is_kept_only_where_it_pays():
    def storage(worth_keeping=True, **settings):
        return storage_for(Settings(np.random.default_rng(0), **settings), worth_keeping)

    assert storage() == "auto"
    assert storage(worth_keeping=False) == storage(candidates=59) == storage(candidates=(0.05, 0.95)) == "tiles"
    assert storage(candidates=10, memory=10**6) == "auto"
    assert storage(memory=0) == "tiles"


def test_float32_stays_float32():
    X = data(100, 3).astype(np.float32)
    model = SparseKernelPCA(20, gamma=0.3, n_components=4).fit(X)
    wide = SparseKernelPCA(20, gamma=0.3, n_components=4).fit(X.astype(np.float64))
    for values in (model.transform(X), model.residual(X), model.approximate_kernel(X)):
        assert values.dtype == np.float32
    np.testing.assert_allclose(model.residual_trace_, wide.residual_trace_, rtol=0.02)
    np.testing.assert_allclose(model.eigenvalues_, wide.eigenvalues_, rtol=0.02)


def test_shifted_data_give_the_same_model():
    X = data(60)
    near, far = SparseKernelPCA(10).fit(X), SparseKernelPCA(10).fit(X + 1e6)
    np.testing.assert_array_equal(near.support_, far.support_)
    np.testing.assert_allclose(near.transform(X), far.transform(X + 1e6), atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("gamma", ["scale", 1.0])
def test_huge_values_are_refused(kernel, gamma):
    with pytest.raises(ValueError, match=r"scale X|overflow"):
        SparseKernelPCA(3, kernel=kernel, gamma=gamma).fit(data(10) * 1e200)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="n_components=9"):
        SparseKernelPCA(5, n_components=9).fit(data())
    with pytest.raises(ValueError, match="nothing to span"):
        SparseKernelPCA(5, kernel="linear").fit(np.zeros((6, 2)))


def test_names_and_pipeline():
    pipeline = make_pipeline(StandardScaler(), SparseKernelPCA(10, n_components=2)).set_output(transform="pandas")
    assert list(pipeline.fit_transform(data()).columns) == ["sparsekernelpca0", "sparsekernelpca1"]


def test_random_state_repeats():
    X = data(100)
    one, two = (SparseKernelPCA(10, selection="random", random_state=5).fit(X).support_ for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_diagonals_of_sparse_data():
    X = sparse.csr_array(data(70))
    for name in ("rbf", "linear", "cosine"):
        kernel = make_kernel(name, X)
        np.testing.assert_allclose(kernel_diagonal(kernel, X), np.diag(kernel(X, X)), atol=1e-12)
