"""Kernels as functions of two data matrices, built from plain parameters.

NumPy and sparse data go to scikit-learn's pairwise kernels, except the Gaussian kernel of dense data, whose exponent is
one matrix product here. Arrays of other libraries are never handed to scikit-learn, which would turn them into NumPy
arrays: short forms of the same kernels keep them where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils.sparsefuncs import mean_variance_axis

from kernelpursuit._array import Array, eps, from_host, gather, namespace, to_host

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
# The exponent of a Gaussian kernel made by one product is wrong by about eps gamma (|x|^2 + |z|^2); more than this,
# the kernel's relative error, is too much. In float32 that begins at gamma |x|^2 = 42.
EXPONENT_ERROR = 1e-5
NOT_FINITE = "kernel gives infinite or undefined values on X: scale X, or change kernel or gamma"


def usable_threads() -> int:
    """Threads that a loop over kernel tiles may use: the processors, or less by OMP_NUM_THREADS or joblib."""
    return _openmp_effective_n_threads()


class GaussianPoints:
    """Centred points in the form that makes the exponent of the Gaussian kernel one matrix product.

    With x' = [√(2γ) x, -γ|x|², 1] and z' = [√(2γ) z, 1, -γ|z|²] the product x'·z' is -γ|x - z|².

    Parameters
    ----------
    rows : array of shape (n, n_features + 2)
        The x', of any array namespace.
    far : ndarray of bool of shape (n,) or None
        Points so far from the centre that the product of two of them loses too many digits; None: there are none.
    """

    def __init__(self, rows: Array, far: np.ndarray | None):
        self.rows = rows
        self.far = far
        self.shape = (rows.shape[0], rows.shape[1] - 2)

    def __getitem__(self, J: slice | np.ndarray) -> GaussianPoints:
        rows = self.rows[J, :] if isinstance(J, slice) else gather(self.rows, J)
        return GaussianPoints(rows, None if self.far is None else self.far[J])

    @property
    def far_rows(self) -> np.ndarray:
        """Indices of the far points."""
        return np.flatnonzero(False if self.far is None else self.far)

    @cached_property
    def turned(self) -> Array:
        """The z' of the same points."""
        d = self.shape[1]
        return gather(self.rows, np.array([*range(d), d + 1, d]), axis=1)


def gaussian_points(centred: Array, gamma: float) -> GaussianPoints:
    """Centred points, ready for `gaussian`."""
    xp = namespace(centred)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = centred * float(np.sqrt(2 * gamma))
        wide = scaled if eps(scaled) < 1e-10 else xp.astype(scaled, xp.float64)
        halves = xp.sum(wide * wide, axis=1) / 2  # γ|x|² of the rounded coordinates, so that k(x, x) is near 1
    heights = to_host(halves)
    if not np.all(heights <= float(xp.finfo(scaled.dtype).max)):  # NaN and infinite coordinates end here too
        raise ValueError(NOT_FINITE)
    norms = xp.astype(-halves, scaled.dtype)[:, None]
    far = heights > EXPONENT_ERROR / (2 * eps(scaled))
    return GaussianPoints(xp.concat([scaled, norms, xp.ones_like(norms)], axis=1), far if np.any(far) else None)


def gaussian(P: GaussianPoints, Q: GaussianPoints, out: np.ndarray | None = None) -> Array:
    """exp(-γ|x - z|²), (n_p, n_q): one product and an exponential in place; pairs of far points by `gaussian_float64`.

    A far point and one that is not are either well apart, and the value is 0 to all digits that count, or the sum of
    their squared lengths is below five times the limit.
    """
    rows, columns = P.far_rows, Q.far_rows
    pairs = len(rows) * len(columns)
    if pairs and (8 * pairs > P.shape[0] * Q.shape[0] or not _takes_indices(P.rows)):
        return gaussian_float64(P, Q)
    left, right = (P.turned, Q.rows) if P.shape[0] <= Q.shape[0] else (P.rows, Q.turned)  # the shorter is copied
    with np.errstate(over="ignore", invalid="ignore"):  # of pairs of far points, which are replaced
        values = left @ right.T if out is None else np.matmul(left, right.T, out=out)
        values = _exponential(values)
    if pairs:
        xp = namespace(values)
        where = [
            xp.asarray(index) if xp is np else xp.asarray(index, device=values.device) for index in (rows, columns)
        ]
        values[where[0][:, None], where[1][None, :]] = gaussian_float64(P[rows], Q[columns])
    return values


def gaussian_float64(P: GaussianPoints, Q: GaussianPoints) -> Array:
    """The same by a product in float64, or, where that loses too many digits as well, by differences of coordinates."""
    xp, d = namespace(P.rows), P.shape[1]
    x, z = (xp.astype(points.rows[:, :d], xp.float64) for points in (P, Q))
    with np.errstate(over="ignore", invalid="ignore"):
        heights = [xp.sum(points * points, axis=1) / 2 for points in (x, z)]
        limit = EXPONENT_ERROR / (2 * eps(x))
        if all(bool(xp.any(height > limit)) for height in heights):
            exponent = -_sum_over_features(lambda a, b: (a - b) ** 2, x, z) / 2
        else:
            exponent = x @ z.T - heights[0][:, None] - heights[1][None, :]
        # An exponent above 0 can only be rounding.
        values = xp.exp(xp.where(exponent > 0, xp.zeros_like(exponent), exponent))
    if not all_finite(values):
        raise ValueError(NOT_FINITE)
    return xp.astype(values, P.rows.dtype)


def _takes_indices(x: Array) -> bool:
    """Whether values may be put at index arrays, which the array API standard does not ask for."""
    return isinstance(x, np.ndarray) or hasattr(x, "index_put_")


def _exponential(values: Array) -> Array:
    """exp, in place where the library can."""
    if isinstance(values, np.ndarray):
        return np.exp(values, out=values)
    return values.exp_() if hasattr(values, "exp_") else namespace(values).exp(values)


def all_finite(values: Array) -> bool:
    """Whether all entries are numbers; the sum tells in nearly all cases."""
    xp = namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(xp.isfinite(xp.sum(values))) or bool(xp.all(xp.isfinite(values)))


class Kernel:
    """A kernel ``k(X, Z) -> (n_x, n_z)`` with its parameters settled.

    `prepare` brings data into the form that calls take, so a tile loop prepares once: centred where the kernel allows
    it, and as `GaussianPoints` for the Gaussian kernel.

    Parameters
    ----------
    function : callable
        Maps two matrices with the same columns to the matrix of kernel values.
    offset : array of shape (n_features,), optional
        Subtracted from the data by `prepare`.
    symmetric : bool
        Whether k(x, z) = k(z, x) is known.
    gaussian : float, optional
        Its gamma, if this is the Gaussian kernel: dense data then go through `gaussian_points`, not `function`.
    parallel : bool
        Whether `function` may be called from several threads at once.
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        offset: Array | None = None,
        symmetric: bool = False,
        gaussian: float | None = None,
        parallel: bool = False,
    ):
        self.function = function
        self.offset = offset
        self.symmetric = symmetric
        self.gaussian = gaussian
        self.parallel = parallel

    def prepare(self, X: Any) -> Any:
        """Data as `__call__` expects them: both sides prepared, or neither."""
        if self.offset is None or sparse.issparse(X):
            return X
        with np.errstate(over="ignore", invalid="ignore"):
            centred = X - self.offset
        return centred if self.gaussian is None else gaussian_points(centred, self.gaussian)

    def between(self, X: Any, Z: Any) -> Any:
        """Kernel values, (n_x, n_z), of data as they come."""
        if sparse.issparse(X) or sparse.issparse(Z):  # not centred, so the other side must not be either
            return self.function(X, Z)
        return self(self.prepare(X), self.prepare(Z))

    def __call__(self, X: Any, Z: Any, out: np.ndarray | None = None) -> Any:
        """Kernel values, (n_x, n_z), of prepared data; NumPy results may be asked into `out`."""
        if isinstance(X, GaussianPoints):
            values = gaussian(X, Z, out)
        else:
            values = self.function(X, Z)
        if out is None or values is out:
            return values
        out[...] = values
        return out

    def finite(self, X: Any, Z: Any, out: np.ndarray | None = None) -> Any:
        """The same, or an error where there are infinite or undefined values."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = self(X, Z, out)
        # Gaussian values of points that passed `prepare` are finite: no further pass over them.
        if not isinstance(X, GaussianPoints) and not all_finite(values):
            raise ValueError(NOT_FINITE)
        return values


def _column_means(X: Array, weights: np.ndarray | None) -> np.ndarray:
    """Weighted mean of each column of a dense array, summed in float64: of many rows float32 would lose digits."""
    if isinstance(X, np.ndarray):
        mean = np.mean(X, axis=0, dtype=np.float64) if weights is None else np.average(X, axis=0, weights=weights)
        return to_host(mean)
    xp = namespace(X)
    wide = xp.astype(X, xp.float64)
    shares = np.full(X.shape[0], 1 / X.shape[0]) if weights is None else to_host(weights) / np.sum(to_host(weights))
    return to_host(from_host(shares, like=wide) @ wide)


_ROWS_FOR_CENTER = 4096  # of which the median is taken; the centre only has to lie among most of the rows


def center_of(X: Array) -> Array:
    """Median of each column of dense `X`, over some rows if there are many.

    A mean would follow one far row away from all others, which then lose their digits. The median is a number of the
    column, so differences to it are exact for the rows around it, in float32 too.

    Examples
    --------
    >>> import numpy as np
    >>> center_of(np.array([[1.0, 5.0], [2.0, 4.0], [1e10, 6.0]]))
    array([2., 5.])
    """
    n, some = X.shape[0], X
    if n > _ROWS_FOR_CENTER:
        some = gather(X, np.random.default_rng(0).integers(0, n, _ROWS_FOR_CENTER))  # always the same ones
    middle = some.shape[0] // 2
    if isinstance(some, np.ndarray):
        return np.partition(some, middle, axis=0)[middle]
    return namespace(some).sort(some, axis=0)[middle, :]


def scale_gamma(X: Any, weights: np.ndarray | None = None) -> float:
    """scikit-learn's ``gamma="scale"``, 1 / (n_features * variance of all entries), with rows counted by weight."""
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(X):
            mean, variance = mean_variance_axis(sparse.csr_array(X), axis=0, weights=weights)
        else:
            xp, mean = namespace(X), _column_means(X, weights)
            wide = xp.astype(X, xp.float64, copy=False)
            variance = _column_means((wide - from_host(mean, like=wide)) ** 2, weights)
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
        return Kernel(_matrix_form(partial(_dense_values, partial(kernel, **(kernel_params or {}))), X))
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
    # Squared distances come from products: at an offset of 1e6 those of float64 data are wrong in the fourth digit.
    offset = center_of(X) if name == "rbf" and not sparse.issparse(X) else None
    gamma_of_rbf = params["gamma"] if name == "rbf" else None
    return Kernel(partial(_named, metric=name, **params), offset, symmetric=True, gaussian=gamma_of_rbf, parallel=True)


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
    pairs = [one if _is_pair(one) else (one, {}) for one in kernel_list(kernel)]
    return any(
        isinstance(name, str) and "gamma" in _PARAMETERS.get(name, ()) and "gamma" not in own for name, own in pairs
    )


def _named(X: Any, Z: Any, metric: str, **params: float) -> Any:
    """Kernel of a name: scikit-learn's for NumPy and sparse data, the same in a few operations for other arrays."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return pairwise_kernels(X, Z, metric=metric, **params)
    return _array_kernel(X, Z, metric, **params)


def _array_kernel(X: Array, Z: Array, metric: str, gamma: float = 1.0, degree: float = 3, coef0: float = 1) -> Array:
    """A named kernel in operations that all array libraries share."""
    xp = namespace(X)
    if metric == "rbf":
        return gaussian(gaussian_points(X, gamma), gaussian_points(Z, gamma))
    if metric == "laplacian":
        return xp.exp(-gamma * _sum_over_features(lambda x, z: xp.abs(x - z), X, Z))
    if metric in ("chi2", "additive_chi2"):
        if bool(xp.any(X < 0)) or bool(xp.any(Z < 0)):
            raise ValueError("X contains negative values, for which the chi2 kernels are not defined")
        tiny = float(xp.finfo(X.dtype).smallest_normal)  # 0 / 0 is 0
        distances = _sum_over_features(lambda x, z: (x - z) ** 2 / (x + z + tiny), X, Z)
        return -distances if metric == "additive_chi2" else xp.exp(-gamma * distances)
    if metric == "cosine":
        X, Z = (x / xp.where(xp.any(x != 0, axis=1), xp.sqrt(xp.sum(x * x, axis=1)), 1.0)[:, None] for x in (X, Z))
    products = X @ Z.T
    if metric in ("linear", "cosine"):
        return products
    scaled = gamma * products + coef0
    return xp.tanh(scaled) if metric == "sigmoid" else scaled**degree


def _sum_over_features(term: Callable[[Array, Array], Array], X: Array, Z: Array) -> Array:
    """Sum of a function of two coordinates, one feature at a time: an (n_x, n_z, n_features) array would be large."""
    total = term(X[:, :1], Z[:, :1].T)
    for k in range(1, X.shape[1]):
        total = total + term(X[:, k : k + 1], Z[:, k : k + 1].T)
    return total


def _dense_values(function: Callable, X: Any, Z: Any) -> Any:
    """Values of a user's kernel; those of sparse data may be sparse, and become an array."""
    values = function(X, Z)
    return values.toarray() if sparse.issparse(values) else values


def _matrix_form(function: Callable, X: Any) -> Callable[[Any, Any], Any]:
    """The callable as a function of matrices; a function of two rows is called on every pair.

    Two rows against n_features + 2 tell the forms apart: neither entry by entry nor as a product do they fit together.
    """
    if not (isinstance(X, np.ndarray) or sparse.issparse(X)):
        return _checked_form(function, X)
    few, many = X[[0] * 2], X[[0] * (X.shape[1] + 2)]
    try:
        if np.shape(function(few, many)) == (2, X.shape[1] + 2):
            return function
    except Exception:
        pass  # not a function of matrices; if it is one of rows neither, the call below raises what the user must see
    if np.ndim(pairwise_kernels(few, many, metric=function)) != 2:
        raise ValueError("kernel must return one number for two rows or an (n, m) array for n and m rows")
    return partial(pairwise_kernels, metric=function)


def _checked_form(function: Callable, X: Array) -> Callable[[Array, Array], Array]:
    """The callable, if it maps tensors to tensors of the same library; a call for every pair would be far too slow."""
    few, many = gather(X, [0] * 2), gather(X, [0] * (X.shape[1] + 2))
    error = None
    try:
        values = function(few, many)
        if np.shape(values) == (2, X.shape[1] + 2) and namespace(values) is namespace(X):
            return function
    except Exception as raised:
        error = raised
    raise ValueError("a callable kernel of tensors must map n and m rows to an (n, m) tensor of their kind") from error
