"""KMPRanker beside linear ranking, RankRLS and gradient boosting, on real sets cut into groups.

The rows of a set are sorted along the first principal direction of their inputs and cut into groups of 20, so that a
group holds similar rows. Targets become grades 0 to 4 in two ways: on one scale, cut at the quintiles of all training
rows, or on the scale of their own group, by the order inside it, as people judge who see nothing else. Thirty groups
train, up to sixty others test. RankRLS (full kernel) and linear ranking choose their ridge, and kernel methods their
width among three, by three folds of training groups and the squared loss of pairs.
Boosting and ``KMPRegressor`` are fitted to the grades and know of no groups. Measured on the test groups: Kendall's
tau, NDCG at 10 places, and the terms of the model. Of the ranker's path also what each stop rule keeps, as a share of
the best in hindsight.

Run: ``python benchmarks/ranking.py --data DIR [--splits 3] [--sets NAME ...] [--out FILE]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from _common import load, parser, seconds, show, write
from kernelpursuit import KMPRanker, KMPRegressor
from kernelpursuit.pursuit.groups import Groups
from kernelpursuit.ranking import kendall_tau, ndcg

SETS = ("abalone", "cal_housing", "cpusmall", "housing", "mg", "mpg", "space_ga")
GROUP, TRAIN, TEST = 20, 30, 60
WIDTHS = (0.25, 1.0, 4.0)  # times 1 / n_features, the inputs being standardised
RIDGES = 10.0 ** np.arange(-4, 3)
FOLDS = 3
SCALES = ("one", "own")
LOGISTIC = "KMPRanker, logistic, as many terms"

Data = tuple[np.ndarray, np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Any]  # from inputs and grades to a model


def groups(name: str, folder: str | None, seed: int, scale: str) -> tuple[Data, Data]:
    """Inputs and grades of the training groups and of the test groups, groups of consecutive rows."""
    found = load(name, folder)
    X, y = np.asarray(found.data, dtype=np.float64), np.asarray(found.target, dtype=np.float64)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))[: GROUP * (TRAIN + TEST)]
    X, y = X[rows], y[rows]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    along = X @ np.linalg.svd(X, full_matrices=False)[2][0]
    order = np.argsort(along)[: len(X) // GROUP * GROUP].reshape(-1, GROUP)
    order = order[rng.permutation(len(order))]
    n = min(TRAIN, len(order) // 2)
    train, test = order[:n].ravel(), order[n:].ravel()
    if scale == "one":
        grades = np.searchsorted(np.quantile(y[train], [0.2, 0.4, 0.6, 0.8]), y).astype(np.float64)
        return (X[train], grades[train]), (X[test], grades[test])
    place = [np.argsort(np.argsort(y[rows], axis=1), axis=1).ravel() for rows in (order[:n], order[n:])]
    return (X[train], place[0] * 5.0 // GROUP), (X[test], place[1] * 5.0 // GROUP)


def sizes(rows: np.ndarray) -> np.ndarray:
    """All groups have one size."""
    return np.full(len(rows) // GROUP, GROUP)


def pair_loss(y: np.ndarray, f: np.ndarray) -> float:
    """Mean squared error without the means of the groups."""
    e = (y - f).reshape(-1, GROUP)
    return float(np.mean((e - e.mean(axis=1, keepdims=True)) ** 2))


class RankRLS:
    """All training rows as atoms: a = (L K + ridge I)⁻¹ L y, L the projection off the means of the groups."""

    def __init__(self, kernel: Callable, ridge: float):
        self._kernel, self._ridge = kernel, ridge

    def fit(self, X: np.ndarray, y: np.ndarray, labels: np.ndarray | None = None) -> RankRLS:
        """Solve for the weights of all rows; groups of consecutive rows unless `labels` are given."""
        centre = Groups(np.arange(len(y)) // GROUP if labels is None else labels, None, X).centre
        self._X = X
        K, ridge = self._kernel(X, X), self._ridge * np.eye(len(y))
        self._a = np.linalg.solve(centre(K) + ridge, centre(y[:, None])[:, 0])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Scores."""
        return self._kernel(X, self._X) @ self._a


def best_of(fits: list[Fit], X: np.ndarray, y: np.ndarray) -> Fit:
    """The one of least loss in folds of groups."""
    fold = np.repeat(np.arange(len(y) // GROUP) % FOLDS, GROUP)
    losses = []
    for fit in fits:
        parts = [(fold != i, fold == i) for i in range(FOLDS)]
        losses.append(np.mean([pair_loss(y[out], fit(X[rest], y[rest]).predict(X[out])) for rest, out in parts]))
    return fits[int(np.argmin(losses))]


def candidates(d: int, seed: int) -> dict[str, list[Fit]]:
    """What each method chooses from."""
    gammas = [width / d for width in WIDTHS]

    def rank_rls(kernel: Callable, ridge: float) -> Fit:
        return lambda X, y: RankRLS(kernel, ridge).fit(X, y)

    def rbf(gamma: float) -> Callable:
        return lambda A, B: rbf_kernel(A, B, gamma=gamma)

    def ranker(gamma: float) -> Fit:
        return lambda X, y: KMPRanker(gamma=gamma).fit(X, y, group=sizes(y))

    def regressor(gamma: float) -> Fit:
        return lambda X, y: KMPRegressor(gamma=gamma).fit(X, y)

    return {
        "linear ranking": [rank_rls(linear_kernel, ridge) for ridge in 1e3 * RIDGES],
        "RankRLS": [rank_rls(rbf(gamma), ridge) for gamma in gammas for ridge in RIDGES],
        "boosting on grades": [lambda X, y: HistGradientBoostingRegressor(random_state=seed).fit(X, y)],
        "KMPRegressor on grades": [regressor(gamma) for gamma in gammas],
        "KMPRanker": [ranker(gamma) for gamma in gammas],
    }


def measure(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """What a model does on test groups."""
    f = model.predict(X)
    return {"tau": kendall_tau(y, f, sizes(y)), "ndcg10": ndcg(y, f, sizes(y), k=10)}


def stops(gamma: float, train: Data, test: Data) -> dict[str, float]:
    """Kendall's tau of the numbers of atoms that rules choose, as a share of the best number of the path."""
    found, best = {}, 0.0
    for stop in ("gcv", "leave_one_group_out", "validation"):
        model = KMPRanker(gamma=gamma, stop=stop, random_state=0).fit(*train, group=sizes(train[1]))
        found[stop] = measure(model, *test)["tau"]
        longest = model.truncate(len(model.path_) + len(model.path_.discarded))
        best = max([best, *(kendall_tau(test[1], f, sizes(test[1])) for f in longest.staged_predict(test[0]))])
    plain = KMPRanker(gamma=gamma, alpha=0).fit(*train, group=sizes(train[1]))
    found["gcv, no ridge"] = measure(plain, *test)["tau"]
    return {name: tau / best for name, tau in found.items()}


def compare(name: str, folder: str | None, seed: int, scale: str) -> list[dict[str, Any]]:
    """All methods on one split."""
    train, test = groups(name, folder, seed, scale)
    records: list[dict[str, Any]] = []
    for method, fits in candidates(train[0].shape[1], seed).items():
        fit = best_of(fits, *train) if len(fits) > 1 else fits[0]
        time, model = seconds(lambda fit=fit: fit(*train))
        terms = len(model.support_) if hasattr(model, "support_") else len(train[1])
        terms = {"linear ranking": train[0].shape[1], "boosting on grades": -1}.get(method, terms)
        records.append({"method": method, "terms": terms, "seconds": time} | measure(model, *test))
    gamma, most = model.gamma_, max(terms, 1)  # of the last, the ranker
    model = KMPRanker(gamma=gamma, loss="log_loss", n_atoms=most)
    time, _ = seconds(lambda: model.fit(*train, group=sizes(train[1])))
    records.append({"method": LOGISTIC, "terms": most, "seconds": time} | measure(model, *test))
    records.append({"method": "stop rules"} | stops(gamma, train, test))
    return records


def means(records: list[dict[str, Any]], method: str) -> dict[str, float]:
    """Mean over the splits of all that was measured of a method."""
    same = [record for record in records if record["method"] == method]
    return {key: float(np.mean([one[key] for one in same])) for key in same[0] if key != "method"}


def main() -> None:
    """Print the means of each set and method and write the record."""
    options = parser(__doc__, "ranking")
    options.add_argument("--splits", type=int, default=3)
    options.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    arguments = options.parse_args()
    rows = []
    for name in arguments.sets:
        for scale in SCALES:
            records = [one for seed in range(arguments.splits) for one in compare(name, arguments.data, seed, scale)]
            for method in dict.fromkeys(record["method"] for record in records):
                rows.append({"set": name, "scale": scale, "method": method} | means(records, method))
                show(rows[-1])
    write(rows, arguments.out)


if __name__ == "__main__":
    main()
