"""Targets that are numbers in strings, which scikit-learn's regressors take."""

import numpy as np
import pytest

from kernelpursuit import (
    ConformalRegressor,
    KMPRanker,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitSearchCV,
    RefinedKMPRegressor,
)

X = np.random.default_rng(0).normal(size=(40, 2))
TEXTS = np.array([f"{v:.2f}" for v in X[:, 0]])
EACH = [
    KMPRegressor(3), KMPRegressor(3, loss="absolute_error"),
    PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[0.5], cv=3),
    PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=[0.5], cv=3, scoring="r2"), PolytopeFacesRegressor(3),
    RefinedKMPRegressor(3, epochs=2, random_state=0), KMPRanker(3), ConformalRegressor(random_state=0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize("model", EACH, ids=str)
def test_texts_are_the_numbers_they_spell(model):
    wanted = model.fit(X, TEXTS.astype(float)).predict(X)
    for y in (TEXTS, TEXTS.tolist(), TEXTS.astype(object), TEXTS.astype(bytes)):
        np.testing.assert_array_equal(model.fit(X, y).predict(X), wanted)


@pytest.mark.parametrize(
    "model", [KMPRegressor(3), PursuitSearchCV(KMPRegressor(), max_atoms=3), ConformalRegressor()], ids=str
)
@pytest.mark.parametrize(("text", "words"), [("nan", "NaN"), ("inf", "infinity"), ("a", "could not convert")])
def test_other_texts_are_refused(model, text, words):
    y = np.where(np.arange(40) == 7, text, TEXTS)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)


def test_several_targets():
    two = np.column_stack([TEXTS, TEXTS[::-1]])
    wanted = KMPRegressor(3).fit(X, two.astype(float)).predict(X)
    np.testing.assert_array_equal(KMPRegressor(3).fit(X, two).predict(X), wanted)
