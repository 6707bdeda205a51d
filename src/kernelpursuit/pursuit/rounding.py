"""What rounding does to running numbers: which scores are equal, and which numbers must be computed anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import WIDEST_TIE, squared_rows

KNOWN = 0.01  # relative error of a score that is let be


def ties(error: Any, kept: np.ndarray, alive: np.ndarray, least: float, most: float = WIDEST_TIE) -> np.ndarray:
    """Relative difference under which the score of each atom equals another one.

    A score divides by a number that was reduced step by step. If `kept` is left of it and it is wrong by `error`, so is
    the score by ``error / kept``. That is brought between `least` and `most`.

    Examples
    --------
    >>> ties(1e-12, np.array([1.0, 1e-3, 1e-9]), np.ones(3, dtype=bool), least=1e-12)
    array([1.e-12, 1.e-09, 1.e-08])
    """
    kept = np.maximum(np.where(alive, kept, 1.0), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return np.clip(error / kept, least, max(least, most))


def stale(known: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """Atoms whose running numbers must be computed from the definition again.

    None as long as every atom has what is needed. If one has not, those that would follow soon come along: few large
    blocks cost less than many small ones.

    Parameters
    ----------
    known, needed : ndarray of shape (..., n_atoms)
        What is known of each atom's number, and how much of it is needed. With several rows, all must be met.

    Examples
    --------
    >>> stale(np.array([9.0, 3.0, 2.0]), needed=np.ones(3)), stale(np.array([9.0, 3.0, 0.5]), needed=np.ones(3))
    (array([], dtype=int64), array([1, 2]))
    """
    if not np.any(known < needed):
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(np.atleast_2d(known < 4 * needed).any(axis=0))


def is_known(size: float, error: float, norm: float, wide: float, floor: float) -> bool:
    """Whether a score size² / norm is known to `KNOWN`, given bounds on the errors of both and the least norm.

    Examples
    --------
    >>> is_known(3.0, 1e-3, 2.0, 1e-3, 1e-9), is_known(3.0, 0.1, 2.0, 1e-3, 1e-9)
    (True, False)
    """
    most, least = size + error, max(size - error, 0.0)
    high, low = most * most / max(norm - wide, floor), least * least / (norm + wide)
    return high <= (1 + KNOWN) * low or not error + wide > 0


def may_be_best(
    size: np.ndarray, error: np.ndarray, norm: np.ndarray, wide: np.ndarray, alive: np.ndarray
) -> np.ndarray:
    """Which scores size² / norm of live atoms may be the best, given bounds on the errors of both.

    Examples
    --------
    >>> no = np.zeros(3)
    >>> may_be_best(np.array([3.0, 2.95, 2.0]), np.array([0.1, 0, 0]), no + 1, no, np.ones(3, dtype=bool))
    array([ True,  True, False])
    """
    certain = np.where(alive, np.maximum(size - error, 0) ** 2 / (norm + wide), 0.0).max(initial=0.0)
    return alive & ((size + error) ** 2 >= certain * (norm - wide))


def doubtful(
    scores: np.ndarray,
    a: np.ndarray,
    error: np.ndarray,
    squared: np.ndarray,
    spread: np.ndarray,
    floor: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Atoms whose score ‖a‖² / norm may be the best and is not known to `KNOWN`.

    None if the best score is known. Otherwise those that are nearly as good come along, because they would follow soon.

    Parameters
    ----------
    scores : ndarray of shape (n_atoms,)
        ``-inf`` for atoms that cannot be taken.
    a : ndarray of shape (n_atoms, t)
    error : ndarray of shape (n_atoms,)
        Bound on the error of ‖a‖.
    squared, spread : ndarray of shape (n_atoms,)
        Squared norms, and bounds on their errors.
    floor : ndarray of shape (n_atoms,)
        The least that a squared norm can be.
    start : ndarray of shape (n_atoms,), optional
        Exact numbers that scores divide by instead of `squared`.
    """
    norms, wide = (squared, spread) if start is None else (start, np.zeros_like(start))
    size = np.abs(a[:, 0]) if a.shape[1] == 1 else np.sqrt(squared_rows(a))
    # The best of what is certain is no less than that of one atom. Nearly always no other can be above it.
    one = int(scores.argmax())
    if not scores[one] > -np.inf:
        return np.zeros(0, dtype=np.intp)
    own = [float(values[one]) for values in (size, error, norms, wide, floor)]
    least_of_one = max(own[0] - own[1], 0.0)
    certain_of_one = least_of_one * least_of_one / (own[2] + own[3])
    most, least = size + error, norms - wide
    most *= most

    def above(share: float) -> np.ndarray:
        (J,) = (most > (share * certain_of_one) * least).nonzero()
        return J[scores[J] > -np.inf]

    J = above(1.0)
    if len(J) == 0 or (len(J) == 1 and J[0] == one and is_known(*own) and not spread[one] > 0.5 * squared[one]):
        return np.zeros(0, dtype=np.intp)
    J = above(0.7)
    wrong, width = error[J], wide[J]
    high, certain = most[J] / np.maximum(least[J], floor[J]), np.maximum(size[J] - wrong, 0) ** 2 / (norms[J] + width)
    unknown = (high > (1 + KNOWN) * certain) & (wrong + spread[J] > 0) | (spread[J] > 0.5 * squared[J])
    best = certain.max(initial=0)
    if not (unknown & (high > best)).any():
        return np.zeros(0, dtype=np.intp)
    return J[unknown & (high > 0.7 * best)]
