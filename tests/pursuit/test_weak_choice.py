"""Weak choice and look-ahead of the estimators: atoms, certificates, passes."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import kernelpursuit as kp

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")  # paths are short here


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def targets(estimator, X, y):
    if isinstance(estimator, kp.SparseKernelCCA):
        return np.stack([y, X[:, 0]], axis=1)
    return np.searchsorted(np.quantile(y, [0.3, 0.7]), y) if is_classifier(estimator) else y


PURSUITS = {
    "regressor": kp.KMPRegressor(30),
    "backfit": kp.KMPRegressor(30, variant="backfit"),
    "basic": kp.KMPRegressor(30, variant="basic"),
    "ridge": kp.KMPRegressor(30, alpha=0.1),
    "huber": kp.KMPRegressor(6, loss="huber"),
    "classifier": kp.KMPClassifier(30),
    "regressor-cv": kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=12, cv=3, gammas=[0.2]),
    "classifier-cv": kp.PursuitSearchCV(kp.KMPClassifier(), max_atoms=12, cv=3, gammas=[0.2]),
    "fda": kp.SparseKernelFDA(20),
    "fda-cv": kp.PursuitSearchCV(kp.SparseKernelFDA(), max_atoms=8, cv=3, gammas=[0.2]),
    "pca": kp.SparseKernelPCA(30),
    "pca-diagonal": kp.SparseKernelPCA(30, selection="diagonal"),
    "pca-random": kp.SparseKernelPCA(30, selection="random", random_state=0),
    "nystroem": kp.PursuitNystroem(n_components=30),
    "nystroem-prefit": kp.PursuitNystroem(n_components=30, selection="prefit"),
    "novelty": kp.SparseKernelNovelty(30, random_state=0),
    "cca": kp.SparseKernelCCA(15),
}


def fit(name, **options):
    X, y = data()
    estimator = clone(PURSUITS[name])
    inner = estimator.estimator if isinstance(estimator, kp.PursuitSearchCV) else estimator
    inner.set_params(**options)
    model = estimator.fit(X, targets(estimator, X, y))
    return getattr(model, "best_estimator_", model)


@pytest.mark.parametrize("name", PURSUITS)
def test_looking_ahead_changes_no_choice(name):
    """A kernel matrix that is kept is read for each atom, one that is not for several."""
    one, ahead = fit(name), fit(name, memory=0)
    np.testing.assert_array_equal(ahead.path_.atoms, one.path_.atoms)
    np.testing.assert_allclose(ahead.path_.values("loss"), one.path_.values("loss"), rtol=1e-9)
    assert all(step.weakness == 1 for step in ahead.path_.steps)


@pytest.mark.parametrize("name", PURSUITS)
def test_weak_choice_has_certificates(name):
    model = fit(name, weakness=0.5)
    assert all(0.5 <= step.weakness <= 1 for step in model.path_.steps)
    assert len(model.path_) > 0


@pytest.mark.parametrize("name", ["regressor", "backfit", "ridge", "classifier", "fda", "pca", "nystroem", "cca"])
def test_weak_choice_saves_passes(name):
    plain, weak = fit(name), fit(name, weakness=0.5)
    assert len(weak.path_) == len(plain.path_)
    assert weak.path_.passes < 0.6 * plain.path_.passes


def test_weak_choice_fits_nearly_as_well():
    X, y = data()
    plain, weak = fit("regressor"), fit("regressor", weakness=0.5)
    assert weak.path_.values("loss")[-1] < 2 * plain.path_.values("loss")[-1]
    assert weak.score(X, y) > 0.9 * plain.score(X, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory", -1), ("weakness", 0.0), ("weakness", 1.5), ("weakness", "weak"), ("candidates", "shrinking")],
)
@pytest.mark.parametrize("pursuit", ["regressor", "classifier", "regressor-cv", "fda-cv", "pca", "nystroem", "cca"])
def test_errors_name_the_parameter(pursuit, name, value):
    with pytest.raises(ValueError, match=name):
        fit(pursuit, **{name: value})
