"""A fit that ends by an exception, wherever it is: the estimator is what it was before, or a whole new model."""

import sys
from contextlib import contextmanager
from copy import copy, deepcopy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import kernelpursuit as kp
from tests.registry import FEW_ATOMS, label, targets

rng = np.random.default_rng(0)
OLD, NEW = rng.normal(size=(50, 3)), rng.normal(size=(60, 4))
VALUES = {len(X): np.sin(2 * X[:, 0]) + X[:, 1] for X in (OLD, NEW)}
SHARES = (0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)  # of the calls of a fit
pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def raising(error=KeyboardInterrupt, at=None):
    """Raise at the call of that number of a function of the package. Gives the list of the calls."""
    calls = []

    def profile(frame, event, _):
        if event == "call" and "kernelpursuit" in frame.f_globals.get("__name__", ""):
            calls.append(frame.f_code.co_name)
            if len(calls) - 1 == at:
                raise error

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def task(estimator, X):
    y = targets(estimator, X, VALUES[len(X)])
    return X, y + 5 if X is NEW and y.dtype.kind == "i" else y


def use(model, X):
    values = model.predict(X) if hasattr(model, "predict") else model.transform(X)
    assert len(values) == len(X) and np.all(np.isfinite(values))
    return values


def assert_whole(model, X, y):
    use(model, X)
    assert model.n_features_in_ == X.shape[1]
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(model.classes_, np.unique(y))


def unchanged(model, before):
    return vars(model).keys() == before.keys() and all(vars(model)[name] is before[name] for name in before)


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("estimator", FEW_ATOMS, ids=label)
def test_a_fit_that_fails_leaves_what_was_there_or_a_new_model(estimator, refit):
    """An interrupt may come after the work; names of new classes beside an old model would be wrong predictions."""
    data, restored = task(estimator, NEW), 0
    start = clone(estimator).fit(*task(estimator, OLD)) if refit else clone(estimator)
    values = use(start, OLD) if refit else None
    with raising() as calls:
        clone(estimator).fit(*data)
    for turn, place in enumerate(sorted({int(share * (len(calls) - 1)) for share in SHARES})):
        error = (KeyboardInterrupt, RuntimeError)[turn % 2]
        model, failed = copy(start), False
        with raising(error, at=place):
            try:
                model.fit(*data)
            except error:
                failed = True
        if not unchanged(model, vars(start)):
            assert_whole(model, *data)
            assert not (failed and error is RuntimeError)
            continue
        restored += 1
        if refit:
            np.testing.assert_array_equal(use(model, OLD), values)
        else:
            with pytest.raises(NotFittedError):
                check_is_fitted(model)
            with pytest.raises(NotFittedError):
                use(model, NEW)
    assert restored > 0


@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_a_resumed_fit_that_fails_can_be_tried_again(loss):
    data = task(kp.KMPRegressor(), NEW)
    whole = kp.KMPRegressor(12, loss=loss).fit(*data)
    start = kp.KMPRegressor(5, loss=loss, resume=True).fit(*data)
    steps = list(start.path_.steps)
    start.set_params(n_atoms=12)
    with raising() as calls:
        deepcopy(start).fit(*data)
    count = len(calls) * 19 // 20  # generators that other tests have left may be closed while calls are counted
    for place in range(0, count, max(1, count // 10)):
        with raising(RuntimeError, at=place), pytest.raises(RuntimeError):
            start.fit(*data)
        assert start.path_.steps == steps and len(start.support_) == 5
    np.testing.assert_array_equal(start.fit(*data).support_, whole.support_)


def test_callbacks_are_told_of_the_end_of_a_fit_that_fails():
    pytest.importorskip("sklearn.callback")
    ended = []

    class Failing:
        max_propagation_depth = None

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            ended.append(estimator)

        def on_fit_task_begin(self, estimator, context):
            if context.task_name == "step":
                raise ValueError("enough")

        def on_fit_task_end(self, estimator, context):
            return False

    model = kp.KMPRegressor(3).set_callbacks(Failing())
    before = dict(vars(model))
    with pytest.raises(ValueError, match="enough"):
        model.fit(*task(model, NEW))
    assert ended == [model] and vars(model) == before
