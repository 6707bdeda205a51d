"""A dictionary of kernel functions centred on points, computed in tiles or kept as a matrix when it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit._sklearn import usable_threads
from kernelpursuit.arrays import Array, gather, in_double, namespace, to_host
from kernelpursuit.atoms.dense import as_slice, matrix_product, reads_one_triangle, symmetric_product
from kernelpursuit.atoms.fused import FusedPass
from kernelpursuit.atoms.threads import FEW_ENTRIES, in_threads, spans
from kernelpursuit.atoms.tiles import (
    CACHE_TILE,
    MIB,
    Blocks,
    KeptTiles,
    cache_blocks,
    multiply_with_squares,
    side_of_tiles,
    symmetric_pass,
    tiled_pass,
)
from kernelpursuit.kernels.gaussian import GaussianPoints
from kernelpursuit.kernels.kernels import Kernel

LARGEST_TILE = 32 * MIB  # on the host, where larger tiles are not faster
COLUMNS = 128  # a tile has at least so many, where memory allows
KEPT_SHARE = 0.75  # share of `spare` for tiles that are kept of a matrix that does not fit
COMPUTED_TILES, READ_TILES = 60.0, 15.0  # see `pass_cost`; measured on two kinds of processors
DEVICE_ROWS = 2**16  # largest number of rows of a tile on an accelerator; tiles are summed in float64


class KernelDictionary:
    """Atoms ``k(x, z_j)``, one per centre z_j, evaluated at the rows of X.

    Parameters
    ----------
    X : {array, CSR array} of shape (n_samples, n_features)
        Points at which the atoms are evaluated, of any array namespace; nothing leaves its device but results of
        `correlate` and `gram`.
    Z : {array, CSR array} of shape (n_atoms, n_features)
        Centres, from the same array library and device.
    kernel : Kernel
    memory : int
        Bytes that the matrix, or one tile of it, may take.
    storage : {"auto", "dense", "tiles"}
        Keep the whole matrix, recompute tiles at each pass, or (auto) keep it if it fits `memory`.
    shared : dict, optional
        Prepared centres, where dictionaries of several blocks of rows have the same centres and kernel.

    Attributes
    ----------
    plan : str
        A sentence on what is kept and what is recomputed.
    spare : int
        Bytes of `memory` that neither the matrix nor its tiles take.
    in_memory : bool
        Whether the matrix is kept, or all tiles of its half.
    tiles_kept : float
        Share of the tiles that a pass reads and does not compute; 0 where the matrix is kept instead.
    pass_cost : float
        Cost of a pass over tiles for one vector, in inner products of two atoms for each atom; 0 where a matrix is
        kept: blocks of atoms whose vectors read it together did not pay for all widths.
    kept_symmetric : bool
        Whether the kept matrix is symmetric and in float64, so that a product may read one triangle of it.
    parallel : bool
        Whether columns may be asked for in several threads at once.
    threaded : bool
        Whether a pass makes tiles in threads of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit.kernels.kernels import make_kernel
    >>> X = np.arange(6.0)[:, None]
    >>> D = KernelDictionary(X, X, make_kernel("rbf", X, gamma=1.0))
    >>> D.plan
    'kernel matrix kept: 6 x 6 float64, 0.0 of 1,024 MiB'
    >>> D.correlate(np.ones((6, 1))).round(2).ravel()
    array([1.39, 1.75, 1.77, 1.77, 1.75, 1.39])
    """

    def __init__(
        self,
        X: Any,
        Z: Any,
        kernel: Kernel,
        *,
        memory: int = 1024 * MIB,
        storage: str = "auto",
        shared: dict[str, Any] | None = None,
    ):
        check_same_device(X, Z)
        n, m = self.shape = (X.shape[0], Z.shape[0])
        self.kernel, self.dtype = kernel, X.dtype
        self._given, self._memory, self._storage = (X, Z), memory, storage
        self._shared = {} if shared is None else shared
        self._on_host = isinstance(X, np.ndarray) or sparse.issparse(X)
        self._itemsize = X.dtype.itemsize if self._on_host else namespace(X).finfo(X.dtype).bits // 8
        column = n * self._itemsize
        if column > memory:
            raise ValueError(f"memory={memory} bytes is too small for one kernel column of {n} rows: needs {column}")
        # A tile, its deflated copy and temporaries must fit together.
        limit = min(memory // 4, max(largest_tile(X), COLUMNS * column))
        self.tile = int(min(m, max(1, limit // column)))
        self._symmetric = Z is X and kernel.symmetric
        self._by_halves, self._blocks = self._shape_of_blocks(limit)
        self._X, self._Z = self._prepare(X, Z, "centres")
        self._fused = FusedPass.for_points(self._X, self._Z)
        kept = storage == "dense" or (storage == "auto" and m * column <= memory)
        # Each atom is a row of the matrix: gathering columns takes 30 times as long.
        self._matrix: Array | None = self._values(self._Z, self._X) if kept else None
        self.spare = memory - (m if kept else 2 * self.tile) * column
        room = int(KEPT_SHARE * self.spare) if storage == "auto" and self._on_host and not kept else 0
        height, dtype = self._blocks.columns, self.dtype
        self._kept = KeptTiles(self.shape, dtype, room, height, self._by_halves) if room > 0 else None
        self.spare -= 0 if self._kept is None else self._kept.nbytes
        self.tiles_kept = 0.0 if self._kept is None else self._kept.share
        self.in_memory = kept or self.tiles_kept == 1
        self.pass_cost = 0.0 if kept else READ_TILES * self.tiles_kept + COMPUTED_TILES * (1 - self.tiles_kept)
        self.kept_symmetric = kept and self._symmetric and self._on_host and self._itemsize == 8
        self.parallel = kept or kernel.parallel
        large = n * m > FEW_ENTRIES and usable_threads() > 1
        self.threaded = large and self._on_host and not kept and kernel.parallel
        self.plan = self._describe(m * column)

    def _shape_of_blocks(self, limit: int) -> tuple[bool, Blocks]:
        """Whether a pass makes tiles of a half of the matrix only, and how large a tile is.

        A half is not worth it for few rows, nor where memory is short.
        """
        (n, m), itemsize = self.shape, self._itemsize
        if not self._on_host:
            rows = max(1, min(n, DEVICE_ROWS, limit // itemsize))
            return False, Blocks(rows, max(1, min(m, limit // (rows * itemsize))))
        blocks, side = cache_blocks(n, m, itemsize, limit), side_of_tiles(itemsize)
        if self._symmetric and side**2 <= 2 * blocks.rows * blocks.columns:
            return True, Blocks(side, side)
        return False, blocks

    def _prepare(self, X: Any, Z: Any, name: str) -> tuple[Any, Any]:
        """Points and centres in the form that the kernel takes."""
        if sparse.issparse(X) or sparse.issparse(Z):  # sparse data are not centred, so the others must not be either
            return X, Z
        points = self.kernel.prepare(X)
        return points, points if Z is X else self._once(name, lambda: self.kernel.prepare(Z))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """A result of `make` from the centres, made by the first of the dictionaries that share it."""
        key = f"{name} {self.dtype}"
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _describe(self, needed: int) -> str:
        (n, m), memory = self.shape, self._memory
        if self._matrix is not None:
            name = str(self.dtype).removeprefix("torch.").removeprefix("array_api_strict.")
            return f"kernel matrix kept: {n:,} x {m:,} {name}, {needed / MIB:,.1f} of {memory / MIB:,.0f} MiB"
        tiles = f"tiles of {min(n, self._blocks.rows):,} x {min(m, self._blocks.columns):,}"
        if self.tiles_kept == 1:
            half = f"{needed / 2 / MIB:,.1f} of {memory / MIB:,.0f} MiB"
            return f"half of the kernel matrix kept, which is symmetric: {half}"
        if needed <= memory:
            return f"no kernel matrix kept: columns are computed when they are needed, a pass over all in {tiles}"
        kept = f", {100 * self.tiles_kept:.0f} % of them kept" if self.tiles_kept else ""
        return (
            f"kernel recomputed in {tiles} at each pass{kept}: "
            f"the matrix would take {needed / MIB:,.1f} MiB, memory allows {memory / MIB:,.1f}"
        )

    # -- columns

    def columns(self, J: np.ndarray) -> Array:
        """Columns `J`, (n_samples, len(J)), in the namespace of X."""
        if self._matrix is not None:
            return rows_of(self._matrix, as_slice(J)).T
        return self._values(rows_of(self._Z, as_slice(J)), self._X).T

    def exact_columns(self, J: np.ndarray) -> Array:
        """Columns `J` in float64, computed from the points where the matrix is in float32."""
        if self._itemsize == 8:
            return self.columns(J)
        X, Z = self._exact
        return self._values(rows_of(Z, J), X, double=True).T

    def gram(self, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Kernel values of centres `I` (None: all) with centres `J`, in float64: products in feature space."""
        X, Z = self._given
        if self.kernel.function is not None and self._matrix is not None and X is Z and self._itemsize == 8:
            known = rows_of(
                self._matrix, np.asarray(J)
            ).T  # a function of the user may be slow: no value is asked for twice
            return to_host(known if I is None else rows_of(known, np.asarray(I)))
        _, Z = self._exact
        points = Z if I is None else rows_of(Z, np.asarray(I))
        return to_host(self._values(rows_of(Z, np.asarray(J)), points, double=True).T)

    def gram_diagonal(self, J: np.ndarray | None) -> np.ndarray:
        """k(z, z) of centres `J` (None: all)."""
        indices = np.arange(self.shape[1]) if J is None else np.asarray(J)
        blocks = [indices[i : i + 256] for i in range(0, len(indices), 256)]  # diagonals of small squares: no n x n
        return np.concatenate([np.diagonal(self.gram(block, block)) for block in blocks])

    @cached_property
    def _exact(self) -> tuple[Any, Any]:
        """Points and centres in float64, prepared."""
        return (self._X, self._Z) if self._itemsize == 8 else self._prepare(*self._in_double(), "exact centres")

    def _in_double(self) -> tuple[Any, Any]:
        """Points and centres in float64, not prepared."""
        (X, Z), double = self._given, in_double if not self._on_host else lambda x: x.astype(np.float64)
        points = double(X)
        return points, points if Z is X else self._once("centres in float64", lambda: double(Z))

    def in_float64(self) -> KernelDictionary:
        """A dictionary of the same points in float64, with as much memory: the matrix or the tiles of this one go."""
        if self._itemsize == 8:
            return self
        self._matrix = self._kept = None
        memory = max(self._memory, 8 * self.shape[0])  # at least one column
        options = {"memory": memory, "storage": self._storage, "shared": self._shared}
        return KernelDictionary(*self._in_double(), self.kernel, **options)

    def _values(self, centres: Any, points: Any, double: bool = False) -> Array:
        """Kernel values of prepared points, a row for each centre: each column of the matrix is in one piece.

        Of points with themselves, tiles above the diagonal are computed and those below are copied.
        """
        m, n = centres.shape[0], points.shape[0]
        if not self._on_host:
            return self._device_values(centres, points, double)
        dtype = np.dtype(np.float64 if double else self.dtype)
        mirrored = centres is points and self.kernel.symmetric
        if n * m <= FEW_ENTRIES and not mirrored:
            return np.ascontiguousarray(self._tile(centres, points), dtype=dtype)
        values = np.empty((m, n), dtype=dtype)
        if mirrored:
            parts = spans(0, n, side_of_tiles(dtype.itemsize))
            tasks = [(one, two) for index, one in enumerate(parts) for two in parts[index:]]
        else:
            size = cache_blocks(n, m, dtype.itemsize, CACHE_TILE)
            tasks = [(atoms, rows) for atoms in spans(0, m, size.columns) for rows in spans(0, n, size.rows)]

        def fill(task: tuple[slice, slice]) -> None:
            atoms, rows = task
            self._tile(centres[atoms], points[rows], values[atoms, rows])
            if mirrored and atoms != rows:
                values[rows, atoms] = values[atoms, rows].T

        in_threads(fill, tasks, self.kernel.parallel and n * m > FEW_ENTRIES)
        return values

    def _tile(self, centres: Any, points: Any, out: np.ndarray | None = None) -> Array:
        """Kernel values of prepared points, a row for each centre: products of V with such a tile are faster."""
        if self.kernel.symmetric:
            return self.kernel.finite(centres, points, out)
        values = self.kernel.finite(points, centres).T
        if out is None:
            return values
        out[...] = values
        return out

    # -- passes over all columns

    def correlate(self, V: Array) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1]): one pass over the matrix, or one computation of all its tiles."""
        if self._matrix is not None:
            if self._symmetric and reads_one_triangle(self._matrix, V):
                return symmetric_product(self._matrix, V)
            return matrix_product(self._matrix, V)
        if self._on_host:
            return self._pass(V)
        with self._explained():
            fused = None if self._fused is None else self._fused(V)
            return self._device_pass(V) if fused is None else to_host(fused.T.contiguous()).T  # turned on the device

    def moments(self, V: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """DᵀV, (n_atoms, V.shape[1]), and Σ w d², (n_atoms,), in one pass. All sums are in float64."""
        both = self._pass(np.concatenate([V, weights[:, None]], axis=1), multiply_with_squares)
        return both[:, :-1], both[:, -1]

    def _pass(self, V: np.ndarray, multiply: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.matmul) -> np.ndarray:
        """DᵀV by tiles that are multiplied in a core's cache."""
        (n, m), blocks = self.shape, self._blocks
        parallel = self.parallel and n * m > FEW_ENTRIES
        if self._by_halves:
            return symmetric_pass(n, self._tiles_of, V, blocks.rows, parallel, multiply)
        return tiled_pass(n, m, self._tiles_of, V, blocks, parallel, multiply)

    def _tiles_of(self, atoms: slice) -> Callable[[slice], np.ndarray]:
        """Tiles of a span of atoms: kept ones, or made one after the other in one buffer."""
        matrix, kept = self._matrix, self._kept
        if matrix is not None:
            return lambda rows: matrix[atoms, rows]
        centres = self._Z[atoms]
        buffer = np.empty((atoms.stop - atoms.start, self._blocks.rows), dtype=self.dtype)

        def tile(rows: slice) -> np.ndarray:
            def fill(out: np.ndarray) -> np.ndarray:
                return self._tile(centres, self._X[rows], out)

            found = None if kept is None else kept.tile(atoms, rows, fill)
            return fill(buffer[:, : rows.stop - rows.start]) if found is None else found

        return tile

    # -- on an accelerator

    def _device_values(self, centres: Any, points: Any, double: bool) -> Array:
        """Kernel values of prepared points on the device of X, by blocks of centres where these are many."""
        m, n = centres.shape[0], points.shape[0]
        with self._explained():
            size = max(1, self._blocks.rows * self._blocks.columns // max(1, n))
            if size >= m:
                return self._tile(centres, points)
            X = self._given[0]
            xp = namespace(X)
            values = xp.empty((m, n), dtype=xp.float64 if double else self.dtype, device=X.device)
            for block in spans(0, m, size):
                values[block, :] = self._tile(rows_of(centres, block), points)
            return values

    def _device_pass(self, V: Array) -> np.ndarray:
        """DᵀV by tiles on the device of X, whose own threads work on each; float64 sums over the blocks of rows."""
        xp, (n, m), blocks = namespace(V), self.shape, self._blocks
        out = np.empty((V.shape[1], m))
        for J in spans(0, m, blocks.columns):
            centres, total = rows_of(self._Z, J), None
            for block in spans(0, n, blocks.rows):
                tile = self.kernel.finite(rows_of(self._X, block), centres)
                part = xp.astype(V[block, :].T @ tile, xp.float64)
                total = part if total is None else total + part
            out[:, J] = to_host(total)
        return out.T

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Context in which an accelerator's lack of memory is an error that proposes a value of `memory`."""
        try:
            yield
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            rows, columns = self._blocks
            raise MemoryError(
                f"the device of X has no room for kernel tiles of {rows:,} x {columns:,} and their temporaries: "
                f"a smaller memory= makes smaller tiles; try memory={2 * rows * columns * self._itemsize}"
            ) from error


def rows_of(points: Any, J: slice | np.ndarray) -> Any:
    """Rows `J` of prepared points or of an array of any kind."""
    if isinstance(points, GaussianPoints | np.ndarray) or sparse.issparse(points):
        return points[J]
    return points[J, :] if isinstance(J, slice) else gather(points, J)


def largest_tile(X: Any) -> int:
    """Bytes that a tile may take: a few caches on the host, an eighth of what is free on a device."""
    device = getattr(X, "device", "cpu")
    if getattr(device, "type", "cpu") != "cuda":
        return LARGEST_TILE
    free, _ = import_module("torch").cuda.mem_get_info(device)
    return free // 8


def check_same_device(X: Any, Z: Any) -> None:
    """Points and centres must come from one array library and device: nothing is moved unasked."""

    def device(points: Any) -> str:
        if isinstance(points, np.ndarray) or sparse.issparse(points):
            return "the host (NumPy or SciPy)"
        return f"{points.device} ({namespace(points).__name__.split('.')[-1]})"

    if device(X) != device(Z):
        raise ValueError(f"X is on {device(X)} and the centres are on {device(Z)}: bring both to one place")
