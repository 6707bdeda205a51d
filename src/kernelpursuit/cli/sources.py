"""Open a CSV or Parquet file as columns of pyarrow, or say in one line why that is not possible.

pyarrow does the reading because it refuses a ragged row where other readers pad it. It is imported when a file is
read, not before. Nothing is fetched and nothing is executed.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

SEPARATORS = ",;\t"
SAMPLE_BYTES = 1 << 16  # looked at to tell text from anything else
LARGEST_BLOCK = 1 << 30  # pyarrow counts the bytes of a block in 32 bits
LARGEST_INFLATED = 4 << 30  # bytes of a .gz file when inflated
STREAM_BLOCK = 1 << 20  # bytes of a block when rows are streamed
MISSING = ["", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>", "#NA"]
LEADING_ZERO = rb"(^|[^0-9.:+-])0[0-9]"  # a field that may begin so: not a part of a number, date or time
STANDARD_INPUT = "-"


class TableError(ValueError):
    """A table that cannot be used; the message is one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    r"""Replace line breaks and control characters by their escapes.

    Examples
    --------
    >>> print(printable("two\nlines, été"))
    two\nlines, été
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def path_in_words(path: str) -> str:
    """A path as messages name it."""
    return "standard input" if path == STANDARD_INPUT else path


def quoted(text: str) -> str:
    """A name or a cell in quotes, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def count_of(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


@dataclass(frozen=True)
class Source:
    """An open table together with the words to name a place in it."""

    path: str
    columns: Any  # a pyarrow.Table
    place: Callable[[int], str]  # the index of a row -> "line 5" or "row 4"

    def fail(self, problem: str, column: str | None = None, row: int | None = None) -> NoReturn:
        """Raise the error for a problem, with its place in front."""
        places = [] if row is None else [self.place(row)]
        if column is not None:
            places.append(f"column {quoted(column)}")
        raise TableError(": ".join([path_in_words(self.path), *([", ".join(places)] if places else []), problem]))

    def no_such_column(self, wanted: str) -> NoReturn:
        """Raise the error for a column that is not there, with the one that may have been meant."""
        lower = {name.lower(): name for name in self.columns.column_names}
        near = get_close_matches(wanted.lower(), lower, n=1, cutoff=0.7)
        hint = f"did you mean {quoted(lower[near[0]])}? " if near else ""
        self.fail(f"no such column; {hint}The columns are {self.column_list()}".replace("; The", "; the"), wanted)

    def refuse_repeated(self, names: Iterable[str]) -> None:
        """Raise the error for the first of some columns of which there are several."""
        counts = Counter(self.columns.column_names)
        for name in names:
            if counts[name] > 1:
                self.fail(f"{counts[name]} columns have this name", name)

    def column_list(self) -> str:
        """Name the columns, cut short when there are many."""
        names = self.columns.column_names
        listed = ", ".join(quoted(name) for name in names[:8])
        return listed if len(names) <= 8 else f"{listed}, ... ({len(names)} in all)"


def open_table(path: str) -> Source:
    """Read a whole table; TableError where it is none."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise TableError("reading a table needs pyarrow: install kernelpursuit with its extra 'cli'") from error
    try:
        data = read_bytes(path)
        source = open_parquet(path, data) if data.startswith(b"PAR1") else open_csv(path, data)
        source.column_list()
    except UnicodeDecodeError as error:
        raise TableError(f"{path_in_words(path)}: the column names are not UTF-8 text") from error
    except (pa.ArrowException, csv.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).partition("\n")[0]
        raise TableError(f"{path_in_words(path)}: cannot be read: {reason}") from error
    source.refuse_repeated(source.columns.column_names)
    if source.columns.num_rows == 0:
        source.fail("no rows of data")
    return source


def check_path(path: str) -> None:
    """Refuse what is no plain file."""
    if not os.path.exists(path):
        raise TableError(f"{path_in_words(path)}: no such file")
    if not os.path.isfile(path):
        raise TableError(
            f"{path_in_words(path)}: is a directory, not a file" if os.path.isdir(path) else f"{path}: not a plain file"
        )


def read_bytes(path: str) -> bytes:
    """Content of a file or of standard input, inflated if it is gzip's."""
    if path == STANDARD_INPUT:
        data = sys.stdin.buffer.read()
    else:
        check_path(path)
        data = Path(path).read_bytes()
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as inflated:
            data = inflated.read(LARGEST_INFLATED + 1)
    except (EOFError, zlib.error) as error:
        raise TableError(f"{path_in_words(path)}: cannot be read: a damaged gzip file ({error})") from error
    if len(data) > LARGEST_INFLATED:
        raise TableError(f"{path_in_words(path)}: more than {LARGEST_INFLATED >> 30} GiB when inflated")
    return data


def open_parquet(path: str, data: bytes) -> Source:
    """The table of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    # From memory: given a path, pyarrow would look for partitions and schemes in it.
    columns = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(
        use_threads=False
    )  # none may outlive the process
    columns.validate(full=True)  # or text that is not UTF-8 fails later, when it is looked at
    return Source(path, columns, lambda row: f"row {row + 1}")


def open_csv(path: str, data: bytes) -> Source:
    """The table of a CSV file."""
    from pyarrow import csv as arrow_csv

    if not data.strip():
        raise TableError(f"{path_in_words(path)}: the file is empty")
    if b"\0" in data[:SAMPLE_BYTES] or path.lower().endswith((".parquet", ".pq")):
        raise TableError(f"{path_in_words(path)}: neither a Parquet file nor CSV text")
    separator = _sniff_separator(path, data)
    _refuse_open_quote(path, data, separator)
    ragged: list[Any] = []

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=remember)
    # One thread: only then does pyarrow count the rows. One block if possible: none may end inside a quoted text.
    read = arrow_csv.ReadOptions(use_threads=False, block_size=min(len(data) + 1, LARGEST_BLOCK))
    convert = arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=MISSING)
    text = data if data.endswith((b"\n", b"\r")) else data + b"\n"  # a header alone needs its line end
    try:
        columns = arrow_csv.read_csv(io.BytesIO(text), read, parse, convert)
    except ValueError as error:
        if not ragged:
            raise
        problem = _ragged_row(ragged[0], lambda row: _csv_line(data, separator, row))
        raise TableError(f"{path_in_words(path)}: {problem}") from error
    if re.search(LEADING_ZERO, data):
        columns = _with_codes(columns, lambda texts: arrow_csv.read_csv(io.BytesIO(text), read, parse, texts))
    return Source(path, columns, lambda row: _csv_line(data, separator, row))


def _with_codes(columns: Any, read: Callable[[Any], Any]) -> Any:
    """A table whose columns of digits are texts where some begin with a zero, which pyarrow has dropped."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    kinds = pa.types.is_integer, pa.types.is_floating
    names = [field.name for field in columns.schema if any(kind(field.type) for kind in kinds)]
    if not names or len(set(columns.column_names)) < len(columns.column_names):  # which is refused
        return columns
    types = {name: pa.string() for name in names}
    given: dict[str, Any] = {"include_columns": names, "column_types": types}
    texts = read(arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=MISSING, **given))
    for name in filter(lambda name: has_leading_zeros(texts.column(name)), names):
        columns = columns.set_column(columns.column_names.index(name), name, texts.column(name))
    return columns


def has_leading_zeros(texts: Any) -> bool:
    """Whether texts are digits, some of which begin with a zero: codes, as of post offices, and no numbers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> has_leading_zeros(pa.array(["01234", None, "56789"])), has_leading_zeros(pa.array(["01", "2.5"]))
    (True, False)
    """
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    every, some = (pc.match_substring_regex(trimmed, pattern) for pattern in (r"^[0-9]+$", r"^0[0-9]+$"))
    return bool(pc.all(every).as_py() and pc.any(some).as_py())


def _csv_records(data: Any, separator: str) -> Any:
    """Split bytes or an open text as pyarrow does; the reader's ``line_num`` then tells where a record ends."""
    return csv.reader(_text_of(io.BytesIO(data)) if isinstance(data, bytes) else data, delimiter=separator)


def _text_of(stream: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")


def _sniff_separator(path: str, data: bytes) -> str:
    try:
        data[:SAMPLE_BYTES].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # a character cut by the end of the sample is no error
            line = data.count(b"\n", 0, error.start) + 1
            raise TableError(f"{path_in_words(path)}: line {line}: neither a Parquet file nor UTF-8 text") from error
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
        raise TableError(f"{path_in_words(path)}: line {start}: a quote is opened and never closed")


def _csv_line(data: Any, separator: str, row: int) -> str:
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


def stream_tables(path: str) -> Iterator[Source]:
    """Parts of a table, each of some thousand rows, as they are read; the columns of a CSV file as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    done = 0
    separator: str | None = None  # of a CSV file
    names: list[str] = []
    ragged: list[Any] = []

    def place(row: int) -> str:
        """A file is read again, as what has passed is not kept; standard input cannot be."""
        if separator is None or path == STANDARD_INPUT:
            return f"row {row + 1}"
        with open(path, "rb") as again, _text_of(open_inflated(again)[0]) as text:
            return _csv_line(text, separator, row)

    def part(batch: Any) -> Source:
        nonlocal done
        start, done = done, done + batch.num_rows
        return Source(path, pa.Table.from_batches([batch]), lambda row: place(start + row))

    if path != STANDARD_INPUT:
        check_path(path)
    with sys.stdin.buffer if path == STANDARD_INPUT else open(path, "rb") as raw:
        try:
            stream, start = open_inflated(raw)
            if start.startswith(b"PAR1"):
                file = parquet.ParquetFile(pa.BufferReader(stream.read()), page_checksum_verification=True)
                yield from map(part, file.iter_batches())
                return
            separator = _sniff_separator(path, start)
            names = next(filter(None, _csv_records(start, separator)), [])
            yield from map(part, arrow_csv.open_csv(stream, **_stream_options(separator, names, ragged)))
        except (pa.ArrowException, csv.Error, OSError, EOFError, zlib.error) as error:
            if names and str(error).startswith("CSV parse error: Empty CSV"):
                return  # a header without a line end: no rows
            where = f"after {place(done - 1)}: " if done else ""
            problem = f"{where}cannot be read: {str(error).partition(chr(10))[0]}"
            if ragged:
                problem = _ragged_row(ragged[0], place)
            raise TableError(f"{path_in_words(path)}: {problem}") from error


def _ragged_row(row: Any, place: Callable[[int], str]) -> str:
    """Message on a row of another length than the header's; pyarrow counts the header as a row."""
    fields = count_of(row.actual_columns, "field")
    return f"{place(row.number - 2)}: {fields} where the header has {row.expected_columns}"


def open_inflated(raw: Any) -> tuple[Any, bytes]:
    """A stream of the bytes of a file, without gzip's compression, and how they begin."""
    stream: Any = io.BufferedReader(raw, SAMPLE_BYTES)
    start = stream.peek(SAMPLE_BYTES)
    if start.startswith(b"\x1f\x8b"):
        stream = io.BufferedReader(gzip.GzipFile(fileobj=stream), SAMPLE_BYTES)
        start = stream.peek(SAMPLE_BYTES)
    return stream, start


def _stream_options(separator: str, names: list[str], ragged: list[Any]) -> dict[str, Any]:
    """How a CSV file is streamed: all columns as text, so that no block is read otherwise than another.

    A row of another length than the header's is put into `ragged`.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    def remember(row: Any) -> str:
        ragged.append(row)
        return "error"

    return {
        "read_options": arrow_csv.ReadOptions(use_threads=False, block_size=STREAM_BLOCK),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=remember
        ),
        "convert_options": arrow_csv.ConvertOptions(
            strings_can_be_null=True, null_values=MISSING, column_types={name: pa.string() for name in names}
        ),
    }
