"""What rows held out say of each way to refine, and of each number of terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kernelpursuit.arrays import to_host
from kernelpursuit.refined.descent import best_slope, row_losses
from kernelpursuit.refined.evidence import Evidence, settle
from kernelpursuit.refined.moving_atoms import Atoms
from kernelpursuit.refined.refining import (
    Place,
    RefinementSetting,
    Say,
    Start,
    Task,
    first,
    likeness_for,
    placed,
    raise_bound,
    raise_evidence,
    solve,
)
from kernelpursuit.refined.stages import Stages

UNMOVED = (Start(0.06), Start(0.25), Start(1.0))  # of atoms that stay where they were chosen
BOUND = (Start(0.25), Start(1.0), Start(0.5, spread=True))  # of those that the bound moves
FREE = {True: Start(1.0), False: BOUND[-1]}  # of those that move freely, of classes and of values
WIDE = Start(0.25)  # of few of these as well
ALIKE = 100.0  # precision with which all inputs have one weight
STEPS = (5, 10, 20, 40, 80, 160, 320)  # iterations of the evidence after which rows held out are asked
AFTER_BOUND = 80  # the most after the bound; where there are few rows, or classes, it is 40
RISE = 1.2  # a fold goes no further when its error is this many times the lowest it had
LONG, LEAST_GAIN = 80, 0.995  # from so many steps on twice as many must each time leave no more than this share of it
BEHIND = 1.3  # and a way that has so many times the error of the best on the first fold is not followed on the others
BEHIND_KNOWN = 1.1  # the same against what is known to be reached otherwise
ROUGH_RISE = 0.5  # of the bound on a fold: it is only to be judged. See `LEAST_RISE`
FEWEST = 6  # terms that "auto" tries
TRIMMED, LARGEST = 0.99, 30.0  # the error of a row counts 30 times the mean of the smallest 99 % of errors at most
FEW = 200  # rows up to which little is tried
NARROWER, HARDLY = (Start(4.0), Start(16.0)), 0.5  # tried where more than this share of the variance is left
DOUBTS = ((500, 2.0), (np.inf, 1.0))  # up to 500 rows a free move must gain 2 standard errors, else 1
DOUBT_OF_CLASSES, OR_MORE_TERMS = 2.0, 3.0  # of classes; where more terms can be had instead, as for "auto", it is more
FEW_TERMS, FAR_OFF = 24, 0.05  # with few terms this share of the rows is left out, at either end of their gains
MORE_TERMS, MANY_MORE = 0.5, 1.0  # standard errors that more terms must gain; of many terms
CHEAP = 48  # terms that are few; of so few, four times as many are tried where twice as many gain nothing


class Judged(NamedTuple):
    """What rows held out say of a setting: the error of each row, its prediction, and the mean predicted variance.

    The error is what counts: the squared one, or, for classes, the log loss, values scaled as for probabilities. The
    squared error of a regression on ±1 prefers values near ±1 to the right side (waveform: 6 % more wrong rows).
    """

    setting: RefinementSetting
    errors: np.ndarray
    values: np.ndarray
    variance: float
    places: Sequence[Place] = ()  # where the atoms came to, on each fold


Said = tuple[np.ndarray, np.ndarray, float, Place]  # errors, values, mean predicted variance, of what


class Trial:
    """Folds of rows held out in turn, and the errors found on them. Atoms are placed once for each start and fold.

    Each climb on a fold is a stage of the fit: one that goes on after a kill has it already.
    """

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
        most = self.chosen(terms, start)
        if (fold, start, most) not in self._placed:
            rng = np.random.default_rng([self._seed, fold, most])
            self._placed[fold, start, most] = placed(self._folds[fold][0], most, start, rng)
        return first(self._placed[fold, start, most], terms)

    def chosen(self, terms: int, start: Start) -> int:
        """How many atoms are chosen for so many terms: the first of many that a pursuit chose are its choice of few."""
        return terms if start.spread else min(self.most, CHEAP) if terms <= CHEAP else self.most

    def unrefined(self, terms: int, start: Start) -> list[Judged]:
        """Errors of the atoms as they were chosen."""
        parts = []
        for fold, (train, held) in enumerate(self._folds):
            parts.append(self._ask(settle(self._atoms(fold, start, terms), train.rows()), train, held))
        return [self._join(RefinementSetting(terms, start), parts)]

    def bound(self, terms: int, likeness: float) -> list[Judged]:
        """Errors of atoms that have moved to where the bound is largest."""
        parts = []
        for fold, (train, held) in enumerate(self._folds):
            parts.append(self._ask(self._bounded(fold, terms, likeness), train, held))
        return [self._join(RefinementSetting(terms, self._best_start[terms], bound=True, likeness=likeness), parts)]

    def _bounded(self, fold: int, terms: int, likeness: float) -> Evidence:
        """Where the bound of a fold is largest: from all starts the first time, then from the best of these."""
        key = (fold, terms, likeness)
        if key not in self._bounds:
            start, (atoms, *variances) = self._stages(
                self._named(fold, f"{terms} terms, bound, likeness {likeness:g}"), lambda: self._raised(*key)
            )
            self._best_start[terms] = Start(*start)
            self._bounds[key] = Evidence(Atoms(*atoms), *variances)
        return self._bounds[key]

    def _named(self, fold: int, what: str) -> str:
        return f"{what}, fold {fold + 1} of {len(self._folds)}"

    def _raised(self, fold: int, terms: int, likeness: float) -> tuple[Start, Evidence]:
        starts = [self._best_start[terms]] if terms in self._best_start else bound_starts(self.task)
        places = [Place(self._atoms(fold, start, terms)) for start in starts]
        found, best = raise_bound(places, self._folds[fold][0], likeness, least_rise=ROUGH_RISE)
        if found.interrupted:
            raise KeyboardInterrupt
        return starts[best], found

    def start(self, fold: int, setting: RefinementSetting) -> np.ndarray:
        """Centres that a setting started from on a fold."""
        return self._atoms(fold, setting.start, setting.terms).centers

    def refined(self, settings: Sequence[RefinementSetting], known: float = np.inf) -> list[Judged]:
        """Errors of several ways after so many iterations that raise the evidence, `STEPS` up to those of the setting.

        On the first fold all are followed; on the others those not far behind the best of them, or behind the error
        that is `known` to be reached there by other means, and four times as far as was best.
        """
        passes = int(min(self.task.passes, STEPS[-1]))
        settings = [setting._replace(steps=min(setting.steps, passes)) for setting in settings]
        found = {setting: [self._followed(0, setting, setting.steps)] for setting in settings}
        lowest = {setting: min(map(self._mean, said[0].values())) for setting, said in found.items()}
        highest = min(BEHIND * min(lowest.values()), BEHIND_KNOWN * known)
        near = [setting for setting in settings if lowest[setting] <= highest]
        judged = []
        for setting in near:
            best = min(found[setting][0], key=lambda step: self._mean(found[setting][0][step]))
            most = min(setting.steps, 4 * best)
            others = [self._followed(fold, setting, most) for fold in range(1, len(self._folds))]
            said = [found[setting][0], *others]
            start = self._best_start[setting.terms] if setting.bound else setting.start
            for step in said[-1]:
                judged.append(self._join(setting._replace(steps=step, start=start), [one[step] for one in said]))
        return judged

    def _followed(self, fold: int, setting: RefinementSetting, steps: int) -> dict[int, Said]:
        """What the rows held out in a fold say after some numbers of steps, up to `steps`."""
        after = (
            f" after the bound, likeness {setting.likeness:g}"
            if setting.bound
            else f" from width {setting.start.width:g}"
        )
        name = self._named(fold, f"{setting.terms} terms, all moved{after}, at most {steps} steps")
        found = self._stages(name, lambda: self._follow(fold, setting, steps))
        return {step: (*told[:3], Place(Atoms(*told[3][0]), *told[3][1:])) for step, told in found}

    def _follow(self, fold: int, setting: RefinementSetting, most: int) -> list[tuple[int, Said]]:
        train, held = self._folds[fold]
        steps = [step for step in STEPS if step <= most] or [most]
        said: dict[int, Said] = {}

        def listen(step: int, evidence: Evidence) -> bool:
            if step not in steps:
                return False
            before = min(map(self._mean, said.values()), default=np.inf)
            said[step] = self._ask(evidence, train, held)
            return self._mean(said[step]) > (RISE if step < LONG else LEAST_GAIN) * before

        bounded = self._bounded(fold, setting.terms, setting.likeness) if setting.bound else None
        atoms = self._atoms(fold, setting.start, setting.terms) if bounded is None else bounded.atoms
        last = raise_evidence(atoms, train, steps[-1], listen)
        if last.interrupted:
            raise KeyboardInterrupt
        final = self._ask(last, train, held)  # it is at rest, or has become worse: more steps would tell no more
        return [(step, said.get(step, final)) for step in steps]

    def _ask(self, evidence: Evidence, train: Task, held: Task) -> Said:
        fit = solve(evidence, train)
        values = to_host(fit.values(held.X))
        return self.task.error(held.Y, values), values, float(np.mean(fit.variance(held.X))), Place(*evidence[:3])

    def _mean(self, said: Said) -> float:
        return float(np.mean(np.minimum(said[0], self._cap)))

    def _squared(self, judged: Judged) -> np.ndarray:
        return self.task.error(self.task.Y[self.rows], judged.values)

    def _on_first_fold(self, judged: Judged) -> float:
        return float(np.mean(np.minimum(self._squared(judged)[: len(self._folds[0][1].Y)], self._cap)))

    def _join(self, setting: RefinementSetting, parts: list[Said]) -> Judged:
        errors, values = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        if self.task.classes:
            errors = self._log_losses(values)
        return Judged(setting, errors, values, float(np.mean([part[2] for part in parts])), [part[3] for part in parts])

    def _log_losses(self, values: np.ndarray) -> np.ndarray:
        Y = self.task.Y[self.rows]
        loss, Y = ("log_loss", Y) if Y.shape[1] == 1 else ("softmax", (Y + 1) / 2)
        scaled = best_slope(loss, Y, values, self._weights())[0] * values
        return row_losses(loss, Y, scaled)

    def better(self, more: Judged, less: Judged, doubt: float, far_off: float = 0.0) -> bool:
        """Whether the errors of `more` are lower by more than so many standard errors.

        A share of the rows, `far_off`, is left out at each end: those with the largest and the smallest gains.
        """
        gain = self._counted(less) - self._counted(more)
        out = int(far_off * len(gain))
        usual = np.argsort(gain, kind="stable")[out : len(gain) - out]
        gain, weights = gain[usual], self._weights()[usual]
        mean = float(np.average(gain, weights=weights)) if np.sum(weights) > 0 else 0.0
        return mean > doubt * float(np.sqrt(np.sum((weights * (gain - mean)) ** 2)) / (np.sum(weights) or 1.0))

    def error(self, judged: Judged) -> float:
        """Mean error of the rows held out, a squared one up to the cap."""
        return float(np.average(self._counted(judged), weights=self._weights()))

    def _counted(self, judged: Judged) -> np.ndarray:
        return judged.errors if self.task.classes else np.minimum(judged.errors, self._cap)

    def wrong(self, judged: Judged) -> float:
        """Share of rows held out that are of another class."""
        Y, values = self.task.Y[self.rows], judged.values
        wrong = (Y * values <= 0)[:, 0] if Y.shape[1] == 1 else np.argmax(Y, axis=1) != np.argmax(values, axis=1)
        return float(np.average(wrong, weights=self._weights()))

    def _weights(self) -> np.ndarray:
        return np.ones(len(self.rows)) if self.task.weights is None else self.task.weights[self.rows]

    def _set_cap(self, judged: Judged) -> None:
        usual = np.sort(self._squared(judged))[: max(1, int(TRIMMED * len(judged.errors)))]
        self._cap = min(self._cap, LARGEST * float(np.mean(usual)) or np.inf)

    def of_terms(self, terms: int, say: Say, doubt_of_classes: float = DOUBT_OF_CLASSES) -> Judged:
        """The best way to refine that many terms: a safe one, unless moving everything is better beyond doubt.

        The bound is safe. For classes the squared error, which it bounds, is not what counts: there it is tried with
        all inputs alike as well, and not to move at all.
        """
        n, classes = len(self.task.Y), self.task.classes
        few, likeness = n <= FEW, likeness_for(self.task.X.shape[1])
        safe = self.bound(terms, likeness)
        if classes:
            safe += self.bound(terms, ALIKE)
            safe += [judged for start in UNMOVED for judged in self.unrefined(terms, start)]
        if self._cap == np.inf:
            self._set_cap(min(safe, key=self.error))
        most = STEPS[3] if few or classes else STEPS[-1]
        everything = RefinementSetting(terms, FREE[classes], moves="all", steps=most, likeness=likeness)
        ways = [everything, everything._replace(bound=True, steps=min(most, AFTER_BOUND))]
        if terms <= FEW_TERMS and not classes:  # few may be stuck anywhere
            ways.append(everything._replace(start=WIDE))
        free = self.refined(ways, min(map(self._on_first_fold, safe)) if classes else np.inf)
        if not classes and min(map(self.error, (*safe, *free))) > HARDLY:  # a function that turns often, or noise
            free += self.refined([everything._replace(start=start) for start in NARROWER])
        safest = min(safe, key=self.error)
        best = min(free, key=self.error, default=safest)
        doubt = doubt_of_classes if classes else next(doubt for rows, doubt in DOUBTS if n <= rows)
        far_off = FAR_OFF if terms <= FEW_TERMS and not classes else 0.0
        gains = self.better(best, safest, doubt, far_off) and (not classes or self.wrong(best) <= self.wrong(safest))
        kept = best if gains else safest
        say(
            f"{terms} terms: {'log loss' if classes else 'error'} of rows held out {self.error(safest):.4g} "
            f"with {safest.setting.moved} moved, "
            f"{self.error(best):.4g} with all moved by {best.setting.steps} steps; kept: {kept.setting.moved}"
        )
        return kept


def bound_starts(task: Task) -> Sequence[Start]:
    """Where the bound is climbed from."""
    return BOUND if task.given is None else BOUND[:1]


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
    """The smallest number of terms that more terms, twice as many or, of few, four times, do not clearly beat."""
    kept: Judged | None = None
    for terms in sizes(trial.most):
        judged = trial.of_terms(terms, say, OR_MORE_TERMS)
        if kept is None or trial.better(judged, kept, MORE_TERMS if terms <= CHEAP else MANY_MORE):
            kept = judged
        elif terms >= CHEAP or terms > 2 * kept.setting.terms:
            break
    assert kept is not None
    return kept
