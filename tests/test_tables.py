"""What a table becomes, and the one line that says why it cannot be used."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelpursuit.cli.tables import Table, TableError, printable, read_table

ROWS = 40


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
    assert read.feature_names == ["a", "b"] and read.task == "regression"
    np.testing.assert_array_equal(read.X, [[i, i * i % 7 / 2] for i in range(ROWS)])
    np.testing.assert_array_equal(read.y, 1.5 * np.arange(ROWS))
    assert read.X.dtype == read.y.dtype == np.float64


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
        assert read.feature_names == ["n", "flag", "word=blue", "word=red", "word=été"]
        assert read.X[1].tolist() == [0.25, 0.0, 0.0, 0.0, 1.0]
        np.testing.assert_array_equal(read.X, tables[0].X)
        assert read.y.tolist() == ["yes", "no"] * (ROWS // 2)
        assert read.task == "classification"
        assert any("One-hot encoded: 'word', 3 values" in note for note in read.notes)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_separators_line_ends_and_byte_order_mark(tmp_path, separator, line_end):
    rows = [row.replace(",", separator) for row in number_rows()]
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbf" + line_end.join(["a,b,y".replace(",", separator), *rows]).encode())
    read = read_table(path, "y")
    assert read.feature_names == ["a", "b"] and read.X.shape == (ROWS, 2)


def test_separator_is_not_taken_from_inside_a_quoted_name(tmp_path):
    path = write_csv(tmp_path / "t.csv", '"a;b;c;d",y', [f"{i},{i / 2}" for i in range(ROWS)])
    assert read_table(path, "y").feature_names == ["a;b;c;d"]


def test_odd_column_names(tmp_path):
    path = tmp_path / "t.csv"
    names = ['say "hi"', "two\nlines", " padded ", "naïve,名前", "--drop"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[i + j / 3 for j in range(5)] for i in range(ROWS)])
    assert read_table(path, "two\nlines").feature_names == [names[0], *names[2:]]
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
    assert read.y.tolist()[:3] == [0.0, 1.0, 0.0] and read.notes == []


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
    assert read.feature_names[:3] == ["small", "half", "decimal"]
    assert read.feature_names[3:] == ["large=w0", "large=w1", "bytes=u0", "bytes=u1"]
    assert read.X[5].tolist() == [5, 5, 1.25, 0, 1, 0, 1]
    assert read.task == "classification"


def test_the_index_of_a_pandas_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": np.arange(ROWS) / 2, "y": np.arange(ROWS) / 3}, index=np.arange(ROWS)[::-1] * 7)
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", "y")
    assert read.feature_names == ["a"] and "index" in read.notes[0]
    frame.to_csv(tmp_path / "t.csv")
    assert "column 1 has no name" in failure(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv", "y", drop=[""]).feature_names == ["a"]


def test_columns_can_be_dropped_whatever_they_hold(tmp_path):
    rows = [f"{i},2024-01-{i % 28 + 1:02},id{i},,{i / 2}" for i in range(200)]
    path = write_csv(tmp_path / "t.csv", "a,when,id,gap,y", rows)
    assert read_table(path, "y", drop=["when", "id", "gap"]).feature_names == ["a"]
    assert "column 'nothing': no such column" in failure(path, drop=["nothing"])
    assert "cannot be dropped" in failure(path, drop=["y"])


def test_line_numbers_count_blank_lines_and_line_breaks_in_quotes(tmp_path):
    rows = [f'"w{i % 2}\nx",{i},{i}' for i in range(ROWS)]  # two lines each
    path = write_csv(tmp_path / "t.csv", "\nt,a,y", [*rows, "", "w,1,", "w,1,1"])
    blank, header = 1, 1
    assert f"line {blank + header + 2 * ROWS + 1 + 1}, column 'y': missing value" in failure(path)
    path = write_csv(tmp_path / "t.csv", "\nt,a,y", [*rows, "", "w,1,1,9", "w,1,1"])
    assert f"line {blank + header + 2 * ROWS + 1 + 1}: 4 fields where the header has 3" in failure(path)


def test_a_field_beyond_the_reach_of_the_csv_module_still_gets_a_number(tmp_path):
    long = "x" * (csv.field_size_limit() + 1)
    path = write_csv(tmp_path / "t.csv", "t,y", [*[f"{long},{i}" for i in range(25)], f"{long},"])
    assert "record 27 (the header is record 1), column 'y': missing value" in failure(path)
    assert "cannot be read: field larger" in failure(write_csv(tmp_path / "u.csv", long + ",y", ["1,2"] * ROWS))


def test_a_quote_that_is_never_closed_is_found(tmp_path):
    rows = [f"w{i % 3},{i}" for i in range(ROWS)]
    rows[30] = '"w0,30'
    assert "line 32: a quote is opened and never closed" in failure(write_csv(tmp_path / "t.csv", "t,y", rows))
    rows[30] = '5" pipe,30'  # a quote inside a text is part of it
    assert read_table(write_csv(tmp_path / "t.csv", "t,y", rows), "y").feature_names[0] == 't=5" pipe'
    rows[30] = '"w0,30'
    rows += ["w0,1"] * (csv.field_size_limit() // 4)  # the text outgrows the limit of the csv module
    assert "line 32: a quote is opened" in failure(write_csv(tmp_path / "t.csv", "t,y", rows))


def test_one_stray_cell_does_not_turn_numbers_into_categories(tmp_path):
    rows = number_rows()
    rows[20] = "?,1,1"
    message = failure(write_csv(tmp_path / "t.csv", "a,b,y", rows))
    assert "line 22, column 'a': '?' is not a number" in message
    message = failure(write_csv(tmp_path / "t.csv", "a,b,y", rows), "a")
    assert "line 22, column 'a': '?' is not a number" in message
    doors = [f"{['2', '3', '4', '5more'][i % 4]},{i / 3}" for i in range(ROWS)]  # a category that looks like numbers
    read = read_table(write_csv(tmp_path / "t.csv", "doors,y", doors), "y")
    assert read.feature_names == ["doors=2", "doors=3", "doors=4", "doors=5more"]


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
    assert read_table(path, "y").X.shape == (40, 1)


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
