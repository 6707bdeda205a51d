"""What a fit held is free when it is over, and pieces of a pool when they are no longer needed."""

import gc
import warnings
from weakref import ref

import numpy as np
import pytest
from sklearn.base import clone

import kernelpursuit as kp
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit.deflation import Deflation
from tests.registry import BY_DESCENT, DRAWING, MODELS, target_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=150)


def held():
    """Places of the criteria and dictionaries that there are."""
    return {id(one) for one in gc.get_objects() if issubclass(type(one), (Deflation, kp.KernelDictionary))}


HOLDING = [
    *("regressor", "tiles", "weak", "sampled", "validation", "basic", "huber", "classifier", "cv", "fda", "faces"),
    "ranker",
]


@pytest.mark.parametrize("name", HOLDING)
def test_matrices_do_not_wait_for_the_garbage_collector(name):
    """It does not know how large they are: those of one fit would still be there in the next."""
    model, kind = (MODELS | BY_DESCENT | DRAWING)[name]
    options = {"group": [75, 75]} if name == "ranker" else {}
    gc.collect()
    gc.disable()
    before = held()  # by other tests
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(model).fit(X, target_of(kind, X, Y), **options)
        assert held() <= before
    finally:
        gc.enable()


def test_only_two_pieces_of_a_pool_are_there(monkeypatch):
    kernel = make_kernel("rbf", X, gamma=1.0)
    dictionary = kp.KernelDictionary(X, X, kernel, memory=40 * 150 * 8, storage="tiles")
    criterion = kp.Squares(dictionary, Y)
    criterion.scores()
    monkeypatch.setattr(dictionary, "spare", 0)
    pieces, alive, made = [], [], dictionary.columns

    def columns(J):
        alive.append(sum(piece() is not None for piece in pieces))
        found = made(J)
        pieces.append(ref(found))
        return found

    monkeypatch.setattr(dictionary, "columns", columns)
    assert criterion.simulate(np.arange(0, 150, 2)) is not None
    assert len(alive) > 10 and max(alive) == 1  # beside the one that is made
