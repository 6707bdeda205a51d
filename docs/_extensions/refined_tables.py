"""Tables of the page on refinement and what it is compared with: errors, sizes and times."""

import json
import re

import numpy as np

from _extensions.tables import RECORDS, ROOT, markdown, record

NAMES = {
    "refined": "refined",
    "kmp": "KMP",
    "weighted": "widths + KMP",
    "widths": "widths, searched",
    "nystroem": "Nyström + ridge",
    "sgpr": "sparse GP",
    "mlp": "network",
    "svm": "SVM, tuned",
    "boosting": "boosting",
    "boosting tuned": "boosting, tuned",
}
TERMS = (10, 30, 100, 300)


def by_term():
    """Records of `accuracy_per_term.py`, by set, method and number of terms; then by the split. And the file."""
    file, found = RECORDS / "accuracy_per_term.jsonl", {}
    for line in map(json.loads, file.read_text().splitlines()):
        if "task" in line and line["record"]["error"] is not None:
            task = line["task"]
            found.setdefault((task["set"], task["method"], task["terms"]), {})[task["seed"]] = line["record"]
    return found, file


def sets_of(found, values):
    """Sets with values, which the sparse process was fitted to, or with classes."""
    with_values = {name for name, method, _ in found if method == "sgpr"}
    return sorted({key[0] for key in found if (key[0] in with_values) == values}, key=plain)


def plain(name):
    """Name of a set without where it comes from."""
    return re.sub("^(keel|ida)_", "", name)


def mean(records, what):
    """Mean over the splits that have it."""
    have = [one[what] for one in records.values() if what in one]
    return float(np.mean(have)) if have else np.nan


def median(numbers):
    """Median of those that were measured."""
    known = [one for one in numbers if np.isfinite(one)]
    return float(np.median(known)) if known else np.nan


def shown(number, digits):
    """A number as text; nothing where it was not measured."""
    return "" if np.isnan(number) else f"{number:,.{digits}f}"


class Against:
    """Refined terms beside a peer, set by set, on the splits that both have: ratios of errors, times and scatters."""

    def __init__(self, found, names, terms, peer, counted="error"):
        self.errors, self.times, self.scatters = {}, [], []
        for name in names:
            ours, theirs = found.get((name, "refined", terms), {}), found.get((name, *peer), {})
            seeds = sorted(ours.keys() & theirs.keys())
            if not seeds:
                continue
            errors = [[ours[seed]["error"] for seed in seeds], [theirs[seed][counted] for seed in seeds]]
            self.errors[name] = np.mean(errors[0]) / np.mean(errors[1])
            self.times.append(mean(ours, "fit") / mean(theirs, "fit"))
            scatter, other = map(np.std, errors)
            self.scatters.append(scatter / other if other > 0 else np.nan)

    @property
    def lower(self):
        """Sets on which the error is lower."""
        return sum(ratio < 1 for ratio in self.errors.values())

    @property
    def above(self):
        """Sets on which it is more than 2 % higher."""
        return [
            f"{plain(name)} {100 * (ratio - 1):.0f} %" for name, ratio in sorted(self.errors.items()) if ratio > 1.02
        ]

    def cells(self):
        """All of it as texts."""
        medians = [median(part) for part in (self.errors.values(), self.times, self.scatters)]
        found = [f"{self.lower} of {len(self.errors)}", ", ".join(self.above) or "none"]
        return found + [shown(one, 2) for one in medians]


def compared(values):
    """Refined terms beside their peers."""
    found, file = by_term()
    names, rows = sets_of(found, values), []
    peers = {"sgpr": "sparse GP", "mlp": "network"} if values else {"mlp": "network"}
    for peer, text in peers.items():
        for k in TERMS:
            rows.append([f"{text}, {k}", str(k), *Against(found, names, k, (peer, k)).cells()])
    if values:
        for k in TERMS:
            cells = Against(found, names, k, ("sgpr", k), "by bound").cells()
            rows.append([f"sparse GP, its start chosen by its bound, {k}", str(k), *cells])
    rows.append(["widths, searched, 100", "30", *Against(found, names, 30, ("widths", 100)).cells()])
    for peer in ("boosting", "boosting tuned", "svm"):
        rows += [[NAMES[peer], str(k), *Against(found, names, k, (peer, 0)).cells()] for k in (30, 100)]
    head = ["peer, its terms", "refined terms", "lower on", "more than 2 % above", "error", "fit time", "scatter"]
    return markdown(head, rows), [file]


def values_compared():
    """Regressions: refined terms against each peer."""
    return compared(True)


def classes_compared():
    """Classes: refined terms against each peer."""
    return compared(False)


def error_table(columns, digits, *, values):
    """Mean errors; the lowest of a set is bold."""
    found, file = by_term()
    rows = []
    for name in sets_of(found, values):
        means = [mean(found.get((name, *key), {}), "error") for key in columns]
        best = np.nanmin(means)
        cells = ["" if np.isnan(v) else f"**{v:.{digits}f}**" if v == best else f"{v:.{digits}f}" for v in means]
        rows.append([plain(name), *cells])
    return markdown(["1 - R²" if values else "share of wrong classes", *columns.values()], rows), [file]


def others():
    """Columns of peers beside refined terms: those without a number of terms, and some with 100."""
    columns = {("refined", 100): "refined, 100"}
    columns |= {(method, 100): f"{NAMES[method]}, 100" for method in ("kmp", "widths", "nystroem")}
    return columns | {(method, 0): NAMES[method] for method in ("svm", "boosting", "boosting tuned")}


def values_few_terms():
    """Regressions with 10 and 30 terms."""
    return error_table(
        {(m, k): f"{NAMES[m]}, {k}" for k in (10, 30) for m in ("refined", "sgpr", "mlp")}, 4, values=True
    )


def values_many_terms():
    """Regressions with 100 and 300 terms."""
    return error_table(
        {(m, k): f"{NAMES[m]}, {k}" for k in (100, 300) for m in ("refined", "sgpr", "mlp")}, 4, values=True
    )


def values_other_peers():
    """Regressions: peers without a number of terms."""
    return error_table(others(), 4, values=True)


def classes_per_term():
    """Classes: refined terms and networks of the same size."""
    return error_table({(m, k): f"{NAMES[m]}, {k}" for m in ("refined", "mlp") for k in TERMS}, 3, values=False)


def classes_other_peers():
    """Classes: peers without a number of terms."""
    return error_table(others(), 3, values=False)


def costs(values):
    """Each method and number of terms: its error beside that of refined terms, what it keeps, and its times."""
    found, file = by_term()
    names, rows = sets_of(found, values), []
    for method, name_shown in NAMES.items():
        for k in TERMS if any(key[1:] == (method, 10) for key in found) else (0,):
            parts = {name: found[name, method, k] for name in names if (name, method, k) in found}
            if not parts:
                continue
            ratios = [1 / ratio for ratio in Against(found, names, k or 100, (method, k)).errors.values()]
            middle = {
                what: median([mean(part, what) for part in parts.values()])
                for what in ("kept", "bytes", "fit", "predict")
            }
            cells = [f"{name_shown}, {k}" if k else name_shown, f"{np.exp(np.mean(np.log(ratios))):.2f}"]
            cells += [shown(middle["kept"], 0), shown(middle["bytes"], 0), shown(middle["fit"], 2)]
            rows.append([*cells, shown(1000 * middle["predict"], 0)])
    head = ["", "error, of refined = 1", "terms kept", "bytes", "fit, s", "predict 10,000 rows, ms"]
    return markdown(head, rows), [file]


def costs_of_values():
    """Regressions: errors, sizes and times."""
    return costs(True)


def costs_of_classes():
    """Classes: errors, sizes and times."""
    return costs(False)


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


def forest_refined():
    """Forest cover: refined terms on a GPU and on two cores, and the machine beside the latter."""
    results, file = record("forest_refined")
    rows = []
    for one in results:
        where = "H200" if one.get("device") == "cuda" else "two cores"
        name = "`SVC` of scikit-learn-intelex" if "model" in one else "refined"
        cells = [f"{one['rows']:,}", f"{one['terms']:,}", f"{one['error']:.4f}", f"{one['fit']:.1f}"]
        rows.append([name, where, *cells, f"{1000 * one['predict']:.0f}"])
    return markdown(["", "on", "rows", "terms", "error", "fit, s", "predict 10,000 rows, ms"], rows), [file]


def digits():
    """Ten digits with one model, and ten support vector machines."""
    results, file = record("usps_refined")
    rows = [
        [
            "refined",
            str(one["terms"]),
            str(one["summed one-against-rest"]),
            f"{100 * one['error']:.1f} %",
            f"{one['fit']:.1f}",
        ]
        for one in results[:-1]
    ]
    machine = results[-1]
    wrong = str(machine["svm summed one-against-rest"])
    rows.append(["ten support vector machines", f"{machine['distinct support vectors']:,}", wrong, "", ""])
    return markdown(["", "terms", "summed errors", "wrong digits", "fit, s"], rows), [file]


def moved():
    """Regressions: on how many splits everything moved."""
    found, file = by_term()
    rows = []
    for name in sets_of(found, True):
        parts = [found[name, "refined", k].values() for k in TERMS]
        rows.append([plain(name), *(f"{sum(one['moved'] == 'all' for one in part)} of {len(part)}" for part in parts)])
    return markdown(["", *(f"{k} terms" for k in TERMS)], rows), [file]
