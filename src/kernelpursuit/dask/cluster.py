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
from dataclasses import dataclass
from typing import Any

from kernelpursuit.dask.scratch import shard_in_files, store_chunk
from kernelpursuit.dask.shard import Command, Read, needed_commands, nodes_within, shard_in_memory

PACKAGE = "kernelpursuit"
PATIENCE = 0.5  # seconds without an answer after which the scheduler is asked whether the worker is still there
RESTART = 30.0  # seconds that a cluster without workers has to start one; then the fit ends with an error
ATTEMPTS = 3  # to make a shard


class WorkerLost(Exception):
    """The worker of a shard is gone."""


class NoWorkers(RuntimeError):
    """There is no worker that could do the work: nothing is tried again."""


@dataclass(eq=False)
class RemoteShard:
    """A shard, as this process knows it."""

    chunks: list[Any]
    nodes: list[tuple[int, int]]  # see `nodes_within`
    worker: str  # its address
    future: Any = None  # of the actor: the worker drops an actor whose future is dropped
    actor: Any = None


class Actors:
    """Carries commands to actors, and their answers back.

    Parameters
    ----------
    client : distributed.Client
    chunks : list of dask.delayed.Delayed
        For each chunk of rows the tuple that a `Block` holds of it. A chunk is a group of blocks (see `Shard`).
    rows_at_once : int, optional
        Keep the rows in files, this many of them in memory at a time. None keeps all of them in memory.

    Attributes
    ----------
    nodes : list of tuple of int
        Parts of the tree that the shards answer for, in the order of the rows: see `nodes_within`.
    """

    def __init__(self, client: Any, chunks: Sequence[Any], rows_at_once: int | None = None):
        self._client, self._rows_at_once = client, rows_at_once
        self._scratch = None if rows_at_once is None else f"kernelpursuit-{uuid.uuid4().hex}"
        workers, count = sorted(self._wait_for_workers()), len(chunks)
        self._shards = [
            RemoteShard(list(chunks[part.start : part.stop]), nodes_within(0, count, part.start, part.stop), worker)
            for part, worker in zip(shares(0, count, min(len(workers), count)), workers, strict=False)
        ]
        self.nodes = [node for shard in self._shards for node in shard.nodes]
        self._log: list[Command] = []  # carried out by all shards
        self._live: set[int] = set()  # numbers of the values that they hold
        self._make(self._shards)

    def execute(self, commands: list[Command], reads: list[Read]) -> list[list[Any]]:
        """Send commands to all shards. Returns what each reads, in the order of the rows: see `Shard.execute`.

        Shards whose worker is gone are made again and asked again.
        """
        check_client(self._client)
        message = pickled(commands)
        answers: dict[RemoteShard, Any] = {}
        while missing := [shard for shard in self._shards if shard not in answers]:
            calls = [(shard, self._call(shard, message, reads)) for shard in missing]
            for shard, call in calls:
                with suppress(WorkerLost):
                    answers[shard] = self._result(shard, call)
            for shard, _ in calls:
                if shard not in answers:
                    self._make([shard])
        self._note(commands, {number for number, _ in reads})
        for shard in self._shards:
            well, values = answers[shard]
            if not well:
                raise values
        return [answers[shard][1] for shard in self._shards]

    def _call(self, shard: RemoteShard, message: bytes, reads: list[Read]) -> Any:
        """Send commands to a shard; the answer to wait for, or None if its worker is gone."""
        try:
            return shard.actor.answer(message, reads)
        except RuntimeError:  # "Worker holding Actor was lost"
            return None

    def _result(self, shard: RemoteShard, call: Any) -> Any:
        """Wait for an answer, as long as there is a worker that could give it."""
        while call is not None:
            try:
                return call.result(timeout=PATIENCE)
            except TimeoutError:
                if shard.worker not in workers_of(self._client):
                    break
            except (OSError, RuntimeError):  # of the connection: errors of the shard itself come as an answer
                break
        raise WorkerLost(shard.worker)

    def _note(self, commands: list[Command], given: set[int]) -> None:
        """Log commands that all shards have carried out, after which they have given some values away."""
        for command in commands:
            if command.function is None:
                self._live.discard(command.out)
            elif not command.writes:
                self._live.add(command.out)
        self._live -= given
        self._log += needed_commands(commands, self._live)  # what was only read need not be made again

    def _make(self, shards: list[RemoteShard]) -> None:
        """Make shards, on other workers where theirs are gone, in the state that the log has."""
        for attempt in range(ATTEMPTS):
            workers = self._wait_for_workers()
            for shard in shards:
                if shard.worker not in workers:
                    homes = [other.worker for other in self._shards]
                    shard.worker = min(workers, key=lambda one: (homes.count(one), one))  # with the fewest shards
            try:
                for shard, futures in zip(shards, self._compute(shards), strict=True):
                    self._start(shard, futures)
                return
            except NoWorkers:
                raise
            except (WorkerLost, OSError, RuntimeError, CancelledError):  # one of these workers is gone as well
                if attempt == ATTEMPTS - 1:
                    raise

    def _compute(self, shards: list[RemoteShard]) -> list[list[Any]]:
        """Futures of the chunks of shards; those that go to files are made one at a time for each worker.

        No worker is named for a chunk, not even as a wish: with all workers gone Dask would take a wish for one of them
        for a must, and wait for ever. A chunk is written to files by a task of its own, at the worker of its shard.
        """
        if self._scratch is None:
            futures = [self._client.compute(shard.chunks) for shard in shards]
            for some in futures:
                self._wait_for(some)
            return futures
        written: list[list[Any]] = [[] for _ in shards]
        for step in range(max(len(shard.chunks) for shard in shards)):
            now = [(shard, some) for shard, some in zip(shards, written, strict=True) if step < len(shard.chunks)]
            chunks = self._client.compute([shard.chunks[step] for shard, _ in now])
            self._wait_for(chunks)
            for (shard, some), chunk in zip(now, chunks, strict=True):
                some.append(self._submit(shard, chunk_in_files, chunk, self._rows_at_once, self._scratch))
            for shard, some in now:
                self._wait_for(some[-1:], shard.worker)
            for chunk in chunks:  # before the next is asked for
                chunk.release()
        return written

    def _start(self, shard: RemoteShard, futures: list[Any]) -> None:
        """Make the actor of a shard, and let it carry out the log."""
        make = shard_in_memory if self._scratch is None else shard_in_files
        shard.future = self._submit(shard, make, shard.nodes, *futures, actor=True)
        shard.actor = None
        while shard.actor is None:
            self._wait_for([shard.future], shard.worker)
            with suppress(TimeoutError):  # the worker may be gone just now
                shard.actor = shard.future.result(timeout=PATIENCE)
        if self._log:
            state = pickled(needed_commands(self._log, self._live))
            well, error = self._result(shard, self._call(shard, state, []))
            if not well:
                raise error

    def _submit(self, shard: RemoteShard, function: Any, *args: Any, **options: Any) -> Any:
        """Future of a call at the worker of a shard, and nowhere else."""
        where = {"workers": [shard.worker], "allow_other_workers": False, "pure": False}
        return self._client.submit(function, *args, **where, **options)

    def _wait_for(self, futures: list[Any], only: str | None = None) -> None:
        """Wait for what workers make, as long as the `only` worker that can is there."""
        from distributed import wait

        while unfinished := [future for future in futures if future.status in ("pending", "lost")]:
            if only not in {None, *self._wait_for_workers()}:
                raise WorkerLost(only)
            with suppress(TimeoutError):
                wait(unfinished, timeout=PATIENCE)
        check_finished(futures)

    def _wait_for_workers(self) -> dict[str, int]:
        """The workers there are; a cluster without any is given time to start one."""
        begun = time.monotonic()
        while not (workers := workers_of(self._client)):
            if time.monotonic() - begun > RESTART:
                raise NoWorkers(f"the cluster has no workers, and none was started within {RESTART:g} s")
            time.sleep(0.1)
        return workers

    def close(self) -> None:
        """Let the workers drop their rows."""
        for shard in self._shards:
            shard.future = shard.actor = None
        if self._scratch is not None and self._client.status == "running":
            self._client.run(clear_scratch, self._scratch, on_error="ignore")


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
    return directory, store_chunk(arrays, rows, directory)


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
    """Raise an error where a client is closed: no answer would ever come."""
    if client.status != "running":
        raise NoWorkers(f"the client has lost its cluster: its status is {client.status!r}, not 'running'")


def check_package(client: Any) -> None:
    """Raise an error where workers, or the scheduler, do not have this package in the version of this process.

    Called before anything of the package is sent: a worker that cannot read a message ends without an error.
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
    """Bytes that workers may still take, of those that have a limit."""
    for _ in range(ATTEMPTS):  # see `workers_of`
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if workers:
            break
    limited = [worker for worker in workers if worker.get("memory_limit")]
    return [worker["memory_limit"] - worker["metrics"].get("memory", 0) for worker in limited]


def pickled(commands: list[Command]) -> bytes:
    """Commands for another process; functions of the user's by value."""
    from distributed.protocol.pickle import dumps

    return dumps(commands)


def check_finished(futures: list[Any]) -> None:
    """Raise the error of a chunk that could not be made."""
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
