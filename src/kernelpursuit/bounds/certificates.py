"""Certificates: bounds on the error rate or the mean loss of one given model, tight enough to be quoted.

Rows that had no part in a model test it exactly (`holdout_bound`); the other bounds show the price of having none.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, xlog1py, xlogy

from kernelpursuit.bounds.numbers import (
    Numbers,
    binomial_upper_limit,
    check_at_least,
    check_delta,
    check_error_counts,
    check_whole,
    decreasing_root,
    log_binomial,
    log_failure,
    log_sum,
)

MOST_AT_STAKE = 0.75  # share of the wealth that one bet may lose


def holdout_bound(errors: Numbers, n: Numbers, delta: float = 0.05, *, weight: Numbers = 1.0) -> Numbers:
    """Error rate of a model that makes `errors` errors on `n` rows that had no part in it.

    The largest p for which ``Bin(n, p) <= errors`` has probability at least ``weight * delta``. No inequality is used.

    Parameters
    ----------
    errors, n : int or array
    delta : float
        Probability with which the bound may fail.
    weight : float or array, default=1
        Share of `delta` that this model has. The bounds of several models, all made without these rows, hold at once if
        their weights, fixed without these rows too, sum to 1: see `path_weights`. One of them may then be chosen.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(holdout_bound(8, 80).round(3), holdout_bound(8, 80, weight=0.5).round(3))
    0.173 0.188
    """
    n = check_at_least(check_whole(n, "n", "rows"), 1, "n")
    return binomial_upper_limit(check_error_counts(errors, n, "errors", "the rows"), n, log_failure(delta, weight))


def loss_bound(losses: Numbers, delta: float = 0.05, *, weight: Numbers = 1.0) -> Numbers:
    """Mean loss of a model, from its losses, of 0 to 1, on rows that had no part in it.

    Suppose the mean is m. Then bets that the next loss is below m gain nothing in the mean: the wealth after all rows,
    the product of ``1 + bet * (m - loss)``, has mean 1 at most, and exceeds ``1 / delta`` with probability at most
    delta. The bound is the largest m for which it does not. Bets are made as the losses so far suggest: the
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
    needed = -log_failure(delta, weight)
    losses = check_at_least(losses, 0, "losses")
    if np.ndim(losses) == 0 or np.shape(losses)[-1] == 0 or not np.all(losses <= 1):
        raise ValueError(f"losses must be numbers from 0 to 1, one for each row, got {losses!r}")
    n = losses.shape[-1]
    count = np.arange(2, n + 2)
    mean = (0.5 + np.cumsum(losses, axis=-1)) / count
    variance = (0.25 + np.cumsum((losses - mean) ** 2, axis=-1)) / count
    before = np.concatenate([np.full((*losses.shape[:-1], 1), 0.25), variance[..., :-1]], axis=-1)
    bets = np.sqrt(2 * np.asarray(needed)[..., None] / (n * before))

    def lacks(m: Numbers) -> Numbers:
        m = np.asarray(m)[..., None]
        most = MOST_AT_STAKE / np.maximum(1 - m, np.finfo(float).tiny)
        return needed - np.sum(np.log1p(np.minimum(bets, most) * (m - losses)), axis=-1)

    return decreasing_root(lacks, np.zeros(losses.shape[:-1]))


def path_weights(steps: int, preferred: int, share: float = 0.9) -> np.ndarray:
    """Weights of the models with 0, 1, ..., `steps` atoms: `share` for the `preferred` one, the rest evenly.

    A number of atoms that the training rows suggest needs no other rows to be found: it can have most of the weight,
    and its bound is hardly larger than if there were no other. Another one is chosen where it is clearly better.

    Examples
    --------
    >>> path_weights(4, preferred=2)
    array([0.025, 0.025, 0.9  , 0.025, 0.025])
    """
    if not 0 <= preferred <= steps:
        raise ValueError(f"preferred must be from 0 to {steps}, got {preferred!r}")
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share!r}")
    if steps == 0:
        return np.ones(1)
    weights = np.full(steps + 1, (1 - share) / steps)
    weights[preferred] = share
    return weights


def cross_bound(errors: Numbers, sizes: Numbers, delta: float = 0.05) -> float:
    """Error rate of a model drawn anew for each row from those of a cross-validation: no row is lost.

    The mean over the folds of ``holdout_bound(errors, sizes, delta / folds)``. It is not a statement about the model
    that is fitted to all rows, nor about a vote: the error rate of a vote may be twice the mean.

    Parameters
    ----------
    errors, sizes : array of shape (folds,)
        Errors of each model on the rows of its fold, and how many rows there are: one number where all have as many.
    delta : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(cross_bound([10, 8, 9, 13], [100, 100, 100, 100]), 3)
    0.187
    """
    errors, sizes = np.atleast_1d(errors), np.asarray(sizes)
    if len(errors) == 0 or (sizes.ndim and sizes.shape != errors.shape):
        raise ValueError(
            "errors and sizes must have a number for each fold, one fold or more; "
            f"got {len(errors)} errors and {sizes.size} sizes"
        )
    return float(np.mean(holdout_bound(errors, sizes, delta, weight=1 / len(errors))))


def pac_bayes_bound(gibbs: Numbers, divergence: Numbers, n: Numbers, delta: float = 0.05) -> Numbers:
    """Error rate of a randomised model: the PAC-Bayes-kl bound.

    The largest p with ``kl(gibbs, p) <= (divergence + ln(C / delta)) / n``, where kl is the divergence of two coins and
    C, between sqrt(n) and 2 sqrt(n), is the sum of the probabilities that Bin(n, i / n) is i.

    Parameters
    ----------
    gibbs : float or array
        Mean error rate of the models of the posterior on `n` rows: see `gibbs_error`.
    divergence : float or array
        Kullback-Leibler divergence of the posterior from a prior that these rows had no part in: for Gaussians of equal
        covariance with standard deviation s, ``|change|² / (2 s²)``.
    n : int or array
    delta : float

    Returns
    -------
    float or array

    Notes
    -----
    For the model in the middle of a Gaussian posterior there are two ways. It errs where half of the posterior does: 2
    times the bound. Or ``pac_bayes_bound(gibbs_error(margins, scale, shift), ...) / Φ(shift)``: where it errs, a share
    Φ(shift) of the posterior has a margin below `shift`.

    References
    ----------
    Seeger, JMLR 3 (2002); Maurer, A note on the PAC-Bayesian theorem (2004).

    Examples
    --------
    >>> print(pac_bayes_bound(0.1, 2.0, 1000).round(3))
    0.144
    """
    check_delta(delta)
    n = check_at_least(check_whole(n, "n", "rows"), 1, "n")
    gibbs, divergence = check_at_least(gibbs, 0, "gibbs"), check_at_least(divergence, 0, "divergence")
    if not np.all(gibbs <= 1):
        raise ValueError(f"gibbs must be an error rate, at most 1, got {gibbs!r}")
    budget = (divergence + np.vectorize(_log_maurer, otypes=[np.float64])(n) - np.log(delta)) / n
    return decreasing_root(lambda p: budget - coin_divergence(gibbs, p), gibbs)


def drawn_bound(errors: Numbers, log_ratio: Numbers, n: Numbers, delta: float = 0.05, *, nats: float = 1.0) -> Numbers:
    """Error rate of one model drawn from a posterior.

    A coin of probability p is tested against the coin q < p by the likelihood ratio of the errors, whose mean is 1 if p
    is true. The bound is the largest p with ``ln ratio <= ln(1 / delta) + log_ratio``, and q is the coin with
    ``n kl(q, p) = ln(1 / delta) + nats``.

    Parameters
    ----------
    errors, n : int or array
        Errors of the model that was drawn, on `n` rows that the prior had no part in.
    log_ratio : float or array
        Logarithm of the density of the posterior over that of the prior, at the model drawn.
    delta : float
    nats : float, default=1
        What `log_ratio` is expected to be; fixed beforehand.

    Returns
    -------
    float or array

    Examples
    --------
    >>> print(drawn_bound(100, 1.0, 1000).round(3))
    0.129
    """
    check_delta(delta)
    n = check_at_least(check_whole(n, "n", "rows"), 1, "n")
    errors, right = check_error_counts(errors, n, "errors", "the rows"), check_at_least(nats, 0, "nats") - np.log(delta)

    def slack(p: Numbers) -> Numbers:
        return np.asarray(log_ratio) - np.log(delta) - log_likelihood_ratio(errors, n, p, right)

    return decreasing_root(slack, errors / n)


def log_likelihood_ratio(errors: Numbers, n: Numbers, p: Numbers, nats: Numbers) -> Numbers:
    """Logarithm of the likelihood of the coin q < p over that of p, with ``n kl(q, p) = nats``; q = 0 if none is."""
    p = np.minimum(p, np.nextafter(1, 0))
    q = 1 - decreasing_root(lambda r: nats / n - coin_divergence(r, 1 - p), 1 - p)  # r and 1 - p: the other side
    return xlogy(errors, q) - xlogy(errors, p) + xlog1py(n - errors, -q) - xlog1py(n - errors, -p)


def gibbs_error(margins: Numbers, scale: float, shift: float = 0.0) -> float:
    """Mean error rate of linear models whose weights are normal with standard deviation `scale` in each direction.

    ``mean Φ(shift - margin / scale)``, exactly.

    Parameters
    ----------
    margins : array of shape (n_samples,)
        ``y f(x) / |φ(x)|`` with y of -1 or 1, f the model in the middle and φ the features its weights belong to.
    scale : float
    shift : float, default=0
        Count a model as wrong where its margin is below ``shift * scale``.

    Examples
    --------
    >>> round(gibbs_error([2.0, -1.0], scale=1.0), 3)
    0.432
    """
    if not scale > 0:
        raise ValueError(f"scale must be above 0, got {scale!r}")
    return float(np.mean(ndtr(shift - np.asarray(margins, dtype=np.float64) / scale)))


def stability_bound(left_out: Numbers, n: Numbers, change: Numbers, delta: float = 0.05) -> Numbers:
    """Error rate by the leave-one-out error and the stability of the method.

    ``left_out + sqrt((1 + 6 n change) / (2 n delta))``, from Chebyshev's inequality.

    Parameters
    ----------
    left_out : float or array
        Leave-one-out error rate.
    n : int or array
    change : float or array
        Probability that leaving a row out changes the prediction at a new one: a property of the distribution, which
        unknown from the training rows. With 0 the bound is lowest.
    delta : float

    References
    ----------
    Bousquet and Elisseeff, Stability and generalization, JMLR 2 (2002), theorem 11.

    Examples
    --------
    >>> print(stability_bound(0.1, 1000, 0.0).round(3))
    0.2
    """
    check_delta(delta)
    n, change = check_at_least(check_whole(n, "n", "rows"), 1, "n"), check_at_least(change, 0, "change")
    return check_at_least(left_out, 0, "left_out") + np.sqrt((1 + 6 * n * change) / (2 * n * delta))


def coin_divergence(q: Numbers, p: Numbers) -> Numbers:
    """Divergence of a coin of probability `q` from one of probability `p`, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return xlogy(q, q) - xlogy(q, p) + xlog1py(1 - q, -q) - xlog1py(1 - q, -p)


def _log_maurer(n: float) -> float:
    """Logarithm of the sum over i of the probability that Bin(n, i / n) is i."""
    i = np.arange(int(n) + 1)
    return log_sum(log_binomial(n, i) + xlogy(i, i / n) + xlog1py(n - i, -i / n))
