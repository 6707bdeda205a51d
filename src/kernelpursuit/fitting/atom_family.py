"""From the plain parameters of an estimator to its atoms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kernelpursuit._warning import warn
from kernelpursuit.arrays import gather
from kernelpursuit.atoms import DenseDictionary, Dictionary, KernelDictionary, StackedDictionary
from kernelpursuit.dask.arrays import Handle, Sharded
from kernelpursuit.dask.dictionary import ShardedDictionary
from kernelpursuit.fitting.expansion import Expansion, evaluate
from kernelpursuit.fitting.placement import take_rows
from kernelpursuit.fitting.training import TrainingData, warn_if_one_column_rules
from kernelpursuit.kernels.kernels import kernel_list, make_kernel, scale_gamma, uses_gamma


class AtomFamily:
    """All atoms an estimator may choose from: kernels on centres, then columns of functions.

    Atom ``source * n_centers + i`` is kernel `source` on centre i; the columns of `functions` follow. Centres drawn
    from the training rows keep the row's index, whatever subset was drawn.

    Parameters
    ----------
    data : TrainingData
        Rows of positive weight; the kernel matrix itself for ``kernel="precomputed"``.
    rng : numpy.random.Generator
        Draws the centres.
    kernel, gamma, degree, coef0, kernel_params, functions, centers
        Parameters of the estimator.
    """

    def __init__(
        self,
        data: TrainingData,
        rng: np.random.Generator,
        *,
        kernel: Any,
        gamma: float | str,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        functions: Sequence[Callable] | None = None,
        centers: Any = None,
    ):
        X, rows, n_rows, weights = data.X, data.rows, data.n_rows, data.weights
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
            self._Z = X if centers is None else take_rows(X, self._drawn)
            self._index, self.n_centers = rows[self._drawn], n_rows
        else:
            self._Z = centers
            self._index, self.n_centers = np.arange(self._Z.shape[0]), self._Z.shape[0]

    def dictionary(self, memory: int, storage: str, shared: list[dict] | None = None) -> Dictionary:
        """The atoms at the training rows; `shared` of each kernel as in `KernelDictionary`."""
        if self.precomputed:
            columns = self._X if len(self._index) == self._X.shape[1] else gather(self._X, self._index, axis=1)
            drawn = columns if isinstance(self._drawn, slice) else take_rows(columns, self._drawn)
            return DenseDictionary(columns, gram=drawn)
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
        """Number of atoms, those of functions not counted."""
        return max(1, len(self.kernels)) * len(self._index)

    def at(self, X: Any) -> AtomFamily:
        """The atoms of this family at other rows."""
        other = copy(self)
        other._X = X
        return other

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
    """All atoms that the parameters of an estimator allow on its training rows. `centers` was checked before."""
    names = ("kernel", "gamma", "degree", "coef0", "kernel_params", "functions")
    given = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    if isinstance(data.X, Sharded):
        centers = centers if hasattr(estimator, "centers") else drawn_if_many(data)
        return atoms_on_shards(data, rng, centers=centers, **given)
    return AtomFamily(data, rng, centers=centers, **given)


def draw_centers(size: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sorted random subset of the rows."""
    if size > n:
        warn(f"centers={size} is more than the {n} training rows: all of them are used")
        size = n
    return np.sort(rng.choice(n, size=size, replace=False))


MOST_CENTRES = 50_000  # that every worker and this process hold
SHARED: WeakKeyDictionary[AtomFamily, list[dict]] = WeakKeyDictionary()  # what blocks of rows have in common
DRAWN = 10_000  # centres of estimators that have no parameter for them, where there are more rows than that


class ShardedAtoms:
    """The same for rows on shards: centres and kernels are everywhere, kernel values where the rows are.

    Parameters
    ----------
    X : ShardedRows
    family : AtomFamily
        At its own centres, here.
    positions : ndarray of int or None
        Places of the centres among the rows; None for centres of the user's own.
    """

    def __init__(self, X: Any, family: AtomFamily, positions: np.ndarray | None):
        self._X, self._family, self.positions = X, family, positions
        self.kernels = family.kernels
        self.support, self.expansion, self.size = family.support, family.expansion, family.size

    def dictionary(self, memory: int, storage: str) -> Any:
        """The atoms at the rows of the shards, `memory` for all of them together."""
        program, n, room = self._X.program, int(self._X.program.n_rows), self._X.room
        how = (memory / n, storage, None) if room is None else (0.0, "tiles", room)
        parts = Handle(program, program.add(dictionary_at, self._X, self._family, *how))
        tile = program.reduce(getattr, parts, "tile", how="min")
        return ShardedDictionary(program, parts, self._family.dictionary(memory, "tiles"), tile, self._X.dtype)


def dictionary_at(X: Any, family: AtomFamily, memory: float, storage: str, room: int | None) -> Dictionary:
    """The dictionary of a block of rows; `memory` for each of them, or `room` for the block.

    The blocks of a worker share what is made of the centres.
    """
    shared = SHARED.setdefault(family, [{} for _ in family.kernels])
    return family.at(X).dictionary(max(1, int(memory * len(X))) if room is None else room, storage, shared)


def atoms_on_shards(
    data: TrainingData, rng: np.random.Generator, *, kernel: Any, gamma: float | str, centers: Any, **given: Any
) -> Any:
    """All atoms on rows that are on shards; `gamma` is settled by sums over them, where it asks for their variance."""
    if centers is None or isinstance(centers, Integral):
        some, positions = centres_on_shards(data, rng, centers)
    else:
        rows = np.arange(len(centers))
        some, positions = TrainingData(centers, np.zeros(len(centers)), None, rows, len(centers)), None
    warn_if_one_column_rules(some.X, kernel, gamma)
    if gamma == "scale" and uses_gamma(kernel):
        gamma = scale_gamma(data.X, data.weights)
    return ShardedAtoms(data.X, AtomFamily(some, rng, kernel=kernel, gamma=gamma, **given), positions)


def centres_on_shards(data: TrainingData, rng: np.random.Generator, centers: Any) -> tuple[TrainingData, np.ndarray]:
    """Rows of shards that become centres, here, with their numbers among all rows; and their places."""
    X: Any = data.X
    n = int(X.program.n_rows)
    if centers is None and n > MOST_CENTRES:
        raise ValueError(
            f"centers=None makes each of the {n} rows a centre, and {MOST_CENTRES} are the most that all "
            "workers can hold: give a number, such as centers=10000, for as many rows drawn at random"
        )
    positions = np.arange(n) if centers is None else draw_centers(int(centers), n, rng)
    rows, numbers = X.rows_at(positions)
    return TrainingData(rows, np.zeros(len(rows)), None, numbers, data.n_rows), positions


def drawn_if_many(data: TrainingData) -> int | None:
    """How many rows of shards may become centres, for estimators without a parameter that says so; None for all."""
    return DRAWN if data.X.shape[0] > MOST_CENTRES else None
