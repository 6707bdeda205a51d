"""What refined models say of themselves: a noise for each target, weights of any size, no noise on the terminal."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import FeatureWidths, KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]), rng


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_target_has_a_noise_of_its_own(monkeypatch):
    X, f, rng = data(1300)
    Y = np.column_stack([f + 0.05 * rng.normal(size=1300), rng.normal(size=1300), np.full(1300, 3e8)])
    for by_descent in (False, True):
        if by_descent:
            monkeypatch.setattr("kernelpursuit.estimators._refined.is_affordable", lambda *sizes: False)
        model = RefinedKMPRegressor(8, random_state=0).fit(X[:300], Y[:300])
        mean, std = model.predict(X[300:], return_std=True)
        ratio = np.mean(std, axis=0)[:2] / np.sqrt(np.mean((Y[300:] - mean) ** 2, axis=0)[:2])
        assert np.all((ratio > 0.5) & (ratio < 2.5)), ratio  # one noise for both would be 7 times too large for one
        assert model.noise_[2] == 0 and np.all(std[:, 2] == 0)
        np.testing.assert_allclose(mean[:, 2], 3e8)


@pytest.mark.parametrize("make", [RefinedKMPRegressor, RefinedKMPClassifier])
def test_small_weights_are_taken_in_proportion(make):
    X, f, rng = data()
    y = f > 0 if make is RefinedKMPClassifier else f + 0.1 * rng.normal(size=200)
    weights = rng.uniform(0.5, 1.5, 200)
    weights *= 200 / weights.sum()
    expected, tiny = (make(6, random_state=0).fit(X, y, sample_weight=c * weights) for c in (1.0, 1 / 200))
    assert expected.score(X, y) > 0.9
    np.testing.assert_allclose(tiny.score(X, y), expected.score(X, y), atol=0.01)


def test_models_without_terms_are_quiet(capfd):
    """LAPACK has its own words for matrices of no rows."""
    X, _, _ = data(50)
    with pytest.warns(
        ConvergenceWarning, match="n_atoms=4 terms were asked for, but none would help: it is a constant"
    ):
        assert np.all(RefinedKMPRegressor(4, random_state=0).fit(X, np.ones(50)).predict(X) == 1)
    RefinedKMPClassifier(4, random_state=0).fit(X, np.arange(50) == 7)  # most folds have one class
    RefinedKMPRegressor(random_state=0).fit(X, (np.arange(50) == 7) * 1.0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", [FeatureWidths, RefinedKMPRegressor, KMPRegressor])
def test_one_row_far_away_is_named(make):
    X, y, _ = data(60)
    X[:, 2] = np.arange(60) == 7  # a rare indicator, which is as it should be
    make(random_state=0).fit(X, y)
    X[3, 0] = 1e4
    with pytest.warns(UserWarning, match="column 0 of X owes nearly all of its variance to row 3, where it is 1e.04"):
        make(random_state=0).fit(X, y)
