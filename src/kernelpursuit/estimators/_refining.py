"""From standardised rows to refined atoms: the choice, the ways to refine it, the coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kernelpursuit._array import Array, eps, from_host, gather, namespace, on_host, to_host
from kernelpursuit.dictionaries.kernel import KernelDictionary
from kernelpursuit.estimators._placement import widest
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit.loop import pursue
from kernelpursuit.pursuit.squares import Squares
from kernelpursuit.pursuit.stopping import n_atoms
from kernelpursuit.refinement.atoms import Atoms, evaluate
from kernelpursuit.refinement.bound import bound_coefficients, negative_bound
from kernelpursuit.refinement.evidence import Evidence, Prior, Rows, coefficients, maximise_evidence, settle

CHOSEN_FROM, WEAKNESS = 4000, 0.5  # rows that atoms are chosen on, and how near to the best each must come
PURSUED = 300  # atoms chosen by pursuit; of more than that, rows drawn at random do as well once they have moved
NARROWER, TRIES = 4.0, 4  # where a width has too few independent atoms, the next is this much narrower
LEAST_WEIGHT = 9.0  # a weight of 0 is taken for exp(-9)
BOUND_STEPS = 100  # iterations of L-BFGS for the bound: it does not overfit, and hardly rises any more after them
BOUND_NOISE = 0.3  # noise variance that the bound starts from
MOST_SIGNAL = 10.0  # most variance of the weights of moved atoms; that of the targets is 1. More extrapolates wildly

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


def frame_of(X: Array, weights: np.ndarray | None) -> Frame:
    """Weighted mean and standard deviation of each column, whatever its units; of two values, their distance.

    The standard deviation of a rare indicator would put the few rows that have it far from all others.
    """
    xp, precision = namespace(X), eps(X)
    X = widest(X)  # sums in single precision differ between libraries, and what is chosen would with them
    largest = to_host(xp.max(xp.abs(X), axis=0))
    unit = np.where(largest > 0, largest, 1.0)
    scaled = X / from_host(unit, X)
    shares = np.full(X.shape[0], 1 / X.shape[0]) if weights is None else weights / np.sum(weights)
    of_rows = from_host(shares, scaled)
    mean = of_rows @ scaled
    variance = to_host(of_rows @ ((scaled - mean) * (scaled - mean)))
    low, high = xp.min(scaled, axis=0), xp.max(scaled, axis=0)
    two_valued = on_host(xp.all((scaled == low) | (scaled == high), axis=0))
    spread = np.where(two_valued, to_host(high - low), np.sqrt(variance))
    flat = (variance <= (16 * precision) ** 2) | (to_host(high - low) <= 16 * precision)  # a mean is not exact
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


class Setting(NamedTuple):
    """One way to refine: atoms are chosen at a width, moved by the bound if so wanted, and then by the evidence."""

    terms: int
    start: float  # gamma times the number of inputs
    bound: bool = False  # whether the bound of `refinement.bound` comes first
    moves: str = "nothing"  # what the evidence moves
    steps: int = 0  # of the evidence
    held: float = 0.0  # precision of the prior that draws centres to their start

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
        phi, _ = evaluate(self.evidence.atoms.like(X), X)
        return phi @ from_host(self.coef, X) + from_host(self.intercept, X)

    def variance(self, X: Array) -> np.ndarray:
        """Variance of a new target at standardised rows, (n,)."""
        phi, _ = evaluate(self.evidence.atoms.like(X), X)
        spread = to_host((phi - from_host(self.mean, X)) @ from_host(self.factor.T, X))
        found = self.evidence.noise * (1 + 1 / self.total) + np.sum(spread**2, axis=1)
        if self.outside_factor is None:
            return found
        inside = to_host(phi @ from_host(self.outside_factor.T, X))
        return found + np.maximum(self.outside - np.sum(inside**2, axis=1), 0)


def choose(task: Task, k: int, start: float, rng: np.random.Generator) -> Atoms:
    """At most `k` rows as atoms: the first by pursuit, the others at random.

    The width is `start` over the total variance of the inputs, narrower where the data have too few independent atoms.
    Where atoms are given there is no choice.
    """
    if task.given is not None:
        return first(task.given, k)
    n, d = task.X.shape
    part = task if n <= CHOSEN_FROM else task.subset(np.sort(rng.permutation(n)[:CHOSEN_FROM]))
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


def refine(atoms: Atoms, task: Task, setting: Setting, report: Report | None = None) -> Evidence:
    """Move chosen atoms as the setting says."""
    if setting.bound:
        found = raise_bound(atoms, task)
        if found.interrupted or setting.moves == "nothing":
            return found
        atoms = found.atoms
    return raise_evidence(atoms, task, setting, report)


def raise_bound(atoms: Atoms, task: Task) -> Evidence:
    """Move centres and weights of inputs to where the bound on the evidence of a Gaussian process is largest."""
    if len(atoms.log_widths) == 0:
        return settle(atoms, task.rows())
    steps = int(min(BOUND_STEPS, task.passes))
    found = maximise_evidence(atoms, task.rows(), objective=negative_bound, noise=BOUND_NOISE, max_iter=steps)
    return found._replace(of_process=True)


def raise_evidence(atoms: Atoms, task: Task, setting: Setting, report: Report | None = None) -> Evidence:
    """Move atoms so that their own evidence rises, for as many steps as the setting says."""
    rows = task.rows()
    settled = settle(atoms, rows)
    if setting.steps == 0 or setting.moves == "nothing" or len(atoms.log_widths) == 0:
        return settled._replace(at_rest=True)
    return maximise_evidence(
        atoms,
        rows,
        prior=Prior(centers=setting.held),
        moves=setting.moves,
        signal=settled.signal,
        noise=settled.noise,
        most_signal=MOST_SIGNAL,
        max_iter=setting.steps,
        report=report,
    )
