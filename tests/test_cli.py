"""The command line: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kernelpursuit import __main__, __version__
from kernelpursuit.cli import commands, compare

ROWS = 90


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command line inside ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(commands.cli, arguments, prog_name="kernelpursuit")


@pytest.fixture
def few_settings(monkeypatch):
    """Two settings for each model instead of a dozen or more: what is printed does not depend on how many are tried."""
    monkeypatch.setattr(compare, "WIDTHS", (1 / 4,))
    for name in ("PENALTIES_SVM", "PENALTIES_RIDGE", "PENALTIES_KMP"):
        monkeypatch.setattr(compare, name, [0.1, 1.0])


def start(code_or_module: list[str], **options) -> subprocess.Popen[str]:
    """Start another interpreter that finds the package where this one found it."""
    home = str(Path(__main__.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": home}
    return subprocess.Popen(
        [sys.executable, *code_or_module],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def sample(task: str) -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    target = pa.array(1000 * y) if task == "regression" else pa.array(["low" if v < 0.5 else "high" for v in y])
    return pa.table({"a": X[:, 0], "b": X[:, 1], "kind": [f"k{i % 3}" for i in range(ROWS)], "y": target})


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def good_lines() -> list[str]:
    return ["a,b,y", *[f"{i},{i % 5},{i / 2}" for i in range(30)]]


def with_line(number: int, text: str) -> list[str]:
    lines = good_lines()
    lines[number - 1] = text
    return lines


BAD_CSV = {
    "missing number": (with_line(9, "1,,3"), "y", ["line 9, column 'b': missing value"]),
    "missing target": (with_line(9, "1,2,NA"), "y", ["line 9, column 'y': missing value"]),
    "missing text": (["a,y", *["w,1.5"] * 20, ",2"], "y", ["line 22, column 'a': missing value"]),
    "two missing": (["a,y", "1,2", "NA,3", "NA,4", *["1,2"] * 20], "y", ["line 3, column 'a'", "one of 2"]),
    "unknown target": (good_lines(), "z", ["column 'z': no such column", "'a', 'b', 'y'"]),
    "long row": (with_line(5, "1,2,3,4"), "y", ["line 5: 4 fields where the header has 3"]),
    "short row": (with_line(31, "1,2"), "y", ["line 31: 2 fields where the header has 3"]),
    "header alone": (["a,b,y"], "y", ["no rows of data"]),
    "few rows": (good_lines()[:5], "y", ["4 rows of data; at least 20"]),
    "one class": (["a,y", *[f"{i},yes" for i in range(30)]], "y", ["column 'y': only one class, 'yes'"]),
    "same number": (["a,y", *[f"{i},1.5" for i in range(30)]], "y", ["column 'y'", "same target, 1.5"]),
    "infinite": (with_line(7, "inf,2,3"), "y", ["line 7, column 'a': not a finite number: inf"]),
    "infinite target": (with_line(7, "1,2,-inf"), "y", ["line 7, column 'y': not a finite number: -inf"]),
    "huge": (with_line(7, "1e200,2,3"), "y", ["line 7, column 'a': too large a number"]),
    "single column": (["y", *[str(i / 2) for i in range(30)]], "y", ["no column to predict 'y' from"]),
    "rare class": (
        ["a,y", *[f"{i},{'pq'[i % 2]}" for i in range(30)], "1,r"],
        "y",
        ["line 32, column 'y'", "'r'", "1 row;"],
    ),
    "many classes": (["a,y", *[f"{i},c{i % 101}" for i in range(606)]], "y", ["column 'y': 101 classes"]),
    "same name twice": (["a,a,y", *["1,2,3.5"] * 30], "y", ["column 'a': 2 columns have this name"]),
    "identifiers": (["id,y", *[f"u{i},{i / 2}" for i in range(101)]], "y", ["column 'id': 101 distinct", "--drop"]),
    "dates": (["d,y", *[f"2024-01-{i + 1:02},{i / 2}" for i in range(30)]], "y", ["column 'd'", "dates", "--drop"]),
    "constant inputs": (["a,y", *[f"4,{i / 2}" for i in range(30)]], "y", ["every column but 'y'"]),
    "line break in a name": (['"p\nq",y', *["1,2"] * 30], "y\nz", ["column 'y\\nz'", "'p\\nq'"]),
}


def check_refusal(result, *fragments: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("kernelpursuit: ") and result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n") and "Traceback" not in result.stderr
    for fragment in fragments:
        assert fragment in result.stderr


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_gives_one_line(run, case):
    lines, target, fragments = BAD_CSV[case]
    write_lines(Path("bad.csv"), lines)
    check_refusal(run("compare", "bad.csv", "--target", target), "bad.csv: ", *fragments)


def test_text_target_of_a_regression(run):
    write_lines(Path("bad.csv"), ["a,y", *[f"{i},{i}" for i in range(30)], "1,high"])
    result = run("compare", "bad.csv", "--target", "y", "--task", "regression")
    check_refusal(result, "bad.csv: line 32, column 'y': a regression needs numbers, not 'high'")


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (bytes(range(256)) * 8, "neither a Parquet file nor CSV text"),
        (b"\x89\xfe\xff\x80" * 99, "neither a Parquet file nor UTF-8 text"),
        ("a,y\n1,2\n".encode("utf-16"), "neither a Parquet file nor CSV text"),
        (b"PAR1" + b"junk" * 50 + b"PAR1", "cannot be read"),
        (b"a\xff,y\n1,2\n", "neither a Parquet file nor UTF-8 text"),
    ],
)
def test_files_that_hold_no_table(run, content, fragment):
    Path("bad.csv").write_bytes(content)
    check_refusal(run("compare", "bad.csv", "--target", "y"), "bad.csv: ", fragment)


def test_paths_that_are_no_file(run, tmp_path):
    check_refusal(run("compare", "none.csv", "--target", "y"), "none.csv: no such file")
    check_refusal(run("compare", "https://example.com/t.csv", "--target", "y"), "no such file")
    check_refusal(run("compare", "two\nlines.csv", "--target", "y"), "two\\nlines.csv: no such file")
    check_refusal(run("compare", str(tmp_path), "--target", "y"), f"{tmp_path}: is a directory")
    os.mkfifo("pipe")
    check_refusal(run("compare", "pipe", "--target", "y"), "pipe: not a plain file")
    Path("t.parquet").write_text("a,y\n1,2\n")
    check_refusal(run("compare", "t.parquet", "--target", "y"), "t.parquet: neither a Parquet file")


def parquet_with(column: str, values: list) -> None:
    table = sample("regression")
    pq.write_table(table.set_column(table.column_names.index(column), column, pa.array(values)), "bad.parquet")


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ([1.0, 2.0, None, *[4.0] * (ROWS - 3)], "row 3, column 'a': missing value"),
        ([1.0, float("nan"), *[4.0] * (ROWS - 2)], "row 2, column 'a': not a finite number: nan"),
        ([[1.0]] * ROWS, "column 'a': holds values of type list"),
        ([None] * ROWS, "row 1, column 'a': missing value"),
    ],
)
def test_bad_parquet_names_the_row(run, values, fragment):
    parquet_with("a", values)
    check_refusal(run("compare", "bad.parquet", "--target", "y"), f"bad.parquet: {fragment}")


def test_options_that_do_not_go_together(run):
    write_lines(Path("t.csv"), good_lines())
    check_refusal(run("compare", "t.csv"), "t.csv: name the column to predict with --target", "'a', 'b', 'y'")
    check_refusal(run("compare", "--target", "y"), "need a TABLE")


def test_pyarrow_missing(run, monkeypatch):
    write_lines(Path("t.csv"), good_lines())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_refusal(run("compare", "t.csv", "--target", "y"), "pip install 'kernelpursuit[cli]'")


def test_out_of_memory(run, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(compare, "reports", fail)
    check_refusal(run("compare"), "out of memory")


def test_click_missing():
    code = "import sys; sys.modules['click'] = None; from kernelpursuit.__main__ import main; main()"
    with start(["-c", code]) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == ""
    assert err == "kernelpursuit: the command line needs click: pip install 'kernelpursuit[cli]'\n"


def test_help_and_version_need_nothing_heavy():
    code = (
        "import sys; from kernelpursuit.cli.commands import cli;"
        "cli(['--version'], 'kernelpursuit', standalone_mode=False);"
        "cli(['compare', '--help'], 'kernelpursuit', standalone_mode=False);"
        "print(sorted({'numpy', 'scipy', 'sklearn', 'pyarrow'} & set(sys.modules)))"
    )
    with start(["-c", code]) as process:
        out, err = process.communicate(timeout=60)
    assert err == "" and out.startswith(f"kernelpursuit {__version__}\n") and "--target COLUMN" in out
    assert out.endswith("\n[]\n")


def test_reader_of_the_output_has_gone(tmp_path):
    pq.write_table(sample("regression"), tmp_path / "t.parquet")
    with start(["-m", "kernelpursuit", "compare", "t.parquet", "--target", "y"], cwd=tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode != 0


def test_interruption(run, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "reports", interrupt)
    result = run("compare")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "kernelpursuit: interrupted\n")
    monkeypatch.setattr(commands, "cli", interrupt)  # outside any command
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "kernelpursuit: interrupted\n"


def table_lines(text: str) -> dict[str, list[str]]:
    """Map the name of a model to the rest of its line."""
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("model "))
    end = next(i for i in range(header + 1, len(lines)) if ": KMP with" in lines[i])
    return {line[:30].strip(): line[30:].split() for line in lines[header + 1 : end]}


def check_layout(text: str) -> None:
    for line in text.splitlines():
        if not any(mark in line for mark in (": KMP with", ".csv, ", ".parquet, ")):
            assert len(line) <= 80


def test_shipped_data(run):
    result = run("compare", "--max-rows", "450")  # all of the regression's rows, a quarter of the digits
    assert result.exit_code == 0 and result.stderr == ""
    check_layout(result.stdout)
    regression, classification, footnote = result.stdout.split("\n\n")
    assert "309 rows to train and 133 to test" in regression and "RMSE" in regression
    assert "misclassified" in classification
    for text, machine, linear in [(regression, "SVR", "Ridge"), (classification, "SVC", "RidgeClassifier")]:
        lines = table_lines(text)
        sizes = sorted({10, 30, 100, int(lines["KMP, auto"][1])})
        peers = [machine, "KernelRidge", *[f"Nystroem {n} + {linear}" for n in sizes]]
        assert list(lines) == [*[f"KMP, {n} atoms" for n in (10, 30, 100)], "KMP, auto", *peers]
        assert [lines[f"KMP, {n} atoms"][1] for n in (10, 30)] == ["10", "30"]
        assert all(float(seconds) > 0 and float(us) > 0 for _, _, seconds, us in lines.values())
    assert table_lines(regression)["KernelRidge"][1] == "309"
    assert "without the cross-validation" in footnote


@pytest.mark.usefixtures("few_settings")
def test_table_of_a_regression_is_in_the_units_of_the_target(run):
    pq.write_table(sample("regression"), "t.parquet")
    result = run("compare", "t.parquet", "--target", "y")
    assert result.exit_code == 0 and result.stderr == ""
    check_layout(result.stdout)
    assert result.stdout.startswith("t.parquet, y: regression, 63 rows to train and 27 to test, 5 features\n")
    assert "One-hot encoded: 'kind', 3 values." in result.stdout
    lines = table_lines(result.stdout)
    assert lines["KernelRidge"][1] == lines["Nystroem 63 + Ridge"][1] == "63"  # 100 capped by the training rows
    spread = np.std(sample("regression")["y"].to_numpy())
    assert 0.005 * spread < float(lines["KernelRidge"][0]) < spread


@pytest.mark.usefixtures("few_settings")
def test_seed_decides_the_split(run):
    pq.write_table(sample("classification"), "t.parquet")
    texts = [run("compare", "t.parquet", "--target", "y", "--seed", seed).stdout for seed in ("1", "1", "2")]
    first, again, other = ([line[:2] for line in table_lines(text).values()] for text in texts)
    assert first == again != other


@pytest.mark.usefixtures("few_settings")
def test_rows_are_drawn_from_a_large_table(run):
    lines = [f"{np.sin(i)},{i % 7},{'rare' if i < 6 else 'ab'[i % 2]}" for i in range(400)]
    write_lines(Path("t.csv"), ["a,b,y", *lines])
    result = run("compare", "t.csv", "--target", "y", "--max-rows", "100")
    assert result.exit_code == 0 and result.stderr == ""
    # 5 of the rare class, 98 of the others: 197 of 400 rows each, cut to a quarter.
    assert "Used 103 of 400 rows, drawn at random, at least 5 of each class (--max-rows)." in result.stdout
    assert "72 rows to train and 31 to test" in result.stdout


def test_rows_drawn_keep_inputs_and_target_together():
    y = np.arange(1000.0)
    drawn = compare.draw_rows(compare.Problem("p", y[:, np.newaxis], y, "regression"), 100, seed=0)
    assert len(np.unique(drawn.y)) == 100
    np.testing.assert_array_equal(drawn.X[:, 0], drawn.y)


@pytest.mark.usefixtures("few_settings")
def test_kernel_ridge_votes_for_classes():
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [6, 0], [0, 6]])
    y = np.repeat([5, 7, 9], 30)
    problem = compare.Problem("p", centers[y // 2 - 2] + rng.normal(size=(90, 2)) / 4, y, "classification")
    split = compare.make_split(problem, seed=0)
    assert next(r for r in compare.measure_all(split) if r.model == "KernelRidge").error == 0.0


def record(family: str, error: float, terms: int, microseconds: float, wrong: int) -> compare.Record:
    losses = np.zeros(1000)
    losses[:wrong] = 1.0
    return compare.Record(family, family, error, terms, 0.1, microseconds, losses)


@pytest.mark.parametrize(
    ("pursuit", "sketch", "fragments"),
    [
        (
            (0.02, 30, 1.0, 20),
            (0.05, 30),
            ["Gained terms", "with 30 terms has error 0.0200", "exact needs 611 terms for 0.0200"],
        ),
        ((0.02, 30, 1.0, 20), (0.05, 30), ["9.0 times faster", "; Nystroem with 30 terms: 0.0500"]),
        ((0.02, 30, 18.0, 20), (0.02, 30), ["2.0 times slower", "but Nystroem does as well with 30 terms: 0.0200"]),
        ((0.09, 30, 9.1, 90), (0.05, 30), ["Traded accuracy for terms", "takes as long"]),
        ((0.09, 700, 9.0, 90), (0.05, 100), ["Nothing gained", "Nystroem does as well with 100 terms"]),
        ((0.02, 611, 9.0, 20), (0.05, 611), ["Nothing gained", "; Nystroem with 611 terms: 0.0500"]),
        ((0.0, 611, 9.0, 0), (0.05, 611), ["Gained accuracy"]),
    ],
)
def test_conclusion_says_what_the_table_says(pursuit, sketch, fragments):
    worse_peer = record("exact", 0.5, 3, 1.0, 500)
    records = [
        record("KMP", 0.0, 1, 0.1, 0),  # a size that was not chosen without the test rows speaks last
        record("KMP auto", *pursuit),
        worse_peer,
        record("exact", 0.02, 611, 9.0, 20),
        record("Nystroem", *sketch, 5.0, 0),
    ]
    sentence = compare.conclusion(records, "classification")
    for fragment in fragments:
        assert fragment in sentence
    assert sentence.endswith("; of the sizes above, KMP with 1 term is enough to match exact on these rows.")
    assert "of the sizes" not in compare.conclusion(records[1:], "classification")
