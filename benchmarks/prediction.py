"""Time of a prediction beside the matrix product it cannot do without, and the memory it takes.

30,000 rows of 54 features, 1,600 atoms: the kernel values would fill 183 MiB in float32. The peer is ``X @ centres.T``
as one product, threads left to BLAS.

Run: ``python benchmarks/prediction.py [--rows 30000] [--atoms 1600] [--repeat 7]``
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

from _common import parser, seconds, show, write
from kernelpursuit import KMPRegressor

FEATURES = 54


def measure(rows: int, atoms: int, dtype: type, repeat: int) -> dict[str, Any]:
    """Median times in turns, and the peak of the memory taken by a prediction."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, FEATURES)).astype(dtype)
    train = X[: 2 * atoms]
    model = KMPRegressor(atoms, gamma=0.1, candidates=1, random_state=0).fit(train, np.sin(train[:, 0]))
    centres = model.support_vectors_
    rounds = []
    for _ in range(repeat + 1):
        rounds.append((seconds(lambda: X @ centres.T)[0], seconds(lambda: model.predict(X))[0]))
    product, predict = np.array(rounds[1:]).T  # the first starts the threads
    tracemalloc.start()
    model.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"rows": rows, "atoms": len(centres), "dtype": np.dtype(dtype).name} | {
        "predict_s": float(np.median(predict)),
        "product_s": float(np.median(product)),
        "predict_over_product": float(np.median(predict / product)),
        "peak_mib": peak / 2**20,
        "kernel_values_mib": rows * len(centres) * np.dtype(dtype).itemsize / 2**20,
    }


def main() -> None:
    """Print the ratios and write the record."""
    options = parser(__doc__, "prediction")
    options.add_argument("--rows", type=int, default=30_000)
    options.add_argument("--atoms", type=int, default=1600)
    options.add_argument("--repeat", type=int, default=7)
    arguments = options.parse_args()
    records = [measure(arguments.rows, arguments.atoms, dtype, arguments.repeat) for dtype in (np.float32, np.float64)]
    for record in records:
        show(record)
    write(records, arguments.out)


if __name__ == "__main__":
    main()
