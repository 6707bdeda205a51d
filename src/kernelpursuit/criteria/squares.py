"""The squared loss: basic, back-fitting and pre-fitting matching pursuit."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, energies, from_host, in_double, padded, squared_norms, to_host
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.criteria.base import OrthogonalCriterion, deflation_of_variant, ratios
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.pursuit.directions import Deflated, Direction, side_by_side, tails_of
from kernelpursuit.pursuit.left_out import leave_out
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.pool_matrices import PoolSimulation

Prepared = tuple[list[Direction], Any]


class Squares(OrthogonalCriterion):
    """Criterion of kernel matching pursuit for the squared loss.

    With d̃ the part of an atom d outside the span of the constant and the chosen atoms, and r the residual, the score is

    - ``"prefit"``: ‖d̃ᵀr‖² / ‖d̃‖², the drop of ‖r‖² when all weights are refitted jointly with the new atom;
    - ``"backfit"``: ‖dᵀr‖² / ‖d‖², all weights refitted after the choice (orthogonal matching pursuit);
    - ``"basic"``: the same score, but only the new weight is set and an atom may be chosen again;

    For the last two only the constant is taken out of d. ‖·‖² sums over targets. A step costs one column, one
    ``correlate`` of one vector and O(n k); memory is O(n k + m).

    Parameters
    ----------
    dictionary : Dictionary
        The atoms, (n_samples, n_atoms).
    targets : array of shape (n_samples,) or (n_samples, n_targets)
        In sample space. Several targets share their atoms.
    variant : {"prefit", "backfit", "basic"}
    alpha : float
        Ridge penalty ``alpha * cᵀGc`` on the weights c, G the dictionary's `gram`; in selection and fit.
    weights : array of shape (n_samples,), optional
        Positive weights of the rows.
    counts : array of shape (n_samples,), optional
        How many rows each stands for, of which one is left out; `weights` unless given.
    intercept : bool
        Whether a constant is in the span from the start.
    groups : ndarray of shape (n_samples,), optional
        Group of each row. A constant for each group is then in the span, and no part of the predictions. The loss is
        that of all pairs of rows inside a group (see `Groups`), and the leave-one-out error leaves a group out.
    shrinkage : float
        Share of the full step that the basic variant takes.

    References
    ----------
    Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary
    >>> run = Squares(DenseDictionary(np.eye(3)), np.array([1.0, 5.0, 2.0]), intercept=False)
    >>> run.scores()
    array([ 1., 25.,  4.])
    >>> [step.loss for step in run.take([1])]
    [1.6666666666666667]
    """

    mostly_passes = True

    def __init__(
        self,
        dictionary: Dictionary,
        targets: Array,
        *,
        variant: str = "prefit",
        alpha: float = 0.0,
        weights: Array | None = None,
        counts: Array | None = None,
        intercept: bool = True,
        groups: np.ndarray | None = None,
        shrinkage: float = 1.0,
    ):
        targets = targets if targets.ndim == 2 else targets[:, None]
        self.deflation = deflation_of_variant(
            variant,
            dictionary,
            targets,
            alpha=alpha,
            weights=weights,
            counts=counts,
            intercept=intercept,
            groups=groups,
        )
        self._jointly = variant == "prefit"
        self._shrinkage = shrinkage
        self._r = self.deflation.centre(self.deflation.scale_rows(in_double(targets)))
        self._r_tail = np.zeros((0, targets.shape[1]))
        self._steps: list[tuple[int, np.ndarray]] = []  # atom and step length, in the order taken
        self._left_out = leave_out(self._r, self.deflation) if self.deflation.orthogonal else None
        self._constant = np.zeros(targets.shape[1])
        self._refreshed_at = self._fit_constant() if intercept else self._loss()

    def _fit_constant(self) -> float:
        """Take the first direction, that of the constant; returns the loss."""
        direction = Direction(-1, self.deflation.basis.directions[0, :], np.zeros(0))
        self._constant = self._length(direction)
        self._move(direction, self._constant)
        return self._loss()

    @property
    def loss_per_score(self) -> float:
        """Drop of the loss for a score of one; nan where a score is no drop of the loss."""
        return 1 / self.deflation.total_weight if self._jointly else np.nan

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix; one over tiles that are kept takes longer, and pools may pay."""
        return self.deflation.D.in_memory and not self.pass_cost

    def initial_step(self) -> Step:
        """State before the first atom."""
        return Step(-1, loss=self._loss() if self._steps else self._refreshed_at, leave_one_out=self._left_out_error())

    # -- scores: running products a = d̃ᵀr, and the norms that `Deflation` keeps

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores, weights counted in `Deflation.unit`; ``-inf`` for atoms in the span."""
        if J is None and self._running_products is None:
            self._running_products = self.deflation.measure(self._r, self._r_tail)
            self._finish_block()
        return self._ratios(J)

    def _products(self, part: Deflated) -> np.ndarray:
        return part.products(self._r, self._r_tail)

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Definition of the running numbers of atoms `J`: d̃ᵀr, (len(J), n_targets), and ‖d̃‖²."""
        part = self.deflation.deflate(J)
        return self._products(part), part.squared

    def running_moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Running numbers of atoms `J`, see `moments`."""
        assert self._running_products is not None, "moments run from the first call of scores() on"
        return self._running_products[J], self.deflation.norms.squared[J]

    def simulate(self, J: np.ndarray) -> PoolSimulation | None:
        """The choices of this criterion among atoms `J` alone."""
        if self._running_products is None:
            return None
        gram, floor = self.deflation.pool_gram(J)
        squared, centred = self.deflation.norms.squared[J], self.deflation.norms.centred[J]
        norms = squared if self.deflation.orthogonal else centred
        divisors = None if self._jointly else centred

        def score(simulation: PoolSimulation, possible: np.ndarray) -> np.ndarray:
            assert simulation.products is not None
            return ratios(simulation.products, simulation.squared if divisors is None else divisors, possible)

        share, joins = self._shrinkage, self.deflation.orthogonal
        return PoolSimulation(gram, norms, floor, score, products=self._running_products[J], share=share, joins=joins)

    # -- steps

    def _prepare(self, block: list[int]) -> tuple[list[int], Prepared]:
        directions = self.deflation.extend(block)
        return [direction.atom for direction in directions], (directions, self._correlate(directions))

    def _correlate(self, directions: list[Direction]) -> np.ndarray | None:
        """Products of all atoms with the directions, where running products are kept: one pass."""
        if self._running_products is None or not directions:
            return None
        deflation = self.deflation
        if deflation.orthogonal:  # they lie side by side
            return deflation.correlate(deflation.basis.directions[deflation.size :, :].T, tails_of(directions))
        return deflation.correlate(*side_by_side(directions))

    def _accept(self, prepared: Prepared, index: int, atom: int, score: float) -> Step:
        directions, products = prepared
        length = self._shrinkage * self._length(directions[index])
        self._move(directions[index], length)
        moments = None if products is None else products[:, index]
        return self._finish_step(atom, score, length, moments, self._loss(), self._left_out_error())

    def _finish_step(
        self, atom: int, score: float, length: np.ndarray, products: np.ndarray | None, loss: float, left_out: Any
    ) -> Step:
        """Record a step of some `length`, after which residuals are known, given products of all atoms with it."""
        self.deflation.choose(atom)
        if products is not None:
            self._downdate(products, length, loss)
        self._steps.append((atom, length))
        unit = self.deflation.unit
        weight = tuple((length * np.sqrt(unit)).tolist())
        return Step(atom, score * unit, loss=loss, leave_one_out=left_out, weight=weight)

    def _length(self, direction: Direction) -> np.ndarray:
        """Products of the residuals with a unit direction: the full step along it."""
        inside, width = to_host(direction.sample @ self._r), min(len(direction.tail), len(self._r_tail))
        return inside + direction.tail[:width] @ self._r_tail[:width] if width else inside

    def _move(self, direction: Direction, length: np.ndarray) -> None:
        """Take a step along a unit direction off the residuals and the left-out ones."""
        self._move_tail(direction.tail, length)
        self._r = self._r - direction.sample[:, None] * from_host(length, self._r)[None, :]
        if self._left_out is not None:
            self._left_out.move(direction.sample, length, self._r)

    def _move_tail(self, tail: np.ndarray, length: np.ndarray) -> None:
        """Take a step off the penalty coordinates of the residuals."""
        if len(tail) > len(self._r_tail):
            self._r_tail = padded(self._r_tail, len(tail))
        if len(tail):
            self._r_tail[: len(tail)] -= tail[:, None] * length[None, :]

    def _downdate(self, products: np.ndarray, length: np.ndarray, loss: float) -> None:
        """Update d̃ᵀr and ‖d̃‖² of all atoms; recompute them where cancellation has eaten half the digits."""
        assert self._running_products is not None
        self._running_products -= products[:, None] * length[None, :]
        if self.deflation.orthogonal:
            for J, part in self.deflation.downdate(products):
                self._recompute(J, part)
        if self._lost_digits(loss):
            self._running_products = self.deflation.correlate(self._r, self._r_tail)

    def _loss(self) -> float:
        """Mean squared residual, penalty included."""
        whole = np.vdot(self._r, self._r) if isinstance(self._r, np.ndarray) else squared_norms(self._r).sum()
        return float(whole + np.vdot(self._r_tail, self._r_tail)) / self.deflation.total_weight

    def _left_out_error(self) -> Any:
        if self._left_out is None:
            return np.nan
        return float(np.sum(to_host(energies(self._left_out.residual))) / self.deflation.total_weight)

    # -- the model

    def weight_path(self, n_steps: int) -> WeightPath:
        """Weights of the atoms after 0 .. `n_steps` steps, the intercept first."""
        steps = self._steps[:n_steps]
        lengths = np.stack([self._constant, *(length for _, length in steps)])
        directions = self.deflation.coefficients([atom for atom, _ in steps])
        return WeightPath.of(directions[0, :, None] * lengths, lengths[1:], directions[1:, 1:])

    def coef(self) -> np.ndarray:
        """Coefficients now, (1 + n_distinct_atoms, n_targets), the intercept first."""
        lengths = [length for _, length in self._steps]
        theta = np.stack([self._constant, *lengths])[1 - self.deflation.intercept :]
        return self.deflation.solve([atom for atom, _ in self._steps], theta)

    def residual(self) -> Array:
        """Residuals y - f(x) of the current model, (n_samples, n_targets)."""
        return self.deflation.unscale_rows(self._r)

    def left_out(self) -> Array:
        """Leave-one-out residuals y_i - f⁻ⁱ(x_i) of the current model, (n_samples, n_targets).

        The atoms stay, and their weights are fitted again without row i, or without its group. The basic variant does
        not have them, nor has a single group.
        """
        assert self._left_out is not None
        return self.deflation.unscale_rows(self._left_out.residual)
