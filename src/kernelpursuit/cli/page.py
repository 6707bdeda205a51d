"""The report: one page about a model, in one file that loads nothing."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from kernelpursuit.cli import drawings
from kernelpursuit.cli.fitting import is_judged_unequal, judgement_in_words, summary_of_kinds
from kernelpursuit.cli.model import TableModel
from kernelpursuit.cli.scores import ERROR, quantity, share_text
from kernelpursuit.cli.sources import printable
from kernelpursuit.saving.files import new_file

COLUMNS_SHOWN = 8
MOST_LISTED = 40  # columns
OURS = "this model"
COMMON_NAMES = {
    "HistGradientBoosting": "gradient boosting",
    "LogisticRegression": "logistic regression",
    "Ridge": "ridge regression",
    "SVC": "SVM",
    "SVR": "SVM",
    "chance": "chance (no inputs)",
}


def write_page(model: TableModel, out: str, file: str) -> None:
    """Write the page; `file` is where the model is."""
    page = page_html(model, file).encode()
    if out == "-":
        sys.stdout.buffer.write(page)
        sys.stdout.flush()
    else:
        with new_file(out) as stream:
            stream.write(page)


def page_html(model: TableModel, file: str) -> str:
    """The page as text."""
    import jinja2
    from markupsafe import Markup

    about = model.about
    text = percent if model.task == "classification" else quantity
    error_name = {"classification": "wrong class", "regression": "error (RMSE)"}[model.task]
    classes = [str(label) for label in model.class_names] if model.task == "classification" else []
    shown = about["shown"]
    if model.task == "classification":
        fit = drawings.draw_calibration(shown["calibration"])
    else:
        fit = drawings.draw_residuals(shown, printable(model.target)[:24])
    template = jinja2.Environment(autoescape=True).from_string(
        files("kernelpursuit.cli").joinpath("report.html").read_text()
    )
    return template.render(
        title=printable(f"{model.target}: a model of {Path(about['table']).name}"),
        lead=" ".join(judgement_in_words(model)),
        tiles=number_tiles(model, text),
        about={**about, "notes": [printable(note) for note in about["notes"]]},
        task=model.task,
        classes=[printable(label) for label in classes],
        error_name=ERROR[model.task],
        curve=Markup(error_curve_of(model, error_name, text)),
        fit=Markup(fit),
        centres=Markup(drawings.draw_centres(shown["centres"], model.task, classes)),
        keys=colour_keys(model.task, classes),
        peers=peer_rows(model, text),
        unequal=is_judged_unequal(about["held_out"]),
        columns=column_rows(model, text),
        more_columns=max(0, len(about["columns"]) - COLUMNS_SHOWN),
        read=f"{about['rows']} rows, {len(model.kinds)} columns ({summary_of_kinds(model.kinds)}).",
        kinds=kind_rows(model),
        file=printable(file),
        file_literal=repr(printable(file)),
    )


def percent(value: float) -> str:
    """A share."""
    return share_text(value, decimals=1).replace("%", " %")


def error_curve_of(model: TableModel, error_name: str, text: Any) -> str:
    """The picture of error against number of terms; none where an older file has that of models of another kind."""
    held, curve = model.about["held_out"], model.about["curve"]
    if "terms" not in curve:
        return ""
    boosting = next(peer for peer in model.about["peers"] if peer["model"] == "HistGradientBoosting")
    if is_judged_unequal(held):
        ours = {"terms": held["terms"], "error": held["log loss"]}
        return drawings.draw_error_curve(curve, ours, boosting["log loss"], "log loss", decimals)
    return drawings.draw_error_curve(curve, held, boosting["error"], error_name, text)


def decimals(value: float) -> str:
    """A log loss."""
    return f"{value:.3f}"


def number_tiles(model: TableModel, text: Any) -> list[dict[str, str]]:
    """The numbers at the top."""
    held = model.about["held_out"]
    found = [
        {"value": text(held["error"]), "name": f"{ERROR[model.task]}, of {held['rows']} rows held out"},
        {"value": f"{text(held['low']).removesuffix(' %')} – {text(held['high'])}", "name": "95 % interval of it"},
        {"value": text(held["chance"]), "name": "chance level"},
        {"value": str(held["terms"]), "name": "terms"},
    ]
    if model.task == "regression":
        return [*found, {"value": percent(held["explained"]), "name": "of the variance explained"}]
    if is_judged_unequal(held):
        found.append({"value": f"{held['log loss']:.3f}", "name": f"log loss (chance {held['chance log loss']:.3f})"})
    if held["unequal"]:
        found.append({"value": f"{held['balanced accuracy']:.3f}", "name": "balanced accuracy (classes are unequal)"})
    return [*found, {"value": f"{held['AUC']:.3f}", "name": "area under the ROC curve"}]


def peer_rows(model: TableModel, text: Any) -> list[dict[str, Any]]:
    """Rows of the table of peers, best first; where classes are unequal, by the area under the ROC curve."""
    held = model.about["held_out"]
    listed = [{"model": OURS, **held, "ours": True}, *model.about["peers"]]
    unequal = is_judged_unequal(held)
    lost = [1 - one["AUC"] if unequal else one["error"] for one in listed]
    worst = max(lost) or 1.0
    return [
        {
            "model": COMMON_NAMES.get(one["model"], one["model"]),
            "error": text(one["error"]),
            "area": f"{one['AUC']:.3f}" if unequal else "",
            "terms": "" if one["terms"] is None else one["terms"],
            "width": round(100 * lost[place] / worst, 1),
            "ours": one.get("ours", False),
        }
        for place, one in sorted(enumerate(listed), key=lambda pair: lost[pair[0]])
    ]


def column_rows(model: TableModel, text: Any) -> list[dict[str, Any]]:
    """Rows of the table of columns, the most useful first; a full bar is worth all that was learned."""
    listed, held = model.about["columns"][:COLUMNS_SHOWN], model.about["held_out"]
    learned = held["chance"] - held["error"]
    if is_judged_unequal(held):
        learned, text = held["chance log loss"] - held["log loss"], decimals
    most = max([one["rise"] for one in listed] + [learned]) or 1.0
    return [
        {
            "column": printable(one["column"]),
            "rise": text(one["rise"]),
            "weight": f"{one['weight']:.2f}",
            "width": round(max(0.0, 100 * one["rise"] / most), 1),
        }
        for one in listed
    ]


def kind_rows(model: TableModel) -> list[dict[str, str]]:
    """The columns that the model needs; of very many the first."""
    listed = [{"name": printable(name), "kind": kind} for name, kind in model.kinds.items()]
    more = len(listed) - MOST_LISTED
    return listed if more <= 0 else [*listed[:MOST_LISTED], {"name": "...", "kind": f"{more} more"}]


def colour_keys(task: str, classes: list[str]) -> list[dict[str, str]]:
    """Names of the colours of rows in the picture of centres."""
    if task == "regression":
        return [{"color": "q0", "name": "low target"}, {"color": "q4", "name": "high target"}]
    named = [{"color": f"c{i}", "name": printable(label)[:24]} for i, label in enumerate(classes)]
    return named[: drawings.CLASSES_SHOWN]
