"""A growing QR factorisation: orthonormal directions in sample space, a triangular factor on the host."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import Array, energies, eps, from_host, in_span_limit, namespace, padded, to_host
from kernelpursuit.math.cholesky import leading, pivot_limit, pivots


class Basis:
    """Orthonormal basis of the span of columns that arrive one at a time, ``columns = Q R``.

    A column may carry a *tail*: host coordinates appended to its sample-space entries. A ridge penalty is the squared
    norm of such a tail, so penalised least squares is plain least squares here. The whole vectors (sample part and
    tail) are orthonormal; without tails `Q` itself is.

    Parameters
    ----------
    like : array of shape (n_samples, ...)
        Sets the length, the namespace, the device and the dtype of the directions.

    Examples
    --------
    >>> import numpy as np
    >>> basis = Basis(np.zeros((3, 1)))
    >>> basis.append(np.array([3.0, 0.0, 4.0]))
    array([0.6, 0. , 0.8])
    >>> basis.append(np.array([6.0, 0.0, 8.0])) is None  # in the span
    True
    >>> basis.size
    1
    """

    def __init__(self, like: Array):
        self._xp = namespace(like)
        self._rows = self._xp.empty((4, like.shape[0]), dtype=like.dtype, device=like.device)  # row i is direction i
        self._tails = np.zeros((4, 4))
        self._R = np.zeros((4, 4))
        self.size = 0

    @property
    def directions(self) -> Array:
        """Sample part of the directions, (size, n_samples)."""
        return self._rows[: self.size, :]

    @property
    def tails(self) -> np.ndarray:
        """Tails of the directions, (size, capacity), zeros beyond what was appended."""
        return self._tails[: self.size]

    @property
    def R(self) -> np.ndarray:
        """Triangular factor, (size, size)."""
        return self._R[: self.size, : self.size]

    @property
    def capacity(self) -> int:
        """How many directions there is room for."""
        return int(self._rows.shape[0])

    def reserve(self, size: int) -> None:
        """Make room for so many directions at once, where unused memory costs nothing, so that none is copied later."""
        if isinstance(self._rows, np.ndarray) and size > len(self._rows):
            self._grow_rows(min(size, self._rows.shape[1]))

    def append(self, column: Array, tail: np.ndarray | None = None) -> Array | None:
        """Add the direction of `column` outside the span and return its sample part; None if it lies in the span."""
        taken = self.extend(column[:, None], None if tail is None else tail[None, :])
        return self._rows[self.size - 1, :] if taken else None

    def extend(self, columns: Array, tails: np.ndarray | None = None) -> int:
        """Add the directions of `columns` (n_samples, b), one after the other. Returns how many were added.

        The first column that lies in the span ends the block. A column of which little is left beside those before it
        may end the block too; it can be given again.

        There are two rounds. Each takes the span out of all columns at once and factors what is left: C = Q S₁ + Q₁R₁,
        then Q₁ = Q S₂ + Q₂R₂, so that C = Q (S₁ + S₂R₁) + Q₂ (R₂R₁). That reads Q four times, however many columns
        there are. Q₂ is orthonormal to rounding error, because a column of which only noise would be left is refused.

        Parameters
        ----------
        columns : array of shape (n_samples, b)
        tails : ndarray of shape (b, any), optional
        """
        given = np.zeros((columns.shape[1], 0)) if tails is None else tails
        self._reserve(self.size + columns.shape[1], given.shape[1])
        norms = energies(columns)  # read together with what is inside
        tails = np.zeros((columns.shape[1], self._tails.shape[1]))
        tails[:, : given.shape[1]] = given
        rest, tails, inside = self.complement(columns, tails, rounds=1)
        rest, tails, outside = orthonormal(rest, tails)
        rest, tails, again = self.complement(rest, tails, rounds=1)
        rest, tails, turn = orthonormal(rest, tails)
        taken = len(turn)
        inside, outside = inside[:, :taken] + (again @ outside)[:, :taken], turn @ outside[:taken, :taken]
        before = to_host(norms) + np.sum(given**2, axis=1)
        outside_span = np.diagonal(outside) ** 2 > in_span_limit(columns) * before[:taken]
        taken = taken if outside_span.all() else int(np.argmin(outside_span))
        old, new = slice(self.size), slice(self.size, self.size + taken)
        self._rows[new, :] = rest[:, :taken].T
        self._tails[new] = tails[:taken]
        self._R[old, new], self._R[new, new] = inside[:, :taken], outside[:taken, :taken]
        self.size += taken
        return taken

    def complement(
        self, columns: Array, tails: np.ndarray, rounds: int = 2, size: int | None = None
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """The part of `columns` (n_samples, b) and `tails` (b, any) outside the span, and the coordinates inside.

        One round leaves eps times the original norm inside the span, which is good enough for norms and products. To
        become a direction a vector needs two rounds. With `size` only the first directions count as the span. The
        coordinates are (size, b).
        """
        size = self.size if size is None else size
        coordinates = np.zeros((size, columns.shape[1]))
        if size == 0:
            return columns, tails, coordinates
        for _ in range(rounds):
            Q, T = self._rows[:size, :], self._tails[:size, : tails.shape[1]]
            width = T.shape[1]
            inside = to_host(columns.T @ Q.T).T + T @ tails[:, :width].T  # Q @ columns, faster by up to a quarter
            columns = columns - (from_host(inside.T, Q) @ Q).T  # up to twice as fast as Q.T @ inside
            tails = np.concatenate([tails[:, :width] - inside.T @ T, tails[:, width:]], axis=1)
            coordinates += inside
        return columns, tails, coordinates

    def truncate(self, size: int) -> None:
        """Give back the directions beyond the first `size`."""
        self._R[:, size : self.size] = 0
        self.size = size

    def inverse(self) -> np.ndarray:
        """R⁻¹: column t holds the coefficients of direction t in the columns appended."""
        return solve_triangular(self.R, np.eye(self.size))

    def _reserve(self, size: int, tail: int) -> None:
        """Grow the storage geometrically, so that k columns cost O(k) copies."""
        if size > self._rows.shape[0]:
            self._grow_rows(max(size, 2 * self._rows.shape[0]))
        if size > len(self._R):
            capacity = max(size, 2 * len(self._R))
            self._R = padded(self._R, capacity, capacity)
            self._tails = padded(self._tails, capacity)
        if tail > self._tails.shape[1]:
            self._tails = padded(self._tails, len(self._tails), tail + self._tails.shape[1])

    def _grow_rows(self, capacity: int) -> None:
        like = self._rows
        self._rows = self._xp.empty((capacity, like.shape[1]), dtype=like.dtype, device=like.device)
        self._rows[: self.size, :] = like[: self.size, :]


def orthonormal(columns: Array, tails: np.ndarray) -> tuple[Array, np.ndarray, np.ndarray]:
    """Orthonormal columns Q with their tails, and the triangular factor R on the host, with Q R = `columns`.

    Q = C R⁻¹ with RᵀR = CᵀC is orthonormal to eps times the squared condition number of C. Two rounds of that are as
    good as Householder reflections, at a fraction of the cost. The first column whose pivot is too small ends the
    block.
    """
    gram = to_host(columns.T @ columns) + tails @ tails.T
    if len(gram) == 1 and gram[0, 0] > 0:
        factor = np.sqrt(gram)
        return columns * from_host(1 / factor, columns), tails / factor, factor
    factor, kept = pivots(gram, pivot_limit(eps(columns)) * np.diagonal(gram))
    count = leading(kept)
    factor = factor[:count, :count].T
    # NumPy's, not SciPy's: the threads of two BLAS libraries would keep each other waiting.
    inverse = np.linalg.inv(factor) if len(factor) else factor
    turned = (from_host(inverse.T, columns) @ columns[:, : len(factor)].T).T  # each in one piece, as directions are
    return turned, inverse.T @ tails[: len(factor)], factor
