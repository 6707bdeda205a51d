"""Evidence for the rule that chooses the number of atoms when ``n_atoms="auto"``.

One greedy path is followed on the training part of real data sets. Rules that see only that path (and, as comparators,
a validation split and cross-validation) say how many atoms to keep, and the test error there is compared with the
lowest along the path. Sets of regression, of two classes and with several targets; five splits; three widths of the RBF
kernel; a small ridge penalty for the rules that could be the default.

    python benchmarks/auto_n_atoms.py --data DIR --out docs/evidence

writes ``auto_n_atoms.md`` (tables) and ``auto_n_atoms.csv`` (atoms kept by each rule and the test error there, for each
set, split and width). DIR holds the data sets as ``.npz`` files; the default is the environment variable
``KERNELPURSUIT_DATA``. ``--quick`` takes two splits of a few sets, ``--jobs`` so many sets at a time.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from _common import made_with
from auto_rules import (
    ALPHAS,
    CLASS_RULES,
    DEFAULT,
    GROUPS,
    QUICK,
    RIDGE_RULES,
    RULES,
    SEVERAL,
    SEVERAL_RULES,
    SHARED,
    WIDTHS,
    Choice,
    Split,
    Trace,
    has_classes,
    splits,
    trace,
)
from kernelpursuit.kernels import scale_gamma

SPLITTING = ("validation split", "5-fold CV")

# Records and tables


class Result(NamedTuple):
    """One set at one width: means over splits, by rule."""

    error: dict[str, float]
    steps: dict[str, float]
    best_error: float
    offset: float

    def ratio(self, rule: str) -> float:
        """Test error in units of the lowest along the path; for classes one test row is added to both."""
        return (self.error[rule] + self.offset) / (self.best_error + self.offset)


def rules_for(name: str) -> dict[str, Callable[[Trace], Choice]]:
    """Rules that make sense for a set."""
    return RULES | (CLASS_RULES if has_classes(name) else {}) | (SEVERAL_RULES if name in SEVERAL else {})


def examine(split: Split, name: str, width: float) -> tuple[Trace, dict[str, tuple[int, int, float]]]:
    """Path of one split at one width; atoms kept, steps seen and test error of each rule."""
    gamma = width * scale_gamma(split.X)
    base = trace(split, gamma, 0.0, has_classes(name), aside=True)
    verdicts = {rule: outcome(base, decide(base)) for rule, decide in rules_for(name).items()}
    for alpha in ALPHAS if name not in SEVERAL else ():
        ridge = trace(split, gamma, alpha, has_classes(name), aside=False)
        verdicts |= {f"{rule}, alpha {alpha:g}": outcome(ridge, RULES[rule](ridge)) for rule in RIDGE_RULES}
    return base, verdicts


def outcome(t: Trace, choice: Choice) -> tuple[int, int, float]:
    """Atoms kept, steps seen, test error."""
    keep = min(choice.keep, len(t.test) - 1)
    return keep, choice.steps, float(t.test[keep])


def collect(folder: Path, name: str, n_splits: int) -> tuple[dict[float, Result], list[dict]]:
    """Results of a set by width, and a record for each split and width."""
    results, records = {}, []
    parts = list(splits(folder, name, n_splits))
    for width in WIDTHS:
        tests, verdicts = [], []
        for s, split in enumerate(parts):
            base, verdict = examine(split, name, width)
            tests.append(base.test)
            verdicts.append(verdict)
            best = int(np.argmin(base.test))
            record = {"set": name, "split": s, "width": width, "best k": best, "best": f"{base.test[best]:.3g}"}
            for rule, (keep, _, error) in verdict.items():
                record |= {f"{rule}: k": keep, f"{rule}: error": f"{error:.3g}"}
            records.append(record)
        length = min(len(test) for test in tests)
        curve = np.mean([test[:length] for test in tests], axis=0)
        means = {rule: np.mean([verdict[rule] for verdict in verdicts], axis=0) for rule in verdicts[0]}
        results[width] = Result(
            error={rule: float(mean[2]) for rule, mean in means.items()},
            steps={rule: float(mean[1]) for rule, mean in means.items()},
            best_error=float(curve.min()),
            offset=1 / len(parts[0].X_test) if has_classes(name) else 0.0,
        )
    return results, records


def geometric(values: list[float]) -> float:
    """Geometric mean, no value counted below a half."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 0.5)))))


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown table, first column text."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def group_rules(results: dict[str, dict[float, Result]]) -> list[str]:
    """Rules that every set of a group has, in order."""
    first, *others = [list(by_width[1.0].error) for by_width in results.values()]
    return [rule for rule in first if all(rule in other for other in others)]


def overall(groups: dict[str, dict[str, dict[float, Result]]], title: str, rule: str) -> float:
    """Geometric mean of error / best over the sets and widths of a group; nan where the rule does not apply."""
    ratios = [r.ratio(rule) if rule in r.error else np.nan for sets in groups[title].values() for r in sets.values()]
    return float("nan") if np.isnan(ratios).any() else geometric(ratios)


def against(results: dict[str, dict[float, Result]], rule: str, default: str) -> str:
    """Error of a rule above that of the default in per cent, with its standard error over sets."""
    logs = [np.mean([np.log(r.ratio(rule) / r.ratio(default)) for r in sets.values()]) for sets in results.values()]
    return f"{100 * np.mean(logs):+.1f} ± {100 * np.std(logs, ddof=1) / np.sqrt(len(logs)):.1f}"


def main_table(groups: dict[str, dict[str, dict[float, Result]]]) -> str:
    """All widths together, one target: each rule in each group, and its difference to the default."""
    header = ["rule", "regression", "two classes", "regression: against the default, %"]
    header += ["two classes: against the default, %", "steps"]
    rows = []
    for rule in group_rules(groups["Two classes"]):
        means = [overall(groups, title, rule) for title in ("Regression", "Two classes")]
        here = {
            title: groups[title] for title, mean in zip(("Regression", "Two classes"), means, strict=True) if mean > 0
        }
        difference = [
            against(here[title], rule, DEFAULT) if title in here else "" for title in ("Regression", "Two classes")
        ]
        steps = [result.steps[rule] for sets in here.values() for case in sets.values() for result in case.values()]
        cells = ["" if np.isnan(mean) else f"{mean:.3f}" for mean in means]
        rows.append([f"**{rule}**" if rule == DEFAULT else rule, *cells, *difference, f"{np.mean(steps):.0f}"])
    return table(header, rows)


def halves_table(groups: dict[str, dict[str, dict[float, Result]]]) -> str:
    """The rule that is best on one half of the sets, judged on the other half, beside the default."""
    header = ["sets", "chosen on", "best rule there", "its error there", "its error on the others"]
    rows = []
    for title in ("Regression", "Two classes"):
        names = sorted(groups[title])
        for first in (0, 1) if len(names) > 1 else ():
            design = {title: {name: groups[title][name] for name in names[first::2]}}
            judge = {title: {name: groups[title][name] for name in names[1 - first :: 2]}}
            rule = min((rule for rule in RULES if rule not in SPLITTING), key=lambda rule: overall(design, title, rule))
            errors = [overall(design, title, rule), overall(judge, title, rule), overall(judge, title, DEFAULT)]
            rows.append([title, ", ".join(names[first::2]), rule, *(f"{error:.3f}" for error in errors)])
    return table([*header, "the default's on the others"], rows)


CONCLUSION = """\
**Keep the minimum of generalised cross-validation with a charge of two degrees of freedom for each atom, patience \
10.** Its test error is {gcv_r:.3f} (regression) and {gcv_c:.3f} (two classes) times the lowest along the path, over \
all sets and widths; 5-fold cross-validation, six paths instead of one, has {cv_r:.3f} and {cv_c:.3f}.
Leave-one-out has {loo_r:.3f} and {loo_c:.3f}, a validation split {val_r:.3f} and {val_c:.3f}; no ridge penalty \
improves on it for both tasks by more than its standard error.
With several targets the search is charged once for all of them (c below): {shared:.3f}, against {two:.3f} with c = 2 \
and {cv_s:.3f} by cross-validation."""

RULE_TEXT = """\
After k atoms on n rows, with the mean squared training error loss(k):

    gcv(k) = loss(k) / (1 - (1 + c k) / n)²,  infinite where 1 + c k >= n
    c = 1 + sum(S²) / trace(S)²,              S the covariance matrix of the targets; c = 2 for one target

Keep the k with the lowest value; stop when the last 10 steps brought nothing lower. n is the total weight (a row of \
weight w counts as w rows) and S is weighted alike, so a weight is the same as repeated rows. The scale of y does not \
matter, nor does a target given twice. The rule needs nothing but the training error along the path.

Why not leave-one-out: a row whose own atom was taken has a leverage near 1, and its residual without it, that atom \
kept, is not what the path would have made of the data without that row. Few such rows dominate the mean, more so for \
narrow kernels. Leaving them out of the mean (*rows that are no atom*) keeps too many atoms instead, since nothing is \
charged for the search. The average leverage in generalised cross-validation has neither fault once the \
search is charged.

The ridge of `alpha="auto"` comes after the choice, which is the same with it and without \
([ridge_rules](ridge_rules.md)).

The charge was chosen on these sets; over all widths those from 1.5 to 3 are within 4 % of it. Training parts have at \
most 600 rows, paths at most 250 atoms, and all are of the pre-fitting variant with the RBF kernel."""


def report(groups: dict[str, dict[str, dict[float, Result]]], quick: bool) -> str:
    """Whole text."""
    of = partial(overall, groups)
    numbers = {"shared": of("Several targets", SHARED), "two": of("Several targets", DEFAULT)}
    numbers["cv_s"] = of("Several targets", "5-fold CV")
    for key, rule in (("gcv", DEFAULT), ("cv", "5-fold CV"), ("loo", "LOO"), ("val", "validation split")):
        numbers |= {f"{key}_r": of("Regression", rule), f"{key}_c": of("Two classes", rule)}
    several = groups["Several targets"]
    shared = [
        [
            f"**{rule}**" if rule == SHARED else rule,
            f"{of('Several targets', rule):.3f}",
            against(several, rule, SHARED),
        ]
        for rule in group_rules(several)
    ]
    parts = [
        '# How many atoms: the rule behind `n_atoms="auto"`',
        "A quick run, not the evidence." if quick else CONCLUSION.format(**numbers),
        RULE_TEXT,
        "## All widths",
        "Geometric means over sets and widths of (test error where the rule ends) / (lowest test error along the path, "
        "both averaged over five splits; for classes one test row is added to both). Differences to the default: mean "
        "over sets of the logarithm, ± its standard error. Rules have patience 10 unless they say otherwise; steps "
        "are those that had to be taken (on each of its paths, for cross-validation). With alpha the best is "
        "still that without penalty. The squared error of regression is in units of the variance of y.",
        main_table(groups),
        "## Chosen on one half, judged on the other",
        "Every second set, in the order of the alphabet, to choose one of the rules above that need no other path and "
        "no split; the rest to judge it. Geometric means over the sets and widths of a half.",
        halves_table(groups),
        "## All widths, several targets",
        "More than two classes, or several columns as targets: all share their atoms.",
        table(["rule", "error / best", "against the default, %"], shared),
    ]
    parts += [
        "## Command",
        "Made with " + "; ".join(f"{name} {value}" for name, value in made_with().items()) + ":",
        f"    python benchmarks/auto_n_atoms.py --data DIR{' --quick' if quick else ''}",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("KERNELPURSUIT_DATA"), help="folder of the .npz files")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), help="folder to write to")
    parser.add_argument("--quick", action="store_true", help="two splits of a few sets")
    parser.add_argument("--jobs", type=int, default=1, help="sets at a time")
    arguments = parser.parse_args()
    if arguments.data is None or not (Path(arguments.data) / "housing.npz").exists():
        raise SystemExit("no data: give the folder of the .npz files with --data or KERNELPURSUIT_DATA")
    chosen = [
        (title, name) for title, names in GROUPS.items() for name in names if not arguments.quick or name in QUICK
    ]
    folder, n_splits, began = Path(arguments.data), 2 if arguments.quick else 5, time.perf_counter()
    found = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(collect)(folder, name, n_splits) for _, name in chosen
    )
    groups: dict[str, dict] = {title: {} for title in GROUPS}
    records: list[dict] = []
    for (title, name), (results, rows) in zip(chosen, found, strict=True):
        groups[title][name] = results
        records += rows
        print(f"{name}: there after {time.perf_counter() - began:.0f} s", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = report(groups, arguments.quick)
    (arguments.out / "auto_n_atoms.md").write_text(text, encoding="utf-8")
    fields = list(dict.fromkeys(field for record in records for field in record))
    with open(arguments.out / "auto_n_atoms.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(records)


if __name__ == "__main__":
    main()
