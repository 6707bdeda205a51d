"""The ridge penalty as extra coordinates of the atoms, so that penalised pursuit is plain pursuit.

For ``alpha="auto"`` with the squared loss atoms are chosen without a penalty: see fitting/auto_ridge.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import Array, eps, from_host, gather, to_host
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.math.cholesky import PartialCholesky, pivot_limit, pivots

_LOOKED_AT = 64  # atoms by which a penalty is judged
_NEGATIVE = 1e-5  # eigenvalues below minus this share of the largest are not rounding errors, of float32 either

Gram = Callable[[Any, np.ndarray], np.ndarray]  # inner products of atoms I (None: all) and J


def penalty_products(gram: Gram, m: int) -> Gram:
    """The matrix G of the penalty cᵀ G c as a function of indices: `gram`, or the identity if that is indefinite.

    Of an indefinite kernel cᵀ G c is lowest for large weights of some directions, so that it would reward what it
    should restrain. Some atoms, evenly spaced among all, say whether it is.
    """
    some = np.unique(np.linspace(0, m - 1, min(m, _LOOKED_AT)).astype(np.intp)) if m else np.zeros(0, dtype=np.intp)
    G = gram(some, some)
    if not len(some) or not np.all(np.isfinite(G)):
        return gram
    values = np.linalg.eigvalsh((G + G.T) / 2)
    return gram if values[0] >= -_NEGATIVE * np.max(np.abs(values)) else partial(_identity, m)


def _identity(m: int, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
    rows = np.arange(m) if I is None else I
    return (rows[:, None] == J[None, :]).astype(np.float64)


class Ridge:
    """The ridge penalty ``alpha * cᵀ G c`` as coordinates that are appended to the atoms.

    If alpha G = Φ Φᵀ, the penalised loss ‖y − D c‖² + alpha cᵀ G c is the plain squared loss of the longer atoms
    (d_j ; φ_j) for the target (y ; 0). Φ is the partial Cholesky factor of alpha G whose pivots are the chosen atoms.
    `tails(J)` are the coordinates of the φ_j inside the span of the chosen ones. `rest(J)` is the squared norm of what
    lies outside of it. G is what `penalty_products` says. If it is indefinite by a little, that norm is clipped at 0.

    Parameters
    ----------
    dictionary : Dictionary
    alpha : float
    like : array
        Sets namespace and device of the coordinates, which are float64. For all atoms they take as much memory as the
        directions of a basis.
    """

    def __init__(self, dictionary: Dictionary, alpha: float, like: Array):
        self._alpha = alpha
        self._like = like
        self._products = penalty_products(dictionary.gram, dictionary.shape[1])
        plain = self._products == dictionary.gram
        self._diagonal = alpha * (dictionary.gram_diagonal(None) if plain else np.ones(dictionary.shape[1]))
        self._floor = pivot_limit(eps(like)) * self._diagonal
        # Coordinates of the pivots along one another; once all atoms are asked for, those of all are kept instead.
        self._pivots: list[int] = []
        self._factor = np.zeros((0, 0))
        self._all: PartialCholesky | None = None

    def tails(self, J: np.ndarray) -> np.ndarray:
        """Coordinates of atoms `J`, (len(J), n_pivots)."""
        if self._all is not None:
            return to_host(gather(self._all.rows, J, axis=1)).T
        if not self._pivots:
            return np.zeros((len(J), 0))
        products = self._alpha * self._products(np.array(self._pivots), J)
        return solve_triangular(self._factor, products, lower=True).T

    def rest(self, J: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """Squared norm of atoms `J` outside the span of the chosen, given their `tails`."""
        return np.maximum(self._diagonal[J] - np.sum(tails**2, axis=1), 0)

    def gram(self, J: np.ndarray) -> np.ndarray:
        """Inner products of atoms `J` under the penalty, alpha G."""
        return self._alpha * self._products(J, J)

    def extend(self, block: np.ndarray) -> np.ndarray:
        """Add the atoms of `block` to the chosen ones and return their coordinates, (len(block), n_pivots).

        An atom whose φ lies in the span of those before it gets no coordinate of its own.
        """
        if self._all is not None:
            columns = from_host(self._alpha * self._products(None, block), self._like)
            self._all.extend(columns, block.tolist(), self._floor[block], skip=True)
            return self.tails(block)
        inside = self.tails(block)
        own = self._alpha * self._products(block, block) - inside @ inside.T
        L, new = pivots(own, self._floor[block])
        old, size = len(self._pivots), len(self._pivots) + len(new)
        factor = np.zeros((size, size))
        factor[:old, :old], factor[old:, :old], factor[old:, old:] = self._factor, inside[new], L[new]
        self._factor = factor
        self._pivots += block[new].tolist()
        return np.concatenate([inside, L], axis=1)

    def correlate(self, tails: np.ndarray) -> np.ndarray:
        """Products of the coordinates of all atoms with `tails` (any, b), (n_atoms, b)."""
        if self._all is None:
            rows = from_host(np.ascontiguousarray(self.tails(np.arange(len(self._diagonal))).T), self._like)
            self._all = PartialCholesky(rows.T)
            self._all.adopt(rows, self._pivots)
        rows = self._all.rows[: len(tails), :]
        return to_host(from_host(tails[: rows.shape[0]].T, self._like) @ rows).T
