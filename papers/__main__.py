"""Run a published table or figure again: ``python -m papers NAME``, from a checkout (``make reproduce NAME=...``)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import papers

DESCRIPTION = """\
Run a published table or figure again and write a page on it.

The page, NAME.md, has our numbers beside the printed ones, a verdict on each claim, and a picture, NAME.png. Finished
parts are kept in NAME.jsonl: the same command goes on where an interrupted one stopped, and only writes the page anew
where all is finished. Delete the file to measure again. Tasks of s4-forest take up to 2.5 GB each."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status: 2 with one line for what cannot be done, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        if options.name == "list":
            print(papers.listing(options.data))
            return 0
        if options.jobs < 1 and options.jobs != -1:
            raise ValueError(f"--jobs must be -1 or at least 1; got {options.jobs}")
        chosen = {"quick": options.quick, "data_dir": options.data, "out": options.out, "jobs": options.jobs}
        for name in papers.NAMES if options.name == "all" else [options.name]:
            print(f"{name}: see {papers.reproduce(name, **chosen)}")
    except (ValueError, OSError) as error:  # unknown names, data that are not there, folders that cannot be made
        return _complain(str(error), status=2)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return _complain("the picture needs matplotlib: pip install '.[plot]'", status=2)
    except KeyboardInterrupt:
        return _complain("interrupted; the same command goes on from here", status=130)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("papers", description=DESCRIPTION, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", metavar="NAME", help='an experiment, "all", or "list" to see them and their data')
    parser.add_argument("--quick", action="store_true", help="the smallest setting; nothing can be concluded from it")
    parser.add_argument("--data", metavar="DIR", help="folder of the data sets, looked into first")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("docs/results"), help="(default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=-1, help="tasks at the same time; -1: one for each core (default)")
    return parser


def _complain(message: str, status: int) -> int:
    print(f"papers: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
