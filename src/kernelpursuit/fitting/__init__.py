"""From the parameters of an estimator to a path, and from a path to predictions."""
