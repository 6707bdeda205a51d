"""ONNX graphs give what our estimators give: 1e-12 in double precision, 1e-4 in single."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import (
    ConformalRegressor,
    FeatureWidths,
    KMPClassifier,
    KMPRegressor,
    PursuitNystroem,
    RefinedKMPRegressor,
    SparseKernelFDA,
    SparseKernelNovelty,
    SparseKernelPCA,
    to_onnx,
)
from tests import registry

pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 3)).astype(np.float32).astype(np.float64)  # the same numbers in both precisions
NEW = RNG.normal(size=(25, 3)).astype(np.float32).astype(np.float64)
Y = np.sin(2 * X[:, 0]) + X[:, 1]
THREE = np.array(["low", "middle", "high"])[np.searchsorted(np.quantile(Y, [0.3, 0.7]), Y)]
TOLERANCE = {"float64": 1e-12, "float32": 1e-4}


def run(model, rows, dtype):
    graph = to_onnx(model, dtype)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows.astype(dtype)}), strict=True))


def assert_close(found, expected, tolerance):
    expected = np.asarray(expected)
    expected = expected.reshape(len(expected), -1)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected)) <= tolerance * max(1.0, np.max(np.abs(expected)))


def assert_parity(model, rows, dtype):
    """Every output of the graph is what a method of the model gives."""
    found, tolerance = run(model, rows, dtype), TOLERANCE[dtype]
    if "label" in found:
        wanted = model.predict(rows)
        np.testing.assert_array_equal(found["label"], wanted)
        if "scores" in found:
            assert_close(found["scores"], model.decision_function(rows), tolerance)
        elif not hasattr(model, "predict_proba"):
            assert list(found) == ["label"]
        else:
            assert_close(found["probabilities"], model.predict_proba(rows), tolerance)
    else:
        expected = model.predict(rows) if hasattr(model, "predict") else model.transform(rows)
        assert_close(found["variable"], expected, tolerance)
    if "interval" in found:
        assert_close(found["interval"], model.predict_interval(rows), tolerance)


def fitted(estimator):
    estimator = registry.smaller(estimator)
    pairwise = registry.is_precomputed(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X @ X.T if pairwise else X, registry.targets(estimator, X, Y))
    return estimator, NEW @ X.T if pairwise else NEW


@pytest.mark.parametrize(
    "estimator", [*registry.DEFAULTS, *registry.SETTINGS, registry.FISHER_SEARCH], ids=registry.label
)
def test_every_estimator(estimator):
    if isinstance(estimator, ConformalRegressor) and registry.is_precomputed(estimator):
        with pytest.raises(ValueError, match="precomputed"):
            to_onnx(fitted(estimator)[0])
        return
    model, rows = fitted(estimator)
    for dtype in TOLERANCE:
        assert_parity(model, rows, dtype)


@pytest.mark.parametrize(
    "kernel",
    ["linear", "poly", "sigmoid", "laplacian", "cosine", "chi2", "additive_chi2", ["rbf", ("poly", {"degree": 2})]],
)
def test_every_kernel(kernel):
    rows, new = np.abs(X), np.abs(NEW)
    model = KMPRegressor(n_atoms=3, kernel=kernel, alpha=1e-3).fit(rows, Y)
    for dtype in TOLERANCE:
        assert_parity(model, new, dtype)


@pytest.mark.filterwarnings("ignore:n_atoms=40 was asked for")
@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01, 0.001])
def test_where_large_terms_cancel_the_graph_is_as_exact_as_the_model(gamma):
    """Both differ from the exact sum by its rounding, eps Σ|coef|: no graph can be nearer to the model than that."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision here")
    model = KMPRegressor(n_atoms=40, gamma=gamma, alpha=0).fit(X, Y)
    rows, centers, coef = (part.astype(np.longdouble) for part in (NEW, model.support_vectors_, model._expansion.coef))
    values = np.exp(-np.longdouble(model.gamma_) * np.sum((rows[:, None] - centers) ** 2, axis=2))
    exact = values @ coef[1:] + coef[0]
    rounding = np.finfo(float).eps * float(np.sum(np.abs(coef)))
    for found in (run(model, NEW, "float64")["variable"], model.predict(NEW)[:, None]):
        assert np.max(np.abs(found - exact)) <= max(rounding, 1e-14)
    assert gamma == 1.0 or rounding > 1e-12  # the case is what it is called


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian", "chi2"])
def test_distances_to_a_span(kernel):
    model = SparseKernelNovelty(n_atoms=2, kernel=kernel).fit(np.abs(X))
    found = run(model, np.abs(NEW), "float64")
    assert_close(found["scores"], model.decision_function(np.abs(NEW)), 1e-10)  # differences of large numbers


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scores_of_outliers_are_negative(dtype):
    """As of the outlier detectors that skl2onnx knows: who flags scores below 0 flags what the label does."""
    model = SparseKernelNovelty(n_atoms=3, contamination=0.3).fit(X)
    found = run(model, X.astype(dtype), dtype)
    np.testing.assert_array_equal(found["scores"][:, 0] < 0, found["label"] == -1)
    assert 0 < np.mean(found["label"] == -1) < 0.5


@pytest.mark.parametrize("classes", [THREE, THREE == "low", np.where(THREE == "low", 7, -2), THREE.astype(object)])
@pytest.mark.parametrize("make", [KMPClassifier, SparseKernelFDA])
def test_labels_of_every_type(make, classes):
    assert_parity(make(n_atoms=4).fit(X, classes), NEW, "float64")


@pytest.mark.parametrize("loss", ["log_loss", "exponential", "squared_hinge"])
@pytest.mark.parametrize("classes", [THREE, THREE == "low"], ids=["three", "two"])
def test_losses(loss, classes):
    assert_parity(KMPClassifier(n_atoms=4, loss=loss, alpha=0.01).fit(X, classes), NEW, "float64")


@pytest.mark.filterwarnings("ignore:column 0 of X")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline(StandardScaler(), KMPRegressor(n_atoms=5, alpha=0.01)),
        make_pipeline(StandardScaler(), RefinedKMPRegressor(n_atoms=4, random_state=0)),
        make_pipeline(StandardScaler(), PCA(2), KMPClassifier(n_atoms=5, alpha=0.01)),
        make_pipeline(FeatureWidths(n_landmarks=20), KMPRegressor(n_atoms=5, alpha=0.01)),
        make_pipeline(PursuitNystroem(n_components=5), LinearRegression()),
        make_pipeline(SparseKernelPCA(n_atoms=5), LogisticRegression()),
        make_pipeline(SparseKernelFDA(n_atoms=5), LogisticRegression()),
        make_pipeline(StandardScaler(), make_pipeline(SparseKernelFDA(n_atoms=5), KMPClassifier(n_atoms=3))),
    ],
    ids=lambda pipeline: "-".join(type(step).__name__ for step in pipeline),
)
def test_pipelines(pipeline, dtype):
    classes = hasattr(pipeline[-1], "predict_proba") or hasattr(pipeline[-1], "steps")
    assert_parity(pipeline.fit(X, THREE if classes else Y), NEW, dtype)


def test_several_targets_input_weights_sparse_centres_and_no_atom():
    assert_parity(
        RefinedKMPRegressor(n_atoms=4, random_state=0).fit(X * [1, 1000, 1e-3], np.stack([Y, X[:, 2]], 1)),
        NEW * [1, 1000, 1e-3],
        "float64",
    )
    model = KMPRegressor(n_atoms=4).fit(sparse.csr_array(X), Y)
    assert_close(run(model, NEW, "float64")["variable"], model.predict(NEW), 1e-12)
    assert_parity(KMPRegressor(n_atoms=4).fit(X, Y).truncate(0), NEW, "float64")
    assert_parity(KMPRegressor(n_atoms=6, alpha=0.01).fit(X + 1e6, Y), NEW + 1e6, "float64")


@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(KMPRegressor(n_atoms=4)),
        ConformalRegressor(KMPRegressor(n_atoms=4), adaptive=True),
        ConformalRegressor(KMPRegressor(n_atoms=4), calibration_fraction=None),
        ConformalRegressor(make_pipeline(StandardScaler(), KMPRegressor(n_atoms=4))),
        ConformalRegressor(BayesianRidge()),
        make_pipeline(StandardScaler(), ConformalRegressor(KMPRegressor(n_atoms=4))),
        make_pipeline(StandardScaler(), ConformalRegressor(KMPRegressor(n_atoms=4), adaptive=True)),
    ],
    ids=["plain", "adaptive", "left out", "around a pipeline", "around another", "in one", "adaptive in one"],
)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_predictions_of_the_models_inside_are_no_outputs(model, dtype):
    found = run(model.fit(X, Y), NEW, dtype)
    last, rows = (model[-1], model[:-1].transform(NEW)) if hasattr(model, "steps") else (model, NEW)
    assert list(found) == ["variable", "interval"][: 1 if last.calibration_fraction is None else 2]
    assert_close(found["variable"], model.predict(NEW), TOLERANCE[dtype])
    if "interval" in found:
        assert_close(found["interval"], last.predict_interval(rows), TOLERANCE[dtype])


def test_what_has_no_graph_is_refused():
    table = pytest.importorskip("kernelpursuit.cli.model").TableModel(
        None, KMPRegressor(n_atoms=3).fit(X, Y), "y", "regression", {}, np.zeros(0), {}
    )
    with pytest.raises(TypeError, match=r"got TableModel; of a model of a table give model\.estimator"):
        to_onnx(table)
    with pytest.raises(TypeError, match="takes a fitted estimator or Pipeline, got list"):
        to_onnx([])
    with pytest.raises(ValueError, match="function of yours"):
        to_onnx(KMPRegressor(n_atoms=3, kernel=lambda A, B: A @ B.T).fit(X, Y))
    with pytest.raises(ValueError, match="dtype must be"):
        to_onnx(KMPRegressor(n_atoms=3).fit(X, Y), "float16")
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(KMPRegressor())
