"""From plain parameters to a pursuit that runs: candidates, memory, progress, the call of the loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelpursuit._sklearn import get_config
from kernelpursuit.dictionaries.kernel import MIB
from kernelpursuit.pursuit.candidates import Candidates, everything, growing_subset, random_subset, sample_size
from kernelpursuit.pursuit.loop import Path, StopRule, pursue


def run(
    criterion: Any,
    stop: StopRule,
    rng: np.random.Generator,
    options: dict[str, Any],
    callback: Callable[[Path], None] | None = None,
) -> Path:
    """Run the loop with the parameters that every estimator has.

    Parameters
    ----------
    criterion : Criterion
    stop : callable
    rng : numpy.random.Generator
        Draws the candidates.
    options : dict
        `candidates` and `weakness`.
    callback : callable, optional
    """
    look = candidates_of(options["candidates"], rng)
    return pursue(criterion, stop, look, counting(callback, criterion), "auto", options["weakness"])


def counting(callback: Callable[[Path], None] | None, criterion: Any) -> Callable[[Path], None] | None:
    """The callback on a path that knows the passes so far; the loop itself counts them at the end."""

    def counted(path: Path) -> None:
        path.passes = criterion.passes
        assert callback is not None
        callback(path)

    return None if callback is None else counted


def candidates_of(candidates: Any, rng: np.random.Generator) -> Candidates:
    """What each step looks at, from the parameter `candidates`."""
    if candidates is None:
        return everything
    if candidates == "growing":
        return growing_subset(rng)
    if isinstance(candidates, tuple):
        if len(candidates) != 2:
            raise ValueError(
                f"candidates must be an int, a pair (epsilon, quantile), 'growing' or None, got {candidates!r}"
            )
        candidates = sample_size(*candidates)
    return random_subset(candidates, rng)


def storage_for(options: dict[str, Any]) -> str:
    """Whether the kernel matrix is kept: "auto" if it fits into `memory`, "tiles" never.

    A matrix of which only sampled columns are looked at is not kept, unless `memory` says how large it may be.

    Parameters
    ----------
    options : dict
        `memory`, `candidates`, and `selection` where there is one.
    """
    some = options["candidates"] is not None or options.get("selection") in ("diagonal", "random")
    return "tiles" if options["memory"] == 0 or (options["memory"] is None and some) else "auto"


def announce(dictionary: Any, verbose: int) -> None:
    """Print how the dictionary holds its atoms."""
    if verbose and (sentence := getattr(dictionary, "plan", "")):
        print(f"[kernelpursuit] {sentence}", flush=True)


def progress(verbose: int) -> Callable[[Path], None]:
    """Callback that prints a line at 1, 2, 5, 10, 20, 50, ... steps, or at each one with ``verbose > 1``."""

    def callback(path: Path) -> None:
        k = len(path)
        leading = k // 10 ** (len(str(k)) - 1)
        if verbose > 1 or (leading in (1, 2, 5) and k == leading * 10 ** (len(str(k)) - 1)):
            step = path.steps[-1]
            print(
                f"[kernelpursuit] {k} steps, {path.passes:.1f} passes, loss {step.loss:.4g}, {step.seconds:.1f} s",
                flush=True,
            )

    return callback


def plan_memory(n: int, limit: int | None, itemsize: int, memory: int | None) -> tuple[int, int]:
    """Bytes for the kernel matrix or a tile of it, and the most atoms whose orthonormal basis fits beside it.

    `memory` bounds the fit. By default (None, and 0, which keeps no matrix) the matrix or tile may take scikit-learn's
    ``working_memory``, and the machine's memory is the bound. A fit of `limit` atoms that cannot fit is refused; with
    no limit half of the bound is for the basis.
    """
    memory = memory or None
    column = n * itemsize
    basis = column * min(limit or 1, n)
    bound = physical_memory() if memory is None else memory
    if basis > bound:
        what = f"memory={bound}" if memory is not None else f"the {bound} bytes of this machine"
        fits = f"n_atoms={bound // column} would fit" if bound >= column else f"one column alone takes {column} bytes"
        raise ValueError(f"{limit} atoms on {n} rows need {basis} bytes, more than {what} allows; {fits}")
    if limit is None:
        basis = bound // 2
    matrix = int(get_config()["working_memory"] * MIB) if memory is None else memory - basis
    return max(matrix, column), max(1, basis // column)


def physical_memory() -> int:
    """Bytes of memory of this machine; unbounded where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**62
