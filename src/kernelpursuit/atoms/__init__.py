"""Dictionaries: n x m matrices of atoms that need not exist in memory."""

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
