"""Passes in float32 choose what passes in float64 choose: certificates are true where little is left of the atoms."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, Gradient, KernelDictionary, Squares, pursue
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


def atoms_in_double(gamma, variant, alpha):
    X, y = problem()
    run = Squares(dictionary(X, gamma, np.float64, "dense"), y, variant=variant, alpha=alpha)
    return len(pursue(run, n_atoms(60), everything, None, "auto", 0.5))


@pytest.mark.parametrize(
    ("variant", "alpha", "storage"), pairwise(["prefit", "backfit"], [0.0, 1e-3], ["tiles", "dense"])
)
@pytest.mark.parametrize("gamma", [1e-4, 1e-3, 1e-2, 0.1, 1.0])
def test_certificates_are_true(gamma, variant, alpha, storage):
    """Each atom, judged by exact scores, is as good as its certificate says, to two digits."""
    X, y = problem()
    single = Squares(dictionary(X, gamma, np.float32, storage), y.astype(np.float32), variant=variant, alpha=alpha)
    alive = [np.ones(len(X), dtype=bool)]
    path = pursue(single, n_atoms(60), everything, lambda path: alive.append(single.alive.copy()), "auto", weakness=0.5)
    double = Squares(dictionary(X, gamma, np.float64, "dense"), y, variant=variant, alpha=alpha)
    for step, possible in zip(path.steps, alive, strict=False):
        scores = double.scores()
        # Atoms at the limit of being in the span may count in one precision and not in the other.
        if not double.alive[step.atom]:
            part = double.atoms.deflate(np.array([step.atom]))
            assert part.squared < 3 * max(1e-10 if alpha else 0, 3e-14) * part.raw
            return
        assert scores[step.atom] / scores[possible].max() >= step.weakness - 0.05
        assert len(list(double.take([step.atom], weakness=0.0))) == 1
    np.testing.assert_allclose(path.values("loss")[-1], double._loss(), rtol=1e-2)
    assert len(path) >= 0.95 * atoms_in_double(gamma, variant, alpha) - 1


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
def test_other_losses_too(variant):
    X, y = problem(200)
    labels = np.sign(y)
    runs = [
        Gradient(dictionary(X, 1e-3, dtype), labels.astype(dtype), LOSSES["logistic"], variant=variant)
        for dtype in (np.float32, np.float64)
    ]
    path = pursue(runs[0], n_atoms(15))
    for step in path.steps:
        scores = runs[1].scores()
        assert scores[step.atom] / scores.max() == pytest.approx(step.weakness, abs=0.05)
        assert len(list(runs[1].take([step.atom], weakness=0.0))) == 1
    assert len(path) >= 14


def test_directions_are_orthonormal_in_double():
    X, y = problem()
    run = Squares(dictionary(X, 1e-3, np.float32), y.astype(np.float32))
    pursue(run, n_atoms(60), lookahead="auto", weakness=0.5)
    Q = run.atoms.basis.directions
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
