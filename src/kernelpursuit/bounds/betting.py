"""A bound on the mean of a bounded loss, by a bet against every larger mean."""

from __future__ import annotations

import numpy as np

from kernelpursuit.bounds.numbers import Numbers, check_at_least, check_delta, decreasing_root

_MOST = 0.75  # share of what is owned that one row may cost


def loss_bound(losses: Numbers, delta: float = 0.05, *, weight: Numbers = 1.0) -> Numbers:
    """Mean loss of a model, from its losses, of 0 to 1, on rows that had no part in it.

    Suppose the mean is m. Then nobody gains in the mean by betting that the next loss is below m: what is owned after
    all rows, the product of ``1 + bet * (m - loss)``, has mean 1 at most, and exceeds ``1 / delta`` with probability at
    most delta. The bound is the largest m for which it does not. Bets are made as the losses so far suggest: the
    smaller their variance, the tighter the bound. Rows count in the order given, which must not depend on the losses.

    Parameters
    ----------
    losses : array of shape (..., n)
        Of one model or several: absolute errors over a largest one (clipped there), say, or shares of pairs of a group
        that are in the wrong order.
    delta : float
        Probability with which the bound may fail.
    weight : float or array of shape (...), default=1
        Share of `delta` of each model, as in `holdout_bound`.

    Returns
    -------
    float or array of shape (...)

    References
    ----------
    Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024).

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.tile([0.1, 0.2, 0.3], 50)
    >>> print(np.mean(losses).round(3), loss_bound(losses).round(3))
    0.2 0.225
    """
    check_delta(delta)
    losses = check_at_least(losses, 0, "losses")
    if np.ndim(losses) == 0 or np.shape(losses)[-1] == 0 or not np.all(losses <= 1):
        raise ValueError(f"losses must be numbers from 0 to 1, one for each row, got {losses!r}")
    weight = check_at_least(weight, 0, "weight")
    if not np.all(weight <= 1):
        raise ValueError(f"weight must be at most 1, got {weight!r}")
    with np.errstate(divide="ignore"):
        needed = -np.log(weight * delta)
    n = losses.shape[-1]
    count = np.arange(2, n + 2)
    mean = (0.5 + np.cumsum(losses, axis=-1)) / count
    variance = (0.25 + np.cumsum((losses - mean) ** 2, axis=-1)) / count
    before = np.concatenate([np.full((*losses.shape[:-1], 1), 0.25), variance[..., :-1]], axis=-1)
    bets = np.sqrt(2 * np.asarray(needed)[..., None] / (n * before))

    def lacks(m: Numbers) -> Numbers:
        m = np.asarray(m)[..., None]
        most = _MOST / np.maximum(1 - m, np.finfo(float).tiny)
        return needed - np.sum(np.log1p(np.minimum(bets, most) * (m - losses)), axis=-1)

    return decreasing_root(lacks, np.zeros(losses.shape[:-1]))
