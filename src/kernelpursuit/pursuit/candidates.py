"""Rules that choose the atoms whose scores a step computes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import ceil, log
from typing import Any

import numpy as np

Candidates = Callable[[np.ndarray], "np.ndarray | None"]
START, RATE = 59, 1.7  # of `growing_subset`


def everything(available: np.ndarray) -> None:
    """All atoms at every step."""
    return None


def available_sample(criterion: Any, candidates: Candidates) -> np.ndarray | None:
    """A sample of atoms, drawn again until none of them turns out to lie in the span; None: all atoms.

    So a sample depends on the steps before it, and not on which atoms earlier samples happened to hold.
    """
    while criterion.available.any() and (sample := candidates(criterion.available)) is not None:
        before = criterion.available[sample]
        criterion.scores(sample)  # an atom in the span is no longer available then
        if np.array_equal(before, criterion.available[sample]):
            return sample
    return None


def random_subset(size: int, rng: np.random.Generator) -> Candidates:
    """A fresh random set of `size` available atoms at each step, drawn without replacement.

    The best of s atoms drawn from m is among the best share g of them with probability at least 1 - (1 - g)**s,
    whatever the distribution of the scores; see `sample_size`.

    They are the first available ones of a random order of all atoms. An atom that is no longer available leaves its
    place to the next one, and the others stay.

    Examples
    --------
    >>> import numpy as np
    >>> random_subset(2, np.random.default_rng(0))(np.array([True, False, True]))
    array([0, 2])
    """

    def candidates(available: np.ndarray) -> np.ndarray:
        few, m = 4 * size, len(available)  # draws that mostly hold enough different available atoms
        order = rng.integers(m, size=few) if few < m else rng.permutation(m)
        found = first_available(order, available, size)
        if len(found) < size and few < m:
            found = first_available(np.concatenate([order, rng.permutation(m)]), available, size)
        return found

    return candidates


def first_available(order: np.ndarray, available: np.ndarray, size: int) -> np.ndarray:
    """The first `size` different available atoms of a list, ascending.

    Examples
    --------
    >>> first_available(np.array([2, 0, 2, 3, 1]), np.array([True, True, True, False]), 2)
    array([0, 2])
    """
    available = order[available[order]]
    return np.sort(available[np.sort(np.unique(available, return_index=True)[1])[:size]])


def growing_subset(rng: np.random.Generator, start: int = START, rate: float = RATE, first_step: int = 0) -> Candidates:
    """A fresh random set of available atoms at each step, ⌈start + rate t⌉ of them at draw t from `first_step` on.

    Late in a path fewer atoms are nearly as good as the best, so a late sample should be larger. With the defaults a
    step looks at 228 atoms on average over 200 steps, as many as find one of the best 2% with probability 0.99.

    Examples
    --------
    >>> import numpy as np
    >>> draw = growing_subset(np.random.default_rng(0), start=2, rate=0.5)
    >>> [len(draw(np.ones(9, dtype=bool))) for _ in range(4)]
    [2, 3, 3, 4]
    """
    steps = count(first_step)

    def candidates(available: np.ndarray) -> np.ndarray | None:
        return random_subset(ceil(start + rate * next(steps)), rng)(available)

    return candidates


def sample_size(epsilon: float, quantile: float) -> int:
    """How many atoms to draw so that the best is above `quantile` of all scores with probability 1 - `epsilon`.

    The number is ⌈ln ε / ln q⌉.

    Examples
    --------
    >>> sample_size(0.05, 0.95), sample_size(0.01, 0.98)
    (59, 228)
    """
    for name, value in (("epsilon", epsilon), ("quantile", quantile)):
        if not 0 < value < 1:
            raise ValueError(f"{name} of the candidates must be between 0 and 1, got {value!r}")
    return ceil(log(epsilon) / log(quantile))


def why_none(taken: np.ndarray, available: np.ndarray) -> str:
    """Why there is no atom to take: all of them are `taken`, or the others would change nothing.

    Examples
    --------
    >>> why_none(np.array([1, 0]), np.array([False, False]))
    'no atom is left'
    """
    all_taken = len(taken) == len(available) and not available.any()
    return "no atom is left" if all_taken else "no other atom would change the fit"
