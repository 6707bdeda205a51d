"""The command line: parse, call, print. Whatever takes long to import is imported by the command that needs it."""

from __future__ import annotations

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
    from kernelpursuit.cli import compare as comparison
    from kernelpursuit.cli.tables import TableError

    if table is None and (target is not None or task is not None or drop):
        raise OneLineError("--target, --task and --drop need a TABLE")
    try:
        for text in comparison.reports(table, target=target, task=task, drop=drop, seed=seed, max_rows=max_rows):
            click.echo(text)
    except TableError as error:
        raise OneLineError(str(error)) from error
    except MemoryError as error:
        raise OneLineError("out of memory; lower --max-rows") from error
