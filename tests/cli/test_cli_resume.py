"""`kernelpursuit fit --resume`: a killed fit goes on with the same call."""

from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from kernelpursuit import RefinedKMPRegressor, load
from kernelpursuit.cli import fitting, training
from kernelpursuit.cli.commands import cli
from kernelpursuit.cli.sources import TableError

pytest.importorskip("skrub")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=60), rng.choice(["red", "blue"], size=60)
    y = np.sin(2 * x) + (colour == "red")
    file = tmp_path_factory.mktemp("tables") / "table.csv"
    rows = [f"{a:.6f},{b},{c:.6f}" for a, b, c in zip(x, colour, y, strict=True)]
    file.write_text("\n".join(["x,colour,y", *rows]) + "\n")
    return file


def command(table, tmp_path, *more):
    out, file = str(tmp_path / "model"), str(tmp_path / "file")
    return CliRunner().invoke(
        cli, ["fit", str(table), "--target", "y", "--n-atoms", "3", "--out", out, "--resume", file, *more]
    )


@pytest.mark.parametrize("late", [False, True])
def test_a_killed_fit_goes_on_and_ends_with_the_same_model(late, table, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "peer_errors", lambda *_: [{"model": "none", "error": 1.0, "terms": None}])
    monkeypatch.setattr(training, "worth_of_columns", lambda *_: [])
    monkeypatch.setattr(training, "RefinedKMPRegressor", partial(RefinedKMPRegressor, epochs=3))
    options = {"target": "y", "n_atoms": 3, "say": lambda line: None}
    wanted = fitting.fit_and_describe(str(table), **options)
    fitting.fit_and_describe(str(table), resume=str(tmp_path / "whole"), **options)
    for place, whole in enumerate(["whole", "whole.final"][: 2 if late else 1]):
        lines = (tmp_path / whole).read_bytes().splitlines(keepends=True)
        known = len(lines) if late and not place else len(lines) // 2
        (tmp_path / whole.replace("whole", "file")).write_bytes(b"".join(lines[:known]) + b'["2 terms, bo')
    found = command(table, tmp_path)
    assert found.exit_code == 0 and "Goes on from where" in found.output
    model = load(tmp_path / "model")
    np.testing.assert_array_equal(model.estimator.dual_coef_, wanted.estimator.dual_coef_)
    np.testing.assert_array_equal(model.estimator.centers_, wanted.estimator.centers_)
    assert model.about["held_out"] == wanted.about["held_out"]
    assert model.estimator.resume is False
    assert not list(tmp_path.glob("file*"))  # they have served


def test_a_journal_of_another_fit_is_refused_with_the_reason(table, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "RefinedKMPRegressor", partial(RefinedKMPRegressor, epochs=3))
    monkeypatch.setattr(training, "peer_errors", lambda *_: (_ for _ in ()).throw(TableError("killed")))
    assert "killed" in command(table, tmp_path).output
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("red", "blue", 1))

    def assert_refused(file, more, reason):
        found = command(file, tmp_path, *more)
        assert found.exit_code == 2 and "--resume" in found.output and reason in found.output

    assert_refused(table, ["--seed", "1"], "random_state=0 there and 1 here")
    assert_refused(table, ["--n-atoms", "auto"], "n_atoms=3 there and 'auto' here")
    for file, more in ((table, ["--target", "x"]), (table, ["--drop", "colour"]), (other, [])):
        assert_refused(file, more, "was made on other data")
    (tmp_path / "file").write_text("x,colour,y\n")
    assert_refused(table, [], "is no journal")
    assert (tmp_path / "file").read_text() == "x,colour,y\n"
