"""Several atoms for one pass over the data, found by a simulation on a few atoms, then compared with all atoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

SMALLEST_POOL, LARGEST_POOL = 64, 1024
MOST = 64  # atoms proposed for one pass, at most, unless another number is given
_START = 8  # atoms of the first block
_ROUND = 8  # a product with 9 vectors takes as long as one with 16: blocks are multiples of this, from it on
_EQUAL = 1e-9
_SQUARES = 60  # inner products of a pool for each atom of the dictionary that cost as much as a pass on a processor
_SEVERAL = 15  # inner products that cost as much as a second vector of a pass, and again for each 16 vectors
_LONGEST_REST = 64  # steps without a pool, at most, where pools did not pay
_SURELY = 0.95  # share of what the scores of a simulation promise that is counted on


class Simulation(Protocol):
    """A criterion that knows a pool of atoms only, and chooses as if there were no others."""

    def scores(self) -> np.ndarray:
        """Score of each atom of the pool, ``-inf`` for those that cannot be taken."""

    def take(self, i: int) -> Any:
        """Take atom `i` of the pool."""


class LookAhead:
    """Proposals of blocks of atoms, as long as the acceptance of earlier blocks suggests.

    After a block of which all atoms were accepted, the next one is twice as long. Otherwise it is half as long again as
    the part that was accepted; a long one at least half as long as before. Where blocks must be exact, the rows are on
    this machine and fewer atoms were accepted than the block has cost passes, its pool counted, some steps are taken
    alone, the more of them the more often that happened.

    Half of the pool are the atoms with the highest scores. The other half is drawn in proportion to the scores, because
    neighbours of the best atom score high too, but not any more once it is taken.

    Parameters
    ----------
    criterion : CriterionProtocol
    stop : callable, optional
        The stop rule. A `PredictableRule` keeps blocks from being longer than the path.
    most : int
        Atoms in a block, at most.
    exact : bool
        Whether only the best of all atoms is accepted. A block then ends as soon as that atom is not in the pool.

    Notes
    -----
    Of m atoms √(c m) are tried out: c is 128 where blocks must be exact, 8 where passes are cheap and 32 else. The
    inner products of the pool then take less time than a pass. Larger pools were not faster (n = 8,000 to 50,000). Nor
    were they for exact blocks of kernel values that this machine computes again at each pass, so c is 32 there too; and
    8 where it reads what is kept of them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, Squares
    >>> run = Squares(DenseDictionary(np.eye(3)), np.array([1.0, 5.0, 2.0]), intercept=False)
    >>> LookAhead(run, most=2)(run.scores())
    [1, 2]
    """

    def __init__(self, criterion: Any, stop: Any = None, most: int = MOST, exact: bool = True):
        self._criterion, self._stop = criterion, stop
        self._most = most
        self._size = min(_START, most)
        self._may_rest = exact and not criterion.in_memory and getattr(criterion, "on_host", False)
        self._share = 128 if exact and not self._may_rest else 8 if criterion.in_memory else 32
        self._cost = 1.0  # of the last block, in passes
        self._rest, self._resting = 1, 0  # steps to be taken alone next time, and now
        self._rng = np.random.default_rng(0)  # draws decide which atoms are tried out, not which are right

    @property
    def _pass_cost(self) -> float:
        """Cost of a pass for one vector, in inner products of a pool for each atom of the dictionary."""
        return getattr(self._criterion, "pass_cost", 0.0) or _SQUARES

    def __call__(self, scores: np.ndarray, path: Any = None) -> list[int]:
        """Atoms that the criterion would take one after the other, as far as the pool can tell, given all `scores`.

        The list is empty where the criterion cannot simulate, where that did not pay lately and where the `path` ends
        with one atom more. Else it ends where the path would, as far as the stop rule knows beforehand.
        """
        ends = self._known_end(path)
        if self._resting or ends(1, 0.0):
            return []
        J = self.pool(scores - self._criterion.baseline)
        products = len(J) ** 2 / len(scores)
        self._cost = 1 + (products + _SEVERAL * (1 + self._size / 16)) / self._pass_cost
        simulation = self._criterion.simulate(J)
        if simulation is None:
            return []
        block: list[int] = []
        gained = 0.0
        while len(block) < min(self._size, len(J)):
            left = simulation.scores() - self._criterion.baseline
            best = left.max()
            if not best > 0:
                break
            i = int(np.argmax(left >= best * (1 - _EQUAL)))  # duplicates: the first, as plain greedy choice does
            simulation.take(i)
            block.append(int(J[i]))
            gained += float(best)
            if ends(len(block), gained):
                break
        return block

    def _known_end(self, path: Any) -> Callable[[int, float], bool]:
        """Function of a number of atoms and the sum of their scores: whether the path is known to end with these."""
        ends = getattr(self._stop, "ends", None)
        if ends is None:
            return lambda atoms, gained: False
        loss = path.steps[-1].loss if path.steps else path.start.loss
        share = getattr(self._criterion, "loss_per_score", np.nan)
        return lambda atoms, gained: ends(path, len(path) + atoms, loss - _SURELY * gained * share)

    def learn(self, proposed: int, accepted: int) -> None:
        """Adapt the length of the next block."""
        if self._resting:
            self._resting -= 1
            return
        if self._may_rest and proposed > 1:
            paid = accepted >= self._cost
            self._rest = 1 if paid else min(2 * self._rest, _LONGEST_REST)
            self._resting = 0 if paid else self._rest
        length = 2 * self._size if accepted == proposed else accepted + accepted // 2 + 1
        if self._size > 2 * _ROUND:  # a single atom that was in no pool may have ended a long block
            length = max(length, self._size // 2)
        if length >= _ROUND:
            length = _ROUND * -(-length // _ROUND)
        self._size = min(max(length, 2), self._most)

    def pool(self, scores: np.ndarray) -> np.ndarray:
        """Atoms to try out, sorted, given scores counted from the criterion's baseline."""
        possible = np.flatnonzero(scores > 0)
        share = min(self._share, 8) if self._pass_cost <= _SEVERAL else self._share
        size = int(np.clip(np.sqrt(share * len(scores)), SMALLEST_POOL, LARGEST_POOL))
        if len(possible) <= size:
            return possible
        half = size // 2
        gain = scores[possible]
        best = np.argpartition(-gain, half)[:half]
        # The largest ratios of score to independent exponential times are a draw in proportion to the scores.
        clock = gain / self._rng.standard_exponential(len(gain))
        clock[best] = -np.inf
        drawn = np.argpartition(-clock, size - half)[: size - half]
        return possible[np.sort(np.concatenate([best, drawn]))]
