"""What atoms add to a fit: their part outside the span, and for chosen atoms the unit vector along it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import Array, namespace, squared_norms, to_host
from kernelpursuit.math.basis import Basis
from kernelpursuit.pursuit.ridge import Ridge

Known = Callable[[np.ndarray, Array], "np.ndarray | None"]


class Deflated(NamedTuple):
    """Some atoms with the span removed, in float64."""

    columns: Array  # (n_samples, b), the part outside the span, weighted
    tails: np.ndarray  # (b, any), the same for the penalty coordinates
    squared: np.ndarray  # squared norm of that part, penalty included
    start: np.ndarray  # squared norm with only the constant removed
    raw: np.ndarray  # squared norm of the atom as it is

    def products(self, samples: Array, tails: np.ndarray) -> np.ndarray:
        """Products, (b, t) on the host, with vectors that have sample parts (n_samples, t) and tails (any, t)."""
        width = min(self.tails.shape[1], len(tails))
        return to_host(self.columns.T @ samples) + self.tails[:, :width] @ tails[:width]


def check_finite(norms: np.ndarray) -> None:
    """An error where the squared norms of atoms overflow."""
    if not np.all(np.isfinite(norms)):
        raise ValueError("the atoms overflow on X: scale X, or change kernel or gamma")


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


class Joined:
    """Directions of atoms that join the span: each is orthogonal to those before it.

    Parameters
    ----------
    basis : Basis
        Holds the constant if there is an intercept, and then the directions.
    ridge : Ridge or None
    columns : callable
        ``columns(atoms)``, (n_samples, len(atoms)), weighted.
    known : callable, optional
        ``known(atoms, columns)``, their products with the directions as far as they are known, or None.
    """

    def __init__(
        self,
        basis: Basis,
        ridge: Ridge | None,
        columns: Callable[[np.ndarray], Array],
        known: Known | None = None,
    ):
        self._basis, self._ridge, self._columns, self._known = basis, ridge, columns, known
        self._constants = basis.size  # directions before the first atom: 1 with an intercept

    def extend(self, block: list[int]) -> list[Direction]:
        """Directions that the atoms of `block` add one after the other. The first that adds none ends the block."""
        atoms, basis = np.array(block), self._basis
        tails = np.zeros((len(block), 0)) if self._ridge is None else self._ridge.extend(atoms)
        before, columns = basis.size, self._columns(atoms)
        known = None if self._known is None else self._known(atoms, columns)
        taken = basis.extend(columns, tails, known)
        return [
            Direction(atom, basis.directions[row, :], basis.tails[row, : tails.shape[1]])
            for row, atom in enumerate(block[:taken], start=before)
        ]

    def give_back(self, directions: list[Direction]) -> None:
        """Undo `extend` for its last `directions`. Their penalty coordinates stay: unused ones do no harm."""
        self._basis.truncate(self._basis.size - len(directions))

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


class Apart:
    """Directions of basic matching pursuit: each is along its atom, without the constant. Same methods as `Joined`."""

    def __init__(self, basis: Basis, ridge: Ridge | None, columns: Callable[[np.ndarray], Array]):
        self._basis, self._ridge, self._columns = basis, ridge, columns
        self._taken: list[tuple[int, float, float]] = []  # atom, its length, its part along the constant

    def extend(self, block: list[int]) -> list[Direction]:
        """Unit vectors along the atoms of `block`."""
        return [self._normalise(atom) for atom in block]

    def _normalise(self, atom: int) -> Direction:
        index = np.array([atom])
        tail = np.zeros(0) if self._ridge is None else self._ridge.extend(index)[0]
        rest, _, inside = self._basis.complement(self._columns(index), np.zeros((1, 0)))
        length = float(np.sqrt(squared_norms(rest)[0] + tail @ tail))
        self._taken.append((atom, length, float(inside[0, 0]) if len(inside) else 0.0))
        return Direction(atom, rest[:, 0] / length, tail / length)

    def give_back(self, directions: list[Direction]) -> None:
        """Undo `extend` for its last `directions`."""
        del self._taken[len(self._taken) - len(directions) :]

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
