"""No setting falls off a cliff: kernel widths over four decades, both precisions, with and without a ridge.

Claims, all as ratios within one run: (1) a ridge costs at most 1.3 times no ridge; (2) float32 takes at least 95 % of
the atoms of float64 and reaches its test error; (3) float32 needs at most twice the passes of float64; (4) the cost of
an atom grows no faster than linearly in the number of atoms (the time of the last half of a path over that of the
first half is at most 4).

The kernel is computed again at each pass, which is what look-ahead is for; ``--storage dense`` keeps the matrix.

Run: ``python benchmarks/cliffs.py [--rows 5000] [--inputs 54] [--atoms 300] [--device cuda] [--storage tiles]``
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before scipy is imported, or tensors are refused

import numpy as np

from _common import write
from kernelpursuit import KernelDictionary, Squares, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms

GAMMAS = (0.0005, 0.005, 0.05, 0.5, 5.0)
MIB = 2**20


def problem(rows: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Standardised inputs that follow six hidden ones, and a target of them with noise; 2,000 rows more for testing."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows + 2000, 6))
    X = np.tanh(hidden @ rng.normal(size=(6, inputs)) / 2) + 0.2 * rng.normal(size=(rows + 2000, inputs))
    y = np.sin(2 * hidden[:, 0]) + hidden[:, 1] * hidden[:, 2] + np.abs(hidden[:, 3]) + 0.1 * rng.normal(size=len(X))
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def place(x: np.ndarray, dtype: str, device: str) -> Any:
    """`x` in a precision, on a device."""
    x = x.astype(dtype)
    if device == "numpy":
        return x
    import torch

    return torch.asarray(x, device=device)


def measure(X: np.ndarray, y: np.ndarray, gamma: float, dtype: str, alpha: float, options: Any) -> dict[str, Any]:
    """Seconds, atoms, passes and test error of one setting."""
    points = place(X[:-2000], dtype, options.device)
    targets = place(y[:-2000], dtype, options.device)
    kernel = make_kernel("rbf", points, gamma=gamma)
    start = perf_counter()
    D = KernelDictionary(points, points, kernel, storage=options.storage, memory=options.memory * MIB)
    run = Squares(D, targets, alpha=alpha * len(points) / 1000)
    path = pursue(run, n_atoms(options.atoms), lookahead="auto", weakness=options.weakness)
    seconds = perf_counter() - start
    times = np.concatenate([[0.0], path.values("seconds")[1:]])
    half = len(path) // 2
    growth = (times[-1] - times[half]) / max(times[half], 1e-9) if half else np.nan
    exact = make_kernel("rbf", X[:-2000], gamma=gamma)
    coef = run.coef()[:, 0]
    errors = y[-2000:] - coef[0] - exact.between(X[-2000:], X[path.atoms]) @ coef[1:]
    least = min((step.weakness for step in path.steps), default=np.nan)
    return {
        "gamma": gamma, "dtype": dtype, "alpha": alpha, "seconds": seconds, "atoms": len(path), "passes": path.passes,
        "test_error": float(np.mean(errors**2)), "second_half_over_first": float(growth), "least_certificate": least,
    }  # fmt: skip


def ratios(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The claims, one line for each width, precision or ridge they are about."""
    found = {(r["gamma"], r["dtype"], r["alpha"]): r for r in records}
    alphas = sorted({r["alpha"] for r in records})
    lines = []
    for gamma in sorted({r["gamma"] for r in records}):
        line: dict[str, Any] = {"gamma": gamma}
        for dtype in ("float32", "float64"):
            plain, ridge = (found.get((gamma, dtype, alpha)) for alpha in (alphas[0], alphas[-1]))
            if plain and ridge and plain is not ridge:
                each = [r["seconds"] / max(1, r["atoms"]) for r in (plain, ridge)]
                line[f"ridge/none {dtype}"] = each[1] / each[0]
        for alpha in alphas:
            single, double = (found.get((gamma, dtype, alpha)) for dtype in ("float32", "float64"))
            if single and double:
                for key in ("atoms", "passes", "test_error", "seconds"):
                    line[f"{key} 32/64, alpha {alpha:g}"] = single[key] / max(double[key], 1e-300)
        lines.append(line)
    return lines


def show(record: dict[str, Any]) -> None:
    """One line."""
    print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in record.items()), flush=True)


def main() -> None:
    """Print each setting and the ratios, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--inputs", type=int, default=54)
    parser.add_argument("--atoms", type=int, default=300)
    parser.add_argument("--weakness", type=float, default=0.5)
    parser.add_argument("--device", default="numpy", help="numpy, cpu (torch), cuda")
    parser.add_argument("--storage", default="tiles", choices=["tiles", "dense", "auto"])
    parser.add_argument("--memory", type=int, default=1024, help="MiB")
    parser.add_argument("--gammas", type=float, nargs="+", default=GAMMAS)
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.0, 1e-3], help="for a thousand rows")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "records" / "cliffs.json")
    options = parser.parse_args()
    X, y = problem(options.rows, options.inputs)
    if options.device != "numpy":  # compilers and libraries are loaded before the clock runs
        measure(X, y, 0.05, "float32", 0.0, argparse.Namespace(**{**vars(options), "atoms": 20}))
    records = []
    for gamma, dtype, alpha in product(options.gammas, options.dtypes, options.alphas):
        records.append(measure(X, y, gamma, dtype, alpha, options))
        show(records[-1])
    lines = ratios(records)
    for line in lines:
        show(line)
    sizes = {k: v for k, v in vars(options).items() if k not in ("out", "gammas", "dtypes", "alphas")}
    write({"sizes": sizes, "runs": records, "ratios": lines}, options.out)


if __name__ == "__main__":
    main()
