"""Kernel matching pursuit beside its peers on several splits of a table: error, number of terms and time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes

from kernelpursuit.cli.contenders import contenders, make_split, measure_contender
from kernelpursuit.cli.fitting import duration_in_words, summary_of_table
from kernelpursuit.cli.progress import Say, show_progress
from kernelpursuit.cli.reporting import ModelSummary, conclusion, footnote, table_heading, table_row
from kernelpursuit.cli.scores import are_unequal
from kernelpursuit.cli.tables import Table, Task, read_table
from kernelpursuit.cli.training import draw_rows


def run_comparison(
    path: str | None,
    *,
    target: str | None = None,
    task: Task | None = None,
    drop: Sequence[str] = (),
    seed: int = 0,
    max_rows: int = 3000,
    repeats: int = 3,
    as_json: bool = False,
    say: Say = print,
) -> None:
    """Run the comparison and say what came out.

    Parameters
    ----------
    path : str or None
        A CSV or Parquet file; None: two data sets that come with scikit-learn.
    target, task, drop
        See `kernelpursuit.cli.tables.read_table`.
    seed : int
        Of the splits, and of all else that is random.
    max_rows : int
        Use at most so many rows, drawn at random.
    repeats : int
        Number of splits.
    as_json : bool
        Say nothing but one JSON object.
    say : callable
        Takes a line, as soon as it is known.
    """
    tables = shipped_tables() if path is None else [read_table(path, target, task, drop)]
    found, unequal = [], False
    for table in tables:
        table, drawn = draw_rows(table, max_rows, seed)
        notes = [*summary_of_table(table), *drawn]
        aloud: Say = (lambda _: None) if as_json else say
        for line in notes:
            aloud(line)
        rows = len(table.y)
        splits = f"{repeats} random splits" if repeats > 1 else "One random split"
        aloud(f"{splits}, 70 % to train; this takes {duration_in_words(expected_comparison_seconds(rows, repeats))}.")
        records = compare_table(table, seed, repeats, aloud)
        unequal |= has_unequal_classes(table)
        words = conclusion(records, table.task, has_unequal_classes(table))
        for line in words:
            aloud(line)
        aloud("")
        found.append(as_dict(table, records, repeats, notes, words))
    if as_json:
        say(json.dumps(found[0] if path is not None else found, indent=1))
    else:
        say(footnote(unequal))


def shipped_tables() -> list[Table]:
    """A regression and a classification that come with scikit-learn."""
    diabetes, cancer = load_diabetes(as_frame=True), load_breast_cancer(as_frame=True)
    labels = np.array(["malignant", "benign"])[cancer.target]

    def table(name: str, frame: Any, y: NDArray[Any], target: str, task: Task) -> Table:
        return Table(name, frame, y, target, task, {str(column): "number" for column in frame.columns})

    return [
        table("diabetes", diabetes.data, diabetes.target.to_numpy(), "progression", "regression"),
        table("breast_cancer", cancer.data, labels, "diagnosis", "classification"),
    ]


def has_unequal_classes(table: Table) -> bool:
    """Whether a table has classes of which some are much rarer than others."""
    return table.task == "classification" and are_unequal(table.y)


def expected_comparison_seconds(rows: int, repeats: int) -> float:
    """About what the comparison takes."""
    return repeats * (10 + 0.012 * rows)


def compare_table(table: Table, seed: int, repeats: int, say: Say) -> list[ModelSummary]:
    """Measure all models on all splits; each line is said when it is known."""
    unequal = has_unequal_classes(table)
    listed = list(contenders(table.task))
    records = []
    say(table_heading(table.task, unequal))
    with show_progress(say, total=repeats * (1 + len(listed))) as (step, aside):
        splits = []
        for number in range(repeats):
            step(f"split {number + 1}")
            splits.append(make_split(table, seed + number))
        for contender in listed:
            outcomes = []
            for number, split in enumerate(splits):
                step(f"{contender.name}, split {number + 1}")
                outcomes.append(measure_contender(contender, split))
            records.append(ModelSummary.of(contender, outcomes))
            aside(table_row(records[-1], table.task, unequal))
    return records


def as_dict(
    table: Table, records: Sequence[ModelSummary], repeats: int, notes: list[str], words: list[str]
) -> dict[str, Any]:
    """The results as plain values."""
    models = [record.as_dict() for record in records]
    return {
        "table": table.name,
        "target": table.target,
        "task": table.task,
        "rows": len(table.y),
        "columns": len(table.kinds),
        "repeats": repeats,
        "notes": notes,
        "models": models,
        "conclusion": " ".join(words),
    }
