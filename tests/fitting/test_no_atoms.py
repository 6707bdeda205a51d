"""Models without any atom: the constant, whether asked for or left by `truncate(0)`."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import (
    KMPClassifier,
    KMPRanker,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitSearchCV,
    SparseKernelFDA,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = X[:, 0] + X[:, 1] ** 2
MODELS = {
    "regressor": KMPRegressor(3),
    "ridge": KMPRegressor(3, alpha=0.1),
    "basic": KMPRegressor(3, variant="basic"),
    "huber": KMPRegressor(3, loss="huber"),
    "validation": KMPRegressor(3, stop="validation", random_state=0),
    "sampled": KMPRegressor(3, candidates=5, random_state=0),
    "no intercept": KMPRegressor(3, fit_intercept=False),
    "faces": PolytopeFacesRegressor(3),
    "classifier": KMPClassifier(3),
    "log_loss": KMPClassifier(3, loss="log_loss"),
    "fda": SparseKernelFDA(3),
    "ranker": KMPRanker(3),
}


def fit(model):
    y = Y > 0 if isinstance(model, KMPClassifier | SparseKernelFDA) else Y
    options = {"group": [20, 20]} if isinstance(model, KMPRanker) else {}
    return model.fit(X, y, **options)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_cut_to_nothing_says_so_and_its_clone_has_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = fit(clone(MODELS[name]))
        empty = whole.truncate(0)
        assert empty.n_atoms == 0 and len(empty.support_) == 0 and len(empty.path_) == 0
        again = fit(clone(empty))
    assert again.n_atoms == 0 and len(again.support_) == 0 and len(again.path_) == 0
    # A ridge by evidence, of which nothing is left, may have rounded the constant; else every bit is the same.
    by_evidence = getattr(whole, "alpha", 0) == "auto"
    np.testing.assert_allclose(again.predict(X), empty.predict(X), rtol=1e-14 if by_evidence else 0)
    assert len(np.unique(again.predict(X))) == 1


def test_the_constant_is_the_mean():
    np.testing.assert_allclose(KMPRegressor(0).fit(X, Y).predict(X), np.mean(Y))


@pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")
def test_a_search_cut_to_nothing():
    empty = PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[1.0], cv=3).fit(X, Y).truncate(0)
    assert empty.n_atoms == 0 and len(empty.support_) == 0
