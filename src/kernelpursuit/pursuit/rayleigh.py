"""Kernel approximation: atoms whose span in feature space holds most of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelpursuit._array import (
    WIDEST_TIE,
    Array,
    eps,
    from_host,
    gather,
    namespace,
    squared_norms,
    tie_tolerance,
    to_host,
)
from kernelpursuit.dictionaries import WeighedDictionary, sweep
from kernelpursuit.dictionaries.protocol import Dictionary
from kernelpursuit.pursuit.loop import Step, certificate
from kernelpursuit.pursuit.rehearsal_matrices import Downdated, pairs

SELECTIONS = ("rayleigh", "diagonal", "random")


class Rayleigh:
    """Partial Cholesky factor L of a kernel matrix, one atom at a time, K⁽ᵗ⁾ = K - LLᵀ being what is left.

    A step with atom i deflates K⁽ᵗ⁾ by ``l lᵀ``, ``l = K⁽ᵗ⁾eᵢ / √dᵢ``, ``d = diag K⁽ᵗ⁾``. After t steps LLᵀ is the
    Nyström matrix of the chosen atoms, dᵢ the squared distance of point i to their span in feature space, and the loss
    of a step is the mean of d (residual trace over n).

    ========== ================ ================================================= ==================
    selection  score            meaning                                           one pass of
    ========== ================ ================================================= ==================
    rayleigh   ‖K⁽ᵗ⁾eᵢ‖² / dᵢ    drop of the trace: greatest first (sparse KPCA)   l
    diagonal   dᵢ               pivoted Cholesky, P-greedy: farthest point first  nothing
    random     a draw           probability dᵢ / trace: randomly pivoted Cholesky nothing
    ========== ================ ================================================= ==================

    With hᵢ = ‖K⁽ᵗ⁾eᵢ‖² and g = K⁽ᵗ⁾l = Kl - L(Lᵀl) a step is ``h ← h - 2 l∘g + ‖l‖² l∘l``, ``d ← d - l∘l``: one product
    of K with one vector. Where h has lost half its digits by cancellation it is recomputed from the definition; what
    counts as lost is measured against all that was subtracted, Kl before L(Lᵀl) is taken off included.

    Parameters
    ----------
    dictionary : Dictionary
        Square, positive semidefinite: rows and centres are the same points; ``gram_diagonal`` gives k(x, x).
    selection : {"rayleigh", "diagonal", "random"}
    weights : ndarray of shape (n,), optional
        Positive weights of the points: one of weight w counts as w points. Sums over points are weighted then.
    rng : numpy.random.Generator, optional
        Draws for ``selection="random"``.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
        d, squared distances to the span, times the weights.
    alive : ndarray of bool, shape (n,)
        Points not chosen whose squared distance is above 1e-10 (float32: 1e-4) of what it was.
    passes : float

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, pursue
    >>> from kernelpursuit.pursuit import n_atoms
    >>> K = np.array([[4.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> run = Rayleigh(DenseDictionary(K, gram=K))
    >>> path = pursue(run, n_atoms(2))
    >>> path.atoms, path.values("loss") * 3  # the trace of what is left
    (array([0, 2]), array([9., 4., 1.]))
    >>> run.factor() @ run.factor().T
    array([[4., 2., 0.],
           [2., 1., 0.],
           [0., 0., 3.]])
    """

    def __init__(
        self,
        dictionary: Dictionary,
        *,
        selection: str = "rayleigh",
        weights: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ):
        n, m = dictionary.shape
        if n != m:
            raise ValueError(f"the dictionary must be square, its atoms centred on its rows, got {n} x {m}")
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}, got {selection!r}")
        self._weights = np.ones(n) if weights is None else weights / np.mean(weights)
        if weights is not None:
            dictionary = WeighedDictionary(dictionary, self._weights)
        self.D = dictionary
        self.passes = 0.0
        self._selection = selection
        self._rng = np.random.default_rng() if rng is None else rng
        self._like = dictionary.columns(np.zeros(1, dtype=np.intp))
        self._eps = eps(self._like)
        # d is known to a few eps of its start value, and enters the scores as a divisor.
        self._limit = max(1e-10, 1000 * self._eps)
        with np.errstate(over="ignore", invalid="ignore"):
            start = to_host(dictionary.gram_diagonal(None))
        if not np.all(np.isfinite(start)):
            raise ValueError("kernel gives infinite or undefined values on X: scale X, or change kernel or gamma")
        self._start = np.maximum(start, 0)
        self.diagonal = self._start.copy()
        self.alive = self._start > 0
        self._h: np.ndarray | None = None  # running ‖K⁽ᵗ⁾eᵢ‖²
        self._reference = np.zeros(0)  # the largest number that went into it since it was last exact
        self._chosen: list[int] = []
        self._rows = np.empty((0, n))  # Lᵀ, and room for more
        # The same where the columns are, if that is not the host.
        self._mirror: Array = self._rows if isinstance(self._like, np.ndarray) else self._like[:, :0].T

    @property
    def tie(self) -> Any:
        """Relative difference under which two scores are equal: d fallen to a share x knows 1/x times fewer digits."""
        if self._selection == "random":
            return 0.0
        tie = tie_tolerance(self._like)
        kept = np.maximum(np.where(self.alive, self.diagonal, 1.0), np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            return np.clip(tie * self._start / kept, tie, max(tie, WIDEST_TIE))

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return self.D.in_memory

    def start(self) -> Step:
        """State before the first atom."""
        return Step(atom=-1, loss=self._loss())

    def factor(self) -> np.ndarray:
        """L, (n, number of atoms taken): lower triangular in the rows of the atoms; LLᵀ is the Nyström matrix."""
        return (self._rows[: len(self._chosen)] / np.sqrt(self._weights)).T

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Definition of the running quantities: ‖K⁽ᵗ⁾eᵢ‖² and K⁽ᵗ⁾ᵢᵢ of atoms `J`."""
        columns = self._deflate(J, len(self._chosen))
        norms = squared_norms(columns)
        if not np.all(np.isfinite(norms)):
            raise ValueError("the atoms overflow on X: scale X, or change kernel or gamma")
        return norms, np.diagonal(to_host(gather(columns, J))).copy()

    def running_moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same as they are kept up to date."""
        assert self._h is not None, "moments run from the first call of scores() on"
        return self._h[J], self.diagonal[J]

    def scores(self, J: np.ndarray | None = None) -> np.ndarray:
        """Score of atoms `J` (None: all); ``-inf`` for atoms in the span."""
        chosen = slice(None) if J is None else J
        d, alive = self.diagonal[chosen], self.alive[chosen]
        if self._selection == "diagonal":
            gain = d / self._weights[chosen]
        elif self._selection == "random":
            # dᵢ over independent exponential times: the first of several clocks with rates d to ring.
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                gain = d / self._rng.standard_exponential(len(d))
        else:
            gain = self._norms(J) / np.where(alive, d, 1.0)
        return np.where(alive, gain, -np.inf)

    def take(self, block: list[int], weakness: float = 1.0) -> Iterator[Step]:
        """Take atoms in order at one pass over the data, each while its score is at least `weakness` times the best."""
        atoms = self._extend(block)
        products = self._correlate(len(atoms))
        for place, atom in enumerate(atoms):
            share = self._share(atom)
            if share < weakness:
                break
            l = self._rows[len(self._chosen)]  # noqa: E741
            score = float(l @ l if self._selection == "rayleigh" else l[atom] ** 2 / self._weights[atom])
            self._advance(atom, l, None if products is None else products[:, place])
            yield Step(atom, score, share, self._loss())

    def rehearse(self, J: np.ndarray) -> RayleighRehearsal | None:
        """The criterion on atoms `J` alone; None where a choice costs no pass."""
        if self._h is None or self._selection != "rayleigh":
            return None
        p = len(J)
        inside, products = np.empty((p, p)), np.empty((p, p))
        for one, two, mine, theirs in pairs(J, self.D.tile, lambda part: self._deflate(part, len(self._chosen))):
            products[one, two] = to_host(mine.T @ theirs)
            products[two, one] = products[one, two].T
            if one == two:
                inside[:, one] = to_host(gather(mine, J))
        self.passes += p / len(self.alive)
        return RayleighRehearsal(inside, products, self.diagonal[J], self._h[J], floor=self._limit * self._start[J])

    def _norms(self, J: np.ndarray | None) -> np.ndarray:
        """‖K⁽ᵗ⁾eᵢ‖², running from the first time that all are asked for; before that from the definition."""
        if J is None and self._h is None:
            (self._h,) = sweep(self.D, lambda tile: self.moments(tile)[:1])
            self._reference = self._h.copy()
            self.passes += 1
        if self._h is not None:
            return self._h if J is None else self._h[J]
        assert J is not None
        self.passes += len(J) / len(self.alive)
        tiles = [J[start : start + self.D.tile] for start in range(0, len(J), self.D.tile)]
        return np.concatenate([self.moments(tile)[0] for tile in tiles])

    def _deflate(self, J: np.ndarray, size: int) -> Array:
        """Columns `J` of K less the first `size` directions, (n, len(J)), where the dictionary has them."""
        columns, L = self.D.columns(J), self._mirror[:size, :]
        columns = to_host(columns) if self._mirror is self._rows else columns
        return columns - L.T @ gather(L, J, axis=1) if size else columns

    def _extend(self, block: list[int]) -> list[int]:
        """Write the columns of L that the atoms of `block` add, up to the first that adds none."""
        size = len(self._chosen)
        if size + len(block) > len(self._rows):
            shape = (max(16, 2 * size, size + len(block)), len(self.alive))
            grown = np.empty(shape)
            grown[:size] = self._rows[:size]
            if self._mirror is self._rows:
                self._mirror = grown
            else:
                mirror = namespace(self._like).empty(shape, dtype=self._like.dtype, device=self._like.device)
                mirror[:size, :] = self._mirror[:size, :]
                self._mirror = mirror
            self._rows = grown
        atoms = self._factor_block(block, size)
        if self._mirror is not self._rows and atoms:
            new = slice(size, size + len(atoms))
            self._mirror[new, :] = from_host(self._rows[new], self._like)
        return atoms

    def _factor_block(self, block: list[int], size: int) -> list[int]:
        """The same on the host."""
        atoms: list[int] = []
        for start in range(0, len(block), self.D.tile):
            J = block[start : start + self.D.tile]
            columns = to_host(self._deflate(np.array(J), size))
            for atom, column in zip(J, columns.T, strict=True):
                if atoms:
                    L = self._rows[size : size + len(atoms)]
                    column = column - L.T @ L[:, atom]
                if column[atom] <= self._limit * self._start[atom]:
                    if not atoms:  # others may lie in the span of the block only
                        self.alive[atom] = False
                    return atoms
                column[[*self._chosen, *atoms]] = 0.0  # exactly: what is left has nothing at the atoms taken
                self._rows[size + len(atoms)] = column / np.sqrt(column[atom])
                atoms.append(atom)
        return atoms

    def _correlate(self, count: int) -> np.ndarray | None:
        """Kl of the next `count` directions l, where running norms are kept."""
        if self._h is None or not count:
            return None
        size = len(self._chosen)
        self.passes += 1
        return self.D.correlate(from_host(self._rows[size : size + count], self._like).T)

    def _share(self, atom: int) -> float:
        """Score of `atom` as a share of the best, where that is known."""
        if self._selection == "random" or (self._selection == "rayleigh" and self._h is None):
            return 1.0
        return certificate(self.scores(), self.tie, atom)

    def _advance(self, atom: int, l: np.ndarray, image: np.ndarray | None) -> None:  # noqa: E741
        """Deflate by l lᵀ, with Kl = `image` where running norms are kept."""
        squares = l * l
        if self._h is not None:
            assert image is not None
            L = self._rows[: len(self._chosen)]
            g = image - L.T @ (L @ l)
            self._h += (l @ l) * squares - 2 * l * g
            self._reference += 2 * np.abs(l * image)  # what was subtracted before it cancelled
        self._chosen.append(atom)
        self.diagonal = np.maximum(self.diagonal - squares, 0)
        self.diagonal[atom] = 0.0
        self.alive &= self.diagonal > self._limit * self._start
        if self._h is not None:
            self._refresh()

    def _refresh(self) -> None:
        """Recompute norms where cancellation has eaten half the digits; none is below the square of its own entry."""
        assert self._h is not None
        np.maximum(self._h, self.diagonal**2, out=self._h)
        lost = np.where(self.alive, self._h, np.inf) / np.maximum(self._reference, np.finfo(float).tiny)
        if lost.min() > np.sqrt(self._eps):
            return
        stale = np.flatnonzero(lost <= 4 * np.sqrt(self._eps))
        for start in range(0, len(stale), self.D.tile):
            J = stale[start : start + self.D.tile]
            self._h[J] = self._reference[J] = self.moments(J)[0]
        self.passes += len(stale) / len(self.alive)

    def _loss(self) -> float:
        return float(np.sum(self.diagonal) / len(self.diagonal))


class RayleighRehearsal:
    """`Rayleigh` on a pool of atoms, given what is left of the kernel matrix, K, on it.

    Taking atom i, with l = Keᵢ / √dᵢ and g = Kl on the pool, changes K by -l lᵀ, and the inner products of its columns
    over all samples by -l gᵀ - g lᵀ + ‖l‖² l lᵀ; g and ‖l‖² are entries of those products over √dᵢ and dᵢ.

    Parameters
    ----------
    inside : ndarray of shape (p, p)
        K on the pool.
    products : ndarray of shape (p, p)
        Inner products of the pool's columns of K, all n entries of them.
    diagonal, norms : ndarray of shape (p,)
        The diagonals of the two, d and h, more exact.
    floor : ndarray of shape (p,)
        d at which an atom lies in the span.
    """

    def __init__(
        self, inside: np.ndarray, products: np.ndarray, diagonal: np.ndarray, norms: np.ndarray, *, floor: np.ndarray
    ):
        self._inside, self._products = Downdated(inside), Downdated(products)
        self._d, self._h, self._floor = diagonal.copy(), norms.copy(), floor

    def scores(self) -> np.ndarray:
        """Score of each atom of the pool."""
        possible = self._d > self._floor
        return np.where(possible, self._h / np.where(possible, self._d, 1.0), -np.inf)

    def take(self, i: int) -> None:
        """Take atom `i` of the pool."""
        root = np.sqrt(self._d[i])
        l, g, energy = self._inside.column(i) / root, self._products.column(i) / root, self._h[i] / self._d[i]  # noqa: E741
        self._inside.subtract(l, l)
        self._products.deflate(l, g, energy)
        self._d = self._d - l**2
        self._h = np.maximum(self._h - 2 * l * g + energy * l**2, np.maximum(self._d, 0) ** 2)
        self._d[i] = 0.0
