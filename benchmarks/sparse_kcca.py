"""Sparse kernel CCA beside the full kernel CCA of cca-zoo: time, peak memory and correlation on rows held out.

Claim: on two views of 2,000 objects SparseKernelCCA is at least 100 times faster than cca-zoo's KCCA, and the mean
correlation of two pairs of variates on held-out rows is no lower. Views ``fou``/``zer`` and ``kar``/``fac`` of the data
set mfeat, rows shuffled, columns standardised, Gaussian kernels of the same width for both.

Time and memory are those of a fit on all n rows, each in a process of its own. Time is processor time, which other work
on the machine disturbs less than the clock (both are in the record); memory is how far the peak of the process rises
above what it held before the fit. Correlations are those on a fifth of the rows after a fit on the others. cca-zoo runs
with its default shrinkage, and its correlation also for the shrinkages of ``--shrinkages``, of which the best on the
held-out rows themselves is reported.

Run: ``OMP_NUM_THREADS=1 python benchmarks/sparse_kcca.py --data DIR --peer-python PYTHON``, where PYTHON is an
interpreter that has cca-zoo (4.0.1 was used); default: this one.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

from _common import load, parser, write

PAIRS = (("fou", "zer"), ("kar", "fac"))
COMPONENTS = 2
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "sampled": {"candidates": 59, "random_state": 0},
    "sampled, 200 atoms": {"n_atoms": 200, "candidates": 59, "random_state": 0},
}
DEFAULT_SHRINKAGE = 0.1

Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]]


def views(folder: str | None, pair: tuple[str, str], n: int) -> list[np.ndarray]:
    """Two views of `n` objects drawn at random."""
    rows = np.random.default_rng(0).permutation(2000)[:n]
    out, stored = [], load("mfeat", folder).views
    for name in pair:
        X = stored[name][rows]
        spread = X.std(axis=0)
        out.append((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
    return out


def ours(options: dict[str, Any]) -> Fit:
    """Fit of SparseKernelCCA."""
    from kernelpursuit import SparseKernelCCA

    def fit(X: np.ndarray, Y: np.ndarray) -> Callable:
        gammas = {"gamma_x": 1 / X.shape[1], "gamma_y": 1 / Y.shape[1]}
        return SparseKernelCCA(n_components=COMPONENTS, **gammas, **options).fit(X, Y).transform

    return fit


def peer(options: dict[str, Any]) -> Fit:
    """Fit of cca-zoo's KCCA."""
    from cca_zoo.nonparametric import KCCA

    def fit(X: np.ndarray, Y: np.ndarray) -> Callable:
        model = KCCA(COMPONENTS, kernel="rbf", gamma=[1 / X.shape[1], 1 / Y.shape[1]], **options).fit([X, Y])
        return lambda A, B: tuple(model.transform([A, B]))

    return fit


def held_out_correlation(fit: Fit, X: np.ndarray, Y: np.ndarray) -> float:
    """Mean correlation of the variates on the last fifth of the rows after a fit on the others."""
    cut = len(X) * 4 // 5
    x_scores, y_scores = fit(X[:cut], Y[:cut])(X[cut:], Y[cut:])
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(x_scores.T, y_scores.T, strict=True)]))


def peak() -> float:
    """Most memory this process has held so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(job: dict[str, Any]) -> dict[str, float]:
    """What a process of its own measures."""
    X, Y = views(job["data"], tuple(job["pair"]), job["n"])
    fit = {"ours": ours, "peer": peer}[job["who"]](job["options"])
    if job["what"] == "correlation":
        return {"correlation": held_out_correlation(fit, X, Y)}
    fit(X[:50], Y[:50])  # loads what is loaded on first use
    before = peak()
    times, clock = [], []
    for _ in range(job["repeat"]):
        start, begun = process_time(), perf_counter()
        fit(X, Y)
        times.append(process_time() - start)
        clock.append(perf_counter() - begun)
    medians = {"seconds": statistics.median(times), "clock_seconds": statistics.median(clock)}
    return medians | {"MiB": peak() - before}


def ask(python: str, **job: Any) -> dict[str, float]:
    """Result of `work` in a new process."""
    call = [python, "-W", "ignore", __file__, "--job", json.dumps(job)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise SystemExit(f"{python} could not measure {job['who']} ({reason[0]}); see --peer-python")
    return json.loads(done.stdout.splitlines()[-1])


def compare(
    data: str | None, pair: tuple[str, str], n: int, peer_python: str, shrinkages: list[float]
) -> dict[str, Any]:
    """Time, memory and correlation of both on one pair of views."""
    common = {"data": data, "pair": pair, "n": n}
    full: dict[str, Any] = ask(peer_python, who="peer", what="cost", repeat=1, options={}, **common)
    correlations = {
        shrinkage: ask(peer_python, who="peer", what="correlation", options={"shrinkage": shrinkage}, **common)
        for shrinkage in [DEFAULT_SHRINKAGE, *shrinkages]
    }
    full["correlation"] = correlations[DEFAULT_SHRINKAGE]["correlation"]
    best = max(correlations, key=lambda shrinkage: correlations[shrinkage]["correlation"])
    full["best_shrinkage"], full["best_correlation"] = best, correlations[best]["correlation"]
    record: dict[str, Any] = {"views": "/".join(pair), "n": n, "KCCA": full}
    for name, options in OURS.items():
        own: dict[str, Any] = ask(sys.executable, who="ours", what="cost", repeat=5, options=options, **common)
        own |= ask(sys.executable, who="ours", what="correlation", options=options, **common)
        own["times_faster"] = full["seconds"] / own["seconds"]
        own["times_less_memory"] = full["MiB"] / max(own["MiB"], 0.1)
        record[name] = own
        print(
            f"{record['views']} n={n} {name}: {own['seconds']:.3f} s against {full['seconds']:.2f} s "
            f"({own['times_faster']:.0f} times faster), {own['MiB']:.0f} MiB against {full['MiB']:.0f} MiB, "
            f"held-out correlation {own['correlation']:.3f} against {full['correlation']:.3f} "
            f"(best shrinkage, {best:g}: {full['best_correlation']:.3f})",
            flush=True,
        )
    return record


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, "sparse_kcca")
    options.add_argument("--n", type=int, nargs="+", default=[1000, 2000])
    options.add_argument("--peer-python", default=sys.executable)
    options.add_argument("--shrinkages", type=float, nargs="*", default=[1e-3])
    options.add_argument("--job", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.job:
        print(json.dumps(work(json.loads(arguments.job))))
        return
    records = [
        compare(arguments.data, pair, n, arguments.peer_python, arguments.shrinkages)
        for n in arguments.n
        for pair in PAIRS
    ]
    write(records, arguments.out)


if __name__ == "__main__":
    main()
