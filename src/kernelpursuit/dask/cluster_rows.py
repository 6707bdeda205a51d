"""The rows of a fit that stay on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.criteria.fisher import Fisher
from kernelpursuit.criteria.rayleigh import Rayleigh
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.dask.arrays import Handle, Program, RemoteArray
from kernelpursuit.dask.atoms import RemoteAtoms, remote_atoms
from kernelpursuit.dask.criteria import RemoteFisher, RemoteRayleigh, RemoteSquares, Trace
from kernelpursuit.dask.descent import bring_few, refined_by_all
from kernelpursuit.fitting.rows import RowSource
from kernelpursuit.fitting.span import kernel_diagonal
from kernelpursuit.fitting.training import TrainingData

FEW_NUMBERS = 10_000  # rows that are enough to fit a few numbers to
CHECKED_AT_ONCE = 4096  # rows of a checksum
REMOTE: dict[type, type] = {Squares: RemoteSquares, Fisher: RemoteFisher}


class RowBlocks(NamedTuple):
    """The blocks of rows of all shards, in order: the number of the first row of each, and how many rows it has."""

    firsts: np.ndarray
    sizes: np.ndarray


class ClusterRows(RowSource):
    """What a fit asks of rows on the workers of a cluster.

    Parameters
    ----------
    program : Program
    numbers : Handle
        Of each row its number among all rows, those of weight 0 too.
    blocks : RowBlocks
    free : int
        Bytes that are free for arrays over all rows.
    moments : ndarray of shape (3, n_features)
        Of each column of X its weight, mean, and sum of squares around that.
    room : int or None
        Bytes of memory that a block of rows may take, where the rows are in files.
    """

    remote = True

    def __init__(
        self, program: Program, numbers: Handle, blocks: RowBlocks, free: int, moments: np.ndarray, room: int | None
    ):
        self.program, self.numbers, self.moments, self.room = program, numbers, moments, room
        self._blocks, self._free = blocks, free
        self.in_files = room is not None

    def map(self, function: Callable, *args: Any) -> RemoteArray:
        """An array over the same rows, where they are."""
        return self.program.array(function, *args)

    def total(self, function: Callable, *args: Any) -> float:
        """Sum over the blocks of rows: one message."""
        return float(self.program.reduce(function, *args))

    def collect(self, function: Callable, *args: Any) -> list[Any]:
        """A value for each block of rows: one message."""
        return self.program.collect(function, *args)

    def take(self, array: Any, positions: np.ndarray) -> np.ndarray:
        """Rows at sorted `positions` among those of positive weight: one message."""
        return self.take_numbered(array, positions)[0]

    def take_numbered(self, array: Any, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What `take` gives, and the numbers of these rows among all rows, those of weight 0 too."""
        firsts, sizes = self._blocks
        ends = np.cumsum(sizes)
        block = np.searchsorted(ends, positions, side="right")
        inside = positions - (ends - sizes)[block]
        wanted = {int(firsts[one]): inside[block == one] for one in np.unique(block)}
        found = self.collect(chosen_rows, array, self.numbers, wanted)
        numbers = np.concatenate([numbers for _, numbers in found])
        order = np.argsort(numbers)
        return np.concatenate([some for some, _ in found])[order], numbers[order]

    def sample(self, array: Any) -> np.ndarray:
        """All rows, or about `FEW_NUMBERS` of them, drawn from all blocks."""
        return np.concatenate(self.collect(sample_of_block, array, min(1.0, FEW_NUMBERS / self.program.n_rows)))

    def bring_few(self, data: TrainingData) -> TrainingData:
        """The data in this process, up to 20,000 rows."""
        return bring_few(self, data)

    def free_memory(self, X: Any) -> int:
        """Bytes, as the worker says that has least room for its share of the rows."""
        return self._free

    def identity(self, data: TrainingData) -> tuple[np.ndarray]:
        """Checksums that depend on the rows alone and not on their chunks."""
        arrays = [array for array in (data.X, data.y, data.weights) if array is not None]
        sums = [np.sum(self.collect(checksum, array, self.numbers), dtype=np.uint64) for array in arrays]
        return (np.array([self.program.n_rows, *sums], dtype=np.uint64),)

    def make_atoms(self, family: type, data: TrainingData, rng: np.random.Generator, **parameters: Any) -> RemoteAtoms:
        """Atoms whose centres are everywhere."""
        return remote_atoms(self, family, data, rng, **parameters)

    def criterion(self, kind: type, data: TrainingData, family: RemoteAtoms) -> Callable:
        """The criterion of remote rows."""
        if kind is Rayleigh:
            return partial(self._rayleigh, data, family)
        return REMOTE[kind]

    def _rayleigh(
        self, data: TrainingData, family: RemoteAtoms, dictionary: Any, *, weights: Any, **given: Any
    ) -> RemoteRayleigh:
        n = float(self.program.n_rows)
        unit = data.total / n
        trace = self.total(weighted_trace, data.X, family.kernels[0], weights) / unit
        if weights is None:
            return RemoteRayleigh(dictionary, of_rows=Trace(trace, n, unit, None), **given)
        roots = ((weights / unit) ** 0.5)[:, None]
        assert family.positions is not None
        of_atoms = self.take(weights, family.positions)
        return RemoteRayleigh(dictionary, weights=of_atoms, of_rows=Trace(trace, n, unit, roots), **given)

    def refinement(self, method: Callable) -> Callable:
        """A descent of which each step is a message."""
        return partial(refined_by_all, self)


def chosen_rows(array: np.ndarray, numbers: np.ndarray, wanted: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a block, and their numbers, at the positions that are `wanted` of the block with this first number."""
    positions = wanted.get(int(numbers[0]), np.zeros(0, dtype=np.intp))
    return array[positions], numbers[positions]


def sample_of_block(array: np.ndarray, share: float) -> np.ndarray:
    """A share of the rows of a block, the same rows of every array."""
    count = int(np.ceil(share * len(array)))
    return array[np.sort(np.random.default_rng(0).permutation(len(array))[:count])]


def weighted_trace(X: np.ndarray, kernel: Any, weights: np.ndarray | None) -> float:
    """Weighted sum of k(x, x) over rows."""
    diagonal = kernel_diagonal(kernel, X)
    return float(np.sum(diagonal if weights is None else weights * diagonal))


def checksum(array: np.ndarray, numbers: np.ndarray) -> np.uint64:
    """A number that changes with any bit of any row, or with their order; those of several blocks are added."""
    width = array[:1].nbytes
    odd = np.random.default_rng(0).integers(2**63, size=width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    total = np.uint64(0)
    for start in range(0, len(array), CHECKED_AT_ONCE):
        block = slice(start, start + CHECKED_AT_ONCE)
        plain = np.ascontiguousarray(array[block]).view(np.uint8).reshape(-1, width)
        factors = numbers[block].astype(np.uint64) * np.uint64(2) + np.uint64(1)
        total += np.sum((plain @ odd) * factors, dtype=np.uint64)
    return total
