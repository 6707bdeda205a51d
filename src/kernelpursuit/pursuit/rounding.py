"""Rounding errors of running numbers: how uncertain scores are, and which numbers must be computed again."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import WIDEST_TIE, squared_rows

_PASS_ERROR = 0.05  # times eps ‖d‖ ‖v‖: error of a product dᵀv of float32 numbers, about


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

    None as long as every atom has what is needed. Otherwise those that would follow soon are computed, too: few large
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


class RunningNorms:
    """Squared norms of all atoms outside the span, and which of them have lost too many digits.

    A norm is reduced step by step, and so keeps the rounding error of what it was. One that has lost half of its digits
    is to be computed from the definition again (LAPACK's rule for pivoted QR).

    Parameters
    ----------
    squared : ndarray of shape (n_atoms,)
        Squared norms outside the span.
    centred : ndarray of shape (n_atoms,)
        Squared norms with only the constant removed.
    raw : ndarray of shape (n_atoms,)
        Squared norms of the atoms as they are.
    limit : float
        Share of `raw` below which an atom lies in the span.
    eps : float
        Unit roundoff of passes.

    Attributes
    ----------
    floor : ndarray of shape (n_atoms,)
        Squared norm at which each atom counts as lying in the span.

    Examples
    --------
    >>> norms = RunningNorms(np.array([4.0, 4.0]), np.array([4.0, 4.0]), np.array([4.0, 4.0]), limit=1e-14, eps=2e-16)
    >>> norms.downdate(np.array([[1.0], [2.0 - 1e-9]]), available=np.ones(2, dtype=bool))  # the second has lost them
    array([1])
    """

    def __init__(self, squared: np.ndarray, centred: np.ndarray, raw: np.ndarray, limit: float, eps: float):
        self.squared, self.centred, self.raw = squared, centred, raw
        self._exact = squared.copy()  # squared norms when they were last computed from the definition
        self._eps, self._single = eps, eps > 1e-10
        self.floor = (max(limit, eps) if self._single else limit) * raw

    def downdate(self, products: np.ndarray, available: np.ndarray) -> np.ndarray:
        """Take unit directions out, given their `products` (n_atoms, b) with all atoms.

        Returns those of the `available` atoms whose norms must be computed from the definition again.
        """
        self.squared -= squared_rows(products)
        needed = np.sqrt(self._eps) * self._exact
        if self._single:  # products are wrong by a share of eps ‖d‖, however little is left of d
            needed = _PASS_ERROR * np.sqrt(self._eps) * np.sqrt(self.raw) * np.sqrt(self._exact)
            needed = np.maximum(needed, self.floor)  # no atom is barred before its norm was computed in float64
        return stale(np.where(available, self.squared, np.inf), needed)

    def replace(self, J: np.ndarray, squared: np.ndarray) -> None:
        """Set the norms of atoms `J`, computed from the definition."""
        self.squared[J] = self._exact[J] = squared
