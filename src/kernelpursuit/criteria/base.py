"""Base classes of the criteria: atoms are taken in order, each once its score was compared with those of the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, squared_rows
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Deflated, Direction
from kernelpursuit.pursuit.lookahead import MOST
from kernelpursuit.pursuit.loop import Step, certified_weakness

VARIANTS = ("prefit", "backfit", "basic")


class Criterion(ABC):
    """Base class of the criteria. Takes blocks of atoms, each at one pass over the data.

    `scores` asks `_evaluate` for scores that it does not know. `take` asks `_prepare` what the atoms of a block add,
    then `_accept` for one atom after the other while their scores are high enough, and at last `_give_back` to forget
    the rest. Running numbers are those that a criterion keeps up to date for all atoms.

    Attributes
    ----------
    available : ndarray of bool, shape (n_atoms,)
        Atoms that may still be taken.
    tie_tolerance : float or ndarray of shape (n_atoms,)
        Relative difference under which two scores are equal.
    baseline : float
        Scores at or below this say that an atom changes nothing. Ties are relative to the distance from it.
    ends_early_in_float32 : bool
        Whether float32 refuses atoms that float64 would still tell from the span.
    mostly_passes : bool
        Whether a step does little but a pass over the data, so that BLAS needs no threads for the rest.
    """

    baseline = 0.0
    ends_early_in_float32 = False
    mostly_passes = False
    available: Any  # an attribute, or a property of those who build on a `Deflation`
    tie_tolerance: Any
    _scores: np.ndarray | None = None  # of all atoms, until the next step
    _sampled: dict[int, float] | None = None  # of a sample of atoms, until the next step

    @property
    @abstractmethod
    def tracks_all_scores(self) -> bool:
        """Whether running numbers are kept, so that the score of every atom is known."""

    @property
    @abstractmethod
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""

    @abstractmethod
    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores of atoms `J` (None: all) now; ``-inf`` for atoms that cannot be taken."""

    @abstractmethod
    def _prepare(self, block: list[int]) -> tuple[list[int], Any]:
        """Compute what the atoms of `block` add, one after the other, up to the first that adds nothing.

        Returns those atoms, and whatever `_accept` needs to know. The model does not change yet.
        """

    @abstractmethod
    def _accept(self, prepared: Any, index: int, atom: int, score: float) -> Step:
        """Change the model, and all running numbers, by what atom number `index` of the block adds."""

    @abstractmethod
    def _give_back(self, prepared: Any, taken: int) -> None:
        """Forget what the atoms after the first `taken` would add."""

    def _finish_block(self) -> None:  # noqa: B027
        """Bring running numbers in order after a block of atoms."""

    def simulate(self, J: np.ndarray) -> Any:
        """A `Simulation` of this criterion on atoms `J` alone; None where each choice needs a pass of its own."""
        return None

    def scores(self, J: np.ndarray | None = None) -> np.ndarray:
        """Score of atoms `J` (None: all), larger is better; ``-inf`` for atoms that cannot be taken."""
        if J is None:
            if self._scores is None:
                self._scores = self._evaluate(None)
            return self._scores
        J = np.asarray(J)
        if self.tracks_all_scores:
            return self._evaluate(J)
        if self._sampled is None:
            self._sampled = {}
        new = np.array([j for j in J.tolist() if j not in self._sampled], dtype=np.intp)
        if len(new):
            self._sampled |= zip(new.tolist(), self._evaluate(new).tolist(), strict=True)
        return np.array([self._sampled[j] for j in J.tolist()])

    def take(self, block: list[int], weakness: float = 1.0) -> Iterator[Step]:
        """Take atoms in order at one pass over the data, each while its score is at least `weakness` times the best."""
        atoms, prepared = self._prepare(block)
        if not atoms:  # only the first is known to add nothing: the others may do so because of those before them
            self.available[block[0]] = False
            self._forget_scores()
        taken = 0
        try:
            for index, atom in enumerate(atoms):
                score, share = self._certify(atom)
                if share < weakness or score == -np.inf:
                    break
                self._forget_scores()
                step = self._accept(prepared, index, atom, score)
                taken += 1
                yield step._replace(weakness=share)
        finally:
            self._give_back(prepared, taken)
        self._finish_block()

    def _certify(self, atom: int) -> tuple[float, float]:
        """Score of `atom` now, and its share of the best of all where that is known."""
        if not self.tracks_all_scores:
            return float(self.scores(np.array([atom]))[0]), 1.0
        scores = self.scores()
        return float(scores[atom]), certified_weakness(scores, self.tie_tolerance, atom, self.baseline)

    def _forget_scores(self) -> None:
        self._scores = self._sampled = None


class OrthogonalCriterion(Criterion):
    """Base class of the criteria whose atoms each add a direction to a `Deflation`.

    What `_prepare` hands to `_accept` is a pair: the directions, and what the criterion computed of them.
    """

    deflation: Deflation
    _jointly: bool = True  # whether scores divide by norms outside the span, not by those outside the constant
    _running_products: np.ndarray | None = None  # (n_atoms, t), of all atoms with what is left to explain
    _refreshed_at: float  # loss when these were last computed from the definition

    @abstractmethod
    def _products(self, part: Deflated) -> np.ndarray:
        """Products of deflated atoms with what is left to explain: the definition of the running products."""

    @abstractmethod
    def _loss(self) -> float:
        """Loss of the model now."""

    @property
    def tracks_all_scores(self) -> bool:
        """Whether running products are kept, so that the score of every atom is known."""
        return self._running_products is not None

    @property
    def tie_tolerance(self) -> Any:
        """Relative difference under which two scores are equal."""
        return self.deflation.tie_tolerance

    @property
    def available(self) -> np.ndarray:
        """Atoms that may still be taken."""
        return self.deflation.available

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return self.deflation.D.in_memory

    @property
    def pass_cost(self) -> float:
        """Cost of a pass for one vector, in inner products of two atoms for each atom; 0 where it is not known."""
        return getattr(self.deflation.D, "pass_cost", 0.0)

    @property
    def on_host(self) -> bool:
        """Whether passes are made by this machine's processor, for which a pool takes as long as a pass."""
        return isinstance(self.deflation.basis.directions, np.ndarray)

    @property
    def passes(self) -> float:
        """Passes over the data so far."""
        return self.deflation.passes

    def reserve(self, atoms: int) -> None:
        """Make room for so many directions, for that of the constant, and for a block that waits."""
        if self.deflation.orthogonal:
            self.deflation.basis.reserve(1 + atoms + MOST)

    def initial_step(self) -> Step:
        """State before the first atom."""
        return Step(atom=-1, loss=self._loss())

    def _ratios(self, J: np.ndarray | None) -> np.ndarray:
        """Scores ‖a‖² / ‖d̃‖² of atoms `J` (None: all), a their products with what is left to explain.

        They are those kept up to date, or else computed from the definition. ``-inf`` for atoms in the span.
        """

        def look(part: Deflated) -> tuple[np.ndarray, np.ndarray]:
            return self._products(part), part.squared if self._jointly else part.centred

        chosen = slice(None) if J is None else J
        if self._running_products is None:
            a, norms = self.deflation.look_at(J, look)
        else:
            norms = self.deflation.norms.squared if self._jointly else self.deflation.norms.centred
            a, norms = self._running_products[chosen], norms[chosen]
        gain = ratios(a, norms, self.available[chosen])
        if not gain.max(initial=0) < np.inf:
            raise ValueError("the products of atoms and targets overflow: scale X or y, or change kernel or gamma")
        return gain

    def _prepare_first(self, block: list[int]) -> tuple[list[int], tuple[list[Direction], None]]:
        """`_prepare` for criteria that take one atom at a time, because its step depends on the fit before."""
        directions = self.deflation.extend(block[:1])
        return [direction.atom for direction in directions], (directions, None)

    def _give_back(self, prepared: tuple[list[Direction], Any], taken: int) -> None:
        self.deflation.give_back(len(prepared[0]) - taken)

    def _recompute(self, J: np.ndarray, part: Deflated) -> None:
        """Compute the running products of atoms `J` from the definition, given these atoms deflated."""
        assert self._running_products is not None
        self._running_products[J] = self._products(part)

    def _finish_block(self) -> None:
        """Go over to passes in float64 where those of fewer digits have lost too many."""
        if self._running_products is not None and self.deflation.needs_float64:
            for J, part in self.deflation.raise_precision():
                self._recompute(J, part)
            self._refreshed_at = self._loss()
            self._forget_scores()

    def _lost_digits(self, loss: float) -> bool:
        """Whether cancellation took half of the digits of what is left to explain, and so of all products with it."""
        lost = loss < self._refreshed_at * np.sqrt(self.deflation.eps)
        if lost:
            self._refreshed_at = loss
        return lost


def deflation_of_variant(variant: str, dictionary: Dictionary, targets: Array, **options: Any) -> Deflation:
    """The atoms that targets are fitted by, which join the span when they are chosen, unless the variant is basic."""
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {VARIANTS}, got {variant!r}")
    return Deflation(dictionary, targets, orthogonal=variant != "basic", **options)


def ratios(products: np.ndarray, norms: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Scores ‖a‖² / norm of some atoms, a the rows of `products`; ``-inf`` where an atom is not `possible`."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # atoms that are not possible
        gain = squared_rows(products) / norms
    gain[~possible] = -np.inf
    return gain
