"""Refinement by mini-batches: where to descend from, which descent is kept, and the last one on all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import from_host
from kernelpursuit.refined.descending import Descended, descend_from, in_single, start_of, values_of
from kernelpursuit.refined.descent import Model, Rates, descend, on_cuda
from kernelpursuit.refined.evidence import settle
from kernelpursuit.refined.judging import fold_numbers
from kernelpursuit.refined.moving_atoms import Atoms
from kernelpursuit.refined.refining import (
    MOST_TERMS,
    ROWS_A_TERM,
    Outcome,
    RefinementSetting,
    Say,
    Start,
    Task,
    choose,
    is_affordable,
    raise_evidence,
    solve,
)
from kernelpursuit.refined.stages import Stages
from kernelpursuit.refined.teaching import JUDGED_ON, TAUGHT, best_ridge, in_common_units, lessons, teacher_of

SMALLER_PART, ENOUGH = 10, 2500  # one part in so many is held out, and no more than enough rows
LEAST_PENALTY, PENALTY, MOST_PENALTY = 0.0005, 0.005, 0.005  # of the coefficients, by the number of rows
MOVED_PENALTY = 0.02  # the same, after the evidence
WARM_UP = 40  # steps of the evidence before a descent
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 6000, 60, 300
ON_CUDA = 4  # times as many, where a step costs so little
BATCHES = ((20_000, 256), (200_000, 1024), (np.inf, 4096))  # up to so many rows, so many at a time
GAIN = 0.02  # by which twice the terms must lower the loss, for "auto" on many rows
SHORT = 6  # part of the epochs that a number of terms is tried for
SCREENED = 4  # part of the epochs after which only the best of several descents goes on
LAST = 0.3  # share of the epochs that are made on all rows at the end
SHAKEN = 20_000  # rows up to which their inputs are shaken, and those held out are learned from at the end
JITTER = ((100, 0.1), (np.inf, 0.3))  # up to so many inputs, how much
LESSON_JITTER = 0.3  # of the rows that a teacher is asked about
TEACHING_FROM = 50  # terms: fewer cannot follow a teacher


class Way(NamedTuple):
    """One descent: from where, on which rows, with which targets."""

    start: Model
    penalty: float
    task: Task  # targets as the loss wants them
    epochs: int
    jitter: float
    moved: bool = False  # whether the evidence took the start there
    taught: bool = False


def by_descent(
    task: Task,
    wanted: int | None,
    strata: np.ndarray,
    loss: str,
    epochs: Any,
    spread: np.ndarray,
    rng: np.random.Generator,
    say: Say,
    stages: Stages,
) -> Outcome:
    """Refine by mini-batches; rows held out decide whether the refined model is kept.

    `spread` is that of the inputs before they were standardised.
    """
    n = len(task.Y)
    if epochs == "auto" and on_cuda(task.X):
        epochs = ON_CUDA * steps_of_epochs(n, epochs)[0]
    epochs, _ = steps_of_epochs(n, epochs)
    units = None
    if task.classes and n <= SHAKEN:
        units = in_common_units(some(task, rng), spread)
        if units is not None:
            say("inputs keep the units that they share")
            task = task._replace(X=task.X * from_host(units, task.X))
    numbers = fold_numbers(strata, max(SMALLER_PART, n // ENOUGH), rng)
    held = np.flatnonzero(numbers == 0)
    parts = [task.subset(J) for J in (np.flatnonzero(numbers != 0), held)]
    descents = Descents(parts[0], parts[1], loss, rng, say, stages)
    found, way = best_descent(descents, wanted, n, len(parts[0].Y), epochs, say)
    outcome = outcome_of_descent(found, way, held, parts[1])
    if way is not None and found.epoch > 0 and not found.interrupted and n <= SHAKEN:
        found = descents.on_all(task, found, way)
        outcome = outcome._replace(model=found.model, interrupted=found.interrupted)
    return in_standard_units(outcome, units)


def steps_of_epochs(n: int, epochs: Any) -> tuple[int, int]:
    """Passes over the rows, of which "auto" is some number, and rows of a step."""
    if epochs == "auto":
        epochs = int(np.clip(STEPS * batch_of(n) // n, FEWEST_EPOCHS, MOST_EPOCHS))
    return epochs, batch_of(n)


def best_descent(
    descents: Descents, wanted: int | None, n: int, most: int, epochs: int, say: Say
) -> tuple[Descended, Way | None]:
    """The descent that ends lowest with so many terms, `most` at most, or with as many as `n` rows pay for."""
    if wanted is None:
        wanted, tried = most_useful(n, lambda k: descents.best(k, max(1, epochs // SHORT))[0], say)
        if tried.interrupted:
            return tried, None
    return descents.best(min(wanted, most), epochs)


def outcome_of_descent(found: Descended, way: Way | None, held: np.ndarray, aside: Task) -> Outcome:
    """The model of a descent, and what the rows `held` out, those of `aside`, say of it."""
    held_out = (held, values_of(found.model, aside.X))
    # the noise itself, as there is no other estimate
    inflation = np.average((aside.Y - held_out[1]) ** 2, axis=0, weights=aside.weights)
    moved = ("all", found.epoch) if found.epoch else ("nothing", 0)
    if way is not None and way.moved and found.epoch == 0:
        moved = ("all", WARM_UP)
    setting = RefinementSetting(len(found.model.coef), Start(0), False, *moved)
    return Outcome(found.model, None, setting, held_out, inflation, found.interrupted, found.start.atoms.centers)


def in_standard_units(outcome: Outcome, units: np.ndarray | None) -> Outcome:
    """Atoms of inputs that were multiplied by factors, as atoms of the standardised inputs."""
    if units is None:
        return outcome
    model = outcome.model
    atoms = Atoms(model.atoms.centers / units, model.atoms.log_widths, model.atoms.log_weights + np.log(units))
    start = None if outcome.start is None else outcome.start / units
    return outcome._replace(model=model._replace(atoms=atoms), start=start)


def batch_of(n: int) -> int:
    """Rows of a mini-batch."""
    return min(next(size for limit, size in BATCHES if n <= limit), max(1, n // 10))


def some(task: Task, rng: np.random.Generator) -> Task:
    """As many rows as a kernel regression is chosen on."""
    n = len(task.Y)
    return task if n <= JUDGED_ON else task.subset(np.sort(rng.permutation(n)[:JUDGED_ON]))


class Descents:
    """Descents on some rows, judged by others."""

    def __init__(self, task: Task, held: Task, loss: str, rng: np.random.Generator, say: Say, stages: Stages):
        self._task, self._loss, self._rng, self._say, self._stages = task, loss, rng, say, stages
        self._held, self._n = self._coded(held), len(task.Y)  # rows of a descent
        few = self._n <= SHAKEN
        self._jitter = next(size for limit, size in JITTER if task.X.shape[1] <= limit) if few and task.classes else 0.0
        self._ridge: Any = None
        self._teaches = task.classes and task.given is None and self._n <= TAUGHT

    def _coded(self, task: Task) -> Task:
        """Targets as the loss wants them."""
        return task._replace(Y=(task.Y + 1) / 2) if self._loss == "softmax" else task

    def best(self, terms: int, epochs: int) -> tuple[Descended, Way]:
        """Several descents are made for a part of the epochs, then the one that ended lowest as far as it goes."""
        found: list[tuple[Descended, Way]] = []
        try:
            ways = list(self._ways(terms, epochs))
            for way in ways if len(ways) > 1 else []:
                found.append((self._descend(way._replace(epochs=max(1, way.epochs // SCREENED))), way))
                if found[-1][0].interrupted:
                    raise KeyboardInterrupt
            lowest = min((one.loss for one, _ in found), default=0.0)
            # Of some that hardly differ the last, as few rows cannot tell them apart.
            way = [way for one, way in found if one.loss * (1 - GAIN) <= lowest][-1] if found else ways[0]
            found.append((self._descend(way), way))
        except KeyboardInterrupt:
            if not found:  # nothing but a choice has been made
                raise
            found[-1] = found[-1][0]._replace(interrupted=True), found[-1][1]
        best, way = min(found, key=lambda one: one[0].loss)
        return best._replace(interrupted=found[-1][0].interrupted), way

    def _rows(self, way: Way) -> tuple[Any, int]:
        """Rows that a descent is made on, and how many of them at a time."""
        return in_single(way.task), batch_of(self._n)

    def _descend(self, way: Way) -> Descended:
        rows, batch = self._rows(way)
        options: dict[str, Any] = {"batch": batch, "rates": Rates(), "rng": self._rng}
        return descend_from(
            way.start, rows, self._held, self._loss, epochs=way.epochs, penalty=way.penalty / self._n,
            jitter=way.jitter, taught=way.taught, say=self._say, stages=self._stages, **options,
        )  # fmt: skip

    def _ways(self, terms: int, epochs: int) -> Iterator[Way]:
        """From the chosen atoms; from where the evidence takes them; and, taught, from atoms of the teacher's width."""
        n, task = self._n, self._coded(self._task)
        penalties = (penalty_for(n, terms * (self._task.X.shape[1] + 2)), MOVED_PENALTY)
        starts = starts_of(self._task, terms, self._loss, self._rng, self._say)
        for start, penalty, moved in zip(starts, penalties, (False, True), strict=False):
            yield Way(start, penalty, task, epochs, self._jitter, moved)
        if self._teaches and terms >= TEACHING_FROM:
            self._ridge = best_ridge(some(self._task, self._rng)) if self._ridge is None else self._ridge
            rows = self._lessons(self._task)
            atoms = choose(self._task, terms, self._ridge.gamma * self._task.variance(), self._rng)
            fit = solve(settle(atoms, self._task.rows()), self._task)
            yield Way(Model(fit.coef, fit.intercept, atoms), 0.0, rows, self._shorter(epochs, rows), 0.0, taught=True)

    def _lessons(self, task: Task) -> Task:
        return lessons(task, teacher_of(task, self._ridge), LESSON_JITTER, self._rng)

    def _shorter(self, epochs: int, rows: Task) -> int:
        """Epochs of as many steps on more rows."""
        return max(1, epochs * len(self._task.Y) // len(rows.Y))

    def on_all(self, task: Task, found: Descended, way: Way) -> Descended:
        """The model that was best goes on, on all rows and at the low rates of the last epochs."""
        begun = way.epochs - max(1, int(LAST * found.epoch))
        self._say(f"on all rows, the last {way.epochs - begun} epochs again")
        rows = self._lessons(task) if way.taught else self._coded(task)
        loss = "squared_error" if way.taught else self._loss
        model, interrupted = descend(
            found.model, in_single(rows), loss=loss, epochs=way.epochs, batch=batch_of(len(task.Y)), rates=Rates(),
            penalty=way.penalty / len(task.Y), jitter=way.jitter, rng=self._rng, stages=self._stages, begun=begun,
        )  # fmt: skip
        return found._replace(interrupted=True) if interrupted else found._replace(model=model)


def penalty_for(rows: int, parameters: int) -> float:
    """The more parameters a row has, the more they are held back; where they have many rows, hardly."""
    return float(np.clip(PENALTY * (parameters / rows) ** 2, LEAST_PENALTY, MOST_PENALTY))


def starts_of(task: Task, terms: int, loss: str, rng: np.random.Generator, say: Say) -> Iterator[Model]:
    """Where to descend from: the chosen atoms, and, while that is cheap, those that the evidence of ±1 moved."""
    chosen = start_of(task, terms, rng, say)
    # A regression on ±1 comes to f = 2p - 1, of which twice is the log odds, near 0.
    slope = 1.0 if loss == "squared_error" else 2.0
    yield chosen._replace(coef=slope * chosen.coef, intercept=slope * chosen.intercept)
    if is_affordable(len(task.Y), terms):
        moved = raise_evidence(choose(task, terms, 1.0, rng), task, WARM_UP)
        if moved.interrupted:
            raise KeyboardInterrupt
        fit = solve(moved, task)
        yield Model(slope * fit.coef, slope * fit.intercept, moved.atoms)


def most_useful(n: int, run: Callable[[int], Any], say: Say) -> tuple[int, Any]:
    """Number of terms of which twice as many lower the loss of rows held out by little, and its short descent."""
    terms, found = 50, run(50)
    while 2 * terms <= min(n // ROWS_A_TERM, 4 * MOST_TERMS) and not found.interrupted:
        more = run(2 * terms)
        say(f"{terms} terms: loss of rows held out {found.loss:.4g}; {2 * terms}: {more.loss:.4g}")
        if more.interrupted:
            return terms, found._replace(interrupted=True)
        if more.loss > (1 - GAIN) * found.loss:
            break
        terms, found = 2 * terms, more
    return terms, found
