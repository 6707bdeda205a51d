"""Predictions for tables: their types, columns and files, and what is said to rows that are none."""

import gzip
import io
import os
import threading

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer

from kernelpursuit import RefinedKMPClassifier, RefinedKMPRegressor, load, save

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("skrub")
pytest.importorskip("skops")
CliRunner = pytest.importorskip("click.testing").CliRunner

from kernelpursuit.cli import fitting, training  # noqa: E402
from kernelpursuit.cli.commands import cli  # noqa: E402
from kernelpursuit.cli.model import TableModel  # noqa: E402
from kernelpursuit.cli.sources import TableError  # noqa: E402
from kernelpursuit.cli.tables import read_table  # noqa: E402

ROWS = 60
A = np.random.default_rng(0).normal(size=ROWS)
HIGH = A > 0
WIDE = np.digitize(A, [-0.6, 0.6])  # three classes
CLASSES = {
    "int64": pa.array(HIGH.astype(np.int64)),
    "int8": pa.array((9 * WIDE - 2).astype(np.int8)),  # -2, 7, 16: as texts in another order
    "uint16": pa.array((500 * WIDE).astype(np.uint16)),
    "missing": pa.array([None if i % 7 == 0 else int(high) for i, high in enumerate(HIGH)]),
    "bool": pa.array(HIGH),
    "float": pa.array(WIDE / 2),
    "float32": pa.array((WIDE / 10).astype(np.float32)),
    "whole floats": pa.array(HIGH.astype(float)),
    "categories": pa.array(WIDE).dictionary_encode(),
    "text": pa.array(np.array(["low", "middle", "high"])[WIDE]),
    "digits": pa.array(np.array(["01", "2", "10"])[WIDE]),
}


def model_of(table, make=RefinedKMPClassifier):
    """A model of the column a, as quickly as may be."""
    encoder = ColumnTransformer([("numbers", "passthrough", ["a"])]).fit(table.frame)
    estimator = make(3, epochs=1, random_state=0).fit(encoder.transform(table.frame), table.y)
    return TableModel(
        encoder, estimator, table.target, table.task, table.kinds, np.arange(20.0), {}, labels=table.labels
    )


def read(folder, target, name="y", task=None):
    """The table of a column a and a target, after it was a file."""
    pq.write_table(pa.table({"a": A, name: target}), folder / "t.parquet")
    return read_table(str(folder / "t.parquet"), name, task)


def predicted(folder, model, *options):
    """What the command writes as Parquet, and what it prints."""
    save(model, folder / "m")
    call = ["predict", str(folder / "m"), str(folder / "t.parquet"), *options]
    printed = CliRunner().invoke(cli, call)
    CliRunner().invoke(cli, [*call, "--out", str(folder / "out.parquet")])
    assert printed.exit_code == 0, printed.output
    return pq.read_table(folder / "out.parquet"), printed.stdout


@pytest.mark.parametrize("kind", CLASSES)
def test_classes_have_the_type_of_the_target(kind, tmp_path):
    target = CLASSES[kind]
    table = read(tmp_path, target, task="classification")
    model = model_of(table)
    out, text = predicted(tmp_path, model, "--probabilities")
    plain = target.dictionary_decode() if kind == "categories" else target
    assert out["y"].type == plain.type
    known = [value for value in plain.to_pylist() if value is not None]
    assert set(out["y"].to_pylist()) <= set(known)
    right = np.mean([one == other for one, other in zip(out["y"].to_pylist(), plain.to_pylist(), strict=True)])
    assert right > 0.6  # as what they are; as texts none would be
    for predictor in (model, load(tmp_path / "m")):
        assert predictor.predict({"a": A}).tolist() == out["y"].to_pylist()
        assert sorted(predictor.classes_.tolist()) == sorted(set(known))
        best = predictor.classes_[predictor.predict_proba({"a": A}).argmax(axis=1)]
        assert np.mean(best == predictor.predict({"a": A})) > 0.9
    # As texts they are what pyarrow makes of the column, in names and in CSV.
    names = sorted(set(plain.drop_null().cast(pa.string()).to_pylist()))
    assert out.column_names == ["y", *(f"P({name})" for name in names)]
    lines = text.splitlines()
    assert lines[0] == ",".join(out.column_names)
    words = out["y"].cast(pa.string()).to_pylist()
    assert [line.split(",")[0] for line in lines[1:]] == [f'"{word}"' for word in words]


def test_the_command_fits_whole_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "RefinedKMPClassifier", lambda n, **options: RefinedKMPClassifier(n, epochs=1))
    read(tmp_path, CLASSES["int8"])
    call = f"fit {tmp_path}/t.parquet --target y --n-atoms 3 --out {tmp_path}/m"
    result = CliRunner().invoke(cli, call.split())
    assert result.exit_code == 0, result.output
    model = load(tmp_path / "m")
    found = model.predict({"a": A})
    assert found.dtype == np.int8 and np.mean(found == CLASSES["int8"].to_numpy()) > 0.6
    assert "Classes: -2, 16, 7\n" in CliRunner().invoke(cli, ["describe", str(tmp_path / "m")]).stdout


@pytest.mark.parametrize("kind", ["int64", "bool"])
def test_older_files_give_texts(kind, tmp_path, monkeypatch):
    model = model_of(read(tmp_path, CLASSES[kind]))
    now = model.predict({"a": A})
    state = model.__getstate__()
    del state["labels"]
    monkeypatch.setattr(TableModel, "__getstate__", lambda self: state)
    out, _ = predicted(tmp_path, model, "--probabilities")
    older = load(tmp_path / "m")
    assert out["y"].type == pa.string() and older.classes_.dtype.kind == "U"
    assert older.predict({"a": A}).tolist() == out["y"].to_pylist() == pa.array(now).cast(pa.string()).to_pylist()


@pytest.mark.parametrize("name", ["lower", "upper"])
def test_ends_of_intervals_beside_a_target_of_their_name(name, tmp_path):
    model = model_of(read(tmp_path, pa.array(np.sin(A)), name), RefinedKMPRegressor)
    ends = model.predict_interval({"a": A}, 0.8)
    out, text = predicted(tmp_path, model, "--intervals", "0.8")
    for frame in (out.to_pandas(), pd.read_csv(io.StringIO(text))):
        assert list(frame) == [name, f"{name}_lower", f"{name}_upper"]
        np.testing.assert_allclose(frame, np.column_stack([model.predict({"a": A}), ends]), rtol=1e-12)


def test_probabilities_beside_a_target_of_their_name(tmp_path):
    model = model_of(read(tmp_path, CLASSES["text"], "P(low)"))
    out, _ = predicted(tmp_path, model, "--probabilities")
    assert out.column_names == ["P(low)", *(f"P(low)_P({label})" for label in ("high", "low", "middle"))]
    assert out["P(low)"].to_pylist() == model.predict({"a": A}).tolist()
    np.testing.assert_allclose(out.to_pandas().iloc[:, 1:], model.predict_proba({"a": A}))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model and the table that it was fitted to."""
    folder = tmp_path_factory.mktemp("files")
    save(model_of(read(folder, pa.array(np.sin(A))), RefinedKMPRegressor), folder / "m")
    return folder


def predict(files, out):
    result = CliRunner().invoke(cli, ["predict", str(files / "m"), str(files / "t.parquet"), "--out", str(out)])
    assert result.exit_code == 0 and result.output == ""


def test_predictions_leave_all_other_files_alone(files, tmp_path):
    """Once out.csv.part, what was written first, took the place of a file of that name and went away with it."""
    (tmp_path / "out.csv.part").write_text("mine")
    predict(files, tmp_path / "out.csv")
    assert (tmp_path / "out.csv.part").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "out.csv.part"]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_predictions_go_into_a_pipe(files, tmp_path, name):
    pipe, found = tmp_path / name, []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    predict(files, pipe)
    assert pipe.is_fifo()
    reader.join()
    read = pd.read_csv if name.endswith("csv") else pd.read_parquet
    assert len(read(io.BytesIO(found[0]))) == ROWS


def test_predictions_keep_links_and_permissions(files, tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to("file")
    predict(files, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and len(pd.read_csv(tmp_path / "file")) == ROWS
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_model_that_cannot_be_read_back_is_not_said_to_be_written(tmp_path, monkeypatch):
    model, said = model_of(read(tmp_path, CLASSES["text"])), []
    monkeypatch.setattr("kernelpursuit.saving.limits.LARGEST_SCHEMA", 1000)
    with pytest.raises(TableError, match=r"cannot be read back: .*a header of .*leave out columns .*--drop COLUMN"):
        fitting.write_model(model, str(tmp_path / "out"), said.append)
    assert not said and not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------- rows that are none


@pytest.fixture(scope="module")
def model(files):
    return load(files / "m")


@pytest.mark.parametrize(
    "rows", [np.zeros((3, 1)), [[1.0]], pd.Series([1.0], ["a"]), None], ids=["array", "list", "row", "None"]
)
@pytest.mark.parametrize("method", ["predict", "predict_interval"])
def test_rows_that_are_no_table(model, method, rows):
    message = rf"a table with the columns 'a': .*DataFrame.*; got {type(rows).__name__}"
    with pytest.raises(TypeError, match=message):
        getattr(model, method)(rows)


def both_kinds(names, rows=2):
    """A table of these columns, as pandas and as pyarrow have it."""
    values = np.arange(1.0, 1 + rows * len(names)).reshape(rows, len(names))
    return pd.DataFrame(values, columns=names), pa.table([*map(pa.array, values.T)], names=names)


def test_columns_that_are_there_twice(model):
    """One that is needed is refused, another one is no matter."""
    for table in both_kinds(["a", "b", "a"]):
        with pytest.raises(ValueError, match=r"table: column 'a': 2 columns have this name"):
            model.predict(table)
    expected = model.predict({"a": [1.0, 4.0]})
    for table in both_kinds(["a", "c", "c"]):
        np.testing.assert_array_equal(model.predict(table), expected)


def test_no_rows(model):
    for table in (*both_kinds(["a", "b"], 0), {"a": [], "b": []}):
        with pytest.raises(ValueError, match=r"table: no rows of data: 0 sample\(s\)"):
            model.predict(table)


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet", "standard input"])
def test_the_command_says_which_column_is_there_twice(files, kind, tmp_path):
    text, path, out = b"a,b,a\n1,2,3\n", tmp_path / "rows", tmp_path / "predicted"
    if kind == "parquet":
        pq.write_table(both_kinds(["a", "b", "a"])[1], path)
    else:
        path.write_bytes(gzip.compress(text) if kind == "gzip" else text)
    where = "-" if kind == "standard input" else str(path)
    result = CliRunner().invoke(cli, ["predict", str(files / "m"), where, "--out", str(out)], input=text)
    assert result.exit_code == 2 and "column 'a': 2 columns have this name" in result.stderr
    assert "Traceback" not in result.stderr and not out.exists()


def test_the_command_does_not_mind_another_column_twice(files):
    result = CliRunner().invoke(cli, ["predict", str(files / "m"), "-"], input="c,a,c\n1,2,4\n")
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == 2


# ------------------------------------------------------------------------------------- classes that look like formulas


@pytest.mark.parametrize("out", ["csv", "parquet", "standard output"])
def test_classes_that_a_spreadsheet_would_run_are_said_to_be_some(tmp_path, out):
    """They are written as they are, as another form would be another class."""
    formula = "=cmd|' /C calc'!A0"
    target = pa.array(np.where(HIGH, formula, "-3"))  # a number is none
    save(model_of(read(tmp_path, target)), tmp_path / "m")
    place = tmp_path / f"out.{out}"
    call = ["predict", str(tmp_path / "m"), str(tmp_path / "t.parquet")]
    result = CliRunner().invoke(cli, call if out.startswith("standard") else [*call, "--out", str(place)])
    assert result.exit_code == 0
    if out == "parquet":
        assert result.stderr == ""
        return
    assert result.stderr == (
        f'kernelpursuit: "{formula}" begins as a formula: have a spreadsheet read the predictions as text\n'
    )
    assert formula in (result.stdout if out.startswith("standard") else place.read_text())
