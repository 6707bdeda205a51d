"""Read a CSV or Parquet file into numbers a model can be fitted on, or say in one line why that is not possible.

pyarrow does the reading because it refuses a ragged row where other readers pad it. It is imported when a file is
read, not before.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

Task = Literal["regression", "classification"]

FEW_VALUES = 20  # a whole-number target with more distinct values than this is taken for a quantity
ROWS_PER_VALUE = 20  # ... and so is one whose values are each seen in fewer rows than this, on average
MAX_DISTINCT_TEXT = 100  # one-hot columns per text column, and classes of a target
MIN_ROWS = 20
MIN_ROWS_PER_CLASS = 5  # a 70/30 split then leaves at least 3 for training (one per fold) and 1 for testing
LARGEST_NUMBER = 1e150  # the square of anything beyond overflows, and a variance is made of squares
SEPARATORS = ",;\t"
SAMPLE_BYTES = 1 << 16  # looked at to tell text from anything else
LARGEST_BLOCK = 1 << 30  # pyarrow counts the bytes of a block in 32 bits


class TableError(ValueError):
    """A table that cannot be used; the message is one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class Table(NamedTuple):
    """A table turned into arrays, and what was decided on the way."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    feature_names: list[str]
    task: Task
    notes: list[str]


def printable(text: str) -> str:
    r"""Replace line breaks and control characters by their escapes.

    Examples
    --------
    >>> print(printable("two\nlines, été"))
    two\nlines, été
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


@dataclass(frozen=True)
class _Source:
    """An open table together with the words to name a place in it."""

    path: str
    columns: Any  # a pyarrow.Table
    place: Callable[[int], str]  # the index of a row -> "line 5" or "row 4"

    def fail(self, problem: str, column: str | None = None, row: int | None = None) -> NoReturn:
        """Raise the error for a problem, with its place in front."""
        places = [] if row is None else [self.place(row)]
        if column is not None:
            places.append(f"column {_quoted(column)}")
        raise TableError(": ".join([self.path, *([", ".join(places)] if places else []), problem]))

    def column_list(self) -> str:
        """Name the columns, cut short when there are many."""
        names = self.columns.column_names
        listed = ", ".join(_quoted(name) for name in names[:8])
        return listed if len(names) <= 8 else f"{listed}, ... ({len(names)} in all)"


def read_table(
    path: str | os.PathLike[str], target: str | None, task: Task | None = None, drop: Sequence[str] = ()
) -> Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : str or path-like
        A local file. It is read as Parquet when it starts like one, else as UTF-8 CSV with a header and the separator
        (comma, semicolon or tab) that gives the header the most columns.
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
        All other columns as float64, text one-hot encoded (at most 100 distinct values per column); the target as
        float64 or, for a classification, as text; one line for each thing decided on the way.

    Raises
    ------
    TableError
        When the file cannot be read or its contents cannot be used as they are. A place is given as the line of a CSV
        file on which the record starts, the header being on line 1, or as the row of a Parquet file, counted from 1.
    """
    source = _open(os.fspath(path))
    names, notes = _feature_columns(source, target, drop)
    assert target is not None  # _feature_columns has refused it
    for name in [*names, target]:
        _load(source, name)  # what is wrong with a cell is told before what is wrong with the whole
    if (rows := source.columns.num_rows) < MIN_ROWS:
        source.fail(f"{_count(rows, 'row')} of data; at least {MIN_ROWS} are needed")
    y, decided, guessed = _read_target(source, target, task)
    if guessed:
        notes.append(f"Task guessed from {_quoted(target)}: {decided} (--task says otherwise).")
    blocks, feature_names = [], []
    for name in names:
        block, block_names, note = _read_feature(source, name)
        blocks.append(block)
        feature_names += block_names
        notes += note
    X = np.column_stack(blocks)
    if not np.ptp(X, axis=0).any():
        source.fail(f"every column but {_quoted(target)} holds one and the same value")
    return Table(X, y, feature_names, decided, [printable(note) for note in notes])


def _open(path: str) -> _Source:
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise TableError("reading a table needs pyarrow: pip install 'kernelpursuit[cli]'") from error
    if not os.path.exists(path):
        raise TableError(f"{path}: no such file")
    if not os.path.isfile(path):
        raise TableError(f"{path}: is a directory, not a file" if os.path.isdir(path) else f"{path}: not a plain file")
    try:
        data = Path(path).read_bytes()
        source = _open_parquet(path, data) if data.startswith(b"PAR1") else _open_csv(path, data)
        source.column_list()
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: the column names are not UTF-8 text") from error
    except (pa.ArrowException, csv.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).partition("\n")[0]
        raise TableError(f"{path}: cannot be read: {reason}") from error
    _check_shape(source)
    return source


def _check_shape(source: _Source) -> None:
    for name, count in Counter(source.columns.column_names).items():
        if count > 1:
            source.fail(f"{count} columns have this name", name)
    if source.columns.num_rows == 0:
        source.fail(f"no rows of data; at least {MIN_ROWS} are needed")


def _open_parquet(path: str, data: bytes) -> _Source:
    import pyarrow as pa
    from pyarrow import parquet

    # From memory: given a path, pyarrow would look for partitions and schemes in it.
    columns = parquet.ParquetFile(pa.BufferReader(data)).read()
    columns.validate(full=True)  # or text that is not UTF-8 fails later, when it is looked at
    return _Source(path, columns, lambda row: f"row {row + 1}")


def _open_csv(path: str, data: bytes) -> _Source:
    from pyarrow import csv as arrow_csv

    if not data.strip():
        raise TableError(f"{path}: the file is empty")
    if b"\0" in data[:SAMPLE_BYTES] or path.lower().endswith((".parquet", ".pq")):
        raise TableError(f"{path}: neither a Parquet file nor CSV text")
    separator = _sniff_separator(path, data)
    _refuse_open_quote(path, data, separator)
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=remember)
    # One thread: only then does pyarrow count the rows. One block if possible: none may end inside a quoted text.
    read = arrow_csv.ReadOptions(use_threads=False, block_size=min(len(data) + 1, LARGEST_BLOCK))
    convert = arrow_csv.ConvertOptions(strings_can_be_null=True)
    text = data if data.endswith((b"\n", b"\r")) else data + b"\n"  # a header alone needs its line end
    try:
        columns = arrow_csv.read_csv(io.BytesIO(text), read, parse, convert)
    except ValueError as error:
        if not ragged:
            raise
        found, wanted = ragged[0].actual_columns, ragged[0].expected_columns
        place = _csv_line(data, separator, ragged[0].number - 2)
        raise TableError(f"{path}: {place}: {_count(found, 'field')} where the header has {wanted}") from error
    return _Source(path, columns, lambda row: _csv_line(data, separator, row))


def _csv_records(data: bytes, separator: str) -> Any:
    """Split the text the way pyarrow does; the reader's ``line_num`` then tells where a record ends."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", errors="replace", newline="")
    return csv.reader(text, delimiter=separator)


def _sniff_separator(path: str, data: bytes) -> str:
    try:
        data[:SAMPLE_BYTES].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # a character cut by the end of the sample is no error
            line = data.count(b"\n", 0, error.start) + 1
            raise TableError(f"{path}: line {line}: neither a Parquet file nor UTF-8 text") from error
    # The first separator wins a tie, so a file of one column is one whatever the separator.
    return max(SEPARATORS, key=lambda separator: len(next(filter(None, _csv_records(data, separator)), [])))


def _refuse_open_quote(path: str, data: bytes, separator: str) -> None:
    """Refuse a quote that is never closed: pyarrow would take all lines after it for one text."""
    if data.count(b'"') % 2 == 0:
        return
    records = _csv_records(data, separator)
    start = following = 1
    try:
        for _ in records:
            start, following = following, records.line_num + 1
    except csv.Error:  # the text has outgrown the limit of the csv module
        start = following
    if records.line_num > start:
        raise TableError(f"{path}: line {start}: a quote is opened and never closed")


def _csv_line(data: bytes, separator: str, row: int) -> str:
    """Name the line on which a data row starts; blank lines and line breaks in quotes make it differ from the count."""
    records = _csv_records(data, separator)
    start, seen = 1, -1  # the header is no data row
    try:
        for record in records:
            if record:  # pyarrow skips blank lines
                if seen == row:
                    break
                seen += 1
            start = records.line_num + 1
    except csv.Error:  # a field beyond the limit of the csv module
        return f"record {row + 2} (the header is record 1)"
    return f"line {start}"


def _feature_columns(source: _Source, target: str | None, drop: Sequence[str]) -> tuple[list[str], list[str]]:
    names = source.columns.column_names
    if target is None:
        source.fail(f"name the column to predict with --target; the columns are {source.column_list()}")
    for wanted in [target, *drop]:
        if wanted not in names:
            source.fail(f"no such column; the columns are {source.column_list()}", wanted)
    if target in drop:
        source.fail("the target cannot be dropped", target)
    index = [name for name in names if name.startswith("__index_level_") and name not in (target, *drop)]
    features = [name for name in names if name not in (target, *drop, *index)]
    if "" in features:
        source.fail(f"column {names.index('') + 1} has no name; give it one or leave it out with --drop ''")
    if not features:
        source.fail(f"there is no column to predict {_quoted(target)} from")
    return features, [f"Left out: {_quoted(name)}, the index of a pandas frame." for name in index]


def _load(source: _Source, name: str) -> tuple[str, Any]:
    """Return a column without gaps, and whether it holds "number", "bool", "text" or "category" values."""
    import pyarrow.types as kinds

    column = source.columns.column(name)
    type_ = column.type
    category = kinds.is_dictionary(type_)
    if category:
        column = column.cast(type_.value_type)
    if column.null_count:
        count = column.null_count
        row = column.is_null().index(True).as_py()
        source.fail("missing value" + (f" (one of {count} in this column)" if count > 1 else ""), name, row)
    type_ = column.type
    if kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number", column
    if kinds.is_boolean(type_):
        return "bool", column
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return "category" if category else "text", column
    if kinds.is_temporal(type_):
        source.fail("holds dates or times; turn them into numbers or leave the column out with --drop", name)
    if kinds.is_binary(type_):  # what pyarrow makes of text it cannot decode
        unread = [row for row, value in enumerate(column.to_pylist()) if not _reads(bytes.decode, value)]
        return ("text", column) if not unread else source.fail("not UTF-8 text", name, unread[0])
    source.fail(f"holds values of type {type_}, which is neither number nor text", name)


def _numbers(source: _Source, name: str, column: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    values = column.cast(pa.float64(), safe=False).to_numpy()
    usable = np.abs(values) <= LARGEST_NUMBER  # false for nan too
    if not usable.all():
        row = int(np.argmin(usable))
        problem = "too large a number" if np.isfinite(values[row]) else "not a finite number"
        source.fail(f"{problem}: {values[row]:g}", name, row)
    return np.asarray(values, dtype=np.float64)


def _words(column: Any) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct values as sorted text, and for each row which one it holds."""
    import pyarrow as pa

    words, codes = np.unique(np.array(column.cast(pa.string()).to_pylist(), dtype=object), return_inverse=True)
    return list(words), codes


def _refuse_spoilt_numbers(source: _Source, name: str, words: list[str], codes: NDArray[np.intp]) -> None:
    """Refuse text that is numbers for the greater part: one stray cell has turned a column of numbers into text."""
    unread = np.array([not _reads(float, word) for word in words])
    meant = np.array([_reads(float, word.replace(",", ".")) for word in words])  # decimal commas are meant as numbers
    if len(words) <= FEW_VALUES or not unread.any() or 2 * meant[codes].sum() <= len(codes):
        return
    row = int(np.argmax(unread[codes]))
    word = words[codes[row]]
    hint = " (write decimals with a point)" if _reads(float, word.replace(",", ".")) else ""
    source.fail(f"{_quoted(word)} is not a number, though most of this column is meant as numbers{hint}", name, row)


def _reads(read: Callable[[Any], Any], value: Any) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _read_feature(source: _Source, name: str) -> tuple[NDArray[np.float64], list[str], list[str]]:
    """Return the columns of ``X`` made from a column of the table, their names, and what there is to say of it."""
    kind, column = _load(source, name)
    if kind in ("number", "bool"):
        return _numbers(source, name, column)[:, np.newaxis], [name], []
    words, codes = _words(column)
    if kind == "text":
        _refuse_spoilt_numbers(source, name, words, codes)
    if len(words) > MAX_DISTINCT_TEXT:
        limit = f"more than the {MAX_DISTINCT_TEXT} that are one-hot encoded"
        source.fail(f"{len(words)} distinct values, {limit}; leave the column out with --drop", name)
    note = f"One-hot encoded: {_quoted(name)}, {_count(len(words), 'value')}."
    return np.eye(len(words))[codes], [f"{name}={word}" for word in words], [note]


def _read_target(source: _Source, name: str, task: Task | None) -> tuple[NDArray[Any], Task, bool]:
    """Return the target, the task and whether the task was guessed."""
    kind, column = _load(source, name)
    numbers = _numbers(source, name, column) if kind == "number" else None
    if task == "regression" and numbers is None:
        words, codes = _words(column)
        first = next((row for row, code in enumerate(codes) if not _reads(float, words[code])), 0)
        source.fail(f"a regression needs numbers, not {_quoted(words[codes[first]])}", name, first)
    if kind == "text" and task is None:
        _refuse_spoilt_numbers(source, name, *_words(column))
    decided = task or _guess_task(numbers)
    if decided == "classification":
        return _classes(source, name, *_words(column)), decided, task is None
    assert numbers is not None
    if np.ptp(numbers) == 0:
        source.fail(f"every row has the same target, {numbers[0]:g}", name)
    return numbers, decided, task is None


def _guess_task(numbers: NDArray[np.float64] | None) -> Task:
    """Follow the rule given in `read_table`; None stands for a target that holds anything but numbers."""
    if numbers is None:
        return "classification"
    distinct = len(np.unique(numbers))
    few = distinct <= 2 or (distinct <= FEW_VALUES and distinct * ROWS_PER_VALUE <= len(numbers))
    return "classification" if few and np.array_equal(numbers, np.round(numbers)) else "regression"


def _classes(source: _Source, name: str, words: list[str], codes: NDArray[np.intp]) -> NDArray[Any]:
    if len(words) == 1:
        source.fail(f"only one class, {_quoted(words[0])}", name)
    if len(words) > MAX_DISTINCT_TEXT:
        source.fail(f"{len(words)} classes, more than {MAX_DISTINCT_TEXT}; --task regression takes numbers", name)
    counts = np.bincount(codes)
    rarest = int(np.argmin(counts))
    if counts[rarest] < MIN_ROWS_PER_CLASS:
        row = int(np.argmax(codes == rarest))
        has = f"class {_quoted(words[rarest])} has {_count(int(counts[rarest]), 'row')}"
        source.fail(f"{has}; {MIN_ROWS_PER_CLASS} are needed", name, row)
    return np.array(words)[codes]
