"""Rules that choose the number of steps of kernel matching pursuit, and warnings about what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._warning import warn
from kernelpursuit.arrays import from_host, in_double, namespace, to_host
from kernelpursuit.bounds import holdout_bound, loss_bound, path_weights, vc_bound
from kernelpursuit.criteria.pairs import pairwise_squared
from kernelpursuit.fitting.atom_family import AtomFamily
from kernelpursuit.fitting.placement import widest
from kernelpursuit.fitting.training import TrainingData, row_counts, rows_counted, varying
from kernelpursuit.losses import LOSSES, Loss
from kernelpursuit.parameters import gcv, is_basic, leave_one_group_out, leave_one_out
from kernelpursuit.pursuit.loop import Path, StopRule
from kernelpursuit.pursuit.stopping import (
    UsedShares,
    fewest_for_classes,
    lowest_bound,
    lowest_gcv,
    lowest_leave_one_out,
    lowest_validation,
    n_atoms,
    search_charge,
)
from kernelpursuit.ranking import group_sizes, wrong_pairs

Rules = Callable[[AtomFamily, Any], list[StopRule]]  # from the atoms and the criterion
_OFF_QUANTILE = 0.05  # share of rows by which a quantile may be missed without a warning
_UNCONVERGED = 0.01  # share of the first loss that one more refit may save without a warning
_FLAT, _FITTED = 1e-3, 1e-2  # shares of the slope and of the loss before the first atom
IsError = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
MOST_CHOSEN = 1000  # atoms that a rule may choose unasked: k of them on n rows take n k² operations, times `candidates`
EXPLAINED = 1e-10  # share of the loss without atoms at which nothing is left to explain
UNASKED = "n_atoms='auto'"  # why a path ends there


def no_rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
    """No rule but the limits."""
    return []


def most_steps(limit: int | None, ends_itself: bool) -> list[StopRule]:
    """Stop rule for the most steps: the number asked for, or `MOST_CHOSEN` where a rule chooses.

    Without noise each atom improves the fit, and a rule alone would take nearly half as many atoms as rows. No limit
    where the fit `ends_itself`: by a rule of the user, or in the basic variant, whose steps all take the same time.
    """
    if limit is not None:
        return [n_atoms(limit)]
    return [] if ends_itself else [n_atoms(MOST_CHOSEN, UNASKED)]


def warn_if_cut(path: Path) -> None:
    """ConvergenceWarning when a limit ended the path before the rule that chooses the number of steps."""
    if path.reason in (UNASKED, "memory"):
        more = " and a larger `memory`" if path.reason == "memory" else ""
        warn(
            f"n_atoms='auto' has not found a number: {path.sentence}, and more would do better still, as where y has "
            f"no noise. The model can be used. A number for n_atoms{more} goes on, with `stop` as far as that rule "
            "does; stop=tolerance(1e-3), say, ends earlier",
            ConvergenceWarning,
        )


def warn_of_choice(path: Path, known: str) -> None:
    """ConvergenceWarning that a callback ended the choice of a number of atoms; `known` is what was known by then."""
    warn(
        f"{path.sentence}: {known}, and the model may be worse than one of a choice that was finished. Let the "
        "callback wait longer, or ask for less: fewer atoms, widths or folds",
        ConvergenceWarning,
    )


def found_constant(path: Path) -> bool:
    """Whether nothing was left to fit before the first step, as with equal targets."""
    return path.reason == "tolerance" and not path.steps and not path.discarded


def say_chosen(path: Path, choice: Path, targets: np.ndarray, by: str = "on held-out rows") -> None:
    """Write into the path of a fit on all rows how another path, `choice`, chose its number of steps.

    With equal `targets` nothing was chosen.
    """
    if found_constant(choice):
        if np.all(targets == targets[:1]):
            return
        by, choice = "without the held-out rows", replace(choice, sentence="all targets seem equal")
    path.reason, path.sentence = "validation", f"{by}, {choice.sentence}"
    if choice.reason == "callback":
        path.reason = "callback"
        warn_of_choice(path, f"the best number of steps known by then was {len(choice)}")


def warn_if_constant(path: Path) -> None:
    """ConvergenceWarning when no atom was kept although the targets vary and atoms were asked for.

    With few rows a path may fit all of them before a rule discards its steps: the reason is then not the rule's name.
    """
    asked = path.discarded or path.reason != "n_atoms"
    if asked and not path.steps and path.reason != "interrupted" and not found_constant(path):
        warn(
            f"the model has no atoms and predicts a constant: {path.sentence}. Either X says nothing about y, or the "
            "kernel does not see it: scale the columns of X alike, try another gamma, or give n_atoms",
            ConvergenceWarning,
        )


def validation_rule(held_out: TrainingData, targets: np.ndarray, loss: Loss | None, patience: int) -> Rules:
    """Rule that follows the mean loss on held-out rows; None is the squared loss, of pairs where there are groups."""
    if loss is None:
        groups = held_out.groups
        loss = LOSSES["squared_error"] if groups is None else pairwise_squared(groups, held_out.weights)
    value = loss.value

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        rows = widest(held_out.X)  # the weights may be large and of both signs
        columns: dict[int, Any] = {}  # values of the chosen atoms at the held-out rows

        def current_error(path: Path) -> float:
            for atom in set(path.atoms.tolist()) - columns.keys():
                columns[atom] = family.expansion(np.array([atom])).columns(rows)[:, 0]
            coef = criterion.coef()
            values = np.zeros((held_out.X.shape[0], coef.shape[1])) + coef[0]
            if len(coef) > 1:
                chosen = [columns[atom] for atom in path.atoms.tolist()]
                stacked = namespace(chosen[0]).stack(chosen, axis=1)
                values += to_host(stacked @ from_host(coef[1:], stacked))
            return mean_loss(value, targets, values, held_out.weights)

        return [lowest_validation(current_error, patience)]

    return rules


def mean_loss(value: Callable, targets: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> float:
    """Weighted mean over the rows of a loss that is summed over the targets."""
    losses = np.sum(value(targets.astype(np.float64), values), axis=1)
    return float(np.mean(losses) if weights is None else np.average(losses, weights=weights))


def vc_bound_rule(targets: np.ndarray, is_error: IsError, n_comparisons: int, intercept: bool, patience: int) -> Rules:
    """Rule that follows the compression bound `vc_bound` on the share of rows that are errors.

    All targets that vary have weights and an intercept of their own; `n_comparisons` is as in `vc_bound`.
    """
    columns = len(varying(targets)) if intercept else targets.shape[1]
    n_comparisons = n_comparisons * columns // targets.shape[1]  # of a constant target there is nothing to decide

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        def current(path: Path) -> float:
            atoms, n = path.atoms, len(targets)
            misses = is_error(targets, to_host(criterion.residual()), targets)
            misses[family.rows(atoms)] = False  # only rows outside the support test the model
            k, errors = len(atoms), int(misses.sum())
            space = {"dimension": columns * (k + intercept), "choices": len(criterion.available)}
            if k + errors == n:
                return np.inf
            return vc_bound(k, n, errors, n_comparisons=n_comparisons, **space, form="tight")

        return [lowest_bound(current, patience)]

    return rules


def class_rule(data: TrainingData, targets: np.ndarray, is_error: IsError, patience: int) -> Rules:
    """Rule for several classes: the fewest atoms whose leave-one-out error rate is not clearly above the lowest."""
    charge = search_charge(in_double(targets), data.weights)

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        def error_rate() -> float:
            left_out = criterion.left_out()
            return data.source.total(weight_of_errors, is_error, targets, left_out, data.weights) / data.total

        return [fewest_for_classes(error_rate, rows_counted(data), charge, patience)]

    return rules


def weight_of_errors(
    is_error: IsError, targets: np.ndarray, residuals: np.ndarray, weights: np.ndarray | None
) -> float:
    """Total weight of the rows that are errors."""
    misses = is_error(targets, to_host(residuals), targets)
    return float(np.sum(misses if weights is None else misses * weights))


def path_rule(stop: Any, data: TrainingData, targets: np.ndarray) -> Rules:
    """Rule that reads the path alone: `gcv`, `leave_one_out`, `leave_one_group_out` or a rule of the user's own.

    Generalised cross-validation charges also for the constant of each group but one.
    """
    if isinstance(stop, leave_one_group_out) and data.n_groups == 1:
        raise ValueError("stop='leave_one_group_out' needs several groups, got one; 'gcv' does not")
    if isinstance(stop, leave_one_out | leave_one_group_out):
        rule = lowest_leave_one_out(stop.patience)
        return lambda family, criterion: [rule]
    if isinstance(stop, gcv):
        charge = search_charge(in_double(targets), data.weights)
        if data.counts is not None:
            return lambda family, criterion: [lowest_gcv(mean_leverages(data, criterion), charge, stop.patience)]
        rule = lowest_gcv(rows_counted(data) - max(0, data.n_groups - 1), charge, stop.patience)
        return lambda family, criterion: [rule]
    return lambda family, criterion: [stop]


def mean_leverages(data: TrainingData, criterion: Any) -> UsedShares:
    """Mean leverage of a row after 0, 1, ... steps, rows having weights that are not counts.

    A direction q of length 1 over the weighted rows adds q_i² / c_i to the leverage of each of the c_i rows that row i
    stands for. A direction along heavy rows costs more than one along light rows.
    """
    weights, counts = to_host(data.weights).astype(np.float64), to_host(row_counts(data))
    share = weights / np.maximum(counts, 1.0) / np.sum(weights)
    known: list[float] = []  # what each direction adds

    def used(steps: int) -> np.ndarray:
        deflation = criterion.deflation
        first = int(deflation.intercept)
        for place in range(len(known), first + steps):
            q = deflation.basis.directions[place, :]
            known.append(float(to_host((q * q) @ from_host(share, q))))
        return np.cumsum([*([] if first else [0.0]), *known[: first + steps]])

    return used


def certified(path: Path, errors: np.ndarray, n: int) -> Path:
    """Path cut where `holdout_bound` of its errors on `n` held-out rows is lowest; every step has its bound."""
    bounds = holdout_bound(errors, n, weight=path_weights(len(errors) - 1, preferred=len(path)))
    keep = int(np.argmin(bounds))
    found = f"{errors[keep]} of {n} held-out rows are wrong"
    return cut_at(path, bounds, f"with probability 95 % the error rate is below {bounds[keep]:.3g}: {found}")


def certified_order(path: Path, held_out: TrainingData, values: Iterable[np.ndarray]) -> Path:
    """Path cut where `loss_bound` is lowest, of the shares of wrong pairs in each held-out group.

    `values` are predictions for the held-out rows after 0, 1, ... steps.
    """
    sizes, y = group_sizes(held_out.groups), held_out.y[:, 0]
    losses = np.array([wrong_pairs(y, scores[:, 0], sizes) for scores in values])
    bounds = loss_bound(losses, weight=path_weights(len(losses) - 1, preferred=len(path)))
    keep = int(np.argmin(bounds))
    found = f"it is {np.mean(losses[keep]):.3g} in {losses.shape[1]} held-out groups"
    what = "with probability 95 % the mean share of wrongly ordered pairs in a group is below"
    return cut_at(path, bounds, f"{what} {bounds[keep]:.3g}: {found}")


def cut_at(path: Path, bounds: np.ndarray, sentence: str) -> Path:
    """Path cut where its certificates are lowest, with all of them."""
    path.start, *taken = [
        step._replace(bound=float(bound))
        for step, bound in zip([path.start, *path.steps, *path.discarded], bounds, strict=True)
    ]
    keep = int(np.argmin(bounds))
    path.steps, path.discarded, path.reason, path.sentence = taken[:keep], taken[keep:], "certificate", sentence
    return path


def warn_if_astray(estimator: Any, loss: Loss, path: Path, criterion: Any) -> None:
    """ConvergenceWarning when a model does not do what its loss is for."""
    if not loss.convex:
        warn_if_flat(estimator, path, criterion)
    if not warn_if_unconverged(criterion) and loss.rounded is not None:
        warn_if_off_quantile(estimator, criterion)


def warn_if_unconverged(criterion: Any) -> bool:
    """ConvergenceWarning when the weights do not minimise the loss; returns whether it warned."""
    shares = criterion.unconverged()
    worst = int(np.argmax(shares))
    if shares[worst] <= _UNCONVERGED:
        return False
    whose = f" of column {worst} of y" if len(shares) > 1 else ""
    warn(
        f"the weights do not minimise the loss{whose}: the optimiser gave up, and another try lowers it by "
        f"{shares[worst]:.0%} of what it was without atoms. Take a larger alpha or fewer atoms",
        ConvergenceWarning,
    )
    return True


def warn_if_off_quantile(estimator: Any, criterion: Any) -> None:
    """ConvergenceWarning when the share of rows below the predictions is not the quantile."""
    off = float(max(criterion.imbalance(), key=abs))
    if abs(off) <= min(_OFF_QUANTILE, criterion.smaller_share() / 2):
        return
    if is_basic(estimator.variant):
        advice = "variant='basic' never fits a weight again. Take more steps, or variant='backfit'"
    elif not estimator.fit_intercept:
        advice = "take fit_intercept=True, or more atoms"
    else:
        advice = "y is too skewed for this loss. Take its logarithm or the like, which keeps quantiles in their order"
    warn(
        f"the share of training rows below the predictions is {abs(off):.2g} {'above' if off > 0 else 'below'} the "
        f"quantile that was asked for: {advice}",
        ConvergenceWarning,
    )


def warn_if_flat(estimator: Any, path: Path, criterion: Any) -> None:
    """ConvergenceWarning when a loss is flat at all values of a model that does not fit: its slope is no guide then.

    Also when it will become flat: "doom2" drives values up, and nothing keeps those of the basic variant small.
    """
    loss = estimator.loss
    if not path.steps or path.steps[-1].loss <= _FITTED * path.start.loss:
        return
    name = f"loss={loss!r}" if isinstance(loss, str) else "the loss"
    if criterion.flatness() < _FLAT:
        warn(
            f"{name} hardly changes any more with the values of the model, which have become too large: its slope no "
            "longer says which atoms would help. A larger alpha keeps them small; or take another loss: 'tanh' wants "
            "values near 1, 'log_loss' never becomes flat at a row that is wrong",
            ConvergenceWarning,
        )
    elif loss == "doom2" and is_basic(estimator.variant) and estimator.alpha == "auto":
        warn(
            f"{name} with variant='basic' has no ridge under alpha='auto', and values grow until the loss is flat: few "
            "rows then say which atoms would help. Give a number for alpha, such as 0.1, or take variant='backfit'",
            ConvergenceWarning,
        )
