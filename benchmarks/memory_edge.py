"""Fits at the edge of memory: the kernel matrix kept, kept in part, and computed again at every pass.

Claims: (1) in float64, where the matrix does not fit, a fit of 300 atoms takes at most three times as long as with the
matrix kept, whatever `memory` is; (2) no fit becomes ten times slower by 10 % more rows where the matrix, and then half
of it, ceases to fit.

Run: ``python benchmarks/memory_edge.py [--rows 12000] [--atoms 300] [--gammas 0.02 0.5] [--mebibytes 1024 512 0]``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _common import parser, seconds, show, write
from kernelpursuit import KMPRegressor

MIB = 2**20


def problem(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight inputs of which four count, in float64."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 8))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.1 * rng.normal(size=rows)


def measure(rows: int, atoms: int, gamma: float, memory: int) -> dict[str, Any]:
    """Record of one fit."""
    X, y = problem(rows)
    model = KMPRegressor(atoms, gamma=gamma, memory=memory, random_state=0)
    took, _ = seconds(lambda: model.fit(X, y))
    path = model.path_
    return {"rows": rows, "gamma": gamma, "memory_mib": memory / MIB, "s": took, "passes": path.passes} | {
        "atoms": len(path),
        "loss": path.steps[-1].loss,
    }


def main() -> None:
    """Print the records and write them."""
    options = parser(__doc__, "memory_edge")
    options.add_argument("--rows", type=int, default=12_000)
    options.add_argument("--atoms", type=int, default=300)
    options.add_argument("--gammas", type=float, nargs="+", default=[0.02, 0.5])
    options.add_argument("--mebibytes", type=int, nargs="+", default=[1024, 512, 0])
    arguments = options.parse_args()
    measure(2000, 5, 0.1, MIB * 1024)  # threads start
    fits, edge = [], []
    for gamma in arguments.gammas:
        kept = 0.0
        for memory in [16 * arguments.rows**2, *(MIB * mebibytes for mebibytes in arguments.mebibytes)]:
            fits.append(measure(arguments.rows, arguments.atoms, gamma, memory))
            kept = kept or fits[-1]["s"]
            fits[-1]["over_kept"] = fits[-1]["s"] / kept
            show(fits[-1])
    rows = 2 * arguments.rows // 3
    memory = 9 * rows * rows  # the matrix just fits, then half of it, then not even that
    for more in (1.0, 1.1, 1.21, 1.33):
        edge.append(measure(round(rows * more), arguments.atoms, arguments.gammas[0], memory))
        edge[-1]["over_fewer_rows"] = edge[-1]["s"] / edge[max(0, len(edge) - 2)]["s"]
        show(edge[-1])
    write({"fits": fits, "edge": edge}, arguments.out)


if __name__ == "__main__":
    main()
