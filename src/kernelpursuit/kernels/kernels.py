"""Kernels as functions of two data matrices, built from plain parameters.

NumPy and sparse data go to scikit-learn's pairwise kernels, except the Gaussian kernel of dense data, whose exponent is
one matrix product here. Arrays of other libraries are never handed to scikit-learn, which would turn them into NumPy
arrays: short forms of the same kernels keep them where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels
from sklearn.utils.sparsefuncs import mean_variance_axis

from kernelpursuit._sklearn import one_openmp_thread
from kernelpursuit.arrays import Array, column_means, from_host, gather, in_double, namespace
from kernelpursuit.kernels.gaussian import (
    NOT_FINITE,
    GaussianPoints,
    all_finite,
    center_of,
    centred,
    gaussian,
    gaussian_points,
    sum_over_features,
)

KERNEL_NAMES = frozenset(kernel_metrics())
# Parameters of the named kernels, with the defaults of those that no parameter of an estimator sets.
KERNEL_PARAMETERS: dict[str, dict[str, Any]] = {
    "rbf": {"gamma": "scale"},
    "laplacian": {"gamma": "scale"},
    "chi2": {"gamma": "scale"},
    "sigmoid": {"gamma": "scale", "coef0": 1},
    "poly": {"gamma": "scale", "degree": 3, "coef0": 1},
    "polynomial": {"gamma": "scale", "degree": 3, "coef0": 1},
}
SHIFT_INVARIANT = frozenset({"rbf", "laplacian"})  # k(x, x) is 1


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel ``k(X, Z) -> (n_x, n_z)`` with numbers for its parameters: plain data, but for a user's function.

    `prepare` brings data into the form that calls take, so a tile loop prepares once: centred, as `GaussianPoints`, for
    the Gaussian kernel.

    Parameters
    ----------
    name : str, optional
        One of `KERNEL_NAMES`; None for a function of the user's.
    params : dict
        Parameters of that kernel, or keyword arguments of the function.
    offset : array of shape (n_features,), optional
        Subtracted from dense data by `prepare`; the Gaussian kernel has one.
    function : callable, optional
        The user's: maps two matrices with the same columns, or two rows, to kernel values.
    of_rows : bool
        Whether it takes two rows.
    """

    name: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    offset: Array | None = None
    function: Callable | None = None
    of_rows: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether k(x, z) = k(z, x) is known."""
        return self.function is None

    @property
    def parallel(self) -> bool:
        """Whether it may be called from several threads at once."""
        return self.function is None

    def values(self, X: Any, Z: Any) -> Any:
        """Kernel values, (n_x, n_z), of data that are not prepared, on their own device."""
        on_host = isinstance(X, np.ndarray) or sparse.issparse(X)
        if on_host and 0 in (X.shape[0], Z.shape[0]):
            return np.zeros((X.shape[0], Z.shape[0]), dtype=X.dtype)  # a model may have no centres
        if self.function is None and not on_host:
            return _array_kernel(X, Z, self.name, **self.params)
        if self.function is None or self.of_rows:
            loops = self.name == "laplacian" and sparse.issparse(X)  # the one kernel that scikit-learn has in OpenMP
            with one_openmp_thread() if loops else nullcontext():
                return pairwise_kernels(X, Z, metric=self.function or self.name, **self.params)
        values = self.function(X, Z, **self.params)
        values = values.toarray() if sparse.issparse(values) else values  # those of sparse data may be sparse
        if np.shape(values) != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"kernel {_name_of(self.function)} returned {_form_of(values)} for {X.shape[0]} and {Z.shape[0]} rows, "
                f"expected an array of shape {(X.shape[0], Z.shape[0])}"
            )
        return values

    def prepare(self, X: Any) -> Any:
        """Data as `__call__` takes them: both sides prepared, or neither."""
        if self.offset is None or sparse.issparse(X):
            return X
        return gaussian_points(centred(X, self.offset), self.params["gamma"])

    def between(self, X: Any, Z: Any) -> Any:
        """Kernel values, (n_x, n_z), of data that are not prepared, centred where the kernel needs it."""
        if sparse.issparse(X) or sparse.issparse(Z):  # not centred, so the other side must not be either
            return self.values(X, Z)
        return self(self.prepare(X), self.prepare(Z))

    def __call__(self, X: Any, Z: Any) -> Any:
        """Kernel values, (n_x, n_z), of prepared data."""
        return gaussian(X, Z) if isinstance(X, GaussianPoints) else self.values(X, Z)

    def finite(self, X: Any, Z: Any, out: np.ndarray | None = None) -> Any:
        """Kernel values of prepared data, into `out` if given, or an error where some are infinite or undefined."""
        if isinstance(X, GaussianPoints):  # finite, since `prepare` looked at the points: no further pass over them
            values = gaussian(X, Z, out)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self.values(X, Z)
            if not all_finite(values):
                raise ValueError(NOT_FINITE)
        if out is None or values is out:
            return values
        out[...] = values
        return out


def scale_gamma(X: Any, weights: np.ndarray | None = None) -> float:
    """scikit-learn's ``gamma="scale"``, 1 / (n_features * variance of all entries), with rows counted by weight."""
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(X):
            mean, variance = mean_variance_axis(sparse.csr_array(X), axis=0, weights=weights)
        else:
            mean, wide = column_means(X, weights), in_double(X)
            variance = column_means((wide - from_host(mean, wide)) ** 2, weights)
    return gamma_of_moments(mean, variance)


def gamma_of_moments(mean: np.ndarray, variance: np.ndarray) -> float:
    """``gamma="scale"`` from the mean and the variance of each column."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.mean(variance) + np.var(mean))  # variance within the columns and of their means
    if not np.isfinite(total):
        raise ValueError("gamma='scale' needs the variance of X, which overflows: scale X or give gamma as a number")
    return 1.0 / (len(mean) * total) if total > 0 else 1.0


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
    kernel: str | Callable | tuple[str | Callable, dict],
    X: Any,
    *,
    gamma: float | str = "scale",
    weights: np.ndarray | None = None,
) -> Kernel:
    """Kernel from the plain parameters of an estimator, with `gamma` and centring from training data.

    Parameters
    ----------
    kernel : str, callable, (str, dict) or (callable, dict)
        A name of scikit-learn's pairwise kernels; a callable of two matrices (as for SVC) or of two rows (as for
        KernelRidge): which of the two is found by trying; or either of them with its parameters.
    X : {array, CSR array} of shape (n_samples, n_features)
        Training data; ``gamma="scale"`` and the centring come from it.
    gamma : {"scale", "auto"} or float
        For kernels that have one and are not given it among their own parameters.
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
    pair: Any = kernel if _is_pair(kernel) else (kernel, {})
    name, own = pair
    if callable(name):
        return _user_kernel(name, own, X)
    if not isinstance(name, str) or name not in KERNEL_NAMES:
        raise ValueError(f"kernel={name!r} is unknown; valid: {sorted(KERNEL_NAMES)}, a callable or a list of these")
    defaults = KERNEL_PARAMETERS.get(name, {})
    if unknown := set(own) - set(defaults):
        raise ValueError(f"kernel {name!r} has no parameter {sorted(unknown)}; valid: {list(defaults)}")
    params = defaults | own
    if "gamma" in params:
        params["gamma"] = resolve_gamma(own.get("gamma", gamma), X, weights)
    check_numbers(name, params)
    offset = center_of(X) if name == "rbf" and not sparse.issparse(X) else None
    return Kernel(name, params, offset)


def check_numbers(name: str, params: dict[str, Any]) -> None:
    """ValueError where `degree` or `coef0` is not a number that the kernel can take."""
    for key, lowest, valid in (("degree", 0.0, "a number from 0 on"), ("coef0", -np.inf, "a finite number")):
        value = params.get(key, 0)
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
        if not lowest <= number < np.inf or np.isinf(number):
            raise ValueError(f"{key} of kernel {name!r} must be {valid}, got {value!r}")


def kernel_list(kernel: Any) -> list:
    """Members of a `kernel` parameter: a list stays one, a single kernel becomes a list of one."""
    several = isinstance(kernel, Sequence) and not isinstance(kernel, str) and not _is_pair(kernel)
    return list(kernel) if several else [kernel]


def gamma_of(kernels: Sequence[Kernel]) -> float | list[float | None] | None:
    """The number gamma of a kernel, None if the kernel has none; a list of them for several kernels."""
    gammas = [kernel.params.get("gamma") if kernel.name else None for kernel in kernels]
    return gammas[0] if len(gammas) == 1 else gammas or None


def _is_pair(kernel: Any) -> bool:
    """Whether this is a kernel with parameters of its own."""
    return isinstance(kernel, tuple) and len(kernel) == 2 and isinstance(kernel[1], dict)


def uses_gamma(kernel: Any) -> bool:
    """Whether the parameter `gamma` changes any kernel of a `kernel` parameter."""
    pairs = [one if _is_pair(one) else (one, {}) for one in kernel_list(kernel)]
    return any(
        isinstance(name, str) and "gamma" in KERNEL_PARAMETERS.get(name, ()) and "gamma" not in own
        for name, own in pairs
    )


def _array_kernel(X: Array, Z: Array, metric: Any, gamma: float = 1.0, degree: float = 3, coef0: float = 1) -> Array:
    """A named kernel in operations that all array libraries share."""
    xp = namespace(X)
    if metric == "rbf":
        return gaussian(gaussian_points(X, gamma), gaussian_points(Z, gamma))
    if metric == "laplacian":
        return xp.exp(-gamma * sum_over_features(lambda x, z: xp.abs(x - z), X, Z))
    if metric in ("chi2", "additive_chi2"):
        if bool(xp.any(X < 0)) or bool(xp.any(Z < 0)):
            raise ValueError("X contains negative values, for which the chi2 kernels are not defined")
        tiny = float(xp.finfo(X.dtype).smallest_normal)  # 0 / 0 is 0
        distances = sum_over_features(lambda x, z: (x - z) ** 2 / (x + z + tiny), X, Z)
        return -distances if metric == "additive_chi2" else xp.exp(-gamma * distances)
    if metric == "cosine":
        lengths = (xp.sqrt(xp.sum(x * x, axis=1, keepdims=True)) for x in (X, Z))
        X, Z = (x / xp.where(norm > 0, norm, xp.ones_like(norm)) for x, norm in zip((X, Z), lengths, strict=True))
    products = X @ Z.T
    if metric in ("linear", "cosine"):
        return products
    scaled = gamma * products + coef0
    return xp.tanh(scaled) if metric == "sigmoid" else scaled**degree


def _user_kernel(function: Callable, params: dict[str, Any], X: Any) -> Kernel:
    """The callable as a kernel; whether it takes matrices or rows is found by trying.

    Two rows against n_features + 2 distinguish the forms: they fit together neither entry by entry nor as a product.
    """
    shape = (2, X.shape[1] + 2)
    few, many = (X[[0] * count] if sparse.issparse(X) else gather(X, [0] * count) for count in shape)
    whole, error = Kernel(function=function, params=params), None
    try:
        values = whole.values(few, many)
        if namespace(values) is namespace(np.empty(0) if sparse.issparse(X) else X):
            return whole
    except Exception as raised:
        error = raised  # not a function of matrices; if it is one of rows neither, what follows says so
    if not (isinstance(X, np.ndarray) or sparse.issparse(X)):  # a call for every pair would be far too slow
        raise ValueError(
            "a callable kernel of tensors must map n and m rows to an (n, m) tensor of their kind"
        ) from error
    pairwise = Kernel(function=function, params=params, of_rows=True)
    try:
        pairwise.values(few, many)
    except (TypeError, ValueError) as raised:
        value = function(*(rows[[0]] if sparse.issparse(rows) else rows[0] for rows in (few, many)), **params)
        if np.ndim(value) == 0:
            raise
        raise ValueError(
            f"kernel {_name_of(function)} returned {_form_of(value)} for two rows, expected one number; or an array of "
            f"shape (n, m) for n and m rows ({error})"
        ) from raised
    return pairwise


def _name_of(function: Callable) -> str:
    return getattr(function, "__name__", None) or repr(function)


def _form_of(values: Any) -> str:
    shape = np.shape(values)
    return f"an array of shape {shape}" if shape else f"a {type(values).__name__}"
