"""The command line: parse, call, print. Whatever takes long to import is imported by the command that needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import IO, Any

import click

from kernelpursuit import __version__


class OneLineError(click.ClickException):
    """An error that is shown as one line on standard error."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"kernelpursuit: {self.message}", file=file, err=file is None)


class CommandInterrupted(OneLineError):
    """Ctrl-C."""

    exit_code = 130  # 128 + SIGINT, what a shell reports


class CommandGroup(click.Group):
    """The group of commands, which answers Ctrl-C with one line and the usual status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise CommandInterrupted("interrupted") from None


@click.group(cls=CommandGroup)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Kernel models with as many terms as you choose."""


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that learns from a table."""
    options = [
        click.option("--target", metavar="COLUMN", help="The column of TABLE to predict."),
        click.option(
            "--task",
            type=click.Choice(["regression", "classification"]),
            help="What to do with the target, when the guess would be wrong.",
        ),
        click.option("--drop", metavar="COLUMN", multiple=True, help="A column to leave out; may be repeated."),
        click.option(
            "--seed",
            default=0,
            show_default=True,
            type=click.IntRange(0, 2**32 - 1),
            help="Seed of the split and of all else that is random.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


ATOMS = click.option(
    "--n-atoms",
    metavar="K|auto",
    default="auto",
    show_default=True,
    help="Number of terms of the model; auto finds it by rows held out.",
)
FIT_ROWS = click.option(
    "--max-rows",
    default=20_000,
    show_default=True,
    type=click.IntRange(min=100),
    help="Learn from at most so many rows of TABLE, drawn at random.",
)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Show errors of a table, a model file or the memory as one line."""
    try:
        from kernelpursuit.cli.sources import TableError
        from kernelpursuit.saving import ModelFileError

        try:
            yield
        except (TableError, ModelFileError) as error:
            raise OneLineError(str(error)) from error
        except MemoryError as error:
            raise OneLineError("out of memory; lower --max-rows") from error
        except OSError as error:
            if isinstance(error, BrokenPipeError) or error.errno is None:
                raise
            raise OneLineError(f"{error.filename or 'standard output'}: {error.strerror}") from error
    except ModuleNotFoundError as error:
        raise OneLineError(f"this command needs {error.name}: install kernelpursuit with its extra 'cli'") from error


def check_output_path(out: str | None) -> None:
    """Refuse what no file can be written to, before anything is computed: a folder, or a place in none."""
    if out is None:
        return
    folder = os.path.dirname(out)
    if folder and not os.path.isdir(folder):
        raise OneLineError(f"--out {out}: there is no folder {folder!r}")
    if not out or os.path.isdir(out):
        raise OneLineError(f"--out {out or repr(out)}: must be a file, not a folder")


def parse_n_atoms(n_atoms: str) -> int | None:
    """Number of terms asked for, None for auto."""
    if n_atoms == "auto":
        return None
    if not n_atoms.isascii() or not n_atoms.isdigit() or int(n_atoms) < 1:
        raise OneLineError(f"--n-atoms {n_atoms}: must be a whole number from 1 on, or auto")
    return int(n_atoms)


@cli.command()
@click.argument("table", required=False)
@table_options
@click.option(
    "--max-rows",
    default=3000,
    show_default=True,
    type=click.IntRange(min=100),
    help="Use at most so many rows of TABLE, drawn at random: SVC, SVR and KernelRidge are slow beyond.",
)
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1, 50), help="Number of random splits.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def compare(table: str | None, max_rows: int, repeats: int, as_json: bool, **chosen: Any) -> None:
    """Compare kernel matching pursuit with its peers: error, terms, time.

    Without TABLE, on two data sets that come with scikit-learn. With TABLE, on that CSV or Parquet file ("-" reads
    standard input; gzip is understood): several times 70 % of the rows are for training and 30 % for testing.

    The task is guessed from the target. Text, true/false and dictionary columns are classes, and so are whole numbers
    with two distinct values, or with at most 20 that each stand in 20 rows or more on average. Everything else is a
    quantity, and the task a regression.

    A CSV file has a header, UTF-8 text and commas, semicolons or tabs between fields. Texts, dates and missing values
    are welcome: an empty field, ?, NA, NaN or null is a missing one. Rows without a target are left out.

    What cannot be used is told in one line, with exit status 2. It names the line of a CSV file (the header is on
    line 1) or the row of a Parquet file (counted from 1).
    """
    if table is None and (chosen["target"] is not None or chosen["task"] is not None or chosen["drop"]):
        raise OneLineError("--target, --task and --drop need a TABLE")
    with errors_in_one_line():
        from kernelpursuit.cli import compare as comparison

        comparison.run_comparison(table, max_rows=max_rows, repeats=repeats, as_json=as_json, say=click.echo, **chosen)


@cli.command()
@click.argument("table")
@table_options
@click.option("--out", metavar="MODEL", required=True, help="The file to write the model to.")
@ATOMS
@FIT_ROWS
@click.option(
    "--resume",
    metavar="FILE",
    help="Keep what is reached in this file: after a crash or a kill the same call goes on. Removed at the end.",
)
def fit(table: str, out: str, n_atoms: str, max_rows: int, resume: str | None, **chosen: Any) -> None:
    """Fit a model to a table, say how good it is, and write it to a file.

    TABLE is a CSV or Parquet file, gzip or not, or "-" for standard input; see the help of compare. The model is a
    refined kernel matching pursuit: few terms, which move to where they serve best. A fifth of the rows is held out to
    judge it; the model that is written is then fitted to all rows. The file holds data and no code; kernelpursuit.load
    reads it.
    """
    with errors_in_one_line():
        from kernelpursuit.cli import fitting

        if out == "-":
            raise OneLineError("--out must be a file: a model is not written to standard output")
        check_output_path(out)
        wanted = parse_n_atoms(n_atoms)
        model = fitting.fit_and_describe(
            table, n_atoms=wanted, max_rows=max_rows, resume=resume, say=click.echo, **chosen
        )
        fitting.write_model(model, out, click.echo, resume)


@cli.command()
@click.argument("model")
@click.argument("table")
@click.option(
    "--out",
    metavar="FILE",
    help="Write to this file, Parquet if it ends so, else CSV. Default: -, standard output.",
)
@click.option("--probabilities", is_flag=True, help="Also the probability of each class.")
@click.option(
    "--intervals",
    metavar="COVERAGE",
    type=float,
    help="Also the ends of intervals that hold so large a share of new values, such as 0.9.",
)
def predict(model: str, table: str, out: str | None, probabilities: bool, intervals: float | None) -> None:
    """Predict the target of MODEL for the rows of TABLE ("-" reads standard input).

    The first column that is written has the name of the target; classes keep their type (whole numbers, true and
    false) in Parquet. Probabilities are in columns P(CLASS), ends of intervals in lower and upper. Where the target
    itself has one of these names, its name goes before all of them: upper, upper_lower, upper_upper.

    Rows are read, predicted and written some thousand at a time. Columns that the model does not need are ignored. What
    is wrong is named by the line of a CSV file (the header is line 1), or by the row of a Parquet file or of standard
    input (counted from 1).
    """
    with errors_in_one_line():
        from kernelpursuit.cli import predicting

        check_output_path(out)
        predicting.predict_file(model, table, out, probabilities, intervals)


@cli.command()
@click.argument("model")
def describe(model: str) -> None:
    """Say what MODEL predicts, from what, and how good it was when it was fitted."""
    with errors_in_one_line():
        from kernelpursuit.cli import fitting

        for line in fitting.description_of_model(fitting.load_model(model)):
            click.echo(line)


@cli.command()
@click.argument("source", metavar="TABLE|MODEL")
@click.option("--out", metavar="PAGE", required=True, help="The HTML file to write; - is standard output.")
@table_options
@ATOMS
@FIT_ROWS
def report(source: str, out: str, n_atoms: str, max_rows: int, **chosen: Any) -> None:
    """Write one self-contained page about a model, or fit one to a table and write the page.

    The page needs no network: what was learned, error against number of terms, calibration or residuals, which columns
    matter, where the centres are, the peers, and how to use the model.
    """
    with errors_in_one_line():
        from kernelpursuit.cli import fitting
        from kernelpursuit.cli.page import write_page

        check_output_path(out)
        say = partial(click.echo, err=out == "-")  # beside the page
        if fitting.is_model(source):
            if chosen["target"] is not None:
                raise OneLineError(f"{source} is a model, and has its target; --target is for a table")
            model = fitting.load_model(source)
        else:
            model = fitting.fit_and_describe(
                source, n_atoms=parse_n_atoms(n_atoms), max_rows=max_rows, say=say, **chosen
            )
        fitted = not fitting.is_model(source)
        with fitting.kept_if_unwritten(model) if fitted else nullcontext():
            write_page(model, out, "MODEL" if fitted else source)
        if out != "-":
            say(f"Wrote {out}")
