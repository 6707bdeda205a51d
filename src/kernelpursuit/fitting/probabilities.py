"""Probabilities of classifiers by calibration, preferably of leave-one-out decision values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, namespace, to_host
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.fitting.orthogonal import OrthogonalFit
from kernelpursuit.fitting.training import TrainingData, row_counts
from kernelpursuit.math.calibration import Calibration, fit_slope, within_range
from kernelpursuit.math.discriminants import Discriminants, left_out_values
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.pursuit.loop import Path
from kernelpursuit.pursuit.row_weights import unit_of_weights

Values = tuple[Any, ...]  # decision values without the row, and with it


def sizes_to_calibrate(path: Path) -> list[int]:
    """Numbers of steps to calibrate: two for each doubling, the number kept and the last."""
    taken = len(path) + len(path.discarded)
    grid = {round(2 ** (power / 2)) for power in range(2 * taken.bit_length())}
    return sorted({0, len(path), taken} | {size for size in grid if size <= taken})


def calibrated_left_out(
    fit: OrthogonalFit, path: Path, targets: np.ndarray, data: TrainingData, one_vs_rest: bool
) -> Calibration:
    """Calibration by leave-one-out decision values, in closed form.

    `targets` are ±1, one column for each class, or, `one_vs_rest`, for each of the labels that a row may have.
    """
    sizes = sizes_to_calibrate(path)
    here = data.source.sample
    targets = to_host(here(targets))
    values = (tuple(targets - to_host(here(one)) for one in residuals) for residuals in fit.residuals(set(sizes)))
    return calibrated(sizes, values, targets, *weights_and_counts(data, here), one_vs_rest)


def calibrated_seen(
    expansion: Expansion, weights: Any, path: Path, targets: np.ndarray, data: TrainingData, one_vs_rest: bool
) -> Calibration:
    """Calibration by decision values at the training rows, where there is no closed form: somewhat overconfident."""
    sizes = sizes_to_calibrate(path)
    wanted = set(sizes)
    stages = [coef for k, coef in enumerate(weights) if k in wanted]
    here = data.source.sample
    values = ((one, one) for one in map(to_host, expansion.staged(here(data.X), stages)))
    return calibrated(sizes, values, here(targets), *weights_and_counts(data, here), one_vs_rest)


def weights_and_counts(data: TrainingData, here: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Weights of the rows and how many rows each stands for; None without weights. `here` brings arrays to the host."""
    if data.weights is None:
        return None, None
    return to_host(here(data.weights)), to_host(here(row_counts(data)))


def calibrated(
    sizes: list[int],
    values: Iterable[Values],
    targets: np.ndarray,
    weights: np.ndarray | None,
    counts: np.ndarray | None,
    one_vs_rest: bool,
) -> Calibration:
    """Calibration with one slope for each size, which keeps the order of the classes; `one_vs_rest`: one a label."""
    if one_vs_rest:
        classes = (targets > 0).astype(np.intp)
        found = [
            [
                slope_and_limit((left[:, [j]], seen[:, [j]]), classes[:, j], weights, counts)
                for j in range(targets.shape[1])
            ]
            for left, seen in values
        ]
        slopes, limits = np.moveaxis(np.array(found), -1, 0)
        return Calibration(np.array(sizes), slopes, np.zeros((len(sizes), targets.shape[1])), limits)
    if targets.shape[1] == 1:
        index = (targets[:, 0] > 0).astype(np.intp)
    else:
        index = np.argmax(targets, axis=1)
    return calibration_of(sizes, values, index, weights, counts)


def calibrated_discriminants(
    found: Discriminants,
    path_weights: WeightPath,
    expansion: Expansion,
    path: Path,
    index: Any,
    labels: str,
    data: TrainingData,
    class_sizes: np.ndarray,
    each: bool = False,
) -> Calibration:
    """Calibration by leave-one-out values of discriminants, all classes having equal weight.

    `path_weights` are the weights of `found`, `index` is the class of each row, and `class_sizes` are the classes'
    total weights in the unit of weights. `each`: for every number of atoms, not only for some.
    """
    here, sizes = data.source.sample, list(range(len(path_weights) + 1)) if each else sizes_to_calibrate(path)
    unit = 1.0 if data.weights is None else unit_of_weights(data.weights)
    weights, counts = weights_and_counts(data, here)
    index = here(index)
    seen = to_host(expansion.columns(here(data.X))) @ found.axes
    left_out = left_out_values(found, seen, index, labels, weights, counts, sizes, unit, class_sizes)
    lengths, constants = path_weights.lengths, np.cumsum(path_weights.constants, axis=0)
    values = (
        (one, seen[:, :size] @ lengths[:size] + constants[size]) for size, one in zip(sizes, left_out, strict=True)
    )
    share = class_sizes.sum() / (len(class_sizes) * class_sizes)
    return calibration_of(sizes, values, index, (1.0 if counts is None else counts) * share[index])


def calibration_of(
    sizes: list[int],
    values: Iterable[Values],
    index: np.ndarray,
    weights: np.ndarray | None,
    counts: np.ndarray | None = None,
) -> Calibration:
    """Calibration with slope and limit fitted for each size."""
    slopes, limits = np.array([slope_and_limit(one, index, weights, counts) for one in values]).T
    return Calibration(np.array(sizes), slopes, np.zeros((len(sizes), int(np.max(index)) + 1)), limits)


def slope_and_limit(
    values: Values, index: np.ndarray, weights: np.ndarray | None, counts: np.ndarray | None
) -> tuple[float, float]:
    """Slope fitted to leave-one-out decision values, and the largest log-odds that it gives to the training rows.

    `values` are decision values without the row and with it, (n, n_values) each.
    """
    left_out, seen = values
    slope = fit_slope(opposed(within_range(left_out, seen)), index, weights, counts)
    return slope, slope * float(np.max(np.ptp(opposed(seen), axis=1)))


def opposed(values: Array) -> Array:
    """Decision values of each class, (n, n_classes); for two classes minus and plus half of the single value."""
    return namespace(values).concat([-values, values], axis=1) / 2 if values.shape[1] == 1 else values


def log_softmax(logits: Array) -> Array:
    """Log-probabilities from log-odds, exact in the tails."""
    xp = namespace(logits)
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    return logits - xp.log(xp.sum(xp.exp(logits), axis=1, keepdims=True))
