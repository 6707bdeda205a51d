"""What all criteria do alike: take atoms in order, each after its score was compared with those of all others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Deflated, Direction
from kernelpursuit.pursuit.lookahead import MOST
from kernelpursuit.pursuit.loop import Step, certificate

_NO_TIE = 0.05  # share of the best score by which another one is lower that is no tie, however uncertain both are


class Taking(ABC):
    """The part of a criterion that takes blocks of atoms. Scores are kept until the next step.

    A criterion has the attributes `alive` and `tie` of `Criterion`, and says what is its own in five methods. Running
    numbers are those that it keeps up to date for all atoms, at one pass over the data for each block.

    Attributes
    ----------
    origin : float
        Scores at or below this say that an atom changes nothing. Ties are relative to the distance from it.
    """

    origin = 0.0
    alive: Any  # an attribute, or a property of those who build on a `Deflation`
    tie: Any
    _scores: np.ndarray | None = None  # of all atoms
    _looked: dict[int, float] | None = None  # of a sample of atoms

    @property
    @abstractmethod
    def follows(self) -> bool:
        """Whether running numbers are kept, so that the score of every atom is known."""

    @property
    def could_follow(self) -> bool:
        """Whether they are not kept yet, and a pass would only read a matrix that is kept."""
        return self.in_memory and not self.follows

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
    def _accept(self, waiting: Any, place: int, atom: int, score: float) -> Step:
        """Change the model, and all running numbers, by what atom number `place` of the block adds."""

    @abstractmethod
    def _give_back(self, waiting: Any, taken: int) -> None:
        """Forget what the atoms after the first `taken` would add."""

    def rehearse(self, J: np.ndarray) -> Any:
        """A copy that knows atoms `J` only, where choices can be tried out; None where each needs a pass of its own."""
        return None

    def scores(self, J: np.ndarray | None = None) -> np.ndarray:
        """Score of atoms `J` (None: all), larger is better; ``-inf`` for atoms that cannot be taken."""
        if J is None:
            if self._scores is None:
                self._scores = self._evaluate(None)
            return self._scores
        J = np.asarray(J)
        if self.follows:
            return self._evaluate(J)
        if self._looked is None:
            self._looked = {}
        new = np.array([j for j in J.tolist() if j not in self._looked], dtype=np.intp)
        if len(new):
            self._looked |= zip(new.tolist(), self._evaluate(new).tolist(), strict=True)
        return np.array([self._looked[j] for j in J.tolist()])

    def take(self, block: list[int], weakness: float = 1.0) -> Iterator[Step]:
        """Take atoms in order at one pass over the data, each while its score is at least `weakness` times the best."""
        atoms, waiting = self._prepare(block)
        if not atoms:  # only the first is known to add nothing: the others may do so because of those before them
            self.alive[block[0]] = False
            self._forget()
        taken = 0
        try:
            for place, atom in enumerate(atoms):
                score, share = self._certify(atom)
                if share < weakness or score == -np.inf:
                    break
                self._forget()
                step = self._accept(waiting, place, atom, score)
                taken += 1
                yield step._replace(weakness=share)
        finally:
            self._give_back(waiting, taken)
        self._check_precision()

    def _check_precision(self) -> None:  # noqa: B027
        """Compute running numbers in float64 from now on where passes of fewer digits have lost too many of them."""

    def _certify(self, atom: int) -> tuple[float, float]:
        """Score of `atom` now, and its share of the best of all where that is known."""
        if not self.follows:
            known = (self._looked or {}).get(atom)
            return float(self.scores(np.array([atom]))[0]) if known is None else known, 1.0
        scores = self.scores()
        score, best = float(scores[atom]), float(scores.max())
        if 0 <= self.origin < best < np.inf and score < (1 - _NO_TIE) * best:
            return score, max(score / best, 0.0)
        return score, certificate(scores, self.tie, atom, self.origin)

    def _forget(self) -> None:
        """Scores are to be computed anew."""
        self._scores = self._looked = None


class TakingDirections(Taking):
    """The same for criteria that build on a `Deflation`, called `atoms`: each atom adds a direction.

    What waits, for them, is a pair: the directions, and what the criterion computed of them.
    """

    atoms: Deflation
    _a: np.ndarray | None = None  # (n_atoms, t), running products of all atoms with what is left to explain
    _refreshed_at: float  # loss when these were last computed from the definition

    @property
    def follows(self) -> bool:
        """Whether the score of every atom is known."""
        return self._a is not None

    @property
    def tie(self) -> Any:
        """Relative difference under which two scores are equal."""
        return self.atoms.tie

    @property
    def alive(self) -> np.ndarray:
        """Atoms that may still be taken."""
        return self.atoms.alive

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix that is kept."""
        return self.atoms.D.in_memory

    @property
    def pass_cost(self) -> float:
        """What a pass for one vector costs, in inner products of two atoms for each atom; 0 where it is not known."""
        return getattr(self.atoms.D, "pass_cost", 0.0)

    @property
    def on_host(self) -> bool:
        """Whether a pass is made by this machine's processor, whom a pool costs as much as a pass."""
        return isinstance(self.atoms.basis.directions, np.ndarray)

    @property
    def passes(self) -> float:
        """Passes over the data so far."""
        return self.atoms.passes

    def reserve(self, atoms: int) -> None:
        """Make room for so many directions beside that of the constant and a block that waits."""
        if self.atoms.orthogonal:
            self.atoms.basis.reserve(1 + atoms + MOST)

    def start(self) -> Step:
        """State before the first atom."""
        return Step(atom=-1, loss=self._loss())

    @abstractmethod
    def _loss(self) -> float:
        """Loss of the model now."""

    def _renew(self, J: np.ndarray, part: Deflated) -> None:
        """Compute the running products of atoms `J` from the definition, given these atoms outside the span."""
        assert self._a is not None
        self._a[J] = self._products(part)

    @abstractmethod
    def _products(self, part: Deflated) -> np.ndarray:
        """Products of deflated atoms with what is left to explain: the definition of what runs."""

    def _check_precision(self) -> None:
        if self._a is not None and self.atoms.ends_block():
            for J, part in self.atoms.raise_precision():
                self._renew(J, part)
            self._refreshed_at = self._loss()
            self._forget()

    def _first_alone(self, block: list[int]) -> tuple[list[int], tuple[list[Direction], None]]:
        """`_prepare` for criteria that know what an atom adds only once those before it are in the fit."""
        directions = self.atoms.extend(block[:1])
        return [direction.atom for direction in directions], (directions, None)

    def _give_back(self, waiting: tuple[list[Direction], Any], taken: int) -> None:
        self.atoms.give_back(waiting[0][taken:])

    def _lost_digits(self, loss: float) -> bool:
        """Whether what is left to explain has lost half of its digits by cancellation: so have all products with it."""
        lost = loss < self._refreshed_at * np.sqrt(self.atoms.eps)
        if lost:
            self._refreshed_at = loss
        return lost
