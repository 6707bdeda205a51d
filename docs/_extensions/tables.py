"""Tables of the site, made from records: each function returns Markdown and the files it was made from."""

import json
import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "records"


def markdown(head, rows):
    """A table; cells are texts."""
    lines = ["| " + " | ".join(head) + " |", "| --- " + "| ---: " * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def record(name):
    """What a benchmark wrote, and its file."""
    file = RECORDS / f"{name}.json"
    return json.loads(file.read_text())["results"], file


def intervals():
    """Coverage and width of prediction intervals, means over the sets."""
    results, file = record("intervals")
    names = {
        "split": "`ConformalRegressor()`",
        "adaptive": "`adaptive=True`",
        "left out": "`calibration_fraction=None`",
        "boosted quantiles": "quantiles by boosting, no guarantee",
    }
    mean = next(row for row in results if row["set"] == "mean")
    rows = [
        [shown, *(f"{mean[f'{name}, {what}']:.3f}" for what in ("coverage", "width"))] for name, shown in names.items()
    ]
    return markdown(["", "covered", "mean width, in standard deviations of y"], rows), [file]


def bounds_compared():
    """Some rows of the table of bounds."""
    file = ROOT / "docs" / "results" / "bounds-compared.md"
    lines = [line for line in file.read_text().splitlines() if line.startswith("| ")]
    wanted = ("VC, corrected", "MDL, corrected", "binomial", "PAC-Bayes, by margins", "20 % held out, every k")
    rows = []
    for name in wanted:
        cells = next(
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith(f"| {name} |")
        )
        rows.append([name + (': `stop="certificate"`' if name.startswith("20") else ""), cells[2], cells[3], cells[4]])
    return markdown(["bound", "terms", "bound", "test error"], rows), [file]


def peers():
    """Errors and sizes of pursuits and their peers."""
    results, file = record("peers")
    names = {
        "kmp": "KMP",
        "refined": "refined KMP",
        "nystroem": "Nyström + ridge",
        "svm": "SVM, tuned",
        "boosting": "boosting",
    }
    rows = [
        [
            names[row["method"]],
            f"{row['terms']:,.0f}",
            f"{row['error_over_svm']:.2f}",
            f"{row['worst']:.2f}",
            f"{row['below_svm']} of {row['sets']}" if row["method"] != "svm" else "",
            f"{row['predict_us']:.1f}",
        ]
        for row in results["means"]
    ]
    head = [
        "",
        "terms (boosting: leaves)",
        "error, as a share of the SVM's",
        "on its worst set",
        "below the SVM on",
        "µs a prediction",
    ]
    return markdown(head, rows), [file]


def peers_by_set():
    """Error of each method on each set, at the sizes that speak for it, on the split that all methods have."""
    results, file = record("peers")
    shown = {
        ("kmp", "30"): "KMP, 30",
        ("kmp", "100"): "KMP, 100",
        ("refined", "30"): "refined, 30",
        ("nystroem", "100"): "Nyström, 100",
        ("nystroem", "two thirds"): "Nyström, most rows",
        ("svm", "own"): "SVM",
        ("boosting", "own"): "boosting",
    }
    errors = {}
    for row in results["rows"]:
        if row["seed"] == 0:
            errors.setdefault((row["set"], row["method"], str(row["asked"])), []).append(row["error"])
    rows = []
    for name in dict.fromkeys(row["set"] for row in results["rows"]):
        values = [np.mean(errors.get((name, *key), np.nan)) for key in shown]
        best = np.nanmin(values)
        cells = [f"**{value:.3f}**" if value == best else f"{value:.3f}" for value in values]
        rows.append([re.sub("^(keel|ida)_", "", name), *cells])
    return markdown(["set", *shown.values()], rows), [file]


def forest():
    """Fifty thousand rows: what the SVM with all its terms does."""
    file = RECORDS / "forest.json"
    found = json.loads(file.read_text())
    rows = [
        [one["model"], f"{one['terms']:,}", f"{one['error']:.3f}", f"{one['fit_s']:,.0f}", f"{one['predict_s']:.2f}"]
        for one in found["models"]
    ]
    return markdown(["", "terms", "test error", "seconds to fit", "seconds for 30,000 predictions"], rows), [file]


def verdicts():
    """The index of the reproduced tables."""
    file = ROOT / "docs" / "results" / "README.md"
    table = "\n".join(line for line in file.read_text().splitlines() if line.startswith("|"))
    return re.sub(r"\]\((\S+?\.md)\)", r"](results/\1)", table), [file]
