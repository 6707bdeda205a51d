"""Products with a matrix that is not kept: its tiles are made, multiplied and used up in a core's cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.atoms.threads import spans, stream_in_threads

MIB = 2**20
CACHE_TILE = MIB  # the second-level cache of one core
CACHE_ROWS = 512
PARTS = 32  # tasks that a pass is cut into at least, whatever the number of threads
STRIPES = 12  # a symmetric matrix is cut into so many stripes at most; their pairs are the tasks of its pass

Tiles = Callable[[slice], Callable[[slice], np.ndarray]]  # tiles(atoms)(rows): the values of some atoms at some rows


class Blocks(NamedTuple):
    """Rows and columns of one tile."""

    rows: int
    columns: int


def cache_blocks(n: int, m: int, itemsize: int, limit: int) -> Blocks:
    """Tile of at most `limit` bytes that stays in a core's cache.

    Examples
    --------
    >>> cache_blocks(20_000, 20_000, itemsize=4, limit=2**30)
    Blocks(rows=512, columns=512)
    """
    entries = max(1, min(limit, CACHE_TILE) // itemsize)
    columns = max(1, min(m, entries // max(1, min(n, CACHE_ROWS, entries))))
    return Blocks(max(1, min(n, entries // columns)), columns)


def side_of_tiles(itemsize: int) -> int:
    """Side of a square tile that stays in a core's cache.

    Examples
    --------
    >>> side_of_tiles(4), side_of_tiles(8)
    (512, 384)
    """
    return 128 * round(np.sqrt(CACHE_TILE / itemsize) / 128)


def parts_of_pass(n: int, m: int, blocks: Blocks) -> list[tuple[slice, slice]]:
    """Tasks of a pass, (rows, columns) each: a block of columns with all rows; with a part of them if blocks are few.

    They depend on the sizes alone. So sums are made in the same order, and are the same, for any number of threads.
    """
    columns = spans(0, m, blocks.columns)
    shares = -(-PARTS // max(1, len(columns)))
    rows = blocks.rows * max(1, -(-n // (blocks.rows * shares)))
    return [(part, J) for J in columns for part in spans(0, n, rows)]


def multiply_with_squares(values: np.ndarray, V: np.ndarray) -> np.ndarray:
    """A tile times all columns of V but the last, which is multiplied by the squares of the tile; sums in float64.

    Examples
    --------
    >>> multiply_with_squares(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32), np.ones((2, 2)))
    array([[ 3.,  5.],
           [ 7., 25.]])
    """
    values, out = np.asarray(values, dtype=np.float64), np.empty((len(values), V.shape[1]))
    with np.errstate(over="ignore"):
        out[:, :-1], out[:, -1] = values @ V[:, :-1], (values * values) @ V[:, -1]
    return out


def tiled_pass(
    n: int,
    m: int,
    tiles: Tiles,
    V: np.ndarray,
    blocks: Blocks,
    parallel: bool = True,
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.matmul,
) -> np.ndarray:
    """DᵀV, (m, V.shape[1]); float64 sums over blocks of rows, in the same order for any number of threads."""
    V = np.ascontiguousarray(V)
    tasks = parts_of_pass(n, m, blocks)

    def product(task: tuple[slice, slice]) -> np.ndarray:
        rows, atoms = task
        tile, total = tiles(atoms), np.zeros((atoms.stop - atoms.start, V.shape[1]))
        for block in spans(rows.start, rows.stop, blocks.rows):
            total += multiply(tile(block), V[block])
        return total

    out = np.zeros((m, V.shape[1]))
    for (_, atoms), total in zip(tasks, stream_in_threads(product, tasks, parallel), strict=True):
        out[atoms] += total
    return out


def symmetric_pass(
    n: int,
    tiles: Tiles,
    V: np.ndarray,
    side: int,
    parallel: bool = True,
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.matmul,
) -> np.ndarray:
    """KV of a symmetric matrix: a tile on or above the diagonal is made once, and multiplied from both of its sides.

    Examples
    --------
    >>> K = np.array([[2.0, 1.0, 0.0], [np.nan, 3.0, 5.0], [np.nan, np.nan, 4.0]])  # the lower triangle is not read
    >>> symmetric_pass(3, lambda I: lambda J: K[I, J], np.ones((3, 1)), side=1).ravel()
    array([3., 9., 9.])
    """
    V = np.ascontiguousarray(V)
    stripes = spans(0, n, side * -(-n // (side * STRIPES)))
    pairs = [(one, two) for index, one in enumerate(stripes) for two in stripes[index:]]

    def product(pair: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray]:
        one, two = pair
        upper = np.zeros((one.stop - one.start, V.shape[1]))
        lower = upper if one == two else np.zeros((two.stop - two.start, V.shape[1]))
        for I in spans(one.start, one.stop, side):  # noqa: E741
            tile, own = tiles(I), upper[I.start - one.start : I.stop - one.start]
            for J in spans(max(I.start, two.start), two.stop, side):
                values = tile(J)
                own += multiply(values, V[J])
                if J.start > I.start:
                    lower[J.start - two.start : J.stop - two.start] += multiply(values.T, V[I])
        return upper, lower

    out = np.zeros((n, V.shape[1]))
    for (one, two), (upper, lower) in zip(pairs, stream_in_threads(product, pairs, parallel), strict=True):
        out[one] += upper
        if one != two:
            out[two] += lower
    return out


class KeptTiles:
    """The first tiles of a matrix, kept from the first pass on, one behind the other in one array.

    The system gives one large array in large pages, so that a pass reads it as fast as a matrix. Parts that were never
    written take no memory.

    Parameters
    ----------
    shape : (n_samples, n_atoms)
    dtype : dtype
    room : int
        Bytes that they may take.
    height : int
        Atoms of a tile; the last tiles may have fewer.
    half : bool
        Whether only tiles on and above the diagonal are asked for.

    Attributes
    ----------
    share : float
        How much of the matrix, or of the half, is kept.
    nbytes : int
        Bytes that the kept tiles take.

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
