"""Several atoms for one pass over the data, found by a simulation on a few atoms, then compared with all atoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

SMALLEST_POOL, LARGEST_POOL = 64, 1024
MOST = 64  # atoms proposed for one pass, at most, where nobody says
_START = 8  # atoms of the first block
_ROUND = 8  # a product with 9 vectors takes as long as one with 16: blocks are multiples of this, from it on
_EQUAL = 1e-9
_SQUARES = 60  # inner products of a pool for each atom of the dictionary that cost as much as a pass on a processor
_SEVERAL = 15  # the same for a second vector of a pass, and as much again for each 16 of them
_HOST_SHARE = 32  # c of the notes below, where blocks are exact and this machine's processor makes the passes
_CHEAP_SHARE = 8  # the same where a pass costs no more than a second vector
_MANY_ATOMS = 2048  # more than so many: pools of fewer cost little
_LONGEST_REST = 16  # steps that no pool is tried out, at most, where that did not pay
_SURELY = 0.95  # share of what the scores of a simulation promise that is counted on

Enough = Callable[[int, float], bool]  # (atoms, sum of their scores): whether a path would end with these


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
    alone, the more of them the more often that happened. Then a pool half as large is tried out, until one pays.

    Half of the pool are the atoms with the highest scores. The other half is drawn in proportion to the scores, because
    neighbours of the best atom score high too, but not any more once it is taken.

    Parameters
    ----------
    most : int
        Atoms in a block, at most.
    exact : bool
        Whether only the best of all atoms is accepted. A block then ends as soon as that atom is not in the pool.
    in_memory : bool
        Whether a pass only reads a matrix that is kept.

    Notes
    -----
    Of m atoms √(c m) are tried out: c is 128 where blocks must be exact, 8 where passes are cheap and 32 else. The
    inner products of the pool then take less time than a pass. Larger pools were not faster (n = 8,000 to 50,000). Nor
    were they for exact blocks of kernel values that this machine computes again at each pass, so c is 32 there too,
    but for few atoms, whose pools cost little; and 8 where it reads what is kept of them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, Squares
    >>> run = Squares(DenseDictionary(np.eye(3)), np.array([1.0, 5.0, 2.0]), intercept=False)
    >>> LookAhead(2)(run, run.scores())
    [1, 2]
    """

    def __init__(self, most: int, exact: bool = True, in_memory: bool = False):
        self._most = most
        self._size = min(_START, most)
        self._share = 128 if exact else 8 if in_memory else 32
        self._reduced = False  # whether the next pool is smaller, the last having not paid
        self._rests = exact and not in_memory
        self._alone = float(_SQUARES)  # what a pass for one vector costs
        self._cost = 1.0  # of the last block, in passes
        self._rest, self._resting = 1, 0  # steps to be taken alone next time, and now
        self._rng = np.random.default_rng(0)  # draws decide which atoms are tried out, not which are right

    def __call__(self, criterion: Any, scores: np.ndarray, enough: Enough | None = None) -> list[int]:
        """Atoms that `criterion` would take one after the other, as far as the pool can tell.

        The list is empty where the criterion cannot simulate, where that did not pay lately and where one atom is
        `enough`. Else it ends where so many are, as far as losses can be foreseen.
        """
        if self._resting or (enough is not None and enough(1, 0.0)):
            return []
        self._rests &= getattr(criterion, "on_host", False)
        self._alone = getattr(criterion, "pass_cost", 0.0) or _SQUARES
        J = self.pool(scores - criterion.baseline)
        self._cost = self._passes_of(len(J) ** 2 / len(scores))
        simulation = criterion.simulate(J)
        if simulation is None:
            return []
        block: list[int] = []
        gained = 0.0
        while len(block) < min(self._size, len(J)):
            left = simulation.scores() - criterion.baseline
            best = left.max()
            if not best > 0:
                break
            i = int(np.argmax(left >= best * (1 - _EQUAL)))  # duplicates: the first, as plain greedy choice does
            simulation.take(i)
            block.append(int(J[i]))
            gained += float(best)
            if enough is not None and enough(len(block), gained):
                break
        return block

    def _passes_of(self, products: float) -> float:
        """Cost of a block, in passes for one vector, given the inner products of its pool for each atom."""
        return 1 + (products + _SEVERAL * (1 + self._size / 16)) / self._alone

    def learn(self, proposed: int, accepted: int) -> None:
        """Adapt the length of the next block."""
        if self._resting:
            self._resting -= 1
            return
        if self._rests and proposed > 1:
            self._reduced = accepted < self._cost
            longest = round(_LONGEST_REST * self._cost)
            self._rest = min(2 * self._rest, longest) if self._reduced else 1
            self._resting = self._rest if self._reduced else 0
        wanted = 2 * self._size if accepted == proposed else accepted + accepted // 2 + 1
        if self._size > 2 * _ROUND:  # a single atom that nobody tried out may have ended a long block
            wanted = max(wanted, self._size // 2)
        if wanted >= _ROUND:
            wanted = _ROUND * -(-wanted // _ROUND)
        self._size = min(max(wanted, 2), self._most)

    def pool(self, scores: np.ndarray) -> np.ndarray:
        """Atoms to try out, sorted, given scores counted from the criterion's baseline."""
        possible = np.flatnonzero(scores > 0)
        share = min(self._share, _HOST_SHARE) if self._rests and len(scores) > _MANY_ATOMS else self._share
        share = min(share, _CHEAP_SHARE) if self._alone <= _SEVERAL else share
        size = int(np.clip(np.sqrt(share * len(scores)), SMALLEST_POOL, LARGEST_POOL)) // (1 + self._reduced)
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


def enough_for(stop: Any, path: Any, criterion: Any) -> Enough | None:
    """A function that says whether a path would end with some more atoms, as far as the stop rule knows beforehand.

    A rule that does has a method ``foresees(path, steps, loss)``: whether so many steps, after which the loss is so
    much (or nan), would end it.
    """
    foresees = getattr(stop, "foresees", None)
    if foresees is None:
        return None
    loss, share = path.steps[-1].loss if path.steps else path.start.loss, getattr(criterion, "loss_per_score", np.nan)
    return lambda atoms, gained: foresees(path, len(path) + atoms, loss - _SURELY * gained * share)
