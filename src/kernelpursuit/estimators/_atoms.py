"""From the plain parameters of an estimator to its atoms, and from chosen atoms back to functions of new data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from kernelpursuit.dictionaries import DenseDictionary, Dictionary, KernelDictionary, StackedDictionary
from kernelpursuit.kernels import Kernel, kernel_list, make_kernel

MIB = 2**20


class Expansion:
    """Chosen atoms as functions of new data: prediction needs this and nothing of the training data.

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

    def columns(self, X: Any) -> np.ndarray:
        """Values of the atoms at the rows of X, (n_rows, k)."""
        if self.precomputed is not None:
            return X[:, self.precomputed]
        out = np.empty((X.shape[0], len(self.sources)), dtype=X.dtype)
        kernel_atoms = self.sources[self.sources >= 0]
        for source in np.unique(kernel_atoms):
            kernel = self.kernels[source]
            centers = self.centers[np.flatnonzero(kernel_atoms == source)]
            out[:, self.sources == source] = kernel.between(X, centers)
        if len(self.function_columns):
            out[:, self.sources < 0] = evaluate(self.functions, X)[:, self.function_columns]
        return out

    def truncate(self, k: int) -> Expansion:
        """The first `k` atoms."""
        sources = self.sources[:k]
        of_kernels = int(np.sum(sources >= 0))
        return Expansion(
            self.kernels,
            sources,
            self.centers[:of_kernels] if self.precomputed is None else self.centers,
            self.functions,
            self.function_columns[: k - of_kernels],
            None if self.precomputed is None else self.precomputed[:k],
        )

    def predict(self, X: Any, coef: np.ndarray) -> np.ndarray:
        """``columns(X) @ coef[1:] + coef[0]`` in batches of rows, (n_rows, coef.shape[1])."""
        coef = coef.astype(X.dtype)
        width = len(self.sources) + coef.shape[1]
        rows = max(1, 64 * MIB // (max(1, width) * X.dtype.itemsize))
        out = np.empty((X.shape[0], coef.shape[1]), dtype=X.dtype)
        for batch in gen_batches(X.shape[0], rows):
            out[batch] = self.columns(X[batch]) @ coef[1:] + coef[0]
        return out


class AtomFamily:
    """All atoms an estimator may choose from: kernels on centres, then columns of functions.

    Atom ``source * n_centers + i`` is kernel `source` on centre i; the columns of `functions` follow. Centres drawn
    from the training rows keep the row's index, whatever subset was drawn.

    Parameters
    ----------
    X : {array, CSR array} of shape (n_samples, n_features)
        Training rows of positive weight; the kernel matrix itself for ``kernel="precomputed"``.
    rows : ndarray of shape (n_samples,)
        Index of each of these rows in the data of the user, who gave `n_rows` of them.
    n_rows : int
    weights : ndarray of shape (n_samples,) or None
    rng : numpy.random.Generator
        Draws the centres.
    kernel, gamma, degree, coef0, kernel_params, functions, centers
        Parameters of the estimator.
    """

    def __init__(
        self,
        X: Any,
        rows: np.ndarray,
        n_rows: int,
        weights: np.ndarray | None,
        rng: np.random.Generator,
        *,
        kernel: Any,
        gamma: float | str,
        degree: float,
        coef0: float,
        kernel_params: dict | None,
        functions: Sequence[Callable] | None,
        centers: Any,
    ):
        self.precomputed = isinstance(kernel, str) and kernel == "precomputed"
        self.functions = list(functions or [])
        given = centers is not None and not isinstance(centers, Integral)
        if self.precomputed and (self.functions or given):
            raise ValueError("kernel='precomputed' cannot be combined with functions or with an array of centers")
        names = [] if self.precomputed else kernel_list(kernel)
        if not (self.precomputed or names or self.functions):
            raise ValueError("kernel is None or empty and functions is empty: there are no atoms to choose from")
        settle = partial(
            make_kernel, gamma=gamma, degree=degree, coef0=coef0, kernel_params=kernel_params, weights=weights
        )
        self.kernels = [settle(name, X) for name in names]
        self._X = X
        self._drawn: Any = slice(None)
        if not given:
            if centers is not None:
                self._drawn = draw_centers(int(centers), X.shape[0], rng)
            self._Z = X if centers is None else X[self._drawn]
            self._index, self.n_centers = rows[self._drawn], n_rows
        else:
            self._Z = centers
            self._index, self.n_centers = np.arange(self._Z.shape[0]), self._Z.shape[0]

    def dictionary(self, memory: int, storage: str) -> Dictionary:
        """The atoms at the training rows."""
        if self.precomputed:
            columns = self._X if len(self._index) == self._X.shape[1] else self._X[:, self._index]
            return DenseDictionary(columns, gram=columns[self._drawn])
        parts: list[Any] = [
            KernelDictionary(self._X, self._Z, kernel, memory=memory // len(self.kernels), storage=storage)
            for kernel in self.kernels
        ]
        if self.functions:
            parts.append(DenseDictionary(evaluate(self.functions, self._X)))
        return parts[0] if len(parts) == 1 else StackedDictionary(parts)

    def support(self, atoms: np.ndarray) -> np.ndarray:
        """Public index of atoms given by their place in the dictionary."""
        source, center = self._locate(atoms)
        functions = len(self.kernels) * self.n_centers + center
        kernels = np.maximum(source, 0) * self.n_centers + self._index[np.where(source < 0, 0, center)]
        return np.where(source < 0, functions, kernels)

    def rows(self, atoms: np.ndarray) -> np.ndarray:
        """Training rows (among those of positive weight) on which atoms sit, for centres taken from them."""
        if self._Z is not self._X and isinstance(self._drawn, slice):
            return np.empty(0, dtype=np.intp)  # centres of the user's own
        source, center = self._locate(atoms)
        return np.unique(np.arange(self._X.shape[0])[self._drawn][center[source >= 0]])

    def expansion(self, atoms: np.ndarray) -> Expansion:
        """The chosen atoms as functions of new data."""
        source, center = self._locate(atoms)
        if self.precomputed:
            empty = np.empty((0, 0), dtype=self._X.dtype)
            return Expansion([], source, empty, [], np.empty(0, dtype=np.intp), self._index[center])
        centers = self._Z[center[source >= 0]]
        return Expansion(self.kernels, source, centers, self.functions, center[source < 0])

    def _locate(self, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kernel (-1 for functions) and centre, or column of the functions, of each atom."""
        per_kernel = len(self._index)
        n_kernels = 1 if self.precomputed else len(self.kernels)
        source = atoms // per_kernel
        is_function = source >= n_kernels
        return np.where(is_function, -1, source), atoms - np.where(is_function, n_kernels, source) * per_kernel


def draw_centers(size: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sorted random subset of the rows."""
    if size > n:
        warnings.warn(f"centers={size} is more than the {n} training rows: all of them are used", stacklevel=2)
        size = n
    return np.sort(rng.choice(n, size=size, replace=False))


def evaluate(functions: Sequence[Callable], X: Any) -> np.ndarray:
    """Outputs of the functions side by side, (n_rows, n_columns)."""
    columns = []
    for i, function in enumerate(functions):
        values = np.asarray(function(X), dtype=X.dtype)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or values.shape[0] != X.shape[0]:
            raise ValueError(
                f"functions[{i}] must return an array with one row for each of the {X.shape[0]} rows of X, "
                f"got shape {np.shape(values)}"
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(f"functions[{i}] returned infinite or missing values")
        columns.append(values)
    return np.concatenate(columns, axis=1)
