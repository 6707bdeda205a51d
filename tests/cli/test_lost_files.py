"""A full disk or a place that cannot be written: one line that names the place, and what was fitted is kept."""

import os
import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import kernelpursuit
from kernelpursuit import KMPRegressor, RefinedKMPRegressor, load, save
from kernelpursuit.cli import training
from kernelpursuit.cli.commands import cli

pytest.importorskip("skrub")
pytest.importorskip("skops")
FULL = "/dev/full"  # takes no byte
full = pytest.mark.skipif(not Path(FULL).exists(), reason="no device that is full")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table that is fitted at once, and an empty folder for temporary files beside it."""
    peer = {"model": "HistGradientBoosting", "error": 1.0, "terms": None}
    monkeypatch.setattr(training, "peer_errors", lambda *_: [peer])
    monkeypatch.setattr(training, "RefinedKMPRegressor", partial(RefinedKMPRegressor, epochs=2))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    x = np.random.default_rng(0).normal(size=60)
    rows = [f"{a:.6f},{np.sin(2 * a):.6f}" for a in x]
    (tmp_path / "table.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    return tmp_path / "table.csv"


@pytest.fixture
def small_files():
    """No file grows beyond 100 bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refusal(*call):
    result = CliRunner().invoke(cli, [str(part) for part in call])
    assert result.exit_code == 2 and "Traceback" not in result.output, result.output
    assert result.stderr.startswith("kernelpursuit: ") and result.stderr.count("\n") == 1
    return result.stderr


def test_fit_reads_back_what_it_wrote(table, monkeypatch):
    def save_half(model, out):
        save(model, out)
        os.truncate(out, os.path.getsize(out) // 2)

    monkeypatch.setattr("kernelpursuit.cli.fitting.save", save_half)
    said = refusal("fit", table, "--target", "y", "--n-atoms", "3", "--out", table.parent / "half.model")
    assert "the model cannot be read back" in said


@full
@pytest.mark.parametrize("command", ["fit", "report"])
def test_a_model_that_cannot_be_written_is_kept(table, command):
    said = refusal(command, table, "--target", "y", "--n-atoms", "3", "--out", FULL)
    assert f"{FULL}: No space left on device; the model is in " in said
    (kept,) = (table.parent / "tmp").glob("*/*")
    assert f"the model is in {kept}\n" in said
    assert load(kept).predict({"x": [0.1, 0.2]}).shape == (2,)


@full
def test_where_nothing_is_kept_it_is_said_and_the_journal_goes_on(table, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/no/folder")
    journal = table.parent / "journal"
    call = ["fit", table, "--target", "y", "--n-atoms", "3", "--out", FULL]
    assert refusal(*call).endswith("No space left on device; the model could not be kept elsewhere\n")
    assert (
        refusal(*call, "--resume", journal).endswith(f"; the same call goes on from {journal}\n") and journal.exists()
    )


@full
def test_predictions_and_pages_on_a_full_disk(table):
    model = table.parent / "m"
    made = CliRunner().invoke(cli, f"fit {table} --target y --n-atoms 2 --out {model}".split())
    assert made.exit_code == 0, made.output
    for call in (["predict", model, table], ["report", model]):
        assert refusal(*call, "--out", FULL) == f"kernelpursuit: {FULL}: No space left on device\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(kernelpursuit.__file__).parents[1])}
    call = [sys.executable, "-m", "kernelpursuit", "predict", model, table]
    with open(FULL, "wb") as out:
        result = subprocess.run(call, stdout=out, stderr=subprocess.PIPE, text=True, env=environment)
    assert (result.returncode, result.stderr) == (2, "kernelpursuit: standard output: No space left on device\n")


def test_an_error_names_the_place_and_not_what_is_hidden(tmp_path, small_files):
    model = KMPRegressor(n_atoms=2, gamma=1.0).fit(np.eye(5), np.arange(5.0))
    with pytest.raises(OSError, match="File too large") as caught:
        save(model, tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file") and not list(tmp_path.iterdir())


def test_an_unwritable_place_is_named(tmp_path):
    model = KMPRegressor(n_atoms=2, gamma=1.0).fit(np.eye(5), np.arange(5.0))
    with pytest.raises(OSError) as caught:
        save(model, "/proc/file")
    assert caught.value.filename == "/proc/file"
    save(model, tmp_path / ("x" * 250))  # a name so long that a longer one cannot be
    assert re.fullmatch("x+", next(tmp_path.iterdir()).name)
