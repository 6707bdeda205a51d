"""What the refined estimators share: which way to refine, the fitted model, prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._sklearn import ARRAY_API_SUPPORT, EstimatorSupport, Interval, Options, StrOptions
from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, gather, in_double, to_host
from kernelpursuit.fitting.callbacks import verbosity
from kernelpursuit.fitting.duplicates import warn_of_duplicates
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.fitting.journal import journal_of
from kernelpursuit.fitting.pipeline import draw_seed, say
from kernelpursuit.fitting.placement import check_new, to_namespace_of, widest
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.kernels.kernels import make_kernel
from kernelpursuit.pursuit.loop import count
from kernelpursuit.pursuit.row_weights import as_counts
from kernelpursuit.refined.by_descent import by_descent
from kernelpursuit.refined.descent import Model
from kernelpursuit.refined.evidence import Evidence, settle
from kernelpursuit.refined.judging import (
    FEWEST,
    UNMOVED,
    Judged,
    Trial,
    best_size,
    fold_numbers,
    sizes,
)
from kernelpursuit.refined.moving_atoms import Atoms
from kernelpursuit.refined.refining import (
    MOST_TERMS,
    ROWS_A_TERM,
    Fit,
    Frame,
    Outcome,
    Say,
    Start,
    Task,
    first,
    frame_of,
    highest,
    is_affordable,
    placed,
    raise_bound,
    rise_of_all,
    solve,
)
from kernelpursuit.refined.stages import Stages

BY_EVIDENCE = {
    "log_loss": 1500,
    "softmax": 500,
}  # rows up to which classes are fitted by it; losses of their own pay above
LEAST_NOISE = {True: 1e-7, False: 1e-2}  # of numbers and of classes, the variance of either being near 1
FEWEST_ROWS_TO_MOVE = 30  # distinct rows; of fewer none are held out, and no atom moves
FOLDS = ((500, 5), (2000, 3))  # up to so many rows, so many folds; more rows: one part of them is held out once
HELD_OUT = 5  # one part in so many
AGAIN = 3  # steps on all rows after which the best fold's atoms go on by the bound
POLISHED = 20  # most steps of the evidence on all rows, after those on a fold
NO_MORE = (
    "more of them, beside a constant, cannot be told apart by the rows that are not held out. Ask for fewer, or give "
    "more rows"
)


class RefinedModel(EstimatorSupport, BaseEstimator):
    """Parameters, fit and prediction of the refined estimators."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "resume": [Options(bool, {False}), str, PathLike],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = ARRAY_API_SUPPORT
        tags.input_tags.sparse = False
        return tags

    def _refine(self, data: TrainingData, Y: Array, error: Any, loss: str) -> Outcome:
        """Fit to targets `Y` of order 1, ±1 for classes; sets what does not depend on their units.

        Weights that sum to less than the number of rows are taken in proportion.
        """
        warn_of_duplicates(None if data.source.remote else data.X, Y, data.total)
        X, weights = data.X, None if data.weights is None else as_counts(in_double(data.weights), Y.shape[0])
        seed = draw_seed(self.random_state)
        journal = journal_of(self, data._replace(y=Y, weights=weights), seed)
        stages = Stages(journal, getattr(self, "_fit_task", None))
        rng = np.random.default_rng(seed if journal is None else journal.seed)
        self._frame = frame_of(X, weights)
        passes = np.inf if self.epochs == "auto" else self.epochs
        task = Task(X, Y, weights, error, LEAST_NOISE[loss == "squared_error"], loss != "squared_error", passes)
        if (given := getattr(self, "_given", None)) is not None:
            task = task._replace(given=self._frame.inside(*given))
        wanted = None if self.n_atoms == "auto" else int(self.n_atoms)
        refinement = data.source.refinement(refined)
        outcome = refinement(task, wanted, loss, self.epochs, self._frame, rng, self._say, stages)
        k = len(outcome.model.coef)
        if wanted is not None and k < wanted:
            why = f"the model has {count(k, 'term')}: {NO_MORE}" if k else "none would help: it is a constant"
            warn(f"n_atoms={wanted} terms were asked for, but {why}", ConvergenceWarning)
        self._keep(data.source.sample(X), outcome)
        return outcome._replace(interrupted=outcome.interrupted and not stages.stopped)

    def _keep(self, X: Array, outcome: Outcome) -> None:
        """Atoms in the units of X, in double precision: far from 0 single precision has no numbers where they moved."""
        atoms, frame = outcome.model.atoms, self._frame
        known = np.isfinite(frame.spread)
        spread = np.where(known, frame.spread, 1.0)
        centers = frame.outside(atoms.centers)
        widths, weights = np.exp(atoms.log_widths), np.where(known, np.exp(atoms.log_weights) / spread, 0)
        kernel = make_kernel("rbf", X, gamma=1.0)
        self._expansion = Expansion(to_namespace_of(centers, X), [kernel], widths=widths, input_weights=weights)
        self.centers_, self.widths_, self.input_weights_ = (
            self._expansion.centers,
            to_namespace_of(widths, X),
            to_namespace_of(weights, X),
        )
        started = atoms.centers if outcome.start is None else outcome.start
        self.start_centers_ = to_namespace_of(frame.outside(started), X)
        self.moved_ = "nothing" if outcome.setting is None else outcome.setting.moved
        self.n_iter_ = 0 if outcome.setting is None else outcome.setting.steps

    def _done(self, outcome: Outcome) -> Self:
        """The fitted estimator; an interrupt that came meanwhile is raised when all is done."""
        if outcome.interrupted:
            self._interrupt = KeyboardInterrupt()
        return self

    def _say(self, sentence: str) -> None:
        if verbosity(self):
            say(sentence)

    def _set_coefficients(self, X: Array, coef: np.ndarray, intercept: np.ndarray) -> None:
        self._expansion.coef = np.vstack([intercept, coef])
        self.dual_coef_ = to_namespace_of(coef[:, 0] if self._one_target else coef, X)
        self.intercept_ = float(intercept[0]) if self._one_target else to_namespace_of(intercept, X)

    def _check_new(self, X: Any, method: str) -> Array:
        return check_new(self, X, "precomputed", getattr(self, "centers_", None), method)

    def _values(self, X: Array) -> Array:
        """Values of the expansion, (n, q), with the dtype of X."""
        return self._expansion.predict(X)


def refined(
    task: Task,
    wanted: int | None,
    loss: str,
    epochs: Any,
    frame: Frame,
    rng: np.random.Generator,
    say: Say,
    stages: Stages,
) -> Outcome:
    """Refine on rows in the units of `frame`; inputs that vary alone have weights to be found."""
    task = task._replace(X=frame(widest(task.X)))
    n, d, spread, strata = len(task.Y), task.X.shape[1], frame.spread, strata_of(task)
    J = np.flatnonzero(np.isfinite(spread))
    if 0 < len(J) < d:
        task, spread = of_inputs(task, J), spread[J]
    if n <= BY_EVIDENCE.get(loss, np.inf) and is_affordable(n, wanted):
        outcome = by_evidence(task, wanted, strata, rng, say, stages)
    else:
        outcome = by_descent(task, wanted, strata, loss, epochs, spread, rng, say, stages)
    return of_all_inputs(outcome, J, d) if 0 < len(J) < d else outcome


def strata_of(task: Task) -> np.ndarray:
    """The class of each row, of which held-out rows have their shares; 0 for all rows with numbers as targets."""
    if not task.classes:
        return np.zeros(len(task.Y), dtype=np.intp)
    return (task.Y[:, 0] > 0).astype(np.intp) if task.Y.shape[1] == 1 else np.argmax(task.Y, axis=1)


def of_inputs(task: Task, J: np.ndarray) -> Task:
    """Task with the inputs `J` alone."""
    given = task.given
    if given is not None:
        given = Atoms(given.centers[:, J], given.log_widths, given.log_weights[J])
    return task._replace(X=gather(task.X, J, axis=1), given=given)


def of_all_inputs(outcome: Outcome, J: np.ndarray, d: int) -> Outcome:
    """Outcome of a fit to the inputs `J`, in which the others of `d` inputs are 0."""

    def widened(values: np.ndarray) -> np.ndarray:
        out = np.zeros((*values.shape[:-1], d))
        out[..., J] = values
        return out

    def wide(atoms: Atoms) -> Atoms:
        return Atoms(widened(atoms.centers), atoms.log_widths, widened(atoms.log_weights))

    model, fit, start = outcome.model, outcome.fit, outcome.start
    if fit is not None:
        fit = fit._replace(evidence=fit.evidence._replace(atoms=wide(fit.evidence.atoms)))
    start = None if start is None else widened(start)
    return outcome._replace(model=model._replace(atoms=wide(model.atoms)), fit=fit, start=start)


def few_rows(task: Task) -> bool:
    """Whether there are too few distinct rows to hold any out."""
    if len(task.Y) > 50 * FEWEST_ROWS_TO_MOVE:
        return False
    return len(np.unique(np.column_stack([to_host(task.X), task.Y]), axis=0)) < FEWEST_ROWS_TO_MOVE


def by_evidence(
    task: Task, wanted: int | None, strata: np.ndarray, rng: np.random.Generator, say: Say, stages: Stages
) -> Outcome:
    """Refine by the evidence of all rows, as far as rows held out in turn advise."""
    total = len(task.Y) if task.weights is None else float(np.sum(task.weights))
    most = min(len(task.Y), max(1, min(MOST_TERMS, int(total / ROWS_A_TERM))) if wanted is None else wanted)
    if few_rows(task):
        return settled(task, UNMOVED, [most] if wanted else list(sizes(most)), rng)
    unmoved = settled(task, UNMOVED[1:2], [most if wanted else min(most, FEWEST)], rng)  # what an interrupt leaves
    try:
        trial = Trial(task, foldings(strata, rng), most, rng, stages)
        judged = trial.of_terms(most, say) if wanted else best_size(trial, say)
        with stages.with_callbacks("all rows"):
            found, start = refined_on_all(task, judged, trial, rng, say)
    except KeyboardInterrupt:
        return unmoved._replace(interrupted=True)
    outcome = outcome_of(solve(found, task), task, (trial.rows, judged))
    return outcome._replace(setting=judged.setting, interrupted=found.interrupted, start=start)


def refined_on_all(
    task: Task, judged: Judged, trial: Trial, rng: np.random.Generator, say: Say
) -> tuple[Evidence, np.ndarray]:
    """All rows refined as was judged best, and the centres that this started from.

    The atoms that a fold came to go on: those that explain all rows best.
    """
    setting = judged.setting
    if setting.moved == "nothing":
        atoms = first(placed(task, trial.chosen(setting.terms, setting.start), setting.start, rng), setting.terms)
        return settle(atoms, task.rows()), atoms.centers
    if setting.moved == "centers":
        found, fold = raise_bound(judged.places, task, setting.likeness, AGAIN)
    else:
        rises = [rise_of_all(place, task.rows(), task.classes) for place in judged.places]
        found, fold = highest(rises, 1, min(POLISHED, setting.steps), reporter(min(POLISHED, setting.steps), say))
    return found, trial.start(fold, setting)


def settled(task: Task, starts: Sequence[Start], terms: list[int], rng: np.random.Generator) -> Outcome:
    """Atoms as they were chosen: of some starts and numbers the likeliest."""
    chosen = [placed(task, terms[-1], start, rng) for start in starts]
    fits = [solve(settle(first(atoms, k), task.rows()), task) for atoms in chosen for k in terms]
    return outcome_of(min(fits, key=lambda fit: fit.evidence.value), task, None)


def outcome_of(fit: Fit, task: Task, said: tuple[np.ndarray, Judged] | None) -> Outcome:
    """Fitted atoms with what rows held out say of them.

    Their errors raise the variance that the model predicts. They lower it no further than to themselves: where there is
    next to no noise, the atoms of a fold may expect far larger errors than those of all rows do.
    """
    model = Model(fit.coef, fit.intercept, fit.evidence.atoms)
    if said is None:
        return Outcome(model, fit, None, None)
    rows, judged = said
    weights = None if task.weights is None else task.weights[rows]
    error = np.average((task.Y[rows] - judged.values) ** 2, axis=0, weights=weights)
    own = float(np.average(fit.variance(task.X), weights=task.weights))
    inflation = np.maximum(error / judged.variance, np.minimum(1.0, error / own))
    return Outcome(model, fit, None, (rows, judged.values), inflation)


def foldings(strata: np.ndarray, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit to and rows held out: several folds of few rows, one part of many."""
    n = len(strata)
    folds = next((folds for limit, folds in FOLDS if n <= limit), 1)
    numbers = fold_numbers(strata, folds if folds > 1 else HELD_OUT, rng)
    return [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(folds)]


def reporter(steps: int, say: Say) -> Callable[[int, Any], None]:
    """Line for each tenth iteration of the last fit."""

    def report(step: int, evidence: Any) -> None:
        if step % 10 == 0 or step == steps:
            say(f"step {step} of {steps}: noise {evidence.noise:.4g}, minus log evidence {evidence.value:.6g}")

    return report
