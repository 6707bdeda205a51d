"""R² of predicted values, whatever their size and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from kernelpursuit.fitting.placement import labels_on_host


class ValueScore(RegressorMixin):
    """`RegressorMixin` whose score knows that predictions are rounded, and that squares of numbers may be none."""

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R² of the predictions, as scikit-learn defines it.

        A target that is constant counts as met where the prediction is that constant in its own precision, which is
        that of X. Sums are made in float64, of numbers near 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            1 at best; 0 for the mean of y.
        """
        prediction = self.predict(X)
        if isinstance(prediction, np.ndarray) and (values := np.asarray(y)).dtype.kind in "iuf" and len(values):
            weights = None if sample_weight is None else labels_on_host(sample_weight)
            y = as_predicted(values, weights, prediction.dtype).astype(np.float64)
            exponent = np.frexp(max(np.max(np.abs(y)), np.max(np.abs(prediction))))[1]
            y, prediction = (np.ldexp(one, -exponent) for one in (y, prediction.astype(np.float64)))
        return r2_score(y, prediction, sample_weight=sample_weight)


def as_predicted(y: np.ndarray, weights: np.ndarray | None, dtype: Any) -> np.ndarray:
    """Targets, of which those that are constant are rounded as predictions of this dtype are.

    R² divides by the variance: that of a constant is rounding error, and no prediction but an equal one is good enough.
    """
    columns = y.reshape(len(y), -1)
    judged = columns if weights is None else columns[weights > 0]
    constant = np.all(judged == judged[:1], axis=0)
    with np.errstate(over="ignore"):  # of others that are not used
        rounded = np.where(constant, columns.astype(dtype), columns)
    return rounded.reshape(y.shape)
