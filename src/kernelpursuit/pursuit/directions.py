"""Directions that chosen atoms add to a fit: orthogonal to those before, or (basic pursuit) along the atoms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import Array, namespace, squared_norms, to_host
from kernelpursuit.math.basis import Basis


class Deflated(NamedTuple):
    """Some atoms with the span removed, in float64."""

    columns: Array  # (n_samples, b), the part outside the span, weighted
    tails: np.ndarray  # (b, any), its penalty coordinates
    squared: np.ndarray  # squared norm of that part, penalty included
    centred: np.ndarray  # squared norm with only the constant removed
    raw: np.ndarray  # squared norm of the atom

    def products(self, samples: Array, tails: np.ndarray) -> np.ndarray:
        """Products, (b, t) on the host, with vectors that have sample parts (n_samples, t) and tails (any, t)."""
        width = min(self.tails.shape[1], len(tails))
        return to_host(self.columns.T @ samples) + self.tails[:, :width] @ tails[:width]


class Direction(NamedTuple):
    """A unit vector that an atom adds to the fit."""

    atom: int
    sample: Array
    tail: np.ndarray


def side_by_side(directions: list[Direction]) -> tuple[Array, np.ndarray]:
    """Directions as columns: sample parts, (n_samples, b), and tails, (any, b), with zeros where one is shorter."""
    samples = namespace(directions[0].sample).stack([direction.sample for direction in directions], axis=0).T
    return samples, tails_of(directions)


def tails_of(directions: list[Direction]) -> np.ndarray:
    """Tails of directions as columns, (any, b), with zeros where one is shorter."""
    tails = np.zeros((max(len(direction.tail) for direction in directions), len(directions)))
    for column, direction in enumerate(directions):
        tails[: len(direction.tail), column] = direction.tail
    return tails


class SpanDirections:
    """Directions of atoms that join the span: each is orthogonal to those before it.

    Parameters
    ----------
    basis : Basis
        Holds the constant if there is an intercept, and then the directions.
    """

    def __init__(self, basis: Basis):
        self._basis = basis
        self._constants = basis.size  # directions before the first atom: 1 with an intercept

    def extend(self, block: list[int], columns: Array, tails: np.ndarray) -> list[Direction]:
        """Directions that the atoms of `block` add one after the other. The first that adds none ends the block.

        Parameters
        ----------
        block : list of int
        columns : array of shape (n_samples, b)
        tails : ndarray of shape (b, any)
            Penalty coordinates.
        """
        basis, before = self._basis, self._basis.size
        taken = basis.extend(columns, tails)
        return [
            Direction(atom, basis.directions[row, :], basis.tails[row, : tails.shape[1]])
            for row, atom in enumerate(block[:taken], start=before)
        ]

    def give_back(self, count: int) -> None:
        """Undo `extend` for its last `count` directions. Their penalty coordinates stay: unused ones do no harm."""
        self._basis.truncate(self._basis.size - count)

    def solve(self, atoms: list[int], theta: np.ndarray) -> np.ndarray:
        """Weights of `atoms`, the intercept first, in a fit whose coordinates along their directions are `theta`."""
        size = len(theta)
        coef = solve_triangular(self._basis.R[:size, :size], theta)
        return coef if self._constants else np.concatenate([np.zeros((1, theta.shape[1])), coef])

    def coefficients(self, atoms: list[int]) -> np.ndarray:
        """The directions of `atoms`, each as a combination of the constant and the atoms.

        Returns
        -------
        ndarray of shape (1 + n_distinct_atoms, 1 + len(atoms))
            Column 0 is the direction of the constant, zero without an intercept; row 0 holds its coefficients.
        """
        out = np.zeros((1 + len(atoms), 1 + len(atoms)))
        first, size = 1 - self._constants, len(atoms) + self._constants
        out[first:, first:] = self._basis.inverse()[:size, :size]
        return out


class RawDirections:
    """Directions of basic matching pursuit: along each atom, without the constant. Same methods as `SpanDirections`.

    Parameters
    ----------
    basis : Basis
        Holds the constant if there is an intercept, and nothing else.
    """

    def __init__(self, basis: Basis):
        self._basis = basis
        self._taken: list[tuple[int, float, float]] = []  # atom, its length, its part along the constant

    def extend(self, block: list[int], columns: Array, tails: np.ndarray) -> list[Direction]:
        """Unit vectors along the atoms of `block`."""
        rest, _, inside = self._basis.complement(columns, np.zeros((len(block), 0)))
        lengths = np.sqrt(squared_norms(rest) + np.sum(tails**2, axis=1))
        constants = inside[0] if len(inside) else np.zeros(len(block))
        self._taken += zip(block, lengths.tolist(), constants.tolist(), strict=True)
        return [
            Direction(atom, rest[:, column] / float(lengths[column]), tails[column] / lengths[column])
            for column, atom in enumerate(block)
        ]

    def give_back(self, count: int) -> None:
        """Undo `extend` for its last `count` directions."""
        del self._taken[len(self._taken) - count :]

    def solve(self, atoms: list[int], theta: np.ndarray) -> np.ndarray:
        """Weights of `atoms`, the intercept first, in a fit whose coordinates along their directions are `theta`."""
        return self.coefficients(atoms)[:, 1 - self._basis.size :] @ theta

    def coefficients(self, atoms: list[int]) -> np.ndarray:
        """The directions of `atoms`, each as a combination of the constant and the distinct atoms."""
        order = {atom: row for row, atom in enumerate(dict.fromkeys(atoms), start=1)}
        out = np.zeros((1 + len(order), 1 + len(atoms)))
        if self._basis.size:
            out[0, 0] = 1 / self._basis.R[0, 0]
        for column, (atom, length, constant) in enumerate(self._taken[: len(atoms)], start=1):
            out[order[atom], column] = 1 / length
            out[0, column] = -constant / length * out[0, 0]
        return out
