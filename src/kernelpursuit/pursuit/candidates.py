"""Which atoms a step looks at."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log

import numpy as np

Candidates = Callable[[np.ndarray], "np.ndarray | None"]


def everything(alive: np.ndarray) -> None:
    """All atoms at every step."""
    return None


def random_subset(size: int, rng: np.random.Generator) -> Candidates:
    """A fresh random set of `size` live atoms at each step, drawn without replacement.

    The best of s atoms drawn from m is among the best g with probability at least 1 - (1 - g/m)**s, whatever the
    distribution of the scores; see `active_set_size`.

    Examples
    --------
    >>> import numpy as np
    >>> random_subset(2, np.random.default_rng(0))(np.array([True, False, True]))
    array([0, 2])
    """

    def candidates(alive: np.ndarray) -> np.ndarray:
        indices = np.flatnonzero(alive)
        return np.sort(rng.choice(indices, size=min(size, len(indices)), replace=False))

    return candidates


def active_set_size(epsilon: float, quantile: float) -> int:
    """Sample size whose best is above `quantile` of all scores with probability 1 - `epsilon`: ⌈ln ε / ln q⌉.

    Examples
    --------
    >>> active_set_size(0.05, 0.95), active_set_size(0.01, 0.98)
    (59, 228)
    """
    for name, value in (("epsilon", epsilon), ("quantile", quantile)):
        if not 0 < value < 1:
            raise ValueError(f"{name} of the active set must be between 0 and 1, got {value!r}")
    return ceil(log(epsilon) / log(quantile))
