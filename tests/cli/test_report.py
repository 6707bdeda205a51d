"""The page of a report: complete in one file, escaped, and without a complaint of a real browser."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("skrub")
pytest.importorskip("jinja2")

import pandas as pd

from kernelpursuit.cli import drawings, page
from kernelpursuit.cli.fitting import judgement_in_words
from kernelpursuit.cli.tables import Table
from kernelpursuit.cli.training import fit_table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<script>alert(1)</script>"


def model_of(task):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), HOSTILE: rng.normal(size=80), "w": ["x", "y"] * 40})
    value = frame["a"].to_numpy() + frame[HOSTILE].to_numpy()
    y = value if task == "regression" else np.where(value > 0, HOSTILE, "b&w")
    kinds = {"a": "number", HOSTILE: "number", "w": "text"}
    return fit_table(Table("<b>t</b>.csv", frame, y, "tar<get", task, kinds, ["a note & more"]), n_atoms=4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for task in ("regression", "classification"):
        page.write_page(model_of(task), str(folder / f"{task}.html"), "m.model")
    return folder


class Tags(HTMLParser):
    """Collects tags and addresses; fails where they are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.addresses = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "data")]
        if tag not in ("meta", "link", "br", "line", "circle", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "circle", "polyline"):
            assert self.open.pop() == tag


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_page_is_complete_and_loads_nothing(pages, task):
    text = (pages / f"{task}.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.open and "script" not in tags.seen and "img" not in tags.seen
    assert tags.addresses == ["data:,"]
    assert not re.search(r"url\(|@import|https?:", text)
    for words in (
        "Error against number of terms", "Beside its peers", "Which columns matter", "Where the centres are",
        "Predicted and true" if task == "regression" else "Are the probabilities right?", "knee: ",
        "prefers-color-scheme: dark", "@media print", "kernelpursuit.load", "to_onnx", "a note &amp; more",
    ):  # fmt: skip
        assert words in text


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_real_browser_has_no_complaint(pages, task, tmp_path):
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    flags += f" --disable-component-update --disable-quic --user-data-dir={tmp_path} --enable-logging=stderr --v=0"
    address = (pages / f"{task}.html").as_uri()
    result = subprocess.run(
        [CHROMIUM, *flags.split(), "--dump-dom", address], capture_output=True, text=True, timeout=120
    )
    assert "</html>" in result.stdout and "Which columns matter" in result.stdout
    assert "CONSOLE" not in result.stderr


def test_a_table_of_one_column():
    """Its rows vary in one direction alone."""
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=60)})
    table = Table("t.csv", frame, np.sin(frame["a"].to_numpy()), "y", "regression", {"a": "number"})
    assert "Where the centres are" in page.page_html(fit_table(table, n_atoms=2), "m.model")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3e6, 2e5), (0.001, 0.0013), (5, 5.5)])
def test_ticks_lie_within(low, high):
    found = drawings.axis_ticks(low, high, 5)
    assert 2 <= len(found) <= 8 and all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)


def test_nearly_all_of_the_variance_is_not_all():
    model = model_of("regression")
    model.about["held_out"]["explained"] = 0.9996
    sentences = " ".join(judgement_in_words(model))
    assert "99.96% of the variance is explained" in sentences and "100%" not in sentences
    assert {"value": "99.96 %", "name": "of the variance explained"} in page.number_tiles(model, str)


def test_the_curve_is_of_models_like_the_one_on_the_page():
    """Once of a plain pursuit: its knee of 26 terms stood beside a refined model for which 12 were enough."""
    model = model_of("regression")
    held, curve = model.about["held_out"], model.about["curve"]
    assert curve["terms"] == [0, 1, 2, 4, 8] and held["terms"] == 4
    assert curve["errors"][curve["terms"].index(4)] == held["error"] and curve["errors"][0] == held["chance"]
    assert curve["knee"] in curve["terms"]


def test_no_knee_is_drawn_where_nothing_is_learned():
    """Once "knee: 0 terms" beside 50 that were chosen."""
    model = model_of("regression")
    assert "knee: " in page.error_curve_of(model, "error", str)
    model.about["curve"]["knee"] = 0
    drawn = page.error_curve_of(model, "error", str)
    assert "knee" not in drawn and "none is clearly better than chance" in drawn
    del model.about["curve"]["terms"]  # an older file
    assert page.error_curve_of(model, "error", str) == ""


def test_bars_of_columns_are_shares_of_what_is_learned():
    """Once the largest filled its bar, also where the error rose by 0.1 %."""
    model = model_of("regression")
    model.about["held_out"] |= {"chance": 3.0, "error": 1.0}
    model.about["columns"] = [{"column": name, "rise": rise, "weight": 1.0} for name, rise in (("a", 0.1), ("b", -1.0))]
    assert [row["width"] for row in page.column_rows(model, str)] == [5.0, 0.0]
