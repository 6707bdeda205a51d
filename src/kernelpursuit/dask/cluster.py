"""Shards as actors on the workers of a Dask cluster.

An actor keeps its rows, and what was made of them, in the memory of one worker, or in files there. The commands are
logged in this process, so that the shard of a worker that dies is made again at another: its rows from the collection,
all else from the log.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from kernelpursuit.dask.scratch import StoredBlock, in_files
from kernelpursuit.dask.shard import Command, HeldRows, Read, Shard, needed, nodes_within

PACKAGE = "kernelpursuit"
PATIENCE = 0.5  # seconds without an answer after which it is asked whether the worker is still there
RESTART = 30.0  # seconds that a cluster without workers has to start one; then the fit ends with an error
LONG = 2000  # commands from which on the log is shortened to what is still needed
ATTEMPTS = 3  # to make a shard again


class Lost(Exception):
    """The worker of a shard is gone."""


class NoWorkers(RuntimeError):
    """There is nobody who could do the work: nothing is tried again."""


class Actors:
    """Transport of commands to actors; see `arrays.Transport`.

    Parameters
    ----------
    client : distributed.Client
    chunks : list of dask.delayed.Delayed
        For each chunk of rows the tuple that a `Block` holds of it. A chunk is a group of blocks (see `Shard`).
    rows_at_once : int, optional
        Keep the rows in files, and so many of them in memory at a time. None keeps all of them in memory.

    Attributes
    ----------
    members : list of range
        Chunks of each shard.
    nodes : list of tuple of int
        See `arrays.Transport`.
    bytes_sent, bytes_received : int
        Over all shards.
    """

    def __init__(self, client: Any, chunks: Sequence[Any], rows_at_once: int | None = None):
        self._client, self._chunks = client, list(chunks)
        self._rows_at_once = rows_at_once
        self._scratch = None if rows_at_once is None else f"kernelpursuit-{uuid.uuid4().hex}"
        workers, count = sorted(self._some_workers()), len(self._chunks)
        self.members = shares(0, count, min(len(workers), count))
        self._nodes = [nodes_within(0, count, share.start, share.stop) for share in self.members]
        self.nodes = [node for nodes in self._nodes for node in nodes]
        self._workers = workers[: len(self.members)]
        self._actors: list[Any] = []
        self._begin()
        self._log: list[Command] = []  # carried out by all shards
        self._live: set[int] = set()  # numbers of the values that they hold
        self._on_the_way: list[Command] = []
        self._batches: list[bytes] = []  # these commands as they are sent, with numbers from `_first` on
        self._first = 1
        self._long = LONG
        self._acknowledged = [0] * len(self.members)
        self.bytes_sent = self.bytes_received = 0

    def _begin(self) -> None:
        """Make all shards; once more where a worker was lost meanwhile."""
        for attempt in range(ATTEMPTS):
            try:
                futures = self._compute(list(range(len(self.members))))
                self._actors = [self._start(some, place) for place, some in enumerate(futures)]
                return
            except Lost:
                if attempt == ATTEMPTS - 1:
                    raise
                here = self._some_workers()
                self._workers = [one if one in here else self._free_worker() for one in self._workers]

    def _compute(self, places: list[int]) -> list[list[Any]]:
        """Futures of the chunks of some shards; where they go to files, one at a time for each worker.

        No worker is named, not even as a wish: with all workers gone Dask would take a wish for one of them for a must,
        and wait for ever. To write a chunk to files is a task with a name of its own, at the worker that is to have it.
        """
        if self._scratch is None:
            futures = [self._client.compute([self._chunks[i] for i in self.members[place]]) for place in places]
            for some in futures:
                self._wait_for(some)
            return futures
        written: list[list[Any]] = [[] for _ in places]
        for step in range(max(len(self.members[place]) for place in places)):
            now = [
                (some, place) for some, place in zip(written, places, strict=True) if step < len(self.members[place])
            ]
            chunks = self._client.compute([self._chunks[self.members[place][step]] for _, place in now])
            self._wait_for(chunks)
            for (some, place), chunk in zip(now, chunks, strict=True):
                some.append(self._at(place, chunk_in_files, chunk, self._rows_at_once, self._scratch))
            for some, place in now:
                self._wait_for(some[-1:], self._workers[place])
            for chunk in chunks:  # before the next is asked for
                chunk.release()
        return written

    def _at(self, place: int, function: Any, *args: Any, **options: Any) -> Any:
        """Future of a call at the worker of a shard, and nowhere else."""
        where = {"workers": [self._workers[place]], "allow_other_workers": False, "pure": False}
        return self._client.submit(function, *args, **where, **options)

    def _wait_for(self, futures: list[Any], only: str | None = None) -> None:
        """Wait for what workers make, `only` one of them if so wanted; nobody waits for a worker that is gone."""
        from distributed import wait

        while unfinished := [future for future in futures if future.status in ("pending", "lost")]:
            if only not in {None, *self._some_workers()}:
                raise Lost(only)
            with suppress(TimeoutError):
                wait(unfinished, timeout=PATIENCE)
        check_finished(futures)

    def _start(self, futures: list[Any], place: int) -> Any:
        rows = HeldRows if self._scratch is None else StoredRows
        made = self._at(place, rows, self._nodes[place], *futures, actor=True)
        while True:
            self._wait_for([made], self._workers[place])
            with suppress(TimeoutError):  # the worker may be gone just now
                return made.result(timeout=PATIENCE)

    def execute(self, commands: list[Command], reads: list[Read]) -> list[list[Any]]:
        """Send to all shards at once; those that were lost are made again and asked again."""
        check_client(self._client)
        self._batches.append(pickled(commands))
        self._on_the_way += commands
        answers: list[Any] = [None] * len(self.members)
        missing = list(range(len(self.members)))
        while missing:
            calls = [(place, self._call(place, reads)) for place in missing]
            missing = []
            for place, call in calls:
                try:
                    answers[place] = self._result(place, call)
                except Lost:
                    missing.append(place)
            for place in missing:
                self._revive(place)
        self._done({number for number, _ in reads})
        for well, values in answers:
            if not well:
                raise values
        self.bytes_received += sum(size_of(value) for _, values in answers for value in values)
        return [values for _, values in answers]

    def _call(self, place: int, reads: list[Read]) -> Any:
        """What a shard has not heard of, and what is to be read: an answer to wait for, None if nobody is there."""
        news = list(enumerate(self._batches, start=self._first))[self._acknowledged[place] + 1 - self._first :]
        self.bytes_sent += sum(len(batch) for _, batch in news)
        try:
            return self._actors[place].answer(news, reads)
        except RuntimeError:  # "Worker holding Actor was lost"
            return None

    def _result(self, place: int, call: Any) -> Any:
        """The answer; nothing is waited for that cannot come."""
        while call is not None:
            try:
                answer = call.result(timeout=PATIENCE)
            except TimeoutError:
                if self._workers[place] not in workers_of(self._client):
                    break
                continue
            except (OSError, RuntimeError):  # of the way there: what the shard itself says comes as an answer
                break
            self._acknowledged[place] = self._first + len(self._batches) - 1
            return answer
        raise Lost(self._workers[place])

    def _done(self, given: set[int]) -> None:
        """All shards have carried out all commands, and have given some values away."""
        for command in self._on_the_way:
            if command.function is None:
                self._live.discard(command.out)
            elif not command.writes:
                self._live.add(command.out)
        self._live -= given
        self._log += needed(self._on_the_way, self._live)  # what was only read need not be made again
        self._first += len(self._batches)
        self._on_the_way, self._batches = [], []
        if len(self._log) > self._long:
            self._log = needed(self._log, self._live)
            self._long = max(LONG, 2 * len(self._log))

    def _revive(self, place: int) -> None:
        """Make a shard again, on another worker, in the state of the others before what is on the way."""
        for attempt in range(ATTEMPTS):
            try:
                self._make_again(place)
                return
            except NoWorkers:
                raise
            except (Lost, OSError, RuntimeError, CancelledError):  # that worker is gone as well
                if attempt == ATTEMPTS - 1:
                    raise

    def _make_again(self, place: int) -> None:
        self._workers[place] = self._free_worker()
        (futures,) = self._compute([place])
        self._actors[place] = self._start(futures, place)
        self._acknowledged[place] = self._first - 1
        if self._log:
            state = pickled(needed(self._log, self._live))
            well, error = self._result(place, self._actors[place].answer([(self._first - 1, state)], []))
            self._acknowledged[place] = self._first - 1
            if not well:
                raise error

    def _some_workers(self) -> dict[str, int]:
        """The workers that are there; a cluster without any is given time to start one."""
        begun = time.monotonic()
        while not (workers := workers_of(self._client)):
            if time.monotonic() - begun > RESTART:
                raise NoWorkers(f"the cluster has no workers, and none was started within {RESTART:g} s")
            time.sleep(0.1)
        return workers

    def _free_worker(self) -> str:
        """The worker with the fewest shards."""
        return min(self._some_workers(), key=lambda one: (sum(one == home for home in self._workers), one))

    def close(self) -> None:
        """Let the workers drop their rows."""
        self._actors = []
        if self._scratch is not None and self._client.status == "running":
            self._client.run(clear_scratch, self._scratch, on_error="ignore")


class StoredRows(Shard):
    """A shard whose rows are in files, in blocks of which one at a time is in memory; made by `chunk_in_files`."""

    def __init__(self, nodes: list[tuple[int, int]], *parts: tuple[str, list[tuple]]):
        groups = ([StoredBlock(block, directory) for block in blocks] for directory, blocks in parts)
        super().__init__(*groups, nodes=nodes)


def shares(first: int, stop: int, workers: int) -> list[range]:
    """Neighbouring chunks for each worker, about as many; for 2, 4, 8, ... workers they are nodes of the tree of sums.

    Examples
    --------
    >>> shares(0, 10, 4)
    [range(0, 3), range(3, 5), range(5, 8), range(8, 10)]
    """
    if workers == 1:
        return [range(first, stop)]
    left = (workers + 1) // 2
    middle = first - (first - stop) * left // workers if workers % 2 else (first + stop + 1) // 2
    return shares(first, middle, left) + shares(middle, stop, workers - left)


def chunk_in_files(arrays: tuple, rows: int, name: str) -> tuple[str, list[tuple]]:
    """A chunk in files of the worker that this runs on: their directory, and the blocks of the chunk."""
    from distributed import get_worker

    directory = os.path.join(get_worker().local_directory, name)
    return directory, in_files(arrays, rows, directory)


def clear_scratch(name: str, dask_worker: Any) -> None:
    """Delete the files of a fit, at a worker."""
    shutil.rmtree(os.path.join(dask_worker.local_directory, name), ignore_errors=True)


def workers_of(client: Any) -> dict[str, int]:
    """Addresses of the workers that the scheduler knows now, and their threads.

    `Client.scheduler_info` would do, but another thread of the client may have emptied what it returns.
    """
    check_client(client)
    try:
        return client.nthreads()
    except OSError as error:
        raise NoWorkers(f"the scheduler of the cluster does not answer: {error}") from error


def check_client(client: Any) -> None:
    """Raise an error where a client is closed: what it was asked would never be answered."""
    if client.status != "running":
        raise NoWorkers(f"the client has lost its cluster: its status is {client.status!r}, not 'running'")


def check_package(client: Any) -> None:
    """Raise an error where workers, or the scheduler, do not have this package in the version of this process.

    Called before anything of the package is sent: a worker that cannot read a message ends without a word.
    """

    def version(name: str) -> str | None:  # of no module, so that it is sent by value
        from importlib import metadata, util

        if util.find_spec(name) is None:
            return None
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:  # a folder on the path
            return ""

    ours = version(PACKAGE)
    found = client.run(version, PACKAGE, on_error="ignore")
    with suppress(ValueError):  # a scheduler that runs nothing for others
        found["the scheduler"] = client.run_on_scheduler(version, PACKAGE)
    absent = sorted(where for where, theirs in found.items() if theirs is None)
    if absent:
        raise RuntimeError(
            f"{PACKAGE} cannot be imported at {', '.join(absent)}: install it there, in the version of here"
        )
    others = sorted(f"{theirs} at {where}" for where, theirs in found.items() if ours and theirs and theirs != ours)
    if others:
        raise RuntimeError(f"{PACKAGE} is {ours} here and {', '.join(others)}: install the same version everywhere")


def limits_of_memory(client: Any) -> list[int]:
    """Bytes that workers may still take, of those that were told a limit."""
    for _ in range(ATTEMPTS):  # see `workers_of`
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if workers:
            break
    limited = [worker for worker in workers if worker.get("memory_limit")]
    return [worker["memory_limit"] - worker["metrics"].get("memory", 0) for worker in limited]


def size_of(value: Any) -> int:
    """Bytes of what came from a shard."""
    if isinstance(value, list | tuple):
        return sum(map(size_of, value))
    return getattr(value, "nbytes", 8)


def pickled(commands: list[Command]) -> bytes:
    """Commands for another process; functions of the user's by value."""
    from distributed.protocol.pickle import dumps

    return dumps(commands)


def check_finished(futures: list[Any]) -> None:
    """Raise an error that says what is wrong with chunks that could not be made."""
    for future in futures:
        if future.status != "finished":
            error = (
                future.exception() if future.status == "error" else RuntimeError(f"a chunk of rows is {future.status}")
            )
            if isinstance(error, ImportError):
                raise RuntimeError(
                    f"a worker lacks a module that is installed here: install it there ({error})"
                ) from error
            raise error
