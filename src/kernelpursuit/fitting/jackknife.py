"""Jackknife+ intervals: all leave-one-out models of a squared-loss fit in closed form."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelpursuit.arrays import gather, to_host
from kernelpursuit.atoms.threads import spans
from kernelpursuit.fitting.model import PursuitModel
from kernelpursuit.fitting.placement import widest
from kernelpursuit.parameters import is_basic

ENTRIES = 2**22  # of predictions by all models that are in memory at once


class LeftOut(NamedTuple):
    """A model and the n models that have the same atoms and weights fitted without one row each.

    With the columns of the atoms and the constant as A = QR the model without row i predicts ``f(x) - q(x)ᵀq_i e_i``,
    where ``q(x) = R⁻ᵀa(x)`` and ``e_i = r_i / (1 - |q_i|²)`` is the left-out residual. Rows with weights w are
    multiplied by their roots before A is factored, and q_i in the first formula once more.
    """

    model: PursuitModel
    R: np.ndarray  # (1 + k, 1 + k), or (k, k) without an intercept
    steps: np.ndarray  # (n, 1 + k): q_i e_i
    errors: np.ndarray  # (n,): |e_i|, more for atoms that were searched for

    @classmethod
    def of(cls, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None = None) -> LeftOut:
        """From a fitted model, or the best one of a search, and the rows that it was fitted to with their weights.

        Leaving a row out of the weights says nothing of the search for the atoms, which saw it. As in generalised
        cross-validation an atom is charged two degrees of freedom instead of one: errors are larger by
        ``(1 - (1 + k) / n) / (1 - (1 + 2 k) / n)``.
        """
        model = getattr(model, "best_estimator_", model)  # of a search
        roots = np.ones((len(y), 1)) if weights is None else np.sqrt(weights)[:, None]
        A, n = roots * kernel_columns(model, X), len(y)
        penalty = np.zeros((0, A.shape[1]))
        if model.alpha_:
            G = atom_products(model, X)
            values, vectors = np.linalg.eigh((G + G.T) / 2)
            root = np.sqrt(model.alpha_ * np.maximum(values, 0))[:, None] * vectors.T
            penalty = np.pad(root, [(0, 0), (int(model.fit_intercept), 0)])  # the constant has none
        Q, R = np.linalg.qr(np.concatenate([A, penalty]))
        Q = Q[:n]
        residuals = y.astype(np.float64) - to_host(model.predict(X))
        left = 1 - np.sum(Q**2, axis=1)
        with np.errstate(divide="ignore"):
            e = np.where(left > 1e-10, residuals / np.maximum(left, 1e-10), np.inf)  # an atom for this row alone
        spent = float(np.sum(1 - left))  # degrees of freedom, 1 + k without a penalty
        rest = n - 2 * spent + int(model.fit_intercept)
        inflation = (n - spent) / rest if rest > 0 else np.inf
        return cls(model, R, roots * Q * np.where(np.isfinite(e), e, 0.0)[:, None], np.abs(e) * inflation)

    def intervals(self, X: Any, coverage: float) -> np.ndarray:
        """Jackknife+ intervals, (n_rows, 2): quantiles of what all models predict less, and plus, their errors."""
        n = len(self.errors)
        share = Fraction(repr(float(coverage)))
        low, high = math.floor((n + 1) * (1 - share)), math.ceil((n + 1) * share)
        middle = to_host(self.model.predict(X)).astype(np.float64)
        q = solve_triangular(self.R, kernel_columns(self.model, X).T, trans="T").T
        out = np.tile([-np.inf, np.inf], (len(middle), 1))
        for rows in spans(0, len(middle), max(1, ENTRIES // n)) if low >= 1 else []:
            values = middle[rows, None] - q[rows] @ self.steps.T
            out[rows, 0] = np.partition(values - self.errors, low - 1, axis=1)[:, low - 1]
            out[rows, 1] = np.partition(values + self.errors, high - 1, axis=1)[:, high - 1]
        return out


def kernel_columns(model: PursuitModel, X: Any) -> np.ndarray:
    """Values of the constant, if there is one, and of the atoms at rows of X, on the host in float64."""
    values = to_host(model._expansion.columns(widest(X)))
    return np.column_stack([np.ones((len(values), int(model.fit_intercept))), values])


def atom_products(model: PursuitModel, X: Any) -> np.ndarray:
    """Inner products of the atoms under the ridge penalty; X are the rows that the model was fitted to.

    Atoms of different kernels are orthogonal, and so are columns of functions.
    """
    expansion = model._expansion
    if expansion.precomputed is not None:
        return to_host(gather(gather(X, expansion.precomputed), expansion.precomputed, axis=1))
    out = np.eye(len(expansion.sources))
    for source in np.unique(expansion.sources[expansion.sources >= 0]):
        mine = np.flatnonzero(expansion.sources == source)
        some = expansion.subset(mine)
        out[np.ix_(mine, mine)] = to_host(some.columns(some.centers))
    return out


def check_leaves_out(model: Any, asked: str) -> None:
    """Refuse models whose left-out residuals have no closed form; `asked` is the parameter that needs them."""
    if hasattr(model, "estimator") and hasattr(model, "cv"):  # a search
        model = model.estimator
    known = isinstance(model, PursuitModel) and hasattr(model, "alpha")
    if not known or getattr(model, "loss", "") != "squared_error" or is_basic(model.variant):
        raise ValueError(
            f"{asked} needs left-out residuals in closed form, which KMPRegressor "
            f"has with loss='squared_error' and variant 'prefit' or 'backfit'; got {model!r}"
        )
    if getattr(model, "stop", None) == "certificate":
        raise ValueError(f"{asked} needs a model of all rows, which stop='certificate' does not give")
