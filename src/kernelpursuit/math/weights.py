"""Weights of the atoms after every step of a path, kept as the change by each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelpursuit.arrays import padded


@dataclass(frozen=True, eq=False)
class WeightPath:
    """Weights after 0, 1, ... steps, each of which adds a combination of atoms times a length for each target.

    The directions of an orthogonal path are the columns of R⁻¹. So the weights of all k models take k²/2 numbers in
    all, not for each target. They are summed step by step, so that a shortened path has the same weights to the last
    bit.

    Parameters
    ----------
    constants : ndarray of shape (steps + 1, n_targets)
        Change of the intercept by each step; the first is the intercept without any atom.
    lengths : ndarray of shape (steps, n_targets)
    entries : ndarray
        Directions one after the other, each as the entries of atoms ``first`` to ``first + count - 1``.
    first, count : ndarray of int, shape (steps,)

    Examples
    --------
    >>> import numpy as np
    >>> path = WeightPath.of(np.zeros((3, 1)), np.array([[2.0], [3.0]]), np.array([[1.0, -1.0], [0.0, 1.0]]))
    >>> [coef[:, 0].tolist() for coef in path]
    [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, -1.0, 3.0]]
    >>> path.truncate(1).last()[:, 0].tolist()
    [0.0, 2.0]
    """

    constants: np.ndarray
    lengths: np.ndarray
    entries: np.ndarray
    first: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, constants: np.ndarray, lengths: np.ndarray, directions: np.ndarray) -> WeightPath:
        """Weights along directions that are columns, (n_atoms, steps). Leading and trailing zeros are not stored."""
        places = [np.flatnonzero(direction) for direction in directions.T]
        spans = [(place[0], place[-1] + 1) if len(place) else (0, 0) for place in places]
        pieces = [direction[first:stop] for direction, (first, stop) in zip(directions.T, spans, strict=True)]
        first, stop = np.array(spans, dtype=np.int32).reshape(-1, 2).T
        return cls(constants, lengths, np.concatenate([np.zeros(0), *pieces]), first, stop - first)

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Weights after 0, 1, ... steps, (1 + n_atoms, n_targets), the intercept first."""
        width = int(np.max(self.first + self.count, initial=0))
        coef = np.zeros((1 + width, self.constants.shape[1]))
        ends = np.cumsum(self.count)
        coef[0] = self.constants[0]
        yield coef.copy()
        for t, (i, count, end) in enumerate(zip(self.first, self.count, ends, strict=True)):
            coef[0] += self.constants[t + 1]
            coef[1 + i : 1 + i + count] += self.entries[end - count : end, None] * self.lengths[t]
            yield coef.copy()

    def last(self) -> np.ndarray:
        """Weights after all steps."""
        *_, coef = self
        return coef

    def directions(self) -> np.ndarray:
        """Directions of the steps as columns, (n_atoms, steps)."""
        out = np.zeros((int(np.max(self.first + self.count, initial=0)), len(self)))
        ends = np.cumsum(self.count)
        for t, (i, count, end) in enumerate(zip(self.first, self.count, ends, strict=True)):
            out[i : i + count, t] = self.entries[end - count : end]
        return out

    def truncate(self, k: int) -> WeightPath:
        """The first `k` steps."""
        entries = self.entries[: int(np.sum(self.count[:k]))]
        return WeightPath(self.constants[: k + 1], self.lengths[:k], entries, self.first[:k], self.count[:k])

    def times(self, unit: float, zero: np.ndarray | float = 0.0) -> WeightPath:
        """The weights for targets in another unit, with `zero` added to the intercept."""
        constants = self.constants * unit
        constants[0] += zero
        return replace(self, constants=constants, lengths=self.lengths * unit)


@dataclass(frozen=True, eq=False)
class KeptWeights:
    """Weights after 0, 1, ... steps of a path on which each step fits all weights again.

    A refit gives every atom a new weight for each target. Those numbers follow from nothing smaller than the training
    data, so all of them are kept.

    Parameters
    ----------
    stages : sequence of ndarray
        For 0, 1, ... steps: all weights, (1 + n_atoms, n_targets), the intercept first.

    Examples
    --------
    >>> import numpy as np
    >>> path = KeptWeights([np.array([[1.0]]), np.array([[2.0], [5.0]])])
    >>> [coef[:, 0].tolist() for coef in path]
    [[1.0, 0.0], [2.0, 5.0]]
    """

    stages: Sequence[np.ndarray]

    def __len__(self) -> int:
        return len(self.stages) - 1

    def __iter__(self) -> Iterator[np.ndarray]:
        """Weights after 0, 1, ... steps, (1 + n_atoms, n_targets), the intercept first."""
        width = max(map(len, self.stages))
        return (padded(stage, width) for stage in self.stages)

    def last(self) -> np.ndarray:
        """Weights after all steps."""
        *_, coef = self
        return coef

    def truncate(self, k: int) -> KeptWeights:
        """The first `k` steps."""
        return KeptWeights(self.stages[: k + 1])

    def times(self, unit: float, zero: np.ndarray | float = 0.0) -> KeptWeights:
        """The weights for targets in another unit, with `zero` added to the intercept."""
        stages = [stage * unit for stage in self.stages]
        for stage in stages:
            stage[0] += zero
        return KeptWeights(stages)
