"""Fisher discriminants of all rows but one, and their values at the row left out, for all rows at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelpursuit.math.discriminants import Discriminants, class_codes

_DETERMINED = 1e-8  # share of a row's weight left to the others below which the scatter stays as it is


def left_out_values(
    found: Discriminants,
    Z: np.ndarray,
    index: np.ndarray,
    labels: str,
    weights: np.ndarray | None,
    counts: np.ndarray | None,
    sizes: list[int],
    unit: float = 1.0,
    class_sizes: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Values f(x_i), or f_c(x_i) for each class, of the discriminants that were made without row i.

    In coordinates of unit scatter a row z of class c, which lies d = z - μ_c from its mean, leaves with share s of the
    n_c rows of its class. Then μ_c becomes μ_c - d s/(n_c - s), and the scatter I - β d dᵀ with β = h s/(n_c - s); its
    inverse is I + d dᵀ β/(1 - β|d|²). The weight h/n_c that the class has in the scatter stays.

    Parameters
    ----------
    found : Discriminants
    Z : ndarray of shape (n, k)
        Coordinates of the rows: columns of the atoms times ``found.axes``.
    index : ndarray of int, shape (n,)
        Class of each row.
    labels : {"centred", "raw"}
    weights : ndarray of shape (n,), optional
    counts : ndarray of shape (n,), optional
        How many rows each stands for, of which one leaves; all of it where that is less than one.
    sizes : list of int
        Numbers of atoms, each a model of its own.
    unit : float
        Number by which the weights were divided when the discriminants were made.
    class_sizes : ndarray of shape (n_classes,), optional
        Of all rows, in that unit, where these are only some of them.

    Yields
    ------
    ndarray of shape (n, 1) for two classes, else (n, n_classes)
    """
    n = len(Z)
    w = np.ones(n) if weights is None else weights
    n_c = np.bincount(index, weights=w) / unit if class_sizes is None else class_sizes
    n_classes, harmonic = len(n_c), len(n_c) / np.sum(1 / n_c)
    share = w / (1.0 if counts is None else np.maximum(counts, 1)) / unit
    rest = n_c[index] - share
    moved = np.where(rest > 0, share / np.where(rest > 0, rest, 1), 0.0)[:, None]  # s / (n_c - s)
    D = Z - found.means[index]
    centre = found.means.mean(axis=0) - D * moved / n_classes
    gap = 1 - harmonic * moved * np.cumsum(D * D, axis=1)
    spread = np.where(gap > _DETERMINED, harmonic * moved / np.where(gap > _DETERMINED, gap, 1), 0.0)
    codes = class_codes(index, labels, sizes=n_c)
    values = []
    for column in range(codes.shape[1]):
        own = column if n_classes > 2 else 1
        mean = found.means[own] - D * (moved * (index == own)[:, None])
        middle = (mean + centre) / 2 if n_classes > 2 else centre
        if labels == "raw":
            weight = found.codes[:, column] - (share * codes[:, column])[:, None] * Z
        else:
            weight = 2 * harmonic * (mean - centre) / (np.sqrt(2) if n_classes > 2 else 1)
        direct = np.cumsum(weight * (Z - middle), axis=1)
        turned = np.cumsum(D * weight, axis=1) * np.cumsum(D * (Z - middle), axis=1)
        values.append((direct + spread * turned) / (np.sqrt(2) if n_classes > 2 else 1))
    for size in sizes:
        yield np.column_stack([one[:, size - 1] if size else np.zeros(n) for one in values])
