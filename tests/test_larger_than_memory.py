"""A fit of five times as many bytes as the process may have: rows stay in files, a block of them is in memory."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("distributed")
resource = pytest.importorskip("resource")
ROOM = 12 * 2**20  # bytes beyond what the process has after a first small fit
COLUMNS = 1000

# The limit is the kernel's: an allocation beyond it fails. Files that are mapped do not count, their pages can go.
PROGRAM = """
import json, resource, sys
import dask, numpy as np
from distributed import Client, LocalCluster
import dask.array as da
from kernelpursuit import KMPRegressor

def rows(path, n, columns, block_info=None):
    (first, stop), _ = block_info[None]["array-location"]
    return np.array(np.memmap(path, dtype=np.float32, mode="r", shape=(n, columns))[first:stop])

path, n, columns, room, limit = sys.argv[1], *map(int, sys.argv[2:])
never = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")}
with dask.config.set(never), LocalCluster(
    n_workers=1, threads_per_worker=1, processes=False, memory_limit=limit, dashboard_address=None
) as cluster, Client(cluster) as client:
    X = da.map_blocks(rows, path, n, columns, chunks=((500,) * (n // 500), (columns,)), dtype=np.float32,
                      meta=np.empty((0, 0), dtype=np.float32))
    y = da.sin(4 * X[:, 0]) + X[:, 1]
    model = KMPRegressor(4, centers=20, gamma=3.0, random_state=0)
    model.fit(X[:1000], y[:1000])  # threads and modules are there now
    (data,) = [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData")]
    resource.setrlimit(resource.RLIMIT_DATA, (data + room, resource.RLIM_INFINITY))
    try:
        print(json.dumps(model.fit(X, y).support_.tolist()))
    except Exception as error:
        print(json.dumps(type(error).__name__))
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux'")
def test_five_times_more_rows_than_memory(tmp_path):
    import numpy as np

    from kernelpursuit import KMPRegressor

    n = 5 * ROOM // (4 * COLUMNS) // 500 * 500 + 500
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(n, COLUMNS))
    rng = np.random.default_rng(0)
    for start in range(0, n, 2000):
        X[start : start + 2000] = rng.random(size=X[start : start + 2000].shape, dtype=np.float32)
        X[start : start + 2000, 2:] *= 0.01  # two columns count: the atoms differ
    X.flush()
    assert X.nbytes > 5 * ROOM

    def fitted(limit):
        arguments = [str(tmp_path / "X"), str(n), str(COLUMNS), str(ROOM), str(limit)]
        run = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout.splitlines()[-1])

    wanted = KMPRegressor(4, centers=20, gamma=3.0, random_state=0).fit(X, np.sin(4 * X[:, 0]) + X[:, 1])
    assert fitted(limit=2**20) == wanted.support_.tolist()
