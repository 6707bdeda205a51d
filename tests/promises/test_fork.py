"""A fit in a forked process does not wait for threads that stayed with its parent, as those of OpenMP do.

The other tests run with one thread, which hides that: here a process of its own has as many as it likes.
"""

import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from kernelpursuit import KMPRegressor
from tests.registry import BY_DESCENT, DRAWING, FEW_ATOMS, MODELS, label, target_of, targets

ROOT = Path(__file__).parents[2]
LIMIT = 15  # seconds for a fit that takes less than one


def problems():
    """Each estimator with what it is fitted to."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    yield from ((estimator, X, targets(estimator, X, y)) for estimator in FEW_ATOMS)
    for name, (model, kind) in (MODELS | BY_DESCENT | DRAWING).items():
        options = {"group": [30, 30]} if name == "ranker" else {}
        yield model, X, target_of(kind, X, y), options
    yield KMPRegressor(3, kernel="laplacian"), sparse.csr_array(X), y


def fit(estimator, X, y, options=None):
    """Fit, whatever the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, y, **(options or {}))


def fit_here_and_in_children():
    """Fit everything here, and each thing once more in a child of its own. Ends with the first that does not."""
    for problem in problems():
        fit(*problem)
    for problem in problems():
        child = multiprocessing.get_context("fork").Process(target=fit, args=problem)
        child.start()
        child.join(LIMIT)
        if child.exitcode != 0:
            how = "hangs" if child.is_alive() else "fails"
            child.kill()
            sys.exit(f"{label(problem[0])} {how}")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are not forked by default")
def test_a_fit_in_a_child_after_one_in_its_parent():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    script = "from tests.promises.test_fork import fit_here_and_in_children as run; run()"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
