"""Coverage of split-conformal intervals on real data, beside what the theory promises.

The diabetes data that ship with scikit-learn, random splits: share of test targets inside the intervals of
``ConformalRegressor`` around KMPRegressor and, as a peer, around LinearRegression; exact expectation
``ceil((n + 1) coverage) / (n + 1)`` for n calibration rows; mean width.

Run: ``python benchmarks/conformal_coverage.py [--splits 200] [--out FILE]``
"""

from __future__ import annotations

from math import ceil

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from _common import parser, write
from kernelpursuit import ConformalRegressor, KMPRegressor


def measure(name: str, estimator, coverage: float, splits: int) -> dict:
    """Mean coverage and width over random splits."""
    X, y = load_diabetes(return_X_y=True)
    covered, widths, n = [], [], 0
    for seed in range(splits):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
        model = ConformalRegressor(estimator, coverage=coverage, random_state=seed).fit(X_train, y_train)
        low, high = model.predict_interval(X_test).T
        covered.append(np.mean((low <= y_test) & (y_test <= high)))
        widths.append(2 * model.quantile_)
        n = len(model.residuals_)
    return {
        "model": name,
        "asked": coverage,
        "coverage": float(np.mean(covered)),
        "standard_error": float(np.std(covered) / np.sqrt(splits)),
        "expected": ceil((n + 1) * coverage - 1e-9) / (n + 1),
        "width": float(np.mean(widths)),
    }


def main() -> None:
    """Print the coverages and write the record."""
    options = parser(__doc__, "conformal_coverage")
    options.add_argument("--splits", type=int, default=200)
    arguments = options.parse_args()
    models = {"KMPRegressor": KMPRegressor(), "LinearRegression": LinearRegression()}
    records = [
        measure(name, model, coverage, arguments.splits)
        for name, model in models.items()
        for coverage in (0.95, 0.9, 0.8)
    ]
    for record in records:
        print(", ".join(f"{k}={v if isinstance(v, str) else format(v, '.4g')}" for k, v in record.items()))
    write(records, arguments.out)


if __name__ == "__main__":
    main()
