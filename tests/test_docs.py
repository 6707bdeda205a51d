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
    exec(compile(code, "documentation", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed
    if output:
        assert printed.split() == output.split()
