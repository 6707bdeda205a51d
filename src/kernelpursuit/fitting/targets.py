"""Targets of unknown kind: whether y holds classes or values, and the columns that least squares fits to it."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from kernelpursuit._warning import warn
from kernelpursuit.arrays import namespace
from kernelpursuit.fitting.rows import RowSource

TASKS = ("auto", "classification", "regression")
MOST_CLASSES = 20  # more distinct whole numbers than this are taken for values


def target_columns(y: Any, task: str = "auto", n_rows: float | None = None, source: RowSource = RowSource()) -> Any:  # noqa: B008
    """Columns to fit: the values of y, or an indicator of each class (of two classes one is enough).

    Several columns are values already. One column of strings or booleans is classes; one with fractions is values.
    Whole numbers are either: at most `MOST_CLASSES` distinct ones, each met twice in the mean, are taken for classes
    and more for values. A warning tells what was assumed where the type of y suggests otherwise.

    Parameters
    ----------
    y : array of shape (n,) or (n, n_targets)
        Checked, see `checked_targets`.
    task : {"auto", "classification", "regression"}
    n_rows : float, optional
        Rows that y stands for where rows have weights.
    source : RowSource
        Where the rows of y are.

    Returns
    -------
    array of shape (n, n_columns)

    Examples
    --------
    >>> target_columns(np.array(["a", "b", "a", "c"])).T
    array([[1., 0., 1., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 1.]])
    >>> target_columns(np.array([0, 1, 1])).T, target_columns(np.array([5, 7, 4])).T
    (array([[0., 1., 1.]]), array([[5., 7., 4.]]))
    """
    if y.ndim == 2 and y.shape[1] > 1:
        if task == "classification":
            raise ValueError(f"task='classification' needs one column in y, got {y.shape[1]}")
        return namespace(y).astype(y, np.float64)
    labels = y if y.ndim == 1 else y[:, 0]
    most = MOST_CLASSES + 1 if source.remote else None
    some = np.concatenate(source.collect(distinct_labels, labels, task, most))
    if _are_classes(some, task, float(labels.shape[0]) if n_rows is None else n_rows):
        return source.map(indicators, labels, np.unique(some))
    if some.dtype.kind not in "biuf":
        raise ValueError(f"task='regression' needs numbers in y, got {some[0]!r}")
    return namespace(labels).astype(labels, np.float64)[:, None]


def checked_targets(y: Any) -> np.ndarray:
    """Labels or values of some rows, checked; numbers that pandas keeps as objects become numbers."""
    values = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    if values.dtype.kind == "O" and all(isinstance(v, Real) and not isinstance(v, bool) for v in values.flat):
        return np.array(values.tolist())
    return values


def indicators(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A column for each class, of two classes for the second: 1 where a row has it, else 0."""
    return (labels[:, None] == (classes[1:] if len(classes) == 2 else classes)[None, :]).astype(np.float64)


def distinct_labels(labels: np.ndarray, task: str, most: int | None) -> np.ndarray:
    """Distinct labels of some rows: all that may be classes, or enough, `most`, to see that they are none."""
    distinct = np.unique(labels)
    if task == "classification" or distinct.dtype.kind not in "iuf":
        return distinct
    fractions = distinct[distinct != np.rint(distinct)]
    return fractions[:1] if len(fractions) else distinct[:most]


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
