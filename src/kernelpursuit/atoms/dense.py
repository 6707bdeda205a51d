"""A dictionary that is a matrix in memory, and products with such matrices."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

from kernelpursuit._sklearn import usable_threads
from kernelpursuit.arrays import Array, gather, in_double, namespace, to_host
from kernelpursuit.atoms.threads import FEW_ENTRIES, one_blas_thread, spans

FEW_VECTORS = 6  # up to so many, reading one triangle for each is faster than one product with all of them
FEWER_VECTORS = 3  # up to so many, reading the whole matrix for each is faster than that
_COMPARED = 512  # rows of a matrix that are compared with its columns at once


def as_slice(J: np.ndarray) -> slice | np.ndarray:
    """Several indices that follow each other as a slice; others are returned.

    Examples
    --------
    >>> as_slice(np.array([3, 4, 5])), as_slice(np.array([3, 5]))
    (slice(3, 6, None), array([3, 5]))
    """
    if len(J) > 1 and J[-1] - J[0] == len(J) - 1 and np.all(np.diff(J) == 1):
        return slice(int(J[0]), int(J[-1]) + 1)
    return J


def reads_one_triangle(matrix: Array, V: Array) -> bool:
    """Whether products of a symmetric `matrix` with `V` should read one triangle of it, which is half the memory.

    Not in float32, where the sums of that routine are less exact. Nor where NumPy's BLAS has several threads: the
    routine is that of SciPy's, whose threads and those of NumPy's would keep each other waiting.
    """
    if not isinstance(matrix, np.ndarray) or matrix.dtype != np.float64 or V.shape[1] > FEW_VECTORS:
        return False
    contiguous = matrix.flags.c_contiguous or matrix.flags.f_contiguous
    return contiguous and (usable_threads() == 1 or one_blas_thread.held)


def worth_one_triangle(dictionary: Any) -> bool:
    """Whether steps that each read a kept matrix once should hold NumPy's BLAS, so that they read one triangle of it.

    Two threads that read a half take 0.12 ns an entry where two that read all take 0.21, and one that reads a half 0.20
    (n = 8,192). The products with the directions have one thread then, which is less work by far.
    """
    n, m = dictionary.shape
    return n * m > FEW_ENTRIES and usable_threads() > 1 and bool(getattr(dictionary, "kept_symmetric", False))


@cache
def _dsymv() -> Callable[..., None]:
    """The routine of SciPy's BLAS by its address. Called through SciPy it would hold the lock of all Python threads."""
    capsule = cython_blas.__pyx_capi__["dsymv"]
    name_of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[ctypes.c_void_p] * 9)
    return signature(pointer(capsule, name_of(capsule)))


def symmetric_product(matrix: np.ndarray, V: np.ndarray) -> np.ndarray:
    """A symmetric float64 matrix times V, reading one triangle for each column: the lower one of a C-ordered matrix."""
    vectors = np.ascontiguousarray(V.T, dtype=np.float64)
    out = np.empty_like(vectors)
    size, leading, one = (ctypes.byref(ctypes.c_int(i)) for i in (len(matrix), max(matrix.strides) // 8, 1))
    scale, zero = (ctypes.byref(ctypes.c_double(x)) for x in (1.0, 0.0))
    for v, product in zip(vectors, out, strict=True):
        _dsymv()(b"U", size, scale, matrix.ctypes.data, leading, v.ctypes.data, one, zero, product.ctypes.data, one)
    return out.T


def matrix_product(matrix: Array, V: Array) -> np.ndarray:
    """A matrix times the columns of V, on the host; few columns are multiplied one after the other.

    Before a product with several vectors BLAS copies the matrix, which takes as long as four products with one.
    """
    if not isinstance(matrix, np.ndarray):
        return to_host((V.T @ matrix.T).T)
    if 1 < V.shape[1] <= FEWER_VECTORS:
        return to_host(np.stack([matrix @ v for v in np.ascontiguousarray(V.T)], axis=1))
    return to_host(matrix @ V)


class DenseDictionary:
    """Any matrix as a dictionary: each column is an atom.

    Parameters
    ----------
    matrix : array of shape (n_samples, n_atoms)
        From any array namespace; it is not copied.
    gram : array of shape (n_atoms, n_atoms), optional
        Inner products of the atoms under a ridge penalty, e.g. the kernel matrix of the centres. Default: the identity.
    tile : int
        Columns that may be copied at once.
    double : bool
        Whether columns and passes are in float64 where the matrix is in float32. It is converted tile by tile.

    Examples
    --------
    >>> import numpy as np
    >>> D = DenseDictionary(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> D.correlate(np.ones((2, 1)))
    array([[4.],
           [6.]])
    """

    def __init__(self, matrix: Array, gram: Array | None = None, tile: int = 128, double: bool = False):
        self.matrix = matrix
        self.shape = tuple(matrix.shape)
        self.tile = tile
        self._gram = gram
        self._double = double and matrix.dtype != namespace(matrix).float64

    @property
    def in_memory(self) -> bool:
        """True: the matrix is kept."""
        return True

    def columns(self, J: np.ndarray) -> Array:
        """Columns `J`, (n_samples, len(J))."""
        part = as_slice(J)
        # One column is copied too: a strided vector does not go through BLAS.
        columns = self.matrix[:, part] if isinstance(part, slice) else gather(self.matrix, J, axis=1)
        return in_double(columns) if self._double else columns

    def exact_columns(self, J: np.ndarray) -> Array:
        """Columns `J` in float64, (n_samples, len(J))."""
        return in_double(self.columns(J))

    def in_float64(self) -> DenseDictionary:
        """A dictionary of this matrix whose passes are in float64."""
        return DenseDictionary(self.matrix, self._gram, self.tile, double=True)

    def correlate(self, V: Array) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1])."""
        if self._double:
            tiles = spans(0, self.shape[1], self.tile)
            return np.concatenate([matrix_product(in_double(self.matrix[:, tile]).T, V) for tile in tiles])
        if reads_one_triangle(self.matrix, V) and self.kept_symmetric:
            return symmetric_product(self.matrix, V)
        return matrix_product(self.matrix.T, V)

    @cached_property
    def kept_symmetric(self) -> bool:
        """Whether this is a float64 kernel matrix that equals its transpose: compared once, in a few passes."""
        matrix = self.matrix
        if self._gram is not matrix or not isinstance(matrix, np.ndarray) or matrix.dtype != np.float64:
            return False
        bands = spans(0, len(matrix), _COMPARED)
        pairs = ((one, two) for index, one in enumerate(bands) for two in bands[index:])
        return all(np.array_equal(matrix[one, two], matrix[two, one].T) for one, two in pairs)

    def gram(self, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Inner products of atoms `I` (None: all) with atoms `J` under the ridge penalty."""
        rows = np.arange(self.shape[1]) if I is None else np.asarray(I)
        if self._gram is None:
            return (rows[:, None] == np.asarray(J)[None, :]).astype(np.float64)
        if isinstance(self._gram, np.ndarray):
            return to_host(self._gram[np.ix_(rows, J)])
        return to_host(gather(gather(self._gram, J, axis=1), rows))

    def gram_diagonal(self, J: np.ndarray | None) -> np.ndarray:
        """Diagonal of `gram` at atoms `J` (None: all)."""
        if self._gram is None:
            return np.ones(self.shape[1] if J is None else len(J))
        diagonal = to_host(namespace(self._gram).linalg.diagonal(self._gram))
        return diagonal if J is None else diagonal[J]
