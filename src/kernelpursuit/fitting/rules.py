"""Rules that choose the number of steps of kernel matching pursuit, and warnings about what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from kernelpursuit.arrays import from_host, in_double, namespace, to_host
from kernelpursuit.bounds import holdout_bound, loss_bound, path_weights, vc_bound
from kernelpursuit.criteria.pairs import pairwise_squared
from kernelpursuit.fitting.atom_family import AtomFamily
from kernelpursuit.fitting.fit_warnings import UNASKED, found_constant, warn_of_choice
from kernelpursuit.fitting.placement import widest
from kernelpursuit.fitting.training import TrainingData, row_counts, rows_counted, varying
from kernelpursuit.losses import LOSSES, Loss
from kernelpursuit.parameters import gcv, leave_one_group_out, leave_one_out
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
IsError = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
MOST_CHOSEN = 1000  # atoms that a rule may choose unasked: k of them on n rows take n k² operations, times `candidates`
ATOMS_A_CLASS = 2  # least number of atoms for each of several classes, if a rule chooses
EXPLAINED = 1e-10  # share of the loss without atoms at which nothing is left to explain


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

        fewest = ATOMS_A_CLASS * targets.shape[1]
        return [fewest_for_classes(error_rate, rows_counted(data), charge, patience, fewest)]

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
