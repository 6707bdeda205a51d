"""What a model says depends neither on the dtype of new rows nor on one row far away."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import kernelpursuit as kp
from kernelpursuit.kernels import make_kernel
from tests.pairwise import pairwise
from tests.problems import data
from tests.registry import BY_DESCENT, MODELS, target_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the kernels are wide

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(300, 2))
SINE = np.sin(3 * X[:, 0])
NEW = rng.uniform(-3, 3, size=(200, 2)).astype(np.float32)  # the same numbers in both precisions
WIDE = {"gamma": 0.1}  # nearly all functions of the span are differences of large numbers
ALL = MODELS | BY_DESCENT
OUTPUTS = ["predict", "staged_predict", "decision_function", "predict_proba", "transform", "residual"]
OUTPUTS += ["approximate_kernel", "score_samples", "both views"]


def agree(single, double):
    """The same numbers, up to the last digits of single precision."""
    if double.dtype.kind in "iub":
        np.testing.assert_array_equal(single, double)
        return
    np.testing.assert_allclose(single, double, rtol=2e-6, atol=2e-6 * np.max(np.abs(double)))


def output(model, method, rows):
    if method == "both views":
        return np.hstack(model.transform(rows, model.y_support_vectors_.astype(np.float64)[[0] * len(rows)]))
    if method == "staged_predict":
        return np.stack([*model.staged_predict(rows), model.predict(rows)])
    return getattr(model, method)(rows)


@pytest.mark.filterwarnings("ignore:about .* of new rows")
@pytest.mark.parametrize("name", ALL)
def test_a_model_computes_in_its_own_precision(name):
    model, kind = ALL[name]
    model = clone(model)
    if "gamma" in model.get_params():
        model.set_params(gamma=0.1)
    model.fit(X, target_of(kind, X, SINE))
    for method in OUTPUTS:
        if hasattr(model, method) or (method == "both views" and kind == "views"):
            single, double = output(model, method, NEW), output(model, method, NEW.astype(np.float64))
            kept = double.dtype.kind != "f" or isinstance(model, kp.SparseKernelNovelty)  # whose scores are float64
            assert single.dtype == (double.dtype if kept else np.float32)
            agree(single, double)


@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.SparseKernelPCA, kp.PursuitNystroem], ids=lambda m: m.__name__)
def test_precomputed_kernels(make):
    size = {"n_components": 12} if make is kp.PursuitNystroem else {"n_atoms": 12}
    K, K_new = rbf_kernel(X, gamma=0.5), rbf_kernel(NEW, X, gamma=0.5).astype(np.float32)
    model = make(kernel="precomputed", **size).fit(K, SINE)
    method = model.predict if hasattr(model, "predict") else model.transform
    single, double = method(K_new), method(K_new.astype(np.float64))
    assert single.dtype == np.float32
    agree(single, double)


@pytest.mark.parametrize(
    "options", [{}, {"variant": "basic"}, {"loss": "huber"}, {"alpha": 0.1}, {"n_atoms": "auto"}], ids=str
)
def test_models_of_single_precision_rows(options):
    (rows, y), model = data(), kp.KMPRegressor(**{"n_atoms": 6} | options)
    thin = rows.astype(np.float32)
    double, single = clone(model).fit(rows, y), clone(model).fit(thin, y.astype(np.float32))
    assert single.predict(thin).dtype == next(single.staged_predict(thin)).dtype == np.float32
    assert single.support_vectors_.dtype == np.float32 and double.predict(rows).dtype == np.float64
    if model.n_atoms != "auto":
        assert np.abs(single.predict(thin) - double.predict(rows)).max() < 1e-3 * np.abs(y).max()


def test_single_precision_models_take_double_precision_rows():
    single = X.astype(np.float32)
    model = kp.KMPRegressor(8, gamma=1.0).fit(single, SINE)
    assert model.predict(NEW.astype(np.float64)).dtype == np.float64
    np.testing.assert_allclose(model.predict(NEW.astype(np.float64)), model.predict(NEW), atol=1e-3)
    assert model.predict(np.full((1, 2), 1e200))[0] == pytest.approx(model.intercept_, rel=1e-5)  # far from all atoms


def test_tensors():
    torch = pytest.importorskip("torch")
    with config_context(array_api_dispatch=True):
        model = kp.KMPRegressor(25, **WIDE).fit(torch.asarray(X), torch.asarray(SINE))
        single, double = model.predict(torch.asarray(NEW)), model.predict(torch.asarray(NEW.astype(np.float64)))
    assert single.dtype == torch.float32
    agree(single.numpy(), double.numpy())


# ---------------------------------------------------------------------------------------------- far rows


@pytest.mark.parametrize(
    ("library", "dtype", "far", "offset"),
    [
        *(("numpy", np.float64, far, offset) for far in (1e10, 1e100) for offset in (0.0, 1e6)),
        *((library, np.float32, 1e5, 0.0) for library in ("numpy", "torch", "array_api_strict")),
    ],
)
@pytest.mark.parametrize(("name", "exact"), [("rbf", rbf_kernel), ("laplacian", laplacian_kernel)])
def test_one_far_row_changes_no_kernel_value_among_the_others(name, exact, library, dtype, far, offset):
    xp = pytest.importorskip(library)
    Z = (np.round(np.random.default_rng(1).normal(size=(60, 3)) * 1024) / 1024).astype(dtype)
    spoilt = xp.asarray(np.vstack([np.full((1, 3), far, dtype=dtype), Z + dtype(offset)]))
    K = np.asarray(make_kernel(name, spoilt, gamma=0.3).between(spoilt, spoilt))
    rtol, atol = (5e-6, 1e-7) if dtype is np.float32 else (1e-10, 0)
    np.testing.assert_allclose(K[1:, 1:], exact(Z.astype(np.float64), gamma=0.3), rtol=rtol, atol=atol)
    assert K[0, 0] == 1 and not K[0, 1:].any() and not K[1:, 0].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_far_cluster_has_kernel_values_of_its_own(dtype, share):
    """Not only single rows: points far from the centre and near each other."""
    Z = np.round(np.random.default_rng(1).normal(size=(100, 3)) * 8) / 8
    Z[: int(100 * share)] += 2.0**40 if dtype is np.float64 else 2.0**16
    Z = Z.astype(dtype)
    K = make_kernel("rbf", Z, gamma=0.3).between(Z, Z)
    differences = np.sum((Z[:, None] - Z[None, :]).astype(np.float64) ** 2, axis=2)
    np.testing.assert_allclose(K, np.exp(-0.3 * differences), rtol=1e-3 if dtype is np.float64 else 3e-2, atol=1e-6)


def test_a_far_row_does_not_spoil_a_fit():
    points = np.random.default_rng(2).normal(size=(60, 1))
    y = np.sin(2 * points[:, 0])
    points[0] = 1e10
    assert kp.KMPRegressor(15, gamma=1.0).fit(points, y).score(points[1:], y[1:]) > 0.9999


OF_SINGLE_ROWS = [
    (kp.KMPRegressor(60), "predict"),
    (kp.KMPRegressor(60, alpha=1e-6, variant="backfit"), "predict"),
    (kp.KMPClassifier(40, loss="log_loss"), "decision_function"),
    (kp.SparseKernelFDA(40), "decision_function"),
    (kp.SparseKernelPCA(40), "transform"),
    (kp.PursuitNystroem(n_components=40), "transform"),
    (kp.SparseKernelNovelty(40), "score_samples"),
]


@pytest.mark.parametrize(
    ("place", "gamma", "sparse_rows"), pairwise(range(len(OF_SINGLE_ROWS)), [1e-4, 1e-3, 1e-2, 0.1], [False, True])
)
def test_float32_rows_of_a_float32_model_lose_no_more_than_their_rounding(place, gamma, sparse_rows):
    """Wide kernels have weights of both signs that are far larger than their sum."""
    model, value = OF_SINGLE_ROWS[place]
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(2, 200, 4)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    if sparse_rows:
        X, X_test = sparse.csr_array(X), sparse.csr_array(X_test)
    model = clone(model).set_params(gamma=gamma).fit(X, y > 0 if is_classifier(model) else y)
    single, double = (np.asarray(getattr(model, value)(rows)) for rows in (X_test, X_test.astype(np.float64)))
    assert np.abs(single - double).max() < 1e-3 * np.abs(double).max()
