"""Rows as tensors on the GPU of their workers, beside workers without one and beside one process on the same GPU.

Claims, all within one run: (1) the atoms are the same everywhere; (2) workers with a GPU are faster than as many cores
as the machine has; (3) what Dask adds to the time of one process on that GPU is shown. Several workers share one GPU.

The kernel is computed again at each pass. The rows are in the memory of the workers before the clock starts, and on the
GPU in the one process: workers bring them there while the clock runs.

Run: ``python benchmarks/gpu_workers.py [--fits 1000000:float32 200000:float64] [--gpu-workers 1 2] [--cores 16]``;
``--device cpu`` tries it out where there is no GPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from sklearn import config_context
from sklearn.base import clone

import dask
from _common import write
from kernelpursuit import KMPRegressor
from many_machines import block, on_cluster, remembered

PARTS = 32  # chunks of rows


def in_one_process(model: KMPRegressor, rows: int, dtype: str, device: str) -> dict[str, Any]:
    """The fit of tensors, here."""
    table = np.concatenate([block(seed, rows // PARTS) for seed in range(PARTS)]).astype(dtype)
    X, y = (torch.tensor(part, device=device) for part in (table[:, :-1], table[:, -1]))
    with config_context(array_api_dispatch=True):
        clone(model).set_params(n_atoms=2).fit(X, y)  # compiles
        start = perf_counter()
        model.fit(X, y)
        seconds = perf_counter() - start
    return {"where": f"one process, {device}", "seconds": seconds, "support": model.support_.tolist()}


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All fits."""
    made: list[Any] = []
    remembered(made)
    settings = {"centers": options.centers, "weakness": 0.5, "alpha": 0.0, "random_state": 0, "memory": 0}
    model = KMPRegressor(options.atoms, **settings)
    results: list[dict[str, Any]] = []
    for fit in options.fits:
        rows, dtype = int(fit.partition(":")[0]), fit.partition(":")[2]
        rows -= rows % PARTS
        alone = in_one_process(model, rows, dtype, options.device)
        found = [alone]
        for device, count in [(options.device, one) for one in options.gpu_workers] + [(None, options.cores)]:
            with dask.config.set({"kernelpursuit.device": device}):
                where = {"where": f"{count} worker{'s' * (count > 1)}, {device or 'a core each'}"}
                found.append(where | on_cluster(model, rows, count, made, PARTS, dtype))
        for one in found:
            differ = np.not_equal(one["support"], alone["support"])
            one |= {"rows": rows, "dtype": dtype, "equal": int(np.argmax([*differ, True]))}
        results += [{key: value for key, value in one.items() if key != "support"} for one in found]
        for one in results[-len(found) :]:
            print(
                {key: round(value, 3) if isinstance(value, float) else value for key, value in one.items()}, flush=True
            )
    return results


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", nargs="+", default=["1000000:float32", "200000:float64"])
    parser.add_argument("--gpu-workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--centers", type=int, default=1000)
    parser.add_argument("--atoms", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "records" / "gpu_workers.json")
    options = parser.parse_args()
    write({"settings": {"centers": options.centers, "atoms": options.atoms}, "runs": measured(options)}, options.out)


if __name__ == "__main__":
    main()
