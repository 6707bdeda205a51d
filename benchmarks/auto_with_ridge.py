"""Whether ``n_atoms="auto"`` still chooses well now that the chosen atoms have a ridge (``alpha="auto"``).

The rule looks at the path without a ridge; the ridge comes after it and makes models with too many atoms less bad. So
the number of atoms that is best in hindsight may be another one. Test error where the rule ends, as a share of the
lowest over a grid of numbers of atoms, with the ridge and without; one split of a few sets of `auto_n_atoms.py`.

Run: ``python benchmarks/auto_with_ridge.py [--data DIR] [--sets NAME ...] [--out FILE]``
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from _common import parser, show, write
from auto_rules import Split, has_classes, splits, squared, wrong
from kernelpursuit import KMPClassifier, KMPRegressor

SETS = "housing mpg bodyfat space_ga mg ida_heart ida_banana ida_diabetis pima ida_image".split()
GRID = (2, 4, 7, 11, 18, 30, 50, 80, 130, 200)


def error(split: Split, classes: bool, **options: Any) -> tuple[float, int]:
    """Test error and number of atoms of one model."""
    make = KMPClassifier if classes else KMPRegressor
    y = split.targets[:, 0]
    model = make(**options).fit(split.X, y)
    values = model.decision_function(split.X_test) if classes else model.predict(split.X_test)
    measure = wrong if classes else squared
    return float(np.mean(measure(split.targets_test, values[:, None]))), len(model.support_)


def main() -> None:
    """Write the record."""
    made = parser(__doc__, "auto_with_ridge")
    made.add_argument("--sets", nargs="+", default=SETS)
    args = made.parse_args()
    warnings.simplefilter("ignore")
    records: list[dict[str, Any]] = []
    for name in args.sets:
        split = next(splits(Path(args.data), name, 1))
        row = 1 / len(split.X_test) if has_classes(name) else 0.0  # so that an error of 0 has a share
        record: dict[str, Any] = {"set": name}
        for label, alpha in (("ridge", "auto"), ("none", 0.0)):
            own, atoms = error(split, has_classes(name), alpha=alpha)
            tried = [error(split, has_classes(name), alpha=alpha, n_atoms=k) for k in GRID if k < len(split.X) // 2]
            best = min([*tried, (own, atoms)])
            record |= {f"{label}: atoms": atoms, f"{label}: error": own, f"{label}: best atoms": best[1]}
            record[f"{label}: to hindsight"] = (own + row) / (best[0] + row)
        record["ridge to none"] = (record["ridge: error"] + row) / (record["none: error"] + row)
        records.append(record)
        show(record)
    shares = ("ridge: to hindsight", "none: to hindsight", "ridge to none")
    means = {key: float(np.exp(np.mean([np.log(record[key]) for record in records]))) for key in shares}
    records.append({"set": "geometric mean", **means})
    show(records[-1])
    write(records, args.out)


if __name__ == "__main__":
    main()
