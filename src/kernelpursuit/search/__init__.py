"""Cross-validation along paths: one fit for each fold and kernel width scores all numbers of atoms."""
