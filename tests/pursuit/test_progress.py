"""Every round of a pursuit makes progress: it takes an atom, bars one, or ends."""

import numpy as np
import pytest

from kernelpursuit import KMPClassifier, pursue
from kernelpursuit.pursuit import Step, n_atoms


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
