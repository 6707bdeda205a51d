"""Refinement on many rows, or for losses other than the squared one: start, descent, and which of them is kept."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, from_host, namespace, to_host
from kernelpursuit.atoms.threads import in_threads, spans
from kernelpursuit.refined.descent import Batch, Model, Rates, best_slope, descend
from kernelpursuit.refined.evidence import settle
from kernelpursuit.refined.moving_atoms import atom_values
from kernelpursuit.refined.refining import Say, Task, choose, solve
from kernelpursuit.refined.stages import Stages

STARTS = (1.0, 4.0, 16.0)  # gamma times the number of inputs
TRIED = 100  # atoms that a width is judged by
NARROWER = 4.0  # than the best of these, and by the root of how many more atoms there are
SOLVED_ON = 10_000  # rows that the first coefficients come from
ROWS_AT_ONCE = 4096


class Descended(NamedTuple):
    """Result of a descent.

    Attributes
    ----------
    model : Model
        On the host.
    start_loss, loss : float
        Mean loss of the rows held out, before and after.
    epoch : int
        After which the model was lowest; 0 is the start.
    interrupted : bool
    start : Model
        Where it started from.
    """

    model: Model
    start_loss: float
    loss: float
    epoch: int
    interrupted: bool
    start: Model


def values_of(model: Model, X: Array) -> np.ndarray:
    """Values at standardised rows, (n, q), on the host, by blocks on all cores."""
    there = model.like(X)

    def part(block: slice) -> np.ndarray:
        phi, _ = atom_values(there.atoms, X[block, :])
        return to_host(phi @ there.coef + there.intercept)

    blocks = spans(0, X.shape[0], ROWS_AT_ONCE if isinstance(X, np.ndarray) else 16 * ROWS_AT_ONCE)
    parts = in_threads(part, blocks, isinstance(X, np.ndarray))
    return np.concatenate(parts) if parts else np.empty((0, len(to_host(model.intercept))))


def start_of(task: Task, k: int, rng: np.random.Generator, say: Say) -> Model:
    """Chosen atoms with the coefficients of a regression on them; of several widths the one that suits best."""
    n = len(task.Y)
    order = rng.permutation(n)
    part, held = task.subset(order[: n // 2][:SOLVED_ON]), task.subset(order[n // 2 :][:SOLVED_ON])
    tried = []
    for start in STARTS:
        fit = solve(settle(choose(part, min(k, TRIED), start, rng), part.rows()), part)
        tried.append((float(np.mean(task.error(held.Y, to_host(fit.values(held.X))))), start))
    error, start = min(tried)
    say(f"choice at gamma = {start:g} / d: error of rows held out {error:.4g} with {min(k, TRIED)} atoms")
    atoms = choose(task, k, NARROWER * start * max(1.0, k / TRIED) ** 0.5, rng)
    part = task if n <= SOLVED_ON else task.subset(np.sort(order[:SOLVED_ON]))
    fit = solve(settle(atoms, part.rows()), part)
    return Model(fit.coef, fit.intercept, atoms)


def descend_from(
    start: Model,
    rows: Batch,
    held: Task,
    loss: str,
    *,
    epochs: int,
    batch: int,
    rates: Rates,
    penalty: float,
    jitter: float,
    rng: np.random.Generator,
    say: Say,
    taught: bool = False,
    stages: Stages | None = None,
) -> Descended:
    """Descend on `rows`; the model that is best on the rows held out is kept, the start among them.

    The targets of both are those of the loss; `taught` says that those of `rows` are values, to be met by squared loss.
    """
    first_loss = held_out_loss(start, held, loss)
    best: list[Any] = [first_loss, start, 0]

    def report(epoch: int, model: Model) -> bool:
        if epoch % max(1, epochs // 10) == 0 or epoch == epochs:
            here = model.on_host()
            value = held_out_loss(here, held, loss)
            say(f"epoch {epoch} of {epochs}: loss of rows held out {value:.4g}, best {min(best[0], value):.4g}")
            if value < best[0]:
                best[:] = value, here, epoch
        return False

    options: dict[str, Any] = {"epochs": epochs, "batch": batch, "rates": rates, "penalty": penalty, "jitter": jitter}
    model, interrupted = descend(
        start, rows, loss="squared_error" if taught else loss, report=report, rng=rng, stages=stages, **options
    )
    if interrupted and (value := held_out_loss(model, held, loss)) < best[0]:
        best[:] = value, model, 1
    return Descended(best[1], first_loss, best[0], best[2], interrupted, start)


def in_single(task: Task) -> Batch:
    """Rows, targets and weights, of mean 1, in single precision."""
    xp = namespace(task.X)
    weights = None if task.weights is None else from_host(task.weights / np.mean(task.weights), task.X)
    single = [None if part is None else xp.astype(part, xp.float32) for part in (from_host(task.Y, task.X), weights)]
    return Batch(xp.astype(task.X, xp.float32), single[0], single[1])


def held_out_loss(model: Model, held: Task, loss: str) -> float:
    """Mean loss of rows held out, values scaled as they will be for probabilities; infinite if that is not finite.

    Unscaled, models would be thrown away for being too sure, which the scale mends.
    """
    values = values_of(model, held.X)
    if not np.all(np.isfinite(values)):
        return np.inf
    return best_slope(loss, held.Y, values, held.weights)[1]
