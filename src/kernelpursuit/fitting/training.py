"""The rows that a model is fitted to: checked, and weighted by rows and by classes.

How many rows there are has four answers. `TrainingData.total` is the sum of the weights (means, averages of losses).
`row_counts` is the number of rows that each row stands for, without class weights (leverages, calibration).
`rows_counted` is the total, but not fewer than there are rows (stop rules). `effective_sample_size` is how many rows of
equal weight are worth as much (evidence).
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from kernelpursuit._warning import warn
from kernelpursuit.arrays import in_double, namespace, to_host
from kernelpursuit.fitting.fit_warnings import warn_if_one_column_rules
from kernelpursuit.fitting.placement import (
    host_weights,
    is_precomputed,
    place,
    summed,
    take_rows,
    validated,
    x_options,
)
from kernelpursuit.fitting.rows import RowSource, refuse_collections
from kernelpursuit.pursuit.row_weights import as_counts


class TrainingData(NamedTuple):
    """The rows of positive weight of a fit, with targets, weights and groups."""

    X: Any
    y: Any  # labels or targets: on the host wherever X is, but remote where X is remote
    weights: Any  # in the same place, or None
    rows: Any
    n_rows: int
    counts: Any = None  # how many rows each stands for, where `weights` also say how much an error of its class matters
    groups: Any = None  # the number of the group of each row, where rows are ranked inside groups
    given_y: Any = None  # y as it was given, in one or two dimensions: fitted classes go where it is
    source: RowSource = RowSource()

    @property
    def total(self) -> float:
        """How many rows there are, a row of weight w counting as w of them."""
        return float(len(self.rows) if self.weights is None else to_host(namespace(self.weights).sum(self.weights)))

    @property
    def n_groups(self) -> int:
        """Number of groups with a constant of their own; 0 where rows are in no groups."""
        return 0 if self.groups is None else len(np.unique(self.groups))

    def subset(self, J: np.ndarray) -> TrainingData:
        """Some of the rows."""
        weights, counts, groups = (None if one is None else one[J] for one in (self.weights, self.counts, self.groups))
        return TrainingData(take_rows(self.X, J), self.y[J], weights, self.rows[J], self.n_rows, counts, groups)


ROUNDING = 4  # a column whose values differ by so many eps of the largest is constant but for rounding


def check_training(
    estimator: Any, X: Any, y: Any = "no_validation", *, sample_weight: Any = None, **options: Any
) -> Any:
    """X, or X and y, of a fit, checked; `options` go to scikit-learn's `validate_data`."""
    refuse_collections(estimator, "fit", X, y)
    if sparse.issparse(y):
        raise ValueError("y must be a dense array, got a sparse matrix: use y.toarray()")
    checked = validated(estimator, X, y, **x_options(estimator.kernel, X), **options)
    X = checked if isinstance(y, str) else checked[0]
    check_square(X, estimator.kernel)
    gamma, names = getattr(estimator, "gamma", None), getattr(estimator, "feature_names_in_", None)
    warn_if_one_column_rules(X, estimator.kernel, gamma, sample_weight, columns=names)
    return checked


def constant_but_for_rounding(width: np.ndarray, precision: float) -> np.ndarray:
    """Which columns are constant, given range over largest value of each; warns where float32 rounding made them so."""
    flat = width <= ROUNDING * precision
    if precision > 1e-10 and np.any(rounded := flat & (width > 0)):
        columns = ", ".join(str(column) for column in np.flatnonzero(rounded)[:10])
        warn(
            f"columns {columns} of X differ between rows by hardly more than float32 rounds such large numbers, and "
            "are taken for constant: take off each column its mean, in float64, before X becomes float32"
        )
    return flat


def largest_size(targets: Any) -> float:
    """The largest absolute value among targets, 0 of none."""
    xp = namespace(targets)
    return float(to_host(xp.max(xp.abs(targets)))) if targets.shape[0] else 0.0


def varying(targets: np.ndarray) -> np.ndarray:
    """Columns that are not constant; all of them where none varies."""
    varies = np.any(targets != targets[:1], axis=0)
    return np.flatnonzero(varies) if np.any(varies) else np.arange(targets.shape[1])


def training_data(X: Any, y: np.ndarray | None, sample_weight: Any) -> TrainingData:
    """Check the weights and leave out rows of weight 0, which count as absent."""
    n = X.shape[0]
    y = np.zeros(n) if y is None else y
    if sample_weight is None:
        return TrainingData(X, y, None, np.arange(n), n)
    weights = host_weights(sample_weight, X)
    rows = np.flatnonzero(weights > 0)
    if len(rows) == 0:
        raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.sum(weights, dtype=np.float64)):
            raise ValueError("the sum of sample_weight overflows: divide the weights by their mean")
    if len(rows) < n:
        X, y, weights = take_rows(X, rows), y[rows], weights[rows]
    return TrainingData(X, y, weights, rows, n)


def row_counts(data: TrainingData) -> Any:
    """How many rows each row stands for, in float64, where the weights are: see `as_counts`.

    Class weights change the cost of errors, not the number of rows.
    """
    counts = data.weights if data.counts is None else data.counts
    return np.ones(len(data.rows)) if counts is None else as_counts(in_double(counts), len(data.rows))


def rows_counted(data: TrainingData) -> float:
    """Number of rows that the weights stand for: their sum, and not fewer than there are rows."""
    return max(float(len(data.rows)), data.total)


def effective_sample_size(data: TrainingData) -> float:
    """How many rows of equal weight would say as much as these.

    Weights of classes make errors of some rows count for more, but make no rows. A mean over rows that stand for f_i
    and have weights w_i = a_i f_i varies as one over (Σ w)² / Σ a w equal rows. That is Σ f where all a are equal.
    """
    if data.counts is None:
        return rows_counted(data)
    weights, counts = (np.asarray(one, dtype=np.float64) for one in (data.weights, data.counts))
    size = np.sum(weights) ** 2 / np.sum(weights * (weights / counts))
    return float(size * max(1.0, len(counts) / np.sum(counts)))


class ClassFactors(NamedTuple):
    """Factors by which the weights of the rows of each class were multiplied."""

    classes: np.ndarray
    factors: np.ndarray

    def without(self, data: TrainingData) -> TrainingData:
        """The rows with counts added: their weights without the factors of the classes."""
        factors = self.factors[np.searchsorted(self.classes, data.y)]
        return data._replace(counts=(data.weights / factors).astype(data.weights.dtype))


def with_class_weight(class_weight: Any, y: np.ndarray, sample_weight: Any, X: Any) -> tuple[Any, ClassFactors | None]:
    """Weights of the rows times weights of their classes, scaled to keep the sum, and the factors of the classes.

    Without class weights: `sample_weight` and None.
    """
    if class_weight is None:
        return sample_weight, None
    weights = np.ones(len(y)) if sample_weight is None else host_weights(sample_weight, X).astype(np.float64)
    counted = weights > 0  # absent rows do not count for "balanced"
    if not counted.any():
        return weights, None
    classes, index = np.unique(y[counted], return_inverse=True)
    if class_weight == "balanced":
        totals = np.bincount(index, weights=weights[counted])
        factors = totals.sum() / (len(classes) * totals)
    else:
        factors = factors_of(by_class(class_weight, y), classes)
    both = np.zeros(len(y))
    both[counted] = weights[counted] * factors[index]
    if not (np.all(np.isfinite(both)) and np.all(both >= 0) and both.sum() > 0):
        raise ValueError(f"class_weight must have non-negative numbers, not all of them zero, got {class_weight!r}")
    scale = weights.sum() / both.sum()
    return both * scale, ClassFactors(classes, factors * scale)


def by_class(class_weight: Any, y: np.ndarray) -> Any:
    """`class_weight` with 1 for the classes of y that it does not name; unchanged if it is no dict.

    A name that is not in y is an error, unless all classes of y are named too: y may be a part of the rows.

    Examples
    --------
    >>> by_class({"b": 3.0}, np.array(["a", "b", "a"]))
    {'a': 1.0, 'b': 3.0}
    """
    if not isinstance(class_weight, dict):
        return class_weight
    classes = np.unique(y).tolist()
    unknown = [name for name in class_weight if name not in classes]
    if unknown and not all(label in class_weight for label in classes):
        raise ValueError(f"class_weight names {unknown}, which are not among the classes of y, {classes}")
    return {label: class_weight.get(label, 1.0) for label in classes}


def factors_of(class_weight: dict, classes: np.ndarray) -> np.ndarray:
    """The weights of some classes."""
    return np.array([class_weight[label] for label in classes.tolist()], dtype=np.float64)


def fewer_centers(centers: Any, n: int) -> Any:
    """The parameter `centers`, of which a number is at most the number of rows."""
    return min(centers, n) if isinstance(centers, Integral) else centers


def check_centers(centers: Any, X: Any) -> Any:
    """User's array of centres with the dtype and the columns of X."""
    if centers is None or isinstance(centers, Integral):
        return centers
    centers = summed(check_array(centers, input_name="centers", **x_options(None, centers)))
    if place(centers) != place(X):
        raise ValueError(f"centers must be where X is, {' on '.join(place(X))}, got {' on '.join(place(centers))}")
    if centers.shape[1] != X.shape[1]:
        raise ValueError(f"centers must have the {X.shape[1]} columns of X, got {centers.shape[1]}")
    return centers.astype(X.dtype) if sparse.issparse(centers) else namespace(centers).astype(centers, X.dtype)


def check_square(X: Any, kernel: Any) -> None:
    """A precomputed kernel of the training data is square."""
    if is_precomputed(kernel) and X.shape[0] != X.shape[1]:
        raise ValueError(f"with kernel='precomputed' X must be the square kernel matrix in fit, got shape {X.shape}")


def refuse_weights(data: TrainingData, stop: str, class_weight: Any = None) -> None:
    """An error if rows have weights: bounds and certificates are statements about equal rows."""
    if data.weights is not None:
        given = "sample_weight" if class_weight is None else f"class_weight, got {class_weight!r}, nor sample_weight"
        raise ValueError(f"stop={stop!r} is a statement about equal rows: it does not take {given}")
