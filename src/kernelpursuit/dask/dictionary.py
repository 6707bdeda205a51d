"""The atoms at rows that are held by shards: each has a dictionary of its own, with the same centres."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.dask.arrays import Handle, Program, Sharded
from kernelpursuit.dask.shard import call


class ShardedDictionary:
    """A dictionary whose rows are on shards.

    Parameters
    ----------
    program : Program
    parts : Handle
        The dictionary of each shard's rows.
    centres : Dictionary
        The atoms at their own centres, here: it knows their inner products.
    tile : int or Reduced
        Columns that a shard may hold at once; it is read when it is needed.
    dtype : dtype
        Of the columns.
    """

    in_memory = False  # a pass is a message to all shards, whatever they keep

    def __init__(self, program: Program, parts: Handle, centres: Any, tile: Any, dtype: Any):
        self.shape = (program.n_rows, centres.shape[1])
        self._tile = tile
        self._program, self._parts, self._dtype = program, parts, np.dtype(dtype)
        self._centres, self.gram, self.gram_diagonal = centres, centres.gram, centres.gram_diagonal

    @property
    def tile(self) -> int:
        """Columns that may be in memory at once."""
        return int(np.asarray(self._tile))

    def columns(self, J: np.ndarray) -> Sharded:
        """Columns `J`, (n_samples, len(J)), where the rows are."""
        return self._columns("columns", J, self._dtype)

    def exact_columns(self, J: np.ndarray) -> Sharded:
        """The same in float64."""
        return self._columns("exact_columns", J, np.float64)

    def in_float64(self) -> ShardedDictionary:
        """A dictionary of the same rows whose passes are in float64: those of the shards give up what they kept."""
        parts = Handle(self._program, self._program.add(call, self._parts, "in_float64"))
        tile = self._program.reduce(getattr, parts, "tile", how="min")
        return ShardedDictionary(self._program, parts, self._centres, tile, np.float64)

    def _columns(self, method: str, J: np.ndarray, dtype: Any) -> Sharded:
        number = self._program.add(call, self._parts, method, np.asarray(J))
        return Sharded(self._program, number, np.empty((0, len(J)), dtype=dtype), 0)

    def correlate(self, V: Sharded) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1]), on the host: one pass over the data, and one message."""
        return np.asarray(self._program.reduce(call, self._parts, "correlate", V))
