"""Rows on the workers of a cluster: what a fit costs there, beside the same fit in one process with as many cores.

Claims, all within one run: (1) the atoms are those of one process; (2) the time is at most 1.3 times that of one
process from 200,000 rows on; (3) an atom takes less than one round trip at weakness 0.5; (4) what the client holds does
not grow with the rows; (5) the model of costs in docs/scale.md, with constants from the first ``--constants`` fits,
predicts the others within 20 %.

The kernel is computed again at each pass, by one thread in each worker; the rows are in the workers' memory before the
clock starts, as they are in that of the one process. The data are like forest cover: 54 columns.

Run: ``python benchmarks/many_machines.py [--rows 50000 200000] [--workers 1 2] [--centers 1000] [--atoms 100]``,
``--only 1000000:4`` adds a fit of so many rows on so many workers. ``--shapes`` judges the model by other numbers of
centres and atoms instead: the work of one worker, in this process, in processor time.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone

from _common import write
from kernelpursuit import KMPRegressor, pursue
from kernelpursuit.atoms import KernelDictionary
from kernelpursuit.dask import cluster, collections
from kernelpursuit.dask.arrays import Handle, Program, RemoteArray
from kernelpursuit.dask.atoms import RemoteDictionary
from kernelpursuit.dask.criteria import RemoteSquares
from kernelpursuit.dask.shard import Command, Read, Ref, Shard, blocks_of
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms

COLUMNS = 54
TRIPS = 50  # that are timed
LARGE = 4 * 2**20  # bytes that are sent for the bandwidth
MESSAGES = {"first": 7, "trips_of_block": 5}  # those besides blocks, and those of a block, about
SHAPES, SHAPE_ROWS = [(400, 160), (2000, 40), (400, 320), (1000, 100), (2000, 160)], 30_000  # centres and atoms
EXPONENTIAL = 10  # operations that a kernel value costs besides its inner product


def block(seed: int, rows: int) -> np.ndarray:
    """Rows of 54 inputs that follow six hidden ones, the target last."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 6))
    turn = np.random.default_rng(0).normal(size=(6, COLUMNS))
    X = np.tanh(hidden @ turn / 2) + 0.2 * rng.normal(size=(rows, COLUMNS))
    y = np.sin(2 * hidden[:, 0]) + hidden[:, 1] * hidden[:, 2] + np.abs(hidden[:, 3]) + 0.1 * rng.normal(size=rows)
    return np.column_stack([X, y]).astype(np.float64)


class CountingActors(cluster.Actors):
    """A transport that counts what goes back and forth, and the time that it takes to make it."""

    made: ClassVar[list[CountingActors]] = []

    def __init__(self, *args: Any):
        begun = perf_counter()
        super().__init__(*args)
        self.setup = perf_counter() - begun
        self.trips = self.bytes_sent = self.bytes_received = 0
        self.made.append(self)

    def execute(self, commands: list[Command], reads: list[Read]) -> list[list[Any]]:
        """Carry out commands at all shards."""
        answers = super().execute(commands, reads)
        self.trips += 1
        self.bytes_sent += len(answers) * len(cluster.pickled(commands))
        self.bytes_received += sum(map(size_of, answers))
        return answers


def size_of(value: Any) -> int:
    """Bytes of what came from a shard."""
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else getattr(value, "nbytes", 8)


def resident() -> int:
    """Bytes that this process holds, without what it could give back."""
    import psutil  # type: ignore[import-untyped]

    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return psutil.Process().memory_info().rss


def on_cluster(
    model: KMPRegressor, rows: int, workers: int, parts: int | None = None, dtype: Any = np.float64
) -> dict[str, Any]:
    """One fit with rows that this process never sees, two chunks of them for each worker or in so many `parts`."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    from dask import delayed

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**options) as machines, Client(machines) as client:
        count = parts or 2 * workers
        size = rows // count
        chunks = [delayed(block)(seed, size) for seed in range(count)]
        table = da.concatenate([da.from_delayed(one, (size, COLUMNS + 1), np.float64) for one in chunks])
        table = table.astype(dtype).persist()
        wait(table)
        small = table[: 1000 * workers].rechunk((1000, COLUMNS + 1))
        clone(model).set_params(n_atoms=2, centers=10).fit(small[:, :-1], small[:, -1])  # imports
        before, start = resident(), perf_counter()
        model.fit(table[:, :-1], table[:, -1])
        seconds, actors = perf_counter() - start, CountingActors.made[-1]
        grown, trips = resident() - before, actors.trips
        latency, bandwidth = measured_network(client, workers)
    atoms = len(model.support_)
    return {
        "rows": rows,
        "workers": workers,
        "centers": model.centers,
        "atoms": atoms,
        "seconds": seconds,
        "setup": actors.setup,
        "passes": model.path_.passes,
        "latency": latency,
        "bandwidth": bandwidth,
        "trips": trips,
        "trips_per_atom": trips / atoms,
        "bytes": actors.bytes_sent + actors.bytes_received,
        "kib_sent_per_atom": actors.bytes_sent / 1024 / atoms,
        "kib_received_per_atom": actors.bytes_received / 1024 / atoms,
        "client_mib": grown / 2**20,
        "support": model.support_.tolist(),
        **MESSAGES,
    }


def measured_network(client: Any, workers: int) -> tuple[float, float]:
    """Seconds of a message to all workers and back, and bytes a second that come from all of them."""
    from dask import delayed

    idle = cluster.Actors(client, [delayed((np.zeros((1, 1)),)) for _ in range(workers)])
    timed = []
    for commands, reads, times in [([], [], TRIPS), ([Command(1, np.ones, (LARGE // 8,))], [Read(1, "sum")], 3)]:
        idle.execute(commands, reads)
        start = perf_counter()
        for _ in range(times):
            idle.execute(commands, reads)
        timed.append((perf_counter() - start) / times)
    return timed[0], workers * LARGE / max(1e-9, timed[1] - timed[0])


def in_one_process(model: KMPRegressor, rows: int, workers: int) -> dict[str, Any]:
    """The same fit here, with as many threads."""
    from threadpoolctl import threadpool_limits

    table = np.concatenate([block(seed, rows // (2 * workers)) for seed in range(2 * workers)])
    with threadpool_limits(workers):
        start = perf_counter()
        model.fit(table[:, :-1], table[:, -1])
        return {"seconds_one": perf_counter() - start, "support_one": model.support_.tolist()}


def terms(run: dict[str, Any]) -> np.ndarray:
    """What the model of costs counts for a worker: operations, entries of directions, and the same for each neighbour.

    Operations are kernel values at each pass, products of all atoms with directions, and the inner products of the pool
    of each block, which are counted by their messages. Directions, k² entries a row, are read and written again and
    again, and the workers of a machine share its memory.
    """
    centers, atoms = run["centers"], run["atoms"]
    pool, blocks = (
        min(centers, np.sqrt(32 * centers)),
        (run["trips"] - run.get("first", 5)) / run.get("trips_of_block", 2),
    )
    rows, neighbours = run["rows"] / run["workers"], run["workers"] - 1
    values = run["passes"] * centers * (2 * COLUMNS + EXPONENTIAL)
    operations = values + 2 * centers * atoms + 2 * blocks * pool**2
    return rows * np.array([operations, atoms**2, neighbours * atoms**2])


def network(run: dict[str, Any]) -> float:
    """Seconds of the messages, and of the rows' way to where they are held."""
    return run["setup"] + run["trips"] * run["latency"] + run["bytes"] / run["bandwidth"]


def constants(runs: list[dict[str, Any]]) -> np.ndarray:
    """Seconds of each of these, by least squares of relative errors over some runs."""
    known = np.array([run["seconds"] - network(run) for run in runs])
    counted = np.array([terms(run) for run in runs])
    return nnls(counted / known[:, None], np.ones(len(runs)))[0]


class OneShard:
    """Transport of commands to a shard in this process."""

    nodes = ((0, 1),)

    def __init__(self, shard: Shard):
        self._shard, self.trips = shard, 0

    def execute(self, commands: list[Command], reads: list[Read]) -> list[list[Any]]:
        """Carry them out."""
        self.trips += 1
        return [self._shard.execute(commands, reads)]


def work_of_a_worker(rows: int, centers: int, atoms: int) -> dict[str, Any]:
    """Processor time of the commands of a fit, without a network."""
    from threadpoolctl import threadpool_limits

    table = block(0, rows)
    X, y = table[:, :-1].copy(), table[:, -1:].copy()
    kernel = make_kernel("rbf", X)
    centres = X[np.sort(np.random.default_rng(0).choice(rows, centers, replace=False))]
    program = Program(OneShard(Shard(blocks_of((X, y)))), rows, 2)
    with threadpool_limits(1):
        start = process_time()
        parts = Handle(program, program.add(KernelDictionary, Ref(0), centres, kernel, storage="tiles"))
        here = KernelDictionary(centres, centres, kernel, storage="tiles")
        dictionary = RemoteDictionary(program, parts, here, centers, float)
        criterion = RemoteSquares(dictionary, RemoteArray(program, 1, y[:0], 0))
        path = pursue(criterion, n_atoms(atoms), lookahead=64, weakness=0.5)
        seconds = process_time() - start
    found = {"rows": rows, "workers": 1, "centers": centers, "atoms": atoms, "seconds": seconds}
    return found | {"passes": path.passes, "trips": program.transport.trips, **MESSAGES}


def judged_on_shapes() -> None:
    """Print what the model makes of fits with other numbers of centres and atoms."""
    runs = [work_of_a_worker(SHAPE_ROWS, *shape) for shape in SHAPES]
    seconds, counted = np.array([run["seconds"] for run in runs]), np.array([terms(run)[:2] for run in runs])
    costs = nnls(counted / seconds[:, None], np.ones(len(runs)))[0]
    for run, model in zip(runs, counted @ costs, strict=True):
        share = model / run["seconds"] - 1
        print(f"{run['centers']:>6,} {run['atoms']:>4} {run['seconds']:7.2f} s, model {model:7.2f} s, {share:+.0%}")
    print("seconds of an operation and of an entry:", costs.tolist())


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All fits."""
    collections.Actors = CountingActors  # type: ignore[misc]
    settings = {"centers": options.centers, "weakness": options.weakness, "alpha": 0.0, "random_state": 0, "memory": 0}
    model = KMPRegressor(options.atoms, **settings)
    results: list[dict[str, Any]] = []
    sizes = [(rows, workers) for rows in options.rows for workers in options.workers]
    for rows, workers in sizes + [tuple(map(int, one.split(":"))) for one in options.only]:
        found = on_cluster(model, rows, workers) | in_one_process(model, rows, workers)
        found["equal"] = found.pop("support") == found.pop("support_one")
        found["ratio"] = found["seconds"] / found["seconds_one"]
        results.append(found)
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in found.items()}, flush=True)
    return results


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--again", action="store_true", help="the model alone, for the runs of the record")
    parser.add_argument("--constants", type=int, default=4)
    parser.add_argument("--centers", type=int, default=1000)
    parser.add_argument("--atoms", type=int, default=100)
    parser.add_argument("--weakness", type=float, default=0.5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "records" / "many_machines.json")
    parser.add_argument("--shapes", action="store_true", help="other numbers of centres and atoms, in this process")
    options = parser.parse_args()
    if options.shapes:
        judged_on_shapes()
        return
    record = json.loads(options.out.read_text()) if options.again else {}
    results = record["results"]["runs"] if options.again else measured(options)
    costs = constants(results[: options.constants])
    for found in results:
        found["predicted"] = network(found) + float(terms(found) @ costs)
        print(f"{found['rows']:>9,} {found['workers']} {found['seconds']:8.2f} {found['predicted']:8.2f}")
    print("seconds of an operation, of an entry, and of an entry for each neighbour:", costs.tolist())
    settings = {"centers": options.centers, "atoms": options.atoms, "weakness": options.weakness}
    everything = {"constants": costs.tolist(), "settings": settings, "runs": results}
    write(everything, options.out, record["made_with"] if options.again else None)


if __name__ == "__main__":
    main()
