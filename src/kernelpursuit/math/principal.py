"""Principal component analysis of features."""

from __future__ import annotations

import numpy as np

from kernelpursuit.arrays import Array, column_means, namespace, to_host


def principal_axes(
    features: Array, n_components: int | None, weights: Array | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, principal axes (columns) and eigenvalues, largest first, of the scatter matrix of `features`.

    Rows may have `weights`. The sign of an axis is such that the row farthest along it has a positive coordinate, as in
    `KernelPCA`. Eigenvalues below 1e-12 of the largest count as zero. Their axes are left out unless `n_components`
    asks for them, but one axis always stays.

    Examples
    --------
    >>> import numpy as np
    >>> mean, axes, values = principal_axes(np.array([[0.0, 1.0], [4.0, 1.0]]), None)
    >>> mean, values
    (array([2., 1.]), array([8.]))
    """
    mean = column_means(features, weights)
    centred = features - mean
    weighted = centred if weights is None else weights[:, None] * centred
    values, axes = np.linalg.eigh(to_host(weighted.T @ centred))
    values, axes = np.maximum(values[::-1], 0), axes[:, ::-1]
    values[values < 1e-12 * values[0]] = 0
    kept = max(1, int(np.sum(values > 0))) if n_components is None else min(n_components, len(values))
    values, axes = values[:kept], axes[:, :kept]
    scores = centred @ axes
    return mean, axes * np.where(farthest_is_negative(scores), -1.0, 1.0), values


def farthest_is_negative(scores: Array) -> np.ndarray:
    """Whether the row farthest from 0 is negative, for each column."""
    if isinstance(scores, np.ndarray):
        return scores[np.argmax(np.abs(scores), axis=0), np.arange(scores.shape[1])] < 0
    xp = namespace(scores)
    highest, lowest = xp.max(scores, axis=0), xp.min(scores, axis=0)
    return -to_host(lowest) > to_host(highest)
