"""Chosen landmarks beside drawn ones: test error of a linear model on PursuitNystroem's and Nystroem's features.

Claim: at 20, 50, 100 and 200 landmarks, the same kernel, the same splits and the same head (ridge with its penalty by
generalised cross-validation), the test error of chosen landmarks as a share of that of uniformly drawn ones; for each
set the mean over splits of the ratios, and over sets their geometric mean.

Run: ``python benchmarks/landmarks.py --data DIR [--splits 5] [--rows 1000] [--out FILE]``. DIR (default:
$KERNELPURSUIT_DATA) holds .npz files with X and y.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _common import load, parser, write
from kernelpursuit import PursuitNystroem

REGRESSION = ("abalone", "cpusmall", "cal_housing", "space_ga")
CLASSES = ("ida_banana", "ida_image", "ida_ringnorm", "ida_splice", "ida_waveform", "usps")
NUMBERS = (20, 50, 100, 200)
SELECTIONS = ("rayleigh", "diagonal", "random", "prefit")
ALPHAS = np.logspace(-6, 2, 9)


def errors(X: np.ndarray, y: np.ndarray, rows: int, seed: int) -> dict[str, dict[int, tuple[float, float]]]:
    """Test error and seconds of each kind of landmarks at each number of them, on one split."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[: min(rows, len(X) // 2)], order[min(rows, len(X) // 2) :][:4000]
    out: dict[str, dict[int, tuple[float, float]]] = {}
    for name in ("drawn", *SELECTIONS):
        out[name] = {}
        for k in NUMBERS:
            if name == "drawn":
                landmarks = Nystroem(n_components=k, random_state=seed)
            else:
                landmarks = PursuitNystroem(n_components=k, random_state=seed, selection=name)
            head = RidgeCV(ALPHAS) if y.dtype == np.float64 else RidgeClassifierCV(ALPHAS)
            model = make_pipeline(StandardScaler(), landmarks, head)
            began = perf_counter()
            model.fit(X[train], y[train])
            spent = perf_counter() - began
            predicted = model.predict(X[test])
            wrong = np.mean((predicted - y[test]) ** 2) if y.dtype == np.float64 else np.mean(predicted != y[test])
            out[name][k] = (float(wrong), spent)
    return out


def compare(folder: str, name: str, splits: int, rows: int) -> list[dict]:
    """Mean errors of one set, and their ratios to those of drawn landmarks, for each number of landmarks."""
    found = load(name, folder)
    X, y = found.data, found.target.astype(np.float64 if name in REGRESSION else np.int64)
    found = [errors(X, y, rows, seed) for seed in range(1, splits + 1)]
    table = []
    for k in NUMBERS:
        row: dict = {"set": name, "landmarks": k}
        drawn = np.array([split["drawn"][k][0] for split in found])
        row["drawn_error"] = float(drawn.mean())
        for selection in SELECTIONS:
            own = np.array([split[selection][k][0] for split in found])
            row[selection] = float(own.mean() / drawn.mean())
            row[f"{selection}_wins"] = int(np.sum(own < drawn))
            times = [split[selection][k][1] / split["drawn"][k][1] for split in found]
            row[f"{selection}_time_ratio"] = float(np.median(times))
        table.append(row)
    return table


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, "landmarks")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--rows", type=int, default=1000)
    arguments = options.parse_args()
    records = []
    for name in (*REGRESSION, *CLASSES):
        for row in compare(arguments.data, name, arguments.splits, arguments.rows):
            records.append(row)
            ratios = ", ".join(f"{s} {row[s]:.3f} ({row[f'{s}_wins']}/{arguments.splits})" for s in SELECTIONS)
            print(f"{name:13s} {row['landmarks']:4d} landmarks: drawn {row['drawn_error']:.4g}; {ratios}", flush=True)
    for k in NUMBERS:
        rows = [row for row in records if row["landmarks"] == k]
        means = {s: float(np.exp(np.mean([np.log(row[s]) for row in rows]))) for s in SELECTIONS}
        times = {f"{s}_time_ratio": float(np.median([row[f"{s}_time_ratio"] for row in rows])) for s in SELECTIONS}
        print(k, ", ".join(f"{key} {value:.3f}" for key, value in {**means, **times}.items()))
        records.append({"set": "geometric mean", "landmarks": k, **means, **times})
    write(records, arguments.out)


if __name__ == "__main__":
    main()
