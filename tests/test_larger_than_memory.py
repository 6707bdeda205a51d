"""A fit of five times as many bytes as the process may have: rows stay in files, a block of them is in memory."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("resource")
ROOM = 12 * 2**20  # bytes beyond what the process has after a first small fit
COLUMNS, CHUNK = 300, 800
ROWS = 5 * ROOM // (4 * COLUMNS) // CHUNK * CHUNK + CHUNK

# The limit is the kernel's: an allocation beyond it fails. Files that are mapped do not count, their pages can go. What
# Dask notes for its dashboard grows with time, and a thread's stack counts as a whole: neither has to do with the rows.
PROGRAM = """
import json, resource, sys
import dask, numpy as np
from distributed import Client, LocalCluster
import dask.array as da
from kernelpursuit import KMPRegressor

def rows(path, n, columns, block_info=None):
    (first, stop), _ = block_info[None]["array-location"]
    return np.array(np.memmap(path, dtype=np.float32, mode="r", shape=(n, columns))[first:stop])

def mapped(path, n, columns, chunk):
    sizes = ((chunk,) * (n // chunk), (columns,))
    meta = np.empty((0, 0), dtype=np.float32)
    return da.map_blocks(rows, path, n, columns, chunks=sizes, dtype=np.float32, meta=meta)

kind, path, n, columns, chunk, room, limit = *sys.argv[1:3], *map(int, sys.argv[3:])
settings = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")}
settings |= {"distributed.worker.profile.enabled": False, "distributed.admin.low-level-log-length": 100}
with dask.config.set(settings), LocalCluster(
    n_workers=1, threads_per_worker=1, processes=False, memory_limit=limit, dashboard_address=None
) as cluster, Client(cluster) as client:
    if kind == "parquet":
        import dask.dataframe as dd
        X = dd.read_parquet(path)
        first, y = X.partitions[:2], np.sin(4 * X["0"]) + X["1"]
        target = first["0"]
    else:
        X = da.from_zarr(path) if kind == "zarr" else mapped(path, n, columns, chunk)
        y = da.sin(4 * X[:, 0]) + X[:, 1]
        first, target = X[:chunk], y[:chunk]
    model = KMPRegressor(4, centers=20, gamma=3.0, random_state=0)
    model.fit(first, target)  # threads and modules are there now
    (data,) = [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData")]
    resource.setrlimit(resource.RLIMIT_DATA, (data + room, resource.RLIM_INFINITY))
    try:
        print(json.dumps(model.fit(X, y).support_.tolist()))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The rows in a file, and the atoms of a fit that has the memory."""
    from kernelpursuit import KMPRegressor

    path = tmp_path_factory.mktemp("rows") / "X"
    X = np.memmap(path, dtype=np.float32, mode="w+", shape=(ROWS, COLUMNS))
    X[...] = np.random.default_rng(0).random(size=X.shape, dtype=np.float32)
    X[:, 2:] *= 0.02  # two columns count: the atoms differ
    X.flush()
    assert X.nbytes > 5 * ROOM
    wanted = KMPRegressor(4, centers=20, gamma=3.0, random_state=0).fit(X, np.sin(4 * X[:, 0]) + X[:, 1])
    return path, X, wanted.support_.tolist()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux'")
@pytest.mark.parametrize("kind", ["mapped", "zarr", "parquet"])
def test_five_times_more_rows_than_memory(kind, rows, tmp_path):
    path, X, wanted = rows
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        path = tmp_path / "X.zarr"
        zarr.create_array(str(path), data=np.asarray(X), chunks=(CHUNK, COLUMNS))
    if kind == "parquet":
        pytest.importorskip("dask.dataframe")
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "X.parquet"
        path.mkdir()
        for first in range(0, ROWS, 2 * CHUNK):
            columns = {str(place): column for place, column in enumerate(X[first : first + 2 * CHUNK].T)}
            parquet.write_table(pa.table(columns), path / f"{first:06d}.parquet")

    def fitted(limit):
        arguments = [kind, str(path), *map(str, (ROWS, COLUMNS, CHUNK, ROOM, limit))]
        program = ["sh", "-c", 'ulimit -s 1024; exec "$@"', "sh", sys.executable, "-c", PROGRAM, *arguments]
        run = subprocess.run(program, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout.splitlines()[-1])

    assert fitted(limit=2**20) == wanted
