"""Large samples of the atoms: all scores are kept, and the atoms are those of the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelpursuit import DenseDictionary, Gradient, KMPClassifier, KMPRegressor, SparseKernelFDA, Squares, pursue
from kernelpursuit.losses import LOSSES
from kernelpursuit.parameters import columns
from kernelpursuit.pursuit import n_atoms
from tests.oracle import kmp as reference

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=150)
TWO = np.stack([Y, np.cos(X[:, 1])], axis=1)
CLASSES = np.digitize(Y, [-0.5, 0.5])
WEIGHTS = RNG.uniform(0.5, 2, size=150)

MODELS = {
    "prefit": (KMPRegressor(25), Y, {}),
    "backfit": (KMPRegressor(25, variant="backfit"), Y, {}),
    "basic": (KMPRegressor(25, variant="basic"), Y, {}),
    "ridge": (KMPRegressor(25, alpha=0.3), Y, {}),
    "weights": (KMPRegressor(25), Y, {"sample_weight": WEIGHTS}),
    "targets": (KMPRegressor(25), TWO, {}),
    "kernels": (KMPRegressor(20, kernel=["rbf", "laplacian"]), Y, {}),
    "centers": (KMPRegressor(20, centers=90), Y, {}),
    "functions": (KMPRegressor(20, kernel=["rbf", columns(lambda rows: rows)]), Y, {}),
    "classes": (KMPClassifier(20), CLASSES, {}),
    "log_loss": (KMPClassifier(6, loss="log_loss", alpha=0.1), CLASSES > 0, {}),
    "huber": (KMPRegressor(6, loss="huber"), Y, {}),
    "fisher": (SparseKernelFDA(12), CLASSES, {}),
}


def literal_sample(size, live, step):
    """The first live atoms of a random order of its own for each step."""
    order = np.random.default_rng([7, step]).permutation(len(live))
    return np.array(sorted([j for j in order if live[j]][:size]))


def literal_choices(size, all_scores):
    """The best of each sample, given the scores of all atoms at each step."""
    for step, scores in enumerate(all_scores):
        sample = literal_sample(size, np.isfinite(scores), step)
        yield int(sample[reference.choose(scores[sample], 1e-9)])


def sampled_path(criterion, size, steps, **options):
    taken = []
    return pursue(
        criterion,
        n_atoms(steps),
        lambda alive: literal_sample(size, alive, len(taken)),
        lambda path: taken.append(path.steps[-1].atom),
        **options,
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    size=st.integers(5, 40),
    variant=st.sampled_from(["prefit", "backfit", "basic"]),
    alpha=st.sampled_from([0.0, 0.2]),
    weighted=st.booleans(),
    n_targets=st.integers(1, 3),
)
def test_the_best_of_the_same_samples_is_taken(seed, size, variant, alpha, weighted, n_targets):
    rng = np.random.default_rng(seed)
    rows, targets = rng.normal(size=(40, 2)), rng.normal(size=(40, n_targets))
    G = reference.rbf(rows, rows, 0.5)
    weights = rng.uniform(0.5, 2, 40) if weighted else None
    run = Squares(DenseDictionary(G, gram=G), targets, variant=variant, alpha=alpha, weights=weights)
    atoms = [step.atom for step in sampled_path(run, size, 7).steps]
    assert run.tracks_all_scores
    given = {"weights": weights, "intercept": True, "alpha": alpha, "G": G, "path": atoms}
    found = getattr(reference, variant)(G, targets, None, **given)
    assert atoms == list(literal_choices(size, found.all_scores))


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
@pytest.mark.parametrize("name", ["log_loss", "exponential"])
def test_so_it_is_for_other_losses(name, variant):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 2))
    G, y = reference.rbf(rows, rows, 0.5), np.where(rows[:, 0] * rows[:, 1] > 0, 1.0, -1.0)
    run = Gradient(DenseDictionary(G, gram=G), y, LOSSES[name], variant=variant, alpha=0.1)
    slow = Gradient(DenseDictionary(G, gram=G), y, LOSSES[name], variant=variant, alpha=0.1)
    atoms = [step.atom for step in sampled_path(run, 9, 6).steps]
    assert atoms == [step.atom for step in sampled_path(slow, 9, 6, track_scores=False).steps]
    assert run.tracks_all_scores and not slow.tracks_all_scores


@pytest.mark.parametrize("candidates", [15, 60, 149, "growing"])
@pytest.mark.parametrize("name", MODELS)
def test_atoms_are_those_of_samples_scored_one_by_one(name, candidates):
    """Without a matrix each sample is made orthogonal to the atoms taken: the definition."""
    model, y, given = MODELS[name]
    model = model.__class__(**{**model.get_params(), "candidates": candidates, "random_state": 4})
    kept = list(model.fit(X, y, **given).support_)
    assert kept == list(model.set_params(memory=0).fit(X, y, **given).support_)


@pytest.mark.parametrize("weakness", [1.0, 0.5])
@pytest.mark.parametrize("name", MODELS)
def test_samples_of_all_atoms_are_all_atoms(name, weakness):
    model, y, given = MODELS[name]
    plain = model.__class__(**{**model.get_params(), "random_state": 4}).fit(X, y, **given)
    options = {"random_state": 4, "candidates": 303, "weakness": weakness}
    sampled = model.__class__(**{**model.get_params(), **options}).fit(X, y, **given)
    np.testing.assert_array_equal(plain.support_, sampled.support_)
    assert plain.path_.passes == sampled.path_.passes
    assert [step.weakness for step in sampled.path_.steps] == [1.0] * len(sampled.path_)


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize("gamma", [0.5, 0.01])
def test_float32_explains_as_much_as_float64(gamma, variant):
    rows, y = X.astype(np.float32), Y.astype(np.float32)
    model = KMPRegressor(24, candidates=30, gamma=gamma, variant=variant, random_state=1, alpha=0.0)
    single = model.fit(rows, y).path_.values("loss")
    np.testing.assert_allclose(single, model.fit(rows.astype(float), y.astype(float)).path_.values("loss"), rtol=0.01)
