"""What several experiments share: scaling, widths, errors along a path, and the full kernel Fisher discriminant."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

Array = NDArray[np.float64]


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


def rank_correlation(a: Any, b: Any) -> float | None:
    """Spearman's; None for fewer than three points, or where one of the two does not vary."""
    if len(a) < 3 or not np.ptp(a) or not np.ptp(b):
        return None
    return float(stats.spearmanr(a, b).statistic)


def standardise(X: Array, *others: Array) -> list[Array]:
    """Columns of mean 0 and variance 1 over the rows of `X`, the same shift and scale for `others`."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1)
    return [(part - mean) / spread for part in (X, *others)]


class KFDA:
    """Kernel Fisher discriminant on all rows: α = (BK + λ)⁻¹u, threshold at the midpoint of the projected means.

    B takes the class mean from each class, weighted by the share of the other class; u are the centred labels. Without
    `gamma` the inputs are kernel matrices.
    """

    def __init__(self, gamma: float | None, ridge: float) -> None:
        self.gamma, self.ridge = gamma, ridge

    def fit(self, X: Any, y: Array) -> KFDA:
        """Fit to rows with labels -1 and 1."""
        kernel = X if self.gamma is None else rbf_kernel(X, gamma=self.gamma)
        scattered = np.empty_like(kernel)
        for label in (-1, 1):
            members = y == label
            scattered[members] = 2 * np.mean(~members) * (kernel[members] - kernel[members].mean(axis=0))
        scattered.flat[:: len(y) + 1] += self.ridge
        self.rows, self.support_ = X, np.arange(len(y))
        self.weights = np.linalg.solve(scattered, y - y.mean())
        scores = kernel @ self.weights
        self.threshold = (scores[y > 0].mean() + scores[y < 0].mean()) / 2
        return self

    def predict(self, X: Any) -> Array:
        """Labels -1 and 1."""
        kernel = X if self.gamma is None else rbf_kernel(X, self.rows, gamma=self.gamma)
        return np.where(kernel @ self.weights > self.threshold, 1, -1)


def fitted(model: Any, X: Array, y: Array) -> Any:
    """The model, fitted; that a path may end early, where all other atoms lie in its span, is no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def path_error(model: Any, X: Any, y: Array, X_test: Any, y_test: Array, atoms: int) -> Array:
    """Error of the model fitted to (X, y) with 1 .. `atoms` atoms; a model without atoms has one."""
    model = fitted(model, X, y)
    if not hasattr(model, "staged_predict"):
        return np.array([np.mean(model.predict(X_test) != y_test)])
    errors = [np.mean(labels != y_test) for labels in model.staged_predict(X_test)]
    return np.array(errors + [errors[-1]] * (atoms - len(errors)))


def tuned_ridge(X: Array, y: Array, most: int) -> tuple[float, float]:
    """Width and ridge of kernel ridge regression with the lowest exact leave-one-out error on the first `most` rows.

    Widths are a factor 4 apart first, then half and double the best.
    """
    rows, middle = X[:most], median_gamma(X)
    best = min(leave_one_out(rows, y, middle * 4.0**power) for power in range(-6, 3))
    best = min(best, *(leave_one_out(rows, y, best[1] * factor) for factor in (0.5, 2.0)))
    return best[1], best[2]


def leave_one_out(X: Array, y: Array, gamma: float) -> tuple[float, float, float]:
    """Leave-one-out error of kernel ridge regression at its best ridge, the width, and that ridge."""
    centred = y[: len(X)] - y[: len(X)].mean()
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=gamma))
    along, squares = vectors.T @ centred, vectors**2
    found = []
    for alpha in 10.0 ** np.arange(-9, 1.1, 0.5):
        inverse = 1 / (np.maximum(values, 0) + alpha)
        found.append((float(np.mean((vectors @ (inverse * along) / (squares @ inverse)) ** 2)), gamma, float(alpha)))
    return min(found)
