"""Kernel matching pursuit: one fit, and the rules that choose its number of steps."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit.arrays import to_host
from kernelpursuit.criteria.gradient import Gradient
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.fitting.atom_family import AtomFamily, atoms_of
from kernelpursuit.fitting.duplicates import FOR_A_PROMISE, warn_of_duplicates
from kernelpursuit.fitting.model import Fitted, attributes_of, only_for_ridge
from kernelpursuit.fitting.orthogonal import (
    OrthogonalFit,
    before_ridge,
    effective_sample_size,
    has_evidence_ridge,
    with_evidence_ridge,
)
from kernelpursuit.fitting.pipeline import Settings, follows_all, run
from kernelpursuit.fitting.placement import beside
from kernelpursuit.fitting.probabilities import calibrated_left_out, calibrated_seen
from kernelpursuit.fitting.rules import (
    IsError,
    Rules,
    certified,
    class_rule,
    curvature_for,
    curvature_of_constant,
    most_steps,
    no_rules,
    path_rule,
    say_chosen,
    several_classes,
    validation_rule,
    vc_bound_rule,
    warn_if_astray,
    warn_if_constant,
    warn_if_cut,
)
from kernelpursuit.fitting.training import (
    TrainingData,
    check_centers,
    check_split,
    fewer_centers,
    refuse_weights,
)
from kernelpursuit.fitting.units import Units, least_loss
from kernelpursuit.losses import Loss
from kernelpursuit.pursuit.loop import Path, StopRule
from kernelpursuit.pursuit.stopping import tolerance

LEAST_MEAN = 0.01  # of the mean of the targets: a fit of a mean by the squared loss may be negative
Split = Callable[[TrainingData, float, np.random.Generator], tuple[np.ndarray, np.ndarray]]


class Penalty(NamedTuple):
    """A ridge for targets as they are fitted, and the second derivative of the loss, about; or those of each target.

    "auto" chooses atoms without a ridge, and then the ridge by their evidence; for the squared loss.
    """

    alpha: float | np.ndarray | str
    curvature: float | np.ndarray = 2.0
    ended: Path | None = None  # the path of the squared loss by which the ridge was found, if a callback ended it


class KernelMatchingPursuit:
    """The fit that the parameters ask for."""

    n_atoms: Any  # a parameter, as those that follow
    variant: str
    refit_every: int | None
    centers: Any
    alpha: Any
    shrinkage: float
    loss: Any
    fit_intercept: bool
    stop: Any
    validation_fraction: float
    patience: int
    random_state: Any
    alpha_: Any  # of the fit before
    _fits_collections = True
    _labels: bool  # of a classifier: whether rows have several labels

    def _choose_and_fit(
        self,
        data: TrainingData,
        targets: np.ndarray,
        loss: Loss | None,
        *,
        split: Split,
        is_error: IsError,
        n_comparisons: int,
        units: Units = Units(),  # noqa: B008
        clip_outliers: Callable[[np.ndarray], np.ndarray] = lambda targets: targets,
        loss_of: Callable[[TrainingData], Loss | None] | None = None,
    ) -> Fitted:
        """Fit with the stop rule that `n_atoms` and `stop` ask for; the model is in the units that the targets had.

        Parameters
        ----------
        data : TrainingData
        targets : ndarray of shape (n_samples, n_targets)
        loss : Loss or None
            None is the squared loss, which has a criterion of its own.
        split : callable
            ``split(data, share, rng)``: rows to train on and rows to hold out, for the validation rule.
        is_error : callable
            ``is_error(targets, residuals, seen)``, which rows count as errors of a bound; `seen` are training targets.
        n_comparisons : int
            How many linear conditions on the weights decide whether a row is an error, see `vc_bound`.
        units : Units
            Those of `targets`.
        clip_outliers : callable
            ``clip_outliers(targets)`` without their outliers, for a look at them with the squared loss.
        loss_of : callable, optional
            ``loss_of(data)``, the loss by some of the rows, where it depends on them.
        """
        settings, centers = Settings.of(self, units), check_centers(self.centers, data.X)
        limit = None if self.n_atoms == "auto" else self.n_atoms
        stop = self._stop_rule(loss)
        if settings.path is not None and stop in ("validation", "certificate"):
            raise ValueError(f"warm_start=True cannot go on with stop={stop!r}: its model comes from other rows")
        if loss is not None and only_for_ridge(self):
            settings = replace(settings, path=None)
        counts_weights = stop in ("gcv", "leave_one_out") or has_evidence_ridge(self)
        if stop == "certificate":
            warn_of_duplicates(data.X, targets, share=FOR_A_PROMISE)
        elif counts_weights or stop == "validation":
            warn_of_duplicates(data.X, targets, data.total if counts_weights else 0.0)
        shared: dict[str, Any] = {"centers": centers, "units": units}
        if stop != "certificate":
            told = stop == "validation"
            penalty = self._penalty(data, clip_outliers(targets), loss, settings, limit=limit, told=told, **shared)
            if isinstance(penalty, Fitted):
                return units.restored(penalty)
            shared["penalty"] = penalty
        if stop == "validation":
            fitted = self._fit_validated(data, targets, loss, settings, split=split, **shared)
        elif stop == "certificate":
            how: dict[str, Any] = {
                "is_error": is_error,
                "clip_outliers": clip_outliers,
                "loss_of": loss_of or (lambda some: loss),
            }
            fitted = self._fit_certified(data, targets, settings, **how, **shared)
        else:
            rules: Rules = no_rules
            if stop == "bound":
                refuse_weights(data, stop, getattr(self, "class_weight", None))
                rules = vc_bound_rule(targets, is_error, n_comparisons, self.fit_intercept, self.patience)
            elif self.stop is None and stop == "gcv" and several_classes(self, targets):
                rules = class_rule(data, targets, is_error, self.patience)
            elif stop is not None:
                rules = path_rule(stop, data, targets, self.patience)
            fitted = self._fit_once(data, targets, loss, settings, rules=rules, limit=limit, wanted=limit, **shared)
        if self.n_atoms == "auto" or fitted.path.reason != "exhausted":  # else a warning has said it
            warn_if_constant(fitted.path)
        warn_if_cut(fitted.path)
        return units.restored(fitted)

    def _stop_rule(self, loss: Loss | None) -> Any:
        """The parameter `stop`, or the rule that stands for ``n_atoms="auto"``."""
        if self.stop is None and self.n_atoms == "auto":
            return "gcv" if self._closed_form(loss) else "validation"
        if self.stop in ("gcv", "leave_one_out") and not self._closed_form(loss):
            raise ValueError(
                f"stop={self.stop!r} needs loss='squared' and variant 'prefit' or 'backfit'; 'validation' does not"
            )
        return self.stop

    def _closed_form(self, loss: Loss | None) -> bool:
        """Whether the path knows its leave-one-out error."""
        return loss is None and self.variant != "basic"

    def _penalty(
        self,
        data: TrainingData,
        targets: np.ndarray,
        loss: Loss | None,
        settings: Settings,
        *,
        centers: Any,
        limit: int | None,
        units: Units,
        told: bool = False,
    ) -> Penalty | Fitted:
        """The ridge of the parameter `alpha`, and how the loss bends beside it.

        A loss other than the squared one takes the ridge of a fit with the squared loss, in the proportion of the mean
        curvatures of the two at this fit: there the two objectives then bend alike, for each of several values. If this
        fit is interrupted it is the model, and is returned. A fit that goes on keeps the ridge under which its steps
        were taken. Callbacks are `told` of this fit, and may end it, where a choice of the number of steps comes next:
        it is over too then. Not with a checkpoint, in which the order of the pursuits is that of every fit.
        """
        if isinstance(self.alpha, str) and (self.variant == "basic" or self.stop == "bound"):
            return Penalty(0.0)  # no joint fit; a statement about the fit without a ridge
        if loss is None:
            return Penalty(self.alpha)
        of = curvature_for(self)
        curvature = curvature_of_constant(loss, targets, data.weights, of)
        if not isinstance(self.alpha, str):
            return Penalty(self.alpha * units.ridge, curvature)
        if settings.path is not None:
            return Penalty(self.alpha_ * units.ridge, curvature)
        rules = no_rules if limit is not None else path_rule("gcv", data, targets, self.patience)
        task = settings.fit_task if told and settings.checkpoint is None else None
        if task is not None:
            task.begin(3)
        quiet = replace(settings, verbose=0, fit_task=task, path=None, rng=deepcopy(settings.rng))
        options: dict[str, Any] = {"centers": centers, "limit": limit, "units": units._replace(linear=False)}
        squares = self._fit_once(data, targets, None, quiet, rules=rules, penalty=Penalty("auto"), **options)
        if squares.path.reason == "interrupted":
            return squares
        kept = squares.expansion.truncate(len(squares.path.atoms))
        values = to_host(kept.predict(data.X, squares.weights.truncate(len(squares.path)).last(), wide=True))
        if loss.link is not None:
            least = LEAST_MEAN * np.average(targets, axis=0, weights=data.weights)
            values = to_host(loss.link.of_mean(np.maximum(values, least)))
        ridge = float(squares.alpha or 0) * of(loss, targets.astype(np.float64), values, data.weights) / 2
        return Penalty(ridge, curvature, squares.path if squares.path.reason == "callback" else None)

    def _fit_validated(
        self,
        data: TrainingData,
        targets: np.ndarray,
        loss: Loss | None,
        settings: Settings,
        *,
        penalty: Penalty,
        centers: Any,
        split: Split,
        units: Units,
    ) -> Fitted:
        """Choose the number of steps on rows held out, then fit that many on all rows."""
        shared: dict[str, Any] = {"penalty": penalty, "centers": centers, "units": units}
        if penalty.ended is not None:
            return self._fit_chosen(penalty.ended, data, targets, loss, settings, **shared)
        if settings.fit_task is not None:
            settings.fit_task.begin(2)
        # Drawn alike in every fit unless a seed says otherwise: a model that cannot be had again helps nobody.
        rng = np.random.default_rng(0) if self.random_state is None else settings.rng
        train, held_out = split(data, self.validation_fraction, rng)
        rules = validation_rule(data.subset(held_out), targets[held_out], loss, self.patience)
        limit = None if self.n_atoms == "auto" else self.n_atoms
        own = shared | {"centers": fewer_centers(centers, len(train)), "limit": limit, "rules": rules}
        first = self._fit_once(data.subset(train), targets[train], loss, settings, **own)
        if first.path.reason == "interrupted":
            return first
        warn_if_cut(first.path)
        return self._fit_chosen(first.path, data, targets, loss, settings, **shared)

    def _fit_chosen(
        self, choice: Path, data: TrainingData, targets: np.ndarray, loss: Loss | None, settings: Settings, **more: Any
    ) -> Fitted:
        """Fit as many steps as the path `choice` has; callbacks do not end it."""
        if settings.fit_task is not None:
            settings.fit_task.noted = []
        fitted = self._fit_once(data, targets, loss, settings, limit=len(choice), **more)
        if fitted.path.reason != "interrupted":
            by = "on held-out rows" if more["penalty"].ended is None else "with the squared loss"
            say_chosen(fitted.path, choice, targets, by)
        return fitted

    def _fit_certified(
        self,
        data: TrainingData,
        targets: np.ndarray,
        settings: Settings,
        *,
        centers: Any,
        is_error: IsError,
        clip_outliers: Callable[[np.ndarray], np.ndarray],
        loss_of: Callable[[TrainingData], Loss | None],
        units: Units,
    ) -> Fitted:
        """Fit to some rows, and keep the number of steps of which the others promise most: see `holdout_bound`.

        The rows fitted to name the number of steps that they prefer; it has most of delta.
        """
        refuse_weights(data, "certificate", getattr(self, "class_weight", None))
        if not self._closed_form(loss_of(data)) and self.n_atoms == "auto":
            raise ValueError("stop='certificate' needs a number for n_atoms with this loss or variant, got 'auto'")
        check_split(len(targets), self.validation_fraction)
        order = settings.rng.permutation(len(targets))  # not by classes: the rows held out must be independent ones
        size = int(np.ceil(self.validation_fraction * len(order)))
        held_out, train = np.sort(order[:size]), np.sort(order[size:])
        some, y = data.subset(train), targets[train]
        shared: dict[str, Any] = {"centers": fewer_centers(centers, len(train)), "units": units}
        shared["limit"] = None if self.n_atoms == "auto" else self.n_atoms
        loss = loss_of(some)  # the rows held out have no part in it, nor in the ridge
        penalty = self._penalty(some, clip_outliers(y), loss, settings, **shared)
        if isinstance(penalty, Fitted):
            return penalty
        rules = path_rule("gcv", some, y, self.patience) if self._closed_form(loss) else no_rules
        fitted = self._fit_once(some, y, loss, settings, penalty=penalty, rules=rules, **shared)
        if fitted.path.reason == "interrupted":
            return fitted
        warn_if_cut(fitted.path)
        values = fitted.expansion.staged(data.subset(held_out).X, fitted.weights)
        aside = targets[held_out]
        errors = np.array([np.sum(is_error(aside, aside - to_host(value), y)) for value in values])
        return fitted._replace(path=certified(fitted.path, errors, size))

    def _fit_once(
        self,
        data: TrainingData,
        targets: np.ndarray,
        loss: Loss | None,
        settings: Settings,
        *,
        penalty: Penalty,
        centers: Any,
        limit: int | None,
        rules: Rules | None = None,
        wanted: int | None = None,
        units: Units,
    ) -> Fitted:
        """Run one pursuit on the rows of `data`.

        Parameters
        ----------
        penalty : Penalty
        centers : as the parameter, checked
        limit : int or None
            Most steps to take; None for as many as memory allows.
        rules : callable, optional
            Makes further stop rules from the atoms and the criterion.
        wanted : int, optional
            Number of atoms that the user asked for.
        """
        family, y, alpha = atoms_of(self, data, settings.rng, centers), beside(targets, data.X), penalty.alpha

        def criterion(dictionary: Any) -> Any:
            options: dict[str, Any] = {
                "variant": self.variant,
                "alpha": 0.0 if isinstance(alpha, str) else alpha,
                "shrinkage": self.shrinkage if self.variant == "basic" else 1.0,
                "weights": None if data.weights is None else beside(data.weights, data.X),
                "intercept": self.fit_intercept,
            }
            if loss is None:
                counts = None if data.counts is None else beside(data.counts, data.X)
                return Squares(dictionary, y, counts=counts, **options)
            options |= {"refit_every": self.refit_every, "curvature": penalty.curvature}
            return Gradient(dictionary, y, loss, **options)

        best_is_constant = loss and loss.convex and self.fit_intercept and np.all(targets == targets[:1])
        floor = np.inf if best_is_constant else 0.0 if loss else least_loss(targets)

        def stop_rules(criterion: Any) -> list[StopRule]:
            most = most_steps(limit, self.stop, self.variant)
            return [*most, tolerance(settings.tol, floor), *(rules or no_rules)(family, criterion)]

        def fitted_after(path: Path, ready: Any) -> Fitted:
            return self._fitted(path, ready, family, data, targets, loss, alpha)

        def snapshot(path: Path, ready: Any) -> dict[str, Any]:
            return attributes_of(self, units.restored(fitted_after(replace(path), ready)))

        ridge, n = 0 if isinstance(alpha, str) or not np.any(alpha) else family.size, len(data.rows)
        follow = follows_all(settings, data, family.size, limit, numbers=n + ridge)
        ridge, direction = ridge if follow else 0, 0 if self.variant == "basic" else n
        path, ready, _ = run(
            [family.dictionary],
            criterion,
            stop_rules,
            settings,
            data,
            basis=limit if ridge or direction else 1,
            itemsize=-(-8 * (direction + ridge or n) // n),
            wanted=wanted,
            unit=units.loss,
            steps=limit,
            snapshot=None if loss is None and self.loss != "squared" else snapshot,  # that of a ridge is no model
            follow=follow,
        )
        if loss is not None:
            warn_if_astray(self, loss, path, ready)
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
        pursued = before_ridge(path) if isinstance(alpha, str) else None
        fit = OrthogonalFit.of(criterion, beside(targets, data.X), weights) if self._closed_form(loss) else None
        if isinstance(alpha, str):
            assert fit is not None
            alpha, fit, weights, path = with_evidence_ridge(fit, path, effective_sample_size(data))
        fitted = Fitted(path, family.support(atoms), family.expansion(atoms), weights, alpha, pursued)
        if not is_classifier(self) or (loss is not None and loss.log_odds is not None):
            return fitted
        apart = self._labels
        if fit is not None:
            return fitted._replace(calibration=calibrated_left_out(fit, path, targets, data, apart))
        return fitted._replace(calibration=calibrated_seen(fitted.expansion, weights, path, targets, data, apart))
