"""Probabilities beside `CalibratedClassifierCV`: log loss on test rows, and the time of the fit.

Each classifier as its constructor makes it, its own probabilities beside those of `CalibratedClassifierCV` (five folds,
a sigmoid) around the same one: the default, which averages five models, and ``ensemble=False``, which has one. Columns
are standardised; at most 400 training rows. Log losses and seconds as shares of the default's. The table of the page
is written into it.

Run: ``python benchmarks/probabilities.py [--data DIR] [--splits 2] [--out FILE] [--page FILE]``
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from _common import load, parser, seconds, show, write
from kernelpursuit import KMPClassifier, SparseKernelFDA

SHIPPED = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}
SETS = [
    *SHIPPED, "pima", "sonar", "ionosphere", "ida_banana", "ida_flare_solar", "ida_german", "ida_heart", "ida_image",
    "ida_titanic", "keel_vowel", "keel_segment", "keel_satimage",
]  # fmt: skip
MODELS = {
    "squared_error": KMPClassifier(),
    "log_loss": KMPClassifier(15, loss="log_loss"),
    "Fisher": SparseKernelFDA(15),
}
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "probabilities.md"
ROWS, TEST_ROWS = 400, 2000


def compare(model: Any, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """Log losses and seconds on one split."""
    order = np.random.default_rng(seed).permutation(len(X))
    size = min(ROWS, 2 * len(X) // 3)
    train, test = order[:size], order[size : size + TEST_ROWS]
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    peers = {"own": clone(model)} | {
        name: CalibratedClassifierCV(clone(model), cv=5, ensemble=several)
        for name, several in (("folds", True), ("folds, one model", False))
    }
    found = {}
    for name, one in peers.items():
        time, fitted = seconds(lambda one=one: one.fit(A, y[train]))
        found[name] = log_loss(y[test], fitted.predict_proba(B), labels=fitted.classes_)
        found[f"{name}: seconds"] = time
    return found


def table(records: list[dict[str, Any]]) -> str:
    """Markdown: a row for each set, two columns for each model."""
    heads = [head for kind in MODELS for head in (f"{kind}: five models", "one model")]
    lines = ["| " + " | ".join(["set", *heads]) + " |", "|" + "---|" * (1 + len(heads))]
    for name in dict.fromkeys(record["set"] for record in records):
        mine = {record["model"]: record for record in records if record["set"] == name}
        shares = [f"{mine[kind][key]:.2f}" for kind in MODELS for key in ("to folds", "to one model")]
        lines.append("| " + " | ".join([name.removeprefix("ida_").removeprefix("keel_"), *shares]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the record, and its table into the page."""
    made = parser(__doc__, "probabilities")
    made.add_argument("--splits", type=int, default=2)
    made.add_argument("--sets", nargs="+", default=SETS)
    made.add_argument("--page", type=Path, default=PAGE)
    args = made.parse_args()
    warnings.simplefilter("ignore")
    records: list[dict[str, Any]] = []
    for name in args.sets:
        data = SHIPPED[name]() if name in SHIPPED else load(name, args.data)
        X, y = data.data.astype(np.float64), data.target
        for kind, model in MODELS.items():
            splits = [compare(model, X, y, seed) for seed in range(args.splits)]
            mean = {key: float(np.mean([split[key] for split in splits])) for key in splits[0]}
            records.append({"set": name, "model": kind, "log_loss": mean["own"]})
            records[-1] |= {"to folds": mean["own"] / mean["folds"]}
            records[-1] |= {"to one model": mean["own"] / mean["folds, one model"]}
            records[-1] |= {"time": mean["own: seconds"] / mean["folds: seconds"]}
            show(records[-1])
    for kind in MODELS:
        mine = [record for record in records if record["model"] == kind]
        keys = ("to folds", "to one model", "time")
        means = {key: float(np.exp(np.mean([np.log(record[key]) for record in mine]))) for key in keys}
        records.append({"set": "geometric mean", "model": kind, **means})
        show(records[-1])
    write(records, args.out)
    text = args.page.read_text()
    args.page.write_text(re.sub(r"\| set \|.*\|\n", lambda _: table(records) + "\n", text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
