"""Rows that are copies of others: to a rule that chooses the number of atoms each of them is a row of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit._array import to_host
from kernelpursuit._warning import warn
from kernelpursuit.estimators._orthogonal import rows_counted
from kernelpursuit.estimators._placement import take_rows
from kernelpursuit.estimators._training import FEW_ROWS, MANY, TrainingData
from kernelpursuit.pursuit.loop import Path
from kernelpursuit.sharded.arrays import Sharded

ALIKE = 0.01  # share of the repeated inputs that may have other targets by mistake; where more have, copies show noise


def warn_if_copies(estimator: Any, path: Path, data: TrainingData, targets: Any) -> None:
    """Warn where a rule took so many atoms that the rows it counted must have been copies.

    Of n rows such a rule keeps n / 2 atoms at most, as each costs its weight and its choice; with copies up to all
    distinct rows, as it costs nothing to fit the noise of a row that is there twice. Copies of an input with other
    targets are another thing: they show how large the noise is.
    """
    k, counted = len(path), rows_counted(data)
    if isinstance(data.X, Sharded) or k < FEW_ROWS / 2 or data.total > MANY * len(data.rows):  # that has been said
        return
    some = np.arange(min(len(data.rows), 4 * k))  # of rows without copies these are enough to know
    if len(np.unique(row_numbers(take_rows(data.X, some)))) > 2 * k:
        return
    which = row_numbers(data.X)
    distinct = int(which.max()) + 1
    if distinct < FEW_ROWS or distinct > min(2 * k, counted / 2) or share_of_unlike(which, targets) > ALIKE:
        return
    rule = "n_atoms='auto'" if estimator.stop is None else f"stop={estimator.stop!r}"
    weights = "" if data.weights is None else "divide weights that are not counts by their mean, "
    warn(
        f"{rule} has kept {k} atoms, and X has only {distinct} distinct rows, which count as {counted:g}. To the rule "
        "a copy is a row of its own, so that even noise seems to come back, and the model most likely fits noise. "
        f"Leave out the copies, {weights}give a number for n_atoms, or choose it by a search (KMPRegressorCV, "
        "KMPClassifierCV) with `groups` that keep copies together"
    )


def row_numbers(X: Any) -> np.ndarray:
    """For each row a number from 0 on, the same for rows that are equal.

    Examples
    --------
    >>> import numpy as np
    >>> row_numbers(np.array([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0]]))
    array([1, 0, 1])
    """
    if sparse.issparse(X):  # rows that are equal have equal sums: their terms come in the same order
        X = X.tocsr().sorted_indices()
        rows = X @ np.random.default_rng(0).uniform(1, 2, X.shape[1])
    else:
        wide = np.ascontiguousarray(to_host(X)) + 0.0  # -0 is 0
        rows = wide.view(np.dtype((np.void, wide.itemsize * wide.shape[1])))[:, 0] if wide.shape[1] > 1 else wide[:, 0]
    return np.unique(rows, return_inverse=True)[1].reshape(-1)


def share_of_unlike(which: np.ndarray, targets: Any) -> float:
    """Share of the rows that are there more than once whose copies have other targets."""
    order = np.argsort(which, kind="stable")
    sizes = np.bincount(which)
    starts, columns = np.cumsum(sizes) - sizes, to_host(targets)[order]
    unlike = np.any(np.maximum.reduceat(columns, starts) > np.minimum.reduceat(columns, starts), axis=1)
    return float(np.sum(unlike) / max(1, np.sum(sizes > 1)))
