"""Every round of a pursuit makes progress: it takes an atom, bars one, or ends."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KMPClassifier, Rayleigh, Squares, pursue
from kernelpursuit.pursuit import Step, growing_subset, n_atoms, random_subset


@pytest.mark.parametrize("seed", range(8))
def test_repeated_rows_in_float32_end(seed):
    """Copies of an atom have scores that differ by rounding: the one that is proposed must be accepted."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)).astype("f4")[rng.integers(0, 60, 150)]
    y = (np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=150) > 0).astype(int)
    model = KMPClassifier(5, loss="log_loss").fit(X, y)
    assert all(step.weakness == 1 for step in model.path_.steps)


class Refuses:
    """Takes nothing, and bars nothing."""

    tie_tolerance, passes, in_memory, baseline = 1e-12, 0, True, 0.0

    def __init__(self):
        self.available = np.ones(3, dtype=bool)

    def initial_step(self):
        return Step(atom=-1)

    def scores(self, J=None):
        return np.arange(1.0, 4.0) if J is None else np.arange(1.0, 4.0)[J]

    def take(self, block, weakness=1.0):
        yield from ()


def test_a_round_without_progress_is_refused():
    with pytest.raises(RuntimeError, match=r"Refuses\.take refused atom 2"):
        pursue(Refuses(), n_atoms(2))


def squares(K, y):
    return Squares(DenseDictionary(K, gram=K), y)


CRITERIA = {
    "squares": squares,
    "diagonal": lambda K, y: Rayleigh(DenseDictionary(K, gram=K), selection="diagonal"),
    "rayleigh": lambda K, y: Rayleigh(DenseDictionary(K, gram=K)),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", CRITERIA)
def test_a_sample_is_drawn_once_a_step(name, known):
    """Also where the scores of all atoms happen to be known, the best of a sample is compared with nobody else."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    K = np.exp(-np.sum((X[:, None] - X[None]) ** 2, axis=2))
    run = CRITERIA[name](K, np.sin(X[:, 0]))
    if known:
        run.scores()
    draws = []
    draw = random_subset(5, np.random.default_rng(0))

    def candidates(available):
        draws.append(draw(available))
        return draws[-1]

    path = pursue(run, n_atoms(20), candidates)
    assert len(draws) == len(path) == 20
    for step, sample in zip(path.steps, draws, strict=True):
        assert step.atom in sample


def test_growing_samples_of_the_farthest_point():
    """The farthest of each sample: nearer than the farthest of all, which has certificate 1."""
    X = np.random.default_rng(1).normal(size=(400, 2))
    K = np.exp(-np.sum((X[:, None] - X[None]) ** 2, axis=2))
    run = Rayleigh(DenseDictionary(K, gram=K), selection="diagonal")
    shares = [step.weakness for step in pursue(run, n_atoms(30), growing_subset(np.random.default_rng(0), 4)).steps]
    assert len(shares) == 30 and min(shares) < 0.9 and max(shares) <= 1
