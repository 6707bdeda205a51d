"""Sparse kernel PCA written literally: the whole matrix is overwritten at each step. The oracle of `Rayleigh`."""

import numpy as np

from tests.oracle.kmp import rbf

DEAD = 1e-10  # share of its start value below which a diagonal entry counts as zero


def deflation(K, k, selection="rayleigh", path=None, dead=DEAD):
    """Atoms, the scores of all of them at each step, the trace after each step and the matrix left.

    `path` forces the atoms; the lowest index wins ties.
    """
    K = np.array(K, dtype=np.float64)
    start = np.diag(K).copy()
    chosen, all_scores, traces = [], [], [np.trace(K)]
    for t in range(k):
        d = np.diag(K)
        live = (d > dead * start) & ~np.isin(np.arange(len(K)), chosen)
        if not live.any():
            break
        scores = np.full(len(K), -np.inf)
        for i in np.flatnonzero(live):
            scores[i] = np.sum(K[:, i] ** 2) / d[i] if selection == "rayleigh" else d[i]
        if path is not None and t >= len(path):
            break
        i = int(np.argmax(scores)) if path is None else path[t]
        tau = K[:, i].copy()
        K = K - np.outer(tau, tau) / tau[i]
        K[i, :] = K[:, i] = 0.0
        chosen.append(i)
        all_scores.append(scores)
        traces.append(np.trace(K))
    return chosen, all_scores, np.array(traces), K


def nystroem(K, atoms):
    """K[:, A] K[A, A]⁻¹ K[A, :]."""
    return K[:, atoms] @ np.linalg.solve(K[np.ix_(atoms, atoms)], K[atoms, :])


def problems(n=60):
    """Kernel matrices: random, with duplicates, rank-deficient, badly scaled, with a zero row."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    twice = X.copy()
    twice[-9:] = X[:9]

    zero = X.copy()
    zero[5] = 0.0
    return {
        "rbf": rbf(X, X, 0.3),
        "rbf-wide": rbf(X, X, 0.02),
        "rbf-duplicates": rbf(twice, twice, 0.3),
        "linear": X @ X.T,
        "linear-duplicates": twice @ twice.T,
        "linear-zero-row": zero @ zero.T,
        "quadratic": (1 + X @ X.T) ** 2,
        "scaled": 1e12 * (1 + X @ X.T) ** 2,
        "identity": np.eye(n),
    }
