"""One fit of kernel matching pursuit, for values, classes and groups: its ridge, its number of steps, its model."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from kernelpursuit.arrays import to_host
from kernelpursuit.criteria.gradient import Gradient
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.fitting.atom_family import AtomFamily, atoms_of
from kernelpursuit.fitting.curvature import Curvature, curvature_of_constant, mean_curvature
from kernelpursuit.fitting.duplicates import FOR_A_CHOICE, FOR_A_PROMISE, warn_of_duplicates
from kernelpursuit.fitting.model import Fitted, attributes_of
from kernelpursuit.fitting.orthogonal import (
    OrthogonalFit,
    chooses_ridge,
    effective_sample_size,
    has_evidence_ridge,
    with_evidence_ridge,
)
from kernelpursuit.fitting.pipeline import Settings, looks_at_all, run
from kernelpursuit.fitting.placement import as_like
from kernelpursuit.fitting.probabilities import calibrated_left_out, calibrated_seen
from kernelpursuit.fitting.ranked_groups import certified_order
from kernelpursuit.fitting.rules import (
    EXPLAINED,
    IsError,
    Rules,
    certified,
    class_rule,
    most_steps,
    no_rules,
    path_rule,
    say_chosen,
    validation_rule,
    vc_bound_rule,
    warn_if_astray,
    warn_if_constant,
    warn_if_cut,
)
from kernelpursuit.fitting.splits import hold_out_groups, hold_out_rows
from kernelpursuit.fitting.training import TrainingData, check_centers, fewer_centers, refuse_weights
from kernelpursuit.fitting.units import Units, least_loss
from kernelpursuit.losses import Loss
from kernelpursuit.parameters import (
    basic,
    bound,
    certificate,
    gcv,
    is_basic,
    leave_one_group_out,
    leave_one_out,
    record_of,
    tolerance,
    validation,
)
from kernelpursuit.pursuit.loop import Path, StopRule
from kernelpursuit.pursuit.stopping import loss_below

Split = Callable[[TrainingData, float, np.random.Generator], tuple[np.ndarray, np.ndarray]]
LEAST_MEAN = 0.01  # of the mean of the targets: a fit of a mean by the squared loss may be negative
LEFT_OUT = (gcv, leave_one_out, leave_one_group_out)  # rules by rows left out in closed form
HELD_OUT = (leave_one_group_out, validation, certificate)  # rules that leave weights aside, and groups whole


@dataclass(frozen=True)
class LearningTask:
    """What a fit must know of its targets: values, classes, several labels a row, or numbers to rank groups by.

    Attributes
    ----------
    kind : {"values", "classes", "labels", "groups"}
    loss : callable
        ``loss(data)``: the loss on some of the rows. None is the squared loss, which has a criterion of its own.
    split : callable
        ``split(data, share, rng)``: rows to train on and rows to hold out, for the validation rule.
    is_error : callable, optional
        ``is_error(targets, residuals, seen)``: which rows count as errors; `seen` are training targets. None for
        groups, where a share of the pairs of each is wrong.
    n_comparisons : int
        How many linear conditions on the weights decide whether a row is an error, see `vc_bound`.
    units : Units
        Those of the targets.
    curvature : callable
        ``curvature(loss, targets, values, data)``: the second derivative of a loss along fitted values.
    clip_outliers : callable, optional
        ``clip_outliers(targets)`` without their outliers, for a look at them with the squared loss.
    loss_of_rows : callable, optional
        `loss` with its scale chosen by these rows alone, where `loss` has chosen it by all.
    """

    kind: Literal["values", "classes", "labels", "groups"]
    loss: Callable[[TrainingData], Loss | None]
    split: Split
    is_error: IsError | None = None
    n_comparisons: int = 1
    units: Units = Units()  # noqa: RUF009
    curvature: Curvature = mean_curvature
    clip_outliers: Callable[[np.ndarray], np.ndarray] | None = None
    loss_of_rows: Callable[[TrainingData], Loss | None] | None = None


class Penalty(NamedTuple):
    """A ridge for targets as they are fitted, and the second derivative of the loss, about; or those of each target.

    "auto" chooses atoms without a ridge, and then the ridge by their evidence; for the squared loss.
    """

    alpha: float | np.ndarray | str
    curvature: float | np.ndarray = 2.0
    ended: Path | None = None  # the path of the squared loss by which the ridge was found, if a callback ended it


def fit_pursuit(estimator: Any, data: TrainingData, targets: np.ndarray, task: LearningTask) -> Fitted:
    """Fit with the ridge and the stop rule that the parameters of an estimator ask for.

    Parameters
    ----------
    estimator : estimator
        Its parameters are read, and nothing is written to it.
    data : TrainingData
    targets : ndarray of shape (n_samples, n_targets)
        In the units of `task`; the model is in those that they had before.
    task : LearningTask
    """
    loss = task.loss(data)
    settings = Settings.of(estimator, data, path_before(estimator, loss))
    stop = stop_rule(estimator, loss)
    if settings.path is not None and isinstance(stop, validation | certificate):
        raise ValueError(f"resume=True cannot go on with stop={estimator.stop!r}: its model comes from other rows")
    fit = PursuitFit(estimator, task, settings, check_centers(estimator.centers, data.X))
    warn_if_duplicates_mislead(stop, estimator, data, targets)
    if isinstance(stop, certificate):
        fitted = fit.certified(data, targets, stop)
    else:
        penalty = fit.penalty(data, targets, with_callbacks=isinstance(stop, validation))
        if isinstance(penalty, Fitted):  # of the squared loss
            return task.units._replace(linear=False).restored(penalty)
        if isinstance(stop, validation):
            fitted = fit.validated(data, targets, penalty, stop)
        else:
            fitted = fit.once(data, targets, penalty, fit.limit, fit.rules(stop, data, targets), wanted=fit.limit)
    if fit.limit is None or fitted.path.reason != "exhausted":  # else a warning has said it
        warn_if_constant(fitted.path)
    warn_if_cut(fitted.path)
    return task.units.restored(fitted)


def path_before(estimator: Any, loss: Loss | None) -> Path | None:
    """The path of the model that an estimator is already, with losses as they were before a ridge was chosen."""
    if not hasattr(estimator, "path_"):
        return None
    path, losses = estimator.path_, estimator._taken.losses_before_ridge
    if losses is None:
        return path
    if loss is not None:  # it was interrupted while the squared loss chose its ridge, and has atoms of that loss
        return None
    steps = [step._replace(loss=loss) for step, loss in zip(path.steps + path.discarded, losses, strict=True)]
    return replace(path, steps=steps, discarded=[])


def stop_rule(estimator: Any, loss: Loss | None) -> Any:
    """The parameter `stop` as a record or a function, or the rule that stands for ``n_atoms="auto"``."""
    stop = record_of(estimator.stop, bound, certificate, *LEFT_OUT, validation)
    if stop is None and estimator.n_atoms == "auto":
        return gcv() if knows_left_out(estimator, loss) else validation()
    if isinstance(stop, LEFT_OUT) and not knows_left_out(estimator, loss):
        raise ValueError(
            f"stop={estimator.stop!r} needs loss='squared_error' and variant 'prefit' or 'backfit'; 'validation' does "
            "not"
        )
    return stop


def knows_left_out(estimator: Any, loss: Loss | None) -> bool:
    """Whether the path knows its leave-one-out error."""
    return loss is None and not is_basic(estimator.variant)


def warn_if_duplicates_mislead(stop: Any, estimator: Any, data: TrainingData, targets: np.ndarray) -> None:
    """Warn of duplicate rows where a rule chooses the number of steps, or the evidence a ridge, by errors of rows."""
    counts_weights = isinstance(stop, gcv | leave_one_out) or has_evidence_ridge(estimator)
    holds_out = isinstance(stop, HELD_OUT)
    if counts_weights or holds_out:
        total = data.total if counts_weights else 0.0
        share = FOR_A_PROMISE if isinstance(stop, certificate) else FOR_A_CHOICE
        rows = None if data.source.remote else data.X
        warn_of_duplicates(rows, targets, total, share=share, groups=data.groups if holds_out else None)


def values_for_loss(squares: Fitted, loss: Loss, data: TrainingData, targets: np.ndarray) -> np.ndarray:
    """Values at the training rows of a fit with the squared loss, as the expansion for another loss has them."""
    path = squares.path
    if data.groups is not None and not path.steps:  # without atoms no pair is apart, and no loss of pairs is curved
        path = path.truncate(len(path.discarded))
    kept, weights = squares.expansion.truncate(len(path.atoms)), squares.weights.truncate(len(path)).last()
    values = to_host(kept.predict(data.X, weights, wide=True))
    if loss.link is None:
        return values
    least = LEAST_MEAN * np.average(targets, axis=0, weights=data.weights)
    return to_host(loss.link.of_mean(np.maximum(values, least)))


@dataclass(frozen=True)
class PursuitFit:
    """The pursuits of one fit, and what they share.

    Attributes
    ----------
    estimator : estimator
        Whose parameters are read.
    task : LearningTask
    settings : Settings
    centers
        The parameter, checked.
    """

    estimator: Any
    task: LearningTask
    settings: Settings
    centers: Any

    @property
    def limit(self) -> int | None:
        """Most steps to take; None where a rule chooses among as many as memory allows."""
        return None if self.estimator.n_atoms == "auto" else self.estimator.n_atoms

    def rules(self, stop: Any, data: TrainingData, targets: np.ndarray) -> Rules:
        """Stop rules that need no other rows than those fitted to."""
        estimator, task = self.estimator, self.task
        if stop is None:
            return no_rules
        if isinstance(stop, tolerance):
            return lambda family, criterion: [loss_below(stop.share)]
        if isinstance(stop, bound):
            refuse_weights(data, "bound", getattr(estimator, "class_weight", None))
            assert task.is_error is not None
            intercept = estimator.fit_intercept
            return vc_bound_rule(targets, task.is_error, task.n_comparisons, intercept, stop.patience)
        if estimator.stop is None and task.kind == "classes" and targets.shape[1] > 1:
            assert task.is_error is not None
            return class_rule(data, targets, task.is_error, stop.patience)
        return path_rule(stop, data, targets)

    def penalty(self, data: TrainingData, targets: np.ndarray, with_callbacks: bool = False) -> Penalty | Fitted:
        """The ridge of the parameter `alpha`, and the curvature of the loss.

        A loss other than the squared one takes the ridge of a fit with the squared loss, in the proportion of the mean
        curvatures of the two at this fit, for each of several values. If this fit is interrupted it is the model, and
        is returned. A fit that goes on keeps the ridge under which its steps were taken. `with_callbacks` is for a fit
        that a choice of the number of steps follows: a callback may end either.
        """
        estimator, task, settings = self.estimator, self.task, self.settings
        alpha, loss = estimator.alpha, task.loss(data)
        if isinstance(alpha, str) and not chooses_ridge(estimator):
            return Penalty(0.0)  # no joint fit; a statement about the fit without a ridge
        if loss is None:
            return Penalty(alpha)
        targets = targets if task.clip_outliers is None else task.clip_outliers(targets)
        curvature = curvature_of_constant(loss, targets, data, task.curvature)
        if not isinstance(alpha, str):
            return Penalty(alpha * task.units.ridge, curvature)
        if settings.path is not None:
            return Penalty(estimator.alpha_ * task.units.ridge, curvature)
        squares = self._fit_squares(data, targets, with_callbacks)
        if squares.path.reason == "interrupted":
            return squares
        values = values_for_loss(squares, loss, data, targets)
        ridge = float(squares.alpha or 0) * task.curvature(loss, targets.astype(np.float64), values, data) / 2
        return Penalty(ridge, curvature, squares.path if squares.path.reason == "callback" else None)

    def _fit_squares(self, data: TrainingData, targets: np.ndarray, with_callbacks: bool) -> Fitted:
        """Fit with the squared loss and the ridge that its evidence prefers, for the sake of this ridge."""
        settings, task, limit = self.settings, self.task, self.limit
        fit_task = settings.fit_task if with_callbacks else None
        if fit_task is not None:
            fit_task.begin(3)
        quiet = replace(settings, verbose=0, fit_task=fit_task, path=None, rng=deepcopy(settings.rng))
        of_squares = replace(task, loss=lambda rows: None, units=task.units._replace(linear=False))
        rules = no_rules if limit is not None else path_rule(gcv(), data, targets)
        return replace(self, task=of_squares, settings=quiet).once(data, targets, Penalty("auto"), limit, rules)

    def validated(self, data: TrainingData, targets: np.ndarray, penalty: Penalty, stop: validation) -> Fitted:
        """Choose the number of steps on rows held out, then fit that many on all rows."""
        estimator, task, settings = self.estimator, self.task, self.settings
        if penalty.ended is not None:
            return self._chosen(penalty.ended, data, targets, penalty)
        if settings.fit_task is not None:
            settings.fit_task.begin(2)
        # Drawn alike in every fit unless a seed says otherwise: a model that cannot be had again helps nobody.
        rng = np.random.default_rng(0) if estimator.random_state is None else settings.rng
        train, held_out = task.split(data, stop.share, rng)
        others = data.subset(held_out)
        rules = validation_rule(others, targets[held_out], task.loss(others), stop.patience)
        some = replace(self, centers=fewer_centers(self.centers, len(train)))
        first = some.once(data.subset(train), targets[train], penalty, self.limit, rules)
        if first.path.reason == "interrupted":
            return first
        warn_if_cut(first.path)
        return self._chosen(first.path, data, targets, penalty)

    def _chosen(self, choice: Path, data: TrainingData, targets: np.ndarray, penalty: Penalty) -> Fitted:
        """Fit as many steps as the path `choice` has; callbacks do not end it."""
        if self.settings.fit_task is not None:
            self.settings.fit_task.noted = []
        fitted = self.once(data, targets, penalty, len(choice))
        if fitted.path.reason != "interrupted":
            by = "on held-out rows" if penalty.ended is None else "with the squared loss"
            say_chosen(fitted.path, choice, targets, by)
        return fitted

    def certified(self, data: TrainingData, targets: np.ndarray, stop: certificate) -> Fitted:
        """Fit to some rows, and keep the number of steps of which the others promise most.

        The rows fitted to name the number of steps that they prefer; it has most of delta. See `holdout_bound`, and
        `loss_bound` for groups.
        """
        estimator, task = self.estimator, self.task
        refuse_weights(data, "certificate", getattr(estimator, "class_weight", None))
        closed_form = knows_left_out(estimator, task.loss(data))
        if not closed_form and self.limit is None:
            raise ValueError("stop='certificate' needs a number for n_atoms with this loss or variant, got 'auto'")
        hold_out = hold_out_rows if data.groups is None else hold_out_groups
        train, held_out = hold_out(data, stop.share, self.settings.rng)
        some, seen, others = data.subset(train), targets[train], data.subset(held_out)
        if task.loss_of_rows is not None:  # the rows held out have no part in it, nor in the ridge
            loss = task.loss_of_rows(some)
            task = replace(task, loss=lambda rows: loss)
        fit = replace(self, task=task, centers=fewer_centers(self.centers, len(train)))
        penalty = fit.penalty(some, seen)
        if isinstance(penalty, Fitted):
            return penalty
        rules = path_rule(gcv(patience=stop.patience), some, seen) if closed_form else no_rules
        fitted = fit.once(some, seen, penalty, self.limit, rules)
        if fitted.path.reason == "interrupted":
            return fitted
        warn_if_cut(fitted.path)
        values = map(to_host, fitted.expansion.staged(others.X, fitted.weights))
        if others.groups is not None:
            return fitted._replace(path=certified_order(fitted.path, others, values))
        assert task.is_error is not None
        y = targets[held_out]
        errors = np.array([np.sum(task.is_error(y, y - value, seen)) for value in values])
        return fitted._replace(path=certified(fitted.path, errors, len(y)))

    def once(
        self,
        data: TrainingData,
        targets: np.ndarray,
        penalty: Penalty,
        limit: int | None,
        rules: Rules = no_rules,
        wanted: int | None = None,
    ) -> Fitted:
        """Run one pursuit on the rows of `data`.

        Parameters
        ----------
        data, targets, penalty
        limit : int or None
            Most steps to take; None for as many as memory allows.
        rules : callable
            Makes further stop rules from the atoms and the criterion.
        wanted : int, optional
            Number of atoms that the user asked for.
        """
        estimator, task, settings = self.estimator, self.task, self.settings
        family, y = atoms_of(estimator, data, settings.rng, self.centers), as_like(targets, data.X)
        alpha, loss, intercept = penalty.alpha, task.loss(data), data.groups is None and estimator.fit_intercept
        variant = record_of(estimator.variant, basic)
        takes_one_weight = isinstance(variant, basic)

        def criterion(dictionary: Any) -> Any:
            options: dict[str, Any] = {
                "variant": "basic" if takes_one_weight else variant,
                "alpha": 0.0 if isinstance(alpha, str) else alpha,
                "shrinkage": variant.shrinkage if takes_one_weight else 1.0,
                "weights": None if data.weights is None else as_like(data.weights, data.X),
                "intercept": intercept,
                "groups": data.groups,
            }
            if loss is None:
                counts = None if data.counts is None else as_like(data.counts, data.X)
                return data.source.criterion(Squares, data, family)(dictionary, y, counts=counts, **options)
            return Gradient(dictionary, y, loss, curvature=penalty.curvature, **options)

        best_is_constant = loss and loss.convex and intercept and np.all(targets == targets[:1])
        floor = np.inf if best_is_constant else 0.0 if loss else least_loss(targets)

        def stop_rules(criterion: Any) -> list[StopRule]:
            most = most_steps(limit, callable(estimator.stop) or takes_one_weight)
            return [*most, loss_below(EXPLAINED, floor), *rules(family, criterion)]

        def fitted_after(path: Path, ready: Any) -> Fitted:
            return self._fitted(path, ready, family, data, targets, loss, alpha)

        def snapshot(path: Path, ready: Any) -> dict[str, Any]:
            return attributes_of(estimator, task.units.restored(fitted_after(replace(path), ready)))

        n = len(data.rows)
        for_all = looks_at_all(settings.candidates, family.size)  # a ridge keeps a number for each atom then, too
        ridge = 0 if isinstance(alpha, str) or not np.any(alpha) or not for_all else family.size
        direction = 0 if takes_one_weight else n
        if data.groups is not None and loss is None:
            direction *= 2  # as much for groups left out
        path, ready, _ = run(
            [family.dictionary],
            criterion,
            stop_rules,
            settings,
            data,
            basis=limit if ridge or direction else 1,
            itemsize=-(-8 * (direction + ridge or n) // n),
            wanted=wanted,
            unit=task.units.loss,
            steps=limit,
            # A fit with the squared loss for the sake of a ridge is no model.
            snapshot=None if loss is None and estimator.loss != "squared_error" else snapshot,
            size=family.size,
        )
        if loss is not None:
            warn_if_astray(estimator, loss, path, ready)
        return fitted_after(path, ready)

    def _fitted(
        self,
        path: Path,
        criterion: Any,
        family: AtomFamily,
        data: TrainingData,
        targets: np.ndarray,
        loss: Loss | None,
        alpha: float | np.ndarray | str,
    ) -> Fitted:
        """The model that a pursuit comes to: its ridge and its calibration, where it has these."""
        taken = path.truncate(len(path) + len(path.discarded))
        atoms, weights = taken.atoms, criterion.weight_path(len(taken))
        losses, fit = None, None
        if knows_left_out(self.estimator, loss):
            fit = OrthogonalFit.of(criterion, as_like(targets, data.X), weights)
        if isinstance(alpha, str):
            assert fit is not None
            losses = np.array([step.loss for step in taken.steps])
            n = effective_sample_size(data) - data.n_groups  # each group has a constant
            alpha, fit, weights, path = with_evidence_ridge(fit, path, n)
        fitted = Fitted(path, family.support(atoms), family.expansion(atoms), weights, alpha, losses)
        has_classes = self.task.kind in ("classes", "labels")
        if not has_classes or (loss is not None and loss.log_odds is not None):
            return fitted
        one_vs_rest = self.task.kind == "labels"
        if fit is not None:
            return fitted._replace(calibration=calibrated_left_out(fit, path, targets, data, one_vs_rest))
        return fitted._replace(calibration=calibrated_seen(fitted.expansion, weights, path, targets, data, one_vs_rest))
