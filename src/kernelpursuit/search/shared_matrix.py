"""Kernel values of all rows, of which every fold of a search takes its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit.arrays import gather
from kernelpursuit.atoms.dense import mirrored
from kernelpursuit.atoms.passes import side_of_tiles
from kernelpursuit.atoms.tiles import spans
from kernelpursuit.fitting.memory import SHARE, free_memory
from kernelpursuit.fitting.placement import is_precomputed
from kernelpursuit.kernels.gaussian import GaussianPoints, gaussian_when_asked
from kernelpursuit.kernels.kernels import Kernel, make_kernel
from kernelpursuit.search.side_by_side import Each

MOST_ROWS = 5000  # of which the folds share a kernel matrix
# Inputs up to which values of a Gaussian kernel are computed when they are asked for. A row of them takes 14 us (3,000
# rows of 8 inputs), and a matrix in memory that is new to the machine up to 150 ms.
_FEW_INPUTS = 20
_AT_ONCE = 16  # columns of it that are copied at once


def kernel_matrix(
    estimator: Any,
    X: Any,
    gamma: float | None,
    each: Each = map,
    out: np.ndarray | None = None,
) -> np.ndarray | None:
    """Kernel values of all rows, of which every fold takes its own; None where a fold computes what it needs.

    ``each(function, items)`` is `map`, or the same in threads. The values may be asked into `out`.
    """
    if not shares_matrix(estimator, X):
        return None
    kernel = search_kernel(estimator, X, gamma)
    n, points = X.shape[0], kernel.prepare(X)
    K, blocks = np.empty((n, n)) if out is None else out, spans(0, n, side_of_tiles(8))

    def fill(block: tuple[slice, slice]) -> None:
        one, other = block
        values = kernel.finite(points[one], points[other])
        K[one, other], K[other, one] = (values, values.T) if one != other else (mirrored(values),) * 2

    below = [(one, other) for place, one in enumerate(blocks) for other in blocks[: place + 1]]
    list((each if kernel.parallel else map)(fill, below))
    return K.T  # the same, each column in one piece


def search_kernel(estimator: Any, X: Any, gamma: float | None) -> Kernel:
    """The kernel of one of the widths."""
    options = {"degree": estimator.degree, "coef0": estimator.coef0, "kernel_params": estimator.kernel_params}
    return make_kernel(estimator.kernel, X, gamma="scale" if gamma is None else gamma, **options)


Values = Callable[[Any, Any], np.ndarray]  # kernel values of some rows with some others, both slices or indices


def values_of_matrix(K: np.ndarray) -> Values:
    """Kernel values from a matrix of them."""

    def values(rows: Any, columns: Any) -> np.ndarray:
        if isinstance(rows, slice) or isinstance(columns, slice):
            return K[rows, columns]
        return K[np.ix_(rows, columns)]

    return values


def values_when_asked(kernel: Kernel, X: Any) -> Values | None:
    """Kernel values computed when they are asked for. None where that takes longer than to read them from a matrix."""
    points = kernel.prepare(X)
    if not isinstance(points, GaussianPoints) or X.shape[1] > _FEW_INPUTS:
        return None
    return gaussian_when_asked(points)


def as_shared(estimator: Any, X: Any) -> Any:
    """The rows as folds take them from one matrix: those in float32 as float64, which is the same in less time.

    The directions of a pursuit are computed in float64. In float32 every fold would look at its atoms themselves for
    that: the same paths in up to eight times the time. Rows with so many inputs that the copy is too large stay.
    """
    if not _may_share(estimator, X) or X.dtype != np.float32 or 8 * X.size > free_memory(X) // SHARE:
        return X
    return X.astype(np.float64)


def shares_matrix(estimator: Any, X: Any) -> bool:
    """Whether folds take their kernel values from one matrix. Not in float32, see `as_shared`."""
    return _may_share(estimator, X) and X.dtype == np.float64


def _may_share(estimator: Any, X: Any) -> bool:
    """Not where the matrix is too large, nor where not all of it is looked at."""
    others = ("functions", "centers", "candidates", "memory")
    whole = all(getattr(estimator, name, None) is None for name in others) and X.shape[0] <= MOST_ROWS
    named = isinstance(estimator.kernel, str) and not is_precomputed(estimator.kernel)
    return whole and named and (isinstance(X, np.ndarray) or sparse.issparse(X))


def take_pairs(K: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Entries of a kernel matrix; of NumPy's each column in one piece, because atoms are read one by one."""
    if not isinstance(K, np.ndarray):
        return gather(gather(K, rows), columns, axis=1)
    if not K.flags.f_contiguous:
        return K.T[np.ix_(columns, rows)].T
    out = np.empty((len(columns), len(rows)), dtype=K.dtype)
    for start in range(0, len(columns), _AT_ONCE):  # whole columns, in a core's cache: twice as fast as entry by entry
        some = slice(start, start + _AT_ONCE)
        np.take(K.T[columns[some]], rows, axis=1, out=out[some], mode="clip")
    return out.T
