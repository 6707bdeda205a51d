"""Cells of text as numbers, dates and times: what `fit` takes for one `predict` takes too, as both read it here.

pyarrow guesses the kinds of the columns of a CSV file to learn from; new rows come as text, whatever their kinds.
"""

from __future__ import annotations

from typing import Any

from kernelpursuit.cli.sources import Source, quoted

TIME = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?$"
HEXADECIMAL = r"^0x[0-9a-f]+$"
OFFSET = r"[+-][0-9]{2}(:?[0-9]{2})?"
ZONED = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ].*[0-9](Z|{OFFSET})$"  # after a time: the -01 of 2019-01-01 is none
FORMS = {
    "number": "a number",
    "time": "a time of day (HH:MM or HH:MM:SS)",
    "date": "a date (YYYY-MM-DD, with or without a time and its zone)",
}


def without_dictionary(column: Any) -> Any:
    """A column without dictionary, and its texts of the type that pyarrow's functions take."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    wide = types.is_large_string(column.type) or types.is_string_view(column.type)
    return column.cast(pa.string()) if wide else column


def numbers(texts: Any) -> Any:
    """Texts as float64: decimals, hexadecimals, true and false."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    for word, digit in {"true": "1", "false": "0"}.items():
        trimmed = pc.if_else(pc.equal(trimmed, word), digit, trimmed)
    whole = pc.match_substring_regex(trimmed, HEXADECIMAL)
    hexadecimals = _where(whole, trimmed).cast(pa.int64()).cast(pa.float64(), safe=False)
    return pc.coalesce(hexadecimals, _where(pc.invert(whole), trimmed).cast(pa.float64()))


def times(texts: Any) -> Any:
    """Texts as seconds since midnight."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    day = pc.if_else(pc.match_substring_regex(trimmed, TIME), "1970-01-01T", "no time ")
    return seconds(_dates(pc.binary_join_element_wise(day, trimmed, "")).cast(pa.int64()).cast(pa.duration("us")))


def seconds(column: Any) -> Any:
    """Times of day or durations, of any unit, as seconds."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
    ticks = column.cast(pa.int32() if types.is_time32(column.type) else pa.int64())
    return pc.divide(ticks.cast(pa.float64(), safe=False), per_second)


def dates(texts: Any) -> Any:
    """Texts as instants: those without a time zone are taken to be of UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts, zoned = _with_zones(texts)
    instants = _dates(_where(zoned, texts), zone="UTC").cast(pa.timestamp("us"))
    return pc.coalesce(instants, _dates(_where(pc.invert(zoned), texts)))


def has_zone(column: Any) -> Any:
    """For each date or text of one whether it has a time zone; null where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_string(column.type):
        return _with_zones(column)[1]
    has = types.is_timestamp(column.type) and column.type.tz is not None
    return pc.if_else(pc.is_valid(column), has, pa.scalar(None, pa.bool_()))


def can_read(read: Any, texts: Any) -> bool:
    """Whether all texts that are there can be read, and there are any."""
    import pyarrow as pa

    try:
        return read(texts).null_count < len(texts)
    except pa.ArrowInvalid:
        return False


def read_cells(source: Source, name: str, texts: Any, kind: str) -> Any:
    """Texts of a column as a kind, or an error that names the first that is none."""
    import pyarrow as pa

    read = {"number": numbers, "time": times, "date": dates}[kind]
    try:
        return read(texts)
    except pa.ArrowInvalid:
        good, bad = 0, len(texts)  # the first `good` can be read, the first `bad` cannot
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                read(texts.slice(good, middle - good))
                good = middle
            except pa.ArrowInvalid:
                bad = middle
        source.fail(f"{quoted(texts[good].as_py())} is not {FORMS[kind]}", name, good)


def _where(mask: Any, texts: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(mask, texts, pa.scalar(None, pa.string()))


def _dates(texts: Any, zone: str | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, r"([.][0-9]{6})[0-9]+", r"\1").cast(pa.timestamp("us", zone))


def _with_zones(texts: Any) -> tuple[Any, Any]:
    """Texts with their zones spelled as pyarrow takes them, and which have one."""
    import pyarrow.compute as pc

    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"\s*(Z|z|UTC|GMT)$", "Z")
    texts = pc.replace_substring_regex(texts, rf"\s+({OFFSET})$", r"\1")
    return texts, pc.match_substring_regex(texts, ZONED)
