"""Where points are: those of a dictionary in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit.arrays import namespace


def check_same_device(X: Any, Z: Any) -> None:
    """Points and centres must come from one array library and device: nothing is moved unasked."""
    places = [device_name(points) for points in (X, Z)]
    if places[0] != places[1]:
        raise ValueError(f"X is on {places[0]} and the centres are on {places[1]}: bring both to one place")


def device_name(x: Any) -> str:
    """Library and device of an array, in words."""
    if isinstance(x, np.ndarray) or sparse.issparse(x):
        return "the host (NumPy or SciPy)"
    return f"{x.device} ({namespace(x).__name__.split('.')[-1]})"
