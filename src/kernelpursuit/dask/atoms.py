"""The atoms at remote rows: each block of rows has a dictionary of its own, all with the same centres."""

from __future__ import annotations

from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kernelpursuit.atoms import Dictionary
from kernelpursuit.dask.arrays import Handle, Program, RemoteArray
from kernelpursuit.dask.shard import call_method
from kernelpursuit.fitting.atom_family import AtomFamily, draw_centers
from kernelpursuit.fitting.fit_warnings import warn_if_one_column_rules
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.kernels.kernels import Kernel, gamma_of_moments, uses_gamma

MOST_CENTRES = 50_000  # that every worker and this process hold
DRAWN = 10_000  # centres of estimators that have no parameter for them, where there are more rows than that
SHARED: WeakKeyDictionary[AtomFamily, list[dict]] = WeakKeyDictionary()  # what the blocks of a worker have in common


class RemoteDictionary:
    """A dictionary whose rows are remote.

    Parameters
    ----------
    program : Program
    parts : Handle
        The dictionary of each block of rows.
    centres : Dictionary
        The atoms at their own centres, here: it knows their inner products.
    tile : int or Reduced
        Columns that a shard may hold at once; it is read when it is needed.
    dtype : dtype
        Of the columns.
    """

    in_memory = False  # a pass is a message, whatever the shards keep

    def __init__(self, program: Program, parts: Handle, centres: Any, tile: Any, dtype: Any):
        self.shape = (program.n_rows, centres.shape[1])
        self._tile = tile
        self._program, self._parts, self._dtype = program, parts, np.dtype(dtype)
        self.gram, self.gram_diagonal = centres.gram, centres.gram_diagonal

    @property
    def tile(self) -> int:
        """Columns that may be in memory at once."""
        return int(np.asarray(self._tile))

    def columns(self, J: np.ndarray) -> RemoteArray:
        """Columns `J`, (n_samples, len(J)), where the rows are."""
        return self._columns("columns", J, self._dtype)

    def exact_columns(self, J: np.ndarray) -> RemoteArray:
        """Columns `J` in float64, where the rows are."""
        return self._columns("exact_columns", J, np.float64)

    def _columns(self, method: str, J: np.ndarray, dtype: Any) -> RemoteArray:
        number = self._program.add(call_method, self._parts, method, np.asarray(J))
        return RemoteArray(self._program, number, np.empty((0, len(J)), dtype=dtype), 0)

    def correlate(self, V: RemoteArray) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1]), on the host: one pass over the data, and one message."""
        return np.asarray(self._program.reduce(call_method, self._parts, "correlate", V))


class RemoteAtoms:
    """An `AtomFamily` for remote rows: centres and kernels are everywhere, kernel values where the rows are.

    Parameters
    ----------
    rows : ClusterRows
    X : RemoteArray
    family : AtomFamily
        At its own centres, here.
    positions : ndarray of int or None
        Places of the centres among the rows; None for centres of the user's own.
    """

    def __init__(self, rows: Any, X: RemoteArray, family: AtomFamily, positions: np.ndarray | None):
        self._rows, self._X, self._family, self.positions = rows, X, family, positions
        self.kernels, self.centers, self.size = family.kernels, family.centers, family.size
        self.support, self.expansion = family.support, family.expansion

    def with_kernel(self, kernel: Kernel) -> RemoteAtoms:
        """Atoms of another kernel on the same centres."""
        return RemoteAtoms(self._rows, self._X, self._family.with_kernel(kernel), self.positions)

    def dictionary(self, memory: int, storage: str) -> RemoteDictionary:
        """The atoms at the remote rows, `memory` for all of them together."""
        program, room = self._X.program, self._rows.room
        how = (memory / program.n_rows, storage, None) if room is None else (0.0, "tiles", room)
        parts = Handle(program, program.add(dictionary_at, self._X, self._family, *how))
        tile = program.reduce(getattr, parts, "tile", how="min")
        return RemoteDictionary(program, parts, self._family.dictionary(memory, "tiles"), tile, self._X.dtype)


def dictionary_at(X: np.ndarray, family: AtomFamily, memory: float, storage: str, room: int | None) -> Dictionary:
    """The dictionary of a block of rows; `memory` for each of them, or `room` for the block.

    The blocks of a worker share the numbers that depend on the centres alone.
    """
    shared = SHARED.setdefault(family, [{} for _ in family.kernels])
    return family.at(X).dictionary(max(1, int(memory * len(X))) if room is None else room, storage, shared)


def remote_atoms(
    rows: Any,
    family: type[AtomFamily],
    data: TrainingData,
    rng: np.random.Generator,
    *,
    kernel: Any,
    gamma: float | str,
    centers: Any = "few",
    **parameters: Any,
) -> RemoteAtoms:
    """All atoms on remote rows, whose variance is that of ``gamma="scale"``.

    Centres are parameters of an `AtomFamily`. "few" is for estimators that have no such parameter: of very many rows
    `DRAWN` are centres.
    """
    if isinstance(centers, str):
        centers = DRAWN if len(data.rows) > MOST_CENTRES else None
    if centers is None or isinstance(centers, Integral):
        some, positions = centres_among_rows(rows, data, rng, centers)
    else:
        numbers = np.arange(len(centers))
        some, positions = TrainingData(centers, np.zeros(len(centers)), None, numbers, len(centers)), None
    warn_if_one_column_rules(some.X, kernel, gamma)
    if gamma == "scale" and uses_gamma(kernel):
        total, mean, squares = rows.moments
        gamma = gamma_of_moments(mean, squares / total)
    return RemoteAtoms(rows, data.X, family(some, rng, kernel=kernel, gamma=gamma, **parameters), positions)


def centres_among_rows(
    rows: Any, data: TrainingData, rng: np.random.Generator, centers: Integral | None
) -> tuple[TrainingData, np.ndarray]:
    """Remote rows that become centres, here, with their numbers among all rows; and their places."""
    n = len(data.rows)
    if centers is None and n > MOST_CENTRES:
        raise ValueError(
            f"centers=None makes each of the {n} rows a centre, and {MOST_CENTRES} are the most that all "
            "workers can hold: give a number, such as centers=10000, for as many rows drawn at random"
        )
    positions = np.arange(n) if centers is None else draw_centers(int(centers), n, rng)
    some, numbers = rows.take_numbered(data.X, positions)
    return TrainingData(some, np.zeros(len(some)), None, numbers, data.n_rows), positions
