"""Draw docs/_static/choose.svg, what do I have, what do I want, which class; and write the same as a table.

Run as ``python docs/_static/choose.py``.
"""

from pathlib import Path
from xml.sax.saxutils import escape

ROWS = [
    (
        "rows with a number to predict",
        [
            ("few terms, and I choose how many", "KMPRegressor", "PursuitSearchCV: searches width and number"),
            ("the lowest error per term; nothing to tune", "RefinedKMPRegressor", "some hundred rows or more"),
            ("an interval around each prediction", "ConformalRegressor", "around any regressor"),
            ("weights with a small sum of absolute values", "PolytopeFacesRegressor", "a walk towards basis pursuit"),
        ],
    ),
    (
        "rows with a class",
        [
            ("few terms, and I choose how many", "KMPClassifier", "PursuitSearchCV: searches width and number"),
            ("the lowest error per term; nothing to tune", "RefinedKMPClassifier", "with probabilities"),
            ("directions that separate classes", "SparseKernelFDA", "thousands of columns"),
        ],
    ),
    ("rows in groups, with grades", [("the order inside each group", "KMPRanker", "as LightGBM's rankers")]),
    (
        "rows, nothing to predict",
        [
            ("features for a linear model", "PursuitNystroem", "in place of Nystroem"),
            ("a few coordinates to look at", "SparseKernelPCA", "in place of KernelPCA"),
            ("is a new row like the others?", "SparseKernelNovelty", "a score and a threshold"),
        ],
    ),
    ("two views of the same objects", [("what they have in common", "SparseKernelCCA", "canonical correlation")]),
    ("inputs of unequal importance", [("a weight for each, before any kernel", "FeatureWidths", "learned from y")]),
]
LINE, TOP, WIDTH = 46, 56, 1020
BLUE, GREEN, INK = "#0072B2", "#009E73", "#222222"


def text(x, y, words, *, size=15, fill=INK, anchor="start", weight="normal"):
    """A line of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(words)}</text>'
    )


def draw():
    """The drawing as SVG."""
    parts, y = [], TOP
    for x, head in ((20, "What do I have?"), (330, "What do I want?"), (700, "Which class?")):
        parts.append(text(x, 30, head, size=18, weight="bold"))
    for have, wants in ROWS:
        middle = y + LINE * len(wants) / 2 - 6
        parts.append(f'<rect x="16" y="{middle - 20}" width="232" height="40" rx="8" fill="#E4F0F8" stroke="{BLUE}"/>')
        parts.append(text(132, middle + 5, have, size=14, anchor="middle"))
        for want, name, note in wants:
            centre = y + LINE / 2 - 6
            bend = f"M248 {middle} C290 {middle} 284 {centre} 322 {centre}"
            parts.append(f'<path d="{bend}" fill="none" stroke="#999" stroke-width="1.5"/>')
            parts.append(text(330, centre + 5, want, size=14))
            parts.append(f'<path d="M652 {centre} H690" stroke="#999" stroke-width="1.5" marker-end="url(#tip)"/>')
            parts.append(f'<a href="../reference/generated/kernelpursuit.{name}.html" target="_parent">')
            parts.append(text(700, centre, name, size=15, fill=BLUE, weight="bold") + "</a>")
            parts.append(text(700, centre + 17, note, size=12, fill="#555555"))
            y += LINE
        y += 12
    tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
    tip += '<path d="M0 0 L8 4 L0 8z" fill="#999"/></marker>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="system-ui, sans-serif" '
    head += 'role="img" aria-label="What do I have, what do I want, which class">'
    return f'{head}<defs>{tip}</defs><rect width="100%" height="100%" fill="white" rx="8"/>{"".join(parts)}</svg>\n'


def table():
    """The same in words, for those who cannot see it."""
    lines = ["| What do I have? | What do I want? | Which class? |", "|---|---|---|"]
    for have, wants in ROWS:
        for want, name, note in wants:
            link = f"{{class}}`~kernelpursuit.{name}` ({note})"
            lines.append(f"| {have} | {want} | {link} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw())
    Path(__file__).with_name("choose_table.md").write_text(table())
