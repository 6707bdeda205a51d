"""Progress of a command: on a terminal a bar with a clock, elsewhere one line for each step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Say = Callable[[str], None]


class Progress(NamedTuple):
    """Functions that report progress."""

    step: Say  # takes the name of each step as it begins
    say: Say  # prints a line meanwhile


@contextmanager
def show_progress(say: Say, total: int | None = None) -> Iterator[Progress]:
    """Report the steps of a command as they begin.

    Parameters
    ----------
    say : callable
        Prints a line; also for each step, where the output is no terminal and the number of steps is not known.
    total : int, optional
        Number of steps; a bar shows how many are done. It goes to standard error and leaves no trace.
    """
    if not sys.stderr.isatty():
        yield Progress(say if total is None else (lambda _: None), say)
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([BarColumn()] if total else []),
        TimeElapsedColumn(),
    ]
    with Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=total)
        begun = False

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, description=name, advance=1 if begun and total else 0)
            begun = True

        def say_aside(line: str) -> None:
            bar.stop()  # takes it off the screen, where the line is to stand
            say(line)
            bar.start()

        yield Progress(step, say_aside)
