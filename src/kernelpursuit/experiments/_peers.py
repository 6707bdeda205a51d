"""Methods that the papers compare with, tuned by cross-validation on the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

Array = NDArray[np.float64]


def tuned_svc(X: Any, y: Any, gammas: Sequence[float], penalties: Sequence[float], seed: int, folds: int = 5) -> SVC:
    """Support vector classifier with the width and the penalty of the lowest cross-validated error.

    Parameters
    ----------
    X, y
        Training rows.
    gammas, penalties : sequence of float
        Values to try; of equals the smallest penalty, then the smoothest, is taken.
    seed : int
        Of the folds.
    folds : int, default=5

    Returns
    -------
    SVC
        Fitted to all rows.
    """
    grid = {"gamma": sorted(gammas), "C": sorted(penalties)}
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return GridSearchCV(SVC(cache_size=500), grid, cv=splitter).fit(X, y).best_estimator_


def median_gamma(X: Array, seed: int = 0, rows: int = 500) -> float:
    """Width that suits the data: 1 over the median squared distance of pairs of rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    seed : int, default=0
        Of the rows drawn.
    rows : int, default=500

    Returns
    -------
    float
    """
    drawn = X[np.random.default_rng(seed).permutation(X.shape[0])[:rows]]
    squared = euclidean_distances(drawn, squared=True)[np.triu_indices(drawn.shape[0], 1)]
    return float(1 / np.median(squared[squared > 0]))


def standardise(X: Array, *others: Array) -> list[Array]:
    """Columns of mean 0 and variance 1 over the rows of `X`, the same shift and scale for `others`."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1)
    return [(part - mean) / spread for part in (X, *others)]
