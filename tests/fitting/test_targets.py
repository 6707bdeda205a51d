"""Whether whole numbers are classes or values."""

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
    "y",
    [
        CLASSES,
        CLASSES.astype(str),
        CLASSES.astype(object),
        LEVELS.astype(str),
        pd.Series(CLASSES, dtype="Int64"),
        pd.Series(CLASSES.astype(str), dtype="category"),
    ],
)
def test_classes_beyond_doubt_have_a_column_each(y):
    """A warning would be an error here."""
    assert target_columns(checked_targets(labels_on_host(y))).shape == (200, len(set(y)))


@pytest.mark.parametrize(
    "y",
    [
        CLASSES % 2 == 0,
        CLASSES % 2,
        np.where(CLASSES % 2, 1.0, -1.0),
        FINE,
        FINE.astype(float),
        LEVELS.astype(float),
        CLASSES + 0.5,
        pd.Series(FINE, dtype="Int64"),
    ],
)
def test_two_classes_and_values_beyond_doubt_are_one_column(y):
    assert target_columns(checked_targets(labels_on_host(y))).shape == (200, 1)


def test_several_columns_are_values():
    y = np.column_stack([CLASSES, LEVELS])
    np.testing.assert_array_equal(target_columns(checked_targets(labels_on_host(y))), y)


def test_a_warning_tells_what_was_assumed_in_doubt():
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
