"""Fits that go on: from a file after a kill, from the model in memory, from any path."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import KMPClassifier, KMPRegressor, SparseKernelFDA, SparseKernelPCA, Squares, pursue
from kernelpursuit.atoms import DenseDictionary
from kernelpursuit.fitting.checkpoint import line_of, whole_lines
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import Step
from tests.processes import killed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=120)
LABELS = np.digitize(Y, [-0.5, 0.5])
W = RNG.integers(1, 4, size=120).astype(float)
FITS = {
    "prefit": (KMPRegressor(45), Y),
    "ridge": (KMPRegressor(30, alpha=0.1, weakness=0.5, memory=0), Y),
    "float32": (KMPRegressor(30, gamma=0.03, weakness=0.5, memory=0), Y),
    "gcv": (KMPRegressor(), Y),
    "sampled": (KMPRegressor(30, candidates=20, random_state=None), Y),
    "growing": (KMPRegressor(20, candidates="growing", centers=60, random_state=1), Y),
    "validation": (KMPClassifier(stop="validation", loss="logistic", random_state=0, patience=4), LABELS),
    "classes": (KMPClassifier(25, variant="backfit"), LABELS),
    "several": (KMPClassifier(), LABELS),
    "basic": (KMPRegressor(40, variant="basic", shrinkage=0.7), Y),
    "pca": (SparseKernelPCA(20, weakness=0.5, memory=0), None),
    "random": (SparseKernelPCA(20, selection="random", random_state=None), None),
    "fda": (SparseKernelFDA(20), LABELS),
}


def rows(name):
    return X.astype(np.float32) if name == "float32" else X


def numbers(model):
    """All that was fitted, as bytes."""
    coef = model._expansion.coef
    steps = [step._replace(seconds=0.0) for step in [model.path_.start, *model.path_.steps, *model.path_.discarded]]
    return model.support_.tolist(), np.asarray(coef).tobytes(), repr(steps), model.path_.passes, model.path_.reason


@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_was_killed_ends_with_the_same_bits(name, tmp_path):
    """A kill leaves the beginning of the file, to any byte."""
    found, y = FITS[name]
    model = clone(found).set_params(checkpoint=tmp_path / "undisturbed")
    wanted = numbers(model.fit(rows(name), y))
    content = (tmp_path / "undisturbed").read_bytes()
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 10) + 1
    cuts = {int(ends[1]) - 3, int(ends[len(ends) // 2]), int(ends[-2]) + 5, len(content)}
    for place, cut in enumerate(sorted(cuts)):
        file = tmp_path / str(place)
        file.write_bytes(content[:cut])
        model.set_params(checkpoint=file)
        assert numbers(model.fit(rows(name), y)) == wanted
        whole, end = whole_lines(file.read_bytes())
        assert len(whole) == len(content.splitlines()) and end == file.stat().st_size


@pytest.mark.parametrize("name", ["prefit", "gcv", "classes", "several", "pca", "fda"])
def test_the_model_is_that_of_a_fit_without_a_file(name, tmp_path):
    found, y = FITS[name]
    kept = clone(found).set_params(checkpoint=tmp_path / "file", weakness=1.0).fit(X, y)
    plain = clone(found).set_params(weakness=1.0).fit(X, y)
    assert plain.support_.tolist() == kept.support_.tolist()
    np.testing.assert_allclose(plain._expansion.coef, kept._expansion.coef, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*are duplicates of others")
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("name", ["sampled", "growing", "logistic", "pca", "random", "fda"])
def test_sampled_atoms_are_those_of_a_fit_without_a_file(name, duplicates, tmp_path):
    """Samples depend on the steps before them, not on legs, nor on which duplicates a leg has looked at."""
    rows = np.arange(120) if not duplicates else np.repeat(np.arange(30), 4)
    fits = {**FITS, "logistic": (KMPClassifier(20, loss="logistic", alpha=0.01), LABELS)}
    found, y = fits[name]
    own = {"random": {}, "growing": {"candidates": "growing"}}.get(name, {"candidates": 15})
    found = clone(found).set_params(n_atoms=20, random_state=3, weakness=1.0, memory=None, **own)
    y = None if y is None else y[rows]
    plain = clone(found).fit(X[rows], y)
    kept = clone(found).set_params(checkpoint=tmp_path / "file").fit(X[rows], y)
    more = clone(found).set_params(warm_start=True, n_atoms=7).fit(X[rows], y).set_params(n_atoms=20).fit(X[rows], y)
    assert plain.support_.tolist() == kept.support_.tolist() == more.support_.tolist()


def long_fit(file):
    X = np.random.default_rng(0).normal(size=(500, 4))
    return KMPRegressor(90, memory=0, checkpoint=file).fit(X, np.sin(3 * X[:, 0]) + X[:, 1])


def test_killed_by_the_system(tmp_path):
    """At a moment that nobody chose."""
    killed(long_fit, tmp_path / "file", 30)
    assert (tmp_path / "file").read_bytes().count(b"\n") < 90
    assert numbers(long_fit(tmp_path / "file")) == numbers(long_fit(tmp_path / "other"))


def test_another_fit_is_refused_with_the_reason(tmp_path):
    file = tmp_path / "file"
    KMPRegressor(5, gamma=0.5, random_state=0, checkpoint=file).fit(X, Y)
    for model, reason in [
        (KMPRegressor(5, gamma=0.25, random_state=0, checkpoint=file), "gamma=0.5 there and 0.25 here"),
        (KMPRegressor(6, gamma=0.5, random_state=0, checkpoint=file), "n_atoms=5 there and 6 here"),
        (KMPRegressor(5, gamma=0.5, random_state=1, checkpoint=file), "random_state=0 there and 1 here"),
    ]:
        with pytest.raises(ValueError, match=reason):
            model.fit(X, Y)
    with pytest.raises(ValueError, match="KMPRegressor there and KMPClassifier here"):
        KMPClassifier(5, checkpoint=file).fit(X, LABELS)
    same = KMPRegressor(5, gamma=0.5, random_state=0, checkpoint=file)
    for data in [(X + 1e-9, Y), (X, Y + X[:, 0]), (X, Y, W), (X.astype(np.float32), Y)]:
        with pytest.raises(ValueError, match="made on other data"):
            same.fit(*data)
    same.set_params(verbose=0).fit(X, Y)
    file.write_text("name,price\n")
    with pytest.raises(ValueError, match="is no checkpoint"):
        same.fit(X, Y)
    with pytest.raises(ValueError, match="there is no folder"):
        KMPRegressor(5, checkpoint=tmp_path / "no" / "file").fit(X, Y)


def test_a_file_serves_one_fit_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    program = f"""
import fcntl, sys
file = open({str(tmp_path / "file")!r}, "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("ready", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(ValueError, match="in use by another fit"):
            KMPRegressor(5, checkpoint=tmp_path / "file").fit(X, Y)
        other.stdin.close()
    KMPRegressor(5, checkpoint=tmp_path / "file").fit(X, Y)


def test_a_step_that_comes_out_otherwise_is_said(tmp_path):
    file = tmp_path / "file"
    model = KMPRegressor(11, checkpoint=file)
    wanted = model.fit(X, Y).support_
    lines = [value for value, _ in whole_lines(file.read_bytes())[0]]
    lines[-2][0] += 1
    file.write_bytes(b"".join(map(line_of, lines)))
    with pytest.warns(UserWarning, match="step 10 .* took another atom"):
        model.fit(X, Y)
    assert model.support_.tolist() == wanted.tolist()
    assert len(file.read_text().splitlines()) == len(lines)


@pytest.mark.parametrize("name", ["prefit", "ridge", "classes", "basic", "pca", "fda"])
def test_warm_start_goes_on_to_more_atoms(name):
    found, y = FITS[name]
    most = found.n_atoms
    model = clone(found).set_params(checkpoint=None, warm_start=True, weakness=1.0, n_atoms=most // 2).fit(X, y)
    first, passes = model.support_.tolist(), model.path_.passes
    model.set_params(n_atoms=most).fit(X, y)
    assert model.support_.tolist()[: len(first)] == first
    assert model.path_.passes > passes
    scratch = clone(model).fit(X, y)
    assert (len(scratch.path_), scratch.support_.tolist()) == (len(model.path_), model.support_.tolist())
    np.testing.assert_allclose(scratch._expansion.coef, model._expansion.coef, rtol=1e-6, atol=1e-8)
    model.set_params(n_atoms=3).fit(X, y)
    assert len(model.path_) == 3


def test_warm_start_after_a_stop_rule_and_in_the_units_of_y():
    model = KMPRegressor(warm_start=True).fit(X, 1e6 * Y)
    kept, taken = len(model.path_), len(model.path_) + len(model.path_.discarded)
    again = model.fit(X, 1e6 * Y)
    assert len(again.path_) == kept
    more = model.set_params(n_atoms=taken + 5).fit(X, 1e6 * Y)
    scratch = KMPRegressor(taken + 5).fit(X, 1e6 * Y)
    assert more.support_.tolist() == scratch.support_.tolist()
    np.testing.assert_allclose(more.path_.values("loss"), scratch.path_.values("loss"), rtol=1e-8)


def test_warm_start_on_other_data_is_refused(tmp_path):
    model = KMPRegressor(5, warm_start=True).fit(X, Y)
    for data in [(X, Y + X[:, 0]), (X[::-1], Y), (X, Y, W)]:
        with pytest.raises(ValueError, match=r"warm_start=True .* X, y, sample_weight .*; warm_start=False fits anew"):
            model.fit(*data)
    with pytest.raises(ValueError, match=r"warm_start=True .* all parameters but .*n_atoms"):
        clone(model).fit(X, Y).set_params(gamma=7.0).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start=True goes on"):
        model.fit(X[:3], Y[:3])
    with pytest.raises(ValueError, match="warm_start=True cannot go on with stop='validation'"):
        model.set_params(stop="validation").fit(X, Y)
    with pytest.raises(ValueError, match="give one of them"):
        model.set_params(stop=None, checkpoint=tmp_path / "file").fit(X, Y)


def test_a_path_can_go_on_anywhere():
    """The general form: a fresh criterion takes the recorded steps again and then new ones."""
    columns = np.exp(-((X[:, None, :] - X[None]) ** 2).sum(axis=2))
    whole = pursue(Squares(DenseDictionary(columns), Y), n_atoms(40))
    part = pursue(Squares(DenseDictionary(columns), Y), n_atoms(15))
    more = pursue(Squares(DenseDictionary(columns), Y), n_atoms(40), path=part)
    assert more.atoms.tolist() == whole.atoms.tolist()
    assert more.steps[:15] == part.steps and more.steps[15].seconds >= part.steps[-1].seconds
    assert more.passes > part.passes
    strange = part.truncate(15)
    strange.steps = [*part.steps[:3], Step(part.steps[0].atom, loss=part.steps[3].loss)]
    with pytest.raises(ValueError, match=r"atom \d+ of step 4 adds nothing"):
        pursue(Squares(DenseDictionary(columns), Y), n_atoms(40), path=strange)
