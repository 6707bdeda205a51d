"""Sparse kernel PCA beside KernelPCA (arpack), and its atoms beside randomly drawn ones.

Claims, each measured in one run: (1) at n = 10,000 the time of a fit and of a transform of 2,000 new rows as a share of
what ``KernelPCA(eigen_solver="arpack")`` takes for as many components, and how much of its variance is kept; (2) the
residual trace of the chosen atoms as a share of that of uniformly drawn ones (``Nystroem``), mean of several draws.

Run: ``python benchmarks/sparse_kpca.py [--n 10000] [--atoms 100] [--draws 5] [--data DIR] [--out FILE]``. With a folder
of .npz files (default: $KERNELPURSUIT_DATA) real sets are used besides a synthetic one.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem

from _common import datasets, load, parser, write
from kernelpursuit import SparseKernelPCA

COMPONENTS, NEW = 10, 2000
SELECTIONS: dict[str, dict[str, Any]] = {
    "rayleigh": {},
    "rayleigh, active set 59": {"candidates": 59},
    "diagonal": {"selection": "diagonal"},
    "random": {"selection": "random"},
}


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Time of one call, and its result."""
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


def problems(n: int, folder: str | None) -> dict[str, np.ndarray]:
    """Standardised data sets of at most `n` rows to fit and `NEW` more."""
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((30, 8))
    sets = {"mixture": centres[rng.integers(30, size=n + NEW)] + rng.standard_normal((n + NEW, 8))}
    for name in ("cal_housing", "covtype"):
        if datasets.find_file(name, folder):
            X = load(name, folder).data
            sets[name] = X[rng.choice(len(X), n + NEW, replace=False)].astype(np.float64)
    return {name: (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1) for name, X in sets.items()}


def cost(X: np.ndarray, new: np.ndarray, atoms: int) -> list[dict]:
    """Times and variance kept as shares of those of KernelPCA."""
    gamma = 1 / X.shape[1]
    peer = KernelPCA(COMPONENTS, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0)
    fit, _ = seconds(lambda: peer.fit(X))
    transform, _ = seconds(lambda: peer.transform(new))
    rows = []
    for name, options in SELECTIONS.items():
        model = SparseKernelPCA(atoms, n_components=COMPONENTS, gamma=gamma, random_state=0, **options)
        own_fit, _ = seconds(lambda model=model: model.fit(X))
        own_transform, _ = seconds(lambda model=model: model.transform(new))
        kept = float(np.sum(model.eigenvalues_) / np.sum(peer.eigenvalues_))
        rows.append({"selection": name, "atoms": atoms, "fit_s": own_fit, "kernel_pca_fit_s": fit})
        rows[-1] |= {"fit_ratio": own_fit / fit, "transform_ratio": own_transform / transform, "variance_kept": kept}
    return rows


def quality(X: np.ndarray, numbers: list[int], draws: int) -> list[dict]:
    """Residual trace of chosen atoms as a share of that of drawn ones."""
    gamma = 1 / X.shape[1]
    paths = {
        name: SparseKernelPCA(max(numbers), gamma=gamma, random_state=0, **options).fit(X).residual_trace_
        for name, options in SELECTIONS.items()
    }
    rows = []
    for k in numbers:
        features = (Nystroem(gamma=gamma, n_components=k, random_state=seed).fit_transform(X) for seed in range(draws))
        drawn = float(np.mean([len(X) - np.sum(Z**2) for Z in features]))
        row = {"atoms": k, "drawn_trace_share": drawn / len(X)}
        rows.append(row | {f"trace_ratio {name}": float(trace[k] / drawn) for name, trace in paths.items()})
    return rows


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, "sparse_kpca")
    options.add_argument("--n", type=int, default=10_000)
    options.add_argument("--atoms", type=int, default=100)
    options.add_argument("--draws", type=int, default=5, help="0: the first claim only")
    arguments = options.parse_args()
    records = []
    for name, X in problems(arguments.n, arguments.data).items():
        train, new = X[:-NEW], X[-NEW:]
        costs = cost(train, new, arguments.atoms)
        numbers = [20, 50, 100, 200] if arguments.draws else []
        traces = quality(train[: arguments.n // 2], numbers, arguments.draws) if numbers else []
        for row in [*costs, *traces]:
            text = {key: f"{value:.3g}" if isinstance(value, float) else value for key, value in row.items()}
            print(name, ", ".join(f"{key}={value}" for key, value in text.items()), flush=True)
        records.append({"set": name, "n": len(train), "cost": costs, "trace": traces})
    write(records, arguments.out)


if __name__ == "__main__":
    main()
