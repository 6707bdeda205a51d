"""The stages of a refined fit: callbacks hear of each, and a journal keeps what each came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelpursuit.fitting.journal import Journal


class Stages:
    """The stages of a refined fit, one after the other.

    A fit that goes on makes the same calls in the same order. It takes the results that its journal holds, and computes
    the others. What happens between the stages depends on nothing but the data, the parameters and the seed.

    Parameters
    ----------
    journal : Journal, optional
        Without one nothing is kept.
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
        self._journal, self._task, self.stopped = journal, task, False

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """The result of `compute`: numbers, texts and arrays in tuples, which a journal gives back as lists."""
        found = self.read(name)
        if found is None:
            with self.with_callbacks(name):
                found = compute()
            self.write(name, found)
        return found

    @contextmanager
    def with_callbacks(self, name: str) -> Iterator[None]:
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

    def read(self, name: str) -> Any:
        """The result of the next stage, if the journal has it."""
        return None if self._journal is None else self._journal.read(name)

    def write(self, name: str, value: Any) -> None:
        """Keep the result of a stage that was computed."""
        if self._journal is not None:
            self._journal.write(name, value)
