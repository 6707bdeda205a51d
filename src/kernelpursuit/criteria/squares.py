"""The squared loss: basic, back-fitting and pre-fitting matching pursuit."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, energies, from_host, in_double, padded, squared_norms, squared_rows, to_host
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.criteria.base import TakingDirections
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.pursuit.ahead import Ahead, Later
from kernelpursuit.pursuit.at_once import at_once
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Deflated, Direction, side_by_side, tails_of
from kernelpursuit.pursuit.left_out import leave_out
from kernelpursuit.pursuit.loop import Step
from kernelpursuit.pursuit.rehearsal_matrices import Downdated

VARIANTS = ("prefit", "backfit", "basic")

Waiting = tuple[list[Direction], tuple["np.ndarray | None", "Ahead | None"]]


def atoms_of_variant(variant: str, dictionary: Dictionary, targets: Array, **given: Any) -> Deflation:
    """The atoms that targets are fitted by, which join the span when they are chosen, unless the variant is basic."""
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {VARIANTS}, got {variant!r}")
    return Deflation(dictionary, targets, orthogonal=variant != "basic", **given)


class Squares(TakingDirections):
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
        given = {"alpha": alpha, "weights": weights, "counts": counts, "intercept": intercept, "groups": groups}
        self.atoms = atoms_of_variant(variant, dictionary, targets, **given)
        self._variant = variant
        self._shrinkage = shrinkage
        self._r = self.atoms.centre(self.atoms.weigh(in_double(targets)))
        self._r_tail = np.zeros((0, targets.shape[1]))
        self._steps: list[tuple[int, np.ndarray]] = []  # atom and step length, in the order taken
        self._left_out = leave_out(self._r, self.atoms) if self.atoms.orthogonal else None
        self._constant, energy = np.zeros(targets.shape[1]), None
        if intercept:
            constant, length = Direction(-1, self.atoms.basis.directions[0, :], np.zeros(0)), None
            if not isinstance(self._r, np.ndarray):  # each number that is read has a long way
                ahead = Ahead(self._r, self._r_tail, [constant], 1.0, True)
                ahead.go(self._r, None)
                length, energy = ahead.lengths[0], ahead.energy(0)
            self._constant = self._advance(constant, 1.0, length)
        self._refreshed_at = self._loss() if energy is None else energy / self.atoms.total_weight

    @property
    def loss_of_scores(self) -> float:
        """What a score of one takes off the loss; nan where it is no drop of the loss."""
        return 1 / self.atoms.total_weight if self._variant == "prefit" else np.nan

    @property
    def in_memory(self) -> bool:
        """Whether a pass only reads a matrix; one over tiles that are kept takes longer, and pools may pay."""
        return self.atoms.D.in_memory and not self.pass_cost

    def start(self) -> Step:
        """State before the first atom."""
        return Step(-1, loss=self._loss() if self._steps else self._refreshed_at, leave_one_out=self._left_out_error())

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Definition of the running quantities: d̃ᵀr, (len(J), n_targets), and ‖d̃‖² of atoms `J`."""
        part = self.atoms.deflate(J)
        return self._products(part), part.squared

    def running_moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same as they are kept up to date."""
        assert self._a is not None, "moments run from the first call of scores() on"
        return self._a[J], self.atoms.squared[J]

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores, weights counted in `Deflation.unit`; ``-inf`` for atoms in the span."""
        if J is None and self._a is None:
            self._a = self.atoms.measure(self._r, self._r_tail)
            self._check_precision()
        return self.atoms.scores(J, self._a, self._products, jointly=self._variant == "prefit")

    def _prepare(self, block: list[int]) -> tuple[list[int], Waiting]:
        far = not isinstance(self._r, np.ndarray)  # each number that is read has a long way
        found = at_once(self.atoms, block, self._r, self._r_tail) if far and self.atoms.orthogonal else None
        directions = self.atoms.extend(block) if found is None else found.directions
        ahead = None
        if directions and far and self.atoms.groups is None:
            known = None if found is None else (found.inside, found.energy)
            ahead = Ahead(self._r, self._r_tail, directions, self._shrinkage, self.atoms.orthogonal, known)
        products = self._correlate(directions) if found is None else found.products
        if ahead is not None:
            ahead.go(self._r, self._left_out)
        return [direction.atom for direction in directions], (directions, (products, ahead))

    def _accept(self, waiting: Waiting, place: int, atom: int, score: float) -> Step:
        directions, (products, ahead) = waiting
        if ahead is None:
            length = self._advance(directions[place], self._shrinkage)
        else:
            length = self._advance(directions[place], self._shrinkage, ahead.lengths[place], ahead.after(place))
        known = None if ahead is None else ahead.energy(place)
        loss, unit = self._loss() if known is None else known / self.atoms.total_weight, self.atoms.unit
        self.atoms.chosen(atom)
        if products is not None:
            self._downdate(products[:, place], length, loss)
        self._steps.append((atom, length))
        weight = tuple((length * np.sqrt(unit)).tolist())
        left_out = self._left_out_error() if ahead is None else ahead.left_out(place, self.atoms.total_weight)
        return Step(atom, score * unit, loss=loss, leave_one_out=left_out, weight=weight)

    def _length(self, direction: Direction) -> np.ndarray:
        """Products of the residuals with a unit direction."""
        inside, tail = to_host(direction.sample @ self._r), direction.tail
        return inside + tail @ self._r_tail[: len(tail)] if len(tail) else inside

    def rehearse(self, J: np.ndarray) -> SquaresRehearsal | None:
        """The criterion on atoms `J` alone."""
        if self._a is None:
            return None
        gram, floor = self.atoms.rehearsed_gram(J), self.atoms.floor(J)
        floor[self.atoms.little_is_left(J)] = np.inf  # a few neighbours of atoms taken: not tried out
        norms = self.atoms.squared[J] if self._variant != "basic" else self.atoms.start[J]
        return SquaresRehearsal(
            gram,
            self._a[J].copy(),
            norms.copy(),
            self.atoms.start[J] if self._variant != "prefit" else None,
            floor=floor,
            share=self._shrinkage,
            joins=self._variant != "basic",
        )

    def weight_path(self, n_steps: int) -> WeightPath:
        """Weights of the atoms after 0 .. `n_steps` steps, the intercept first."""
        steps = self._steps[:n_steps]
        lengths = np.stack([self._constant, *(length for _, length in steps)])
        directions = self.atoms.coefficients([atom for atom, _ in steps])
        return WeightPath.of(directions[0, :, None] * lengths, lengths[1:], directions[1:, 1:])

    def coef(self) -> np.ndarray:
        """Coefficients now, (1 + n_distinct_atoms, n_targets), the intercept first."""
        lengths = [length for _, length in self._steps]
        theta = np.stack([self._constant, *lengths])[1 - self.atoms.intercept :]
        return self.atoms.solve([atom for atom, _ in self._steps], theta)

    def residual(self) -> Array:
        """Residuals y - f(x) of the current model, (n_samples, n_targets)."""
        return self.atoms.unweigh(self._r)

    def left_out(self) -> Array:
        """Leave-one-out residuals y_i - f⁻ⁱ(x_i) of the current model, (n_samples, n_targets).

        The atoms stay, and their weights are fitted again without row i, or without its group. The basic variant does
        not have them, nor has a single group.
        """
        assert self._left_out is not None
        return self.atoms.unweigh(self._left_out.residual)

    def _products(self, part: Deflated) -> np.ndarray:
        return part.products(self._r, self._r_tail)

    def _correlate(self, directions: list[Direction]) -> np.ndarray | None:
        """Products of all atoms with the directions, where running moments are kept."""
        if self._a is None or not directions:
            return None
        if self.atoms.orthogonal and isinstance(self._r, np.ndarray):  # they lie side by side
            return self.atoms.correlate(self.atoms.basis.directions[self.atoms.size :].T, tails_of(directions))
        return self.atoms.correlate(*side_by_side(directions))

    def _advance(
        self,
        direction: Direction,
        share: float,
        length: np.ndarray | None = None,
        after: tuple[Array, Any] | None = None,
    ) -> np.ndarray:
        """Move the residual along a unit direction and update the leverages; returns the step length per target.

        `length`, and the residuals `after` the step, may be known.
        """
        sample, tail = direction.sample, direction.tail
        if len(tail) > len(self._r_tail):
            self._r_tail = padded(self._r_tail, len(tail))
        if length is None:
            length = share * self._length(direction)
        if len(tail):
            self._r_tail[: len(tail)] -= tail[:, None] * length[None, :]
        if after is not None:
            self._r, self._left_out = after
            return length
        self._r = self._r - sample[:, None] * from_host(length, self._r)[None, :]
        if self._left_out is not None:
            self._left_out.move(sample, length, self._r)
        return length

    def _downdate(self, products: np.ndarray, length: np.ndarray, loss: float) -> None:
        """Update d̃ᵀr and ‖d̃‖² of all atoms; recompute them where cancellation has eaten half the digits."""
        assert self._a is not None
        self._a -= products[:, None] * length[None, :]
        if self._variant != "basic":
            for J, part in self.atoms.downdate(products):
                self._renew(J, part)
        if self._lost_digits(loss):
            self._a = self.atoms.correlate(self._r, self._r_tail)

    def _energy(self) -> float:
        """Squared norm of the residuals, penalty included."""
        whole = np.vdot(self._r, self._r) if isinstance(self._r, np.ndarray) else squared_norms(self._r).sum()
        return float(whole + np.vdot(self._r_tail, self._r_tail))

    def _loss(self) -> float:
        return self._energy() / self.atoms.total_weight

    def _left_out_error(self) -> Any:
        if self._left_out is None:
            return np.nan
        error = Later(energies(self._left_out.residual), self.atoms.total_weight)
        return float(error) if isinstance(self._r, np.ndarray) else error


class SquaresRehearsal:
    """`Squares` on a pool of atoms, given their inner products.

    With l the next column of the Cholesky factor of these, and b = d̃ᵢᵀr / ‖d̃ᵢ‖, taking atom i changes d̃ᵀr by -l b and
    ‖d̃‖² by -l².

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        d̃ᵀd̃ of the pool.
    products : ndarray of shape (p, t)
        d̃ᵀr.
    squared : ndarray of shape (p,)
        ‖d̃‖², more exact than the diagonal of `gram`.
    norms : ndarray of shape (p,), optional
        Divisors of the scores, where they are not ‖d̃‖².
    floor : ndarray of shape (p,)
        ‖d̃‖² at which an atom lies in the span.
    share : float
        Share of the full step that is taken.
    joins : bool
        Whether atoms taken join the span.
    """

    def __init__(
        self,
        gram: np.ndarray,
        products: np.ndarray,
        squared: np.ndarray,
        norms: np.ndarray | None,
        *,
        floor: np.ndarray,
        share: float,
        joins: bool,
    ):
        self._gram, self._a, self._squared, self._norms = Downdated(gram), products, squared, norms
        self._floor, self._share, self._joins = floor, share, joins

    def scores(self) -> np.ndarray:
        """Score of each atom of the pool."""
        possible = self._squared > self._floor
        norms = self._squared if self._norms is None else self._norms
        return np.where(possible, squared_rows(self._a) / np.where(possible, norms, 1.0), -np.inf)

    def take(self, i: int) -> None:
        """Take atom `i` of the pool."""
        length = np.sqrt(self._squared[i])
        l = self._gram.column(i) / length  # noqa: E741
        self._a -= self._share * l[:, None] * (self._a[i] / length)
        if self._joins:
            self._gram.subtract(l, l)
            self._squared = self._squared - l**2
            self._squared[i] = 0.0
