"""Predictions are made in batches of rows."""

import numpy as np
import pytest
import sklearn

from kernelpursuit import KMPRegressor
from kernelpursuit.parameters import columns
from tests.problems import data


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prediction_in_batches(dtype):
    """Batches of rows, and of stages, change nothing but the last digits."""
    X, y = data(300, 4)
    X = X.astype(dtype)
    model = KMPRegressor(30, kernel=["rbf", "laplacian", columns(lambda X: X[:, :1])]).fit(X, y)
    whole, stages = model.predict(X), list(model.staged_predict(X))
    assert whole.dtype == dtype and len(stages) == 30
    with sklearn.config_context(working_memory=0.01):
        np.testing.assert_allclose(model.predict(X), whole, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-4)
        again = list(model.staged_predict(X))
    np.testing.assert_allclose(np.stack(again), np.stack(stages), rtol=1e-3, atol=2e-3)
    np.testing.assert_allclose(stages[-1], whole, rtol=1e-3, atol=1e-4)
