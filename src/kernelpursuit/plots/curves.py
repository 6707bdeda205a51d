"""Bounds, and residual traces, against the number of atoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import numpy as np

from kernelpursuit.plots.drawing import (
    COLOURS,
    PURSUIT,
    STYLES,
    as_label,
    check_has,
    count_axis,
    figure_and_axes,
    legend,
    model_and_data,
)
from kernelpursuit.plots.path import measure_of, staged_errors

HEADROOM = 1.3  # how far above the trivial value bounds are drawn


class BoundDisplay:
    """Several bounds against the number of atoms, dotted where they are above their trivial value.

    Parameters
    ----------
    k : array-like of shape (n_numbers,)
        Numbers of atoms.
    curves : dict of str to array-like of shape (n_numbers,)
        Bounds.
    trivial : float, default=1.0
        Value from which on they say nothing.
    observed : array-like of shape (n_numbers,) or dict of these, optional
        What was measured on new data.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from kernelpursuit import BoundDisplay
    >>> from kernelpursuit.bounds import binomial_bound, vc_bound
    >>> k = np.arange(1, 30)
    >>> curves = {"VC": vc_bound(k, n=450, errors=0), "binomial": binomial_bound(k, n=450, errors=0)}
    >>> display = BoundDisplay(k, curves).plot()
    >>> len(display.informative("VC")) < len(display.informative("binomial"))
    True
    """

    def __init__(self, k: Any, curves: Mapping[str, Any], trivial: float = 1.0, observed: Any = None):
        self.k = k
        self.curves = curves
        self.trivial = trivial
        self.observed = observed

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        measure: Callable[[Any, Any], float] | None = None,
        ax: Any = None,
        yscale: str = "linear",
    ) -> BoundDisplay:
        """Draw the bound that a model was stopped by, with its errors on new data.

        Parameters
        ----------
        estimator : fitted estimator
            With ``stop="bound"`` or ``stop="certificate"``, or a pipeline that ends with one.
        X, y : array-like, optional
            New data: the error rate of a classifier; for regression the share of rows missed by more than the standard
            deviation of these y, which is close to what the bound speaks of; of `SparseKernelPCA` the mean squared
            distance to the span.
        measure : callable, optional
            ``measure(y, prediction)`` to draw instead. A ranker needs one, which knows the groups:
            ``lambda y, f: ranking.wrong_pairs(y, f, group).mean()``.
        ax : matplotlib Axes, optional
        yscale : {"linear", "log"}, default="linear"

        Returns
        -------
        BoundDisplay
        """
        estimator, X = model_and_data(estimator, X)
        check_has(estimator, "path_", PURSUIT)
        path = estimator.path_
        bound = np.array([step.bound for step in [path.start, *path.steps, *path.discarded]], dtype=np.float64)
        if np.all(np.isnan(bound)):
            raise ValueError("estimator must have been fitted with stop='bound' or stop='certificate' to have a bound")
        name = path.reason if path.reason in ("bound", "certificate") else "bound"
        observed = None if X is None else _new_errors(estimator, X, y, len(bound), measure)
        trivial = 1.0 if hasattr(estimator, "predict") else float(path.start.loss)
        return cls(np.arange(len(bound)), {name: bound}, trivial, observed).plot(ax, yscale=yscale)

    def informative(self, name: str) -> np.ndarray:
        """Numbers of atoms for which a bound is below its trivial value."""
        return np.asarray(self.k)[np.asarray(self.curves[name]) < self.trivial]

    def plot(self, ax: Any = None, *, yscale: str = "linear") -> BoundDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        yscale : {"linear", "log"}, default="linear"

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = figure_and_axes(ax)
        self.ax_.set_yscale(yscale)
        k = np.asarray(self.k)
        curves = {name: np.asarray(values, dtype=np.float64) for name, values in self.curves.items()}
        observed = self.observed if isinstance(self.observed, Mapping) else {"observed": self.observed}
        observed = {name: np.asarray(values) for name, values in observed.items() if values is not None}
        self.lines_ = {}
        for (name, values), style in zip(observed.items(), cycle(STYLES), strict=False):
            self.lines_[name] = self.ax_.plot(k, values, color="black", linestyle=style, label=as_label(name))[0]
        handles = list(self.lines_.values())
        view = HEADROOM * max(self.trivial, _largest(observed))
        for (name, values), colour in zip(curves.items(), cycle(COLOURS), strict=False):
            handles.append(self._draw_bound(name, k, values, colour, view))
        if _largest(curves) > self.trivial:
            self.ax_.axhline(self.trivial, color="0.6", linewidth=0.8, zorder=0)
            note = f"dotted: vacuous (above {self.trivial:.4g})"
            handles += self.ax_.plot([], [], color="0.4", linestyle=":", label=note)
            self.ax_.set_ylim(top=view, **({} if yscale == "log" else {"bottom": 0.0}))
        count_axis(self.ax_, "number of atoms")
        self.ax_.set_ylabel("bound")
        legend(self.ax_, handles, columns_below=2)
        return self

    def _draw_bound(self, name: str, k: np.ndarray, values: np.ndarray, colour: str, view: float) -> Any:
        """Draw a bound, dotted where it is vacuous; returns the line for the legend."""
        finite = values[np.isfinite(values)]
        low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
        remark = f" (up to {high:.3g})" if high > view else ""
        if low > self.trivial:
            remark = f" (vacuous, from {low:.3g} on)"
        label = as_label(name) + remark
        dotted = self.ax_.plot(k, values, color=colour, linestyle=":", linewidth=1.6, label=label)[0]
        informative = np.where(values <= self.trivial, values, np.nan)
        self.lines_[name] = self.ax_.plot(k, informative, color=colour, linewidth=1.8, label=label)[0]
        return self.lines_[name] if low <= self.trivial else dotted


def _largest(curves: Mapping[str, np.ndarray]) -> float:
    """Largest finite value of all curves, 0 if there is none."""
    return max((float(values[np.isfinite(values)].max(initial=0.0)) for values in curves.values()), default=0.0)


def _new_errors(estimator: Any, X: Any, y: Any, size: int, measure: Callable | None) -> dict[str, np.ndarray]:
    """Errors on new data that a bound is about, after 0, 1, ... steps; nan where the model does not go so far."""
    if hasattr(estimator, "residual"):
        known = {"mean squared distance": {len(estimator.path_): float(np.mean(np.asarray(estimator.residual(X))))}}
    else:
        name = "error rate" if hasattr(estimator, "classes_") else "missed by more than a standard deviation"
        name = name if measure is None else "error on new data"
        k, values = staged_errors(estimator, X, y, measure_of(estimator, measure, _missed))
        known = {name: dict(zip(k.tolist(), values.tolist(), strict=True))}
    return {name: np.array([values.get(k, np.nan) for k in range(size)]) for name, values in known.items()}


def _missed(y: Any, prediction: Any) -> float:
    """Share of rows that miss a target by more than its standard deviation."""
    residuals = (np.asarray(y, dtype=np.float64) - np.asarray(prediction)).reshape(len(y), -1)
    return float(np.mean(np.any(np.abs(residuals) > np.std(np.asarray(y).reshape(len(y), -1), axis=0), axis=1)))


class ResidualTraceDisplay:
    """Residual trace tr(K - K̃) of a kernel matrix beyond the span of the chosen points, on a logarithmic axis.

    Parameters
    ----------
    residual_trace : array-like of shape (k + 1,)
        Trace after 0, 1, ..., k points.
    name : str
    compare : dict of str to array-like, optional
        Residual traces of other choices, or the smallest possible ones: sums of eigenvalues.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from kernelpursuit import ResidualTraceDisplay, SparseKernelPCA
    >>> model = SparseKernelPCA(n_atoms=20).fit(load_iris().data)
    >>> display = ResidualTraceDisplay.from_estimator(model)
    >>> display.ax_.get_yscale(), len(display.residual_trace)
    ('log', 21)
    """

    def __init__(self, residual_trace: Any, *, name: str = "chosen points", compare: Mapping[str, Any] | None = None):
        self.residual_trace = residual_trace
        self.name = name
        self.compare = {} if compare is None else compare

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        name: str | None = None,
        compare: Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> ResidualTraceDisplay:
        """Draw `residual_trace_` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            With `residual_trace_`, or a pipeline that ends with one.
        X, y : object, optional
            Not used; here because all displays have them.
        name : str, optional
            Default: the class.
        compare : dict of str to array-like, optional
        ax : matplotlib Axes, optional

        Returns
        -------
        ResidualTraceDisplay
        """
        (estimator,) = model_and_data(estimator)
        check_has(estimator, "residual_trace_", "a fitted SparseKernelPCA or PursuitNystroem (`residual_trace_`)")
        name = type(estimator).__name__ if name is None else name
        return cls(estimator.residual_trace_, name=name, compare=compare).plot(ax)

    def plot(self, ax: Any = None) -> ResidualTraceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = figure_and_axes(ax)
        self.ax_.set_yscale("log")
        curves = {self.name: self.residual_trace, **self.compare}
        self.lines_ = {}
        for (name, trace), colour, style in zip(curves.items(), cycle(COLOURS), cycle(STYLES), strict=False):
            values = np.array(trace, dtype=np.float64)
            values[values <= 1e-15 * np.nanmax(values)] = np.nan  # rounding error; a logarithm has no zero
            steps = np.arange(len(values))
            self.lines_[name] = self.ax_.plot(steps, values, color=colour, linestyle=style, label=as_label(name))[0]
        count_axis(self.ax_, "number of atoms")
        self.ax_.set_ylabel("residual trace, tr(K − K̃)")
        legend(self.ax_, list(self.lines_.values()))
        return self
