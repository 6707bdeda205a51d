"""The ridge penalty as extra coordinates of the atoms, so that penalised pursuit is plain pursuit."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit._array import Array, from_host, gather, namespace, to_host
from kernelpursuit.dictionaries.protocol import Dictionary

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
    like : array
        Where the coordinates of all atoms are kept, in float64: they are as many numbers as the basis has.
    """

    def __init__(self, dictionary: Dictionary, alpha: float, like: Array):
        self._D = dictionary
        self._alpha = alpha
        self._like = like
        self._diagonal = alpha * dictionary.gram_diagonal(None)
        self._pivots: list[int] = []
        self._factor = np.zeros((0, 0))  # lower triangular, of alpha * G on the pivots, until there are rows
        # Row t holds coordinate t of all atoms, and there is room for more; made when all are first asked for.
        self._rows: Array | None = None

    def tails(self, J: np.ndarray) -> np.ndarray:
        """Coordinates of atoms `J`, (len(J), n_pivots)."""
        if not self._pivots:
            return np.zeros((len(J), 0))
        if self._rows is not None:
            return to_host(gather(self._rows[: len(self._pivots), :], J, axis=1)).T
        products = self._alpha * self._D.gram(np.array(self._pivots), J)
        return solve_triangular(self._factor, products, lower=True).T

    def rest(self, J: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """Squared norm of atoms `J` outside the span of the chosen, given their `tails`."""
        return np.maximum(self._diagonal[J] - np.sum(tails**2, axis=1), 0)

    def gram(self, J: np.ndarray) -> np.ndarray:
        """Inner products of the coordinates of atoms `J`, all of them."""
        return self._alpha * self._D.gram(J, J)

    def extend(self, block: np.ndarray) -> np.ndarray:
        """Make the atoms of `block` chosen ones and return their coordinates, (len(block), n_pivots).

        An atom that depends on those before it gets no coordinate of its own.
        """
        inside = self.tails(block)
        own = self._alpha * self._D.gram(block, block) - inside @ inside.T
        L = np.zeros((len(block), len(block)))
        new: list[int] = []
        for place, atom in enumerate(block):
            left = own[place, place] - L[place] @ L[place]
            if left > _DEPENDENT * self._diagonal[atom]:
                L[place:, len(new)] = (own[place:, place] - L[place:] @ L[place]) / np.sqrt(left)
                new.append(place)
        L = L[:, : len(new)]
        if new:
            self._grow(block[new], inside[new], L[new])
            self._pivots += block[new].tolist()
        return np.concatenate([inside, L], axis=1)

    def correlate(self, tails: np.ndarray) -> np.ndarray:
        """Products of the coordinates of all atoms with `tails` (any, b), (n_atoms, b)."""
        if self._rows is None:
            self._rows = from_host(np.ascontiguousarray(self.tails(np.arange(self._D.shape[1])).T), self._like)
        width = min(len(tails), len(self._pivots))
        return to_host(from_host(tails[:width].T, self._like) @ self._rows[:width, :]).T

    def _grow(self, atoms: np.ndarray, inside: np.ndarray, L: np.ndarray) -> None:
        """More pivots: their rows of the factor, or coordinates L⁻¹ (alpha G[atoms, :] − inside Φᵀ) of all atoms."""
        xp, k, more = namespace(self._like), len(self._pivots), len(atoms)
        if self._rows is None:
            factor = np.zeros((k + more, k + more))
            factor[:k, :k], factor[k:, :k], factor[k:, k:] = self._factor, inside, L
            self._factor = factor
            return
        if k + more > self._rows.shape[0]:
            room = xp.empty((max(more, k, 16), self._rows.shape[1]), dtype=self._rows.dtype, device=self._rows.device)
            self._rows = xp.concat([self._rows, room], axis=0)
        inverse = np.linalg.inv(L)
        products = from_host(inverse @ (self._alpha * self._D.gram(None, atoms)).T, self._like)
        self._rows[k : k + more, :] = products - from_host(inverse @ inside, self._like) @ self._rows[:k, :]
