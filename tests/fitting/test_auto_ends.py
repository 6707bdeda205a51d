"""``n_atoms="auto"`` ends in sensible time where every further atom improves the fit."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import KMPClassifier, KMPRanker, KMPRegressor
from kernelpursuit.fitting import rules
from kernelpursuit.parameters import basic, gcv, tolerance
from kernelpursuit.pursuit import n_atoms

MOST = 20


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(rules, "MOST_CHOSEN", MOST)


def without_noise(n=240):
    X = np.random.default_rng(0).normal(size=(n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("candidates", [None, 10, "growing"])
@pytest.mark.parametrize("stop", [None, "gcv", "validation", "certificate"])
def test_without_noise_auto_ends_and_says_so(candidates, stop):
    X, y = without_noise()
    with pytest.warns(ConvergenceWarning, match=f"has not found a number: .*{MOST} steps .* n_atoms='auto' allows"):
        model = KMPRegressor(candidates=candidates, stop=stop, gamma=0.3, random_state=0).fit(X, y)
    assert 0 < len(model.support_) <= MOST


@pytest.mark.parametrize("loss", ["huber", "absolute_error"])
def test_other_losses_say_it_once(loss):
    X, y = without_noise()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = KMPRegressor(loss=loss, gamma=0.3).fit(X, y)  # its ridge is that of another fit, which is cut too
    assert len(model.support_) <= MOST
    assert len([one for one in caught if "has not found a number" in str(one.message)]) == 1


def test_classes_and_orders():
    X, y = without_noise()
    with pytest.warns(ConvergenceWarning, match="has not found a number"):
        KMPClassifier(gamma=1.0, stop=gcv(patience=50)).fit(X, y > 0)
    with pytest.warns(ConvergenceWarning, match="has not found a number"):
        KMPRanker(gamma=0.3).fit(X, y, group=[120, 120])


def test_what_says_how_far_it_goes_goes_on():
    X, y = without_noise()
    assert len(KMPRegressor(3 * MOST, gamma=0.3).fit(X, y).support_) == 3 * MOST
    assert len(KMPRegressor(3 * MOST, stop="gcv", gamma=0.3).fit(X, y).support_) == 3 * MOST
    own = KMPRegressor(stop=n_atoms(2 * MOST), gamma=0.3).fit(X, y)
    assert len(own.support_) == 2 * MOST
    steps = KMPRegressor(variant=basic(0.2), gamma=0.3).fit(X, y).path_.steps
    assert len(steps) > MOST
    assert len(KMPRegressor(gamma=0.3, stop=tolerance(0.5)).fit(X, y).support_) < MOST


def test_a_fit_that_was_cut_goes_on_with_more():
    X, y = without_noise()
    model = KMPRegressor(gamma=0.3, resume=True)
    with pytest.warns(ConvergenceWarning, match="has not found a number"):
        model.fit(X, y)
    model.set_params(n_atoms=2 * MOST).fit(X, y)
    np.testing.assert_array_equal(model.support_, KMPRegressor(2 * MOST, gamma=0.3).fit(X, y).support_)


def test_memory_that_ends_it_is_said():
    X, y = without_noise()
    with pytest.warns(ConvergenceWarning, match="the most that memory allows.* and a larger `memory`"):
        model = KMPRegressor(gamma=0.3, memory=2 * 10 * len(X) * 8).fit(X, y)
    assert len(model.support_) == 10


def test_verbose_says_it(capsys):
    X, y = without_noise()
    with pytest.warns(ConvergenceWarning, match="has not found a number"):
        KMPRegressor(gamma=0.3, verbose=1).fit(X, y)
    assert f"{MOST} steps were taken, the most that n_atoms='auto' allows" in capsys.readouterr().out
