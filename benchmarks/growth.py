"""How the time of a fit grows with the number of rows, at a fixed number of atoms.

Claim: n doubled, an active set costs twice the time and all atoms four times. The kernel is recomputed in tiles
throughout, so that no size changes the method.

Run: ``python benchmarks/growth.py --data DIR [--atoms 50] [--largest 32000] [--picture FILE]``; with matplotlib a
picture is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from _common import forest_cover, parser, seconds, show, write
from kernelpursuit import KMPClassifier

WAYS: dict[str, dict[str, Any]] = {
    "active set of 59": {"candidates": 59},
    "all atoms, weakness 0.5": {"weakness": 0.5},
    "all atoms, weakness 1": {},
}


def measure(folder: str, atoms: int, largest: int) -> list[dict[str, Any]]:
    """Time of each way for each number of rows."""
    X, y = forest_cover(folder)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (2 * (X - low) / np.where(high > low, high - low, 1) - 1).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    KMPClassifier(5, gamma=2.0, memory=0).fit(X[order[:2000]], y[order[:2000]])  # threads start, caches fill
    records = []
    n = largest // 16
    while n <= largest:
        for way, options in WAYS.items():
            model = KMPClassifier(atoms, gamma=2.0, memory=0, alpha=0.0, random_state=0, **options)
            time, _ = seconds(lambda model=model, n=n: model.fit(X[order[:n]], y[order[:n]]))
            records.append({"way": way, "n": n, "atoms": atoms, "passes": model.path_.passes, "seconds": time})
            show(records[-1])
        n *= 2
    return records


def doublings(records: list[dict[str, Any]]) -> dict[str, float]:
    """Factor by which the time grows when n doubles, fitted to the three largest sizes."""
    factors = {}
    for way in WAYS:
        mine = [record for record in records if record["way"] == way][-3:]
        slope = np.polyfit(np.log2([r["n"] for r in mine]), np.log2([r["seconds"] for r in mine]), 1)[0]
        factors[way] = float(2**slope)
    return factors


def draw(records: list[dict[str, Any]], factors: dict[str, float], picture: Path) -> None:
    """Times against rows, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for way, marker in zip(WAYS, "osD", strict=True):
        mine = [record for record in records if record["way"] == way]
        label = f"{way}: x {factors[way]:.1f} when n doubles"
        axes.loglog([r["n"] for r in mine], [r["seconds"] for r in mine], marker=marker, label=label)
    sizes = sorted({record["n"] for record in records})
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.minorticks_off()
    axes.set(xlabel="training rows", ylabel="seconds", title=f"Forest cover, {records[0]['atoms']} atoms")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=120)


def main() -> None:
    """Print the times, write the record, draw the picture."""
    options = parser(__doc__, "growth")
    options.add_argument("--atoms", type=int, default=50)
    options.add_argument("--largest", type=int, default=32_000)
    options.add_argument("--picture", type=Path)
    arguments = options.parse_args()
    records = measure(arguments.data, arguments.atoms, arguments.largest)
    factors = doublings(records)
    show(factors)
    write({"times": records, "factor_when_n_doubles": factors}, arguments.out)
    if arguments.picture:
        draw(records, factors, arguments.picture)


if __name__ == "__main__":
    main()
