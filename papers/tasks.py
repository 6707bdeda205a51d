"""Run the tasks of an experiment on all cores, keep what is finished, say how far it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

Task = dict[str, Any]  # what JSON can hold: it identifies the record
Record = dict[str, Any]  # the task, what was measured, and "seconds"
Measure = Callable[[Task, str | None], Record]


@dataclass(frozen=True)
class Settings:
    """How an experiment is run.

    Parameters
    ----------
    name : str
        Of the experiment.
    quick : bool, default=False
        The smallest setting, for tests; nothing can be concluded from it.
    data_dir : str, optional
        Where the data are, see `papers.datasets.load`.
    out : Path, default="docs/results"
        Folder of the records, the page and the picture.
    jobs : int, default=-1
        Tasks run at the same time; -1 is one for each core.
    """

    name: str
    quick: bool = False
    data_dir: str | None = None
    out: Path = Path("docs/results")
    jobs: int = -1

    def file(self, suffix: str) -> Path:
        """File of this run: quick runs have their own, so that they never replace a full one."""
        return self.out / f"{self.name}{'-quick' if self.quick else ''}{suffix}"


def measure_all(tasks: Iterable[Task], measure: Measure, settings: Settings) -> list[Record]:
    """Records of all tasks, in their order; those kept from an earlier run are not measured again.

    A task holds everything that its result depends on, the seed of the split and "quick" included, so that a changed
    setting is a new task. Each record is written when it is there: after an interruption the same command goes on.

    Parameters
    ----------
    tasks : iterable of dict
    measure : callable
        ``measure(task, data_dir) -> dict``: what was measured, of types that JSON knows. It runs in a worker
        process, with that process's share of the cores for its linear algebra.
    settings : Settings

    Returns
    -------
    list of dict
    """
    tasks = list(tasks)
    file = settings.file(".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    _repair(file)
    kept = read_records(file)
    missing = [task for task in tasks if _key(task) not in kept]
    progress = Progress(settings.name, len(tasks), len(tasks) - len(missing))
    run = Parallel(n_jobs=settings.jobs, return_as="generator_unordered")
    with file.open("a", encoding="utf-8") as out:
        for task, record in run(delayed(_timed)(measure, task, settings.data_dir) for task in missing):
            out.write(json.dumps({"task": task, "record": record}) + "\n")
            out.flush()
            kept[_key(task)] = record
            progress.finished(task)
    return [task | kept[_key(task)] for task in tasks]


def generator(task: Task, *names: str) -> np.random.Generator:
    """Random generator of those entries of a task, the same on all machines.

    Parameters
    ----------
    task : dict
    *names : str
        Entries that the random numbers depend on: text or whole numbers.
    """
    words = [task[name] for name in names]
    return np.random.default_rng([word if isinstance(word, int) else _number(word) for word in words])


class Progress:
    """A line on standard error: a bar where that is a terminal, else a line for each tenth of the tasks."""

    def __init__(self, name: str, total: int, before: int) -> None:
        self.name, self.total, self.before, self.done, self.start = name, total, before, before, perf_counter()
        self.bar = sys.stderr.isatty()
        if before:
            self._print(f"{name}: {before} of {total} tasks are finished from before")

    def finished(self, task: Task) -> None:
        """Count a task."""
        self.done += 1
        left = (perf_counter() - self.start) / (self.done - self.before) * (self.total - self.done)
        what = " ".join(str(value) for value in task.values() if not isinstance(value, bool | list | dict))
        text = f"{self.done}/{self.total}  {what}  {_duration(left)} left"
        if self.bar:
            full = 24 * self.done // self.total
            end = "\n" if self.done == self.total else ""
            sys.stderr.write(f"\r{self.name} [{'#' * full}{'.' * (24 - full)}] {text:<50.50}{end}")
            sys.stderr.flush()
        elif 10 * self.done // self.total > 10 * (self.done - 1) // self.total:
            self._print(f"{self.name}: {text}")

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _timed(measure: Measure, task: Task, data_dir: str | None) -> tuple[Task, Record]:
    start = perf_counter()
    record = measure(task, data_dir)
    return task, record | {"seconds": round(perf_counter() - start, 3)}


def read_records(file: Path) -> dict[str, Record]:
    """Records in a file, by task; lines that hold none are left out.

    Parameters
    ----------
    file : Path
        It may not be there yet.

    Returns
    -------
    dict
        From `_key` of the task to the record.
    """
    lines = file.read_bytes().splitlines() if file.exists() else []
    return dict(found for line in lines if (found := _parse(line)))


def _parse(line: bytes) -> tuple[str, Record] | None:
    """Key and record of a line; None for one that was cut off in writing, damaged, or never a record."""
    try:
        entry = json.loads(line.decode())
        task, record = dict(entry["task"]), dict(entry["record"])
        float(record["seconds"])
    except (ValueError, TypeError, KeyError):  # a byte that is no text and text that is no JSON are ValueErrors
        return None
    return _key(task), record


def _repair(file: Path) -> None:
    """Drop the lines that are no record, by a new file that replaces this one."""
    content = file.read_bytes() if file.exists() else b""
    lines = content.splitlines()
    whole = [line for line in lines if _parse(line)]
    if len(whole) < len(lines):
        print(f"{file}: {len(lines) - len(whole)} lines are no records and are dropped", file=sys.stderr, flush=True)
    mended = b"".join(line + b"\n" for line in whole)
    if mended != content:
        new = file.with_suffix(".new")
        new.write_bytes(mended)
        new.replace(file)


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _number(text: str) -> int:
    """A number for each name; those of an experiment differ in their first eight letters."""
    return int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "big")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
