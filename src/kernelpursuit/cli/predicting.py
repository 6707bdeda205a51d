"""The command `predict`: rows are read, predicted and written some thousand at a time."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelpursuit.cli.encoding import unseen_texts
from kernelpursuit.cli.fitting import load_model
from kernelpursuit.cli.model import TableModel
from kernelpursuit.cli.sources import Source, TableError, count_of, printable, quoted, stream_tables
from kernelpursuit.cli.tables import conform, reads
from kernelpursuit.saving.files import new_file

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how they begin


def predict_file(file: str, table: str, out: str | None, probabilities: bool, coverage: float | None) -> None:
    """Predict the rows of a table and write the predictions."""
    model = load_model(file)
    check_request(model, probabilities, coverage)
    rows, told = 0, set[str]()
    with open_writer(out) as write:
        for part in stream_tables(table):
            if part.columns.num_rows:
                write(predictions(model, part, probabilities, coverage, typed=is_parquet(out)))
                rows += part.columns.num_rows
                for line in remarks(model, part, told):
                    print(printable(line), file=sys.stderr)
        if not rows:
            raise TableError(f"{table}: no rows of data")
    if not is_parquet(out) and (text := first_formula([model.target, *class_names(model)])):
        remark = f"{quoted(text)} begins as a formula: have a spreadsheet read the predictions as text"
        print(printable(f"kernelpursuit: {remark}"), file=sys.stderr)


def class_names(model: TableModel) -> list[str]:
    """The classes as they are written; none of a regression."""
    return model.class_names.tolist() if model.task == "classification" else []


def first_formula(texts: list[str]) -> str | None:
    """The first text that a spreadsheet takes for a formula, and may run; None if there is none.

    Examples
    --------
    >>> first_formula(["good", "-3", "=1+1", "@x"])
    '=1+1'
    """
    return next((text for text in texts if text.startswith(FORMULAS) and not reads(float, text)), None)


def remarks(model: TableModel, part: Source, told: set[str]) -> Iterator[str]:
    """A line for each column that may be understood otherwise than meant; once for a column."""
    frame = conform(part, model.kinds)
    found = model.remarks(part, frame)
    for column, texts in unseen_texts(model.encoder, frame).items():
        more = f" and {count_of(len(texts) - 1, 'other')}" if len(texts) > 1 else ""
        found[column] = f"column {quoted(column)} has {quoted(texts[0])}{more}, which the training rows did not have"
    for column, remark in found.items():
        if column not in told:
            told.add(column)
            yield f"kernelpursuit: {remark}"


def check_request(model: TableModel, probabilities: bool, coverage: float | None) -> None:
    """Refuse what the model cannot give, before any row is read."""
    if probabilities and model.task != "classification":
        raise TableError(f"--probabilities are for classes, and this model is a regression of {model.target!r}")
    if coverage is None:
        return
    if model.task != "regression":
        raise TableError(f"--intervals are for a regression, and this model names classes of {model.target!r}")
    model.encoded_intervals(np.zeros((1, model.estimator.n_features_in_)), coverage, name="--intervals")


def predictions(
    model: TableModel, part: Source, probabilities: bool, coverage: float | None, typed: bool = True
) -> Any:
    """Predictions for a part of a table, as columns; classes as texts, or of the type of the target."""
    import pyarrow as pa

    X = model.encode(part)
    beside: dict[str, Any] = {}
    if probabilities:
        names = [f"P({name})" for name in model.class_names]
        beside = dict(zip(names, model.estimator.predict_proba(X).T, strict=True))
    if coverage is not None:
        beside = dict(zip(["lower", "upper"], model.encoded_intervals(X, coverage).T, strict=True))
    if model.target in beside:  # the name of the target, made longer, can be no other
        beside = {f"{model.target}_{name}": values for name, values in beside.items()}
    columns = {model.target: model.predict_encoded(X) if typed else model.estimator.predict(X)} | beside
    return pa.table({name: pa.array(np.ascontiguousarray(values)) for name, values in columns.items()})


def is_parquet(out: str | None) -> bool:
    """Whether a file to write is named as one of Parquet."""
    return out is not None and out.lower().endswith((".parquet", ".pq"))


@contextmanager
def open_writer(out: Any) -> Iterator[Callable[[Any], None]]:
    """A function that writes parts of a table, to a file that appears when all is written, or to standard output."""
    if out in (None, "-"):
        with csv_writer(sys.stdout.buffer) as write:
            yield write
        return
    make = parquet_writer if is_parquet(out) else csv_writer
    with new_file(out) as stream, make(stream) as write:
        yield write


@contextmanager
def csv_writer(stream: Any) -> Iterator[Callable[[Any], None]]:
    """Writes CSV, the names first; each part is sent at once."""
    from pyarrow import csv as arrow_csv

    begun = False

    def write(part: Any) -> None:
        nonlocal begun
        if not begun:  # pyarrow would put every name into quotes
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(part.column_names)
            stream.write(line.getvalue().encode())
        arrow_csv.write_csv(part, stream, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))
        stream.flush()
        begun = True

    yield write


@contextmanager
def parquet_writer(stream: Any) -> Iterator[Callable[[Any], None]]:
    """Writes Parquet."""
    from pyarrow import parquet

    opened: list[Any] = []

    def write(part: Any) -> None:
        if not opened:
            opened.append(parquet.ParquetWriter(stream, part.schema))
        opened[0].write_table(part)

    yield write
    for one in opened:
        one.close()
