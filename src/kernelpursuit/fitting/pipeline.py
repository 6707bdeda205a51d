"""The way of every fit to its path: settings, atoms within a memory limit, the loop with its report; `fits`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kernelpursuit._sklearn import fit_context
from kernelpursuit.atoms import Dictionary
from kernelpursuit.atoms.dense import worth_one_triangle
from kernelpursuit.atoms.threads import one_blas_thread
from kernelpursuit.fitting.callbacks import FitTask, PursuitTask, Snapshot, verbosity, with_callbacks
from kernelpursuit.fitting.journal import Journal, journal_of
from kernelpursuit.fitting.memory import limit_spare, plan_memory
from kernelpursuit.fitting.rows import refuse_collections
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.pursuit.candidates import Candidates, everything, growing_subset, random_subset, sample_size
from kernelpursuit.pursuit.loop import OtherPath, Path, StopRule, count, pursue
from kernelpursuit.pursuit.stopping import first_of, n_atoms

RESUMED = (
    "resume=True goes on with the fit before, so X, y, sample_weight and all parameters but those that end a path "
    "(n_atoms, stop) must be the same; resume=False fits anew"
)
# A matrix of 1,000 (2,000) rows times a vector: 0.2 (1.5) ms on one thread, 48 ms on both of a busy two-core machine.
ONE_THREAD_ROWS = 2000
MakeDictionary = Callable[[int, str], Dictionary]  # from bytes and the way of storage


@dataclass(frozen=True)
class Settings:
    """Parameters of an estimator that every pursuit needs, whatever its atoms and its criterion.

    Attributes
    ----------
    rng : numpy.random.Generator
        Made from `random_state`.
    journal : Journal or None
        The file that ``resume`` names: steps are read from it and appended to it.
    path : Path or None
        The path of the previous fit, where ``resume=True`` asks to continue it.
    fit_task : FitTask or None
        The fit as reported to callbacks, where the estimator has any.
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
        """Settings from the parameters of an estimator.

        For an estimator with the parameter ``resume``, `data` are the rows and `path` is the path of its last fit.
        """
        given = {field.name: getattr(estimator, field.name) for field in fields(cls) if hasattr(estimator, field.name)}
        given |= {"verbose": verbosity(estimator), "fit_task": getattr(estimator, "_fit_task", None)}
        seed = draw_seed(estimator.random_state)
        journal = None if data is None else journal_of(estimator, data, seed)
        if journal is not None:
            return cls(rng=np.random.default_rng(journal.seed), journal=journal, **given)
        resumed = data is not None and estimator.resume
        return cls(rng=np.random.default_rng(seed), path=path if resumed else None, **given)


@dataclass(frozen=True)
class Pursuit:
    """One pursuit of a fit: atoms for which memory was planned, and the loop over them with its report.

    Attributes
    ----------
    settings : Settings
    data : TrainingData
    dictionaries : list of Dictionary
    limit : int or None
        Most atoms that the estimator takes.
    room : int or None
        Most atoms that memory allows, where there is no other limit.
    """

    settings: Settings
    data: TrainingData
    dictionaries: list[Any]
    limit: int | None
    room: int | None

    @classmethod
    def plan(
        cls,
        atoms: Sequence[MakeDictionary],
        settings: Settings,
        data: TrainingData,
        limit: int | None,
        *,
        bytes_per_atom: int | None = None,
        reads_matrix: bool = True,
    ) -> Pursuit:
        """Plan the memory and make the dictionaries.

        Parameters
        ----------
        atoms : sequence of callables
            ``make(memory, storage)`` gives a dictionary; there are two for two views.
        settings : Settings
        data : TrainingData
        limit : int or None
            Most atoms to take; None for as many as memory allows.
        bytes_per_atom : int, optional
            What a criterion keeps of each atom taken: by default a direction over the rows in float64, one for each
            view.
        reads_matrix : bool
            Whether the criterion reads the whole kernel matrix, so that it pays to keep it.
        """
        n = len(data.rows)
        kept = 8 * n * len(atoms) if bytes_per_atom is None else bytes_per_atom
        memory, room = plan_memory(data, limit, kept, settings.memory)
        storage = storage_for(settings, reads_matrix, n)
        dictionaries: list[Any] = [make(max(1, memory // len(atoms)), storage) for make in atoms]
        for dictionary in dictionaries:
            limit_spare(dictionary, data.X)
        for dictionary in dictionaries if settings.verbose else []:
            say(getattr(dictionary, "plan", ""))
        return cls(settings, data, dictionaries, limit, room)

    def run(
        self,
        criterion: Any,
        rules: Sequence[StopRule],
        *,
        steps: int | None = None,
        unit: float = 1.0,
        snapshot: Snapshot | None = None,
    ) -> Path:
        """Take atoms until a rule ends it. An interrupt ends the path too; one before the first step is raised at once.

        Parameters
        ----------
        criterion : Criterion
            On `dictionaries`.
        rules : sequence of callables
        steps : int, optional
            Most steps that there will be, for callbacks; None where it is not known.
        unit : float
            Unit of the losses in what is printed.
        snapshot : callable, optional
            ``snapshot(path, criterion)``: attributes of the model after the steps so far, for callbacks that want it.
        """
        settings, journal, n = self.settings, self.settings.journal, len(self.data.rows)
        if self.room is not None:
            rules = [n_atoms(self.room, reason="memory"), *rules]
        if self.limit is not None and hasattr(criterion, "reserve"):
            criterion.reserve(min(self.limit, n))
        earlier = settings.path if journal is None else journal.read_path(n)
        task = None if settings.fit_task is None else PursuitTask(settings.fit_task, steps, snapshot)
        all_atoms = looks_at_all(settings.candidates, len(criterion.available))
        one_by_one = all_atoms and (settings.weakness == 1 or settings.candidates is not None)
        with one_blas_of(self.dictionaries, criterion) if one_by_one else nullcontext():
            try:
                path = follow_criterion(criterion, first_of(*rules), settings, unit, earlier, task)
            except OtherPath as error:
                why = (
                    RESUMED if journal is None else f"resume={journal.name!r} is of another fit; delete it to fit anew"
                )
                raise ValueError(f"{why}; its {error}") from None
        if task is not None:
            task.end()
        if path.reason == "interrupted" and not (path.steps or path.discarded):
            raise KeyboardInterrupt(path.sentence)
        return path


def one_blas_of(dictionaries: list[Any], criterion: Any) -> AbstractContextManager:
    """Context for steps that each read or compute a whole matrix: BLAS has one thread where more would interfere.

    Products with one triangle of a matrix go through SciPy's BLAS, which keeps its threads. Tiles have threads of their
    own. Threads of BLAS would slow them down: after a product they spin, for longer than a pass takes.
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
) -> Path:
    """The loop with its report. Use `Pursuit.run`, except to continue a path with another criterion.

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

    path = pursue(criterion, stop, look, callback, "auto", weakness, earlier)
    if settings.verbose:
        say(f"stopped with {count(len(path), 'step')}: {path.sentence}")
    return path


def fits(method: Callable) -> Callable:
    """Decorator of `fit`: checks the parameters, and passes an interrupt (Ctrl-C) on when the model is set.

    An interrupt ends the loop with the steps taken so far. `fit` makes a model of them, so that a person at a prompt
    can use it. Then `restore_on_error` of interrupts.py raises the interrupt, so that no search takes the model for a
    finished one. Small fits have one thread, see `threads_for`.
    """

    @fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    @functools.wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = args[0] if args else kwargs.get("X")
        refuse_collections(self, "fit", X, *args, *kwargs.values())
        with threads_for(X):
            method(self, *args, **kwargs)
        if self.path_.reason == "interrupted":
            self._interrupt = KeyboardInterrupt(f"{self.path_.sentence}; the model has the steps taken until then")
        return self

    return fit


def threads_for(X: Any) -> AbstractContextManager:
    """Context in which BLAS has one thread if X has few rows, where threads would only wait for each other."""
    here = type(X).__module__.split(".")[0] in ("numpy", "scipy", "pandas", "polars", "builtins")
    shape = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    if not here or not shape or not 0 < shape[0] <= ONE_THREAD_ROWS:
        return nullcontext()
    return one_blas_thread.for_small_fit()


def generator(random_state: Any) -> np.random.Generator:
    """NumPy generator from scikit-learn's `random_state`."""
    return np.random.default_rng(draw_seed(random_state))


def draw_seed(random_state: Any) -> int:
    """Seed from scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def candidates_of(candidates: Any, rng: np.random.Generator, steps: Callable[[], int], size: int) -> Candidates:
    """The rule by which a step draws its candidates among `size` atoms; `steps()` is the number of steps taken.

    The draws of a step depend on the state of `rng` now and on the number of steps before it alone, so a resumed path
    draws what an uninterrupted one draws.
    """
    if looks_at_all(candidates, size):
        return everything
    sample, seed = sample_of(candidates), int(rng.integers(2**63))

    def draw(alive: np.ndarray) -> np.ndarray | None:
        own = np.random.default_rng([seed, steps()])
        return (growing_subset(own, first_step=steps()) if sample is None else random_subset(sample, own))(alive)

    return draw


def sample_of(candidates: Any) -> int | None:
    """Size of the sample of each step; None where it grows."""
    if candidates == "growing":
        return None
    if isinstance(candidates, bool) or (isinstance(candidates, tuple) and len(candidates) != 2):
        raise ValueError(
            f"candidates must be an int, a pair (epsilon, quantile), 'growing' or None, got {candidates!r}"
        )
    return sample_size(*candidates) if isinstance(candidates, tuple) else candidates


def looks_at_all(candidates: Any, size: int) -> bool:
    """Whether each step looks at all of `size` atoms."""
    sample = size if candidates is None else sample_of(candidates)
    return sample is not None and sample >= size


def storage_for(settings: Settings, reads_matrix: bool, size: int) -> str:
    """Whether the kernel matrix of `size` atoms is kept: "auto" if it fits into `memory`, "tiles" never.

    A matrix of which a pursuit reads few columns is kept only where the user gave a `memory` for it.
    """
    few = not (reads_matrix and looks_at_all(settings.candidates, size))
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
