"""Values of a column that lie so far out that all others look alike, such as codes for what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernelpursuit.fitting.fit_warnings import FEWEST_ROWS

RULING = 0.99  # share of the variance of a column that the outlying rows have
FEW_OUTLYING = 0.05  # share of the rows that they may be
GAP = 5  # times the distance of all others, at which each of them lies: of heavy tails none is so far from the next


def outlying_values(X: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Columns that owe nearly all of their variance to few rows, and these rows.

    Columns of which most values are equal (indicators, counts) are as they should be.
    """
    if len(X) < FEWEST_ROWS:
        return
    for column, values in enumerate(X.T):
        centred = values / (np.max(np.abs(values)) or 1.0)  # no square overflows
        rows = outlying_rows((centred - np.median(centred)) ** 2)
        if len(rows) and np.subtract(*np.quantile(np.delete(values, rows), [0.75, 0.25])) != 0:
            yield column, rows


def outlying_rows(squares: NDArray[np.float64]) -> NDArray[np.intp]:
    """Few rows that have nearly all of the sum of `squares`, and each of which lies far beyond all others; or none.

    Examples
    --------
    >>> outlying_rows(np.array([1.0, 1e9, 2.0, 1.5, 1e9] + [1.0] * 35))
    array([1, 4])
    >>> outlying_rows(np.array([1.0, 9.0, 2.0, 1.5, 4.0] + [1.0] * 35))
    array([], dtype=int64)
    """
    n, total = len(squares), np.sum(squares)
    most = max(1, int(FEW_OUTLYING * n))
    first = np.argsort(-squares, kind="stable")[: most + 1]  # the farthest rows, and one more
    squares_of_rows, next_squares = squares[first[:-1]], squares[first[1:]]
    ends = np.flatnonzero((np.cumsum(squares_of_rows) > RULING * total) & (squares_of_rows >= GAP**2 * next_squares))
    return np.sort(first[: ends[0] + 1]) if len(ends) else first[:0]
