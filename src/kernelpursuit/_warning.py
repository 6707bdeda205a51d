"""Warnings that point at the line of the user's program, however deep inside the package they arise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_HERE = str(Path(__file__).parent)
_BETWEEN = {"sklearn", "joblib"}  # what may stand between a user's line and this package


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line, going up from here, that is neither of this package nor of scikit-learn."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_inside(filename: str) -> bool:
    return filename.startswith(_HERE) or not _BETWEEN.isdisjoint(Path(filename).parts)
