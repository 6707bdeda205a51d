"""The fit of kernel matching pursuit, for values, classes and groups: its ridge, its number of steps, its model."""

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
from kernelpursuit.fitting.auto_ridge import (
    Curvature,
    chooses_ridge,
    curvature_of_constant,
    has_evidence_ridge,
    mean_curvature,
    with_evidence_ridge,
)
from kernelpursuit.fitting.duplicates import FOR_A_CHOICE, FOR_A_PROMISE, warn_of_duplicates
from kernelpursuit.fitting.fit_warnings import warn_if_astray, warn_if_constant, warn_if_cut, warn_if_short
from kernelpursuit.fitting.model import Fitted, attributes_of
from kernelpursuit.fitting.orthogonal import OrthogonalFit
from kernelpursuit.fitting.pipeline import Pursuit, Settings, looks_at_all
from kernelpursuit.fitting.placement import as_like
from kernelpursuit.fitting.probabilities import calibrated_left_out, calibrated_seen
from kernelpursuit.fitting.rules import (
    EXPLAINED,
    IsError,
    Rules,
    certified,
    certified_order,
    class_rule,
    most_steps,
    no_rules,
    path_rule,
    say_chosen,
    validation_rule,
    vc_bound_rule,
)
from kernelpursuit.fitting.splits import hold_out_groups, hold_out_rows
from kernelpursuit.fitting.training import (
    TrainingData,
    check_centers,
    effective_sample_size,
    fewer_centers,
    refuse_weights,
)
from kernelpursuit.fitting.values import Units, least_loss
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
from kernelpursuit.pursuit.loop import Path
from kernelpursuit.pursuit.stopping import loss_below

Split = Callable[[TrainingData, float, np.random.Generator], tuple[np.ndarray, np.ndarray]]
LEAST_MEAN = 0.01  # share of the mean target below which a fitted mean is raised: a link takes no negative means
LEFT_OUT = (gcv, leave_one_out, leave_one_group_out)  # rules that need leave-one-out residuals in closed form
HELD_OUT = (leave_one_group_out, validation, certificate)  # rules that hold out rows, or whole groups


@dataclass(frozen=True)
class TargetKind:
    """The kind of targets that a fit has, with their losses and error counts: values, classes, labels or groups.

    Attributes
    ----------
    name : {"values", "classes", "labels", "groups"}
    loss : callable
        ``loss(data)``: the loss on some of the rows; None for the squared loss, which has a criterion of its own.
    split : callable
        ``split(data, share, rng)``: training rows and held-out rows, for the validation rule.
    is_error : callable, optional
        ``is_error(targets, residuals, seen)``: which rows count as errors; `seen` are training targets. None for
        groups, where pairs are counted.
    n_comparisons : int
        How many linear conditions on the weights decide whether a row is an error, see `vc_bound`.
    units : Units
        Units of the targets.
    curvature : callable
        ``curvature(loss, targets, values, data)``: the second derivative of a loss along fitted values.
    clip_outliers : callable, optional
        ``clip_outliers(targets)``: targets for the fit with the squared loss that finds the ridge of another loss.
    loss_of_rows : callable, optional
        Like `loss`, with its scale chosen by these rows alone; `loss` chose it by all rows.
    """

    name: Literal["values", "classes", "labels", "groups"]
    loss: Callable[[TrainingData], Loss | None]
    split: Split
    is_error: IsError | None = None
    n_comparisons: int = 1
    units: Units = Units()  # noqa: RUF009
    curvature: Curvature = mean_curvature
    clip_outliers: Callable[[np.ndarray], np.ndarray] | None = None
    loss_of_rows: Callable[[TrainingData], Loss | None] | None = None


class Penalty(NamedTuple):
    """The ridge, and roughly the second derivative of the loss; one of each, or one for each target.

    With the squared loss the ridge may be "auto": atoms are chosen without one, then the ridge by their evidence.
    """

    alpha: float | np.ndarray | str
    curvature: float | np.ndarray = 2.0
    ended: Path | None = None  # path of the fit with the squared loss that found the ridge, if a callback ended it


class Objective(NamedTuple):
    """What one pursuit minimises: a loss of the targets of some rows, with a ridge."""

    data: TrainingData
    targets: np.ndarray
    loss: Loss | None  # None is the squared loss
    penalty: Penalty
    intercept: bool

    @property
    def has_ridge(self) -> bool:
        """Whether there is a ridge while atoms are chosen."""
        return not isinstance(self.penalty.alpha, str) and bool(np.any(self.penalty.alpha))

    @property
    def least_loss(self) -> float:
        """Loss below which nothing is left to fit; infinite where the best model of a convex loss is a constant."""
        loss = self.loss
        if loss is None:
            return least_loss(self.targets)
        return np.inf if loss.convex and self.intercept and np.all(self.targets == self.targets[:1]) else 0.0


def fit_pursuit(estimator: Any, data: TrainingData, targets: np.ndarray, kind: TargetKind) -> Fitted:
    """Fit with the ridge and the stop rule that the parameters of an estimator ask for.

    Parameters
    ----------
    estimator : estimator
        Its parameters are read; it does not change.
    data : TrainingData
    targets : ndarray of shape (n_samples, n_targets)
        In the units of `kind`; the model is in the original units.
    kind : TargetKind
    """
    loss = kind.loss(data)
    settings = Settings.of(estimator, data, path_before(estimator, loss))
    stop = resolve_stop(estimator, loss)
    if settings.path is not None and isinstance(stop, validation | certificate):
        raise ValueError(f"resume=True cannot go on with stop={estimator.stop!r}: its model comes from other rows")
    fit = FitStrategy(estimator, kind, settings, check_centers(estimator.centers, data.X))
    warn_if_duplicates_mislead(stop, estimator, data, targets)
    if isinstance(stop, certificate):
        fitted = fit.fit_with_certificate(data, targets, stop)
    else:
        penalty = fit.find_penalty(data, targets, with_callbacks=isinstance(stop, validation))
        if isinstance(penalty, Fitted):  # of the squared loss
            return kind.units._replace(linear=False).restored(penalty)
        if isinstance(stop, validation):
            fitted = fit.fit_with_validation(data, targets, penalty, stop)
        else:
            fitted = fit.run(data, targets, penalty, fit.limit, fit.rules_for(stop, data, targets), warn_if_fewer=True)
    if fit.limit is None or fitted.path.reason != "exhausted":  # else a warning has said it
        warn_if_constant(fitted.path)
    warn_if_cut(fitted.path)
    return kind.units.restored(fitted)


def path_before(estimator: Any, loss: Loss | None) -> Path | None:
    """The path of the last fit of an estimator, with the losses before its ridge was chosen; None if it has none."""
    if not hasattr(estimator, "path_"):
        return None
    path, losses = estimator.path_, estimator._taken.losses_before_ridge
    if losses is None:
        return path
    if loss is not None:  # it was interrupted while the squared loss chose the ridge, and has atoms of that loss
        return None
    steps = [step._replace(loss=loss) for step, loss in zip(path.steps + path.discarded, losses, strict=True)]
    return replace(path, steps=steps, discarded=[])


def resolve_stop(estimator: Any, loss: Loss | None) -> Any:
    """The parameter `stop` as a record or a function, or the rule that stands for ``n_atoms="auto"``.

    "auto" is gcv with the squared loss (of several classes the form of `class_rule`, see `FitStrategy.rules_for`), and
    validation with another loss or the basic variant.
    """
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
    """Warn of duplicate rows where errors of rows choose the number of steps or the ridge."""
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
class FitStrategy:
    """The pursuits of one fit: of the ridge, of the number of steps, of the model.

    Attributes
    ----------
    estimator : estimator
        Its parameters are read.
    kind : TargetKind
    settings : Settings
    centers
        The parameter, checked.
    """

    estimator: Any
    kind: TargetKind
    settings: Settings
    centers: Any

    @property
    def limit(self) -> int | None:
        """Most steps to take; None for ``n_atoms="auto"``."""
        return None if self.estimator.n_atoms == "auto" else self.estimator.n_atoms

    def rules_for(self, stop: Any, data: TrainingData, targets: np.ndarray) -> Rules:
        """Stop rules that need the training rows alone."""
        estimator, kind = self.estimator, self.kind
        if stop is None:
            return no_rules
        if isinstance(stop, tolerance):
            return lambda family, criterion: [loss_below(stop.share)]
        if isinstance(stop, bound):
            refuse_weights(data, "bound", getattr(estimator, "class_weight", None))
            assert kind.is_error is not None
            intercept = estimator.fit_intercept
            return vc_bound_rule(targets, kind.is_error, kind.n_comparisons, intercept, stop.patience)
        if estimator.stop is None and kind.name == "classes" and targets.shape[1] > 1:
            assert kind.is_error is not None
            return class_rule(data, targets, kind.is_error, stop.patience)
        return path_rule(stop, data, targets)

    def find_penalty(self, data: TrainingData, targets: np.ndarray, with_callbacks: bool = False) -> Penalty | Fitted:
        """The ridge of the parameter `alpha`, and the curvature of the loss.

        For another loss, ``alpha="auto"`` takes the ridge of a fit with the squared loss, times the ratio of the mean
        curvatures of the two losses at this fit. If this fit is interrupted, it is the model, and is returned. A
        resumed fit keeps the ridge under which its steps were taken. `with_callbacks`: whether callbacks may end the
        fit with the squared loss, as they may where a choice of the number of steps follows.
        """
        estimator, kind, settings = self.estimator, self.kind, self.settings
        alpha, loss = estimator.alpha, kind.loss(data)
        if isinstance(alpha, str) and not chooses_ridge(estimator):
            return Penalty(0.0)
        if loss is None:
            return Penalty(alpha)
        targets = targets if kind.clip_outliers is None else kind.clip_outliers(targets)
        curvature = curvature_of_constant(loss, targets, data, kind.curvature)
        if not isinstance(alpha, str):
            return Penalty(alpha * kind.units.ridge, curvature)
        if settings.path is not None:
            return Penalty(estimator.alpha_ * kind.units.ridge, curvature)
        squares = self._fit_squares(data, targets, with_callbacks)
        if squares.path.reason == "interrupted":
            return squares
        values = values_for_loss(squares, loss, data, targets)
        ridge = float(squares.alpha or 0) * kind.curvature(loss, targets.astype(np.float64), values, data) / 2
        return Penalty(ridge, curvature, squares.path if squares.path.reason == "callback" else None)

    def _fit_squares(self, data: TrainingData, targets: np.ndarray, with_callbacks: bool) -> Fitted:
        """Fit with the squared loss, to find the ridge that its evidence prefers."""
        settings, kind, limit = self.settings, self.kind, self.limit
        fit_task = settings.fit_task if with_callbacks else None
        if fit_task is not None:
            fit_task.begin(3)
        quiet = replace(settings, verbose=0, fit_task=fit_task, path=None, rng=deepcopy(settings.rng))
        of_squares = replace(kind, loss=lambda rows: None, units=kind.units._replace(linear=False))
        rules = no_rules if limit is not None else path_rule(gcv(), data, targets)
        return replace(self, kind=of_squares, settings=quiet).run(data, targets, Penalty("auto"), limit, rules)

    def fit_with_validation(
        self, data: TrainingData, targets: np.ndarray, penalty: Penalty, stop: validation
    ) -> Fitted:
        """Choose the number of steps on held-out rows, then fit that many to all rows."""
        estimator, kind, settings = self.estimator, self.kind, self.settings
        if penalty.ended is not None:
            return self._fit_chosen(penalty.ended, data, targets, penalty)
        if settings.fit_task is not None:
            settings.fit_task.begin(2)
        # The same rows in every fit without a seed, so that a model can be fitted again.
        rng = np.random.default_rng(0) if estimator.random_state is None else settings.rng
        train, held_out = kind.split(data, stop.share, rng)
        others = data.subset(held_out)
        rules = validation_rule(others, targets[held_out], kind.loss(others), stop.patience)
        some = replace(self, centers=fewer_centers(self.centers, len(train)))
        first = some.run(data.subset(train), targets[train], penalty, self.limit, rules)
        if first.path.reason == "interrupted":
            return first
        warn_if_cut(first.path)
        return self._fit_chosen(first.path, data, targets, penalty)

    def _fit_chosen(self, choice: Path, data: TrainingData, targets: np.ndarray, penalty: Penalty) -> Fitted:
        """Fit as many steps as the path `choice` has; callbacks do not end it."""
        if self.settings.fit_task is not None:
            self.settings.fit_task.stop_requests = []
        fitted = self.run(data, targets, penalty, len(choice))
        if fitted.path.reason != "interrupted":
            by = "on held-out rows" if penalty.ended is None else "with the squared loss"
            say_chosen(fitted.path, choice, targets, by)
        return fitted

    def fit_with_certificate(self, data: TrainingData, targets: np.ndarray, stop: certificate) -> Fitted:
        """Fit to some rows, and keep the number of steps with the lowest bound on the held-out rows.

        The number of steps that the training rows prefer has most of delta. See `holdout_bound`, and `loss_bound` for
        groups.
        """
        estimator, kind = self.estimator, self.kind
        refuse_weights(data, "certificate", getattr(estimator, "class_weight", None))
        closed_form = knows_left_out(estimator, kind.loss(data))
        if not closed_form and self.limit is None:
            raise ValueError("stop='certificate' needs a number for n_atoms with this loss or variant, got 'auto'")
        hold_out = hold_out_rows if data.groups is None else hold_out_groups
        train, held_out = hold_out(data, stop.share, self.settings.rng)
        some, seen, others = data.subset(train), targets[train], data.subset(held_out)
        if kind.loss_of_rows is not None:  # held-out rows take no part in it, nor in the ridge
            loss = kind.loss_of_rows(some)
            kind = replace(kind, loss=lambda rows: loss)
        fit = replace(self, kind=kind, centers=fewer_centers(self.centers, len(train)))
        penalty = fit.find_penalty(some, seen)
        if isinstance(penalty, Fitted):
            return penalty
        rules = path_rule(gcv(patience=stop.patience), some, seen) if closed_form else no_rules
        fitted = fit.run(some, seen, penalty, self.limit, rules)
        if fitted.path.reason == "interrupted":
            return fitted
        warn_if_cut(fitted.path)
        values = map(to_host, fitted.expansion.staged(others.X, fitted.weights))
        if others.groups is not None:
            return fitted._replace(path=certified_order(fitted.path, others, values))
        assert kind.is_error is not None
        y = targets[held_out]
        errors = np.array([np.sum(kind.is_error(y, y - value, seen)) for value in values])
        return fitted._replace(path=certified(fitted.path, errors, len(y)))

    def run(
        self,
        data: TrainingData,
        targets: np.ndarray,
        penalty: Penalty,
        limit: int | None,
        rules: Rules = no_rules,
        *,
        warn_if_fewer: bool = False,
    ) -> Fitted:
        """Run one pursuit on the rows of `data`.

        Parameters
        ----------
        data, targets, penalty
        limit : int or None
            Most steps to take; None for as many as memory allows.
        rules : callable
            Makes further stop rules from the atoms and the criterion.
        warn_if_fewer : bool
            Whether to warn if the data have fewer than `limit` atoms.
        """
        estimator, settings, loss = self.estimator, self.settings, self.kind.loss(data)
        objective = Objective(data, targets, loss, penalty, data.groups is None and estimator.fit_intercept)
        family = atoms_of(estimator, data, settings.rng, self.centers)
        bytes_per_atom = self._bytes_per_atom(objective, family)
        pursuit = Pursuit.plan([family.dictionary], settings, data, limit, bytes_per_atom=bytes_per_atom)
        criterion = self._criterion(objective, family, pursuit.dictionaries[0])
        takes_one_weight = is_basic(estimator.variant)
        limits = [
            *most_steps(limit, callable(estimator.stop) or takes_one_weight),
            loss_below(EXPLAINED, objective.least_loss),
        ]

        def snapshot(path: Path, criterion: Any) -> dict[str, Any]:
            fitted = self._fitted(objective, family, criterion, replace(path))
            return attributes_of(estimator, self.kind.units.restored(fitted))

        # Callbacks see no snapshot of a fit that only finds the ridge of another loss.
        is_model = loss is not None or estimator.loss == "squared_error"
        path = pursuit.run(
            criterion,
            [*limits, *rules(family, criterion)],
            steps=limit,
            unit=self.kind.units.loss,
            snapshot=snapshot if is_model else None,
        )
        if warn_if_fewer and limit is not None:
            warn_if_short(path, criterion, data, limit)
        if loss is not None:
            warn_if_astray(estimator, loss, path, criterion)
        return self._fitted(objective, family, criterion, path)

    def _bytes_per_atom(self, objective: Objective, family: AtomFamily) -> int:
        """Bytes that a criterion keeps of each atom taken: its direction, and under a ridge a number for each atom."""
        data, n = objective.data, len(objective.data.rows)
        direction = 0 if is_basic(self.estimator.variant) else n
        if data.groups is not None and objective.loss is None:
            direction *= 2  # as much for groups left out
        has_all_scores = looks_at_all(self.settings.candidates, family.size)
        return 8 * (direction + (family.size if objective.has_ridge and has_all_scores else 0))

    def _criterion(self, objective: Objective, family: AtomFamily, dictionary: Any) -> Any:
        """The criterion of a loss; the squared one has a criterion of its own."""
        data, penalty = objective.data, objective.penalty
        variant = record_of(self.estimator.variant, basic)
        one_weight = isinstance(variant, basic)
        options: dict[str, Any] = {
            "variant": "basic" if one_weight else variant,
            "alpha": 0.0 if isinstance(penalty.alpha, str) else penalty.alpha,
            "shrinkage": variant.shrinkage if one_weight else 1.0,
            "weights": None if data.weights is None else as_like(data.weights, data.X),
            "intercept": objective.intercept,
            "groups": data.groups,
        }
        y = as_like(objective.targets, data.X)
        if objective.loss is not None:
            return Gradient(dictionary, y, objective.loss, curvature=penalty.curvature, **options)
        counts = None if data.counts is None else as_like(data.counts, data.X)
        return data.source.criterion(Squares, data, family)(dictionary, y, counts=counts, **options)

    def _fitted(self, objective: Objective, family: AtomFamily, criterion: Any, path: Path) -> Fitted:
        """The model after a pursuit, with its ridge and its calibration where it has these."""
        data, targets, loss, alpha = objective.data, objective.targets, objective.loss, objective.penalty.alpha
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
        has_classes = self.kind.name in ("classes", "labels")
        if not has_classes or (loss is not None and loss.log_odds is not None):
            return fitted
        one_vs_rest = self.kind.name == "labels"
        if fit is not None:
            return fitted._replace(calibration=calibrated_left_out(fit, path, targets, data, one_vs_rest))
        return fitted._replace(calibration=calibrated_seen(fitted.expansion, weights, path, targets, data, one_vs_rest))
