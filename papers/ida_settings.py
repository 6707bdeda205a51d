"""Settings of the methods on the IDA sets: what may be chosen, and the choice by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from kernelpursuit import FeatureWidths, KMPClassifier, PursuitSearchCV, SparseKernelFDA
from papers.peers import KFDA, fitted, median_gamma, path_error
from papers.tasks import Record, Task, generator

Array = NDArray[np.float64]
Setting = dict[str, Any]  # width, penalty, atoms and inputs of a method
Fold = tuple[Array, Array, Array, Array, float]  # rows and labels to fit to, to predict; scale of the width
Folded = tuple[Array, Array, StratifiedKFold]  # rows, labels, and how they are folded

INPUTS = ("plain", "weighted")
WIDTHS = {  # for plain inputs times 1 / median squared distance
    "plain": tuple(4.0**power for power in range(-3, 3)),
    "weighted": (0.25, 1.0, 4.0),
}
PENALTIES: dict[str, tuple[float, ...]] = {
    "KFDA": (1e-3, 1e-2, 1e-1, 1, 10),
    "MPKFDA": (0,),
    "SVM": (0.1, 1, 10, 100, 1000),
    "ours": (1e-2, 1e-1, 1),
}


def tune(task: Task, parts: Sequence[tuple[Array, Array, int]]) -> Record:
    """Setting with the lowest cross-validated error, averaged over several training parts or foldings of one.

    A part is rows, labels and which folding it is. A coarse grid comes first, then a fine one around its best point.
    """
    method, step, n_folds = task["method"], 3 if task["quick"] else 1, 2 if task["quick"] else 5
    seed = int(generator(task, "set").integers(2**31))
    foldings = [StratifiedKFold(n_folds, shuffle=True, random_state=seed + i) for _, _, i in parts]
    folded = [(X, y, folding) for (X, y, _), folding in zip(parts, foldings, strict=True)]
    found = []
    for kind in INPUTS if method == "ours" else INPUTS[:1]:
        look = partial(search_ours, kind, folded) if method == "ours" else partial(search, method, _folds(folded))
        coarse = look(WIDTHS[kind][::step], PENALTIES[method][::step], task["atoms"])
        widths = [coarse[1]["width"] * factor for factor in ((0.5, 2) if task["quick"] else (0.5, 1, 2))]
        penalties = sorted({coarse[1]["penalty"] * factor for factor in ((1,) if task["quick"] else (0.3, 1, 3))})
        found += [coarse, look(widths, penalties, task["atoms"])]
    error, chosen = min(found, key=lambda pair: pair[0])
    return {"chosen": chosen, "cv_error": round(error, 6)}


def search(
    method: str, folds: Sequence[Fold], widths: Sequence[float], penalties: Sequence[float], atoms: int
) -> tuple[float, Setting]:
    """Lowest mean error over the folds and its setting; of equals the widest kernel, then the fewest atoms."""
    grid = _grid("plain", widths, penalties, atoms)
    errors = [np.mean([path_error(make(method, one, fold[4]), *fold[:4], atoms) for fold in folds], 0) for one in grid]
    return _lowest(np.array(errors), grid)


def search_ours(
    kind: str, parts: Sequence[Folded], widths: Sequence[float], penalties: Sequence[float], atoms: int
) -> tuple[float, Setting]:
    """The same for ours, by the library's search: plain inputs fold by fold, because each has a width of its own."""
    grid, errors = _grid(kind, widths, penalties, atoms), []
    options = {"input_weights": "equal" if kind == "plain" else "learned", "alphas": _rounded(penalties)}
    for X, y, folds in parts:
        searches: list[tuple[Any, float]] = [(folds, 1.0)]
        if kind == "plain":
            searches = [([fold], median_gamma(X[fold[0]])) for fold in folds.split(X, y)]
        for cv, scale in searches:
            gammas = [width * scale for width in widths]
            model = PursuitSearchCV(
                KMPClassifier(random_state=folds.random_state), max_atoms=atoms, gammas=gammas, cv=cv, **options
            )
            scores = fitted(model, X, y).cv_results_["mean_test_score"]
            errors.append(1 - scores.reshape(len(grid), atoms))
    return _lowest(np.mean(errors, axis=0), grid)


def _grid(kind: str, widths: Sequence[float], penalties: Sequence[float], atoms: int) -> list[Setting]:
    """Settings to compare."""
    return [{"inputs": kind, "width": w, "penalty": p, "atoms": atoms} for w in widths for p in _rounded(penalties)]


def _rounded(penalties: Sequence[float]) -> list[float]:
    """Three digits of each."""
    return [float(f"{penalty:.3g}") for penalty in penalties]


def _lowest(errors: Array, grid: list[Setting]) -> tuple[float, Setting]:
    """Lowest error, of (settings, numbers of atoms), and its setting."""
    at, k = np.unravel_index(np.argmin(errors), np.shape(errors))
    return float(errors[at][k]), grid[at] | {"atoms": int(k) + 1}


def inputs(kind: str, X: Array, y: Array, X_test: Array, seed: int) -> tuple[Array, Array, float]:
    """Inputs of the training and the test rows and a width that suits them, all from the training rows."""
    if kind == "plain":
        return X, X_test, median_gamma(X)
    weights = FeatureWidths(random_state=seed).fit(X, y)
    return weights.transform(X), weights.transform(X_test), 1.0


def make(method: str, setting: Setting, scale: float) -> Any:
    """Classifier of a method."""
    gamma, penalty = setting["width"] * scale, setting["penalty"]
    if method == "KFDA":
        return KFDA(gamma, penalty)
    if method == "SVM":
        return SVC(gamma=gamma, C=penalty, cache_size=500)
    if method == "MPKFDA":
        return SparseKernelFDA(setting["atoms"], gamma=gamma)
    return KMPClassifier(setting["atoms"], gamma=gamma, alpha=penalty)


def _folds(parts: Sequence[Folded]) -> list[Fold]:
    """Folds of the rows of all parts."""
    return [
        (X[train], y[train], X[test], y[test], median_gamma(X[train]))
        for X, y, folds in parts
        for train, test in folds.split(X, y)
    ]
