"""What a release holds: the package and what describes it; no data, no results, no tests."""

import re
import tarfile
import zipfile
from pathlib import Path

import pytest

import kernelpursuit

ROOT = Path(__file__).parents[1]
PAGES = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "PKG-INFO", ".gitignore"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Names in the wheel and in the sdist, as `python -m build` would make them, without its environment."""
    sdist = pytest.importorskip("hatchling.builders.sdist")
    wheel = pytest.importorskip("hatchling.builders.wheel")
    out = str(tmp_path_factory.mktemp("dist"))
    with tarfile.open(next(sdist.SdistBuilder(str(ROOT)).build(directory=out))) as archive:
        names = [entry.name.partition("/")[2] for entry in archive if entry.isfile()]
    with zipfile.ZipFile(next(wheel.WheelBuilder(str(ROOT)).build(directory=out, versions=["standard"]))) as archive:
        return {"wheel": archive.namelist(), "sdist": names}


def sources():
    return {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")} | {"kernelpursuit/py.typed"}


def test_wheel_has_the_package_and_nothing_else(built):
    assert sources() <= set(built["wheel"])
    for name in built["wheel"]:
        assert name.startswith(("kernelpursuit/", f"kernelpursuit-{kernelpursuit.__version__}.dist-info/")), name


def test_sdist_has_the_package_and_what_describes_it(built):
    assert {f"src/{name}" for name in sources()} <= set(built["sdist"])
    assert PAGES - {"PKG-INFO", ".gitignore"} <= set(built["sdist"])
    for name in built["sdist"]:
        assert name.startswith("src/kernelpursuit/") or name in PAGES, name


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_no_data_and_no_results(built, kind):
    for name in built[kind]:
        assert re.search(
            r"\.(py|typed|html|md|cff|toml)$|LICENSE$|PKG-INFO$|METADATA$|RECORD$|WHEEL$|\.txt$|\.gitignore$", name
        )


def test_citation_names_this_version():
    assert f"\nversion: {kernelpursuit.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_workflows_and_hooks_run_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / ".pre-commit-config.yaml"]
    commands = [line for file in files for line in re.findall(r"(?:run|entry): make ([a-z-]+)", file.read_text())]
    assert {"test", "test-oldest", "docs", "dist", "lint", "types"} <= set(commands) <= targets
