"""Cost of one pass over a kernel matrix that is not kept, beside the matrix product it cannot do without.

Claim: with 20,000 points and centres, 54 features, float32 and 16 vectors, a pass (product, exponential, product with
the vectors) takes at most twice the time of the product X Zᵀ alone, made in the same tiles by the same threads and in
the same run. The other ratio is to the product as one would write it: blocks of 1,000 columns, threads left to BLAS.

Run: ``python benchmarks/tile_pass.py [--n 20000] [--repeat 5] [--out FILE]``

``--gpu`` checks and times the fused pass on a CUDA device instead: against float64 on odd sizes, then several block
shapes on ``--gpu-n`` points (551,012), and the plain tile loop; the record goes to tile_pass_gpu.json.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: tensors of a GPU need it
import numpy as np

from _common import RECORDS, need_cuda, parser, write
from kernelpursuit import KernelDictionary
from kernelpursuit._sklearn import usable_threads
from kernelpursuit.atoms.fused import Config, FusedPass
from kernelpursuit.atoms.threads import in_threads, spans
from kernelpursuit.atoms.tiles import MIB, cache_blocks
from kernelpursuit.kernels import make_kernel

FEATURES = 54
VECTORS = (1, 16, 32)
CONFIGS = [
    Config(128, 64, 4, 2),
    Config(128, 64, 4, 3),
    Config(128, 64, 8, 2),
    Config(128, 64, 8, 3),
    Config(128, 128, 8, 2),
    Config(128, 128, 8, 3),
    Config(64, 64, 4, 2),
    Config(64, 64, 4, 3),
    Config(64, 128, 4, 2),
    Config(128, 32, 4, 2),
    Config(128, 32, 4, 3),
    Config(128, 64, 4, 1),
    Config(64, 64, 4, 1),
    Config(64, 32, 4, 3),
    Config(256, 64, 8, 2),
]


def seconds(action: Callable[[], object]) -> float:
    """Time of one call."""
    start = perf_counter()
    action()
    return perf_counter() - start


def product_in_tiles(X: np.ndarray) -> None:
    """X Xᵀ in the tiles and by the threads of a pass; nothing is kept."""
    n = X.shape[0]
    blocks = cache_blocks(n, n, X.dtype.itemsize, 256 * MIB)

    def task(J: slice) -> None:
        buffer = np.empty((J.stop - J.start, blocks.rows), dtype=X.dtype)
        for rows in spans(0, n, blocks.rows):
            np.matmul(X[J], X[rows].T, out=buffer[:, : rows.stop - rows.start])

    in_threads(task, spans(0, n, blocks.columns))


def product_plain(X: np.ndarray) -> None:
    """X Xᵀ by blocks of 1,000 columns, threads left to BLAS."""
    for J in spans(0, X.shape[0], 1000):
        _ = X @ X[J].T


def measure(n: int, dtype: type, repeat: int) -> list[dict[str, Any]]:
    """One record for each number of vectors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, FEATURES)).astype(dtype)
    D = KernelDictionary(X, X, make_kernel("rbf", X), storage="tiles")
    V = {b: rng.standard_normal((n, b)).astype(dtype) for b in VECTORS}
    actions: dict[Any, Callable[[], object]] = {"tiled": lambda: product_in_tiles(X), "plain": lambda: product_plain(X)}
    actions |= {b: (lambda b=b: D.correlate(V[b])) for b in VECTORS}
    # In turns, so that whatever else the machine does falls on all of them; then the median of the ratios.
    rounds = [[seconds(action) for action in actions.values()] for _ in range(repeat)]
    times = dict(zip(actions, np.array(rounds).T, strict=True))
    return [
        {
            "n": n,
            "features": FEATURES,
            "dtype": np.dtype(dtype).name,
            "vectors": b,
            "threads": usable_threads(),
            "pass_s": float(np.median(times[b])),
            "tiled_product_s": float(np.median(times["tiled"])),
            "plain_product_s": float(np.median(times["plain"])),
            "pass_over_tiled_product": float(np.median(times[b] / times["tiled"])),
            "pass_over_plain_product": float(np.median(times[b] / times["plain"])),
        }
        for b in VECTORS
    ]


# ---------------------------------------------------------------------------------------------- CUDA


def device_points(torch: Any, n: int, m: int, d: int, far: bool) -> tuple[Any, Any, float]:
    """Points and centres on the device, some far from the others, and a width."""
    generator = torch.Generator(device="cuda").manual_seed(n + d)
    X = torch.randn((n, d), device="cuda", generator=generator)
    Z = X[:m].clone() + 0.1 * torch.randn((min(n, m), d), device="cuda", generator=generator)
    if far:
        X[:: max(1, n // 9)] *= 40
        Z[: min(9, m)] = X[:: max(1, n // 9)][: min(9, m)] + 0.1
    return X, Z, 0.5 / d


def device_error(torch: Any, n: int, m: int, d: int, b: int, far: bool) -> float:
    """Largest error of the fused pass against float64, relative to the norms of column and vector."""
    X, Z, gamma = device_points(torch, n, m, d, far)
    V = torch.randn((n, b), device="cuda")
    kernel = make_kernel("rbf", X, gamma=gamma)
    P = FusedPass(kernel.prepare(X), kernel.prepare(Z))
    out = P(V)
    if out is None:
        return float("nan")
    worst = 0.0
    for J in spans(0, Z.shape[0], 256):
        K = torch.exp(-gamma * torch.cdist(Z[J].double(), X.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2)
        scale = torch.linalg.norm(K, dim=1)[:, None] * torch.linalg.norm(V.double(), dim=0)[None, :]
        worst = max(worst, float(torch.max(torch.abs(out[J] - K @ V.double()) / scale)))
    return worst


def device_seconds(torch: Any, action: Callable[[], object], repeat: int = 2) -> float:
    """Best time of a call on the device, after one to warm up (and compile)."""
    action()
    times = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        start = perf_counter()
        action()
        torch.cuda.synchronize()
        times.append(perf_counter() - start)
    return min(times)


def check_device(torch: Any) -> list[dict[str, Any]]:
    """Errors on odd sizes."""
    cases = [(1000, 777, 3, 1), (5003, 131, 54, 16), (4999, 4097, 54, 33), (70001, 300, 100, 64), (257, 1, 13, 70)]
    records = []
    for n, m, d, b in cases:
        for far in (False, True):
            error = device_error(torch, n, min(n, m), d, b, far)
            records.append({"n": n, "m": m, "d": d, "b": b, "far": far, "error": error})
            print(f"n={n:6d} m={m:5d} d={d:3d} b={b:2d} far={far!s:5} error={error:.1e}")
    return records


def time_configs(torch: Any, points: Any, centres: Any, V: Any) -> list[dict[str, Any]]:
    """Time of each block shape."""
    records = []
    for config in CONFIGS:
        fused = FusedPass(points, centres, config)
        record: dict[str, Any] = config._asdict() | {"n": V.shape[0], "m": centres.shape[0], "b": V.shape[1]}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            time = device_seconds(torch, lambda fused=fused: fused(V)) if fused(V) is not None else None
        record |= {"seconds": time, "failure": str(said[0].message)[:300] if said else None}
        records.append(record)
        print(f"{tuple(config)!s:32} {'failed: ' + str(record['failure']) if time is None else f'{time:.3f} s'}")
    return records


def time_device(torch: Any, n: int) -> list[dict[str, Any]]:
    """Times of the block shapes on an eighth of the centres, of the best on all of them, and of the plain tiles."""
    X, _, _ = device_points(torch, n, 1, FEATURES, far=False)
    kernel = make_kernel("rbf", X)
    points = kernel.prepare(X)
    V = {b: torch.randn((n, b), device="cuda") for b in (1, 16, 32, 64)}
    records = time_configs(torch, points, points[slice(0, max(1, n // 8))], V[16])
    working = [(record["seconds"], i) for i, record in enumerate(records) if record["seconds"] is not None]
    if working:
        print(f"fastest: {CONFIGS[min(working)[1]]}")
        fused = FusedPass(points, points)  # the shape that the library takes for each number of vectors
        for b, vectors in V.items():
            time = device_seconds(torch, lambda vectors=vectors: fused(vectors), repeat=1)
            records.append({"n": n, "m": n, "b": b, "seconds": time})
            print(f"all {n:,} centres, {b} vectors: {time:.2f} s")
    D = KernelDictionary(X, X[: max(1, n // 8)].clone(), kernel, storage="tiles")
    D._fused = None
    time = device_seconds(torch, lambda: D.correlate(V[16]), repeat=1)
    records.append({"plain": D.plan, "n": n, "m": D.shape[1], "b": 16, "seconds": time})
    print(f"plain tiles, {D.shape[1]:,} centres: {time:.2f} s; {D.plan}")
    return records


def on_device(n: int) -> dict[str, Any]:
    """Checks and times on the CUDA device of this machine."""
    import torch
    import triton

    print(torch.cuda.get_device_name(), "torch", torch.__version__, "triton", triton.__version__)
    versions = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    return versions | {"errors": check_device(torch), "times": time_device(torch, n)}


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, None)
    options.add_argument("--n", type=int, default=20_000)
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--gpu", action="store_true")
    options.add_argument("--gpu-n", type=int, default=551_012)
    arguments = options.parse_args()
    records: Any
    if arguments.gpu:
        need_cuda()
        records = on_device(arguments.gpu_n)
    else:
        records = [r for dtype in (np.float32, np.float64) for r in measure(arguments.n, dtype, arguments.repeat)]
        for record in records:
            print(", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in record.items()))
    write(records, arguments.out or RECORDS / f"tile_pass{'_gpu' * arguments.gpu}.json")


if __name__ == "__main__":
    main()
