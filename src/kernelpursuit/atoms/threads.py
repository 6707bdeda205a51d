"""Threads for parts of long products and tiles of matrices; BLAS is held at one thread meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import PurePath
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from kernelpursuit._sklearn import usable_threads

FEW_ENTRIES = 2**20  # below this many kernel values threads cost more than they give
ROW_PARTS = 8  # parts of the rows of a product that are multiplied in threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def spans(start: int, stop: int, size: int) -> list[slice]:
    """Slices of `size` that cover start to stop.

    Examples
    --------
    >>> spans(0, 5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def in_threads(task: Callable[[Item], Result], items: Iterable[Item], parallel: bool = True) -> Sequence[Result]:
    """``[task(item) for item in items]``, by as many threads as the process may use. BLAS takes one thread in each."""
    return list(stream_in_threads(task, items, parallel))


def stream_in_threads(task: Callable[[Item], Result], items: Iterable[Item], parallel: bool = True) -> Iterator[Result]:
    """Results of ``task(item)`` in the order of the items, made by several threads; none is kept after its use."""
    items = list(items)
    threads = min(usable_threads(), len(items)) if parallel else 1
    if threads < 2:
        yield from map(task, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        yield from pool.map(task, items)


def inner_products(A: Any, B: Any) -> Any:
    """AᵀB of two sets of columns; where BLAS is held at one thread, parts of their rows in threads.

    There are always as many parts, so that the sums are the same for any number of threads.
    """
    n = A.shape[0]
    if not one_blas_thread.held or not isinstance(A, np.ndarray) or A.size < FEW_ENTRIES:
        return A.T @ B
    rows = spans(0, n, -(-n // ROW_PARTS))
    return sum(stream_in_threads(lambda part: A[part].T @ B[part], rows))


class _OneBlasThread:
    """BLAS held at one thread while tiles are worked on in threads, or one triangle of a matrix is read.

    One triangle is read by SciPy's BLAS, which may keep its threads then: threads of both libraries would wait for each
    other. The holders are counted, because two fits that each restored the number of threads they had found could leave
    BLAS at one thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = {"all": 0, "numpy": 0, "small": 0}
        self._before: list[tuple[Any, int]] = []  # libraries, and their threads without a holder

    @property
    def held(self) -> bool:
        """Whether NumPy's BLAS has one thread now because there are other threads."""
        return self._holders["all"] + self._holders["numpy"] > 0

    def __call__(self, scipy_too: bool = True) -> AbstractContextManager[None]:
        return self._hold("all" if scipy_too else "numpy")

    def for_small_fit(self) -> AbstractContextManager[None]:
        """BLAS held at one thread because the arrays of a fit are small, which does not count as held for tiles.

        Those of refined terms are small for any number of rows.
        """
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


one_blas_thread = _OneBlasThread()


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, so once."""
    return ThreadpoolController()


def _of_scipy(path: str) -> bool:
    """Whether a library came with SciPy.

    Examples
    --------
    >>> _of_scipy("/lib/site-packages/scipy.libs/libopenblas.so"), _of_scipy("/lib/libopenblas.so")
    (True, False)
    """
    return any(part in ("scipy", "scipy.libs") for part in PurePath(path).parts)
