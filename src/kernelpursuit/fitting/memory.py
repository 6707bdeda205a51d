"""Memory of a fit: how much of it may go to the kernel matrix, and how much is free."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

LITTLE = 2**20  # bytes of a matrix for which what is free need not be looked up, which takes a third of a millisecond
SHARE = 4  # the matrix may take one part in so many of what is free: other processes may be about to do the same


def plan_memory(data: Any, limit: int | None, bytes_per_atom: int, memory: int | None) -> tuple[int, int | None]:
    """Bytes for the kernel matrix or a tile of it, and the most atoms that memory allows beside it, if it limits them.

    `memory` bounds the fit. By default (None, and 0, which keeps no matrix) the matrix or tile may take a quarter of
    the memory that is free where X is, and all of that is the bound. A fit of `limit` atoms that cannot fit is refused;
    with no limit half of the bound is for atoms. Where the rows of the `data` are in files, so is what is kept of
    atoms, and the disk is the bound.
    """
    n, memory = len(data.rows), None if data.source.in_files else memory or None
    column = 8 * n
    kept = max(column, bytes_per_atom * min(limit or 1, n))
    if memory is not None:
        bound = memory
    elif isinstance(data.X, np.ndarray) and n * max(column, bytes_per_atom) <= LITTLE:
        bound = physical_memory()
    else:
        bound = data.source.free_memory(data.X)
    if kept > bound:
        what = f"memory={bound}" if memory is not None else f"the {bound} bytes that are free"
        fewer = bound // max(column, bytes_per_atom)
        fit = f"n_atoms={fewer} would fit" if fewer else f"one column alone takes {column} bytes"
        raise ValueError(f"{limit} atoms on {n} rows need {kept} bytes, more than {what} allows; {fit}")
    if limit is None and bytes_per_atom:
        kept = bound // 2
    matrix = bound // SHARE if memory is None else memory - kept
    return max(matrix, column), max(1, kept // bytes_per_atom) if limit is None and bytes_per_atom else None


def limit_spare(dictionary: Any, X: Any) -> None:
    """Where X is on an accelerator, `spare` is a share of this machine's memory: what is kept of all atoms is here."""
    if getattr(X, "is_cuda", False) and hasattr(dictionary, "spare"):
        dictionary.spare = min(dictionary.spare, free_memory(None) // SHARE)


def free_memory(X: Any) -> int:
    """Bytes free where X is: on an accelerator, or on this machine within the limit of its container."""
    if getattr(X, "is_cuda", False):
        return int(sys.modules["torch"].cuda.mem_get_info(X.device)[0])
    free = [physical_memory()]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
        container = Path("/sys/fs/cgroup")
        free.append(int((container / "memory.max").read_text()) - int((container / "memory.current").read_text()))
    except (OSError, ValueError):  # no such files, or no limit: "max"
        pass
    return max(1, min(free))


def physical_memory() -> int:
    """Bytes of memory of this machine; unbounded where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**62
