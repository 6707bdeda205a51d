"""A squared-loss fit along a path whose atoms are known: all steps by a few matrix products."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelpursuit._array import in_span_limit
from kernelpursuit.pursuit.lookahead import Foreseen

_PIVOT = 1e-10  # share of a squared norm below which a factor of inner products has too few digits
_GOOD = 1e-4  # the same for one without a second round


class Stroke(NamedTuple):
    """The fits after 0, 1, ... steps: columns are Q R, targets have coordinates `lengths` along Q."""

    R: np.ndarray  # (size, size), diagonal positive
    lengths: np.ndarray  # (size, n_targets)
    energy: np.ndarray  # (n_targets,), squared norms of the targets without the constant


def at_a_stroke(columns: np.ndarray, targets: np.ndarray, constants: int) -> Stroke | None:
    """Fit targets by the first 1, 2, ... of some columns. None where one of them lies in the span of those before it.

    C = Q₁R₁ with R₁ᵀR₁ = CᵀC is orthonormal to eps times the squared condition number of C, and a second round of that
    to rounding error: see `kernelpursuit.basis.orthonormal`. Only the triangular factor of that round is needed, and
    no second round where the first has all digits that count.

    Parameters
    ----------
    columns : ndarray of shape (n_samples, size)
        The constant, if there is one, and the atoms in their order, rows times the roots of their weights.
    targets : ndarray of shape (n_samples, n_targets)
        Likewise.
    constants : int
        1 where the first column is the constant, else 0.
    """
    if len(columns) < columns.shape[1]:
        return None
    gram = columns.T @ columns
    norms = np.diagonal(gram)
    try:
        first = np.linalg.cholesky(gram).T
        least = float(np.min(np.diagonal(first) ** 2 / norms))
    except np.linalg.LinAlgError:
        least = 0.0
    if least > _GOOD:
        R, lengths = first, np.linalg.solve(first.T, columns.T @ targets)
    elif least > _PIVOT:
        nearly = columns @ np.linalg.inv(first)
        second = np.linalg.cholesky(nearly.T @ nearly).T
        R, lengths = second @ first, np.linalg.solve(second.T, nearly.T @ targets)
    else:
        size, whole = columns.shape[1], np.asarray(np.linalg.qr(np.column_stack([columns, targets]), mode="r"))
        sign = np.where(np.diagonal(whole)[:size] < 0, -1.0, 1.0)[:, None]
        R, lengths = sign * whole[:size, :size], sign * whole[:size, size:]
    if not np.all(np.diagonal(R) ** 2 > in_span_limit(columns) * norms):
        return None
    # Not by the difference of squared norms, which has no digits for targets far from 0.
    centred = targets - columns[:, :constants] / R[0, 0] @ lengths[:constants]
    return Stroke(R, lengths, np.einsum("ij,ij->j", centred, centred))


def as_foreseen(fit: Stroke, foreseen: Foreseen, constants: int) -> bool:
    """Whether each atom takes off the loss what it was said to."""
    whole, found = float(np.sum(fit.energy)), np.sum(fit.lengths[constants:] ** 2, axis=1)
    return bool(np.all(np.abs(found - foreseen.gains * whole) <= foreseen.errors * found))
