"""From standardised rows to refined atoms: the choice, what rows held out say of each way to refine, the final fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit._array import Array, eps, from_host, gather, namespace, to_host
from kernelpursuit.dictionaries.kernel import KernelDictionary
from kernelpursuit.estimators._placement import widest
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit.loop import pursue
from kernelpursuit.pursuit.squares import Squares
from kernelpursuit.pursuit.stopping import n_atoms
from kernelpursuit.refinement.atoms import Atoms, evaluate
from kernelpursuit.refinement.evidence import Evidence, Prior, Rows, coefficients, maximise_evidence, settle

STARTS = (0.06, 0.25, 1.0)  # gamma times the number of inputs, of the choice
FREE = (0.25, 1.0)  # those from which everything may move at once
SHORT, LONG = (2, 5, 10, 20), (2, 5, 10, 20, 40, 80)  # iterations after which rows held out are asked
CHOSEN_FROM, ROWS_AN_ATOM = 4000, 4  # rows that atoms are chosen on: as many as this, or so many for each atom
NARROWER, TRIES = 4.0, 4  # where a width has too few independent atoms, the next is this much narrower
FEWEST = 6  # terms that "auto" tries
TRIMMED, LARGEST = 0.99, 10.0  # an error counts as this much of the mean at most, that of all but the largest errors
DOUBT = 1.0  # standard errors by which more parts or more terms must be better than fewer

Say = Callable[[str], None]


class Frame(NamedTuple):
    """Units of the inputs: centre and spread of each column; a constant column has spread infinity, so it vanishes."""

    center: np.ndarray
    spread: np.ndarray

    def __call__(self, X: Array) -> Array:
        """Columns of mean 0 and variance 1."""
        return (X - from_host(self.center, X)) * from_host(1 / self.spread, X)


def frame_of(X: Array, weights: np.ndarray | None) -> Frame:
    """Weighted mean and standard deviation of each column, whatever its units."""
    xp, precision = namespace(X), eps(X)
    X = widest(X)  # sums in single precision differ between libraries, and what is chosen would with them
    largest = to_host(xp.max(xp.abs(X), axis=0))
    unit = np.where(largest > 0, largest, 1.0)
    scaled = X / from_host(unit, X)
    shares = np.full(X.shape[0], 1 / X.shape[0]) if weights is None else weights / np.sum(weights)
    of_rows = from_host(shares, scaled)
    mean = of_rows @ scaled
    variance = to_host(of_rows @ ((scaled - mean) * (scaled - mean)))
    flat = variance <= (16 * precision) ** 2
    return Frame(to_host(mean) * unit, np.where(flat, np.inf, np.sqrt(variance) * unit))


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
    """

    X: Array
    Y: np.ndarray
    weights: np.ndarray | None
    error: Callable[[np.ndarray, np.ndarray], np.ndarray]
    least_noise: float

    def subset(self, J: np.ndarray) -> Task:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[J]
        return self._replace(X=gather(self.X, J), Y=self.Y[J], weights=weights)

    def rows(self) -> Rows:
        """Rows with centred targets, in sample space."""
        weights = None if self.weights is None else from_host(self.weights, self.X)
        return Rows(self.X, from_host(self.Y - self.mean(), self.X), weights, self.least_noise)

    def mean(self) -> np.ndarray:
        """Weighted mean of the targets."""
        return np.average(self.Y, axis=0, weights=self.weights)


class Setting(NamedTuple):
    """One way to refine."""

    terms: int
    start: float  # gamma times the number of inputs
    moves: str = "nothing"
    steps: int = 0
    held: float = 0.0  # precision of the prior that draws centres to their start


class Fit(NamedTuple):
    """Fitted atoms with what prediction needs."""

    evidence: Evidence
    coef: np.ndarray
    intercept: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    total: float  # number of rows, by weight

    def values(self, X: Array) -> Array:
        """Predictions at standardised rows, (n, q)."""
        phi, _ = evaluate(self.evidence.atoms.like(X), X)
        return phi @ from_host(self.coef, X) + from_host(self.intercept, X)

    def variance(self, X: Array) -> np.ndarray:
        """Variance of a new target at standardised rows, (n,)."""
        phi, _ = evaluate(self.evidence.atoms.like(X), X)
        spread = to_host((phi - from_host(self.mean, X)) @ from_host(self.factor.T, X))
        return self.evidence.noise * (1 + 1 / self.total) + np.sum(spread**2, axis=1)


def choose(task: Task, k: int, start: float, rng: np.random.Generator) -> Atoms:
    """At most `k` rows as atoms, by pursuit; narrower atoms where the data have too few independent ones."""
    n, d = task.X.shape
    size = max(CHOSEN_FROM, ROWS_AN_ATOM * k)
    part = task if n <= size else task.subset(np.sort(rng.permutation(n)[:size]))
    rows, chosen = part.rows(), (np.empty(0, dtype=np.intp), 1.0)
    for power in range(TRIES):
        gamma = start / d * NARROWER**power
        kernel = make_kernel("rbf", rows.X, gamma=gamma, weights=part.weights)
        criterion = Squares(KernelDictionary(rows.X, rows.X, kernel), rows.Y, weights=rows.weights)
        path = pursue(criterion, n_atoms(min(k, len(part.Y))))
        if path.reason == "interrupted":
            raise KeyboardInterrupt
        if len(path) > len(chosen[0]) or power == 0:
            chosen = path.atoms, gamma
        if len(path) >= min(k, len(part.Y)):
            break
    J, gamma = chosen
    return Atoms(to_host(gather(part.X, J)), np.full(len(J), np.log(gamma)), np.zeros(d))


def first(atoms: Atoms, k: int) -> Atoms:
    """The first `k` atoms."""
    return Atoms(atoms.centers[:k], atoms.log_widths[:k], atoms.log_weights)


def solve(evidence: Evidence, task: Task) -> Fit:
    """Coefficients for atoms, signal and noise as they are."""
    rows = task.rows()
    found = coefficients(evidence.atoms, rows, evidence.signal, evidence.noise)
    return Fit(evidence, found.coef, found.intercept + task.mean(), found.mean, found.factor, rows.total)


def refine(
    atoms: Atoms, task: Task, setting: Setting, report: Callable[[int, Evidence], None] | None = None
) -> Evidence:
    """Move chosen atoms as the setting says."""
    rows = task.rows()
    settled = settle(atoms, rows)
    if setting.steps == 0 or setting.moves == "nothing" or len(atoms.log_widths) == 0:
        return settled
    return maximise_evidence(
        atoms,
        rows,
        prior=Prior(centers=setting.held),
        moves=setting.moves,
        signal=settled.signal,
        noise=settled.noise,
        max_iter=setting.steps,
        report=report,
    )


class Judged(NamedTuple):
    """What rows held out say of a setting: the error of each row, its prediction, and the mean predicted variance."""

    setting: Setting
    errors: np.ndarray
    values: np.ndarray
    variance: float


# What may move, and the precision of the prior that draws centres to their start. The first two are tried from the
# better start only: they cannot leave it far.
WAYS = (("widths", 0.0), ("all", 30.0), ("all", 0.0))


class Trial:
    """Rows held out in turn, and what they said so far; choices of atoms are made once for each width and fold."""

    def __init__(self, task: Task, folds: Sequence[tuple[np.ndarray, np.ndarray]], most: int, rng: np.random.Generator):
        self.task, self.most, self._rng = task, most, rng
        self._folds = [(task.subset(train), task.subset(held)) for train, held in folds]
        self.rows = np.concatenate([held for _, held in folds])
        self._chosen: dict[tuple[int, float], Atoms] = {}
        self._cap = np.inf  # a few rows far off must not decide

    def _atoms(self, fold: int, start: float, terms: int) -> Atoms:
        if (fold, start) not in self._chosen:
            self._chosen[fold, start] = choose(self._folds[fold][0], self.most, start, self._rng)
        return first(self._chosen[fold, start], terms)

    def unrefined(self, terms: int, start: float) -> Judged:
        """Errors of the atoms as they were chosen."""
        setting, parts = Setting(terms, start), []
        for fold, (train, held) in enumerate(self._folds):
            parts.append(self._ask(refine(self._atoms(fold, start, terms), train, setting), train, held))
        return self._join(setting, parts)

    def refined(self, terms: int, start: float, moves: str, held_back: float, steps: Sequence[int]) -> list[Judged]:
        """Errors after each of these numbers of iterations."""
        setting = Setting(terms, start, moves, steps[-1], held_back)
        found: list[dict[int, Any]] = []
        for fold, (train, held) in enumerate(self._folds):
            said: dict[int, Any] = {}

            def listen(step: int, evidence: Evidence, said=said, train=train, held=held) -> None:
                if step in steps:
                    said[step] = self._ask(evidence, train, held)

            last = refine(self._atoms(fold, start, terms), train, setting, listen)
            if last.interrupted:
                raise KeyboardInterrupt
            if steps[-1] not in said:  # it came to a rest earlier
                final = self._ask(last, train, held)
                said = {step: said.get(step, final) for step in steps}
            found.append(said)
        return [self._join(setting._replace(steps=step), [said[step] for said in found]) for step in steps]

    def _ask(self, evidence: Evidence, train: Task, held: Task) -> tuple[np.ndarray, np.ndarray, float]:
        fit = solve(evidence, train)
        values = to_host(fit.values(held.X))
        return self.task.error(held.Y, values), values, float(np.mean(fit.variance(held.X)))

    def _join(self, setting: Setting, parts: list[tuple[np.ndarray, np.ndarray, float]]) -> Judged:
        errors, values = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return Judged(setting, errors, values, float(np.mean([part[2] for part in parts])))

    def better(self, more: Judged, less: Judged) -> bool:
        """Whether the errors of `more` are lower by more than chance would have it."""
        gain = np.minimum(less.errors, self._cap) - np.minimum(more.errors, self._cap)
        weights = self._weights()
        mean = float(np.average(gain, weights=weights))
        return mean > DOUBT * float(np.sqrt(np.sum((weights * (gain - mean)) ** 2)) / np.sum(weights))

    def error(self, judged: Judged) -> float:
        """Mean error of the rows held out, each up to the cap."""
        return float(np.average(np.minimum(judged.errors, self._cap), weights=self._weights()))

    def _weights(self) -> np.ndarray:
        return np.ones(len(self.rows)) if self.task.weights is None else self.task.weights[self.rows]

    def _set_cap(self, judged: Judged) -> None:
        usual = np.sort(judged.errors)[: max(1, int(TRIMMED * len(judged.errors)))]
        self._cap = min(self._cap, LARGEST * float(np.mean(usual)) or np.inf)

    def of_terms(self, terms: int, say: Say) -> Judged:
        """The best way to refine that many terms: the start, unless moving atoms is better beyond doubt."""
        starts = [self.unrefined(terms, start) for start in STARTS]
        if self._cap == np.inf:
            self._set_cap(min(starts, key=self.error))
        unrefined = min(starts, key=self.error)
        near = unrefined.setting.start
        ways = [(near, *way) for way in WAYS[:2]] + [(start, *WAYS[2]) for start in FREE]
        best = min((judged for way in ways for judged in self.refined(terms, *way, SHORT)), key=self.error)
        if best.setting.steps == SHORT[-1]:  # it was still on its way
            _, start, moves, _, held = best.setting
            best = min(self.refined(terms, start, moves, held, LONG), key=self.error)
        kept = best if self.better(best, unrefined) else unrefined
        say(
            f"{terms} terms: error of rows held out {self.error(unrefined):.4g} unrefined, {self.error(best):.4g} "
            f"refined ({best.setting.moves}, {best.setting.steps} steps); kept: {kept.setting.moves}"
        )
        return kept


def fold_numbers(strata: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Fold of each row, random, each class spread evenly over the folds.

    Examples
    --------
    >>> folds = fold_numbers(np.array([0, 0, 0, 0, 1, 1]), 2, np.random.default_rng(0))
    >>> np.bincount(folds).tolist(), sorted(folds[4:].tolist())
    ([3, 3], [0, 1])
    """
    order, taken = rng.permutation(len(strata)), 0
    numbers = np.empty(len(strata), dtype=np.intp)
    for label in np.unique(strata):
        mine = order[strata[order] == label]
        numbers[mine] = (taken + np.arange(len(mine))) % folds
        taken += len(mine)
    return numbers


def sizes(most: int) -> Iterator[int]:
    """Numbers of terms that "auto" tries."""
    terms = FEWEST
    while terms < most:
        yield terms
        terms *= 2
    yield most


def best_size(trial: Trial, say: Say) -> Judged:
    """Number of terms that twice as many do not beat beyond doubt."""
    kept: Judged | None = None
    for terms in sizes(trial.most):
        judged = trial.of_terms(terms, say)
        if kept is not None and not trial.better(judged, kept):
            break
        kept = judged
    assert kept is not None
    return kept
