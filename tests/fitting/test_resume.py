"""Fits that go on: from a file after a kill or an interrupt, from the model in memory, from any path."""

import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPClassifier, KMPRegressor, SparseKernelFDA, SparseKernelPCA, Squares, pursue
from kernelpursuit.atoms import DenseDictionary
from kernelpursuit.losses import quantile
from kernelpursuit.parameters import basic, validation
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import Step
from tests.processes import elsewhere, killed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=120)
COUNTS = RNG.poisson(np.exp(0.5 * Y))
LABELS = np.digitize(Y, [-0.5, 0.5])
SQUARED = {
    "prefit": (KMPRegressor(45), Y),
    "ridge": (KMPRegressor(30, alpha=0.1, memory=0), Y),
    "gcv": (KMPRegressor(), 1e6 * Y + 3),
    "leave one out": (KMPRegressor(stop="leave_one_out"), Y),
    "sampled": (KMPRegressor(30, candidates=20, random_state=None), Y),
    "growing": (KMPRegressor(20, candidates="growing", centers=60, random_state=1), Y),
    "certificate": (KMPClassifier(stop="certificate", random_state=None), LABELS),
    "bound": (KMPClassifier(stop="bound"), LABELS),
    "classes": (KMPClassifier(25, variant="backfit"), LABELS),
    "several": (KMPClassifier(), LABELS),
    "basic": (KMPRegressor(40, variant=basic(0.7)), Y),
    "pca": (SparseKernelPCA(20, memory=0), None),
    "random": (SparseKernelPCA(20, selection="random", random_state=None), None),
    "fda": (SparseKernelFDA(20), LABELS),
}
OTHER_LOSSES = {  # of a fit whose ridge is chosen first: three pursuits in one file
    "validation": (KMPClassifier(stop=validation(patience=4), loss="log_loss", random_state=0), LABELS),
    "auto": (KMPClassifier(loss="log_loss", stop=validation(patience=4)), LABELS),
    "absolute_error": (KMPRegressor(12, loss="absolute_error"), 1e4 * Y),
    "poisson": (KMPRegressor(12, loss="poisson"), COUNTS),
}
FITS = SQUARED | OTHER_LOSSES
DRAWN = ("sampled", "certificate", "random", "auto")  # by seeds that nobody has given


def outputs(model):
    """What a model says of the rows."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X) if hasattr(model, "predict") else np.abs(model.transform(X))


def assert_equal_fits(found, wanted, digits):
    assert found.support_.tolist() == wanted.support_.tolist()
    assert (found.path_.reason, len(found.path_)) == (wanted.path_.reason, len(wanted.path_))
    for name in ("loss", "score", "weakness", "bound", "validation", "leave_one_out"):
        np.testing.assert_allclose(found.path_.values(name), wanted.path_.values(name), rtol=1e-6, err_msg=name)
    size = np.abs(outputs(wanted)).max()
    np.testing.assert_allclose(outputs(found), outputs(wanted), rtol=0, atol=10.0**-digits * size)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_was_killed_ends_with_the_same_atoms_and_predictions(name, tmp_path):
    """A kill leaves the beginning of the file, to any byte; a file that is complete changes nothing."""
    found, y = FITS[name]
    model = clone(found).set_params(resume=tmp_path / "undisturbed")
    undisturbed = clone(model).fit(X, y)
    wanted = undisturbed if name in DRAWN else clone(found).fit(X, y)
    content = (tmp_path / "undisturbed").read_bytes()
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 10) + 1
    cuts = {7, *(int(ends[place]) - 3 for place in range(0, len(ends), 6)), int(ends[-2]), len(content)}
    if name in DRAWN:
        cuts = {cut for cut in cuts if cut >= ends[0]}  # before, the seed was not written yet
    file = tmp_path / "file"
    for cut in cuts:
        file.write_bytes(content[:cut])
        again = clone(model).set_params(resume=file).fit(X, y)
        assert_equal_fits(again, wanted, digits=9 if name in SQUARED else 6)
        assert file.read_bytes().count(b"\n") == len(ends)


def long_fit(file):
    X = np.random.default_rng(0).normal(size=(500, 4))
    return KMPRegressor(90, memory=0, resume=file).fit(X, np.sin(3 * X[:, 0]) + X[:, 1])


def test_killed_by_the_system(tmp_path):
    """At a moment that nobody chose."""
    killed(long_fit, tmp_path / "file", 30)
    assert (tmp_path / "file").read_bytes().count(b"\n") < 90
    found, wanted = long_fit(tmp_path / "file"), long_fit(False)
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(found.dual_coef_, wanted.dual_coef_, rtol=1e-9)


class Interrupting:
    """A stop rule that is interrupted once; the name of its class is what a file knows of it."""

    def __init__(self, at):
        self.at = at

    def __call__(self, path):
        if len(path) == self.at:
            self.at = None
            raise KeyboardInterrupt
        return n_atoms(25)(path)


@pytest.mark.parametrize("name", ["prefit", "classes", "absolute_error"])
@pytest.mark.parametrize("in_file", [False, True])
def test_an_interrupted_fit_goes_on(name, in_file, tmp_path):
    """It leaves a model, and the same call goes on from there."""
    found, y = FITS[name]
    resume = tmp_path / "file" if in_file else True
    model = clone(found).set_params(stop=Interrupting(15), n_atoms=30, resume=resume, alpha=0.1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.support_) >= 14 and model.path_.reason == "interrupted"
    model = clone(model) if in_file else model
    passes = model.fit(X, y).path_.passes
    wanted = clone(model).set_params(resume=False).fit(X, y)
    assert model.support_.tolist() == wanted.support_.tolist() and len(model.support_) == 25
    assert passes < wanted.path_.passes + 3
    np.testing.assert_allclose(outputs(model), outputs(wanted), rtol=1e-7)


def limited_fit(file, size):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    with pytest.warns(UserWarning, match=r"resume='.*' cannot be written to .*This fit goes on"):
        return KMPRegressor(30, resume=file).fit(X, Y).support_.tolist()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("size", [0, 100, 2000])
def test_a_full_disk_does_not_end_a_fit(size, tmp_path):
    file = tmp_path / "file"
    wanted = KMPRegressor(30).fit(X, Y).support_.tolist()
    assert elsewhere(limited_fit, file, size) == wanted
    assert file.stat().st_size == size
    assert KMPRegressor(30, resume=file).fit(X, Y).support_.tolist() == wanted  # the disk has room again


@pytest.mark.parametrize("name", ["prefit", "ridge", "classes", "basic", "pca", "fda"])
def test_more_atoms_come_to_one_long_fit(name):
    found, y = FITS[name]
    most = found.n_atoms
    model = clone(found).set_params(resume=True, n_atoms=most // 2).fit(X, y)
    first, passes = model.support_.tolist(), model.path_.passes
    model.set_params(n_atoms=most).fit(X, y)
    assert model.support_.tolist()[: len(first)] == first
    assert model.path_.passes > passes
    scratch = clone(model).fit(X, y)
    assert (len(scratch.path_), scratch.support_.tolist()) == (len(model.path_), model.support_.tolist())
    np.testing.assert_allclose(outputs(scratch), outputs(model), rtol=1e-7)
    model.set_params(n_atoms=3).fit(X, y)
    assert len(model.path_) == 3


def test_a_model_fitted_without_resume_goes_on():
    model, whole = KMPRegressor(10).fit(X, Y), KMPRegressor(20).fit(X, Y)
    for one in (model, model.truncate(4)):
        one.set_params(n_atoms=20, resume=np.True_).fit(X, Y)
        assert one.path_.passes < whole.path_.passes + 2
        assert one.support_.tolist() == whole.support_.tolist()


def test_more_atoms_after_a_stop_rule_and_in_the_units_of_y():
    model = KMPRegressor(resume=True).fit(X, 1e6 * Y)
    kept, taken = len(model.path_), len(model.path_) + len(model.path_.discarded)
    again = model.fit(X, 1e6 * Y)
    assert len(again.path_) == kept
    more = model.set_params(n_atoms=taken + 5).fit(X, 1e6 * Y)
    scratch = KMPRegressor(taken + 5).fit(X, 1e6 * Y)
    assert more.support_.tolist() == scratch.support_.tolist()
    np.testing.assert_allclose(more.path_.values("loss"), scratch.path_.values("loss"), rtol=1e-8)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KMPRegressor(loss="huber"), Y),
        (KMPRegressor(loss="absolute_error"), 1e4 * Y),
        (KMPRegressor(loss=quantile(0.9)), Y),
        (KMPRegressor(loss="poisson"), COUNTS),
        (KMPClassifier(loss="log_loss"), LABELS > 1),
        (KMPClassifier(loss="log_loss"), LABELS),
        (KMPClassifier(loss="squared_hinge"), LABELS > 1),
    ],
    ids=lambda value: getattr(value, "loss", ""),
)
def test_losses_go_on_under_the_ridge_of_the_first_fit(model, y):
    going = clone(model).set_params(n_atoms=6, resume=True).fit(X, y)
    ridge = going.alpha_
    assert ridge > 0
    going.set_params(n_atoms=12).fit(X, y)
    assert going.alpha_ == ridge
    long = clone(model).set_params(n_atoms=12, alpha=ridge).fit(X, y)
    assert going.support_.tolist() == long.support_.tolist()
    np.testing.assert_allclose(going.path_.values("loss"), long.path_.values("loss"), rtol=1e-4)
    with pytest.raises(ValueError, match="path is of other data or settings"):
        going.fit(X[::-1], y)


class Kernel:
    """A Gaussian kernel that is interrupted once."""

    def __init__(self):
        self.calls, self.interrupted_at = 0, None

    def __call__(self, A, B):
        self.calls += 1
        if self.calls == self.interrupted_at:
            raise KeyboardInterrupt
        return rbf_kernel(A, B, gamma=0.5)


def test_a_fit_interrupted_while_its_ridge_was_chosen_begins_anew():
    kernel = Kernel()
    model = KMPRegressor(30, loss="huber", kernel=kernel, memory=0, resume=True)
    wanted = KMPRegressor(30, loss="huber", kernel=kernel, memory=0).fit(X, Y)
    kernel.calls, kernel.interrupted_at = 0, 9
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert 0 < len(model.path_) < 30 and np.isfinite(model.path_.values("leave_one_out")).all()  # of the squared loss
    model.fit(X, Y)
    assert model.support_.tolist() == wanted.support_.tolist() and model.alpha_ == wanted.alpha_


def cut_after_steps(file, steps):
    """Leave the beginning of a file: two lines about the fit and its pursuit, and some steps."""
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[: 2 + steps]))


@pytest.mark.filterwarnings("ignore:alpha='auto' has chosen a ridge .* distinct rows")
@pytest.mark.filterwarnings("ignore:.*are duplicates of others")
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("candidates", [15, (0.1, 0.9), "growing"])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KMPRegressor(), Y),
        (KMPRegressor(centers=25), Y),
        (KMPClassifier(loss="log_loss", alpha=0.01), LABELS),
        (SparseKernelPCA(), None),
        (SparseKernelFDA(), LABELS),
    ],
    ids=["rows", "centers", "log_loss", "pca", "fda"],
)
def test_samples_are_those_of_one_long_fit(model, y, candidates, duplicates, tmp_path):
    """They depend on the seed and on the number of steps before, not on which duplicates a fit has looked at."""
    rows = np.repeat(np.arange(30), 4) if duplicates else np.arange(120)
    data = (X[rows],) if y is None else (X[rows], y[rows])
    model = clone(model).set_params(candidates=candidates, random_state=0, n_atoms=15)
    long, file = clone(model).fit(*data), tmp_path / "file"
    clone(model).set_params(resume=file).fit(*data)
    cut_after_steps(file, 6)
    kept = clone(model).set_params(resume=file).fit(*data)
    more = clone(model).set_params(n_atoms=6, resume=True).fit(*data).set_params(n_atoms=15).fit(*data)
    assert long.support_.tolist() == kept.support_.tolist() == more.support_.tolist()


def test_random_pivots_are_those_of_one_long_fit():
    model = SparseKernelPCA(15, selection="random", random_state=0)
    going = clone(model).set_params(n_atoms=6, resume=True).fit(X).set_params(n_atoms=15).fit(X)
    assert going.support_.tolist() == clone(model).fit(X).support_.tolist()


def test_blocks_that_are_cut_keep_their_certificates(tmp_path):
    """With weakness below 1 atoms may differ from one long fit; each is as good as was asked for."""
    file, model = tmp_path / "file", KMPRegressor(15, weakness=0.5, memory=0)
    whole = clone(model).set_params(resume=file).fit(X, Y)
    cut_after_steps(file, 6)
    from_file = clone(model).set_params(resume=file).fit(X, Y)
    first = clone(model).set_params(resume=True, n_atoms=6).fit(X, Y)
    begun = first.support_.tolist()
    from_memory = first.set_params(n_atoms=15).fit(X, Y)
    for found, steps in ((from_file, whole.support_.tolist()[:6]), (from_memory, begun)):
        assert found.support_.tolist()[:6] == steps and found.path_.values("weakness").min() >= 0.5


def test_other_data_are_refused():
    model = KMPRegressor(5, resume=True).fit(X, Y)
    for data in [(X, Y + X[:, 0]), (X[::-1], Y), (X, Y, 1.0 + LABELS)]:
        with pytest.raises(ValueError, match=r"resume=True .* X, y, sample_weight .*; resume=False fits anew"):
            model.fit(*data)
    with pytest.raises(ValueError, match=r"resume=True .* all parameters but .*n_atoms"):
        clone(model).fit(X, Y).set_params(gamma=7.0).fit(X, Y)
    with pytest.raises(ValueError, match="resume=True goes on"):
        model.fit(X[:3], Y[:3])
    with pytest.raises(ValueError, match="resume=True cannot go on with stop='validation'"):
        model.set_params(stop="validation").fit(X, Y)


def test_a_path_can_go_on_anywhere():
    """The general form: a fresh criterion takes the recorded steps again and then new ones."""

    def pursued(steps, path=None):
        return pursue(Squares(DenseDictionary(rbf_kernel(X, gamma=1.0)), Y), n_atoms(steps), path=path)

    whole, part = pursued(40), pursued(15)
    more = pursued(40, part)
    assert more.atoms.tolist() == whole.atoms.tolist()
    np.testing.assert_allclose(more.values("loss"), whole.values("loss"), rtol=1e-9)
    assert more.steps[15].seconds >= part.steps[-1].seconds == more.steps[14].seconds
    assert more.passes > part.passes
    strange = part.truncate(15)
    strange.steps = [*part.steps[:3], Step(part.steps[0].atom, loss=part.steps[3].loss)]
    with pytest.raises(ValueError, match=r"atom \d+ of step 4 adds nothing"):
        pursued(40, strange)
