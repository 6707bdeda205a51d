"""A row of weight w is w rows, whatever the loss: also for the ridge that is chosen by evidence."""

import numpy as np
import pytest

from kernelpursuit import KMPClassifier, KMPRegressor
from kernelpursuit.losses import quantile

pytestmark = pytest.mark.filterwarnings("ignore:sample_weight sums to", "ignore:.*are duplicates of others")

MODELS = [
    (KMPRegressor, "absolute_error"), (KMPRegressor, quantile(0.5)), (KMPRegressor, "huber"), (KMPRegressor, "poisson"),
    (KMPClassifier, "log_loss"), (KMPClassifier, "squared_hinge"), (KMPClassifier, "huber"),
    (KMPClassifier, "exponential"),
]  # fmt: skip


def rows(kind, loss, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=60)
    if kind is KMPClassifier:
        return X, (y > 0.3).astype(int)
    return X, rng.poisson(np.exp(y)) if loss == "poisson" else y


def same(one, two, X):
    assert one.alpha_ == pytest.approx(two.alpha_, rel=1e-9) and np.all(one.alpha_ > 0)
    values = [
        model.decision_function(X) if isinstance(model, KMPClassifier) else model.predict(X) for model in (one, two)
    ]
    np.testing.assert_allclose(*values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "loss"), MODELS)
def test_weights_are_repetitions(kind, loss):
    X, y = rows(kind, loss)
    weights = np.random.default_rng(0).integers(0, 10, len(X))  # some of them 0
    assert np.any(weights == 0)
    weighed = kind(8, loss=loss).fit(X, y, sample_weight=weights)
    same(weighed, kind(8, loss=loss).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)), X)


@pytest.mark.parametrize(("kind", "loss"), [(KMPRegressor, "absolute_error"), (KMPClassifier, "log_loss")])
def test_a_row_may_be_given_in_parts(kind, loss):
    X, y = rows(kind, loss)
    rng = np.random.default_rng(0)
    weights, part = rng.uniform(2, 4, len(X)), rng.uniform(0.3, 0.7, len(X))
    split = np.arange(0, len(X), 3)
    parts = np.concatenate([weights, part[split] * weights[split]])
    parts[split] *= 1 - part[split]
    whole = kind(8, loss=loss).fit(X, y, sample_weight=weights)
    same(whole, kind(8, loss=loss).fit(np.concatenate([X, X[split]]), np.concatenate([y, y[split]]), parts), X)


def test_several_targets():
    X, y = rows(KMPRegressor, "absolute_error")
    Y, weights = np.column_stack([y, X[:, 2] ** 2]), np.random.default_rng(0).integers(1, 10, len(X))
    weighed = KMPRegressor(8, loss="absolute_error").fit(X, Y, sample_weight=weights)
    same(
        weighed,
        KMPRegressor(8, loss="absolute_error").fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0)),
        X,
    )
