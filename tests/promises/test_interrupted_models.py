"""Ctrl-C inside a fit."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor
from tests.problems import data


def interrupting(calls, form=rbf_kernel):
    """Kernel that is interrupted at a call once the fit has begun."""
    count = [0]

    def kernel(A, B):
        count[0] += 1
        if count[0] == calls:
            raise KeyboardInterrupt
        return form(A, B, gamma=0.5)

    return kernel


PLAIN = [{"alpha": 0.0}, {"variant": "basic"}, {"loss": "huber", "alpha": 0.0}, {"alpha": 0.1}]


@pytest.mark.parametrize("options", PLAIN, ids=str)
@pytest.mark.parametrize("calls", [4, 5, 6, 7])
def test_interrupt_leaves_a_usable_model(options, calls):
    X, y = data()
    plain = KMPRegressor(20, gamma=0.5, **options).fit(X, y)
    model = KMPRegressor(20, kernel=interrupting(calls), memory=0, **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    if not hasattr(model, "path_"):  # before the first step
        return
    k = len(model.path_)
    assert model.path_.reason == "interrupted" and k < 20
    np.testing.assert_array_equal(model.support_, plain.truncate(k).support_)
    np.testing.assert_allclose(model.predict(X), plain.truncate(k).predict(X), rtol=1e-5, atol=1e-6)
    assert len(list(model.staged_predict(X))) == k


@pytest.mark.parametrize("calls", range(2, 9))
@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_an_interrupt_while_the_ridge_is_looked_for_is_one(loss, calls):
    X, y = data()
    model = KMPRegressor(20, kernel=interrupting(calls), memory=0, loss=loss)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    if hasattr(model, "path_"):
        k = len(model.path_)
        if loss == "squared_error":
            np.testing.assert_allclose(model.predict(X), KMPRegressor(k, gamma=0.5).fit(X, y).predict(X), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"stop": "leave_one_out"}, {"loss": "huber"}, {"stop": "validation"}], ids=str)
def test_interrupt_in_the_report_of_a_step(options, monkeypatch):
    X, y = data()

    def progress(*args):
        def callback(path):
            if len(path) == 5:
                raise KeyboardInterrupt

        return callback

    monkeypatch.setattr("kernelpursuit.fitting.pipeline.progress", progress)
    model = KMPRegressor(20, verbose=1, random_state=0, **options)
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(X, y)
    assert model.path_.reason == "interrupted" and 1 <= len(model.support_) <= 5
    assert np.all(np.isfinite(model.predict(X)))
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)


def test_interrupt_in_the_fit_after_validation(monkeypatch):
    """The first pursuit chooses the number of atoms, the second is interrupted: the model must say so."""
    X, y = data()
    runs = []

    def progress(*args):
        runs.append(1)
        second = len(runs) == 2

        def callback(path):
            if second:
                raise KeyboardInterrupt

        return callback

    monkeypatch.setattr("kernelpursuit.fitting.pipeline.progress", progress)
    model = KMPRegressor(20, verbose=1, stop="validation", random_state=0)
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        model.fit(X, y)
    assert len(model.path_) == 1 and model.path_.reason == "interrupted"
