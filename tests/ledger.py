"""The size of the package: code lines by room, names with two meanings, how far a call travels. `make size` prints it.

A code line holds code: no blank line, comment or docstring. Read the travels to a few percent: they vary with the
number of threads and with the versions of the libraries.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import threading
import tokenize
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

import kernelpursuit as kp

ROOT = Path(kp.__file__).resolve().parent
EDGE = {"cli", "dask", "exporting", "plots", "saving"}  # the core is all other rooms
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source):
    """Number of lines of a source text that hold code."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            docstrings |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def lines_by_room():
    """Code lines of each room of the package; modules beside the rooms count as the room "(top)"."""
    rooms = Counter()
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        rooms[parts[0] if len(parts) > 1 else "(top)"] += code_lines(path.read_text())
    return rooms


def names_with_two_meanings():
    """Names of top-level functions and classes that more than one module defines."""
    homes = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                homes[node.name].add(path)
    return sorted(name for name, paths in homes.items() if len(paths) > 1 and not name.startswith("__"))


def travel(call):
    """How many functions and modules of the package a call passes, and how deep its stack becomes there."""
    functions, depth, stacks = set(), 0, threading.local()

    def watch(frame, event, _):
        nonlocal depth
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        stack = stacks.__dict__.setdefault("stack", [])
        if event == "return":
            del stack[-1:]
        else:
            named = not code.co_name.startswith("<")  # no comprehension, no lambda
            stack.append(named)
            if named:
                functions.add((code.co_filename, code.co_qualname))
                depth = max(depth, sum(stack))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {"functions": len(functions), "modules": len({module for module, _ in functions}), "depth": depth}


def travels():
    """The travels of five calls on 120 rows of 3 inputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=120)
    labels = (y > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kp.KMPClassifier(10).fit(X, labels)  # all that is imported on the way is there now
        fitted.predict(X)
        calls = {
            "KMPClassifier.fit": lambda: kp.KMPClassifier(10).fit(X, labels),
            "KMPClassifier.predict": lambda: fitted.predict(X[:50]),
            "RefinedKMPRegressor.fit": lambda: kp.RefinedKMPRegressor(10, random_state=0).fit(X, y),
            "PursuitSearchCV.fit": lambda: kp.PursuitSearchCV(kp.KMPRegressor()).fit(X, y),
            "SparseKernelPCA.fit": lambda: kp.SparseKernelPCA(2).fit(X),
        }
        return {name: travel(call) for name, call in calls.items()}


def constructor_parameters():
    """Number of parameters of each public estimator's constructor."""
    estimators = [one for name in dir(kp) if inspect.isclass(one := getattr(kp, name)) and hasattr(one, "fit")]
    return {one.__name__: len(inspect.signature(one).parameters) for one in estimators}


def main():
    rooms = lines_by_room()
    core = sum(lines for room, lines in rooms.items() if room not in EDGE)
    print(f"code lines: {sum(rooms.values())}; of the core, without {', '.join(sorted(EDGE & set(rooms)))}: {core}")
    for room, lines in rooms.most_common():
        print(f"  {room:12s} {lines:6d}")
    tests = sum(code_lines(path.read_text()) for path in Path(__file__).parent.rglob("*.py"))
    print(f"code lines of tests: {tests}")
    names = names_with_two_meanings()
    print(f"names with two meanings: {len(names)}: {', '.join(names)}")
    for name, found in travels().items():
        sizes = f"{found['functions']:4d} functions, {found['modules']:3d} modules, {found['depth']:2d} deep"
        print(f"  {name:24s} {sizes}")
    sizes = sorted(constructor_parameters().items(), key=lambda pair: -pair[1])
    print("constructor parameters:", ", ".join(f"{name} {size}" for name, size in sizes))


if __name__ == "__main__":
    main()
