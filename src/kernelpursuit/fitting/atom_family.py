"""All atoms that the parameters of an estimator allow on its training rows."""

from __future__ import annotations

from copy import copy
from numbers import Integral
from typing import Any

import numpy as np

from kernelpursuit._warning import warn
from kernelpursuit.arrays import gather
from kernelpursuit.atoms import DenseDictionary, Dictionary, KernelDictionary, StackedDictionary
from kernelpursuit.fitting.expansion import Expansion, evaluate
from kernelpursuit.fitting.placement import take_rows
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.kernels.kernels import Kernel, kernel_list, make_kernel
from kernelpursuit.parameters import columns


class AtomFamily:
    """All atoms an estimator may choose from: kernels on centres, then columns of functions.

    Atom ``source * n_centers + i`` is kernel `source` on centre i; the columns of the functions follow. A centre drawn
    from the training rows has the index of its row.

    Parameters
    ----------
    data : TrainingData
        Rows of positive weight; the kernel matrix itself for ``kernel="precomputed"``.
    rng : numpy.random.Generator
        Draws the centres.
    kernel, gamma, centers
        Parameters of the estimator.
    """

    def __init__(
        self,
        data: TrainingData,
        rng: np.random.Generator,
        *,
        kernel: Any,
        gamma: float | str,
        centers: Any = None,
    ):
        X, rows, n_rows, weights = data.X, data.rows, data.n_rows, data.weights
        self.precomputed = isinstance(kernel, str) and kernel == "precomputed"
        members = [] if self.precomputed else kernel_list(kernel)
        self.functions = [one.function for one in members if isinstance(one, columns)]
        given = centers is not None and not isinstance(centers, Integral)
        if self.precomputed and given:
            raise ValueError("kernel='precomputed' cannot be combined with an array of centers")
        if not (self.precomputed or members):
            raise ValueError("kernel is an empty list: there are no atoms to choose from")
        names = [one for one in members if not isinstance(one, columns)]
        self.kernels = [make_kernel(name, X, gamma=gamma, weights=weights) for name in names]
        self._X = X
        self._drawn: Any = slice(None)
        if not given:
            if centers is not None:
                self._drawn = draw_centers(int(centers), X.shape[0], rng)
            self._Z = X if centers is None else take_rows(X, self._drawn)
            self._index, self.n_centers = rows[self._drawn], n_rows
        else:
            self._Z = centers
            self._index, self.n_centers = np.arange(self._Z.shape[0]), self._Z.shape[0]

    def dictionary(self, memory: int, storage: str, shared: list[dict] | None = None) -> Dictionary:
        """The atoms as a dictionary over the training rows; `shared`, one for each kernel, as in `KernelDictionary`."""
        if self.precomputed:
            matrix = self._X if len(self._index) == self._X.shape[1] else gather(self._X, self._index, axis=1)
            drawn = matrix if isinstance(self._drawn, slice) else take_rows(matrix, self._drawn)
            return DenseDictionary(matrix, gram=drawn)
        how: dict[str, Any] = {"memory": memory // max(1, len(self.kernels)), "storage": storage}
        of_centres = shared or [{} for _ in self.kernels]
        parts: list[Any] = [
            KernelDictionary(self._X, self._Z, kernel, shared=known, **how)
            for kernel, known in zip(self.kernels, of_centres, strict=True)
        ]
        if self.functions:
            parts.append(DenseDictionary(evaluate(self.functions, self._X)))
        return parts[0] if len(parts) == 1 else StackedDictionary(parts)

    @property
    def size(self) -> int:
        """Number of kernel atoms."""
        return max(1, len(self.kernels)) * len(self._index)

    @property
    def centers(self) -> Any:
        """The centres of all kernels; the kernel matrix itself for ``kernel="precomputed"``."""
        return self._Z

    def with_kernel(self, kernel: Kernel) -> AtomFamily:
        """Atoms of another kernel on the same centres."""
        other = copy(self)
        other.kernels = [kernel]
        return other

    def at(self, X: Any) -> AtomFamily:
        """The atoms of this family at other rows."""
        other = copy(self)
        other._X = X
        return other

    def support(self, atoms: np.ndarray) -> np.ndarray:
        """Public indices of atoms, given their indices in the dictionary."""
        source, center = self._locate(atoms)
        functions = len(self.kernels) * self.n_centers + center
        kernels = np.maximum(source, 0) * self.n_centers + self._index[np.where(source < 0, 0, center)]
        return np.where(source < 0, functions, kernels)

    def rows(self, atoms: np.ndarray) -> np.ndarray:
        """Training rows (among those of positive weight) that are the centres of atoms."""
        if self._Z is not self._X and isinstance(self._drawn, slice):
            return np.empty(0, dtype=np.intp)  # the user gave the centres
        source, center = self._locate(atoms)
        return np.unique(np.arange(self._X.shape[0])[self._drawn][center[source >= 0]])

    def expansion(self, atoms: np.ndarray) -> Expansion:
        """The chosen atoms as functions of new data."""
        source, center = self._locate(atoms)
        if self.precomputed:
            return Expansion(self._X[:0, :0], precomputed=self._index[center])
        centers = take_rows(self._Z, center[source >= 0])
        return Expansion(centers, self.kernels, source, self.functions, center[source < 0])

    def _locate(self, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Kernel (-1 for functions) and centre, or column of the functions, of each atom."""
        per_kernel = len(self._index)
        n_kernels = 1 if self.precomputed else len(self.kernels)
        source = atoms // per_kernel
        is_function = source >= n_kernels
        return np.where(is_function, -1, source), atoms - np.where(is_function, n_kernels, source) * per_kernel


def atoms_of(estimator: Any, data: TrainingData, rng: np.random.Generator, centers: Any = None) -> AtomFamily:
    """The `AtomFamily` of an estimator on its training rows; `centers` is its parameter, checked."""
    given = {"kernel": estimator.kernel, "gamma": estimator.gamma}
    if hasattr(estimator, "centers"):
        given["centers"] = centers
    return data.source.make_atoms(AtomFamily, data, rng, **given)


def draw_centers(size: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sorted random subset of the rows."""
    if size > n:
        warn(f"centers={size} is more than the {n} training rows: all of them are used")
        size = n
    return np.sort(rng.choice(n, size=size, replace=False))
