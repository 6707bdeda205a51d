"""What a search costs: time on one thread and on all, and the part of it that products with kernel matrices take.

Two searches, of 3,000 x 8 rows with values and of 1,347 digits, each in processes of its own, of this version and of
another one whose ``src`` is given; with what they chose, which must be the same. Of several turns the fastest counts;
on one thread there is one turn. Seconds of the processor are given beside those of the clock, because others may be at
work on the machine. "products" is the time of one product of a fold's matrix with one vector, times the steps of all
paths: what a product for each step takes on one thread. Then the lines of the README, on one thread and on as many as
there are cores, three times each, the fastest counted.

Run: ``python benchmarks/search_speed.py [--source DIR] [--rows 3000] [--turns 3] [--out FILE]``
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from _common import parser, show, write

HERE = Path(__file__).parents[1]
SEARCH = """
import time, warnings
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from kernelpursuit import KMPClassifierCV, KMPRegressorCV
warnings.simplefilter("ignore")
rng, n = np.random.default_rng(0), {rows}
X = rng.normal(size=(n, 8))
y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
if {digits}:
    X, y = load_digits(return_X_y=True)
    X, _, y, _ = train_test_split(X / 16, y, random_state=0)
model = KMPClassifierCV(150) if {digits} else KMPRegressorCV(100)
began, busy = time.perf_counter(), time.process_time()
model.fit(X, y)
print(time.perf_counter() - began, time.process_time() - busy, model.best_n_atoms_, model.gamma_)
"""


def run(code: str, source: Path, threads: int | None) -> list[float]:
    """Numbers in the last line of a program, with a version of the library on so many threads (None: as it likes)."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    others = os.environ.get("PYTHONPATH", "")
    environment |= {"PYTHONPATH": os.pathsep.join([str(source), others])} | (
        {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    )
    made = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return [float(word) for word in made.stdout.splitlines()[-1].split()]


def product_seconds(n: int) -> float:
    """Time of one product of a symmetric matrix of n rows with one vector, one triangle read."""
    from kernelpursuit.atoms.dense import mirrored, symmetric_product

    K, v, best = mirrored(np.random.default_rng(0).random((n, n))), np.ones((n, 1)), np.inf
    for _ in range(20):
        began = perf_counter()
        symmetric_product(K, v)
        best = min(best, perf_counter() - began)
    return best


def readme_seconds(threads: int | None) -> float:
    """The lines of the README, imports left out."""
    lines = re.search(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    assert lines is not None
    imports, rest = lines[1].split("\n\n", 1)
    timed = f"import time\n{imports}\nbegan = time.perf_counter()\n{rest}\nprint(time.perf_counter() - began)\n"
    return min(run(timed, HERE / "src", threads)[0] for _ in range(3))


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, "search_speed")
    made.add_argument("--source", type=Path, help="src of another version, measured in turn")
    made.add_argument("--rows", type=int, default=3000)
    made.add_argument("--turns", type=int, default=1)
    args = made.parse_args()
    versions = {"this": HERE / "src"} | ({} if args.source is None else {"other": args.source})
    results: list[dict[str, Any]] = []
    for name, digits, rows, atoms in (("values", False, args.rows, 100), ("digits", True, 1347, 150)):
        found: dict[str, Any] = {"search": name, "rows": rows}
        for threads, label in ((1, "one thread"), (None, "default")):
            for version, source in [*versions.items()] * (1 if threads else args.turns):
                wall, busy, *chosen = run(SEARCH.format(rows=rows, digits=digits), source, threads)
                for name_of_time, seconds in ((f"{version}: {label}", wall), (f"{version}: {label}, processor", busy)):
                    found[name_of_time] = min(seconds, found.get(name_of_time, np.inf))
                found[f"{version}: atoms, gamma"] = chosen
        found["products"] = 25 * atoms * product_seconds(4 * rows // 5)
        results.append(found)
        show(found)
    readme = {"README": "lines", "one thread": readme_seconds(1), "default": readme_seconds(None)}
    show(readme)
    write([*results, readme], args.out)


if __name__ == "__main__":
    main()
