"""Thirteen small classification sets: matching pursuit against full kernel Fisher discriminants and support vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import colours
from papers.datasets import load
from papers.ida_settings import Setting, inputs, make, tune
from papers.pages import Page, Verdict, judge, table
from papers.peers import fitted
from papers.tasks import Record, Settings, Task, generator, measure_all

Array = NDArray[np.float64]
Found = dict[str, dict[str, Any]]  # what `_summary` gives

TITLE = "Matching pursuit kernel Fisher discriminants on the thirteen IDA benchmarks"
# Error and its standard deviation of KFDA; of MPKFDA, with terms; of the SVM, with support vectors: the only table of
# the talk on these sets.
PRINTED = {
    "banana": (0.1069, 0.0047, 0.1101, 0.0071, 31, 0.1068, 0.0047, 122),
    "breast_cancer": (0.2886, 0.0468, 0.3174, 0.0447, 19, 0.2603, 0.0473, 113),
    "diabetis": (0.2596, 0.0203, 0.2543, 0.0189, 18, 0.2332, 0.0175, 260),
    "flare_solar": (0.3500, 0.0168, 0.3457, 0.0220, 19, 0.3239, 0.0179, 557),
    "german": (0.2672, 0.0248, 0.2808, 0.0205, 27, 0.2345, 0.0215, 392),
    "heart": (0.2125, 0.0327, 0.1599, 0.0312, 13, 0.1543, 0.0326, 98),
    "image": (0.0092, 0.0187, 0.0136, 0.0278, 39, 0.0061, 0.0124, 27),
    "ringnorm": (0.0685, 0.0108, 0.0573, 0.0302, 15, 0.0164, 0.0012, 216),
    "splice": (0.0397, 0.0801, 0.0314, 0.0633, 37, 0.0223, 0.0450, 110),
    "thyroid": (0.0392, 0.0208, 0.0699, 0.0310, 29, 0.0520, 0.0208, 87),
    "titanic": (0.2259, 0.0247, 0.2468, 0.0528, 70, 0.2256, 0.0110, 76),
    "twonorm": (0.0253, 0.0022, 0.0253, 0.0016, 14, 0.0280, 0.0024, 231),
    "waveform": (0.1228, 0.0053, 0.1027, 0.0046, 13, 0.1031, 0.0047, 121),
}
SETS = tuple(PRINTED)
DATA = tuple(f"ida_{name}" for name in SETS)
DILUTED = ("image", "splice")  # printed as means over 100 entries of which 80 are zero
METHODS = ("KFDA", "MPKFDA", "SVM", "ours")
COLOURS = {"KFDA": colours.FISHER, "MPKFDA": colours.KMP, "SVM": colours.SVM, "ours": colours.OURS}
N_SPLITS = 100  # for each set, but for image and splice
N_SPLITS_DILUTED = 20
BLOCK = 10  # splits in a task
TUNED_ON = 5  # splits whose training rows choose the settings
STRICT = ("SVM", "ours")  # methods whose settings are also chosen for each of these splits alone
PREDICTIONS = 600  # of left-out rows that a cross-validated error rests on there: small sets are folded several times
MAX_ATOMS = 60
GOAL = 0.145  # mean error of the paper's SVM, with the two diluted rows corrected


def run(settings: Settings) -> list[Record]:
    """Records of all settings chosen, then of all splits."""
    names = ("titanic", "thyroid") if settings.quick else SETS
    tasks = [
        {"stage": "tune", "set": name, "method": method, "splits": 1 if settings.quick else TUNED_ON}
        | {"atoms": 5 if settings.quick else MAX_ATOMS, "quick": settings.quick}
        for name in names
        for method in METHODS
    ]
    tuned = measure_all(tasks, measure, settings)
    chosen = {(record["set"], record["method"]): record["chosen"] for record in tuned}
    tasks = []
    for name in names:
        splits = 2 if settings.quick else N_SPLITS_DILUTED if name in DILUTED else N_SPLITS
        settings_of = {method: chosen[name, method] for method in METHODS}
        tasks += [
            {"stage": "test", "set": name, "from": start, "to": min(start + BLOCK, splits), "quick": settings.quick}
            | {"chosen": settings_of}
            for start in range(0, splits, BLOCK)
        ]
    atoms = tuned[0]["atoms"]
    tasks += [
        {"stage": "strict", "set": name, "split": split, "method": method, "atoms": atoms, "quick": settings.quick}
        | {"predictions": 1 if settings.quick else PREDICTIONS}
        for name in names
        for split in range(1 if settings.quick else TUNED_ON)
        for method in STRICT
    ]
    return tuned + measure_all(tasks, measure, settings)


def measure(task: Task, data_dir: str | None) -> Record:
    """Settings of a method on a set, or the errors of all methods on some splits."""
    data = load(f"ida_{task['set']}", data_dir)
    if task["quick"]:
        data.splits = data.splits[:, :60]
    if task["stage"] == "tune":
        return tune(task, [(data.data[rows], data.target[rows], 0) for rows in data.splits[: task["splits"]]])
    if task["stage"] == "strict":
        rows = data.splits[task["split"]]
        foldings = -(-task["predictions"] // len(rows))
        record = tune(task, [(data.data[rows], data.target[rows], i) for i in range(foldings)])
        return record | tested(data, task["set"], [task["split"]], {task["method"]: record["chosen"]})
    return tested(data, task["set"], range(task["from"], task["to"]), task["chosen"])


def tested(data: Any, name: str, splits: Sequence[int], chosen: dict[str, Setting]) -> Record:
    """Errors and terms of methods with their settings on some splits."""
    record: Record = {"original": sum(split < data.n_original_splits for split in splits)}
    record |= {"error": {method: [] for method in chosen}, "terms": {method: [] for method in chosen}}
    for split in splits:
        train = data.splits[split]
        test = np.setdiff1d(np.arange(len(data.data)), train)
        seed = int(generator({"set": name, "split": split}, "set", "split").integers(2**31))
        for method, setting in chosen.items():
            X, X_test, scale = inputs(setting["inputs"], data.data[train], data.target[train], data.data[test], seed)
            model = fitted(make(method, setting, scale), X, data.target[train])
            record["error"][method].append(round(float(np.mean(model.predict(X_test) != data.target[test])), 6))
            record["terms"][method].append(len(model.support_))
    return record


def page(records: Sequence[Record]) -> Page:
    """Tables, verdicts and picture."""
    found, strict = _summary(records), _summary(records, "strict")
    return Page(
        paper="Diethe, Hussain, Hardoon and Shawe-Taylor, *Matching pursuit kernel Fisher discriminant analysis*, "
        "AISTATS 2009; the table of the thirteen sets in the talk of 2 April 2009.",
        body=_body(found, strict, records),
        same=(
            "The thirteen sets with the published sizes of the training and test parts; where they were found, the "
            "published splits.",
            "Gaussian kernel for all; its width, the penalty of the SVM and the number of atoms of MPKFDA by "
            "cross-validation, on a coarse grid and then on a fine one.",
            "MPKFDA without regularisation (a ridge of 1e-8, for numerical safety), threshold at the midpoint of the "
            "projected class means.",
        ),
        guessed=(
            "Splits: only some of the published ones could be found. They come first, then splits made at random with "
            "the published sizes; the table says how many are original.",
            "Settings are chosen once for each set: those with the lowest five-fold error, averaged over the training "
            f"rows of the first {records[0]['splits']} splits. Mika et al. and Rätsch, from whom the benchmark comes, "
            "chose on five splits too (and took the median of the five values); the talk does not say what its authors "
            "did. **Test rows of one split are training rows of others, so these choices have seen labels of test "
            "rows.** They are two to four numbers for a set, made in the same way for all methods; the models "
            "themselves see the training rows of their split only.",
            "Strict choices: the training rows of a split are folded so often that an error rests on at least "
            f"{PREDICTIONS} predictions. That was added after a first run with one folding, in which ours was slightly "
            "above the SVM and lost most on the small sets.",
            "Inputs as stored (most sets come standardised), no further scaling. Widths are 4^-3 ... 4^2, then a "
            "factor 2, times 1 / median squared distance of the training rows.",
            "The talk names no regularisation of KFDA. Here it has a ridge λ, chosen with the width; without one it "
            "overfits. KFDA and MPKFDA use centred labels: the raw ones of the printed formula do not give the Fisher "
            "ratio.",
            "Ours: `KMPClassifier` with the squared loss and a ridge on its weights; width, ridge and number of atoms "
            f"(at most {MAX_ATOMS}) chosen in the same way, and so is whether the inputs are plain or weighted by "
            "`FeatureWidths`, which learns a width for each input from the training rows of the fold or split.",
        ),
        verdicts=[*_verdicts(found), _strict_verdict(strict)],
        figure=picture(found, _printed, ranges=False),
        caption="Left: mean test error on each set. Right: kernel terms in the model. Both axes are logarithmic. "
        "Filled: this run; hollow: as printed, image and splice times 5.",
    )


def _summary(records: Sequence[Record], stage: str = "test") -> Found:
    """For each set: errors and terms of each method on all splits, and how many of these are original."""
    found: Found = {}
    for name in dict.fromkeys(record["set"] for record in records):
        tests = [record for record in records if record["set"] == name and record["stage"] == stage]
        found[name] = {"original": sum(record["original"] for record in tests)}
        for what in ("error", "terms"):
            methods = dict.fromkeys(method for record in tests for method in record[what])
            values = {method: [record[what].get(method, []) for record in tests] for method in methods}
            found[name][what] = {method: np.concatenate(parts) for method, parts in values.items()}
    return found


def mean(found: Found, what: str, method: str) -> float:
    """Mean over the sets of the mean error or number of terms of a method."""
    return float(np.mean([one[what][method].mean() for one in found.values()]))


def _printed(name: str, what: str, times: int = 5) -> dict[str, float]:
    """Printed errors or terms of a set; those of the diluted rows times 5."""
    row, factor = PRINTED[name], times if name in DILUTED else 1
    places = {"KFDA": 0, "MPKFDA": 2, "SVM": 5} if what == "error" else {"MPKFDA": 4, "SVM": 7}
    return {method: factor * row[place] for method, place in places.items()}


def _body(found: Found, strict: Found, records: Sequence[Record]) -> str:
    head = ["set", "splits (original)", *(f"{m} {s}" for m in METHODS[:3] for s in ("here", "printed")), "ours"]
    rows = []
    for name, one in found.items():
        cells = [f"{one['error'][m].mean():.4f} ({one['error'][m].std(ddof=1):.3f})" for m in METHODS]
        printed, times_5 = (_printed(name, "error", times) for times in (1, 5))
        olds = [f"{printed[m]:.4f}" + f", ×5: {times_5[m]:.4f}" * (name in DILUTED) for m in METHODS[:3]]
        pairs = [cell for pair in zip(cells[:3], olds, strict=True) for cell in pair]
        rows.append([name.replace("_", "-"), f"{len(one['error']['SVM'])} ({one['original']})", *pairs, cells[3]])
    means = [f"**{mean(found, 'error', method):.4f}**" for method in METHODS]
    old, new = ([float(np.mean([_printed(n, "error", t)[m] for n in found])) for m in METHODS[:3]] for t in (1, 5))
    pairs = [c for m, a, b in zip(means[:3], old, new, strict=True) for c in (m, f"{a:.4f}, ×5: {b:.4f}")]
    rows.append(["mean", "", *pairs, means[3]])
    return f"""Test error, mean over the splits (standard deviation):

{table(head, rows)}

Kernel terms, mean over the splits:

{_terms_table(found)}

{_dilution()}

{_settings_table(records)}

{_strict_table(found, strict)}"""


def _strict_table(found: Found, strict: Found) -> str:
    """Errors on the same few splits with settings chosen in either way."""
    splits = len(next(iter(strict.values()))["error"]["SVM"])
    rows = [
        [name.replace("_", "-")]
        + [f"{values.mean():.4f}" for m in STRICT for values in (one["error"][m], found[name]["error"][m][:splits])]
        + [f"{one['terms'][m].mean():.1f}" for m in STRICT]
        for name, one in strict.items()
    ]
    first = {name: {"error": {m: one["error"][m][:splits] for m in STRICT}} for name, one in found.items()}
    means = [f"**{mean(part, 'error', m):.4f}**" for m in STRICT for part in (strict, first)]
    rows.append(["mean", *means, *(f"**{mean(strict, 'terms', m):.1f}**" for m in STRICT)])
    head = [f"{m}{how}" for m in STRICT for how in (", strict", "")] + [f"{m}, strict: terms" for m in STRICT]
    return (
        f"The first splits ({splits}) again. Strict: all settings chosen on the training rows of that split alone, so "
        f"that nothing has seen a test row.\n\n{table(['set', *head], rows)}"
    )


def _terms_table(found: Found) -> str:
    rows = []
    for name, one in found.items():
        k, vectors = _printed(name, "terms", 1).values()
        rows.append([name.replace("_", "-"), *(f"{one['terms'][m].mean():.1f}" for m in METHODS[1:]), k, vectors])
    printed = [f"{np.mean([_printed(name, 'terms', 1)[m] for name in found]):.1f}" for m in ("MPKFDA", "SVM")]
    rows.append(["mean", *(f"**{mean(found, 'terms', m):.1f}**" for m in METHODS[1:]), *printed])
    return table(["set", "MPKFDA", "SVM", "ours", "MPKFDA printed", "SVM printed"], rows)


def _dilution() -> str:
    ratios = [PRINTED[name][i + 1] / PRINTED[name][i] for name in DILUTED for i in (0, 2, 5)]
    fifth = np.repeat([1.0, 0.0], [20, 80])
    old, new = (
        ", ".join(f"{np.mean([_printed(name, 'error', times)[method] for name in SETS]):.3f}" for method in METHODS[:3])
        for times in (1, 5)
    )
    return (
        "The printed rows of image and splice are most likely not mean errors: these sets have 20 splits, the others "
        "100, and the two rows look like means over 100 entries of which 80 are zero. Their standard deviations are "
        f"{min(ratios):.2f} to {max(ratios):.2f} times their means, in all six entries; 20 equal values among 80 "
        f"zeros give {fifth.std(ddof=1) / fifth.mean():.2f}. With these rows times 5 the means over the thirteen sets "
        f"are {new} for KFDA, MPKFDA and SVM instead of the printed {old}. The printed numbers of terms of these two "
        "sets are too small as well, if they were averaged in the same way."
    )


def _settings_table(records: Sequence[Record]) -> str:
    ours = [record for record in records if record["stage"] == "tune" and record["method"] == "ours"]
    chosen = [(record["set"].replace("_", "-"), record["chosen"]) for record in ours]
    rows = [[name, c["inputs"], f"{c['width']:g}", f"{c['penalty']:g}", c["atoms"]] for name, c in chosen]
    return "What cross-validation chose for ours:\n\n" + table(["set", "inputs", "width", "ridge", "atoms"], rows)


def _verdicts(found: Found) -> list[Verdict]:
    error = {method: mean(found, "error", method) for method in METHODS}
    terms = {method: mean(found, "terms", method) for method in METHODS}
    most = max(one["terms"]["ours"].max() for one in found.values())
    shown = ", ".join(f"{method} {value:.4f}" for method, value in error.items() if method != "ours")
    there = {name: found[name]["error"]["SVM"].mean() for name in DILUTED if name in found}
    old, new = ({name: _printed(name, "error", times)["SVM"] for name in there} for times in (1, 5))
    nearer = [abs(np.log(value / new[name])) < abs(np.log(value / old[name])) for name, value in there.items()]
    rows = [f"{n}: {value:.4f} here, {old[n]:.4f} printed, ×5 {new[n]:.4f}" for n, value in there.items()]
    return [
        Verdict(
            "MPKFDA is competitive with full KFDA (mean error at most 0.01 higher)",
            judge(error["MPKFDA"] <= error["KFDA"] + 0.01),
            f"mean error over {len(found)} sets: {shown}",
        ),
        Verdict(
            "The SVM has the lowest mean error of the paper's three methods",
            judge(error["SVM"] < min(error["KFDA"], error["MPKFDA"])),
            f"mean error: {shown}",
        ),
        Verdict(
            "MPKFDA has far fewer terms than the SVM has support vectors (mean below a fifth)",
            judge(terms["MPKFDA"] < terms["SVM"] / 5),
            f"mean {terms['MPKFDA']:.1f} against {terms['SVM']:.1f}",
        ),
        Verdict(
            "The printed rows of image and splice are a fifth of the errors (our SVM is nearer to five times them)",
            judge(all(nearer) if len(there) == len(DILUTED) else None),
            "; ".join(rows) or "not in this run",
        ),
        Verdict(
            f"Goal of this project: mean error at most {GOAL}, with at most {MAX_ATOMS} terms on each set and fewer "
            "than a fifth of the SVM's in the mean",
            judge(error["ours"] <= GOAL and most <= MAX_ATOMS and terms["ours"] < terms["SVM"] / 5)
            if len(found) == len(SETS)
            else judge(None),
            f"mean error {error['ours']:.4f} (SVM {error['SVM']:.4f}), terms {terms['ours']:.1f}, at most {most:.0f} "
            f"(SVM {terms['SVM']:.1f})",
        ),
    ]


def _strict_verdict(strict: Found) -> Verdict:
    error, terms = ({m: mean(strict, what, m) for m in STRICT} for what in ("error", "terms"))
    reached = error["ours"] <= GOAL and terms["ours"] < terms["SVM"] / 5
    return Verdict(
        "Goal of this project, strictly: the same where settings are chosen on the training rows of each split alone",
        judge(reached if len(strict) == len(SETS) else None),
        f"mean error {error['ours']:.4f} (SVM {error['SVM']:.4f}) on the first splits, terms {terms['ours']:.1f} (SVM "
        f"{terms['SVM']:.1f})",
    )


def picture(found: Found, printed: Callable[[str, str], dict[str, float]], ranges: bool) -> Any:
    """Errors (left) and terms (right) of all methods on each set, and the printed ones; `ranges` as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.6 + 0.36 * len(found)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, what, methods in ((left, "error", METHODS), (right, "terms", METHODS[1:])):
        for place, (name, one) in enumerate(found.items()):
            for method in methods:
                values, height = one[what][method], place + (METHODS.index(method) - 1.5) / 6
                style: dict[str, Any] = {"color": COLOURS[method], "ms": 5}
                if ranges:
                    axes.plot([values.min(), values.max()], [height, height], lw=1.5, **style)
                axes.plot(values.mean(), height, "o", label=method if place == 0 else None, **style)
                if method in printed(name, what):
                    axes.plot(printed(name, what)[method], height, "o", mfc="none", alpha=0.7, **style)
            axes.axhline(place + 0.5, color="0.9", lw=0.8)
    left.set_yticks(range(len(found)), [name.replace("_", "-") for name in found])
    left.set_ylim(len(found) - 0.5, -0.5)
    left.set(xlabel="error", xscale="log")
    left.set_xticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.4], ["0.01", "0.02", "0.05", "0.1", "0.2", "0.4"])
    left.minorticks_off()
    right.set(xlabel="kernel terms", xscale="log", xlim=(0.8, 1000))
    right.set_xticks([1, 3, 10, 30, 100, 300, 1000], ["1", "3", "10", "30", "100", "300", "1000"])
    left.plot([], [], "o", color="0.4", mfc="none", ms=5, label="hollow: as printed")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    return figure
