"""Any differentiable loss: matching pursuit on its gradient, all weights fitted again after each step."""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from kernelpursuit.arrays import Array, from_host, in_double, namespace, padded, to_host
from kernelpursuit.atoms.protocol import Dictionary
from kernelpursuit.criteria.base import OrthogonalCriterion, deflation_of_variant
from kernelpursuit.losses import Loss
from kernelpursuit.math.medians import in_ties, spreads
from kernelpursuit.math.weights import KeptWeights, WeightPath
from kernelpursuit.pursuit.directions import Deflated, Direction, side_by_side
from kernelpursuit.pursuit.loop import Step

_LEAST_SPREAD = 1e-6  # of residuals, as a share of the first: a loss is not rounded off more narrowly than by this
_BALANCED = 0.2  # of the smaller share of rows that a quantile asks for: how far the share may be from it
_ALIKE = 16  # times: losses of targets that differ in size by no more than this are minimised together
_DONE = 1e-5  # of the slope of a target where a descent begins: with less it is at its minimum


class Gradient(OrthogonalCriterion):
    """Criterion of kernel matching pursuit for a differentiable loss.

    With g the negative gradient of the loss at the fitted values and d̃ the part of an atom d outside the span of the
    constant and the chosen atoms, the score is

    - ``"prefit"``: ‖d̃ᵀg‖² / ‖d̃‖², the drop of a quadratic loss of the same gradient when all weights are fitted again;
    - ``"backfit"``: ‖d̃ᵀg‖² / ‖d‖²;
    - ``"basic"``: ‖dᵀg‖² / ‖d‖², d deflated by the constant only, weights never refitted, atoms may be chosen again.

    A step is a line search along d̃ (basic: along d), and then a fit of all weights. Both begin at the current model;
    for a loss that is not convex at least squares too, and the lower end is taken. For the squared loss this is
    `Squares` at a higher price. A loss with a corner that can be `rounded` is rounded off by the spread of the
    residuals, again each time that this has halved, and less where the shares of rows below and above are not those
    that the corner asks for; losses of steps are then the rounded ones.

    A step costs one column, one ``correlate`` of 1 + n_targets vectors, and O(n k) for each iteration of the optimiser.

    Parameters
    ----------
    dictionary : Dictionary
    targets : array of shape (n_samples,) or (n_samples, n_targets)
        Labels are -1 and +1 for the losses of margins.
    loss : Loss
    variant : {"prefit", "backfit", "basic"}
    alpha, weights, intercept
        As in `Squares`; the objective is ``sum(w * L(y, f)) + alpha * cᵀGc``. An array of `alpha` has the ridge of each
        target.
    groups : ndarray of shape (n_samples,), optional
        As in `Squares`, for a loss that no constant of a group changes: `pairwise_logistic`.
    shrinkage : float
        Share of the full step that the basic variant takes.
    curvature : float or ndarray of shape (n_targets,)
        Second derivative of the loss, about, or that of each target. Atoms are chosen as if it were this everywhere:
        where it is small, a penalty counts for more. Targets share the mean of the penalties that this gives.

    References
    ----------
    Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002), section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, Gradient
    >>> from kernelpursuit.losses import LOSSES
    >>> y = np.array([1.0, -1.0, 1.0, -1.0])
    >>> run = Gradient(DenseDictionary(np.eye(4)[:, :2]), y, LOSSES["log_loss"], intercept=False)
    >>> round(run.initial_step().loss, 6)  # ln 2
    0.693147
    """

    def __init__(
        self,
        dictionary: Dictionary,
        targets: Array,
        loss: Loss,
        *,
        variant: str = "backfit",
        alpha: float | np.ndarray = 0.0,
        weights: Array | None = None,
        intercept: bool = True,
        groups: np.ndarray | None = None,
        shrinkage: float = 1.0,
        curvature: float | np.ndarray = 2.0,
    ):
        targets = targets if targets.ndim == 2 else targets[:, None]
        # L + alpha cᵀGc is b (L / b + alpha / b cᵀGc). For b = curvature / 2, L / b is curved as the squared loss is.
        ridge = float(np.mean(alpha / (np.asarray(curvature) / 2)))
        self._penalty = np.broadcast_to(alpha / ridge if ridge else 1.0, targets.shape[1:])
        options = {"alpha": ridge, "weights": weights, "intercept": intercept, "groups": groups}
        self.deflation = deflation_of_variant(variant, dictionary, targets, **options)
        targets = in_double(targets)
        self._jointly = variant == "prefit"
        self._shrinkage = 1.0 if self.deflation.orthogonal else shrinkage
        self._y = targets
        self._f = namespace(targets).zeros_like(targets)
        self._f_tail = np.zeros((0, targets.shape[1]))
        self._theta = np.zeros((0, targets.shape[1]))  # coordinates of the fit along the directions
        self._thetas: list[np.ndarray] = []  # coordinates after each step
        self._chosen: list[int] = []
        self._form, self._sharp = loss, loss  # what is minimised now, and what was asked for
        self._weights = None if weights is None else to_host(weights)
        self._spreads = np.full(targets.shape[1], np.inf)  # of residuals, by which the loss is rounded off
        self._least_spreads = np.zeros(targets.shape[1])
        self._size = 1.0
        self._converged = True  # whether the last refit came to the minimum
        if intercept:
            self._start_at_mean()
        self._round_off()
        self._least_spreads = _LEAST_SPREAD * self._spreads
        self._set_unit()
        if intercept and loss.convex:
            self._refit()  # the best constant
            while self._sharpen():
                self._refit()
        self._first_slope, self._first_losses = self._slope(), self._losses()
        self._thetas.append(self._theta)

    def _evaluate(self, J: np.ndarray | None) -> np.ndarray:
        """Scores, weights counted in `Deflation.unit`; ``-inf`` for atoms in the span."""
        if J is None and self._running_products is None:
            self._running_products = self.deflation.measure_exactly(self._products)
        return self._ratios(J)

    def _prepare(self, block: list[int]) -> tuple[list[int], tuple[list[Direction], None]]:
        return self._prepare_first(block)  # the gradient after it is not known before it is fitted

    def _accept(self, prepared: tuple[list[Direction], None], index: int, atom: int, score: float) -> Step:
        direction = prepared[0][index]
        _, sample, tail = direction
        self._f_tail = padded(self._f_tail, max(len(tail), len(self._f_tail)))
        length, _ = self._minimise(sample[None, :], tail[None, :], np.zeros((1, self._y.shape[1])))
        length = self._shrinkage * length
        self._move(sample[None, :], tail[None, :], length)
        self._theta = np.concatenate([self._theta, length])
        if self.deflation.orthogonal:
            self._refit()
            while self._round_off() or self._sharpen():
                self._refit()
        else:
            self._converged = True  # no weight is fitted again
            self._round_off()
        self.deflation.choose(atom)
        self._chosen.append(atom)
        self._thetas.append(self._theta)
        if self._running_products is not None:
            self._update(direction)
        weight = tuple((length[0] * np.sqrt(self.deflation.unit)).tolist())
        return Step(atom, score * self.deflation.unit, loss=self._loss(), weight=weight)

    def weight_path(self, n_steps: int) -> WeightPath | KeptWeights:
        """Weights of the atoms after 0 .. `n_steps` steps, the intercept first."""
        thetas, atoms = self._thetas[: n_steps + 1], self._chosen[:n_steps]
        if self.deflation.orthogonal:
            return KeptWeights([self.deflation.solve(atoms[:k], theta) for k, theta in enumerate(thetas)])
        directions = self.deflation.coefficients(atoms)
        start = thetas[0] if self.deflation.intercept else np.zeros((1, self._y.shape[1]))
        lengths = np.concatenate([start, *(theta[-1:] for theta in thetas[1:])])
        return WeightPath.of(directions[0, :, None] * lengths, lengths[1:], directions[1:, 1:])

    def coef(self) -> np.ndarray:
        """Coefficients now, (1 + n_distinct_atoms, n_targets), the intercept first."""
        return self.deflation.solve(self._chosen, self._theta)

    def flatness(self) -> float:
        """Mean size of the slope of the loss at the rows, as a share of what it was before the first atom."""
        return self._slope() / (self._first_slope or 1.0)

    def unconverged(self) -> np.ndarray:
        """Drop of the loss of each target by one more refit, as a share of the loss before the first atom.

        Above 0 where the last refit gave up early.
        """
        if self._converged:
            return np.zeros(self._y.shape[1])
        before, model = self._losses(), (self._theta, self._f, self._f_tail)
        self._refit()
        after, (self._theta, self._f, self._f_tail) = self._losses(), model
        return np.divide(before - after, self._first_losses, out=np.zeros_like(after), where=self._first_losses > 0)

    def imbalance(self) -> np.ndarray:
        """How far the shares of rows below and above the model are from those that a loss with a corner asks for.

        A number for each target; 0 where the difference is of no more rows than the model may go through, or where the
        model fits all rows. Rows of one value that the model comes near to are above and below in part.
        """
        sharp, rounded = (to_host(form.gradient(self._y, self._f)) for form in (self._sharp, self._form))
        tied = to_host(self._y), self._weights, _BALANCED * self.smaller_share() / 2
        share = np.average(np.where(in_ties(*tied), rounded, sharp), axis=0, weights=self._weights) / 2
        through = (1 + len(self._chosen)) / self._y.shape[0]
        varies = np.array(spreads(to_host(self.residual()), self._weights)) > self._least_spreads
        return np.where(varies & (np.abs(share) > through), share, 0.0)

    def smaller_share(self) -> float:
        """The smaller of the shares of rows below and above the model that a loss with a corner asks for."""
        return float(np.min(np.abs(self._sharp.gradient(np.zeros(2), np.array([1.0, -1.0]))))) / 2

    def residual(self) -> Array:
        """Residuals y - f(x) of the current model, (n_samples, n_targets)."""
        return self._y - self._f

    def _start_at_mean(self) -> None:
        """Start at the mean of the targets, or at the link of that mean."""
        constant, no_tail = self.deflation.basis.directions[:1, :], np.zeros((1, 0))
        mean = to_host(constant @ self.deflation.scale_rows(self._y))
        if self._form.link is not None:  # the constant whose mean is that of the targets
            unit = to_host(self.deflation.unscale_rows(constant.T)[:1, :])  # what 1 along the direction is
            mean = to_host(self._form.link.of_mean(mean * unit)) / unit
        self._move(constant, no_tail, mean)
        self._theta = mean

    def _round_off(self) -> bool:
        """Round the loss off by the spread of the residuals if that has halved; returns whether the loss changed.

        Within its rounding a loss is squared, so that what it estimates there is nearer to a mean than to a quantile.
        """
        if self._sharp.rounded is None:
            return False
        return self._narrow(np.array(spreads(to_host(self.residual()), self._weights)))

    def _sharpen(self) -> bool:
        """Round the loss off less where it is balanced and the loss with the corner is not; returns whether it changed.

        Residuals that are skewed may be much closer to each other at a quantile than they are spread.
        """
        if self._sharp.rounded is None:
            return False
        slopes = np.average(to_host(self._form.gradient(self._y, self._f)), axis=0, weights=self._weights)
        allowed = _BALANCED * self.smaller_share()
        off = (np.abs(slopes) / 2 < allowed) & (np.abs(self.imbalance()) > allowed)
        return self._narrow(np.where(off, self._spreads / 4, np.inf))

    def _narrow(self, now: np.ndarray) -> bool:
        """Round the loss off by spreads that are less than half of the former; returns whether the loss changed."""
        now = np.maximum(now, self._least_spreads)
        narrower = now < self._spreads / 2
        if self._sharp.rounded is None or not np.any(narrower):
            return False
        self._spreads = np.where(narrower, now, self._spreads)
        self._form = self._sharp.rounded(self._spreads)
        self._set_unit()
        return True

    def _set_unit(self) -> None:
        """Minimise losses in a unit near the one now, to which an optimiser's tolerances refer.

        For a target that is fitted alone, coordinates have a unit too: the change of the values by which the slope
        takes away the loss.
        """
        self._size = float(2.0 ** np.frexp(self._loss())[1])
        xp = namespace(self._f)
        slopes = to_host(xp.mean(xp.abs(self._form.gradient(self._y, self._f)), axis=0))
        losses = self._losses()
        self._sizes = 2.0 ** np.frexp(losses)[1]
        steep = (slopes > 0) & (losses > 0)
        self._units = 2.0 ** np.frexp(np.divide(losses, slopes, out=np.ones_like(losses), where=steep))[1]

    def _refit(self) -> None:
        """Minimise over all coordinates, from the current ones."""
        basis = self.deflation.basis
        tails = basis.tails[:, : len(self._f_tail)]
        change, self._converged = self._minimise(basis.directions, tails, np.zeros((basis.size, self._y.shape[1])))
        self._theta = self._theta + change
        self._f = self.deflation.unscale_rows(basis.directions.T @ from_host(self._theta, self._f))
        self._f_tail = tails.T @ self._theta

    def _move(self, directions: Array, tails: np.ndarray, change: np.ndarray) -> None:
        self._f = self._f + self.deflation.unscale_rows(directions.T @ from_host(change, self._f))
        self._f_tail[: tails.shape[1]] += tails.T @ change

    def _minimise(self, directions: Array, tails: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, bool]:
        """Change of the coordinates along `directions` that minimises the objective, and whether it does for certain.

        This is a sum over the targets, of which each has coordinates of its own. Fitted together they take fewer
        calls. Where their losses differ in size each is fitted alone: tolerances refer to the largest, and losses of
        quantiles bend the more, the smaller the unit. So is one that is not at its minimum when the others are.
        """
        change, done = start.copy(), np.zeros(start.shape[1], dtype=bool)
        if self._sizes.max() <= _ALIKE * self._sizes.min():
            change, done = self._descend(directions, tails, start, slice(None), self._size, 1.0)
        for t in np.flatnonzero(~done) if len(done) > 1 else []:
            one, own = slice(t, t + 1), (float(self._sizes[t]), float(self._units[t]))
            change[:, one], done[one] = self._descend(directions, tails, change[:, one], one, *own)
        return change, bool(np.all(done))

    def _descend(
        self, directions: Array, tails: np.ndarray, start: np.ndarray, some: slice, size: float, unit: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Change of the coordinates of `some` targets that minimises their objective, and where it is at its minimum.

        Losses are counted in `size`, and coordinates in `unit`.
        """
        y, now, tail_now = self._y[:, some], self._f[:, some], self._f_tail[: tails.shape[1], some]
        penalty = self._penalty[some]
        form = self._form if some.start is None else self._form.of_target(some.start)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            change = unit * flat.reshape(start.shape)
            f = now + self.deflation.unscale_rows(directions.T @ from_host(change, now))
            tail = tail_now + tails.T @ change
            slope = to_host(directions @ self.deflation.scale_rows(form.gradient(y, f)))
            slope += 2 * tails @ (penalty * tail)
            value = self._value(form, y, f) + float(np.sum(penalty * tail**2))
            return value / size, slope.ravel() * (unit / size)

        # The directions are orthonormal, so the problem is as well conditioned as the loss allows.
        options = {"maxiter": 500, "maxcor": 20, "ftol": 1e-15}

        def least(begin: np.ndarray) -> OptimizeResult:
            slopes = _steepest(objective(begin.ravel())[1], start.shape)
            own = options | {"gtol": 1e-9 * max(1e-3, np.max(slopes))}
            result = minimize(objective, begin.ravel(), jac=True, method="L-BFGS-B", options=own)
            result.done = _steepest(result.jac, start.shape) <= _DONE * np.maximum(1e-3, slopes)
            return result

        found = [least(start / unit)]
        if not form.convex and form.link is None:  # it may be flat here; at least squares it is not
            squares = to_host(directions @ self.deflation.scale_rows(y - now)) - tails @ tail_now
            found.append(least(squares / unit))
        best = min(found, key=lambda result: result.fun)
        return unit * best.x.reshape(start.shape), best.done

    def _negative_gradient(self) -> tuple[Array, np.ndarray]:
        """Negative gradient of the objective outside the span: its sample part, weighted, and its tail."""
        deflation = self.deflation
        slope = -deflation.scale_rows(self._form.gradient(self._y, self._f))
        slope, tail, _ = deflation.basis.complement(slope, -2 * (self._penalty * self._f_tail).T, size=deflation.size)
        return slope, tail.T

    def _products(self, part: Deflated) -> np.ndarray:
        return part.products(*self._negative_gradient())

    def _update(self, new: Direction) -> None:
        """One pass: products of all atoms with the new direction, for the norms, and with the new gradient."""
        slope, slope_tail = self._negative_gradient()
        slopes = [Direction(-1, slope[:, t], slope_tail[:, t]) for t in range(slope.shape[1])]
        products = self.deflation.correlate(*side_by_side([new, *slopes]))
        self._running_products = products[:, 1:].copy()
        if self.deflation.orthogonal:
            for J, part in self.deflation.downdate(products[:, 0]):
                self._recompute(J, part)

    def _slope(self) -> float:
        xp = namespace(self._f)
        return float(to_host(xp.mean(xp.abs(self._form.gradient(self._y, self._f)))))

    def _weighted(self, form: Loss, y: Array, f: Array) -> Array:
        """A loss of each row times the weight of the row."""
        return self.deflation.scale_rows(self.deflation.scale_rows(form.value(y, f)))

    def _value(self, form: Loss, y: Array, f: Array) -> float:
        """Weighted sum of a loss."""
        return float(to_host(namespace(f).sum(self._weighted(form, y, f))))

    def _losses(self) -> np.ndarray:
        """Mean loss of each target, with its penalty."""
        values = to_host(namespace(self._f).sum(self._weighted(self._form, self._y, self._f), axis=0))
        return (values + self._penalty * np.sum(self._f_tail**2, axis=0)) / self.deflation.total_weight

    def _loss(self) -> float:
        value = self._value(self._form, self._y, self._f)
        return (value + float(np.sum(self._penalty * self._f_tail**2))) / self.deflation.total_weight


def _steepest(slope: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The largest slope of each target."""
    return np.max(np.abs(slope.reshape(shape)), axis=0)
