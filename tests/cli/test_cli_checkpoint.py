"""`kernelpursuit fit --checkpoint`: a killed fit goes on with the same call."""

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
        cli, ["fit", str(table), "--target", "y", "--n-atoms", "3", "--out", out, "--checkpoint", file, *more]
    )


def test_a_killed_fit_goes_on_and_ends_with_the_same_model(table, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "peer_errors", lambda *_: [{"model": "none", "error": 1.0, "terms": None}])
    monkeypatch.setattr(training, "worth_of_columns", lambda *_: [])
    monkeypatch.setattr(training, "RefinedKMPRegressor", partial(RefinedKMPRegressor, epochs=3))
    options = {"target": "y", "n_atoms": 3, "say": lambda line: None}
    wanted = fitting.fit_and_describe(str(table), **options)
    fitting.fit_and_describe(str(table), checkpoint=str(tmp_path / "whole"), **options)
    content = (tmp_path / "whole").read_bytes()
    lines = content.splitlines(keepends=True)
    (tmp_path / "file").write_bytes(b"".join(lines[: len(lines) // 2]) + b'{"stage": "bo')
    found = command(table, tmp_path)
    assert found.exit_code == 0 and "Goes on from where" in found.output
    model = load(tmp_path / "model")
    np.testing.assert_array_equal(model.estimator.dual_coef_, wanted.estimator.dual_coef_)
    np.testing.assert_array_equal(model.estimator.centers_, wanted.estimator.centers_)
    assert model.about["held_out"] == wanted.about["held_out"]
    assert not (tmp_path / "file").exists()  # it has served


def test_a_checkpoint_of_another_fit_is_refused_with_the_reason(table, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelpursuit.cli.training.fit_table", lambda *_: (_ for _ in ()).throw(TableError("killed")))
    assert "killed" in command(table, tmp_path).output
    for more, reason in [
        (["--seed", "1"], "--seed=0 there and 1 here"),
        (["--n-atoms", "auto"], "--n-atoms=3 there and auto here"),
        (["--target", "x"], "--target=y there and x here"),
        (["--drop", "colour"], "--drop=() there and ('colour',) here"),
        (["--max-rows", "500"], "--max-rows=20000 there and 500 here"),
    ]:
        found = command(table, tmp_path, *more)
        assert found.exit_code == 2 and reason in found.output
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("red", "rose"))
    found = command(other, tmp_path)
    assert found.exit_code == 2 and "was made on another table" in found.output
    (tmp_path / "file").write_text("x,colour,y\n")
    found = command(table, tmp_path)
    assert found.exit_code == 2 and "is no checkpoint" in found.output
    assert (tmp_path / "file").read_text() == "x,colour,y\n"
