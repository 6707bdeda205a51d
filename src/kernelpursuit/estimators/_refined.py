"""What the refined estimators share: which way to refine, the fitted model, prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._array import Array, to_host
from kernelpursuit._sklearn import ARRAY_API_SUPPORT, EstimatorSupport, Interval, StrOptions
from kernelpursuit._warning import warn
from kernelpursuit.estimators._descending import descend_from, start_of, values_of
from kernelpursuit.estimators._expansion import Expansion
from kernelpursuit.estimators._judging import STARTS, Judged, Trial, best_size, fold_numbers, sizes
from kernelpursuit.estimators._pipeline import draw_seed, say
from kernelpursuit.estimators._placement import check_new, follow, host_dtype, widest
from kernelpursuit.estimators._refining import Fit, Say, Setting, Task, choose, first, frame_of, refine, solve
from kernelpursuit.estimators._stages import Stages, stages_of
from kernelpursuit.estimators._tasks import lines_wanted
from kernelpursuit.kernels import make_kernel
from kernelpursuit.refinement.atoms import Atoms
from kernelpursuit.refinement.descent import Model, Rates, on_cuda

AFFORDABLE = 1e9  # multiplications n k² of one step of the evidence
BY_EVIDENCE = {
    "logistic": 1500,
    "softmax": 500,
}  # rows up to which classes are fitted by it; losses of their own pay above
LEAST_NOISE = {True: 1e-7, False: 1e-2}  # of numbers and of classes, the variance of either being near 1
LEAST_PENALTY, PENALTY, HIGH_PENALTY = 0.0005, 0.005, 0.2  # of the coefficients, by the number of rows
WARM_UP = 40  # steps of the evidence before a descent
FEW_ROWS = 30  # distinct rows; of fewer none are held out, and no atom moves
FOLDS = ((500, 5), (2000, 3))  # up to so many rows, so many folds; more rows: one part of them is held out once
HELD_OUT, SMALLER_PART, ENOUGH = 5, 10, 2500  # one part in so many; of a descent fewer, and no more than enough rows
MOST_TERMS = 300  # that "auto" goes to
ROWS_A_TERM = 4  # at least, for "auto"
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 6000, 60, 300
ON_CUDA = 4  # times as many, where a step costs so little
BATCHES = ((20_000, 256), (200_000, 1024), (np.inf, 4096))  # up to so many rows, so many at a time
GAIN = 0.02  # by which twice the terms must lower the loss, for "auto" on many rows
SHORT = 6  # part of the epochs that a number of terms is tried for


class Outcome(NamedTuple):
    """A fitted model in standardised inputs.

    Attributes
    ----------
    model : Model
        On the host.
    fit : Fit or None
        Where the evidence decided: what the uncertainty is made of.
    setting : Setting or None
        What moved and how far.
    held_out : tuple of arrays or None
        Rows held out, and their predictions.
    inflation : float
        Variance of the errors of rows held out, as a multiple of what the model says.
    interrupted : bool
    start : ndarray of shape (k, d)
        Centres that were chosen; None where they are those of the model.
    """

    model: Model
    fit: Fit | None
    setting: Setting | None
    held_out: tuple[np.ndarray, np.ndarray] | None
    inflation: float = 1.0
    interrupted: bool = False
    start: np.ndarray | None = None


class RefinedModel(EstimatorSupport, BaseEstimator):
    """Parameters, fit and prediction of the refined estimators."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "checkpoint": [str, PathLike, None],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = ARRAY_API_SUPPORT
        tags.input_tags.sparse = False
        return tags

    def _refine(
        self, X: Array, Y: np.ndarray, weights: np.ndarray | None, error: Any, strata: np.ndarray, loss: str
    ) -> Outcome:
        """Fit to targets of order 1, ±1 for classes; sets what does not depend on their units."""
        stages, seed = stages_of(self, draw_seed(self.random_state), X, Y, weights)
        rng = np.random.default_rng(seed)
        self._frame = frame_of(X, weights)
        rows, passes = self._frame(widest(X)), np.inf if self.epochs == "auto" else self.epochs
        task = Task(rows, Y, weights, error, LEAST_NOISE[loss == "squared"], loss != "squared", passes)
        if (given := getattr(self, "_given", None)) is not None:
            task = task._replace(given=self._frame.inside(*given))
        wanted = None if self.n_atoms == "auto" else int(self.n_atoms)
        if len(Y) <= BY_EVIDENCE.get(loss, np.inf) and is_affordable(len(Y), wanted):
            outcome = by_evidence(task, wanted, strata, rng, self._say, stages)
        else:
            outcome = by_descent(task, wanted, strata, loss, self.epochs, rng, self._say, stages)
        k = len(outcome.model.coef)
        if wanted is not None and k < wanted:
            warn(
                f"n_atoms={wanted} terms were asked for, but only {k} rows are independent: the model has {k} terms",
                ConvergenceWarning,
            )
        self._keep(X, outcome)
        return outcome

    def _keep(self, X: Array, outcome: Outcome) -> None:
        """Atoms in the units of X."""
        atoms, frame, dtype = outcome.model.atoms, self._frame, host_dtype(X)
        known = np.isfinite(frame.spread)
        spread = np.where(known, frame.spread, 1.0)
        centers = frame.outside(atoms.centers).astype(dtype)
        widths, weights = np.exp(atoms.log_widths), np.where(known, np.exp(atoms.log_weights) / spread, 0)
        kernel = make_kernel("rbf", X, gamma=1.0)
        self._expansion = Expansion(follow(centers, X), [kernel], widths=widths, input_weights=weights)
        self.centers_, self.widths_, self.input_weights_ = (
            self._expansion.centers,
            follow(widths, X),
            follow(weights, X),
        )
        started = atoms.centers if outcome.start is None else outcome.start
        self.start_centers_ = follow(frame.outside(started).astype(dtype), X)
        self.moved_ = "nothing" if outcome.setting is None else outcome.setting.moved
        self.n_iter_ = 0 if outcome.setting is None else outcome.setting.steps

    def _done(self, outcome: Outcome) -> Self:
        """The fitted estimator; an interrupt that came meanwhile is raised now that there is a model."""
        if outcome.interrupted:
            raise KeyboardInterrupt
        return self

    def _say(self, sentence: str) -> None:
        if lines_wanted(self):
            say(sentence)

    def _set_coefficients(self, X: Array, coef: np.ndarray, intercept: np.ndarray) -> None:
        self._expansion.coef = np.vstack([intercept, coef])
        self.dual_coef_ = follow(coef[:, 0] if self._one_target else coef, X)
        self.intercept_ = float(intercept[0]) if self._one_target else follow(intercept, X)

    def _check_new(self, X: Any, method: str) -> Array:
        return check_new(self, X, "precomputed", getattr(self, "centers_", None), method)

    def _values(self, X: Array) -> Array:
        """Values of the expansion, (n, q), with the dtype of X."""
        return self._expansion.predict(X)


def few_rows(task: Task) -> bool:
    """Whether there are too few distinct rows to hold any out."""
    if len(task.Y) > 50 * FEW_ROWS:
        return False
    return len(np.unique(np.column_stack([to_host(task.X), task.Y]), axis=0)) < FEW_ROWS


def is_affordable(n: int, terms: int | None) -> bool:
    """Whether the evidence of all rows can be followed."""
    k = min(n, MOST_TERMS if terms is None else terms)
    return n * k * k <= AFFORDABLE


def by_evidence(
    task: Task, wanted: int | None, strata: np.ndarray, rng: np.random.Generator, say: Say, stages: Stages
) -> Outcome:
    """Refine by the evidence of all rows, as far as rows held out in turn advise."""
    total = len(task.Y) if task.weights is None else float(np.sum(task.weights))
    most = min(len(task.Y), max(1, min(MOST_TERMS, int(total / ROWS_A_TERM))) if wanted is None else wanted)
    chosen = {start: choose(task, most, start, rng) for start in STARTS}
    settled = likeliest(task, chosen, [most] if wanted else list(sizes(most)))
    if few_rows(task):
        return outcome_of(settled, task, None)
    try:
        trial = Trial(task, foldings(strata, rng), most, rng, stages)
        judged = trial.of_terms(most, say) if wanted else best_size(trial, say)
    except KeyboardInterrupt:
        return outcome_of(settled, task, None)._replace(interrupted=True)
    setting = judged.setting
    atoms = first(chosen[setting.start], setting.terms)
    found = refine(atoms, task, setting, reporter(setting, say))
    outcome = outcome_of(solve(found, task), task, (trial.rows, judged))
    return outcome._replace(setting=setting, interrupted=found.interrupted, start=atoms.centers)


def likeliest(task: Task, chosen: dict[float, Atoms], terms: list[int]) -> Fit:
    """Of the atoms as they were chosen, the start and number of largest evidence."""
    fits = [solve(refine(first(atoms, k), task, Setting(k, 0)), task) for atoms in chosen.values() for k in terms]
    return min(fits, key=lambda fit: fit.evidence.value)


def outcome_of(fit: Fit, task: Task, said: tuple[np.ndarray, Judged] | None) -> Outcome:
    """Fitted atoms with what rows held out say of them."""
    model = Model(fit.coef, fit.intercept, fit.evidence.atoms)
    if said is None:
        return Outcome(model, fit, None, None)
    rows, judged = said
    weights = None if task.weights is None else task.weights[rows]
    error = np.average((task.Y[rows] - judged.values) ** 2, axis=0, weights=weights)
    inflation = float(np.mean(error)) / judged.variance
    return Outcome(model, fit, None, (rows, judged.values), inflation)


def foldings(strata: np.ndarray, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit to and rows held out: several folds of few rows, one part of many."""
    n = len(strata)
    folds = next((folds for limit, folds in FOLDS if n <= limit), 1)
    numbers = fold_numbers(strata, folds if folds > 1 else HELD_OUT, rng)
    return [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(folds)]


def reporter(setting: Setting, say: Say) -> Callable[[int, Any], None]:
    """Line for each tenth iteration of the last fit."""

    def report(step: int, evidence: Any) -> None:
        if step % 10 == 0 or step == setting.steps:
            say(f"step {step} of {setting.steps}: noise {evidence.noise:.4g}, minus log evidence {evidence.value:.6g}")

    return report


def by_descent(
    task: Task,
    wanted: int | None,
    strata: np.ndarray,
    loss: str,
    epochs: Any,
    rng: np.random.Generator,
    say: Say,
    stages: Stages,
) -> Outcome:
    """Refine by mini-batches; rows held out decide whether the refined model is kept."""
    n = len(task.Y)
    batch = min(next(size for limit, size in BATCHES if n <= limit), max(1, n // 10))
    if epochs == "auto":
        epochs = int(np.clip(STEPS * batch // n, FEWEST_EPOCHS, MOST_EPOCHS))
        epochs *= ON_CUDA if on_cuda(task.X) else 1
    numbers = fold_numbers(strata, max(SMALLER_PART, n // ENOUGH), rng)
    held = np.flatnonzero(numbers == 0)
    parts = [task.subset(J) for J in (np.flatnonzero(numbers != 0), held)]
    codes = [part._replace(Y=(part.Y + 1) / 2) if loss == "softmax" else part for part in parts]

    def run(terms: int, length: int) -> Any:
        """The better of two descents: from the chosen atoms; and, held back more, from where the evidence takes them.

        The second is kept unless the first is lower by more than a little: few rows held out cannot tell them apart.
        """
        options: dict[str, Any] = {"epochs": length, "batch": batch, "rates": Rates(), "rng": rng, "say": say}
        options["stages"] = stages
        found: list[Any] = []
        try:
            penalties = (penalty_for(n, terms * (task.X.shape[1] + 2)), HIGH_PENALTY)
            for start, penalty in zip(starts_of(parts[0], terms, loss, rng, say), penalties, strict=False):
                found.append(descend_from(start, codes[0], codes[1], loss, penalty=penalty / n, **options))
                if found[-1].interrupted:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            if not found:  # nothing but a choice has been made
                raise
            return min(found, key=lambda one: one.loss)._replace(interrupted=True)
        return found[0] if found[0].loss < (1 - GAIN) * found[-1].loss else found[-1]

    tried = None
    if wanted is None:
        wanted, tried = most_useful(n, lambda k: run(k, max(1, epochs // SHORT)), say)
    found = tried if tried is not None and tried.interrupted else run(min(wanted, len(parts[0].Y)), epochs)
    terms = len(found.model.coef)
    setting = Setting(terms, 0, False, *(("all", epochs) if found.refined else ("nothing", 0)))
    held_out = (held, values_of(found.model, parts[1].X))
    inflation = float(np.mean((parts[1].Y - held_out[1]) ** 2))  # the noise itself, as there is no other estimate
    return Outcome(found.model, None, setting, held_out, inflation, found.interrupted, found.start)


def penalty_for(rows: int, parameters: int) -> float:
    """The more parameters a row has, the more they are held back; where they have many rows, hardly."""
    return float(np.clip(PENALTY * (parameters / rows) ** 2, LEAST_PENALTY, HIGH_PENALTY))


def starts_of(task: Task, terms: int, loss: str, rng: np.random.Generator, say: Say) -> Iterator[Model]:
    """Where to descend from: the chosen atoms, and, while that is cheap, those that the evidence of ±1 moved."""
    chosen = start_of(task, terms, rng, say)
    # A regression on ±1 comes to f = 2p - 1, of which twice is the log odds, near 0.
    slope = 1.0 if loss == "squared" else 2.0
    yield chosen._replace(coef=slope * chosen.coef, intercept=slope * chosen.intercept)
    if is_affordable(len(task.Y), terms):
        moved = refine(choose(task, terms, 1.0, rng), task, Setting(terms, 1.0, False, "all", WARM_UP))
        if moved.interrupted:
            raise KeyboardInterrupt
        fit = solve(moved, task)
        yield Model(slope * fit.coef, slope * fit.intercept, moved.atoms)


def most_useful(n: int, run: Callable[[int], Any], say: Say) -> tuple[int, Any]:
    """Number of terms of which twice as many lower the loss of rows held out by little, and its short descent."""
    terms, found = 50, run(50)
    while 2 * terms <= min(n // ROWS_A_TERM, 4 * MOST_TERMS) and not found.interrupted:
        more = run(2 * terms)
        say(f"{terms} terms: loss of rows held out {found.loss:.4g}; {2 * terms}: {more.loss:.4g}")
        if more.interrupted:
            return terms, found._replace(interrupted=True)
        if more.loss > (1 - GAIN) * found.loss:
            break
        terms, found = 2 * terms, more
    return terms, found
