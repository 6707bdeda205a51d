"""The atoms of all folds of a search from inner products that the folds share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit._sklearn import usable_threads
from kernelpursuit.arrays import Spare
from kernelpursuit.atoms.tiles import one_blas_thread
from kernelpursuit.estimators.classification import code_classes, code_labels
from kernelpursuit.estimators.regression import near_zero, scale_targets
from kernelpursuit.fitting.kmp import KernelMatchingPursuit
from kernelpursuit.fitting.memory import SHARE, free_memory
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.search.fold_path import FoldPath, FoldRows
from kernelpursuit.search.foreseen import Fit, foresee
from kernelpursuit.search.score_table import Setting
from kernelpursuit.search.shared_matrix import Values
from kernelpursuit.search.side_by_side import Each
from kernelpursuit.search.split_kernel import FEW_ROWS, SplitKernel

# For each pair of rows: the rest of a width, which is more than one matrix, and kernel values; of few rows in place of
# the rest products for each fold, in float64. And for each path that is followed what is left of all atoms.
_BYTES, _LEFT = 16, 4
_WIDTHS = 3  # of which these are in memory: of the one of which paths are followed, the next and the best
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
        self._twins = equal_rows(X)
        self._spare = Spare()
        self._turn = Lock() if X.shape[0] < FEW_FORESEEN else None

    @classmethod
    def of(
        cls, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, folds: Sequence[Fold], most: int
    ) -> Foreseeing | None:
        """The same; None where atoms cannot be foreseen, or where it does not pay."""
        n = X.shape[0]
        squares = isinstance(model, KernelMatchingPursuit) and getattr(model, "loss", None) == "squared"
        if getattr(model, "class_weight", None) is not None:  # which each fold has weights of its own for
            return None
        if not squares or model.variant == "basic" or model.weakness < 1:
            return None
        of_pair = _BYTES + (8 * len(folds) if n <= FEW_ROWS else 0)
        left = _LEFT * (min(len(folds), usable_threads()) + 1)
        if (_WIDTHS * of_pair + left) * n * n > free_memory(X) // SHARE:
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

    def prepare(self, values: Values, each: Each, alone: np.ndarray | None = None) -> SplitKernel:
        """What the folds of a width share, given kernel values of all rows.

        Nobody else needs a matrix of them that they have `alone`: its memory is used again when they are done with it.
        """
        parts = [rows.train for rows in self._folds]
        given = self._targets, self._roots, parts, self._model.fit_intercept, self._twins
        shared = SplitKernel(values, *given, each=each, spare=self._spare)
        if alone is not None:
            weakref.finalize(values, self._spare.give_back, alone).atexit = False
        return shared

    def ahead(self, shared: SplitKernel) -> tuple[list[FoldPath], Callable[[], Foreseen]]:
        """The paths of all folds, and what foresees the path on all rows."""

        def path(of: SplitKernel, part: int) -> tuple[Foreseen, Fit]:
            with one_blas_thread():
                return foresee(of, part, self._most, self._model.variant == "prefit", self._turn)

        folds = [FoldPath(partial(path, shared, part), shared.values, rows) for part, rows in enumerate(self._folds)]
        whole = partial(path, shared.for_all_rows(), len(folds))
        return folds, lambda: whole()[0]


def equal_rows(X: Any) -> np.ndarray:
    """A number for each row, the same for equal rows of an array."""
    n = X.shape[0]
    if not isinstance(X, np.ndarray) or any(len(np.unique(column)) == n for column in X.T):  # which is told quickly
        return np.arange(n)
    return np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)


def without_ridge(estimator: Any, setting: Setting) -> bool:
    """Whether the atoms of a path are chosen without a ridge."""
    alpha = estimator.alpha if setting.alpha is None else setting.alpha
    return alpha == "auto" or alpha == 0


def targets_of(model: Any, y: np.ndarray, classes: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Targets of the squared loss, (n, t), and the unit that they were divided by."""
    if not is_classifier(model):
        return scale_targets(y.reshape(len(y), -1).astype(np.float64))
    return code_labels(y, np.float64) if classes is None else code_classes(y, classes, np.float64), 1.0
