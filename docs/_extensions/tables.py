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


def by_term():
    """Records of `accuracy_per_term.py`, by set, method and number of terms; then by the split. And the file."""
    file, found = RECORDS / "accuracy_per_term.jsonl", {}
    for line in map(json.loads, file.read_text().splitlines()):
        if "task" in line and line["record"]["error"] is not None:
            task = line["task"]
            found.setdefault((task["set"], task["method"], task["terms"]), {})[task["seed"]] = line["record"]
    return found, file


def errors_per_term():
    """Test errors of `accuracy_per_term.py` by set, method and number of terms."""
    found, file = by_term()
    return {key: [one["error"] for one in records.values()] for key, records in found.items()}, file


def plain(name):
    """Name of a set without where it comes from."""
    return re.sub("^(keel|ida)_", "", name)


def against(found, names, terms, peer, counted="error"):
    """Cells: sets on which refined terms have a lower error than a peer, which are far above, times and scatter."""
    rows = []
    for name in names:
        ours, theirs = found.get((name, "refined", terms), {}), found.get((name, *peer), {})
        seeds = ours.keys() & theirs.keys()
        if seeds:
            errors = [[ours[seed]["error"] for seed in seeds], [theirs[seed][counted] for seed in seeds]]
            times = [np.mean([part[seed].get("fit", np.nan) for seed in seeds]) for part in (ours, theirs)]
            spread = [np.std(part) if len(seeds) > 1 else np.nan for part in errors]
            rows.append((name, np.mean(errors[0]) / np.mean(errors[1]), times[0] / times[1], spread[0] / spread[1]))
    ratios = [row[1] for row in rows]
    above = [f"{plain(name)} {100 * (ratio - 1):.0f} %" for name, ratio, *_ in rows if ratio > 1.02]
    lower = f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"
    medians = [np.median([row[i] for row in rows]) for i in (1, 2, 3)]
    return [lower, ", ".join(above) or "none", *("" if np.isnan(one) else f"{one:.2f}" for one in medians)]


def goals(values):
    """Refined terms beside each peer that a goal names."""
    found, file = by_term()
    with_values = {name for name, method, _ in found if method == "sgpr"}
    names = [name for name in dict.fromkeys(key[0] for key in found) if (name in with_values) == values]
    rows = []
    peers = {"sgpr": "sparse process", "mlp": "network"} if values else {"mlp": "network", "kmp": "plain pursuit"}
    for peer, text in peers.items():
        for k in (10, 30, 100, 300) if values else (10, 30, 100):
            rows.append([f"{text}, {k}", str(k), *against(found, names, k, (peer, k))])
            if peer == "sgpr" and k < 300:
                rows.append([f"{text}, its start by its bound, {k}", str(k)])
                rows[-1] += against(found, names, k, (peer, k), "by bound")
    rows.append(["widths, searched, 100", "30", *against(found, names, 30, ("widths", 100))])
    rows += [["boosting", str(k), *against(found, names, k, ("boosting", 0))] for k in (10, 30, 100)]
    head = ["peer, its terms", "refined terms", "lower on", "more than 2 % above", "error", "fit time", "scatter"]
    return markdown(head, rows), [file]


def goals_of_values():
    """The goals for regressions."""
    return goals(True)


def goals_of_classes():
    """The goals for classes."""
    return goals(False)


def error_table(corner, shown, digits, *, values):
    """Mean errors on the sets with values, which the sparse process was fitted to, or classes; the lowest bold."""
    errors, file = errors_per_term()
    with_values = {name for name, method, _ in errors if method == "sgpr"}
    rows = []
    for name in dict.fromkeys(name for name, _, _ in errors if (name in with_values) == values):
        means = [np.mean(errors.get((name, *key), np.nan)) for key in shown]
        best = np.nanmin(means)
        cells = ["" if np.isnan(v) else f"**{v:.{digits}f}**" if v == best else f"{v:.{digits}f}" for v in means]
        rows.append([plain(name), *cells])
    return markdown([corner, *shown.values()], rows), [file]


def classes_per_term():
    """Errors on sets with classes: refined pursuit, a network with as many units, boosting."""
    shown = {("refined", k): f"refined, {k}" for k in (10, 30, 100)}
    shown |= {("kmp", 30): "KMP, 30", ("nystroem", 100): "Nyström + ridge, 100"}
    shown |= {("mlp", 30): "network, 30", ("mlp", 100): "network, 100"}
    shown |= {("svm", 0): "SVM, tuned", ("boosting", 0): "boosting"}
    return error_table("share of wrong classes", shown, 3, values=False)


def values_per_term():
    """Errors of regressions: refined pursuit beside a sparse Gaussian process and a network of the same size."""
    methods = {"refined": "refined", "sgpr": "sparse GP", "mlp": "network"}
    shown = {(method, k): f"{text}, {k}" for k in (10, 30, 100) for method, text in methods.items()}
    return error_table("1 - R²", shown, 4, values=True)


def small_sets():
    """Thirteen small sets, every choice on the training rows of the split."""
    file, unrefined_file = RECORDS / "small_sets.jsonl", ROOT / "docs" / "results" / "s2-ida.jsonl"
    found, unrefined = {}, {}
    for line in map(json.loads, unrefined_file.read_text().splitlines()):
        task = line.get("task", {})
        if task.get("stage") == "strict" and task["method"] == "ours":
            unrefined.setdefault(task["set"], {})[task["split"]] = line["record"]["error"]["ours"][0]
    for line in map(json.loads, file.read_text().splitlines()):
        if "set" in line:
            found.setdefault(line["set"], []).append(line)
    rows, means = [], []
    for name in sorted(found):
        errors = [one["error"] for one in found[name]]
        terms = np.mean([one["terms"] for one in found[name]])
        other = list(unrefined[name].values())
        first = np.mean([one["error"] for one in found[name] if one["split"] in unrefined[name]])
        spread, other_spread = (np.std(part) / np.sqrt(len(part)) for part in (errors, other))
        means.append((np.mean(errors), first, np.mean(other), terms))
        mark = " (above)" if first > np.mean(other) + other_spread else ""
        cells = [f"{np.mean(errors):.4f}", f"{spread:.4f}", f"{first:.4f}{mark}"]
        cells += [f"{np.mean(other):.4f} ± {other_spread:.4f}", f"{terms:.1f}"]
        rows.append([name.replace("_", "-"), str(len(errors)), *cells])
    error, first, other, terms = np.mean(means, axis=0)
    rows.append(["mean", "", f"**{error:.4f}**", "", f"{first:.4f}", f"{other:.4f}", f"**{terms:.1f}**"])
    head = ["set", "splits", "error", "standard error", "first five splits", "unrefined, on these", "terms"]
    return markdown(head, rows), [file, unrefined_file]


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


def scripts():
    """The benchmarks, by the first line of their docstrings."""
    files = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if not path.name.startswith("_"))
    rows = [[f"`{path.name}`", path.read_text().split('"""')[1].split("\n")[0].rstrip(".")] for path in files]
    return markdown(["script", "what it measures"], rows).replace("---:", "---"), files
