"""The atoms of all folds of a search from inner products that the folds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit.dictionaries import tiles
from kernelpursuit.estimators._kmp import KernelMatchingPursuit
from kernelpursuit.estimators._memory import SHARE, free_memory
from kernelpursuit.estimators._placement import take_rows
from kernelpursuit.estimators._score_table import Setting
from kernelpursuit.estimators.classification import code_classes, code_labels
from kernelpursuit.kernels import Kernel
from kernelpursuit.pursuit.foreseen import Products, foresee
from kernelpursuit.pursuit.lookahead import Foreseen

WIDE_ROWS = 1500  # up to which products are kept in float64; of more rows they would take too much memory and time
WORTH = 6  # rows for each step of all folds together, from which on a product for each step is faster

Ahead = Callable[[], Foreseen]


class Foreseeing:
    """What the folds of a search share besides their kernel matrices.

    Parameters
    ----------
    model : KernelMatchingPursuit
        As it is fitted in the folds.
    X : array of shape (n, n_features)
    y : ndarray
    weights : ndarray of shape (n,) or None
    trains : sequence of ndarray of int
        Training rows of each fold.
    most : int
        Atoms of a path.
    """

    def __init__(
        self, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, trains: Sequence[np.ndarray], most: int
    ):
        self._model, self._X, self._most = model, X, most
        self._roots = None if weights is None else np.sqrt(weights.astype(np.float64))
        self._parts = [rows if weights is None else rows[weights[rows] > 0] for rows in map(np.asarray, trains)]
        self._targets = targets_of(model, y)
        same = np.unique(X, axis=0, return_inverse=True)[1] if isinstance(X, np.ndarray) else np.arange(X.shape[0])
        self._twins = same.reshape(-1)

    @classmethod
    def of(
        cls, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, trains: Sequence[np.ndarray], most: int
    ) -> Foreseeing | None:
        """The same; None where atoms cannot be foreseen, or where it does not pay."""
        n, itemsize = X.shape[0], 8 if X.shape[0] <= WIDE_ROWS else 4
        squares = isinstance(model, KernelMatchingPursuit) and getattr(model, "loss", None) == "squared"
        if not squares or model.variant == "basic" or model.weakness < 1 or n > WORTH * len(trains) * most:
            return None
        if 2 * (len(trains) + 1) * n * n * itemsize > free_memory(X) // SHARE:  # of two widths, for a while
            return None
        counted = np.ones(n, dtype=bool) if weights is None else weights > 0
        classes = np.unique(y[counted]) if is_classifier(model) and y.ndim == 1 else np.zeros(0)
        for rows in map(np.asarray, trains):
            known = rows.dtype.kind in "iu" and len(np.unique(rows)) == len(rows)
            if not known or not np.array_equal(np.unique(y[rows[counted[rows]]]) if len(classes) else classes, classes):
                return None
            if not counted[rows].any():
                return None
        return cls(model, X, y, weights, trains, most)

    def ahead(self, K: np.ndarray, kernel: Kernel) -> list[Ahead]:
        """For each fold what finds the atoms of its path, given kernel values of all rows."""
        dtype = np.float64 if len(K) <= WIDE_ROWS else np.float32
        each = partial(tiles.in_threads, parallel=K.size > tiles.FEW_ENTRIES)
        given = self._targets, self._roots, self._parts, self._model.fit_intercept, self._twins
        shared = Products(K, *given, dtype=dtype, each=each)
        how: dict[str, Any] = {"most": self._most, "jointly": self._model.variant == "prefit"}

        def columns(atoms: np.ndarray) -> np.ndarray:
            return kernel.between(self._X, take_rows(self._X, atoms))

        return [partial(foresee, shared, part, columns=columns, **how) for part in range(len(self._parts))]


def without_ridge(estimator: Any, setting: Setting) -> bool:
    """Whether the atoms of a path are chosen without a ridge."""
    alpha = estimator.alpha if setting.alpha is None else setting.alpha
    return alpha == "auto" or alpha == 0


def targets_of(model: Any, y: np.ndarray) -> np.ndarray:
    """Targets of the squared loss, (n, t)."""
    if not is_classifier(model):
        return y.reshape(len(y), -1).astype(np.float64)
    return code_labels(y, np.float64) if y.ndim == 2 else code_classes(y, np.unique(y), np.float64)
