"""Shards as actors on the workers of a Dask cluster. Dask is imported here alone, and only when a collection has come.

An actor keeps its rows, and what was made of them, in the memory of one worker. The commands are logged here, so that
the shards of a worker that dies are made again elsewhere: their rows from the collection, all else from the log.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from kernelpursuit.sharded.shard import Command, Shard, needed

PATIENCE = 0.5  # seconds without an answer after which it is asked whether the worker is still there
RESTART = 30.0  # seconds that a cluster without workers has to start one
LONG = 2000  # commands from which on the log is shortened to what is still needed
ATTEMPTS = 3  # to make a shard again


class Lost(Exception):
    """The worker of a shard is gone."""


class Actors:
    """Transport of commands to actors; see `arrays.Transport`.

    Parameters
    ----------
    client : distributed.Client
    chunks : list of dask.delayed.Delayed
        For each chunk of rows the tuple that a `Shard` holds of it.

    Attributes
    ----------
    members : list of list of int
        Chunks of each shard.
    bytes_sent, bytes_received : int
        Over all shards.
    lost : int
        How many shards had to be made again.
    """

    def __init__(self, client: Any, chunks: Sequence[Any]):
        self._client, self._chunks = client, list(chunks)
        workers = sorted(client.scheduler_info()["workers"])
        if not workers:
            raise RuntimeError("the cluster of the current client has no workers")
        # Neighbours together, as many for each worker: the order of sums depends on the numbers of both alone.
        shares = np.array_split(np.arange(len(self._chunks)), min(len(workers), len(self._chunks)))
        self.members = [share.tolist() for share in shares]
        self._workers = workers[: len(shares)]
        futures = [self._compute(place, self._workers[place]) for place in range(len(shares))]
        for some in futures:
            wait_for(some)
        self._actors = [self._start(some, worker) for some, worker in zip(futures, self._workers, strict=True)]
        self._log: list[Command] = []  # carried out by all shards
        self._live: set[int] = set()  # numbers of the values that they hold
        self._on_the_way: list[Command] = []
        self._batches: list[bytes] = []  # the same as they are sent, with numbers from `_first` on
        self._first = 1
        self._long = LONG
        self._acknowledged = [0] * len(self.members)
        self.bytes_sent = self.bytes_received = self.lost = 0

    def _compute(self, place: int, worker: str) -> list[Any]:
        """Futures of the chunks of a shard, there if possible."""
        chunks = [self._chunks[i] for i in self.members[place]]
        return self._client.compute(chunks, workers=[worker], allow_other_workers=True)

    def _start(self, futures: list[Any], worker: str) -> Any:
        options = {"actor": True, "pure": False, "workers": [worker], "allow_other_workers": False}
        return self._client.submit(Shard, *futures, **options).result()

    def execute(self, commands: list[Command], reads: list[int]) -> list[list[Any]]:
        """Send to all shards at once; those that were lost are made again and asked again."""
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
        self._done()
        for well, values in answers:
            if not well:
                raise values
        self.bytes_received += sum(getattr(value, "nbytes", 8) for _, values in answers for value in values)
        return [values for _, values in answers]

    def _call(self, place: int, reads: list[int]) -> Any:
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
                if self._workers[place] not in self._client.scheduler_info()["workers"]:
                    break
                continue
            except (OSError, RuntimeError):  # of the way there: what the shard itself says comes as an answer
                break
            self._acknowledged[place] = self._first + len(self._batches) - 1
            return answer
        raise Lost(self._workers[place])

    def _done(self) -> None:
        """All shards have carried out all commands."""
        for command in self._on_the_way:
            if command.function is None:
                self._live.discard(command.out)
            elif not command.writes:
                self._live.add(command.out)
        self._log += self._on_the_way
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
            except (Lost, OSError, RuntimeError, CancelledError):  # that worker is gone as well
                if attempt == ATTEMPTS - 1:
                    raise

    def _make_again(self, place: int) -> None:
        self.lost += 1
        worker = self._free_worker()
        futures = self._compute(place, worker)
        wait_for(futures)
        self._actors[place], self._workers[place] = self._start(futures, worker), worker
        self._acknowledged[place] = self._first - 1
        if self._log:
            state = pickled(needed(self._log, self._live))
            well, error = self._result(place, self._actors[place].answer([(self._first - 1, state)], []))
            self._acknowledged[place] = self._first - 1
            if not well:
                raise error

    def _free_worker(self) -> str:
        """The worker with the fewest shards; a cluster without workers is given time to start one."""
        begun = time.monotonic()
        while not (workers := self._client.scheduler_info()["workers"]):
            if time.monotonic() - begun > RESTART:
                raise RuntimeError(f"no worker is left, and none was started within {RESTART:g} s")
            time.sleep(0.1)
        return min(workers, key=lambda one: (sum(one == home for home in self._workers), one))

    def close(self) -> None:
        """Let the workers drop their rows."""
        self._actors = []


def pickled(commands: list[Command]) -> bytes:
    """Commands for another process; functions of the user's by value."""
    from distributed.protocol.pickle import dumps

    return dumps(commands)


def wait_for(futures: list[Any]) -> None:
    """Wait for chunks; an error says what is wrong with them."""
    from distributed import wait

    wait(futures)
    for future in futures:
        if future.status != "finished":
            error = (
                future.exception() if future.status == "error" else RuntimeError(f"a chunk of rows is {future.status}")
            )
            if isinstance(error, ImportError):
                raise RuntimeError(f"the workers cannot import kernelpursuit: install it there ({error})") from error
            raise error
