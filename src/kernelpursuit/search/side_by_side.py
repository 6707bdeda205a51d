"""The paths of a search side by side in threads, where linear algebra may use several cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from itertools import takewhile
from math import inf
from threading import Condition
from typing import Any, NamedTuple

from sklearn import config_context, get_config
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._sklearn import usable_threads
from kernelpursuit._warning import without
from kernelpursuit.atoms.tiles import one_blas_thread

# With fewer a step is mostly Python's, which threads do one at a time. Two threads took 1.44, 1.23 and 1.03 times the
# time of one with 100, 200 and 500 rows, 0.88 with 1,347 and 0.65 with 3,000.
FEW_ROWS = 1000
LISTENING = 0.1  # seconds after which a wait looks up: an interrupt just before it began would be seen at its end only

Each = Callable[..., Iterable[Any]]  # ``each(function, items)``: `map`, or the same in threads


class Hands(NamedTuple):
    """Who does what the jobs of a search are made of."""

    each: Each
    later: Callable[[Callable[[], Any]], Callable[[], Any]]  # begins something; what is returned waits for its result
    done: Callable[[], float] = lambda: inf  # how many jobs are, with all before them


class Ending:
    """Whether the paths under way are to end at their next step: they cannot be interrupted from outside."""

    def __init__(self) -> None:
        self.now = False

    def __call__(self) -> bool:
        """Whether to end."""
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
    jobs: Callable[[Hands], Iterable[tuple | None]],
    threads: int,
    ending: Ending,
) -> Iterator[Any]:
    """``function(*job)`` for each job, in their order; BLAS takes one thread in each of the threads.

    ``jobs(hands)`` makes them, and may let the same threads do some of that: see `Team`. One job waits for a thread
    while the next one is made. None in place of a job: it is made when another one is done.

    An interrupt, or an error of one of them, ends the others at their next step. Those that are finished by then still
    count. Where the one whose turn it is was interrupted by that, what it says of itself is raised.
    """
    config, waiting, given = get_config(), deque[Future](), 0

    def done() -> int:
        return given + sum(1 for _ in takewhile(Future.done, waiting))

    def results(most: int) -> Iterator[Any]:
        """Those whose turn it is; where more jobs than `most` are under way one of them is waited for."""
        nonlocal given
        under_way = [future for future in waiting if not future.done()]
        while len(under_way) > most and not any(future.done() for future in under_way):
            wait(under_way, timeout=LISTENING, return_when=FIRST_COMPLETED)  # so that an interrupt is noticed at once
        while waiting and waiting[0].done():
            yield waiting[0].result()
            waiting.popleft()
            given += 1

    def work(job: tuple) -> Any:
        with config_context(**config), without(ConvergenceWarning):  # each thread has its own
            return function(*job)

    def quietly(function: Callable[[], Any]) -> Any:
        with config_context(**config), without(ConvergenceWarning):
            return function()

    with one_blas_thread(), ThreadPoolExecutor(max(threads, usable_threads())) as pool:
        team = Team(pool, quietly)
        try:
            for job in jobs(Hands(team.each, team.later, done)):
                if job is not None:
                    waiting.append(pool.submit(work, job))
                yield from results(threads if job is not None else 0)
            while waiting:
                yield from results(0)
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
        finally:
            team.stop()


class Team:
    """The thread of a search and those of a pool, which share the work that one of them has begun.

    The search goes on with what Python does mostly, one thread at a time, while another thread makes what the next
    width needs, mostly by BLAS. Two threads at the same kind of work would keep handing Python's lock to each other.

    Parameters
    ----------
    pool : ThreadPoolExecutor
    carry_out : callable
        Calls a function in a thread of the pool.
    """

    def __init__(self, pool: ThreadPoolExecutor, carry_out: Callable[[Callable[[], Any]], Any]):
        self._pool, self._carry_out = pool, carry_out
        self._loops = list[Loop]()
        self._news = Condition()  # a loop has begun, or what was begun has its result
        self._stopped = False

    def later(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Begin something in the pool. What is returned waits for its result, and takes part in its loops meanwhile."""
        future = self._pool.submit(self._carry_out, function)
        future.add_done_callback(self._tell)

        def result() -> Any:
            while not future.done():
                for loop in list(self._loops):
                    loop.work()
                with self._news:
                    self._news.wait_for(lambda: future.done() or any(loop.left for loop in self._loops), LISTENING)
            return future.result()

        return result

    def each(self, function: Callable, items: Iterable) -> list[Any]:
        """``list(map(function, items))``, by all threads of the pool that are free."""
        loop = Loop(function, items)
        self._loops.append(loop)  # before it is asked, so that either this or `stop` sees the other
        if self._stopped:
            raise CancelledError
        self._tell()
        helpers = [self._pool.submit(loop.work) for _ in range(min(len(loop.results), usable_threads() - 1) - 1)]
        try:
            loop.work()
            return loop.wait()
        finally:
            self._loops.remove(loop)
            for helper in helpers:
                helper.cancel()

    def _tell(self, _: Any = None) -> None:
        with self._news:
            self._news.notify_all()

    def stop(self) -> None:
        """Nobody needs the results any more."""
        self._stopped = True
        for loop in list(self._loops):
            loop.end(CancelledError())


class Loop:
    """A function for each of some items, in their order, by whoever takes part."""

    def __init__(self, function: Callable, items: Iterable):
        self._function, self.left = function, deque(enumerate(items))
        self.results: list[Any] = [None] * len(self.left)
        self._missing, self._changed = len(self.left), Condition()
        self._error: BaseException | None = None

    def work(self) -> None:
        """Take part until no item is left. An error ends the loop for all."""
        while True:
            try:
                place, item = self.left.popleft()
            except IndexError:
                return
            try:
                self.results[place] = self._function(item)
            except BaseException as error:
                self.end(error)
                raise
            with self._changed:
                self._missing -= 1
                self._changed.notify_all()

    def end(self, error: BaseException) -> None:
        """Begin no other item; who waits for the results gets this error."""
        self.left.clear()
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def wait(self) -> list[Any]:
        """The results, when all others have come to an end."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._missing == 0)
        if self._error is not None:
            raise self._error
        return self.results
