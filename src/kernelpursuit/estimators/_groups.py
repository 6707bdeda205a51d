"""Training rows in groups: whether there is something to rank, which groups are held out, how pairs bend."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from kernelpursuit.estimators._training import TrainingData
from kernelpursuit.estimators.regression import random_split
from kernelpursuit.losses import Loss
from kernelpursuit.pursuit.pairs import pairwise_logistic, pairwise_squared

PAIRWISE = {"squared": pairwise_squared, "logistic": pairwise_logistic}


def check_pairs(groups: np.ndarray) -> None:
    """An error where no group has two rows."""
    if len(np.unique(groups)) == len(groups):
        what = "a single row, n_samples=1" if len(groups) == 1 else f"{len(groups)} groups of one row each"
        raise ValueError(f"ranking needs a group with two rows of positive weight, got {what}")


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


def curvature_along(loss: Loss, targets: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> float:
    """How much a loss bends along the fitted `values`, by differences of slopes, as a share of their squared norm."""
    w = np.ones((len(values), 1)) if weights is None else weights[:, None]
    step = 1e-4
    slopes = [np.sum(w * loss.gradient(targets, (1 + h) * values) * values) for h in (step, -step)]
    return float((slopes[0] - slopes[1]) / (2 * step))
