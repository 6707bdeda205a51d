"""A partial Cholesky factor that grows with the points chosen, and the one rule for its pivots."""

from __future__ import annotations

import numpy as np

from kernelpursuit.arrays import Array, from_host, gather, in_double, namespace, to_host


def pivot_limit(rounding: float) -> float:
    """Share of its diagonal entry that a pivot must exceed. Below it, the point lies in the span of those before it.

    1e-10, or 100 times the unit roundoff where that is more. A pivot is a difference of numbers as large as the
    diagonal entry, and wrong by about the roundoff of that: six digits of the smallest are known, and two in float32.
    """
    return max(1e-10, 100 * rounding)


def pivots(matrix: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Partial Cholesky factor of a small matrix, its pivots taken in the order of the rows.

    Parameters
    ----------
    matrix : ndarray of shape (b, b)
        Symmetric.
    floor : ndarray of shape (b,)
        A pivot that is not above its floor is passed over.

    Returns
    -------
    factor : ndarray of shape (b, r)
        A column for each pivot. A row that was passed over has entries in the columns of the pivots before it.
    kept : ndarray of int, shape (r,)
        The rows of the pivots, ascending: ``factor[kept]`` is lower triangular.

    Examples
    --------
    >>> pivots(np.array([[4.0, 4.0, 2.0], [4.0, 4.0, 2.0], [2.0, 2.0, 2.0]]), floor=np.full(3, 1e-9))
    (array([[2., 0.],
           [2., 0.],
           [1., 1.]]), array([0, 2]))
    """
    factor = np.zeros(matrix.shape)
    kept: list[int] = []
    for row in range(len(matrix)):
        r = len(kept)
        left = matrix[row:, row] - factor[row:, :r] @ factor[row, :r]
        if left[0] > floor[row]:
            factor[row:, r] = left / np.sqrt(left[0])
            kept.append(row)
    return factor[:, : len(kept)], np.array(kept, dtype=np.intp)


def leading(kept: np.ndarray) -> int:
    """How many pivots come before the first that was passed over.

    Examples
    --------
    >>> leading(np.array([0, 1, 3]))
    2
    """
    return int(np.sum(kept == np.arange(len(kept))))


class PartialCholesky:
    """A matrix K over n points, approximated from the columns of the pivots, which are some of them: K ≈ UᵀU.

    U has a row for each pivot. The residual K - UᵀU is zero in the columns of the pivots. The rows are kept in float64,
    because a small pivot would spread the rounding errors of float32 over all points.

    Parameters
    ----------
    like : array of shape (n, ...)
        Sets the number of points, the namespace and the device.

    Attributes
    ----------
    pivots : list of int

    Examples
    --------
    >>> K = np.array([[4.0, 2.0], [2.0, 2.0]])
    >>> factor = PartialCholesky(K)
    >>> factor.extend(K[:, [0]], [0], floor=np.zeros(1))
    array([0])
    >>> factor.rows
    array([[2., 1.]])
    >>> factor.left(K, np.arange(2))
    array([[0., 0.],
           [0., 1.]])
    """

    def __init__(self, like: Array):
        xp = namespace(like)
        self._rows = xp.empty((4, like.shape[0]), dtype=xp.float64, device=like.device)
        self.pivots: list[int] = []

    @property
    def rows(self) -> Array:
        """U, (n_pivots, n)."""
        return self._rows[: len(self.pivots), :]

    def left(self, columns: Array, J: np.ndarray, size: int | None = None) -> Array:
        """Columns `J` of K less what the first `size` pivots (None: all) explain, (n, len(J)), in float64."""
        U = self.rows[:size, :]
        return in_double(columns) - U.T @ gather(U, J, axis=1) if U.shape[0] else in_double(columns)

    def extend(self, columns: Array, J: list[int], floor: np.ndarray, skip: bool = False) -> np.ndarray:
        """Make points `J` pivots, in order, given their columns of K; the positions in `J` of those that became pivots.

        A point whose pivot is not above its `floor` is passed over if `skip`; else the block ends before it.
        """
        block = np.array(J, dtype=np.intp)
        left = self.left(columns, block)
        factor, kept = pivots(to_host(gather(left, block)), floor)
        kept = kept if skip else kept[: leading(kept)]
        left = (left if len(kept) == len(block) else gather(left, kept, axis=1)).T
        self._append(forward(factor[kept, : len(kept)], left) if len(kept) else left, block[kept])
        return kept

    def explained(self, vectors: Array, taken: int) -> np.ndarray:
        """UᵀU times each of `vectors` (n, b), on the host: the first `taken` pivots count for all, others in turn.

        Vector t belongs to pivot ``taken + t`` and is multiplied with the pivots before that one.
        """
        U = self.rows[: taken + vectors.shape[1], :]
        inside = np.triu(to_host(U @ vectors), 1 - taken)  # row s, column t: counts for s < taken + t
        return to_host(U.T @ from_host(inside, U))

    def here(self, first: int = 0) -> np.ndarray:
        """U from row `first` on, on the host."""
        return to_host(self._rows[first : len(self.pivots), :])

    def entries(self, left: Array, I: np.ndarray, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Entries at points `I` of `left`, the residual of columns `J`."""
        return to_host(gather(left, I))

    def adopt(self, rows: Array, pivots: list[int]) -> None:
        """Begin with given `rows` and pivots."""
        self._rows, self.pivots = rows, list(pivots)

    def truncate(self, size: int) -> None:
        """Give up all but the first `size` pivots."""
        del self.pivots[size:]

    def _append(self, rows: Array, new: np.ndarray) -> None:
        """Write rows behind those there are, exactly zero at earlier pivots; storage grows geometrically."""
        xp, size, more = namespace(rows), len(self.pivots), len(new)
        if size + more > self._rows.shape[0]:
            room = xp.empty((max(more, size, 16), rows.shape[1]), dtype=rows.dtype, device=rows.device)
            self._rows = xp.concat([self.rows, room], axis=0)
        free = np.ones(rows.shape[1])
        free[self.pivots] = 0
        self._rows[size : size + more, :] = rows * from_host(free, rows)
        for row, pivot in enumerate(new.tolist(), start=size + 1):
            self._rows[row : size + more, pivot] = 0.0
        self.pivots += new.tolist()


def forward(L: np.ndarray, columns: Array) -> Array:
    """L⁻¹ times the rows of a long array, by matrix products and one correction for the rounding of the inverse."""
    inverse = from_host(np.linalg.inv(L), columns)
    solved = inverse @ columns
    return solved + inverse @ (columns - from_host(L, columns) @ solved)
