"""Dask arrays and dataframes: rows on the workers of a cluster for `fit`, lazy results for all that comes after it.

scikit-learn would bring a collection into the memory of this process without a warning. Here it is fitted on the
workers, or refused.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import check_array

from kernelpursuit._sklearn import check_feature_names
from kernelpursuit.dask.arrays import Handle, Program, RemoteArray
from kernelpursuit.dask.cluster import Actors, check_package, limits_of_memory
from kernelpursuit.dask.cluster_rows import ClusterRows, RowBlocks
from kernelpursuit.dask.shard import CACHED, RowCount, moments
from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.fitting.memory import free_memory
from kernelpursuit.fitting.placement import is_precomputed
from kernelpursuit.fitting.rows import is_collection
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.parameters import bound, certificate, is_basic, record_of, validation

TEMPORARIES = 256  # columns over the rows that a fit has in memory besides the directions
MANY_ATOMS = 256  # that memory is planned for where their number is not known
LEAST_ROOM = 4 * 2**20  # bytes
PARTS = 64  # chunks that small ones are joined to, at least


def map_chunks(model: Any, method: str, X: Any) -> Any:
    """Apply a method of a fitted model to each chunk of rows, when the result is computed."""
    import dask.array as da

    from dask import delayed

    check_kind(X, "X")
    if hasattr(X, "columns"):
        check_feature_names(model, X._meta, reset=False)
        some = X._meta_nonempty[:1]
        like = np.asarray(getattr(model, method)(some))
        part = delayed(apply_method, pure=True)
        parts = [part(delayed(model), method, block) for block in X.to_delayed()]
        unknown = (np.nan, *like.shape[1:])
        return da.concatenate([da.from_delayed(one, shape=unknown, dtype=like.dtype) for one in parts])
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    X = X.rechunk({1: -1})
    like = np.asarray(getattr(model, method)(np.ones((1, X.shape[1]), dtype=X.dtype)))
    shape: dict[str, Any] = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
    return X.map_blocks(lambda block: apply_method(model, method, block), dtype=like.dtype, meta=like[:0], **shape)


def apply_method(model: Any, method: str, block: Any) -> Any:
    """Call a method of a model on some rows. For no rows the result is empty."""
    if len(block):
        return getattr(model, method)(block)
    columns = getattr(block, "columns", None)
    row = np.ones((1, block.shape[1]))
    return getattr(model, method)(row if columns is None else type(block)(row, columns=columns))[:0]


def check_kind(x: Any, name: str) -> None:
    """Raise an error for objects of Dask that are neither arrays nor dataframes."""
    kind = type(x).__module__.partition(".")[0]
    if kind == "distributed":
        raise TypeError(f"{name} is a future: give a Dask array made of it (da.from_delayed), or its .result()")
    if not hasattr(type(x), "to_delayed") or not hasattr(type(x), "ndim"):
        raise TypeError(f"{name} must be a Dask array or dataframe, got {type(x).__name__}")


@contextmanager
def rows_of_collection(
    estimator: Any, X: Any, y: Any, sample_weight: Any, check: Callable[[np.ndarray], np.ndarray]
) -> Iterator[TrainingData]:
    """The rows of a fit on the workers of the current client; they are dropped at the end.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`.
    X, y, sample_weight
        Collections. y and the weights may be NumPy arrays; the weights may be None.
    check : callable
        Checks the part of y that belongs to one chunk, where the chunk is.
    """
    y = y if y is None or is_collection(y) else np.asarray(y)
    check_settings(estimator, y)
    client = current_client()
    check_kind(X, "X")
    check_package(client)
    if hasattr(X, "columns"):
        check_feature_names(estimator, X._meta, reset=True)
        X = X.to_dask_array()
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    X = with_known_chunks(X.rechunk({1: -1})) if X.ndim == 2 else X
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have two dimensions with rows and columns, got shape {X.shape}")
    estimator.n_features_in_ = int(X.shape[1])
    room = room_in_memory(client, X, estimator)
    rows = None if room is None else rows_within(room, X)
    X = X.rechunk({0: joined_sizes(X.chunks[0], min(rows or CACHED, -(-X.shape[0] // PARTS)))})
    parts = [in_chunks_of(one, X.chunks[0], name) for one, name in ((y, "y"), (sample_weight, "sample_weight"))]
    actors = Actors(client, delayed_chunks(X, parts, check), rows)
    try:
        yield as_training_data(actors, X.shape[0], sample_weight is not None, room)._replace(given_y=y)
    finally:
        actors.close()


def room_in_memory(client: Any, X: Any, estimator: Any) -> int | None:
    """Bytes for a block of rows and its temporaries where the rows do not fit into the memory of the workers.

    None where they do: the limits are those of Dask (`memory_limit`). Sums are made by blocks, so a power of
    two keeps the last bits from changing with each byte that is free.
    """
    free = limits_of_memory(client)
    if not free:
        return None
    n, columns = X.shape
    atoms = getattr(estimator, "n_atoms", None) or getattr(estimator, "n_components", None)
    atoms = min(n, atoms) if isinstance(atoms, Integral) else MANY_ATOMS
    row = 2 * columns * row_dtype(X).itemsize + 8 * (atoms + TEMPORARIES)  # kernels keep the rows once more
    if n * row / len(free) < min(free) / 2:
        return None
    return max(LEAST_ROOM, 2 ** int(np.log2(max(1, min(free) // 8))))


def rows_within(room: int, X: Any) -> int:
    """Rows of a block whose temporaries fit into `room` bytes; no more than a block in memory has."""
    return min(CACHED, max(1, room // (3 * X.shape[1] * row_dtype(X).itemsize + 8 * TEMPORARIES)))


def row_dtype(X: Any) -> np.dtype:
    """Precision in which rows are fitted."""
    return np.dtype(np.float32) if X.dtype == np.float32 else np.dtype(np.float64)


NEEDS_ROWS = (bound, certificate, validation)  # stop rules that need held-out rows, or residuals, here


def check_settings(estimator: Any, y: Any) -> None:
    """Raise an error for settings, or targets, that need all rows in one place."""
    if is_classifier(estimator) and y.ndim == 2 and y.shape[1] > 1:
        raise ValueError("a matrix of labels is not for Dask collections: y must have one column")
    if getattr(estimator, "class_weight", None) is not None and not isinstance(estimator, SparseKernelFDA):
        raise ValueError("class_weight is not for Dask collections: give sample_weight")
    if is_precomputed(getattr(estimator, "kernel", None)):
        raise ValueError("kernel='precomputed' needs the whole matrix in memory: it is not for Dask collections")
    if getattr(estimator, "loss", "squared_error") != "squared_error":
        raise ValueError(
            f"loss={estimator.loss!r} is not for Dask collections, as a refit would take dozens of messages: "
            "'squared_error' is, and RefinedKMPClassifier fits a logistic loss there"
        )
    stop, variant = getattr(estimator, "stop", None), getattr(estimator, "variant", None)
    if isinstance(record_of(stop, *NEEDS_ROWS), NEEDS_ROWS) or (
        is_basic(variant) and estimator.n_atoms == "auto" and stop is None
    ):
        raise ValueError(
            f"stop={stop!r} with n_atoms={estimator.n_atoms!r} and variant={variant!r} needs rows held out or their "
            "residuals here: for Dask collections give a number, or, where they exist, stop 'gcv' or 'leave_one_out'"
        )


def current_client() -> Any:
    """Client of the cluster that is to do the work."""
    from distributed import get_client

    try:
        client = get_client()
    except ValueError:
        client = None
    if client is None or client.status != "running":
        raise RuntimeError(
            "a fit of Dask collections needs a cluster and a client that is open: "
            "from distributed import Client; client = Client() starts workers on this machine"
        )
    return client


def with_known_chunks(x: Any) -> Any:
    """The array with the lengths of its chunks, computed where they are unknown.

    ``to_dask_array(lengths=True)`` of a dataframe fails where Dask reads several small files of a column as one.
    """
    return x.compute_chunk_sizes() if any(np.isnan(size) for size in x.chunks[0]) else x


def in_chunks_of(x: Any, chunks: tuple[int, ...], name: str) -> Any:
    """An array with a number for each row, in the chunks of X."""
    import dask.array as da

    if x is None:
        return None
    if is_collection(x):
        check_kind(x, name)
        x = with_known_chunks(x.to_dask_array() if hasattr(x, "dask") and hasattr(x, "divisions") else x)
    else:
        x = da.from_array(np.asarray(x), chunks=-1)
    if x.shape[0] != sum(chunks):
        raise ValueError(f"{name} must have a value for each of the {sum(chunks)} rows of X, got {x.shape[0]}")
    if name == "sample_weight" and x.ndim != 1:
        raise ValueError(f"sample_weight must have one dimension, got shape {x.shape}")
    return x.rechunk({0: chunks, **{axis: -1 for axis in range(1, x.ndim)}})


def joined_sizes(sizes: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """Sizes of chunks when small neighbours are joined to at most `rows` rows: work in small pieces takes longer.

    Examples
    --------
    >>> joined_sizes((3, 2, 0, 9, 1, 4), 5)
    (5, 9, 5)
    """
    joined: list[int] = []
    for size in filter(None, sizes):
        if joined and joined[-1] + size <= rows:
            joined[-1] += size
        else:
            joined.append(size)
    return tuple(joined)


def delayed_chunks(X: Any, columns: list[Any], check: Callable) -> list[Any]:
    """What `checked_chunk` makes of each chunk of rows.

    Each chunk gets a graph of its own: with the graph of all of them, messages grow as the square of their number.
    """
    from dask.delayed import Delayed
    from dask.optimization import cull

    from dask import delayed

    part, count, dtype = delayed(checked_chunk, pure=True), len(X.chunks[0]), row_dtype(X)
    columns = [[None] * count if one is None else one.to_delayed().reshape(count, -1)[:, 0] for one in columns]
    firsts = np.cumsum([0, *X.chunks[0]]).tolist()
    blocks = zip(X.to_delayed()[:, 0], *columns, firsts[:-1], X.chunks[0], strict=True)
    chunks = [part(*arrays, first, (size, *X.shape[1:]), dtype, check) for *arrays, first, size in blocks]
    tasks: dict[Any, Any] = {}
    seen: set[str] = set()
    for chunk in chunks:
        layers = chunk.dask.layers
        for name in layers.keys() - seen:
            tasks.update(layers[name])
        seen |= layers.keys()
    return [Delayed(chunk.key, cull(tasks, [chunk.key])[0]) for chunk in chunks]


def checked_chunk(
    X: Any, y: Any, weights: Any, first: int, shape: tuple[int, int], dtype: np.dtype, check: Callable
) -> tuple:
    """Rows of positive weight, checked: X, targets or labels, weights, and their numbers among all rows."""
    if np.ma.is_masked(X):
        raise ValueError("X has masked values: fill them, or leave their rows out")
    try:
        X = check_array(X.toarray() if sparse.issparse(X) else np.asarray(X), dtype=dtype, input_name="X")
    except TypeError as error:
        raise ValueError(f"X must hold numbers: {error}") from error
    if X.shape != shape or any(one is not None and len(one) != shape[0] for one in (y, weights)):
        raise ValueError(
            f"a chunk of X, from row {first} on, was to have shape {shape} and has {X.shape}, or y or sample_weight "
            "has another length there: what makes the chunks returns other arrays than their array says"
        )
    rows, y = np.arange(first, first + len(X)), check(np.zeros(len(X)) if y is None else np.asarray(y))
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        if not np.all(np.isfinite(weights)) or np.any(weights < 0):
            raise ValueError("sample_weight must be finite numbers from 0 on")
        kept = weights > 0
        X, y, weights, rows = X[kept], y[kept], weights[kept], rows[kept]
    return X, y, weights, rows


def as_training_data(actors: Actors, n_rows: int, weighted: bool, room: int | None) -> TrainingData:
    """The rows of the shards as those of a fit."""
    program = Program(actors, 0, 4)
    X, y, weights, numbers = (Handle(program, number) for number in range(4))  # see `checked_chunk`
    of_columns = program.reduce(moments, X, weights, how="moments")
    found = program.collect(describe_block, X, y, numbers)  # a message, which brings the moments too
    if not found:
        raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
    blocks = RowBlocks(np.array([one.first for one in found]), np.array([one.size for one in found]))
    n = program.n_rows = RowCount(int(np.sum(blocks.sizes)))
    rows = ClusterRows(program, numbers, blocks, int(n * free_for_row(found)), np.asarray(of_columns), room)
    return TrainingData(
        RemoteArray(program, X.number, found[0].X, 0),
        RemoteArray(program, y.number, found[0].y, 0),
        RemoteArray(program, weights.number, np.empty(0), 0) if weighted else None,
        range(n),
        n_rows,
        source=rows,
    )


class BlockOfRows(NamedTuple):
    """A block of rows, as this process knows it."""

    X: np.ndarray  # without rows
    y: np.ndarray
    first: int  # number of its first row
    size: int
    free: int  # bytes
    machine: str


def describe_block(X: np.ndarray, y: np.ndarray, numbers: np.ndarray) -> BlockOfRows:
    """Describe a block of rows, where it is."""
    return BlockOfRows(np.array(X[:0]), np.array(y[:0]), int(numbers[0]), len(numbers), free_for(X), platform.node())


def free_for(X: np.ndarray) -> int:
    """Bytes that are free for arrays over a block of rows: in memory, or on the disk that has the rows."""
    base = getattr(X, "base", None)
    return shutil.disk_usage(str(base.filename)).free if isinstance(base, np.memmap) else free_memory(X)


def free_for_row(blocks: list[BlockOfRows]) -> float:
    """Bytes that are free for each row on the machine that has least; the workers of a machine share its memory."""
    machines = [[one for one in blocks if one.machine == name] for name in {block.machine for block in blocks}]
    return min(min(one.free for one in some) / sum(one.size for one in some) for some in machines)
