"""Every loss classifies."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kernelpursuit import KMPClassifier
from kernelpursuit.losses import LOSSES
from tests.pairwise import pairwise
from tests.problems import classes, data, quiet_fit

ALL_LOSSES = [*LOSSES, "huber"]


@pytest.mark.filterwarnings("ignore:loss='doom2' with variant='basic'")  # which has no ridge by default, and says so
@pytest.mark.parametrize(("loss", "n_classes", "variant"), pairwise(ALL_LOSSES, [2, 3], ["prefit", "backfit", "basic"]))
def test_every_loss_classifies(loss, n_classes, variant):
    X, _ = data(80)
    y = np.array(["ant", "bee", "cat"])[classes(X, n_classes)]
    model = KMPClassifier(12, loss=loss, variant=variant).fit(X, y)
    decision = model.decision_function(X)
    assert np.all(np.isfinite(decision)) and decision.shape == ((80,) if n_classes == 2 else (80, 3))
    assert list(model.classes_) == ["ant", "bee", "cat"][:n_classes]
    assert model.score(X, y) > (0.6 if n_classes == 2 else 0.5)
    stages = list(model.staged_predict(X))
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    for k in (1, 5):
        np.testing.assert_array_equal(model.truncate(k).predict(X), stages[k - 1])
    assert np.all(np.diff(model.path_.values("loss")) <= 1e-10)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert np.all(p >= 0)
    np.testing.assert_array_equal(model.classes_[np.argmax(p, axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)


def test_separable_classes_have_finite_weights():
    X = np.concatenate([np.linspace(-2, -1, 15), np.linspace(1, 2, 15)])[:, None]
    y = np.repeat([0, 1], 15)
    for loss in ALL_LOSSES:
        model = quiet_fit(KMPClassifier(5, loss=loss), X, y)
        assert np.all(np.isfinite(model.decision_function(X))) and model.score(X, y) == 1
        assert np.all(np.isfinite(model.predict_proba(X)))


def test_several_classes_keep_fewer_atoms_than_the_lowest_score():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16, y[:500]
    model, lowest = KMPClassifier().fit(X, y), KMPClassifier(stop="gcv").fit(X, y)
    assert len(model.support_) < 0.7 * len(lowest.support_)
    assert len(model.path_) + len(model.path_.discarded) < len(lowest.path_)
    np.testing.assert_array_equal(model.support_, lowest.support_[: len(model.support_)])
    two = KMPClassifier().fit(X, y > 4)
    np.testing.assert_array_equal(two.support_, KMPClassifier(stop="gcv").fit(X, y > 4).support_)
