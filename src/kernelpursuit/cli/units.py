"""Texts that look like numbers with a sign or a unit: 12.3 %, 45 kg, $12.50, 1,234.50."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kernelpursuit.cli.sources import quoted

CURRENCIES = "$€£¥¢₹₩₽₺₪₫₴₦₱฿"
GROUPED = r"[0-9]{1,3}(?:,[0-9]{3})+(?:[.][0-9]+)?|[0-9]{1,3}(?:[.][0-9]{3})+,[0-9]+"  # 1,234.50 or 1.234,50
PLAIN = r"[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+"
UNIT = r"(?:[^\W\d_]|[%‰°'\"])[^\d,;]{0,14}[23]?"  # begins with a letter or a sign; may end as m2 and m3 do
NUMBER = re.compile(
    rf"[+-]?(?P<before>(?:[A-Z]{{0,3}}[{CURRENCIES}])?)\s*[+-]?(?:{GROUPED}|{PLAIN})"
    rf"\s*(?P<after>[{CURRENCIES}]|(?:{UNIT})?)"
)
MOST_UNITS = 4  # more of them are parts of codes
FEWEST_NUMBERS = 3  # "50 mg or none" is a category


def is_grouped(text: str) -> bool:
    """Whether a text is a number with separators between its thousands, and nothing else.

    Examples
    --------
    >>> [is_grouped(text) for text in ("1,234.50", "-1.234.567,5", "1,2,3", "1234.5")]
    [True, True, False, False]
    """
    return re.fullmatch(rf"\s*[+-]?(?:{GROUPED})\s*", text) is not None


def unit_note(name: str, kind: str, column: Any) -> str | None:
    """A note on a column of texts that look like numbers with a sign or a unit; None for other columns."""
    if kind != "text":
        return None
    counts = {one["values"]: one["counts"] for one in column.drop_null().value_counts().to_pylist()}
    if not (found := common_units(counts)):
        return None
    signs = " or ".join(map(quoted, found))
    such = next(text for text in counts if NUMBER.fullmatch(text.strip()))
    like = f"Looks like numbers with {signs}: {quoted(name)}, {len(counts)} distinct texts such as {quoted(such)}"
    return f"{like}; kept as texts (write plain numbers, in one unit, to have them read as numbers)."


def common_units(counts: Mapping[str, int]) -> list[str]:
    """Signs and units of texts that are numbers with them in most rows; none where that is not so.

    Parameters
    ----------
    counts : mapping
        Of the rows of each text.

    Examples
    --------
    >>> common_units({"1.5 kg": 4, "2 kg": 9, "3 lb": 2, "heavy": 1}), common_units({"$1": 1, "$2": 1, "$3": 1})
    (['kg', 'lb'], ['$'])
    """
    rows: Counter[str] = Counter()
    numbers = 0
    for text, count in counts.items():
        match = NUMBER.fullmatch(text.strip())
        if match and (unit := f"{match['before']} {match['after']}".strip()):
            rows[unit] += count
            numbers += 1
    if numbers < FEWEST_NUMBERS or len(rows) > MOST_UNITS or 2 * sum(rows.values()) <= sum(counts.values()):
        return []
    return [unit for unit, _ in rows.most_common()]
