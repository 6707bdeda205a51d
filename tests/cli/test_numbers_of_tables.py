"""Numbers of tables that are far from all others, or from 0: what is said of them, in the words of the table."""

from functools import partial

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("skrub")
pytest.importorskip("skops")
CliRunner = pytest.importorskip("click.testing").CliRunner

from kernelpursuit import RefinedKMPRegressor  # noqa: E402
from kernelpursuit.cli import contenders, training  # noqa: E402
from kernelpursuit.cli.commands import cli  # noqa: E402
from kernelpursuit.cli.sources import TableError  # noqa: E402
from kernelpursuit.cli.tables import read_table  # noqa: E402

ROWS = 80
RNG = np.random.default_rng(0)
AGE, SIZE = RNG.normal(50, 10, size=ROWS), RNG.normal(size=ROWS)


def write(path, **columns):
    """A CSV file, the target last."""
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


def coded(path, rows):
    """A table in which some ages are -9999, after a row without a target."""
    age = AGE.astype(object)
    age[rows] = -9999
    return write(path, age=["", *age], size=[0, *SIZE], y=["", *(AGE + SIZE)])


@pytest.mark.parametrize(
    ("rows", "where"), [([7], "-9999 in line 10"), ([7, 20, 3], "-9999 in line 6, and the like in 2 other rows")]
)
def test_rows_far_from_all_others_are_named_in_a_note(tmp_path, rows, where):
    notes = read_table(coded(tmp_path / "t.csv", rows), "y").notes
    assert f"Far from all else in 'age': {where}; kept (leave cells empty that stand for missing values)." in notes
    assert sum("Far from" in note for note in notes) == 1


def test_nothing_is_said_of_counts_and_heavy_tails(tmp_path):
    tails, counts, gaps = RNG.lognormal(size=ROWS), np.arange(ROWS) == 3, np.where(np.arange(ROWS) % 5, SIZE, "")
    table = write(tmp_path / "t.csv", a=tails, b=1 * counts, c=gaps, d=["yes", "no"] * (ROWS // 2), y=SIZE)
    assert not any("Far from" in note for note in read_table(table, "y").notes)


@pytest.mark.parametrize(
    "command", [["fit", "--n-atoms", "3", "--out", "m"], ["compare", "--repeats", "1"]], ids=" ".join
)
def test_the_commands_say_it_in_a_line_and_give_no_warnings(tmp_path, monkeypatch, command):
    """Warnings name columns as they are encoded, which the table has not, at a line of click."""
    monkeypatch.chdir(tmp_path)
    for module in (training, contenders):
        monkeypatch.setattr(module, "RefinedKMPRegressor", partial(RefinedKMPRegressor, epochs=1))
    for name in ("PENALTIES_SVM", "PENALTIES_RIDGE", "PENALTIES_KMP", "WIDTHS"):
        monkeypatch.setattr(contenders, name, [0.1])
    result = CliRunner().invoke(cli, [command[0], coded(tmp_path / "t.csv", [7]), "--target", "y", *command[1:]])
    assert result.exit_code == 0, result.output
    assert result.stderr == "" and result.stdout.count("-9999 in line 10") == 1


LARGE = {"csv": 2**70, "parquet": 2**60}  # sequential numbers from there on are one in float64


@pytest.mark.parametrize("kind", LARGE)
def test_whole_numbers_that_float64_cannot_tell_apart_are_not_called_equal(tmp_path, kind):
    number = [LARGE[kind] + i for i in range(ROWS)]
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        write(path, id=number, size=SIZE, one=[5] * ROWS, y=AGE)
    else:
        pq.write_table(pa.table({"id": number, "size": SIZE, "one": [5] * ROWS, "y": AGE}), path)
    notes = read_table(str(path), "y").notes
    told = "which has one and the same value, or none, in all rows"
    assert f"Left out: 'id', {told}, to the 16 digits that 64 bits hold." in notes
    assert f"Left out: 'one', {told}." in notes


def test_nor_are_targets_and_the_only_column(tmp_path):
    number = [2**70 + i for i in range(ROWS)]
    with pytest.raises(TableError, match=r"same target, 1.18059e\+21, to the 16 digits that 64 bits hold$"):
        read_table(write(tmp_path / "t.csv", size=SIZE, id=number), "id", "regression")
    with pytest.raises(TableError, match=r"holds one and the same value, to the 16 digits that 64 bits hold$"):
        read_table(write(tmp_path / "t.csv", id=number, one=[5] * ROWS, y=SIZE), "y")
