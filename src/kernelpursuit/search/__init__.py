"""Cross-validation along paths: one fit of a fold scores every number of atoms.

Begin with `search`, the estimator: for each setting and fold it fits and scores a path (`folds`), compares the means
(`score_table`) and fits the best to all rows. `settings` says what is tried, `input_weights` learns weights of inputs.
"""
