"""Literal, slow sparse kernel CCA: both matrices are overwritten at each step. The oracle of `CanonicalCorrelation`."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular, svd

from tests.oracle.kmp import rbf

DEAD = {"symmetric": 1e-10, "projection": 100 * np.finfo(float).eps}


class CCAPath(NamedTuple):
    """What the pursuit did; entry s of each list belongs to step s."""

    atoms: list
    rho: list  # correlation of the atom taken
    all_rho: list  # (n,) correlations of all atoms before the choice, -inf for those that may not be taken
    matrices: list  # the pair of matrices after the step


def size(K, deflation):
    """What is left of each column: the diagonal, or the squared norms."""
    return np.diag(K).copy() if deflation == "symmetric" else (K**2).sum(axis=0)


def deflate(K, i, deflation):
    """K without its column i, in feature space or in output space."""
    tau = K[:, i].copy()
    if deflation == "symmetric":
        return K - np.outer(tau, tau) / K[i, i]
    tau /= np.linalg.norm(tau)
    K = K - np.outer(tau, tau @ K)
    return K - np.outer(tau, tau @ K)  # twice, against rounding


def sparse_cca(Kx, Ky, n_atoms, *, deflation="symmetric", signed=True, path=None, tie=1e-12):
    """Greedy choice of the index whose two columns have the largest cosine; `path` prescribes the atoms instead."""
    start = [size(K, deflation) for K in (Kx, Ky)]
    norms = [size(K, "projection") for K in (Kx, Ky)]
    taken, out = [], CCAPath([], [], [], [])
    for step in range(n_atoms):
        alive = np.ones(len(Kx), dtype=bool)
        alive[taken] = False
        for K, first, norm in zip((Kx, Ky), start, norms, strict=True):
            alive &= (size(K, deflation) > DEAD[deflation] * first) & (first > 0)
            alive &= size(K, "projection") > DEAD["projection"] * norm
        if not alive.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            rho = np.sum(Kx * Ky, axis=0) / np.sqrt(np.sum(Kx**2, axis=0)) / np.sqrt(np.sum(Ky**2, axis=0))
        rho = np.where(alive, rho if signed else np.abs(rho), -np.inf)
        best = int(np.flatnonzero(rho >= rho.max() - tie)[0])
        atom = best if path is None else path[step]
        taken.append(atom)
        out.atoms.append(atom)
        out.rho.append(rho[atom])
        out.all_rho.append(rho)
        Kx, Ky = deflate(Kx, atom, deflation), deflate(Ky, atom, deflation)
        out.matrices.append((Kx, Ky))
    return out


def features(K, atoms):
    """Nyström features R K[atoms, :], (n, k), with R'R the inverse of K[atoms, atoms]."""
    R = np.linalg.inv(cholesky(K[np.ix_(atoms, atoms)], lower=True))
    return (R @ K[atoms]).T


def dense_cca(Fx, Fy, kappa=(0.0, 0.0), center=True):
    """Canonical correlations and weights by Cholesky factors of the covariance matrices with kappa on the diagonals."""
    if center:
        Fx, Fy = Fx - Fx.mean(axis=0), Fy - Fy.mean(axis=0)
    n = len(Fx)
    Lx = cholesky(Fx.T @ Fx / n + kappa[0] * np.eye(Fx.shape[1]), lower=True)
    Ly = cholesky(Fy.T @ Fy / n + kappa[1] * np.eye(Fy.shape[1]), lower=True)
    inner = solve_triangular(Lx, solve_triangular(Ly, (Fx.T @ Fy / n).T, lower=True).T, lower=True)
    G, rho, Ht = svd(inner, full_matrices=False)
    return rho, solve_triangular(Lx.T, G), solve_triangular(Ly.T, Ht.T)


def kernels(seed, n=60):
    """Pairs of kernel matrices: full rank, low rank, with duplicated objects, of unequal ranks and scales."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    X = Z @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(n, 4))
    Y = np.tanh(Z @ rng.normal(size=(3, 5))) + 0.5 * rng.normal(size=(n, 5))
    twins = np.arange(n)
    twins[n - 9 :] = twins[:9]

    yield "rbf", rbf(X, X, 0.1), rbf(Y, Y, 0.2)
    yield "narrow", rbf(X, X, 1.0), rbf(Y, Y, 1.0)
    yield "duplicates", rbf(X[twins], X[twins], 0.1), rbf(Y[twins], Y[twins], 0.2)
    yield "half-duplicates", rbf(X[twins], X[twins], 0.1), rbf(Y, Y, 0.2)
    yield "quadratic", (1 + X @ X.T) ** 2, (1 + Y @ Y.T) ** 2
    yield "linear", X @ X.T, Y @ Y.T
    yield "linear-duplicates", (X @ X.T)[np.ix_(twins, twins)], (Y @ Y.T)[np.ix_(twins, twins)]
    yield "mixed", rbf(X, X, 0.2), 1e6 * (Y @ Y.T)
    yield "same", rbf(X, X, 0.1), rbf(X, X, 0.1)
