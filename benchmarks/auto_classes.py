"""How many atoms ``n_atoms="auto"`` keeps where there are several classes, beside SVC and plain cross-validation.

The constants of the rule were chosen on the design sets and are judged on the others. "gcv" is ``stop="gcv"``, the
lowest score; "hindsight" the lowest test error along its path. "excess" are test errors above those with half as many
atoms as SVC has support vectors, in standard errors, where more than these are kept.

Run: ``python benchmarks/auto_classes.py [--data DIR] [--rows 1000] [--splits 2] [--out FILE]``
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from _common import load, parser, seconds, show, write
from kernelpursuit import KMPClassifier

DESIGN = ("digits", "keel_satimage", "keel_vowel")
JUDGE = ("keel_letter", "keel_segment", "usps", "mfeat")
IMAGES = ("digits", "usps", "mfeat")  # columns have one unit
TEST_ROWS = 2000


def rows_of(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a set."""
    data = load_digits() if name == "digits" else load(name, folder)
    if name == "mfeat":
        return data.views["kar"].astype(np.float64), data.target
    X, y = data.data.astype(np.float64), data.target
    return (np.concatenate([X, data.data_test]), np.concatenate([y, data.target_test])) if name == "usps" else (X, y)


def measure(X: np.ndarray, y: np.ndarray, rows: int, seed: int, scaled: bool) -> dict[str, float]:
    """One split."""
    order = np.random.default_rng(seed).permutation(len(X))
    size = min(rows, 2 * len(X) // 3)
    train, test = order[:size], order[size : size + TEST_ROWS]
    if scaled:
        spread = X[train].std(axis=0)
        X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    models = {"svc": SVC(), "auto": KMPClassifier(), "gcv": KMPClassifier(stop="gcv")}
    found: dict[str, float] = {}
    for name, model in models.items():
        time, fitted = seconds(lambda model=model: model.fit(X[train], y[train]))
        error = float(np.mean(fitted.predict(X[test]) != y[test]))
        found |= {name: error, f"{name}: terms": len(fitted.support_), f"{name}: seconds": time}
    staged = [float(np.mean(labels != y[test])) for labels in models["gcv"].staged_predict(X[test])]
    half = min(len(staged), int(found["svc: terms"]) // 2)
    error = found["auto"]
    return found | {
        "hindsight": min(staged),
        "at half of svc's": staged[half - 1],
        "standard error": float(np.sqrt(max(error * (1 - error), 1 / len(test)) / len(test))),
    }


def main() -> None:
    """Write the record."""
    made = parser(__doc__, "auto_classes")
    made.add_argument("--rows", type=int, default=1000)
    made.add_argument("--splits", type=int, default=2)
    args = made.parse_args()
    records: list[dict[str, Any]] = []
    for name in DESIGN + JUDGE:
        X, y = rows_of(name, args.data)
        splits = [measure(X, y, args.rows, seed, name not in IMAGES) for seed in range(args.splits)]
        mean = {key: float(np.mean([split[key] for split in splits])) for key in splits[0]}
        records.append({"set": name, "role": "design" if name in DESIGN else "judge", **mean})
        show(records[-1])
    write(records, args.out)


if __name__ == "__main__":
    main()
