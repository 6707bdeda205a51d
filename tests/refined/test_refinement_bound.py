"""The bound on the evidence of a Gaussian process: definition, gradient, prediction."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from kernelpursuit.refined.bound import JITTER, bound_coefficients, negative_bound
from kernelpursuit.refined.evidence import Prior, Rows, maximise_evidence
from kernelpursuit.refined.moving_atoms import Atoms

N, D, K = 25, 3, 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=(N, 2))
ATOMS = Atoms(X[:K] + 0.1 * RNG.normal(size=(K, D)), np.full(K, -1.0), 0.2 * RNG.normal(size=D))


def kernel(A, B, signal):
    """Literally."""
    difference = (A[:, None] - B[None]) * np.exp(ATOMS.log_weights)
    return signal * np.exp(-np.exp(-1.0) * np.sum(difference**2, axis=-1))


def test_it_is_the_bound_of_titsias():
    s, v = np.exp(0.3), np.exp(-1.0)
    among = kernel(ATOMS.centers, ATOMS.centers, s) + JITTER * s * np.eye(K)
    Q = kernel(X, ATOMS.centers, s) @ np.linalg.solve(among, kernel(ATOMS.centers, X, s))
    covariance = Q + v * np.eye(N)
    literal = np.linalg.slogdet(covariance)[1] + (N * s - np.trace(Q)) / v
    literal = 0.5 * (2 * literal + np.trace(Y.T @ np.linalg.solve(covariance, Y)))
    value, *_ = negative_bound(ATOMS, 0.3, -1.0, Rows(X, Y), Prior(0, 0, 0), ATOMS.centers)
    assert value == pytest.approx(literal, rel=1e-10)


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.5, 2, N)])
@pytest.mark.parametrize(("log_signal", "log_noise"), [(0.3, -1.0), (4.0, -5.0)])
def test_its_gradient(weights, log_signal, log_noise):
    def at(theta):
        atoms = Atoms(theta[: K * D].reshape(K, D), ATOMS.log_widths, theta[K * D : -2])
        return negative_bound(atoms, theta[-2], theta[-1], Rows(X, Y, weights), Prior(centers=0.3), X[:K])

    theta = np.concatenate([ATOMS.centers.ravel(), ATOMS.log_weights, [log_signal, log_noise]])
    _, by, *of_variances = at(theta)
    found = np.concatenate([by.centers.ravel(), by.log_weights, of_variances])
    literal = approx_fprime(theta, lambda theta: at(theta)[0], 1e-6)
    np.testing.assert_allclose(found, literal, rtol=1e-4, atol=1e-5 * np.max(np.abs(found)))


def test_prediction_is_that_of_the_process():
    s, v, new = np.exp(0.3), np.exp(-1.0), RNG.normal(size=(7, D))
    found = bound_coefficients(ATOMS, Rows(X, Y), s, v)
    among = kernel(ATOMS.centers, ATOMS.centers, s) + JITTER * s * np.eye(K)
    cross, here = kernel(ATOMS.centers, X, s), kernel(new, ATOMS.centers, s)
    precision = among + cross @ cross.T / v
    np.testing.assert_allclose((here / s) @ found.coef, here @ np.linalg.solve(precision, cross @ Y) / v, rtol=1e-8)
    phi = here / s
    variance = np.sum((phi @ found.factor.T) ** 2, axis=1) + found.outside
    variance -= np.sum((phi @ found.outside_factor.T) ** 2, axis=1)
    literal = s - np.sum(here * np.linalg.solve(among, here.T).T, axis=1)
    literal += np.sum(here * np.linalg.solve(precision, here.T).T, axis=1)
    np.testing.assert_allclose(variance, literal, rtol=1e-8)


def test_widths_stay_and_targets_without_noise_are_fitted():
    line = np.linspace(-3, 3, 60)[:, None]
    atoms = Atoms(line[::6], np.full(10, np.log(0.3)), np.zeros(1))
    rows = Rows(line, np.sin(2 * line))
    found = maximise_evidence(atoms, rows, objective=negative_bound, noise=0.3, max_iter=150)
    np.testing.assert_array_equal(found.atoms.log_widths, atoms.log_widths)
    assert found.noise < 1e-4 and not found.interrupted
    value, *_ = negative_bound(atoms, np.log(1e8), np.log(1e-7), rows, Prior(), atoms.centers)
    assert np.isfinite(value)
