"""Benchmarks run as they say, and records say what they were made with; what they measure is not tested."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "def main" in path.read_text())


@pytest.fixture(autouse=True)
def beside_the_scripts(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # some scripts set it; it goes back afterwards


@pytest.mark.parametrize("name", SCRIPTS)
def test_command_in_the_docstring(name, monkeypatch, capsys):
    """Its options exist; everything that the script imports is there."""
    module = importlib.import_module(name)
    command = re.search(rf"python benchmarks/{name}\.py[^`\n]*", module.__doc__)
    assert command, "the docstring says how to run it"
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        module.main()
    assert end.value.code == 0
    shown = capsys.readouterr().out.split("options:")[1]
    for option in re.findall(r"--[a-z-]+", command[0]):
        assert f"  {option}" in shown


def test_the_readme_names_every_script_and_every_record():
    lines = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("| `")]
    assert sorted(line.split("`")[1] for line in lines) == [f"{name}.py" for name in SCRIPTS]
    records = {name for line in lines for name in re.findall(r"`(\w+\.jsonl?)`", line)}
    assert records == {path.name for path in (FOLDER / "records").iterdir()}
    for line in lines:
        name, commands = line.split("`")[1], re.findall(r"`([^`]*)`", line.split("|")[3])
        assert commands and all(command.startswith(name) for command in commands)


def test_records_name_libraries_and_blas(tmp_path):
    common = importlib.import_module("_common")
    common.write([{"n": 3}], tmp_path / "new" / "record.json")
    record = json.loads((tmp_path / "new" / "record.json").read_text())
    assert record["results"] == [{"n": 3}]
    made = record["made_with"]
    assert made["numpy"] == importlib.import_module("numpy").__version__
    assert {"python", "kernelpursuit", "scipy", "scikit-learn", "machine", "cores"} <= set(made)
    assert made["blas"] and all(re.search(r"\d+ threads", one) for one in made["blas"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_record_is_written_by_the_one_function(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert "write(" in text.replace(".write(", "") or "made_with()" in text
    assert "write_text(json" not in text


def test_scripts_for_a_gpu_need_no_variable_from_outside():
    """SciPy reads it when it is imported, and scikit-learn refuses tensors without it."""
    for name in ("covtype_all", "forest_refined", "small_sets", "tile_pass"):
        before, _, after = (
            (FOLDER / f"{name}.py").read_text().partition('os.environ.setdefault("SCIPY_ARRAY_API", "1")')
        )
        assert after and not re.search(
            r"^(import|from) (numpy|scipy|sklearn|joblib|_common|kernelpursuit)", before, re.M
        )
    code = "import tile_pass, sklearn; sklearn.set_config(array_api_dispatch=True)"
    environment = {key: value for key, value in os.environ.items() if key != "SCIPY_ARRAY_API"}
    home = os.pathsep.join([str(FOLDER), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | {"PYTHONPATH": home}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_data_that_are_not_there_end_a_script_in_one_line(tmp_path, monkeypatch):
    common = importlib.import_module("_common")
    monkeypatch.setenv("KERNELPURSUIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SystemExit, match=r"Put a file mg\.npz"):
        common.load("mg", None)
