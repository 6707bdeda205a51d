"""Pursuit: the loop and its record, the atoms outside the span, and the rules of candidates and of stopping."""

from kernelpursuit.pursuit.candidates import everything, growing_subset, random_subset, sample_size
from kernelpursuit.pursuit.loop import Path, Step, Stop, pursue
from kernelpursuit.pursuit.stopping import (
    first_of,
    loss_below,
    lowest,
    lowest_bound,
    lowest_gcv,
    lowest_leave_one_out,
    lowest_validation,
    n_atoms,
    search_charge,
)

__all__ = [
    "Path",
    "Step",
    "Stop",
    "everything",
    "first_of",
    "growing_subset",
    "loss_below",
    "lowest",
    "lowest_bound",
    "lowest_gcv",
    "lowest_leave_one_out",
    "lowest_validation",
    "n_atoms",
    "pursue",
    "random_subset",
    "sample_size",
    "search_charge",
]
