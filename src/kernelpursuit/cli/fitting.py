"""The commands `fit` and `describe`: what they do and what they print."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from kernelpursuit.cli.model import TableModel
from kernelpursuit.cli.progress import Say, show_progress
from kernelpursuit.cli.scores import error_in_words, error_text, share_text, unequal_in_words
from kernelpursuit.cli.sources import STANDARD_INPUT, TableError, printable
from kernelpursuit.cli.tables import Kind, Table, read_table
from kernelpursuit.saving import load, save

MOST_LISTED = 5  # columns


def fit_and_describe(
    path: str,
    *,
    target: str | None,
    task: Any = None,
    drop: tuple[str, ...] = (),
    seed: int = 0,
    n_atoms: int | None = None,
    max_rows: int = 20_000,
    resume: str | None = None,
    say: Say,
) -> TableModel:
    """Fit a model to a table and say what is done and how good it is."""
    table = read_table(path, target, task, drop)
    from kernelpursuit.cli.training import draw_rows, expected_fit_seconds, fit_table
    from kernelpursuit.fitting.journal import JournalError

    table, drawn = draw_rows(table, max_rows, seed)
    for line in [*summary_of_table(table), *drawn]:
        say(line)
    if resume is not None and os.path.exists(resume):
        say(f"Goes on from where {resume} ends.")
    say(f"This takes {duration_in_words(expected_fit_seconds(len(table.y), n_atoms))} on two quiet cores.")
    with show_progress(say) as (step, _):
        try:
            model = fit_table(table, n_atoms, seed, step, resume)
        except JournalError as error:
            raise TableError(str(error).replace("resume=", "--resume ", 1)) from error
    model.about["notes"] += drawn
    for line in judgement_in_words(model):
        say(line)
    return model


def summary_of_table(table: Table) -> list[str]:
    """Sentences on the table that was read."""
    name = printable(f"{table.name}: {table.task} of {table.target!r}")
    kinds = summary_of_kinds(table.kinds)
    return [f"{name}, {len(table.y)} rows, {len(table.kinds)} columns ({kinds}).", *table.notes]


def summary_of_kinds(kinds: dict[str, Any]) -> str:
    """How many columns are numbers, texts, dates and times."""
    found = list(kinds.values())
    counts = {kind: found.count(kind) for kind in get_args(Kind) if kind in found}
    return ", ".join(f"{n} {kind}s" if n != 1 else f"1 {kind}" for kind, n in counts.items())


def duration_in_words(seconds: float) -> str:
    """About how long, in words.

    Examples
    --------
    >>> duration_in_words(8), duration_in_words(100)
    ('about 10 seconds', 'about 2 minutes')
    """
    if seconds < 90:
        return f"about {max(5, round(seconds / 5) * 5)} seconds"
    return f"about {round(seconds / 60)} minutes"


def judgement_in_words(model: TableModel) -> Iterator[str]:
    """How good the model is, in sentences."""
    held = model.about["held_out"]
    error, low, high, chance = (error_text(model.task, held[key]) for key in ("error", "low", "high", "chance"))
    terms = f"{held['terms']} terms" if held["terms"] != 1 else "1 term"
    if model.task == "classification":
        yield f"With {terms} it puts {held['error']:.1%} of {held['rows']} rows that it had not seen into the wrong"
        yield f"class (on other rows {held['low']:.1%} to {held['high']:.1%}, with 95 % confidence). Always naming"
        yield f"the most frequent class would be wrong in {held['chance']:.1%}."
        if is_judged_unequal(held):
            yield from unequal_in_words(held, held["chance log loss"], held["never"])
    else:
        yield f"With {terms} its error on {held['rows']} rows that it had not seen is {error} (root mean square;"
        yield f"on other rows {low} to {high}, with 95 % confidence). Always naming the mean would"
        yield f"err by {chance}: {share_text(held['explained'])} of the variance is explained."
    if not held["learned"]:
        yield "That is no better than chance, as far as these rows can tell."
    yield beside_best_peer(model)
    listed = [one for one in model.about["columns"] if one["rise"] > 0][:MOST_LISTED]
    if listed:
        yield "The columns that matter most: " + ", ".join(printable(one["column"]) for one in listed) + "."


def write_model(model: TableModel, out: str, say: Say, resume: str | None = None) -> None:
    """Write the model, read it back, and say how to use it; the journals are removed then."""
    from kernelpursuit.cli.training import journals

    with kept_if_unwritten(model, resume):
        try:
            save(model, out)
            if os.path.isfile(out):  # not a pipe, nor a device
                load(out)
        except ValueError as error:
            hint = "leave out columns of many different texts (--drop COLUMN)"
            raise TableError(f"the model cannot be read back: {error}. If it is too large, {hint}") from error
    for file in [] if resume is None else journals(resume):
        os.remove(file)
    size = f" ({os.path.getsize(out) / 1e3:.0f} kB)" if os.path.isfile(out) else ""
    say(f"Wrote {out}{size}, fitted to all {model.about['rows']} rows. Next:")
    say(f"  kernelpursuit predict {out} TABLE        kernelpursuit report {out} --out report.html")


def is_judged_unequal(held: dict[str, Any]) -> bool:
    """Whether a model of unequal classes was judged as such; in older files it was not."""
    return "never" in held and held["unequal"]


def beside_best_peer(model: TableModel) -> str:
    """The peer that does best on the rows held out; where classes are unequal, the one that ranks them best."""
    held, peers = model.about["held_out"], [peer for peer in model.about["peers"] if peer["model"] != "chance"]
    if is_judged_unequal(held):
        best = max(peers, key=lambda peer: peer["AUC"])
        its, error = f"area {best['AUC']:.3f}", f"{held['AUC']:.3f}"
    else:
        best = min(peers, key=lambda peer: peer["error"])
        its, error = (error_in_words(model.task, one["error"]) for one in (best, held))
    return f"The best of its peers on these rows, {best['model']}: {its} (this model: {error})."


@contextmanager
def kept_if_unwritten(model: TableModel, resume: str | None = None) -> Iterator[None]:
    """Keep a model among the temporary files where what is made of it cannot be written, and say where it is."""
    try:
        yield
    except BrokenPipeError:  # the reader has gone
        raise
    except OSError as error:
        place = error.filename or "standard output"
        raise TableError(f"{place}: {error.strerror}; {kept_elsewhere(model, resume)}") from error


def kept_elsewhere(model: TableModel, resume: str | None) -> str:
    """Write a model among the temporary files and say where it is, or from where its fit goes on."""
    try:
        file = os.path.join(tempfile.mkdtemp(prefix="kernelpursuit-"), "model")
        save(model, file)
        return f"the model is in {file}"
    except OSError:
        lost = "the model could not be kept elsewhere"
        return lost if resume is None else f"{lost}; the same call goes on from {resume}"


def is_model(path: str) -> bool:
    """Whether a file starts as the model of a table does."""
    if path == STANDARD_INPUT or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return stream.read(4) == b"PK\x03\x04"


def load_model(path: str) -> TableModel:
    """The model of a table."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise TableError(f"{path}: holds a {type(model).__name__}, not a model that `kernelpursuit fit` wrote")
    return model


def description_of_model(model: TableModel) -> Iterator[str]:
    """Lines of `describe`."""
    about, estimator = model.about, model.estimator
    what = f"{model.task.capitalize()} of {model.target!r}"
    yield printable(f"{what}, fitted to {about['rows']} rows of {about['table']}.")
    if model.task == "classification":
        yield printable("Classes: " + ", ".join(model.class_names))
    yield f"{type(estimator).__name__} with {model.n_terms} terms on {estimator.n_features_in_} encoded inputs."
    yield printable("Needs the columns: " + ", ".join(f"{name} ({kind})" for name, kind in model.kinds.items()))
    yield from map(printable, about["notes"])
    yield from judgement_in_words(model)
