"""A target that is constant says nothing: the models of the others are those that they have without it."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelpursuit import (
    FeatureWidths,
    KMPClassifier,
    KMPRegressor,
    PursuitNystroem,
    PursuitSearchCV,
    RefinedKMPRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
T = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=90)
NEW = RNG.normal(size=(20, 3))

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")


@pytest.mark.parametrize(
    "model",
    [
        KMPRegressor(),
        KMPRegressor(10, alpha=0.0),
        KMPRegressor(stop="leave_one_out"),
        KMPRegressor(stop="validation", random_state=0),
        KMPRegressor(stop="bound"),
        KMPRegressor(stop="certificate", random_state=0),
        KMPRegressor(10, variant="basic"),
        KMPRegressor(5, loss="huber"),
        KMPRegressor(5, loss="absolute_error"),
        PursuitSearchCV(KMPRegressor(), max_atoms=6, gammas=[0.1, 0.4], cv=2),
        PursuitSearchCV(KMPRegressor(random_state=0), max_atoms=6, gammas=[0.5, 2.0], cv=2, input_weights="learned"),
        RefinedKMPRegressor(4, epochs=20, random_state=0),
    ],
    ids=lambda model: str(model).replace("\n", ""),
)
def test_the_others_are_fitted_as_without_it(model):
    alone = clone(model).fit(X, T)
    for constant in (0.1, -1e9):
        found = clone(model).fit(X, np.column_stack([T, np.full(90, constant)]))
        values = found.predict(NEW)
        np.testing.assert_allclose(values[:, 0], alone.predict(NEW), rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(values[:, 1], constant)
        np.testing.assert_array_equal(getattr(found, "best_estimator_", found).dual_coef_[:, 1], 0)


def test_the_ridge_of_several_constants_and_of_weights():
    """Rows of weight 0 are absent: a target that varies in these alone is constant."""
    alone = KMPRegressor(20).fit(X, T)
    many = KMPRegressor(20).fit(X, np.column_stack([np.ones((90, 4)), T]))
    assert many.alpha_ == pytest.approx(alone.alpha_, rel=1e-9)
    w = (np.arange(90) >= 10).astype(float)
    unseen = np.where(w > 0, 7.0, 1e6 * T)
    found = KMPRegressor(20).fit(X, np.column_stack([T, unseen]), sample_weight=w)
    assert found.alpha_ == pytest.approx(KMPRegressor(20).fit(X, T, sample_weight=w).alpha_, rel=1e-9)
    np.testing.assert_array_equal(found.predict(NEW)[:, 1], 7.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_its_size_does_not_hide_the_others(dtype):
    """Targets are fitted until what is left is their rounding error, which is not that of a large constant."""
    smooth = np.sin(X[:, 0]).astype(dtype)
    both = np.column_stack([smooth, np.full(90, 1e8 if dtype == np.float32 else 1e16)])
    alone, found = (KMPRegressor(8).fit(X.astype(dtype), y) for y in (smooth, both))
    np.testing.assert_array_equal(found.support_, alone.support_)
    names = {"selection": "prefit", "n_components": 8}
    chosen = [PursuitNystroem(**names).fit(X.astype(dtype), y).component_indices_ for y in (smooth, both)]
    np.testing.assert_array_equal(*chosen)


@pytest.mark.filterwarnings("ignore:n_atoms=2 terms were asked for")
@pytest.mark.parametrize("constant", [0.1, 1 / 3, 16777217.0, 1e6 + 0.1])
@pytest.mark.parametrize("model", [KMPRegressor(4), RefinedKMPRegressor(2, epochs=1, random_state=0)], ids=str)
def test_the_score_does_not_take_its_rounding_for_an_error(model, constant):
    """Such a constant is no number of float32, in which predictions beside float32 rows are."""
    single, both = X.astype(np.float32), np.column_stack([T, np.full(90, constant)])
    alone = clone(model).fit(single, T).score(single, T)
    found = clone(model).fit(single, both)
    assert found.score(single, both) == pytest.approx((alone + 1) / 2, abs=1e-6)
    for dtype in (np.float32, np.float64):
        y = both[:, 1].astype(dtype)
        assert clone(model).fit(single, y).score(single, y) == 1
        assert clone(model).fit(single, y).score(single, 2 * y, sample_weight=np.ones(90)) == 0


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_the_score_is_the_same_for_any_size(size):
    found, expected = (KMPRegressor(4).fit(X, T * scale).score(X, T * scale) for scale in (size, 1.0))
    assert 0 < expected < 1 and found == pytest.approx(expected)


def test_a_constant_without_an_intercept_is_a_target():
    found = KMPRegressor(15, fit_intercept=False).fit(X, np.column_stack([T, np.ones(90)]))
    assert np.any(found.dual_coef_[:, 1] != 0)
    np.testing.assert_array_equal(found.intercept_, 0)


def test_of_targets_that_are_all_constant_the_model_is_them():
    y = np.column_stack([np.full(90, 0.1), np.full(90, -3.0)])
    np.testing.assert_array_equal(KMPRegressor(3).fit(X, y).predict(NEW), y[:20])


def test_shortened_models_know_it():
    found = KMPRegressor(6).fit(X, np.column_stack([T, np.full(90, 0.1)]))
    for k in (0, 3):
        np.testing.assert_array_equal(found.truncate(k).predict(NEW)[:, 1], 0.1)
    for values in found.staged_predict(NEW):
        np.testing.assert_array_equal(values[:, 1], 0.1)


def test_terms_noise_and_deviations_of_refined_models():
    alone = RefinedKMPRegressor(4, epochs=20, random_state=0).fit(X, T)
    found = RefinedKMPRegressor(4, epochs=20, random_state=0).fit(X, np.column_stack([np.full(90, 5.0), T]))
    np.testing.assert_allclose(found.centers_, alone.centers_, rtol=1e-6)
    np.testing.assert_allclose(found.noise_, [0, alone.noise_], rtol=1e-6)
    std = found.predict(NEW, return_std=True)[1]
    np.testing.assert_array_equal(std[:, 0], 0)
    np.testing.assert_allclose(std[:, 1], alone.predict(NEW, return_std=True)[1], rtol=1e-6)


def test_weights_of_inputs():
    alone, found = (
        FeatureWidths(30, random_state=0).fit(X, y) for y in (T, np.column_stack([np.full(90, 0.3), T, np.ones(90)]))
    )
    np.testing.assert_allclose(found.weights_, alone.weights_, rtol=1e-6)
    assert found.noise_ == pytest.approx(alone.noise_)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_labels_that_no_row_or_every_row_has(loss):
    labels = np.column_stack([T > 0, X[:, 2] + X[:, 0] > 0]).astype(int)
    more = np.column_stack([labels, np.zeros(90, int), np.ones(90, int)])
    alone, found = (KMPClassifier(8, loss=loss).fit(X, y) for y in (labels, more))
    assert found.alpha_ == pytest.approx(alone.alpha_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(NEW)[:, :2], alone.decision_function(NEW), rtol=1e-4, atol=1e-4)
