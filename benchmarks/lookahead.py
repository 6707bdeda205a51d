"""Passes over the data that look-ahead saves, and what that is worth beside orthogonal_mp.

Claims: (1) on a kernel matrix in memory, 8,000 rows of real data, the training error that
``sklearn.linear_model.orthogonal_mp`` reaches with 300 atoms is reached several times faster; what the matrix products
alone would take is in the record, and with it how much a program without any other cost could gain, and how much one
whose products reach what the machine can read and multiply (`roofline`). Which weakness costs no error is said by
training rows alone, each fourth of them left out in turn (`--choose`): of those that cost none on
any set, the one with the fewest passes; (2) over five real sets with a wide and a narrow kernel, an atom costs at most
0.35 passes at weakness 1 and 0.12 at weakness 0.5, and the test error stays within 1 % of plain greedy choice.

Run: ``python benchmarks/lookahead.py --data DIR [--rows 8000] [--atoms 300] [--repeat 3] [--race | --choose]
[--weaknesses 1 0.1 ...] [--sets usps ...]``
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import orthogonal_mp
from sklearn.metrics.pairwise import rbf_kernel

from _common import parser, regression_split, seconds, show, write
from kernelpursuit import KernelDictionary, Squares, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import first_of, loss_below, n_atoms
from kernelpursuit.pursuit.lookahead import MOST

SETS = ("cal_housing", "covtype", "cpusmall", "usps", "abalone")
RACES = ("cal_housing", "covtype", "cpusmall", "usps", "keel_letter")  # abalone is too small for 8,000 rows
NO_COST = 0.005  # larger errors on rows left out than this share; a fourth differs from another by more
WIDTHS = {"wide": 0.3, "narrow": 3.0}  # gamma times the number of features, which are standardised
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weakness 1": {"lookahead": 64},
    "weakness 0.5": {"lookahead": "auto", "weakness": 0.5},
}


def passes(folder: str, name: str, width: str, rows: int, atoms: int) -> list[dict[str, Any]]:
    """Passes for each atom and test error of each way to choose, on one set with one kernel, in float64.

    At weakness 0.5 the kernel is computed again at each pass, which is what few passes are for; the other two read a
    matrix in memory, to save time: their passes are the same.
    """
    X, y, X_test, y_test = regression_split(folder, name, rows)
    kernel = make_kernel("rbf", X, gamma=WIDTHS[width] / X.shape[1])
    records, plain = [], np.nan
    for how, options in RUNS.items():
        run = Squares(KernelDictionary(X, X, kernel, storage="tiles" if "weakness" in options else "dense"), y)
        time, path = seconds(lambda run=run, options=options: pursue(run, n_atoms(atoms), **options))
        coef = run.coef()[:, 0]
        error = float(np.mean((y_test - coef[0] - kernel.between(X_test, X[path.atoms]) @ coef[1:]) ** 2))
        plain = error if how == "plain" else plain
        records.append(
            {"set": name, "kernel": width, "how": how, "n": len(X), "atoms": len(path), "seconds": time}
            | {"passes_per_atom": path.passes / len(path), "training_error": path.steps[-1].loss}
            | {"test_error": error, "test_error_over_plain": error / plain}
            | {"least_certificate": min(step.weakness for step in path.steps)}
        )
        show(records[-1])
    return records


def race(folder: str, name: str, rows: int, atoms: int, repeat: int, weaknesses: list[float]) -> list[dict[str, Any]]:
    """Time of orthogonal_mp and time until its training error is reached, the kernel matrix being there for both."""
    X, y, X_test, y_test = regression_split(folder, name, rows, least=1000)
    gamma = WIDTHS["narrow"] / X.shape[1]
    K = rbf_kernel(X, gamma=gamma)
    K -= K.mean(axis=0)  # orthogonal_mp knows no intercept
    norms = np.sqrt(np.sum(K * K, axis=0))
    K /= norms
    single = X.astype(np.float32)
    kernel = make_kernel("rbf", single, gamma=gamma)
    dictionary = KernelDictionary(single, single, kernel, storage="dense")
    records, times = [], {weakness: [] for weakness in weaknesses}
    for _ in range(repeat):  # taking turns, so that all meet the same machine
        peer, coef = seconds(lambda: orthogonal_mp(K, y, n_nonzero_coefs=atoms, precompute=False))
        goal = float(np.mean((y - K @ coef) ** 2))
        for weakness in weaknesses:
            run = Squares(dictionary, y.astype(np.float32))
            run.reserve(2 * atoms)  # as estimators do
            path = pursue(run, first_of(n_atoms(2 * atoms), loss_below(0.0, goal)), lookahead="auto", weakness=weakness)
            took = path.steps[-1].seconds if path.steps[-1].loss <= goal else np.nan
            times[weakness].append((peer, took, run, path))
    machine = speeds(dictionary)
    for weakness, found in times.items():
        _, _, run, path = found[-1]
        coef = run.coef()[:, 0]
        error = np.mean(
            (y_test - coef[0] - kernel.between(X_test.astype(np.float32), single[path.atoms]) @ coef[1:]) ** 2
        )
        alone = products_alone(dictionary, path)
        records.append(
            {"set": name, "n": len(X), "atoms_of_orthogonal_mp": atoms, "its_error": goal, "weakness": weakness}
            | {"atoms_needed": len(path), "passes": path.passes, "test_error": float(error)}
            | {"orthogonal_mp_s": float(np.median([t[0] for t in found])), "s": float(np.median([t[1] for t in found]))}
            | {"times_faster": float(np.median([t[0] / t[1] for t in found]))}
            | {"products_alone_s": alone, "times_faster_at_most": found[-1][0] / alone}
            | roofline(len(X), len(path), machine, found[-1][0])
        )
        records[-1]["test_error_over_first"] = records[-1]["test_error"] / records[0]["test_error"]
        show(records[-1])
    return records


def products_alone(dictionary: KernelDictionary, path: Any) -> float:
    """Seconds that the passes of a path take as matrix products with as many vectors as it took atoms at a pass."""
    vectors = np.ones((dictionary.shape[0], max(1, round(len(path) / path.passes))), dtype=dictionary.dtype)
    return path.passes * min(seconds(lambda: dictionary.correlate(vectors))[0] for _ in range(3))


def left_out(folder: str, name: str, rows: int, weaknesses: list[float]) -> list[dict[str, Any]]:
    """Errors on training rows, a fourth left out in turn, the others fitted as closely as 200 atoms at weakness 1 do.

    The passes are means over the fourths, the errors are over all rows. No test row is looked at.
    """
    X, y, *_ = regression_split(folder, name, rows, least=1000)
    single, target = X.astype(np.float32), y.astype(np.float32)
    kernel = make_kernel("rbf", single, gamma=WIDTHS["narrow"] / X.shape[1])
    fourth = 4 * np.random.default_rng(0).permutation(len(X)) // len(X)
    found: dict[float, list[tuple[np.ndarray, int, float]]] = {weakness: [] for weakness in weaknesses}
    for out in (fourth == part for part in range(4)):
        fitted, known = single[~out], target[~out]
        dictionary = KernelDictionary(fitted, fitted, kernel, storage="dense")
        goal = pursue(Squares(dictionary, known), n_atoms(200)).steps[-1].loss
        for weakness in weaknesses:
            run = Squares(dictionary, known)
            path = pursue(run, first_of(n_atoms(600), loss_below(0.0, goal)), lookahead="auto", weakness=weakness)
            coef = run.coef()[:, 0]
            values = coef[0] + kernel.between(single[out], fitted[path.atoms]) @ coef[1:]
            found[weakness].append(((y[out] - values) ** 2, len(path), path.passes))
    records = []
    for weakness, parts in found.items():
        squares, atoms, passes_made = zip(*parts, strict=True)
        record = {"set": name, "n": len(X), "weakness": weakness, "error": float(np.mean(np.concatenate(squares)))}
        records.append(record | {"atoms": float(np.mean(atoms)), "passes": float(np.mean(passes_made))})
        records[-1]["error_over_first"] = record["error"] / records[0]["error"]
        show(records[-1])
    return records


def chosen(records: list[dict[str, Any]]) -> dict[str, float]:
    """The weakness with the fewest passes of those that cost no error on any set; of equal ones the largest."""
    sums: dict[float, dict[str, float]] = {}
    for one in records:
        known = sums.setdefault(one["weakness"], {"passes": 0.0, "most": 0.0})
        known["passes"] += one["passes"]
        known["most"] = max(known["most"], one["error_over_first"])
    free = {weakness: known for weakness, known in sums.items() if known["most"] <= 1 + NO_COST}
    best = min(free, key=lambda weakness: (free[weakness]["passes"], -weakness))
    return {"weakness": best, "largest_error_over_first": free[best]["most"], "passes": free[best]["passes"]}


def speeds(dictionary: KernelDictionary) -> dict[str, float]:
    """What this machine does now: seconds to read the matrix for one vector, and the rate of a square product."""
    vector, square = np.ones((dictionary.shape[0], 1), dtype=np.float32), np.ones((3072, 3072), dtype=np.float32)
    read = min(seconds(lambda: dictionary.correlate(vector))[0] for _ in range(5))
    multiply = min(seconds(lambda: square @ square)[0] for _ in range(3))
    return {"read_s": read, "gflop_per_s": 2e-9 * len(square) ** 3 / multiply}


def roofline(n: int, atoms: int, machine: dict[str, float], peer: float) -> dict[str, Any]:
    """Least time of `atoms` steps: the matrix is read for the norms and for each block, and multiplied by each vector.

    A block is no longer than `MOST`, and reading is not hidden behind multiplying: BLAS copies the matrix first.
    """
    reads = 1 + -(-atoms // MOST)
    least = reads * machine["read_s"] + 2e-9 * n**2 * atoms / machine["gflop_per_s"]
    return machine | {"roofline_s": least, "times_faster_by_roofline": peer / least}


def main() -> None:
    """Print the figures and write the record."""
    options = parser(__doc__, "lookahead")
    options.add_argument("--rows", type=int, default=8000)
    options.add_argument("--atoms", type=int, default=300)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--weaknesses", type=float, nargs="+", default=[1.0, 0.5, 0.3, 0.2, 0.1])
    options.add_argument("--race", action="store_true", help="the first claim only")
    options.add_argument("--choose", action="store_true", help="which weakness training rows ask for")
    options.add_argument("--sets", nargs="+", default=RACES, help="of the first claim")
    arguments = options.parse_args()
    if arguments.choose:
        sizes = arguments.rows, arguments.weaknesses
        errors = [record for name in arguments.sets for record in left_out(arguments.data, name, *sizes)]
        show(chosen(errors))
        write({"left_out": errors, "chosen": chosen(errors)}, arguments.out)
        return
    sizes = arguments.rows, arguments.atoms, arguments.repeat, arguments.weaknesses
    races = [record for name in arguments.sets for record in race(arguments.data, name, *sizes)]
    if arguments.race:
        write({"race": races}, arguments.out)
        return
    runs = [
        record
        for name in SETS
        for width in WIDTHS
        for record in passes(arguments.data, name, width, arguments.rows, arguments.atoms)
    ]
    means = {
        how: {
            key: float(np.mean([run[key] for run in runs if run["how"] == how]))
            for key in ("passes_per_atom", "test_error_over_plain")
        }
        for how in RUNS
    }
    for how, values in means.items():
        show({"mean of": how} | values)
    write({"race": races, "passes": runs, "means": means}, arguments.out)


if __name__ == "__main__":
    main()
