"""Refined models: terms whose centres and widths move after they were chosen, and inputs with weights.

estimators.py has the two estimators, refine.py refines a model that was fitted otherwise. base.py decides between the
two ways: up to some thousand rows the evidence of a Gaussian process on all rows (evidence.py, bound.py, lbfgs.py;
judging.py compares how much may move, on held-out rows), beyond that, and for other losses, mini-batches
(by_descent.py, descending.py, descent.py; teaching.py smooths the start). moving_atoms.py has values and gradients.
"""
