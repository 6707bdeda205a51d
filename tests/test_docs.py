"""Code in the documentation runs, and prints what it says it prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = [
    pytest.param(code, output, id=f"{name}-{i}")
    for name in ("README.md", "CONTRIBUTING.md", "docs/large_data.md")
    for i, (code, output) in enumerate(
        re.findall(r"```python\n(.*?)```(?:\n\n?```text\n(.*?)```)?", (ROOT / name).read_text(), re.DOTALL)
    )
]


@pytest.mark.parametrize(("code", "output"), BLOCKS)
def test_code_block_runs(code, output, capsys):
    if "import torch" in code:
        pytest.importorskip("torch")
    exec(compile(code, "documentation", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed
    if output:
        assert printed.split() == output.split()


def summarised_results():
    """Rows of the summary of the papers, each with the page that it links."""
    section = (ROOT / "docs" / "papers.md").read_text().split("## What came out")[1]
    rows = [line for line in section.splitlines() if line.startswith("| [")]
    return [pytest.param(row, re.search(r"\((results/.*?\.md)\)", row)[1], id=row[3:20]) for row in rows]


@pytest.mark.parametrize(("row", "page"), summarised_results())
def test_numbers_of_the_summary_stand_on_the_page_they_link(row, page):
    """Decimals and counts of three digits or more, as they are written there; rounding would be a claim of its own."""
    row, page = re.sub(r"\(results/.*?\)|NIPS 2003", "", row), f"docs/{page}"
    row, text = (re.sub(r"(?<=\d),(?=\d{3})", "", part) for part in (row, (ROOT / page).read_text()))
    for number in re.findall(r"\d+\.\d+|\d{3,}", row):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", text), f"{number} is not on {page}"


def test_the_readme_is_short_and_has_no_number_from_memory():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 120
    assert "recalled" not in text
    assert not re.findall(r"\d\.\d{3,}", re.sub(r"```.*?```", "", text, flags=re.DOTALL)), "results stand on pages"
