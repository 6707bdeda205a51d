"""Other processes at the price of a fork: their server has imported everything, and no thread of ours goes with it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

IMPORTED = [
    "pytest",
    "kernelpursuit.estimators.path_cv",
    "kernelpursuit.estimators.refined",
    "distributed",
    "dask.array",
]


def forking():
    """The context of such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)  # what is not installed is left out
    return context


def elsewhere(function, *arguments):
    """What a function returns in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=forking()) as pool:
        return pool.submit(function, *arguments).result()
