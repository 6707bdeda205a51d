"""What the code of a page prints, block by block; ``python -m tests.page_outputs [PAGE ...]`` writes it there."""

import contextlib
import io
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "index.md", *sorted(DOCS.glob("start/*.md")), *sorted(DOCS.glob("guide/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n?```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def blocks(page):
    """Code and shown output of each block; "" where none is shown."""
    return BLOCK.findall(page.read_text())


def printed(page):
    """Yield what each block prints: all in order, in one namespace, as a reader would paste them."""
    names = {"__name__": "__main__"}
    for code, _ in blocks(page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(page), "exec"), names)
        yield out.getvalue()


def write(page):
    """The page with what its code prints."""
    outputs = printed(page)

    def with_output(match):
        output = next(outputs)
        return f"```python\n{match[1]}```\n" + (f"\n```text\n{output.rstrip()}\n```\n" if output else "")

    page.write_text(BLOCK.sub(with_output, page.read_text()))


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    for page in [Path(name) for name in sys.argv[1:]] or [page for page in PAGES if blocks(page)]:
        write(page)
        print(page)
