"""KMPRanker beside linear ranking, RankRLS and gradient boosting, on answers of a search engine.

TRAIN and TEST are svmlight files with query numbers. The numbers of the record are those of the first 5,000 rows of the
training and of the test part of MSLR-WEB (Qin and Liu, 2013; 136 inputs, grades 0 to 4, 43 queries each), which the
source archive of the Python package rankeval 0.8.2 has as ``msn1.fold1.train.5k.txt`` and ``msn1.fold1.test.5k.txt``.
Inputs are sign(x) log(1 + |x|), standardised. Ridges and widths are chosen on the last third of the training queries by
Kendall's tau, then all of them are fitted. Measured on the test queries.

Run: ``python benchmarks/ranking_web.py --train TRAIN --test TEST [--out FILE]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from _common import parser, seconds, show, write
from kernelpursuit import KMPRanker, KMPRegressor
from kernelpursuit.ranking import group_sizes, kendall_tau, ndcg
from ranking import RankRLS

WIDTHS = (0.1, 0.3, 1.0)  # times 1 / n_features


class Rows(NamedTuple):
    """Inputs, grades, and the query of each row."""

    X: np.ndarray
    y: np.ndarray
    query: np.ndarray

    def subset(self, rows: np.ndarray) -> Rows:
        """Some of the rows, whole queries."""
        return Rows(self.X[rows], self.y[rows], self.query[rows])


def read(train: str, test: str) -> tuple[Rows, Rows]:
    """Both parts, inputs scaled by the training part."""
    parts = [load_svmlight_file(file, query_id=True, n_features=136) for file in (train, test)]
    logs = [np.sign(X.toarray()) * np.log1p(np.abs(X.toarray())) for X, _, _ in parts]
    mean, spread = logs[0].mean(axis=0), logs[0].std(axis=0)
    scaled = [(X - mean) / np.where(spread > 0, spread, 1) for X in logs]
    return tuple(Rows(X, y, query) for X, (_, y, query) in zip(scaled, parts, strict=True))  # type: ignore[return-value]


def methods(d: int) -> dict[str, list[Callable[[Rows], Any]]]:
    """What each method chooses from: functions from rows to a fitted model."""

    def rls(kernel: Callable, ridge: float) -> Callable[[Rows], Any]:
        return lambda rows: RankRLS(kernel, ridge).fit(*rows)

    def rbf(width: float) -> Callable:
        return lambda A, B: rbf_kernel(A, B, gamma=width / d)

    def ranker(width: float, **options: Any) -> Callable[[Rows], Any]:
        return lambda rows: KMPRanker(gamma=width / d, **options).fit(rows.X, rows.y, group=group_sizes(rows.query))

    return {
        "boosting on grades": [lambda rows: HistGradientBoostingRegressor(random_state=0).fit(rows.X, rows.y)],
        "KMPRegressor on grades": [lambda rows, w=w: KMPRegressor(gamma=w / d).fit(rows.X, rows.y) for w in WIDTHS],
        "KMPRanker": [ranker(width) for width in WIDTHS],
        "KMPRanker, 200 atoms": [ranker(width, n_atoms=200) for width in WIDTHS],
        "linear ranking": [rls(linear_kernel, ridge) for ridge in (1e2, 1e4)],
        "RankRLS": [rls(rbf(width), ridge) for width in WIDTHS[:2] for ridge in (1.0, 10.0)],
    }


def tau(model: Any, rows: Rows) -> float:
    """Kendall's tau, the mean over queries."""
    return kendall_tau(rows.y, model.predict(rows.X), group_sizes(rows.query))


def main() -> None:
    """Print what each method does on the test queries and write the record."""
    options = parser(__doc__, "ranking_web")
    options.add_argument("--train", required=True)
    options.add_argument("--test", required=True)
    arguments = options.parse_args()
    train, test = read(arguments.train, arguments.test)
    queries = np.unique(train.query)
    last = np.isin(train.query, queries[2 * len(queries) // 3 :])
    part, aside = train.subset(~last), train.subset(last)
    records = []
    for name, fits in methods(train.X.shape[1]).items():
        best = max(fits, key=lambda fit: tau(fit(part), aside)) if len(fits) > 1 else fits[0]
        time, model = seconds(lambda best=best: best(train))
        scores, sizes = model.predict(test.X), group_sizes(test.query)
        terms = len(getattr(model, "support_", train.y))
        terms = {"boosting on grades": 0, "linear ranking": train.X.shape[1]}.get(name, terms)
        record = {"method": name, "terms": terms, "seconds": time, "tau": tau(model, test)}
        records.append(record | {f"ndcg{k or ''}": ndcg(test.y, scores, sizes, k=k) for k in (10, None)})
        show(records[-1])
    write(records, arguments.out)


if __name__ == "__main__":
    main()
