"""Every public estimator: as its constructor makes it, and in the settings that differ from that in kind."""

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.linear_model import LinearRegression
from sklearn.utils import get_tags

import kernelpursuit
from kernelpursuit import (
    ConformalRegressor,
    FeatureWidths,
    KMPClassifier,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitNystroem,
    PursuitSearchCV,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
    SparseKernelCCA,
    SparseKernelFDA,
    SparseKernelNovelty,
    SparseKernelPCA,
)

# Found, not listed: an estimator that is added is checked from then on.
CLASSES = [
    found
    for found in (getattr(kernelpursuit, name) for name in kernelpursuit.__all__)
    if isinstance(found, type) and issubclass(found, BaseEstimator)
]
SEARCHES = [PursuitSearchCV(KMPRegressor()), PursuitSearchCV(KMPClassifier())]
DEFAULTS = [make() for make in CLASSES if make is not PursuitSearchCV] + SEARCHES
SETTINGS = [
    KMPRegressor(n_atoms=5, variant="backfit", alpha=0.01),
    KMPRegressor(n_atoms=10, variant="basic"),
    KMPRegressor(n_atoms=5, loss="huber"),
    KMPRegressor(n_atoms=3, kernel="precomputed", alpha=0.1),
    KMPClassifier(n_atoms=5, loss="log_loss", alpha=0.01),
    KMPClassifier(n_atoms=3, kernel="precomputed"),
    PursuitSearchCV(KMPRegressor(kernel="precomputed"), max_atoms=2, cv=2),
    PursuitSearchCV(KMPClassifier(kernel="precomputed"), max_atoms=2, cv=2),
    PolytopeFacesRegressor(n_atoms=10, release=False),
    PolytopeFacesRegressor(n_atoms=5, guard=True, fit_intercept=False),
    PolytopeFacesRegressor(n_atoms=3, kernel="precomputed"),
    ConformalRegressor(LinearRegression(), coverage=0.7, calibration_fraction=0.4),
    ConformalRegressor(KMPRegressor(n_atoms=3, kernel="precomputed", alpha=0.1), coverage=0.7),
    SparseKernelFDA(n_atoms=5, labels="raw", alpha=0.01),
    SparseKernelFDA(n_atoms=5, kernel="linear", candidates=10),
    SparseKernelFDA(n_atoms=5, kernel="poly", memory=0),
    SparseKernelFDA(n_atoms=3, kernel="precomputed"),
    SparseKernelPCA(n_atoms=5, selection="diagonal"),
    SparseKernelPCA(n_atoms=5, selection="random", random_state=0),
    SparseKernelPCA(n_atoms=5, candidates=10, kernel="linear"),
    SparseKernelPCA(n_atoms=3, kernel="precomputed"),
    PursuitNystroem(n_components=5, selection="diagonal"),
    PursuitNystroem(n_components=5, selection="random", random_state=0),
    PursuitNystroem(n_components=5, selection="prefit", candidates=10, random_state=0),
    PursuitNystroem(n_components=3, kernel="precomputed"),
    SparseKernelNovelty(n_atoms=10, contamination=0.1),
    SparseKernelNovelty(n_atoms=10, contamination=0.2, validation_fraction=0.3, random_state=0),
    SparseKernelNovelty(n_atoms=10, candidates=20, random_state=0),
    SparseKernelCCA(n_atoms=5, n_components=1, deflation="projection", signed=False, alpha=0.1),
    SparseKernelCCA(n_atoms=4, kernel="linear", candidates=7),
    SparseKernelCCA(n_atoms=5, kernel=("precomputed", "rbf")),
    FeatureWidths(n_landmarks=10, prior=0.0, max_rows=60, max_iter=2),
]
# No transformer in the sense of scikit-learn, as no search is: it transforms, but has no output as a table.
FISHER_SEARCH = PursuitSearchCV(SparseKernelFDA(), max_atoms=3, gammas=[0.1, 1.0], cv=2)


# By default a search fits 25 paths of 100 atoms, the walk over faces takes 100 steps, and a refined model tries
# several numbers of terms: settings for what fits often.
SMALLER = {
    PursuitSearchCV: {"max_atoms": 3, "gammas": [0.1, 1.0], "cv": 2},
    RefinedKMPRegressor: {"n_atoms": 3, "epochs": 1},
    RefinedKMPClassifier: {"n_atoms": 3, "epochs": 1},
    PolytopeFacesRegressor: {"n_atoms": 10},
    FeatureWidths: {"max_iter": 5},
}


def smaller(estimator):
    """An estimator that fits fast: the same, or in a setting of `SMALLER` where it is as its constructor makes it."""
    is_default = any(estimator is default for default in DEFAULTS)
    return clone(estimator).set_params(**SMALLER.get(type(estimator), {})) if is_default else estimator


def few_atoms(estimator):
    """The same with as few atoms as it can have, for tests of how data are taken in and given out."""
    values = {"n_components": 2, "max_atoms": 2, "cv": 2, "gammas": [1.0], "epochs": 1, "max_iter": 1}
    values |= {"n_atoms": 3, "n_landmarks": 5}
    if isinstance(estimator, ConformalRegressor):
        values["estimator"] = KMPRegressor(n_atoms=3)
    params = estimator.get_params(deep=False)
    return clone(estimator).set_params(**{name: values[name] for name in values if name in params})


FEW_ATOMS = [few_atoms(estimator) for estimator in DEFAULTS]


def label(estimator):
    """Short name of an estimator for the list of tests."""
    return " ".join(repr(estimator).split())


def is_precomputed(estimator):
    return get_tags(estimator).input_tags.pairwise


def targets(estimator, X, y):
    """What an estimator learns from y: three classes, two columns, or y itself."""
    if isinstance(estimator, SparseKernelCCA):
        return np.stack([y, X[:, 0]], axis=1)
    return np.searchsorted(np.quantile(y, [0.3, 0.7]), y) if is_classifier(estimator) else y
