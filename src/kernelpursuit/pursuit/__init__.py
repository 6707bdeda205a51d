"""Pursuit: the loop and its record, the atoms outside the span, and the rules of candidates and of stopping.

Begin with loop.py: `pursue` asks a criterion for scores, takes the atom of the highest one, and adds a `Step` to the
`Path`; ties are broken in `propose`, and an interrupt is caught in `pursue`. candidates.py and stopping.py are the
rules. deflation.py keeps the atoms outside the span, with row weights (row_weights.py), the ridge (ridge.py) and
groups (groups.py), which no other file knows of; rounding.py says which of its running numbers have lost their digits.
left_out.py has the exact leave-one-out residuals. lookahead.py takes several atoms at one pass over the data, tried out
on the small matrices of pool_matrices.py.
"""

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
