"""What the benchmarks share: real data sets, a clock, and records that say what they were made with."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils import Bunch
from threadpoolctl import threadpool_info

sys.path.insert(0, str(Path(__file__).parents[1]))  # papers/ is beside this folder and is not installed
from papers import datasets

RECORDS = Path(__file__).parent / "records"
LIBRARIES = ("kernelpursuit", "numpy", "scipy", "scikit-learn", "torch")


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Time of one call, and its result."""
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


def load(name: str, folder: str | None) -> Bunch:
    """A data set by name; where it is not to be had, the script ends with what to do about it."""
    try:
        return datasets.load(name, folder)
    except datasets.DatasetNotFoundError as error:
        raise SystemExit(str(error)) from None


def forest_cover(folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of the forest cover data and its usual two-class task: class 2 is +1, the rest -1."""
    forest = load("covtype", folder)
    return forest.data.astype(np.float64), np.where(forest.target == 2, 1.0, -1.0)


def regression_split(
    folder: str | None, name: str, rows: int, seed: int = 0, least: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """At most `rows` training rows and 2,000 others, columns standardised, targets of mean 0 and variance 1.

    A quarter of the rows is for testing at least. With `least`, so many; and a set that comes with test rows of its own
    is split anew, these included, so that it has `rows` to train on.
    """
    if name == "covtype":
        X, y = forest_cover(folder)
    else:
        found = load(name, folder)
        X, y = found.data, found.target.astype(np.float64)
        if least is not None and "data_test" in found:
            X, y = np.concatenate([X, found.data_test]), np.concatenate([y, found.target_test.astype(np.float64)])
    order = np.random.default_rng(seed).permutation(len(X))
    train = order[: min(rows, 3 * len(X) // 4 if least is None else len(X) - least)]
    test = order[len(train) : len(train) + 2000]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def parser(description: str | None, record: str | None) -> argparse.ArgumentParser:
    """Parser with the options of every benchmark; without a record's name the script itself says where it goes."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--data", default=os.environ.get("KERNELPURSUIT_DATA"), help="folder of the data sets, looked into first"
    )
    made.add_argument("--out", type=Path, default=RECORDS / f"{record}.json" if record else None)
    return made


def write(results: Any, out: Path, made: dict[str, Any] | None = None) -> None:
    """Write what was measured, and what it was measured with: `made` where that was before."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"made_with": made or made_with(), "results": results}, indent=1) + "\n")


def made_with() -> dict[str, Any]:
    """Versions of the libraries, the BLAS of each that brings one with its threads, and the machine."""
    found: dict[str, Any] = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    found["blas"] = [f"{one['internal_api']} {one['version']}, {one['num_threads']} threads" for one in blas]
    return found | {"machine": platform.machine(), "cores": os.cpu_count()}


def place(X: np.ndarray, device: str) -> Any:
    """Rows on the device."""
    if device == "cpu":
        return X
    import torch

    return torch.as_tensor(X, device=device)


def need_cuda() -> None:
    """End the script with one line where there is no GPU."""
    try:
        import torch
    except ModuleNotFoundError:
        raise SystemExit("a GPU is used through torch, which is not installed") from None
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device on this machine")


def show(record: dict[str, Any]) -> None:
    """Print a record on one line."""
    print(", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in record.items()), flush=True)
