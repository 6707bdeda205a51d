"""Directions of remote rows: a block of them is made by one read, from inner products that are known before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, eps, from_host, in_span_limit
from kernelpursuit.math.basis import Basis
from kernelpursuit.math.cholesky import leading, pivot_limit, pivots

LARGEST_INSIDE = 0.1  # largest inner product of columns made orthonormal by known products, for these to be trusted


class FirstRound(NamedTuple):
    """Columns made orthonormal by known inner products, to as many digits as these have."""

    samples: Array  # (n_samples, b)
    tails: np.ndarray  # (b, any)
    inside: np.ndarray  # (size, b), what was taken out of the columns along the directions
    outside: np.ndarray  # (b, b), triangular: what is left of the columns is ``samples @ outside``
    before: np.ndarray  # (b,), squared norms of the columns


class SecondRound(NamedTuple):
    """Factors that make new directions of nearly orthonormal columns: (columns - directions `along`) `turn`."""

    along: np.ndarray  # (size, b)
    turn: np.ndarray  # (b, taken)


class RemoteBasis(Basis):
    """A `Basis` of remote rows, whose two rounds for a block of columns need not read anything themselves."""

    def begin(self, column: Array, squared: float) -> None:
        """Make `column`, whose squared norm is known, the first direction: nothing is read."""
        length = float(np.sqrt(squared))
        self._rows[:1, :] = (column / length)[None, :]
        self._R[0, 0], self.size = length, 1

    def first_round(self, columns: Array, tails: np.ndarray, inside: np.ndarray, gram: np.ndarray) -> FirstRound:
        """The first round of `extend` by products that are known: nothing is read.

        Parameters
        ----------
        columns : array of shape (n_samples, b)
        tails : ndarray of shape (b, any)
        inside : ndarray of shape (size, b)
            Products of the columns with the directions.
        gram : ndarray of shape (b, b)
            Inner products of the columns outside the span.
        """
        self._reserve(self.size + columns.shape[1], tails.shape[1])
        tails = np.pad(tails, ((0, 0), (0, self._tails.shape[1] - tails.shape[1])))
        before = np.diagonal(gram) + np.sum(inside**2, axis=0)
        factor, kept = pivots(gram, pivot_limit(eps(columns)) * np.diagonal(gram))
        count = leading(kept)
        factor, inside = factor[:count, :count].T, inside[:, :count]
        inverse, Q = np.linalg.inv(factor) if count else factor, self.directions
        rest = columns[:, :count] - (from_host(inside.T, Q) @ Q).T
        tails = inverse.T @ (tails[:count] - inside.T @ self.tails)
        return FirstRound(rest @ from_host(inverse, columns), tails, inside, factor, before[:count])

    def second_round(self, near: FirstRound, along: np.ndarray, gram: np.ndarray) -> SecondRound | None:
        """The second round: add the directions of columns that are nearly orthonormal.

        Parameters
        ----------
        near : FirstRound
        along : ndarray of shape (size, b)
            Products of its samples with those of the directions.
        gram : ndarray of shape (b, b)
            Inner products of its samples.

        Returns
        -------
        SecondRound or None
            None, and nothing is added, where the products that were known had too few digits.
        """
        along, gram = along + self.tails @ near.tails.T, gram + near.tails @ near.tails.T
        left = gram - along.T @ along
        wrong = max(np.max(np.abs(along), initial=0.0), np.max(np.abs(left - np.eye(len(left))), initial=0.0))
        if not wrong < LARGEST_INSIDE:
            return None
        again = np.linalg.cholesky(left).T
        turn = np.linalg.inv(again) if len(again) else again
        inside, outside = near.inside + along @ near.outside, again @ near.outside
        outside_span = np.diagonal(outside) ** 2 > in_span_limit(near.samples) * near.before
        taken = len(outside) if outside_span.all() else int(np.argmin(outside_span))
        old, new, Q = slice(self.size), slice(self.size, self.size + taken), self.directions
        rest = near.samples - (from_host(along.T, Q) @ Q).T
        self._rows[new, :] = (rest @ from_host(turn[:, :taken], near.samples)).T
        self._tails[new] = turn[:, :taken].T @ (near.tails - along.T @ self.tails)
        self._R[old, new], self._R[new, new] = inside[:, :taken], outside[:taken, :taken]
        self.size += taken
        return SecondRound(along, turn[:, :taken])
