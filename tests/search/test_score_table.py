"""The choice among mean scores: ties, standard errors, scores that are no numbers."""

import numpy as np
import pytest

from kernelpursuit.search.score_table import best_pair, cv_results
from kernelpursuit.search.settings import Setting


def test_the_fewest_atoms_within_a_standard_error():
    table = np.array([[[3.05, 3.0, 3.1], [3.05, 3.0, 3.3]], [[0.0, 3.1, 0.0], [0.0, 3.2, 0.0]]])
    assert best_pair(table, False) == (0, 3)
    # the best is 3.2 with a standard error of 0.1: one atom has 3.05, two reach 3.15, at the other width
    assert best_pair(table, True) == (1, 2)
    assert best_pair(table[:, :1], True) == best_pair(table[:, :1], False)  # one fold has no standard error


@pytest.mark.parametrize(("gap", "chosen"), [(0.052, 1), (0.06, 2)])
def test_standard_error_is_that_of_a_sample(gap, chosen):
    """Folds .8, .9 and 1: the standard error is .1 / sqrt(3) = .0577 (.0471 if they were all folds there are)."""
    best = np.array([0.8, 0.9, 1.0])
    table = np.stack([best - gap, best], axis=1)[None]
    assert best_pair(table, True) == (0, chosen)
    assert best_pair(table, False) == (0, 2)


@pytest.mark.parametrize("one_standard_error", [False, True])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e100])
def test_ties_are_not_decided_by_rounding(size, one_standard_error):
    """The fewest atoms, and of these the first width, have it; all of them have rank 1."""
    better = np.zeros((5, 6), dtype=bool)
    better[[3, 4, 1], [2, 2, 4]] = True
    scores = np.where(better, 1.0, -99.0)[:, None] * np.array([0.1, 0.2, 0.7])[None, :, None]  # of three folds
    table = size * scores * (1 + 1e-15 * np.random.default_rng(0).normal(size=scores.shape))
    assert best_pair(table, one_standard_error) == (3, 3)
    ranks = cv_results(table, [Setting(float(i)) for i in range(5)])["rank_test_score"].reshape(5, 6)
    np.testing.assert_array_equal(ranks, np.where(better, 1, 4))


def test_means_that_are_0_but_for_rounding_tie():
    folds = np.random.default_rng(0).normal(size=(5, 3, 6))
    assert best_pair(np.concatenate([folds, -folds], axis=1), False) == (0, 1)


def test_small_differences_of_errors_are_no_ties():
    """Errors that differ by far less than some others are."""
    table = -np.array([[[1e6, 1.000001e-8, 1e-8]]])
    assert best_pair(table, False) == (0, 3)
    np.testing.assert_array_equal(cv_results(table, [Setting(1.0)])["rank_test_score"], [3, 2, 1])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_scores_that_are_no_numbers_are_never_the_best(value):
    assert best_pair(np.array([[[value, 1.0, 2.0, value]]]), False) == (0, 3)
