"""The evidence that FeatureWidths maximises, against its definition in dense matrices and in sixty digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelpursuit.estimators.width_evidence import JITTER, NOISE, SIGNAL, evidence


def dense_bound(log_weights, signal, noise, X, Z, Y):
    """The bound as Titsias writes it, with n x n matrices: ln N(y | 0, Q + v I) - tr(K - Q) / 2v, without 2 pi."""
    weights = np.exp(log_weights)

    def kernel(A, B):
        return signal * np.exp(-np.sum(((A[:, None] - B[None]) * weights) ** 2, axis=-1))

    K, M = kernel(X, Z), kernel(Z, Z) + JITTER * signal * np.eye(len(Z))
    Q = K @ np.linalg.solve(M, K.T)
    # By Cholesky, not by SciPy's multivariate_normal: its eigenvalues of such a matrix do not always converge.
    L = np.linalg.cholesky((Q + Q.T) / 2 + noise * np.eye(len(X)))
    fits = np.sum(np.linalg.solve(L, Y) ** 2, axis=0) / 2 + np.sum(np.log(np.diagonal(L)))
    return np.sum(-fits - (len(X) * signal - np.trace(Q)) / (2 * noise))


def cholesky(M):
    L = [[Decimal(0)] * len(M) for _ in M]
    for i in range(len(M)):
        for j in range(i + 1):
            rest = M[i][j] - sum(a * b for a, b in zip(L[i][:j], L[j][:j], strict=True))
            L[i][j] = rest.sqrt() if i == j else rest / L[j][j]
    return L


def solve_lower(L, b):
    x = []
    for row, value in zip(L, b, strict=True):
        x.append((value - sum(a * c for a, c in zip(row, x, strict=False))) / row[len(x)])
    return x


def exact_bound(log_weights, signal, noise, X, Z, y):
    """The same bound for one target, by Cholesky factors in decimal arithmetic of sixty digits."""
    with localcontext() as context:
        context.prec = 60
        w2 = [(2 * Decimal(float(value))).exp() for value in log_weights]
        X, Z = ([[Decimal(float(v)) for v in row] for row in rows] for rows in (X, Z))
        y, signal, noise = [Decimal(float(v)) for v in y], Decimal(float(signal)), Decimal(float(noise))

        def kernel(a, b):
            return signal * (-sum(w * (p - r) ** 2 for w, p, r in zip(w2, a, b, strict=True))).exp()

        M = [[kernel(a, b) for b in Z] for a in Z]
        for i, row in enumerate(M):
            row[i] += Decimal(JITTER) * signal
        L = cholesky(M)
        A = [solve_lower(L, [kernel(a, b) for b in Z]) for a in X]
        columns = list(zip(*A, strict=True))
        inner = [[sum(a * b for a, b in zip(c, d, strict=True)) for d in columns] for c in columns]
        B = [[v / noise + (i == j) for j, v in enumerate(row)] for i, row in enumerate(inner)]
        H = cholesky(B)
        along = solve_lower(H, [sum(a * b for a, b in zip(c, y, strict=True)) for c in columns])
        value = len(X) * noise.ln() + 2 * sum(row[i].ln() for i, row in enumerate(H))
        value += (sum(v * v for v in y) - sum(v * v for v in along) / noise) / noise
        value += (len(X) * signal - sum(inner[i][i] for i in range(len(Z)))) / noise
        return -value / 2


def smooth(n=50, p=3, seed=0):
    """Targets without noise, which drive the noise variance to its lower bound."""
    X = np.random.default_rng(seed).normal(size=(n, p))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    return X, ((y - y.mean()) / y.std())[:, None]


@pytest.mark.parametrize("width", [-3.0, -2.0, -1.0, 0.0, 1.0])
def test_evidence_is_exact_at_low_noise(width):
    X, Y = smooth()
    log_weights = width - np.arange(3.0)
    found = evidence(log_weights, X, X[:25], Y)
    expected = exact_bound(log_weights, found.signal, found.noise, X, X[:25], Y[:, 0])
    assert abs(found.value - float(expected)) < 1e-8 * max(1, abs(found.value))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 12))
def test_evidence_is_the_dense_bound(seed, q, m):
    rng = np.random.default_rng(seed)
    X, Y, log_weights = rng.normal(size=(15, 3)), rng.normal(size=(15, q)), 0.5 * rng.normal(size=3)
    found = evidence(log_weights, X, X[:m], Y)
    bound = dense_bound(log_weights, found.signal, found.noise, X, X[:m], Y)
    assert found.value == pytest.approx(bound, rel=1e-6, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_no_other_variances_are_better(seed, noise_level):
    rng = np.random.default_rng(seed)
    X, log_weights = rng.normal(size=(15, 3)), 0.5 * rng.normal(size=3)
    Y = np.sin(X[:, :1]) + noise_level * rng.normal(size=(15, 1))
    found = evidence(log_weights, X, X[:6], Y)
    assert SIGNAL[0] <= found.signal * (1 + 1e-9) and found.signal <= SIGNAL[1] * (1 + 1e-9)
    assert NOISE[0] <= found.noise <= NOISE[1]
    for signal in np.geomspace(*SIGNAL, 9):
        for noise in np.geomspace(*NOISE, 9):
            assert dense_bound(log_weights, signal, noise, X, X[:6], Y) <= found.value + 1e-6


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_gradient_is_the_slope(noise, counted):
    X, Y = smooth(60)
    rng = np.random.default_rng(1)
    Y = np.concatenate([Y, Y**2 - 1], axis=1) + noise * rng.normal(size=(60, 2))
    counts = rng.uniform(0.5, 4, size=60) if counted else None
    log_weights, h = np.array([-0.5, -1.2, -2.0]), 1e-4

    def value(step):
        return evidence(log_weights + step, X, X[:20], Y, 0.7, counts).value

    slope = [(8 * (value(e) - value(-e)) - (value(2 * e) - value(-2 * e))) / (12 * h) for e in h * np.eye(3)]
    gradient = evidence(log_weights, X, X[:20], Y, 0.7, counts).gradient
    np.testing.assert_allclose(gradient, slope, atol=1e-6 * np.abs(slope).max())


def test_a_row_that_counts_three_times_is_three_rows():
    X, Y = smooth(30)
    counts = np.random.default_rng(2).integers(1, 4, size=30)
    log_weights = np.array([-0.5, -1.2, -2.0])
    once = evidence(log_weights, X, X[:10], Y, 1.0, counts.astype(float))
    repeated = evidence(log_weights, np.repeat(X, counts, axis=0), X[:10], np.repeat(Y, counts, axis=0), 1.0)
    assert once.value == pytest.approx(repeated.value, rel=1e-9)
    np.testing.assert_allclose(once.gradient, repeated.gradient, rtol=1e-6, atol=1e-6)
