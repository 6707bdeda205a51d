"""The criteria of remote rows: the formulas of the core, with all numbers of a block of atoms in one message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, energies, from_host, gather, in_double, namespace, to_host
from kernelpursuit.atoms.weighted import WeightedDictionary
from kernelpursuit.criteria.fisher import Fisher, Scattered
from kernelpursuit.criteria.rayleigh import Prepared as PreparedColumns
from kernelpursuit.criteria.rayleigh import Rayleigh
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.dask.steps import BlockSteps, LazyScalar, RemoteDeflation, remote_block_directions
from kernelpursuit.math.cholesky import PartialCholesky, forward
from kernelpursuit.math.discriminants import Within, triangle
from kernelpursuit.pursuit.directions import Direction
from kernelpursuit.pursuit.loop import Step


class RemoteSquares(Squares):
    """`Squares` of remote rows. Of a block it hands the products and the steps from `_prepare` to `_accept`."""

    deflation = RemoteDeflation
    atoms: RemoteDeflation

    def _fit_constant(self) -> float:
        direction = Direction(-1, self.atoms.basis.directions[0, :], np.zeros(0))
        steps = BlockSteps(self._r, self._r_tail, [direction], 1.0, True).walk()
        self._constant = steps.lengths[0]
        self._move(direction, self._constant)
        return self._loss_after(steps, 0)

    def _loss_after(self, steps: BlockSteps, index: int) -> float:
        energy = steps.energy(index)
        return self._loss() if energy is None else energy / self.atoms.total_weight

    def _prepare(self, block: list[int]) -> tuple[list[int], Any]:
        found = None
        if self.atoms.orthogonal:
            found = remote_block_directions(self.atoms, block, self._r, self._r_tail)
        directions = self.atoms.extend(block) if found is None else found.directions
        known = None if found is None else (found.inside, found.energy)
        steps = BlockSteps(self._r, self._r_tail, directions, self._shrinkage, self.atoms.orthogonal, known)
        products = self._correlate(directions) if found is None else found.products  # read, and others come along
        return [direction.atom for direction in directions], (directions, (products, steps.walk(self._left_out)))

    def _accept(self, prepared: Any, index: int, atom: int, score: float) -> Step:
        directions, (products, steps) = prepared
        length, after = steps.lengths[index], steps.after(index)
        if after is None:
            self._move(directions[index], length)
        else:
            self._move_tail(directions[index].tail, length)
            self._r, self._left_out = after
        moments = None if products is None else products[:, index]
        left_out = steps.left_out(index, self.atoms.total_weight)
        return self._finish_step(atom, score, length, moments, self._loss_after(steps, index), left_out)

    def _left_out_error(self) -> Any:
        if self._left_out is None:
            return np.nan
        return LazyScalar(energies(self._left_out.residual), self.atoms.total_weight)


class RemoteWithin(Within):
    """`Within` of remote rows."""

    def root(self, Q: Array, means: np.ndarray) -> np.ndarray:
        """Upper triangular N with NᵀN = QBQᵀ, joined of those of the blocks of rows."""
        xp = namespace(Q)
        spread = xp.sqrt(self.weights)[:, None] * (Q.T - self.roots[:, None] * (self.member @ means))
        return triangle(to_host(xp.root(spread)))


class RemoteFisher(Fisher):
    """`Fisher` of remote rows, whose classes are where the rows are."""

    deflation, scatter = RemoteDeflation, RemoteWithin

    def _checked(self, classes_index: Any) -> Array:
        return classes_index

    def _at_classes(self, weights: Array) -> Array:
        return weights

    def _prepare(self, block: list[int]) -> tuple[list[int], Any]:
        directions, vectors, forms = self._directions(block)
        steps = BlockSteps(self._u, np.zeros((0, self._u.shape[1])), directions, 1.0, True)
        products = self._correlate(directions, vectors)  # this is read, and all else comes along
        return [direction.atom for direction in directions], (directions, (Scattered(forms, products), steps.walk()))

    def _accept(self, prepared: Any, index: int, atom: int, score: float) -> Step:
        directions, (scattered, steps) = prepared
        length, energy = steps.lengths[index], steps.energy(index)
        self._u = self._u - directions[index].sample[:, None] * from_host(length, self._u)[None, :]
        loss = self._loss() if energy is None else energy / self.atoms.total_weight
        return self._finish_step((directions, scattered), index, atom, score, length, loss)


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
        self._cholesky = RemoteCholesky(self._like, lambda J: self.D.gram(None, J))

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

    U is there twice: over the rows, where they are, and over the centres, here. Entries of what is left at centres come
    from these, so that no row has to be looked up.

    Parameters
    ----------
    like : array of shape (n_rows, ...)
    gram : callable
        ``gram(J)``, the matrix between all centres and centres `J`, on the host.
    """

    def __init__(self, like: Array, gram: Callable[[np.ndarray], np.ndarray]):
        self._gram, self._like = gram, like
        self._here: PartialCholesky | None = None
        self._remote: Array = None

    @property
    def pivots(self) -> list[int]:
        """Centres that are pivots."""
        return [] if self._here is None else self._here.pivots

    @property
    def rows(self) -> Array:
        """U over the rows, (n_pivots, n_rows)."""
        return self._remote[: len(self.pivots), :]

    def here(self, first: int = 0) -> np.ndarray:
        """U over the centres from row `first` on."""
        return np.zeros((0, 0)) if self._here is None else self._here.rows[first:]

    def left(self, columns: Array, J: np.ndarray, size: int | None = None) -> Array:
        """Columns `J` less their part that the first `size` pivots (None: all) explain, where the rows are."""
        size = len(self.pivots) if size is None else size
        if size == 0:
            return in_double(columns)
        return in_double(columns) - self._remote[:size, :].T @ self.here()[:size, J]

    def entries(self, left: Array, I: np.ndarray, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Entries at centres `I` of what is left of columns `J`."""
        V = self.here()
        inside = V[:, I].T @ V[:, J] if len(V) else 0.0
        return self._gram(J)[I] - inside

    def extend(self, columns: Array, J: list[int], floor: np.ndarray, skip: bool = False) -> np.ndarray:
        """Make centres `J` pivots, in order, as `PartialCholesky.extend` does; nothing is read."""
        block, before = np.array(J, dtype=np.intp), len(self.pivots)
        left, products = self.left(columns, block), self._gram(block)
        if self._here is None:
            self._here = PartialCholesky(products)
        kept = self._here.extend(products, J, floor, skip)
        if len(kept):
            L = self._here.rows[before:, block[kept]].T
            self._append(forward(L, gather(left, kept, axis=1).T), before)
        return kept

    def _append(self, rows: Array, before: int) -> None:
        xp, size = namespace(rows), before + rows.shape[0]
        if self._remote is None or size > self._remote.shape[0]:
            room = xp.empty((max(16, 2 * size), rows.shape[1]), dtype=rows.dtype, device=rows.device)
            if before:
                room[:before, :] = self._remote[:before, :]
            self._remote = room
        self._remote[before:size, :] = rows

    def explained(self, vectors: Array, taken: int) -> np.ndarray:
        """As `PartialCholesky.explained`, at the centres."""
        count = taken + vectors.shape[1]
        inside = np.triu(to_host(self._remote[:count, :] @ vectors), 1 - taken)
        return self.here()[:count].T @ inside

    def truncate(self, size: int) -> None:
        """Give up all but the first `size` pivots."""
        if self._here is not None:
            self._here.truncate(size)
