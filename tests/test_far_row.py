"""One row far out in several columns: every estimator whose width comes from the variance says so, once."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier

from kernelpursuit import (
    KMPClassifier,
    KMPClassifierCV,
    KMPRegressor,
    KMPRegressorCV,
    SparseKernelFDA,
    SparseKernelFDACV,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
FAR = X.copy()
FAR[7] = [1e6, -2e6, 1.5e6]


def said(model, X, y=y):
    y = y > 0 if is_classifier(model) else y
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(one.message) for one in found if "owes nearly all" in str(one.message)]


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(3),
        KMPClassifier(3),
        SparseKernelFDA(3),
        KMPRegressorCV(3, cv=2),
        KMPRegressorCV(3, cv=2, n_jobs=1),
        KMPRegressorCV(3, cv=2, loss="huber", scoring="r2"),
        KMPRegressorCV(3, cv=2, input_weights="learned"),
        KMPRegressorCV(3, cv=2, input_weights="both"),
        KMPClassifierCV(3, cv=2),
        SparseKernelFDACV(3, cv=2),
    ],
    ids=str,
)
def test_a_row_far_out_in_several_columns_is_named_once(model):
    assert ["to row 7" in one for one in said(model, FAR)] == [True]
    assert said(model, X) == []


def test_it_is_the_column_where_the_row_lies_farthest():
    table = pd.DataFrame(FAR, columns=["a", "b", "c"]).astype(np.float32)
    assert said(KMPRegressorCV(3, cv=2), table)[0].startswith(
        "column 'b' of X owes nearly all of its variance to row 7"
    )


@pytest.mark.parametrize("model", [KMPRegressor(3, gamma=0.5), KMPRegressorCV(3, cv=2, gammas=[0.5])], ids=str)
def test_a_width_of_ones_own_is_taken(model):
    assert said(model, FAR) == []


def test_no_row_is_blamed_for_what_many_have():
    heavy, counts = rng.standard_t(2, size=(60, 3)), np.zeros((60, 2))
    counts[3], wide = 1, rng.normal(size=(60, 200))
    wide[3, 0] = 30  # far out in one of many columns: the distances hardly change
    for rows in (heavy, counts, wide):
        assert said(KMPRegressorCV(3, cv=2), rows) == []
