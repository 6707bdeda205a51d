"""Ctrl-C inside `fit`, for every estimator: the model of the steps finished so far, and the interrupt goes on."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

import kernelpursuit as kp
from kernelpursuit.fitting import pipeline
from kernelpursuit.search import search
from tests.pairwise import pairwise
from tests.registry import BY_DESCENT, DRAWING, MODELS, target_of

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=80)
STEPS = 3
ESTIMATORS = {
    name: (model, target_of(kind, X, Y)) for name, (model, kind) in (MODELS | BY_DESCENT | DRAWING).items()
} | {
    "ranker-logistic": (kp.KMPRanker(10, loss="log_loss", random_state=0), Y),
    "ranker-validated": (kp.KMPRanker(stop="validation", random_state=0), Y),
}


@pytest.fixture
def interrupted(monkeypatch):
    """Pursuits are interrupted after so many steps, from the pursuit of one number on to that of another."""
    pursue = pipeline.pursue
    plan = {"steps": STEPS, "from": 1, "to": np.inf, "runs": 0}

    def interrupting(criterion, stop, *rest):
        plan["runs"] += 1

        def rule(path):
            if plan["from"] <= plan["runs"] <= plan["to"] and len(path) == plan["steps"] and not path.ending:
                raise KeyboardInterrupt
            return stop(path)

        return pursue(criterion, rule, *rest)

    monkeypatch.setattr(pipeline, "pursue", interrupting)
    return plan


def use(model):
    values = model.predict(X) if hasattr(model, "predict") else model.transform(X)
    assert len(values) == len(X) and np.all(np.isfinite(values))
    return values


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_interrupt_leaves_a_usable_model_and_goes_on(name, interrupted):
    estimator, y = ESTIMATORS[name]
    model = type(estimator)(**estimator.get_params(deep=False))
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 steps"):
        model.fit(X, y)
    use(model)
    inner = getattr(model, "estimator_", getattr(model, "best_estimator_", model))
    assert inner.path_.reason == "interrupted" and len(inner.path_) + len(inner.path_.discarded) == STEPS
    assert interrupted["runs"] == 1 + name.startswith("cv")  # a search fits as many steps to all rows


SEARCHES = ["cv", "cv-classes", "cv-fda"]
OPTIONS = {}, {"estimator__memory": 0}


@pytest.mark.parametrize(("done", "name", "options"), pairwise([0, 2, 3, 4, 8, 9], SEARCHES, OPTIONS))
def test_an_interrupt_in_a_search(name, done, options, interrupted):
    """The best of what is known is fitted to all rows; after all paths this fit itself is interrupted."""
    widths = done // 3
    estimator, y = ESTIMATORS[name]
    gammas = [1e-4, 0.3, 1e-3]
    model = clone(estimator).set_params(max_atoms=10, cv=3, gammas=gammas, **options)
    interrupted |= {"from": done + 1, "to": done + 1}
    with pytest.raises(KeyboardInterrupt, match="after 3 steps" if done == 9 else f"after {done} of 9 paths"):
        model.fit(X, y)
    use(model)
    scores = model.cv_results_["mean_test_score"].reshape(max(1, widths), 10)
    assert np.all(np.isfinite(scores)) == bool(done)
    assert model.best_params_["gamma"] == gammas[int(np.argmax(scores.max(axis=1))) if done else 0]
    assert len(model.best_estimator_.path_) == (STEPS if done == 9 else model.best_params_["n_atoms"])
    assert done or model.best_params_["n_atoms"] == STEPS
    assert np.isfinite(model.best_score_) == bool(done)
    assert interrupted["runs"] == done + 2 - (done == 9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_left_of_an_interrupt_before_the_first_step(name, interrupted):
    estimator, y = ESTIMATORS[name]
    model = type(estimator)(**estimator.get_params(deep=False))
    interrupted |= {"steps": 0}
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_landmarks_chosen_by_y_outlive_an_interrupt_among_the_others(interrupted):
    interrupted |= {"from": 2, "steps": 2}
    model = kp.PursuitNystroem(n_components=60, selection="prefit")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert 2 < len(model.component_indices_) < 60 and use(model).shape[1] == len(model.component_indices_)


def test_a_search_is_not_deceived(interrupted):
    interrupted |= {"from": 2}
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(kp.KMPRegressor(10), {"gamma": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert interrupted["runs"] == 2


def test_an_interrupt_while_a_fold_is_scored(monkeypatch):
    """Folds that have their scores decide; so it is after the last one, where an interrupt must not get lost."""
    calls = []

    def scoring(model, X, y):
        calls.append(len(model.support_))
        if len(calls) == 15:
            raise KeyboardInterrupt
        return model.score(X, y)

    model = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=10, gammas=[0.3], cv=3, scoring=scoring)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 1 of 3 paths of the search"):
        model.fit(X, Y)
    use(model)

    def interrupting(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "best_so_far", interrupting)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 of 3 paths of the search"):
        model.set_params(scoring=None, verbose=1).fit(X, Y)
    assert len(model.best_estimator_.support_) == model.best_params_["n_atoms"]
    use(model)


PLAIN = [{"alpha": 0.0}, {"variant": "basic"}, {"loss": "huber", "alpha": 0.0}, {"alpha": 0.1}, {}, {"loss": "huber"}]


@pytest.mark.parametrize("options", PLAIN, ids=str)
@pytest.mark.parametrize("calls", range(2, 9))
def test_an_interrupt_in_a_kernel(options, calls):
    """While the ridge is looked for, or in the pursuit: the model of the steps that were finished."""
    count = iter(range(1, 10_000))

    def kernel(A, B):
        if next(count) == calls:
            raise KeyboardInterrupt
        return rbf_kernel(A, B, gamma=0.5)

    model = kp.KMPRegressor(20, kernel=kernel, memory=0, **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    if not hasattr(model, "path_"):  # before the first step
        return
    k = len(model.path_)
    assert model.path_.reason == "interrupted" and k < 20
    assert len(list(model.staged_predict(X))) == k
    if options != {"loss": "huber"}:  # whose ridge is that of the interrupted search
        plain = kp.KMPRegressor(k, gamma=0.5, **options).fit(X, Y)
        np.testing.assert_array_equal(model.support_, plain.support_)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "run"),
    [({}, 1), ({"stop": "leave_one_out"}, 1), ({"loss": "huber"}, 1), *(({"stop": "validation"}, n) for n in (1, 2))],
    ids=str,
)
def test_an_interrupt_in_the_report_of_a_step(options, run, monkeypatch):
    """The first pursuit of a validation chooses the number of atoms, the second is the model."""
    runs = []

    def progress(*_):
        runs.append(1)
        first = 1 if len(runs) == run == 2 else 5 if len(runs) == run else np.inf

        def callback(path):
            if len(path) >= first:
                raise KeyboardInterrupt

        return callback

    monkeypatch.setattr(pipeline, "progress", progress)
    model = kp.KMPRegressor(20, verbose=1, random_state=0, **options)
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(X, Y)
    assert model.path_.reason == "interrupted" and 1 <= len(model.support_) <= (5 if run == 1 else 1)
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)
    use(model)
