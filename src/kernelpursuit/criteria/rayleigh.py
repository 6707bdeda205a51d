"""Kernel approximation: atoms whose span in feature space holds most of the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, energies, eps, namespace, squared_norms, tie_tolerance, to_host
from kernelpursuit.atoms import WeighedDictionary
from kernelpursuit.atoms.protocol import Dictionary, pieces, sweep
from kernelpursuit.criteria.base import Taking
from kernelpursuit.math.cholesky import CholeskyApart, PartialCholesky, pivot_limit
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.rehearsal_matrices import Downdated, pairs
from kernelpursuit.pursuit.rounding import stale, ties

SELECTIONS = ("rayleigh", "diagonal", "random")
_INDEFINITE = 30  # times the root of the limit of pivots: a share of k(x, x) that is no rounding error
_MOST_REFUSED = 100  # atoms passed over one after the other, after which the rest is not tried


class Waiting(NamedTuple):
    """Directions l that atoms of a block add, and what their products with the kernel matrix are."""

    directions: np.ndarray  # (b, n)
    raw: np.ndarray | None  # (b, n), Kl; None without running norms
    left: np.ndarray | None  # (b, n), K⁽ᵗ⁾l, t being the step in which l is taken
    lengths: np.ndarray  # (b,), ‖l‖² over the rows


class Elsewhere(NamedTuple):
    """What is known of rows that are elsewhere, of which the atoms are some."""

    trace: float  # of the kernel matrix of all rows, weighed
    rows: float  # how many there are, weighed
    unit: float  # mean weight
    roots: Array | None  # (n_rows, 1), roots of the weights over the unit, where the rows are


class Rayleigh(Taking):
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
    elsewhere : Elsewhere, optional
        The rows are on shards, and atoms are some of them. Then n counts atoms below, and `weights` are theirs.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
        d, squared distances to the span, times the weights.
    alive : ndarray of bool, shape (n,)
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

    def __init__(
        self,
        dictionary: Dictionary,
        *,
        selection: str = "rayleigh",
        weights: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
        elsewhere: Elsewhere | None = None,
    ):
        n, m = dictionary.shape
        if n != m and elsewhere is None:
            raise ValueError(f"the dictionary must be square, its atoms centred on its rows, got {n} x {m}")
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {SELECTIONS}, got {selection!r}")
        unit = np.mean(weights) if elsewhere is None and weights is not None else elsewhere.unit if elsewhere else 1.0
        self._weights = np.ones(m) if weights is None else weights / unit
        if weights is not None:
            dictionary = WeighedDictionary(dictionary, self._weights, elsewhere.roots if elsewhere else None)
        self.D = dictionary
        self.passes = 0.0
        self._selection = selection
        self._rng = np.random.default_rng() if rng is None else rng
        self._seed: int | None = None  # of all draws, from the first on
        self._like = dictionary.columns(np.zeros(1, dtype=np.intp))
        self._eps = eps(self._like)
        self._limit = pivot_limit(self._eps)  # d enters the scores as a divisor
        with np.errstate(over="ignore", invalid="ignore"):
            start = to_host(dictionary.gram_diagonal(None))
        if not np.all(np.isfinite(start)):
            raise ValueError("kernel gives infinite or undefined values on X: scale X, or change kernel or gamma")
        self._start = np.maximum(start, 0)
        self.diagonal = self._start.copy()
        self.alive = self._start > 0
        self._refused = 0  # atoms passed over since the last one that was taken
        self._scale = float(np.max(self._start / self._weights, initial=0.0))  # largest k(x, x)
        self.indefinite = bool(np.min(start, initial=0.0) < -np.sqrt(self._limit) * self._scale)
        self._h: np.ndarray | None = None  # running ‖K⁽ᵗ⁾eᵢ‖²
        self._reference = np.zeros(0)  # the largest number that went into it since it was last exact
        self._chosen: list[int] = []
        self._elsewhere, self._taken_off = elsewhere, 0.0
        self._cholesky: Any = PartialCholesky(self._like)
        if elsewhere is not None:
            self._cholesky = CholeskyApart(self._like, lambda J: self.D.gram(None, J))

    @property
    def tie(self) -> Any:
        """Relative difference under which scores are equal. If d fell to a share x it is known 1/x times less well."""
        if self._selection == "random":
            return 0.0
        tie = tie_tolerance(self._like)
        return ties(tie * self._start, self.diagonal, self.alive, least=tie)

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return self.D.in_memory

    def start(self) -> Step:
        """State before the first atom."""
        return Step(atom=-1, loss=self._loss())

    def factor(self) -> np.ndarray:
        """L, (n, number of atoms taken): lower triangular in the rows of the atoms; LLᵀ is the Nyström matrix.

        Of rows that are elsewhere it is there as well.
        """
        if self._elsewhere is None:
            return (to_host(self._cholesky.rows[: len(self._chosen), :]) / np.sqrt(self._weights)).T
        far = self._cholesky.rows[: len(self._chosen), :].T
        return far if self._elsewhere.roots is None else far / self._elsewhere.roots

    def factor_at(self, atoms: np.ndarray) -> np.ndarray:
        """The rows of L that belong to `atoms`."""
        return (self._cholesky.here()[: len(self._chosen), atoms] / np.sqrt(self._weights[atoms])).T

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Definition of the running quantities: ‖K⁽ᵗ⁾eᵢ‖² and K⁽ᵗ⁾ᵢᵢ of atoms `J`."""
        columns = self._deflate(J)
        norms = squared_norms(columns)
        if not np.all(np.isfinite(norms)):
            raise ValueError("the atoms overflow on X: scale X, or change kernel or gamma")
        return norms, np.diagonal(self._cholesky.entries(columns, J, J)).copy()

    def running_moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same as they are kept up to date."""
        assert self._h is not None, "moments run from the first call of scores() on"
        return self._h[J], self.diagonal[J]

    @property
    def follows(self) -> bool:
        """Whether the score of every atom is known."""
        return self._selection == "diagonal" or (self._selection == "rayleigh" and self._h is not None)

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores; ``-inf`` for atoms in the span."""
        chosen = slice(None) if J is None else J
        d, alive = self.diagonal[chosen], self.alive[chosen]
        if self._selection == "diagonal":
            gain = d / self._weights[chosen]
        elif self._selection == "random":
            # dᵢ over independent exponential times: the first of several clocks with rates d to ring.
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                gain = d / self._draw_times(len(d))
        else:
            gain = self._norms(J) / np.where(alive, d, 1.0)
        return np.where(alive, gain, -np.inf)

    def _draw_times(self, size: int) -> np.ndarray:
        """Exponential times, by the number of steps before: a path that goes on draws as one that was never cut."""
        if self._seed is None:
            self._seed = int(self._rng.integers(2**63))
        return np.random.default_rng([self._seed, len(self._chosen)]).standard_exponential(size)

    def _prepare(self, block: list[int]) -> tuple[list[int], Waiting]:
        cholesky, before = self._cholesky, len(self._chosen)
        columns = self.D.columns(np.array(block))
        cholesky.extend(columns, block, self._limit * self._start[block])
        count = self._possible(cholesky.here(before), block)
        cholesky.truncate(before + count)
        if not count:
            return [], Waiting(np.zeros((0, 0)), None, None, np.zeros(0))
        l = cholesky.rows[before:, :]  # noqa: E741
        lengths = energies(l.T)
        raw = left = None
        if self._h is not None:
            raw = self.D.correlate(namespace(l).astype(l, self._like.dtype).T).T
            left = raw - cholesky.explained_here(l.T, before).T
            self.passes += 1
        return block[:count], Waiting(cholesky.here(before), raw, left, to_host(lengths))

    def _possible(self, directions: np.ndarray, block: list[int]) -> int:
        """How many of `directions` come before one that takes more off a row than there is left, lⱼ² > dⱼ.

        Then the entries of what is left of K at i, the atom, and at j have an eigenvalue that is negative, about
        dᵢ(lⱼ² - dⱼ) / (dᵢ + dⱼ) below 0. Rounding errors make small ones where next to nothing is left of i. If that
        atom were taken they would grow, step by step, into a Nyström matrix that has nothing in common with K.
        """
        left = self.diagonal.copy()
        for place, (direction, atom) in enumerate(zip(directions, block, strict=False)):
            excess = direction * direction - left
            if np.any(excess > self._limit * self._start + self._eps * self._scale * self._weights):
                if place == 0:
                    self._refuse(left / self._weights, excess / self._weights, atom)
                if place or self._chosen:  # the first atom of all is as good as any
                    return place
            left = np.maximum(-excess, 0)
            left[atom] = 0.0
        return len(directions)

    def _refuse(self, left: np.ndarray, excess: np.ndarray, atom: int) -> None:
        """Note that an atom is passed over, whose direction takes `excess` more off the rows than is `left` of them."""
        negative = float(np.max(left[atom] * excess / (left[atom] + left)))
        self.indefinite |= negative > _INDEFINITE * np.sqrt(self._limit) * self._scale
        self._refused += 1
        if self._refused == _MOST_REFUSED:
            self.alive[:] = False

    def _accept(self, waiting: Waiting, place: int, atom: int, score: float) -> Step:
        l = waiting.directions[place]  # noqa: E741
        length = float(l @ l) if self._elsewhere is None else float(waiting.lengths[place])
        score = length if self._selection == "rayleigh" else float(l[atom] ** 2 / self._weights[atom])
        self._taken_off += length
        squares = l * l
        if self._h is not None:
            assert waiting.raw is not None and waiting.left is not None
            self._h += length * squares - 2 * l * waiting.left[place]
            self._reference += 2 * np.abs(l * waiting.raw[place])  # what was subtracted before it cancelled
        self._chosen.append(atom)
        self._refused = 0
        self.diagonal = np.maximum(self.diagonal - squares, 0)
        self.diagonal[atom] = 0.0
        self.alive &= self.diagonal > self._limit * self._start
        if self._h is not None:
            self._refresh()
        return Step(atom, score, loss=self._loss())

    def _give_back(self, waiting: Waiting, taken: int) -> None:
        self._cholesky.truncate(len(self._chosen))

    def rehearse(self, J: np.ndarray) -> RayleighRehearsal | None:
        """The criterion on atoms `J` alone; None where a choice costs no pass over the data."""
        if self._h is None or self._selection != "rayleigh":
            return None
        p = len(J)
        inside, products = np.empty((p, p)), np.empty((p, p))
        for one, two, mine, theirs in pairs(J, self.D.tile, self.D.shape[0], self._deflate):
            products[one, two] = to_host(mine.T @ theirs)
            products[two, one] = products[one, two].T
            if one == two:
                inside[:, one] = self._cholesky.entries(mine, J, J[one])
            del mine, theirs
        self.passes += p / len(self.alive)
        return RayleighRehearsal(inside, products, self.diagonal[J], self._h[J], floor=self._limit * self._start[J])

    def _norms(self, J: np.ndarray | None) -> np.ndarray:
        """‖K⁽ᵗ⁾eᵢ‖² of atoms `J`: kept up to date once all were asked for, from the definition before that."""
        if J is None and self._h is None:
            (self._h,) = sweep(self.D, lambda tile: self.moments(tile)[:1])
            self._reference = self._h.copy()
            self.passes += 1
        if self._h is not None:
            return self._h if J is None else self._h[J]
        assert J is not None
        self.passes += len(J) / len(self.alive)
        (norms,) = sweep(self.D, lambda tile: self.moments(tile)[:1], J)
        return norms

    def _deflate(self, J: np.ndarray) -> Array:
        """Columns `J` of what is left of K, (n, len(J)), where the dictionary has them."""
        return self._cholesky.left(self.D.columns(J), J, len(self._chosen))

    def _refresh(self) -> None:
        """Compute norms anew where cancellation has eaten half of their digits. None is below its own entry squared."""
        assert self._h is not None
        np.maximum(self._h, self.diagonal**2, out=self._h)
        known = np.where(self.alive, self._h, np.inf)
        lost = stale(known, np.sqrt(self._eps) * self._reference)
        for J in pieces(self.D, lost):
            self._h[J] = self._reference[J] = self.moments(J)[0]
        self.passes += len(lost) / len(self.alive)

    def _loss(self) -> float:
        if self._elsewhere is not None:
            return max(0.0, self._elsewhere.trace - self._taken_off) / self._elsewhere.rows
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
