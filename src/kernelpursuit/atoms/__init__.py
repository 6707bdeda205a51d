"""Dictionaries: n x m matrices of atoms that need not exist in memory.

protocol.py says what a dictionary can do. dense.py is a matrix, kernel.py a kernel matrix that is kept, kept in part or
computed in tiles at each pass (tiles.py; fused.py on CUDA), stacked.py several side by side, and weighted.py one whose
rows have weights. threads.py has the threads that all rooms use, and holds BLAS at one where that is faster.
"""

from __future__ import annotations

from kernelpursuit.atoms.dense import DenseDictionary
from kernelpursuit.atoms.kernel import KernelDictionary
from kernelpursuit.atoms.protocol import Dictionary, exact_columns, pieces, sweep
from kernelpursuit.atoms.stacked import StackedDictionary
from kernelpursuit.atoms.weighted import WeightedDictionary

__all__ = [
    "DenseDictionary",
    "Dictionary",
    "KernelDictionary",
    "StackedDictionary",
    "WeightedDictionary",
    "exact_columns",
    "pieces",
    "sweep",
]
