"""Splits into training rows and held-out rows: at random, stratified, by groups, or for a certificate."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from kernelpursuit.fitting.training import TrainingData


def check_split(n: int, share: float) -> None:
    """Raise an error if `n` rows are too few to hold out a share of them."""
    if n - int(np.ceil(share * n)) < 1:
        raise ValueError(
            f"stop holds out share={share} of {n} rows, which leaves none to train on: give more rows, or n_atoms"
        )


def random_split(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows, at random."""
    check_split(len(data.y), share)
    seed = int(rng.integers(2**31))
    train, held_out = train_test_split(np.arange(len(data.y)), test_size=share, random_state=seed)
    return np.sort(train), np.sort(held_out)


def stratified_split(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows, stratified by class where all classes have enough rows."""
    check_split(len(data.y), share)
    seed = int(rng.integers(2**31))
    rows = np.arange(len(data.y))
    counts = np.unique(data.y, return_counts=True)[1]
    fewest = min(share, 1 - share) * len(rows)
    enough = data.y.ndim == 1 and counts.min() >= 2 and fewest >= len(counts)  # two dimensions: labels
    train, held_out = train_test_split(rows, test_size=share, random_state=seed, stratify=data.y if enough else None)
    return np.sort(train), np.sort(held_out)


def split_groups(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows: whole groups with pairs, or single rows if only one group has pairs."""
    found, sizes = np.unique(data.groups, return_counts=True)
    paired = found[sizes > 1]
    if len(paired) < 2:
        return random_split(data, share, rng)
    _, aside = train_test_split(paired, test_size=share, random_state=int(rng.integers(2**31)))
    held_out = np.isin(data.groups, aside)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def hold_out_rows(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows for a certificate: drawn independently, not stratified."""
    check_split(len(data.rows), share)
    order = rng.permutation(len(data.rows))
    size = int(np.ceil(share * len(order)))
    return np.sort(order[size:]), np.sort(order[:size])


def hold_out_groups(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out groups for a certificate."""
    _, sizes = np.unique(data.groups, return_counts=True)
    if np.sum(sizes > 1) < 2:
        raise ValueError("stop='certificate' holds groups out and needs several with two rows or more, got one")
    return split_groups(data, share, rng)
