"""Rows that are copies of others: to a rule that chooses the number of atoms each of them is a row of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit._warning import warn
from kernelpursuit.arrays import in_double, is_array, on_host, to_host
from kernelpursuit.dask.arrays import Sharded
from kernelpursuit.fitting.model import Fitted
from kernelpursuit.fitting.orthogonal import rows_counted
from kernelpursuit.fitting.placement import take_rows
from kernelpursuit.fitting.training import FEW_ROWS, MANY, TrainingData
from kernelpursuit.pursuit.loop import count
from kernelpursuit.pursuit.stopping import gcv_curve, search_charge

ALIKE = 0.01  # share of the repeated inputs that may have other targets by mistake; where more have, copies show noise
COPIED = 0.1  # share of errors that copies make worthless from which intervals are said to be too narrow
MORE = 1.5  # times the atoms that a rule would keep of rows that count once
MET = 4  # times the root of the number of rows: of so many drawn some are alike, where half of all are copies
FEW_DRAWN = 1000  # rows of which all are looked at
GIVEN = "give a number for n_atoms"
SEARCHED = "choose it by a search (KMPRegressorCV, KMPClassifierCV) with `groups` that keep copies together"


def warn_if_copies(
    said: str,
    kept: int,
    data: TrainingData,
    targets: Any,
    counted: float,
    ways_out: Sequence[str] = (),
    together: np.ndarray | None = None,
    kept_once: Callable[[int], float] | None = None,
) -> None:
    """Warn where a rule kept more than it would have kept of rows that are there once.

    Where that is not known: of n rows such a rule keeps n / 2 atoms at most, as each costs its weight and its choice;
    with copies up to all distinct rows, as it costs nothing to fit the noise of a row that is there twice. Copies of an
    input with other targets are another thing: they show how large the noise is. Half of the rows must be copies: of
    rows drawn with replacement, as bagging has them, more than a third are.

    Parameters
    ----------
    said : str
        What was kept, and by which rule.
    kept : int
        How many atoms, or numbers that move.
    data : TrainingData
    targets : array of shape (n_samples, n_targets)
    counted : float
        How many rows there are to the rule: to rows held out weights make no copies.
    ways_out : sequence of str
        What can be done beside leaving out the copies.
    together : ndarray of shape (n_samples,), optional
        Groups that are held out as a whole: copies inside of one are no copies.
    kept_once : callable, optional
        How many atoms the rule would keep of so many rows that count once; 0 where copies leave nothing of the rule.
    """
    n = len(data.rows)
    if isinstance(data.X, Sharded) or kept < FEW_ROWS / 2 or counted > MANY * n:  # that has been said
        return
    which = numbers_of_copies(data.X)
    distinct = int(which.max()) + 1
    if together is not None:
        counted = len(np.unique(np.stack([which, together]), axis=1).T)
    if distinct < FEW_ROWS or distinct > counted / 2 or share_of_unlike(which, targets) > ALIKE:
        return
    fewer = kept if kept_once is None or alike_by_chance(data.X, targets, which, counted) else kept_once(distinct)
    if kept < MORE * fewer and distinct > 2 * kept:
        return
    once = f" (of rows that count once it would be about {fewer:.0f})" if 1 <= fewer <= kept / MORE else ""
    scaled = [] if counted <= n else ["divide weights that are not counts by their mean"]
    ways = ["leave out the copies", *scaled, *ways_out]
    warn(
        f"{said}, and X has only {distinct} distinct rows, which count as {counted:g}. A copy counts as a row of its "
        f"own, so that even noise seems to come back, and the model most likely fits noise{once}: "
        + (", ".join(ways[:-1]) + ", or " if len(ways) > 1 else "")
        + ways[-1]
    )


def numbers_of_copies(X: Any) -> np.ndarray:
    """`row_numbers`, all of them different where hardly any rows are alike, which takes no time to see."""
    n = X.shape[0]
    size = min(n, max(FEW_DRAWN, int(MET * np.sqrt(n))))
    some = np.sort(np.random.default_rng(0).choice(n, size, replace=False))
    if len(np.unique(row_numbers(take_rows(X, some)))) == size:
        return np.arange(n)
    return row_numbers(X)


def alike_by_chance(X: Any, targets: Any, which: np.ndarray, counted: float) -> bool:
    """Whether rows may be alike without being copies, as those of few categories with a class are.

    They are not where weights alone say that rows are copies, nor where a column or a target has other values in most
    of the distinct rows.
    """
    first = np.unique(which, return_index=True)[1]
    if len(which) <= counted / 2:
        return False
    columns = [*to_host(targets)[first].T]
    if not sparse.issparse(X):
        columns += [*to_host(take_rows(X, first)).T]
    return all(len(np.unique(column)) < len(first) / 2 for column in columns)


def kept_by_gcv(fitted: Fitted, data: TrainingData, targets: Any, groups: np.ndarray | None, rows: int) -> float:
    """How many atoms about a rule would have kept of a path, were there so many rows.

    That changes by the share by which the steps of the lowest generalised cross-validation score change. The losses are
    those before a ridge was chosen; without the copies of rows they are the same. Each of the `groups` has a constant.
    """
    more = 0 if groups is None else len(np.unique(groups)) - 1
    path = fitted.path.truncate(len(fitted.path) + len(fitted.path.discarded))
    if fitted.pursued is not None:
        path.steps = [step._replace(loss=loss) for step, loss in zip(path.steps, fitted.pursued[:, 0], strict=True)]
    charge = search_charge(in_double(targets), data.weights)
    once, now = (int(np.argmin(gcv_curve(path, max(n - more, 1), charge))) for n in (rows, rows_counted(data)))
    return len(fitted.path) * once / max(once, now, 1)


def warn_if_chosen_by_copies(
    estimator: Any, fitted: Fitted, data: TrainingData, targets: Any, held_out: bool, groups: np.ndarray | None = None
) -> None:
    """The same of the atoms that the rule of a pursuit has kept, by rows `held_out` or by all rows.

    Rows held out that are copies of rows fitted to say nothing. `groups` are those of a ranker.
    """
    rule = "n_atoms='auto'" if estimator.stop is None else f"stop={estimator.stop!r}"
    k = len(np.unique(fitted.path.atoms))  # steps of the basic variant repeat some
    said, counted = f"{rule} has kept {count(k, 'atom')}", len(data.rows) if held_out else rows_counted(data)
    ways_out = [GIVEN, SEARCHED] if groups is None else [GIVEN]
    together = groups if held_out else None
    kept_once = (lambda rows: 0) if held_out else partial(kept_by_gcv, fitted, data, targets, groups)
    warn_if_copies(said, k, data, targets, counted, ways_out, together, kept_once)


def warn_if_copied_aside(X: Any, y: np.ndarray, rows: np.ndarray, aside: np.ndarray, coverage: float) -> None:
    """Warn where rows whose errors make intervals are copies of rows that the model was fitted to.

    With a share s of errors that say nothing, a new target lies outside about 1 / (1 - s) times as often.

    Parameters
    ----------
    X : {array, sparse matrix, table, list} of n_samples rows
    y : ndarray of shape (n_samples,)
    rows, aside : ndarray of int
        Rows fitted to, and those that the errors are of: the same rows where each is left out in turn.
    coverage : float
    """
    which = row_numbers(X if sparse.issparse(X) else numbers_of_cells(X))
    others = np.bincount(which[rows], minlength=len(which))[which[aside]] - np.isin(aside, rows)
    share = float(np.mean(others > 0))
    present = np.union1d(rows, aside)
    distinct, which = np.unique(which[present], return_inverse=True)
    if share < COPIED or len(distinct) < FEW_ROWS or np.all(y == y[0]):
        return
    if share_of_unlike(which, y[present, None]) > ALIKE:
        return
    warn(
        f"{share:.0%} of the rows that say how wide intervals must be are copies of rows that the model was fitted to, "
        "targets and all. Their errors say little of new rows, so that intervals most likely cover fewer than "
        f"coverage={coverage:g} of new targets: leave out the copies"
    )


def numbers_of_cells(X: Any) -> np.ndarray:
    """Cells of an array, a table or a list as numbers, the same for cells of a column that are equal.

    Examples
    --------
    >>> numbers_of_cells([["red", 2], ["blue", 2], ["red", 3]]).tolist()
    [[1, 0], [0, 0], [1, 1]]
    """
    cells = on_host(X) if is_array(X) else np.asarray(X, dtype=None if hasattr(X, "shape") else object)
    cells = cells.reshape(len(cells), -1)
    if cells.dtype.kind in "fiub":
        return cells
    return np.stack([np.unique(column.astype(str), return_inverse=True)[1] for column in cells.T], axis=1)


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
