"""The file of a fit that may be killed: what it refuses, and what is left of one that was damaged."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import KMPClassifier, KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.fitting.journal import Journal, whole_lines
from kernelpursuit.parameters import columns
from tests.processes import elsewhere

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=90)
LABELS = np.digitize(Y, [-0.5, 0.5])
W = np.linspace(0.5, 1.5, 90)
KINDS = {
    "refined": RefinedKMPRegressor(3, epochs=3, random_state=0),
    "pursuit": KMPRegressor(12, random_state=0),
}
FIT = {"estimator": "none", "parameters": {}, "rows": "", "seed": 0}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file"


@pytest.mark.parametrize("name", KINDS)
def test_another_fit_is_refused_with_the_reason(name, file):
    same = clone(KINDS[name]).set_params(resume=file).fit(X, Y)
    content = file.read_bytes()
    for parameter, there, here in [("n_atoms", same.n_atoms, 4), ("random_state", 0, 1)]:
        with pytest.raises(ValueError, match=f"{parameter}={there} there and {here} here"):
            clone(same).set_params(**{parameter: here}).fit(X, Y)
    other = KMPClassifier if name == "pursuit" else RefinedKMPClassifier
    with pytest.raises(ValueError, match=f"{type(same).__name__} there and {other.__name__} here"):
        other(3, resume=file).fit(X, LABELS)
    for data in [(X + 1e-9, Y), (X, Y + X[:, 0]), (X, Y, W), (X.astype(np.float32), Y)]:
        with pytest.raises(ValueError, match="made on other data"):
            same.fit(*data)
    same.set_params(verbose=1).fit(X, Y)
    assert file.read_bytes() == content


def test_other_files_and_folders_are_refused(file):
    file.write_text("name,price\n")
    with pytest.raises(ValueError, match=r"resume='.*file' is no journal"):
        KMPRegressor(5, resume=file).fit(X, Y)
    assert file.read_text() == "name,price\n"
    with pytest.raises(ValueError, match="there is no folder"):
        KMPRegressor(5, resume=file.parent / "no" / "file").fit(X, Y)


@pytest.mark.parametrize(
    "model", [KMPRegressor(resume=3), KMPRegressor(resume=None), RefinedKMPRegressor(resume=True)], ids=repr
)
def test_resume_is_checked(model):
    with pytest.raises(ValueError, match="The 'resume' parameter"):
        model.fit(X, Y)


def fit(file):
    KMPRegressor(5, resume=file).fit(X, Y)


def test_a_file_serves_one_fit_at_a_time(file):
    fcntl = pytest.importorskip("fcntl")
    with open(file, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="in use by another fit"):
            elsewhere(fit, file)
    elsewhere(fit, file)


def test_two_threads_do_not_share_a_file(file):
    """A thread whose fit failed, and whose traceback is kept, may begin again."""
    pytest.importorskip("fcntl")
    begun, may_end = threading.Event(), threading.Event()

    def slow(rows):
        begun.set()
        may_end.wait(60)
        return rows[:, :1]

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(KMPRegressor(5, kernel=["rbf", columns(slow)], resume=file).fit, X, Y)
        begun.wait(60)
        with pytest.raises(ValueError, match="in use by another fit"):
            fit(file)
        may_end.set()
        first.result(60)

    def fail(rows):
        raise RuntimeError("no columns today")

    model = KMPRegressor(5, kernel=["rbf", columns(fail)], resume=file.with_name("other"))
    with pytest.raises(RuntimeError) as kept:
        model.fit(X, Y)
    with pytest.raises(RuntimeError):
        model.fit(X, Y)
    assert kept.value.__traceback__ is not None


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_good_up_to_the_damage(name, file):
    """Also where it leaves numbers and texts that can be read, but are others."""
    rng = np.random.default_rng(0)
    model = clone(KINDS[name]).set_params(resume=file)
    wanted = model.fit(X, Y).predict(X)
    content = file.read_bytes()
    starts = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 10)[:-1] + 1
    for damage in [b"garbage!", b"AAAA", b"1", b"e", b"}", b"\n", bytes(4), b"\x80"]:
        for place in (*rng.integers(30, len(content) - 8, 3), *(rng.choice(starts, 2) + rng.integers(0, 60, 2))):
            damaged = content[:place] + damage + content[place + len(damage) :]
            file.write_bytes(damaged)
            found = model.fit(X, Y).predict(X)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=repr(damaged[place - 30 : place + 30]))
            assert len(file.read_bytes().splitlines()) == len(content.splitlines())


def test_a_file_damaged_at_its_beginning_is_named(file):
    model = clone(KINDS["refined"]).set_params(resume=file).fit(X, Y)
    content = file.read_bytes()
    for place, damage in [(0, b"x"), (5, b"garbage!"), (16, b"1")]:
        file.write_bytes(content[:place] + damage + content[place + len(damage) :])
        with pytest.raises(ValueError, match=r"resume='.*file' is no journal of a fit by this version"):
            model.fit(X, Y)


def test_results_come_back_in_order_and_others_are_dropped(file):
    first = Journal(file, FIT | {"seed": 7})
    for name in "abc":
        first.write(name, (name, np.arange(3, dtype=np.int8), [np.float32(0.1), None, float("nan")]))
    del first
    again = Journal(file, FIT)
    assert again.seed == 7
    assert again.read("b") is None
    name, array, (number, nothing, nan) = again.read("a")
    assert (name, array.tolist(), array.dtype) == ("a", [0, 1, 2], np.int8)
    assert (number, nothing) == (float(np.float32(0.1)), None) and np.isnan(nan)
    again.write("x", 1)
    assert again.read("b") is None and again.read("x") is None
    del again
    lines = whole_lines(file.read_bytes())
    assert [value[0] for value, _ in lines[1:]] == ["a", "x"]
    with pytest.raises(TypeError, match="holds numbers, texts and arrays, not set"):
        Journal(file, FIT).write("y", {1})
