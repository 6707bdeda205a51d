"""Residuals of rows, or of groups of rows, that had no part in the weights: exact along a squared-loss path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelpursuit.arrays import Array, from_host, namespace
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.groups import Groups

DETERMINED = 1e-8  # what has less than this share left to the others is fitted by its own atom alone
_AT_ONCE = 32  # directions for which products with all rows are in memory


def leave_out(residual: Array, deflation: Deflation) -> RowsLeftOut | GroupsLeftOut | None:
    """A record of the residuals of rows left out, or of groups where there are groups; None for a single group."""
    if deflation.groups is None:
        return RowsLeftOut(residual, deflation.leverage)
    return GroupsLeftOut(residual, deflation.groups) if deflation.groups.count > 1 else None


class RowsLeftOut:
    """Residuals of rows left out one by one: r / (1 - h) with the leverages h. A step costs O(n) for each target.

    Parameters
    ----------
    residual : array of shape (n_samples, n_targets)
        Weighted residuals before the first direction.
    leverage : callable
        ``leverage(sample)``: what a unit direction adds to the leverages.

    Attributes
    ----------
    residual : array of shape (n_samples, n_targets)
        Weighted residuals of the rows left out.
    """

    def __init__(self, residual: Array, leverage: Callable[[Array], Array]):
        self.residual = residual
        self._leverage = leverage
        self._gap = namespace(residual).ones_like(residual[:, 0])  # 1 - h

    def move(self, sample: Array, length: np.ndarray, residual: Array) -> None:
        """Note that a unit direction joined the span, with a step `length` for each target that left `residual`."""
        xp = namespace(residual)
        self._gap = self._gap - self._leverage(sample)
        # A row that its own atom fits alone keeps its last value: without the row that atom would have no weight.
        determined = (self._gap <= DETERMINED)[:, None]
        gap = xp.where(determined, xp.ones_like(self._gap)[:, None], self._gap[:, None])
        self.residual = xp.where(determined, self.residual, residual / gap)


class GroupsLeftOut:
    """Residuals of groups left out one by one: e = M⁻¹r with M = I - Q_g Q_gᵀ for a group g.

    A new direction q changes M by -q qᵀ in every group at once. With v = M⁻¹q and d = 1 - qᵀv the inverse becomes
    M⁻¹ + v vᵀ / d, and e becomes ``e + v (qᵀe - length) / d``. The vectors v are kept and M never is, so that a step
    costs as much as orthogonalising its direction did.

    Parameters
    ----------
    residual : array of shape (n_samples, n_targets)
        Weighted residuals before the first direction, the constants of the groups taken out.
    groups : Groups
    """

    def __init__(self, residual: Array, groups: Groups):
        self.residual = residual
        self._groups = groups
        self._blocks: list[tuple[Array, Array]] = []  # v, (n_samples, b), and 1 / d, (n_groups, b)
        self._size = 0

    def move(self, sample: Array, length: np.ndarray, residual: Array) -> None:
        """Note that a unit direction joined the span, with a step `length` for each target."""
        groups, xp = self._groups, namespace(sample)
        q = v = sample[:, None]
        for vectors, shares in self._blocks:
            inside = groups.spread(shares * groups.sums(vectors * q))
            v = v + xp.sum(vectors * inside, axis=1)[:, None]
        left = 1 - groups.sums(q * v)
        # A group that the atom fits alone keeps its values: without the group that atom would have no weight.
        determined = left <= DETERMINED
        zero = xp.zeros_like(left)
        share = xp.where(determined, zero, 1 / xp.where(determined, zero + 1, left))
        v = xp.where(groups.spread(determined), xp.zeros_like(v), v)
        change = groups.sums(q * self.residual) - from_host(length, sample)[None, :]
        self.residual = self.residual + v * groups.spread(share * change)
        self._keep(v, share)

    def _keep(self, v: Array, share: Array) -> None:
        """Store a vector v and its shares, with room for `_AT_ONCE` of them at a time; those still to come are zero."""
        column = self._size % _AT_ONCE
        if column == 0:
            self._blocks.append((_room(v), _room(share)))
        vectors, shares = self._blocks[-1]
        vectors[:, column], shares[:, column] = v[:, 0], share[:, 0]
        self._size += 1


def _room(like: Array) -> Array:
    return namespace(like).zeros((like.shape[0], _AT_ONCE), dtype=like.dtype, device=like.device)
