"""What `fit` takes for a number, a date or a time in a table `predict` takes for the same."""

from contextlib import nullcontext

import numpy as np
import pytest

from kernelpursuit import RefinedKMPRegressor
from kernelpursuit.cli import cells, predicting
from kernelpursuit.cli.encoding import encode, make_encoder
from kernelpursuit.cli.model import TableModel
from kernelpursuit.cli.sources import Source, TableError, stream_tables
from kernelpursuit.cli.tables import conform, read_table

pytest.importorskip("skrub")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

ROWS = 40
WHEN = pd.date_range("2019-01-01 03:17:05.25", periods=ROWS, freq="13D7h11min")


def spelled(*forms):
    """The same instants in several forms, by turns."""
    return [when.strftime(forms[i % len(forms)]) for i, when in enumerate(WHEN)]


SPELLINGS = {
    "day": ("date", spelled("%Y-%m-%d")),
    "day and time": ("date", spelled("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d")),
    "fractions": ("date", spelled("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")),
    "nanoseconds": ("date", spelled("%Y-%m-%dT%H:%M:%S.%f123")),
    "spaces": ("date", spelled(" %Y-%m-%d ")),
    "spaces and time": ("date", spelled(" %Y-%m-%d %H:%M:%S")),
    "UTC": ("zoned date", spelled("%Y-%m-%dT%H:%M:%SZ")),
    "fractions of UTC": ("zoned date", spelled("%Y-%m-%dT%H:%M:%S.%fZ")),
    "offset": ("zoned date", spelled("%Y-%m-%dT%H:%M:%S+02:00", "%Y-%m-%d %H:%M:%S+0200")),
    "several zones": ("zoned date", spelled("%Y-%m-%dT%H:%M:%S-01:30", "%Y-%m-%dT%H:%M:%SZ")),
    "zone or none": ("zoned date", spelled("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S")),
    "zone apart": ("zoned date", spelled("%Y-%m-%d %H:%M:%S +0200", "%Y-%m-%d %H:%M:%S UTC")),
    "time": ("time", spelled("%H:%M")),
    "seconds": ("time", spelled("%H:%M:%S", " %H:%M:%S ")),
    "fractions of seconds": ("time", spelled("%H:%M:%S.%f")),
    "hexadecimal": ("number", [hex(19 * i) for i in range(ROWS)]),
    "leading zeros": ("text", [f"{7 * i:05}" for i in range(ROWS)]),
    "leading zeros of decimals": ("number", [f"{7 * i:05}.5" for i in range(ROWS)]),
    "signs and spaces": ("number", [f" {i - 7:+} " for i in range(ROWS)]),
    "exponents": ("number", [f"{i}E-3" for i in range(ROWS)]),
    "true": ("number", ["True" if i % 3 else "false" for i in range(ROWS)]),
    "one or true": ("number", ["1" if i % 3 else "FALSE" for i in range(ROWS)]),
    "yes": ("text", ["yes" if i % 3 else "no" for i in range(ROWS)]),
    "codes": ("text", [f"0{i % 7}" if i % 3 else "A1" for i in range(ROWS)]),
    "slashes": ("text", spelled("%Y/%m/%d")),
    "words": ("text", spelled("%d %b %Y")),
}


def table_of(texts, name="table.csv"):
    lines = [f"{text};{i + 0.5}" for i, text in enumerate(texts)]
    with open(name, "w") as file:
        file.write("\n".join(["x;y", *lines]))
    return name


def one_row(part, row):
    return Source(part.path, part.columns.slice(row, 1), part.place)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_new_rows_are_read_as_the_training_rows(spelling):
    kind, texts = SPELLINGS[spelling]
    table = read_table(table_of(["", *texts]), "y")
    assert table.kinds == {"x": kind}
    encoder = make_encoder(table.kinds)
    learned = encode(encoder, table.frame, fit=True)
    assert len(np.unique(learned, axis=0)) > 1
    (part,) = stream_tables("table.csv")
    np.testing.assert_array_equal(encode(encoder, conform(part, table.kinds)), learned)
    for row in (0, ROWS):  # what stands beside a cell does not change how it is read
        np.testing.assert_array_equal(encode(encoder, conform(one_row(part, row), table.kinds)), learned[row : row + 1])


@pytest.mark.parametrize("spelling", [name for name, (kind, _) in SPELLINGS.items() if "date" in kind])
def test_dates_are_instants_whatever_their_zone(spelling):
    """The oracle is pandas, a cell at a time."""
    texts = SPELLINGS[spelling][1]
    expected = [pd.Timestamp(text.strip()) for text in texts]
    expected = [one.tz_convert("UTC").tz_localize(None) if one.tz else one for one in expected]
    found = read_table(table_of(texts), "y").frame["x"]
    np.testing.assert_array_equal(found.to_numpy(), pd.Series(expected).dt.as_unit("us").to_numpy())
    parquet = pa.table({"x": pd.Series(expected).dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata")})
    same = conform(Source("t", parquet, str), {"x": "zoned date"})["x"]
    np.testing.assert_array_equal(same.to_numpy().astype("datetime64[us]"), found.to_numpy())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_seconds_whatever_their_unit(unit):
    expected = [3600.0 * 5 + i for i in range(3)]
    whole = [int(t * {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]) for t in expected]
    day = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    for column in (pa.array(whole, pa.duration(unit)), pa.array(whole, day)):
        assert conform(Source("t", pa.table({"x": column}), str), {"x": "time"})["x"].tolist() == expected
    assert cells.times(pa.array(["05:00", "05:00:01", " 05:00:02.0"])).to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        *[("date", "2019-13-01"), ("date", "2019-01-01Z"), ("zoned date", "12:30"), ("time", "12"), ("time", "25:00")],
        *[("number", "12:30"), ("number", "1,000"), ("number", "yes"), ("number", "0x")],
    ],
)
def test_the_first_cell_that_is_none_is_named(kind, bad):
    good = {"date": "2019-01-01", "zoned date": "2019-01-01T00:00Z", "time": "12:30", "number": "1"}[kind]
    for row in (0, 1, 6, 9):
        texts = [None, *[good] * 9, bad]
        texts[row] = bad
        source = Source("t", pa.table({"x": texts}), lambda row: f"row {row}")
        with pytest.raises(TableError, match=f"row {row}, column 'x': '{bad}' is not a"):
            conform(source, {"x": kind})


@pytest.mark.parametrize("make", ["string", "large_string", "string_view", "dictionary"])
def test_texts_of_any_type_are_read(make):
    texts = pa.array(["2019-01-01T02:00:00+02:00", None, "2019-01-01"])
    texts = texts.dictionary_encode() if make == "dictionary" else texts.cast(getattr(pa, make)())
    found = conform(Source("t", pa.table({"x": texts}), str), {"x": "date"})["x"]
    assert found[0] == found[2] == pd.Timestamp("2019-01-01") and found.isna().tolist() == [False, True, False]


def model_of(texts):
    table = read_table(table_of(texts), "y")
    encoder = make_encoder(table.kinds)
    estimator = RefinedKMPRegressor(2, epochs=1, random_state=0).fit(encode(encoder, table.frame, fit=True), table.y)
    return TableModel(encoder, estimator, "y", "regression", table.kinds, np.arange(3.0), {})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("trained", "new", "words"),
    [
        ("day and time", "offset", "dates with a time zone, unlike the training rows; read as UTC"),
        ("offset", "day and time", "dates without a time zone, unlike the training rows; read as UTC"),
        ("UTC", "zone or none", "dates without a time zone"),
        ("slashes", "day", "'2019-01-01' and 39 other texts, unlike the dates of the training rows; taken as missing"),
        ("slashes", "slashes", None),
        ("day", "fractions", None),
        ("UTC", "several zones", None),
    ],
)
def test_what_may_be_meant_otherwise_is_said(trained, new, words):
    model = model_of(SPELLINGS[trained][1])
    frame = pd.DataFrame({"x": SPELLINGS[new][1]})
    (part,) = stream_tables(table_of(SPELLINGS[new][1]))
    told = set()  # what was said of one part of the rows is not said of the next
    lines = [*predicting.remarks(model, part, told), *predicting.remarks(model, part, told)]
    with nullcontext() if words is None else pytest.warns(UserWarning, match=words):
        model.predict(frame)
    assert len(lines) == (words is not None) and all(words in line for line in lines)


def test_a_table_with_time_zones_says_so():
    said = {"offset": ["with a"], "zone or none": ["with and without a"], "day": []}
    for spelling, words in said.items():
        notes = read_table(table_of(SPELLINGS[spelling][1]), "y").notes
        assert [note for note in notes if "zone" in note] == [f"'x': dates {w} time zone, read as UTC." for w in words]
