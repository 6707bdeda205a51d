"""One thread for small fits: several gain nothing there, and beside other work they wait for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from kernelpursuit.atoms.threads import one_blas_thread

# A matrix of 1,000 (2,000) rows times a vector: 0.2 (1.5) ms on one thread, 48 ms on both of a busy two-core machine.
ONE_THREAD_ROWS = 2000


def threads_for(X: Any) -> AbstractContextManager:
    """Context in which linear algebra has one thread, where X has few rows and is here; else nothing changes."""
    here = type(X).__module__.split(".")[0] in ("numpy", "scipy", "pandas", "polars", "builtins")
    shape = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    if not here or not shape or not 0 < shape[0] <= ONE_THREAD_ROWS:
        return nullcontext()
    return one_blas_thread.for_small_fit()
