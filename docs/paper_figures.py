"""Draw three figures of the papers from runs of the library: bounds and test errors against the number of atoms.

- ``skpca.png``: sparse kernel PCA (Hussain and Shawe-Taylor 2008, figure 1), Boston housing and the 1,000 x 450 toy;
- ``kmp_bound.png``: kernel matching pursuit on Boston, 450 rows to train and 56 to test (the same paper, figure 2);
- ``kpfp_bound.png``: polytope faces pursuit on the same split (Diethe and Hussain 2009, figure 1).

Kernel widths, the ratio of the toy's variances, thresholds and delta are not in the papers; those used are in the code
and in ``docs/figures.md``. Needs matplotlib and housing.npz (arrays X, y).

Run: ``python docs/paper_figures.py --data DIR``; DIR defaults to the environment variable KERNELPURSUIT_DATA.
"""

import argparse
import os
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from kernelpursuit import KMPRegressor, PolytopeFacesRegressor, SparseKernelPCA
from kernelpursuit.bounds import compression_bound, kpca_bound, pseudo_dimension_bound, vc_bound

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURES = Path(__file__).parent / "figures"
DELTA = 0.05


def boston(folder):
    """Inputs scaled to [-1, 1] and targets, in a fixed random order."""
    with np.load(folder / "housing.npz", allow_pickle=False) as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    low, high = X.min(axis=0), X.max(axis=0)
    order = np.random.default_rng(0).permutation(len(X))
    return (2 * (X - low) / (high - low) - 1)[order], y[order]


def toy():
    """1,000 Gaussian points in 450 dimensions, 50 of them with a variance 100 times that of the others."""
    scale = np.where(np.arange(450) < 50, 1.0, 0.1)
    return np.random.default_rng(0).normal(size=(2000, 450)) * scale


def draw_skpca(ax, title, train, test, atoms, **kernel):
    """Residual of new data, compression bound and full kernel PCA bound against the number of atoms."""
    n, settings = len(train), dict(kernel)
    model = SparseKernelPCA(atoms, **kernel).fit(train)
    k = np.arange(1, len(model.support_) + 1)
    bound = compression_bound(model.residual_trace_[1:] / (n - k), k, n, DELTA)
    eigenvalues = np.linalg.eigvalsh(pairwise_kernels(train, metric=kernel.pop("kernel", "rbf"), **kernel))[::-1]
    tails = (eigenvalues.sum() - np.cumsum(eigenvalues)[: len(k)]) / n
    published = np.minimum.accumulate(kpca_bound(tails, k, n, DELTA, form="published"))
    residual = [SparseKernelPCA(int(size), **settings).fit(train).residual(test).mean() for size in k[::5]]
    ax.plot(k[::5], residual, "o", ms=3, color="#0072B2", label="residual of new data")
    ax.plot(
        k, np.minimum.accumulate(bound), color="#D55E00", label=f"compression bound (lowest at {k[bound.argmin()]})"
    )
    ax.plot(k, published, "--", color="#009E73", label="kernel PCA bound")
    ax.axhline(1, color="0.7", lw=0.8)
    ax.set(title=title, xlabel="number of atoms", ylabel="squared distance to the span", ylim=(0, 1.6))
    ax.legend(fontsize=8)
    return int(k[bound.argmin()])


def draw_two_axes(ax, k, bound, error, bound_name):
    """Bound on the left axis, test error on the right."""
    ax.plot(k, bound, color="#D55E00", label=f"{bound_name} (lowest at {k[np.argmin(bound)]})")
    right = ax.twinx()
    right.plot(k, error, "--", color="#0072B2", label=f"test error (lowest at {k[np.argmin(error)]})")
    ax.set(xlabel="number of atoms", ylabel=bound_name)
    right.set_ylabel("mean squared test error")
    handles = ax.get_lines() + right.get_lines()
    ax.legend(handles=handles, fontsize=8, loc="upper center")


def kmp_figure(X, y):
    """Bound of theorem 3, divided by 5 as printed, and test error of KMP."""
    model = KMPRegressor(60, gamma=0.1).fit(X[:450], y[:450])
    threshold = y[:450].std()
    bounds, errors = [], []
    for k, (seen, new) in enumerate(zip(model.staged_predict(X[:450]), model.staged_predict(X[450:]), strict=True), 1):
        misses = np.abs(seen - y[:450]) > threshold
        misses[model.support_[:k]] = False
        bounds.append(vc_bound(k, 450, misses.sum(), DELTA, form="tight") / 5)
        errors.append(np.mean((new - y[450:]) ** 2))
    return np.arange(1, len(bounds) + 1), np.array(bounds), np.array(errors)


def kpfp_figure(X, y):
    """Pseudo-dimension bound for targets in [-1, 1] and test error of polytope faces pursuit without release."""
    low, high = y[:450].min(), y[:450].max()
    z = np.clip(2 * (y - low) / (high - low) - 1, -1, 1)
    model = PolytopeFacesRegressor(60, release=False, gamma=0.1).fit(X[:450], z[:450])
    bounds, errors = [], []
    for k, (seen, new) in enumerate(zip(model.staged_predict(X[:450]), model.staged_predict(X[450:]), strict=True), 1):
        outside = np.setdiff1d(np.arange(450), model.support_[:k])
        residual = np.mean((np.clip(seen, -1, 1) - z[:450])[outside] ** 2)
        bounds.append(pseudo_dimension_bound(residual, k, 450, DELTA))
        errors.append(np.mean((np.clip(new, -1, 1) - z[450:]) ** 2))
    return np.arange(1, len(bounds) + 1), np.array(bounds), np.array(errors)


def main():
    """Draw all and print where the curves are lowest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("KERNELPURSUIT_DATA"))
    folder = parser.parse_args().data
    if folder is None or not (Path(folder) / "housing.npz").exists():
        raise SystemExit("housing.npz not found: give its folder with --data or KERNELPURSUIT_DATA")
    X, y = boston(Path(folder))
    FIGURES.mkdir(exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    points = toy()
    at = draw_skpca(axes[0], "Boston housing", X[:450], X[450:], 100, gamma=0.5)
    print(f"skpca, Boston: compression bound lowest at {at}")
    at = draw_skpca(axes[1], "toy, 50 large variances", points[:1000], points[1000:], 100, kernel="cosine")
    print(f"skpca, toy: compression bound lowest at {at}")
    figure.savefig(FIGURES / "skpca.png", dpi=110)
    for name, make, label in (
        ("kmp_bound", kmp_figure, "VC bound / 5"),
        ("kpfp_bound", kpfp_figure, "pseudo-dimension bound"),
    ):
        k, bound, error = make(X, y)
        print(f"{name}: bound lowest at {k[bound.argmin()]}, test error lowest at {k[error.argmin()]}")
        figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
        draw_two_axes(ax, k, bound, error, label)
        figure.savefig(FIGURES / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
