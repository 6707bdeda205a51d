"""The page of an experiment: tables, verdicts, protocol and a picture, written as Markdown."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy
import sklearn
from scipy import stats

from kernelpursuit import __version__
from papers.tasks import Record, Settings, read_records

INDEX = """\
# The papers' tables and figures, run again

Each page has our numbers beside the printed ones, what of the protocol is the paper's and what was guessed, and a
verdict on each claim: of the paper, or a goal of this project where it says so.

The papers: s0 Hussain and Shawe-Taylor 2008, s1 Diethe and Hussain 2009, s2 Diethe, Hussain, Hardoon and Shawe-Taylor
2009, s3 Vincent and Bengio 2002, s4 Popovici, Bengio and Thiran 2005.

`make reproduce NAME=...` makes a page, `make reproduce NAME=all` makes them all"""
Answer = Literal["holds", "does not hold", "cannot be told"]


class Verdict(NamedTuple):
    """What a run says of a claim.

    Parameters
    ----------
    claim : str
        Of the paper, or a goal of this project; in our words.
    answer : {"holds", "does not hold", "cannot be told"}
    evidence : str
        The numbers.
    """

    claim: str
    answer: Answer
    evidence: str


@dataclass(frozen=True)
class Page:
    """What is written about an experiment.

    Parameters
    ----------
    paper : str
        Authors, title, year and which table or figure.
    body : str
        Markdown: tables of our numbers beside the printed ones, and what stands out in them.
    same : sequence of str
        What of the protocol is the paper's.
    guessed : sequence of str
        What the paper does not say, or was done in another way, and why.
    verdicts : sequence of Verdict
    figure : matplotlib Figure
    caption : str
        What the picture shows.
    """

    paper: str
    body: str
    same: Sequence[str]
    guessed: Sequence[str]
    verdicts: Sequence[Verdict]
    figure: Any
    caption: str


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table in Markdown; the first column is text, the others are set to the right.

    Parameters
    ----------
    head : sequence of str
    rows : sequence of sequences
        Entries are written as they are: format numbers first. A bar in one would end its cell: it is escaped.

    Returns
    -------
    str
    """
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(entry).replace("|", "\\|") for entry in line) + " |" for line in lines)


def judge(condition: bool | None) -> Answer:
    """Answer to a condition; None is one that the numbers cannot decide."""
    if condition is None:
        return "cannot be told"
    return "holds" if condition else "does not hold"


def resampled_t_test(differences: Sequence[float], train_size: int, test_size: int) -> float:
    """Two-sided p-value of the corrected resampled t-test for the mean of differences over random splits.

    Splits of the same rows overlap, so the variance of the mean is s² (1/J + n_test/n_train), not s²/J (Nadeau and
    Bengio 2003).

    Parameters
    ----------
    differences : sequence of float
        One for each of J splits.
    train_size, test_size : int
        Rows of a split.

    Returns
    -------
    float
    """
    values = np.asarray(differences, dtype=np.float64)
    spread = values.var(ddof=1) * (1 / len(values) + test_size / train_size)
    if spread == 0:
        return 1.0 if values.mean() == 0 else 0.0
    return float(2 * stats.t.sf(abs(values.mean()) / np.sqrt(spread), len(values) - 1))


def write(title: str, page: Page, records: Sequence[Record], settings: Settings) -> None:
    """Write the page and its picture beside the records.

    Parameters
    ----------
    title : str
    page : Page
    records : sequence of dict
    settings : Settings
    """
    picture = settings.file(".png")
    if settings.quick:
        page.figure.set_layout_engine("none")  # half of the time of drawing
    page.figure.savefig(picture, dpi=50 if settings.quick else 110)
    command = f"make reproduce NAME={settings.name}" + " QUICK=1" * settings.quick
    hours = sum(record["seconds"] for record in records) / 3600
    warning = "**A quick run, for tests: far too small to conclude from.**\n\n" if settings.quick else ""
    verdicts = table(["claim", "verdict", "numbers"], [(v.claim, f"**{v.answer}**", v.evidence) for v in page.verdicts])
    text = f"""# {title}

{page.paper}

{warning}{page.body}

![{alternative(title, page.caption)}]({picture.name})

{page.caption}

## Verdicts

{verdicts.replace("---:", "---")}

## Protocol

As in the paper:

{_items(page.same)}

Guessed, or done differently:

{_items(page.guessed)}

## How this page was made

`{command}`: {len(records)} tasks, which took {_time(hours)} in sum, each on one core. {_versions()}.
Every number measured is computed from [{settings.file(".jsonl").name}]({settings.file(".jsonl").name}).
"""
    settings.file(".md").write_text(text, encoding="utf-8")


def alternative(title: str, caption: str) -> str:
    """What stands for the picture where it cannot be seen."""
    return (
        f"{title}: {' '.join(caption.split())}".replace("[", "(").replace("]", ")").replace("**", "").replace("`", "")
    )


def write_index(names: Sequence[str], out: Path) -> None:
    """Write README.md, a list of the pages of full runs in a folder with their verdicts; none where there is none.

    Parameters
    ----------
    names : sequence of str
        Of the experiments, in the order of the list.
    out : Path
    """
    rows, total = [], 0.0
    for name in names:
        page, records = out / f"{name}.md", out / f"{name}.jsonl"
        if not (page.exists() and records.exists()):
            continue
        text = page.read_text(encoding="utf-8")
        hours = sum(record["seconds"] for record in read_records(records).values()) / 3600
        counts = [text.count(f"| **{answer}** |") for answer in get_args(Answer)]
        rows.append((f"[{name}]({name}.md)", text.splitlines()[0].removeprefix("# "), *counts, _time(hours)))
        total += hours
    if rows:
        head = ["command", "what", *get_args(Answer), "sum of its tasks"]
        listing = table(head, rows).replace("| --- | ---: |", "| --- | --- |", 1)
        text = f"{INDEX} (tasks of {_time(total)} in sum, as many at a time as there are cores).\n\n{listing}\n"
        (out / "README.md").write_text(text, encoding="utf-8")


def _versions() -> str:
    used = {"kernelpursuit": __version__, "Python": platform.python_version()}
    used |= {module.__name__: module.__version__ for module in (np, scipy, sklearn)}
    return ", ".join(f"{name} {version}" for name, version in used.items())


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _time(hours: float) -> str:
    return f"{60 * hours:.1f} minutes" if hours < 1 else f"{hours:.1f} hours"
