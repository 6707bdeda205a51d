"""Rows in groups that each have a constant of their own, as in ranking, where only differences inside a group count."""

from __future__ import annotations

import numpy as np

from kernelpursuit.arrays import Array, from_host, gather, namespace, to_host


class Groups:
    """Sums over the groups of rows, and the projection that takes a constant for each group out.

    The squared loss of all pairs of a group is least squares without the mean of the group: with m rows

        sum over pairs i < j of (e_i - e_j)² = m · sum over i of (e_i - mean e)²

    and with weights w that sum to W, of ``w_i w_j (e_i - e_j)²`` it is W times the weighted sum of squares about the
    weighted mean. Rows come multiplied by the roots of their weights (`RowWeights`), so the constant is these roots.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Group of each row; any values, in any order.
    weights : array of shape (n_samples,), optional
        Positive.
    like : array
        Sets namespace, device and dtype.

    Examples
    --------
    >>> import numpy as np
    >>> groups = Groups(np.array([0, 0, 1, 1]), None, np.zeros((4, 1)))
    >>> groups.centre(np.array([[1.0], [2.0], [5.0], [9.0]]))[:, 0]
    array([-0.5,  0.5, -2. ,  2. ])
    """

    def __init__(self, labels: np.ndarray, weights: Array | None, like: Array):
        _, which, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        # Numbered by size: groups of one size are then one block, and a sum over it needs no loop and no padding.
        number = np.empty(len(sizes), dtype=np.intp)
        number[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
        self.of_row = number[which]
        self.count = len(sizes)
        order = np.argsort(self.of_row, kind="stable")
        self.order = None if np.all(np.diff(order) == 1) else order
        widths, counts = np.unique(sizes, return_counts=True)
        self.blocks = list(zip(counts.tolist(), widths.tolist(), strict=True))  # how many groups, of how many rows
        w = np.ones(len(which)) if weights is None else to_host(weights)
        root = np.sqrt(w / np.max(w))
        norms = np.sqrt(np.bincount(self.of_row, weights=root**2))
        self._unit = from_host((root / norms[self.of_row])[:, None], like)

    def ordered(self, columns: Array) -> Array:
        """Rows of `columns` (n_samples, b) in the order of `blocks`."""
        return columns if self.order is None else gather(columns, self.order)

    def sums(self, columns: Array) -> Array:
        """Sum of `columns` (n_samples, b) over the rows of each group, (n_groups, b)."""
        xp, rows, b = namespace(columns), self.ordered(columns), columns.shape[1]
        parts, start = [], 0
        for count, size in self.blocks:
            block = rows[start : start + count * size, :]
            parts.append(xp.sum(xp.reshape(block, (count, size, b)), axis=1))
            start += count * size
        return xp.concat(parts, axis=0)

    def spread(self, values: Array) -> Array:
        """Values of groups, (n_groups, b), repeated for the rows of each group, (n_samples, b)."""
        return gather(values, self.of_row)

    def centre(self, columns: Array) -> Array:
        """Weighted `columns` (n_samples, b) without their part along the constant of each group."""
        return columns - self._unit * self.spread(self.sums(self._unit * columns))
