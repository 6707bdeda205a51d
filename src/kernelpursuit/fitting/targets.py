"""Whether a target is a set of classes or of values, and the columns that least squares fits in either case."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d

from kernelpursuit._warning import warn
from kernelpursuit.arrays import namespace
from kernelpursuit.dask.arrays import Sharded
from kernelpursuit.fitting.placement import labels_on_host

TASKS = ("auto", "classification", "regression")
MOST_CLASSES = 20  # more distinct whole numbers than this are taken for values


def target_columns(y: Any, task: str = "auto", n_rows: float | None = None) -> np.ndarray:
    """Columns to fit: the values of y, or an indicator of each class (of two classes one is enough).

    Several columns are values already. One column of strings or booleans is classes; one with fractions is values.
    Whole numbers are either: at most `MOST_CLASSES` distinct ones, each met twice in the mean, are taken for classes
    and more for values. A warning tells what was assumed where the type of y suggests otherwise.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, n_targets)
    task : {"auto", "classification", "regression"}
    n_rows : float, optional
        Rows that y stands for where rows have weights.

    Returns
    -------
    ndarray of shape (n, n_columns)

    Examples
    --------
    >>> target_columns(["a", "b", "a", "c"]).T
    array([[1., 0., 1., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 1.]])
    >>> target_columns([0, 1, 1]).T, target_columns([5, 7, 4]).T
    (array([[0., 1., 1.]]), array([[5., 7., 4.]]))
    """
    values = check_array(labels_on_host(y), ensure_2d=False, dtype=None, input_name="y")
    if values.dtype.kind == "O" and all(isinstance(v, Real) and not isinstance(v, bool) for v in values.flat):
        values = np.array(values.tolist())  # numbers that pandas keeps as objects
    if values.ndim == 2 and values.shape[1] > 1 and task != "classification":
        return values.astype(np.float64)
    labels = column_or_1d(values)
    classes = _are_classes(labels, task, len(labels) if n_rows is None else n_rows)
    return columns_of_labels(labels, np.unique(labels) if classes else None)


def columns_of_labels(labels: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """An indicator of each class, of two classes one; or the labels as values, where there are no classes."""
    if classes is not None:
        return (labels[:, None] == (classes[1:] if len(classes) == 2 else classes)[None, :]).astype(np.float64)
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"task='regression' needs numbers in y, got {labels[0]!r}")
    return labels.astype(np.float64)[:, None]


def columns_on_shards(y: Any, task: str) -> Any:
    """The same as `target_columns` for y on shards, of which no more than `MOST_CLASSES` labels come here by number."""
    if y.ndim == 2 and y.shape[1] > 1:
        if task == "classification":
            raise ValueError(f"task='classification' needs one column in y, got {y.shape[1]}")
        return namespace(y).astype(y, np.float64)
    labels = y if y.ndim == 1 else y[:, 0]
    found = np.concatenate(labels.program.collect(some_labels, labels, task))
    classes = np.unique(found) if _are_classes(found, task, float(labels.shape[0])) else None
    like = columns_of_labels(found, classes)[:0]
    return Sharded(labels.program, labels.program.add(columns_of_labels, labels, classes), like, 0)


def some_labels(labels: np.ndarray, task: str) -> np.ndarray:
    """Distinct labels of a block: all that may be classes, or enough to see that they are none."""
    distinct = np.unique(check_array(labels, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=0))
    if task == "classification" or distinct.dtype.kind not in "iuf":
        return distinct
    fractions = distinct[distinct != np.rint(distinct)]
    return fractions[:1] if len(fractions) else distinct[: MOST_CLASSES + 1]


def _are_classes(labels: np.ndarray, task: str, n_rows: float) -> bool:
    """The decision that `target_columns` describes."""
    if task != "auto":
        return task == "classification"
    if labels.dtype.kind not in "iuf":
        return True
    if labels.dtype.kind == "f" and np.any(labels != np.rint(labels)):
        return False
    distinct = len(np.unique(labels))
    if distinct <= 2:
        return True  # the same either way
    crowded = distinct <= n_rows / 2
    classes = distinct <= MOST_CLASSES and crowded
    if (classes and labels.dtype.kind == "f") or (not classes and crowded and labels.dtype.kind != "f"):
        how_many = distinct if classes else f"more than {MOST_CLASSES}"
        warn(
            f"y has {how_many} distinct whole numbers in {n_rows:.0f} rows: they are taken for "
            f"{'classes, not values' if classes else 'values, not classes'}; "
            "task='classification' or task='regression' says which",
        )
    return classes
