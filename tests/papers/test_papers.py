"""The published tables and figures: the machinery, and the smallest setting of each."""

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

import kernelpursuit
import papers
from kernelpursuit import KMPRegressor
from papers import datasets
from papers.__main__ import main
from papers.datasets import find_file
from papers.pages import Page, Verdict, judge, resampled_t_test, table
from papers.tasks import Settings, generator, measure_all, read_records
from tests import stand_ins

ROOT = Path(__file__).parents[2]


@pytest.mark.data
@pytest.mark.parametrize("name", papers.NAMES)
def test_smallest_setting(name, tmp_path, monkeypatch):
    """On the real data where they are, else on random stand-ins."""
    missing = [one for one in papers.find(name).DATA if find_file(one) is None]
    for one, shapes in stand_ins.SMALLER.items():
        if one in missing:
            monkeypatch.setitem(datasets._SETS, one, (shapes, ""))
    for one in missing:
        stand_ins.write(one, tmp_path)
    options = {"quick": True, "out": tmp_path, "jobs": 1, "data_dir": str(tmp_path) if missing else None}
    page = papers.reproduce(name, **options)
    text = page.read_text()
    assert text.startswith(f"# {papers.find(name).TITLE}\n")
    assert f"`make reproduce NAME={name} QUICK=1`" in text and "A quick run" in text
    for part in ("## Verdicts", "## Protocol", "Guessed, or done differently:\n\n- ", "As in the paper:\n\n- "):
        assert part in text
    assert "**holds**" in text or "**does not hold**" in text or "**cannot be told**" in text
    assert "nan" not in text.replace("nant", "").replace("banana", "").lower()
    for picture in tmp_path.glob("*.png"):
        assert picture.name in text and picture.stat().st_size > 5000
    records = [json.loads(line) for line in (tmp_path / f"{name}-quick.jsonl").read_text().splitlines()]
    assert all(entry["task"] and entry["record"]["seconds"] >= 0 for entry in records)
    # Everything is kept: the same command measures nothing and writes the same page. One picture is enough.
    monkeypatch.setattr(Figure, "savefig", lambda *args, **kwargs: None)
    again = papers.reproduce(name, **options)
    assert again.read_text() == text
    assert len((tmp_path / f"{name}-quick.jsonl").read_text().splitlines()) == len(records)


CALLS = []


def measure(task, data_dir):
    CALLS.append(task["split"])
    if task.get("fails"):
        raise KeyboardInterrupt
    return {"value": float(generator(task, "set", "split").normal())}


def tasks(*splits):
    return [{"set": "toy", "split": split, "quick": True} for split in splits]


@pytest.fixture
def settings(tmp_path):
    CALLS.clear()
    return Settings("toy", out=tmp_path / "new" / "folder", jobs=1)


def test_finished_tasks_are_not_run_again(settings, capsys):
    first = measure_all(tasks(0, 1), measure, settings)
    assert CALLS == [0, 1]
    both = measure_all(tasks(1, 2, 0), measure, settings)
    assert CALLS == [0, 1, 2]
    assert [record["split"] for record in both] == [1, 2, 0] and [both[2], both[0]] == first
    assert "2 of 3 tasks are finished from before" in capsys.readouterr().err
    measure_all([{"set": "toy", "split": 0, "quick": False}], measure, settings)
    assert CALLS == [0, 1, 2, 0], "another setting is another task"


def test_an_interruption_loses_nothing_and_a_torn_line_is_dropped(settings):
    with pytest.raises(KeyboardInterrupt):
        measure_all([*tasks(0, 1), {"set": "toy", "split": 2, "fails": True}], measure, settings)
    file = settings.file(".jsonl")
    kept = file.read_text()
    assert len(kept.splitlines()) >= 1
    file.write_text(kept + '{"task": {"set": "toy", "spl')
    CALLS.clear()
    assert len(measure_all(tasks(0, 1, 3), measure, settings)) == 3
    assert 0 not in CALLS and 3 in CALLS
    assert all(json.loads(line) for line in file.read_text().splitlines())


KEY = b'{"set": "toy", "split": 2, "quick": true}'
STRANGE = [b"[]", b"3", b'{"task": 1}', b'{"task": %b, "record": 0}' % KEY, b'{"task": %b, "record": {}}' % KEY]
STRANGE += [b'{"task": %b, "record": {"seconds": "\xff"}}' % KEY, b"\xff\xfe", b""]


@pytest.mark.parametrize("line", STRANGE)
def test_lines_that_are_no_record_are_dropped_and_said(settings, capsys, line):
    first, file = measure_all(tasks(0, 1), measure, settings), settings.file(".jsonl")
    whole = file.read_bytes()
    file.write_bytes(line + b"\n" + whole)
    assert len(read_records(file)) == 2 and file.read_bytes() != whole, "reading alone changes nothing"
    CALLS.clear()
    assert measure_all(tasks(0, 1), measure, settings) == first
    assert CALLS == [] and file.read_bytes() == whole
    assert f"{file}: 1 lines are no records" in capsys.readouterr().err
    file.write_bytes(whole.rstrip())  # without the last line end
    assert len(measure_all(tasks(0, 1, 2), measure, settings)) == len(read_records(file)) == 3


def interrupted(task, data_dir):
    """A fit that Ctrl-C ends in its third step."""

    def rule(path):
        if len(path) == 3:
            signal.raise_signal(signal.SIGINT)

    X = np.linspace(0, 1, 20)[:, None]
    return {"value": KMPRegressor(10, stop=rule).fit(X, np.sin(9 * X[:, 0])).score(X, X[:, 0])}


def test_an_interrupted_fit_is_no_result(settings):
    with pytest.raises(KeyboardInterrupt):
        measure_all(tasks(0), interrupted, settings)
    assert settings.file(".jsonl").read_text() == ""


def square(task, data_dir):
    return {"value": task["split"] ** 2, "where": data_dir}


def test_worker_processes(tmp_path):
    records = measure_all(tasks(*range(5)), square, Settings("toy", data_dir="there", out=tmp_path, jobs=2))
    assert [record["value"] for record in records] == [0, 1, 4, 9, 16]
    assert {record["where"] for record in records} == {"there"}


def test_progress_bar(settings, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    measure_all(tasks(0, 1), square, settings)
    shown = capsys.readouterr().err
    assert "\rtoy [############............] 1/2  toy 0" in shown
    assert shown.endswith("\n") and shown.count("\n") == 1


def test_random_numbers_depend_on_the_entries_named():
    draws = [generator(task, "set", "split").integers(10**9) for task in (*tasks(0, 1), {"set": "other", "split": 0})]
    assert len(set(draws)) == 3
    assert draws[0] == generator({"set": "toy", "split": 0, "quick": False}, "set", "split").integers(10**9)


def test_quick_runs_have_their_own_files(tmp_path):
    assert Settings("toy", quick=True, out=tmp_path).file(".md") != Settings("toy", out=tmp_path).file(".md")


def test_table_and_verdict():
    assert table(["a", "b"], [["x", 1]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    assert [judge(value) for value in (True, False, None)] == ["holds", "does not hold", "cannot be told"]


def test_resampled_t_test():
    values = np.random.default_rng(0).normal(0.3, 1, 50)
    # With a test part of no size the correction is gone: the ordinary t-test.
    assert resampled_t_test(values, 100, 0) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert resampled_t_test(values, 100, 50) > resampled_t_test(values, 100, 10)
    assert resampled_t_test(np.zeros(5), 2, 1) == 1 and resampled_t_test(np.ones(5), 2, 1) == 0


def test_resampled_t_test_has_its_level():
    """Splits of samples of pure noise: the corrected test rejects about as often as it says, the plain one far more."""
    rng = np.random.default_rng(0)
    corrected, plain = [], []
    for _ in range(300):
        sample = rng.normal(size=60)
        means = [rng.permutation(sample)[:20].mean() for _ in range(30)]
        corrected.append(resampled_t_test(means, 40, 20) < 0.05)
        plain.append(stats.ttest_1samp(means, 0).pvalue < 0.05)
    assert np.mean(corrected) < 0.1 < 0.4 < np.mean(plain)


@pytest.fixture
def add(monkeypatch):
    """Let a module be the only one of the papers."""

    def add_module(name, **attributes):
        module = types.ModuleType(f"papers.{name}")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(papers, "NAMES", (name.replace("_", "-"),))

    return add_module


@pytest.fixture
def toy(add):
    def page(records):
        figure = Figure(layout="constrained")
        figure.subplots().plot([record["value"] for record in records])
        verdicts = [Verdict("squares grow", judge(True), f"{records[-1]['value']}")]
        return Page("A paper", table(["n"], [[3]]), ["all"], ["none"], verdicts, figure, "a line")

    def run(settings):
        return measure_all(tasks(0, 1, 2), square, settings)

    add("toy", TITLE="A toy", DATA=("iris",), page=page, run=run)


@pytest.fixture
def invoke(capsys):
    """Call ``python -m papers`` and return its status and what it printed."""

    def call(*arguments):
        status = main([*map(str, arguments)])
        return status, *capsys.readouterr()

    return call


@pytest.mark.usefixtures("toy")
def test_command(tmp_path, invoke):
    status, out, _ = invoke("toy", "--out", tmp_path / "pages", "--jobs", 1)
    assert status == 0 and "toy.md" in out
    text = (tmp_path / "pages" / "toy.md").read_text()
    assert "# A toy\n\nA paper" in text and "| squares grow | **holds** | 4 |" in text
    assert "`make reproduce NAME=toy`" in text and "![A toy: a line](toy.png)\n\na line" in text and "quick" not in text
    index = (tmp_path / "pages" / "README.md").read_text()
    assert "| [toy](toy.md) | A toy | 1 | 0 | 0 | 0.0 minutes |" in index
    assert invoke("all", "--out", tmp_path / "pages")[0] == 0
    assert invoke("toy", "--quick", "--out", tmp_path / "quick")[0] == 0
    assert not (tmp_path / "quick" / "README.md").exists()
    assert "toy           A toy\n              data: iris" in invoke("list")[1]


@pytest.mark.usefixtures("toy")
def test_command_that_cannot_be_understood(tmp_path, monkeypatch, invoke):
    for arguments, message in (
        (("s9",), "NAME must be one of toy; got 's9'"),
        (("toy", "--jobs", 0), "--jobs must be -1 or at least 1; got 0"),
        (("toy", "--out", __file__), "File exists"),
    ):
        status, out, err = invoke(*arguments)
        assert (status, out) == (2, "") and message in err and err.count("\n") == 1
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = invoke("toy", "--out", tmp_path)
    assert status == 2 and "pip install '.[plot]'" in err
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(papers, "reproduce", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    assert invoke("toy")[::2] == (130, "papers: interrupted; the same command goes on from here\n")


def dry_run(*options):
    """What make would run; not as part of the make that may have started these tests."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", "reproduce", *options]
    return subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True).stdout


def test_make_passes_everything_on():
    """The README's way."""
    made = dry_run("NAME=s2-ida", "QUICK=1", "DATA=my folder", "JOBS=3", "OUT=there")
    assert '-m papers s2-ida --quick --data "my folder" --jobs 3 --out "there"' in made
    assert dry_run().split()[-3:] == ["-m", "papers", "list"]


def test_nothing_of_it_is_installed():
    home = Path(kernelpursuit.__file__).parent
    names = {path.stem for path in home.rglob("*.py")}
    assert not names & {"datasets", "experiments", *(name.replace("-", "_") for name in papers.NAMES)}


def test_missing_data_are_told_before_the_work(tmp_path, monkeypatch, invoke, add):
    add("mg_only", TITLE="", DATA=("mg",), run=lambda settings: pytest.fail("was run"))
    monkeypatch.setenv("KERNELPURSUIT_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    status, _, err = invoke("mg-only", "--data", tmp_path, "--out", tmp_path / "out")
    assert status == 2 and "Put a file mg.npz with the arrays X (1385 x 6), y (1385)" in err
