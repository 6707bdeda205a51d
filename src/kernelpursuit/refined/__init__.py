"""Refined models: terms whose centres and widths move after they were chosen, and inputs with weights.

estimators.py has the two estimators, refine.py refines a model that was fitted otherwise. base.py decides between the
two ways. Up to some thousand rows atoms move by the evidence of a Gaussian process on all rows (evidence.py, bound.py,
lbfgs.py): `Trial.of_terms` in judging.py decides on held-out rows how much may move, `foldings` in base.py which rows
these are. Beyond that, and for other losses, atoms move by mini-batches (by_descent.py, descending.py, descent.py;
teaching.py smooths the start). moving_atoms.py has values and gradients.
"""
