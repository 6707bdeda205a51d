"""Pictures of the report as SVG: plain marks whose colours the page's style sheet sets, for light, dark and paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

WIDTH, HEIGHT = 420, 280  # units that are about pixels on a phone
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 28, 40
CLASSES_SHOWN = 6  # colours


class Chart:
    """Axes and the marks on them."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], x_name: str, y_name: str):
        self.x, self.y = _widened(*x), _widened(*y)
        self.parts: list[str] = []
        self._axes(x_name, y_name)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Place of a point in the picture."""
        across = LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)

    def _axes(self, x_name: str, y_name: str) -> None:
        for value in axis_ticks(*self.y, count=5):
            _, down = self.at(self.x[0], value)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down}" y2="{down}"/>')
            self._words(LEFT - 6, down + 4, axis_number(value), "tick", "end")
        for value in axis_ticks(*self.x, count=6):
            across, _ = self.at(value, self.y[0])
            self._words(across, HEIGHT - BOTTOM + 16, axis_number(value), "tick", "middle")
        self._words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_name, "name", "middle")
        self._words(4, 13, y_name, "name", "start")

    def _words(self, x: float, y: float, text: str, kind: str, anchor: str) -> None:
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """A line through points."""
        points = " ".join(f"{a},{b}" for a, b in (self.at(x, y) for x, y in zip(xs, ys, strict=True)))
        self.parts.append(f'<polyline class="{kind}" points="{points}"/>')

    def level(self, y: float, label: str, kind: str, above: bool = True) -> None:
        """A horizontal line with its name at the right end."""
        self.line(self.x, (y, y), kind)
        self.note(self.x[1], y, label, "end", -5 if above else 14)

    def point(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """A dot; its title is shown when the mouse rests on it."""
        across, down = self.at(x, y)
        inner = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(f'<circle class="{kind}" cx="{across}" cy="{down}" r="{radius:.1f}">{inner}</circle>')

    def note(self, x: float, y: float, text: str, anchor: str = "start", lift: float = -8) -> None:
        """Words beside a point, kept inside the picture."""
        across, down = self.at(x, y)
        down = min(max(down + lift, TOP + 10), HEIGHT - BOTTOM - 4)
        self._words(across, round(down, 1), text, "note", anchor)

    def svg(self, description: str) -> str:
        """The picture."""
        head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">'
        return head + "".join(self.parts) + "</svg>"


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def axis_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between two others.

    Examples
    --------
    >>> axis_ticks(0, 1, 5), axis_ticks(3, 117, 6)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [20.0, 40.0, 60.0, 80.0, 100.0])
    """
    raw = (high - low) / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(part * power for part in (1, 2, 5, 10) if part * power >= 0.999 * raw))
    first = int(np.ceil(low / step - 1e-9))
    return [float(f"{i * step:.12g}") for i in range(first, int(np.floor(high / step + 1e-9)) + 1)]


def axis_number(value: float) -> str:
    """A number for an axis: thousands as k, millions as M.

    Examples
    --------
    >>> axis_number(0.25), axis_number(250000), axis_number(3e6), axis_number(-1500)
    ('0.25', '250k', '3M', '-1.5k')
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def draw_error_curve(
    curve: dict[str, Any], ours: dict[str, Any], boosting: float, error_name: str, text: Callable[[float], str]
) -> str:
    """Error against number of terms of models of one kind, the knee marked, and boosting beside.

    `ours` has the "terms" and the "error" of the model, and the ends of its interval, "low" and "high", if it has one.
    """
    terms, errors, knee = curve["terms"], curve["errors"], curve["knee"]
    last, chance = max(terms), errors[0]
    chart = Chart((0, last), (0, 1.08 * max(*errors, boosting)), "number of terms", error_name)
    chart.level(chance, f"chance {text(chance)}", "chance")
    chart.level(boosting, f"boosting {text(boosting)}", "peer", above=errors[-1] < boosting)
    chart.line(terms, errors, "curve")
    for size, error in zip(terms[1:], errors[1:], strict=True):
        chart.point(size, error, 3, "bin", f"{text(error)} with {size} terms")
    if "low" in ours:
        chart.line((ours["terms"], ours["terms"]), (ours["low"], ours["high"]), "whisker")
    chart.point(ours["terms"], ours["error"], 5.5, "ours", f"this model: {text(ours['error'])}")
    if knee == 0:
        return chart.svg(f"{error_name} against the number of terms; none is clearly better than chance")
    lowest = errors[terms.index(knee)]
    chart.point(knee, lowest, 4.5, "knee", f"knee: {text(lowest)} with {knee} terms")
    above = lowest < chance / 2  # where there is room for words
    apart = (lowest + chance) / 2 if above else 0.4 * min(lowest, ours.get("low", lowest))
    chart.line((knee, knee), (lowest, apart), "lead")
    words = f"knee: {knee} terms, {text(lowest)}"
    beyond = knee > 0.6 * last
    chart.note(knee + (-0.015 if beyond else 0.015) * last, apart, words, "end" if beyond else "start", lift=4)
    return chart.svg(f"{error_name} against the number of terms; knee at {knee} terms")


def draw_residuals(shown: dict[str, Any], target: str) -> str:
    """Picture of predictions for held-out rows against the true values."""
    predicted, true = shown["predicted"], shown["true"]
    low, high = min(*predicted, *true), max(*predicted, *true)
    margin = 0.04 * (high - low)
    span = (low - margin, high + margin)
    chart = Chart(span, span, "predicted", f"true {target}")
    chart.line(span, span, "diagonal")
    for x, y in zip(predicted, true, strict=True):
        chart.point(x, y, 2.6, "row", f"predicted {x:.5g}, true {y:.5g}")
    return chart.svg("Predicted against true values of rows that were held out")


def draw_calibration(bins: Sequence[Sequence[float]]) -> str:
    """Share that happened against the probability that was predicted."""
    chart = Chart((0, 1), (0, 1), "predicted probability", "share that happened")
    chart.line((0, 1), (0, 1), "diagonal")
    chart.line([p for p, _, _ in bins], [share for _, share, _ in bins], "curve")
    most = max(count for _, _, count in bins)
    for p, share, count in bins:
        chart.point(p, share, 3 + 6 * np.sqrt(count / most), "bin", f"{count} predictions: {share:.2f} for {p:.2f}")
    return chart.svg("Share of cases that happened against the probability that was predicted")


def draw_centres(picture: dict[str, Any], task: str, classes: Sequence[str]) -> str:
    """Centres of the terms among training rows."""
    points = np.array([*picture["rows"], *picture["centres"]])
    low, high = np.quantile(points, 0.01, axis=0), np.quantile(points, 0.99, axis=0)
    margin = 0.08 * (high - low)
    low, high = low - margin, high + margin
    chart = Chart((low[0], high[0]), (low[1], high[1]), "first direction of the weighed inputs", "second direction")
    shades = _shades(picture["targets"], task, classes)
    for (x, y), (shade, label) in zip(picture["rows"], shades, strict=True):
        if low[0] <= x <= high[0] and low[1] <= y <= high[1]:
            chart.point(x, y, 2.4, f"row {shade}", label)
    for (x, y), size in zip(picture["centres"], picture["sizes"], strict=True):
        x, y = (float(np.clip(value, a, b)) for value, a, b in zip((x, y), low, high, strict=True))
        chart.point(x, y, 3.5 + 5 * size, "centre", "a centre")
    return chart.svg("Centres of the terms among training rows")


def _shades(targets: Sequence[Any], task: str, classes: Sequence[str]) -> list[tuple[str, str]]:
    """Class of the style sheet and title of each row."""
    if task == "classification":
        place = {label: i % CLASSES_SHOWN for i, label in enumerate(classes)}
        return [(f"c{place[label]}", str(label)) for label in targets]
    ranks = np.searchsorted(np.quantile(targets, [0.2, 0.4, 0.6, 0.8]), targets)
    return [(f"q{rank}", f"{value:.5g}") for rank, value in zip(ranks, targets, strict=True)]
