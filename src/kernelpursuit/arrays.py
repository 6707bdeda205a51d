"""The only module that knows array libraries: namespaces, precision, and the way from sample space to the host.

Sample-space arrays (length n: residuals, directions) may belong to any library that follows the array API standard and
stay where they are. Atom-space (length m) and active-space (length k) values are NumPy float64 on the host.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

Array = Any  # an array of any namespace


@cache
def _compat() -> Any:
    """array-api-compat, or scikit-learn's copy of it: needed by arrays that are not NumPy's, and looked for then."""
    for name in ("array_api_compat", "sklearn.externals.array_api_compat"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ImportError("arrays that are not NumPy's need array-api-compat: pip install array-api-compat")


_NAMESPACES: dict[type, Any] = {}  # by type of array: some libraries take long to name theirs


def register_namespace(kind: type, own: Any) -> None:
    """Name the array namespace of a type of arrays that does not name its own."""
    _NAMESPACES[kind] = own


def namespace(x: Array) -> Any:
    """Array namespace of `x`; that of array-api-compat for torch tensors, which do not name their own."""
    if isinstance(x, np.ndarray):  # the hot path
        return np
    own = _NAMESPACES.get(type(x))
    if own is None:
        own = _NAMESPACES[type(x)] = _compat().array_namespace(x)
    return own


def _library(x: Any) -> str:
    """Top-level module of the type of `x`."""
    return type(x).__module__.split(".")[0]


def is_array(x: Any) -> bool:
    """Whether `x` is an array of a library that follows the standard: not a list, a table or a sparse matrix."""
    return hasattr(x, "__array_namespace__") or _library(x) == "torch"


def on_host(x: Array) -> np.ndarray:
    """`x` as a NumPy array of its own dtype."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, np.generic):  # what a product of two vectors gives
        return np.asarray(x)
    if _library(x) == "torch":
        x = x.cpu()
    elif _library(x) == "cupy":
        x = x.get()
    elif _library(x) == "array_api_strict":
        x = x.to_device(namespace(x).Device("CPU_DEVICE"))
    return np.asarray(x)


def to_host(x: Array) -> np.ndarray:
    """`x` as a NumPy float64 array."""
    if isinstance(x, np.ndarray) and x.dtype == np.float64:  # the hot path
        return x
    return np.asarray(on_host(x), dtype=np.float64)


def gather(x: Array, J: Any, axis: int = 0) -> Array:
    """Rows or columns `J`, host indices, of an array of any namespace."""
    if isinstance(x, np.ndarray):
        return x[J] if axis == 0 else x[:, J]
    xp = namespace(x)
    return xp.take(x, xp.asarray(np.asarray(J), device=x.device), axis=axis)


def from_host(x: np.ndarray, like: Array) -> Array:
    """Host array `x` in the namespace, on the device and with the dtype of `like`."""
    xp = namespace(like)
    if xp is np:  # asarray would do; this is the hot path
        return np.asarray(x, dtype=like.dtype)
    return xp.asarray(x, dtype=like.dtype, device=like.device)


def padded(a: np.ndarray, rows: int, columns: int | None = None) -> np.ndarray:
    """A copy of a host matrix with zeros below and on the right. `np.pad` takes ten times as long."""
    larger = np.zeros((rows, a.shape[1] if columns is None else columns), dtype=a.dtype)
    larger[: a.shape[0], : a.shape[1]] = a
    return larger


def in_double(x: Array) -> Array:
    """`x` in float64, in its own namespace and on its own device."""
    xp = namespace(x)
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def eps(x: Array) -> float:
    """Unit roundoff of the dtype of `x`."""
    return float(namespace(x).finfo(x.dtype).eps)


_SUMMED_AT_ONCE = 4096  # rows; longer sums of float32 numbers lose a digit or two


def squared_norms(columns: Array) -> np.ndarray:
    """Squared norm of each column, summed in float64, on the host; infinite where it overflows."""
    return to_host(energies(columns))


def energies(columns: Array) -> Array:
    """Squared norm of each column, summed in float64, in the namespace of the columns; infinite where it overflows."""
    if not isinstance(columns, np.ndarray):
        xp = namespace(columns)
        return xp.sum(columns * columns, axis=0, dtype=xp.float64)
    with np.errstate(over="ignore"):
        if len(columns) > _SUMMED_AT_ONCE and columns.dtype == np.float32:
            starts = range(0, len(columns), _SUMMED_AT_ONCE)
            return np.sum([squared_norms(columns[i : i + _SUMMED_AT_ONCE]) for i in starts], axis=0)
        if columns.shape[1] == 1:  # a sum over the long axis of a narrow array is slow, a product of vectors is not
            return np.atleast_1d(to_host(columns[:, 0] @ columns[:, 0]))
        return to_host(np.einsum("ij,ij->j", columns, columns))  # no array of squares in between


def squared_rows(a: np.ndarray) -> np.ndarray:
    """Squared norm of each row of a host array; of one column without a sum, which would take most of the time."""
    return a[:, 0] * a[:, 0] if a.shape[1] == 1 else np.einsum("ij,ij->i", a, a)


def column_means(x: Array, weights: Array | None = None) -> np.ndarray:
    """Weighted mean of each column, on the host, summed in float64: of many rows float32 would lose digits."""
    if isinstance(x, np.ndarray):
        means = np.mean(x, axis=0, dtype=np.float64) if weights is None else np.average(x, axis=0, weights=weights)
        return to_host(means)
    xp, x = namespace(x), in_double(x)
    if weights is None:
        return to_host(xp.sum(x, axis=0)) / x.shape[0]
    weights = from_host(weights, x) if isinstance(weights, np.ndarray) else in_double(weights)
    return to_host(weights @ x) / float(to_host(xp.sum(weights)))


def in_span_limit(x: Array) -> float:
    """Share of its squared norm below which an atom counts as lying in the span of the others.

    Relative, and the one constant of its kind: 100 eps. The rounding error of a deflated column is of the order eps
    times its original norm, so a norm above this limit is signal, and the triangular factor stays well conditioned.
    """
    return 100 * eps(x)


WIDEST_TIE = 1e-8


def narrowest_tie(x: Array) -> float:
    """Relative difference under which two scores are equal: blocks and threads must not change a choice."""
    return 1e-12 if eps(x) < 1e-10 else 1e-5
