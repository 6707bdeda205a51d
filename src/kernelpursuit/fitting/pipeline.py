"""The one way from atoms and a criterion to a path: plan the memory, announce it, run the loop, report, warn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kernelpursuit._sklearn import fit_context
from kernelpursuit._warning import warn
from kernelpursuit.atoms import Dictionary
from kernelpursuit.atoms.dense import worth_one_triangle
from kernelpursuit.atoms.tiles import one_blas_thread
from kernelpursuit.fitting.callbacks import FitTask, PursuitTask, Snapshot, lines_wanted, told
from kernelpursuit.fitting.journal import Journal, journal_of
from kernelpursuit.fitting.memory import limit_spare, plan_memory
from kernelpursuit.fitting.placement import host_dtype
from kernelpursuit.fitting.rows import refuse_collections
from kernelpursuit.fitting.threads import threads_for
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.pursuit.candidates import (
    RATE,
    START,
    Candidates,
    everything,
    growing_subset,
    random_subset,
    sample_size,
)
from kernelpursuit.pursuit.loop import OtherPath, Path, StopRule, count, pursue
from kernelpursuit.pursuit.stopping import first_of, n_atoms

RESUMED = (
    "resume=True goes on with the fit before, so X, y, sample_weight and all parameters but those that end a path "
    "(n_atoms, stop) must be the same; resume=False fits anew"
)
MakeDictionary = Callable[[int, str], Dictionary]  # from bytes and the way of storage


@dataclass(frozen=True)
class Settings:
    """What every pursuit is told besides its atoms and its criterion, by parameters of the same names.

    Attributes
    ----------
    rng : numpy.random.Generator
        Made from `random_state`.
    journal : Journal or None
        The file that ``resume`` names: steps are read from it, and added to it.
    path : Path or None
        The path of the fit before, where ``resume=True`` asks to go on with it.
    fit_task : FitTask or None
        What callbacks hear of, where the estimator has any.
    """

    rng: np.random.Generator
    candidates: Any = None
    weakness: float = 1.0
    memory: int | None = None
    verbose: int = 0
    journal: Journal | None = None
    path: Path | None = None
    fit_task: FitTask | None = None

    @classmethod
    def of(cls, estimator: Any, data: TrainingData | None = None, path: Path | None = None) -> Settings:
        """The settings among the parameters of an estimator.

        One that has the parameter ``resume`` gives its `data`, and the `path` of the model that it is already.
        """
        given = {field.name: getattr(estimator, field.name) for field in fields(cls) if hasattr(estimator, field.name)}
        given |= {"verbose": lines_wanted(estimator), "fit_task": getattr(estimator, "_fit_task", None)}
        seed = draw_seed(estimator.random_state)
        journal = None if data is None else journal_of(estimator, data, seed)
        if journal is not None:
            return cls(rng=np.random.default_rng(journal.seed), journal=journal, **given)
        resumed = data is not None and estimator.resume
        return cls(rng=np.random.default_rng(seed), path=path if resumed else None, **given)


class Pursued(NamedTuple):
    """A pursuit that is over."""

    path: Path
    criterion: Any
    dictionaries: list[Dictionary]


def run(
    atoms: Sequence[MakeDictionary],
    criterion: Callable[..., Any],
    rules: Callable[[Any], Sequence[StopRule]],
    settings: Settings,
    data: TrainingData,
    *,
    basis: int | None,
    itemsize: int = 8,
    worth_keeping: bool = True,
    wanted: int | None = None,
    name: str = "n_atoms",
    unit: float = 1.0,
    steps: int | None = None,
    snapshot: Snapshot | None = None,
    track_scores: bool | None = None,
) -> Pursued:
    """Run one pursuit.

    Parameters
    ----------
    atoms : sequence of callables
        ``make(memory, storage)`` gives a dictionary; there are two for two views.
    criterion : callable
        Makes the criterion from the dictionaries.
    rules : callable
        Makes the stop rules from the criterion.
    settings : Settings
    data : TrainingData
    basis : int or None
        How many directions over the rows the criterion will keep. None means as many as fit into memory; the path then
        ends when that is full.
    itemsize : int
        Bytes for each row and direction: 8, since they are float64 whatever X is, or more where more is kept.
    worth_keeping : bool
        Whether the criterion reads the whole kernel matrix, so that it pays to keep it.
    wanted : int, optional
        Number of atoms that the user asked for: a warning says when the data cannot give them.
    name : str
        Parameter that asks for them.
    unit : float
        Unit of the losses in what is printed.
    steps : int, optional
        Most steps that there will be, for callbacks; None where it is not known.
    snapshot : callable, optional
        ``snapshot(path, criterion)``: attributes of the model after the steps so far, for callbacks that want it.
    track_scores : bool, optional
        What `will_track_scores` says; where it is not given, of as many atoms as rows.

    Returns
    -------
    Pursued
        An interrupt ends the path; see `fits` for what becomes of it. One before the first step is raised at once.
    """
    memory, most = plan_memory(data, basis, itemsize * len(atoms), settings.memory)
    track_scores = will_track_scores(settings, data, len(data.rows), steps) if track_scores is None else track_scores
    storage = storage_for(settings, worth_keeping, track_scores)
    dictionaries = [make(max(1, memory // len(atoms)), storage) for make in atoms]
    for dictionary in dictionaries:
        limit_spare(dictionary, data.X)
    for dictionary in dictionaries if settings.verbose else []:
        say(getattr(dictionary, "plan", ""))
    limit = [n_atoms(most, reason="memory")] if basis is None else []
    task = None if settings.fit_task is None else PursuitTask(settings.fit_task, steps, snapshot)
    one_by_one = track_scores and (settings.weakness == 1 or settings.candidates is not None)
    earlier = settings.path if settings.journal is None else settings.journal.read_path(len(data.rows))
    ready = criterion(*dictionaries)
    if basis is not None and hasattr(ready, "reserve"):
        ready.reserve(basis)
    stop = first_of(*limit, *rules(ready))
    with one_blas_of(dictionaries, ready) if one_by_one else nullcontext():
        try:
            path = follow_criterion(ready, stop, settings, unit, earlier, task, track_scores)
        except OtherPath as error:
            file = None if settings.journal is None else settings.journal.name
            why = RESUMED if file is None else f"resume={file!r} is of another fit; delete it to fit anew"
            raise ValueError(f"{why}; its {error}") from None
    if task is not None:
        task.end()
    if path.reason == "interrupted" and not (path.steps or path.discarded):
        raise KeyboardInterrupt(path.sentence)
    if not getattr(ready, "indefinite", False):  # else who runs it says what that means
        single, size = ready.ends_early_in_float32 and host_dtype(data.X) == np.float32, len(ready.available)
        warn_if_short(path, wanted, name, size, "row" if size == len(data.rows) else "atom", single)
    return Pursued(path, ready, dictionaries)


def one_blas_of(dictionaries: list[Any], criterion: Any) -> AbstractContextManager:
    """Context for steps that each read, or compute, all of a matrix: BLAS has one thread where it would be in the way.

    Where a triangle of a matrix is read, by SciPy's BLAS, that keeps its threads. Tiles have threads of their own.
    Those of BLAS would disturb them: after a product they look for more work, for longer than a pass takes.
    """
    if all(worth_one_triangle(dictionary) for dictionary in dictionaries):
        return one_blas_thread(scipy_too=False)
    threaded = criterion.mostly_passes and any(getattr(one, "threaded", False) for one in dictionaries)
    return one_blas_thread() if threaded else nullcontext()


def follow_criterion(
    criterion: Any,
    stop: StopRule,
    settings: Settings,
    unit: float = 1.0,
    earlier: Path | None = None,
    task: PursuitTask | None = None,
    track_scores: bool = True,
) -> Path:
    """The loop itself, with its report. Use `run`, unless a criterion is to go on where another one ended.

    The steps of an `earlier` path are taken first, see `pursue`.
    """
    taken = [] if earlier is None else [*earlier.steps, *earlier.discarded]
    look = candidates_of(settings.candidates, settings.rng, lambda: len(taken), len(criterion.available))
    weakness = settings.weakness if settings.candidates is None else 1.0  # the best of a sample is taken
    report = progress(settings.verbose, unit, criterion) if settings.verbose else None

    def callback(path: Path) -> bool:
        taken.append(path.steps[-1])
        if settings.journal is not None:
            settings.journal.write_step(path, path.passes + criterion.passes)
        if report is not None:
            report(path)
        return task is not None and task.step(path, criterion)

    path = pursue(criterion, stop, look, callback, "auto", weakness, earlier, track_scores)
    if settings.verbose:
        say(f"stopped with {count(len(path), 'step')}: {path.sentence}")
    return path


def fits(method: Callable) -> Callable:
    """Decorator of `fit`: parameters are checked first, and an interrupt (Ctrl-C) is raised again last.

    Small fits have one thread, see `threads_for`.

    The loop ends at an interrupt with the steps finished so far. `fit` makes the model of those, so that a person at a
    prompt can use it, and then the interrupt goes on its way, so that no search takes the model for a finished one.
    """

    @fit_context(prefer_skip_nested_validation=True)
    @told
    @functools.wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = args[0] if args else kwargs.get("X")
        refuse_collections(self, "fit", X, *args, *kwargs.values())
        with threads_for(X):
            method(self, *args, **kwargs)
        if self.path_.reason == "interrupted":
            self._interrupt = KeyboardInterrupt(f"{self.path_.sentence}; what was finished by then is the model")
        return self

    return fit


def generator(random_state: Any) -> np.random.Generator:
    """NumPy generator from scikit-learn's `random_state`."""
    return np.random.default_rng(draw_seed(random_state))


def draw_seed(random_state: Any) -> int:
    """Seed from scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def candidates_of(candidates: Any, rng: np.random.Generator, steps: Callable[[], int], size: int) -> Candidates:
    """What each step looks at of `size` atoms, from `candidates`; `steps` says how many have been taken.

    The draws of a step depend on the state of `rng` here and on the number of steps before it, and on no other draw:
    so a path that goes on draws as one that was never interrupted.
    """
    if candidates is None:
        return everything
    sample, seed = sample_of(candidates), int(rng.integers(2**63))
    if sample is not None and sample >= size:
        return everything

    def draw(alive: np.ndarray) -> np.ndarray | None:
        own = np.random.default_rng([seed, steps()])
        return (growing_subset(own, first_step=steps()) if sample is None else random_subset(sample, own))(alive)

    return draw


def sample_of(candidates: Any) -> int | None:
    """How many atoms each step looks at; None where they become more with each step."""
    if candidates == "growing":
        return None
    if isinstance(candidates, bool) or (isinstance(candidates, tuple) and len(candidates) != 2):
        raise ValueError(
            f"candidates must be an int, a pair (epsilon, quantile), 'growing' or None, got {candidates!r}"
        )
    return sample_size(*candidates) if isinstance(candidates, tuple) else candidates


LARGE = 40  # a sample is large from one atom in so many on,
TWICE = 2  # if the path looks at so many columns for each one of the matrix
_TYPICAL = 200  # steps of a path whose number of atoms is not given


def will_track_scores(
    settings: Settings, data: TrainingData, size: int, steps: int | None, numbers: int | None = None
) -> bool:
    """Whether the scores of all `size` atoms may be kept: steps look at all, or at large samples if `memory` allows it.

    The samples of the path must together be twice as many columns as the matrix has: fewer take less time than that.
    `numbers` are kept for each step beside the matrix; as many as rows unless given. A ridge keeps one for each atom,
    too, where running scores are kept.
    """
    if settings.candidates is None:
        return True
    sample, steps = sample_of(settings.candidates), _TYPICAL if steps is None else steps
    if sample is None:
        sample = ceil(START + RATE * steps / 2)
    elif sample >= size:
        return True
    if LARGE * sample < size or sample * steps < TWICE * size or settings.memory == 0:
        return False
    if settings.memory is None:  # the dictionary knows how much is free
        return True
    beside = 8 * steps * (len(data.rows) if numbers is None else numbers)
    return len(data.rows) * size * host_dtype(data.X).itemsize + beside <= settings.memory


def storage_for(settings: Settings, worth_keeping: bool = True, track_scores: bool = False) -> str:
    """Whether the kernel matrix is kept: "auto" if it fits into `memory`, "tiles" never.

    A matrix of which only some columns are looked at is not kept, unless `memory` says how large it may be.
    `track_scores` is the answer of `will_track_scores`.
    """
    few = not (settings.candidates is None or track_scores) or not worth_keeping
    return "tiles" if settings.memory == 0 or (settings.memory is None and few) else "auto"


def say(sentence: str) -> None:
    """Print a line of the report."""
    if sentence:
        print(f"[kernelpursuit] {sentence}\n", end="", flush=True)  # in one piece: threads may print at the same time


def progress(verbose: int, unit: float, criterion: Any) -> Callable[[Path], None]:
    """Callback that prints a line at 1, 2, 5, 10, 20, 50, ... steps, or at each one with ``verbose > 1``."""

    def callback(path: Path) -> None:
        k = len(path)
        leading = k // 10 ** (len(str(k)) - 1)
        if verbose > 1 or (leading in (1, 2, 5) and k == leading * 10 ** (len(str(k)) - 1)):
            step, passes = path.steps[-1], f"{criterion.passes:.1f} passes"
            say(f"{count(k, 'step')}, {passes}, loss {step.loss * unit:.4g}, {step.seconds:.1f} s")

    return callback


def warn_if_short(
    path: Path, wanted: int | None, name: str, size: int, noun: str = "row", single: bool = False
) -> None:
    """ConvergenceWarning when a number of atoms was asked for that the data cannot give.

    There are `size` atoms to choose from, of which `noun` says what they are; `single`: they are float32.
    """
    if wanted is None or path.reason != "exhausted" or len(path) >= wanted:
        return
    digits = ", to the digits of float32 (X in float64 has more of them)" if single else ""
    why = (
        f", more than there is to choose from ({count(size, noun)}): all of it is taken. Ask for no more"
        if len(path.atoms) == size
        else f" but {path.sentence}: the other atoms lie in their span{digits}. Ask for fewer, or use a kernel that "
        "tells more points apart (a larger gamma, say)"
    )
    warn(f"{name}={wanted} was asked for{why}", ConvergenceWarning)
