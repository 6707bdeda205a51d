"""Kernel logistic regression on few points: which choice of the points serves it best.

Points are chosen by Fisher's ratio (``SparseKernelFDA``), by the gradient of the logistic loss and by the squared loss
(``KMPClassifier``), or at random; then the same kernel logistic regression, with a ridge by its rule "auto", is fitted
in their span: ``KMPClassifier(k, loss="logistic", centers=points)``. Beside it the Fisher discriminant itself, on its
own points. Error rate and logarithmic loss on test rows, means over the splits of the IDA sets (at most 700 training
rows), for k = 5, 10, 20, 30. The width, one for all methods, is that of four with the lowest generalised
cross-validation of a squared-loss path on the training rows.

Run: ``python benchmarks/fisher_logistic.py --data DIR [--splits 3] [--sets NAME ...] [--out FILE]``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from _common import load, parser, show, write
from kernelpursuit import KMPClassifier, SparseKernelFDA
from papers.peers import median_gamma, standardise

SETS = (
    *("banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image"),
    *("ringnorm", "splice", "thyroid", "titanic", "twonorm", "waveform"),
)
SIZES = (5, 10, 20, 30)
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0)  # gamma in units of 1 / median squared distance
MOST_ROWS = 700
OWN = "Fisher, its own discriminant"


def split(name: str, folder: str | None, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one of the published splits, standardised."""
    data = load(f"ida_{name}", folder)
    train = data.splits[seed]
    test = np.setdiff1d(np.arange(len(data.target)), train)
    train = np.random.default_rng(seed).permutation(train)[:MOST_ROWS]
    X, new = standardise(data.data[train].astype(float), data.data[test].astype(float))
    return X, data.target[train], new, data.target[test]


def best_width(X: np.ndarray, y: np.ndarray) -> float:
    """The width that generalised cross-validation prefers."""
    scores = {}
    for width in WIDTHS:
        path = KMPClassifier(max(SIZES), gamma=width * median_gamma(X), alpha=0.0).fit(X, y).path_
        loss = path.values("loss")
        scores[width] = float(np.min(loss / (1 - (1 + 2 * np.arange(len(loss))) / len(y)) ** 2))
    return min(scores, key=scores.__getitem__) * median_gamma(X)


def choices(X: np.ndarray, y: np.ndarray, gamma: float, seed: int) -> dict[str, Any]:
    """Fitted models whose points are to be used, or an order of the rows."""
    return {
        "Fisher": SparseKernelFDA(max(SIZES), gamma=gamma).fit(X, y),
        "logistic": KMPClassifier(max(SIZES), gamma=gamma, loss="logistic").fit(X, y),
        "squared": KMPClassifier(max(SIZES), gamma=gamma).fit(X, y),
        "random": np.random.default_rng(seed).permutation(len(y)),
    }


def measure(name: str, folder: str | None, seed: int) -> list[dict[str, Any]]:
    """All choices and numbers of points on one split."""
    X, y, new, t = split(name, folder, seed)
    gamma, records = best_width(X, y), []
    for choice, found in choices(X, y, gamma, seed).items():
        order = found if isinstance(found, np.ndarray) else found.support_
        for k in SIZES:
            points = X[order[:k]]
            model = KMPClassifier(k, loss="logistic", gamma=gamma, centers=points, refit_every=len(points)).fit(X, y)
            record = {"set": name, "split": seed, "choice": choice, "k": k}
            record["error"] = float(np.mean(model.predict(new) != t))
            record["log loss"] = float(log_loss(t, model.predict_proba(new)))
            records.append(record)
            if choice == "Fisher":
                error = float(np.mean(found.truncate(min(k, len(order))).predict(new) != t))
                records.append({"set": name, "split": seed, "choice": OWN, "k": k, "error": error})
    return records


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over sets of the means over splits, and on how many sets a choice is better than the logistic one."""
    names, rows = dict.fromkeys(record["set"] for record in records), []

    def mean(key: str, **which: Any) -> float:
        return float(np.mean([r[key] for r in records if which.items() <= r.items()]))

    for choice in dict.fromkeys(record["choice"] for record in records):
        for k in SIZES:
            mine, other = (np.array([mean("error", set=n, choice=c, k=k) for n in names]) for c in (choice, "logistic"))
            row = {"choice": choice, "k": k, "error": float(mine.mean())}
            if choice != OWN:
                row["log loss"] = float(np.mean([mean("log loss", set=n, choice=choice, k=k) for n in names]))
            rows.append(row | {"better on": int(np.sum(mine < other)), "worse on": int(np.sum(mine > other))})
    return rows


def by_set(records: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Mean errors of each set and choice, for all numbers of points."""
    found: dict[str, dict[str, str]] = {}
    for record in records:
        same = [r for r in records if (r["set"], r["choice"]) == (record["set"], record["choice"])]
        means = [np.mean([r["error"] for r in same if r["k"] == k]) for k in SIZES]
        found.setdefault(record["set"], {})[record["choice"]] = ", ".join(f"{mean:.4f}" for mean in means)
    return found


def main() -> None:
    """Print the means and write the record."""
    options = parser(__doc__, "fisher_logistic")
    options.add_argument("--splits", type=int, default=3)
    options.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    arguments = options.parse_args()
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # sets with few distinct rows have fewer points
        for name in arguments.sets:
            for seed in range(arguments.splits):
                records += measure(name, arguments.data, seed)
            print(f"{name}: done", flush=True)
    for row in summary(records):
        show(row)
    write({"summary": summary(records), "errors of sets": by_set(records)}, arguments.out)


if __name__ == "__main__":
    main()
