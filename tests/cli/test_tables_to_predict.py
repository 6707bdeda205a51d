"""What a model of a table says to rows that are none, to columns that are there twice, and to no rows."""

import gzip

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("skrub")
pytest.importorskip("skops")
CliRunner = pytest.importorskip("click.testing").CliRunner

from sklearn.compose import ColumnTransformer  # noqa: E402

from kernelpursuit import RefinedKMPRegressor, save  # noqa: E402
from kernelpursuit.cli.commands import cli  # noqa: E402
from kernelpursuit.cli.model import TableModel  # noqa: E402

ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.fixture(scope="module")
def model():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    encoder = ColumnTransformer([("numbers", "passthrough", ["a", "b"])]).fit(X)
    estimator = RefinedKMPRegressor(2, epochs=1, random_state=0).fit(encoder.transform(X), X["a"])
    kinds = {"a": "number", "b": "number"}
    return TableModel(encoder, estimator, "y", "regression", kinds, np.arange(3.0), {})


def with_columns(names):
    return pd.DataFrame(ROWS, columns=names)


@pytest.mark.parametrize(
    "rows",
    [np.zeros((3, 2)), [[1.0, 2.0]], pd.Series([1.0, 2.0], ["a", "b"]), None],
    ids=["array", "list", "row", "None"],
)
@pytest.mark.parametrize("method", ["predict", "predict_interval"])
def test_rows_that_are_no_table(model, method, rows):
    message = rf"a table with the columns 'a', 'b': .*DataFrame.*; got {type(rows).__name__}"
    with pytest.raises(TypeError, match=message):
        getattr(model, method)(rows)


def test_a_needed_column_twice(model):
    twice = r"table: column 'a': 2 columns have this name"
    arrow = pa.table([pa.array([1.0])] * 3, names=["a", "b", "a"])
    for table in (with_columns(["a", "b", "a"]), arrow):
        with pytest.raises(ValueError, match=twice):
            model.predict(table)


def test_another_column_twice_is_no_matter(model):
    frame = with_columns(["a", "b", "c"])
    frame["d"] = frame["c"]
    expected = model.predict(frame)
    frame.columns = ["a", "b", "c", "c"]
    np.testing.assert_array_equal(model.predict(frame), expected)
    arrow = pa.table([pa.array(frame.iloc[:, i]) for i in range(4)], names=list(frame.columns))
    np.testing.assert_array_equal(model.predict(arrow), expected)


def test_no_rows(model):
    frame = with_columns(["a", "b", "c"])
    for table in (frame.head(0), pa.Table.from_pandas(frame.head(0)), {"a": [], "b": []}):
        with pytest.raises(ValueError, match=r"table: no rows of data: 0 sample\(s\)"):
            model.predict(table)


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet", "standard input"])
def test_the_command_says_which_column_is_there_twice(model, kind, tmp_path):
    save(model, tmp_path / "m")
    text, path = b"a,b,a\n1,2,3\n", tmp_path / "rows"
    if kind == "parquet":
        pq.write_table(pa.table([pa.array([1.0])] * 3, names=["a", "b", "a"]), path)
    else:
        path.write_bytes(gzip.compress(text) if kind == "gzip" else text)
    where = "-" if kind == "standard input" else str(path)
    out = tmp_path / "predicted"
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "m"), where, "--out", str(out)], input=text)
    assert result.exit_code == 2 and "column 'a': 2 columns have this name" in result.stderr
    assert "Traceback" not in result.stderr and not out.exists()


def test_the_command_does_not_mind_another_column_twice(model, tmp_path):
    save(model, tmp_path / "m")
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "m"), "-"], input="c,a,b,c\n1,2,3,4\n")
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == 2
