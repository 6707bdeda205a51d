"""Prediction intervals without rows held out, beside split conformal and quantile regression, on ten real sets.

``ConformalRegressor(calibration_fraction=None)`` (jackknife+ on the left-out errors of a pursuit, enlarged for the
search of its atoms), the same with a quarter of the rows set aside, then with ``adaptive=True``, and
HistGradientBoosting fitted to two quantiles: share of test targets inside intervals that ask for 90 %, their mean width
in standard deviations of y, and the coverage of that third of the test rows where boosting is least sure, by the
distance of its quantiles. That adaptive intervals use the root of the scale, not the scale, was chosen on three splits
of these sets; the charge for the search is that of ``n_atoms="auto"``.

Run: ``python benchmarks/intervals.py --data DIR [--splits 5] [--rows 400] [--out FILE]``. DIR (default:
$KERNELPURSUIT_DATA) holds .npz files with X and y.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from _common import parser, regression_split, write
from kernelpursuit import ConformalRegressor, KMPRegressor

SETS = ("abalone", "bodyfat", "cal_housing", "cpusmall", "housing", "mg", "mpg", "pyrim", "space_ga", "triazines")
COVERAGE = 0.9
MEASURES = ("coverage", "width", "coverage where unsure")


def intervals(name: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    """Lower and upper ends by one method."""
    if name == "boosted quantiles":
        ends = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
        models = [HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed) for q in ends]
        return np.column_stack([model.fit(X, y).predict(new) for model in models])
    options = {"left out": {"calibration_fraction": None}, "split": {}, "adaptive": {"adaptive": True}}[name]
    model = ConformalRegressor(KMPRegressor(), coverage=COVERAGE, random_state=seed, **options)
    return model.fit(X, y).predict_interval(new)


def main() -> None:
    """Print the coverages and widths and write the record."""
    options = parser(__doc__, "intervals")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--rows", type=int, default=400)
    arguments = options.parse_args()
    methods, records = ("boosted quantiles", "left out", "split", "adaptive"), []
    for name in SETS:
        found: dict[str, list] = {method: [] for method in methods}
        for seed in range(arguments.splits):
            X, y, new, y_new = regression_split(arguments.data, name, arguments.rows, seed)
            ends = {method: intervals(method, X, y, new, seed).T for method in methods}
            spread = np.subtract(*ends["boosted quantiles"][::-1])
            unsure = spread >= np.quantile(spread, 2 / 3)
            for method, (low, high) in ends.items():
                inside = (low <= y_new) & (y_new <= high)
                found[method].append((inside.mean(), np.mean(high - low) / y.std(), inside[unsure].mean()))
        records.append({"set": name, "rows": len(y)})
        for method, values in found.items():
            for what, value in zip(
                ("coverage", "width", "coverage where unsure"), np.mean(values, axis=0), strict=True
            ):
                records[-1][f"{method}, {what}"] = float(value)
        print(
            ", ".join(f"{k}={v if isinstance(v, str) else format(v, '.4g')}" for k, v in records[-1].items()),
            flush=True,
        )
    mean = {key: float(np.mean([record[key] for record in records])) for key in records[0] if key != "set"}
    print("mean:", ", ".join(f"{key}={value:.4g}" for key, value in mean.items()))
    write([*records, {"set": "mean"} | mean], arguments.out)


if __name__ == "__main__":
    main()
