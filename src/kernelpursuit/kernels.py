"""Kernels as functions of two data matrices, built from plain parameters with scikit-learn's pairwise kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils.sparsefuncs import mean_variance_axis

KERNEL_NAMES = frozenset(PAIRWISE_KERNEL_FUNCTIONS)
# Parameters that `gamma`, `degree` and `coef0` of an estimator set, by kernel.
_PARAMETERS = {
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "chi2": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "poly": ("gamma", "degree", "coef0"),
    "polynomial": ("gamma", "degree", "coef0"),
}
# These depend on differences of points only, so the data may be centred first. At an offset of 1e6 the squared
# distances of uncentred float64 data are wrong in the fourth digit.
_SHIFT_INVARIANT = frozenset({"rbf", "laplacian"})


class Kernel:
    """A kernel ``k(X, Z) -> (n_x, n_z)`` with its parameters settled.

    `prepare` centres data where the kernel allows it; calls take prepared data, so a tile loop prepares once.

    Parameters
    ----------
    function : callable
        Maps two matrices with the same columns to the matrix of kernel values.
    offset : ndarray of shape (n_features,), optional
        Subtracted from the data by `prepare`.
    symmetric : bool
        Whether k(x, z) = k(z, x) is known.
    """

    def __init__(
        self, function: Callable[[Any, Any], np.ndarray], offset: np.ndarray | None = None, symmetric: bool = False
    ):
        self.function = function
        self.offset = offset
        self.symmetric = symmetric

    def prepare(self, X: Any) -> Any:
        """Data as `__call__` expects them: both sides prepared, or neither."""
        return X if self.offset is None or sparse.issparse(X) else X - self.offset

    def between(self, X: Any, Z: Any) -> np.ndarray:
        """Kernel values, (n_x, n_z), of data as they come."""
        if sparse.issparse(X) or sparse.issparse(Z):  # not centred, so the other side must not be either
            return self.function(X, Z)
        return self.function(self.prepare(X), self.prepare(Z))

    def __call__(self, X: Any, Z: Any) -> np.ndarray:
        """Kernel values, (n_x, n_z), of prepared data."""
        return self.function(X, Z)


def feature_mean(X: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """Weighted mean of each column of dense or sparse `X`, in the dtype of `X`."""
    if sparse.issparse(X):
        return mean_variance_axis(sparse.csr_array(X), axis=0, weights=weights)[0]
    return np.average(X, axis=0, weights=weights).astype(X.dtype)


def scale_gamma(X: Any, weights: np.ndarray | None = None) -> float:
    """scikit-learn's ``gamma="scale"``, 1 / (n_features * variance of all entries), with rows counted by weight."""
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(X):
            mean, variance = mean_variance_axis(sparse.csr_array(X), axis=0, weights=weights)
        else:
            mean = np.average(X, axis=0, weights=weights).astype(np.float64)
            variance = np.average((X - mean) ** 2, axis=0, weights=weights)
        total = float(np.mean(variance) + np.var(mean))  # variance within the columns and of their means
    if not np.isfinite(total):
        raise ValueError("gamma='scale' needs the variance of X, which overflows: scale X or give gamma as a number")
    return 1.0 / (X.shape[1] * total) if total > 0 else 1.0


def resolve_gamma(gamma: float | str, X: Any, weights: np.ndarray | None = None) -> float:
    """Number behind ``"scale"``, ``"auto"`` or a number."""
    if gamma == "scale":
        return scale_gamma(X, weights)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if isinstance(gamma, bool) or not isinstance(gamma, Real) or not 0 <= gamma < np.inf:
        raise ValueError(f"gamma must be 'scale', 'auto' or a number from 0 on, got {gamma!r}")
    return float(gamma)


def make_kernel(
    kernel: str | Callable | tuple[str, dict],
    X: Any,
    *,
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1,
    kernel_params: dict | None = None,
    weights: np.ndarray | None = None,
) -> Kernel:
    """Kernel from the plain parameters of an estimator, settled on training data.

    Parameters
    ----------
    kernel : str, callable or (str, dict)
        A name of scikit-learn's pairwise kernels; a callable of two matrices (as for SVC) or of two rows (as for
        KernelRidge): which of the two is found by trying; or a name with parameters that replace the common ones.
    X : {array, CSR array} of shape (n_samples, n_features)
        Training data; ``gamma="scale"`` and the centring come from it.
    gamma, degree, coef0, kernel_params
        As in scikit-learn's KernelRidge and SVC.
    weights : ndarray of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0]])
    >>> k = make_kernel(("rbf", {"gamma": 2.0}), X)
    >>> k(k.prepare(X), k.prepare(X)).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """
    if callable(kernel):
        return Kernel(_matrix_form(partial(kernel, **(kernel_params or {})), X))
    if kernel_params:
        raise ValueError(
            f"kernel_params is for a callable kernel, got kernel={kernel!r}; set gamma, degree or coef0, "
            "or give the kernel as a pair such as ('rbf', {'gamma': 0.5})"
        )
    pair: Any = kernel if _is_pair(kernel) else (kernel, {})
    name, own = pair
    if not isinstance(name, str) or name not in KERNEL_NAMES:
        raise ValueError(f"kernel={name!r} is unknown; valid: {sorted(KERNEL_NAMES)}, a callable or a list of these")
    allowed = _PARAMETERS.get(name, ())
    if unknown := set(own) - set(allowed):
        raise ValueError(f"kernel {name!r} has no parameter {sorted(unknown)}; valid: {list(allowed)}")
    params: dict[str, Any] = {
        key: value for key, value in {"gamma": gamma, "degree": degree, "coef0": coef0}.items() if key in allowed
    }
    params |= own
    if "gamma" in params:
        params["gamma"] = resolve_gamma(params["gamma"], X, weights)
    offset = feature_mean(X, weights) if name in _SHIFT_INVARIANT and not sparse.issparse(X) else None
    return Kernel(partial(pairwise_kernels, metric=name, **params), offset, symmetric=True)


def kernel_list(kernel: Any) -> list:
    """Kernels of a `kernel` parameter: a list stays one, a single kernel becomes a list of one, None an empty list."""
    if kernel is None:
        return []
    several = isinstance(kernel, Sequence) and not isinstance(kernel, str) and not _is_pair(kernel)
    return list(kernel) if several else [kernel]


def _is_pair(kernel: Any) -> bool:
    """Whether this is a kernel with parameters of its own."""
    return isinstance(kernel, tuple) and len(kernel) == 2 and isinstance(kernel[1], dict)


def uses_gamma(kernel: Any) -> bool:
    """Whether the parameter `gamma` changes any kernel of a `kernel` parameter."""
    return any(isinstance(one, str) and "gamma" in _PARAMETERS.get(one, ()) for one in kernel_list(kernel))


def _matrix_form(function: Callable, X: Any) -> Callable[[Any, Any], np.ndarray]:
    """The callable as a function of matrices; a function of two rows is called on every pair.

    Two rows against n_features + 2 tell the forms apart: neither entry by entry nor as a product do they fit together.
    """
    few, many = X[[0] * 2], X[[0] * (X.shape[1] + 2)]
    try:
        if np.shape(function(few, many)) == (2, X.shape[1] + 2):
            return function
    except Exception:
        pass  # not a function of matrices; if it is one of rows neither, the call below raises what the user must see
    if np.ndim(pairwise_kernels(few, many, metric=function)) != 2:
        raise ValueError("kernel must return one number for two rows or an (n, m) array for n and m rows")
    return partial(pairwise_kernels, metric=function)
