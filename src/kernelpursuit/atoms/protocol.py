"""What a dictionary can do, and how any dictionary is passed over by tiles of atoms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from kernelpursuit.arrays import Array, in_double, to_host
from kernelpursuit.atoms.threads import FEW_ENTRIES, Result, in_threads, one_blas_thread, spans, stream_in_threads

NARROW_TILE, NARROWEST = 2**17, 16  # entries of a narrow piece, a megabyte in float64, and the fewest atoms of one


class Dictionary(Protocol):
    """An (n_samples, n_atoms) matrix D behind products, the columns of which are the atoms.

    Attributes
    ----------
    shape : (n_samples, n_atoms)
    tile : int
        How many columns may be in memory at once.
    in_memory : bool
        Whether the matrix is kept, so that a pass only reads it.
    """

    shape: tuple[int, int]
    tile: int

    @property
    def in_memory(self) -> bool: ...  # noqa: D102

    def columns(self, J: np.ndarray) -> Array:
        """Columns `J`, (n_samples, len(J)), in sample space."""

    def correlate(self, V: Array) -> np.ndarray:
        """DᵀV, (n_atoms, V.shape[1]), on the host: one pass over the data, in the precision of `columns`."""

    def gram(self, I: np.ndarray | None, J: np.ndarray) -> np.ndarray:  # noqa: E741
        """Inner products of atoms `I` (None: all) with atoms `J` under the ridge penalty, on the host.

        Kernel values of the centres for kernel atoms, the identity for others.
        """

    def gram_diagonal(self, J: np.ndarray | None) -> np.ndarray:
        """Diagonal of `gram` at atoms `J` (None: all)."""


def exact_columns(dictionary: Dictionary, J: np.ndarray) -> Array:
    """Columns `J` in float64, (n_samples, len(J)).

    A dictionary in float32 may have a method of this name that computes them from its points; else they are converted.
    """
    method = getattr(dictionary, "exact_columns", None)
    return in_double(dictionary.columns(J)) if method is None else method(J)


def in_float64(dictionary: Dictionary) -> Dictionary:
    """A dictionary of the same atoms whose passes are made in float64; the memory of `dictionary` is freed.

    A dictionary in float32 may have a method of this name; without one, `dictionary` itself is returned.
    """
    method = getattr(dictionary, "in_float64", None)
    return dictionary if method is None else method()


def pieces(dictionary: Dictionary, J: np.ndarray | None = None, width: int | None = None) -> list[np.ndarray]:
    """Atoms `J` (None: all) in pieces of `width`, or as long that their columns may be in memory at once."""
    J = np.arange(dictionary.shape[1]) if J is None else J
    return [J[part] for part in spans(0, len(J), dictionary.tile if width is None else width)]


def each_piece(
    dictionary: Dictionary, f: Callable[[np.ndarray], Result], J: np.ndarray
) -> Iterator[tuple[np.ndarray, Result]]:
    """Pieces of atoms `J`, each with ``f(piece)``; `f` must have no side effects.

    Where BLAS is held at one thread the pieces are worked on in threads. Then they are a quarter as long, so that they
    take no more memory together.
    """
    parallel = one_blas_thread.held and getattr(dictionary, "parallel", dictionary.in_memory)
    for piece in pieces(dictionary, J):
        many = parallel and dictionary.shape[0] * len(piece) > FEW_ENTRIES
        parts = [piece[part] for part in spans(0, len(piece), -(-len(piece) // 4))] if many else [piece]
        yield from zip(parts, in_threads(f, parts, many), strict=True)


def sweep(
    dictionary: Dictionary,
    f: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    J: np.ndarray | None = None,
    parallel: bool = False,
) -> tuple[np.ndarray, ...]:
    """Apply `f` to pieces of atoms `J` (None: all) and join its results along the atoms.

    A `parallel` sweep has narrow pieces, which may be worked on in threads: `f` must have no side effects.
    """
    (n, m), width = dictionary.shape, dictionary.tile
    if parallel:
        width = min(width, max(NARROWEST, NARROW_TILE // max(1, n)))
        parallel = n * m > FEW_ENTRIES and getattr(dictionary, "parallel", dictionary.in_memory)
    results = stream_in_threads(f, pieces(dictionary, J, width), parallel)
    return tuple(np.concatenate([to_host(one) for one in parts]) for parts in zip(*results, strict=True))
