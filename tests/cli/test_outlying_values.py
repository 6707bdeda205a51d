"""Which values of a column count as outlying: few that are far beyond all others, not the tail of a distribution."""

import numpy as np
import pytest

from kernelpursuit.cli.outlying_values import outlying_values

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))


def found(X):
    return [(column, rows.tolist()) for column, rows in outlying_values(X)]


def test_few_rows_far_beyond_all_others():
    assert found(X) == []
    several = X.copy()
    several[[7, 20, 31], 1] = [-2e6, 8e5, 1e6]
    assert found(several) == [(1, [7, 20, 31])]
    coded = np.tile(X, (4, 1))
    coded[:9, 1] = -9999
    assert found(coded) == [(1, list(range(9)))]


@pytest.mark.parametrize("draw", ["lognormal", "exponential", "standard_t"])
@pytest.mark.parametrize("shape", [(20, 1), (200, 3), (500, 10)])
def test_heavy_tails_have_none(draw, shape):
    options = {"df": 3} if draw == "standard_t" else {}
    for seed in range(100):
        assert found(getattr(np.random.default_rng(seed), draw)(size=shape, **options)) == []


def test_rare_indicators_and_few_rows_have_none():
    counts = np.zeros((60, 2))
    counts[3] = 1
    assert found(counts) == [] and found(np.r_[X[:8], [[1e6, 0, 0]]]) == []
