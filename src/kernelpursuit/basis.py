"""A growing QR factorisation: orthonormal directions in sample space, a triangular factor on the host."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit._array import Array, from_host, in_span_limit, namespace, squared_norms, to_host


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

    def append(self, column: Array, tail: np.ndarray | None = None) -> Array | None:
        """Add the direction of `column` outside the span and return its sample part; None if there is none.

        Two rounds of Gram-Schmidt keep the directions orthonormal to rounding error, because `column` is refused where
        cancellation would leave noise only.
        """
        self._reserve(self.size + 1, 0 if tail is None else len(tail))
        whole_tail = np.zeros((1, self._tails.shape[1]))
        if tail is not None:
            whole_tail[0, : len(tail)] = tail
        before = squared_norms(column[:, None])[0] + np.sum(whole_tail**2)
        rest, rest_tail, coordinates = self.complement(column[:, None], whole_tail)
        after = squared_norms(rest)[0] + np.sum(rest_tail**2)
        if not after > in_span_limit(column) * before:
            return None
        length = float(np.sqrt(after))
        k = self.size
        self._rows[k, :] = rest[:, 0] / length
        self._tails[k] = rest_tail[0] / length
        self._R[:k, k], self._R[k, k] = coordinates[:, 0], length
        self.size = k + 1
        return self._rows[k, :]

    def complement(self, columns: Array, tails: np.ndarray, rounds: int = 2) -> tuple[Array, np.ndarray, np.ndarray]:
        """Part of `columns` (n_samples, b) and `tails` (b, any) outside the span; coordinates (size, b) inside.

        One round leaves eps times the original norm inside the span, which is enough for norms and products. A vector
        that is to become a direction needs two.
        """
        coordinates = np.zeros((self.size, columns.shape[1]))
        if self.size == 0:
            return columns, tails, coordinates
        Q = self.directions
        tails, T = tails.copy(), self.tails[:, : tails.shape[1]]
        for _ in range(rounds):
            inside = to_host(Q @ columns) + T @ tails[:, : T.shape[1]].T
            tails[:, : T.shape[1]] -= inside.T @ T
            columns = columns - Q.T @ from_host(inside, Q)
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
        capacity = self._rows.shape[0]
        if size > capacity:
            like = self._rows
            grown = self._xp.empty((2 * capacity, like.shape[1]), dtype=like.dtype, device=like.device)
            grown[: self.size, :] = self._rows[: self.size, :]
            self._rows = grown
            self._R = np.pad(self._R, (0, capacity))
            self._tails = np.pad(self._tails, ((0, capacity), (0, 0)))
        if tail > self._tails.shape[1]:
            self._tails = np.pad(self._tails, ((0, 0), (0, max(tail, self._tails.shape[1]))))
