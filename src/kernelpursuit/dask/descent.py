"""Refined models of remote rows: some of the rows, here, start a descent and judge it; all of them move it.

A step of a descent is a sum of gradients over the rows of a batch, so it is one message: parameters go to the shards,
and each sends the sum over its share of the batch. More rows make larger batches, not more messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import namespace, to_host
from kernelpursuit.atoms.threads import spans
from kernelpursuit.dask.arrays import Handle, Program, RemoteArray
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.refined.by_descent import Descents, Way, best_descent, outcome_of_descent, steps_of_epochs
from kernelpursuit.refined.descent import Batch, flat_gradient
from kernelpursuit.refined.refining import Frame, Outcome, Say, Task
from kernelpursuit.refined.stages import Stages

ROWS_HERE = 20_000  # rows that come here: enough to choose atoms, widths and first coefficients
HELD_OUT = 8  # one in eight of the rows that come here is held out
MOST_STEPS = 24_000  # of a descent
ROWS_AT_ONCE = 1024  # rows whose kernel values are in memory at a time, at a shard


class Standard(NamedTuple):
    """The rows of a block that a descent is made on: standardised, in single precision."""

    rows: Batch
    number: int  # of the first row, which seeds the order of the rows


class RemoteBatch:
    """Remote rows with the attributes and methods of a `Batch`.

    Parameters
    ----------
    program : Program
    rows : Handle
        `Standard` of each block.
    n_rows : int
    """

    like = np.empty((0, 0), dtype=np.float32)

    def __init__(self, program: Program, rows: Handle, n_rows: int):
        self._program, self._rows, self.n_rows = program, rows, n_rows

    def shuffled(self, rng: np.random.Generator, jitter: float) -> RemoteArray:
        """The order of the rows of each block in the next epoch. There is no noise, as there are many rows."""
        number = self._program.add(shuffled, self._rows, int(rng.integers(2**62)))
        return RemoteArray(self._program, number, np.empty(0, dtype=np.intp), 0)

    @contextmanager
    def mean_gradients(self) -> Iterator[Callable[..., np.ndarray]]:
        """See `Batch`."""
        yield self._mean_gradient

    def _mean_gradient(
        self, order: RemoteArray, flat: Any, theta: np.ndarray, how: tuple[str, float], part: slice
    ) -> np.ndarray:
        """Mean over a part of all rows, which is the same share of each block: one message."""
        share = part.start / self.n_rows, part.stop / self.n_rows
        total = np.asarray(self._program.reduce(sum_of_gradients, self._rows, order, flat, theta, how, share))
        return (total[:-1] / max(1.0, total[-1])).astype(theta.dtype)


def standardised(
    X: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None,
    numbers: np.ndarray,
    frame: Frame,
    held_out: np.ndarray,
    unit: float,
    classes: bool,
) -> Standard:
    """The rows of a block that are not held out, given their numbers and those of the rows held out.

    Weights are divided by `unit`. Targets of several `classes` become indicators.
    """
    kept = ~np.isin(numbers, held_out)
    targets = (Y[kept] + 1) / 2 if classes else Y[kept]
    inputs = frame(X[kept].astype(np.float64)).astype(np.float32)
    of_rows = None if weights is None else (weights[kept] / unit).astype(np.float32)
    return Standard(Batch(inputs, targets.astype(np.float32), of_rows), int(numbers[0]) if len(numbers) else -1)


def shuffled(standard: Standard, seed: int) -> np.ndarray:
    """An order of the rows of a block."""
    return np.random.default_rng([seed, standard.number + 1]).permutation(standard.rows.n_rows)


def sum_of_gradients(
    standard: Standard, order: np.ndarray, flat: Any, theta: np.ndarray, how: tuple[str, float], share: tuple
) -> np.ndarray:
    """Gradient summed over a share of the rows of a block, in the order of the epoch, and how many they are.

    `how` has the loss and the penalty of `refined.descent.gradient`.
    """
    first, stop = (round(len(order) * edge) for edge in share)
    total = np.zeros(len(theta) + 1)
    for part in spans(first, stop, ROWS_AT_ONCE):
        total[:-1] += flat_gradient(flat, theta, standard.rows.gather(order[part]), *how, slice(None))
    total[-1] = stop - first
    return total


class RemoteDescents(Descents):
    """Descents on remote rows, started by some of the rows, here, and judged by others."""

    def __init__(self, batch: RemoteBatch, size: int, *given: Any):
        super().__init__(*given)
        self._batch, self._size = batch, size
        self._jitter, self._n, self._teaches = 0.0, batch.n_rows, False

    def _rows(self, way: Way) -> tuple[RemoteBatch, int]:
        return self._batch, self._size


def bring_few(source: Any, data: TrainingData) -> TrainingData:
    """The data in this process, if they have no more rows than would come here anyway."""
    if len(data.rows) > ROWS_HERE:
        return data
    everything = np.arange(len(data.rows))
    X, numbers = source.take_numbered(data.X, everything)
    y, weights = (None if one is None else source.take(one, everything) for one in (data.y, data.weights))
    return TrainingData(X, y, weights, numbers, data.n_rows)


def refined_by_all(
    source: Any,
    task: Task,
    wanted: int | None,
    loss: str,
    epochs: Any,
    frame: Frame,
    rng: np.random.Generator,
    say: Say,
    stages: Stages,
) -> Outcome:
    """Refine by descents on all rows of a `source`; the rows that come here choose the start, and judge the end.

    X, targets and weights of `task` are remote, as they came.
    """
    X, Y, weights = task.X, task.Y, task.weights
    n = int(X.shape[0])
    epochs, size = steps_of_epochs(n, epochs)
    size = max(size, -(-n * epochs // MOST_STEPS))
    positions = np.sort(rng.choice(n, size=ROWS_HERE, replace=False))
    rows, numbers = source.take_numbered(X, positions)
    of_rows = None if weights is None else source.take(weights, positions)
    here = task._replace(X=frame(rows.astype(np.float64)), Y=source.take(Y, positions), weights=of_rows)
    held_out = np.arange(len(positions)) % HELD_OUT == 0
    unit = 1.0 if weights is None else float(to_host(namespace(weights).sum(weights))) / n
    how = (frame, numbers[held_out], unit, loss == "softmax")
    standard = source.program.add(standardised, X, Y, weights, source.numbers, *how)
    batch = RemoteBatch(source.program, Handle(source.program, standard), n - int(np.sum(held_out)))
    parts = [here.subset(np.flatnonzero(J)) for J in (~held_out, held_out)]
    say(
        f"{n:,} rows on the workers: {len(parts[0].Y):,} here to start from, {len(parts[1].Y):,} held out, "
        f"{size:,} a step"
    )
    descents = RemoteDescents(batch, size, *parts, loss, rng, say, stages)
    found, way = best_descent(descents, wanted, n, len(parts[0].Y), epochs, say)
    return outcome_of_descent(found, way, positions[held_out], parts[1])
