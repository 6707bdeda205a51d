"""Whether whole numbers are classes or values."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

from kernelpursuit import KMPRegressor, PursuitNystroem
from kernelpursuit.fitting.placement import labels_on_host
from kernelpursuit.fitting.targets import checked_targets, target_columns

rng = np.random.default_rng(0)
CLASSES = rng.integers(0, 5, size=200)
LEVELS = rng.integers(0, 60, size=200)
FINE = rng.permutation(1000)[:200]


@pytest.mark.parametrize(
    ("y", "columns"),
    [
        (CLASSES, 5),
        (CLASSES.astype(str), 5),
        (CLASSES.astype(object), 5),
        (CLASSES % 2 == 0, 1),
        (CLASSES % 2, 1),
        (np.where(CLASSES % 2, 1.0, -1.0), 1),
        (LEVELS.astype(str), len(set(LEVELS))),
        (FINE, 1),
        (FINE.astype(float), 1),
        (LEVELS.astype(float), 1),
        (CLASSES + 0.5, 1),
        (pd.Series(CLASSES, dtype="Int64"), 5),
        (pd.Series(FINE, dtype="Int64"), 1),
        (pd.Series(CLASSES.astype(str), dtype="category"), 5),
        (np.column_stack([CLASSES, LEVELS]), 2),
    ],
)
def test_what_is_beyond_doubt_needs_no_warning(y, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert target_columns(checked_targets(labels_on_host(y))).shape == (200, columns)


def test_what_is_doubtful_is_told():
    with pytest.warns(UserWarning, match=r"y has 5 distinct whole numbers in 200 rows: they are taken for classes"):
        assert target_columns(CLASSES.astype(float)).shape == (200, 5)
    with pytest.warns(UserWarning, match=r"taken for values, not classes; task='classification'"):
        np.testing.assert_array_equal(target_columns(LEVELS), LEVELS[:, None])


@pytest.mark.parametrize("y", [CLASSES, LEVELS, FINE, CLASSES.astype(float)])
def test_task_decides(y):
    assert target_columns(y, "classification").shape == (200, len(set(y)))
    np.testing.assert_array_equal(target_columns(y, "regression"), y[:, None])


def test_strings_are_no_values():
    with pytest.raises(ValueError, match=r"task='regression' needs numbers in y, got np.str_\('\d'\)"):
        target_columns(CLASSES.astype(str), "regression")


def test_landmarks_for_whole_numbers_are_those_for_values():
    X, y = make_friedman1(300, 5, noise=0.5, random_state=0)
    y = np.rint(30 * y).astype(int)
    model = PursuitNystroem(n_components=20, selection="prefit").fit(X, y)
    np.testing.assert_array_equal(model.component_indices_, KMPRegressor(20, gamma="auto").fit(X, y).support_)
    classes = PursuitNystroem(n_components=20, selection="prefit", task="classification").fit(X, y)
    assert set(classes.component_indices_) != set(model.component_indices_)
