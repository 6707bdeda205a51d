"""The paths of a search side by side in threads, where linear algebra may use several cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import takewhile
from typing import Any

from sklearn import config_context, get_config
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._sklearn import usable_threads
from kernelpursuit._warning import without
from kernelpursuit.dictionaries.tiles import one_blas_thread

# With fewer a step is mostly Python's, which threads do one at a time. Two threads took 1.44, 1.23 and 1.03 times the
# time of one with 100, 200 and 500 rows, 0.88 with 1,347 and 0.65 with 3,000.
FEW_ROWS = 1000
LISTENING = 0.1  # seconds after which a wait looks up: an interrupt just before it began would be seen at its end only


Each = Callable[..., Iterable[Any]]  # ``each(function, items)``: `map`, or the same in threads


class Ending:
    """Whether the paths under way are to end at their next step: they cannot be interrupted from outside."""

    def __init__(self) -> None:
        self.now = False

    def __call__(self) -> bool:
        return self.now


def threads_of_search(estimator: Any, X: Any, folds: int) -> int:
    """How many threads a search has for its paths: one where several gain nothing, or are not safe.

    They share a kernel matrix. A loss or a scorer of the user's may not be made for threads, nor are callbacks, and
    the lines of several fits would get mixed up. With `n_jobs` there are processes instead.
    """
    own = not isinstance(getattr(estimator, "loss", ""), str) or callable(estimator.scoring)
    told = hasattr(estimator, "_skl_callbacks") or estimator.verbose > 1
    if own or told or estimator.n_jobs is not None or X.shape[0] < FEW_ROWS:
        return 1
    return min(usable_threads(), folds)


def in_threads(
    function: Callable,
    jobs: Callable[[Each], Iterable[tuple | None]],
    threads: int,
    ending: Ending,
    waiting_jobs: int = 1,
) -> Iterator[Any]:
    """``function(*job)`` for each job, in their order; BLAS takes one thread in each of the threads.

    So many jobs may wait for a thread, while the next one is made. ``jobs(each)`` makes them, and may let the same
    threads do some of that by ``each(function, items)``, like `map`: with more threads than cores, one that Python
    waits for would often not be running. None in place of a job: the next one is made when all before are done.

    An interrupt, or an error of one of them, ends the others at their next step. Those that are finished by then still
    count. Where the one whose turn it is was interrupted by that, what it says of itself is raised.
    """
    config, waiting = get_config(), deque[Future]()

    def work(job: tuple) -> Any:
        with config_context(**config), without(ConvergenceWarning):  # each thread has its own
            return function(*job)

    with one_blas_thread(), ThreadPoolExecutor(max(threads, usable_threads())) as pool:
        try:
            for job in jobs(partial(each_in, pool)):
                if job is not None:
                    waiting.append(pool.submit(work, job))
                while len(waiting) >= (threads + waiting_jobs if job is not None else 1):
                    yield result_of(waiting[0])
                    waiting.popleft()
            while waiting:
                yield result_of(waiting[0])
                waiting.popleft()
        except BaseException as error:
            finished = list(takewhile(lambda future: future.done() and future.exception() is None, waiting))
            ending.now = True
            for future in list(waiting)[len(finished) + 1 :]:
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
            for future in finished:
                yield future.result()
                waiting.popleft()
            if waiting and isinstance(waiting[0].exception(), KeyboardInterrupt):
                raise waiting[0].exception() from None  # type: ignore[misc]
            raise


def each_in(pool: ThreadPoolExecutor, function: Callable, items: Iterable) -> Iterator[Any]:
    """``pool.map(function, items)``, waited for so that an interrupt is noticed at once: all threads may be busy."""
    futures = [pool.submit(function, item) for item in items]

    def results() -> Iterator[Any]:
        try:
            yield from map(result_of, futures)
        finally:
            for future in futures:
                future.cancel()

    return results()


def result_of(future: Future) -> Any:
    """What a job gives, waited for so that an interrupt is noticed at once."""
    while not future.done():
        wait([future], timeout=LISTENING)
    return future.result()
