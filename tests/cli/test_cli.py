"""The command line: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kernelpursuit as kp
from kernelpursuit import __main__

pytest.importorskip("skrub")
pytest.importorskip("skops")

from kernelpursuit.cli import commands, compare, contenders, fitting, reporting, training
from kernelpursuit.cli.tables import Table

ROWS = 90


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command line inside ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(commands.cli, arguments, prog_name="kernelpursuit")


@pytest.fixture
def few_settings(monkeypatch):
    """One setting for each model, and plain pursuit of three terms for the refined one: nothing said depends on it."""
    monkeypatch.setattr(contenders, "WIDTHS", (1 / 4,))
    for name in ("PENALTIES_SVM", "PENALTIES_RIDGE", "PENALTIES_KMP"):
        monkeypatch.setattr(contenders, name, [0.1])
    for name, make in {"RefinedKMPRegressor": kp.KMPRegressor, "RefinedKMPClassifier": kp.KMPClassifier}.items():
        quick = type("Quick", (make,), {"centers_": property(lambda self: self.support_vectors_)})
        monkeypatch.setattr(contenders, name, lambda n=3, quick=quick, **options: quick(3, **options))


def start(code_or_module: list[str], **options) -> subprocess.Popen[str]:
    """Start another interpreter that finds the package where this one found it."""
    home = str(Path(__main__.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": home}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *code_or_module], env=environment, **pipes, **options)


def sample(task: str) -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    target = pa.array(1000 * y) if task == "regression" else pa.array(["low" if v < 0.5 else "high" for v in y])
    return pa.table({"a": X[:, 0], "b": X[:, 1], "kind": [f"k{i % 3}" for i in range(ROWS)], "y": target})


LINES = "".join(["a,b,y\n", *(f"{i},{i % 5},{i / 2}\n" for i in range(30))])


def check_refusal(result, *fragments: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("kernelpursuit: ") and result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n") and "Traceback" not in result.stderr
    for fragment in fragments:
        assert fragment in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.csv", "--target", "z"], ["t.csv: column 'z': no such column", "'a', 'b', 'y'"]),
        (["t.csv", "--target", "y\nz"], ["t.csv: column 'y\\nz'"]),
        (["t.csv"], ["t.csv: name the column to predict with --target", "'a', 'b', 'y'"]),
        (["--target", "y"], ["need a TABLE"]),
        (["words.csv", "--target", "y", "--task", "regression"], ["words.csv: line 2, column 'y'", "not 'high'"]),
        (["none.csv", "--target", "y"], ["none.csv: no such file"]),
        (["https://example.com/t.csv", "--target", "y"], ["no such file"]),
        (["two\nlines.csv", "--target", "y"], ["two\\nlines.csv: no such file"]),
        (["folder", "--target", "y"], ["folder: is a directory"]),
        (["pipe", "--target", "y"], ["pipe: not a plain file"]),
        (["t.parquet", "--target", "y"], ["t.parquet: neither a Parquet file"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_table_that_cannot_be_used_gives_one_line(run, arguments, words):
    """All that may be wrong with what a file holds is in test_tables.py."""
    Path("t.csv").write_text(LINES)
    Path("t.parquet").write_text(LINES)
    Path("words.csv").write_text(LINES.replace(",0.0", ",high"))
    Path("folder").mkdir()
    os.mkfifo("pipe")
    check_refusal(run("compare", *arguments), *words)


def test_pyarrow_missing(run, monkeypatch):
    Path("t.csv").write_text(LINES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_refusal(run("compare", "t.csv", "--target", "y"), "install kernelpursuit with its extra 'cli'")


def raising(error):
    def function(*_, **__):
        raise error

    return function


def test_out_of_memory(run, monkeypatch):
    monkeypatch.setattr(compare, "run_comparison", raising(MemoryError))
    check_refusal(run("compare"), "out of memory")


def test_interruption(run, monkeypatch, capsys):
    monkeypatch.setattr(compare, "run_comparison", raising(KeyboardInterrupt))
    result = run("compare")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "kernelpursuit: interrupted\n")
    monkeypatch.setattr(commands, "cli", raising(KeyboardInterrupt))  # outside any command
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "kernelpursuit: interrupted\n"


def test_click_missing():
    code = "import sys; sys.modules['click'] = None; from kernelpursuit.__main__ import main; main()"
    with start(["-c", code]) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == ""
    assert err == "kernelpursuit: the command line needs click: install kernelpursuit with its extra 'cli'\n"


@pytest.mark.parametrize("command", ["compare", "fit", "predict", "describe", "report"])
def test_help_and_version_need_nothing_heavy(command):
    """Nothing that takes long to import: each answers in a fraction of the half second that it may take."""
    heavy = "{'numpy', 'scipy', 'sklearn', 'pyarrow', 'pandas', 'skrub', 'skops', 'safetensors', 'rich', 'jinja2'}"
    code = (
        "import sys; from kernelpursuit.cli.commands import cli;"
        "cli(['--version'], 'kernelpursuit', standalone_mode=False);"
        f"cli(['{command}', '--help'], 'kernelpursuit', standalone_mode=False);"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    with start(["-c", code]) as process:
        out, err = process.communicate(timeout=60)
    assert err == "" and out.startswith(f"kernelpursuit {kp.__version__}\n") and "Usage: kernelpursuit" in out
    assert out.endswith("\n[]\n")


def test_reader_of_the_output_has_gone(tmp_path):
    pq.write_table(sample("regression"), tmp_path / "t.parquet")
    with start(["-m", "kernelpursuit", "compare", "t.parquet", "--target", "y"], cwd=tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode != 0


def model_lines(text: str) -> dict[str, list[str]]:
    """Map the name of a model to the rest of its line."""
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("model "))
    end = next(i for i in range(header + 1, len(lines)) if lines[i].startswith("In words"))
    return {line[:22].strip(): line[22:].split() for line in lines[header + 1 : end]}


@pytest.mark.usefixtures("few_settings")
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_comparison_of_a_table(run, task):
    pq.write_table(sample(task), "t.parquet")
    result = run("compare", "t.parquet", "--target", "y", "--repeats", "2")
    assert result.exit_code == 0 and result.stderr == "", result.output
    assert result.stdout.startswith(f"t.parquet: {task} of 'y', 90 rows, 3 columns (2 numbers, 1 text).\n")
    assert "2 random splits" in result.stdout and "this takes about" in result.stdout
    lines = model_lines(result.stdout)
    assert next(iter(lines)) == "chance (no inputs)" and list(lines)[-1] == "HistGradientBoosting"
    assert lines["KernelRidge"][2] == "63"  # terms, after the error and its spread
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if line[:22].strip() in lines)
    errors = {name: float(words[0].replace(",", "")) for name, words in lines.items()}
    assert errors["KMP, 30"] < errors["chance (no inputs)"]
    if task == "regression":  # in the units of the target
        spread = np.std(sample(task)["y"].to_numpy())
        assert 0.8 * spread < errors["chance (no inputs)"] < 1.3 * spread
    for words in ("has not seen", "of the terms", "HistGradientBoosting (", "always naming"):
        assert words in result.stdout
    assert "log loss" not in result.stdout  # neither a column nor a word about one


@pytest.mark.usefixtures("few_settings")
def test_comparison_as_json(run):
    table = sample("classification")
    rare = pa.array(["rare" if i % 9 == 0 else "common" for i in range(ROWS)])
    pq.write_table(table.set_column(3, "y", rare), "t.parquet")
    texts = [run("compare", "t.parquet", "--target", "y", "--repeats", "1", "--json", "--seed", seed) for seed in "12"]
    first, other = (json.loads(result.stdout) for result in texts)
    assert [model["errors"] for model in first["models"]] != [model["errors"] for model in other["models"]]
    chance = first["models"][0]
    assert chance["family"] == "chance" and chance["AUC"] == chance["balanced accuracy"] == 0.5
    _, *kernels, boosting = first["models"]
    whole, encoded = ("fit_seconds", "predict_us"), ("encoded_fit_seconds", "encoded_predict_us")
    ways = [tuple(model[w] - model[e] for w, e in zip(whole, encoded, strict=True)) for model in kernels]
    assert all(way == pytest.approx(ways[0]) and min(way) > 0 for way in ways)  # the same encoding for all of them
    assert all(boosting[w] > boosting[e] > 0 for w, e in zip(whole, encoded, strict=True))
    assert first["rows"] == ROWS and first["conclusion"].startswith("In words")
    text = run("compare", "t.parquet", "--target", "y", "--repeats", "1").stdout
    assert "log loss" in next(line for line in text.splitlines() if line.startswith("model "))
    assert "Log loss judges" in text and all(len(line) <= 80 for line in text.splitlines()[4:16])


@pytest.mark.usefixtures("few_settings")
def test_rows_are_drawn_from_a_large_table(run):
    rows = [f"{np.sin(i)},{i % 7},{'rare' if i < 6 else 'ab'[i % 2]}" for i in range(400)]
    Path("t.csv").write_text("\n".join(["a,b,y", *rows]))
    result = run("compare", "t.csv", "--target", "y", "--max-rows", "100", "--repeats", "1", "--json")
    assert result.exit_code == 0 and result.stderr == ""
    found = json.loads(result.stdout)
    # 5 of the rare class, 98 of the others: 197 of 400 rows each, cut to a quarter.
    assert "Used 103 of 400 rows, drawn at random, at least 5 of each class (--max-rows)." in found["notes"]
    assert found["rows"] == 103


def test_rows_drawn_keep_inputs_and_target_together():
    y = np.arange(1000.0)
    drawn, _ = training.draw_rows(
        Table("p", pd.DataFrame({"a": y}), y, "y", "regression", {"a": "number"}), 100, seed=0
    )
    assert len(np.unique(drawn.y)) == 100
    np.testing.assert_array_equal(drawn.frame["a"], drawn.y)


def test_the_data_that_come_with_scikit_learn():
    tables = compare.shipped_tables()
    assert [table.task for table in tables] == ["regression", "classification"]
    assert all(len(table.y) == len(table.frame) and list(table.frame.columns) == list(table.kinds) for table in tables)


def record(family: str, wrong: int, terms: float | None, microseconds: float = 1.0, **scores) -> reporting.ModelSummary:
    losses = np.zeros(1000)
    losses[:wrong] = 1.0
    times = (0.1, microseconds, 0.1, 1.0)
    return reporting.ModelSummary(family, family, [wrong / 1000], [losses], scores, {}, [], terms, *times)


@pytest.mark.parametrize(
    ("ours", "exact", "fragments"),
    [
        ((20, 30, 1.0), (20, 611, 9.0), ["wrong in 2.0%", "same accuracy, with a twentieth of the terms (30 for 611)"]),
        ((20, 30, 1.0), (20, 611, 9.0), ["9.0 times faster", "as accurate as HistGradientBoosting (2.0%)"]),
        ((90, 300, 18.0), (20, 611, 9.0), ["less accurate, with half of", "2.0 times slower", "less accurate than"]),
        ((0, 700, 9.0), (20, 650, 9.0), ["more accurate, with as many terms", "takes as long", "more accurate than"]),
    ],
)
def test_conclusion_says_what_the_table_says(ours, exact, fragments):
    records = [
        record("chance", 500, None),
        record("refined auto", *ours),
        record("exact", 500, 3),
        record("exact", *exact),
        record("boosting", 20, None),
    ]
    sentence = " ".join(reporting.conclusion(records, "classification"))
    for fragment in fragments:
        assert fragment in sentence


def test_speed_is_what_a_user_gets():
    """Once the encoding of the table was in the time of boosting alone: "1.4 against 304.8 microseconds"."""
    ours, exact = (record(family, 20, 30, 300.0)._replace(encoded_predict_us=us) for family, us in
                   (("refined auto", 1.0), ("exact", 9.0)))  # fmt: skip
    records = [record("chance", 500, None), ours, exact, record("boosting", 20, None)]
    assert "a prediction from a row of the table takes as long" in " ".join(
        reporting.conclusion(records, "classification")
    )


def test_no_claim_is_made_for_a_model_that_learned_nothing():
    """Once: "Gained terms: KMP with 0 terms has error 0.4444, SVC needs 14"."""
    nothing = {"AUC": 0.51, "AUC noise": 0.05}
    records = [record("chance", 160, None), record("refined auto", 160, 0, **nothing), record("exact", 160, 14)]
    records.append(record("boosting", 150, None))
    words = reporting.conclusion(records, "classification")
    assert "no better than chance" in words[-1] and "terms (" not in " ".join(words)
    ranks = record("refined auto", 160, 5, **{"AUC": 0.8, "AUC noise": 0.05})  # wrong as often, but it ranks the rows
    assert "no better" not in " ".join(reporting.conclusion([records[0], ranks, *records[2:]], "classification"))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A regression and a classification, with gaps, texts and dates, fitted by the command line."""
    folder = tmp_path_factory.mktemp("models")
    for task in ("regression", "classification"):
        table = sample(task)
        gaps = pa.array([None if i % 11 == 0 else v for i, v in enumerate(table["b"].to_pylist())])
        when = pa.array(np.arange(ROWS) * 86_400, pa.timestamp("s"))
        table = table.set_column(1, "b", gaps).append_column("when", when)
        pq.write_table(table, folder / f"{task}.parquet")
        command = f"fit {folder}/{task}.parquet --target y --n-atoms 4 --out {folder}/{task}.model"
        with pytest.MonkeyPatch.context() as patch:  # short climbs: nothing said depends on them
            for make in (kp.RefinedKMPRegressor, kp.RefinedKMPClassifier):
                patch.setattr(training, make.__name__, partial(make, epochs=3))
            result = CliRunner().invoke(commands.cli, command.split())
        assert result.exit_code == 0 and result.stderr == "", result.output
        (folder / f"{task}.txt").write_text(result.stdout)
    return folder


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_what_is_said_of_a_model(models, task, run):
    """By `fit`, and by `describe`."""
    fitted, described = (models / f"{task}.txt").read_text(), run("describe", str(models / f"{task}.model"))
    for words in (
        "90 rows, 4 columns (2 numbers, 1 text, 1 date)", "18 are held out", "This takes about", "95 % confidence",
        "Always naming", "with 4 terms", "The best of its peers",
    ):  # fmt: skip
        assert words in fitted
    assert fitted.count("Wrote") == 1
    assert described.exit_code == 0 and described.stderr == ""
    kinds = ("b (number)", "when (date)", "kind (text)")
    for words in (f"{task.capitalize()} of 'y'", "4 terms", *kinds, "confidence"):
        assert words in described.stdout


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_predictions_are_those_of_python(models, task, run):
    model = kp.load(models / f"{task}.model")
    table = pq.read_table(models / f"{task}.parquet")
    expected = model.predict(table)
    pq.write_table(table.drop_columns(["y"]), "new.parquet")
    more = ["--intervals", "0.8"] if task == "regression" else ["--probabilities"]
    result = run("predict", str(models / f"{task}.model"), "new.parquet", *more)
    assert result.exit_code == 0 and result.stderr == ""
    printed = pd.read_csv(io.StringIO(result.stdout))
    assert len(printed) == ROWS
    run("predict", str(models / f"{task}.model"), "new.parquet", *more, "--out", "p.parquet")
    written = pq.read_table("p.parquet").to_pandas()
    for found in (printed, written):
        if task == "regression":
            np.testing.assert_allclose(found["y"], expected, rtol=1e-12)
            assert ((found["lower"] < found["y"]) & (found["y"] < found["upper"])).all()
            np.testing.assert_allclose(found[["lower", "upper"]], model.predict_interval(table, 0.8), rtol=1e-12)
        else:
            assert found["y"].tolist() == expected.tolist()
            np.testing.assert_allclose(found[["P(high)", "P(low)"]].sum(axis=1), 1.0)
    pd.testing.assert_frame_equal(printed, written, check_dtype=False)
    for other in (table.to_pandas(), pl.from_arrow(table), table.to_pydict()):
        np.testing.assert_array_equal(model.predict(other), expected)


def test_rows_come_by_standard_input_and_a_bad_one_is_named(models):

    def predict(*lines):
        call = ["predict", str(models / "regression.model"), "-"]
        return CliRunner().invoke(commands.cli, call, input="\n".join(lines))

    rows = ["kind,b,a,when", *[f"k{i},{i / 9},,2024-05-0{i + 1}" for i in range(5)]]
    good = predict(*rows)
    assert good.exit_code == 0 and len(good.stdout.splitlines()) == 6
    assert good.stderr == "kernelpursuit: column 'kind' has 'k3' and 1 other, which the training rows did not have\n"
    bad = predict(*rows, "k1,x,1,2024-05-09")
    check_refusal(bad, "standard input: row 6, column 'b': 'x' is not a number")
    missing = predict("kinds,b,a,when", "k1,1,2,2024-01-01")
    check_refusal(missing, "column 'kind': no such column; did you mean 'kinds'?")
    for header in (["kind,b,a,when"], ["kind,b,a,when", ""]):  # without a line end, and with one
        check_refusal(predict(*header), "no rows of data")


def test_a_hyphen_is_standard_output(models, run):
    model, table = (str(models / f"regression.{end}") for end in ("model", "parquet"))
    printed, same = run("predict", model, table, "--out", "-"), run("predict", model, table)
    assert printed.exit_code == 0 and printed.stdout == same.stdout and printed.stdout.startswith("y\n")
    page = run("report", model, "--out", "-")
    assert page.exit_code == 0 and page.stdout.startswith("<!doctype html>") and "Wrote" not in page.output[-200:]
    run("report", model, "--out", "page.html")
    assert Path("page.html").read_bytes() == page.stdout_bytes
    assert [path.name for path in Path().iterdir()] == ["page.html"]


def test_a_failed_prediction_leaves_no_file(models, run):
    Path("t.csv").write_text("kind,b,a,when\nk1,1,2,2024-01-01\nk1,x,2,2024-01-01\n")
    result = run("predict", str(models / "regression.model"), "t.csv", "--out", "out.csv")
    check_refusal(result, "t.csv: line 3, column")
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


@pytest.mark.parametrize("end", ["csv", "csv.gz"])
def test_a_bad_row_far_down_is_named_by_its_line(models, run, end):
    """Blank lines and line breaks in quotes count, as they do in an editor; a block of pyarrow ends before it."""
    rows = [f"k1,{i / 9},2,2024-01-01T00:00:00.000000" for i in range(20_000)]
    write = gzip.open if end.endswith("gz") else open

    def refused(last, words):
        with write(f"t.{end}", "wb") as file:
            file.write("\n".join(["kind,b,a,when", *rows, "", '"k', '1",1,2,2024-01-01', last]).encode())
        check_refusal(run("predict", str(models / "regression.model"), f"t.{end}", "--out", "o"), f"t.{end}: {words}")

    refused("k1,x,2,2024-01-01", "line 20005, column 'b': 'x' is not a number")
    refused("k1,1,2", "line 20005: 3 fields where the header has 4")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("predict {r} {t} --probabilities", "are for classes"),
        ("predict {c} {t} --intervals 0.9", "are for a regression"),
        ("predict {r} {t} --intervals 0.99", "--intervals must be above 0 and at most 0.947, as 18 rows were held out"),
        ("predict {r} {t} --intervals nan", "--intervals must be above 0 and at most"),
        ("predict nothing.model {t}", "nothing.model: cannot be read: No such file"),
        ("describe {t}", "model file"),
        ("fit {t} --target y --n-atoms 0 --out m", "--n-atoms 0: must be a whole number"),
        ("report {r} --target y --out p", "is a model"),
        ("fit {t} --target y --out -", "--out must be a file"),
        *(
            (f"{command} --out {out}", f"--out {out}: {words}")
            for command in ("predict {r} {t}", "fit {t} --target y", "report {r}")
            for out, words in (
                ("no/file", "there is no folder 'no'"),
                (".", "must be a file, not a folder"),
                ("{folder}/", "must be a file, not a folder"),
                ("''", "must be a file"),
            )
        ),
    ],
)
def test_what_cannot_be_done(models, run, call, words):
    names = {"r": models / "regression.model", "c": models / "classification.model", "t": models / "regression.parquet"}
    call, words = (text.format(**names, folder=models) for text in (call, words))
    check_refusal(run(*shlex.split(call)), words)


def test_a_journal_in_no_folder(models, run):
    asked = run("fit", str(models / "regression.parquet"), "--target", "y", "--out", "m", "--resume", "no/file")
    assert asked.exit_code == 2 and "--resume 'no/file': there is no folder 'no'" in asked.stderr


def test_only_models_of_tables_are_described(tmp_path, run):
    kp.save(kp.KMPRegressor(n_atoms=2).fit(np.eye(5), np.arange(5.0)), "other.model")
    check_refusal(run("describe", "other.model"), "holds a KMPRegressor")
    assert not fitting.is_model("other.model")


@pytest.mark.parametrize("command", ["fit --n-atoms 3 --out m", "compare --repeats 1"])
@pytest.mark.usefixtures("few_settings")
def test_far_numbers_are_said_in_a_line_without_a_warning(run, monkeypatch, command):
    """Warnings name columns as they are encoded, which the table has not, at a line of click."""
    monkeypatch.setattr(training, "RefinedKMPRegressor", partial(kp.RefinedKMPRegressor, epochs=1))
    table = sample("regression").to_pandas()
    table.loc[8, "a"] = -9999
    table.to_csv("t.csv", index=False)
    name, *options = command.split()
    result = run(name, "t.csv", "--target", "y", *options)
    assert result.exit_code == 0, result.output
    assert result.stderr == "" and result.stdout.count("-9999 in line 10") == 1
