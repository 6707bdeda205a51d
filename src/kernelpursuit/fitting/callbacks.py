"""scikit-learn's callbacks (from 1.9 on): a fit reports its pursuits and their steps, a search its settings and folds.

Without callbacks an estimator has none of these tasks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kernelpursuit._sklearn import shows_bars
from kernelpursuit.fitting.interrupts import restore_on_error
from kernelpursuit.pursuit.loop import Path

_stop_requests: ContextVar[list[str] | None] = ContextVar("stop_requests", default=None)
Snapshot = Callable[[Path, Any], dict[str, Any]]  # attributes of the model after the steps of a path, and its criterion


class FitTask:
    """A fit in progress, reported to the callbacks of its estimator.

    Parameters
    ----------
    estimator : estimator with callbacks
    X, y, metadata
        What `fit` was given.

    Attributes
    ----------
    stop_requests : list or None
        Where this is a list, the request of a callback to stop is appended and not obeyed: the number of atoms was
        chosen before, and fewer would be another model.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, metadata: dict[str, Any] | None):
        self.estimator = estimator
        self.stop_requests: list[str] | None = _stop_requests.get()
        self.given = {"X": X, "y": y, "metadata": metadata}
        self.context: Any = None

    def begin(self, parts: int | None) -> None:
        """Report the start of the fit with its number of parts, such as pursuits; None where that is unknown."""
        if self.context is None:
            self.context = self.estimator._init_callback_context(max_subtasks=parts)
            self.context.call_on_fit_task_begin(estimator=self.estimator, **self.given)

    def part(self, name: str, most: int | None) -> Any:
        """Report the start of a part, which has at most `most` parts itself; returns its context."""
        self.begin(1)
        if self.context.max_subtasks is not None:  # a part more than announced is no error
            self.context.max_subtasks = max(self.context.max_subtasks, 1 + len(self.context._children_map))
        context = self.context.subcontext(task_name=name, max_subtasks=most)
        context.call_on_fit_task_begin(estimator=self.estimator, **self.given)
        return context

    def end(self) -> None:
        """Report the end of the fit."""
        self.begin(0)
        self.context.call_on_fit_task_end(estimator=self.estimator, **self.given, reconstruction_attributes={})


class PursuitTask:
    """A pursuit in progress: each step is a task that begins when the step before has ended."""

    def __init__(self, fit: FitTask, most: int | None, snapshot: Snapshot | None):
        self._fit, self._most, self._snapshot = fit, most, snapshot
        self._context, self._begun = fit.part("pursuit", most), 0
        self._step: Any = None
        self._next()

    def _next(self) -> None:
        if self._most is None or self._begun < self._most:
            self._begun += 1
            self._step = self._context.subcontext(task_name="step")
            self._step.call_on_fit_task_begin(estimator=self._fit.estimator, **self._fit.given)

    def step(self, path: Path, criterion: Any) -> bool:
        """Report a step; returns whether a callback asks to stop."""
        if self._step is None:
            return False
        snapshot, ended, self._step = self._snapshot, self._step, None
        attributes = None if snapshot is None else lambda: snapshot(path, criterion)
        stop = ended.call_on_fit_task_end(
            estimator=self._fit.estimator, **self._fit.given, reconstruction_attributes=attributes
        )
        if stop and self._fit.stop_requests is not None:
            self._fit.stop_requests.append("step")
            stop = False
        if not stop:
            self._next()
        return bool(stop)

    def end(self) -> None:
        """Report the end of the pursuit, and of a step that was begun and not taken."""
        if self._step is not None:
            self._step.call_on_fit_task_end(estimator=self._fit.estimator)
        self._context.call_on_fit_task_end(estimator=self._fit.estimator, **self._fit.given)


def with_callbacks(method: Callable) -> Callable:
    """Decorator of every `fit`: reports its start and end to callbacks, and restores the estimator if it fails."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_skl_callbacks"):
            return restore_on_error(method, self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs).arguments
        weights = given.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        task = self._fit_task = FitTask(self, given["X"], given.get("y"), metadata)
        try:
            result = restore_on_error(method, self, *args, **kwargs)
        finally:
            del self._fit_task
        task.end()
        return result

    return fit


def verbosity(estimator: Any) -> int:
    """The parameter `verbose`, or 1 where a progress bar cannot be drawn, as in a log file: lines replace it."""
    verbose = int(getattr(estimator, "verbose", 0))
    callbacks = getattr(estimator, "_skl_callbacks", []) if not hasattr(estimator, "_parent_callback_ctx") else []
    if verbose or not any(shows_bars(callback) for callback in callbacks):
        return verbose
    from rich.console import Console

    console = Console()
    return int(not (console.is_terminal or console.is_jupyter))


class SearchTask:
    """A search in progress: a task for each setting, with one for each fold, and a task for the final fit.

    Parameters
    ----------
    estimator : estimator
        The search; without callbacks nothing is reported.
    settings : list of str
        A text for each setting.
    folds : int
        Number of folds of each setting.
    """

    def __init__(self, estimator: Any, settings: list[str], folds: int):
        self._fit: FitTask | None = getattr(estimator, "_fit_task", None)
        self._settings: list[Any] = []
        self.stopped, self.steps = False, 0  # by a callback, at so many steps of a path
        if self._fit is None:
            return
        self._fit.begin(len(settings) + 1)
        for name in settings:
            context = self._fit.part(name, folds)
            # Made before the folds are handed to other processes.
            names = [f"fold {fold + 1} of {folds}" for fold in range(folds)]
            self._settings.append((context, [context.subcontext(task_name=name) for name in names]))

    def fold(self, setting: int, fold: int) -> tuple[Any, Any] | None:
        """Context in which the fit of a fold is reported, for `as_subtask`."""
        return None if self._fit is None else (self._settings[setting][1][fold], self._fit.estimator)

    def ended(self, setting: int) -> bool:
        """Report the end of a setting; returns whether a callback asks to stop the search."""
        if self._fit is None:
            return False
        return bool(self._settings[setting][0].call_on_fit_task_end(estimator=self._fit.estimator, **self._fit.given))


def subtask_of(estimator: Any, name: str) -> tuple[Any, Any] | None:
    """Context in which the fit of another model inside the fit of `estimator` is reported, for `as_subtask`."""
    task = getattr(estimator, "_fit_task", None)
    if task is None:
        return None
    task.begin(1)
    return task.context.subcontext(task_name=name), estimator


@contextmanager
def as_subtask(
    place: tuple[Any, Any] | None, model: Any, X: Any, y: Any, *, n_atoms_is_fixed: bool = False
) -> Iterator[list[str]]:
    """Context that reports the fit of `model` to the callbacks of another estimator, of whose fit it is a part.

    Yields a list of requests to stop that were not obeyed: because the number of atoms is fixed, or the fit had ended.
    """
    requests: list[str] = []
    if place is None:
        yield requests
        return
    context, estimator = place
    token = _stop_requests.set(requests if n_atoms_is_fixed else None)
    try:
        with context.propagate_callback_context(model):
            context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
            yield requests
    finally:
        _stop_requests.reset(token)
    if context.call_on_fit_task_end(estimator=estimator, X=X, y=y):
        requests.append("fit")
