"""L-BFGS between bounds, which can be left and taken up again: some starts are tried for a while, the best goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

REMEMBERED = 20  # pairs of steps and changes of the gradient that curvature is known from
DECREASE, CURVATURE = 1e-4, 0.9  # Wolfe's conditions
TRIES = 15  # evaluations for one step


class Climb:
    """A minimisation that is under way.

    Parameters
    ----------
    objective : callable
        ``objective(theta) -> value, gradient``.
    theta : ndarray of shape (p,)
        Start.
    lowest, highest : ndarray of shape (p,)
        Bounds.

    Attributes
    ----------
    theta, value : ndarray, float
        The lowest so far.
    at_rest : bool
        Whether no step leads downwards any more.

    Examples
    --------
    >>> bowl = lambda x: (float(np.sum((x - 3) ** 2)), 2 * (x - 3))
    >>> climb = Climb(bowl, np.zeros(2), np.full(2, -9), np.array([9, 1]))
    >>> while climb.step():
    ...     pass
    >>> climb.theta
    array([3., 1.])
    """

    def __init__(
        self,
        objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
        theta: np.ndarray,
        lowest: np.ndarray,
        highest: np.ndarray,
    ):
        self._objective, self._lowest, self._highest = objective, lowest, highest
        self.theta = np.minimum(np.maximum(theta, lowest), highest)
        self.value, self._gradient = np.inf, np.zeros(0)
        self._pairs: list[tuple[np.ndarray, np.ndarray, float]] = []  # steps, changes of the gradient, 1 / product
        self.at_rest = False

    def step(self) -> bool:
        """Take one step downwards. Returns whether there was one."""
        if self.value == np.inf:
            self.value, self._gradient = self._objective(self.theta)
        found = self._search(self._newton())
        if found is None and self._pairs:  # the curvature is that of elsewhere: begin again
            self._pairs = []
            found = self._search(self._newton())
        if found is None:
            self.at_rest = True
            return False
        theta, value, gradient = found
        step, change = theta - self.theta, gradient - self._gradient
        product = float(step @ change)
        if product > 1e-12 * float(change @ change):
            self._pairs = [*self._pairs[1 - REMEMBERED :], (step, change, 1 / product)]
        self.theta, self.value, self._gradient = theta, value, gradient
        return True

    def _newton(self) -> np.ndarray:
        """Minus the gradient times the inverse of the curvature, by the recursion of two loops.

        All within the parameters that no bound holds back.
        """
        free = np.where(self._gradient > 0, self.theta > self._lowest, self.theta < self._highest)
        q, pairs = np.where(free, self._gradient, 0.0), self._pairs
        if not free.all():
            pairs = [(step * free, change * free, 0.0) for step, change, _ in pairs]
            pairs = [(step, change, 1 / (step @ change)) for step, change, _ in pairs if step @ change > 0]
        if not pairs:
            return -q / max(1.0, float(np.linalg.norm(q)))
        factors = []
        for step, change, inverse in reversed(pairs):
            factors.append(inverse * (step @ q))
            q = q - factors[-1] * change
        _, change, inverse = pairs[-1]
        q = q / (inverse * (change @ change))
        for (step, change, inverse), factor in zip(pairs, reversed(factors), strict=True):
            q = q + (factor - inverse * (change @ q)) * step
        return -q

    def _search(self, direction: np.ndarray) -> tuple[np.ndarray, float, np.ndarray] | None:
        """A point along a line, bent at the bounds, that Wolfe's conditions accept; None if none is lower."""
        falling = float(self._gradient @ direction)
        best, length = None, 1.0
        for _ in range(TRIES if falling < 0 else 0):
            theta = np.minimum(np.maximum(self.theta + length * direction, self._lowest), self._highest)
            value, gradient = self._objective(theta)
            if value < self.value and value <= self.value + DECREASE * length * falling:
                best = theta, value, gradient
                if gradient @ direction >= CURVATURE * falling:
                    break
                length *= 2
            elif best is not None:
                break
            else:  # the vertex of the parabola through both values and the slope; half and a tenth are its limits
                curvature = value - self.value - length * falling
                vertex = -falling * length / (2 * curvature) if np.isfinite(curvature) else 0.0
                length *= float(np.clip(vertex, 0.1, 0.5))
        return best
