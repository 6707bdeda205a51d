"""What holds for every estimator that chooses points, whatever it learns from them."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import (
    KMPRanker,
    PolytopeFacesRegressor,
    PursuitNystroem,
    SparseKernelCCA,
    SparseKernelFDA,
    SparseKernelNovelty,
    SparseKernelPCA,
)
from kernelpursuit.parameters import tolerance

N, GAMMA = 80, 0.3
rng = np.random.default_rng(0)
X = np.round(rng.normal(size=(N, 3)) * 2**10) / 2**10  # on a grid: shifts by powers of two are exact
X[np.abs(X) < 0.3] = 0.0
NEW = X[:20] + 2.0**-5
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=N)
CLASSES = np.array(["a", "b", "c"])[np.digitize(Y, [-0.4, 0.3])]
ESTIMATORS = {
    "fda": (SparseKernelFDA(10, gamma=GAMMA), CLASSES),
    "fda of two classes": (SparseKernelFDA(10, gamma=GAMMA, labels="raw"), CLASSES == "a"),
    "faces": (PolytopeFacesRegressor(10, gamma=GAMMA), Y),
    "ranker": (KMPRanker(10, gamma=GAMMA, alpha=0.0), Y),
    "pca": (SparseKernelPCA(10, gamma=GAMMA), None),
    "nystroem": (PursuitNystroem(n_components=10, gamma=GAMMA), None),
    "nystroem by y": (PursuitNystroem(n_components=10, gamma=GAMMA, selection="prefit"), Y),
    "novelty": (SparseKernelNovelty(10, gamma=GAMMA, contamination=0.2, stop=tolerance(0)), None),
    "cca": (SparseKernelCCA(10, gamma=GAMMA, alpha=0.01), np.column_stack([Y, X[:, 1] > 0])),
}
each = pytest.mark.parametrize("name", ESTIMATORS)


def each_but(name):
    return pytest.mark.parametrize("name", [one for one in ESTIMATORS if one != name])


def fitted(name, X=X, **options):
    estimator, y = ESTIMATORS[name]
    return clone(estimator).set_params(**options).fit(X, y)


def support(model):
    return (model.component_indices_ if hasattr(model, "component_indices_") else model.support_).tolist()


def outputs(model, X):
    methods = ("predict", "decision_function", "transform", "score_samples", "residual")
    found = {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}
    return {name: values for name, values in found.items() if values.dtype.kind == "f"}


def assert_same(one, two, new_one=NEW, new_two=NEW, tolerance=1e-6):
    assert support(one) == support(two)
    expected = outputs(two, new_two)
    for name, values in outputs(one, new_one).items():
        np.testing.assert_allclose(values, expected[name], atol=tolerance * np.abs(expected[name]).max(), err_msg=name)


@each
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows(name, make):
    dense, thin = fitted(name), fitted(name, make(X))
    for new in (NEW, make(NEW)):
        assert_same(thin, dense, new, NEW)
    centers = [value for key, value in vars(thin).items() if key.endswith(("support_vectors_", "components_"))]
    assert sparse.issparse(centers[0])
    np.testing.assert_array_equal(centers[0].toarray(), X[support(thin)])


@each
def test_single_precision(name):
    double, single = fitted(name), fitted(name, X.astype(np.float32))
    for method, values in outputs(single, NEW.astype(np.float32)).items():
        kept = np.float64 if name == "novelty" else np.float32  # nearly equal distances must not become ties
        assert values.dtype == kept, method
    assert_same(single, double, NEW.astype(np.float32), NEW, tolerance=0.01)


@each
def test_a_shift_of_the_rows_changes_nothing(name):
    assert_same(fitted(name, X + 2.0**20), fitted(name), NEW + 2.0**20, NEW)


@each
def test_ways_to_compute_do_not_matter(name):
    for options in ({"memory": 0}, {"memory": N * 8 * 30}, {"candidates": N}):
        if "candidates" not in options or name != "faces":  # which looks at all of them
            assert_same(fitted(name, **options), fitted(name))


@pytest.mark.parametrize("name", ["fda", "pca", "nystroem", "cca"])
def test_too_little_memory_is_refused_with_what_would_fit(name):
    with pytest.raises(ValueError, match=r"(n_atoms|n_components)=\d would fit"):
        fitted(name, memory=N * 8 * (10 if name == "cca" else 5))


def without_gamma(name):
    """Landmarks refuse a gamma that their kernel would ignore."""
    return {"gamma": None} if name.startswith("nystroem") else {}


@each_but("novelty")  # which needs k(x, x) of new points
def test_kernel_matrices(name):
    K, K_new = rbf_kernel(X, gamma=GAMMA), rbf_kernel(NEW, X, gamma=GAMMA)
    kernel = ("precomputed", "rbf") if name == "cca" else "precomputed"
    estimator, y = ESTIMATORS[name]
    plain, model = fitted(name), clone(estimator).set_params(kernel=kernel, **without_gamma(name)).fit(K, y)
    assert support(model) == support(plain)
    for method in ("predict", "decision_function", "transform"):
        if hasattr(model, method) and (name, method) != ("fda of two classes", "predict"):
            found, wanted = getattr(model, method)(K_new), getattr(plain, method)(NEW)
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())
            else:
                np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="square"):
        clone(model).fit(K[:, :10], y)


KERNELS = [
    ("rbf", {"gamma": GAMMA}),
    (rbf_kernel, {"gamma": GAMMA}),
    (lambda x, z, width: np.exp(-width * np.sum((x - z) ** 2)), {"width": GAMMA}),
]


@each
@pytest.mark.parametrize("kernel", KERNELS, ids=["named", "of matrices", "of rows"])
def test_a_kernel_with_parameters_of_its_own(name, kernel):
    assert_same(fitted(name, kernel=kernel, **without_gamma(name)), fitted(name))


@each_but("faces")
def test_samples_are_those_of_the_seed(name):
    fits = [support(fitted(name, candidates=(0.05, 0.8), memory=0, random_state=seed)) for seed in (0, 0, 1)]
    assert fits[0] == fits[1] != fits[2]


@each
def test_more_atoms_than_the_rank(name):
    with pytest.warns(ConvergenceWarning, match=r"=10 was asked for"):
        model = fitted(name, kernel="linear", **({"theta_tol": 0} if name == "faces" else {}))
    assert len(model.path_.atoms) <= 3
    for values in outputs(model, NEW).values():
        assert np.all(np.isfinite(values))


@each
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_huge_values_are_refused(name, kernel):
    with pytest.raises(ValueError, match=r"scale X|overflow"):
        fitted(name, X * 1e200, kernel=kernel)


def hostile(rng):
    """Up to 50 rows and 5 columns with magnitudes to 1e150, duplicates, constant columns, and now and then a NaN."""
    X = rng.normal(size=(rng.integers(2, 51), rng.integers(1, 6))) * 10.0 ** rng.choice([-150, -8, 0, 0, 0, 8, 150])
    if rng.uniform() < 0.3:
        X = X[rng.integers(0, len(X), len(X))]
    if rng.uniform() < 0.2:
        X[:, rng.integers(X.shape[1])] = rng.normal()
    if rng.uniform() < 0.2:
        X = X + rng.choice([1.0, 1e6])
    if rng.uniform() < 0.1:
        X[rng.integers(len(X)), 0] = rng.choice([np.nan, np.inf])
    return X


@pytest.mark.filterwarnings("ignore:.*validation_fraction", "ignore:no row", "ignore:column .* of X has")
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_finite_output_or_an_error_that_says_why(seed):
    rng = np.random.default_rng(seed)
    X, other = hostile(rng), rng.normal(size=(50, 2)) * 10.0 ** rng.choice([-5, 0, 5])
    options = {"kernel": str(rng.choice(["rbf", "linear", "poly", "laplacian"])), "random_state": 0}
    selection = {"selection": str(rng.choice(["rayleigh", "diagonal", "random"]))}
    candidates = {"candidates": rng.choice([None, 5])}
    y = np.r_[0, 1, rng.integers(3, size=len(X) - 2)]
    alpha = rng.choice([0, 1e-8, 1.0])
    models = [
        (SparseKernelPCA(5, **options, **selection), None),
        (PursuitNystroem(n_components=5, **options, **selection), None),
        (SparseKernelNovelty(5, **options), None),
        (SparseKernelFDA(40, labels=str(rng.choice(["centred", "raw"])), alpha=alpha, **options, **candidates), y),
        (
            SparseKernelCCA(
                40,
                n_components=3,
                **options | {"kernel": (options["kernel"], "rbf")},
                **candidates,
                alpha=alpha,
                deflation=str(rng.choice(["symmetric", "projection"])),
                signed=bool(rng.integers(2)),
            ),
            other[: len(X)],
        ),
        (PolytopeFacesRegressor(5, **options), y * 1.0),
    ]
    for model, target in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                found = outputs(model.fit(X, target), X)
            except ValueError as error:
                assert any(word in str(error) for word in ("X", "kernel", "gamma", "sample", "rows", "overflow"))
                continue
        assert model.path_.reason and len(set(support(model))) == len(support(model))
        assert all(np.all(np.isfinite(values)) for values in found.values())
