"""ONNX graphs of pipelines are right; other estimators of scikit-learn around ours are refused by name."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    StackingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelpursuit import (
    ConformalRegressor,
    KMPClassifier,
    KMPRegressor,
    PursuitNystroem,
    SparseKernelFDA,
    SparseKernelPCA,
    to_onnx,
)
from tests.exporting.test_onnx import NEW, THREE, TOLERANCE, X, Y, assert_close, assert_parity, onnxruntime, run

CLASSES = {"texts": THREE, "two": THREE == "low", "numbers": np.unique(THREE, return_inverse=True)[1] * 2 - 3}
CLASSIFIER, REGRESSOR = KMPClassifier(n_atoms=4, alpha=0.01), KMPRegressor(n_atoms=4, alpha=0.01)
PIPELINE = make_pipeline(StandardScaler(), CLASSIFIER)
ATOMS = {"n_atoms": [2, 4]}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(make_union(SparseKernelFDA(n_atoms=5), PCA(2)), CLASSIFIER),
        make_pipeline(make_union(make_pipeline(StandardScaler(), SparseKernelFDA(n_atoms=5)), PCA(2)), CLASSIFIER),
        make_pipeline(ColumnTransformer([("a", SparseKernelFDA(n_atoms=5), [0, 1])]), CLASSIFIER),
        make_pipeline(make_pipeline(StandardScaler(), SparseKernelFDA(n_atoms=5)), CLASSIFIER),
        make_pipeline(SelectFromModel(LogisticRegression()), CLASSIFIER),
        make_pipeline(PursuitNystroem(n_components=8), LogisticRegression()),
        make_pipeline(PursuitNystroem(n_components=8), GaussianNB()),
        make_pipeline(PursuitNystroem(n_components=8), SGDClassifier(loss="log_loss", random_state=0)),
    ],
    ids=["union", "pipeline in union", "columns", "pipeline", "selector", "log_loss", "bayes", "gradient"],
)
def test_pipelines_of_classifiers(model, classes, dtype):
    assert_parity(model.fit(X, CLASSES[classes]), NEW, dtype)


@pytest.mark.filterwarnings("ignore:n_atoms")
@pytest.mark.parametrize("target", ["two", "three", "labels"])
@pytest.mark.parametrize("inner", [SparseKernelFDA(n_atoms=30), KMPClassifier(n_atoms=35, gamma=0.3, alpha=0.0)])
def test_probabilities_at_their_limit(inner, target):
    """Rows where the log odds are cut to the largest that training rows had."""
    if target == "labels" and isinstance(inner, SparseKernelFDA):
        pytest.skip("it has no labels")
    y = {"two": THREE == "low", "three": THREE, "labels": np.stack([Y > 0.5, X[:, 0] > 0.3, Y < 0], 1) * 1}[target]
    new = 2 * NEW
    model = clone(inner).fit(X, y)
    if target != "labels":
        values = model._raw(new, "predict_proba")
        slope, bias, _ = model._line(values.shape[1])
        assert np.max(np.abs(model._calibrated(values) - slope * values - bias)) > 0.1
    assert_parity(model, new, "float64")


NYSTROEM = PursuitNystroem(n_components=8)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (CalibratedClassifierCV(CLASSIFIER, cv=2), "CalibratedClassifierCV around.*calibrated_classifiers_"),
        (BaggingClassifier(CLASSIFIER, n_estimators=2), "BaggingClassifier around other.*estimators_"),
        (OneVsRestClassifier(CLASSIFIER), "OneVsRestClassifier"),
        (StackingClassifier([("a", CLASSIFIER)]), "StackingClassifier"),
        (FixedThresholdClassifier(CLASSIFIER, threshold=0.7), "FixedThresholdClassifier.*estimator_"),
        (GridSearchCV(CLASSIFIER, ATOMS, cv=2), r"GridSearchCV.*\(best_estimator_\)"),
        (GridSearchCV(CLASSIFIER, ATOMS, cv=2, refit=False), "GridSearchCV.*fitted models inside it, one"),
        (make_pipeline(StandardScaler(), GridSearchCV(CLASSIFIER, ATOMS, cv=2)), "GridSearchCV"),
        (make_pipeline(NYSTROEM, CalibratedClassifierCV(cv=2)), "CalibratedClassifierCV"),
        (FrozenEstimator(clone(PIPELINE).fit(X, THREE == "low")), "FrozenEstimator"),
        (VotingRegressor([("a", ConformalRegressor(REGRESSOR))]), "VotingRegressor"),
        (ConformalRegressor(GridSearchCV(REGRESSOR, ATOMS, cv=2)), "GridSearchCV"),
        (TransformedTargetRegressor(REGRESSOR), "TransformedTargetRegressor.*regressor_"),
        (make_pipeline(SparseKernelPCA(5), LinearDiscriminantAnalysis()), "LinearDiscriminantAnalysis: take"),
        (make_pipeline(NYSTROEM, SVC()), "SVC, which has no predict_proba"),
        (make_pipeline(NYSTROEM, RidgeClassifier()), "RidgeClassifier.*such as LogisticRegression"),
        (make_pipeline(SimpleImputer(add_indicator=True), REGRESSOR), "add_indicator"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_be_wrong_is_refused(model, match):
    name = type(model).__name__
    y = Y if "Regressor" in name or "Imputer" in str(model) else THREE == "low"
    with pytest.raises(ValueError, match=match):
        to_onnx(model.fit(X, y))


def test_clipped_probabilities_that_tie_are_refused():
    with pytest.raises(ValueError, match=r"modified_huber.*log_loss"):
        to_onnx(make_pipeline(SparseKernelPCA(5), SGDClassifier(loss="modified_huber")).fit(X, THREE))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "imputer",
    [
        SimpleImputer(),
        SimpleImputer(strategy="median"),
        SimpleImputer(strategy="constant", fill_value=-1),
        SimpleImputer(keep_empty_features=True),
        ColumnTransformer(
            [("a", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]), ("b", SimpleImputer(), [2])]
        ),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_missing_numbers(imputer, empty, dtype):
    """Also in double precision, and where a column had no number at all."""
    rows, new = X.copy(), NEW.copy()
    rows[::7, 1], new[::3, 0], new[1::5, 1] = np.nan, np.nan, np.nan
    if empty and not isinstance(imputer, ColumnTransformer):
        rows[:, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(imputer, REGRESSOR).fit(rows, Y)
        expected = model.predict(new)
    assert_close(run(model, new, dtype)["variable"], expected, TOLERANCE[dtype])


def test_a_graph_that_onnxruntime_cannot_load_is_said_to_be_one(monkeypatch):
    class Nothing:
        def __init__(self, *arguments, **options):
            raise RuntimeError("no implementation of Imputer")

    monkeypatch.setattr(onnxruntime, "InferenceSession", Nothing)
    model = REGRESSOR.fit(X, Y)
    with pytest.warns(UserWarning, match="cannot load this graph; dtype='float32' may help.*Imputer") as record:
        to_onnx(model)
    assert record[0].filename == __file__
    with pytest.warns(UserWarning, match="cannot load this graph. It says"):
        to_onnx(model, "float32")


@pytest.mark.parametrize(
    "chosen", [["a", "b"], slice("a", "b"), lambda table: ["a", "b"]], ids=["list", "slice", "call"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_columns_by_name_are_refused(inside, chosen):
    """Once in a RuntimeError of skl2onnx on a column that it did not find."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abc"))
    columns = ColumnTransformer([("numbers", StandardScaler(), chosen)], remainder="passthrough")
    model = make_pipeline(make_union(columns) if inside else columns, clone(REGRESSOR)).fit(table, Y)
    with pytest.raises(ValueError, match=r"columns by name \('a', 'b'\).*one array.*by their numbers"):
        to_onnx(model)
