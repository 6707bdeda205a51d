"""Kernel approximation: atoms whose span in feature space holds most of the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, energies, eps, namespace, narrowest_tie, squared_norms, to_host
from kernelpursuit.atoms import WeightedDictionary
from kernelpursuit.atoms.protocol import Dictionary, pieces, sweep
from kernelpursuit.criteria.base import Criterion
from kernelpursuit.math.cholesky import PartialCholesky, pivot_limit
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.pool_matrices import PoolSimulation, pairs_of_pieces
from kernelpursuit.pursuit.rounding import stale, tie_tolerances

SELECTIONS = ("rayleigh", "diagonal", "random")
_INDEFINITE = 30  # times the root of the limit of pivots: a share of k(x, x) that is no rounding error
_MOST_REFUSED = 100  # atoms passed over one after the other, after which the rest is not tried


class Prepared(NamedTuple):
    """Directions l that atoms of a block add, and their products with the kernel matrix."""

    directions: np.ndarray  # (b, n)
    raw: np.ndarray | None  # (b, n), Kl; None without running norms
    left: np.ndarray | None  # (b, n), K⁽ᵗ⁾l, t being the step in which l is taken
    lengths: np.ndarray  # (b,), ‖l‖² over the rows


class Rayleigh(Criterion):
    """Points whose span in feature space comes close to all others: a partial Cholesky factor L of the kernel matrix.

    K⁽ᵗ⁾ = K - LLᵀ is what is left of the kernel matrix after t steps, and d is its diagonal. A step with atom i takes
    ``l lᵀ`` off, with ``l = K⁽ᵗ⁾eᵢ / √dᵢ``. LLᵀ is the Nyström matrix of the chosen atoms, dᵢ the squared distance of
    point i to their span, and the loss of a step the mean of d.

    ========== ================ ================================================= ==================
    selection  score            meaning                                           one pass of
    ========== ================ ================================================= ==================
    rayleigh   ‖K⁽ᵗ⁾eᵢ‖² / dᵢ    drop of the trace: greatest first (sparse KPCA)   l
    diagonal   dᵢ               pivoted Cholesky, P-greedy: farthest point first  nothing
    random     a draw           probability dᵢ / trace: randomly pivoted Cholesky nothing
    ========== ================ ================================================= ==================

    With hᵢ = ‖K⁽ᵗ⁾eᵢ‖² and g = K⁽ᵗ⁾l = Kl - L(Lᵀl) a step is ``h ← h - 2 l∘g + ‖l‖² l∘l``, ``d ← d - l∘l``. So it costs
    one product of K with one vector. Where h has lost half of its digits by cancellation it is computed from the
    definition again. How much was lost is judged by all that was subtracted, Kl itself included.

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
    available : ndarray of bool, shape (n,)
        Points not chosen whose squared distance is above 1e-10 (float32: 1e-5) of what it was. One that would take
        more off another than there is left, because rounding errors have grown, is passed over.
    indefinite : bool
        Whether one would have done so by more than rounding can, or k(x, x) is negative: K has negative eigenvalues.
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

    ends_early_in_float32 = True

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
        relative = np.ones(m) if weights is None else weights / np.mean(weights)
        dictionary = dictionary if weights is None else WeightedDictionary(dictionary, relative)
        self._begin(dictionary, relative, selection, rng)

    def _begin(self, dictionary: Any, weights: np.ndarray, selection: str, rng: np.random.Generator | None) -> None:
        """Begin without atoms, given a weighted dictionary, and the weights of the atoms over the mean weight."""
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}, got {selection!r}")
        self._weights = weights
        self.D = dictionary
        self.passes = 0.0
        self._selection = selection
        self._rng = np.random.default_rng() if rng is None else rng
        self._seed: int | None = None  # of all draws, from the first on
        self._like = dictionary.columns(np.zeros(1, dtype=np.intp))
        self._eps = eps(self._like)
        self._limit = pivot_limit(self._eps)  # d enters the scores as a divisor
        with np.errstate(over="ignore", invalid="ignore"):
            initial = to_host(dictionary.gram_diagonal(None))
        if not np.all(np.isfinite(initial)):
            raise ValueError("kernel gives infinite or undefined values on X: scale X, or change kernel or gamma")
        self._initial = np.maximum(initial, 0)
        self.diagonal = self._initial.copy()
        self.available = self._initial > 0
        self._refused = 0  # atoms passed over since the last one that was taken
        self._scale = float(np.max(self._initial / self._weights, initial=0.0))  # largest k(x, x)
        self.indefinite = bool(np.min(initial, initial=0.0) < -np.sqrt(self._limit) * self._scale)
        self._h: np.ndarray | None = None  # running ‖K⁽ᵗ⁾eᵢ‖²
        self._reference = np.zeros(0)  # the largest number that went into it since it was last exact
        self._chosen: list[int] = []
        self._cholesky: Any = PartialCholesky(self._like)

    @property
    def tie_tolerance(self) -> Any:
        """Relative difference under which scores are equal. If d fell to a share x it is known 1/x times less well."""
        if self._selection == "random":
            return 0.0
        least = narrowest_tie(self._like)
        return tie_tolerances(least * self._initial, self.diagonal, self.available, least)

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return self.D.in_memory

    def initial_step(self) -> Step:
        """State before the first atom."""
        return Step(atom=-1, loss=self._loss())

    def factor(self) -> np.ndarray:
        """L, (n, number of atoms taken): lower triangular in the rows of the atoms; LLᵀ is the Nyström matrix."""
        return (to_host(self._cholesky.rows[: len(self._chosen), :]) / np.sqrt(self._weights)).T

    def factor_at(self, atoms: np.ndarray) -> np.ndarray:
        """The rows of L that belong to `atoms`."""
        return (self._cholesky.here()[: len(self._chosen), atoms] / np.sqrt(self._weights[atoms])).T

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Definition of the running numbers of atoms `J`: ‖K⁽ᵗ⁾eᵢ‖² and K⁽ᵗ⁾ᵢᵢ."""
        columns = self._deflate(J)
        norms = squared_norms(columns)
        if not np.all(np.isfinite(norms)):
            raise ValueError("the atoms overflow on X: scale X, or change kernel or gamma")
        return norms, np.diagonal(self._cholesky.entries(columns, J, J)).copy()

    def running_moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Running numbers of atoms `J`, see `moments`."""
        assert self._h is not None, "moments run from the first call of scores() on"
        return self._h[J], self.diagonal[J]

    @property
    def tracks_all_scores(self) -> bool:
        """Whether the score of every atom is known."""
        return self._selection == "diagonal" or (self._selection == "rayleigh" and self._h is not None)

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores; ``-inf`` for atoms in the span."""
        chosen = slice(None) if J is None else J
        d, available = self.diagonal[chosen], self.available[chosen]
        if self._selection == "diagonal":
            gain = d / self._weights[chosen]
        elif self._selection == "random":
            # dᵢ over independent exponential times: the first of several clocks with rates d to ring.
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                gain = d / self._draw_times(len(d))
        else:
            gain = self._norms(J) / np.where(available, d, 1.0)
        return np.where(available, gain, -np.inf)

    def _draw_times(self, size: int) -> np.ndarray:
        """Exponential times, by the number of steps before: a path that goes on draws as one that was never cut."""
        if self._seed is None:
            self._seed = int(self._rng.integers(2**63))
        return np.random.default_rng([self._seed, len(self._chosen)]).standard_exponential(size)

    def _prepare(self, block: list[int]) -> tuple[list[int], Prepared]:
        cholesky, before = self._cholesky, len(self._chosen)
        columns = self.D.columns(np.array(block))
        cholesky.extend(columns, block, self._limit * self._initial[block])
        count = self._possible(cholesky.here(before), block)
        cholesky.truncate(before + count)
        if not count:
            return [], Prepared(np.zeros((0, 0)), None, None, np.zeros(0))
        l = cholesky.rows[before:, :]  # noqa: E741
        lengths = energies(l.T)
        raw = left = None
        if self._h is not None:
            raw = self.D.correlate(namespace(l).astype(l, self._like.dtype).T).T
            left = raw - cholesky.explained(l.T, before).T
            self.passes += 1
        return block[:count], Prepared(cholesky.here(before), raw, left, to_host(lengths))

    def _possible(self, directions: np.ndarray, block: list[int]) -> int:
        """How many of `directions` come before one that takes more off a row than there is left, lⱼ² > dⱼ.

        Then the entries of what is left of K at i, the atom, and at j have an eigenvalue that is negative, about
        dᵢ(lⱼ² - dⱼ) / (dᵢ + dⱼ) below 0. Rounding errors make small ones where next to nothing is left of i. If that
        atom were taken they would grow, step by step, into a Nyström matrix that has nothing in common with K.
        """
        left = self.diagonal.copy()
        for index, (direction, atom) in enumerate(zip(directions, block, strict=False)):
            excess = direction * direction - left
            if np.any(excess > self._limit * self._initial + self._eps * self._scale * self._weights):
                if index == 0:
                    self._refuse(left / self._weights, excess / self._weights, atom)
                if index or self._chosen:  # the first atom of all is as good as any
                    return index
            left = np.maximum(-excess, 0)
            left[atom] = 0.0
        return len(directions)

    def _refuse(self, left: np.ndarray, excess: np.ndarray, atom: int) -> None:
        """Note that an atom is passed over, whose direction takes `excess` more off the rows than is `left` of them."""
        negative = float(np.max(left[atom] * excess / (left[atom] + left)))
        self.indefinite |= negative > _INDEFINITE * np.sqrt(self._limit) * self._scale
        self._refused += 1
        if self._refused == _MOST_REFUSED:
            self.available[:] = False

    def _accept(self, prepared: Prepared, index: int, atom: int, score: float) -> Step:
        l = prepared.directions[index]  # noqa: E741
        length = float(prepared.lengths[index])
        score = length if self._selection == "rayleigh" else float(l[atom] ** 2 / self._weights[atom])
        squares = l * l
        if self._h is not None:
            assert prepared.raw is not None and prepared.left is not None
            self._h += length * squares - 2 * l * prepared.left[index]
            self._reference += 2 * np.abs(l * prepared.raw[index])  # what was subtracted before it cancelled
        self._chosen.append(atom)
        self._refused = 0
        self.diagonal = np.maximum(self.diagonal - squares, 0)
        self.diagonal[atom] = 0.0
        self.available &= self.diagonal > self._limit * self._initial
        if self._h is not None:
            self._refresh()
        return Step(atom, score, loss=self._loss())

    def _give_back(self, prepared: Prepared, taken: int) -> None:
        self._cholesky.truncate(len(self._chosen))

    def simulate(self, J: np.ndarray) -> PoolSimulation | None:
        """The choices of this criterion among atoms `J` alone; None where a choice costs no pass over the data."""
        if self._h is None or self._selection != "rayleigh":
            return None
        p = len(J)
        inside, products = np.empty((p, p)), np.empty((p, p))
        for one, two, mine, theirs in pairs_of_pieces(J, self.D.tile, self.D.shape[0], self._deflate):
            products[one, two] = to_host(mine.T @ theirs)
            products[two, one] = products[one, two].T
            if one == two:
                inside[:, one] = self._cholesky.entries(mine, J, J[one])
            del mine, theirs
        self.passes += p / len(self.available)

        def score(pool: PoolSimulation, possible: np.ndarray) -> np.ndarray:
            assert pool.energy is not None
            h = np.maximum(pool.energy, np.maximum(pool.squared, 0) ** 2)  # none is below its own entry squared
            return np.where(possible, h / np.where(possible, pool.squared, 1.0), -np.inf)

        floor = self._limit * self._initial[J]
        return PoolSimulation(inside, self.diagonal[J], floor, score, form=products, energy=self._h[J])

    def _norms(self, J: np.ndarray | None) -> np.ndarray:
        """‖K⁽ᵗ⁾eᵢ‖² of atoms `J`: kept up to date once all were asked for, from the definition before that."""
        if self._h is None:
            (norms,) = sweep(self.D, lambda tile: self.moments(tile)[:1], J)
            self.passes += len(norms) / len(self.available)
            if J is not None:
                return norms
            self._h, self._reference = norms, norms.copy()
        return self._h if J is None else self._h[J]

    def _deflate(self, J: np.ndarray) -> Array:
        """Columns `J` of what is left of K, (n, len(J)), in the namespace of the dictionary."""
        return self._cholesky.left(self.D.columns(J), J, len(self._chosen))

    def _refresh(self) -> None:
        """Compute norms anew where cancellation has eaten half of their digits. None is below its own entry squared."""
        assert self._h is not None
        np.maximum(self._h, self.diagonal**2, out=self._h)
        known = np.where(self.available, self._h, np.inf)
        lost = stale(known, np.sqrt(self._eps) * self._reference)
        for J in pieces(self.D, lost):
            self._h[J] = self._reference[J] = self.moments(J)[0]
        self.passes += len(lost) / len(self.available)

    def _loss(self) -> float:
        return float(np.sum(self.diagonal) / len(self.diagonal))
