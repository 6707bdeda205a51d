"""A dictionary that is a matrix in memory."""

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


def as_slice(J: np.ndarray) -> slice | None:
    """Slice for several indices that follow each other, None for others.

    Examples
    --------
    >>> as_slice(np.array([3, 4, 5])), as_slice(np.array([3, 5]))
    (slice(3, 6, None), None)
    """
    if len(J) > 1 and J[-1] - J[0] == len(J) - 1 and np.all(np.diff(J) == 1):
        return slice(int(J[0]), int(J[-1]) + 1)
    return None


FEW_VECTORS = 6  # reading one triangle once for each is faster than one product with all of them
FEWER_VECTORS = 3  # reading all of the matrix once for each is
_COPIED = 1024  # rows of a matrix that are multiplied at once
_MIRRORED = 512  # rows of a triangle that are compared, or copied, at once


def reads_one_triangle(matrix: Array, V: Array) -> bool:
    """Whether products of a symmetric `matrix` with `V` should read one triangle of it, which is half the memory.

    Not in float32, where the sums of that routine are less exact. Nor where NumPy's BLAS has several threads: the
    routine is that of SciPy's, whose threads and those of NumPy's would keep each other waiting.
    """
    few = (
        isinstance(matrix, np.ndarray) and V.shape[1] <= FEW_VECTORS and (usable_threads() == 1 or one_blas_thread.held)
    )
    return few and matrix.dtype == np.float64 and (matrix.flags.c_contiguous or matrix.flags.f_contiguous)


@cache
def _symv(dtype: np.dtype) -> tuple[Callable[..., None], Any]:
    """The routine of SciPy's BLAS by its address, and the type of its numbers.

    Called through SciPy it would hold the lock of all Python threads.
    """
    name, number = (b"dsymv", ctypes.c_double) if dtype == np.float64 else (b"ssymv", ctypes.c_float)
    capsule = cython_blas.__pyx_capi__[name.decode()]
    name_of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[ctypes.c_void_p] * 9)
    return signature(pointer(capsule, name_of(capsule))), number


def worth_one_triangle(dictionary: Any) -> bool:
    """Whether steps that each read a kept matrix once should hold NumPy's BLAS, so that they read one triangle of it.

    Two threads that read a half take 0.12 ns an entry where two that read all take 0.21, and one that reads a half 0.20
    (n = 8,192). The products with the directions have one thread then, which is less work by far.
    """
    n, m = dictionary.shape
    return n * m > FEW_ENTRIES and usable_threads() > 1 and bool(getattr(dictionary, "kept_by_halves", False))


def one_triangle(matrix: np.ndarray) -> Callable[[np.ndarray, np.ndarray], None]:
    """The product of a symmetric matrix with a vector, into another one, by reading one triangle of it.

    The lower one, where rows are in one piece. Vectors are as the matrix is, in one piece each.
    """
    multiply, number = _symv(matrix.dtype)
    sizes = (ctypes.c_int(value) for value in (len(matrix), max(matrix.strides) // matrix.itemsize, 1))
    size, apart, one, scale, start = map(ctypes.byref, (*sizes, number(1.0), number(0.0)))
    given = b"U", size, scale, matrix.ctypes.data, apart

    def product(v: np.ndarray, out: np.ndarray) -> None:
        multiply(*given, v.ctypes.data, one, start, out.ctypes.data, one)

    return product


def symmetric_product(matrix: np.ndarray, V: np.ndarray) -> np.ndarray:
    """A symmetric matrix times the columns of V, one triangle read for each."""
    vectors = np.ascontiguousarray(V.T, dtype=matrix.dtype)
    out, multiply = np.empty_like(vectors), one_triangle(matrix)
    for v, result in zip(vectors, out, strict=True):
        multiply(v, result)
    return out.T


def matrix_product(matrix: Array, V: Array) -> np.ndarray:
    """A matrix times the columns of V, on the host; one after the other where they are few.

    Before a product with several vectors BLAS copies the matrix, which takes as long as four products with one.
    """
    if isinstance(matrix, np.ndarray) and 1 < V.shape[1] <= FEWER_VECTORS:
        return to_host(np.stack([matrix @ v for v in np.ascontiguousarray(V.T)], axis=1))
    # Two ways to say it, and BLAS is faster by a third in one or the other, for several vectors twice as fast.
    if isinstance(matrix, np.ndarray) and matrix.dtype == np.float32 and matrix.flags.c_contiguous:
        V, out = np.ascontiguousarray(V), np.empty((len(matrix), V.shape[1]), dtype=np.float32)
        for start in range(0, len(matrix), _COPIED):  # what BLAS copies stays in the cache: faster by a fifth
            np.matmul(matrix[start : start + _COPIED], V, out=out[start : start + _COPIED])
        return out.astype(np.float64, order="F")  # the products of a vector lie together, as steps ask for them
    return to_host((V.T @ matrix.T).T)


def is_symmetric(matrix: np.ndarray) -> bool:
    """Whether a square matrix equals its transpose to the last digit.

    Examples
    --------
    >>> is_symmetric(np.eye(2)), is_symmetric(np.array([[1.0, 2.0], [3.0, 4.0]]))
    (True, False)
    """
    starts = range(0, len(matrix), _MIRRORED)
    spans = [slice(start, start + _MIRRORED) for start in starts]
    return all(
        np.array_equal(matrix[one, two], matrix[two, one].T) for index, one in enumerate(spans) for two in spans[index:]
    )


def mirrored(matrix: np.ndarray) -> np.ndarray:
    """A matrix that is symmetric but for rounding, made symmetric in place, so that a pass may read one triangle.

    Examples
    --------
    >>> mirrored(np.array([[1.0, 2.5], [2.0, 4.0]]))
    array([[1., 2.],
           [2., 4.]])
    """
    for start in range(0, len(matrix), _MIRRORED):
        band = slice(start, start + _MIRRORED)
        matrix[:start, band] = matrix[band, :start].T
        matrix[band, band] = np.tril(matrix[band, band]) + np.tril(matrix[band, band], -1).T
    return matrix


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
        if (tile := as_slice(J)) is not None:
            columns = self.matrix[:, tile]  # no need to copy
        else:
            columns = gather(self.matrix, J, axis=1)  # one is copied too: a strided vector does not go through BLAS
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
        if reads_one_triangle(self.matrix, V) and self.kept_by_halves:
            return symmetric_product(self.matrix, V)
        return matrix_product(self.matrix.T, V)

    @cached_property
    def kept_by_halves(self) -> bool:
        """Whether the matrix is a kernel matrix that equals its transpose: looked at once, which takes a few passes."""
        matrix = self.matrix
        numbers = isinstance(matrix, np.ndarray) and matrix.dtype == np.float64
        return bool(numbers and self._gram is matrix and is_symmetric(np.asarray(matrix)))

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
        diagonal = (
            np.ones(self.shape[1]) if self._gram is None else to_host(namespace(self._gram).linalg.diagonal(self._gram))
        )
        return diagonal if J is None else diagonal[J]
