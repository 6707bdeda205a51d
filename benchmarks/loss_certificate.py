"""A promise about the mean error of a regression: `bounds.loss_bound` on rows held out, on ten real sets.

``KMPRegressor`` is fitted to four fifths of the rows; the loss is the absolute error over two standard deviations of y,
at most 1. Bounds (95 %) of its mean from the rest of the rows: by betting, for the number of atoms that the training
rows prefer and for all numbers of the path at once (which then chooses); Hoeffding's inequality; Bernstein's with the
observed variance; and, which is no bound, the normal approximation. Means over splits of bound less test loss.

Run: ``python benchmarks/loss_certificate.py --data DIR [--splits 5] [--rows 1000] [--out FILE]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _common import parser, regression_split, show, write
from kernelpursuit import KMPRegressor
from kernelpursuit.bounds import loss_bound, path_weights

SETS = ("abalone", "bodyfat", "cal_housing", "cpusmall", "housing", "mg", "mpg", "pyrim", "space_ga", "triazines")
DELTA = 0.05


def losses(model: KMPRegressor, X: np.ndarray, y: np.ndarray, unit: float) -> np.ndarray:
    """Losses with 0, 1, ... atoms, (numbers, rows), those discarded at the end included."""
    longest = model.truncate(len(model.path_) + len(model.path_.discarded))
    values = np.array([longest.truncate(0).predict(X), *longest.staged_predict(X)])
    return np.minimum(np.abs(y - values) / unit, 1)


def measure(name: str, folder: str | None, rows: int, seed: int) -> dict[str, float]:
    """Bounds less the test loss of the model that each speaks of."""
    X, y, new, t = regression_split(folder, name, rows, seed)
    train = np.random.default_rng(seed).permutation(len(y)) >= len(y) // 5
    model = KMPRegressor().fit(X[train], y[train])
    k, unit = len(model.path_), 2 * float(np.std(y[train]))
    aside, test = losses(model, X[~train], y[~train], unit), np.mean(losses(model, new, t, unit), axis=1)
    n, mean, sd = aside.shape[1], float(np.mean(aside[k])), float(np.std(aside[k], ddof=1))
    every = loss_bound(aside, DELTA, weight=path_weights(len(aside) - 1, preferred=k))
    chosen = int(np.argmin(every))
    log, slack = np.log(1 / DELTA), 7 * np.log(2 / DELTA) / (3 * (n - 1))
    return {
        "loss": float(test[k]),
        "betting": float(loss_bound(aside[k], DELTA) - test[k]),
        "betting, every k": float(every[chosen] - test[chosen]),
        "hoeffding": float(mean + np.sqrt(log / (2 * n)) - test[k]),
        "bernstein": float(mean + sd * np.sqrt(2 * np.log(2 / DELTA) / n) + slack - test[k]),
        "normal": float(mean + 1.645 * sd / np.sqrt(n) - test[k]),
        "failed": float(every[chosen] < test[chosen]),
    }


def main() -> None:
    """Print the gaps and write the record."""
    options = parser(__doc__, "loss_certificate")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--rows", type=int, default=1000)
    arguments = options.parse_args()
    records: list[dict[str, Any]] = []
    for name in SETS:
        found = [measure(name, arguments.data, arguments.rows, seed) for seed in range(arguments.splits)]
        records.append({"set": name} | {key: float(np.mean([one[key] for one in found])) for key in found[0]})
        show(records[-1])
    numbers = [key for key in records[0] if key != "set"]
    records.append({"set": "mean"} | {key: float(np.mean([record[key] for record in records])) for key in numbers})
    show(records[-1])
    write(records, arguments.out)


if __name__ == "__main__":
    main()
