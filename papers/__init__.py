"""Published tables and figures, run again: one module each, with `TITLE`, `DATA`, `run(settings)` and `page(records)`.

``run`` gives the records of all tasks, ``page`` turns records into a `Page` of tables, verdicts and a picture. The
modules call the public estimators and hold nothing that those lack. They are run from a checkout, ``make reproduce
NAME=...``, and are no part of the installed package; their pages are in docs/results.

The papers: s0 Hussain and Shawe-Taylor 2008, s1 Diethe and Hussain 2009, s2 Diethe, Hussain, Hardoon and Shawe-Taylor
2009, s3 Vincent and Bengio 2002, s4 Popovici, Bengio and Thiran 2005.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

NAMES = (
    "s3-toy",
    "s3-usps",
    "s3-uci",
    "s4-forest",
    "s0-skpca",
    "s0-kmp-bound",
    "s0-kcca",
    "s1-table3",
    "s1-bound",
    "s2-ida",
    "s2-nips2003",
    "bounds-compared",
)


def find(name: str) -> ModuleType:
    """Module of an experiment.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Returns
    -------
    module
    """
    if name not in NAMES:
        raise ValueError(f"NAME must be one of {', '.join(NAMES)}; got {name!r}")
    return import_module(f"papers.{name.replace('-', '_')}")


def reproduce(name: str, **options: Any) -> Path:
    """Run an experiment and write its page.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    **options
        Of `Settings`: ``quick``, ``data_dir``, ``out``, ``jobs``.

    Returns
    -------
    Path
        Of the page.
    """
    from papers.datasets import find_file, load
    from papers.pages import write, write_index
    from papers.tasks import Settings

    import_module("matplotlib")  # before the work, not after it
    experiment = find(name)
    settings = Settings(name, **options)
    for one in experiment.DATA:
        if find_file(one, settings.data_dir) is None:
            load(one, settings.data_dir)  # fetches it, or says what is missing, before the work
    records = experiment.run(settings)
    write(experiment.TITLE, experiment.page(records), records, settings)
    write_index(NAMES, settings.out)
    return settings.file(".md")


def listing(data_dir: str | None = None) -> str:
    """Names, titles and data sets of all experiments; sets that would have to be fetched are marked.

    Parameters
    ----------
    data_dir : str, optional
        Where to look first.

    Returns
    -------
    str
    """
    from papers.datasets import find_file

    lines = []
    for name in NAMES:
        experiment = find(name)
        sets = [one if find_file(one, data_dir) else f"{one} (not here)" for one in experiment.DATA]
        lines.append(f"{name:<13} {experiment.TITLE}\n{'':<13} data: {', '.join(sets) or 'none'}")
    return "\n".join(lines)
