"""Paths of all folds at once, for the search of widths: one kernel matrix, one product of it for a step of every fold.

The steps are those of `Squares` (prefit, no weights of rows) in their plainest form: a fold is a set of rows of one
matrix, directions go on over the rows held out, and what is left of the targets there are the errors to score.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelpursuit._array import in_span_limit, tie_tolerance
from kernelpursuit.heads.shrinkage import evidence_ridge, shrunk
from kernelpursuit.kernels import make_kernel

MOST_ROWS = 5000  # of which a matrix is made
_PLAIN = {
    "variant": "prefit",
    "loss": "squared",
    "functions": None,
    "centers": None,
    "candidates": None,
    "weakness": 1.0,
    "fit_intercept": True,
    "memory": None,
    "kernel": "rbf",
}  # what the parameters must be


def can_share(estimator: Any, X: Any, weights: np.ndarray | None) -> bool:
    """Whether the folds of a search may go together."""
    dense = isinstance(X, np.ndarray) and not sparse.issparse(X) and X.dtype == np.float64
    plain = all(getattr(estimator, name, value) == value for name, value in _PLAIN.items() if name != "functions")
    ridge = estimator.alpha in ("auto", 0) and getattr(estimator, "alphas", None) is None
    known = not getattr(estimator, "functions", None) and hasattr(estimator, "loss") and estimator.scoring is None
    quiet = int(estimator.verbose) < 2  # else each fold reports its steps
    return dense and plain and ridge and known and quiet and weights is None and X.shape[0] <= MOST_ROWS


class FoldPath(NamedTuple):
    """What a fold knows when its path is over."""

    atoms: list[int]
    Q: np.ndarray  # (1 + k, n) directions over all rows, orthonormal over those of training
    R: np.ndarray  # (1 + k, 1 + k)
    lengths: np.ndarray  # (1 + k, n_targets)
    energy: np.ndarray  # (n_targets,): squared norms of the targets without their means


def fold_values(
    X: np.ndarray, targets: np.ndarray, folds: list, gamma: float, most: int, tol: float, ridge: bool
) -> list[np.ndarray]:
    """Values at the rows held out after 1, 2, ... steps, (steps, n_held_out, n_targets) for each fold.

    Parameters
    ----------
    targets : ndarray of shape (n, n_targets)
    folds : list of (train, test)
    most : int
        Most steps.
    tol : float
        Share of the loss at which a path ends.
    ridge : bool
        Whether the weights have the ridge that the evidence of all atoms of the path prefers.
    """
    kernel = make_kernel("rbf", X, gamma=gamma)
    K = np.ascontiguousarray(kernel.between(X, X))
    out = []
    for (train, test), path in zip(folds, fold_paths(K, targets, folds, most, tol), strict=True):
        Q, lengths = path.Q, path.lengths
        if ridge and path.atoms:
            G = K[np.ix_(path.atoms, path.atoms)]
            alpha = evidence_ridge(path.R[1:, 1:], G, lengths[1:], path.energy, len(train) - 1)
            if alpha > 0:
                fit = shrunk(path.R, G, lengths, alpha)
                Q, lengths = fit.turn.T @ Q, fit.lengths
        added = Q[:, test, None] * lengths[:, None, :]
        out.append(np.cumsum(added, axis=0)[min(1, len(path.atoms)) :])
    return out


def fold_paths(K: np.ndarray, targets: np.ndarray, folds: list, most: int, tol: float) -> list[FoldPath]:
    """The path of each fold; a step of all of them costs one product with the matrix."""
    n, count, tie = len(K), len(folds), tie_tolerance(K)
    rows = np.zeros((count, n), dtype=bool)
    for fold, (train, _) in enumerate(folds):
        rows[fold, train] = True
    sizes = rows.sum(axis=1)
    Q = np.zeros((count, most + 1, n))
    R = np.zeros((count, most + 1, most + 1))
    lengths = np.zeros((count, most + 1, targets.shape[1]))
    Q[:, 0] = 1 / np.sqrt(sizes)[:, None]
    R[:, 0, 0] = np.sqrt(sizes)
    lengths[:, 0] = np.stack([targets[row].sum(axis=0) for row in rows]) * Q[:, 0, :1]
    r = targets[None] - Q[:, 0, :, None] * lengths[:, :1]  # over all rows
    energy = np.stack([np.sum(r[fold, row] ** 2, axis=0) for fold, row in enumerate(rows)])
    floor = (16 * np.finfo(np.float64).eps * np.abs(targets).max()) ** 2
    inside = rows.astype(np.float64)
    raw = inside @ (K * K)  # squared norms of all atoms over the rows of each fold
    squared = raw - (inside @ K) ** 2 / sizes[:, None]
    reference = squared.copy()
    a = np.matmul(K[None], r * inside[:, :, None])
    alive, going = rows.copy(), list(range(count))
    atoms: list[list[int]] = [[] for _ in folds]
    limit = in_span_limit(K)
    for step in range(1, most + 1):
        for fold in list(going):
            mine = inside[fold]
            if float(mine @ np.sum(r[fold] ** 2, axis=1)) <= max(tol * energy[fold].sum(), floor * sizes[fold]):
                going.remove(fold)
                continue
            atom = _take(K, Q[fold], R[fold], squared[fold], raw[fold], a[fold], alive[fold], mine, step, (tie, limit))
            if atom < 0:
                going.remove(fold)
                continue
            atoms[fold].append(atom)
            q = Q[fold, step]
            lengths[fold, step] = (q * mine) @ r[fold]
            r[fold] -= q[:, None] * lengths[fold, step]
        if not going:
            break
        P = K @ (Q[going, step] * inside[going]).T
        for place, fold in enumerate(going):
            a[fold] -= P[:, place, None] * lengths[fold, step]
            squared[fold] -= P[:, place] ** 2
            lost = np.flatnonzero(alive[fold] & (squared[fold] < 1.5e-8 * reference[fold]))
            if len(lost):  # half the digits are gone: from the definition
                _renew(K, Q[fold, : step + 1], squared[fold], reference[fold], a[fold], r[fold], inside[fold], lost)
    ends = [1 + len(one) for one in atoms]
    return [FoldPath(atoms[f], Q[f, :e], R[f, :e, :e], lengths[f, :e], energy[f]) for f, e in enumerate(ends)]


def _take(
    K: np.ndarray,
    Q: np.ndarray,
    R: np.ndarray,
    squared: np.ndarray,
    raw: np.ndarray,
    a: np.ndarray,
    alive: np.ndarray,
    mine: np.ndarray,
    step: int,
    limits: tuple[float, float],
) -> int:
    """Best atom of a fold, its direction and column of the factor written; -1 where no atom would change the fit.

    `mine` is 1 at the rows of the fold and 0 at those held out.
    """
    tie, limit = limits
    while True:
        alive &= squared > limit * raw
        score = np.where(alive, np.einsum("ij,ij->i", a, a) / np.where(alive, squared, 1.0), -np.inf)
        best = float(score.max())
        if not best > 0:
            return -1
        atom = int(np.argmax(score >= best * (1 - 2 * tie)))
        column = K[atom].copy()
        for _ in range(2):  # twice is enough
            part = Q[:step] @ (column * mine)
            column -= part @ Q[:step]
            R[:step, step] += part
        length = float(np.sqrt((column * mine) @ column))
        alive[atom] = False
        if length**2 > limit * raw[atom]:
            R[step, step], Q[step] = length, column / length
            return atom
        R[:step, step] = 0


def _renew(
    K: np.ndarray,
    Q: np.ndarray,
    squared: np.ndarray,
    reference: np.ndarray,
    a: np.ndarray,
    r: np.ndarray,
    mine: np.ndarray,
    J: np.ndarray,
) -> None:
    """Norms and products of atoms `J` outside the span, from their columns."""
    columns = K[J] * mine
    for _ in range(2):
        columns = columns - (columns @ Q.T) @ (Q * mine)
    squared[J] = reference[J] = np.einsum("ij,ij->i", columns, columns)
    a[J] = columns @ r
