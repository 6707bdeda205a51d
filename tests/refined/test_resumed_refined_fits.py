"""Refined fits that survive their process: what was tried is in a file, and the same call goes on with it."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import RefinedKMPClassifier, RefinedKMPRegressor
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
def test_a_refined_fit_that_was_killed_ends_with_the_same_model(name, tmp_path, monkeypatch):
    """A kill leaves the beginning of the file, to any byte."""
    if name.startswith("descent"):
        monkeypatch.setattr(base, "is_affordable", lambda n, terms: False)
    found, y = FITS[name]
    weights = (np.arange(len(y)) % 3 + 1.0) if name == "weights" else None
    model = clone(found).set_params(resume=tmp_path / "undisturbed")
    wanted = numbers(model.fit(X, y, weights))
    if model.random_state is not None:
        assert numbers(clone(found).fit(X, y, weights)) == wanted
    content = (tmp_path / "undisturbed").read_bytes()
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 10) + 1
    assert len(ends) > 3
    for place, cut in enumerate([int(ends[2]) - 3, int(ends[len(ends) // 2]), len(content)]):
        file = tmp_path / str(place)
        file.write_bytes(content[:cut])
        assert numbers(model.set_params(resume=file).fit(X, y, weights)) == wanted
        assert file.read_bytes() == content


@pytest.mark.parametrize("work", [["judging.raise_bound", "judging.raise_evidence"], ["descent.gradient"]], ids=str)
def test_what_was_done_is_not_done_again(work, tmp_path, monkeypatch):
    if work == ["descent.gradient"]:
        monkeypatch.setattr(base, "is_affordable", lambda n, terms: False)
    model = RefinedKMPRegressor(4, epochs=10, random_state=0, resume=tmp_path / "file").fit(X, Y)
    for function in work:
        monkeypatch.setattr(f"kernelpursuit.refined.{function}", None)
    assert numbers(clone(model).fit(X, Y)) == numbers(model)


def long_fit(file):
    X = np.random.default_rng(0).normal(size=(200, 3))
    return RefinedKMPRegressor(4, epochs=20, random_state=0, resume=file).fit(X, np.sin(3 * X[:, 0]) + X[:, 1])


def test_a_refined_fit_killed_by_the_system(tmp_path):
    """At a moment that nobody chose."""
    killed(long_fit, tmp_path / "file", 4)
    assert numbers(long_fit(tmp_path / "file")) == numbers(long_fit(False))
