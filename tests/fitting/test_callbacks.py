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

import kernelpursuit as kp
from kernelpursuit.parameters import validation
from tests.registry import DEFAULTS, smaller, targets

callback = pytest.importorskip("sklearn.callback")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Listener:
    """Keeps what it hears, and asks to stop where `stop` says so."""

    max_propagation_depth = None

    def __init__(self, stop=lambda context: False):
        self.stop, self.events, self.models = stop, [], []

    def setup(self, estimator, context):
        self.events.append(("setup", type(estimator).__name__))

    def teardown(self, estimator, context):
        self.events.append(("teardown", type(estimator).__name__))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", names(context)))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", names(context)))
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return self.stop(context)

    def tasks(self, kind):
        return [path for event, path in self.events if event == kind]

    def begun(self, name):
        """Tasks of that name that were begun, each with the names of the tasks that it is part of."""
        return [path for path in self.tasks("begin") if path[-1] == name]


def names(context):
    return (*(() if context.parent is None else names(context.parent)), context.task_name)


def after(calls):
    """Listener that asks to stop from a number of ends of steps on, as one does whose time is up."""
    ended = []

    def stop(context):
        ended.append(context.task_name == "step")
        return sum(ended) >= calls

    return Listener(stop)


def data(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


X, Y = data()
MORE, MORE_Y = data(120)


def fit(model, X=X, y=Y, **options):
    options |= {"group": [len(X)]} if isinstance(model, kp.KMPRanker) else {}
    return model.fit(X, targets(model, X, y), **options)


# ---------------------------------------------------------------------------------------------- what is heard


@pytest.mark.parametrize("model", [smaller(one) for one in DEFAULTS], ids=lambda model: type(model).__name__)
def test_every_fit_begins_and_ends_what_it_begins(model):
    """Set up once, torn down once, each task that is begun is ended, and nothing of it stays in the model."""
    few = {name: value for name, value in (("n_atoms", 4), ("random_state", 0)) if name in model.get_params()}
    listener, model = Listener(), clone(model).set_params(**few)
    plain, heard = fit(clone(model)), fit(model.set_callbacks(listener))
    name = type(model).__name__
    assert listener.events[0] == ("setup", name) and listener.events[-1] == ("teardown", name)
    assert listener.tasks("setup") == [name]
    begun, ended = listener.tasks("begin"), listener.tasks("end")
    assert sorted(begun) == sorted(ended) and begun[0] == ended[-1] == ("fit",)
    assert set(vars(heard)) - set(vars(plain)) == {"_skl_callbacks"}
    if hasattr(heard, "predict"):
        np.testing.assert_array_equal(heard.predict(X), plain.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        kp.KMPRegressor(6),
        kp.KMPRegressor(6, loss="huber", alpha=0.1),
        kp.KMPRegressor(6, variant="basic"),
        kp.KMPClassifier(6),
        kp.KMPClassifier(6, loss="log_loss", alpha=0.1),
    ],
    ids=repr,
)
def test_the_model_after_each_step(model):
    """A callback that asks for it gets the model that a fit with so many atoms would give."""
    listener = Listener()
    fit(clone(model).set_callbacks(listener), y=3 * Y)
    assert listener.begun("step") == [("fit", "pursuit", "step")] * 6
    assert len(listener.models) == 7  # and the last one is the fit itself
    for k, one in enumerate(listener.models[:6], start=1):
        alone = fit(clone(model).set_params(n_atoms=k), y=3 * Y)
        np.testing.assert_array_equal(one.support_, alone.support_)
        np.testing.assert_allclose(one.predict(X), alone.predict(X), rtol=1e-6, atol=1e-8)
        if is_classifier(model) and model.loss == "squared_error":
            np.testing.assert_allclose(one.predict_proba(X), alone.predict_proba(X), rtol=1e-6, atol=1e-8)
    assert listener.models[0]._fit_task is None  # which holds the data


@pytest.mark.parametrize("weights", [None, np.arange(60) % 3], ids=["plain", "weighted"])
def test_scores_along_the_path(weights):
    monitor = callback.ScoringMonitor(scoring="r2")
    model = kp.KMPRegressor(8).set_callbacks(monitor).fit(X, Y, sample_weight=weights)
    scores = [row["r2"] for row in monitor.get_logs().data]
    assert scores[0] == model.score(X, Y, weights) == scores[-1] > scores[1]


@pytest.mark.parametrize(("alpha", "pursuits"), [("auto", 3), (0.1, 2)])
def test_a_number_chosen_on_rows_held_out_has_a_pursuit_for_the_choice(alpha, pursuits):
    """And one with the squared loss, where that finds the ridge; its models are none of this loss."""
    listener = Listener()
    model = kp.KMPRegressor(5, stop="validation", loss="huber", alpha=alpha).set_callbacks(listener).fit(X, Y)
    assert len(listener.begun("pursuit")) == pursuits and model.path_.reason == "validation"
    assert len(listener.begun("step")) == 5 * (pursuits - 1) + len(model.path_)
    assert len(listener.models) == 5 + len(model.path_) + 1


@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_a_search_names_widths_and_folds(loss):
    listener = Listener()
    search = kp.PursuitSearchCV(kp.KMPRegressor(loss=loss), max_atoms=4, gammas=[0.1, 1.0, 5.0], cv=3)
    search.set_callbacks(listener).fit(X, Y)
    for gamma in ("gamma=0.1", "gamma=1", "gamma=5"):
        assert listener.begun(gamma) == [("fit", gamma)]
        assert len([path for path in listener.begun("step") if gamma in path]) == 12
    assert listener.begun("step")[-4:] == [("fit", "fit", "pursuit", "step")] * 4  # all rows


def test_a_search_in_a_pipeline_in_a_search():
    listener = Listener()
    inner = make_pipeline(StandardScaler(), kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=2, gammas=[0.5], cv=2))
    search = GridSearchCV(inner, {"pursuitsearchcv__estimator__variant": ["prefit", "backfit"]}, cv=2)
    search.set_callbacks(listener).fit(X, Y)
    assert len(listener.begun("gamma=0.5")) == 2 * 2 + 1
    assert listener.events[0] == ("setup", "GridSearchCV")


def test_intervals_pass_callbacks_on():
    listener = Listener()
    kp.ConformalRegressor(kp.KMPRegressor(3), coverage=0.5).set_callbacks(listener).fit(X, Y)
    assert listener.begun("step") == [("fit", "fit", "pursuit", "step")] * 3


def test_a_wrong_parameter_sets_nothing_up():
    listener = Listener()
    with pytest.raises(ValueError, match="n_atoms"):
        kp.KMPRegressor(-1).set_callbacks(listener).fit(X, Y)
    assert listener.events == []


def test_the_file_of_a_model_has_no_callbacks(tmp_path):
    pytest.importorskip("safetensors")
    model = kp.KMPRegressor(3).set_callbacks(Listener()).fit(X, Y)
    kp.save(model, tmp_path / "model")
    loaded = kp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not hasattr(loaded, "_skl_callbacks")


# ---------------------------------------------------------------------------------------------- callbacks that end fits


@pytest.mark.parametrize(
    "model",
    [kp.KMPRegressor(10), kp.KMPRegressor(), kp.KMPClassifier(10, loss="log_loss"), kp.SparseKernelPCA(10)],
    ids=repr,
)
def test_a_callback_ends_a_pursuit(model):
    listener = Listener(lambda context: context.task_name == "step" and context.task_id == 2)
    path = fit(clone(model).set_callbacks(listener)).path_
    assert len(path) <= 3 and len(path) + len(path.discarded) == len(listener.begun("step")) == 3
    assert path.reason == "callback" and "a callback ended it after 3 steps" in path.sentence


CHOSEN_ON_HELD_OUT_ROWS = [
    kp.KMPRegressor(30, stop="validation", random_state=0),
    kp.KMPRegressor(loss="huber", random_state=0),
    kp.KMPRegressor(loss="huber", alpha=0.1, random_state=0),
    kp.KMPRegressor(variant="basic", random_state=0),
    kp.KMPClassifier(loss="log_loss", random_state=0),
    kp.KMPRanker(loss="log_loss", random_state=0),
    kp.KMPRanker(10, stop="validation", random_state=0),
]


@pytest.mark.parametrize("model", CHOSEN_ON_HELD_OUT_ROWS, ids=repr)
@pytest.mark.parametrize("calls", [1, 4])
def test_a_callback_that_ends_a_choice_leaves_the_best_known_by_then(model, calls):
    listener = after(calls)
    with pytest.warns(ConvergenceWarning, match=f"a callback ended it after {calls} step.*may be worse"):
        model = fit(clone(model).set_callbacks(listener), MORE, MORE_Y)
    assert model.path_.reason == "callback" and f"a callback ended it after {calls} step" in model.path_.sentence
    assert len(model.support_) == len(model.path_) <= calls
    assert len(listener.begun("pursuit")) == 2  # the one that was ended, and that on all rows
    assert len(listener.begun("step")) == calls + len(model.path_)


def test_the_number_kept_is_that_of_the_lowest_error_so_far():
    model = kp.KMPRegressor(stop=validation(patience=20), alpha=0.0, gamma=5.0, random_state=0)
    whole = clone(model).fit(MORE, MORE_Y)
    model.set_callbacks(after(len(whole.path_) + 10)).fit(MORE, MORE_Y)
    assert model.path_.reason == "callback"
    np.testing.assert_array_equal(model.support_, whole.support_)


def test_a_callback_does_not_end_the_fit_of_what_was_chosen():
    model = kp.KMPRegressor(20, stop="validation", random_state=0)
    whole = clone(model).set_callbacks(listener := Listener()).fit(MORE, MORE_Y)
    first_of_second_pursuit = len(listener.begun("step")) - len(whole.path_) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_callbacks(after(first_of_second_pursuit)).fit(MORE, MORE_Y)
    assert model.path_.reason == "validation"
    np.testing.assert_array_equal(model.support_, whole.support_)


def test_an_interrupt_tears_down():
    def interrupt(context):
        if context.task_name == "step" and context.task_id == 2:
            raise KeyboardInterrupt

    listener = Listener(interrupt)
    model = kp.KMPRegressor(8).set_callbacks(listener)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert listener.events[-1] == ("teardown", "KMPRegressor") and len(model.support_) == 3
    assert not hasattr(model, "_fit_task")
    assert model.predict(X).shape == Y.shape


# ---------------------------------------------------------------------------------------------- searches that end

GRID = {"max_atoms": 6, "gammas": [0.5, 2.0], "cv": 3}
SEARCHES = [
    kp.PursuitSearchCV(kp.KMPRegressor(), **GRID),
    kp.PursuitSearchCV(kp.KMPRegressor(loss="huber"), **GRID),
    kp.PursuitSearchCV(kp.KMPRegressor(), **GRID, scoring="r2"),
    kp.PursuitSearchCV(kp.KMPClassifier(), **GRID),
    kp.PursuitSearchCV(kp.SparseKernelFDA(), **GRID),
]


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_callback_ends_a_search(jobs):
    """The widths that are done decide; nothing else is begun but the fit on all rows."""
    search = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=4, gammas=[0.1, 1.0], cv=3, n_jobs=jobs)
    alone = clone(search).fit(X, Y)
    search.set_params(gammas=[0.1, 1.0, 5.0]).set_callbacks(Listener(lambda context: context.task_name == "gamma=1"))
    with parallel_config(backend="threading"), pytest.warns(ConvergenceWarning, match="after 6 of 9 paths: gamma="):
        search.fit(X, Y)
    assert search.best_params_ == alone.best_params_ and set(search.cv_results_["param_gamma"]) == {0.1, 1.0}


@pytest.mark.parametrize("calls", [1, 5, 10, 16, 21])
@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_search_ends_in_the_fold_at_hand(search, calls):
    """The paths that are complete decide, or the steps of the first one, and all rows are fitted with as many atoms."""
    listener, done = after(calls), calls // 6
    with pytest.warns(ConvergenceWarning, match=f"a callback ended the search after {done} of 6 paths"):
        one = fit(clone(search).set_callbacks(listener))
    n_atoms = one.best_params_["n_atoms"]
    assert len(one.best_estimator_.support_) == n_atoms and len(listener.begun("step")) == calls + n_atoms
    if done == 0:
        assert n_atoms == calls and np.isnan(one.best_score_)
    else:
        assert one.best_score_ == np.nanmax(one.cv_results_["mean_test_score"]) and one.best_params_["gamma"] == 0.5
    if done >= 3:  # the width that is complete
        alone = fit(clone(search).set_params(gammas=[0.5]))
        assert n_atoms == alone.best_params_["n_atoms"]
        np.testing.assert_array_equal(one.best_estimator_.support_, alone.best_estimator_.support_)


@pytest.mark.parametrize("calls", [1, 10, 21])
@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_search_in_threads_ends_too(search, calls):
    with parallel_config(backend="threading"), pytest.warns(ConvergenceWarning, match="a callback ended the search"):
        one = fit(clone(search).set_params(n_jobs=2).set_callbacks(after(calls)))
    assert len(one.best_estimator_.support_) == one.best_params_["n_atoms"]


def test_a_search_without_a_score_yet_takes_the_steps_it_had():
    """The first fold has no weight, the second is ended."""
    search = kp.PursuitSearchCV(kp.KMPRegressor(loss="huber"), max_atoms=6, gammas=[0.5], cv=3).set_callbacks(after(4))
    with pytest.warns(ConvergenceWarning, match="a callback ended the search after 1 of 3 paths"):
        search.fit(X, Y, sample_weight=np.repeat([0.0, 1.0], [20, 40]))
    assert search.best_params_["n_atoms"] == len(search.best_estimator_.support_) == 4


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_callback_that_asks_to_stop_when_all_is_scored_changes_nothing(search):
    plain = fit(clone(search))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*callback")
        late = fit(clone(search).set_callbacks(after(36)))
    assert late.best_params_ == plain.best_params_
    np.testing.assert_array_equal(late.best_estimator_.support_, plain.best_estimator_.support_)


def test_refined_fits_tell_of_their_stages_and_can_be_stopped(monkeypatch):
    listener = Listener()
    model = kp.RefinedKMPRegressor(3, epochs=10, random_state=0)
    clone(model).set_callbacks(listener).fit(MORE, MORE_Y)
    stages = [path[1] for path in listener.tasks("end") if len(path) == 2]
    assert stages[-1] == "all rows" and any("bound" in one and "fold 5 of 5" in one for one in stages)
    stop_at_fold = Listener(lambda context: "fold 2" in context.task_name)
    stopped = clone(model).set_callbacks(stop_at_fold).fit(MORE, MORE_Y)  # nothing is raised
    assert stopped.moved_ == "nothing" and stopped.score(MORE, MORE_Y) > 0
    monkeypatch.setattr("kernelpursuit.refined.refining.AFFORDABLE", 0)
    stop_at_epoch = Listener(lambda context: "epoch 3" in context.task_name)
    stopped = clone(model).set_callbacks(stop_at_epoch).fit(MORE, MORE_Y)
    assert len([path for path in stop_at_epoch.tasks("end") if "epoch" in path[-1]]) == 3
    assert np.all(np.isfinite(stopped.predict(MORE)))


# ---------------------------------------------------------------------------------------------- lines


def test_lines_stand_in_for_bars_where_there_is_no_terminal(capsys, monkeypatch):
    pytest.importorskip("rich")
    search = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, gammas=[0.1, 1.0], cv=2)
    search.set_callbacks(callback.ProgressBar()).fit(X, Y)
    lines = capsys.readouterr().out
    assert "fold 2 of 2, gamma=1: best score" in lines and "1 step, " in lines
    assert "; the best so far" in lines or "; best so far gamma=0.1: mean score" in lines
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    search.fit(X, Y)
    assert "[kernelpursuit]" not in capsys.readouterr().out
    monkeypatch.delenv("FORCE_COLOR")
    grid = GridSearchCV(kp.KMPRegressor(3), {"gamma": [0.1, 1.0]}, cv=2)
    grid.set_callbacks(callback.ProgressBar()).fit(X, Y)  # four fits would say too much
    assert "[kernelpursuit]" not in capsys.readouterr().out
