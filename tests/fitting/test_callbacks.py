"""scikit-learn's callbacks: what they hear of a fit, how they end it, and lines where bars cannot be drawn."""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelpursuit
from kernelpursuit import (
    ConformalRegressor,
    KMPClassifier,
    KMPRanker,
    KMPRegressor,
    PursuitSearchCV,
    RefinedKMPRegressor,
    SparseKernelFDA,
    SparseKernelPCA,
)
from kernelpursuit.parameters import validation
from tests.registry import CLASSES, DEFAULTS, smaller, targets

callback = pytest.importorskip("sklearn.callback")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ONE_OF_EACH = [smaller(one) for one in DEFAULTS]


class Heard:
    """Notes what it hears, and asks to stop where `stop` says so."""

    max_propagation_depth = None

    def __init__(self, stop=lambda context: False):
        self.stop, self.events, self.models = stop, [], []

    def setup(self, estimator, context):
        self.events.append(("setup", type(estimator).__name__))

    def teardown(self, estimator, context):
        self.events.append(("teardown", type(estimator).__name__))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", way(context)))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", way(context)))
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return self.stop(context)

    def begun(self, last):
        return [path for kind, path in self.events if kind == "begin" and path[-1] == last]


def way(context):
    return (*(() if context.parent is None else way(context.parent)), context.task_name)


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def fitted(model, X, y):
    return model.fit(X, y, group=[len(X)]) if isinstance(model, KMPRanker) else model.fit(X, y)


@pytest.mark.parametrize("model", ONE_OF_EACH, ids=lambda model: type(model).__name__)
def test_every_fit_begins_and_ends_what_it_begins(model):
    """Set up once, torn down once, each task that is begun is ended, and nothing of it stays in the model."""
    X, y = data()
    few = {name: value for name, value in (("n_atoms", 4), ("random_state", 0)) if name in model.get_params()}
    heard, model = Heard(), clone(model).set_params(**few)
    plain = fitted(clone(model), X, targets(model, X, y))
    told = fitted(model.set_callbacks(heard), X, targets(model, X, y))
    name = type(model).__name__
    assert heard.events[0] == ("setup", name) and heard.events[-1] == ("teardown", name)
    assert [kind for kind, _ in heard.events].count("setup") == 1
    begun, ended = ([path for kind, path in heard.events if kind == which] for which in ("begin", "end"))
    assert sorted(begun) == sorted(ended) and begun[0] == ended[-1] == ("fit",)
    assert set(vars(told)) - set(vars(plain)) == {"_skl_callbacks"}
    if hasattr(told, "predict"):
        np.testing.assert_array_equal(told.predict(X), plain.predict(X))


def test_every_estimator_takes_callbacks():
    assert all(hasattr(make, "set_callbacks") for make in CLASSES)


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(6),
        KMPRegressor(6, loss="huber", alpha=0.1),
        KMPRegressor(6, variant="basic"),
        KMPClassifier(6),
        KMPClassifier(6, loss="log_loss", alpha=0.1),
    ],
    ids=repr,
)
def test_the_model_after_each_step(model):
    """A callback that asks for it gets the model that a fit with so many atoms would give."""
    X, y = data()
    y = 3 * targets(model, X, y)
    heard = Heard()
    model = clone(model).set_callbacks(heard).fit(X, y)
    assert heard.begun("step") == [("fit", "pursuit", "step")] * 6
    assert len(heard.models) == 7  # and the last one is the fit itself
    for k, one in enumerate(heard.models[:6], start=1):
        alone = clone(model).set_params(n_atoms=k).set_callbacks().fit(X, y)
        np.testing.assert_array_equal(one.support_, alone.support_)
        np.testing.assert_allclose(one.predict(X), alone.predict(X), rtol=1e-6, atol=1e-8)
        if is_classifier(model) and model.loss == "squared_error":
            np.testing.assert_allclose(one.predict_proba(X), alone.predict_proba(X), rtol=1e-6, atol=1e-8)
    assert heard.models[0]._fit_task is None  # which holds the data


def test_scores_along_the_path():
    X, y = data()
    monitor = callback.ScoringMonitor(scoring="r2")
    model = KMPRegressor(8).set_callbacks(monitor).fit(X, y)
    scores = [row["r2"] for row in monitor.get_logs().data]
    assert scores[0] == model.score(X, y) == scores[-1] > scores[1]
    weighed = callback.ScoringMonitor(scoring="r2")
    w = np.arange(len(y)) % 3
    model = KMPRegressor(3).set_callbacks(weighed).fit(X, y, sample_weight=w)
    assert weighed.get_logs().data[0]["r2"] == model.score(X, y, w)


@pytest.mark.parametrize(
    "model", [KMPRegressor(10), KMPRegressor(), KMPClassifier(10, loss="log_loss"), SparseKernelPCA(10)], ids=repr
)
def test_a_callback_ends_a_pursuit(model):
    X, y = data()
    stop = Heard(lambda context: context.task_name == "step" and context.task_id == 2)
    model = clone(model).set_callbacks(stop).fit(X, targets(model, X, y))
    assert len(model.path_) <= 3 and len(model.path_) + len(model.path_.discarded) == 3
    assert model.path_.reason == "callback" and "a callback ended it after 3 steps" in model.path_.sentence
    assert len(stop.begun("step")) == 3


@pytest.mark.parametrize("alpha, pursuits", [("auto", 3), (0.1, 2)])
def test_a_number_chosen_on_rows_held_out_has_a_pursuit_for_the_choice(alpha, pursuits):
    """And one with the squared loss, where that finds the ridge; its models are none of this loss."""
    X, y = data()
    heard = Heard()
    model = KMPRegressor(5, stop="validation", loss="huber", alpha=alpha).set_callbacks(heard).fit(X, y)
    assert len(heard.begun("pursuit")) == pursuits and model.path_.reason == "validation"
    assert len(heard.begun("step")) == 5 * (pursuits - 1) + len(model.path_)
    assert len(heard.models) == 5 + len(model.path_) + 1


def after(calls, tasks=("step",)):
    """Callback that asks to stop from a number of ends of tasks on, as one does whose time is up."""
    ended = []

    def stop(context):
        ended.append(context.task_name in tasks)
        return sum(ended) >= calls

    return Heard(stop)


CHOSEN_ON_HELD_OUT_ROWS = [
    KMPRegressor(30, stop="validation", random_state=0),
    KMPRegressor(loss="huber", random_state=0),
    KMPRegressor(loss="huber", alpha=0.1, random_state=0),
    KMPRegressor(variant="basic", random_state=0),
    KMPClassifier(loss="log_loss", random_state=0),
    KMPRanker(loss="log_loss", random_state=0),
    KMPRanker(10, stop="validation", random_state=0),
]


@pytest.mark.parametrize("model", CHOSEN_ON_HELD_OUT_ROWS, ids=repr)
@pytest.mark.parametrize("calls", [1, 4])
def test_a_callback_that_ends_a_choice_leaves_the_best_known_by_then(model, calls):
    X, y = data(120)
    stop = after(calls)
    with pytest.warns(ConvergenceWarning, match=f"a callback ended it after {calls} step.*may be worse"):
        model = fitted(clone(model).set_callbacks(stop), X, targets(model, X, y))
    assert model.path_.reason == "callback" and f"a callback ended it after {calls} step" in model.path_.sentence
    assert len(model.support_) == len(model.path_) <= calls
    assert len(stop.begun("pursuit")) == 2  # the one that was ended, and that on all rows
    assert len(stop.begun("step")) == calls + len(model.path_)


def test_the_number_kept_is_that_of_the_lowest_error_so_far():
    X, y = data(120)
    one = KMPRegressor(stop=validation(patience=20), alpha=0.0, gamma=5.0, random_state=0)
    whole = clone(one).fit(X, y)
    stop = after(len(whole.path_) + 10)
    model = clone(one).set_callbacks(stop).fit(X, y)
    assert model.path_.reason == "callback"
    np.testing.assert_array_equal(model.support_, whole.support_)


def test_a_callback_does_not_end_the_fit_of_what_was_chosen():
    X, y = data(120)
    one = KMPRegressor(20, stop="validation", random_state=0)
    whole = clone(one).set_callbacks(heard := Heard()).fit(X, y)
    stop = after(len(heard.begun("step")) - len(whole.path_) + 1)  # the first step of the second pursuit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(one).set_callbacks(stop).fit(X, y)
    assert model.path_.reason == "validation"
    np.testing.assert_array_equal(model.support_, whole.support_)


@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_a_search_says_widths_and_folds(loss):
    X, y = data()
    model = PursuitSearchCV(KMPRegressor(loss=loss), max_atoms=4, gammas=[0.1, 1.0, 5.0], cv=3)
    heard = Heard()
    model.set_callbacks(heard).fit(X, y)
    for gamma in ("gamma=0.1", "gamma=1", "gamma=5"):
        assert heard.begun(gamma) == [("fit", gamma)]
        steps = [path for path in heard.begun("step") if gamma in path]
        assert len(steps) == 12
    assert heard.begun("step")[-4:] == [("fit", "fit", "pursuit", "step")] * 4  # all rows


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_callback_ends_a_search(jobs):
    """The widths that are done decide; nothing else is begun but the fit on all rows."""
    X, y = data()
    gammas = [0.1, 1.0, 5.0]
    stop = Heard(lambda context: context.task_name == "gamma=1")
    model = PursuitSearchCV(KMPRegressor(), max_atoms=4, gammas=gammas, cv=3, n_jobs=jobs).set_callbacks(stop)
    with parallel_config(backend="threading"), pytest.warns(ConvergenceWarning, match="after 6 of 9 paths: gamma="):
        model.fit(X, y)
    assert sorted(set(model.cv_results_["param_gamma"])) == gammas[:2]
    alone = PursuitSearchCV(KMPRegressor(), max_atoms=4, gammas=gammas[:2], cv=3).fit(X, y)
    assert model.best_params_ == alone.best_params_


SEARCHES = [
    PursuitSearchCV(KMPRegressor(), max_atoms=6, gammas=[0.5, 2.0], cv=3),
    PursuitSearchCV(KMPRegressor(loss="huber"), max_atoms=6, gammas=[0.5, 2.0], cv=3),
    PursuitSearchCV(KMPRegressor(), max_atoms=6, gammas=[0.5, 2.0], cv=3, scoring="r2"),
    PursuitSearchCV(KMPClassifier(), max_atoms=6, gammas=[0.5, 2.0], cv=3),
    PursuitSearchCV(SparseKernelFDA(), max_atoms=6, gammas=[0.5, 2.0], cv=3),
]


@pytest.mark.parametrize("calls", [1, 5, 10, 16, 21])
@pytest.mark.parametrize("model", SEARCHES, ids=repr)
def test_a_search_ends_in_the_fold_at_hand(model, calls):
    """The paths that are complete decide, or the steps of the first one, and all rows are fitted with as many atoms."""
    X, y = data()
    stop = after(calls)
    with pytest.warns(ConvergenceWarning, match="a callback ended the search after") as warned:
        one = clone(model).set_callbacks(stop).fit(X, targets(model, X, y))
    assert len(one.best_estimator_.support_) == one.best_params_["n_atoms"]
    in_folds = len(stop.begun("step")) - one.best_params_["n_atoms"]
    assert in_folds == calls
    done = in_folds // 6
    assert any(f"after {done} of 6 paths" in str(one.message) for one in warned)
    if done == 0:
        assert one.best_params_["n_atoms"] == in_folds == calls and np.isnan(one.best_score_)
    else:
        assert one.best_score_ == np.nanmax(one.cv_results_["mean_test_score"]) and one.best_params_["gamma"] == 0.5
    if done >= 3:  # the width that is complete
        alone = clone(model).set_params(gammas=[0.5]).fit(X, targets(model, X, y))
        assert one.best_params_["n_atoms"] == alone.best_params_["n_atoms"]
        np.testing.assert_array_equal(one.best_estimator_.support_, alone.best_estimator_.support_)


@pytest.mark.parametrize("calls", [1, 10, 21])
@pytest.mark.parametrize("model", SEARCHES, ids=repr)
def test_folds_side_by_side_end_too(model, calls):
    X, y = data()
    one = clone(model).set_params(n_jobs=2).set_callbacks(after(calls))
    with parallel_config(backend="threading"), pytest.warns(ConvergenceWarning, match="a callback ended the search"):
        one.fit(X, targets(model, X, y))
    assert len(one.best_estimator_.support_) == one.best_params_["n_atoms"]


def test_a_search_without_a_score_yet_takes_the_steps_it_had():
    """The first fold has no weight, the second is ended."""
    X, y = data()
    weights = np.ones(len(y))
    weights[:20] = 0
    model = PursuitSearchCV(KMPRegressor(loss="huber"), max_atoms=6, gammas=[0.5], cv=3).set_callbacks(after(4))
    with pytest.warns(ConvergenceWarning, match="a callback ended the search after 1 of 3 paths"):
        model.fit(X, y, sample_weight=weights)
    assert model.best_params_["n_atoms"] == len(model.best_estimator_.support_) == 4


@pytest.mark.parametrize("model", SEARCHES, ids=repr)
def test_a_callback_that_asks_to_stop_when_all_is_scored_changes_nothing(model):
    X, y = data()
    plain = clone(model).fit(X, targets(model, X, y))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*callback")
        told = clone(model).set_callbacks(after(36)).fit(X, targets(model, X, y))
    assert told.best_params_ == plain.best_params_
    np.testing.assert_array_equal(told.best_estimator_.support_, plain.best_estimator_.support_)


def test_a_search_in_a_pipeline_in_a_search():
    X, y = data()
    heard = Heard()
    inner = make_pipeline(StandardScaler(), PursuitSearchCV(KMPRegressor(), max_atoms=2, gammas=[0.5], cv=2))
    search = GridSearchCV(inner, {"pursuitsearchcv__estimator__variant": ["prefit", "backfit"]}, cv=2)
    search.set_callbacks(heard).fit(X, y)
    assert len(heard.begun("gamma=0.5")) == 2 * 2 + 1
    assert heard.events[0] == ("setup", "GridSearchCV")


def test_intervals_pass_callbacks_on():
    X, y = data()
    heard = Heard()
    ConformalRegressor(KMPRegressor(3), coverage=0.5).set_callbacks(heard).fit(X, y)
    assert heard.begun("step") == [("fit", "fit", "pursuit", "step")] * 3


def test_an_interrupt_tears_down():
    X, y = data()

    def interrupt(context):
        if context.task_name == "step" and context.task_id == 2:
            raise KeyboardInterrupt

    heard = Heard(interrupt)
    model = KMPRegressor(8).set_callbacks(heard)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert heard.events[-1] == ("teardown", "KMPRegressor") and len(model.support_) == 3
    assert not hasattr(model, "_fit_task")
    assert model.predict(X).shape == y.shape


def test_a_wrong_parameter_sets_nothing_up():
    heard = Heard()
    with pytest.raises(ValueError, match="n_atoms"):
        KMPRegressor(-1).set_callbacks(heard).fit(*data())
    assert heard.events == []


def test_the_file_of_a_model_has_no_callbacks(tmp_path):
    pytest.importorskip("safetensors")
    X, y = data()
    model = KMPRegressor(3).set_callbacks(Heard()).fit(X, y)
    kernelpursuit.save(model, tmp_path / "model")
    loaded = kernelpursuit.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not hasattr(loaded, "_skl_callbacks")


def test_lines_stand_in_for_bars_where_there_is_no_terminal(capsys, monkeypatch):
    pytest.importorskip("rich")
    X, y = data()
    model = PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[0.1, 1.0], cv=2)
    model.set_callbacks(callback.ProgressBar()).fit(X, y)
    said = capsys.readouterr().out
    assert "fold 2 of 2, gamma=1: best score" in said
    assert "; the best so far" in said or "; best so far gamma=0.1: mean score" in said
    assert "1 step, " in said
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    model.fit(X, y)
    assert "[kernelpursuit]" not in capsys.readouterr().out
    with_lines = GridSearchCV(KMPRegressor(3), {"gamma": [0.1, 1.0]}, cv=2)
    monkeypatch.delenv("FORCE_COLOR")
    with_lines.set_callbacks(callback.ProgressBar()).fit(X, y)  # four fits would say too much
    assert "[kernelpursuit]" not in capsys.readouterr().out


@pytest.mark.parametrize("jobs", [None, 2])
def test_long_searches_say_fold_width_and_best_so_far(capfd, jobs):
    X, y = data()
    with parallel_config(backend="threading"):
        PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[1.0, 1e-4], cv=2, verbose=1, n_jobs=jobs).fit(X, y)
    lines = [line for line in capfd.readouterr().out.splitlines() if "mean score" in line]
    assert lines[0].startswith("[kernelpursuit] gamma=1: mean score") and lines[0].endswith("; the best so far")
    assert "gamma=0.0001: mean score" in lines[1] and "; best so far gamma=1: mean score" in lines[1]
    assert "chosen: gamma=1" in lines[2]


def test_refined_fits_tell_of_their_stages_and_can_be_stopped(monkeypatch):
    X, y = data(120)
    heard = Heard()
    RefinedKMPRegressor(3, epochs=10, random_state=0).set_callbacks(heard).fit(X, y)
    stages = [path[1] for kind, path in heard.events if kind == "end" and len(path) == 2]
    assert stages[-1] == "all rows" and any("bound" in one and "fold 5 of 5" in one for one in stages)
    second = Heard(stop=lambda context: "fold 2" in context.task_name)
    model = RefinedKMPRegressor(3, epochs=10, random_state=0).set_callbacks(second).fit(X, y)  # nothing is raised
    assert model.moved_ == "nothing" and model.score(X, y) > 0
    monkeypatch.setattr("kernelpursuit.refined.refining.AFFORDABLE", 0)
    third = Heard(stop=lambda context: "epoch 3" in context.task_name)
    model = RefinedKMPRegressor(3, epochs=10, random_state=0).set_callbacks(third).fit(X, y)
    assert len([path for kind, path in third.events if kind == "end" and "epoch" in path[-1]]) == 3
    assert np.all(np.isfinite(model.predict(X)))
