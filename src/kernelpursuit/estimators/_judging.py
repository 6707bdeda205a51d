"""What rows held out say of each way to refine, and of each number of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit._array import to_host
from kernelpursuit.estimators._refining import (
    Say,
    Setting,
    Start,
    Task,
    first,
    likeness_for,
    placed,
    raise_bound,
    raise_evidence,
    solve,
)
from kernelpursuit.estimators._stages import Stages
from kernelpursuit.refinement.atoms import Atoms
from kernelpursuit.refinement.evidence import Evidence, settle

UNMOVED = (Start(0.06), Start(0.25), Start(1.0))  # of atoms that stay where they were chosen
BOUND = (Start(0.25), Start(1.0), Start(0.5, spread=True))  # of those that the bound moves
FREE = (Start(1.0), Start(0.25))  # of those that move freely: narrow, which suits few terms and classes; and wide
ALIKE = 100.0  # precision with which all inputs have one weight
STEPS = (5, 10, 20, 40, 80, 160)  # iterations of the evidence after which rows held out are asked
AFTER_BOUND, OF_FEW = STEPS[:5], STEPS[:4]  # the same after the bound, and where there are few rows, or classes
RISE = 1.5  # a fold goes no further when its error is this many times the lowest it had
FEWEST = 6  # terms that "auto" tries
TRIMMED, LARGEST = 0.99, 30.0  # the error of a row counts 30 times the mean of the smallest 99 % of errors at most
FEW = 200  # rows up to which little is tried
NARROW_TERMS = 24  # up to which values are tried from a narrow start too: few wide terms may never find a narrow ridge
NARROWER, HARDLY = (Start(4.0), Start(16.0)), 0.5  # tried where more than this share of the variance is left
DOUBTS = ((500, 2.0), (np.inf, 1.0))  # up to 500 rows a free move must gain 2 standard errors, else 1
DOUBT_OF_CLASSES = 2.0
MORE_TERMS = 0.5  # standard errors that twice as many terms must gain


class Judged(NamedTuple):
    """What rows held out say of a setting: the error of each row, its prediction, and the mean predicted variance."""

    setting: Setting
    errors: np.ndarray
    values: np.ndarray
    variance: float


Said = tuple[np.ndarray, np.ndarray, float]  # errors, values, mean predicted variance


def kept(judge: Callable[..., list[Judged]]) -> Callable[..., list[Judged]]:
    """Decorator of a method whose result is a stage of the fit: a fit that goes on after a kill has it already."""

    @wraps(judge)
    def stage(self: Trial, *setting: Any) -> list[Judged]:
        found = self._stages(f"{judge.__name__} {setting}", lambda: judge(self, *setting))
        return [Judged(Setting(of[0], Start(*of[1]), *of[2:]), *said) for of, *said in found]

    return stage


class Trial:
    """Folds of rows held out in turn, and the errors found on them. Atoms are placed once for each start and fold."""

    def __init__(
        self,
        task: Task,
        folds: Sequence[tuple[np.ndarray, np.ndarray]],
        most: int,
        rng: np.random.Generator,
        stages: Stages | None = None,
    ):
        self.task, self.most, self._stages = task, most, stages or Stages()
        self._seed = int(rng.integers(2**32))  # draws are the same whatever has been judged before
        self._folds = [(task.subset(train), task.subset(held)) for train, held in folds]
        self.rows = np.concatenate([held for _, held in folds])
        self._placed: dict[tuple[int, Start, int], Atoms] = {}
        self._bounds: dict[tuple[int, int, float], Evidence] = {}
        self._best_start: dict[int, Start] = {}  # of the bound, by the number of terms
        self._cap = np.inf  # a few rows far off must not decide

    def _atoms(self, fold: int, start: Start, terms: int) -> Atoms:
        most = terms if start.spread else self.most  # the first of many that a pursuit chose are its choice of few
        if (fold, start, most) not in self._placed:
            rng = np.random.default_rng([self._seed, fold, most])
            self._placed[fold, start, most] = placed(self._folds[fold][0], most, start, rng)
        return first(self._placed[fold, start, most], terms)

    @kept
    def unrefined(self, terms: int, start: Start) -> list[Judged]:
        """Errors of the atoms as they were chosen."""
        parts = []
        for fold, (train, held) in enumerate(self._folds):
            parts.append(self._ask(settle(self._atoms(fold, start, terms), train.rows()), train, held))
        return [self._join(Setting(terms, start), parts)]

    @kept
    def bound(self, terms: int, likeness: float) -> list[Judged]:
        """Errors of atoms that have moved to where the bound is largest."""
        parts = []
        for fold, (train, held) in enumerate(self._folds):
            parts.append(self._ask(self._bounded(fold, terms, likeness), train, held))
        return [self._join(Setting(terms, self._best_start[terms], bound=True, likeness=likeness), parts)]

    def _bounded(self, fold: int, terms: int, likeness: float) -> Evidence:
        """Where the bound of a fold is largest: from all starts the first time, then from the best of these."""
        key = (fold, terms, likeness)
        if key not in self._bounds:
            starts = [self._best_start[terms]] if terms in self._best_start else bound_starts(self.task)
            atoms = {start: self._atoms(fold, start, terms) for start in starts}
            found, start = highest_bound(atoms, self._folds[fold][0], likeness)
            if found.interrupted:
                raise KeyboardInterrupt
            self._bounds[key], self._best_start[terms] = found, start
        return self._bounds[key]

    @kept
    def refined(self, setting: Setting, steps: Sequence[int]) -> list[Judged]:
        """Errors after so many iterations that raise the evidence, for each of these numbers."""
        steps = [step for step in steps if step <= self.task.passes] or [int(self.task.passes)]
        setting = setting._replace(steps=steps[-1])
        terms, start, bound = setting[:3]
        found: list[dict[int, Said]] = []
        for fold, (train, held) in enumerate(self._folds):
            said: dict[int, Said] = {}

            def listen(step: int, evidence: Evidence, said=said, train=train, held=held) -> bool:
                if step not in steps:
                    return False
                said[step] = self._ask(evidence, train, held)
                return self._mean(said[step]) > RISE * min(self._mean(one) for one in said.values())

            bounded = self._bounded(fold, terms, setting.likeness) if bound else None
            atoms = self._atoms(fold, start, terms) if bounded is None else bounded.atoms
            last = raise_evidence(atoms, train, setting, listen)
            if last.interrupted:
                raise KeyboardInterrupt
            if last.at_rest:
                final = self._ask(last, train, held)
                said = {step: said.get(step, final) for step in steps}
            found.append(said)
        steps = [step for step in steps if all(step in said for said in found)]
        setting = setting._replace(start=self._best_start[terms] if bound else start)
        return [self._join(setting._replace(steps=step), [said[step] for said in found]) for step in steps]

    def _ask(self, evidence: Evidence, train: Task, held: Task) -> Said:
        fit = solve(evidence, train)
        values = to_host(fit.values(held.X))
        return self.task.error(held.Y, values), values, float(np.mean(fit.variance(held.X)))

    def _mean(self, said: Said) -> float:
        return float(np.mean(np.minimum(said[0], self._cap)))

    def _join(self, setting: Setting, parts: list[Said]) -> Judged:
        errors, values = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return Judged(setting, errors, values, float(np.mean([part[2] for part in parts])))

    def better(self, more: Judged, less: Judged, doubt: float) -> bool:
        """Whether the errors of `more` are lower by more than so many standard errors."""
        gain = np.minimum(less.errors, self._cap) - np.minimum(more.errors, self._cap)
        weights = self._weights()
        mean = float(np.average(gain, weights=weights))
        return mean > doubt * float(np.sqrt(np.sum((weights * (gain - mean)) ** 2)) / np.sum(weights))

    def error(self, judged: Judged) -> float:
        """Mean error of the rows held out, each up to the cap."""
        return float(np.average(np.minimum(judged.errors, self._cap), weights=self._weights()))

    def _weights(self) -> np.ndarray:
        return np.ones(len(self.rows)) if self.task.weights is None else self.task.weights[self.rows]

    def _set_cap(self, judged: Judged) -> None:
        usual = np.sort(judged.errors)[: max(1, int(TRIMMED * len(judged.errors)))]
        self._cap = min(self._cap, LARGEST * float(np.mean(usual)) or np.inf)

    def of_terms(self, terms: int, say: Say) -> Judged:
        """The best way to refine that many terms: a safe one, unless moving everything is better beyond doubt.

        The bound is safe. For classes the squared error, which it bounds, is not what counts: there it is tried with
        all inputs alike as well, and not to move at all.
        """
        n, classes = len(self.task.Y), self.task.classes
        few, likeness = n <= FEW, likeness_for(*self.task.X.shape)
        safe = self.bound(terms, likeness)
        if classes:
            safe += self.bound(terms, ALIKE)
            safe += [judged for start in UNMOVED for judged in self.unrefined(terms, start)]
        if self._cap == np.inf:
            self._set_cap(min(safe, key=self.error))
        everything, steps = Setting(terms, FREE[1], moves="all", likeness=likeness), OF_FEW if few or classes else STEPS
        free = [] if classes else self.refined(everything, steps)
        if classes or terms <= NARROW_TERMS:
            free += self.refined(everything._replace(start=FREE[0]), steps)
        if classes or not few:
            free += self.refined(everything._replace(bound=True), OF_FEW if classes else AFTER_BOUND)
        if not classes and min(map(self.error, (*safe, *free))) > HARDLY:  # a function that turns often, or noise
            free += [judged for start in NARROWER for judged in self.refined(everything._replace(start=start), steps)]
        safest, best = (min(some, key=self.error) for some in (safe, free))
        doubt = next(doubt for rows, doubt in DOUBTS if n <= rows)
        kept = best if self.better(best, safest, DOUBT_OF_CLASSES if classes else doubt) else safest
        say(
            f"{terms} terms: error of rows held out {self.error(safest):.4g} with {safest.setting.moved} moved, "
            f"{self.error(best):.4g} with all moved by {best.setting.steps} steps; kept: {kept.setting.moved}"
        )
        return kept


def bound_starts(task: Task) -> Sequence[Start]:
    """Where the bound is climbed from."""
    return BOUND if task.given is None else BOUND[:1]


def highest_bound(atoms: Mapping[Start, Atoms], task: Task, likeness: float) -> tuple[Evidence, Start]:
    """The largest bound found from several starts, and that start. It bounds one number, so it may be compared."""
    found: list[tuple[Evidence, Start]] = []
    for start, these in atoms.items():
        found.append((raise_bound(these, task, likeness), start))
        if found[-1][0].interrupted:
            break
    best, start = min(found, key=lambda one: one[0].value)
    return best._replace(interrupted=found[-1][0].interrupted), start


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
    """The smallest number of terms that twice as many terms do not clearly beat."""
    kept: Judged | None = None
    for terms in sizes(trial.most):
        judged = trial.of_terms(terms, say)
        if kept is not None and not trial.better(judged, kept, MORE_TERMS):
            break
        kept = judged
    assert kept is not None
    return kept
