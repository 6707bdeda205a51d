"""ONNX graphs of scikit-learn's models around ours: right, or refused."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

from kernelpursuit import (
    ConformalRegressor,
    KMPClassifier,
    KMPRegressor,
    PursuitNystroem,
    RefinedKMPClassifier,
    SparseKernelFDA,
    SparseKernelPCA,
    to_onnx,
)
from tests.exporting.test_onnx import NEW, THREE, TOLERANCE, X, Y, assert_close, assert_parity, onnxruntime, run

CLASSES = {"texts": THREE, "two": THREE == "low", "numbers": np.unique(THREE, return_inverse=True)[1] * 2 - 3}
CLASSIFIER, REGRESSOR = KMPClassifier(n_atoms=4, alpha=0.01), KMPRegressor(n_atoms=4, alpha=0.01)
PIPELINE = make_pipeline(StandardScaler(), CLASSIFIER)
AFTER_DISCRIMINANTS = make_pipeline(SparseKernelFDA(n_atoms=5), CLASSIFIER)
ATOMS = {"n_atoms": [2, 4]}


def assert_right(model):
    for dtype in TOLERANCE:
        assert_parity(model, NEW, dtype)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize(
    "inner",
    [
        CLASSIFIER,
        RefinedKMPClassifier(n_atoms=4, random_state=0),
        SparseKernelFDA(n_atoms=5),
        PIPELINE,
        AFTER_DISCRIMINANTS,
        GridSearchCV(CLASSIFIER, ATOMS, cv=2),
        make_pipeline(SparseKernelPCA(n_atoms=5), LogisticRegression()),
        make_pipeline(SparseKernelPCA(n_atoms=5), LinearSVC()),
        make_pipeline(SparseKernelPCA(n_atoms=5), RidgeClassifier()),
        make_pipeline(SparseKernelPCA(n_atoms=5), GaussianNB()),
    ],
    ids=["kmp", "refined", "fda", "pipeline", "two pursuits", "search", "logistic", "svm", "linear", "probabilities"],
)
def test_calibration_is_of_what_it_was_fitted_on(inner, classes, method):
    """On decision values, and not on probabilities, wherever there are some."""
    model, labels = CalibratedClassifierCV(inner, cv=2, method=method), CLASSES[classes]
    if method == "temperature" and classes == "numbers":  # others make scikit-learn 1.9 read beside its arrays
        labels = (labels + 3) // 2
    try:
        model.fit(X, labels)
    except ValueError as error:
        pytest.skip(f"this scikit-learn has no temperature: {error}")
    if method == "temperature" and isinstance(inner[-1] if hasattr(inner, "steps") else inner, GaussianNB):
        with pytest.raises(ValueError, match=r"CalibratedClassifierCV.*temperature.*GaussianNB"):
            to_onnx(model)
    elif method == "isotonic":
        assert_right_but_for_steep_lines(model, NEW)
    else:
        assert_right(model)


def assert_right_but_for_steep_lines(model, rows):
    """Between knots that are near to each other rounding grows; and classes tie, at an equal share of training rows."""
    expected = model.predict_proba(rows)
    gap = np.subtract(*np.sort(expected, axis=1)[:, :-3:-1].T)
    for dtype, tolerance in {"float64": 1e-9, "float32": 1e-3}.items():
        found = run(model, rows, dtype)
        assert_close(found["probabilities"], expected, tolerance)
        np.testing.assert_array_equal(found["label"][gap > 1e-2], model.predict(rows)[gap > 1e-2])
    assert np.mean(gap > 1e-2) > 0.5


def test_calibration_at_and_between_the_knots_and_far_outside():
    """skl2onnx takes the nearest knot of an isotonic calibration, scikit-learn a line between two."""
    model = CalibratedClassifierCV(CLASSIFIER, method="isotonic", cv=3).fit(X, THREE == "low")
    rows = np.concatenate([X, NEW, NEW * 100])
    assert_right_but_for_steep_lines(model, rows)
    assert len(np.unique(np.round(model.predict_proba(rows)[:, 1], 6))) > 10  # lines, not steps alone


def test_calibrated_where_a_fold_lacks_a_class():
    known, rows = np.flatnonzero(THREE != "high"), np.arange(len(X))
    model = CalibratedClassifierCV(CLASSIFIER, cv=[(known, rows), (rows[::2], rows[1::2])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, THREE)
    assert len(model.calibrated_classifiers_[0].estimator.classes_) == 2
    assert_right(model)


def test_calibrated_where_no_class_has_any_probability():
    """Then scikit-learn gives all classes the same."""
    model = CalibratedClassifierCV(CLASSIFIER, method="isotonic", cv=2).fit(X, THREE)
    for fold in model.calibrated_classifiers_:
        for calibrator in fold.calibrators:
            calibrator.y_thresholds_ = np.zeros_like(calibrator.y_thresholds_)
            calibrator._build_f(calibrator.X_thresholds_, calibrator.y_thresholds_)
    assert np.allclose(model.predict_proba(NEW), 1 / 3)
    assert_parity(model, NEW, "float64")


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize(
    "model",
    [
        BaggingClassifier(CLASSIFIER, n_estimators=3, max_features=2, random_state=0),
        BaggingClassifier(AFTER_DISCRIMINANTS, n_estimators=3, random_state=0),
        OneVsRestClassifier(CLASSIFIER),
        OneVsRestClassifier(PIPELINE),
        StackingClassifier([("a", CLASSIFIER), ("b", LogisticRegression())]),
        StackingClassifier([("a", PIPELINE), ("b", AFTER_DISCRIMINANTS)], final_estimator=CLASSIFIER),
        StackingClassifier([("a", GridSearchCV(PIPELINE, {"kmpclassifier__n_atoms": [2, 4]}, cv=2))], passthrough=True),
        VotingClassifier([("a", PIPELINE), ("b", CLASSIFIER)], voting="soft", weights=[1, 3]),
        GridSearchCV(CLASSIFIER, ATOMS, cv=2),
        GridSearchCV(PIPELINE, {"kmpclassifier__n_atoms": [2, 4]}, cv=2),
        GridSearchCV(CalibratedClassifierCV(CLASSIFIER), {"cv": [2, 3]}, cv=2),
        make_pipeline(StandardScaler(), GridSearchCV(CLASSIFIER, ATOMS, cv=2)),
        make_pipeline(StandardScaler(), CalibratedClassifierCV(CLASSIFIER, cv=2)),
        make_pipeline(make_union(SparseKernelFDA(n_atoms=5), PCA(2)), CLASSIFIER),
        make_pipeline(make_union(make_pipeline(StandardScaler(), SparseKernelFDA(n_atoms=5)), PCA(2)), CLASSIFIER),
        make_pipeline(ColumnTransformer([("a", SparseKernelFDA(n_atoms=5), [0, 1])]), CLASSIFIER),
        make_pipeline(make_pipeline(StandardScaler(), SparseKernelFDA(n_atoms=5)), CLASSIFIER),
    ],
)
def test_classifiers_around_others(model, classes):
    assert_right(model.fit(X, CLASSES[classes]))


@pytest.mark.filterwarnings("ignore:Attribute `prob[AB]_` was deprecated:FutureWarning")  # read by skl2onnx
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize(
    "last",
    [
        LinearDiscriminantAnalysis(),
        LinearSVC(),
        LinearSVC(fit_intercept=False),
        NuSVC(nu=0.2),
        Perceptron(),
        RidgeClassifier(),
        SGDClassifier(random_state=0),
        SGDClassifier(loss="log_loss", random_state=0),
        SVC(),
        SVC(decision_function_shape="ovo"),
        OneVsRestClassifier(LogisticRegression()),
    ],
)
def test_classifiers_at_the_end_of_a_pipeline(last, classes):
    """Labels always; probabilities where the model has them, and nothing that is called so where it has none."""
    assert_right(make_pipeline(PursuitNystroem(n_components=8), last).fit(X, CLASSES[classes]))


@pytest.mark.parametrize(
    "inner",
    [CLASSIFIER, PIPELINE, SparseKernelFDA(n_atoms=5), KMPClassifier(n_atoms=4, gamma=5.0, fit_intercept=False)],
    ids=["kmp", "pipeline", "fda", "nothing far away"],
)
@pytest.mark.parametrize("target", ["two", "three", "labels"])
def test_one_against_the_rest_is_by_decision_values(inner, target):
    """Each class has a calibration of its own: the largest probability may be of another class."""
    rows = np.concatenate([np.random.default_rng(1).normal(size=(2000, 3)), np.full((1, 3), 100.0)])
    rows = rows.astype(np.float32).astype(np.float64)
    y = {"two": THREE == "low", "three": THREE, "labels": np.stack([Y > 0.5, X[:, 0] > 0.3, Y < 0], 1) * 1}[target]
    model = OneVsRestClassifier(inner).fit(X, y)
    assert_parity(model, rows, "float64")
    if target == "three" and inner is CLASSIFIER:
        assert np.any(model.classes_[model.predict_proba(rows).argmax(1)] != model.predict(rows))


@pytest.mark.filterwarnings("ignore:n_atoms")
@pytest.mark.parametrize("target", ["two", "three", "labels"])
@pytest.mark.parametrize("inner", [SparseKernelFDA(n_atoms=30), KMPClassifier(n_atoms=35, gamma=0.3, alpha=0.0)])
def test_rows_that_are_no_surer_than_those_of_training(inner, target):
    """Far more of them are beyond the limit than in the other tests."""
    y = {"two": THREE == "low", "three": THREE, "labels": np.stack([Y > 0.5, X[:, 0] > 0.3, Y < 0], 1) * 1}[target]
    new = 2 * NEW
    if target != "labels" or isinstance(inner, KMPClassifier):
        model = clone(inner).fit(X, y)
        values = model._raw(new, "predict_proba")
        slope, bias, _ = model._line(values.shape[1])
        assert np.max(np.abs(model._calibrated(values) - slope * values - bias)) > 0.1
        assert_parity(model, new, "float64")
    assert_parity(OneVsRestClassifier(inner).fit(X, y), new, "float64")


def test_a_linear_classifier_of_several_labels():
    labels = np.stack([Y > 0.5, X[:, 0] > 0.3, Y < 0], 1) * 1
    assert_right(make_pipeline(PursuitNystroem(n_components=8), RidgeClassifier()).fit(X, labels))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "model",
    [
        BaggingRegressor(make_pipeline(StandardScaler(), REGRESSOR), n_estimators=3, max_features=2, random_state=0),
        MultiOutputRegressor(make_pipeline(StandardScaler(), REGRESSOR)),
        StackingRegressor([("a", REGRESSOR), ("b", make_pipeline(PCA(2), REGRESSOR))], final_estimator=REGRESSOR),
        VotingRegressor([("a", REGRESSOR), ("b", make_pipeline(PCA(2), REGRESSOR))], weights=[1, 3]),
        GridSearchCV(REGRESSOR, ATOMS, cv=2),
        ConformalRegressor(GridSearchCV(REGRESSOR, ATOMS, cv=2), random_state=0),
        ConformalRegressor(
            VotingRegressor([("a", REGRESSOR), ("b", make_pipeline(PCA(2), REGRESSOR))]), random_state=0
        ),
    ],
)
def test_regressors_around_others(model, dtype):
    several = isinstance(model, MultiOutputRegressor)
    assert_parity(model.fit(X, np.stack([Y, Y**2], 1) if several else Y), NEW, dtype)


def test_a_vote_of_labels():
    voters = [("a", CLASSIFIER), ("b", PIPELINE), ("c", LogisticRegression())]
    model = VotingClassifier(voters).fit(X, THREE)
    assert_right(model)


def test_a_frozen_model_is_the_model():
    assert_parity(FrozenEstimator(CLASSIFIER.fit(X, THREE)), NEW, "float64")


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (FixedThresholdClassifier(CLASSIFIER, threshold=0.7), "FixedThresholdClassifier.*estimator_"),
        (TunedThresholdClassifierCV(CLASSIFIER, cv=2), "TunedThresholdClassifierCV"),
        (make_pipeline(SparseKernelPCA(5), TunedThresholdClassifierCV(LogisticRegression(), cv=2)), "TunedThreshold"),
        (GridSearchCV(CLASSIFIER, ATOMS, cv=2, refit=False), "GridSearchCV.*refitted"),
        (OneVsOneClassifier(CLASSIFIER), "OneVsOneClassifier"),
        (AdaBoostClassifier(CLASSIFIER, n_estimators=2), "AdaBoostClassifier"),
        (StackingClassifier([("a", CLASSIFIER)], stack_method="decision_function"), "stack_method.*decision_function"),
        (StackingClassifier([("a", CLASSIFIER)], stack_method="predict"), "stack_method='predict_proba' alone"),
        (CalibratedClassifierCV(BaggingClassifier(CLASSIFIER, 2), cv=2), "CalibratedClassifierCV.*BaggingClassifier"),
        (BaggingClassifier(CalibratedClassifierCV(CLASSIFIER, cv=2), 2), "BaggingClassifier.*CalibratedClassifierCV"),
        (CalibratedClassifierCV(make_pipeline(SparseKernelPCA(5), NuSVC()), cv=2), "around NuSVC"),
        (BaggingClassifier(make_pipeline(SparseKernelPCA(5), SVC()), 2), "BaggingClassifier around SVC"),
        (make_pipeline(SparseKernelPCA(5), BaggingClassifier(SVC(), 2)), "BaggingClassifier around SVC"),
        (VotingClassifier([("a", make_pipeline(SparseKernelPCA(5), RidgeClassifier()))]), "around RidgeClassifier"),
        (OneVsRestClassifier(make_pipeline(SparseKernelPCA(5), SVC())), "OneVsRestClassifier around SVC"),
        (OneVsRestClassifier(REGRESSOR), "OneVsRestClassifier around KMPRegressor"),
        (make_pipeline(LinearDiscriminantAnalysis(), CLASSIFIER), "LinearDiscriminantAnalysis as a step before"),
        (TransformedTargetRegressor(REGRESSOR), "TransformedTargetRegressor"),
        (VotingRegressor([("a", ConformalRegressor(REGRESSOR))]), "VotingRegressor around ConformalRegressor"),
        (make_pipeline(SimpleImputer(add_indicator=True), REGRESSOR), "add_indicator"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_be_wrong_is_refused(model, match):
    is_regressor = "Regressor" in type(model).__name__ or "Imputer" in str(model)
    with pytest.raises(ValueError, match=match):
        to_onnx(model.fit(X, Y if is_regressor else THREE == "low"))


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
