"""Thirteen small classification sets, every choice made on the training rows of the split alone.

    python benchmarks/small_sets.py --jobs 16                    # all splits, some minutes on 16 cores
    python benchmarks/small_sets.py --splits 5 --sets heart splice
    python benchmarks/small_sets.py --usps                       # ten digits with one model, and the SVM beside it

The number of terms is chosen too (``n_atoms="auto"``). Unrefined strict results are those of the experiment on the same
sets (``docs/results/s2-ida.md``, first five splits). Results are kept in a file and never measured again.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import defaultdict
from time import perf_counter
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: tensors need it

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.svm import SVC

from _common import RECORDS, load, made_with, parser, place, show
from kernelpursuit import RefinedKMPClassifier
from kernelpursuit.arrays import on_host

SETS = (
    "banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image", "ringnorm", "splice", "thyroid",
    "titanic", "twonorm", "waveform",
)  # fmt: skip
DESIGN = {"banana", "breast_cancer", "german", "heart", "ringnorm", "splice", "waveform"}  # the other six judge


def measure(name: str, split: int, folder: str | None) -> tuple[str, int, dict[str, Any]]:
    """Error on the test rows of a split, terms kept, what moved."""
    warnings.simplefilter("ignore")
    data = load(f"ida_{name}", folder)
    train = data.splits[split]
    test = np.setdiff1d(np.arange(len(data.data)), train)
    start = perf_counter()
    model = RefinedKMPClassifier(random_state=split).fit(data.data[train].astype(np.float64), data.target[train])
    fit = perf_counter() - start
    wrong = model.predict(data.data[test].astype(np.float64)) != data.target[test]
    record = {"error": float(np.mean(wrong)), "terms": len(model.widths_), "moved": model.moved_, "fit": fit}
    return name, split, record


def usps(folder: str | None, terms: list[int], device: str) -> None:
    """Errors of one model for ten digits, and of ten support vector machines, each against the rest."""
    data = load("usps", folder)
    X, y, X_test, y_test = data.data, data.target, data.data_test, data.target_test
    for k in terms:
        start = perf_counter()
        with config_context(array_api_dispatch=device != "cpu"):
            model = RefinedKMPClassifier(n_atoms=k, random_state=0).fit(place(X, device), y)
            probabilities = on_host(model.predict_proba(place(X_test, device)))
        against_rest = sum(int(np.sum((probabilities[:, c] > 0.5) != (y_test == c))) for c in range(10))
        wrong = float(np.mean(np.argmax(probabilities, axis=1) != y_test))
        show({"terms": k, "error": wrong, "summed one-against-rest": against_rest, "fit": perf_counter() - start})
    machines = [SVC(C=10, gamma=1 / 128).fit(X, y == c) for c in range(10)]
    summed = sum(int(np.sum(machines[c].predict(X_test) != (y_test == c))) for c in range(10))
    vectors = len(np.unique(np.concatenate([machine.support_ for machine in machines])))
    show({"svm summed one-against-rest": summed, "distinct support vectors": vectors})


def main() -> None:
    """Measure what is missing, print means."""
    options = parser(__doc__, None)
    options.add_argument("--sets", nargs="+", default=list(SETS))
    options.add_argument("--splits", type=int, default=100)
    options.add_argument("--first", type=int, default=0, help="number of the first split")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--usps", action="store_true")
    options.add_argument("--device", default="cpu", help="where the ten digits are fitted")
    options.add_argument("--terms", nargs="+", type=int, default=[100, 200, 264], help="of the ten digits")
    arguments = options.parse_args()
    if arguments.usps:
        return usps(arguments.data, arguments.terms, arguments.device)
    out = arguments.out or RECORDS / "small_sets.jsonl"
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    kept = {(line["set"], line["split"]): line for line in lines if "set" in line}
    tasks = [
        (name, split)
        for name in arguments.sets
        for split in range(arguments.first, min(arguments.splits, len(load(f"ida_{name}", arguments.data).splits)))
    ]
    missing = sorted((task for task in tasks if task not in kept), key=lambda task: task[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    workers = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")
    with out.open("a", encoding="utf-8") as file:
        if not lines:
            file.write(json.dumps({"made_with": made_with()}) + "\n")
        for name, split, record in workers(delayed(measure)(*task, arguments.data) for task in missing):
            kept[name, split] = {"set": name, "split": split} | record
            file.write(json.dumps(kept[name, split]) + "\n")
            file.flush()
    report([kept[task] for task in tasks if task in kept])
    return None


def report(records: list[dict[str, Any]]) -> None:
    """Means over the splits, and over the sets."""
    groups = defaultdict(list)
    for record in records:
        groups[record["set"]].append(record)
    means = []
    for name, group in groups.items():
        errors = [record["error"] for record in group]
        moved = {way: sum(record["moved"] == way for record in group) for way in ("nothing", "centers", "all")}
        means.append((np.mean(errors), np.mean([record["terms"] for record in group])))
        what = {"set": f"{name} ({'design' if name in DESIGN else 'judge'})", "splits": len(group)}
        first = float(np.mean([record["error"] for record in group if record["split"] < 5]))
        what |= {"error": float(means[-1][0]), "standard error": float(np.std(errors) / np.sqrt(len(group)))}
        show(what | {"first five": first, "terms": float(means[-1][1]), "moved": moved, "fit": group[0]["fit"]})
    show(dict(zip(("mean error", "mean terms"), np.mean(means, axis=0).tolist(), strict=True)))


if __name__ == "__main__":
    main()
