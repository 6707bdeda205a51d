"""Error against terms and against prediction time: pursuits beside an SVM, boosting, and Nyström features with ridge.

    python benchmarks/peers.py --splits 2
    python benchmarks/peers.py --methods refined --splits 1     # measures one method again, keeps the others

Eight sets, at most 1,000 training rows each, so that it takes minutes. Widths and penalties are chosen on training
rows, by three folds: of matching pursuit by its own search, of the SVM and of 100 Nyström features by a grid;
boosting and refined pursuit are as their constructors make them. The error is 1 - R² or the share of wrong classes.
The time of a prediction is the least of several calls on 2,000 rows, in seconds of one core, so that a busy machine
does not count. Writes the picture of the README, ``docs/figures/peers.png``, too.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import defaultdict
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import gmean
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from _common import parser, write
from accuracy_per_term import CLASSES, data_of
from kernelpursuit import (
    KMPClassifier,
    KMPRegressor,
    PursuitSearchCV,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
)
from kernelpursuit.plots import METHOD_COLOURS

SETS = (
    "abalone", "cpusmall", "housing", "cal_housing",
    "keel_phoneme", "keel_satimage", "ida_image", "ida_german",
)  # fmt: skip
METHODS = {"kmp": "KMP", "refined": "refined KMP", "nystroem": "Nyström", "svm": "SVM", "boosting": "boosting"}
SHOWN = {"Nyström": "Nyström + ridge", "boosting": "boosting (leaves of trees)"}
TERMS = (10, 30, 100)
PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "peers.png"


def split(name: str, seed: int, folder: str | None) -> tuple[Any, ...]:
    """Training and test rows, and whether the target is a class."""
    X, y = data_of(name, folder)
    order = np.random.default_rng(seed).permutation(len(X))
    size = min(1000, 3 * len(X) // 4)
    train, test = order[:size], order[size : size + 2000]
    classes = name in CLASSES
    y = y if classes else y.astype(np.float64)
    return X[train], y[train], X[test], y[test], classes


def fitted(method: str, X: Any, y: Any, classes: bool, seed: int, searched: bool = True) -> list[tuple[int, Any]]:
    """Models of several sizes, or one, with their numbers of terms; unless searched, good for their times only."""
    d = X.shape[1]
    gammas = [0.25 / d, 1.0 / d, 4.0 / d] if searched else [1.0 / d]
    if method == "kmp":
        estimator = KMPClassifier() if classes else KMPRegressor()
        search = PursuitSearchCV(estimator, max_atoms=max(TERMS), gammas=gammas, cv=3)
        scaler = StandardScaler().fit(X)
        inside = scaler.transform(X)
        gamma = search.fit(inside, y).best_params_["gamma"] if searched else gammas[0]
        path = (KMPClassifier if classes else KMPRegressor)(max(TERMS), gamma=gamma)
        path.fit(inside, y)
        return [(k, make_pipeline(scaler, path.truncate(k))) for k in TERMS if k <= len(path.support_)]
    if method == "refined":
        refined = RefinedKMPClassifier if classes else RefinedKMPRegressor
        epochs = "auto" if searched else 1
        return [(k, refined(n_atoms=k, epochs=epochs, random_state=seed).fit(X, y)) for k in TERMS[:2]]
    if method == "nystroem":
        linear = (RidgeClassifierCV if classes else RidgeCV)(np.logspace(-6, 3, 10))
        model = make_pipeline(StandardScaler(), Nystroem(n_components=max(TERMS), random_state=seed), linear)
        model.set_params(nystroem__gamma=gammas[0])
        best = GridSearchCV(model, {"nystroem__gamma": gammas}, cv=3).fit(X, y).best_estimator_ if searched else model
        sizes = (*TERMS, 300, len(X) - len(X) // 3)
        return [(k, clone(best).set_params(nystroem__n_components=k).fit(X, y)) for k in sizes]
    if method == "svm":
        grid = {"C": [1.0, 10.0, 100.0], "gamma": gammas}
        if classes:
            inner = GridSearchCV(SVC(), grid, cv=3)
            model = make_pipeline(StandardScaler(), inner).fit(X, y)
            return [(len(inner.best_estimator_.support_), model)]
        spread = y.std()
        inner = GridSearchCV(SVR(epsilon=0.1), grid, cv=3)
        model = make_pipeline(StandardScaler(), inner).fit(X, (y - y.mean()) / spread)
        return [(len(inner.best_estimator_.support_), _Scaled(model, y.mean(), spread))]
    model = (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=seed).fit(X, y)
    return [(sum(tree.get_n_leaf_nodes() for stage in model._predictors for tree in stage), model)]


class _Scaled:
    """A regressor of standardised targets."""

    def __init__(self, model: Any, mean: float, spread: float):
        self.model, self.mean, self.spread = model, mean, spread

    def predict(self, X: Any) -> np.ndarray:
        return self.mean + self.spread * self.model.predict(X)


def measure(method: str, name: str, seed: int, folder: str | None, searched: bool) -> list[dict[str, Any]]:
    """Error, terms and microseconds of a core for a prediction, of each size."""
    X, y, X_test, y_test, classes = split(name, seed, folder)
    many = X_test[np.arange(2000) % len(X_test)]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for terms, model in fitted(method, X, y, classes, seed, searched):
            took = []
            for _ in range(7):
                start = process_time()
                model.predict(many)
                took.append(process_time() - start)
            values = model.predict(X_test)
            wrong = np.mean(values != y_test) if classes else np.mean((values - y_test) ** 2) / np.var(y_test)
            rows.append({"terms": terms, "error": float(wrong), "predict_us": 1e6 * min(took) / len(many)})
    asked = [*TERMS, 300, "two thirds"] if method == "nystroem" else list(TERMS) if len(rows) > 1 else ["own"]
    return [
        {"set": name, "method": method, "seed": seed, "asked": k, **row} for k, row in zip(asked, rows, strict=False)
    ]


def keep_times(results: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Put new times into old results of all splits; time goes with the number of terms."""
    for new in rows:
        for old in results:
            if all(old[key] == new[key] for key in ("method", "set", "asked")):
                old["predict_us"] = new["predict_us"] * old["terms"] / new["terms"]


def means(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each method and size: geometric means over sets, the error as a share of the SVM's; sets where it is lower."""
    by = defaultdict(list)
    for row in results:
        by[row["method"], str(row["asked"]), row["set"]].append(row)
    svm = {(row["set"], row["seed"]): row["error"] for row in results if row["method"] == "svm"}
    table = []
    for method, asked in dict.fromkeys((method, asked) for method, asked, _ in by):
        sets = [name for name in SETS if (method, asked, name) in by and (name, 0) in svm]
        if not sets:
            continue
        ratios = [
            np.mean([row["error"] for row in part]) / np.mean([svm[row["set"], row["seed"]] for row in part])
            for part in (by[method, asked, name] for name in sets)
        ]
        rows = [row for name in sets for row in by[method, asked, name]]
        table.append(
            {
                "method": method,
                "asked": asked,
                "terms": float(gmean([row["terms"] for row in rows])),
                "error_over_svm": float(gmean(ratios)),
                "worst": float(max(ratios)),
                "below_svm": int(sum(ratio < 1 for ratio in ratios)),
                "sets": len(sets),
                "predict_us": float(gmean([row["predict_us"] for row in rows])),
            }
        )
    return table


def draw(table: list[dict[str, Any]], path: Path) -> None:
    """The picture of the README."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    for method, name in METHODS.items():
        rows = [row for row in table if row["method"] == method]
        errors = [row["error_over_svm"] for row in rows]
        style = {"color": METHOD_COLOURS[name], "marker": "o" if len(rows) > 1 else "D", "lw": 2, "ms": 7}
        for ax, quantity in zip(axes, ("terms", "predict_us"), strict=True):
            ax.loglog([row[quantity] for row in rows], errors, label=SHOWN.get(name, name), **style)
    for ax, label in zip(axes, ("terms", "microseconds for one prediction"), strict=True):
        ax.axhline(1, color="0.7", lw=1, zorder=0)
        ax.set_xlabel(label)
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_yticks([0.8, 1, 1.25, 1.5, 2])
    axes[0].set_ylabel("test error, as a share of the SVM's")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    fig.savefig(path, dpi=150, facecolor="white")


def main() -> None:
    """Measure what is asked for, keep the rest, write the record and the picture."""
    arguments = parser(__doc__, "peers")
    arguments.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    arguments.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    arguments.add_argument("--splits", type=int, default=2)
    arguments.add_argument("--picture", type=Path, default=PICTURE, help="file of the picture")
    arguments.add_argument("--times", action="store_true", help="times again, errors as they are: no search")
    args = arguments.parse_args()
    results = json.loads(args.out.read_text())["results"]["rows"] if args.out.exists() else []
    for method in args.methods:
        for name in args.sets:
            for seed in range(args.splits):
                rows = measure(method, name, seed, args.data, not args.times)
                print(f"{method:9} {name:14} {seed}", *(f"{r['asked']}: {r['error']:.4f}" for r in rows), flush=True)
                if args.times:
                    keep_times(results, rows)
                else:
                    results = [r for r in results if (r["method"], r["set"], r["seed"]) != (method, name, seed)] + rows
    order = list(METHODS)
    results.sort(key=lambda row: (order.index(row["method"]), SETS.index(row["set"]), row["seed"]))
    table = means(results)
    write({"means": table, "rows": results}, args.out)
    for row in table:
        print(f"{row['method']:9} {row['asked']:>10} {row['error_over_svm']:.3f} of the SVM's error", end=" ")
        print(f"with {row['terms']:.0f} terms, {row['predict_us']:.2f} us")
    if len(table) > 5:
        draw(table, args.picture)


if __name__ == "__main__":
    main()
