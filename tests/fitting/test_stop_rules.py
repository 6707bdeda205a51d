"""When a fit stops: the rules of `stop`, and the limits where no number of atoms was given."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import DenseDictionary, KMPClassifier, KMPRanker, KMPRegressor, PursuitSearchCV, Squares, pursue
from kernelpursuit.fitting import rules
from kernelpursuit.losses import huber
from kernelpursuit.parameters import basic, gcv, leave_one_out, tolerance, validation
from kernelpursuit.pursuit import Stop, n_atoms
from tests.problems import classes, data

X, Y = data(150)


def with_discarded(path, name):
    """A value of all steps that were taken, whether they were kept or not."""
    return np.append(path.values(name), [getattr(step, name) for step in path.discarded])


def test_auto_keeps_the_lowest_gcv():
    auto = KMPRegressor(alpha=0.0).fit(X, Y)
    loss = with_discarded(auto.path_, "loss")
    curve = loss / (1 - (1 + 2 * np.arange(len(loss))) / len(X)) ** 2  # two degrees of freedom an atom
    assert auto.path_.reason == "gcv"
    assert np.argmin(curve) == len(auto.path_) and len(auto.path_.discarded) == 10
    np.testing.assert_array_equal(auto.support_, KMPRegressor(stop="gcv").fit(X, Y).support_)
    assert KMPClassifier().fit(X, classes(X)).path_.reason == "gcv"


def test_leave_one_out_keeps_the_lowest_error():
    path = KMPRegressor(stop="leave_one_out", alpha=0.0).fit(X, Y).path_
    assert path.reason == "leave_one_out" and len(path.discarded) == 10
    assert np.argmin(with_discarded(path, "leave_one_out")) == len(path)
    assert len(KMPRegressor(stop=leave_one_out(patience=3)).fit(X, Y).path_.discarded) <= 3
    assert len(KMPRegressor(4, stop="leave_one_out").fit(X, Y).support_) <= 4


def test_validation_fits_all_rows_again():
    model = KMPRegressor(stop="validation", alpha=0.0, random_state=0).fit(X, Y)
    k = len(model.path_)
    assert model.path_.reason == "validation" and f"lowest after {k} of {k + 10} steps" in model.path_.sentence
    assert model.path_.values("loss")[-1] == pytest.approx(np.mean((Y - model.predict(X)) ** 2))
    with pytest.raises(ValueError, match="share"):
        KMPRegressor(stop="validation").fit(X[:1], Y[:1])


@pytest.mark.parametrize("options", [{"variant": "basic"}, {"loss": "huber"}], ids=str)
def test_without_a_closed_form_auto_is_validation(options):
    assert KMPRegressor(**options, random_state=0).fit(X, Y).path_.reason == "validation"
    for stop in ("leave_one_out", "gcv"):
        with pytest.raises(ValueError, match=stop):
            KMPRegressor(stop=stop, **options).fit(X, Y)


@pytest.mark.parametrize(("loss", "n_classes"), [("squared_error", 2), ("squared_error", 3), ("log_loss", 3)])
def test_validation_of_classifiers(loss, n_classes):
    model = KMPClassifier(loss=loss, stop=validation(patience=3), random_state=0).fit(X, classes(X, n_classes))
    assert model.path_.reason == "validation"


def test_a_rule_of_the_user():
    model = KMPRegressor(stop=lambda path: Stop(len(path) - 1, "mine") if len(path) == 6 else None).fit(X, Y)
    assert model.path_.reason == "mine" and len(model.support_) == 5 and len(model.path_.discarded) == 1


@pytest.mark.parametrize("verdict", [True, False, 3, "enough", Stop(-1, "mine"), Stop(2.5, "mine")])
def test_a_rule_that_returns_something_else(verdict):
    def rule(path):
        return verdict if len(path) == 2 else None

    for fit in (
        lambda: KMPRegressor(5, stop=rule).fit(X, Y),
        lambda: KMPClassifier(5, stop=rule).fit(X, Y > 0),
        lambda: KMPRanker(5, stop=rule).fit(X, Y),
        lambda: pursue(Squares(DenseDictionary(X), Y), rule),
    ):
        with pytest.raises(ValueError, match=r"stop must return None.*Stop\(keep, reason\).*got"):
            fit()


def test_random_state_reproduces():
    for options in ({"candidates": 5}, {"centers": 20}, {"stop": "validation"}, {"candidates": (0.3, 0.8)}):
        one, two = (KMPRegressor(8, random_state=4, **options).fit(X, Y) for _ in range(2))
        np.testing.assert_array_equal(one.support_, two.support_)
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
    supports = {tuple(KMPRegressor(8, random_state=s, candidates=3).fit(X, Y).support_) for s in range(5)}
    assert len(supports) > 1


# ---------------------------------------------------------------------------------------------- other losses, variants


def outliers(n=300):
    """Some targets are far off: their squares would decide everything."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    y[rng.choice(n, n // 10, replace=False)] += rng.choice([-30.0, 30.0], n // 10)
    return X, y, np.sin(2 * X[:, 0])


def test_rows_held_out_are_judged_by_the_loss_that_is_fitted():
    X, y, truth = outliers()
    models = [KMPRegressor(loss="huber", random_state=seed).fit(X, y) for seed in range(5)]
    assert np.median([np.mean((model.predict(X) - truth) ** 2) for model in models]) < 0.03


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_search_judges_by_the_loss_that_is_fitted():
    X, y, truth = outliers()
    loss = huber(0.5)
    search = PursuitSearchCV(KMPRegressor(loss=loss, alpha=0.0), max_atoms=8, gammas=[0.3, 1.0], cv=3)
    own = clone(search).fit(X, y)
    named = clone(search).set_params(scoring=make_scorer(lambda y, f: -np.mean(loss.value(y, f)))).fit(X, y)
    np.testing.assert_allclose(own.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"])
    model = clone(search).set_params(estimator=KMPRegressor(loss="huber")).fit(X, y)
    assert np.mean((model.predict(X) - truth) ** 2) < 0.03


def test_shrinkage_slows_the_basic_variant():
    fast, slow = (KMPRegressor(20, variant=basic(share)).fit(X, Y).score(X, Y) for share in (1.0, 0.1))
    assert slow < fast


def test_the_basic_variant_takes_as_many_steps_as_it_needs():
    """It keeps no basis, so memory does not limit its steps."""
    model = KMPRegressor(variant="basic", random_state=0).fit(X, Y)
    assert len(model.path_) > 10 and model.path_.reason == "validation"
    assert "memory" not in model.path_.sentence and model.score(X, Y) > 0.7


# ------------------------------------------------------------------- n_atoms="auto" where every atom improves the fit

MOST = 20
NOT_FOUND = "has not found a number"
SMOOTH = np.random.default_rng(0).normal(size=(240, 4))
WITHOUT_NOISE = np.sin(2 * SMOOTH[:, 0]) + SMOOTH[:, 1] * SMOOTH[:, 2]


@pytest.fixture
def few(monkeypatch):
    """A fit that was given no number of atoms takes `MOST`, in place of 1,000, which would take long."""
    monkeypatch.setattr(rules, "MOST_CHOSEN", MOST)


@pytest.mark.parametrize("candidates", [None, 10, "growing"])
@pytest.mark.parametrize("stop", [None, "gcv", "validation", "certificate"])
def test_auto_ends_and_warns(candidates, stop, few, capsys):
    model = KMPRegressor(candidates=candidates, stop=stop, gamma=0.3, random_state=0, verbose=1)
    with pytest.warns(ConvergenceWarning, match=f"{NOT_FOUND}: .*{MOST} steps .* n_atoms='auto' allows"):
        model.fit(SMOOTH, WITHOUT_NOISE)
    assert 0 < len(model.support_) <= MOST
    assert f"{MOST} steps were taken, the most that n_atoms='auto' allows" in capsys.readouterr().out


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(loss="huber", gamma=0.3),  # its ridge is that of another fit, which is cut too
        KMPRegressor(loss="absolute_error", gamma=0.3),
        KMPClassifier(gamma=1.0, stop=gcv(patience=50)),
        KMPRanker(gamma=0.3),
    ],
    ids=repr,
)
def test_other_estimators_warn_once(model, few):
    y = WITHOUT_NOISE > 0 if isinstance(model, KMPClassifier) else WITHOUT_NOISE
    group = {"group": [120, 120]} if isinstance(model, KMPRanker) else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(SMOOTH, y, **group)
    assert len(model.support_) <= MOST
    assert len([one for one in caught if NOT_FOUND in str(one.message)]) == 1


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"n_atoms": 3 * MOST}, [3 * MOST]),
        ({"n_atoms": 3 * MOST, "stop": "gcv"}, [3 * MOST]),
        ({"stop": n_atoms(2 * MOST)}, [2 * MOST]),
        ({"stop": tolerance(0.5)}, range(1, MOST)),
        ({"variant": basic(0.2)}, range(MOST + 1, 1000)),
    ],
    ids=["number", "number and rule", "own rule", "tolerance", "basic"],
)
def test_fits_that_know_where_to_end_are_not_cut(options, steps, few):
    assert len(KMPRegressor(gamma=0.3, **options).fit(SMOOTH, WITHOUT_NOISE).path_) in steps


def test_a_fit_that_was_cut_goes_on_with_more(few):
    model = KMPRegressor(gamma=0.3, resume=True)
    with pytest.warns(ConvergenceWarning, match=NOT_FOUND):
        model.fit(SMOOTH, WITHOUT_NOISE)
    model.set_params(n_atoms=2 * MOST).fit(SMOOTH, WITHOUT_NOISE)
    whole = KMPRegressor(2 * MOST, gamma=0.3).fit(SMOOTH, WITHOUT_NOISE)
    np.testing.assert_array_equal(model.support_, whole.support_)


def test_a_fit_that_memory_ends_warns():
    with pytest.warns(ConvergenceWarning, match="the most that memory allows.* and a larger `memory`"):
        model = KMPRegressor(gamma=0.3, memory=2 * 10 * len(SMOOTH) * 8).fit(SMOOTH, WITHOUT_NOISE)
    assert len(model.support_) == 10


def test_several_classes_have_two_atoms_each_at_least():
    """Left-out error rates of 100 easy rows cannot tell three terms from six; new rows can."""
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), KMPClassifier())
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    assert cross_val_score(model, X, y, cv=folds).mean() > 0.96
    assert len(model.fit(X, y)[-1].path_) >= 6
