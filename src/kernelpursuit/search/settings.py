"""What a search tries: kernel widths, ridges, and inputs with or without weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.fitting.placement import is_precomputed, take_rows
from kernelpursuit.kernels.kernels import scale_gamma, uses_gamma

INPUT_WEIGHTS = {"equal": ("equal",), "learned": ("learned",), "both": ("equal", "learned")}
WIDTHS = 4.0 ** np.arange(-3, 2)  # times gamma="scale"
WIDTHS_OF_WEIGHTED_INPUTS = (0.25, 1.0, 4.0, 16.0)  # the weights suit 1; with many rows narrower kernels do


class Setting(NamedTuple):
    """Values of the parameters that a search tries together; None where it keeps the estimator's own."""

    gamma: float | None = None
    alpha: float | None = None
    input_weights: str = "equal"

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of the estimator."""
        values = {"gamma": self.gamma, "alpha": self.alpha}
        return {name: value for name, value in values.items() if value is not None}

    def __str__(self) -> str:
        parts = ["learned weights"] if self.input_weights == "learned" else []
        parts.append("one width" if self.gamma is None else f"gamma={self.gamma:.4g}")
        if self.alpha is not None:
            parts.append(f"alpha={self.alpha:.4g}")
        return ", ".join(parts)


def settings_to_try(search: Any, X: Any, weights: np.ndarray | None) -> list[Setting]:
    """All combinations that the parameters of a search ask for; `weights` are those of the rows of X."""
    estimator = search.estimator
    if search.alphas is not None and not hasattr(estimator, "alpha"):
        raise ValueError(f"alphas is given but {type(estimator).__name__} has no alpha; set alphas=None")
    alphas = [None] if search.alphas is None else checked_grid("alphas", search.alphas)
    return [
        Setting(gamma, alpha, kind)
        for kind in INPUT_WEIGHTS[search.input_weights]
        for gamma in widths_to_try(search.gammas, estimator.kernel, X, weights, kind)
        for alpha in alphas
    ]


def widths_to_try(gammas: Any, kernel: Any, X: Any, weights: np.ndarray | None, kind: str) -> list[Any]:
    """Widths for inputs with this `kind` of weights; [None] for kernels that have none."""
    if is_precomputed(kernel) or not uses_gamma(kernel):
        if gammas is not None:
            raise ValueError(f"gammas is given but kernel={kernel!r} has no gamma; set gammas=None")
        return [None]
    if gammas is not None:
        return checked_grid("gammas", gammas)
    if kind == "learned":
        return list(WIDTHS_OF_WEIGHTED_INPUTS)
    if weights is None:
        return (scale_gamma(X) * WIDTHS).tolist()
    counted = np.flatnonzero(weights > 0)
    return (scale_gamma(take_rows(X, counted), weights[counted]) * WIDTHS).tolist()


def checked_grid(name: str, values: Any) -> list[float]:
    """Values of a parameter that is a list of non-negative numbers."""
    grid = np.asarray(values)
    grid = grid.astype(np.float64) if grid.dtype.kind in "iuf" else np.empty(0)
    if grid.ndim != 1 or len(grid) == 0 or not np.all(np.isfinite(grid) & (grid >= 0)):
        raise ValueError(f"{name} must be a list of non-negative numbers with at least one entry, got {values!r}")
    return grid.tolist()
