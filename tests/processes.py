"""Other processes at the price of a fork: their server has imported everything, and no thread of ours goes with it."""

import multiprocessing
import pickle
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor

ESTIMATORS = ["kernelpursuit.search.search", "kernelpursuit.refined.estimators"]
IMPORTED = ["pytest", *ESTIMATORS, "distributed", "dask.array"]  # without torch


def forking():
    """The context of such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)  # what is not installed is left out
    return context


def elsewhere(function, *arguments):
    """What a function returns in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=forking()) as pool:
        return pool.submit(function, *arguments).result()


def killed(function, file, lines):
    """Let a function write `lines` lines of a file, its argument, and kill it."""
    process = forking().Process(target=function, args=(file,))
    process.start()
    while not file.exists() or file.read_bytes().count(b"\n") < lines:
        assert process.is_alive()
        time.sleep(0.001)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def imports_to_predict(file, row, name):
    """Whether a pickled model that predicts imports a module, in a process without it."""
    assert name not in sys.modules
    pickle.loads(file.read_bytes()).predict([row])
    return name in sys.modules
