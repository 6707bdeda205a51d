"""Chosen atoms among data with one feature or two."""

from __future__ import annotations

import warnings
from itertools import cycle
from typing import Any

import numpy as np

from kernelpursuit.plots.drawing import (
    COLOURS,
    PALE,
    as_label,
    check_has,
    figure_and_axes,
    legend,
    model_and_data,
)

MARKERS = "os^DvPX"


class SupportDisplay:
    """Data with one feature or two, what the model says of them, and the atoms ringed and numbered in order of choice.

    Parameters
    ----------
    grid : tuple of one ndarray of shape (points,), or of two of shape (rows, columns)
        Coordinates at which the model was evaluated.
    response : ndarray of the same shape
        Regression: the prediction. Two classes of two features: the decision function. Else the number of the class
        predicted.
    X : ndarray of shape (n_samples, 1) or (n_samples, 2)
    y : ndarray of shape (n_samples,)
    centers : ndarray of shape (k, 1) or (k, 2)
        Centres of the atoms. Of one feature they are drawn on the prediction.
    order : ndarray of shape (k,)
        When each was chosen, from 1 on.
    classes : ndarray, optional
        None for regression.
    feature_names : tuple of str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    surface_ : matplotlib ContourSet; QuadMesh for more than two classes, or classes of one feature; Line2D
    rings_ : matplotlib PathCollection
    texts_ : list of matplotlib Annotation

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from kernelpursuit import KMPClassifier, SupportDisplay
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> display = SupportDisplay.from_estimator(KMPClassifier(n_atoms=6).fit(X, y), X, y)
    >>> [text.get_text() for text in display.texts_]
    ['1', '2', '3', '4', '5', '6']
    """

    def __init__(
        self,
        grid: tuple[np.ndarray, ...],
        response: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        centers: np.ndarray,
        order: np.ndarray,
        *,
        classes: np.ndarray | None = None,
        feature_names: tuple[str, ...] = ("feature 0", "feature 1"),
    ):
        self.grid = grid
        self.response = response
        self.X = X
        self.y = y
        self.centers = centers
        self.order = order
        self.classes = classes
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, resolution: int = 200, numbers: int = 30, ax: Any = None
    ) -> SupportDisplay:
        """Draw a fitted regressor or classifier.

        Parameters
        ----------
        estimator : fitted estimator
            With `support_vectors_`: its kernel must not be precomputed. Or a pipeline that ends with one: the picture
            has the features that the last step sees.
        X : array-like of shape (n_samples, 1) or (n_samples, 2)
            Data to draw.
        y : array-like of shape (n_samples,)
        resolution : int, default=200
            Points at which the model is evaluated, along each axis.
        numbers : int, default=30
            Atoms to number; all are ringed.
        ax : matplotlib Axes, optional

        Returns
        -------
        SupportDisplay
        """
        names = getattr(X, "columns", None)
        last, X_last = model_and_data(estimator, X)
        points, target = _dense(X_last), np.asarray(y)
        if points.ndim != 2 or points.shape[1] not in (1, 2):
            raise ValueError(f"X must have one feature or two to be drawn, got shape {points.shape}")
        if target.shape != (len(points),):
            raise ValueError(f"y must be one target for each of the {len(points)} rows, got shape {target.shape}")
        names = getattr(X_last, "columns", names)
        if names is None or len(names) != points.shape[1]:
            names = ("feature 0", "feature 1")
        centers, order = _atoms(last)
        grid = _grid(np.vstack([points, centers]), resolution)
        classes = getattr(last, "classes_", None)
        response = _response(last, np.column_stack([axis.ravel() for axis in grid]), classes)
        return cls(
            grid,
            response.reshape(grid[0].shape),
            points,
            target,
            centers,
            order,
            classes=classes,
            feature_names=tuple(str(name) for name in names),
        ).plot(ax, numbers=numbers)

    def plot(self, ax: Any = None, *, numbers: int = 30) -> SupportDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        numbers : int, default=30
            Atoms to number; all are ringed.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = figure_and_axes(ax)
        self.ax_.set(xlabel=as_label(self.feature_names[0]), xlim=(self.grid[0].min(), self.grid[0].max()))
        if len(self.grid) == 1:
            handles = self._draw_line() if self.classes is None else self._draw_bands(self.classes)
            centers = np.column_stack([self.centers, np.interp(self.centers[:, 0], self.grid[0], self.response)])
        else:
            handles = self._draw_regression() if self.classes is None else self._draw_classes(self.classes)
            self.ax_.set(ylabel=as_label(self.feature_names[1]), ylim=(self.grid[1].min(), self.grid[1].max()))
            centers = self.centers
        self.rings_, self.texts_ = self._draw_atoms(centers, numbers)
        legend(self.ax_, [*handles, self.rings_], columns_below=min(len(handles) + 1, 5))
        return self

    def _draw_line(self) -> list[Any]:
        """One feature, regression: the data and the prediction against it."""
        points = self.ax_.scatter(self.X[:, 0], self.y, s=14, color="0.6", edgecolors="none", label="data")
        (self.surface_,) = self.ax_.plot(self.grid[0], self.response, color=COLOURS[0], label="prediction")
        self.ax_.set_ylabel("target")
        return [points, self.surface_]

    def _draw_bands(self, classes: np.ndarray) -> list[Any]:
        """One feature, classes: a row of points for each class over bands of the class predicted."""
        from matplotlib.colors import ListedColormap

        pale = ListedColormap([PALE[i % len(PALE)] for i in range(len(classes))])
        heights = np.array([-0.6, len(classes) - 0.4])
        bands = np.tile(self.response, (2, 1))
        style = {"cmap": pale, "vmin": -0.5, "vmax": len(classes) - 0.5, "rasterized": True}
        self.surface_ = self.ax_.pcolormesh(self.grid[0], heights, bands, shading="nearest", **style)
        self.ax_.set(ylim=tuple(heights), ylabel="class")
        self.ax_.set_yticks(np.arange(len(classes)), [as_label(name) for name in classes])
        for i, (name, colour) in enumerate(zip(classes, cycle(COLOURS), strict=False)):
            rows = self.X[self.y == name]
            self.ax_.scatter(rows[:, 0], np.full(len(rows), i), s=22, marker="|", color=colour)
        return []

    def _draw_regression(self) -> list[Any]:
        from matplotlib.ticker import MaxNLocator

        low, high = float(self.y.min()), float(self.y.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        style = {"cmap": "viridis", "vmin": low, "vmax": high}  # far from the data predictions may be anything
        levels = MaxNLocator(14).tick_values(low, high)
        self.surface_ = self.ax_.contourf(*self.grid, self.response, levels=levels, extend="both", **style)
        points = self.ax_.scatter(*self.X.T, c=self.y, s=20, edgecolors="white", linewidths=0.5, label="data", **style)
        self.figure_.colorbar(self.surface_, ax=self.ax_, label="target and prediction")
        return [points]

    def _draw_classes(self, classes: np.ndarray) -> list[Any]:
        from matplotlib.colors import ListedColormap

        pale = [PALE[i % len(PALE)] for i in range(len(classes))]
        if len(classes) == 2:
            edges = [min(self.response.min(), -1e-9), 0.0, max(self.response.max(), 1e-9)]
            self.surface_ = self.ax_.contourf(*self.grid, self.response, levels=edges, colors=pale)
            if edges[0] < -1e-9 and edges[2] > 1e-9:
                self.ax_.contour(*self.grid, self.response, levels=[0.0], colors="0.3", linewidths=1.2)
        else:  # contours would draw class 1 between 0 and 2
            style = {"cmap": ListedColormap(pale), "vmin": -0.5, "vmax": len(classes) - 0.5, "rasterized": True}
            self.surface_ = self.ax_.pcolormesh(*self.grid, self.response, shading="nearest", **style)
        handles = []
        for name, colour, marker in zip(classes, cycle(COLOURS), cycle(MARKERS), strict=False):
            rows = self.X[self.y == name]
            style = {"color": colour, "marker": marker, "edgecolors": "white", "linewidths": 0.4}
            handles.append(self.ax_.scatter(*rows.T, s=22, label=as_label(name), **style))
        return handles

    def _draw_atoms(self, centers: np.ndarray, numbers: int) -> tuple[Any, list[Any]]:
        """Rings, and the numbers of the atoms at each place."""
        from matplotlib.patheffects import withStroke

        label = "atoms, in order" if len(self.order) <= numbers else f"atoms, the first {numbers} numbered"
        halo = [withStroke(linewidth=3, foreground="white")]
        rings = self.ax_.scatter(
            *centers.T, s=90, facecolors="none", edgecolors="black", linewidths=1.4, label=label, path_effects=halo
        )
        places: dict[tuple[float, float], list[int]] = {}
        for (x, y), number in zip(centers.tolist(), self.order.tolist(), strict=True):
            if number <= numbers:
                places.setdefault((x, y), []).append(number)
        labels = [", ".join(map(str, here)) for here in places.values()]
        where = self.ax_.transData.transform(np.array(list(places)).reshape(-1, 2)) * 72 / self.figure_.dpi  # in points
        offsets = _offsets(where, list(map(len, labels)))
        style = {"fontsize": 8, "fontweight": "bold", "ha": "center", "va": "center", "path_effects": halo}
        texts = [
            self.ax_.annotate(label, place, offset, textcoords="offset points", **style)
            for label, place, offset in zip(labels, places, offsets, strict=True)
        ]
        return rings, texts


def _offsets(places: np.ndarray, widths: list[int]) -> list[tuple[float, float]]:
    """Offset of a label from each place, in points: at the corner farthest from other places and labels."""
    taken = list(places)
    out: list[tuple[float, float]] = []
    for place, width in zip(places, widths, strict=True):
        others = np.array([point for point in taken if np.any(point != place)]).reshape(-1, 2)
        x, y = 6.0 + 2 * width, 8.0
        corners = [(x, y), (-x, y), (-x, -y), (x, -y)]
        rooms = [np.hypot(*(others - place - corner).T).min(initial=np.inf) for corner in corners]
        out.append(corners[int(np.argmax(np.minimum(rooms, 16)))])
        taken.append(place + np.array(out[-1]))
    return out


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def _atoms(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the kernel atoms and when they were chosen; columns of functions have no place."""
    check_has(estimator, "support_vectors_", "a fitted model whose atoms are rows (`support_vectors_`)")
    if getattr(estimator, "kernel", None) == "precomputed":
        raise ValueError("atoms of a precomputed kernel have no place among the features")
    centers = _dense(estimator.support_vectors_)
    sources = getattr(estimator, "support_kernels_", np.zeros(len(centers), dtype=int))
    return centers, 1 + np.flatnonzero(sources >= 0)


def _grid(points: np.ndarray, resolution: int) -> tuple[np.ndarray, ...]:
    """Coordinates over all points and a little beyond: one array for one feature, two for two."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.06 * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a, b, resolution) for a, b in zip(low - margin, high + margin, strict=True)]
    return tuple(np.meshgrid(*sides))


def _response(estimator: Any, points: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Prediction, decision function of two classes, or number of the class predicted."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        if classes is None:
            return np.asarray(estimator.predict(points), dtype=np.float64)
        if len(classes) == 2 and points.shape[1] == 2:
            return np.asarray(estimator.decision_function(points), dtype=np.float64)
        return np.searchsorted(classes, estimator.predict(points)).astype(np.float64)
