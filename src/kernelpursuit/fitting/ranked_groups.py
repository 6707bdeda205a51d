"""Rows that are ranked inside groups: whether there are pairs, their loss, certificates of their order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kernelpursuit.bounds import loss_bound, path_weights
from kernelpursuit.criteria.pairs import pairwise_logistic
from kernelpursuit.fitting.rules import cut_at
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.losses import Loss
from kernelpursuit.pursuit.loop import Path
from kernelpursuit.ranking import group_sizes, wrong_pairs


def check_pairs(groups: np.ndarray) -> None:
    """An error where no group has two rows."""
    if len(np.unique(groups)) == len(groups):
        what = "a single row, n_samples=1" if len(groups) == 1 else f"{len(groups)} groups of one row each"
        raise ValueError(f"ranking needs a group with two rows of positive weight, got {what}")


def ranking_loss(data: TrainingData, loss: str) -> Loss | None:
    """Loss of the pairs of rows behind the parameter; None is the squared one, which has a criterion of its own."""
    return None if loss == "squared_error" else pairwise_logistic(data.groups, data.weights)


def certified_order(path: Path, held_out: TrainingData, values: Iterable[np.ndarray]) -> Path:
    """Path cut where `loss_bound` is lowest, of the shares of wrong pairs in each group held out.

    `values` are those of the rows held out after 0, 1, ... steps.
    """
    sizes, y = group_sizes(held_out.groups), held_out.y[:, 0]
    losses = np.array([wrong_pairs(y, scores[:, 0], sizes) for scores in values])
    bounds = loss_bound(losses, weight=path_weights(len(losses) - 1, preferred=len(path)))
    keep = int(np.argmin(bounds))
    found = f"it is {np.mean(losses[keep]):.3g} in {losses.shape[1]} groups held out"
    what = "with probability 95 % the mean share of wrongly ordered pairs in a group is below"
    return cut_at(path, bounds, f"{what} {bounds[keep]:.3g}: {found}")
