"""Every criterion on small problems of four kinds, for tests of what all of them promise."""

from functools import cache

import numpy as np

from kernelpursuit import CanonicalCorrelation, DenseDictionary, Rayleigh, Squares
from kernelpursuit.criteria.fisher import Fisher

PROBLEMS = ("wide", "narrow", "linear", "duplicates")


@cache
def points(n=90, duplicates=0, seed=0):
    """Points, a second view of them, targets and classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[n - duplicates :] = X[:duplicates]
    Z = np.tanh(X @ rng.normal(size=(4, 5))) + 0.4 * rng.normal(size=(n, 5))
    Z[n - duplicates :] = Z[:duplicates]
    f = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2], np.cos(X).sum(axis=1)])
    Y = f + 0.1 * rng.normal(size=f.shape)
    return X, Z, Y, np.digitize(Y[:, 2], np.quantile(Y[:, 2], [0.3, 0.7]))


def kernel_matrix(A, problem):
    if problem == "linear":
        return np.einsum("ia,ja->ij", A, A)
    gamma = {"wide": 0.03, "narrow": 1.0, "duplicates": 0.2}[problem]
    return np.exp(-gamma * ((A[:, None] - A[None]) ** 2).sum(axis=2))


@cache
def problem_data(problem, n=90, dtype=np.float64):
    """Kernel matrices of the two views, targets and classes."""
    X, Z, Y, classes = points(n, n // 4 if problem == "duplicates" else 0)
    return *(kernel_matrix(A, problem).astype(dtype) for A in (X, Z)), Y.astype(dtype), classes


def squares(variant, alpha, weighted, targets, intercept):
    def make(x, y, Y, classes):
        w = np.random.default_rng(1).uniform(0.3, 3.0, len(Y)).astype(Y.dtype) if weighted else None
        return Squares(x, Y[:, :targets], variant=variant, alpha=alpha, weights=w, intercept=intercept)

    return make


SQUARES = {
    f"{variant}-{name}": squares(variant, *setting)
    for variant in ("prefit", "backfit", "basic")
    for name, setting in {
        "plain": (0.0, False, 1, True),
        "raw": (0.0, True, 1, False),
        "ridge": (0.1, True, 3, True),
        "ridge-raw": (0.1, False, 1, False),
    }.items()
}
OTHERS = {
    "rayleigh": lambda x, y, Y, classes: Rayleigh(x),
    "fisher-2": lambda x, y, Y, classes: Fisher(x, np.minimum(classes, 1)),
    "fisher-3": lambda x, y, Y, classes: Fisher(x, classes, labels="raw"),
    "cca-symmetric": lambda x, y, Y, classes: CanonicalCorrelation(x, y),
    "cca-projection": lambda x, y, Y, classes: CanonicalCorrelation(x, y, deflation="projection"),
    "cca-unsigned": lambda x, y, Y, classes: CanonicalCorrelation(x, y, signed=False),
    "cca-both": lambda x, y, Y, classes: CanonicalCorrelation(x, y, deflation="projection", signed=False),
}
CRITERIA = SQUARES | OTHERS
FEW = ["prefit-plain", "prefit-ridge", "backfit-raw", "basic-ridge", *OTHERS]


def criterion(name, problem, n=90, dtype=np.float64):
    Kx, Ky, Y, classes = problem_data(problem, n, dtype)
    return CRITERIA[name](DenseDictionary(Kx, gram=Kx), DenseDictionary(Ky, gram=Ky), Y, classes)


def begun(run):
    """The criterion with running moments, and the size of its products when it began."""
    run.scores()
    run.largest = np.abs(run.running_moments(np.arange(len(run.available)))[0]).max()
    return run
