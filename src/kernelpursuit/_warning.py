"""Warnings that point at the line of the user's program, however deep inside the package they arise."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_HERE = str(Path(__file__).parent)
_CHECKS = ("sklearn", "base.py")  # the checks of scikit-learn before a method begins
_WORKERS = Path(multiprocessing.__file__).parent
_BETWEEN = {"sklearn", "joblib"}  # packages that may stand between a user's line and this package

_left_out: ContextVar[tuple[tuple[type[Warning], str], ...]] = ContextVar("left_out", default=())


@contextmanager
def without(category: type[Warning], part: str = "") -> Iterator[None]:
    """Context in whose thread this package has no warnings of a category whose message contains `part`.

    Filters of Python are those of all threads: two that set and restore them may leave them changed.
    """
    token = _left_out.set((*_left_out.get(), (category, part)))
    try:
        yield
    finally:
        _left_out.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line, going up from here, that is neither of this package nor of scikit-learn.

    In a worker of joblib no line is the user's. Then it is that of scikit-learn which asked for the fit.
    """
    if any(issubclass(category, one) and part in message for one, part in _left_out.get()):
        return
    level, frame, caller = 2, sys._getframe(1), None
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        file = Path(frame.f_code.co_filename)
        if caller is None and not file.is_relative_to(_HERE) and file.parts[-2:] != _CHECKS:
            caller = level
        level, frame = level + 1, frame.f_back
    in_worker = Path(frame.f_code.co_filename).parent == _WORKERS
    warnings.warn(message, category, stacklevel=caller if caller and in_worker else level)


def _is_inside(filename: str) -> bool:
    return filename.startswith(_HERE) or not _BETWEEN.isdisjoint(Path(filename).parts)
