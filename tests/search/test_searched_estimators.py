"""What a search may be of: each estimator against a grid search over plain clones, and on an ordinary table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kernelpursuit import (
    KMPClassifier,
    KMPRanker,
    KMPRegressor,
    PolytopeFacesRegressor,
    PursuitSearchCV,
    SparseKernelFDA,
    SparseKernelPCA,
)
from kernelpursuit.ranking import group_sizes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PENGUINS = Path(__file__).parents[2] / "examples" / "penguins.csv"


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


@st.composite
def problems(draw):
    """A small search, its data, and the scorer that stands for its own scores."""
    n, d = draw(st.integers(20, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = np.round(X)  # equal rows, so that paths end early
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    kind = draw(st.sampled_from(["values", "two values", "classes", "fisher", "faces"]))
    gammas = sorted(draw(st.sets(st.sampled_from([0.01, 0.1, 0.5, 2.0]), min_size=1, max_size=3)))
    folds = draw(st.integers(2, 4))
    if kind in ("classes", "fisher"):
        y = np.where(np.argsort(np.argsort(y)) % n < n // 2, "low", "high")
        estimator = KMPClassifier(alpha=0.1) if kind == "classes" else SparseKernelFDA(alpha=1e-3)
        return estimator, X, y, gammas, StratifiedKFold(folds), "accuracy"
    if kind == "faces":
        estimator = PolytopeFacesRegressor(release=draw(st.booleans()))
    else:
        estimator = KMPRegressor(alpha=0.1, variant=draw(st.sampled_from(["prefit", "backfit"])))
        y = np.column_stack([y, X[:, -1]]) if kind == "two values" else y
    return estimator, X, y, gammas, KFold(folds, shuffle=True, random_state=0), "neg_mean_squared_error"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(), most=st.integers(1, 6))
def test_it_finds_what_a_grid_search_finds(problem, most):
    estimator, X, y, gammas, folds, scoring = problem
    grid = {"gamma": gammas, "n_atoms": list(range(1, most + 1))}
    plain = GridSearchCV(estimator, grid, cv=folds, scoring=scoring, refit=False).fit(X, y)
    search = PursuitSearchCV(clone(estimator), gammas=gammas, max_atoms=most, cv=folds).fit(X, y)
    wanted = plain.cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], wanted, rtol=1e-8, atol=1e-8)
    best = wanted.reshape(len(gammas), most)
    k, width = np.argwhere(best.T > best.max() - 1e-12 * max(1.0, abs(best.max())))[0]  # of equal ones the fewest atoms
    assert search.best_params_ == {"n_atoms": k + 1, "gamma": gammas[width]}
    one = clone(estimator).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), one.predict(X))


def test_rankers_keep_their_groups_together():
    X, y = data(80)
    y, groups = np.abs(y), np.repeat(np.arange(10), 8)
    search = PursuitSearchCV(KMPRanker(alpha=0.1), gammas=[0.5], max_atoms=4, cv=5).fit(X, y, groups=groups)
    table = np.empty((4, 5))
    for fold, (train, test) in enumerate(GroupKFold(5).split(X, y, groups)):
        for k in range(1, 5):
            model = KMPRanker(k, gamma=0.5, alpha=0.1).fit(X[train], y[train], group=group_sizes(groups[train]))
            table[k - 1, fold] = model.score(X[test], y[test], group=group_sizes(groups[test]))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], table.mean(axis=1), rtol=1e-8)
    best = KMPRanker(**search.best_params_, alpha=0.1).fit(X, y, group=group_sizes(groups))
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    assert search.score(X, y, group=group_sizes(groups)) == best.score(X, y, group=group_sizes(groups))
    assert PursuitSearchCV(KMPRanker(), gammas=[0.5], max_atoms=4, cv=2).fit(X, y).n_splits_ == 2  # one group


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SparseKernelPCA(), "KMPRanker or PolytopeFacesRegressor, got SparseKernelPCA"),
        (Ridge(), "got Ridge"),
        (make_pipeline(StandardScaler(), KMPRegressor()), "last step of a pipeline"),
        (KMPRegressor(resume="file"), "resume='file', which is for a single fit"),
        (KMPRegressor(stop="gcv"), r"stop='gcv', which chooses.*KMPRegressor\(stop=None\)"),
    ],
)
def test_other_estimators_are_refused(estimator, message):
    with pytest.raises(ValueError, match=message):
        PursuitSearchCV(estimator).fit(*data())


def test_alphas_of_an_estimator_without_a_ridge():
    with pytest.raises(ValueError, match="PolytopeFacesRegressor has no alpha"):
        PursuitSearchCV(PolytopeFacesRegressor(), alphas=[0.1]).fit(*data())


def test_attributes_are_those_of_grid_searches():
    X, y = data()
    table = pd.DataFrame(X, columns=["a", "b"])
    search = PursuitSearchCV(KMPClassifier(), gammas=[0.1, 1.0], alphas=[0.0, 0.1], max_atoms=3, cv=2)
    assert not hasattr(search, "classes_") and not hasattr(search, "n_features_in_")
    search.fit(table, np.where(y > 0, "high", "low"))
    results = search.cv_results_
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.best_score_ == results["mean_test_score"][search.best_index_]
    assert results["rank_test_score"][search.best_index_] == 1 and search.n_splits_ == 2 and search.refit_time_ > 0
    assert [len(results[name]) for name in ("params", "param_gamma", "param_alpha", "param_n_atoms")] == [12] * 4
    for name in ("classes_", "feature_names_in_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(search, name), getattr(search.best_estimator_, name))
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(search, name)(table), getattr(search.best_estimator_, name)(table))
    for name in ("staged_predict", "staged_decision_function"):
        pairs = zip(getattr(search, name)(table), getattr(search.best_estimator_, name)(table), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs)
    assert not hasattr(search, "transform")
    assert not hasattr(PursuitSearchCV(KMPRegressor()), "predict_proba")
    assert not hasattr(search.fit(X, y > 0), "feature_names_in_")


@pytest.mark.parametrize("estimator", [KMPRegressor(), KMPClassifier(), SparseKernelFDA()], ids=str)
def test_nothing_is_written_into_the_estimator(estimator):
    X, y = data()
    before = dict(vars(estimator))
    search = PursuitSearchCV(estimator, gammas=[0.5], max_atoms=3, cv=2).fit(
        X, y > 0 if is_classifier(estimator) else y
    )
    plain = clone(estimator).set_params(**search.best_params_).fit(X, y > 0 if is_classifier(estimator) else y)
    assert vars(estimator) == before and vars(search.best_estimator_).keys() == vars(plain).keys()


def test_rows_in_float32():
    X, y = data(120)
    single = X.astype(np.float32)
    one, other = (PursuitSearchCV(KMPRegressor(), gammas=[0.3, 1.0], max_atoms=15).fit(rows, y) for rows in (single, X))
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-3)
    assert one.predict(single).dtype == np.float32
    np.testing.assert_allclose(one.predict(single), other.predict(X), atol=1e-3)


def penguins():
    """The table, encoded in an ordinary way, without the column that is the target."""
    table = pd.read_csv(PENGUINS)
    texts, numbers = ["species", "island", "sex"], ["bill_length_mm", "bill_depth_mm", "flipper_length_mm"]
    return table, texts, [*numbers, "body_mass_g", "year"]


def encoded(table, texts, numbers):
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(sparse_output=False), texts),
    )
    return encoder.fit_transform(table)


def test_classes_of_an_ordinary_table():
    table, texts, numbers = penguins()
    X = encoded(table, [name for name in texts if name != "species"], numbers)
    search = PursuitSearchCV(KMPClassifier(), cv=StratifiedKFold(3)).fit(X, table["species"])
    assert search.best_score_ > 0.97


@pytest.mark.parametrize("target", penguins()[2])
def test_values_of_an_ordinary_table(target):
    table, texts, numbers = penguins()
    table = table[table[target].notna()]
    X = encoded(table, texts, [name for name in numbers if name != target])
    search = PursuitSearchCV(KMPRegressor(), cv=3).fit(X, table[target])
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"])) and search.score(X, table[target]) > 0
