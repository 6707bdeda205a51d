"""What a table becomes, what is said of it, and the one line that says why it cannot be used."""

from __future__ import annotations

import csv
import gzip
import io
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("skrub")

from kernelpursuit.cli.outlying_values import outlying_values
from kernelpursuit.cli.sources import Source, TableError, printable, stream_tables
from kernelpursuit.cli.tables import conform, read_table

ROWS = 40
AGES = np.append(np.repeat([20, 30, 40], 30), 61)
LIMIT = csv.field_size_limit()


def lines(header, row, count=ROWS):
    """A header and rows, each made of its number."""
    return "\n".join([header, *map(row, range(count))]) + "\n"


NUMBERS = lines("a,b,y", lambda i: f"{i},{i * i % 7 / 2},{i * 1.5}")


def with_line(number, line, text=NUMBERS):
    all_lines = text.splitlines()
    all_lines[number - 1] = line
    return "\n".join(all_lines) + "\n"


@pytest.fixture
def write(tmp_path):
    """Write a table or a text under a name of its kind."""

    def write_content(content, name="t"):
        path = tmp_path / (f"{name}.parquet" if isinstance(content, pa.Table) else f"{name}.csv")
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_content


@pytest.fixture
def read(write):
    return lambda content, target="y", task=None, drop=(): read_table(write(content), target, task, drop)


def refusal(read, *arguments, **options):
    with pytest.raises(TableError) as caught:
        read(*arguments, **options)
    message = str(caught.value)
    assert message == printable(message), "it is one line"
    return message


def parquet(**columns):
    return pa.table({"a": np.arange(ROWS) / 2, "y": np.arange(ROWS) / 3} | columns)


# ---------------------------------------------------------------------------------------------- what is refused

OPEN_QUOTE = lines("t,y", lambda i: '"w0,30' if i == 30 else f"w{i % 3},{i}")
QUOTED = lines("\nt,a,y", lambda i: f'"w{i % 2}\nx",{i},{i}')  # a blank line, then two lines each
NOT_UTF8 = pa.Array.from_buffers(pa.string(), ROWS, pa.array([b"\xff"] * ROWS).buffers())
REFUSED = {
    "unknown target": (NUMBERS, {"target": "z"}, ["column 'z': no such column", "'a', 'b', 'y'"]),
    "mistyped": (NUMBERS.replace("b", "Height"), {"target": "heigth"}, ["did you mean 'Height'? The columns are"]),
    "nothing like it": (NUMBERS, {"target": "quite another"}, ["no such column; the columns are"]),
    "line break in a name": ('"p\nq",y\n' + "1,2\n" * 30, {"target": "y\nz"}, ["column 'y\\nz'", "'p\\nq'"]),
    "long row": (with_line(5, "1,2,3,4"), {}, ["line 5: 4 fields where the header has 3"]),
    "short row": (with_line(31, "1,2"), {}, ["line 31: 2 fields where the header has 3"]),
    "header alone": ("a,b,y\n", {}, ["no rows of data"]),
    "few rows": (lines("a,y", lambda i: f"{i},{i}", 4), {}, ["4 rows of data with a value; at least 20"]),
    "one class": (lines("a,y", lambda i: f"{i},yes"), {}, ["column 'y': only one class, 'yes'"]),
    "same number": (lines("a,y", lambda i: f"{i},1.5"), {}, ["column 'y'", "same target, 1.5"]),
    "infinite": (with_line(7, "inf,2,3"), {}, ["line 7, column 'a': not a finite number: inf"]),
    "infinite target": (with_line(7, "1,2,-inf"), {}, ["line 7, column 'y': not a finite number: -inf"]),
    "infinite in Parquet": (
        parquet(a=[1.0, float("inf"), *[4.0] * (ROWS - 2)]), {}, ["row 2, column 'a': not a finite number: inf"]
    ),
    "huge": (with_line(7, "1e200,2,3"), {}, ["line 7, column 'a': too large a number"]),
    "lists": (parquet(a=[[1.0]] * ROWS), {}, ["column 'a': holds values of type list"]),
    "few targets": ("a,y\n" + "1,\n" * 30 + "2,3\n", {}, ["column 'y': 1 row of data with a value"]),
    "dates": (lines("a,y", lambda i: f"{i},2024-01-{i % 28 + 1:02}"), {}, ["column 'y': holds dates"]),
    "instants": (
        lines("a,y", lambda i: f"{i},2024-01-{i % 28 + 1:02}T00:00:00Z"),
        {},
        ["holds dates or times, which cannot be predicted"],
    ),
    "single column": (lines("y", lambda i: f"{i / 2}"), {}, ["no column to predict 'y' from"]),
    "rare class": (
        lines("a,y", lambda i: f"{i},{'pq'[i % 2]}", 30) + "1,r\n", {}, ["line 32, column 'y'", "'r'", "1 row;"]
    ),
    "many classes": (lines("a,y", lambda i: f"{i},c{i % 101}", 606), {}, ["column 'y': 101 classes"]),
    "percent": (
        lines("a,y", lambda i: f"{i},{i}.5%", 120),
        {},
        ["classes such as '0.5%', more than 100; --task regression takes plain numbers"],
    ),
    "text of a regression": (
        lines("a,y", lambda i: f"{i},{'high' if i == 30 else i}"),
        {"task": "regression"},
        ["line 32, column 'y': a regression needs numbers, not 'high'"],
    ),
    "same name twice": ("a,a,y\n" + "1,2,3.5\n" * 30, {}, ["column 'a': 2 columns have this name"]),
    "constant inputs": (lines("a,y", lambda i: f"4,{i / 2}"), {}, ["every column but 'y'"]),
    "equal to 16 digits": (
        lines("a,y", lambda i: f"{i},{2**70 + i}"),
        {"task": "regression"},
        ["same target, 1.18059e+21, to the 16 digits that 64 bits hold"],
    ),
    "equal column": (
        lines("id,one,y", lambda i: f"{2**70 + i},5,{i}"),
        {},
        ["holds one and the same value, to the 16 digits that 64 bits hold"],
    ),
    "a column without a name": (lines(",a,y", lambda i: f"{7 * i},{i},{i}"), {}, ["column 1 has no name"]),
    "a column to drop": (NUMBERS, {"drop": ["nothing"]}, ["column 'nothing': no such column"]),
    "the target to drop": (NUMBERS, {"drop": ["y"]}, ["cannot be dropped"]),
    "stray cell": (with_line(22, "oops,1,1"), {}, ["line 22, column 'a': 'oops' is not a number"]),
    "stray target": (with_line(22, "oops,1,1"), {"target": "a"}, ["line 22, column 'a': 'oops' is not a number"]),
    **{
        f"thousands {form}": (
            lines("a;y", lambda i, form=form: f"{form.format(1000 + 7 * i)};{i * 1.5}"),
            {},
            [f"line 2, column 'a': '{form.format(1000)}' is not a number", "thousands without a comma"],
        )
        for form in ("{:,}.50", "{:,}", "-{:,}.5")
    },
    "decimal commas": (
        lines("a;y", lambda i: f"{i},5;{i}"), {}, ["line 2, column 'a': '0,5' is not a number", "decimals with a point"]
    ),
    "blank lines count": (QUOTED + "\nw,inf,1\nw,1,1\n", {}, ["line 84, column 'a': not a finite number"]),
    "in the count of fields": (QUOTED + "\nw,1,1,9\nw,1,1\n", {}, ["line 84: 4 fields where the header has 3"]),
    "beyond the csv module": (
        lines("t,y", lambda i: f"{'x' * (LIMIT + 1)},{'inf' if i == 25 else i}", 26),
        {},
        ["record 27 (the header is record 1), column 'y': not a finite number"],
    ),
    "long name": (lines("x" * (LIMIT + 1) + ",y", lambda i: "1,2"), {}, ["cannot be read: field larger"]),
    "open quote": (OPEN_QUOTE, {}, ["line 32: a quote is opened and never closed"]),
    "long open quote": (OPEN_QUOTE + "w0,1\n" * (LIMIT // 4), {}, ["line 32: a quote is opened"]),
    "not UTF-8": (b"t,y\n" + b"a,1\n" * 30 + b"caf\xe9,2\n", {}, ["line 32: neither a Parquet file nor UTF-8 text"]),
    "not UTF-8 far down": (
        b"t,y\n" + b"a,1.5\n" * 20000 + b"caf\xe9,2\n", {}, ["line 20002, column 't': not UTF-8 text"]
    ),
    "name not UTF-8": (b"x" * 70000 + b"\xe9,y\n" + b"1,2\n" * 30, {}, ["the column names are not UTF-8 text"]),
    "Parquet not UTF-8": (parquet(a=NOT_UTF8), {}, ["cannot be read"]),
    "empty": (b"", {}, ["the file is empty"]),
    "blank": (b"\n \n", {}, ["the file is empty"]),
    "bytes": (bytes(range(256)) * 8, {}, ["neither a Parquet file nor CSV text"]),
    "other bytes": (b"\x89\xfe\xff\x80" * 99, {}, ["neither a Parquet file nor UTF-8 text"]),
    "UTF-16": ("a,y\n1,2\n".encode("utf-16"), {}, ["neither a Parquet file nor CSV text"]),
    "broken Parquet": (b"PAR1" + b"junk" * 50 + b"PAR1", {}, ["cannot be read"]),
    "no character": (b"a\xff,y\n1,2\n", {}, ["neither a Parquet file nor UTF-8 text"]),
    "damaged gzip": (gzip.compress(NUMBERS.encode())[:-20], {}, ["damaged gzip"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_cannot_be_used(case, read, tmp_path):
    content, options, fragments = REFUSED[case]
    message = refusal(read, content, **options)
    assert message.startswith(str(tmp_path / "t."))
    for fragment in fragments:
        assert fragment in message


def test_long_cells_are_cut_in_messages(read, tmp_path):
    text = lines("a,y", lambda i: f"{i},{'z' * 500}{i % 2}")
    assert len(refusal(read, text, task="regression")) < len(str(tmp_path)) + 200


def test_a_wrong_guess_is_told_as_one(read):
    """A rare number may be no class."""
    numbers = lines("a,y", lambda i: f"{i},{0 if i % 40 else 3 if i % 80 else 1}", 200)
    assert "5 are needed (the task was guessed to be classification; --task regression" in refusal(read, numbers)
    assert "guessed" not in refusal(read, numbers, task="classification")
    assert read(numbers, task="regression").task == "regression"
    assert "guessed" not in refusal(read, lines("a,y", lambda i: f"{i},{'b' if i % 40 else 'c'}", 100))


def test_an_unreadable_file(write, monkeypatch):
    path = write(NUMBERS)

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert refusal(read_table, path, "y") == f"{path}: cannot be read: Permission denied"


# ---------------------------------------------------------------------------------------------- what is read


def test_numbers_are_read_as_they_are(read):
    table = read(NUMBERS)
    assert table.kinds == {"a": "number", "b": "number"} and table.task == "regression"
    np.testing.assert_array_equal(table.frame.to_numpy(), [[i, i * i % 7 / 2] for i in range(ROWS)])
    np.testing.assert_array_equal(table.y, 1.5 * np.arange(ROWS))
    assert table.y.dtype == np.float64


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
    tables = [read_table(str(tmp_path / name), "y") for name in ("t.csv", "t.parquet", "polars.parquet")]
    for table in tables:
        assert table.kinds == {"n": "number", "flag": "number", "word": "text"}
        assert table.frame.iloc[1].tolist() == [0.25, 0.0, "été"]
        pd.testing.assert_frame_equal(table.frame, tables[0].frame, check_dtype=False)
        assert table.task == "classification" and table.y.tolist() == ["yes", "no"] * (ROWS // 2)


def test_gzip_and_standard_input(read, monkeypatch):
    expected, packed = read(NUMBERS).frame, gzip.compress(NUMBERS.encode())
    pd.testing.assert_frame_equal(read(packed).frame, expected)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    pd.testing.assert_frame_equal(read_table("-", "y").frame, expected)
    monkeypatch.setattr("kernelpursuit.cli.sources.LARGEST_INFLATED", 100)
    assert "when inflated" in refusal(read, packed)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_separators_line_ends_and_byte_order_mark(read, separator, line_end):
    text = NUMBERS.replace(",", separator).replace("\n", line_end)
    table = read(b"\xef\xbb\xbf" + text.encode())
    assert list(table.kinds) == ["a", "b"] and table.frame.shape == (ROWS, 2)


def test_odd_column_names(tmp_path):
    names = ['say "hi"', "two\nlines", " padded ", "naïve,名前", "--drop"]
    with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *([i + j / 3 for j in range(5)] for i in range(ROWS))])
    assert list(read_table(str(tmp_path / "t.csv"), "two\nlines").kinds) == [names[0], *names[2:]]
    assert "'two\\nlines'" in refusal(read_table, str(tmp_path / "t.csv"), "missing")


KINDS = {
    "a separator in a quoted name": ('"a;b;c;d",y', lambda i: f"{i},{i / 2}", {"a;b;c;d": "number"}),
    "a constant with gaps": ("a,y", lambda i: f"{'x' if i % 2 else ''},{i}", {"a": "text"}),
    "lists of numbers": ("a;y", lambda i: f"{i},{i % 3},{i % 7};{i * 1.5}", {"a": "text"}),
    "a category like numbers": ("a,y", lambda i: f"{['2', '3', '4', '5more'][i % 4]},{i / 3}", {"a": "text"}),
    "a quote inside a text": ("a,y", lambda i: '5" pipe,30' if i == 30 else f"w{i % 3},{i}", {"a": "text"}),
}


@pytest.mark.parametrize("case", KINDS)
def test_kinds_of_columns(case, read):
    header, row, kinds = KINDS[case]
    table = read(lines(header, row))
    assert table.kinds == kinds
    assert case != "a quote inside a text" or table.frame["a"][30] == '5" pipe'


def test_a_name_cut_in_the_middle_of_a_character(read):
    """By what is looked at before a file is read."""
    assert read(b"x" * 65535 + "é,y\n".encode() + b"1,2.5\n3,4.5\n" * 20).frame.shape == (40, 1)


def test_arrow_types_of_a_parquet_file(read):
    i = np.arange(ROWS)
    numbers = {
        "small": pa.array(i, pa.uint8()),
        "half": pa.array(i.astype(np.float16)),
        "decimal": pa.array([Decimal(int(k)) / 4 for k in i]),
        "nan": pa.array(np.where(i % 2, np.nan, i)),
    }
    texts = {
        "large": pa.array([f"w{k % 2}" for k in i], pa.large_string()),
        "bytes": pa.array([b"u%d" % (k % 2) for k in i], pa.binary()),
    }
    times = {
        "day": pa.array(i.astype("int32"), pa.int32()).cast(pa.date32()),
        "clock": pa.array(i.astype("int32"), pa.int32()).cast(pa.time32("s")),
        "wait": pa.array(i, pa.duration("ms")),
        "zone": pa.array(i, pa.timestamp("s", tz="Europe/Paris")),
    }
    y = pa.array([f"c{k % 2}" for k in i]).dictionary_encode()
    table = read(pa.table(numbers | texts | times | {"y": y}))
    kinds = {"day": "date", "clock": "time", "wait": "time", "zone": "zoned date"}
    assert table.kinds == dict.fromkeys(numbers, "number") | dict.fromkeys(texts, "text") | kinds
    assert table.frame[["small", "half", "decimal", *texts]].iloc[5].tolist() == [5, 5, 1.25, "w1", "u1"]
    assert table.frame["nan"].isna().sum() == ROWS // 2 and table.task == "classification"


def test_missing_cells_and_dates_of_csv(read):
    row = "{},2024-03-{:02} 10:00:00,{},{}".format
    text = lines("a,when,word,y", lambda i: row(i if i % 4 else "?", i % 28 + 1, "NA" if i % 5 else "w", i * 1.5))
    table = read(text)
    assert table.kinds == {"a": "number", "when": "date", "word": "text"}
    assert table.frame["a"].isna().sum() == 10 and table.frame["word"].isna().sum() == 32
    assert table.frame["when"].dtype.kind == "M"


def test_the_index_of_a_pandas_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": np.arange(ROWS) / 2, "y": np.arange(ROWS) / 3}, index=np.arange(ROWS)[::-1] * 7)
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(str(tmp_path / "t.parquet"), "y")
    assert list(table.kinds) == ["a"] and "index" in table.notes[0]
    frame.to_csv(tmp_path / "t.csv")
    assert list(read_table(str(tmp_path / "t.csv"), "y", drop=[""]).kinds) == ["a"]


def test_columns_can_be_dropped_whatever_they_hold(read):
    text = lines("a,when,id,gap,y", lambda i: f"{i},2024-01-{i % 28 + 1:02},id{i},,{i / 2}", 200)
    assert list(read(text, drop=["when", "id", "gap"]).kinds) == ["a"]


TASKS = [
    (["a", "b"], ROWS, "classification"),
    (["true", "false"], ROWS, "classification"),
    (["0", "1"], ROWS, "classification"),
    (["0.0", "1.0"], ROWS, "classification"),
    (["0.5", "1.5"], ROWS, "regression"),
    (["1", "2", "3"], ROWS, "regression"),  # 13 rows for each of three numbers are too few to call them classes
    (range(ROWS), ROWS, "regression"),
    (range(20), 400, "classification"),
    (range(20), 399, "regression"),
    (range(21), 4200, "regression"),
    (range(3), 60, "classification"),
]


@pytest.mark.parametrize(("values", "rows", "task"), TASKS)
def test_task_is_guessed_from_the_target(read, values, rows, task):
    table = read(lines("a,y", lambda i: f"{i / 3},{values[i % len(values)]}", rows))
    assert table.task == task
    assert any("Task guessed" in note and task in note for note in table.notes)


def test_task_can_be_forced(read):
    table = read(lines("a,y", lambda i: f"{i},{i % 4 / 2}"), task="classification")
    assert table.y.tolist()[:5] == ["0", "0.5", "1", "1.5", "0"]
    table = read(lines("a,y", lambda i: f"{i},{i % 2}"), task="regression")
    assert table.y.tolist()[:3] == [0.0, 1.0, 0.0] and not any("Task guessed" in note for note in table.notes)


@pytest.mark.parametrize("task", [None, "classification"])
def test_nan_is_no_class(read, task):
    y = np.where(np.arange(ROWS) < 6, np.nan, np.arange(ROWS) % 2)
    table = read(parquet(y=pa.array(y)), task=task)
    assert set(table.y) == {"0", "1"} and len(table.y) == ROWS - 6


@pytest.mark.parametrize("task", [None, "regression"])
def test_a_target_with_zeros_in_front_is_a_quantity_if_it_has_many_values(read, task):
    table = read(lines("x,y", lambda i: f"{i},{i:04d}", 60), task=task)
    assert table.task == "regression" and table.y.tolist() == list(range(60))
    assert set(read(lines("x,y", lambda i: f"{i},0{i % 2}", 60)).y) == {"00", "01"}


# ---------------------------------------------------------------------------------------------- what is said


def test_columns_that_look_like_numbers_with_a_unit_are_named(read):
    row = "{0}.5%;{0} kg;{0} {1};-${0}.50;EUR{0};{2}/2024;u{0};{3} mg;{4}".format
    header = "rate;weight;mixed;price;code;month;name;dose;y"
    table = read(lines(header, lambda i: row(i, "lb" if i % 4 else "kg", i % 28 + 1, i % 2, i * 1.5)))
    assert set(table.kinds.values()) == {"text"}
    notes = [note for note in table.notes if note.startswith("Looks like numbers")]
    for name, unit in {"rate": "'%'", "weight": "'kg'", "mixed": "'lb' or 'kg'", "price": "'$'"}.items():
        (note,) = (note for note in notes if f"with {unit}: '{name}', {ROWS} distinct texts such as" in note)
        assert "write plain numbers, in one unit" in note
    assert len(notes) == 4
    assert [note.split("'")[1] for note in table.notes if "identifier" in note] == ["code", "name"]


def test_a_target_that_looks_like_numbers_with_a_unit(read):
    text = lines("a,y", lambda i: f"{i},{10 * (i % 4)}%")
    assert any("Looks like numbers with '%': 'y'" in note for note in read(text).notes)
    assert not any("Looks like" in note for note in read(text, task="classification").notes)


def test_what_is_left_out_or_suspicious_is_said(read):
    table = read(lines("id,name,same,empty,a,y", lambda i: f"{i + 1000},u{i},7,,{i % 3},{'' if i == 5 else i % 7 / 2}"))
    assert list(table.kinds) == ["id", "name", "a"] and len(table.y) == len(table.frame) == ROWS - 1
    notes = " ".join(table.notes)
    for words in ("identifier: 'id', whole numbers", "identifier: 'name', texts", "'same', which", "'empty'", "1 row"):
        assert words in notes
    assert "identifier: 'a'" not in notes


@pytest.mark.parametrize("start", [2**70, 2**60], ids=["csv", "parquet"])
def test_whole_numbers_that_float64_cannot_tell_apart_are_not_called_equal(read, start):
    if start == 2**70:
        content = lines("id,b,one,y", lambda i: f"{start + i},{i * i % 7},5,{i / 2}")
    else:
        content = parquet(id=[start + i for i in range(ROWS)], one=[5] * ROWS)
    notes = read(content).notes
    told = "which has one and the same value, or none, in all rows"
    assert f"Left out: 'id', {told}, to the 16 digits that 64 bits hold." in notes
    assert f"Left out: 'one', {told}." in notes


NORMAL = np.random.default_rng(0).normal(size=(80, 3))


@pytest.mark.parametrize(
    ("rows", "where"), [([7], "-9999 in line 10"), ([7, 20, 3], "-9999 in line 6, and the like in 2 other rows")]
)
def test_rows_far_from_all_others_are_named_in_a_note(read, rows, where):
    """The first row has no target."""
    age = [-9999 if i - 1 in rows else 50 + 10 * NORMAL[i - 1, 0] for i in range(80)]
    notes = read(lines("age,size,y", lambda i: f"{age[i]},{NORMAL[i, 1]},{NORMAL[i, 2] if i else ''}", 80)).notes
    assert f"Far from all else in 'age': {where}; kept (leave cells empty that stand for missing values)." in notes
    assert sum("Far from" in note for note in notes) == 1


def test_nothing_is_said_of_counts_and_heavy_tails(read):
    tails = np.random.default_rng(0).lognormal(size=80)
    row = "{},{},{},{},{}".format
    text = lines(
        "a,b,c,d,y", lambda i: row(tails[i], int(i == 3), NORMAL[i, 1] if i % 5 else "", "yn"[i % 2], NORMAL[i, 2]), 80
    )
    assert not any("Far from" in note for note in read(text).notes)


def outlying(X):
    return [(column, rows.tolist()) for column, rows in outlying_values(X)]


def test_few_rows_far_beyond_all_others_are_outlying():
    X = NORMAL[:60]
    assert outlying(X) == []
    several = X.copy()
    several[[7, 20, 31], 1] = [-2e6, 8e5, 1e6]
    assert outlying(several) == [(1, [7, 20, 31])]
    coded = np.tile(X, (4, 1))
    coded[:9, 1] = -9999
    assert outlying(coded) == [(1, list(range(9)))]
    rare = np.zeros((60, 2))
    rare[3] = 1
    assert outlying(rare) == [] and outlying(np.r_[X[:8], [[1e6, 0, 0]]]) == []


@pytest.mark.parametrize("draw", ["lognormal", "exponential", "standard_t"])
@pytest.mark.parametrize("shape", [(20, 1), (200, 3), (500, 10)])
def test_heavy_tails_have_no_outlying_values(draw, shape):
    options = {"df": 3} if draw == "standard_t" else {}
    for seed in range(100):
        assert outlying(getattr(np.random.default_rng(seed), draw)(size=shape, **options)) == []


# ---------------------------------------------------------------------------------------------- new rows


def streamed(path, kinds):
    return pd.concat([conform(part, kinds) for part in stream_tables(path)], ignore_index=True)


def test_new_rows_are_read_as_the_training_rows_were(write, monkeypatch):
    """A part of the rows may look like another kind: all whole numbers, all missing, texts that are numbers."""
    monkeypatch.setattr("kernelpursuit.cli.sources.STREAM_BLOCK", 300)
    row = "{},{},{},2024-01-{:02},{}".format
    text = lines(
        "a,flag,code,when,y",
        lambda i: row(i / 2 if i > 20 else "", "true" if i % 2 else "false", i % 3, i % 28 + 1, i),
    )
    kinds = {"a": "number", "flag": "number", "code": "text", "when": "date"}
    frame = streamed(write(text), kinds)
    assert frame["a"].isna().sum() == 21 and frame["a"][30] == 15.0
    assert frame["flag"].tolist()[:3] == [0.0, 1.0, 0.0]
    assert frame["code"].tolist()[:3] == ["0", "1", "2"] and frame["when"].dtype.kind == "M"
    table = pa.table({"a": np.arange(3), "flag": [True, False, None], "code": [1, 2, 3], "when": [None] * 3})
    frame = streamed(write(table), kinds)
    assert frame["code"].tolist() == ["1", "2", "3"] and frame["flag"].isna().sum() == 1 and frame["when"].isna().all()


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("a,when", "oops,2024-01-01", "line 3, column 'a': 'oops' is not a number"),
        ("a,when", "1,soon", "line 3, column 'when': 'soon' is not a date"),
        ("a,when", "1e99,2024-01-01", "line 3, column 'a': too large a number"),
        ("a,when", "1,2024-01-01,3", "line 3: 3 fields where the header has 2"),
        ("A2,when", "1,2024-01-01", "no such column"),
    ],
)
def test_bad_new_rows_are_named(write, header, row, words):
    with pytest.raises(TableError, match=words):
        streamed(write(f"{header}\n1,2024-01-01\n{row}\n"), {"a": "number", "when": "date"})


def test_another_kind_of_column_is_refused():
    source = Source("table", pa.table({"a": pa.array([1, 2], pa.timestamp("s"))}), lambda row: f"row {row + 1}")
    with pytest.raises(TableError, match="holds dates, but the model was fitted on numbers here"):
        conform(source, {"a": "number"})


@pytest.mark.parametrize("quote", ["", '"'])
def test_digits_with_a_zero_in_front_are_codes(write, monkeypatch, quote):
    """Of post offices, say: the zero is a part of them, and no code is larger than another."""
    codes = ["01234", "98765", "", "00501"] * 10
    row = "{0}{1}{0},{2},0.0{3},2020-01-0{4} 05:00,{3}.5".format
    path = write(lines("zip,month,share,date,y", lambda i: row(quote, codes[i], i % 12, i, 1 + i % 9)))
    table = read_table(path, "y")
    assert table.kinds == {"zip": "text", "month": "number", "share": "number", "date": "date"}
    assert table.frame["zip"][:2].tolist() == ["01234", "98765"] and table.frame["zip"].isna().sum() == 10
    assert "'zip': digits, some with a zero in front, read as text." in table.notes
    monkeypatch.setattr("kernelpursuit.cli.sources.STREAM_BLOCK", 200)
    parts = list(stream_tables(path))
    assert len(parts) > 1 and [code for part in parts for code in conform(part, table.kinds)["zip"].fillna("")] == codes
    assert conform(parts[0], table.kinds | {"zip": "number"})["zip"][0] == 1234  # as an older model takes them


@pytest.mark.parametrize("column", [pa.array(AGES), pa.array(AGES).dictionary_encode()])
@pytest.mark.parametrize("task", [None, "classification"])
def test_rare_classes_that_are_numbers_may_be_a_quantity(tmp_path, column, task):
    """Once refused with no word of that where the task was given or the column is one of categories."""
    pq.write_table(pa.table({"a": np.arange(len(AGES)) % 7, "age": column}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"'61' has 1 row; 5 are needed.*--task regression takes these numbers as"):
        read_table(str(tmp_path / "t.parquet"), "age", task)


def test_a_flipped_byte_is_noticed_where_the_file_has_checksums(tmp_path):
    """In what `fit` reads and in what `predict` does."""
    path = tmp_path / "t.parquet"
    values = {"a": np.arange(500.0), "y": np.arange(500.0) ** 2}
    pq.write_table(pa.table(values), path, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[data.index(np.float64(123.0).tobytes()) + 6] ^= 1
    path.write_bytes(data)
    for reading in (lambda: read_table(str(path), "y"), lambda: list(stream_tables(str(path)))):
        with pytest.raises(TableError, match=r"t\.parquet: cannot be read: .*CRC"):
            reading()
