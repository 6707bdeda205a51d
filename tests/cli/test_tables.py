"""What a table becomes, and the one line that says why it cannot be used."""

from __future__ import annotations

import csv
import gzip
import io
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("skrub")

from kernelpursuit.cli.sources import Source, TableError, printable, stream_tables
from kernelpursuit.cli.tables import Table, conform
from kernelpursuit.cli.tables import read_table as read_path

ROWS = 40


def read_table(path, *arguments, **options):
    return read_path(str(path), *arguments, **options)


def write_csv(path: Path, header: str, rows: list[str], separator: str = "\n") -> Path:
    path.write_bytes((separator.join([header, *rows]) + separator).encode())
    return path


def number_rows(count: int = ROWS) -> list[str]:
    return [f"{i},{i * i % 7 / 2},{i * 1.5}" for i in range(count)]


def failure(path: Path, target: str | None = "y", **options) -> str:
    with pytest.raises(TableError) as caught:
        read_table(path, target, **options)
    message = str(caught.value)
    assert message == printable(message)
    return message


def test_numbers_are_read_as_they_are(tmp_path):
    read = read_table(write_csv(tmp_path / "t.csv", "a,b,y", number_rows()), "y")
    assert isinstance(read, Table)
    assert read.kinds == {"a": "number", "b": "number"} and read.task == "regression"
    np.testing.assert_array_equal(read.frame.to_numpy(), [[i, i * i % 7 / 2] for i in range(ROWS)])
    np.testing.assert_array_equal(read.y, 1.5 * np.arange(ROWS))
    assert read.y.dtype == np.float64


def test_csv_and_parquet_give_the_same(tmp_path):
    frame = pd.DataFrame(
        {
            "n": np.arange(ROWS) / 4,
            "flag": np.arange(ROWS) % 2 == 0,
            "word": [["red", "été", "blue"][i % 3] for i in range(ROWS)],
            "y": [["yes", "no"][i % 2] for i in range(ROWS)],
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    pl.from_pandas(frame).write_parquet(tmp_path / "polars.parquet")
    tables = [read_table(tmp_path / name, "y") for name in ("t.csv", "t.parquet", "polars.parquet")]
    for read in tables:
        assert read.kinds == {"n": "number", "flag": "number", "word": "text"}
        assert read.frame.iloc[1].tolist() == [0.25, 0.0, "été"]
        pd.testing.assert_frame_equal(read.frame, tables[0].frame, check_dtype=False)
        assert read.y.tolist() == ["yes", "no"] * (ROWS // 2)
        assert read.task == "classification"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_separators_line_ends_and_byte_order_mark(tmp_path, separator, line_end):
    rows = [row.replace(",", separator) for row in number_rows()]
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbf" + line_end.join(["a,b,y".replace(",", separator), *rows]).encode())
    read = read_table(path, "y")
    assert list(read.kinds) == ["a", "b"] and read.frame.shape == (ROWS, 2)


def test_separator_is_not_taken_from_inside_a_quoted_name(tmp_path):
    path = write_csv(tmp_path / "t.csv", '"a;b;c;d",y', [f"{i},{i / 2}" for i in range(ROWS)])
    assert list(read_table(path, "y").kinds) == ["a;b;c;d"]


def test_odd_column_names(tmp_path):
    path = tmp_path / "t.csv"
    names = ['say "hi"', "two\nlines", " padded ", "naïve,名前", "--drop"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[i + j / 3 for j in range(5)] for i in range(ROWS)])
    assert list(read_table(path, "two\nlines").kinds) == [names[0], *names[2:]]
    assert "column 'two\\\\nlines'" not in failure(path, "missing")
    assert "'two\\nlines'" in failure(path, "missing")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classification"),
        (["true", "false"], "classification"),
        (["0", "1"], "classification"),
        (["0.0", "1.0"], "classification"),
        (["0.5", "1.5"], "regression"),
        (["1", "2", "3"], "regression"),  # 13 rows for each of three numbers are too few to call them classes
        ([str(i) for i in range(ROWS)], "regression"),
    ],
)
def test_task_is_guessed_from_the_target(tmp_path, values, task):
    rows = [f"{i},{values[i % len(values)]}" for i in range(ROWS)]
    read = read_table(write_csv(tmp_path / "t.csv", "a,y", rows), "y")
    assert read.task == task
    assert any("Task guessed" in note and task in note for note in read.notes)


@pytest.mark.parametrize(
    ("distinct", "rows", "task"),
    [(20, 400, "classification"), (20, 399, "regression"), (21, 4200, "regression"), (3, 60, "classification")],
)
def test_the_guess_at_its_limits(tmp_path, distinct, rows, task):
    path = write_csv(tmp_path / "t.csv", "a,y", [f"{i / 3},{i % distinct}" for i in range(rows)])
    assert read_table(path, "y").task == task


def test_task_can_be_forced(tmp_path):
    path = write_csv(tmp_path / "t.csv", "a,y", [f"{i},{i % 4 / 2}" for i in range(ROWS)])
    assert read_table(path, "y", "classification").y.tolist()[:5] == ["0", "0.5", "1", "1.5", "0"]
    path = write_csv(tmp_path / "u.csv", "a,y", [f"{i},{i % 2}" for i in range(ROWS)])
    read = read_table(path, "y", "regression")
    assert read.y.tolist()[:3] == [0.0, 1.0, 0.0] and not any("Task guessed" in note for note in read.notes)


def test_arrow_types_of_a_parquet_file(tmp_path):
    i = np.arange(ROWS)
    columns = {
        "small": pa.array(i, pa.uint8()),
        "half": pa.array(i.astype(np.float16)),
        "decimal": pa.array([Decimal(int(k)) / 4 for k in i]),
        "large": pa.array([f"w{k % 2}" for k in i], pa.large_string()),
        "bytes": pa.array([b"u%d" % (k % 2) for k in i], pa.binary()),
        "y": pa.array([f"c{k % 2}" for k in i]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", "y")
    assert read.kinds == dict.fromkeys(["small", "half", "decimal"], "number") | {"large": "text", "bytes": "text"}
    assert read.frame.iloc[5].tolist() == [5, 5, 1.25, "w1", "u1"]
    assert read.task == "classification"


def test_the_index_of_a_pandas_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": np.arange(ROWS) / 2, "y": np.arange(ROWS) / 3}, index=np.arange(ROWS)[::-1] * 7)
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", "y")
    assert list(read.kinds) == ["a"] and "index" in read.notes[0]
    frame.to_csv(tmp_path / "t.csv")
    assert "column 1 has no name" in failure(tmp_path / "t.csv")
    assert list(read_table(tmp_path / "t.csv", "y", drop=[""]).kinds) == ["a"]


def test_columns_can_be_dropped_whatever_they_hold(tmp_path):
    rows = [f"{i},2024-01-{i % 28 + 1:02},id{i},,{i / 2}" for i in range(200)]
    path = write_csv(tmp_path / "t.csv", "a,when,id,gap,y", rows)
    assert list(read_table(path, "y", drop=["when", "id", "gap"]).kinds) == ["a"]
    assert "column 'nothing': no such column" in failure(path, drop=["nothing"])
    assert "cannot be dropped" in failure(path, drop=["y"])


def test_line_numbers_count_blank_lines_and_line_breaks_in_quotes(tmp_path):
    rows = [f'"w{i % 2}\nx",{i},{i}' for i in range(ROWS)]  # two lines each
    path = write_csv(tmp_path / "t.csv", "\nt,a,y", [*rows, "", "w,inf,1", "w,1,1"])
    blank, header = 1, 1
    assert f"line {blank + header + 2 * ROWS + 1 + 1}, column 'a': not a finite number" in failure(path)
    path = write_csv(tmp_path / "t.csv", "\nt,a,y", [*rows, "", "w,1,1,9", "w,1,1"])
    assert f"line {blank + header + 2 * ROWS + 1 + 1}: 4 fields where the header has 3" in failure(path)


def test_a_field_beyond_the_reach_of_the_csv_module_still_gets_a_number(tmp_path):
    long = "x" * (csv.field_size_limit() + 1)
    path = write_csv(tmp_path / "t.csv", "t,y", [*[f"{long},{i}" for i in range(25)], f"{long},inf"])
    assert "record 27 (the header is record 1), column 'y': not a finite number" in failure(path)
    assert "cannot be read: field larger" in failure(write_csv(tmp_path / "u.csv", long + ",y", ["1,2"] * ROWS))


def test_a_quote_that_is_never_closed_is_found(tmp_path):
    rows = [f"w{i % 3},{i}" for i in range(ROWS)]
    rows[30] = '"w0,30'
    assert "line 32: a quote is opened and never closed" in failure(write_csv(tmp_path / "t.csv", "t,y", rows))
    rows[30] = '5" pipe,30'  # a quote inside a text is part of it
    assert read_table(write_csv(tmp_path / "t.csv", "t,y", rows), "y").frame["t"][30] == '5" pipe'
    rows[30] = '"w0,30'
    rows += ["w0,1"] * (csv.field_size_limit() // 4)  # the text outgrows the limit of the csv module
    assert "line 32: a quote is opened" in failure(write_csv(tmp_path / "t.csv", "t,y", rows))


def test_one_stray_cell_does_not_turn_numbers_into_categories(tmp_path):
    rows = number_rows()
    rows[20] = "oops,1,1"
    message = failure(write_csv(tmp_path / "t.csv", "a,b,y", rows))
    assert "line 22, column 'a': 'oops' is not a number" in message
    message = failure(write_csv(tmp_path / "t.csv", "a,b,y", rows), "a")
    assert "line 22, column 'a': 'oops' is not a number" in message
    doors = [f"{['2', '3', '4', '5more'][i % 4]},{i / 3}" for i in range(ROWS)]  # a category that looks like numbers
    read = read_table(write_csv(tmp_path / "t.csv", "doors,y", doors), "y")
    assert read.kinds == {"doors": "text"}


def test_columns_that_look_like_numbers_with_a_unit_are_named(tmp_path):
    rows = [
        f"{i}.5%;{i} kg;{i} {'lb' if i % 4 else 'kg'};-${i}.50;EUR{i};{i % 28 + 1}/2024;u{i};{i % 2} mg;{i * 1.5}"
        for i in range(ROWS)
    ]
    names = ["rate", "weight", "mixed", "price", "code", "month", "name", "dose"]
    read = read_table(write_csv(tmp_path / "t.csv", ";".join([*names, "y"]), rows), "y")
    assert set(read.kinds.values()) == {"text"}
    notes = [note for note in read.notes if note.startswith("Looks like numbers")]
    for name, unit in {"rate": "'%'", "weight": "'kg'", "mixed": "'lb' or 'kg'", "price": "'$'"}.items():
        (note,) = (note for note in notes if f"with {unit}: '{name}', {ROWS} distinct texts such as" in note)
        assert "write plain numbers, in one unit" in note
    assert len(notes) == 4
    assert [note.split("'")[1] for note in read.notes if "identifier" in note] == ["code", "name"]


def test_a_target_that_looks_like_numbers_with_a_unit(tmp_path):
    path = write_csv(tmp_path / "t.csv", "a,y", [f"{i},{10 * (i % 4)}%" for i in range(ROWS)])
    assert any("Looks like numbers with '%': 'y'" in note for note in read_table(path, "y").notes)
    assert not any("Looks like" in note for note in read_table(path, "y", "classification").notes)
    path = write_csv(tmp_path / "t.csv", "a,y", [f"{i},{i}.5%" for i in range(120)])
    assert "classes such as '0.5%', more than 100; --task regression takes plain numbers" in failure(path)


@pytest.mark.parametrize("form", ["{:,}.50", "{:,}", "-{:,}.5"])
def test_commas_between_thousands_are_refused(tmp_path, form):
    path = write_csv(tmp_path / "t.csv", "a;y", [f"{form.format(1000 + 7 * i)};{i * 1.5}" for i in range(ROWS)])
    message = failure(path)
    assert f"line 2, column 'a': '{form.format(1000)}' is not a number" in message
    assert "thousands without a comma" in message


def test_lists_of_numbers_are_texts(tmp_path):
    path = write_csv(tmp_path / "t.csv", "a;y", [f"{i},{i % 3},{i % 7};{i * 1.5}" for i in range(ROWS)])
    assert read_table(path, "y").kinds == {"a": "text"}


def test_a_rare_number_may_be_no_class(tmp_path):
    """What is wrong with a guess is told as one."""
    path = write_csv(tmp_path / "t.csv", "a,y", [f"{i},{0 if i % 40 else 3 if i % 80 else 1}" for i in range(200)])
    guessed = failure(path)
    assert "5 are needed (the task was guessed to be classification; --task regression" in guessed
    assert "guessed" not in failure(path, task="classification")
    assert read_table(path, "y", "regression").task == "regression"
    words = write_csv(tmp_path / "t.csv", "a,y", [f"{i},{'b' if i % 40 else 'c'}" for i in range(100)])
    assert "guessed" not in failure(words)


def test_nan_is_no_class(tmp_path):
    y = np.where(np.arange(ROWS) < 6, np.nan, np.arange(ROWS) % 2)
    pq.write_table(pa.table({"a": np.arange(ROWS) / 2, "y": pa.array(y)}), tmp_path / "t.parquet")
    for task in (None, "classification"):
        read = read_table(tmp_path / "t.parquet", "y", task)
        assert set(read.y) == {"0", "1"} and len(read.y) == ROWS - 6


def test_instants_are_no_target(tmp_path):
    rows = [f"{i},2024-01-{i % 28 + 1:02}T00:00:00Z" for i in range(ROWS)]
    assert "holds dates or times, which cannot be predicted" in failure(write_csv(tmp_path / "t.csv", "a,y", rows))


def test_decimal_commas_are_refused(tmp_path):
    path = write_csv(tmp_path / "t.csv", "a;y", [f"{i},5;{i}" for i in range(ROWS)])
    message = failure(path)
    assert "line 2, column 'a': '0,5' is not a number" in message and "decimals with a point" in message


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"t,y\n" + b"a,1\n" * 30 + b"caf\xe9,2\n")
    assert "line 32: neither a Parquet file nor UTF-8 text" in failure(path)
    path.write_bytes(b"t,y\n" + b"a,1.5\n" * 20000 + b"caf\xe9,2\n")  # beyond what is looked at before reading
    assert "line 20002, column 't': not UTF-8 text" in failure(path)
    path.write_bytes(b"x" * 70000 + b"\xe9,y\n" + b"1,2\n" * 30)
    assert "the column names are not UTF-8 text" in failure(path)
    path.write_bytes(b"x" * 65535 + "é,y\n".encode() + b"1,2.5\n3,4.5\n" * 20)  # cut in the middle of a character
    assert read_table(path, "y").frame.shape == (40, 1)


def test_parquet_text_that_is_not_utf8(tmp_path):
    text = pa.Array.from_buffers(pa.string(), ROWS, pa.array([b"\xff"] * ROWS).buffers())
    pq.write_table(pa.table({"t": text, "y": np.arange(ROWS) / 2}), tmp_path / "t.parquet")
    assert "cannot be read" in failure(tmp_path / "t.parquet")


def test_an_unreadable_file(tmp_path, monkeypatch):
    path = write_csv(tmp_path / "t.csv", "a,b,y", number_rows())

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert failure(path) == f"{path}: cannot be read: Permission denied"


def test_long_cells_are_cut_in_messages(tmp_path):
    path = write_csv(tmp_path / "t.csv", "a,y", [f"{i},{'z' * 500}{i % 2}" for i in range(ROWS)])
    assert len(failure(path, task="regression")) < len(str(path)) + 200


def test_missing_cells_dates_and_times_are_welcome(tmp_path):
    rows = [
        f"{i if i % 4 else '?'},2024-03-{i % 28 + 1:02} 10:00:00,{'NA' if i % 5 else 'w'},{i * 1.5}"
        for i in range(ROWS)
    ]
    read = read_table(write_csv(tmp_path / "t.csv", "a,when,word,y", rows), "y")
    assert read.kinds == {"a": "number", "when": "date", "word": "text"}
    assert read.frame["a"].isna().sum() == 10 and read.frame["word"].isna().sum() == 32
    assert read.frame["when"].dtype.kind == "M"
    i = np.arange(ROWS)
    columns = {
        "day": pa.array(i.astype("int32"), pa.int32()).cast(pa.date32()),
        "clock": pa.array(i.astype("int32"), pa.int32()).cast(pa.time32("s")),
        "wait": pa.array(i, pa.duration("ms")),
        "zone": pa.array(i, pa.timestamp("s", tz="Europe/Paris")),
        "nan": pa.array(np.where(i % 2, np.nan, i)),
        "y": pa.array(i / 3),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", "y")
    assert list(read.kinds.values()) == ["date", "time", "time", "zoned date", "number"]
    assert read.frame["nan"].isna().sum() == ROWS // 2


def test_what_is_left_out_or_suspicious_is_said(tmp_path):
    rows = [f"{i + 1000},u{i},7,,{i % 3},{'' if i == 5 else i % 7 / 2}" for i in range(ROWS)]
    read = read_table(write_csv(tmp_path / "t.csv", "id,name,same,empty,a,y", rows), "y")
    assert list(read.kinds) == ["id", "name", "a"] and len(read.y) == len(read.frame) == ROWS - 1
    notes = " ".join(read.notes)
    for words in ("identifier: 'id', whole numbers", "identifier: 'name', texts", "'same', which", "'empty'", "1 row"):
        assert words in notes
    assert "identifier: 'a'" not in notes


def test_a_constant_with_gaps_is_kept(tmp_path):
    rows = [f"{'x' if i % 2 else ''},{i}" for i in range(ROWS)]
    assert read_table(write_csv(tmp_path / "t.csv", "a,y", rows), "y").kinds == {"a": "text"}


def test_a_mistyped_column(tmp_path):
    path = write_csv(tmp_path / "t.csv", "Height,Width,y", number_rows())
    assert "column 'heigth': no such column; did you mean 'Height'? The columns are" in failure(path, "heigth")
    assert "no such column; the columns are" in failure(path, "quite another")


def test_gzip_and_standard_input(tmp_path, monkeypatch):
    plain = write_csv(tmp_path / "t.csv", "a,b,y", number_rows())
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    expected = read_table(plain, "y").frame
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv.gz", "y").frame, expected)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "t.csv.gz").read_bytes())))
    pd.testing.assert_frame_equal(read_table("-", "y").frame, expected)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes())[:-20])
    assert "damaged gzip" in failure(tmp_path / "t.csv.gz")
    monkeypatch.setattr("kernelpursuit.cli.sources.LARGEST_INFLATED", 100)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert "when inflated" in failure(tmp_path / "t.csv.gz")


def streamed(path, kinds):
    return pd.concat([conform(part, kinds) for part in stream_tables(str(path))], ignore_index=True)


def test_new_rows_are_read_as_the_training_rows_were(tmp_path, monkeypatch):
    """A part of the rows may look like another kind: all whole numbers, all missing, texts that are numbers."""
    monkeypatch.setattr("kernelpursuit.cli.sources.STREAM_BLOCK", 300)
    rows = [
        f"{i / 2 if i > 20 else ''},{'true' if i % 2 else 'false'},{i % 3},2024-01-{i % 28 + 1:02},{i}"
        for i in range(ROWS)
    ]
    path = write_csv(tmp_path / "t.csv", "a,flag,code,when,y", rows)
    kinds = {"a": "number", "flag": "number", "code": "text", "when": "date"}
    frame = streamed(path, kinds)
    assert frame["a"].isna().sum() == 21 and frame["a"][30] == 15.0
    assert frame["flag"].tolist()[:3] == [0.0, 1.0, 0.0]
    assert frame["code"].tolist()[:3] == ["0", "1", "2"]
    assert frame["when"].dtype.kind == "M"
    pq.write_table(
        pa.table({"a": np.arange(3), "flag": [True, False, None], "code": [1, 2, 3], "when": [None] * 3}),
        tmp_path / "t.parquet",
    )
    frame = streamed(tmp_path / "t.parquet", kinds)
    assert frame["code"].tolist() == ["1", "2", "3"] and frame["flag"].isna().sum() == 1 and frame["when"].isna().all()


@pytest.mark.parametrize(
    ("rows", "fragment"),
    [
        (["1,2024-01-01", "oops,2024-01-01"], "line 3, column 'a': 'oops' is not a number"),
        (["1,2024-01-01", "1,soon"], "line 3, column 'when': 'soon' is not a date"),
        (["1,2024-01-01", "1e99,2024-01-01"], "line 3, column 'a': too large a number"),
        (["1,2024-01-01", "1,2024-01-01,3"], "line 3: 3 fields where the header has 2"),
    ],
)
def test_bad_new_rows_are_named(tmp_path, rows, fragment):
    path = write_csv(tmp_path / "t.csv", "a,when", rows)
    with pytest.raises(TableError, match=re.escape(fragment)):
        streamed(path, {"a": "number", "when": "date"})
    with pytest.raises(TableError, match="no such column"):
        streamed(write_csv(tmp_path / "u.csv", "A2,when", ["1,2024-01-01"]), {"a": "number"})


def test_another_kind_of_column_is_refused():
    source = Source("table", pa.table({"a": pa.array([1, 2], pa.timestamp("s"))}), lambda row: f"row {row + 1}")
    with pytest.raises(TableError, match="holds dates, but the model was fitted on numbers here"):
        conform(source, {"a": "number"})


@pytest.mark.parametrize("quote", ["", '"'])
def test_digits_with_a_zero_in_front_are_codes(tmp_path, monkeypatch, quote):
    """Of post offices, say: the zero is a part of them, and no code is larger than another."""
    codes = ["01234", "98765", "", "00501"] * 10
    lines = ["zip,month,share,date,y"]
    lines += [f"{quote}{code}{quote},{i % 12},0.0{i},2020-01-0{1 + i % 9} 05:00,{i}.5" for i, code in enumerate(codes)]
    path = tmp_path / "codes.csv"
    path.write_text("\n".join(lines))
    table = read_table(str(path), "y")
    assert table.kinds == {"zip": "text", "month": "number", "share": "number", "date": "date"}
    assert table.frame["zip"][:2].tolist() == ["01234", "98765"] and table.frame["zip"].isna().sum() == 10
    assert "'zip': digits, some with a zero in front, read as text." in table.notes
    monkeypatch.setattr("kernelpursuit.cli.sources.STREAM_BLOCK", 200)
    parts = [conform(part, table.kinds) for part in stream_tables(str(path))]
    assert len(parts) > 1 and [c for part in parts for c in part["zip"].fillna("")] == codes
    numbers = [conform(part, table.kinds | {"zip": "number"})["zip"] for part in stream_tables(str(path))]
    assert numbers[0][0] == 1234  # as a model that was fitted before takes them


@pytest.mark.parametrize(("task", "kind"), [(None, "regression"), ("regression", "regression")])
def test_a_target_with_zeros_in_front_is_a_quantity_if_it_has_many_values(tmp_path, task, kind):
    path = tmp_path / "target.csv"
    path.write_text("x,y\n" + "\n".join(f"{i},{i:04d}" for i in range(60)))
    table = read_table(str(path), "y", task)
    assert table.task == kind and table.y.tolist() == list(range(60))
    path.write_text("x,y\n" + "\n".join(f"{i},0{i % 2}" for i in range(60)))
    assert set(read_table(str(path), "y").y) == {"00", "01"}
