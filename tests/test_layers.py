"""Who may import whom."""

import ast
import re
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import kernelpursuit

ROOT = Path(kernelpursuit.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
PAPERS = sorted((Path(__file__).parents[1] / "papers").glob("*.py"))


def table():
    """Rows of the table "Who may import whom": the rooms of each, whether they use scikit-learn, other packages."""
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    section = text.split("## Who may import whom")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", a), b.strip() == "yes", set(re.findall(r"`([^`]+)`", c))) for a, b, c in rows]


TABLE = table()
ROW = {room: place for place, (rooms, _, _) in enumerate(TABLE) for room in rooms}
SCIKIT_LEARN = {room for rooms, yes, _ in TABLE if yes for room in rooms}
INSIDE = {room: packages for rooms, _, packages in TABLE for room in rooms}
FREE = {"cli", "__main__"}
DOOR = ("fitting/rows.py", "kernelpursuit.dask.collections")  # the only load that goes up: where a collection has come
OPTIONAL = {"matplotlib", "torch", "dask", "distributed", "pandas", "polars", "cupy", "jax", "triton"}
OPTIONAL |= {"safetensors", "skops", "skrub", "onnx", "skl2onnx", "onnxruntime", "rich", "jinja2"}
REQUIRED = {"numpy", "scipy", "sklearn", "threadpoolctl"}
FREE_REQUIRES = REQUIRED | {"click", "pyarrow", "rich", "skrub", "pandas", "jinja2", "markupsafe"}


def layer(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imports(path, inside_functions=True):
    """(module, name) pairs that a file imports; name is None for a plain import."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = set() if inside_functions else {node for function in functions for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in inside:
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node not in inside:
            assert node.level == 0, f"{path}: relative import"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def test_the_table_has_every_room_and_no_other():
    assert set(ROW) == {layer(path) for path in FILES} - {"__init__", "__main__"}


def test_imports():
    """Of each file of the package; one test, for each takes no time."""
    for path in FILES:
        assert_imports_inside_the_package(path)
        assert_imports_of_other_packages(path)
        assert_no_private_names_of_scikit_learn(path)


def test_one_load_goes_up():
    """Of all that is loaded by name while the program runs, the names of public objects apart."""
    load = re.compile(r"""import_module\(f?["'](kernelpursuit[^"']*)["']""")
    found = [(path.relative_to(ROOT).as_posix(), name) for path in FILES for name in load.findall(path.read_text())]
    assert [(path, name) for path, name in found if "{" not in name] == [DOOR]


def test_papers_use_what_everybody_may_use():
    public = {"kernelpursuit", "kernelpursuit.bounds", "kernelpursuit.plots", "kernelpursuit.pursuit"}
    for path in PAPERS:
        used = {module for module, _ in imports(path) if module.split(".")[0] == "kernelpursuit"}
        assert used <= public, path


def assert_imports_inside_the_package(path):
    here = layer(path)
    found = [(module, name) for module, name in imports(path) if module.split(".")[0] == "kernelpursuit"]
    if here == "__init__":
        assert not found, f"{path}: the package itself loads its names on first use"
    if here in FREE | {"__init__"}:
        return
    for module, _ in found:
        parts = module.split(".")[1:]
        assert parts, f"{path}: import from the module that defines the name, not from the package"
        assert parts[0] == here or ROW[parts[0]] > ROW[here], (path, module)


def assert_imports_of_other_packages(path):
    here = layer(path)
    anywhere = {module.split(".")[0] for module, _ in imports(path)}
    at_import = {module.split(".")[0] for module, _ in imports(path, inside_functions=False)}
    assert "sklearn" not in anywhere or here in SCIKIT_LEARN, path
    assert not at_import & OPTIONAL, path
    foreign = anywhere - set(sys.stdlib_module_names) - {"kernelpursuit"}
    inside = INSIDE.get(here, set()) | ({"pandas"} if here == "pursuit" else set())  # inside functions, see above
    assert foreign <= (FREE_REQUIRES if here in FREE else REQUIRED) | inside, path


def assert_no_private_names_of_scikit_learn(path):
    """They are in one module."""
    if layer(path) == "_sklearn":
        return
    for module, name in imports(path):
        if module.split(".")[0] == "sklearn":
            parts = [*module.split("."), name or ""]
            assert not any(part.startswith("_") for part in parts) and "externals" not in parts, (path, module)


def test_modules_import_each_other_in_one_direction():
    graph = {}
    for path in FILES:
        module = ".".join(("kernelpursuit", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        graph[module] = {target for source, name in imports(path) for target in (source, f"{source}.{name}")}
    TopologicalSorter({module: targets & set(graph) for module, targets in graph.items()}).prepare()  # or CycleError


def test_the_package_shows_what_it_has_and_not_how_it_gets_it():
    shown = dir(kernelpursuit)
    assert not {"Any", "annotations", "import_module"} & {*shown}
    assert {"__version__", "KMPRegressor", "load", "bounds"} < {*shown}


def test_public_names_exist():
    for name in [*kernelpursuit._HOME, *kernelpursuit._MODULES]:
        assert getattr(kernelpursuit, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = kernelpursuit.nothing_of_the_kind
