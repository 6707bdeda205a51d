"""Axes, colours, labels and bounds (their vacuous part is marked) of all pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle
from typing import Any

import numpy as np

PURSUIT = "a fitted pursuit, which has a path of steps (`path_`)"
Curve = tuple[np.ndarray, np.ndarray]  # numbers of atoms, and a value for each

# Told apart by all common kinds of colour vision (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A")
# One colour a method in all pictures of the project.
METHOD_COLOURS = {
    "KMP": "#0072B2",
    "KMP, varied": "#003F66",
    "refined KMP": "#009E73",
    "SVM": "#D55E00",
    "boosting": "#E69F00",
    "Nyström": "#CC79A7",
    "kernel ridge": "#8C510A",
    "Gaussian process": "#56B4E9",
    "network": "#666666",
    "kernel Fisher": "#222222",
    "polytope faces": "#7B4FA3",
    "polytope faces, varied": "#B79AD0",
    "LARS": "#8F8F00",
}
PALE = ("#CFE5F2", "#FADFCC", "#CDEBE1", "#F6E4EE", "#FBEBCC", "#E4F3FB", "#EBDCC9")
STYLES = ("-", "--", "-.", ":")
HEADROOM = 1.3  # how far above the trivial value bounds are drawn


def figure_and_axes(ax: Any) -> tuple[Any, Any]:
    """The axes given and their figure, or new ones."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'kernelpursuit[plot]'") from error
    if ax is None:
        return plt.subplots(layout="constrained")
    return ax.figure, ax


def model_and_data(estimator: Any, *data: Any) -> tuple[Any, ...]:
    """The model itself, out of a search or the end of a pipeline, and data as it sees them.

    What a scaler made of X, say; None stays None.
    """
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not hasattr(estimator, "named_steps"):
        return estimator, *data
    last = estimator.steps[-1][1]
    if len(estimator.steps) > 1:
        data = tuple(None if X is None else estimator[:-1].transform(X) for X in data)
    return model_and_data(last, *data)


def check_has(estimator: Any, attribute: str, what: str) -> None:
    """Refuse a model that is not fitted, or that is not one of `what`, which have this attribute."""
    if hasattr(estimator, attribute):
        return
    is_fitted = any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))
    if not is_fitted:  # its own error says so
        (estimator.predict if hasattr(estimator, "predict") else estimator.transform)(np.zeros((1, 1)))
    raise TypeError(f"estimator must be {what}, got {type(estimator).__name__}")


def scale_for(curves: Iterable[Curve]) -> str:
    """Logarithmic where positive values span more than a decade: on a linear axis the lower ones would be one line."""
    values = np.concatenate([np.empty(0), *(v[np.isfinite(v)] for _, v in curves)])
    return "log" if len(values) and values.min() > 0 and values.max() > 10 * values.min() else "linear"


def as_label(name: Any) -> str:
    r"""Label that matplotlib shows as it is: no formula between dollar signs, not hidden for a leading underscore.

    Examples
    --------
    >>> as_label("price_$"), as_label("_x")
    ('price_\\$', ' _x')
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def colours() -> Iterator[str]:
    """The colours, again and again."""
    return cycle(COLOURS)


def count_axis(ax: Any, label: str) -> None:
    """Horizontal axis of whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel(label)


def largest_value(curves: Iterable[Curve]) -> float:
    """Largest finite value of all curves, 0 if there is none."""
    return max((float(np.max(v[np.isfinite(v)], initial=0.0)) for _, v in curves), default=0.0)


def draw_bounds(
    ax: Any, bounds: Mapping[str, Curve], trivial: float | None, palette: Iterator[str], top: float
) -> tuple[dict[str, Any], list[Any]]:
    """Draw bounds, dotted above `trivial`; the view ends a little above that and `top`, the labels say what is beyond.

    Returns
    -------
    lines : dict of str to Line2D
        The part of each bound that says something.
    handles : list of artists
        For the legend.
    """
    from matplotlib.lines import Line2D

    limit = np.inf if trivial is None else trivial
    view = HEADROOM * max(limit, top)
    lines, handles = {}, []
    for name, (k, values) in bounds.items():
        colour = next(palette)
        low, high = values[np.isfinite(values)].min(initial=np.inf), values[np.isfinite(values)].max(initial=-np.inf)
        ax.plot(k, values, color=colour, linestyle=":", linewidth=1.6, label="_vacuous")
        label = f"{as_label(name)} {_remark(low, high, limit, view)}".rstrip()
        informative = np.where(values <= limit, values, np.nan)
        lines[name] = ax.plot(k, informative, color=colour, linewidth=1.8, label=label)[0]
        handles.append(lines[name] if low <= limit else Line2D([], [], color=colour, linestyle=":", label=label))
    if largest_value(bounds.values()) > limit:
        ax.axhline(limit, color="0.6", linewidth=0.8, zorder=0)
        note = f"dotted: vacuous (above {limit:.4g})"
        handles.append(Line2D([], [], color="0.4", linestyle=":", label=note))
        ax.set_ylim(top=view, **({} if ax.get_yscale() == "log" else {"bottom": 0.0}))
    return lines, handles


def _remark(low: float, high: float, limit: float, view: float) -> str:
    """Remark of the legend on a bound that leaves the view."""
    if low > limit:
        return f"(vacuous, from {low:.3g} on)"
    return f"(up to {high:.3g})" if high > view else ""


def legend(ax: Any, handles: list[Any], *, columns_below: int = 0) -> None:
    """Legend inside where there is room, or in columns below the axes, where no title is in its way."""
    from matplotlib.transforms import ScaledTranslation

    if not handles:
        return
    if columns_below:
        below = ax.transAxes + ScaledTranslation(0, -32 / 72, ax.figure.dpi_scale_trans)  # tick labels and axis label
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": below, "frameon": False}
        ax.legend(handles=handles, ncols=columns_below, fontsize=9, **place)
    else:
        ax.legend(handles=handles, loc="best", fontsize=9, framealpha=0.9)
