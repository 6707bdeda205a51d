"""The criteria of remote rows: the formulas of the core, with as few messages as they allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, energies, gather, in_double, namespace, padded, to_host
from kernelpursuit.atoms.weighted import WeightedDictionary
from kernelpursuit.criteria.fisher import Fisher
from kernelpursuit.criteria.rayleigh import Prepared as PreparedColumns
from kernelpursuit.criteria.rayleigh import Rayleigh
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.math.cholesky import PartialCholesky, forward
from kernelpursuit.math.discriminants import Within, triangle
from kernelpursuit.pursuit.directions import Direction, side_by_side
from kernelpursuit.pursuit.loop import Step

_FALLEN = 1e-3  # share of ‖r‖² below which a difference has lost too many digits


class RemoteSquares(Squares):
    """`Squares` of remote rows. What a step needs to know of its block is read with the products of the block."""

    def _prepare(self, block: list[int]) -> tuple[list[int], Any]:
        directions = self.deflation.extend(block)
        if not directions:
            return [], (directions, None)
        lengths = StepLengths(self._r, self._r_tail, directions, self._shrinkage, self.deflation.orthogonal)
        products = self._correlate(directions)  # a message, which brings the inner products of `lengths` too
        return [direction.atom for direction in directions], (directions, (products, lengths.walk()))

    def _accept(self, prepared: Any, index: int, atom: int, score: float) -> Step:
        directions, (products, steps) = prepared
        length, energy = steps[index]
        self._move(directions[index], length)
        moments = None if products is None else products[:, index]
        loss = self._loss() if energy is None else energy / self.deflation.total_weight
        return self._finish_step(atom, score, length, moments, loss, self._left_out_error())

    def _left_out_error(self) -> Any:
        """The mean squared left-out residual, read when it is needed, or with the next message."""
        if self._left_out is None:
            return np.nan
        residual = self._left_out.residual
        return residual.program.reduce(share_of_energy, residual, self.deflation.total_weight)


def share_of_energy(residual: np.ndarray, total: float) -> float:
    """Sum of squares over a total."""
    return float(np.sum(residual**2)) / total


class StepLengths:
    """How far the squared loss goes along each direction of a block, from inner products that are read together.

    With r₀ the residual before the block, direction t is taken with length z_t = share (q_tᵀr₀ − Σ_s q_tᵀq_s z_s), and
    ‖r‖² changes by z_t² ‖q_t‖² − 2 z_t q_tᵀr. For directions that are orthogonal the inner products are 0.

    Parameters
    ----------
    residual : array of shape (n_samples, n_targets)
    tail : ndarray of shape (any, n_targets)
        Penalty coordinates of the residual.
    directions : list of Direction
    share : float
        Of the full step.
    orthogonal : bool
        Whether the directions are orthonormal.
    """

    def __init__(self, residual: Array, tail: np.ndarray, directions: list[Direction], share: float, orthogonal: bool):
        samples, tails = side_by_side(directions)
        width = max(len(tail), len(tails))
        self._tails, self._tail, self._share = padded(tails, width), padded(tail, width), share
        # Remote, and read with the next message.
        self._inside, self._energy = samples.T @ residual, energies(residual)
        self._inner = None if orthogonal else samples.T @ samples

    def walk(self) -> list[tuple[np.ndarray, float | None]]:
        """Length of each step, and ‖r‖² after it, penalty included: None where too few digits of it are left."""
        inside = to_host(self._inside) + self._tails.T @ self._tail
        first = energy = float(np.sum(to_host(self._energy)) + np.sum(self._tail**2))
        inner = np.eye(len(inside)) if self._inner is None else to_host(self._inner) + self._tails.T @ self._tails
        lengths, steps = np.zeros_like(inside), []
        for t in range(len(inside)):
            now = inside[t] - inner[t, :t] @ lengths[:t]
            lengths[t] = self._share * now
            energy += float(np.sum(lengths[t] ** 2 * inner[t, t] - 2 * lengths[t] * now))
            steps.append((lengths[t], energy if energy > _FALLEN * first else None))
        return steps


class RemoteWithin(Within):
    """`Within` of remote rows."""

    def root(self, Q: Array, means: np.ndarray) -> np.ndarray:
        """Upper triangular N with NᵀN = QBQᵀ, joined of those of the blocks of rows."""
        xp = namespace(Q)
        spread = xp.sqrt(self.weights)[:, None] * (Q.T - self.roots[:, None] * (self.member @ means))
        return triangle(to_host(xp.root(spread)))


class RemoteFisher(Fisher):
    """`Fisher` of remote rows, whose classes are where the rows are."""

    scatter = RemoteWithin

    def _checked(self, classes_index: Any) -> Array:
        return classes_index

    def _at_classes(self, weights: Array) -> Array:
        return weights


class Trace(NamedTuple):
    """Numbers that are known of remote rows, of which the atoms are some."""

    trace: float  # of the kernel matrix of all rows, weighted
    rows: float  # how many there are, weighted
    unit: float  # mean weight
    roots: Array | None  # (n_rows, 1), roots of the weights over the unit, where the rows are


class RemoteRayleigh(Rayleigh):
    """`Rayleigh` of remote rows, of which the atoms are some: its `diagonal` and `available` are those of the atoms.

    Parameters
    ----------
    dictionary : RemoteDictionary
    selection, rng
        As of `Rayleigh`.
    weights : ndarray of shape (n_atoms,), optional
    of_rows : Trace
    """

    def __init__(
        self,
        dictionary: Any,
        *,
        of_rows: Trace,
        selection: str = "rayleigh",
        weights: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ):
        self._of_rows, self._taken_off = of_rows, 0.0
        relative = np.ones(dictionary.shape[1]) if weights is None else weights / of_rows.unit
        if of_rows.roots is not None:
            dictionary = RemoteWeightedDictionary(dictionary, relative, of_rows.roots)
        self._begin(dictionary, relative, selection, rng)
        self._cholesky = RemoteCholesky(self._like, dictionary.shape[1], lambda J: self.D.gram(None, J))

    def factor(self) -> Array:
        """L, (n_rows, number of atoms taken), where the rows are."""
        rows = self._cholesky.rows[: len(self._chosen), :].T
        return rows if self._of_rows.roots is None else rows / self._of_rows.roots

    def _accept(self, prepared: PreparedColumns, index: int, atom: int, score: float) -> Step:
        self._taken_off += float(prepared.lengths[index])
        return super()._accept(prepared, index, atom, score)

    def _loss(self) -> float:
        return max(0.0, self._of_rows.trace - self._taken_off) / self._of_rows.rows


class RemoteWeightedDictionary(WeightedDictionary):
    """A `WeightedDictionary` of remote rows, the roots of whose weights are known."""

    def __init__(self, dictionary: Any, weights: np.ndarray, roots: Array):
        self._given = roots
        super().__init__(dictionary, weights)

    def _roots_of_rows(self) -> Array:
        return self._given


class RemoteCholesky:
    """A `PartialCholesky` of a matrix between remote rows and centres, of which the pivots are some.

    U is kept twice: over the rows, where they are, and over the centres, here. Entries at centres are computed from the
    latter, so that no row has to be looked up.

    Parameters
    ----------
    like : array of shape (n_rows, ...)
    centres : int
    gram : callable
        ``gram(J)``, the matrix between all centres and centres `J`, on the host.
    """

    def __init__(self, like: Array, centres: int, gram: Callable[[np.ndarray], np.ndarray]):
        xp = namespace(like)
        self._gram, self._here = gram, PartialCholesky(np.empty((centres, 0)))
        self._remote = xp.empty((16, like.shape[0]), dtype=xp.float64, device=like.device)

    @property
    def pivots(self) -> list[int]:
        """Centres that are pivots."""
        return self._here.pivots

    @property
    def rows(self) -> Array:
        """U over the rows, (n_pivots, n_rows)."""
        return self._remote[: len(self.pivots), :]

    def here(self, first: int = 0) -> np.ndarray:
        """U over the centres from row `first` on."""
        return self._here.rows[first:]

    def left(self, columns: Array, J: np.ndarray, size: int | None = None) -> Array:
        """Columns `J` less their part that the first `size` pivots (None: all) explain, where the rows are."""
        U = self.rows[:size, :]
        return in_double(columns) - U.T @ self.here()[:size, J] if U.shape[0] else in_double(columns)

    def entries(self, left: Array, I: np.ndarray, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Entries at centres `I` of what is left of columns `J`."""
        V = self.here()
        return self._gram(J)[I] - V[:, I].T @ V[:, J]

    def extend(self, columns: Array, J: list[int], floor: np.ndarray, skip: bool = False) -> np.ndarray:
        """Make centres `J` pivots, in order, as `PartialCholesky.extend` does; nothing is read."""
        block, before = np.array(J, dtype=np.intp), len(self.pivots)
        left = self.left(columns, block)
        kept = self._here.extend(self._gram(block), J, floor, skip)
        size = before + len(kept)
        if size > self._remote.shape[0]:
            room = namespace(left).empty((2 * size, left.shape[0]), dtype=left.dtype, device=left.device)
            room[:before, :] = self._remote[:before, :]
            self._remote = room
        if len(kept):
            L = self._here.rows[before:, block[kept]].T
            self._remote[before:size, :] = forward(L, gather(left, kept, axis=1).T)
        return kept

    def explained(self, vectors: Array, taken: int) -> np.ndarray:
        """As `PartialCholesky.explained`, at the centres."""
        count = taken + vectors.shape[1]
        inside = np.triu(to_host(self._remote[:count, :] @ vectors), 1 - taken)
        return self.here()[:count].T @ inside

    def truncate(self, size: int) -> None:
        """Give up all but the first `size` pivots."""
        self._here.truncate(size)
