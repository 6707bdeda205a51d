"""The one loop of all methods: take the atom of the highest score, update, repeat until a rule ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelpursuit.pursuit.candidates import Candidates, available_sample, everything, why_none
from kernelpursuit.pursuit.lookahead import MOST, LookAhead, Simulation

REPLAYED = 64  # atoms of a block that is taken again
SAME_LOSS = 1e-6  # share of the loss without atoms by which a loss may differ from the one recorded


class Step(NamedTuple):
    """Record of one step of a pursuit.

    Attributes
    ----------
    atom : int
        Index of the atom taken; -1 for the state before the first.
    score : float
        Its score when it was taken.
    weakness : float
        Its score as a share of the best score known at that moment; 1 for plain greedy choice.
    loss : float
        Mean training loss after the step, ridge penalty included.
    leave_one_out : float
        Mean squared leave-one-out residual of the model on the atoms so far; nan where there is no closed form.
    weight : tuple of float
        Step length along the new direction, one number for each target.
    released : tuple of int
        Atoms given up in this step.
    bound : float
        Upper limit of the error of the model now; nan unless a stop rule follows one.
    validation : float
        Error on rows held out, or left out one at a time; nan unless a stop rule follows it.
    seconds : float
        Time since the pursuit began.
    """

    atom: int
    score: float = np.nan
    weakness: float = 1.0
    loss: float = np.nan
    leave_one_out: float = np.nan
    weight: tuple[float, ...] = ()
    released: tuple[int, ...] = ()
    bound: float = np.nan
    validation: float = np.nan
    seconds: float = 0.0

    def known(self) -> Step:
        """The step, its left-out error a number: on remote rows that may not have been read yet."""
        return self._replace(leave_one_out=float(self.leave_one_out))


def count(number: int, noun: str) -> str:
    """A number and its noun, which is in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Stop(NamedTuple):
    """Verdict of a stop rule: how many steps to keep, and why."""

    keep: int
    reason: str
    sentence: str = ""


@dataclass(repr=False)
class Path:
    """Record of a pursuit.

    Attributes
    ----------
    start : Step
        State before the first atom.
    steps : list of Step
        The steps kept, in order.
    discarded : list of Step
        Steps taken after those and given up by the stop rule.
    reason : str
        Short code why it ended: ``"n_atoms"``, ``"tolerance"``, ``"leave_one_out"``, ``"validation"``, ``"exhausted"``
        (no atom is left that would change the fit), ``"memory"``, ``"interrupted"``, or what another rule says.
    sentence : str
        The same in words.
    passes : float
        How often the data were read. Products of all atoms with some vectors count 1. Where only some atoms are looked
        at, because they are tried out, sampled or computed again, their share of all atoms counts.
    ending : bool
        True once the path is over for another reason: the stop rule is then asked how much of it to keep.
    """

    start: Step
    steps: list[Step] = field(default_factory=list)
    discarded: list[Step] = field(default_factory=list)
    reason: str = ""
    sentence: str = ""
    passes: float = 0.0
    ending: bool = False

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        """One line, such as ``Path(2 steps, 2 atoms, loss 4 -> 0.5: gcv was lowest after 2 of 12 steps)``."""
        last = self.steps[-1].loss if self.steps else self.start.loss
        size = f"{count(len(self), 'step')}, {count(len(self.atoms), 'atom')}"
        return f"Path({size}, loss {self.start.loss:.4g} -> {last:.4g}: {self.sentence or 'not over'})"

    def to_frame(self) -> Any:
        """The steps as a pandas DataFrame: one row for each number of steps from 0 on, the fields of `Step` as columns.

        Returns
        -------
        pandas.DataFrame
            Steps that the stop rule gave up are the rows whose `kept` is False.
        """
        import pandas as pd  # type: ignore[import-untyped]

        frame = pd.DataFrame([self.start, *self.steps, *self.discarded], columns=Step._fields)
        frame["kept"] = np.arange(len(frame)) <= len(self)
        return frame.rename_axis("n_steps")

    @property
    def atoms(self) -> np.ndarray:
        """Distinct atoms of the steps kept, in the order of first choice, after releases."""
        chosen: dict[int, None] = {}
        for step in self.steps:
            chosen.setdefault(step.atom)
            for atom in step.released:  # perhaps the one just taken
                chosen.pop(atom, None)
        return np.array(list(chosen), dtype=np.intp)

    def values(self, name: str) -> np.ndarray:
        """Field `name` of the start and of every step, one number for each number of steps from 0 on.

        Examples
        --------
        >>> Path(Step(-1, loss=2.0), [Step(3, loss=1.0)]).values("loss")
        array([2., 1.])
        """
        return np.array([getattr(step, name) for step in [self.start, *self.steps]], dtype=np.float64)

    def truncate(self, k: int) -> Path:
        """A path with the first `k` of all steps taken; those after them are discarded."""
        taken = self.steps + self.discarded
        if k == len(self):
            return replace(self)
        sentence = f"truncated to {k} of {count(len(taken), 'step')}"
        return replace(self, steps=taken[:k], discarded=taken[k:], reason="truncated", sentence=sentence)


StopRule = Callable[[Path], "Stop | None"]


def checked_verdict(verdict: Any) -> Stop | None:
    """The verdict of a stop rule, which may be a user's; an error where it is neither None nor a `Stop`."""
    if verdict is None or (isinstance(verdict, Stop) and isinstance(verdict.keep, Integral) and verdict.keep >= 0):
        return verdict
    way_on = "None, to go on, or kernelpursuit.pursuit.Stop(keep, reason), to end with so many steps"
    raise ValueError(f"stop must return {way_on}; got {verdict!r}")


class CriterionProtocol(Protocol):
    """Members that the loop needs of a criterion; `kernelpursuit.criteria.base.Criterion` has them.

    Attributes
    ----------
    available : ndarray of bool, shape (n_atoms,)
        Atoms that may still be taken.
    tie_tolerance : float or ndarray of shape (n_atoms,)
        Relative uncertainty of the scores; scores that differ by less are equal.
    baseline : float
        Scores at or below this say that an atom changes nothing: 0, or less where scores may be negative.
    passes : float
        Passes over the data so far.
    in_memory : bool
        Whether a pass only reads a matrix that is kept.
    """

    @property
    def in_memory(self) -> bool: ...  # noqa: D102
    @property
    def available(self) -> np.ndarray: ...  # noqa: D102
    @property
    def tie_tolerance(self) -> Any: ...  # noqa: D102
    @property
    def baseline(self) -> float: ...  # noqa: D102
    @property
    def passes(self) -> float: ...  # noqa: D102

    def initial_step(self) -> Step:
        """State before the first atom."""

    def scores(self, J: np.ndarray | None = None) -> np.ndarray:
        """Score of atoms `J` (None: all), larger is better, ``-inf`` for atoms that cannot be taken."""

    def take(self, block: list[int], weakness: float = 1.0) -> Iterator[Step]:
        """Take atoms in the order given and yield a Step for each. All of them together cost one pass over the data.

        It ends before the first atom whose score, when its turn comes, is below `weakness` times the best.
        """

    def simulate(self, J: np.ndarray) -> Simulation | None:
        """A copy of the criterion that knows atoms `J` only, to try choices out; None where that is not possible."""


def pursue(
    criterion: CriterionProtocol,
    stop: StopRule,
    candidates: Candidates = everything,
    callback: Callable[[Path], Any] | None = None,
    lookahead: int | str = 1,
    weakness: float = 1.0,
    path: Path | None = None,
) -> Path:
    """Greedy pursuit: the loop of every method here.

    Parameters
    ----------
    criterion : CriterionProtocol
        Scores the atoms and takes them. It is used up: a second pursuit needs a new one.
    stop : callable
        ``stop(path) -> Stop | None``, asked before each step. When the path is over for another reason, the rule is
        asked once more how many steps to keep, with ``path.ending`` set.
    candidates : callable
        ``candidates(available) -> indices | None`` to look at in this step; None means all. They are asked again where
        some atoms turn out to lie in the span.
    callback : callable, optional
        Called with the path after each step; the path ends where it returns True.
    lookahead : int or "auto"
        How many atoms may be proposed for one pass over the data. They are found by trying out a pool of promising
        atoms, and each is compared with all atoms before it is accepted. The more were accepted, the more are proposed
        next time, but none that the stop rule is known not to want. 1 makes a pass for each atom. "auto" is 64, or 1
        where `weakness` is 1 and a pass only reads a matrix in memory. It has no effect where candidates are sampled,
        nor for criteria that need a pass for each choice.
    weakness : float
        How good an atom must be when its turn comes, as a share of the best score of all atoms; otherwise its block
        ends before it. 1 gives the atoms of plain greedy choice, whatever `lookahead` is. Where candidates are sampled,
        the best of the sample is taken.
    path : Path, optional
        A path on the same atoms to go on with. Its steps are taken again, those too that a stop rule discarded. They
        need not be looked for, so that this costs no pass over the data.

    Returns
    -------
    Path

    Notes
    -----
    An interrupt (Ctrl-C) ends the path with the steps finished so far and the reason ``"interrupted"``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, Squares, pursue
    >>> from kernelpursuit.pursuit import n_atoms
    >>> D = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    >>> y = np.array([1.0, 3.0, 0.0])
    >>> path = pursue(Squares(DenseDictionary(D), y, intercept=False), n_atoms(2))
    >>> path.atoms, path.reason
    (array([1, 0]), 'n_atoms')
    """
    if lookahead != "auto" and not (isinstance(lookahead, Integral) and lookahead >= 1):
        raise ValueError(f"lookahead must be 'auto' or an integer from 1 on, got {lookahead!r}")
    if not 0 < weakness <= 1:
        raise ValueError(f"weakness must be above 0 and at most 1, got {weakness!r}")
    # To read a kept matrix for one vector is as cheap as to try out a pool.
    most = (1 if criterion.in_memory and weakness == 1 else MOST) if lookahead == "auto" else int(lookahead)
    ahead = LookAhead(criterion, stop, most, exact=weakness == 1) if most > 1 else None
    path = Path(start=criterion.initial_step()) if path is None else replay(criterion, path)
    began = time.perf_counter() - (path.steps[-1].seconds if path.steps else 0.0)

    def record(step: Step) -> Stop | None:
        path.steps.append(step._replace(seconds=time.perf_counter() - began))
        verdict = checked_verdict(stop(path))  # a rule may add a number to the step
        if callback is not None and callback(path) and verdict is None:
            verdict = Stop(len(path), "callback", f"a callback ended it after {count(len(path), 'step')}")
        return verdict

    try:
        verdict = checked_verdict(stop(path))
        while verdict is None:
            before = len(path)
            sample = available_sample(criterion, candidates)
            block = propose(criterion, sample, None if ahead is None else partial(ahead, path=path))
            if not block:
                why = why_none(path.atoms, criterion.available)
                verdict = Stop(len(path), "exhausted", f"{why} after {count(len(path), 'step')}")
                break
            # The best of a sample is taken whatever lies outside the sample.
            for step in criterion.take(block, weakness if sample is None else 0.0):
                if (verdict := record(step)) is not None:
                    break
            if len(path) == before and criterion.available[block[0]]:
                name = type(criterion).__name__
                raise RuntimeError(f"{name}.take refused atom {block[0]}, which its own scores say is best")
            if ahead is not None:
                ahead.learn(len(block), len(path) - before)
    except KeyboardInterrupt:
        verdict = Stop(len(path), "interrupted", f"interrupted after {count(len(path), 'step')}")
    path.passes += criterion.passes
    path.ending = True
    if (final := checked_verdict(stop(path))) is not None and final.keep < verdict.keep:
        verdict = verdict._replace(keep=final.keep, sentence=f"{verdict.sentence}; {final.sentence}")
    path.ending = False
    path.start, *steps = (step.known() for step in [path.start, *path.steps])
    path.steps, path.discarded = steps[: verdict.keep], steps[verdict.keep :]
    path.reason, path.sentence = verdict.reason, verdict.sentence
    return path


class OtherPath(ValueError):
    """A path that a criterion cannot go on with."""


def replay(criterion: CriterionProtocol, path: Path) -> Path:
    """Take the atoms of `path` again, with a criterion that has taken none. Returns a path that can go on.

    `OtherPath` is raised where the losses are not those recorded, as shares of the first: the path is of other data or
    settings. What a criterion cannot know of a step is that of the record.
    """
    recorded, start = path.steps + path.discarded, criterion.initial_step()
    if any(step.atom >= len(criterion.available) for step in recorded):
        raise OtherPath(f"path is of other data: it has atoms beyond the {len(criterion.available)} that there are")
    steps: list[Step] = []
    while len(steps) < len(recorded):
        block = [step.atom for step in recorded[len(steps) : len(steps) + REPLAYED]]
        before = len(steps)
        for step in criterion.take(block, 0.0):
            old = recorded[len(steps)]
            here, there = step.loss * path.start.loss, old.loss * start.loss
            if not abs(here - there) <= SAME_LOSS * abs(start.loss * path.start.loss):
                raise OtherPath(f"path is of other data or settings: the loss of step {len(steps) + 1} differs")
            step = step._replace(weakness=old.weakness, bound=old.bound)
            steps.append(step._replace(validation=old.validation, seconds=old.seconds))
        if len(steps) == before:
            raise OtherPath(
                f"path is of other data or settings: atom {block[0]} of step {before + 1} adds nothing here"
            )
    start = start._replace(bound=path.start.bound, validation=path.start.validation)
    return Path(start=start, steps=steps, passes=path.passes)


def propose(
    criterion: CriterionProtocol,
    sample: np.ndarray | None = None,
    ahead: Callable[[np.ndarray], list[int]] | None = None,
) -> list[int]:
    """The atoms to take next: the best of `sample` (None: of all atoms), and those that ``ahead(scores)`` adds.

    Of equal scores the lowest index is the best: blocks, threads and machines round scores differently, and must not
    change the choice. The list is empty if no atom would change the fit. If no atom of a sample would, all atoms are
    scored. `ahead` is asked only where there is no sample.
    """
    if not criterion.available.any():
        return []
    for look in [None] if sample is None else [sample, np.flatnonzero(criterion.available)]:
        scores = criterion.scores(look)
        if len(scores) and scores.max() > criterion.baseline:
            block = [] if ahead is None or look is not None else ahead(scores)
            if block:  # what was computed for the pool may have made scores more exact
                scores = criterion.scores()
            tolerance = criterion.tie_tolerance
            if look is not None and np.ndim(tolerance) > 0:
                tolerance = tolerance[look]
            winner = int(np.argmax(tied(scores, tolerance, criterion.baseline)))
            if look is not None:
                return [int(look[winner])]
            return [winner] + [atom for atom in block if atom != winner]
    return []


def tied(scores: np.ndarray, tolerance: Any, baseline: float = 0.0) -> np.ndarray:
    """Which scores tie with the best one; `propose` takes the lowest index among them.

    A criterion knows how uncertain its scores are: see `tie_tolerance` of `Deflation`.

    `tolerance` is their uncertainty relative to the distance from `baseline`, one number or one for each.
    """
    best = int(np.argmax(scores))
    own = tolerance if np.ndim(tolerance) == 0 else tolerance[best]
    return scores >= baseline + (scores[best] - baseline) * (1 - tolerance - own)


def certified_weakness(scores: np.ndarray, tolerance: Any, atom: int, baseline: float = 0.0) -> float:
    """Score of `atom` as a share of the best score.

    It is 1 for the atom that plain greedy choice takes, and less for all others. It is 0 where plain greedy choice
    would end, and for other atoms where the best score is not positive.
    """
    best = scores.max()
    if not best > baseline:
        return 0.0
    if int(np.argmax(tied(scores, tolerance, baseline))) == atom:
        return 1.0
    if not best > 0:
        return 0.0
    share = float(scores[atom] == np.inf) if best == np.inf else scores[atom] / best
    return float(np.clip(share, 0, np.nextafter(1, 0)))
