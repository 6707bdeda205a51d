"""What refined models say of themselves: a noise for each target, weights of any size, no noise on the terminal."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.refined.base import outcome_of
from kernelpursuit.refined.evidence import Evidence
from kernelpursuit.refined.judging import Judged
from kernelpursuit.refined.moving_atoms import Atoms
from kernelpursuit.refined.refining import Fit, RefinementSetting, Start, Task, squared_errors


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
            monkeypatch.setattr("kernelpursuit.refined.base.is_affordable", lambda *sizes: False)
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
    expected, tiny = (make(6, random_state=0, epochs=20).fit(X, y, sample_weight=c * weights) for c in (1.0, 1 / 200))
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


@pytest.mark.parametrize("make", [RefinedKMPRegressor, RefinedKMPClassifier])
@pytest.mark.parametrize(
    ("distinct", "times", "wanted", "terms"),
    [(40, 1, 39, "(31|32) terms"), (2, 1, 5, "1 term"), (5, 20, 5, "4 terms")],
)
def test_what_limits_the_number_of_terms_is_said(make, distinct, times, wanted, terms):
    """It is how many rows are not held out, 32 of 40 here, not that rows depend on each other."""
    X = np.random.default_rng(0).normal(size=(distinct, 3)).repeat(times, axis=0)
    y = X[:, 0] > np.median(X[:, 0]) if make is RefinedKMPClassifier else X[:, 0]
    words = rf"^n_atoms={wanted} terms .* the model has {terms}: more of them, .* rows that are not held out\."
    with pytest.warns(ConvergenceWarning, match=words):
        model = make(wanted, epochs=2, random_state=0).fit(X, y)
    assert len(model.widths_) < min(wanted, distinct)


@pytest.mark.parametrize(("of_folds", "held_out", "factor"), [(4.0, 1.5, 1.0), (4.0, 0.1, 0.1), (0.5, 2.0, 4.0)])
def test_rows_held_out_lower_the_variance_no_further_than_to_their_errors(of_folds, held_out, factor):
    """Variance that the folds predict and that of the errors, of a model whose own is 1; the factor that it gets."""
    X, f, _ = data(60)
    task = Task(X, f[:, None], None, squared_errors, 1e-7)
    atoms, nothing = Atoms(X[:2], np.zeros(2), np.zeros(3)), np.zeros((2, 2))
    fit = Fit(Evidence(atoms, 1.0, 60 / 61, 0.0), nothing[:, :1], np.zeros(1), np.zeros(2), nothing, 60)
    judged = Judged(RefinementSetting(2, Start(1.0)), np.zeros(60), task.Y - np.sqrt(held_out), of_folds)
    np.testing.assert_allclose(outcome_of(fit, task, (np.arange(60), judged)).inflation, factor)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_noise_the_deviation_is_of_the_size_of_the_errors():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 3))
    y = np.exp(-(X[:, 0] ** 2)) * X[:, 1] + 0.5 * X[:, 2]
    mean, std = RefinedKMPRegressor(30, random_state=0).fit(X[:300], y[:300]).predict(X[300:], return_std=True)
    ratio = np.sqrt(np.mean(std**2) / np.mean((y[300:] - mean) ** 2))
    assert 0.7 < ratio < 3, ratio


@pytest.mark.parametrize("n", [1, 2, 9])
def test_deviations_of_few_rows_say_that_they_mean_little(n):
    X, y, _ = data(20)
    model = RefinedKMPRegressor(random_state=0).fit(X[:n], y[:n])
    with pytest.warns(UserWarning, match=f"of a model of {n} row.*do not rely"):
        model.predict(X, return_std=True)


@pytest.mark.filterwarnings("error:return_std")
def test_deviations_of_more_rows_are_silent():
    X, y, _ = data(20)
    RefinedKMPRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
    RefinedKMPRegressor(random_state=0).fit(X[:2], y[:2]).predict(X)
