"""From an open table to what a model is fitted on: a data frame, a target and a task.

Columns are numbers, texts, dates or times. The kinds are inferred from the training table and kept with the model, so
that another table is read in the same way: a column of numbers stays one where some rows look like something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelpursuit.cli import cells
from kernelpursuit.cli.outlying_values import outlying_values
from kernelpursuit.cli.sources import Source, count_of, has_leading_zeros, open_table, printable, quoted
from kernelpursuit.cli.units import is_grouped, unit_note

Task = Literal["regression", "classification"]
Kind = Literal["number", "text", "date", "zoned date", "time"]  # times of day and durations, in seconds

FEW_VALUES = 20  # a whole-number target with more distinct values than this is taken for a quantity
ROWS_PER_VALUE = 20  # ... and so is one whose values are each seen in fewer rows than this, on average
MOST_CLASSES = 100
MIN_ROWS = 20
MIN_ROWS_PER_CLASS = 5  # a 70/30 split then leaves at least 3 for training (one per fold) and 1 for testing
GUESSED = "the task was guessed to be classification; "
AS_QUANTITY = "--task regression takes these numbers as a quantity"
LARGEST_NUMBER = 1e37  # skrub computes in single precision, where anything beyond 3e38 is infinite


@dataclass(frozen=True)
class Table:
    """A table turned into columns, and what was decided on the way."""

    name: str
    frame: Any  # pandas.DataFrame of float64, text and datetime columns, with gaps
    y: NDArray[Any]  # float64, or text for classes
    target: str
    task: Task
    kinds: dict[str, Kind]
    notes: list[str] = field(default_factory=list)
    labels: NDArray[Any] | None = None  # the classes as the column has them, in the order of their texts

    def rows(self, chosen: NDArray[np.intp]) -> Table:
        """The table of some of the rows."""
        return replace(self, frame=self.frame.iloc[chosen].reset_index(drop=True), y=self.y[chosen])


def read_table(path: str, target: str | None, task: Task | None = None, drop: Sequence[str] = ()) -> Table:
    """Read a CSV or Parquet file to learn from.

    Parameters
    ----------
    path : str
        A local file, or "-" for standard input. Read as Parquet when it starts like one, else as UTF-8 CSV with a
        header and the separator (comma, semicolon or tab) that gives the header the most columns; either may be
        compressed by gzip.
    target : str or None
        The column to predict. None raises, with the names to choose from.
    task : {"regression", "classification"}, optional
        Guessed from the target when not given: text, true/false and dictionary columns are classes, and so are whole
        numbers with two distinct values, or with at most 20 that each stand in 20 rows or more on average.
    drop : sequence of str
        Columns to leave out.

    Returns
    -------
    Table
        Rows without a target and columns with a single value are left out; a note says so.

    Raises
    ------
    TableError
        When the file cannot be read or its contents cannot be used. A place is given as the line of a CSV file on
        which the record starts, the header being on line 1, or as the row of a Parquet file, counted from 1.
    """
    source = open_table(path)
    names, notes = _feature_columns(source, target, drop)
    assert target is not None  # _feature_columns has refused it
    columns = {name: infer_kind(source, name) for name in names}  # what is wrong with a cell is told before all else
    y, decided, known = _read_target(source, target, task)
    if task is None:
        notes.append(f"Task guessed from {quoted(target)}: {decided} (--task says otherwise).")
        notes += filter(None, [unit_note(target, *infer_kind(source, target))])
    if not known.all():
        notes.append(f"Left out: {count_of(int((~known).sum()), 'row')} without a value of {quoted(target)}.")
    with_units = {name: note for name, (kind, column) in columns.items() if (note := unit_note(name, kind, column))}
    notes += [*with_units.values(), *_identifiers(source, columns, known=with_units)]
    inputs = {name: column.filter(known) for name, (_, column) in columns.items()}
    constant = {name: _precision_note(column) for name, column in inputs.items() if _is_constant(column)}
    for name, coarse in constant.items():
        notes.append(f"Left out: {quoted(name)}, which has one and the same value, or none, in all rows{coarse}.")
        del columns[name], inputs[name]
    if not columns:
        source.fail(f"every column but {quoted(target)} holds one and the same value{max(constant.values())}")
    frame = to_frame(inputs)
    kinds = {name: kind for name, (kind, _) in columns.items()}
    codes = [name for name, (kind, column) in columns.items() if kind == "text" and has_leading_zeros(column)]
    notes += [f"{quoted(name)}: digits, some with a zero in front, read as text." for name in codes]
    notes += [f"{quoted(name)}: {what}, read as UTC." for name, what in zone_notes(source, kinds).items()]
    notes += _far_values(source, frame, np.flatnonzero(known))
    labels = labels_of(source.columns.column(target), np.unique(y[known])) if decided == "classification" else None
    return Table(path, frame, y[known], target, decided, kinds, [printable(note) for note in notes], labels)


def to_frame(columns: Mapping[str, Any]) -> Any:
    """Columns of pyarrow as a pandas frame."""
    import pandas as pd  # type: ignore[import-untyped]

    return pd.DataFrame({name: column.to_pandas().to_numpy() for name, column in columns.items()})


def conform(source: Source, kinds: Mapping[str, Kind]) -> Any:
    """Columns of a table to predict from, as a pandas frame with the kinds that the model was fitted on."""
    for name in kinds:
        if name not in source.columns.column_names:
            source.no_such_column(name)
    source.refuse_repeated(kinds)
    return to_frame({name: _as_kind(source, name, kind) for name, kind in kinds.items()})


def _feature_columns(source: Source, target: str | None, drop: Sequence[str]) -> tuple[list[str], list[str]]:
    names = source.columns.column_names
    if target is None:
        source.fail(f"name the column to predict with --target; the columns are {source.column_list()}")
    for wanted in [target, *drop]:
        if wanted not in names:
            source.no_such_column(wanted)
    if target in drop:
        source.fail("the target cannot be dropped", target)
    index = [name for name in names if name.startswith("__index_level_") and name not in (target, *drop)]
    features = [name for name in names if name not in (target, *drop, *index)]
    if "" in features:
        source.fail(f"column {names.index('') + 1} has no name; give it one or leave it out with --drop ''")
    if not features:
        source.fail(f"there is no column to predict {quoted(target)} from")
    return features, [f"Left out: {quoted(name)}, the index of a pandas frame." for name in index]


def infer_kind(source: Source, name: str) -> tuple[Kind, Any]:
    """Kind of a column and its values, with gaps: float64, string or timestamp."""
    import pyarrow as pa
    import pyarrow.types as types

    column = cells.without_dictionary(source.columns.column(name))
    type_ = column.type
    if types.is_null(type_):
        return "number", column.cast(pa.float64())
    if types.is_time(type_) or types.is_duration(type_):
        return "time", cells.seconds(column)
    if types.is_temporal(type_):
        values = column.cast(pa.timestamp("us"), safe=False)
        return ("zoned date" if types.is_timestamp(type_) and type_.tz is not None else "date"), values
    if types.is_boolean(type_) or types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return "number", _numbers(source, name, column)
    if types.is_binary(type_):  # what pyarrow makes of text it cannot decode
        unread = [i for i, value in enumerate(column.to_pylist()) if value is not None and not _decodes(value)]
        return ("text", column.cast(pa.string())) if not unread else source.fail("not UTF-8 text", name, unread[0])
    if types.is_string(type_):
        return _infer_kind_of_text(source, name, column)
    source.fail(f"holds values of type {type_}, which is no number, text or date; leave it out with --drop", name)


def _infer_kind_of_text(source: Source, name: str, column: Any) -> tuple[Kind, Any]:
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_dictionary(source.columns.column(name).type):  # categories, whatever they look like
        return "text", column
    if cells.can_read(cells.dates, column):
        return ("zoned date" if pc.any(cells.has_zone(column)).as_py() else "date"), cells.dates(column)
    if cells.can_read(cells.times, column):
        return "time", cells.times(column)
    _refuse_spoilt_numbers(source, name, column)
    return "text", column


def zone_notes(source: Source, kinds: Mapping[str, Kind], new: bool = False) -> dict[str, str]:
    """For columns of dates with time zones, or of new rows with others than the training rows, what they have."""
    import pyarrow.compute as pc

    found = {}
    for name in (name for name, kind in kinds.items() if "date" in kind):
        column = cells.without_dictionary(source.columns.column(name))
        with_zone = cells.has_zone(column)
        some, all_ = pc.any(with_zone).as_py(), pc.all(with_zone).as_py()
        if new:
            other = some if kinds[name] == "date" else not all_
            what = ("with" if kinds[name] == "date" else "without") + " a time zone, unlike the training rows"
        else:
            other, what = some, "with a time zone" if all_ else "with and without a time zone"
        if other and some is not None:
            found[name] = f"dates {what}"
    return found


def _numbers(source: Source, name: str, column: Any) -> Any:
    """Numbers as float64 with gaps where they are missing or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.uint8() if pa.types.is_boolean(column.type) else pa.float32())
    values = column.cast(pa.float64(), safe=False)
    host = values.to_numpy()
    usable = ~(np.abs(host) > LARGEST_NUMBER)
    if not usable.all():
        row = int(np.argmin(usable))
        problem = "too large a number" if np.isfinite(host[row]) else "not a finite number"
        source.fail(f"{problem}: {host[row]:g}", name, row)
    return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)


def _as_kind(source: Source, name: str, kind: Kind) -> Any:
    """A column of new rows with the kind it had in training."""
    import pyarrow as pa

    column = cells.without_dictionary(source.columns.column(name))
    sort = kind.removeprefix("zoned ")  # with a zone or without, a date is an instant
    if pa.types.is_null(column.type):
        return column.cast(pa.string() if kind == "text" else pa.timestamp("us") if sort == "date" else pa.float64())
    if kind == "text" and (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return column.cast(pa.string())
    if pa.types.is_string(column.type):
        values = cells.read_cells(source, name, column, sort)
        return _numbers(source, name, values) if kind == "number" else values
    found, values = infer_kind(source, name)
    if found.removeprefix("zoned ") != sort:
        source.fail(f"holds {found}s, but the model was fitted on {kind}s here", name)
    return values


def _is_constant(column: Any) -> bool:
    return len(column.drop_null().unique()) <= 1 and column.null_count in (0, len(column))


def _precision_note(column: Any) -> str:
    """Addition to a message on a column of one value: whole numbers of many digits may differ in the table."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type) or not (known := column.drop_null()):
        return ""
    return ", to the 16 digits that 64 bits hold" if abs(known[0].as_py()) >= 2.0**53 else ""


def _identifiers(source: Source, columns: Mapping[str, tuple[Kind, Any]], known: Collection[str] = ()) -> list[str]:
    """A note for each column that tells every row from every other, and so nothing about new rows."""
    import pyarrow.types as types

    notes = []
    for name, (kind, _) in columns.items():
        if name in known:
            continue
        column = source.columns.column(name)
        if (types.is_integer(column.type) or kind == "text") and not column.null_count:
            if len(column) >= MIN_ROWS and len(column.unique()) == len(column):
                what = "whole numbers" if kind == "number" else "texts"
                notes.append(
                    f"Likely an identifier: {quoted(name)}, {what} that are all distinct; kept (--drop leaves it out)."
                )
    return notes


def _far_values(source: Source, frame: Any, rows: NDArray[np.intp]) -> list[str]:
    """A note for each column of numbers of which few are so far from the others that these look alike.

    `rows` are those of the table that the frame has.
    """
    numbers = frame.select_dtypes("float64")
    notes = []
    for column, far in outlying_values(numbers.fillna(numbers.median()).to_numpy()):
        values = numbers.iloc[far, column].to_numpy()
        farthest = int(np.argmax(np.abs(values)))
        others = "" if len(far) == 1 else f", and the like in {count_of(len(far) - 1, 'other row')}"
        notes.append(
            f"Far from all else in {quoted(numbers.columns[column])}: {values[farthest]:g} in "
            f"{source.place(int(rows[far[farthest]]))}{others}; kept (leave cells empty that stand for missing values)."
        )
    return notes


def _words(column: Any) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct values as sorted text, and for each row which one it holds, -1 for none."""
    import pyarrow as pa

    cells = column.cast(pa.string()).to_pylist()
    words = sorted({cell for cell in cells if cell is not None})
    place = {word: i for i, word in enumerate(words)} | {None: -1}
    return words, np.array([place[cell] for cell in cells], dtype=np.intp)


def labels_of(column: Any, words: NDArray[Any]) -> NDArray[Any]:
    """The texts of classes in the type of their column, where that is one of numbers or of true and false."""
    import pyarrow as pa
    import pyarrow.types as types

    type_ = cells.without_dictionary(column).type
    if not (types.is_boolean(type_) or types.is_integer(type_) or types.is_float32(type_) or types.is_float64(type_)):
        return words
    return pa.array(words.tolist()).cast(type_).to_numpy(zero_copy_only=False)


def _refuse_spoilt_numbers(source: Source, name: str, column: Any) -> None:
    """Refuse text that is numbers for the greater part: one stray cell has turned a column of numbers into text."""
    words, codes = _words(column)
    rows = np.flatnonzero(codes >= 0)
    unread = np.array([not reads(float, word) for word in words])
    meant = np.array([reads(float, word.replace(",", ".")) or is_grouped(word) for word in words])
    if len(words) <= FEW_VALUES or not unread.any() or 2 * meant[codes[rows]].sum() <= len(rows):
        return
    row = int(rows[np.argmax(unread[codes[rows]])])
    word = words[codes[row]]
    comma = reads(float, word.replace(",", ".")) or is_grouped(word)
    hint = " (write decimals with a point, and thousands without a comma)" if comma else ""
    source.fail(f"{quoted(word)} is not a number, though most of this column is meant as numbers{hint}", name, row)


def reads(read: Callable[[Any], Any], value: Any) -> bool:
    """Whether a function takes a value without a ValueError."""
    try:
        read(value)
    except ValueError:
        return False
    return True


def _decodes(value: bytes) -> bool:
    return reads(bytes.decode, value)


def _read_target(source: Source, name: str, task: Task | None) -> tuple[NDArray[Any], Task, NDArray[np.bool_]]:
    """Return the target, the task, and which rows have one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    original = source.columns.column(name)
    if pa.types.is_float32(original.type) or pa.types.is_float64(original.type):
        original = pc.if_else(pc.is_nan(original), pa.scalar(None, original.type), original)  # no class of its own
    category = pa.types.is_dictionary(original.type) or pa.types.is_boolean(original.type)
    as_it_is = task == "classification" or (task == "regression" and pa.types.is_string(original.type))
    kind, column = ("text", original) if as_it_is else infer_kind(source, name)
    if task != "classification" and pa.types.is_string(original.type) and has_leading_zeros(original):
        kind, column = "number", cells.numbers(original)  # codes are classes where they are few, else quantities
    if "date" in kind:
        source.fail("holds dates or times, which cannot be predicted; turn them into numbers", name)
    known = ~np.asarray(column.is_null())
    if (rows := int(known.sum())) < MIN_ROWS:
        source.fail(f"{count_of(rows, 'row')} of data with a value; at least {MIN_ROWS} are needed", name)
    if task == "regression" and kind == "text":
        words, codes = _words(column)
        first = next((row for row, code in enumerate(codes) if code >= 0 and not reads(float, words[code])), 0)
        source.fail(f"a regression needs numbers, not {quoted(words[codes[first]])}", name, first)
    numbers = None if kind == "text" or (category and task is None) else column.to_numpy()
    decided = task or _guess_task(None if numbers is None else numbers[known])
    if decided == "classification":
        type_ = cells.without_dictionary(original).type
        number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
        hint = "" if not number else f" ({GUESSED if task is None else ''}{AS_QUANTITY})"
        return _classes(source, name, *_words(original), hint), decided, known
    assert numbers is not None
    if np.ptp(numbers[known]) == 0:
        source.fail(f"every row has the same target, {numbers[known][0]:g}{_precision_note(column)}", name)
    return numbers, decided, known


def _guess_task(numbers: NDArray[np.float64] | None) -> Task:
    """Follow the rule given in `read_table`; None stands for a target that holds anything but numbers."""
    if numbers is None:
        return "classification"
    distinct = len(np.unique(numbers))
    few = distinct <= 2 or (distinct <= FEW_VALUES and distinct * ROWS_PER_VALUE <= len(numbers))
    return "classification" if few and np.array_equal(numbers, np.round(numbers)) else "regression"


def _classes(source: Source, name: str, words: list[str], codes: NDArray[np.intp], hint: str) -> NDArray[Any]:
    if len(words) == 1:
        source.fail(f"only one class, {quoted(words[0])}", name)
    if len(words) > MOST_CLASSES:
        many = f"{len(words)} classes such as {quoted(words[0])}, more than {MOST_CLASSES}"
        source.fail(f"{many}; --task regression takes plain numbers, without signs or units", name)
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    rarest = int(np.argmin(counts))
    if counts[rarest] < MIN_ROWS_PER_CLASS:
        row = int(np.argmax(codes == rarest))
        has = f"class {quoted(words[rarest])} has {count_of(int(counts[rarest]), 'row')}"
        source.fail(f"{has}; {MIN_ROWS_PER_CLASS} are needed{hint}", name, row)
    return np.array(words)[codes]
