"""The command line: parse, call, print. Whatever takes long to import is imported by the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Literal

import click

from kernelpursuit import __version__


class OneLineError(click.ClickException):
    """An error that is shown as one line on standard error."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"kernelpursuit: {self.message}", file=file, err=file is None)


class Interrupted(OneLineError):
    """Ctrl-C."""

    exit_code = 130  # 128 + SIGINT, what a shell reports


class Program(click.Group):
    """The group of commands, which answers Ctrl-C with one line and the usual status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


@click.group(cls=Program)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Kernel models with as many terms as you choose."""


@cli.command()
@click.argument("table", required=False)
@click.option("--target", metavar="COLUMN", help="The column of TABLE to predict.")
@click.option(
    "--task",
    type=click.Choice(["regression", "classification"]),
    help="What to do with the target, when the guess would be wrong.",
)
@click.option("--drop", metavar="COLUMN", multiple=True, help="A column of TABLE to leave out; may be repeated.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Seed of the split.")
@click.option(
    "--max-rows",
    default=5000,
    show_default=True,
    type=click.IntRange(min=100),
    help="Use at most so many rows of TABLE, drawn at random: SVC, SVR and KernelRidge are slow beyond.",
)
def compare(
    table: str | None,
    target: str | None,
    task: Literal["regression", "classification"] | None,
    drop: tuple[str, ...],
    seed: int,
    max_rows: int,
) -> None:
    """Compare kernel matching pursuit with its peers: error, terms, time.

    Without TABLE, on two data sets that come with scikit-learn. With TABLE, on that CSV or Parquet file: 70 % of the
    rows are for training, 30 % for testing.

    The task is guessed from the target. Text, true/false and dictionary columns are classes, and so are whole numbers
    with two distinct values, or with at most 20 that each stand in 20 rows or more on average. Everything else is a
    quantity, and the task a regression.

    A CSV file has a header, UTF-8 text and commas, semicolons or tabs between fields. Text columns are one-hot
    encoded; one with more than 100 distinct values (an identifier, say) is refused, as are dates, and can be left out
    with --drop. Nothing may be missing: an empty field, NA, NaN or null stops the command.

    What cannot be used is told in one line, with exit status 2. It names the line of a CSV file (the header is on
    line 1) or the row of a Parquet file (counted from 1).
    """
    from kernelpursuit import compare as comparison
    from kernelpursuit.tables import TableError

    if table is None and (target is not None or task is not None or drop):
        raise OneLineError("--target, --task and --drop need a TABLE")
    try:
        for text in comparison.reports(table, target=target, task=task, drop=drop, seed=seed, max_rows=max_rows):
            click.echo(text)
    except TableError as error:
        raise OneLineError(str(error)) from error
    except MemoryError as error:
        raise OneLineError("out of memory; lower --max-rows") from error


@cli.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="List the experiments and the data that they need.")
@click.option("--quick", is_flag=True, help="The smallest setting, under a minute; nothing can be concluded from it.")
@click.option("--data", metavar="DIR", help="Folder of the data sets; those not found there are looked for elsewhere.")
@click.option("--out", metavar="DIR", default="results", show_default=True, help="Folder of page, picture and records.")
@click.option("--jobs", default=-1, show_default=True, help="Tasks at the same time; -1: one for each core.")
def reproduce(name: str | None, listing: bool, quick: bool, data: str | None, out: str, jobs: int) -> None:
    """Run a published table or figure again and write a page on it.

    NAME is one of those that --list shows, or "all". The page, NAME.md, has our numbers beside the printed ones, a
    verdict on each claim, and a picture, NAME.png.

    Finished parts are kept in NAME.jsonl: the same command goes on where an interrupted one stopped, and only writes
    the page anew where all is finished. Delete the file to measure again. Tasks of s4-forest take up to 2.5 GB each.
    """
    from kernelpursuit import experiments

    if listing == (name is not None):
        raise OneLineError("give the NAME of an experiment, or --list to see them")
    if jobs < 1 and jobs != -1:
        raise OneLineError(f"--jobs must be -1 or at least 1; got {jobs}")
    try:
        if listing:
            click.echo(experiments.listing(data))
            return
        for one in experiments.NAMES if name == "all" else [str(name)]:
            page = experiments.reproduce(one, quick=quick, data_dir=data, out=Path(out), jobs=jobs)
            click.echo(f"{one}: see {page}")
    except (ValueError, OSError) as error:  # unknown names, data that are not there, folders that cannot be made
        raise OneLineError(str(error)) from error
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise OneLineError("the picture needs matplotlib: pip install 'kernelpursuit[plot]'") from error
