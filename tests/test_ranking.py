"""Measures of orders inside groups, and sizes of groups."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from kernelpursuit.ranking import group_numbers, group_sizes, kendall_tau, ndcg, wrong_pairs

SIZES = [7, 1, 12, 7, 3, 10]
N = sum(SIZES)
rng = np.random.default_rng(0)
Y = rng.normal(size=N)
GRADES = rng.integers(4, size=N)


def test_share_of_wrong_pairs_written_out():
    scores = np.round(rng.normal(size=N), 1)
    for found, rows in zip(
        wrong_pairs(GRADES, scores, SIZES), np.split(np.arange(N), np.cumsum(SIZES)[:-1]), strict=True
    ):
        terms = [
            0.5 if scores[i] == scores[j] else float(scores[i] < scores[j])
            for i in rows
            for j in rows
            if GRADES[i] > GRADES[j]
        ]
        assert found == pytest.approx(np.mean(terms) if terms else 0.0)


def test_ndcg_is_scikit_learns():
    scores = np.round(rng.normal(size=N), 1)  # with ties
    for k in (None, 3):
        for gain, gains in (("exponential", 2.0**GRADES - 1), ("linear", GRADES)):
            expected = [
                1.0 if len(rows) == 1 or not gains[rows].any() else ndcg_score([gains[rows]], [scores[rows]], k=k)
                for rows in np.split(np.arange(N), np.cumsum(SIZES)[:-1])
            ]
            assert ndcg(GRADES, scores, SIZES, k=k, gain=gain) == pytest.approx(np.mean(expected), rel=1e-12)


def test_ndcg_of_large_grades_and_of_groups_without_any():
    assert ndcg([2000.0, 1999.0], [0, 1]) == pytest.approx((0.5 + 1 / np.log2(3)) / (1 + 0.5 / np.log2(3)))
    assert ndcg([0, 0, 1, 0], [1, 2, 2, 1], [2, 2]) == 1.0
    assert ndcg([1, 0, 1, 0], [1, 2, 2, 1], [2, 2], sample_weight=[1, 5, 2, 4]) == pytest.approx(
        (1 + 1 / np.log2(3)) / 2
    )
    assert ndcg([1, 0], [5, 5]) == pytest.approx((1 + 1 / np.log2(3)) / 2)  # a constant is worth the mean place


def test_kendall_tau_is_the_mean_over_groups_that_have_an_order():
    scores = rng.normal(size=N)
    parts = [rows for rows in np.split(np.arange(N), np.cumsum(SIZES)[:-1]) if len(rows) > 1]
    expected = np.mean([kendalltau(Y[rows], scores[rows]).statistic for rows in parts])
    assert kendall_tau(Y, scores, SIZES) == pytest.approx(expected, rel=1e-12)
    assert kendall_tau(Y, np.zeros(N), SIZES) == 0
    assert np.isnan(kendall_tau(np.ones(N), scores, SIZES))


def test_sizes_of_groups():
    labels = np.array(list("aaabcc"))
    np.testing.assert_array_equal(group_numbers(group_sizes(labels), 6), [0, 0, 0, 1, 2, 2])
    with pytest.raises(ValueError, match="stand together"):
        group_sizes(["a", "b", "a"])
    assert group_sizes(np.array(["a", "a", 3], dtype=object)).tolist() == [2, 1]
    for labels in (
        pd.Series(["a", None, "b"]),
        pd.Series(["a", "a", pd.NA], dtype="string"),
        [1.0, np.nan, 2.0],
        np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="datetime64[D]"),
    ):
        with pytest.raises(ValueError, match="1 of 3 are missing"):
            group_sizes(labels)
    wrong = {"sum to 7, not 6": [3, 4], "from 1 on": [0, 6], "sizes": [[6]], "label": [1, 2, 3, 1, 1, 1]}
    for said, group in wrong.items():
        with pytest.raises(ValueError, match=said):
            group_numbers(group, 6)
