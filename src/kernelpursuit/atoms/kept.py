"""Tiles of a matrix that are kept from the first pass on, as many as fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class KeptTiles:
    """The first tiles of a matrix, one behind the other in one array.

    The system gives one large array in large pages, so that a pass reads it as fast as a matrix. Parts to which nothing
    was written take no memory.

    Parameters
    ----------
    shape : (n_samples, n_atoms)
    dtype : dtype
    room : int
        Bytes that they may take.
    height : int
        Atoms of a tile, but for those of the last atoms.
    half : bool
        Whether only tiles on and above the diagonal are asked for.

    Attributes
    ----------
    share : float
        How much of the matrix, or of the half, is kept.
    nbytes : int
        What that takes.

    Examples
    --------
    >>> kept = KeptTiles((4, 4), np.float64, room=80, height=2, half=True)
    >>> round(kept.share, 2)  # two tiles of the first two atoms, but not that of the last two
    0.83
    >>> kept.tile(slice(0, 2), slice(2, 4), lambda out: out.fill(5.0))
    array([[5., 5.],
           [5., 5.]])
    >>> kept.tile(slice(2, 4), slice(2, 4), lambda out: out.fill(5.0)) is None
    True
    """

    def __init__(self, shape: tuple[int, int], dtype: Any, room: int, height: int, half: bool = False):
        (self._rows, m), self._height, self._half = shape, height, half
        last = slice(height * ((m - 1) // height), m) if m else slice(0, 0)
        whole = self._end(last, self._rows)
        self._values = np.empty(min(whole, max(0, room) // np.dtype(dtype).itemsize), dtype=dtype)
        self._made: set[tuple[int, int]] = set()
        self.nbytes = self._values.nbytes
        self.share = len(self._values) / whole if whole else 1.0

    def _end(self, atoms: slice, stop: int) -> int:
        """Values up to row `stop` of a band of atoms, those of the bands before it included."""
        bands = atoms.start // self._height
        below = self._height**2 * bands * (bands - 1) // 2 if self._half else 0  # the diagonal, in bands before
        first = atoms.start if self._half else 0
        return atoms.start * self._rows - below + (atoms.stop - atoms.start) * (stop - first)

    def holds(self, atoms: slice) -> bool:
        """Whether there is room for all tiles of some atoms."""
        return self._end(atoms, self._rows) <= len(self._values)

    def tile(self, atoms: slice, rows: slice, fill: Callable[[np.ndarray], Any]) -> np.ndarray | None:
        """The tile, which ``fill(out)`` makes the first time; None if there is no room for it."""
        stop, shape = self._end(atoms, rows.stop), (atoms.stop - atoms.start, rows.stop - rows.start)
        if stop > len(self._values):
            return None
        values = self._values[stop - shape[0] * shape[1] : stop].reshape(shape)
        if (atoms.start, rows.start) not in self._made:
            fill(values)
            self._made.add((atoms.start, rows.start))
        return values
