"""Axes, colours, labels and legends of all pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

PURSUIT = "a fitted pursuit, which has a path of steps (`path_`)"
Curve = tuple[np.ndarray, np.ndarray]  # numbers of atoms, and a value for each

# Distinct for all common kinds of colour vision (Okabe and Ito).
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


def figure_and_axes(ax: Any) -> tuple[Any, Any]:
    """The axes given and their figure, or new ones."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: install kernelpursuit with its extra 'plot'") from error
    if ax is None:
        return plt.subplots(layout="constrained")
    return ax.figure, ax


def model_and_data(estimator: Any, *data: Any) -> tuple[Any, ...]:
    """The model itself, out of a search or the end of a pipeline, and data as it sees them; None stays None."""
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


def as_label(name: Any) -> str:
    r"""Label that matplotlib shows unchanged: no formula between dollar signs, not hidden for a leading underscore.

    Examples
    --------
    >>> as_label("price_$"), as_label("_x")
    ('price_\\$', ' _x')
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def count_axis(ax: Any, label: str) -> None:
    """Horizontal axis of whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel(label)


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
