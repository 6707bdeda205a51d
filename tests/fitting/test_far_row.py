"""Rows far out in several columns: every estimator whose width comes from the variance says so, once."""

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
    RefinedKMPClassifier,
    RefinedKMPRegressor,
    SparseKernelFDA,
    SparseKernelFDACV,
)
from kernelpursuit.fitting.training import column_of_far_rows, few_rows_rule
from kernelpursuit.kernels.gaussian import center_of, centred

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
FAR = X.copy()
FAR[7] = [1e6, -2e6, 1.5e6]


SEVERAL = X.copy()
SEVERAL[[7, 20, 31]] = [[1e6, -2e6, 1.5e6], [-3e5, 8e5, 1e5], [1e6, 1e6, 2e5]]


def said(model, X, y=y, **weights):
    y = y > 0 if is_classifier(model) else y
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y, **weights)
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
    (several,) = said(model, SEVERAL)
    assert "to 3 rows (7, 20, 31)" in several
    w = np.ones(60)
    w[[0, 7]] = 0  # which has no say; others keep their numbers
    assert said(model, FAR, sample_weight=w) == []
    (others,) = said(model, SEVERAL, sample_weight=w)
    assert "to 2 rows (20, 31)" in others


@pytest.mark.parametrize("model", [RefinedKMPRegressor(2, epochs=1), RefinedKMPClassifier(2, epochs=1)], ids=str)
def test_refined_models_name_the_rows_that_the_user_gave(model):
    """Rows of weight 0 are left out; those after them keep their numbers."""
    w = np.ones(60)
    w[[0, 1, 7]] = 0
    (others,) = said(model, SEVERAL, sample_weight=w)
    assert "to 2 rows (20, 31)" in others


def test_codes_for_missing_values():
    coded = np.tile(X, (4, 1))
    coded[:9, 1] = -9999
    assert "to 9 rows (0, 1, 2, 3, 4, ...), where it is -9999" in said(KMPRegressor(3), coded, np.tile(y, 4))[0]


@pytest.mark.parametrize("draw", ["lognormal", "exponential", "standard_t"])
@pytest.mark.parametrize("shape", [(20, 1), (200, 3), (500, 10)])
def test_heavy_tails_are_no_far_rows(draw, shape):
    options = {"df": 3} if draw == "standard_t" else {}
    for seed in range(100):
        rows = getattr(np.random.default_rng(seed), draw)(size=shape, **options)
        assert not few_rows_rule(rows) and column_of_far_rows(centred(rows, center_of(rows))) is None


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
