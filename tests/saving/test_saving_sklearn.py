"""Model files of what scikit-learn builds around our estimators: searches, stacks, calibration, routing."""

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestRegressor, StackingRegressor, VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RandomizedSearchCV,
    ShuffleSplit,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import (
    ConformalRegressor,
    KMPClassifier,
    KMPRegressor,
    ModelFileError,
    PursuitNystroem,
    PursuitSearchCV,
    load,
    save,
)
from kernelpursuit.saving.archive import trusted_types

pytest.importorskip("skops")
pytest.importorskip("safetensors")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
WIDTHS = {"gamma": [0.1, 1.0]}
ABSOLUTE = make_scorer(mean_absolute_error, greater_is_better=False)


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(KMPRegressor(5), WIDTHS, cv=3),
        GridSearchCV(KMPRegressor(5), WIDTHS, cv=ShuffleSplit(2, random_state=0), scoring="r2"),
        GridSearchCV(KMPRegressor(5), WIDTHS, cv=3, scoring={"own": ABSOLUTE, "r2": "r2"}, refit="own"),
        GridSearchCV(make_pipeline(SelectKBest(f_regression, k=1), KMPRegressor(3)), {"kmpregressor__gamma": [1.0]}),
        StackingRegressor([("pursuit", KMPRegressor(5))]),
        ConformalRegressor(GridSearchCV(KMPRegressor(5), WIDTHS, cv=3), random_state=0),
        PursuitSearchCV(KMPRegressor(), max_atoms=30, gammas=[0.5], cv=GroupKFold(3)),
        CalibratedClassifierCV(KMPClassifier(5), cv=2),
        CalibratedClassifierCV(KMPClassifier(5), method="isotonic", cv=2),
        TunedThresholdClassifierCV(KMPClassifier(5), cv=2),
        VotingClassifier([("pursuit", KMPClassifier(5))], voting="soft"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_scikit_learn_builds_around_our_models_comes_back(model, tmp_path):
    classes = "Classifier" in type(model).__name__
    options = {"groups": np.arange(60) % 4} if isinstance(model, PursuitSearchCV) else {}
    y = Y > 0 if classes else Y
    again = written_and_read(model.fit(X, y, **options), tmp_path)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    assert model.score(X, y) == again.score(X, y)
    if classes:
        np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))


def written_and_read(model, tmp_path):
    save(model, tmp_path / "model")
    return load(tmp_path / "model")


@pytest.mark.parametrize(
    "steps",
    [
        (TfidfVectorizer(), KMPClassifier(4)),
        (HashingVectorizer(), PursuitNystroem(n_components=4), LogisticRegression()),
    ],
    ids=["centres", "landmarks"],
)
def test_texts_and_sparse_centres_come_back(steps, tmp_path):
    """Once refused: "csr_matrix, which model files may not hold"."""
    texts = [f"colour{i % 3} shape{i % 5} size{i % 7}" for i in range(60)]
    model = make_pipeline(*steps).fit(texts, np.arange(60) % 3 == 0)
    again = written_and_read(model, tmp_path)
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))


def test_requests_of_metadata_come_back(tmp_path):
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaler, KMPRegressor(5).set_fit_request(sample_weight=True))
        weights = 1.0 + np.arange(60) % 2
        again = written_and_read(model.fit(X, Y, sample_weight=weights), tmp_path)
        np.testing.assert_array_equal(model.predict(X), again.predict(X))
        assert repr(again.get_metadata_routing()) == repr(model.get_metadata_routing())
        np.testing.assert_array_equal(again.fit(X, Y, sample_weight=weights).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RandomizedSearchCV(KMPRegressor(5), {"gamma": stats.uniform(0.1, 1)}, n_iter=2), "as its best_estimator_"),
        (GridSearchCV(KMPRegressor(5), WIDTHS, cv=2, scoring=lambda model, X, y: 1.0), "no functions of yours"),
        (make_pipeline(StandardScaler(), RandomForestRegressor(2)), "Pipeline holds .*Tree, .* no trees"),
    ],
    ids=["distribution", "function", "trees"],
)
def test_what_would_not_be_safe_to_read_is_refused(model, words, tmp_path):
    model.fit(X, Y)
    with pytest.raises(TypeError, match=words):
        save(model, tmp_path / "model")
    if hasattr(model, "best_estimator_"):
        np.testing.assert_array_equal(
            written_and_read(model.best_estimator_, tmp_path).predict(X), model.best_estimator_.predict(X)
        )


def test_an_expansion_deep_inside_is_looked_at(tmp_path):
    """A forged one must be refused when it is read, and not fail when it predicts."""
    search = GridSearchCV(StackingRegressor([("pursuit", KMPRegressor(5))]), {"cv": [2]}, cv=2).fit(X, Y)
    expansion = search.best_estimator_.named_estimators_["pursuit"]._expansion
    object.__setattr__(expansion, "coef", expansion.coef[:-2])
    save(search, tmp_path / "model")
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


def test_the_list_holds_metrics_and_nothing_that_acts():
    """Metrics are found by the ends of their names: none of them may read or run anything."""
    for name in trusted_types():
        assert not any(word in name for word in ("exec", "eval.", "load", "make_", "get_", "fetch", "tree", "pickle"))
    assert "sklearn.metrics._regression.r2_score" in trusted_types()
