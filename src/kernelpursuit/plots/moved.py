"""Where the centres of a refined model moved to."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import to_host
from kernelpursuit.plots.drawing import COLOURS, as_label, check_has, figure_and_axes, legend, model_and_data


class MovedCentersDisplay:
    """Data in two of their features, and each term of a refined model: where it was chosen, where it ended, how wide.

    Parameters
    ----------
    X : ndarray of shape (n_samples, 2)
        Data in these two features.
    start, end : ndarray of shape (k, 2)
        Centres before and after they moved.
    reach : ndarray of shape (k, 2)
        Distance along each feature at which a term has fallen to exp(-1/2); infinite along one that has no weight.
    feature_names : tuple of two str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : matplotlib PathCollection
    arrows_ : list of matplotlib FancyArrowPatch
    reach_ : matplotlib PatchCollection

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from kernelpursuit import MovedCentersDisplay, RefinedKMPRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = RefinedKMPRegressor(n_atoms=3, random_state=0).fit(X, np.sin(2 * X[:, 0]))
    >>> len(MovedCentersDisplay.from_estimator(model, X).arrows_)
    3
    """

    def __init__(
        self,
        X: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        reach: np.ndarray,
        *,
        feature_names: tuple[str, str] = ("feature 0", "feature 1"),
    ):
        self.X = X
        self.start = start
        self.end = end
        self.reach = reach
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, features: tuple[int, int] | None = None, ax: Any = None
    ) -> MovedCentersDisplay:
        """Draw a fitted refined model.

        Parameters
        ----------
        estimator : fitted RefinedKMPRegressor or RefinedKMPClassifier
            Or a pipeline or search that ends with one: the picture has the features that the last step sees.
        X : array-like of shape (n_samples, n_features)
            Data to draw.
        y : object, optional
            Not used; here because all displays have it.
        features : tuple of two int, optional
            Columns to draw. Default: the two of largest weight for their spread, in their order.
        ax : matplotlib Axes, optional

        Returns
        -------
        MovedCentersDisplay
        """
        names = getattr(X, "columns", None)
        last, X_last = model_and_data(estimator, X)
        check_has(last, "start_centers_", "a fitted refined model")
        names = getattr(X_last, "columns", names)
        points = to_host(X_last if hasattr(X_last, "dtype") else np.asarray(X_last))
        weights = to_host(last.input_weights_)
        if len(weights) < 2:
            raise ValueError("estimator was fitted to 1 feature, and the picture needs two to draw centres on")
        if points.ndim != 2 or points.shape[1] != len(weights):
            raise ValueError(f"X must have the {len(weights)} features of the fit, got shape {points.shape}")
        if features is None:
            features = tuple(sorted(np.argsort(-weights * points.std(axis=0), kind="stable")[:2].tolist()))
        J = np.asarray(features)
        if J.shape != (2,) or J[0] == J[1] or not np.all((J >= 0) & (J < len(weights))):
            raise ValueError(f"features must be two columns from 0 to {len(weights) - 1}, got {features!r}")
        if names is None or len(names) != len(weights):
            names = [f"feature {j}" for j in range(len(weights))]
        with np.errstate(divide="ignore"):
            reach = 1 / (np.sqrt(2 * to_host(last.widths_))[:, None] * weights[J])
        start, end = (to_host(centers)[:, J] for centers in (last.start_centers_, last.centers_))
        return cls(points[:, J], start, end, reach, feature_names=(str(names[J[0]]), str(names[J[1]]))).plot(ax)

    def plot(self, ax: Any = None) -> MovedCentersDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Ellipse

        self.figure_, self.ax_ = figure_and_axes(ax)
        data = self.ax_.scatter(*self.X.T, s=10, color="0.75", edgecolors="none", label="data")
        low, high = (f(np.vstack([self.X, self.start, self.end]), axis=0) for f in (np.min, np.max))
        room = 0.05 * np.where(high > low, high - low, 1.0)
        span = np.minimum(2 * self.reach, 4 * (high - low + 2 * room))  # what has no weight reaches over everything
        ellipses = [Ellipse(center, *size) for center, size in zip(self.end, span, strict=True)]
        self.reach_ = PatchCollection(ellipses, facecolor="none", edgecolor=COLOURS[0], linewidths=0.7, alpha=0.5)
        self.ax_.add_collection(self.reach_)
        chosen = self.ax_.scatter(*self.start.T, s=16, color=COLOURS[1], marker="x", label="chosen")
        self.points_ = self.ax_.scatter(*self.end.T, s=22, color=COLOURS[0], label="ended")
        style = {"arrowstyle": "->", "color": "0.3", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
        self.arrows_ = [
            self.ax_.annotate("", xy=to, xytext=at, arrowprops=style).arrow_patch
            for at, to in zip(self.start, self.end, strict=True)
        ]
        self.ax_.set(
            xlim=(low[0] - room[0], high[0] + room[0]),
            ylim=(low[1] - room[1], high[1] + room[1]),
            xlabel=as_label(self.feature_names[0]),
            ylabel=as_label(self.feature_names[1]),
        )
        legend(self.ax_, [data, chosen, self.points_], columns_below=3)
        return self
