"""What several benchmarks share: real data sets, a clock, and where records go."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # papers/ is beside this folder and is not installed
from papers.datasets import find_file, load

__all__ = ["find_file", "forest_cover", "load", "parser", "regression_split", "seconds", "show", "write"]
RECORDS = Path(__file__).parent / "records"


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Time of one call, and its result."""
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


def forest_cover(folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of the forest cover data and its usual two-class task: class 2 is +1, the rest -1."""
    forest = load("covtype", folder)
    return forest.data.astype(np.float64), np.where(forest.target == 2, 1.0, -1.0)


def regression_split(
    folder: str | None, name: str, rows: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """At most `rows` training rows and 2,000 others, columns standardised, targets of mean 0 and variance 1."""
    if name == "covtype":
        X, y = forest_cover(folder)
    else:
        found = load(name, folder)
        X, y = found.data, found.target.astype(np.float64)
    order = np.random.default_rng(seed).permutation(len(X))
    train = order[: min(rows, 3 * len(X) // 4)]
    test = order[len(train) : len(train) + 2000]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def parser(description: str | None, record: str) -> argparse.ArgumentParser:
    """Parser with the options of every benchmark on real data."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", default=os.environ.get("KERNELPURSUIT_DATA"), help="folder of .npz files")
    made.add_argument("--out", type=Path, default=RECORDS / f"{record}.json")
    return made


def write(records: Any, out: Path) -> None:
    """Write a record."""
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(records, indent=1) + "\n")


def show(record: dict[str, Any]) -> None:
    """Print a record on one line."""
    print(", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in record.items()), flush=True)
