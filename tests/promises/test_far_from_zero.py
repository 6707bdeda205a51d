"""Columns far from 0 (map coordinates, times) in single precision: the model is that of the same numbers as float64."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from kernelpursuit import (
    FeatureWidths,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitNystroem,
    PursuitSearchCV,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
    load,
    refine,
    save,
    to_onnx,
)
from kernelpursuit.fitting.training import warn_if_one_column_rules
from kernelpursuit.refined.refining import frame_of

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")


def problem(offset, n=80, seed=0):
    """Rows, and new ones, as float32 holds them; targets with little noise, so that weights are large and cancel."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.02 * rng.normal(size=n)
    return (X + offset).astype(np.float32), y


@pytest.fixture(scope="module")
def models():
    """A regressor of float32 rows, and of the same numbers as float64."""
    X, y = problem([1e5, 0])
    return [RefinedKMPRegressor(6, random_state=0).fit(X.astype(dtype), y) for dtype in (np.float32, np.float64)]


def test_refined_values_and_deviations(models):
    X, y = problem([1e5, 0])
    (values, std), (wanted, wanted_std) = (
        model.predict(X.astype(dtype), return_std=True)
        for model, dtype in zip(models, (np.float32, np.float64), strict=True)
    )
    assert values.dtype == std.dtype == np.float32
    np.testing.assert_allclose(values, wanted, atol=1e-4)
    np.testing.assert_allclose(std, wanted_std, rtol=1e-3)
    assert np.mean((values - y) ** 2) < 1.5**2 * np.mean(std**2)
    for model in models:  # rows of the other precision, and a few of them
        np.testing.assert_allclose(model.predict(X[:3]), wanted[:3], atol=1e-4)
        np.testing.assert_allclose(model.predict(X[:3].astype(np.float64)), wanted[:3], atol=1e-4)


def test_the_formula_with_the_attributes(models):
    X = problem([1e5, 0])[0].astype(np.float64)
    for model in models:
        squares = ((X[:, None, :] - model.centers_[None]) * model.input_weights_) ** 2
        literal = np.exp(-squares.sum(axis=2) * model.widths_) @ model.dual_coef_ + model.intercept_
        np.testing.assert_allclose(model.predict(X), literal, atol=1e-6)


def test_files_and_graphs(models, tmp_path):
    X, _ = problem([1e5, 0])
    save(models[0], tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), models[0].predict(X))
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    for dtype in ("float32", "float64"):
        session = runtime.InferenceSession(to_onnx(models[0], dtype=dtype).SerializeToString())
        found = session.run(None, {"X": X.astype(dtype)})[0]
        np.testing.assert_allclose(found[:, 0], models[0].predict(X), atol=1e-4)


def test_refine_takes_a_model_on(models):
    X, y = problem([1e5, 0])
    again = [refine(models[0], X.astype(dtype), y, random_state=0) for dtype in (np.float32, np.float64)]
    np.testing.assert_allclose(again[0].predict(X), again[1].predict(X.astype(np.float64)), atol=1e-3)


def test_refined_classes_and_tensors():
    X, y = problem(1e5)
    labels = y > 0
    found = RefinedKMPClassifier(4, epochs=10, random_state=0).fit(X, labels)
    wanted = RefinedKMPClassifier(4, epochs=10, random_state=0).fit(X.astype(np.float64), labels)
    np.testing.assert_allclose(found.predict_proba(X), wanted.predict_proba(X.astype(np.float64)), atol=1e-3)
    torch = pytest.importorskip("torch")
    with config_context(array_api_dispatch=True):
        there = RefinedKMPClassifier(4, epochs=10, random_state=0).fit(torch.from_numpy(X), torch.from_numpy(labels))
        values = there.predict_proba(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(values, wanted.predict_proba(X.astype(np.float64)), atol=1e-2)


def test_searches_that_learn_weights():
    X, y = problem([0, 1e5])
    found, wanted = (
        PursuitSearchCV(KMPRegressor(alpha=1e-6), max_atoms=8, gammas=[1.0], cv=2, input_weights="learned").fit(
            X.astype(dtype), y
        )
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(found.predict(X), wanted.predict(X.astype(np.float64)), atol=5e-3)
    np.testing.assert_allclose(found.truncate(3).predict(X), wanted.truncate(3).predict(X.astype(float)), atol=5e-3)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_coarse_columns_are_not_constant(offset):
    """At 1e6 float32 still tells 60 values of a normal column apart."""
    X, y = problem(offset)
    frame, wide = frame_of(X, None), frame_of(X.astype(np.float64), None)
    np.testing.assert_array_equal(frame.spread, wide.spread)
    weights = [FeatureWidths(20, random_state=0).fit(X.astype(t), y).weights_ for t in (np.float32, np.float64)]
    np.testing.assert_array_equal(*weights)


def test_columns_that_single_precision_made_constant():
    rounded = np.nextafter(np.float32(0.1), np.where(np.arange(80) % 3, 1, 0).astype(np.float32))
    assert len(np.unique(rounded)) == 2
    with pytest.warns(UserWarning, match="columns 0 of X differ between rows by hardly more than float32 rounds"):
        assert np.isinf(frame_of(rounded[:, None], None).spread[0])
    with pytest.warns(UserWarning, match="columns 0, 1 of X differ between rows"):
        FeatureWidths(20, random_state=0).fit(*problem(1e7))


def test_weighted_columns_that_single_precision_cannot_hold():
    X, y = problem([1e6, 0])
    widths = FeatureWidths(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="columns 0 of X lie so far from 0 that float32 rounds"):
        assert widths.transform(X).dtype == np.float32
    widths.transform(X.astype(np.float64))  # no warning
    X, y = problem([1e4, 0])
    make_pipeline(FeatureWidths(20, random_state=0), KMPRegressor(4, gamma=1.0)).fit(X, y).predict(X)


def test_no_column_seems_to_rule_for_its_offset():
    """The mean of many float32 numbers far from 0, summed in float32, is wrong by more than they vary."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(100_000, 2)) + np.array([0, 1e6])).astype(np.float32)
    warn_if_one_column_rules(X, "rbf", "scale")  # no warning
    X[:, 1] = 50 * (X[:, 1] - 1e6) + 1e6
    with pytest.warns(UserWarning, match="column 1 of X has 100.0% of the variance"):
        warn_if_one_column_rules(X, "rbf", "scale")


def test_targets_far_from_zero_beside_single_precision_rows():
    """Their rounding error in float32 is more than they vary by: the model would be a constant."""
    X, y = problem(0)
    for offset in (1e5, 1e6):
        found, wanted = (KMPRegressor(10).fit(X.astype(dtype), offset + y) for dtype in (np.float32, np.float64))
        np.testing.assert_array_equal(found.support_, wanted.support_)
        error = found.predict(X) - wanted.predict(X.astype(np.float64))
        assert np.max(np.abs(error)) < offset * np.finfo(np.float32).eps
        names = {"n_components": 8, "selection": "prefit"}
        chosen = [PursuitNystroem(**names).fit(X.astype(d), offset + y).component_indices_ for d in ("f4", "f8")]
        np.testing.assert_array_equal(*chosen)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", [0, 1e5, 1e7])
def test_faces_of_targets_far_from_zero(offset):
    X, y = problem(0)
    wanted = PolytopeFacesRegressor(20).fit(X.astype(float), y)
    model = PolytopeFacesRegressor(20).fit(X, y + offset)
    assert model.support_.tolist() == wanted.support_.tolist()
    rows = X.astype(float)  # float32 predictions could not hold it
    np.testing.assert_allclose(model.predict(rows) - offset, wanted.predict(rows), atol=2e-3)
    last = list(model.staged_predict(rows))[-1]
    np.testing.assert_allclose(last, model.predict(rows), rtol=1e-12)
    assert abs(model.truncate(0).intercept_ - offset - y.mean()) < 1e-6 * max(1, offset / 1e5)
