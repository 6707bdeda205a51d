"""Refinement of models that were fitted otherwise, and the picture of it."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelpursuit as kp
from kernelpursuit.losses import LOSSES, quantile

mpl.use("Agg")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)) * [1, 100]
Y = np.sin(3 * X[:, 0]) + 0.05 * RNG.normal(size=120)
SCALED = X / [1, 100]


@pytest.fixture(scope="module")
def model():
    return kp.RefinedKMPRegressor(n_atoms=5, random_state=0).fit(X, Y)


def test_it_starts_from_the_terms_that_are_there():
    chosen = kp.KMPRegressor(n_atoms=5, gamma=0.7).fit(SCALED, Y)
    found = kp.refine(chosen, SCALED, Y, random_state=0)
    np.testing.assert_allclose(found.start_centers_, chosen.support_vectors_, atol=1e-12)
    assert len(found.widths_) == 5 and found.moved_ != "nothing"
    assert found.score(SCALED, Y) > chosen.score(SCALED, Y)
    assert not hasattr(found, "_given")
    again = kp.refine(found, SCALED, Y, random_state=0)  # a refined model is one too
    np.testing.assert_allclose(again.start_centers_, found.centers_, atol=1e-12)


def test_classes_and_sparse_centres():
    labels = np.where(Y > 0, "above", "below")
    chosen = kp.KMPClassifier(n_atoms=4, gamma=0.7).fit(sparse.csr_array(SCALED), labels)
    found = kp.refine(chosen, SCALED, labels, random_state=0)
    assert set(found.predict(SCALED)) <= {"above", "below"} and len(found.widths_) == 4


def test_what_cannot_be_refined_is_refused():
    with pytest.raises(ValueError, match="one Gaussian kernel"):
        kp.refine(kp.KMPRegressor(n_atoms=1, kernel="linear").fit(SCALED, Y), SCALED, Y)
    with pytest.raises(ValueError, match="Of a pipeline give the last step"):
        kp.refine(make_pipeline(StandardScaler(), kp.KMPRegressor(n_atoms=3)).fit(X, Y), X, Y)
    with pytest.raises(TypeError, match="must be a regressor or a classifier, got SparseKernelPCA"):
        kp.refine(kp.SparseKernelPCA(2).fit(SCALED), SCALED, Y)


OF_VALUES = [quantile(0.9), "absolute_error", "huber", "poisson", LOSSES["squared_hinge"]]
OF_CLASSES = ["exponential", "huber", "squared_hinge", "tanh", "doom2", LOSSES["log_loss"]]


@pytest.mark.parametrize(
    ("make", "loss", "fitted"),
    [
        *((kp.KMPRegressor, loss, "values with loss='squared_error'") for loss in OF_VALUES),
        *((kp.KMPClassifier, loss, "classes with loss='squared_error' or") for loss in OF_CLASSES),
    ],
)
def test_models_of_another_loss_are_refused(make, loss, fitted):
    """A refined regressor fits the mean, whatever the model before it did."""
    y = np.abs(Y) if make is kp.KMPRegressor else Y > 0
    search = kp.PursuitSearchCV(make(loss=loss), max_atoms=3, gammas=[0.5], cv=2)
    for model in (make(n_atoms=3, loss=loss), *([search] if make is kp.KMPRegressor else [])):
        with pytest.raises(ValueError, match=f"which cannot be refined: a refined model fits {fitted}"):
            kp.refine(model.fit(SCALED, y), SCALED, y)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_weights_of_the_classes_are_kept(loss):
    noisy = SCALED[:, 0] + 2 * RNG.normal(size=120) > 0
    chosen = kp.KMPClassifier(n_atoms=3, loss=loss, class_weight={False: 1, True: 20}).fit(SCALED, noisy)
    found = kp.refine(chosen, SCALED, noisy, epochs=2, random_state=0)
    assert found.class_weight == chosen.class_weight and np.mean(found.predict(SCALED)) > 0.8


def test_the_picture_shows_where_centres_went(model):
    display = kp.MovedCentersDisplay.from_estimator(model, X)
    np.testing.assert_array_equal(display.end, model.centers_)
    np.testing.assert_array_equal(display.start, model.start_centers_)
    assert len(display.arrows_) == 5 and display.ax_.get_xlabel() == "feature 0"
    for j in range(2):  # at its reach a term has fallen to exp(-1/2)
        there = model.centers_[0].copy()
        there[j] += display.reach[0, j]
        exponent = -model.widths_[0] * np.sum(model.input_weights_**2 * (there - model.centers_[0]) ** 2)
        assert exponent == pytest.approx(-0.5)
    mpl.pyplot.close("all")


def test_the_picture_of_a_pipeline_and_of_other_columns(model):
    wide = np.column_stack([X, RNG.normal(size=(120, 2))])
    whole = make_pipeline(StandardScaler(), kp.RefinedKMPRegressor(n_atoms=3, random_state=0)).fit(wide, Y)
    display = kp.MovedCentersDisplay.from_estimator(whole, wide, features=(0, 3))
    np.testing.assert_allclose(display.X, whole[0].transform(wide)[:, [0, 3]])
    narrow = kp.RefinedKMPRegressor(3, random_state=0).fit(X[:, :1], Y)
    for fitted, rows, features, words in (
        (whole, wide, (0, 4), "features must be two columns from 0 to 3, got"),
        (model, wide, (0, 1), "X must have the 2 features of the fit"),
        (narrow, X[:, :1], (0, 1), "fitted to 1 feature, and the picture needs two"),
    ):
        with pytest.raises(ValueError, match=words):
            kp.MovedCentersDisplay.from_estimator(fitted, rows, features=features)
    mpl.pyplot.close("all")
