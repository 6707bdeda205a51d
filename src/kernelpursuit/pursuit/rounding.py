"""Rounding errors of running numbers: which scores are equal, and which numbers must be computed again."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import WIDEST_TIE


def tie_tolerances(
    error: Any, left: np.ndarray, available: np.ndarray, least: float, most: float = WIDEST_TIE
) -> np.ndarray:
    """Relative difference under which the score of each atom equals another one.

    A score divides by a number that was reduced step by step. If `left` is left of it and it is wrong by `error`, so is
    the score by ``error / left``. That is brought between `least` and `most`.

    Examples
    --------
    >>> tie_tolerances(1e-12, np.array([1.0, 1e-3, 1e-9]), np.ones(3, dtype=bool), least=1e-12)
    array([1.e-12, 1.e-09, 1.e-08])
    """
    left = np.maximum(np.where(available, left, 1.0), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return np.clip(error / left, least, max(least, most))


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
