"""SparseKernelPCA against KernelPCA and full matrices."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

import tests.oracle.rayleigh as ref
from kernelpursuit import SparseKernelPCA
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
    assert model.approximate_kernel(X.astype(np.float32)).dtype == np.float32


def test_choices_are_the_literal_ones():
    X = data(90, 3)
    model = SparseKernelPCA(15, gamma=0.4).fit(X)
    assert model.support_.tolist() == ref.deflation(rbf_kernel(X, gamma=0.4), 15)[0]
    np.testing.assert_array_equal(model.path_.atoms, model.support_)


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


def test_tol_ends_the_path():
    model = SparseKernelPCA(100, stop=tolerance(0.1), gamma=0.05).fit(data(150, 3))
    share = model.residual_trace_ / model.residual_trace_[0]
    assert share[-1] <= 0.1 < share[-2] and model.path_.reason == "tolerance"


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="n_components=9"):
        SparseKernelPCA(5, n_components=9).fit(data())
    with pytest.raises(ValueError, match="nothing to span"):
        SparseKernelPCA(5, kernel="linear").fit(np.zeros((6, 2)))
    with pytest.raises(ValueError, match="single kernel"):
        SparseKernelPCA(kernel=("rbf", "linear")).fit(data())
    with pytest.raises(ValueError, match="scale X"):  # squares vanish
        SparseKernelPCA(2, kernel="linear").fit(data() * 1e-150)


def test_diagonals_of_sparse_data():
    X = sparse.csr_array(data(70))
    for name in ("rbf", "linear", "cosine"):
        kernel = make_kernel(name, X)
        np.testing.assert_allclose(kernel_diagonal(kernel, X), np.diag(kernel(X, X)), atol=1e-12)
