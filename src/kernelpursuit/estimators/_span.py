"""Span of chosen points in feature space: what sparse kernel PCA and novelty detection share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions

from kernelpursuit.bounds import compression_bound
from kernelpursuit.dictionaries.kernel import MIB
from kernelpursuit.estimators._atoms import AtomFamily, Expansion
from kernelpursuit.estimators._fitting import candidates, plan_memory
from kernelpursuit.estimators._parameters import KERNEL_CONSTRAINTS, PURSUIT_CONSTRAINTS, STOP_CONSTRAINTS
from kernelpursuit.kernels import KERNEL_NAMES, Kernel, kernel_list
from kernelpursuit.pursuit.loop import Path, StopRule, pursue
from kernelpursuit.pursuit.rayleigh import SELECTIONS, Rayleigh
from kernelpursuit.pursuit.stopping import first_of, minimum, n_atoms, tolerance

SPAN_CONSTRAINTS: dict[str, list] = {
    "n_atoms": STOP_CONSTRAINTS["n_atoms"][:1],
    "selection": [StrOptions(set(SELECTIONS))],
    "kernel": [StrOptions(set(KERNEL_NAMES) | {"precomputed"}), callable, tuple],
    **{name: KERNEL_CONSTRAINTS[name] for name in ("gamma", "degree", "coef0", "kernel_params")},
    **{name: PURSUIT_CONSTRAINTS[name] for name in ("active_set", "tol", "memory", "storage", "random_state")},
}
OVERFLOW = "kernel gives infinite or undefined values on X: scale X, or change kernel or gamma"
_KERNEL_OPTIONS = ("kernel", "gamma", "degree", "coef0", "kernel_params")


class Span(NamedTuple):
    """Chosen points and the triangular factor of their kernel matrix: ψ(x) = Λ⁻¹ k_A(x) are coordinates in their span.

    Any two points have ⟨ψ(x), ψ(z)⟩ equal to the inner product of their projections onto the span (Nyström).
    """

    path: Path
    support: np.ndarray
    expansion: Expansion
    triangle: np.ndarray  # Λ, (k, k), lower triangular, ΛΛᵀ the kernel matrix of the chosen points

    def features(self, X: Any) -> np.ndarray:
        """ψ of the rows of X, (n_rows, k), float64."""
        parts = [part for _, part in self.batches(X)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def batches(self, X: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """The same for some rows at a time."""
        rows = max(1, 16 * MIB // (8 * len(self.support)))
        for batch in gen_batches(X.shape[0], rows):
            with np.errstate(over="ignore", invalid="ignore"):
                columns = np.asarray(self.expansion.columns(X[batch]), dtype=np.float64)
            if not np.all(np.isfinite(columns)):
                raise ValueError(OVERFLOW)
            yield batch, solve_triangular(self.triangle, columns.T, lower=True, check_finite=False).T

    def residual(self, X: Any, diagonal: np.ndarray) -> np.ndarray:
        """Squared distance of the rows of X to the span, ``k(x, x) - ‖ψ(x)‖²``, `diagonal` being k(x, x)."""
        inside = [np.einsum("ij,ij->i", part, part) for _, part in self.batches(X)]
        return np.maximum(diagonal - np.concatenate(inside), 0)

    def diagonal(self, X: Any) -> np.ndarray:
        """k(x, x) of the rows of X, as data come."""
        return kernel_diagonal(self.expansion.kernels[0], X)


def kernel_diagonal(kernel: Kernel, X: Any, block: int = 32) -> np.ndarray:
    """k(x, x) of the rows of X: diagonals of small squares, or one number where the kernel is shift-invariant.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit.kernels import make_kernel
    >>> X = np.array([[1.0], [3.0]])
    >>> kernel_diagonal(make_kernel("linear", X), X), kernel_diagonal(make_kernel("rbf", X), X)
    (array([1., 9.]), array([1., 1.]))
    """
    if kernel.offset is not None and not sparse.issparse(X):
        origin = np.zeros((1, X.shape[1]), dtype=X.dtype)
        return np.full(X.shape[0], float(kernel(origin, origin)[0, 0]))
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [kernel.between(X[part], X[part]) for part in gen_batches(X.shape[0], block)]
    diagonal = np.concatenate([np.diagonal(square) for square in squares]).astype(np.float64)
    if not np.all(np.isfinite(diagonal)):
        raise ValueError(OVERFLOW)
    return diagonal


def fit_span(X: Any, options: dict[str, Any], rng: np.random.Generator) -> tuple[Span, np.ndarray]:
    """Choose points one at a time until their span holds enough of the data.

    Parameters
    ----------
    X : {array, CSR array} of shape (n_samples, n_features)
        Or the kernel matrix itself for ``kernel="precomputed"``.
    options : dict
        The parameters named in `SPAN_CONSTRAINTS`.
    rng : numpy.random.Generator

    Returns
    -------
    span : Span
    features : ndarray of shape (n_samples, k)
        ψ of the training rows.
    """
    n = X.shape[0]
    if len(kernel_list(options["kernel"])) != 1:
        raise ValueError(f"kernel must be a single kernel here, got {options['kernel']!r}")
    kernel_options = {name: options[name] for name in _KERNEL_OPTIONS}
    family = AtomFamily(X, np.arange(n), n, None, rng, functions=None, centers=None, **kernel_options)
    limit = min(options["n_atoms"], n)
    matrix, _ = plan_memory(n, limit, 8, options["memory"])
    dictionary = family.dictionary(matrix, storage_for(n, limit, options))
    criterion = Rayleigh(dictionary, selection=options["selection"], rng=rng)
    rules = [stop_rule(options)]
    if options.get("stop") == "bound":
        rules.append(bound_rule(n, float(criterion.diagonal.max(initial=0)), options["patience"]))
    path = pursue(criterion, first_of(*rules), candidates(options["active_set"], rng))
    if path.reason == "interrupted":
        warnings.warn(f"the fit was {path.sentence}; the model has those atoms", ConvergenceWarning, stacklevel=4)
    if not len(path):
        raise ValueError("kernel gives k(x, x) = 0 at every row of X: there is nothing to span")
    warn_if_few(path, options["n_atoms"], "n_atoms")
    atoms = path.atoms
    factor = criterion.factor()[:, : len(atoms)]
    return Span(path, family.support(atoms), family.expansion(atoms), factor[atoms]), factor


def storage_for(n: int, limit: int, options: dict[str, Any]) -> str:
    """The kernel matrix is worth keeping only where more columns are looked at than it has."""
    active_set = options["active_set"]
    looked_at = limit  # columns
    if options["selection"] == "rayleigh":
        looked_at *= active_set if isinstance(active_set, int) else 59 if active_set else n
    return "tiles" if options["storage"] == "auto" and looked_at < n else options["storage"]


def stop_rule(options: dict[str, Any]) -> StopRule:
    """`n_atoms` atoms, or the residual trace down to `tol` of what it was."""
    rules = [n_atoms(options["n_atoms"])]
    if options["tol"] > 0:
        rules.append(tolerance(options["tol"]))
    return first_of(*rules)


def bound_rule(n: int, ceiling: float, patience: int) -> StopRule:
    """Minimum of `compression_bound`: the residual outside the support is the residual trace over n - k."""

    def values(path: Path) -> np.ndarray:
        k = np.arange(min(len(path) + 1, n))  # with all points in the support none is left to test them
        return compression_bound(path.values("loss")[: len(k)] * n / (n - k), k, n, ceiling=ceiling)

    return minimum(values, "bound", patience)


def warn_if_few(path: Path, wanted: int, name: str) -> None:
    """ConvergenceWarning when more atoms were asked for than the rank of the kernel matrix."""
    if path.reason == "exhausted" and len(path) < wanted:
        warnings.warn(
            f"{name}={wanted} was asked for but there are only {len(path)} atoms: all points lie in their span",
            ConvergenceWarning,
            stacklevel=5,
        )


class SpanParameters:
    """Tags of the estimators that learn in the span of chosen points."""

    kernel: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        return tags
