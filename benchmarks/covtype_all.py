"""All of forest cover: 551,012 training rows, 1,000 atoms, and what the last 500,000 rows are worth.

Claims: on two cores the fit takes minutes and less than 6 GB; on one H200 all 551,012 rows are candidates and 1,000
atoms take 70 s. The error on 30,000 other rows is followed along the path, for all rows and for 50,000 of them.

Run: ``python benchmarks/covtype_all.py --data DIR [--picture FILE]``, or with ``--device cuda`` (torch; the record
is covtype_all_gpu.json then). Each fit is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: tensors of a GPU need it
import numpy as np
import sklearn

from _common import RECORDS, forest_cover, need_cuda, parser, seconds, show, write
from kernelpursuit import KMPClassifier

TEST, ALL, FEW = 30_000, 551_012, 50_000
# What two cores can do in minutes: 10,000 candidates, drawn once. A GPU looks at all rows.
OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"centers": 10_000, "weakness": 0.3},
    "cuda": {"weakness": 0.3},
}


def fit(folder: str | None, rows: int, atoms: int, device: str) -> dict[str, Any]:
    """Record of one fit."""
    X, y = forest_cover(folder)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (2 * (X - low) / np.where(high > low, high - low, 1) - 1).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    test, train = order[:TEST], order[TEST:][:rows]
    X, X_test, y, y_test = X[train], X[test], y[train] > 0, y[test] > 0
    if device == "cuda":
        import torch

        sklearn.set_config(array_api_dispatch=True)
        X, X_test, y = (torch.asarray(part, device="cuda") for part in (X, X_test, y))
        KMPClassifier(200, gamma=2.0, memory=0, weakness=0.1).fit(
            X[:4000], y[:4000]
        )  # compiles the loop for all blocks
    model = KMPClassifier(atoms, gamma=2.0, alpha=0.0, random_state=0, verbose=1, **OPTIONS[device])
    time, _ = seconds(lambda: model.fit(X, y))
    errors = {}
    for k, values in enumerate(model.staged_predict(X_test), start=1):
        if k % 50 == 0 or k == len(model.path_):
            found = np.asarray(values.cpu() if device == "cuda" else values)
            errors[k] = float(np.mean(found != y_test))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    record = {"device": device, "rows": rows, "atoms": len(model.path_), "fit_s": time, "passes": model.path_.passes}
    record |= {"peak_host_gib": peak, "error": errors[len(model.path_)]}
    if device == "cuda":
        record["peak_device_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return record | {"error_by_atoms": errors, "options": {k: str(v) for k, v in OPTIONS[device].items()}}


def draw(records: list[dict[str, Any]], picture: Path) -> None:
    """Error against the number of atoms."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for record in records:
        label = f"{record['rows']:,} rows, {record['fit_s']:.0f} s, {record['peak_host_gib']:.1f} GiB"
        axes.plot(
            [int(k) for k in record["error_by_atoms"]], list(record["error_by_atoms"].values()), marker=".", label=label
        )
    axes.set(xlabel="atoms", ylabel="error on 30,000 other rows", title="Forest cover, class 2 against the rest")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=120)


def main() -> None:
    """Print the records, write them, draw the picture."""
    options = parser(__doc__, None)
    options.add_argument("--atoms", type=int, default=1000)
    options.add_argument("--device", choices=list(OPTIONS), default="cpu")
    options.add_argument("--rows", type=int, help="one fit only, its record on the last line of the output")
    options.add_argument("--picture", type=Path)
    arguments = options.parse_args()
    if arguments.device == "cuda":
        need_cuda()
    if arguments.rows:
        print(json.dumps(fit(arguments.data, arguments.rows, arguments.atoms, arguments.device)))
        return
    command = [sys.executable, __file__, "--device", arguments.device]
    command += ["--data", arguments.data] if arguments.data else []
    records = []
    for rows in (FEW, ALL):
        done = subprocess.run(
            [*command, "--atoms", str(arguments.atoms), "--rows", str(rows)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        records.append(json.loads(done.stdout.splitlines()[-1]))
        show({k: v for k, v in records[-1].items() if k != "error_by_atoms"})
    write(records, arguments.out or RECORDS / f"covtype_all{'_gpu' * (arguments.device == 'cuda')}.json")
    if arguments.picture:
        draw(records, arguments.picture)


if __name__ == "__main__":
    main()
