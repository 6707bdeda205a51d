"""Chosen atoms as functions of new data: what a fitted model is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn._config import get_config

from kernelpursuit._array import Array, gather, namespace
from kernelpursuit.dictionaries.tiles import FEW_ENTRIES, MIB, in_threads, spans
from kernelpursuit.estimators._spaces import as_dtype, beside, host_dtype, model_precision, rows_between, take_rows
from kernelpursuit.kernels import Kernel

BEST_TILE = 16 * MIB  # of kernel values and what is made on the way to them; larger ones are not faster


class Expansion:
    """Chosen atoms as functions of new data: prediction needs this and nothing of the training data.

    Values are computed in the precision of the model, that of `centers`, or in that of the new data if it is wider.

    Parameters
    ----------
    kernels : list of Kernel
    sources : ndarray of shape (k,)
        Kernel of each atom, -1 for a column of `functions`.
    centers : {array, CSR array} of shape (number of kernel atoms, n_features)
        Centres of the kernel atoms, in order.
    functions : list of callables
    function_columns : ndarray
        Which column of the joined outputs of `functions` each of the other atoms is, in order.
    precomputed : ndarray, optional
        With a precomputed kernel: the columns of X that the atoms are.
    """

    def __init__(
        self,
        kernels: list[Kernel],
        sources: np.ndarray,
        centers: Any,
        functions: Sequence[Callable],
        function_columns: np.ndarray,
        precomputed: np.ndarray | None = None,
    ):
        self.kernels = kernels
        self.sources = sources
        self.centers = centers
        self.functions = functions
        self.function_columns = function_columns
        self.precomputed = precomputed
        self._prepared: dict[Any, Any] = {}  # centres of each kernel and dtype in the form it computes with

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_prepared": {}}  # made again when needed

    def columns(self, X: Any) -> Array:
        """Values of the atoms at the rows of X, (n_rows, k), where X is, in the precision of the model."""
        X = model_precision(X, self.centers)
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
            return beside(np.empty((X.shape[0], 0)), X)
        if len(pieces) == 1:
            return pieces[0]
        return gather(namespace(pieces[0]).concat(pieces, axis=1), np.argsort(np.concatenate(places)), axis=1)

    def _kernel_values(self, source: int, X: Any) -> Array:
        """Values of the atoms of one kernel, with the dtype of X."""
        kernel, of_kernels = self.kernels[source], self.sources[self.sources >= 0]
        mine = np.flatnonzero(of_kernels == source)
        if sparse.issparse(X) or sparse.issparse(self.centers):
            return np.asarray(kernel.between(X, as_dtype(self.centers[mine], X.dtype)), dtype=X.dtype)
        key = source, str(X.dtype)
        if key not in self._prepared:
            self._prepared[key] = kernel.prepare(as_dtype(take_rows(self.centers, mine), X.dtype))
        try:
            values = kernel(kernel.prepare(X), self._prepared[key])
        except ValueError:
            if kernel.offset is None or not isinstance(X, np.ndarray):
                raise
            # Rows so far away that their squared length overflows: scikit-learn's kernel is 0 there.
            values = kernel.function(X - kernel.offset, self.centers[mine] - kernel.offset)
        return values if values.dtype == X.dtype else namespace(X).astype(namespace(X).asarray(values), X.dtype)

    def truncate(self, k: int) -> Expansion:
        """The first `k` atoms."""
        sources = self.sources[:k]
        of_kernels = int(np.sum(sources >= 0))
        return Expansion(
            self.kernels,
            sources,
            rows_between(self.centers, slice(0, of_kernels)),
            self.functions,
            self.function_columns[: k - of_kernels],
            None if self.precomputed is None else self.precomputed[:k],
        )

    def predict(self, X: Any, coef: np.ndarray) -> Array:
        """``columns(X) @ coef[1:] + coef[0]`` in batches of rows, (n_rows, coef.shape[1]), where X is, with its dtype.

        Kernel values are made and used up in a core's cache, or on a device in its memory; two batches at a time where
        there are two cores.
        """
        like = model_precision(rows_between(X, slice(0, 0)), self.centers)
        constant, weights = beside(coef[0], like), beside(coef[1:], like)

        def part(batch: slice) -> Array:
            return as_dtype(self.columns(rows_between(X, batch)) @ weights + constant, X.dtype)

        parts = in_threads(part, self.batches(X, coef.shape[1]), self._in_parallel(X))
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=0)

    def staged(self, X: Any, coef_path: np.ndarray) -> Iterator[Array]:
        """Predictions with each of several sets of coefficients, (n_sets, 1 + k, n_targets).

        Each product of a batch of rows serves as many sets as scikit-learn's ``working_memory`` holds the results of.
        """
        n_sets, width, targets = coef_path.shape
        size = int(get_config()["working_memory"] * MIB // (X.shape[0] * targets * host_dtype(X).itemsize))
        for block in spans(0, n_sets, max(1, size)):
            coef = np.moveaxis(coef_path[block], 0, 1).reshape(width, -1)
            values = self.predict(X, coef)
            for start in range(0, coef.shape[1], targets):
                yield values[:, start : start + targets]

    def batches(self, X: Any, targets: int = 1) -> list[slice]:
        """Rows whose kernel values may be in memory at once, within scikit-learn's ``working_memory``."""
        most = int(get_config()["working_memory"] * MIB)
        on_host = sparse.issparse(X) or isinstance(X, np.ndarray)
        # A kernel may need two matrices of the size of its values on the way.
        row = 3 * max(1, len(self.sources), targets) * max(host_dtype(X).itemsize, host_dtype(self.centers).itemsize)
        size = min(most, BEST_TILE) if on_host else most
        return spans(0, X.shape[0], max(1, size // row)) or [slice(0, 0)]

    def _in_parallel(self, X: Any) -> bool:
        """Whether batches may be computed side by side: no function of the user's among them, and enough to do."""
        enough = X.shape[0] * len(self.sources) > FEW_ENTRIES
        known = not self.functions and all(kernel.parallel for kernel in self.kernels)
        return isinstance(X, np.ndarray) and enough and known


def evaluate(functions: Sequence[Callable], X: Any) -> Array:
    """Outputs of the functions side by side, (n_rows, n_columns), where X is."""
    columns = []
    xp, where = (np, {}) if sparse.issparse(X) else (namespace(X), {"device": X.device})
    for i, function in enumerate(functions):
        values = xp.asarray(function(X), dtype=X.dtype, **where)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or values.shape[0] != X.shape[0]:
            raise ValueError(
                f"functions[{i}] must return an array with one row for each of the {X.shape[0]} rows of X, "
                f"got shape {tuple(values.shape)}"
            )
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError(f"functions[{i}] returned infinite or missing values")
        columns.append(values)
    return xp.concat(columns, axis=1)
