"""Chosen atoms as functions of new data: what a fitted model is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances

from kernelpursuit._sklearn import get_config
from kernelpursuit.arrays import Array, from_host, gather, namespace, to_host
from kernelpursuit.atoms.threads import FEW_ENTRIES, in_threads, spans
from kernelpursuit.atoms.tiles import MIB
from kernelpursuit.fitting.placement import (
    as_dtype,
    as_like,
    host_dtype,
    model_precision,
    rows_between,
    take_rows,
    widest,
)
from kernelpursuit.kernels.gaussian import EXPONENT_ERROR, centred, gaussian, gaussian_by_differences, gaussian_points
from kernelpursuit.kernels.kernels import Kernel

BEST_TILE = 16 * MIB  # bytes of kernel values and intermediate results of a batch; larger ones are not faster
LOST_DIGITS = 1e-3  # relative error of a float32 sum above which its terms are computed in float64

FEW_VALUES = 4096  # kernel values; with more of them the calls no longer count
FAR = EXPONENT_ERROR / (2 * np.finfo(np.float64).eps)  # γ|x|² from which on the product loses digits


class FewRows(NamedTuple):
    """Atoms and weights of a Gaussian model in the form that needs the fewest NumPy calls for a few rows.

    With x' = √(2γ) w (x - offset) and z' alike, atom j is exp(sⱼ (x'·z'ⱼ - |x'|²/2 - |z'ⱼ|²/2)), sⱼ its share of the
    largest γ.
    """

    coef: np.ndarray  # the array of the expansion, to detect another one
    offset: np.ndarray
    scale: Any
    directions: np.ndarray  # (d, k): sⱼ z'ⱼ
    heights: np.ndarray  # (k,): sⱼ |z'ⱼ|²/2
    shares: Any  # (k,), or 1
    weights: np.ndarray
    constant: np.ndarray

    def predict(self, X: np.ndarray) -> np.ndarray | None:
        """Values at rows of X, (n, q); None if a row is too far away or has nan."""
        rows = (X - self.offset) * self.scale
        lengths = np.einsum("ij,ij->i", rows, rows)[:, None] * 0.5
        if not lengths.max() <= FAR:
            return None
        exponents = rows @ self.directions
        exponents -= lengths * self.shares
        exponents -= self.heights
        return np.exp(exponents, out=exponents) @ self.weights + self.constant


@dataclass(eq=False)
class Expansion:
    """Chosen atoms as functions of new data: prediction needs this and nothing of the training data.

    Plain data, except for functions of the user. Values are computed in the precision of the model (`precision`) or of
    the new data, whichever is wider.

    Parameters
    ----------
    centers : {array, CSR array} of shape (number of kernel atoms, n_features)
        Centres of the kernel atoms, in order. Centres that are no training rows may have a wider dtype than X: at an
        offset of 1e5, float32 has two digits left for a column of variance 1.
    kernels : list of Kernel
    sources : ndarray of shape (k,), optional
        Index of each atom's kernel, -1 for a column of a function. By default all atoms have the first kernel.
    functions : list of callables
    function_columns : ndarray, optional
        For atoms that are no kernel atoms, in order: their column among the joined outputs of `functions`.
    precomputed : ndarray, optional
        With a precomputed kernel: the columns of X that the atoms are.
    widths : ndarray of shape (k,), optional
        γⱼ of each atom, in place of the kernel's gamma; for a Gaussian kernel alone.
    input_weights : ndarray of shape (n_features,), optional
        Weight of each input: atom j is exp(-γⱼ Σ w²(x - zⱼ)²); for a Gaussian kernel alone.
    coef : ndarray of shape (1 + k, n_targets), optional
        Intercepts, and below them the weights of the atoms.
    """

    centers: Any
    kernels: list[Kernel] = field(default_factory=list)
    sources: Any = None
    functions: Sequence[Callable] = ()
    function_columns: Any = None
    precomputed: np.ndarray | None = None
    widths: np.ndarray | None = None
    input_weights: np.ndarray | None = None
    coef: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.sources is None:
            k = self.centers.shape[0] if self.precomputed is None else len(self.precomputed)
            self.sources = np.zeros(k, dtype=np.intp)
        if self.function_columns is None:
            self.function_columns = np.empty(0, dtype=np.intp)
        shaped = self.widths is not None or self.input_weights is not None
        if shaped and [kernel.name for kernel in self.kernels] != ["rbf"]:
            raise ValueError("widths and input_weights are for atoms of one Gaussian kernel")
        self._prepared: dict[Any, Any] = {}  # centres of each kernel and dtype in the form it computes with

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_prepared": {}}  # made again when needed

    @property
    def precision(self) -> Any:
        """An array with the dtype of the training data: the offset of a Gaussian kernel, or the centres."""
        return next((kernel.offset for kernel in self.kernels if kernel.offset is not None), self.centers)

    def columns(self, X: Any) -> Array:
        """Values of the atoms at the rows of X, (n_rows, k), where X is, in the precision of the model."""
        X = model_precision(X, self.precision)
        if self.precomputed is not None:
            return gather(X, self.precomputed, axis=1)
        pieces, places = [], []
        for source in np.unique(self.sources[self.sources >= 0]):
            pieces.append(self._kernel_values(int(source), X))
            places.append(np.flatnonzero(self.sources == source))
        if len(self.function_columns):
            pieces.append(gather(evaluate(self.functions, X), self.function_columns, axis=1))
            places.append(np.flatnonzero(self.sources < 0))
        if not pieces:
            return as_like(np.empty((X.shape[0], 0)), X)
        if len(pieces) == 1:
            return pieces[0]
        return gather(namespace(pieces[0]).concat(pieces, axis=1), np.argsort(np.concatenate(places)), axis=1)

    def _kernel_values(self, source: int, X: Any) -> Array:
        """Values of the atoms of one kernel, with the dtype of X."""
        kernel = self.kernels[source]
        mine = np.flatnonzero(self.sources[self.sources >= 0] == source)
        if sparse.issparse(X) or sparse.issparse(self.centers):
            values = self._sparse_values(kernel, X, as_dtype(take_rows(self.centers, mine), X.dtype))
        elif kernel.offset is not None:
            values = self._gaussian_values(source, mine, X)
        else:
            values = kernel.values(X, as_dtype(take_rows(self.centers, mine), X.dtype))
        xp = np if sparse.issparse(X) else namespace(X)
        return values if values.dtype == X.dtype else xp.astype(xp.asarray(values), X.dtype)

    def _gaussian_values(self, source: int, mine: np.ndarray, X: Array) -> Array:
        """Values of the atoms of a Gaussian kernel of dense data: one product, whatever the widths."""
        kernel, key = self.kernels[source], (source, str(X.dtype))
        gammas = np.full(len(mine), kernel.params["gamma"]) if self.widths is None else self.widths
        if key not in self._prepared:
            # in the wider dtype of centres and rows until they are centred
            centers = as_dtype(self._weighed(model_precision(take_rows(self.centers, mine), X), kernel), X.dtype)
            largest = float(np.max(gammas, initial=0))
            shares = None if self.widths is None else gammas / (largest or 1.0)
            self._prepared[key] = largest, centers, gaussian_points(centers, largest, shares)
        largest, centers, points = self._prepared[key]
        rows = self._weighed(X, kernel)
        try:
            return gaussian(gaussian_points(rows, largest), points)
        except ValueError:  # rows so far away that their squared length overflows
            return gaussian_by_differences(rows, centers, gammas)

    def _weighed(self, X: Array, kernel: Kernel) -> Array:
        """Centred inputs times their weights."""
        rows = centred(X, as_dtype(kernel.offset, X.dtype))
        return rows if self.input_weights is None else rows * from_host(self.input_weights, rows)

    def _sparse_values(self, kernel: Kernel, X: Any, Z: Any) -> np.ndarray:
        """Gaussian kernel values where X or the centres are sparse: nothing is centred."""
        if self.widths is None and self.input_weights is None:
            return np.asarray(kernel.between(X, Z))
        if self.input_weights is not None:
            X, Z = (sparse.csr_array(side) * self.input_weights[None, :] for side in (X, Z))
        gammas = kernel.params["gamma"] if self.widths is None else self.widths[None, :]
        return np.exp(-gammas * euclidean_distances(X, Z, squared=True))

    def subset(self, J: np.ndarray) -> Expansion:
        """Atoms `J`, in that order, without weights."""
        of_kernel = self.sources >= 0
        place = np.where(of_kernel, np.cumsum(of_kernel), np.cumsum(~of_kernel)) - 1  # among its own kind
        kernels, others = (place[J[self.sources[J] >= 0]], place[J[self.sources[J] < 0]])
        return replace(
            self,
            centers=self.centers if self.precomputed is not None else take_rows(self.centers, kernels),
            sources=self.sources[J],
            function_columns=self.function_columns[others],
            precomputed=None if self.precomputed is None else self.precomputed[J],
            widths=None if self.widths is None else self.widths[J],
            coef=None,
        )

    def truncate(self, k: int) -> Expansion:
        """The first `k` atoms."""
        return self.subset(np.arange(k))

    def predict(self, X: Any, coef: np.ndarray | None = None, wide: bool = False) -> Array:
        """``columns(X) @ coef[1:] + coef[0]`` in batches of rows, (n_rows, coef.shape[1]), where X is, with its dtype.

        Batches fit into a core's cache, or into the memory of a device; several are computed in threads. `wide`: the
        product and the result have the widest precision of the device. Kernel values have it too where large weights
        nearly cancel.
        """
        if coef is None and type(X) is np.ndarray and (values := self._predict_few(X)) is not None:
            return values
        coef = self.coef if coef is None else coef
        assert coef is not None, "these atoms have no weights"
        like = model_precision(rows_between(X, slice(0, 0)), self.precision)
        cancelling = host_dtype(like).itemsize < 8 and self._cancelling(coef)
        if wide or cancelling:
            like = np.empty(0) if sparse.issparse(like) else widest(like)
        constant, weights = as_like(coef[0], like), as_like(coef[1:], like)

        def part(batch: slice) -> Array:
            rows = rows_between(X, batch)
            columns = self.columns(widest(rows) if cancelling else rows)
            values = (widest(columns) if wide else columns) @ weights + constant
            return values if wide else as_dtype(values, X.dtype)

        parts = in_threads(part, self.batches(X, coef.shape[1]), self._in_parallel(X))
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=0)

    def _predict_few(self, X: np.ndarray) -> np.ndarray | None:
        """Values at a few rows by `FewRows`; None if the model has no such form."""
        if X.dtype != np.float64 or not 0 < X.shape[0] * len(self.sources) <= FEW_VALUES or self.coef is None:
            return None
        few = self._prepared.get("few", False)
        if few is False or (few is not None and few.coef is not self.coef):
            few = self._prepared["few"] = few_rows_of(self)
        return None if few is None else few.predict(X)

    def _cancelling(self, coef: np.ndarray) -> bool:
        """Whether rounding errors of float32 kernel values, times the weights, matter for the sum.

        They may reach eps max|k| Σ|cⱼ|; this is compared with the range of each function at some of the centres.
        """
        if self.precomputed is not None or not len(coef) > 1 or not self.centers.shape[0]:
            return False
        if coef is not self.coef:
            return self._loses_digits(coef)
        if "cancelling" not in self._prepared:
            self._prepared["cancelling"] = self._loses_digits(coef)
        return self._prepared["cancelling"]

    def _loses_digits(self, coef: np.ndarray) -> bool:
        some = np.linspace(0, self.centers.shape[0] - 1, min(self.centers.shape[0], 128)).astype(np.intp)
        values = to_host(self.columns(widest(take_rows(self.centers, some))))
        error = np.finfo(np.float32).eps * np.max(np.abs(values)) * np.sum(np.abs(coef[1:]), axis=0)
        return bool(np.any(error > LOST_DIGITS * np.ptp(values @ coef[1:], axis=0)))

    def staged(self, X: Any, stages: Iterable[np.ndarray]) -> Iterator[Array]:
        """Predictions with several sets of weights, one after the other, (1 + k, n_targets) each.

        Kernel values are multiplied with as many sets at once as fit into scikit-learn's ``working_memory``.
        """
        most = int(get_config()["working_memory"] * MIB // (X.shape[0] * host_dtype(X).itemsize))
        stages = iter(stages)
        for coef in stages:
            targets = coef.shape[1]
            some = [coef, *islice(stages, max(0, most // targets - 1))]
            values = self.predict(X, np.concatenate(some, axis=1))
            for start in range(0, values.shape[1], targets):
                yield values[:, start : start + targets]

    def batches(self, X: Any, targets: int = 1) -> list[slice]:
        """Batches of rows whose kernel values fit into scikit-learn's ``working_memory``."""
        most = int(get_config()["working_memory"] * MIB)
        on_host = sparse.issparse(X) or isinstance(X, np.ndarray)
        # A kernel may need two more matrices of the size of its values.
        row = 3 * max(1, len(self.sources), targets) * max(host_dtype(X).itemsize, host_dtype(self.precision).itemsize)
        size = min(most, BEST_TILE) if on_host else most
        return spans(0, X.shape[0], max(1, size // row)) or [slice(0, 0)]

    def _in_parallel(self, X: Any) -> bool:
        """Whether batches may be computed in threads: they are large, and no function of the user is called."""
        enough = X.shape[0] * len(self.sources) > FEW_ENTRIES
        known = not self.functions and all(kernel.parallel for kernel in self.kernels)
        return isinstance(X, np.ndarray) and enough and known


def evaluate(functions: Sequence[Callable], X: Any) -> Array:
    """Joined columns of the outputs of functions of the user, (n_rows, n_columns), where X is."""
    columns = []
    xp, where = (np, {}) if sparse.issparse(X) else (namespace(X), {"device": X.device})
    for function in functions:
        name = f"kernel: columns({getattr(function, '__name__', repr(function))})"
        values = xp.asarray(function(X), dtype=X.dtype, **where)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or values.shape[0] != X.shape[0]:
            raise ValueError(
                f"{name} must return an array with one row for each of the {X.shape[0]} rows of X, "
                f"got shape {tuple(values.shape)}"
            )
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError(f"{name} returned infinite or missing values")
        columns.append(values)
    return xp.concat(columns, axis=1)


def few_rows_of(expansion: Any) -> FewRows | None:
    """The form for few rows; None unless the model has one Gaussian kernel on dense float64 centres."""
    kernels, centers, coef = expansion.kernels, expansion.centers, expansion.coef
    if len(kernels) != 1 or kernels[0].name != "rbf" or kernels[0].offset is None or expansion.precomputed is not None:
        return None
    if type(centers) is not np.ndarray or centers.dtype != np.float64 or not len(centers) or len(expansion.functions):
        return None
    gammas = kernels[0].params["gamma"] if expansion.widths is None else expansion.widths
    largest = float(np.max(gammas))
    shares = 1.0 if expansion.widths is None else gammas / (largest or 1.0)
    scale = np.sqrt(2 * largest) * (1.0 if expansion.input_weights is None else expansion.input_weights)
    with np.errstate(over="ignore", invalid="ignore"):
        points = (centers - kernels[0].offset) * scale
        heights = shares * np.sum(points * points, axis=1) / 2
    if not np.all(heights <= FAR):
        return None
    directions = np.ascontiguousarray((points * np.reshape(shares, (-1, 1))).T)
    weights = np.ascontiguousarray(coef[1:], dtype=np.float64)
    return FewRows(
        coef, kernels[0].offset, scale, directions, heights, shares, weights, np.asarray(coef[0], np.float64)
    )
