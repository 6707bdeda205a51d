"""From the parameters of an estimator to a path, and from a path to predictions.

A fit, in the order in which it passes the modules: rows.py (where the rows are), training.py (rows checked and
weighted), classes.py, values.py and targets.py (targets coded), atom_family.py (which atoms the parameters allow),
fit_pursuit.py (the fit of kernel matching pursuit; rules.py chooses its number of steps, splits.py its held-out rows,
auto_ridge.py its ridge, probabilities.py its calibration) and pipeline.py (`Pursuit`, the way of every estimator to its
path, and `fits`, the decorator of every `fit`, with callbacks.py, journal.py and memory.py). duplicates.py and
`warn_if_one_column_rules` in training.py are the warnings about data. Other warnings of a plain fit: `warn_if_cut` and
`warn_if_constant` in rules.py, `warn_if_short` in pipeline.py, and for other losses those of `warn_if_astray`.

A prediction: model.py (the models along a path) and expansion.py (kernel values in batches, or a few rows at once).
span.py serves the estimators that learn in a span of points. constraints.py and descriptions.py hold what several
estimators say of their parameters.
"""
