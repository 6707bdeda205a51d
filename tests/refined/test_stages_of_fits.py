"""Refined fits that survive their process: what was tried is in a file, and the same call goes on with it."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.fitting.checkpoint import Journal, whole_lines
from kernelpursuit.fitting.stages import Stages
from kernelpursuit.refined import base
from tests.processes import killed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=90)
LABELS = np.digitize(Y, [-0.5, 0.5])
FITS = {
    "one size": (RefinedKMPRegressor(4, epochs=5, random_state=0), Y),
    "auto": (RefinedKMPRegressor(epochs=2, random_state=None), Y),
    "weights": (RefinedKMPRegressor(4, epochs=5, random_state=0), Y),
    "two classes": (RefinedKMPClassifier(4, epochs=5, random_state=0), Y > 0),
    "descent": (RefinedKMPRegressor(4, epochs=10, random_state=0), Y),
    "descent of classes": (RefinedKMPClassifier(3, epochs=10, random_state=None), LABELS),
}


def numbers(model):
    """All that was fitted, as bytes."""
    return [
        np.asarray(part).tobytes()
        for part in (model.centers_, model.widths_, model.input_weights_, model.dual_coef_, model.intercept_)
    ]


@pytest.mark.parametrize("name", FITS)
def test_a_refined_fit_that_was_killed_ends_with_the_same_bits(name, tmp_path, monkeypatch):
    """A kill leaves the beginning of the file, to any byte."""
    if name.startswith("descent"):
        monkeypatch.setattr(base, "is_affordable", lambda n, terms: False)
    found, y = FITS[name]
    weights = (np.arange(len(y)) % 3 + 1.0) if name == "weights" else None
    model = clone(found).set_params(checkpoint=tmp_path / "undisturbed")
    wanted = numbers(model.fit(X, y, weights))
    if model.random_state is not None:
        assert numbers(clone(found).fit(X, y, weights)) == wanted
    content = (tmp_path / "undisturbed").read_bytes()
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 10) + 1
    assert len(ends) > 3
    for place, cut in enumerate([int(ends[2]) - 3, int(ends[len(ends) // 2]), len(content)]):
        file = tmp_path / str(place)
        file.write_bytes(content[:cut])
        assert numbers(model.set_params(checkpoint=file).fit(X, y, weights)) == wanted
        assert file.read_bytes() == content


def test_what_was_tried_is_not_tried_again(tmp_path, monkeypatch):
    model = RefinedKMPRegressor(4, epochs=5, random_state=0, checkpoint=tmp_path / "file").fit(X, Y)
    for stage in ("raise_bound", "raise_evidence"):
        monkeypatch.setattr(f"kernelpursuit.refined.judging.{stage}", None)
    assert numbers(clone(model).fit(X, Y)) == numbers(model)


def test_a_descent_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "is_affordable", lambda n, terms: False)
    model = RefinedKMPRegressor(4, epochs=10, random_state=0, checkpoint=tmp_path / "file").fit(X, Y)
    monkeypatch.setattr("kernelpursuit.refined.descent.gradient", None)
    assert numbers(clone(model).fit(X, Y)) == numbers(model)


def long_fit(file):
    X = np.random.default_rng(0).normal(size=(200, 3))
    return RefinedKMPRegressor(4, epochs=20, random_state=0, checkpoint=file).fit(X, np.sin(3 * X[:, 0]) + X[:, 1])


def test_a_refined_fit_killed_by_the_system(tmp_path):
    """At a moment that nobody chose."""
    killed(long_fit, tmp_path / "file", 4)
    assert numbers(long_fit(tmp_path / "file")) == numbers(long_fit(None))


def test_another_refined_fit_is_refused_with_the_reason(tmp_path):
    file = tmp_path / "file"
    RefinedKMPRegressor(3, epochs=5, random_state=0, checkpoint=file).fit(X, Y)
    with pytest.raises(ValueError, match="n_atoms=3 there and 4 here"):
        RefinedKMPRegressor(4, epochs=5, random_state=0, checkpoint=file).fit(X, Y)
    same = RefinedKMPRegressor(3, epochs=5, random_state=0, checkpoint=file)
    for data in [(X + 1e-9, Y), (X, Y + X[:, 0]), (X, Y, np.linspace(0.5, 1.5, 90))]:
        with pytest.raises(ValueError, match="made on other data"):
            same.fit(*data)
    with pytest.raises(ValueError, match="RefinedKMPRegressor there and RefinedKMPClassifier here"):
        RefinedKMPClassifier(3, checkpoint=file).fit(X, LABELS)


DAMAGED = {
    "refined": RefinedKMPRegressor(3, epochs=3, random_state=0),
    "pursuit": KMPRegressor(12, random_state=0),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_good_up_to_the_damage(name, tmp_path):
    """Also where it leaves numbers and texts that can be read, but are others."""
    file, rng = tmp_path / "file", np.random.default_rng(0)
    model = clone(DAMAGED[name]).set_params(checkpoint=file)
    wanted = model.fit(X, Y).predict(X)
    content = file.read_bytes()
    starts = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 10)[:-1] + 1
    for damage in [b"garbage!", b"AAAA", b"1", b"e", b"}", b"\n", bytes(4), b"\x80"]:
        for place in (*rng.integers(30, len(content) - 8, 3), *(rng.choice(starts, 2) + rng.integers(0, 60, 2))):
            damaged = content[:place] + damage + content[place + len(damage) :]
            file.write_bytes(damaged)
            assert np.array_equal(model.fit(X, Y).predict(X), wanted), damaged[place - 30 : place + 30]
            assert len(file.read_bytes().splitlines()) == len(content.splitlines())


def test_a_file_damaged_at_its_beginning_is_named(tmp_path):
    file = tmp_path / "file"
    model = RefinedKMPRegressor(3, epochs=3, random_state=0, checkpoint=file).fit(X, Y)
    content = file.read_bytes()
    for place, damage in [(0, b"x"), (5, b"garbage!"), (18, b"1")]:
        file.write_bytes(content[:place] + damage + content[place + len(damage) :])
        with pytest.raises(ValueError, match=r"checkpoint='.*file' is no checkpoint of this version"):
            model.fit(X, Y)


def test_a_stage_of_another_name_is_forgotten_with_all_after_it(tmp_path):
    first = Stages(Journal(tmp_path / "file", "fit", {}, 0))
    for name in "abc":
        first(name, partial(tuple, [name, np.arange(3)]))
    del first
    again = Stages(Journal(tmp_path / "file", "fit", {}, 0))
    rng = np.random.default_rng(0)
    assert again("a", dict)[0] == "a"
    assert again("x", lambda: rng.normal(), rng) != 0 and again("c", lambda: 7) == 7
    del again
    lines, _ = whole_lines((tmp_path / "file").read_bytes())
    assert [line["stage"] for line, _ in lines[1:]] == ["a", "x", "c"]
    third, other = Stages(Journal(tmp_path / "file", "fit", {}, 0)), np.random.default_rng(0)
    third("a", dict), third("x", dict, other)
    assert other.normal() == rng.normal()
