"""Cross-validation along paths: one fit of a fold scores every number of atoms.

`settings` says what is tried, `input_weights` learns weights of the inputs, `metrics` are the scores that need no
scorer, `fold_scores` fits and scores one fold, `score_table` compares all folds, and `search` is the estimator.
"""
