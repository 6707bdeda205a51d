"""Several dictionaries side by side: mixed kernels and widths, plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, gather, namespace
from kernelpursuit.atoms.protocol import exact_columns, in_float64


class StackedDictionary:
    """Dictionaries over the same rows joined into one; atom indices run through the parts in order.

    Parameters
    ----------
    parts : sequence of Dictionary

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit.atoms import DenseDictionary
    >>> D = StackedDictionary([DenseDictionary(np.eye(2)), DenseDictionary(np.ones((2, 1)))])
    >>> D.shape
    (2, 3)
    >>> D.columns(np.array([2, 0]))
    array([[1., 1.],
           [1., 0.]])
    """

    def __init__(self, parts: Sequence[Any]):
        if len({part.shape[0] for part in parts}) != 1:
            raise ValueError(f"parts must have the same number of rows, got {[part.shape[0] for part in parts]}")
        self.parts = list(parts)
        self.starts = np.cumsum([0] + [part.shape[1] for part in parts])
        self.shape = (parts[0].shape[0], int(self.starts[-1]))
        self.tile = min(part.tile for part in parts)
        self.spare = sum(getattr(part, "spare", 0) for part in parts)  # bytes that none of them takes

    @property
    def in_memory(self) -> bool:
        """Whether all parts are kept."""
        return all(part.in_memory for part in self.parts)

    @property
    def threaded(self) -> bool:
        """Whether a pass over one of the parts makes tiles in threads of its own."""
        return any(getattr(part, "threaded", False) for part in self.parts)

    def locate(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Part and index inside the part of each atom in `J`."""
        part = np.searchsorted(self.starts, J, side="right") - 1
        return part, J - self.starts[part]

    def columns(self, J: np.ndarray) -> Array:
        """Columns `J`, (n_samples, len(J))."""
        return self._joined(J, lambda part, inner: part.columns(inner))

    def exact_columns(self, J: np.ndarray) -> Array:
        """Columns `J` in float64, (n_samples, len(J))."""
        return self._joined(J, exact_columns)

    def in_float64(self) -> StackedDictionary:
        """The parts in float64, side by side."""
        return StackedDictionary([in_float64(part) for part in self.parts])

    def _joined(self, J: np.ndarray, columns_of: Callable[[Any, np.ndarray], Array]) -> Array:
        """Columns ``columns_of(part, atoms)`` of each part for its own of the atoms `J`, in the order of `J`."""
        part, inner = self.locate(np.asarray(J))
        pieces = [columns_of(self.parts[p], inner[part == p]) for p in np.unique(part)]
        joined = pieces[0] if len(pieces) == 1 else namespace(pieces[0]).concat(pieces, axis=1)
        order = np.argsort(np.argsort(part, kind="stable"), kind="stable")  # place of each atom of J among the joined
        return joined if np.all(np.diff(part) >= 0) else gather(joined, order, axis=1)

    def correlate(self, V: Array) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1])."""
        return np.concatenate([part.correlate(V) for part in self.parts])

    def gram(self, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Inner products under the ridge penalty; atoms of different parts are orthogonal."""
        rows = np.arange(self.shape[1]) if I is None else np.asarray(I)
        (row_part, row_inner), (part, inner) = self.locate(rows), self.locate(np.asarray(J))
        out = np.zeros((len(rows), len(part)))
        for p in np.intersect1d(row_part, part):
            mine, theirs = np.flatnonzero(row_part == p), np.flatnonzero(part == p)
            out[np.ix_(mine, theirs)] = self.parts[p].gram(row_inner[mine], inner[theirs])
        return out

    def gram_diagonal(self, J: np.ndarray | None) -> np.ndarray:
        """Diagonal of `gram` at atoms `J` (None: all)."""
        part, inner = self.locate(np.arange(self.shape[1]) if J is None else np.asarray(J))
        out = np.empty(len(part))
        for p in np.unique(part):
            out[part == p] = self.parts[p].gram_diagonal(inner[part == p])
        return out
