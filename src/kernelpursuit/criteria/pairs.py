"""Losses of pairs of rows inside groups, written as losses of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kernelpursuit.arrays import Array, from_host, gather, namespace
from kernelpursuit.losses import LogLoss, Loss
from kernelpursuit.pursuit.groups import Groups

_AT_ONCE = 2**20  # pairs in memory


class RowLoss(Loss):
    """A loss of rows whose value and derivative depend on the other rows of their group: two functions of y and f."""

    def __init__(self, value: Callable, gradient: Callable):
        self._value, self._gradient = value, gradient

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row and target."""
        return self._value(y, f)

    def gradient(self, y: Array, f: Array) -> Array:
        """The derivative of the sum of `value` in f."""
        return self._gradient(y, f)


def pairwise_logistic(labels: np.ndarray, weights: np.ndarray | None = None) -> Loss:
    """Logistic loss of the differences inside groups: ``log(1 + exp(f_j - f_i))`` for each pair with y_i > y_j.

    In a group whose weights sum to W a pair counts ``w_i w_j / W``, as in the squared loss of pairs that `Squares` has
    with groups. Half of it is the loss of row i and half that of row j. The loss needs all rows, in their order. An
    evaluation takes as long as there are pairs, that is the sum of the squared sizes of the groups.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Group of each row.
    weights : ndarray of shape (n_samples,), optional
        Positive.

    Returns
    -------
    Loss

    Examples
    --------
    >>> import numpy as np
    >>> loss = pairwise_logistic(np.array([0, 0, 1]))
    >>> y, f = np.array([[1.0], [0.0], [5.0]]), np.zeros((3, 1))
    >>> print(loss.value(y, f).sum().round(4), loss.gradient(y, f)[:, 0])  # half of ln 2
    0.3466 [-0.25  0.25  0.  ]
    """
    groups = Groups(labels, weights, np.zeros((len(labels), 1)))
    w = np.ones(len(labels)) if weights is None else weights / np.max(weights)
    share = w / np.bincount(groups.of_row, weights=w)[groups.of_row]
    logistic = LogLoss()

    def value(sign: Array, difference: Array) -> Array:
        return 0.5 * sign * sign * logistic.value(sign, difference)

    return RowLoss(_over_pairs(groups, share, value), _over_pairs(groups, share, logistic.gradient))


def _over_pairs(groups: Groups, share: np.ndarray, of_pair: Callable[[Array, Array], Array]) -> Callable:
    """Function of targets and values, (n_samples, t), that sums a function of pairs.

    Row i gets the sum of ``share_j * of_pair(sign(y_i - y_j), f_i - f_j)`` over the rows j of its group.
    """
    order = np.arange(len(share)) if groups.order is None else groups.order
    back, share = np.argsort(order), share[order][:, None]

    def function(y: Array, f: Array) -> Array:
        xp, t = namespace(f), f.shape[1]
        y, f, parts, start = groups.ordered(y), groups.ordered(f), [], 0
        for count, size in groups.blocks:
            rows, shape = slice(start, start + count * size), (count, size, t)
            targets, values = xp.reshape(y[rows, :], shape), xp.reshape(f[rows, :], shape)
            weights = xp.reshape(from_host(share[rows], f), (count, 1, size, 1))
            out = xp.zeros_like(values)
            for some, part in _pieces(count, size, t):
                sign = xp.sign(targets[some, part, None, :] - targets[some, None, :, :])
                terms = of_pair(sign, values[some, part, None, :] - values[some, None, :, :])
                out[some, part, :] = xp.sum(weights[some, :, :, :] * terms, axis=2)
            parts.append(xp.reshape(out, (count * size, t)))
            start += count * size
        return gather(xp.concat(parts, axis=0), back)

    return function


def _pieces(count: int, size: int, t: int) -> Iterator[tuple[slice, slice]]:
    """Slices of `count` groups and of their `size` rows, with as many pairs as are in memory at once."""
    rows = max(1, _AT_ONCE // (size * t))
    for first in range(0, count, max(1, rows // size)):
        for start in range(0, size, min(rows, size)):
            yield slice(first, min(first + max(1, rows // size), count)), slice(start, min(start + rows, size))


def pairwise_squared(labels: np.ndarray, weights: np.ndarray | None = None) -> Loss:
    """Squared loss of the differences inside groups, as a loss of rows: what `Squares` minimises with groups.

    Parameters
    ----------
    labels, weights
        As in `pairwise_logistic`.

    Returns
    -------
    Loss

    Examples
    --------
    >>> import numpy as np
    >>> loss = pairwise_squared(np.array([0, 0, 1]))
    >>> loss.value(np.array([[1.0], [0.0], [5.0]]), np.zeros((3, 1)))[:, 0]
    array([0.25, 0.25, 0.  ])
    """

    def centred(y: Array, f: Array) -> Array:
        groups = Groups(labels, weights, f)
        root = 1.0 if weights is None else from_host(np.sqrt(weights / np.max(weights))[:, None], f)
        return groups.centre(root * (f - y)) / root

    return RowLoss(lambda y, f: centred(y, f) ** 2, lambda y, f: 2 * centred(y, f))
