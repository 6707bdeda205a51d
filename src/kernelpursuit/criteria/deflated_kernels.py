"""The two kernel matrices of sparse kernel CCA, and two ways to take what is known out of them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kernelpursuit.arrays import Array, eps, from_host, gather, in_span_limit, namespace, squared_norms, to_host
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.math.basis import Basis
from kernelpursuit.math.cholesky import PartialCholesky, pivot_limit


def known_column_limit(x: Array) -> float:
    """Share of its squared norm that must be left of a kernel column, so that three digits of it are known.

    The entries of K − UUᵀ are wrong by about eps times those of K, and so is their norm: (1000 eps)².
    """
    return (1000 * eps(x)) ** 2


class Deflated(NamedTuple):
    """Some columns of K̃."""

    columns: Array  # (n, b)
    squared: np.ndarray  # (b,), their squared norms
    size: np.ndarray  # (b,), what is left of them: the diagonal of K̃, or the squared norms again
    raw: np.ndarray  # (b,), the same of K
    norm: np.ndarray  # (b,), squared norms of the columns of K


class View(Protocol):
    """A square kernel matrix K, and what is left of it, K̃, after deflation by the atoms taken.

    Taking an atom with direction u changes column j of K̃ by −a_j u. The two kinds of deflation differ in the
    coefficients a, and in what counts as the size of a column. The directions of a block of atoms wait until their
    atoms are accepted: before that K̃ does not know of them.
    """

    D: Dictionary
    limit: float  # share of its first size below which a column lies in the span
    norm_limit: float  # the same for its squared norm

    def deflate(self, J: np.ndarray) -> Deflated:
        """Columns `J` of K̃, from the definition."""

    def extend(self, block: list[int]) -> int:
        """Compute the directions of the atoms of `block` in order, and keep them waiting. Returns how many there are.

        The block ends before the first atom that lies in the span of those before it.
        """

    def waiting(self, count: int) -> Array:
        """The first `count` directions that wait, (n, count)."""

    def accept(self) -> None:
        """Take the direction that has waited longest out of K̃."""

    def give_back(self) -> None:
        """Forget the directions that wait."""

    def products(self, own: Array, other: Array) -> tuple[np.ndarray, np.ndarray]:
        """K̃ᵀu and K̃ᵀv, (n, b) each, for the waiting directions u in `own` and as many v in `other`.

        For each pair K̃ is what it will be when its turn comes: all directions before u are accepted then. This takes
        one pass over the data.
        """

    def coefficients(self, own: Array, products: np.ndarray) -> np.ndarray:
        """What each column of K̃ loses along the directions `own`, given its products with them."""

    def shrink(self, size: np.ndarray, coefficients: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Sizes of all columns after a step, given what they were and the new squared norms."""


class FeatureSpace:
    """Symmetric deflation K̃ ← K̃ − τ τᵀ / τ_i with τ = K̃ e_i, which keeps K̃ = K − U Uᵀ, U a partial Cholesky factor.

    The size of a column is the diagonal of K̃: the squared distance of the point to the span of the points taken.
    """

    def __init__(self, dictionary: Dictionary):
        self.D = dictionary
        like = dictionary.columns(np.array([0]))
        self._dtype = like.dtype
        self.limit, self.norm_limit = pivot_limit(eps(like)), known_column_limit(like)
        self._xp = namespace(like)
        self._cholesky = PartialCholesky(like)
        self._taken = 0  # rows in use; others may wait behind them

    def deflate(self, J: np.ndarray) -> Deflated:
        """Columns `J` of K − UUᵀ."""
        columns = self.D.columns(J)
        norm = squared = squared_norms(columns)
        raw = size = _diagonal(columns, J)
        if self._taken:
            left = self._cholesky.left(columns, J, self._taken)
            squared, size = squared_norms(left), _diagonal(left, J)
            columns = self._xp.astype(left, self._dtype)
        return Deflated(columns, squared, size, raw, norm)

    def extend(self, block: list[int]) -> int:
        """Next columns of the Cholesky factor, u = τ / √τ_i."""
        columns = self.D.columns(np.array(block))
        return len(self._cholesky.extend(columns, block, self.limit * _diagonal(columns, np.array(block))))

    def waiting(self, count: int) -> Array:
        """Columns of the factor beyond those taken."""
        return self._cholesky.rows[self._taken : self._taken + count, :].T

    def accept(self) -> None:
        """One more column of the factor is taken."""
        self._taken += 1

    def give_back(self) -> None:
        """Forget the columns beyond those taken."""
        self._cholesky.truncate(self._taken)

    def products(self, own: Array, other: Array) -> tuple[np.ndarray, np.ndarray]:
        """(K − UUᵀ)[own, other], U the columns before each of `own`."""
        b = own.shape[1]
        products = self.D.correlate(self._xp.astype(self._xp.concat([own, other], axis=1), self._dtype))
        explained = [to_host(self._cholesky.explained(V, self._taken)) for V in (own, other)]
        return products[:, :b] - explained[0], products[:, b:] - explained[1]

    def coefficients(self, own: Array, products: np.ndarray) -> np.ndarray:
        """Entries of the new columns of the factor."""
        return to_host(own)

    def shrink(self, size: np.ndarray, coefficients: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Diagonal of K − UUᵀ."""
        return size - coefficients**2


class OutputSpace:
    """Projection K̃ ← (I − τ τᵀ / τᵀτ) K̃ with τ = K̃ e_i, which keeps K̃ = (I − U Uᵀ) K, U orthonormal.

    The size of a column is its squared norm.
    """

    def __init__(self, dictionary: Dictionary):
        self.D = dictionary
        like = dictionary.columns(np.array([0]))
        self.limit = self.norm_limit = in_span_limit(like)
        self._basis = Basis(like)
        self._taken = 0  # directions in use; others may wait behind them

    def deflate(self, J: np.ndarray) -> Deflated:
        """Columns `J` of (I − UUᵀ) K."""
        columns = self.D.columns(J)
        norm = squared = squared_norms(columns)
        if self._taken:
            columns, _, _ = self._basis.complement(columns, np.zeros((len(J), 0)), rounds=1, size=self._taken)
            squared = squared_norms(columns)
        return Deflated(columns, squared, squared, norm, norm)

    def extend(self, block: list[int]) -> int:
        """Unit vectors along τ."""
        return self._basis.extend(self.D.columns(np.array(block)))

    def waiting(self, count: int) -> Array:
        """Directions beyond those taken."""
        return self._basis.directions[self._taken : self._taken + count, :].T

    def accept(self) -> None:
        """One more direction is taken."""
        self._taken += 1

    def give_back(self) -> None:
        """Forget the directions beyond those taken."""
        self._basis.truncate(self._taken)

    def products(self, own: Array, other: Array) -> tuple[np.ndarray, np.ndarray]:
        """Kᵀ[own, (I − UUᵀ) other], U the directions before each of `own`, to which `own` is orthogonal."""
        b = own.shape[1]
        U = self._basis.directions[: self._taken + b, :]
        other = other - U.T @ from_host(np.triu(to_host(U @ other), 1 - self._taken), U)
        products = self.D.correlate(namespace(own).concat([own, other], axis=1))
        return products[:, :b], products[:, b:]

    def coefficients(self, own: Array, products: np.ndarray) -> np.ndarray:
        """Parts of the columns along the new directions."""
        return products

    def shrink(self, size: np.ndarray, coefficients: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """Squared norms."""
        return squared


def _diagonal(columns: Array, J: np.ndarray) -> np.ndarray:
    """Entries of columns `J` of a square matrix on its diagonal."""
    return np.diagonal(to_host(gather(columns, J))).copy()
