"""The ridge penalty as extra coordinates of the atoms, so that penalised pursuit is plain pursuit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

_DEPENDENT = 1e-12  # relative pivot below which an atom has no penalty coordinate of its own


class Ridge:
    """Coordinates of all atoms under the penalty ``alpha * cᵀ G c``, along the atoms chosen so far.

    With alpha G = Φ Φᵀ the penalised loss ‖y − D c‖² + alpha cᵀ G c is the plain squared loss of the atoms (d_j ; φ_j)
    for the target (y ; 0). Φ is the partial Cholesky factor of alpha G pivoted on the chosen atoms: row j of `tails(J)`
    holds the coordinates of φ_j inside the span of the chosen φ, and `rest(J)` the squared norm of what lies outside.
    For an indefinite G the rest is clipped at 0 (atoms that would make the problem non-convex then score as if free).

    Parameters
    ----------
    dictionary : Dictionary
    alpha : float
    """

    def __init__(self, dictionary: Any, alpha: float):
        self._D = dictionary
        self._alpha = alpha
        self._pivots: list[int] = []
        self._factor = np.zeros((0, 0))  # lower triangular, of alpha * G on the pivots
        self._all: np.ndarray | None = None  # (n_atoms, n_pivots), made when running products are first asked for

    def tails(self, J: np.ndarray) -> np.ndarray:
        """Coordinates of atoms `J`, (len(J), n_pivots)."""
        if self._all is not None:
            return self._all[J]
        if not self._pivots:
            return np.zeros((len(J), 0))
        products = self._alpha * self._D.gram(np.array(self._pivots), J)
        return solve_triangular(self._factor, products, lower=True).T

    def rest(self, J: np.ndarray | None, tails: np.ndarray) -> np.ndarray:
        """Squared norm of atoms `J` (None: all) outside the span of the chosen, given their `tails`."""
        diagonal = self._alpha * self._D.gram_diagonal(J)
        return np.maximum(diagonal - np.sum(tails**2, axis=1), 0)

    def gram(self, J: np.ndarray) -> np.ndarray:
        """Inner products of the coordinates of atoms `J`, all of them."""
        return self._alpha * self._D.gram(J, J)

    def append(self, j: int) -> np.ndarray:
        """Make atom `j` one of the chosen and return its coordinates."""
        index = np.array([j])
        tail = self.tails(index)[0]
        diagonal = self._alpha * float(self._D.gram_diagonal(index)[0])
        left = diagonal - tail @ tail
        if left <= _DEPENDENT * diagonal:
            return tail
        pivot = np.sqrt(left)
        if self._all is not None:
            products = self._alpha * self._D.gram(None, index)[:, 0]
            self._all = np.column_stack([self._all, (products - self._all @ tail) / pivot])
        k = len(self._pivots)
        grown = np.zeros((k + 1, k + 1))
        grown[:k, :k], grown[k, :k], grown[k, k] = self._factor, tail, pivot
        self._factor = grown
        self._pivots.append(j)
        return grown[k]

    def correlate(self, tails: np.ndarray) -> np.ndarray:
        """Products of the coordinates of all atoms with `tails` (any, b), (n_atoms, b)."""
        if self._all is None:
            self._all = self.tails(np.arange(self._D.shape[1]))
        width = min(len(tails), self._all.shape[1])
        return self._all[:, :width] @ tails[:width]
