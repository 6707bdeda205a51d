"""Errors along a pursuit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import cycle
from typing import Any

import numpy as np

from kernelpursuit.plots.drawing import (
    COLOURS,
    PURSUIT,
    Curve,
    as_label,
    check_has,
    count_axis,
    figure_and_axes,
    legend,
    model_and_data,
)


class PursuitPathDisplay:
    """Errors along a pursuit against the number of atoms, with a baseline and the number chosen.

    Parameters
    ----------
    curves : dict of str to (k, values)
        What to draw, each against its own numbers of atoms.
    chosen : int, optional
        Number of atoms of the model.
    loss : (k, values), optional
        Training loss in units of its own, drawn against an axis on the right.
    baseline : (str, float), optional
        Name and error of another model.
    error_name, step_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D
    chosen_line_, baseline_line_ : matplotlib Line2D or None
    loss_ax_ : matplotlib Axes or None
        The axis on the right.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_diabetes
    >>> from kernelpursuit import KMPRegressor, PursuitPathDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KMPRegressor().fit(X[:300], y[:300])
    >>> display = PursuitPathDisplay.from_estimator(model, X[300:], y[300:], baseline=("mean of y", y[300:].var()))
    >>> display.chosen == len(model.path_), sorted(display.lines_)
    (True, ['test error', 'training error + penalty'])
    """

    def __init__(
        self,
        curves: Mapping[str, Curve],
        *,
        chosen: int | None = None,
        loss: Curve | None = None,
        baseline: tuple[str, float] | None = None,
        error_name: str = "error",
        step_name: str = "number of atoms",
    ):
        self.curves = curves
        self.chosen = chosen
        self.loss = loss
        self.baseline = baseline
        self.error_name = error_name
        self.step_name = step_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        X_train: Any = None,
        y_train: Any = None,
        baseline: Any = None,
        measure: Callable[[Any, Any], float] | None = None,
        ax: Any = None,
        yscale: str = "auto",
    ) -> PursuitPathDisplay:
        """Draw the path of a fitted estimator: mean squared error, or the error rate of a classifier.

        Parameters
        ----------
        estimator : fitted estimator
            With `path_` and `staged_predict`, or a pipeline that ends with one. Of a `PursuitSearchCV` the errors of
            cross-validation are drawn too.
        X, y : array-like, optional
            New data, for the test error.
        X_train, y_train : array-like, optional
            Training data, for the training error. Without them the training loss on the path is drawn: the same for
            regression with the squared loss, up to the penalty, else against an axis of its own.
        baseline : fitted estimator or (str, float), optional
            Estimators are measured on X and y.
        measure : callable, optional
            ``measure(y, prediction)``, an error to draw instead. A ranker needs one, which knows the groups:
            ``lambda y, f: 1 - ranking.ndcg(y, f, group)``.
        ax : matplotlib Axes, optional
        yscale : {"auto", "linear", "log"}, default="auto"
            See `plot`.

        Returns
        -------
        PursuitPathDisplay
        """
        classifier = hasattr(estimator, "classes_")
        known, measure = measure is None, measure_of(estimator, measure, _squared_error)
        if baseline is not None and hasattr(baseline, "predict"):
            baseline = (type(baseline).__name__, measure(y, baseline.predict(X)))
        search = getattr(estimator, "steps", [("", estimator)])[-1][1]
        estimator, X, X_train = model_and_data(estimator, X, X_train)
        check_has(estimator, "path_", PURSUIT)
        path = estimator.path_
        same_units = known and not classifier and getattr(estimator, "loss", None) == "squared_error"
        curves = {}
        if X_train is not None:
            curves["training error"] = staged_errors(estimator, X_train, y_train, measure)
        elif same_units:
            penalised = getattr(estimator, "alpha_", estimator.alpha)
            curves["training error + penalty" if penalised else "training error"] = _losses(path)
        if X is not None:
            curves["test error"] = staged_errors(estimator, X, y, measure)
        if hasattr(search, "max_atoms") and search.scoring is None and known and (classifier or same_units):
            curves["cross-validated error"] = _cross_validated(search, classifier)
        return cls(
            curves,
            chosen=len(path),
            loss=None if same_units or X_train is not None else _losses(path),
            baseline=baseline,
            error_name="error" if not known else "error rate" if classifier else "mean squared error",
            step_name=_step_name(path),
        ).plot(ax, yscale=yscale)

    @classmethod
    def from_path(cls, path: Any, *, ax: Any = None) -> PursuitPathDisplay:
        """Draw what a Path knows by itself: the training loss and, where there is one, the leave-one-out error.

        Parameters
        ----------
        path : Path
        ax : matplotlib Axes, optional

        Returns
        -------
        PursuitPathDisplay
        """
        curves = {"training loss": _losses(path)}
        left_out = path.values("leave_one_out")
        if np.any(np.isfinite(left_out)):
            curves["leave-one-out error"] = (np.arange(len(left_out)), left_out)
        return cls(curves, chosen=len(path), error_name="loss", step_name=_step_name(path)).plot(ax)

    def plot(self, ax: Any = None, *, yscale: str = "auto") -> PursuitPathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        yscale : {"auto", "linear", "log"}, default="auto"
            "auto" is logarithmic where the errors span more than a decade.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = figure_and_axes(ax)
        self.ax_.set_yscale(scale_for(self.curves.values()) if yscale == "auto" else yscale)
        self.lines_ = {}
        for (name, (k, values)), colour in zip(self.curves.items(), cycle(COLOURS), strict=False):
            style = {"marker": "."} if len(k) <= 40 else {}
            self.lines_[name] = self.ax_.plot(k, values, color=colour, label=as_label(name), **style)[0]
        self.chosen_line_ = self.baseline_line_ = self.loss_ax_ = loss_line = None
        if self.baseline is not None:
            name, error = self.baseline
            label = f"{as_label(name)} ({error:.4g})"
            self.baseline_line_ = self.ax_.axhline(error, color="0.35", linestyle="--", linewidth=1.2, label=label)
        if self.chosen is not None:
            label = f"chosen, k = {self.chosen}"
            self.chosen_line_ = self.ax_.axvline(self.chosen, color="0.35", linestyle="-.", linewidth=1, label=label)
        if self.loss is not None:
            self.loss_ax_ = self.ax_.twinx()
            (loss_line,) = self.loss_ax_.plot(*self.loss, color="0.55", linewidth=1, label="training loss (right)")
            self.loss_ax_.set(ylabel="mean training loss")
            self.loss_ax_.set_ylim(bottom=0.0)
        count_axis(self.ax_, self.step_name)
        self.ax_.set_ylabel(self.error_name)
        if self.loss is not None and self.ax_.get_yscale() == "linear":
            self.ax_.set_ylim(bottom=0.0)
        handles = [*self.lines_.values(), loss_line, self.baseline_line_, self.chosen_line_]
        legend(self.ax_, [one for one in handles if one is not None], columns_below=2 if self.loss is not None else 0)
        return self


def _losses(path: Any) -> Curve:
    """Training loss after 0, 1, ... steps, those discarded at the end too."""
    values = np.array([step.loss for step in [path.start, *path.steps, *path.discarded]], dtype=np.float64)
    return np.arange(len(values)), values


def _step_name(path: Any) -> str:
    """Steps that go back to an old atom, or release one, are not a count of atoms."""
    return "number of atoms" if len(path.atoms) == len(path) else "number of steps"


def scale_for(curves: Iterable[Curve]) -> str:
    """Logarithmic where positive values span more than a decade: on a linear axis the lower ones would be one line."""
    values = np.concatenate([np.empty(0), *(v[np.isfinite(v)] for _, v in curves)])
    return "log" if len(values) and values.min() > 0 and values.max() > 10 * values.min() else "linear"


def staged_errors(estimator: Any, X: Any, y: Any, measure: Callable[[Any, Any], float]) -> Curve:
    """Error after 1, 2, ... steps, those discarded at the end too; after 0 where the estimator can be cut to that."""
    if not hasattr(estimator, "staged_predict"):
        raise TypeError(f"{type(estimator).__name__} has no staged_predict: draw its path alone (`from_path`)")
    if y is None:
        raise ValueError("y must be given with X")
    values, first = [], 1
    if hasattr(estimator, "truncate"):
        values, first = [measure(y, estimator.truncate(0).predict(X))], 0
        with suppress(ValueError):  # an estimator that did not keep what was discarded
            estimator = estimator.truncate(len(estimator.path_) + len(estimator.path_.discarded))
    values += [measure(y, prediction) for prediction in estimator.staged_predict(X)]
    return np.arange(first, first + len(values)), np.array(values)


def _cross_validated(search: Any, classifier: bool) -> Curve:
    """Mean error of the folds for the setting that was chosen."""
    first = search.best_index_ - search.best_index_ % search.max_atoms
    chosen = slice(first, first + search.max_atoms)
    score = search.cv_results_["mean_test_score"][chosen]
    weights = search.best_estimator_.dual_coef_
    targets = 1 if np.ndim(weights) == 1 else weights.shape[1]  # the score is their mean
    return search.cv_results_["param_n_atoms"][chosen], 1 - score if classifier else -score * targets


def measure_of(estimator: Any, measure: Callable | None, default: Callable) -> Callable[[Any, Any], float]:
    """The error to draw: that given, or that of classifiers, or the default one of regressors."""
    if measure is not None:
        return measure
    if hasattr(estimator, "classes_"):
        return error_rate
    kind = getattr(estimator.__sklearn_tags__(), "estimator_type", None) if hasattr(estimator, "predict") else ""
    return default if kind is not None else _needs_groups


def _needs_groups(y: Any, prediction: Any) -> float:
    raise ValueError(
        "a ranker has no error without its groups: give measure, lambda y, f: 1 - ranking.ndcg(y, f, group)"
    )


def error_rate(y: Any, prediction: Any) -> float:
    """Share of wrong classes."""
    return float(np.mean(np.asarray(y) != np.asarray(prediction)))


def _squared_error(y: Any, prediction: Any) -> float:
    """Mean over rows, sum over targets, as on the path."""
    difference = np.asarray(y, dtype=np.float64) - np.asarray(prediction)
    return float(np.sum(difference**2) / len(difference))
