"""Fits in stages that survive their process: what a stage came to is written down, and is not computed again.

A fit that goes on makes the same calls in the same order. It takes the results that the file holds, with the state of
the generator after each, and computes the others. What happens between the stages depends on nothing but the data, the
parameters and the generator; so it ends with the bits of a fit that was never disturbed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelpursuit.fitting.checkpoint import Journal, described_parameters, fingerprint_of, other_data
from kernelpursuit.fitting.training import TrainingData


class Stages:
    """Results of the stages of a fit.

    Parameters
    ----------
    journal : Journal, optional
        The file; without one nothing is kept.
    task : FitTask, optional
        Whose callbacks hear of each stage.

    Attributes
    ----------
    stopped : bool
        Whether a callback asked to stop: this ends a stage as an interrupt would.

    Examples
    --------
    >>> Stages()("a sum", lambda: 1 + 1)
    2
    """

    def __init__(self, journal: Journal | None = None, task: Any = None):
        self.journal: Any = journal
        self._task, self.stopped = task, False
        self._known = [] if journal is None else journal.lines
        self._reached = 0 if journal is None else journal.begun  # bytes of the file

    def __call__(self, name: str, compute: Callable[[], Any], rng: np.random.Generator | None = None) -> Any:
        """What `compute` returns: numbers, texts and arrays, in tuples and lists, which come back as tuples.

        Parameters
        ----------
        name : str
            Of the stage.
        compute : callable
        rng : numpy.random.Generator, optional
            What it draws from.
        """
        found = self.recorded(name, rng)
        if found is None:
            with self.told(name):
                found = compute()
            self.keep(name, found, rng)
        return found

    @contextmanager
    def told(self, name: str) -> Iterator[None]:
        """Callbacks hear that a stage begins and ends."""
        if self._task is None:
            yield
            return
        self._task.begin(None)
        context = self._task.part(name, 0)
        try:
            yield
        finally:
            self.stopped = bool(
                context.call_on_fit_task_end(estimator=self._task.estimator, **self._task.given)
            )  # fmt: skip
        if self.stopped:
            raise KeyboardInterrupt

    def recorded(self, name: str, rng: np.random.Generator | None = None) -> Any:
        """The result of the next stage, and its generator, if the file holds them; None: compute and `keep` it."""
        if not self._known:
            return None
        line, end = self._known.pop(0)
        if line["stage"] != name:  # rounding, by other libraries or threads, has led elsewhere
            self.journal.shorten(self._reached)
            self._known = []
            return None
        self._reached = end
        if rng is not None:
            rng.bit_generator.state = line["rng"]
        return plain(line["value"])

    def keep(self, name: str, value: Any, rng: np.random.Generator | None = None) -> None:
        """Write down the result of a stage that was not there."""
        if self.journal is not None:
            state = None if rng is None else rng.bit_generator.state
            self.journal.append({"stage": name, "value": written(value), "rng": state})


def stages_of(estimator: Any, seed: int, X: Any, Y: Any, weights: Any) -> tuple[Stages, int]:
    """The stages of a fit to these rows, and the seed of its draws.

    Where several fits share a file, `estimator._stages` is set to its stages, and the seed is known.
    """
    found, task = getattr(estimator, "_stages", None), getattr(estimator, "_fit_task", None)
    if found is None and estimator.checkpoint is None:
        return Stages(task=task), seed
    if found is None:
        journal = Journal(estimator.checkpoint, type(estimator).__name__, described_parameters(estimator), seed)
        found = Stages(journal, task)
        seed = found.journal.seed
    rows = fingerprint_of(TrainingData(X, Y, weights, None, 0))
    if found("rows", lambda: rows) != rows:
        raise ValueError(other_data(found.journal.name))
    return found, seed


def written(value: Any) -> Any:
    """As JSON can hold it, exactly.

    Examples
    --------
    >>> plain(written((1, None, [np.float64(0.1), np.arange(3)])))
    (1, None, (0.1, array([0, 1, 2])))
    """
    if isinstance(value, np.ndarray):
        data = b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": value.dtype.str, "shape": value.shape, "data": data}
    if isinstance(value, tuple | list):
        return [written(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def plain(value: Any) -> Any:
    """What `written` was given, lists as tuples."""
    if isinstance(value, dict):
        array = np.frombuffer(b64decode(value["data"]), dtype=np.dtype(value["dtype"]))
        return array.reshape(value["shape"]).copy()
    return tuple(plain(one) for one in value) if isinstance(value, list) else value
