"""One pass over a matrix that is not kept: its tiles are made, multiplied and used up in a core's cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelpursuit.atoms.dense import FEWER_VECTORS
from kernelpursuit.atoms.tiles import CACHE_TILE, PARTS, Blocks, parts_of_pass, spans, stream_in_threads

# tiles(atoms)(rows): the values of some atoms at some rows, a matrix or whatever else has `@` and `T`
Tiles = Callable[[slice], Callable[[slice], Any]]

SQUARED = Blocks(16, 8192)  # values that are squared at once, a megabyte
WIDE = 3  # tiles that are only read are so many times as wide: Python's threads wait for each other less often
STRIPES = 12  # a symmetric matrix is cut into so many stripes at most; their pairs are the tasks of its pass


def tiled_pass(n: int, m: int, tiles: Tiles, V: np.ndarray, blocks: Blocks, parallel: bool = True) -> np.ndarray:
    """DᵀV, (m, V.shape[1]); float64 sums over blocks of rows, in the same order for any number of threads."""
    V = np.ascontiguousarray(V)
    tasks = parts_of_pass(n, m, blocks)

    def product(task: tuple[slice, slice]) -> np.ndarray:
        rows, atoms = task
        tile, total = tiles(atoms), np.zeros((atoms.stop - atoms.start, V.shape[1]))
        for block in spans(rows.start, rows.stop, blocks.rows):
            total += tile(block) @ V[block]
        return total

    out = np.zeros((m, V.shape[1]))
    for (_, atoms), total in zip(tasks, stream_in_threads(product, tasks, parallel), strict=True):
        out[atoms] += total
    return out


def symmetric_pass(
    n: int, tiles: Tiles, V: np.ndarray, side: int, parallel: bool = True, wide: Callable[[slice], bool] | None = None
) -> np.ndarray:
    """KV of a symmetric matrix: a tile is made or read once, and multiplied from both of its sides.

    Parameters
    ----------
    n : int
    tiles : callable
        Asked for tiles on and above the diagonal only.
    V : ndarray of shape (n, b)
    side : int
        Of a tile.
    parallel : bool
    wide : callable, optional
        Of which atoms tiles beside the diagonal are `WIDE` times as wide.

    Examples
    --------
    >>> K = np.array([[2.0, 1.0, 0.0], [np.nan, 3.0, 5.0], [np.nan, np.nan, 4.0]])  # the lower triangle is not read
    >>> symmetric_pass(3, lambda I: lambda J: K[I, J], np.ones((3, 1)), side=1).ravel()
    array([3., 9., 9.])
    """
    V = np.ascontiguousarray(V)
    stripe = side * -(-n // (side * STRIPES))
    stripes = spans(0, n, stripe)
    pairs = [(one, two) for index, one in enumerate(stripes) for two in stripes[index:]]

    def product(pair: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray]:
        one, two = pair
        mine = np.zeros((one.stop - one.start, V.shape[1]))
        theirs = mine if one == two else np.zeros((two.stop - two.start, V.shape[1]))
        for I in spans(one.start, one.stop, side):  # noqa: E741
            tile, own = tiles(I), mine[I.start - one.start : I.stop - one.start]
            width = side if wide is None or not wide(I) else WIDE * side
            for J in [I] * (one == two) + spans(max(I.stop, two.start), two.stop, width):
                values = tile(J)
                own += values @ V[J]
                if J.start > I.start:
                    theirs[J.start - two.start : J.stop - two.start] += values.T @ V[I]
        return mine, theirs

    out = np.zeros((n, V.shape[1]))
    for (one, two), (mine, theirs) in zip(pairs, stream_in_threads(product, pairs, parallel), strict=True):
        out[one] += mine
        if one != two:
            out[two] += theirs
    return out


def kept_moments(matrix: np.ndarray, V: np.ndarray, parallel: bool = True) -> np.ndarray:
    """Products and weighted squared norms of the rows of a matrix, as a pass over tiles `WithSquares` sums them.

    Each row is an atom. Values become float64, are multiplied and then squared in one small buffer.

    Examples
    --------
    >>> kept_moments(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32), np.ones((2, 2)))
    array([[ 3.,  5.],
           [ 7., 25.]])
    """
    m, n = matrix.shape
    *vectors, weights = np.ascontiguousarray(V.T)
    parts: list[tuple[Any, np.ndarray]] = list(enumerate(vectors))
    if len(vectors) > FEWER_VECTORS:
        parts = [(slice(-1), np.ascontiguousarray(V[:, :-1]))]
    equal = bool(np.all(weights == weights[:1]))  # then squares need no buffer

    def sums(atoms: slice) -> np.ndarray:
        buffer = np.empty((SQUARED.rows, min(n, SQUARED.columns)))
        out = np.zeros((atoms.stop - atoms.start, V.shape[1]))
        for few in spans(atoms.start, atoms.stop, SQUARED.rows):
            total = out[few.start - atoms.start : few.stop - atoms.start]
            for J in spans(0, n, SQUARED.columns):
                values = buffer[: len(total), : J.stop - J.start]
                np.copyto(values, matrix[few, J])
                for columns, v in parts:
                    total[:, columns] += values @ v[J]
                with np.errstate(over="ignore"):
                    if equal:
                        total[:, -1] += weights[0] * np.vecdot(values, values)
                    else:
                        total[:, -1] += np.multiply(values, values, out=values) @ weights[J]
        return out

    tasks = spans(0, m, max(SQUARED.rows, -(-m // PARTS)))  # few: Python's threads wait for each other at each call
    return np.concatenate([np.zeros((0, V.shape[1])), *stream_in_threads(sums, tasks, parallel)])


class WithSquares:
    """A tile and the squares of its values, for sums in float64: the last column of V is multiplied by the squares.

    Examples
    --------
    >>> tile = WithSquares(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32))
    >>> tile @ np.ones((2, 2)), tile.T @ np.ones((2, 2))
    (array([[ 3.,  5.],
           [ 7., 25.]]), array([[ 4., 10.],
           [ 6., 20.]]))
    """

    def __init__(self, values: np.ndarray, squares: np.ndarray | None = None):
        self._values = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            self._squares = self._values * self._values if squares is None else squares

    @property
    def T(self) -> WithSquares:
        """The tile transposed."""
        return WithSquares(self._values.T, self._squares.T)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        out = np.empty((len(self._values), V.shape[1]))
        with np.errstate(over="ignore"):
            out[:, :-1], out[:, -1] = self._values @ V[:, :-1], self._squares @ V[:, -1]
        return out


def side_of_tiles(itemsize: int) -> int:
    """Side of a square tile that stays in a core's cache.

    Examples
    --------
    >>> side_of_tiles(4), side_of_tiles(8)
    (512, 384)
    """
    return 128 * round(np.sqrt(CACHE_TILE / itemsize) / 128)
