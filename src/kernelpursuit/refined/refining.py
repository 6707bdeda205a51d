"""From standardised rows to refined atoms: the choice, the ways to refine it, the coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import kmeans_plusplus

from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, eps, from_host, gather, namespace, to_host
from kernelpursuit.atoms.kernel import KernelDictionary
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.fitting.fit_warnings import FEWEST_ROWS
from kernelpursuit.fitting.placement import widest
from kernelpursuit.fitting.training import TrainingData, constant_but_for_rounding
from kernelpursuit.kernels.kernels import make_kernel
from kernelpursuit.pursuit.loop import count, pursue
from kernelpursuit.pursuit.stopping import n_atoms
from kernelpursuit.refined.bound import bound_coefficients, negative_bound
from kernelpursuit.refined.descent import Model, best_slope
from kernelpursuit.refined.evidence import (
    LEAST_RISE,
    Evidence,
    Prior,
    Rise,
    Rows,
    coefficients,
    settle,
    settle_nearby,
)
from kernelpursuit.refined.moving_atoms import Atoms, atom_values

CHOSEN_FROM, CHOSEN_A_TERM = {True: 1500, False: 1000}, 4  # rows that atoms are chosen on, of classes and of values
WEAKNESS = 0.5  # how near to the best each chosen atom must come
PURSUED = 300  # atoms chosen by pursuit; of more than that, rows drawn at random do as well once they have moved
NARROWER, TRIES = 4.0, 4  # where a width has too few independent atoms, the next is this much narrower
LEAST_WEIGHT = 9.0  # a weight of 0 is taken for exp(-9)
MEANS_STEPS, SETTLED = 30, 1e-4  # of k-means; the squared move, of the mean variance of the inputs, that ends it sooner
BOUND_STEPS = 100  # iterations of L-BFGS for the bound: it does not overfit, and hardly rises any more after them
SCREENED = 20  # of these, after which only the highest of several starts goes on
LIKENESS, OVER_INPUTS = (1.0, 3.0), 120  # limits of the precision of ln w around its mean, which is 120 over the inputs
MOST_SIGNAL = 10.0  # most variance of the weights of moved atoms; that of the targets is 1. More extrapolates wildly
PRIORS = {False: Prior(weights=1.0, widths=1.0), True: Prior(weights=2.0, widths=2.0)}  # of values, of classes

AFFORDABLE = 1e9  # multiplications n k² of one step of the evidence
MOST_TERMS = 300  # that "auto" goes to
ROWS_A_TERM = 4  # at least, for "auto"
UNHELD_SLOPE = 2.0  # log odds for a value of a regression on ±1, near 0: f = 2p - 1

Say = Callable[[str], None]


class Frame(NamedTuple):
    """Units of the inputs: centre and spread of each column; a constant column has spread infinity, so it vanishes."""

    center: np.ndarray
    spread: np.ndarray

    def __call__(self, X: Array) -> Array:
        """Columns of mean 0 and variance 1."""
        return (X - from_host(self.center, X)) * from_host(1 / self.spread, X)

    def inside(self, centers: np.ndarray, widths: np.ndarray, weights: np.ndarray) -> Atoms:
        """Atoms of inputs as they come, in standardised ones."""
        known = np.isfinite(self.spread)
        spread = np.where(known, self.spread, 1.0)
        log_weights = np.log(np.maximum(np.where(known, weights * spread, 1.0), np.exp(-LEAST_WEIGHT)))
        return Atoms(np.where(known, (centers - self.center) / spread, 0.0), np.log(widths), log_weights)

    def outside(self, centers: np.ndarray) -> np.ndarray:
        """Standardised centres in the units of the inputs."""
        known = np.isfinite(self.spread)
        return self.center + np.where(known, centers * np.where(known, self.spread, 1.0), 0)


def frame_of(X: Array, weights: Array | None) -> Frame:
    """Weighted mean and standard deviation of each column, whatever its units; of two values, their distance.

    The standard deviation of a rare indicator would put the few rows that have it far from all others.
    """
    xp, precision = namespace(X), eps(X)
    X = widest(X)  # sums in single precision differ between libraries, and what is chosen would with them
    largest = to_host(xp.max(xp.abs(X), axis=0))
    unit = np.where(largest > 0, largest, 1.0)
    scaled = X / from_host(unit, X)
    shares = xp.ones_like(X[:, 0]) / X.shape[0]
    if weights is not None:
        shares = from_host(weights / float(to_host(namespace(weights).sum(weights))), scaled)
    mean = shares @ scaled
    variance = to_host(shares @ ((scaled - mean) * (scaled - mean)))
    low, high = xp.min(scaled, axis=0), xp.max(scaled, axis=0)
    two_valued = to_host(xp.min(xp.astype((scaled == low) | (scaled == high), xp.float32), axis=0)) > 0
    width = to_host(high) - to_host(low)
    spread = np.where(two_valued, width, np.sqrt(variance))
    flat = constant_but_for_rounding(width, precision)  # not by the variance, since a mean is not exact
    return Frame(to_host(mean) * unit, np.where(flat, np.inf, spread * unit))


class Task(NamedTuple):
    """Rows to fit to, standardised, and how a row's error is counted.

    Attributes
    ----------
    X : array of shape (n, d)
    Y : ndarray of shape (n, q)
        On the host.
    weights : ndarray of shape (n,) or None
    error : callable
        ``error(Y, values) -> (n,)``.
    least_noise : float
        See `Rows`.
    classes : bool
        Whether the targets are ±1 for classes.
    passes : float
        Most passes over the rows that a climb may take.
    given : Atoms or None
        Atoms to start from, in place of a choice.
    """

    X: Array
    Y: np.ndarray
    weights: np.ndarray | None
    error: Callable[[np.ndarray, np.ndarray], np.ndarray]
    least_noise: float
    classes: bool = False
    passes: float = np.inf
    given: Atoms | None = None

    def subset(self, J: np.ndarray) -> Task:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[J]
        return self._replace(X=gather(self.X, J), Y=self.Y[J], weights=weights)

    def rows(self) -> Rows:
        """Rows with centred targets, in sample space."""
        weights = None if self.weights is None else from_host(self.weights, self.X)
        return Rows(self.X, from_host(self.Y - self.mean(), self.X), weights, self.least_noise)

    def variance(self) -> float:
        """Sum over the inputs of their variance, near their number; 1 where all are constant."""
        return float(np.sum(to_host(self.rows().mean(self.X * self.X)))) or 1.0

    def mean(self) -> np.ndarray:
        """Weighted mean of the targets."""
        return np.average(self.Y, axis=0, weights=self.weights)


class Start(NamedTuple):
    """Where atoms start from."""

    width: float  # gamma times the number of inputs
    spread: bool = False  # whether the centres are means of clusters of rows, in place of rows that a pursuit chose


class RefinementSetting(NamedTuple):
    """One way to refine: atoms at their start, moved by the bound if so wanted, and then by the evidence."""

    terms: int
    start: Start  # of the bound, which is tried from several, the one that came highest
    bound: bool = False  # whether the bound of `refined.bound` comes first
    moves: str = "nothing"  # what the evidence moves
    steps: int = 0  # of the evidence
    likeness: float = 0.0  # precision of the prior that holds the weights of the inputs together, for the bound

    @property
    def moved(self) -> str:
        """What moved at all."""
        return "centers" if self.bound and self.moves == "nothing" else self.moves


class Fit(NamedTuple):
    """Fitted atoms with what prediction needs."""

    evidence: Evidence
    coef: np.ndarray
    intercept: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    total: float  # number of rows, by weight
    outside: float = 0.0  # see `Solution`
    outside_factor: np.ndarray | None = None

    def values(self, X: Array) -> Array:
        """Predictions at standardised rows, (n, q)."""
        phi, _ = atom_values(self.evidence.atoms.like(X), X)
        return phi @ from_host(self.coef, X) + from_host(self.intercept, X)

    def variance(self, X: Array) -> np.ndarray:
        """Variance of a new target at standardised rows, (n,)."""
        phi, _ = atom_values(self.evidence.atoms.like(X), X)
        spread = to_host((phi - from_host(self.mean, X)) @ from_host(self.factor.T, X))
        found = self.evidence.noise * (1 + 1 / self.total) + np.sum(spread**2, axis=1)
        if self.outside_factor is None:
            return found
        inside = to_host(phi @ from_host(self.outside_factor.T, X))
        return found + np.maximum(self.outside - np.sum(inside**2, axis=1), 0)


def warn_of_few_rows(fit: Fit | None) -> None:
    """Warn where standard deviations are asked for of a fit to so few rows that these say nothing about them."""
    if fit is not None and fit.total < FEWEST_ROWS:
        warn(
            f"return_std=True of a model of {count(round(fit.total), 'row')}: so few say next to nothing about the "
            f"errors of new ones. Fit it to {FEWEST_ROWS} rows at least, or do not rely on its standard deviations"
        )


class Outcome(NamedTuple):
    """A fitted model in standardised inputs.

    Attributes
    ----------
    model : Model
        On the host.
    fit : Fit or None
        Where the evidence decided: what the uncertainty is made of.
    setting : RefinementSetting or None
        What moved and how far.
    held_out : tuple of arrays or None
        Rows held out, and their predictions.
    inflation : float or ndarray of shape (q,)
        Variance of the errors of rows held out, of each target, as a multiple of what the model says.
    interrupted : bool
    start : ndarray of shape (k, d)
        Centres that were chosen; None where they are those of the model.
    """

    model: Model
    fit: Fit | None
    setting: RefinementSetting | None
    held_out: tuple[np.ndarray, np.ndarray] | None
    inflation: float | np.ndarray = 1.0
    interrupted: bool = False
    start: np.ndarray | None = None


def fitted_slope(outcome: Outcome, data: TrainingData, Y: Array, loss: str) -> float:
    """Factor of the values that makes probabilities fit the held-out rows of `data`, with targets `Y`, best."""
    if outcome.held_out is None:
        return UNHELD_SLOPE
    rows, values = outcome.held_out
    targets = data.source.take(Y, rows)
    weights = None if data.weights is None else data.source.take(data.weights, rows)
    return best_slope(loss, (targets + 1) / 2 if loss == "softmax" else targets, values, weights)[0]


def of_all_targets(outcome: Outcome, J: np.ndarray, q: int) -> Outcome:
    """Outcome of a fit to the targets `J`, with weights of 0 for the others of `q` targets."""

    def widened(values: Any) -> np.ndarray:
        out = np.zeros((*np.shape(values)[:-1], q))
        out[..., J] = values
        return out

    model = outcome.model
    model = model._replace(coef=widened(model.coef), intercept=widened(model.intercept))
    inflation = outcome.inflation if np.ndim(outcome.inflation) == 0 else widened(outcome.inflation)
    return outcome._replace(model=model, inflation=inflation)


def choose(task: Task, k: int, start: float, rng: np.random.Generator) -> Atoms:
    """At most `k` rows as atoms: the first by pursuit, the others at random.

    The width is `start` over the total variance of the inputs, narrower where the data have too few independent atoms.
    Where atoms are given there is no choice.
    """
    if task.given is not None:
        return first(task.given, k)
    n, d = task.X.shape
    part = some_rows(task, k, rng)
    pursued = min(k, PURSUED, len(part.Y))
    rows, chosen = part.rows(), (np.empty(0, dtype=np.intp), 1.0)
    for power in range(TRIES):
        gamma = start / task.variance() * NARROWER**power
        kernel = make_kernel("rbf", rows.X, gamma=gamma, weights=part.weights)
        criterion = Squares(KernelDictionary(rows.X, rows.X, kernel), rows.Y, weights=rows.weights)
        path = pursue(criterion, n_atoms(pursued), lookahead="auto", weakness=WEAKNESS)
        if path.reason == "interrupted":
            raise KeyboardInterrupt
        if len(path) > len(chosen[0]) or power == 0:
            chosen = path.atoms, gamma
        if len(path) >= pursued:
            break
    J, gamma = chosen
    centers = to_host(gather(part.X, J))
    if len(J) == PURSUED and k > PURSUED:
        others = to_host(gather(task.X, rng.permutation(n)[: k - PURSUED]))
        centers = np.concatenate([centers, others])
    return Atoms(centers, np.full(len(centers), np.log(gamma)), np.zeros(d))


def some_rows(task: Task, k: int, rng: np.random.Generator) -> Task:
    """Rows enough to choose `k` atoms from."""
    n, most = len(task.Y), max(CHOSEN_FROM[task.classes], CHOSEN_A_TERM * k)
    return task if n <= most else task.subset(np.sort(rng.permutation(n)[:most]))


def placed(task: Task, k: int, start: Start, rng: np.random.Generator) -> Atoms:
    """At most `k` atoms where they start from."""
    place = means if start.spread and task.given is None else choose
    return place(task, k, start.width, rng)


def means(task: Task, k: int, width: float, rng: np.random.Generator) -> Atoms:
    """Atoms at the means of clusters of the rows: spread out over all inputs, whatever the targets."""
    part, d = some_rows(task, k, rng), task.X.shape[1]
    X, weights = to_host(part.X), np.ones(len(part.Y)) if part.weights is None else part.weights
    found = cluster_means(X, weights, min(k, len(X)), int(rng.integers(2**31)))
    _, distinct = np.unique(np.round(found, 8), axis=0, return_index=True)
    centers = found[distinct]
    return Atoms(centers, np.full(len(centers), np.log(width / task.variance())), np.zeros(d))


def cluster_means(X: np.ndarray, weights: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Means of `k` clusters of the rows of X, (k, d), by k-means. They only have to be spread out.

    It is written out because the threads of scikit-learn's do not survive a fork: a fit in a child would wait for them.
    """
    centers, _ = kmeans_plusplus(X, k, sample_weight=weights, random_state=seed)
    hardly = SETTLED * np.mean(np.var(X, axis=0))
    for _ in range(MEANS_STEPS):
        nearest = np.argmin(np.sum(centers * centers, axis=1) - 2 * X @ centers.T, axis=1)
        members = weights * (nearest == np.arange(k)[:, None])
        total = np.sum(members, axis=1)[:, None]
        before, centers = centers, np.where(total > 0, members @ X / np.where(total > 0, total, 1.0), centers)
        if np.sum((centers - before) ** 2) <= hardly:
            break
    return centers


def likeness_for(inputs: int) -> float:
    """How much the weights of the inputs are held together.

    Of many inputs most are useless, and their weights must be free to fall.
    """
    return float(np.clip(OVER_INPUTS / inputs, *LIKENESS))


def first(atoms: Atoms, k: int) -> Atoms:
    """The first `k` atoms."""
    return Atoms(atoms.centers[:k], atoms.log_widths[:k], atoms.log_weights)


def solve(evidence: Evidence, task: Task) -> Fit:
    """Coefficients for atoms, signal and noise as they are."""
    rows = task.rows()
    solution = bound_coefficients if evidence.of_process else coefficients
    found = solution(evidence.atoms, rows, evidence.signal, evidence.noise)
    intercept = found.intercept + task.mean()
    return Fit(evidence, found.coef, intercept, found.mean, found.factor, rows.total, *found[4:])


Report = Callable[[int, Evidence], bool | None]


class Place(NamedTuple):
    """Atoms to start from, with the variances of their coefficients, or of the process, and of the noise."""

    atoms: Atoms
    signal: float = 1.0
    noise: float = 0.3


def rise_of_bound(place: Place, rows: Rows, likeness: float, least_rise: float = LEAST_RISE) -> Rise:
    """Centres and weights of inputs on the way to the largest bound on the evidence of a Gaussian process.

    A process has one width: atoms that were given with others start from their mean.
    """
    atoms, signal, noise = place
    if len(atoms.log_widths):
        atoms = atoms._replace(log_widths=np.full_like(atoms.log_widths, np.mean(atoms.log_widths)))
    prior = Prior(weights=likeness)
    return Rise(
        atoms, rows, objective=negative_bound, prior=prior, signal=signal, noise=noise, least_rise=least_rise
    )  # fmt: skip


def rise_of_all(place: Place, rows: Rows, classes: bool) -> Rise:
    """Centres, widths and weights of inputs on the way to the largest evidence of their own."""
    atoms, signal, noise = place
    return Rise(atoms, rows, prior=PRIORS[classes], signal=signal, noise=noise, most_signal=MOST_SIGNAL)


def highest(rises: Sequence[Rise], screened: int, steps: int, report: Report | None = None) -> tuple[Evidence, int]:
    """Several ways up are tried for some steps, then the one that came highest goes on.

    What is climbed must be one number for all. Returns where it came to, and which of them it is.
    """
    for number, rise in enumerate(rises if len(rises) > 1 else []):
        found = rise.go(min(screened, steps))
        if found.interrupted:
            return found, number
    best = min(range(len(rises)), key=lambda number: rises[number].found.value)
    return rises[best].go(steps, report), best


def raise_bound(
    places: Sequence[Place], task: Task, likeness: float, screened: int = SCREENED, least_rise: float = LEAST_RISE
) -> tuple[Evidence, int]:
    """Move centres and weights of inputs to where the bound is largest; also returns the number of the place."""
    rows, steps = task.rows(), int(min(BOUND_STEPS, task.passes))
    if len(places[0].atoms.log_widths) == 0:
        return settle(places[0].atoms, rows), 0
    found, number = highest([rise_of_bound(place, rows, likeness, least_rise) for place in places], screened, steps)
    return found._replace(of_process=True), number


def raise_evidence(atoms: Atoms, task: Task, steps: int, report: Report | None = None) -> Evidence:
    """Move atoms so that their own evidence rises."""
    rows = task.rows()
    settled = settle_nearby(atoms, rows)
    if steps == 0 or len(atoms.log_widths) == 0:
        return settled._replace(at_rest=True)
    return rise_of_all(Place(*settled[:3]), rows, task.classes).go(steps, report)


def is_affordable(n: int, terms: int | None) -> bool:
    """Whether the evidence of all rows can be followed."""
    k = min(n, MOST_TERMS if terms is None else terms)
    return n * k * k <= AFFORDABLE


def squared_errors(Y: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Squared error of each row, summed over targets."""
    return np.sum((Y - values) ** 2, axis=1)


def errors_within_margin(Y: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Squared errors of classes, where a value beyond the label is no error."""
    return np.sum((Y - np.clip(values, -1, 1)) ** 2, axis=1)
