"""The entry point of the command line, kept apart so that it can say what to install when click is missing."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # 128 + SIGINT, what a shell reports


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        try:
            from kernelpursuit.cli.commands import cli
        except ModuleNotFoundError as error:
            if error.name != "click":
                raise
            sys.exit(_complain("the command line needs click: install kernelpursuit with its extra 'cli'", status=2))
        # File and column names may hold what the terminal cannot show; an escape is better than a failure.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        cli(prog_name="kernelpursuit")
    except KeyboardInterrupt:  # before or after the command itself, which sees to its own
        sys.exit(_complain("interrupted", status=INTERRUPTED))


def _complain(message: str, status: int) -> int:
    print(f"kernelpursuit: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
