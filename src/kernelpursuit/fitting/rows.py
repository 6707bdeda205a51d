"""Where the rows of a fit are: in this process, or, of Dask collections, on the workers of a cluster.

`rows_of_fit` is the one place that decides it. For a collection it loads `kernelpursuit.dask` and hands out its
`RowSource`; all other code asks the `RowSource` of its `TrainingData`, or refuses collections.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import numpy as np

from kernelpursuit.fitting.memory import free_memory

TAKE_COLLECTIONS = (  # estimators whose fit takes Dask collections
    "KMPRegressor", "KMPClassifier", "RefinedKMPRegressor", "RefinedKMPClassifier",
    "SparseKernelFDA", "SparseKernelPCA", "PursuitNystroem",
)  # fmt: skip


class RowSource:
    """The operations of a fit that depend on where its rows are; this class is for rows in this process.

    `kernelpursuit.dask` has a subclass for rows on the workers of a cluster.
    """

    remote = False
    in_files = False  # the rows, and all arrays over them

    def map(self, function: Callable, *args: Any) -> Any:
        """Apply a function of rows whose result is an array over the same rows."""
        return function(*args)

    def total(self, function: Callable, *args: Any) -> float:
        """Add up the numbers that a function returns for blocks of rows."""
        return function(*args)

    def collect(self, function: Callable, *args: Any) -> list[Any]:
        """List the results of a function for blocks of rows, in the order of the rows."""
        return [function(*args)]

    def take(self, array: Any, positions: np.ndarray) -> np.ndarray:
        """Bring rows at sorted positions into this process."""
        return array[positions]

    def sample(self, array: Any) -> Any:
        """Bring a sample of the rows into this process, enough to fit a few numbers; the same rows of every array."""
        return array

    def bring_few(self, data: Any) -> Any:
        """Bring data of few rows into this process, for a refined fit that needs all of them."""
        return data

    def free_memory(self, X: Any) -> int:
        """Bytes that are free for arrays over all rows."""
        return free_memory(X)

    def identity(self, data: Any) -> tuple[Any, ...]:
        """Arrays that identify the rows: equal only if all rows are equal."""
        return data.X, data.y, data.weights, data.groups

    def make_atoms(self, family: type, data: Any, rng: np.random.Generator, **parameters: Any) -> Any:
        """Make all atoms that an estimator may choose from; `family` is the class for rows in this process."""
        return family(data, rng, **parameters)

    def criterion(self, kind: type, data: Any, family: Any) -> Callable:
        """The class of a criterion for these rows; `kind` is the class for rows in this process."""
        return kind

    def refinement(self, method: Callable) -> Callable:
        """The function that moves atoms over these rows; `method` is the one for rows in this process."""
        return method


def is_collection(x: Any) -> bool:
    """Whether an object is a Dask collection."""
    return type(x).__module__.startswith(("dask", "distributed"))


def rows_of_fit(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    check: Callable[[Any, Any, Any], Any],
    check_chunk: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> AbstractContextManager[Any]:
    """Context with the `TrainingData` of a fit. Rows on the workers of a cluster are dropped when it ends.

    Parameters
    ----------
    estimator : estimator
    X, y, sample_weight
        As `fit` was given them. Where X is a Dask collection, y and the weights may be arrays or collections; else none
        of them may be a collection.
    check : callable
        ``check(X, y, sample_weight)``: the `TrainingData` of arrays of this process.
    check_chunk : callable
        Checks the part of y that belongs to a chunk of a collection, where the chunk is.
    """
    if is_collection(X):
        return remote_rows().rows_of_collection(estimator, X, y, sample_weight, check_chunk)
    refuse_collections(estimator, "fit", X, y, sample_weight)
    return nullcontext(check(X, y, sample_weight))


def lazy_for_collections(method: Callable) -> Callable:
    """Decorator of a method with one result a row: given a Dask collection, it returns a lazy Dask array."""

    @functools.wraps(method)
    def either(self: Any, X: Any) -> Any:
        return remote_rows().map_chunks(self, method.__name__, X) if is_collection(X) else method(self, X)

    return either


def remote_rows() -> Any:
    """The module that knows Dask collections."""
    return import_module("kernelpursuit.dask.collections")


def takes_collections(estimator: Any) -> bool:
    """Whether the fit of an estimator takes Dask collections."""
    return any(base.__name__ in TAKE_COLLECTIONS for base in type(estimator).__mro__)


def refuse_collections(estimator: Any, method: str, X: Any, *others: Any) -> None:
    """Raise an error for a Dask collection given to a method that would load all of it into this process."""
    fits = method == "fit" and takes_collections(estimator)
    if (fits and is_collection(X)) or not any(is_collection(one) for one in (X, *others)):
        return
    name = type(estimator).__name__
    if fits:
        raise TypeError(
            f"{name}.fit got a Dask collection beside an X that is none: X, y and sample_weight must all be Dask "
            "collections, or none of them. Give y.compute(), or X as one too: dask.array.from_array(X)"
        )
    instead = "" if takes_collections(estimator) else f", or take one of those that do: {', '.join(TAKE_COLLECTIONS)}"
    raise TypeError(
        f"{name}.{method} does not take Dask collections, and does not bring them into memory unasked: give it "
        f"X.compute() if that fits, or some of the rows, X[:10_000].compute(){instead}"
    )
