"""Duplicate rows: their noise repeats and looks like signal, which misleads every choice by errors of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit._warning import warn
from kernelpursuit.arrays import is_array, on_host, to_host
from kernelpursuit.fitting.fit_warnings import FEWEST_ROWS
from kernelpursuit.fitting.placement import take_rows

FOR_A_CHOICE = 0.5  # share of duplicates that mislead a choice by errors; of rows drawn with replacement, 0.37 are some
FOR_A_PROMISE = 0.1  # share of duplicates that break a promise made by rows held out
DUPLICATES = "are duplicates of others"
OTHER_TARGETS = 0.01  # share of the repeated inputs that may have several targets; where more have, they show the noise
MANY = 5  # weights that sum to more than so many times the rows are hardly counts


def warn_of_duplicates(
    X: Any, targets: Any, total: float = 0.0, *, share: float = FOR_A_CHOICE, groups: np.ndarray | None = None
) -> None:
    """Warn where duplicate rows, or weights that count as such, make noise look like signal.

    Parameters
    ----------
    X : {array, sparse matrix, table, list} of n_samples rows, or None
        None where the rows are remote: they are not looked at.
    targets : array of shape (n_samples, n_targets)
    total : float
        Sum of the weights, where a rule takes it for the number of rows.
    share : float
        Share of the rows from which duplicates do harm, if they have one target: with several they show the noise.
    groups : ndarray of shape (n_samples,), optional
        Groups that are held out as a whole: a duplicate in the group of its row does no harm.
    """
    n = targets.shape[0]
    if total > MANY * n:
        warn(
            f"sample_weight sums to {total:g} for {n} rows. A row of weight w counts as w rows, so that noise looks "
            "like signal and the model may fit it: divide the weights by their mean if they are not counts"
        )
        return
    if X is None:
        return
    if isinstance(X, np.ndarray) or not (sparse.issparse(X) or is_array(X)):
        X = as_numbers(X)
    size = max(1000, int(10 * np.sqrt(n)))  # of so many rows drawn some are equal where a tenth are duplicates
    if n > size:
        sample = np.random.default_rng(0).choice(n, size, replace=False)
        if duplicate_ids(take_rows(X, sample)).max() == size - 1:
            return
    ids = duplicate_ids(X)
    distinct = int(ids.max()) + 1
    apart = n if groups is None else len(np.unique(np.stack([ids, groups]), axis=1).T)
    if distinct < FEWEST_ROWS or distinct > (1 - share) * apart:
        return
    if not coincide(X, targets, ids) and share_of_several(ids, targets) <= OTHER_TARGETS:
        warn(
            f"{n - distinct} of {n} rows {DUPLICATES}, targets and all. Repeated noise looks like signal, so "
            "that the model may fit it, and errors of held-out rows look too small: leave out duplicate rows, or "
            "choose by a search (PursuitSearchCV) with `groups` that keep them together"
        )


def as_numbers(X: Any) -> np.ndarray:
    """Cells of an array, a table or a list as numbers, the same for cells of a column that are equal.

    Examples
    --------
    >>> as_numbers([["red", 2], ["blue", 2], ["red", 3]]).tolist()
    [[1, 0], [0, 0], [1, 1]]
    """
    cells = np.asarray(X)
    cells = cells.reshape(len(cells), -1)
    if cells.dtype.kind in "fiub":
        return cells
    return np.stack([np.unique(column.astype(str), return_inverse=True)[1] for column in cells.T], axis=1)


def duplicate_ids(X: Any) -> np.ndarray:
    """For each row a number from 0 on, the same for rows that are equal.

    Examples
    --------
    >>> duplicate_ids(np.array([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0]]))
    array([1, 0, 1])
    """
    if sparse.issparse(X):  # rows that are equal have equal sums: their terms come in one order
        X = X.tocsr().sorted_indices()
        rows = X @ np.random.default_rng(0).uniform(1, 2, X.shape[1])
    else:
        cells = np.ascontiguousarray(on_host(X)) + 0.0  # -0 is 0
        rows = cells.view(np.dtype((np.void, cells.itemsize * cells.shape[1])))[:, 0]
    return np.unique(rows, return_inverse=True)[1].reshape(-1)


def coincide(X: Any, targets: Any, ids: np.ndarray) -> bool:
    """Whether rows may be equal by chance: no column, nor target, has other values in most of the distinct rows."""
    first = np.unique(ids, return_index=True)[1]
    columns = list(to_host(targets)[first].T)
    if not sparse.issparse(X):
        columns += list(on_host(take_rows(X, first)).T)
    return all(len(np.unique(column)) < len(first) / 2 for column in columns)


def share_of_several(ids: np.ndarray, targets: Any) -> float:
    """Share of the rows that come more than once which come with several targets."""
    order = np.argsort(ids, kind="stable")
    sizes = np.bincount(ids)
    starts, columns = np.cumsum(sizes) - sizes, to_host(targets)[order]
    several = np.any(np.maximum.reduceat(columns, starts) > np.minimum.reduceat(columns, starts), axis=1)
    return float(np.sum(several) / max(1, np.sum(sizes > 1)))
