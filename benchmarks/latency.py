"""Time of a prediction as a server sees it: one row at a time, and 1,000 rows, p50 and p99.

100 terms, 20 features, 3,000 training rows, one thread. Peers: Ridge, whose time is that of scikit-learn's checks, SVC,
SVR and HistGradientBoosting; and the ONNX graphs of our models in onnxruntime. Models take turns, some calls each, so
that what else the machine does disturbs all of them alike; p10 is what it is when nothing does. Targets: one row within
2 times of ``Ridge.predict``, and by ONNX under 50 microseconds.

Run: ``python benchmarks/latency.py [--terms 100] [--calls 2000]``
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.svm import SVC, SVR

from _common import parser, write
from kernelpursuit import KMPClassifier, KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor, to_onnx

FEATURES, ROWS, SEVERAL = 20, 3000, 1000
TURN = 50  # calls of one model before the next


def models(terms: int) -> dict[str, Any]:
    """Fitted models."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(ROWS)
    classes = np.where(y > 0, "above", "below")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            "Ridge": Ridge().fit(X, y),
            "KMPRegressor": KMPRegressor(terms).fit(X, y),
            "RefinedKMPRegressor": RefinedKMPRegressor(terms, random_state=0).fit(X[:1000], y[:1000]),
            "SVR": SVR().fit(X, y),
            "HistGradientBoostingRegressor": HistGradientBoostingRegressor().fit(X, y),
            "KMPClassifier": KMPClassifier(terms).fit(X, classes),
            "RefinedKMPClassifier": RefinedKMPClassifier(terms, random_state=0).fit(X[:600], classes[:600]),
            "SVC": SVC().fit(X, classes),
            "HistGradientBoostingClassifier": HistGradientBoostingClassifier().fit(X, classes),
        }


def onnx_session(model: Any) -> Callable[[np.ndarray], Any]:
    """The ONNX graph of a model as a function of rows."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda X: session.run(None, {"X": X})


def measure(calls: dict[str, Callable[[np.ndarray], Any]], rows: int, count: int) -> list[dict[str, Any]]:
    """Quantiles of each, in microseconds, in turns."""
    X = np.random.default_rng(1).standard_normal((max(rows, TURN), FEATURES))
    times: dict[str, list[float]] = {name: [] for name in calls}
    turn = TURN if rows == 1 else 2
    for _ in range(max(1, count // turn)):
        for name, call in calls.items():
            call(X[:rows])  # what the others left in the caches is not this model's
            for number in range(turn):
                part = X if rows > 1 else X[number : number + 1]
                start = perf_counter()
                call(part)
                times[name].append(perf_counter() - start)
    found = []
    for name, all_times in times.items():
        p10, p50, p99 = (float(value) for value in np.quantile(all_times, [0.1, 0.5, 0.99]) * 1e6)
        found.append({"model": name, "rows": rows, "p10_us": p10, "p50_us": p50, "p99_us": p99})
    base = next(one for one in found if one["model"] == "Ridge")
    return [one | {f"p{p}_over_ridge": one[f"p{p}_us"] / base[f"p{p}_us"] for p in (10, 50)} for one in found]


def main() -> None:
    """Print the table and write the record."""
    options = parser(__doc__, "latency")
    options.add_argument("--terms", type=int, default=100)
    options.add_argument("--calls", type=int, default=2000)
    arguments = options.parse_args()
    fitted = models(arguments.terms)
    calls: dict[str, Any] = {name: model.predict for name, model in fitted.items()}
    calls |= {f"{name}, ONNX": onnx_session(model) for name, model in fitted.items() if "KMP" in name}
    records = []
    for rows, count in ((1, arguments.calls), (SEVERAL, max(20, arguments.calls // 40))):
        title = f"{rows} row" + "s" * (rows > 1)
        print(f"{title:<32}{'p10 us':>10}{'p50 us':>10}{'p99 us':>10}{'p10/Ridge':>11}{'p50/Ridge':>11}")
        for record in measure(calls, rows, count):
            numbers = "".join(f"{record[f'p{p}_us']:>10.1f}" for p in (10, 50, 99))
            ratios = "".join(f"{record[f'p{p}_over_ridge']:>11.2f}" for p in (10, 50))
            print(f"{record['model']:<32}{numbers}{ratios}")
            records.append(record | {"terms": arguments.terms})
    write(records, arguments.out)


if __name__ == "__main__":
    main()
