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
    KMPRanker,
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
from kernelpursuit.losses import quantile
from kernelpursuit.parameters import basic, columns, tolerance

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

# Models that differ in what happens in a fit and in a prediction, each with the target that it learns (`target_of`).
MODELS = {
    "regressor": (KMPRegressor(8), "values"),
    "no-ridge": (KMPRegressor(8, alpha=0.0), "values"),
    "auto": (KMPRegressor(), "values"),
    "ridge-auto": (KMPRegressor(alpha=0.05), "values"),
    "backfit": (KMPRegressor(8, variant="backfit"), "values"),
    "backfit-ridge": (KMPRegressor(8, variant="backfit", alpha=0.05), "values"),
    "basic": (KMPRegressor(15, variant=basic(0.7)), "values"),
    "no-intercept": (KMPRegressor(8, fit_intercept=False), "values"),
    "tiles": (KMPRegressor(12, memory=0), "values"),
    "weak": (KMPRegressor(12, weakness=0.5), "values"),
    "poly": (KMPRegressor(5, kernel=("poly", {"degree": 2})), "values"),
    "kernels": (KMPRegressor(8, kernel=["rbf", ("rbf", {"gamma": 0.05}), "linear"]), "values"),
    "functions": (KMPRegressor(8, kernel=["rbf", columns(lambda X: X), columns(lambda X: X[:, 0] ** 3)]), "values"),
    "ranker": (KMPRanker(8, alpha=0.0), "values"),
    "faces": (PolytopeFacesRegressor(8), "values"),
    "faces-keeps": (PolytopeFacesRegressor(8, release=False, guard=True, fit_intercept=False), "values"),
    "classifier": (KMPClassifier(8), "classes"),
    "classifier-auto": (KMPClassifier(), "classes"),
    "two-classes": (KMPClassifier(8, alpha=0.0), "two classes"),
    "class-weight": (KMPClassifier(8, class_weight="balanced"), "classes"),
    "labels": (KMPClassifier(8), "labels"),
    "fda": (SparseKernelFDA(8), "classes"),
    "fda-two": (SparseKernelFDA(8, alpha=0.1, labels="raw"), "two classes"),
    "pca": (SparseKernelPCA(8, n_components=3), "none"),
    "pca-plain": (SparseKernelPCA(8, n_components=3, kernel="laplacian"), "none"),
    "pca-diagonal": (SparseKernelPCA(8, n_components=3, selection="diagonal"), "none"),
    "pca-tol": (SparseKernelPCA(60, n_components=3, stop=tolerance(0.1)), "none"),
    "nystroem": (PursuitNystroem(n_components=8), "none"),
    "nystroem-diagonal": (PursuitNystroem(n_components=8, selection="diagonal"), "none"),
    "nystroem-prefit": (PursuitNystroem(n_components=20, selection="prefit"), "values"),
    "nystroem-classes": (PursuitNystroem(n_components=20, selection="prefit"), "classes"),
    "novelty": (SparseKernelNovelty(8, contamination=0.13), "none"),
    "cca": (SparseKernelCCA(8), "views"),
    "cca-projection": (SparseKernelCCA(8, deflation="projection", signed=False, alpha=0.01), "views"),
    "cca-plain": (SparseKernelCCA(3, kernel=("rbf", "linear"), n_components=1), "views"),
}
BY_DESCENT = {  # whose numbers have fewer digits
    "huber": (KMPRegressor(5, loss="huber"), "values"),
    "absolute": (KMPRegressor(8, loss="absolute_error"), "values"),
    "absolute-two": (KMPRegressor(8, loss="absolute_error"), "two values"),
    "quantile": (KMPRegressor(8, loss=quantile(0.5)), "values"),
    "poisson": (KMPRegressor(8, loss="poisson"), "counts"),
    "log_loss": (KMPClassifier(8, loss="log_loss"), "classes"),
    "hinge": (KMPClassifier(8, loss="squared_hinge"), "two classes"),
    "huber-classes": (KMPClassifier(8, loss="huber"), "two classes"),
    "exponential": (KMPClassifier(8, loss="exponential"), "two classes"),
}
DRAWING = {  # centres, candidates, rows to hold out
    "centers": (KMPRegressor(8, centers=30, random_state=0), "values"),
    "sampled": (KMPRegressor(10, candidates=20, random_state=0), "values"),
    "growing": (KMPRegressor(10, candidates="growing", random_state=0), "values"),
    "validation": (KMPRegressor(12, stop="validation", random_state=0), "values"),
    "bound": (KMPRegressor(8, stop="bound"), "values"),
    "conformal": (ConformalRegressor(KMPRegressor(10), random_state=0), "values"),
    "validation-classes": (KMPClassifier(8, stop="validation", random_state=0), "classes"),
    "pca-random": (SparseKernelPCA(12, n_components=4, selection="random", random_state=0), "none"),
    "cv": (PursuitSearchCV(KMPRegressor(), max_atoms=8, cv=2, gammas=[0.1, 0.5]), "values"),
    "cv-classes": (PursuitSearchCV(KMPClassifier(), max_atoms=6, cv=2, gammas=[0.1, 0.5]), "classes"),
    "cv-fda": (PursuitSearchCV(SparseKernelFDA(), max_atoms=6, cv=2, gammas=[0.1, 0.5]), "classes"),
}


def target_of(kind, X, y):
    """Targets of a kind, made of a column of numbers."""
    if kind == "classes":
        return np.searchsorted(np.quantile(y, [0.3, 0.7]), y)
    return {
        "values": y,
        "two values": np.column_stack([y, X[:, 1] ** 2]),
        "counts": np.floor(np.exp(y / np.std(y))),
        "two classes": (y > np.median(y)).astype(int),
        "labels": np.column_stack([y > np.median(y), X[:, 0] > 0]).astype(int),
        "views": np.column_stack([y, np.cos(X[:, 1]), X[:, 0] ** 2]),
        "none": None,
    }[kind]


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
    return target_of("classes", X, y) if is_classifier(estimator) else y
