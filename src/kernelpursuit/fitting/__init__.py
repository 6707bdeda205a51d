"""From the parameters of an estimator to a path, and from a path to predictions.

A fit, in the order in which it passes the modules: rows.py (where the rows are), training.py (rows checked and
weighted), classes.py, values.py and targets.py (targets coded), atom_family.py (which atoms the parameters allow),
fit_pursuit.py (the fit of kernel matching pursuit; rules.py chooses its number of steps, splits.py its held-out rows,
auto_ridge.py its ridge, probabilities.py its calibration) and pipeline.py (`Pursuit`, the way of every estimator to its
path, and `fits`, the decorator of every `fit`, with callbacks.py, interrupts.py, journal.py and memory.py).
fit_warnings.py and duplicates.py have all warnings of a fit.

A prediction: model.py (the models along a path) and expansion.py (kernel values in batches, or a few rows at once).
span.py serves the estimators that learn in a span of points. constraints.py and descriptions.py hold what several
estimators say of their parameters.
"""
