"""Training rows in groups: whether there is something to rank, which groups are held out, how pairs bend."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from kernelpursuit.bounds import loss_bound, path_weights
from kernelpursuit.criteria.pairs import pairwise_logistic, pairwise_squared
from kernelpursuit.estimators.regression import random_split
from kernelpursuit.fitting.rules import cut_at
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.losses import Loss
from kernelpursuit.pursuit.loop import Path

PAIRWISE = {"squared": pairwise_squared, "logistic": pairwise_logistic}


def check_pairs(groups: np.ndarray) -> None:
    """An error where no group has two rows."""
    if len(np.unique(groups)) == len(groups):
        what = "a single row, n_samples=1" if len(groups) == 1 else f"{len(groups)} groups of one row each"
        raise ValueError(f"ranking needs a group with two rows of positive weight, got {what}")


def check_certifiable(groups: np.ndarray, limit: int | None, closed_form: bool) -> None:
    """Errors where no groups can be held out, or nothing says when to stop."""
    _, sizes = np.unique(groups, return_counts=True)
    if np.sum(sizes > 1) < 2:
        raise ValueError("stop='certificate' holds groups out and needs several with two rows or more, got one")
    if limit is None and not closed_form:
        raise ValueError("stop='certificate' needs a number for n_atoms with this loss or variant, got 'auto'")


def split_groups(
    data: TrainingData, groups: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to hold out: whole groups that have pairs, or rows if there is one such group."""
    found, sizes = np.unique(groups, return_counts=True)
    paired = found[sizes > 1]
    if len(paired) < 2:
        return random_split(data, share, rng)
    _, aside = train_test_split(paired, test_size=share, random_state=int(rng.integers(2**31)))
    held_out = np.isin(groups, aside)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def certified_order(path: Path, losses: np.ndarray) -> Path:
    """Path cut where `loss_bound` of its `losses` (numbers of steps, groups held out) is lowest."""
    bounds = loss_bound(losses, weight=path_weights(len(losses) - 1, preferred=len(path)))
    keep = int(np.argmin(bounds))
    found = f"it is {np.mean(losses[keep]):.3g} in {losses.shape[1]} groups held out"
    what = "with probability 95 % the mean share of wrongly ordered pairs in a group is below"
    return cut_at(path, bounds, f"{what} {bounds[keep]:.3g}: {found}")


def translated(ridge: float, loss: str, data: TrainingData, groups: np.ndarray, values: np.ndarray) -> float:
    """A ridge of the squared loss, translated for another loss by how much that bends along the fitted `values`."""
    y = data.y.astype(np.float64)
    bends = [
        curvature_along(PAIRWISE[name](groups, data.weights), y, values, data.weights) for name in (loss, "squared")
    ]
    return ridge * bends[0] / bends[1] if bends[1] > 0 else 0.0


def curvature_along(loss: Loss, targets: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> float:
    """How much a loss bends along the fitted `values`, by differences of slopes, as a share of their squared norm."""
    w = np.ones((len(values), 1)) if weights is None else weights[:, None]
    step = 1e-4
    slopes = [np.sum(w * loss.gradient(targets, (1 + h) * values) * values) for h in (step, -step)]
    return float((slopes[0] - slopes[1]) / (2 * step))
