"""What is being done, on a terminal with a clock that runs, elsewhere one line for each step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(say: Callable[[str], None], total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A function that takes the name of each step as it begins.

    Parameters
    ----------
    say : callable
        Prints a line, where the output is no terminal and the number of steps is not known.
    total : int, optional
        Number of steps; a bar shows how many are done. It goes to standard error and leaves no trace.
    """
    if not sys.stderr.isatty():
        yield say if total is None else (lambda _: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([BarColumn()] if total else []),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = False

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, description=name, advance=1 if begun and total else 0)
            begun = True

        yield step
