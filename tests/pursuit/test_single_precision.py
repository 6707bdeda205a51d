"""Passes in float32 explain as much as passes in float64, for kernels of all widths."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, Gradient, KernelDictionary, KMPRegressor, Squares, StackedDictionary, pursue
from kernelpursuit.arrays import squared_norms
from kernelpursuit.criteria.fisher import Fisher
from kernelpursuit.kernels import make_kernel
from kernelpursuit.losses import LOSSES
from kernelpursuit.pursuit import everything, n_atoms
from tests.pairwise import pairwise


def problem(n=400, seed=0):
    """Numbers that float32 has exactly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32).astype(np.float64)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y.astype(np.float32).astype(np.float64)


def dictionary(X, gamma, dtype, storage="tiles"):
    X = X.astype(dtype)
    return KernelDictionary(X, X, make_kernel("rbf", X, gamma=gamma), storage=storage)


def in_both_precisions(make, *pursuit):
    """Paths of a criterion ``make(dtype)`` in float32 and in float64."""
    return [pursue(make(dtype), *pursuit) for dtype in (np.float32, np.float64)]


SETTINGS = pairwise(["prefit", "backfit"], [0.0, 1e-3], ["tiles", "dense"])
WIDTHS = [1e-4, 1e-3, 1e-2, 0.1, 1.0]


@pytest.mark.parametrize(("variant", "alpha", "storage"), SETTINGS)
@pytest.mark.parametrize("gamma", WIDTHS)
def test_the_training_error_is_that_of_float64(gamma, variant, alpha, storage):
    X, y = problem()

    def make(dtype):
        return Squares(dictionary(X, gamma, dtype, storage), y.astype(dtype), variant=variant, alpha=alpha)

    single, double = in_both_precisions(make, n_atoms(60), everything, None, "auto")
    assert len(single) >= 0.95 * len(double) - 1
    steps = min(len(single), len(double)) + 1
    np.testing.assert_allclose(single.values("loss")[:steps], double.values("loss")[:steps], rtol=0.01)


@pytest.mark.parametrize(("variant", "alpha", "storage"), SETTINGS)
@pytest.mark.parametrize("gamma", WIDTHS)
def test_certificates_are_true(gamma, variant, alpha, storage):
    """Each atom, judged by scores in float64, is as good as its certificate says, to a digit."""
    X, y = problem()
    single = Squares(dictionary(X, gamma, np.float32, storage), y.astype(np.float32), variant=variant, alpha=alpha)
    available = [np.ones(len(X), dtype=bool)]

    def note(path):
        available.append(single.available.copy())

    path = pursue(single, n_atoms(60), everything, note, "auto", weakness=0.5)
    double = Squares(dictionary(X, gamma, np.float64, "dense"), y, variant=variant, alpha=alpha)
    for step, possible in zip(path.steps, available, strict=False):
        scores = double.scores()
        if not double.available[step.atom]:  # at the limit of being in the span
            return
        assert scores[step.atom] / scores[possible].max() >= step.weakness - 0.1
        assert len(list(double.take([step.atom], weakness=0.0))) == 1


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("gamma", [1e-3, 0.1])
def test_other_losses_too(variant, gamma):
    X, y = problem(200)

    def make(dtype):
        labels = np.sign(y).astype(dtype)
        return Gradient(dictionary(X, gamma, dtype), labels, LOSSES["log_loss"], variant=variant)

    single, double = in_both_precisions(make, n_atoms(15))
    assert len(single) == len(double) == 15
    np.testing.assert_allclose(single.values("loss")[-1], double.values("loss")[-1], rtol=0.02)


@pytest.mark.parametrize("gamma", [1e-3, 0.1])
def test_discriminants_too(gamma):
    X, y = problem(200)
    single, double = in_both_precisions(lambda dtype: Fisher(dictionary(X, gamma, dtype), np.int64(y > 0)), n_atoms(15))
    assert len(single) == len(double) == 15
    np.testing.assert_allclose(single.values("loss")[-1], double.values("loss")[-1], rtol=0.02)


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("storage", ["auto", "tiles", "matrix", "stacked"])
def test_passes_go_over_to_float64_where_the_kernel_is_wide(storage, alpha):
    X, y = problem()

    def make(gamma):
        D = dictionary(X, gamma, np.float32, storage if storage in ("auto", "tiles") else "auto")
        if storage == "matrix":
            D = DenseDictionary(D.columns(np.arange(len(X))))
        return Squares(StackedDictionary([D]) if storage == "stacked" else D, y.astype(np.float32), alpha=alpha)

    first = np.arange(1)
    for gamma, dtype in ((10.0, np.float32), (1e-2, np.float64)):
        run = make(gamma)
        pursue(run, n_atoms(20), lookahead="auto", weakness=0.5)
        assert run.deflation.D.columns(first).dtype == dtype
        J = np.flatnonzero(run.available)
        products, norms = run.moments(J)
        running, running_norms = run.running_moments(J)
        np.testing.assert_allclose(running_norms, norms, rtol=1e-2 if dtype is np.float32 else 1e-6)
        np.testing.assert_allclose(running, products, atol=(1e-5 if dtype is np.float32 else 1e-8) * np.abs(y).sum())


@pytest.mark.parametrize("gamma", [1e-3, 10.0])
def test_a_model_of_float32_rows_is_in_float32(gamma):
    X, y = (part.astype(np.float32) for part in problem())
    model = KMPRegressor(20, gamma=gamma, alpha=0.0).fit(X, y)
    assert model.predict(X).dtype == np.float32


@pytest.mark.parametrize("storage", ["auto", "tiles"])
def test_no_more_memory_is_taken_in_float64(storage):
    """A matrix that fits only in float32 is not kept in float64."""
    X, _ = problem()
    X = X.astype(np.float32)
    kernel = make_kernel("rbf", X, gamma=1e-3)
    D = KernelDictionary(X, X, kernel, memory=400 * 400 * 4, storage=storage)
    wide = D.in_float64()
    V = np.random.default_rng(0).normal(size=(400, 2))
    exact = KernelDictionary(*2 * [X.astype(np.float64)], kernel).correlate(V)
    np.testing.assert_allclose(wide.correlate(V), exact, rtol=1e-12)
    assert ("kernel matrix kept" not in wide.plan and wide.tile < D.tile) or storage == "tiles"


def test_directions_are_orthonormal_in_double():
    X, y = problem()
    run = Squares(dictionary(X, 1e-3, np.float32), y.astype(np.float32))
    pursue(run, n_atoms(60), lookahead="auto", weakness=0.5)
    Q = run.deflation.basis.directions
    assert Q.dtype == np.float64 and np.abs(Q @ Q.T - np.eye(len(Q))).max() < 1e-12


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_a_matrix_in_float32_is_taken_as_it_is(alpha):
    """Its columns in float64 are its entries: least squares on the atoms chosen is exact."""
    X, y = problem(150)
    K = dictionary(X, 0.05, np.float32).columns(np.arange(150))
    run = Squares(DenseDictionary(K, gram=K), y.astype(np.float32), alpha=alpha, intercept=False)
    path = pursue(run, n_atoms(25))
    A = K[:, path.atoms].astype(float)
    G = K[np.ix_(path.atoms, path.atoms)].astype(float)
    target = y.astype(np.float32).astype(float)
    coef = np.linalg.lstsq(A.T @ A + alpha * G, A.T @ target, rcond=None)[0]
    np.testing.assert_allclose(A @ run.coef()[1:, 0], A @ coef, rtol=0, atol=1e-5)


def test_long_sums_in_float32_keep_their_digits():
    """A large entry first: a float32 sum that has reached 2²⁴ does not see quarters any more."""
    for width in (1, 3):
        column = np.full(100_000, 0.5, dtype=np.float32)
        column[0] = 2.0**12
        found = squared_norms(np.repeat(column[:, None], width, axis=1))
        np.testing.assert_allclose(found, 2.0**24 + 0.25 * 99_999, rtol=1e-4)
