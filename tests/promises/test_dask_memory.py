"""A fit of five times as many bytes as the process may have: rows stay in files, a block of them is in memory."""

import sys
import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from kernelpursuit import KMPRegressor

pytest.importorskip("distributed")
pytest.importorskip("resource")
import multiprocessing
import resource

import dask.array as da
from distributed import Client, LocalCluster

import dask

ROOM = 8 * 2**20  # bytes beyond what the process has after a first small fit
COLUMNS, CHUNK = 300, 1600
ROWS = 5 * ROOM // (4 * COLUMNS) // CHUNK * CHUNK + CHUNK


def model():
    return KMPRegressor(3, centers=12, gamma=3.0, random_state=0)


def block_of(path, block_info=None):
    (first, stop), _ = block_info[None]["array-location"]
    return np.array(np.memmap(path, dtype=np.float32, mode="r", shape=(ROWS, COLUMNS))[first:stop])


def collections(kind, path):
    """Rows and target, and those of the first rows."""
    if kind == "parquet":
        import dask.dataframe as dd
        import pyarrow as pa

        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        X = dd.read_parquet(path)
        first = X.partitions[:2]
        return X, np.sin(4 * X["0"]) + X["1"], first, first["0"]
    if kind == "zarr":
        X = da.from_zarr(path)
    else:
        sizes, meta = ((CHUNK,) * (ROWS // CHUNK), (COLUMNS,)), np.empty((0, 0), dtype=np.float32)
        X = da.map_blocks(block_of, path, chunks=sizes, dtype=np.float32, meta=meta)
    y = da.sin(4 * X[:, 0]) + X[:, 1]
    return X, y, X[:CHUNK], y[:CHUNK]


def fit_within(kind, path, room, limit):
    """Atoms of a fit in `room` bytes beyond those of a small fit, on a worker that thinks it has `limit`.

    The limit is the kernel's: an allocation beyond it fails. Files that are mapped do not count, their pages can go.
    What Dask notes for its dashboard grows with time, and a thread's stack counts as a whole, so that Arrow may start
    no more of them: neither has to do with the rows.
    """
    threading.stack_size(2**20)
    settings = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")}
    settings |= {"distributed.worker.profile.enabled": False, "distributed.admin.low-level-log-length": 100}
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with dask.config.set(settings), LocalCluster(memory_limit=limit, **options) as cluster, Client(cluster):
        X, y, first, target = collections(kind, path)
        model().fit(first, target)  # threads and modules are there now
        with open("/proc/self/status") as status:
            (data,) = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmData")]
        resource.setrlimit(resource.RLIMIT_DATA, (data + room, resource.RLIM_INFINITY))
        try:
            return model().fit(X, y).support_.tolist()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The rows in a file, and the atoms of a fit that has the memory."""
    path = tmp_path_factory.mktemp("rows") / "X"
    X = np.memmap(path, dtype=np.float32, mode="w+", shape=(ROWS, COLUMNS))
    X[...] = np.random.default_rng(0).random(size=X.shape, dtype=np.float32)
    X[:, 2:] *= 0.02  # two columns count: the atoms differ
    X.flush()
    assert X.nbytes > 5 * ROOM
    return path, X, model().fit(X, np.sin(4 * X[:, 0]) + X[:, 1]).support_.tolist()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux'")
@pytest.mark.parametrize("kind", ["mapped", "zarr", "parquet"])
def test_five_times_more_rows_than_memory(kind, rows, tmp_path, monkeypatch):
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
        for first in range(0, ROWS, CHUNK):
            columns = {str(place): column for place, column in enumerate(X[first : first + CHUNK].T)}
            parquet.write_table(pa.table(columns), path / f"{first:06d}.parquet")
    monkeypatch.delenv(
        "MALLOC_TRIM_THRESHOLD_", raising=False
    )  # set by Dask's nannies, and how much is held depends on it
    fresh = multiprocessing.get_context("spawn")  # memory that other tests have left plays no part
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        assert pool.submit(fit_within, kind, str(path), ROOM, 2**20).result() == wanted
