"""How many atoms ``n_atoms="auto"`` keeps where there are several classes, beside SVC and plain cross-validation.

The constants of the rule were chosen on the design sets and are judged on the others. "gcv" is ``stop="gcv"``, the
lowest score; "hindsight" the lowest test error along its path. The promise: never more atoms than half of SVC's support
vectors, unless the test error with so many is larger by more than its standard error. The table of the page is
written into it.

Run: ``python benchmarks/auto_classes.py [--data DIR] [--rows 1000] [--splits 5] [--out FILE] [--page FILE]``
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from _common import load, parser, seconds, show, write
from kernelpursuit import KMPClassifier

DESIGN = ("digits", "keel_satimage", "keel_vowel", "usps", "mfeat")
JUDGE = ("keel_letter", "keel_segment", "mfeat_fou", "mfeat_zer", "mfeat_fac", "covtype")
IMAGES = ("digits", "usps", "mfeat")  # columns have one unit
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "auto_classes.md"
TEST_ROWS = 2000


def rows_of(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a set."""
    stem, _, view = name.partition("_") if name.startswith("mfeat") else (name, "", "")
    data = load_digits() if name == "digits" else load(stem, folder)
    if stem == "mfeat":
        return data.views[view or "kar"].astype(np.float64), data.target
    if name == "covtype":
        some = np.random.default_rng(0).permutation(len(data.data))[:4000]
        return data.data[some].astype(np.float64), data.target[some]
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


def table(records: list[dict[str, Any]]) -> str:
    """Markdown of what was measured, with a verdict for each set."""
    names = ("set", "", "SVC: error, terms", "auto: error, atoms", "lowest score: error, atoms", "hindsight")
    lines = ["| " + " | ".join([*names, "half of SVC's terms: error", "standard error", "promise"]) + " |"]
    lines.append("|" + "---|" * (len(names) + 3))
    for one in records:
        half, gain = one["svc: terms"] / 2, one["at half of svc's"] - one["auto"]
        few, gains = one["auto: terms"] <= half, gain > one["standard error"]
        verdict = (
            "kept" if few else f"{one['auto: terms'] / half - 1:.0%} more, " + ("which pay" if gains else "broken")
        )
        pairs = [f"{one[name]:.4f}, {one[f'{name}: terms']:.0f}" for name in ("svc", "auto", "gcv")]
        rest = [f"{one[name]:.4f}" for name in ("hindsight", "at half of svc's", "standard error")]
        lines.append("| " + " | ".join([one["set"].removeprefix("keel_"), one["role"], *pairs, *rest, verdict]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the record, and its table into the page."""
    made = parser(__doc__, "auto_classes")
    made.add_argument("--page", type=Path, default=PAGE)
    made.add_argument("--rows", type=int, default=1000)
    made.add_argument("--splits", type=int, default=5)
    args = made.parse_args()
    records: list[dict[str, Any]] = []
    for name in DESIGN + JUDGE:
        X, y = rows_of(name, args.data)
        splits = [measure(X, y, args.rows, seed, name not in IMAGES) for seed in range(args.splits)]
        mean = {key: float(np.mean([split[key] for split in splits])) for key in splits[0]}
        records.append({"set": name, "role": "design" if name in DESIGN else "judge", **mean})
        show(records[-1])
    write(records, args.out)
    text = args.page.read_text()
    args.page.write_text(re.sub(r"\| set \|.*\|\n", lambda _: table(records) + "\n", text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
