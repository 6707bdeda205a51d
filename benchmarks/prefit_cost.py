"""Cost of pre-fitting beside the matrix-vector products it cannot do without, and beside orthogonal_mp.

Claim: on a 4,000 x 4,000 kernel matrix in memory, 200 atoms cost at most 1.5 times the time of 200 products of that
matrix with a vector, measured in the same run. The second ratio is to ``sklearn.linear_model.orthogonal_mp``, which
does the same job as the back-fitting variant.

Run: ``python benchmarks/prefit_cost.py [--n 4000] [--atoms 200] [--repeat 7] [--out FILE]``
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from sklearn.linear_model import orthogonal_mp
from sklearn.metrics.pairwise import rbf_kernel

from _common import parser, write
from kernelpursuit import DenseDictionary, Squares, pursue
from kernelpursuit.pursuit import n_atoms


def seconds(action: Callable[[], object]) -> float:
    """Time of one call."""
    start = perf_counter()
    action()
    return perf_counter() - start


def problem(n: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """A kernel matrix of `n` points in five dimensions and a noisy smooth target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return rbf_kernel(X, gamma=width), y


def measure(n: int, atoms: int, width: float, repeat: int) -> dict[str, float]:
    """Times of the products, of the pursuits and of orthogonal_mp on one problem."""
    K, y = problem(n, width)
    D = DenseDictionary(K)
    norms = np.sqrt(np.sum(K * K, axis=0))
    normalised = K / norms

    def products() -> None:
        v = y
        for _ in range(atoms):
            v = K.T @ v
            v /= np.abs(v).max()

    actions = {
        "products": products,
        "prefit": lambda: pursue(Squares(D, y, intercept=False), n_atoms(atoms)),
        "backfit": lambda: pursue(Squares(D, y, variant="backfit", intercept=False), n_atoms(atoms)),
        "orthogonal_mp": lambda: orthogonal_mp(normalised, y, n_nonzero_coefs=atoms, precompute=False),
    }
    # In turns, so that whatever else the machine does falls on all of them; then the median of the ratios.
    rounds = [[seconds(action) for action in actions.values()] for _ in range(repeat)]
    times = dict(zip(actions, np.array(rounds).T, strict=True))
    record = {"n": n, "atoms": atoms, "gamma": width}
    record |= {f"{name}_s": float(np.median(column)) for name, column in times.items()}
    for above, below in (("prefit", "products"), ("backfit", "products"), ("prefit", "orthogonal_mp")):
        record[f"{above}_over_{below}"] = float(np.median(times[above] / times[below]))
    return record


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, "prefit_cost")
    options.add_argument("--n", type=int, default=4000)
    options.add_argument("--atoms", type=int, default=200)
    options.add_argument("--repeat", type=int, default=7)
    arguments = options.parse_args()
    records = [measure(arguments.n, arguments.atoms, width, arguments.repeat) for width in (0.1, 1.0)]
    for record in records:
        print(", ".join(f"{name}={value:.3g}" for name, value in record.items()))
    write(records, arguments.out)


if __name__ == "__main__":
    main()
