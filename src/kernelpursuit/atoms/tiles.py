"""Loops over tiles of a matrix that is not kept: how large the tiles are and which threads work on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import PurePath
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from threadpoolctl import ThreadpoolController

from kernelpursuit._sklearn import usable_threads

MIB = 2**20
CACHE_TILE = MIB  # the second-level cache of one core: a tile is made, exponentiated and multiplied inside it
CACHE_ROWS = 512
FEW_ENTRIES = 2**20  # below this many kernel values threads cost more than they give
ROW_PARTS = 8  # parts of the rows of a product that are multiplied in threads
PARTS = 32  # tasks that a pass is cut into at least, whatever the number of threads

Item = TypeVar("Item")
Result = TypeVar("Result")


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


def spans(start: int, stop: int, size: int) -> list[slice]:
    """Slices of `size` that cover start to stop.

    Examples
    --------
    >>> spans(0, 5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def parts_of_pass(n: int, m: int, blocks: Blocks) -> list[tuple[slice, slice]]:
    """Tasks of a pass, (rows, columns) each: a block of columns with all rows, or with some where blocks are few.

    They depend on the sizes alone. So sums are made in the same order, and are the same, for any number of threads.
    """
    columns = spans(0, m, blocks.columns)
    shares = -(-PARTS // max(1, len(columns)))
    rows = blocks.rows * max(1, -(-n // (blocks.rows * shares)))
    return [(part, J) for J in columns for part in spans(0, n, rows)]


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, so once."""
    return ThreadpoolController()


class _OneBlasThread:
    """BLAS held at one thread while anybody works with tiles, or reads one triangle of a matrix.

    The latter is a routine of SciPy's BLAS, which may keep its threads then: those of two libraries would keep each
    other waiting. Counted, because two fits in two threads that each restored what they had found could leave BLAS at
    one thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = {"all": 0, "numpy": 0, "small": 0}
        self._before: list[tuple[Any, int]] = []  # libraries and their threads when nobody held them

    @property
    def held(self) -> bool:
        """Whether NumPy's BLAS has one thread now for the sake of other threads."""
        return self._holders["all"] + self._holders["numpy"] > 0

    def __call__(self, scipy_too: bool = True) -> AbstractContextManager[None]:
        return self._hold("all" if scipy_too else "numpy")

    def for_small_fit(self) -> AbstractContextManager[None]:
        """BLAS held at one thread because a fit is small. It does not count as held for threads of tiles."""
        return self._hold("small")

    @contextmanager
    def _hold(self, who: str) -> Iterator[None]:
        with self._lock:
            if not any(self._holders.values()):
                libraries = [one for one in _controller().lib_controllers if one.user_api == "blas"]
                self._before = [(one, one.num_threads) for one in libraries]
            self._holders[who] += 1
        try:
            with self._lock:
                self._set_threads()
            yield
        finally:
            with self._lock:
                self._holders[who] -= 1
                self._set_threads()

    def _set_threads(self) -> None:
        for library, threads in self._before:
            nobody = self._holders["all"] + self._holders["small"] == 0
            kept = nobody and (_of_scipy(library.filepath) or not self.held)
            library.set_num_threads(threads if kept else 1)


def _of_scipy(path: str) -> bool:
    """Whether a library came with SciPy.

    Examples
    --------
    >>> _of_scipy("/lib/site-packages/scipy.libs/libopenblas.so"), _of_scipy("/lib/libopenblas.so")
    (True, False)
    """
    return any(part in ("scipy", "scipy.libs") for part in PurePath(path).parts)


one_blas_thread = _OneBlasThread()


def inner_products(A: Any, B: Any) -> Any:
    """AᵀB of two sets of columns; where BLAS is held at one thread, parts of their rows in threads.

    There are always as many parts, so that the sums are the same for any number of threads.
    """
    n = A.shape[0]
    if not one_blas_thread.held or type(A).__module__ != "numpy" or n * A.shape[1] < FEW_ENTRIES:
        return A.T @ B
    rows = spans(0, n, -(-n // ROW_PARTS))
    return sum(stream_in_threads(lambda part: A[part].T @ B[part], rows))


def in_threads(task: Callable[[Item], Result], items: Iterable[Item], parallel: bool = True) -> Sequence[Result]:
    """``[task(item) for item in items]``, by as many threads as the process may use. BLAS takes one thread in each."""
    return list(stream_in_threads(task, items, parallel))


def stream_in_threads(task: Callable[[Item], Result], items: Iterable[Item], parallel: bool = True) -> Iterator[Result]:
    """Results of ``task(item)`` in the order of the items, made by several threads, each given up once it is used."""
    items = list(items)
    threads = min(usable_threads(), len(items)) if parallel else 1
    if threads < 2:
        yield from map(task, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        yield from pool.map(task, items)
