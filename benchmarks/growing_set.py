"""How many atoms to look at as the path gets longer: fixed, falling, linear and geometric sample sizes at equal cost.

Claim: with the same number of kernel columns looked at over a path of 200 atoms, the training loss and the test error
after 50, 100 and 200 atoms as a share of plain greedy choice, which looks at all columns in every step; geometric means
over sets and splits. Every schedule but ``fixed 59`` looks at 228 columns a step on average.

Run: ``python benchmarks/growing_set.py --data DIR [--splits 5] [--rows 2000] [--out FILE]``. DIR (default:
$KERNELPURSUIT_DATA) holds .npz files with X and y. About five minutes with one thread.
"""

from __future__ import annotations

import numpy as np

from _common import load, parser, write
from kernelpursuit import DenseDictionary, Squares, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms

REGRESSION = ("abalone", "cpusmall", "cal_housing", "space_ga")
CLASSES = ("ida_image",)
NUMBERS = (50, 100, 200)
STEPS, FEW, MANY = 200, 59, 228


def schedules() -> dict[str, np.ndarray]:
    """Sample size of each step; all but the first sum to the same."""
    t, total = np.arange(STEPS), STEPS * MANY
    linear = FEW + 2 * (MANY - FEW) / (STEPS - 1) * t
    low, high = 1.0, 1.1
    while high - low > 1e-12:  # the factor for which the sizes sum to the total
        factor = (low + high) / 2
        low, high = (factor, high) if np.sum(FEW * factor**t) < total else (low, factor)
    sizes = {
        f"fixed {FEW}": np.full(STEPS, FEW),
        f"fixed {MANY}": np.full(STEPS, MANY),
        f"linear, {FEW} + {linear[1] - FEW:.2f} t": linear,
        f"geometric, {FEW} * {low:.4f}**t": FEW * low**t,
        "falling, the linear one backwards": linear[::-1],
    }
    return {name: np.round(values).astype(int) for name, values in sizes.items()}


def drawing(sizes: np.ndarray, rng: np.random.Generator):
    """Candidates: a fresh sample of the size that the step has."""
    left = iter(sizes)

    def candidates(alive: np.ndarray) -> np.ndarray:
        live = np.flatnonzero(alive)
        return np.sort(rng.choice(live, size=min(next(left, sizes[-1]), len(live)), replace=False))

    return candidates


def standardised(folder: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised data; classes as -1 and +1, the last against the rest."""
    found = load(name, folder)
    X, y = found.data, found.target
    if name in CLASSES:
        y = np.where(y == np.max(y), 1.0, -1.0)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    return X, (y - y.mean()) / y.std()


def curves(X: np.ndarray, y: np.ndarray, rows: int, seed: int) -> dict[str, dict[int, tuple[float, float]]]:
    """Training loss and test error of each schedule, and of plain greedy choice, at each number of atoms."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.split(order[: rows + 2000], [min(rows, len(X) // 2)])
    kernel = make_kernel("rbf", X[train])
    K, K_test = kernel.between(X[train], X[train]), kernel.between(X[test], X[train])
    out: dict[str, dict[int, tuple[float, float]]] = {}
    for name, sizes in {"greedy": None, **schedules()}.items():
        criterion = Squares(DenseDictionary(K), y[train])
        look = {} if sizes is None else {"candidates": drawing(sizes, np.random.default_rng(seed))}
        path = pursue(criterion, n_atoms(STEPS), **look)
        coef, atoms = np.array([*criterion.weight_path(len(path))])[:, :, 0], path.atoms
        out[name] = {}
        for k in NUMBERS:
            error = y[test] - K_test[:, atoms[:k]] @ coef[k, 1 : k + 1] - coef[k, 0]
            out[name][k] = (path.values("loss")[k], float(np.mean(error**2)))
    return out


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, "growing_set")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--rows", type=int, default=2000)
    arguments = options.parse_args()
    records: list[dict] = []
    for name in (*REGRESSION, *CLASSES):
        X, y = standardised(arguments.data, name)
        for seed in range(1, arguments.splits + 1):
            found = curves(X, y, arguments.rows, seed)
            for schedule, sizes in schedules().items():
                for k in NUMBERS:
                    ratios = np.array(found[schedule][k]) / found["greedy"][k]
                    records.append(
                        {"set": name, "split": seed, "schedule": schedule, "atoms": k, "columns": int(sizes[:k].sum())}
                        | {"training_loss_ratio": float(ratios[0]), "test_error_ratio": float(ratios[1])}
                    )
        print(name, "done", flush=True)
    for schedule, sizes in schedules().items():
        for k in NUMBERS:
            rows = [row for row in records if row["schedule"] == schedule and row["atoms"] == k]
            mean = {
                key: float(np.exp(np.mean([np.log(row[key]) for row in rows])))
                for key in ("training_loss_ratio", "test_error_ratio")
            }
            records.append(
                {"set": "geometric mean", "schedule": schedule, "atoms": k, "columns": int(sizes[:k].sum())} | mean
            )
            print(f"{schedule:35s} {k:4d} atoms, {sizes[:k].sum():6d} columns: {mean}", flush=True)
    write(records, arguments.out)


if __name__ == "__main__":
    main()
