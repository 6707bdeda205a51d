"""A fit that goes on comes to what one long fit comes to, or its description says where it does not."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import KMPClassifier, KMPRegressor, SparseKernelFDA, SparseKernelPCA

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=150)
COUNTS = RNG.poisson(np.exp(Y))
TWO, THREE = (Y > 0).astype(int), np.digitize(Y, [-0.5, 0.5])

LOSSES = [
    (KMPRegressor(loss="huber"), Y),
    (KMPRegressor(loss="absolute"), 1e4 * Y),
    (KMPRegressor(loss="quantile", quantile=0.9), Y),
    (KMPRegressor(loss="poisson"), COUNTS),
    (KMPClassifier(loss="logistic"), TWO),
    (KMPClassifier(loss="logistic"), THREE),
    (KMPClassifier(loss="squared_hinge"), TWO),
]


@pytest.mark.parametrize(("model", "y"), LOSSES, ids=lambda value: getattr(value, "loss", ""))
def test_losses_go_on_under_the_ridge_of_the_first_fit(model, y):
    going = clone(model).set_params(n_atoms=6, warm_start=True).fit(X, y)
    ridge = going.alpha_
    assert ridge > 0
    going.set_params(n_atoms=12).fit(X, y)
    assert going.alpha_ == ridge
    long = clone(model).set_params(n_atoms=12, alpha=ridge).fit(X, y)
    assert going.support_.tolist() == long.support_.tolist()
    np.testing.assert_allclose(going.path_.values("loss"), long.path_.values("loss"), rtol=1e-4)
    with pytest.raises(ValueError, match="path is of other data or settings"):
        going.fit(X[::-1], y)


def test_a_fit_interrupted_while_its_ridge_was_chosen_begins_anew():
    model = KMPRegressor(8, loss="huber", warm_start=True)
    asked = iter(range(1000))
    model._ending = lambda: next(asked) > 4
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert 0 < len(model.path_) < 8
    model._ending = None
    model.fit(X, Y)
    assert model.support_.tolist() == KMPRegressor(8, loss="huber").fit(X, Y).support_.tolist()


@pytest.mark.parametrize("candidates", [20, (0.1, 0.9), "growing"])
@pytest.mark.parametrize(
    ("model", "y"),
    [(KMPRegressor(), Y), (KMPRegressor(centers=60), Y), (SparseKernelPCA(), None), (SparseKernelFDA(), THREE)],
    ids=["rows", "centers", "pca", "fda"],
)
def test_samples_are_those_of_one_long_fit(model, y, candidates):
    model = clone(model).set_params(candidates=candidates, random_state=0)
    long = clone(model).set_params(n_atoms=15).fit(X, y)
    going = clone(model).set_params(n_atoms=6, warm_start=True).fit(X, y).set_params(n_atoms=15).fit(X, y)
    assert going.support_.tolist() == long.support_.tolist()
    assert clone(long).set_params(random_state=1).fit(X, y).support_.tolist() != long.support_.tolist()


def test_random_pivots_are_those_of_one_long_fit():
    model = SparseKernelPCA(15, selection="random", random_state=0)
    going = clone(model).set_params(n_atoms=6, warm_start=True).fit(X).set_params(n_atoms=15).fit(X)
    assert going.support_.tolist() == clone(model).fit(X).support_.tolist()


def test_blocks_that_are_cut_keep_their_certificates():
    """With weakness below 1 atoms may differ from one long fit; each is as good as was asked for."""
    going = KMPRegressor(6, weakness=0.5, warm_start=True).fit(X, Y)
    first = going.support_.tolist()
    going.set_params(n_atoms=15).fit(X, Y)
    assert going.support_.tolist()[:6] == first
    assert going.path_.values("weakness").min() >= 0.5
