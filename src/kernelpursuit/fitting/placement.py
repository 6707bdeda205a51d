"""Checks of arrays given to estimators, and moves between array libraries, devices and precisions.

With ``sklearn.config_context(array_api_dispatch=True)`` data of any array library are fitted where they are. Targets
and weights are moved to X; labels, indices and everything about the path are NumPy arrays; predictions are where X is.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from kernelpursuit._sklearn import check_sample_weight, check_y, get_config
from kernelpursuit.arrays import Array, from_host, gather, is_array, namespace, on_host
from kernelpursuit.fitting.rows import is_collection, refuse_collections


def is_precomputed(kernel: Any) -> bool:
    """Whether X is the kernel matrix itself."""
    return isinstance(kernel, str) and kernel == "precomputed"


def x_options(kernel: Any, X: Any) -> dict[str, Any]:
    """How `validate_data` treats X: its own namespace, double or single precision."""
    if is_collection(X):
        raise TypeError(
            "a Dask collection has come where one does not belong: give X.compute() if that fits into memory"
        )
    dispatched = get_config()["array_api_dispatch"] and is_array(X)
    wide = float_dtypes(X) if dispatched else [np.float64, np.float32]
    return {"accept_sparse": False if is_precomputed(kernel) else "csr", "dtype": wide}


def float_dtypes(x: Array) -> list[Any]:
    """Precisions that the library and the device of an array have, the widest first."""
    xp = namespace(x)
    single_only = getattr(getattr(x, "device", None), "type", None) == "mps"  # Apple's
    return [xp.float32] if single_only else [xp.float64, xp.float32]


def validated(estimator: Any, X: Any, *args: Any, **options: Any) -> Any:
    """scikit-learn's `validate_data`, with errors that also name the columns of a table with bad values."""
    refuse_odd_tensors("X", X)
    for y in args:
        refuse_odd_tensors("y", y)
    try:
        checked = validate_data(estimator, X, *args, **options)
    except ValueError as error:
        said = str(error)
        about_x = "Input X contains" in said or "could not convert" in said
        names = [name for name in columns_of(X) if not is_numeric(X[name])] if about_x else []
        if not names:
            raise
        listed = ", ".join(repr(str(name)) for name in names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"{said}\nIn X: {'column' if len(names) == 1 else 'columns'} {listed}.") from error
    if not isinstance(checked, tuple):
        return summed(checked)
    return summed(checked[0]), numeric(checked[1]) if options.get("y_numeric") else checked[1]


def summed(X: Any) -> Any:
    """X, as a copy without duplicate entries if it is a sparse matrix with some.

    SciPy adds duplicate entries up in most operations, but squares each one by itself.
    """
    if not sparse.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def numeric(y: Any) -> Any:
    """Checked targets, with strings converted to numbers, as scikit-learn's regressors do."""
    if getattr(y.dtype, "kind", "") not in ("U", "S", "T"):
        return y
    return check_y(y.astype(np.float64), multi_output=True, y_numeric=True)


def refuse_odd_tensors(name: str, x: Any) -> None:
    """Raise a clear error for PyTorch tensors that cannot become arrays."""
    if type(x).__module__.partition(".")[0] != "torch":
        return
    if getattr(x, "requires_grad", False):
        raise ValueError(
            f"{name} is a tensor with requires_grad=True, which no gradient would reach: use {name}.detach()"
        )
    if str(getattr(x, "layout", "torch.strided")) != "torch.strided":
        raise ValueError(f"{name} must be a dense tensor, got one of layout {x.layout}: use {name}.to_dense()")


def columns_of(X: Any) -> list[Any]:
    """Names of the columns of a table; an empty list for anything else."""
    return list(X.columns) if hasattr(X, "columns") and hasattr(X, "dtypes") else []


def is_numeric(column: Any) -> bool:
    """Whether a column of a table has finite numbers only."""
    try:
        return bool(np.all(np.isfinite(np.asarray(column, dtype=np.float64))))
    except (TypeError, ValueError):
        return False


def check_new(estimator: Any, X: Any, kernel: Any, like: Any, method: str) -> Any:
    """Check new data for a fitted estimator. X must have the library and device of `like`, a fitted array.

    scikit-learn's ``check_same_namespace`` checks nothing while array API dispatch is off.
    """
    check_is_fitted(estimator)
    refuse_collections(estimator, method, X)
    X = validated(estimator, X, reset=False, **x_options(kernel, X))
    check_place(estimator, X, like, method)
    return X


def check_place(estimator: Any, X: Any, like: Any, method: str) -> None:
    """Raise an error if X has another library or device than `like`, a fitted array."""
    if place(X) != place(like):
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and the same device "
            f"as those passed to fit(): that was {' on '.join(place(like))}, and here X is {' on '.join(place(X))}. "
            "Move X there; what is not NumPy needs sklearn.config_context(array_api_dispatch=True)"
        )


def place(x: Any) -> tuple[str, str]:
    """Names of the library and device of an array; lists, tables and sparse matrices count as NumPy's."""
    if isinstance(x, np.ndarray) or sparse.issparse(x) or not is_array(x):
        return "numpy", "cpu"
    return namespace(x).__name__.rsplit(".", 1)[-1], str(x.device)


def take_rows(x: Any, J: np.ndarray) -> Any:
    """Rows `J`, host indices, of a sparse matrix or an array of any namespace."""
    return x[J] if sparse.issparse(x) else gather(x, J)


def rows_between(x: Any, span: slice) -> Any:
    """Rows of a slice; array API standard arrays need all their axes named."""
    return x[span] if sparse.issparse(x) else x[span, ...]


def host_dtype(x: Any) -> np.dtype:
    """NumPy's name for the dtype of an array or sparse matrix of real numbers."""
    if isinstance(x, np.ndarray) or sparse.issparse(x):
        return x.dtype
    return np.dtype(np.float32 if x.dtype == namespace(x).float32 else np.float64)


def as_like(values: np.ndarray, X: Any) -> Array:
    """Host values in the namespace, on the device and with the dtype of X."""
    return np.asarray(values, dtype=X.dtype) if sparse.issparse(X) else from_host(values, X)


def to_namespace_of(values: np.ndarray, X: Any) -> Array:
    """Host values in the library and on the device of X, keeping their dtype if the device has it.

    scikit-learn's convention for fitted attributes that are arrays.
    """
    if sparse.issparse(X) or isinstance(X, np.ndarray):
        return values
    xp, dtype = namespace(X), None
    if values.dtype == np.float64 and xp.float64 not in float_dtypes(X):
        dtype = xp.float32
    return xp.asarray(np.array(values), dtype=dtype, device=X.device)  # a copy: tensors share memory with the host


def as_dtype(x: Any, dtype: Any) -> Any:
    """An array or sparse matrix with another dtype; itself if it has this dtype."""
    if x.dtype == dtype:
        return x
    return x.astype(dtype) if isinstance(x, np.ndarray) or sparse.issparse(x) else namespace(x).astype(x, dtype)


def model_precision(X: Any, fitted: Any) -> Any:
    """New data in the dtype of the fitted data, or in their own if it is wider.

    Weights of a float64 model may be large and of both signs: with float32 kernel values the sum would have no digits.
    """
    return as_dtype(X, X.dtype if host_dtype(X).itemsize > host_dtype(fitted).itemsize else fitted.dtype)


def widest(x: Any) -> Any:
    """The array or sparse matrix in the widest precision of its device."""
    if sparse.issparse(x):
        return as_dtype(x, np.float64)
    if isinstance(x, np.ndarray):
        return np.asarray(x, dtype=np.float64)
    xp = namespace(x)
    return xp.astype(x, float_dtypes(x)[0], copy=False)


def labels_on_host(y: Any) -> np.ndarray:
    """Labels, of any namespace, as a NumPy array."""
    refuse_odd_tensors("y or sample_weight", y)
    return np.asarray(y) if isinstance(y, (np.ndarray, list)) else on_host(y)


def move_to(y: Any, X: Any) -> Any:
    """Targets y moved to the library and device of X, as scikit-learn does."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return y if sparse.issparse(y) else labels_on_host(y)
    return y if is_array(y) and place(y) == place(X) else to_namespace_of(labels_on_host(y), X)


def labels_to(y: np.ndarray, X: Any) -> Any:
    """Labels or targets moved to X if they are numbers."""
    return to_namespace_of(y, X) if y.dtype.kind in "biuf" else y


def host_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Checked weights of the rows of X on the host, with its dtype."""
    if not isinstance(sample_weight, Number):
        sample_weight = labels_on_host(sample_weight)
    return check_sample_weight(sample_weight, np.empty((X.shape[0], 0)), dtype=host_dtype(X), ensure_non_negative=True)
