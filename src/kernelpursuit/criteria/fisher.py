"""Fisher's ratio: matching pursuit for discriminant analysis, two classes or more on one support."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import (
    Array,
    from_host,
    in_double,
    namespace,
    narrowest_tie,
    squared_norms,
    to_host,
)
from kernelpursuit.atoms.protocol import Dictionary, pieces
from kernelpursuit.criteria.base import OrthogonalCriterion
from kernelpursuit.math.discriminants import LABELS, Discriminants, Within, check_index, class_codes
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Deflated, Direction
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.pool_matrices import PoolSimulation, pairs_of_pieces
from kernelpursuit.pursuit.rounding import stale, tie_tolerances

_FLOOR = 1e-12  # share of ‖d‖² under which a within-class scatter counts as zero
_NO_TAIL = np.zeros((0, 1))

Prepared = tuple[list[Direction], "Scattered"]


class Scattered(NamedTuple):
    """Numbers that `Fisher` computes of directions q that wait, with the vectors w = (I − QQᵀ)Bq."""

    forms: list[tuple[Array, Array]]  # qᵀw = qᵀBq, as q ⊥ Q, and wᵀw
    products: np.ndarray | None  # (n_atoms, 2 b), with the q and then with the w; None without running moments


class Fisher(OrthogonalCriterion):
    """Criterion of matching pursuit kernel Fisher discriminant analysis.

    With d̃ the part of an atom d outside the span of the chosen ones and ũ that of the class codes, the score is

        ‖d̃ᵀũ‖² / d̃ᵀBd̃,

    B the within-class scatter (see `Within`), the codes as in `class_codes`. With the centred codes it is the Fisher
    ratio of the deflated atom: h (d̄₊ − d̄₋)² / (σ₊² + σ₋²) for two classes, and for C classes the ratio of the traces
    between and within classes that all count alike,

        2h Σ_c (d̄_c − d̄)² / Σ_c σ_c²,    d̄ = Σ_c d̄_c / C,

    h the harmonic mean of the class sizes; for C = 2 the two are equal. The denominator is at least 1e-12 ‖d‖², so that
    an atom that is constant on each class has a finite score.

    A step costs one column, one ``correlate`` of two vectors and O(n (k + C)). With the new direction q, Q those before
    it, w = (I − QQᵀ)Bq, p = Dᵀq and g = Dᵀw the update is

        d̃ᵀũ ← d̃ᵀũ − p qᵀũ,    d̃ᵀBd̃ ← d̃ᵀBd̃ − 2pg + p² qᵀBq,    ‖d̃‖² ← ‖d̃‖² − p².

    A scatter d̃ᵀBd̃ is computed from its definition again when rounding may have taken half of its digits.

    Parameters
    ----------
    dictionary : Dictionary
        The atoms, (n_samples, n_atoms).
    classes_index : ndarray of int, shape (n_samples,)
        Class of each sample, 0 .. C - 1.
    labels : {"centred", "raw"}
        Centred codes give the Fisher ratio; raw ones the formula as it was published, which agrees with it for classes
        of equal size only.
    weights : array of shape (n_samples,), optional
        Positive weights of the samples.

    References
    ----------
    Diethe, Hussain, Hardoon and Shawe-Taylor, Matching pursuit kernel Fisher discriminant analysis, AISTATS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary
    >>> D = np.array([[1.0, 0.0], [2.0, 4.0], [4.0, 1.0], [5.0, 5.0]])
    >>> run = Fisher(DenseDictionary(D), np.array([0, 0, 1, 1]))
    >>> run.scores()
    array([36.  ,  0.25])
    >>> [step.atom for step in run.take([0])]
    [0]
    """

    scatter: type[Within] = Within

    def __init__(
        self, dictionary: Dictionary, classes_index: Any, *, labels: str = "centred", weights: Array | None = None
    ):
        if labels not in LABELS:
            raise ValueError(f"labels must be one of {LABELS}, got {labels!r}")
        like = dictionary.columns(np.array([0]))
        index = self._checked(classes_index)
        if index.shape[0] != dictionary.shape[0]:
            raise ValueError(
                "classes_index must have as many rows as the dictionary, "
                f"got {index.shape[0]} and {dictionary.shape[0]}"
            )
        self.deflation = Deflation(dictionary, like, weights=weights, intercept=False)
        counts = None if weights is None else self._at_classes(weights) / self.deflation.unit
        self._codes = self.deflation.scale_rows(from_host(class_codes(index, labels, counts), in_double(like)))
        self.within = self.scatter(index, self._codes, counts)
        self._u = self._codes
        self._narrowest_tie = narrowest_tie(like)
        # Running d̃ᵀBd̃ with a bound on its rounding error; `_running_products` is d̃ᵀũ, (n_atoms, T).
        self._eta = self._error = np.zeros(0)
        self._steps: list[int] = []
        self._refreshed_at = self._loss()
        self._energy = float(np.sum(squared_norms(self._codes)))

    def _checked(self, classes_index: Any) -> Array:
        return check_index(classes_index)

    def _at_classes(self, weights: Array) -> Array:
        """Weights of the rows where their classes are: on the host."""
        return to_host(weights)

    @property
    def _noise(self) -> float:
        """Share of ‖d‖² below which a squared product is rounding error: of a constant column, for example."""
        return (16 * self.deflation.eps) ** 2 * self._energy

    @property
    def tie_tolerance(self) -> Any:
        """Relative difference under which two scores are equal, for each atom where moments are kept.

        A norm or scatter that is a share x of ‖d‖² is known 1/x times less well.
        """
        if self._running_products is None:
            return self._narrowest_tie
        norms = self.deflation.norms
        eta = np.maximum(self._eta, _FLOOR * norms.raw)
        left = np.minimum(eta, norms.squared)
        if self.deflation.single:  # the bound on the error is known, and larger than what digits were lost
            return tie_tolerances(self._error, left, self.available, self._narrowest_tie, most=1e-3)
        return tie_tolerances(self._narrowest_tie * norms.raw, left, self.available, self._narrowest_tie)

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Definition of the running numbers of atoms `J`: d̃ᵀũ, (len(J), T), d̃ᵀBd̃ and ‖d̃‖²."""
        part = self.deflation.deflate(J)
        return self._products(part), self.within.forms(part.columns), part.squared

    def running_moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Running numbers of atoms `J`, see `moments`."""
        assert self._running_products is not None, "moments run from the first call of scores() on"
        return self._running_products[J], self._eta[J], self.deflation.norms.squared[J]

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores; ``-inf`` for atoms in the span."""
        if J is None and self._running_products is None:
            joined = self.deflation.measure_exactly(self._joined)
            self._running_products, self._eta = joined[:, :-1].copy(), joined[:, -1].copy()
            self._error = np.zeros(len(joined))
        chosen = slice(None) if J is None else J
        if self._running_products is None:
            joined, raw = self.deflation.look_at(J, lambda part: (self._joined(part), part.raw))
            a, eta = joined[:, :-1], joined[:, -1]
        else:
            a, eta, raw = self._running_products[chosen], self._eta[chosen], self.deflation.norms.raw[chosen]
        available = self.available[chosen]
        ratio = fisher_ratio(a, eta, raw, available, self._noise)
        if not np.all(np.isfinite(ratio[available])):
            raise ValueError(
                "the products of atoms and labels are too large or too small for floating point: "
                "scale X, or change kernel or gamma"
            )
        return ratio

    def _prepare(self, block: list[int]) -> tuple[list[int], Prepared]:
        directions, vectors, forms = self._directions(block)
        scattered = Scattered(forms, self._correlate(directions, vectors))
        return [direction.atom for direction in directions], (directions, scattered)

    def _directions(self, block: list[int]) -> tuple[list[Direction], list[Array], list[tuple[Array, Array]]]:
        """Directions q of `block`, the vectors w = (I − QQᵀ)Bq, and qᵀw and wᵀw."""
        before = self.deflation.basis.size
        directions = self.deflation.extend(block)
        vectors = self._scatter(directions, before)
        return directions, vectors, [(one.sample @ w, w @ w) for one, w in zip(directions, vectors, strict=True)]

    def _accept(self, prepared: Prepared, index: int, atom: int, score: float) -> Step:
        q = prepared[0][index].sample
        length = to_host(q @ self._u)
        self._u = self._u - q[:, None] * from_host(length, self._u)[None, :]
        return self._finish_step(prepared, index, atom, score, length, self._loss())

    def _finish_step(
        self, prepared: Prepared, index: int, atom: int, score: float, length: np.ndarray, loss: float
    ) -> Step:
        """Record a step of some `length`, after which the codes outside the span are known."""
        directions, (forms, products) = prepared
        self.deflation.choose(atom)
        if products is not None:
            p, g = products[:, index], products[:, len(directions) + index]
            energy, squared = (float(to_host(form)) for form in forms[index])
            self._downdate(p, g, energy, squared, length)
            if self._lost_digits(loss):
                self._running_products = self.deflation.correlate(self._u, _NO_TAIL)
        self._steps.append(atom)
        return Step(atom, score, loss=loss, weight=tuple(length.tolist()))

    def simulate(self, J: np.ndarray) -> PoolSimulation | None:
        """The choices of this criterion among atoms `J` alone."""
        if self._running_products is None:
            return None
        p, D = len(J), self.deflation.D
        gram, scatter = np.empty((p, p)), np.empty((p, p))

        def load(part: np.ndarray) -> Array:
            return self.deflation.deflate(part).columns

        for one, two, mine, theirs in pairs_of_pieces(J, D.tile, D.shape[0], load):
            reads = mine.T @ self.within.apply(theirs), mine.T @ theirs
            scatter[one, two], gram[one, two] = (to_host(read) for read in reads)
            gram[two, one], scatter[two, one] = gram[one, two].T, scatter[one, two].T
            del mine, theirs
        self.deflation.passes += p / len(self.available)
        norms, noise = self.deflation.norms, self._noise
        raw = norms.raw[J]

        def score(pool: PoolSimulation, possible: np.ndarray) -> np.ndarray:
            assert pool.products is not None and pool.energy is not None
            return fisher_ratio(pool.products, pool.energy, raw, possible, noise)

        a, eta, squared = self.running_moments(J)
        return PoolSimulation(gram, squared, norms.floor[J], score, products=a, form=scatter, energy=eta)

    def discriminants(self, n_steps: int, alpha: float) -> Discriminants:
        """Discriminant analysis in the span of the first `n_steps` atoms, see `Discriminants.in_span`."""
        atoms = np.array(self._steps[:n_steps], dtype=np.intp)
        k, basis = len(atoms), self.deflation.basis
        return Discriminants.in_span(
            basis.directions[:k, :],
            basis.R[:k, :k],
            self.deflation.D.gram(atoms, atoms) if k else np.zeros((0, 0)),
            self.within,
            self._codes,
            alpha=alpha,
            rounding=self.deflation.eps,
        )

    def _joined(self, part: Deflated) -> np.ndarray:
        """Products with the codes and scatter side by side, (b, T + 1)."""
        return np.column_stack([self._products(part), self.within.forms(part.columns)])

    def _products(self, part: Deflated) -> np.ndarray:
        return part.products(self._u, _NO_TAIL)

    def _scatter(self, directions: list[Direction], before: int) -> list[Array]:
        """Vectors w = (I − QQᵀ)Bq of the directions q behind the first `before`. Q are all directions before q."""
        if not directions:
            return []
        Q = self.deflation.basis.directions
        W = self.within.apply(Q[before:, :].T)
        # Row s, column t: part of Bq_t along direction s, which counts for s < before + t.
        inside = np.triu(to_host(Q @ W), 1 - before)
        W = W - Q.T @ from_host(inside, Q)
        return [W[:, t] for t in range(len(directions))]

    def _correlate(self, directions: list[Direction], vectors: list[Array]) -> np.ndarray | None:
        """Products of all atoms with the directions q and then with the vectors w, where running moments are kept."""
        if self._running_products is None or not directions:
            return None
        samples = [direction.sample for direction in directions] + vectors
        return self.deflation.correlate(namespace(self._u).stack(samples, axis=1), _NO_TAIL)

    def _downdate(self, p: np.ndarray, g: np.ndarray, energy: float, squared: float, length: np.ndarray) -> None:
        """Take a direction q out of the running moments of all atoms; `energy` is qᵀw and `squared` is wᵀw."""
        assert self._running_products is not None
        norms = self.deflation.norms
        self._running_products -= p[:, None] * length[None, :]
        # p and g are wrong by about eps ‖d‖ and eps ‖d‖ ‖w‖.
        self._error += 2 * self.deflation.eps * np.sqrt(norms.raw) * (np.abs(g) + np.abs(p) * (energy + squared**0.5))
        self._eta = np.maximum(self._eta - 2 * p * g + energy * p * p, 0)
        for J, part in self.deflation.downdate(p):
            self._recompute(J, part)
        allowed = np.sqrt(self.deflation.eps) * np.maximum(self._eta, _FLOOR * norms.raw)
        lost = stale(allowed, np.where(self.available, self._error, 0))
        for J in pieces(self.deflation.D, lost):
            self._recompute(J, self.deflation.deflate(J))
        self.deflation.passes += len(lost) / len(self.available)

    def _recompute(self, J: np.ndarray, part: Deflated) -> None:
        assert self._running_products is not None
        self._running_products[J], self._error[J] = self._products(part), 0
        self._eta[J] = self.within.forms(part.columns)

    def _loss(self) -> float:
        return float(np.sum(squared_norms(self._u)) / self.deflation.total_weight)


def fisher_ratio(a: np.ndarray, eta: np.ndarray, raw: np.ndarray, possible: np.ndarray, noise: float) -> np.ndarray:
    """Scores ‖a‖² / η, a the products with the codes and η the scatter of each atom; ``-inf`` where not `possible`.

    Products below `noise` times ‖d‖² = `raw` are zero, and a scatter is at least 1e-12 ‖d‖². Scores are not finite
    where squares overflow, or where that share of ‖d‖² is no longer a number above zero.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gain = np.sum(a * a, axis=1)
        gain = np.where(gain <= noise * raw, 0.0, gain)
        return np.where(possible, gain / np.where(possible, np.maximum(eta, _FLOOR * raw), 1.0), -np.inf)
