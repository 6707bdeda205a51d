"""When the estimators stop, and what they print on the way."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KMPClassifier, KMPRanker, KMPRegressor, Squares, pursue
from kernelpursuit.bounds import vc_bound
from kernelpursuit.parameters import bound, leave_one_out, validation
from kernelpursuit.pursuit import Stop
from tests.problems import classes, data


def test_stop_parameter():
    X, y = data(150)
    auto = KMPRegressor(alpha=0.0).fit(X, y)
    assert auto.path_.reason == "gcv"
    loss = np.concatenate([auto.path_.values("loss"), [s.loss for s in auto.path_.discarded]])
    curve = loss / (1 - (1 + 2 * np.arange(len(loss))) / len(X)) ** 2  # two degrees of freedom an atom
    assert np.argmin(curve) == len(auto.path_) and len(auto.path_.discarded) == 10
    np.testing.assert_array_equal(auto.support_, KMPRegressor(stop="gcv").fit(X, y).support_)
    exact = KMPRegressor(stop="leave_one_out", alpha=0.0).fit(X, y).path_
    curve = np.concatenate([exact.values("leave_one_out"), [s.leave_one_out for s in exact.discarded]])
    assert exact.reason == "leave_one_out" and np.argmin(curve) == len(exact) and len(exact.discarded) == 10
    named = KMPRegressor(stop=leave_one_out(patience=3)).fit(X, y)
    assert len(named.path_.discarded) <= 3
    capped = KMPRegressor(4, stop="leave_one_out").fit(X, y)
    assert len(capped.support_) <= 4
    held_out = KMPRegressor(stop="validation", alpha=0.0, random_state=0).fit(X, y)
    assert held_out.path_.reason == "validation" and 0 < len(held_out.path_) < 120
    assert held_out.path_.values("loss")[-1] == pytest.approx(np.mean((y - held_out.predict(X)) ** 2))
    own = KMPRegressor(stop=lambda path: Stop(len(path) - 1, "mine") if len(path) == 6 else None).fit(X, y)
    assert own.path_.reason == "mine" and len(own.support_) == 5 and len(own.path_.discarded) == 1
    for options in ({"variant": "basic"}, {"loss": "huber"}):
        assert KMPRegressor(**options, random_state=0).fit(X, y).path_.reason == "validation"
        for stop in ("leave_one_out", "gcv"):
            with pytest.raises(ValueError, match=stop):
                KMPRegressor(stop=stop, **options).fit(X, y)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_stop_by_a_bound(loss):
    X, _ = data(400)
    for n_classes in (2, 3):
        y = classes(X, n_classes)
        model = KMPClassifier(stop=bound(patience=5), loss=loss, alpha=0.01).fit(X, y)
        assert model.path_.reason == "bound" and len(model.path_.discarded) == 5
        longer = KMPClassifier(len(model.path_) + 5, loss=loss, alpha=0.01).fit(X, y)
        values = [np.inf]
        for k, predicted in enumerate(longer.staged_predict(X), start=1):
            outside = np.setdiff1d(np.arange(len(X)), longer.support_[:k])
            targets, n_comparisons = (1, 1) if n_classes == 2 else (3, 3)  # pairs of classes; each has an intercept
            errors = np.sum(predicted[outside] != y[outside])
            values.append(
                vc_bound(k, len(X), errors, dimension=targets * (k + 1), n_comparisons=n_comparisons, form="tight")
            )
        assert np.argmin(values) == len(model.support_)
    X, y = data(400)
    model = KMPRegressor(stop="bound").fit(X, y)
    assert model.path_.reason == "bound" and 0 < len(model.support_) < 50
    with pytest.raises(ValueError, match="sample_weight"):
        KMPRegressor(stop="bound").fit(X, y, sample_weight=np.ones(400))


def test_classifier_stops():
    X, _ = data(120)
    for loss, n_classes in (("squared_error", 2), ("log_loss", 3), ("squared_error", 3)):
        model = KMPClassifier(loss=loss, stop=validation(patience=3), random_state=0).fit(X, classes(X, n_classes))
        assert model.path_.reason == "validation"
    assert KMPClassifier().fit(X, classes(X)).path_.reason == "gcv"


def test_too_few_rows_for_validation():
    X, y = data(1)
    with pytest.raises(ValueError, match="share"):
        KMPRegressor(stop="validation").fit(X, y)


def test_random_state_reproduces():
    X, y = data()
    for options in ({"candidates": 5}, {"centers": 20}, {"stop": "validation"}, {"candidates": (0.3, 0.8)}):
        one, two = (KMPRegressor(8, random_state=4, **options).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(one.support_, two.support_)
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
    supports = {tuple(KMPRegressor(8, random_state=s, candidates=3).fit(X, y).support_) for s in range(5)}
    assert len(supports) > 1


def test_verbose_prints_lines(capsys):
    X, y = data()
    KMPRegressor(12).fit(X, y)
    assert capsys.readouterr().out == ""
    KMPRegressor(12, verbose=1).fit(X, y)
    plan, *lines = capsys.readouterr().out.splitlines()
    assert "kernel matrix kept" in plan
    *lines, last = lines
    assert [int(line.split()[1]) for line in lines] == [1, 2, 5, 10] and all("loss" in line for line in lines)
    assert "stopped with 12 steps: 12 steps were taken, the most that n_atoms allows" in last
    KMPRegressor(12, verbose=2).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) == 1 + 12 + 1


@pytest.mark.parametrize("verdict", [True, False, 3, "enough", Stop(-1, "mine"), Stop(2.5, "mine")])
def test_a_rule_that_returns_something_else(verdict):
    X = np.random.default_rng(0).normal(size=(30, 2))

    def rule(path):
        return verdict if len(path) == 2 else None

    for fit in (
        lambda: KMPRegressor(5, stop=rule).fit(X, X[:, 0]),
        lambda: KMPClassifier(5, stop=rule).fit(X, X[:, 0] > 0),
        lambda: KMPRanker(5, stop=rule).fit(X, X[:, 0]),
        lambda: pursue(Squares(DenseDictionary(X), X[:, 0]), rule),
    ):
        with pytest.raises(ValueError, match=r"stop must return None.*Stop\(keep, reason\).*got"):
            fit()
