"""Refined pursuit of rows on shards: some of them, here, are where it starts and what judges it; all of them move it.

A step of a descent is a sum of gradients over the rows of a batch, so it is one message: parameters go to the shards,
and each sends the sum over its share of the batch. More rows make larger batches, not more messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import to_host
from kernelpursuit.atoms.tiles import spans
from kernelpursuit.dask.arrays import Handle, Program, Sharded
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.refined.by_descent import (
    Descents,
    Way,
    best_descent,
    outcome_of_descent,
    steps_of_epochs,
)
from kernelpursuit.refined.descent import Batch, best_slope, flat_gradient
from kernelpursuit.refined.refining import Frame, Outcome, Say, Task
from kernelpursuit.refined.stages import Stages

SAMPLE = 20_000  # rows that come here: that many are enough to choose atoms, widths and first coefficients
HELD_OUT = 8  # one of them in so many is held out
MOST_STEPS = 24_000  # of a descent
UNHELD_SLOPE = 2.0  # log odds for a value of a regression on ±1, near 0: f = 2p - 1
AT_ONCE = 1024  # rows whose kernel values are in memory at a time, at a shard


class Standard(NamedTuple):
    """The rows of a block that a descent is made on: standardised, in single precision."""

    rows: Batch
    number: int  # of the first row, by which the block is known


class RowsElsewhere:
    """Rows on shards as `refinement.descent.descend` takes them.

    Parameters
    ----------
    program : Program
    rows : Handle
        `Standard` of each block.
    shape : tuple of int
        Number of rows and of inputs.
    batch : int
        Rows of a step.
    """

    like = np.empty((0, 0), dtype=np.float32)  # where the parameters are, and their precision

    def __init__(self, program: Program, rows: Handle, shape: tuple[int, int], batch: int):
        self._program, self._rows, self.shape, self.batch = program, rows, shape, batch

    def shuffled(self, rng: np.random.Generator) -> Sharded:
        """The order of the rows of each block in the next epoch."""
        number = self._program.add(shuffled, self._rows, int(rng.integers(2**62)))
        return Sharded(self._program, number, np.empty(0, dtype=np.intp), 0)

    def mean_gradient(self, flat: Any, theta: np.ndarray, order: Sharded, how: tuple[str, float], rows: slice) -> Any:
        """Mean over a batch: of each block the same share of its rows. It is read in one message."""
        share = rows.start / self.shape[0], rows.stop / self.shape[0]
        total = np.asarray(self._program.reduce(sum_of_gradients, self._rows, order, flat, theta, how, share))
        return (total[:-1] / max(1.0, total[-1])).astype(theta.dtype)


def standardised(
    X: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None,
    numbers: np.ndarray,
    frame: Frame,
    aside: np.ndarray,
    unit: float,
    classes: bool,
) -> Standard:
    """The rows of a block that are not held out; `numbers` are theirs, `aside` those of the rows held out.

    Weights are divided by `unit`. Targets of several `classes` become indicators.
    """
    kept = ~np.isin(numbers, aside)
    targets = (Y[kept] + 1) / 2 if classes else Y[kept]
    single = [
        None if part is None else part.astype(np.float32) for part in (frame(X[kept].astype(np.float64)), targets)
    ]
    of_rows = None if weights is None else (weights[kept] / unit).astype(np.float32)
    return Standard(Batch(single[0], single[1], of_rows), int(numbers[0]) if len(numbers) else -1)


def shuffled(standard: Standard, seed: int) -> np.ndarray:
    """An order of the rows of a block."""
    return np.random.default_rng([seed, standard.number + 1]).permutation(len(standard.rows.X))


def sum_of_gradients(
    standard: Standard, order: np.ndarray, flat: Any, theta: np.ndarray, how: tuple[str, float], share: tuple
) -> np.ndarray:
    """Gradient summed over a share of the rows of a block, in the order of the epoch, and how many they are.

    `how` has the loss and the penalty of `refinement.descent.gradient`.
    """
    first, stop = (round(len(order) * edge) for edge in share)
    total = np.zeros(len(theta) + 1)
    for part in spans(first, stop, AT_ONCE):
        total[:-1] += flat_gradient(flat, theta, standard.rows.gather(order[part]), *how, slice(None))
    total[-1] = stop - first
    return total


class DescentsOnShards(Descents):
    """The same with starts by the rows here, and descents on those of the shards."""

    def __init__(self, rows: RowsElsewhere, *given: Any):
        super().__init__(*given)
        self._rows, self._jitter, self._n, self._teaches = rows, 0.0, rows.shape[0], False

    def _descent(self, way: Way) -> tuple[Task, int]:
        return way.task._replace(X=self._rows), self._rows.batch


def few(data: TrainingData) -> TrainingData | None:
    """All rows, here, where they are no more than come here anyway; else None."""
    X: Any = data.X
    if X.shape[0] > SAMPLE:
        return None
    everything = np.arange(int(X.shape[0]))
    rows, numbers = X.rows_at(everything)
    y, weights = (None if one is None else X.rows_at(everything, one)[0] for one in (data.y, data.weights))
    return TrainingData(rows, y, weights, numbers, data.n_rows)


def descent_on_shards(
    task: Task,
    wanted: int | None,
    loss: str,
    epochs: Any,
    frame: Frame,
    rng: np.random.Generator,
    say: Say,
    stages: Stages,
) -> Outcome:
    """Refine by descents on all rows of shards; the rows that came here choose the start, and those held out the end.

    X, targets and weights of `task` are on shards, as they come.
    """
    X: Any = task.X
    Y: Any = task.Y
    weights: Any = task.weights
    n, d = int(X.shape[0]), int(X.shape[1])
    epochs, batch = steps_of_epochs(n, epochs)
    batch = max(batch, -(-n * epochs // MOST_STEPS))
    positions = np.sort(rng.choice(n, size=SAMPLE, replace=False))
    rows, numbers = X.rows_at(positions)
    of_rows = None if weights is None else X.rows_at(positions, weights)[0]
    here = task._replace(X=frame(rows.astype(np.float64)), Y=X.rows_at(positions, Y)[0], weights=of_rows)
    aside = np.arange(SAMPLE) % HELD_OUT == 0
    unit = 1.0 if weights is None else float(weights.surface.sum(weights)) / n
    how = (frame, numbers[aside], unit, loss == "softmax")
    standard = X.program.add(standardised, X, Y, weights, X.numbered.rows, *how)
    elsewhere = RowsElsewhere(X.program, Handle(X.program, standard), (n - int(np.sum(aside)), d), batch)
    parts = [here.subset(np.flatnonzero(J)) for J in (~aside, aside)]
    say(f"{n:,} rows on shards: {len(parts[0].Y):,} here to start from, {len(parts[1].Y):,} held out, {batch:,} a step")
    descents = DescentsOnShards(elsewhere, *parts, loss, rng, say, stages)
    found, way = best_descent(descents, wanted, n, len(parts[0].Y), epochs, say)
    return outcome_of_descent(found, way, positions[aside], parts[1])


def host(weights: Any) -> Any:
    """Weights in double precision; those on shards have it."""
    return weights if weights is None or isinstance(weights, Sharded) else to_host(weights)


def mean_of_rows(values: Any, weights: Any) -> np.ndarray:
    """Weighted mean of each column, wherever the rows are."""
    if not isinstance(values, Sharded):
        return np.average(values, axis=0, weights=weights)
    weights = values.surface.ones_like(values[:, 0]) if weights is None else weights
    return to_host(weights @ values) / to_host(values.surface.sum(weights))


def fitted_slope(outcome: Outcome, X: Any, Y: Any, weights: Any, loss: str) -> float:
    """Factor of the values that makes probabilities fit rows held out best."""
    if outcome.held_out is None:
        return UNHELD_SLOPE
    rows, values = outcome.held_out

    def held_out(one: Any) -> np.ndarray:
        return X.rows_at(rows, one)[0] if isinstance(one, Sharded) else one[rows]

    targets, of_rows = held_out(Y), None if weights is None else held_out(weights)
    return best_slope(loss, (targets + 1) / 2 if loss == "softmax" else targets, values, of_rows)[0]
