"""Kernels from plain parameters: those of scikit-learn, with numbers from the training data."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.svm import SVC

from kernelpursuit import KMPRegressor
from kernelpursuit.kernels.kernels import (
    KERNEL_NAMES,
    kernel_list,
    make_kernel,
    resolve_gamma,
    scale_gamma,
    uses_gamma,
)
from kernelpursuit.parameters import tolerance

OWN = {
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.3},
    "chi2": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.3, "coef0": 0.5},
    "poly": {"gamma": 0.3, "coef0": 0.5, "degree": 2},
    "polynomial": {"gamma": 0.3, "coef0": 0.5, "degree": 2},
}


def points(shift=0.0, n=20, d=4):
    return np.random.default_rng(0).uniform(0.1, 2, (n, d)) + shift


def evaluate(kernel, X, Z):
    return kernel(kernel.prepare(X), kernel.prepare(Z))


@pytest.mark.parametrize("shift", [0.0, 5.0])
@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
def test_named_kernels_are_those_of_scikit_learn(name, shift):
    X, Z = points(shift), points(shift)[::-1][:7]
    own = OWN.get(name, {})
    pair = make_kernel((name, own), X, gamma=99.0)
    expected = pairwise_kernels(X, Z, metric=name, **own)
    np.testing.assert_allclose(evaluate(pair, X, Z), expected, rtol=1e-11, atol=1e-13)
    gamma = {"gamma": 0.3} if "gamma" in own else {}
    expected = pairwise_kernels(X, Z, metric=name, **gamma)
    np.testing.assert_allclose(evaluate(make_kernel(name, X, gamma=0.3), X, Z), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["rbf", "linear", "poly", "sigmoid", "cosine", "laplacian"])
def test_sparse_kernels(name):
    X = np.where(points() > 1, points(), 0)
    thin = sparse.csr_array(X)
    dense = evaluate(make_kernel(name, X, gamma=0.3), X, X[:5])
    np.testing.assert_allclose(evaluate(make_kernel(name, thin, gamma=0.3), thin, thin[:5]), dense, atol=1e-12)


# ---------------------------------------------------------------------------------------------- callables

ROWS = {
    "gauss": lambda a, b: np.exp(-0.5 * np.sum((a - b) ** 2)),
    "dot": lambda a, b: a @ b,
    "np.dot": np.dot,
    "min": lambda a, b: np.minimum(a, b).sum(),
    "float": lambda a, b: float(a[0] * b[0]),
}


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ROWS)
def test_callable_of_rows(name, d):
    X = points(d=d)
    kernel = make_kernel(ROWS[name], X)
    expected = [[ROWS[name](a, b) for b in X[:7]] for a in X]
    np.testing.assert_allclose(evaluate(kernel, X, X[:7]), expected, rtol=1e-12)
    model = KMPRegressor(2, kernel=ROWS[name], stop=tolerance(0.99)).fit(X, X[:, 0] ** 2)
    assert model.predict(X[:3]).shape == (3,)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_callable_of_matrices(d):
    X = points(d=d)
    calls = []

    def function(A, B, width=0.5):
        calls.append(A.shape)
        assert A.ndim == 2
        return rbf_kernel(A, B, gamma=width)

    np.testing.assert_allclose(evaluate(make_kernel(function, X), X, X[:7]), rbf_kernel(X, X[:7], gamma=0.5))
    assert len(calls) <= 3  # not once for each pair
    wide = make_kernel((function, {"width": 0.01}), X)
    np.testing.assert_allclose(evaluate(wide, X, X[:7]), rbf_kernel(X, X[:7], gamma=0.01))
    powers = make_kernel((lambda a, b, power: (a @ b) ** power, {"power": 2}), X)  # of rows
    np.testing.assert_allclose(evaluate(powers, X, X), (X @ X.T) ** 2, rtol=1e-12)
    np.testing.assert_allclose(evaluate(make_kernel(lambda A, B: A @ B.T, X), X, X[:7]), X @ X[:7].T, rtol=1e-12)


def test_callable_that_returns_sparse_values():
    X = np.where(points() > 1, points(), 0)
    thin = sparse.csr_array(X)
    np.testing.assert_allclose(evaluate(make_kernel(lambda A, B: A @ B.T, thin), thin, thin[:7]), X @ X[:7].T)
    model = KMPRegressor(3, kernel=lambda A, B: A @ B.T).fit(thin, X[:, 0])
    np.testing.assert_allclose(model.predict(thin), KMPRegressor(3, kernel="linear").fit(X, X[:, 0]).predict(X))


def test_errors_of_a_callable_reach_the_user():
    def function(a, b):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        make_kernel(function, points())


def flat(a, b):
    return np.ones(3)


@pytest.mark.parametrize("thin", [False, True])
def test_a_callable_of_a_wrong_shape_is_named(thin):
    X = sparse.csr_array(points(d=3)) if thin else points(d=3)
    with pytest.raises(ValueError, match=r"kernel flat returned an array of shape \(3,\) for 2 and 5 rows, expected"):
        make_kernel(flat, X)
    with pytest.raises(ValueError, match=r"returned an array of shape \((1, )?3,?\) for two rows, expected one number"):
        make_kernel(lambda a, b: abs(a - b), X)
    kernel = make_kernel(lambda A, B: np.ones((A.shape[0], 5)), X)  # which is right where it is tried
    with pytest.raises(ValueError, match=r"shape \(7, 5\) for 7 and 2 rows, expected an array of shape \(7, 2\)"):
        kernel.between(X[:7], X[:2])


@pytest.mark.parametrize(
    "kernel", ["rbf", "laplacian", "linear", "cosine", "sigmoid", "poly", *ROWS.values(), rbf_kernel]
)
def test_a_model_without_centres_predicts(kernel):
    X = points(d=3)
    model = KMPRegressor(kernel=kernel).fit(X, np.ones(len(X)))
    assert len(model.support_) == 0
    np.testing.assert_array_equal(model.predict(X), 1.0)


# ---------------------------------------------------------------------------------------------- parameters


def test_wrong_parameters_are_named():
    X = points()
    with pytest.raises(ValueError, match=r"kernel='gauss'.*rbf"):
        make_kernel("gauss", X)
    with pytest.raises(ValueError, match=r"'linear' has no parameter \['gamma'\]"):
        make_kernel(("linear", {"gamma": 1.0}), X)
    with pytest.raises(ValueError, match=r"'rbf' has no parameter \['degree', 'width'\].*gamma"):
        make_kernel(("rbf", {"width": 1.0, "degree": 2}), X)
    for wrong in ({"degree": -1}, {"degree": "two"}, {"coef0": np.inf}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} of kernel 'poly' must be"):
            make_kernel(("poly", wrong), X)


@pytest.mark.parametrize("value", [-1.0, np.nan, "wide", None])
def test_wrong_gamma_of_a_pair_is_named(value):
    """The pair's own gamma is checked like the common one."""
    with pytest.raises(ValueError, match="gamma"):
        KMPRegressor(2, kernel=[("rbf", {"gamma": value})]).fit(points(), points()[:, 0])


@pytest.mark.parametrize("kernel", [[("rbf",)], [3], ["rbf", None], [("rbf", 1.0)]], ids=str)
def test_malformed_kernel_lists_are_named(kernel):
    with pytest.raises(ValueError, match="kernel"):
        KMPRegressor(2, kernel=kernel).fit(points(), points()[:, 0])


def test_kernel_list():
    pair = ("rbf", {"gamma": 0.5})
    assert kernel_list("rbf") == ["rbf"] and kernel_list(pair) == [pair]
    assert kernel_list(["rbf", pair]) == ["rbf", pair] and kernel_list(("rbf", "linear")) == ["rbf", "linear"]
    assert kernel_list(np.dot) == [np.dot]


def test_uses_gamma():
    pairs = [("rbf", {}), ("poly", {"degree": 2}), [("rbf", {"gamma": 1.0}), ("rbf", {})]]
    for kernel in ("rbf", "poly", ["linear", "rbf"], ("rbf", "linear"), *pairs):
        assert uses_gamma(kernel)
    for kernel in ("linear", "cosine", None, [], np.dot, ("rbf", {"gamma": 1.0}), [("rbf", {"gamma": 1.0}), "linear"]):
        assert not uses_gamma(kernel)


# ---------------------------------------------------------------------------------------------- gamma


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_gamma_of_svc(make):
    X = np.where(points() > 1, points(), 0)
    svc = SVC(gamma="scale").fit(X, np.arange(len(X)) % 2)
    assert scale_gamma(make(X)) == pytest.approx(svc._gamma, rel=1e-12)
    assert resolve_gamma("auto", make(X)) == SVC(gamma="auto").fit(X, np.arange(len(X)) % 2)._gamma
    assert resolve_gamma(0.7, make(X)) == 0.7
    assert scale_gamma(make(np.ones((3, 2)))) == 1.0 == SVC().fit(np.ones((4, 2)), [0, 1, 0, 1])._gamma


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_are_repetitions(make, dtype):
    X = np.where(points() > 1, points(), 0).astype(dtype)
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    repeated = np.repeat(X, counts, axis=0)
    rel = 1e-12 if dtype is np.float64 else 1e-5
    w = counts.astype(dtype)
    assert scale_gamma(make(X), w) == pytest.approx(scale_gamma(make(repeated)), rel=rel)


def test_gamma_far_from_the_origin():
    """Within-column variances do not drown in a common offset; columns far apart have a large variance as in SVC."""
    X = np.round(points() * 64) / 64
    assert scale_gamma(X + 1e6) == pytest.approx(scale_gamma(X), rel=1e-6)


def test_mean_of_many_float32_rows():
    """Running float32 sums of this many rows are wrong in the third digit."""
    X = np.full((500_000, 1), 0.1, dtype=np.float32)
    assert scale_gamma(X) == 1.0
