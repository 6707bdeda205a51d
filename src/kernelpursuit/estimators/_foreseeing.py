"""The atoms of all folds of a search from inner products that the folds share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit._array import Spare
from kernelpursuit.estimators._fold_path import FoldPath, FoldRows
from kernelpursuit.estimators._kmp import KernelMatchingPursuit
from kernelpursuit.estimators._memory import SHARE, free_memory
from kernelpursuit.estimators._score_table import Setting
from kernelpursuit.estimators._side_by_side import Each
from kernelpursuit.estimators.classification import code_classes, code_labels
from kernelpursuit.estimators.regression import near_zero, scale_targets
from kernelpursuit.pursuit.foreseen import foresee
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.shared_products import Products

WIDE_ROWS = 1500  # up to which products are kept in float64; of more rows they would take too much memory and time
# Rows for each step of all folds together, up to which shared products are worth their while: they took 0.55, 0.40
# and 0.93 of the time of fits at 6.7, 8 and 20.
WORTH = 16
# With fewer rows scores take about as long as steps that are foreseen, which are mostly Python's: threads do these one
# path at a time, while another one computes the scores of the last path.
FEW_FORESEEN = 2000

Fold = tuple[np.ndarray, np.ndarray]


class Foreseeing:
    """What the folds of a search share besides their kernel matrices.

    Parameters
    ----------
    model : KernelMatchingPursuit
        As it is fitted in the folds.
    X : array of shape (n, n_features)
    y : ndarray
    weights : ndarray of shape (n,) or None
    folds : sequence of (ndarray, ndarray)
        Training and test rows of each fold.
    most : int
        Atoms of a path.
    """

    def __init__(self, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, folds: Sequence[Fold], most: int):
        self._model, self._most = model, most
        weights = None if weights is None else weights.astype(np.float64)
        self._roots = None if weights is None else np.sqrt(weights)
        classes = None
        if is_classifier(model) and y.ndim == 1:
            classes = np.unique(y if weights is None else y[weights > 0])
        if not is_classifier(model) and model.fit_intercept:
            y = near_zero(y.reshape(len(y), -1), np.float64)[0]  # their scores are of errors, which stay what they are
        self._targets, unit = targets_of(model, y, classes)
        counted = [np.asarray(train) if weights is None else train[weights[train] > 0] for train, _ in folds]
        tests = [np.asarray(test) for _, test in folds]
        self._folds = [
            FoldRows(train, test, y, self._targets, unit, weights, classes)
            for train, test in zip(counted, tests, strict=True)
        ]
        same = np.unique(X, axis=0, return_inverse=True)[1] if isinstance(X, np.ndarray) else np.arange(X.shape[0])
        self._twins = same.reshape(-1)
        self._spare = Spare()
        self._turn: AbstractContextManager = Lock() if X.shape[0] < FEW_FORESEEN else nullcontext()

    @classmethod
    def of(
        cls, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, folds: Sequence[Fold], most: int
    ) -> Foreseeing | None:
        """The same; None where atoms cannot be foreseen, or where it does not pay."""
        n, itemsize = X.shape[0], 8 if X.shape[0] <= WIDE_ROWS else 4
        squares = isinstance(model, KernelMatchingPursuit) and getattr(model, "loss", None) == "squared"
        if getattr(model, "class_weight", None) is not None:  # which each fold has weights of its own for
            return None
        if not squares or model.variant == "basic" or model.weakness < 1 or n > WORTH * len(folds) * most:
            return None
        if 2 * ((len(folds) + 1) * itemsize + 8) * n * n > free_memory(X) // SHARE:  # of two widths: more than is held
            return None
        counted = np.ones(n, dtype=bool) if weights is None else weights > 0
        classes = np.unique(y[counted]) if is_classifier(model) and y.ndim == 1 else np.zeros(0)
        for rows in (np.asarray(train) for train, _ in folds):
            known = rows.dtype.kind in "iu" and len(np.unique(rows)) == len(rows)
            if not known or not np.array_equal(np.unique(y[rows[counted[rows]]]) if len(classes) else classes, classes):
                return None
            if not counted[rows].any():
                return None
        return cls(model, X, y, weights, folds, most)

    def room(self) -> np.ndarray:
        """Where a kernel matrix may be put that is given to `prepare` alone."""
        return self._spare.take((len(self._targets),) * 2, np.float64)

    def prepare(self, K: np.ndarray, each: Each, alone: bool = False) -> Products:
        """The products of a width, given kernel values of all rows.

        Nobody else needs the matrix if they have it `alone`: its memory is used again when they are done with.
        """
        dtype = np.float64 if len(K) <= WIDE_ROWS else np.float32
        parts = [rows.train for rows in self._folds]
        given = self._targets, self._roots, parts, self._model.fit_intercept, self._twins
        shared = Products(K, *given, dtype=dtype, each=each, spare=self._spare)
        if alone:
            weakref.finalize(shared, self._spare.give_back, K).atexit = False
        return shared

    def ahead(self, K: np.ndarray, shared: Products) -> tuple[list[FoldPath], Callable[[], Foreseen]]:
        """The paths of all folds, and what foresees the path on all rows."""
        how: dict[str, Any] = {"most": self._most, "jointly": self._model.variant == "prefit", "K": K}

        def path(part: int) -> Foreseen:
            with self._turn:
                return foresee(shared, part, **how)

        paths = [partial(path, part) for part in range(len(self._folds) + 1)]
        return [FoldPath(path, K, rows) for path, rows in zip(paths, self._folds, strict=False)], paths[-1]


def without_ridge(estimator: Any, setting: Setting) -> bool:
    """Whether the atoms of a path are chosen without a ridge."""
    alpha = estimator.alpha if setting.alpha is None else setting.alpha
    return alpha == "auto" or alpha == 0


def targets_of(model: Any, y: np.ndarray, classes: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Targets of the squared loss, (n, t), and the unit that they were divided by."""
    if not is_classifier(model):
        return scale_targets(y.reshape(len(y), -1).astype(np.float64))
    return code_labels(y, np.float64) if classes is None else code_classes(y, classes, np.float64), 1.0
