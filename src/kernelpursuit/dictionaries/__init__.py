"""Dictionaries: n x m matrices of atoms that need not exist in memory."""

from __future__ import annotations

from kernelpursuit.dictionaries.dense import DenseDictionary
from kernelpursuit.dictionaries.kernel import KernelDictionary
from kernelpursuit.dictionaries.protocol import Dictionary, exact_columns, pieces, sweep
from kernelpursuit.dictionaries.stacked import StackedDictionary
from kernelpursuit.dictionaries.weighed import WeighedDictionary

__all__ = [
    "DenseDictionary",
    "Dictionary",
    "KernelDictionary",
    "StackedDictionary",
    "WeighedDictionary",
    "exact_columns",
    "pieces",
    "sweep",
]
