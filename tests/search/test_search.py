"""PursuitSearchCV: the scores of a plain loop or grid search, at the price of one path for each fold and width."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold, cross_val_score
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
from kernelpursuit.kernels import scale_gamma
from kernelpursuit.ranking import group_sizes

# Short paths keep the tests fast; the warnings about them are asserted in `fitting/test_reports.py`.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FOLDS = KFold(3, shuffle=True, random_state=0)
GAMMAS = [0.1, 1.0]
SMALL = {"max_atoms": 6, "gammas": GAMMAS, "cv": FOLDS}
PENGUINS = Path(__file__).parents[2] / "examples" / "penguins.csv"


def data(n=60, targets=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, np.cos(X[:, 1])]) + 0.2 * rng.normal(size=(n, 2))
    return X, Y[:, 0] if targets is None else Y[:, :targets]


def labels(X, n_classes=3):
    value = X[:, 0] + X[:, 1] ** 2
    return np.array(["a", "b", "c"])[np.digitize(value, np.quantile(value, np.linspace(0, 1, n_classes + 1)[1:-1]))]


def splits(model):
    """Scores, (settings, folds, numbers of atoms)."""
    columns = [model.cv_results_[f"split{i}_test_score"] for i in range(model.n_splits_)]
    return np.stack(columns).reshape(model.n_splits_, -1, model.max_atoms).transpose(1, 0, 2)


@st.composite
def problems(draw):
    """A small search, its data, its folds, and the scorer that stands for its own scores."""
    n, d = draw(st.integers(24, 45)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = np.round(X)  # equal rows, so that paths end early
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    folds = draw(st.integers(2, 3))
    if draw(st.booleans()):
        n_classes, scoring = draw(st.integers(2, 3)), draw(st.sampled_from([None, "accuracy", "f1_macro"]))
        place = np.argsort(np.argsort(y)) * n_classes // n
        weights = draw(st.sampled_from([None, "balanced", {"a": 1.0, "b": 3.0}, {"c": 2.0}]))
        if isinstance(weights, dict):
            weights = {name: weight for name, weight in weights.items() if name in "abc"[:n_classes]} or None
        estimator = draw(
            st.sampled_from(
                [KMPClassifier(alpha=0.1), KMPClassifier(alpha=0.1, loss="log_loss"), SparseKernelFDA(alpha=1e-3)]
            )
        ).set_params(class_weight=weights)
        return estimator, X, np.array(list("abc"))[place], StratifiedKFold(folds), scoring, "accuracy"
    scoring = draw(st.sampled_from([None, "neg_mean_squared_error", "r2"]))
    if draw(st.booleans()):
        estimator = PolytopeFacesRegressor(release=draw(st.booleans()))
    else:
        estimator = KMPRegressor(alpha=0.1, variant=draw(st.sampled_from(["prefit", "backfit", "basic"])))
        y = np.column_stack([y, X[:, -1]]) if draw(st.booleans()) else y
    return estimator, X, y, KFold(folds, shuffle=True, random_state=0), scoring, "neg_mean_squared_error"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(), most=st.integers(1, 5), gammas=st.sets(st.sampled_from([0.01, 0.1, 2.0]), min_size=1))
def test_it_finds_what_a_grid_search_finds(problem, most, gammas):
    (estimator, X, y, folds, scoring, own), gammas = problem, sorted(gammas)
    grid = {"gamma": gammas, "n_atoms": list(range(1, most + 1))}
    plain = GridSearchCV(estimator, grid, cv=folds, scoring=scoring or own, refit=False).fit(X, y)
    search = PursuitSearchCV(clone(estimator), gammas=gammas, max_atoms=most, cv=folds, scoring=scoring).fit(X, y)
    wanted = plain.cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], wanted, rtol=1e-8, atol=1e-8)
    best = wanted.reshape(len(gammas), most)
    k, width = np.argwhere(best.T > best.max() - 1e-12 * max(1.0, abs(best.max())))[0]  # of equal ones the fewest atoms
    assert search.best_params_ == {"n_atoms": k + 1, "gamma": gammas[width]}
    one = clone(estimator).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), one.predict(X))


@pytest.mark.parametrize("scoring", [None, "named"])
@pytest.mark.parametrize(
    ("estimator", "targets"),
    [
        (KMPRegressor(alpha=0.0), None),
        (KMPRegressor(variant="backfit", alpha=0.1), 2),
        (KMPClassifier(alpha=0.1, class_weight={"b": 3.0}), None),
    ],
    ids=str,
)
def test_rows_count_by_their_weights_in_fits_and_scores(estimator, targets, scoring):
    """Weights of classes are in the fits alone."""
    X, y = data(targets=targets)
    metric, name = lambda *given, **w: -mean_squared_error(*given, **w), "neg_mean_squared_error"
    if is_classifier(estimator):
        y, metric, name = labels(X), accuracy_score, "accuracy"
    w = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    model = PursuitSearchCV(estimator, **SMALL, scoring=scoring and name).fit(X, y, sample_weight=w)
    folds = list(FOLDS.split(X))
    for k, gamma, (fold, (train, test)) in [(1, 0.1, (0, folds[0])), (4, 1.0, (2, folds[2])), (6, 0.1, (1, folds[1]))]:
        single = clone(estimator).set_params(n_atoms=k, gamma=gamma).fit(X[train], y[train], w[train])
        score = metric(y[test], single.predict(X[test]), sample_weight=w[test])
        assert splits(model)[GAMMAS.index(gamma), fold, k - 1] == pytest.approx(score, rel=1e-8)
    same = clone(estimator).set_params(**model.best_params_).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))


def test_scorers_are_called_for_each_number_of_atoms():
    X, y = data()
    w = np.random.default_rng(1).uniform(0.5, 2, len(X))
    own = PursuitSearchCV(KMPRegressor(), **SMALL).fit(X, y, sample_weight=w)
    rooted = clone(own).set_params(scoring="neg_root_mean_squared_error").fit(X, y, sample_weight=w)
    np.testing.assert_allclose(splits(rooted) ** 2, -splits(own), rtol=1e-9)
    fewest = clone(own).set_params(scoring=lambda model, X, y: -len(model.support_)).fit(X, y)
    assert fewest.best_params_["n_atoms"] == 1 and fewest.best_score_ == -1


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
    squares = clone(search).set_params(scoring="neg_mean_squared_error").fit(X, y, groups=groups)
    assert squares.best_score_ < 0, "a score of values, not of orders"


def test_attributes_are_those_of_grid_searches():
    X, y = data()
    table = pd.DataFrame(X, columns=["a", "b"])
    search = PursuitSearchCV(KMPClassifier(), gammas=GAMMAS, alphas=[0.0, 0.1], max_atoms=3, cv=2)
    assert not hasattr(search, "classes_") and not hasattr(search, "n_features_in_")
    search.fit(table, np.where(y > 0, "high", "low"))
    results = search.cv_results_
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.best_score_ == results["mean_test_score"][search.best_index_]
    assert results["rank_test_score"][search.best_index_] == 1 and search.n_splits_ == 2 and search.refit_time_ > 0
    frame = pd.DataFrame(results)
    assert len(frame) == 12 and np.all(np.diff(frame.sort_values("rank_test_score")["mean_test_score"]) <= 0)
    parts = frame[["split0_test_score", "split1_test_score"]].to_numpy()
    np.testing.assert_allclose(frame["mean_test_score"], parts.mean(axis=1))
    np.testing.assert_allclose(frame["std_test_score"], parts.std(axis=1))
    for name in ("classes_", "feature_names_in_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(search, name), getattr(search.best_estimator_, name))
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(search, name)(table), getattr(search.best_estimator_, name)(table))
    for name in ("staged_predict", "staged_decision_function"):
        pairs = zip(getattr(search, name)(table), getattr(search.best_estimator_, name)(table), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs)
    np.testing.assert_array_equal(search.truncate(1).predict(table), search.best_estimator_.truncate(1).predict(table))
    assert not hasattr(search, "transform") and hasattr(PursuitSearchCV(SparseKernelFDA()), "transform")
    assert not hasattr(PursuitSearchCV(KMPRegressor()), "predict_proba")
    assert not hasattr(search.fit(X, y > 0), "feature_names_in_")


@pytest.mark.parametrize("estimator", [KMPRegressor(), KMPClassifier(), SparseKernelFDA()], ids=str)
def test_nothing_is_written_into_the_estimator(estimator):
    X, y = data()
    y, before = y > 0 if is_classifier(estimator) else y, dict(vars(estimator))
    search = PursuitSearchCV(estimator, gammas=[0.5], max_atoms=3, cv=2).fit(X, y)
    plain = clone(estimator).set_params(**search.best_params_).fit(X, y)
    assert vars(estimator) == before and vars(search.best_estimator_).keys() == vars(plain).keys()


def test_default_widths_and_folds():
    X, y = data()
    model = PursuitSearchCV(KMPRegressor(), max_atoms=3).fit(X, y)
    np.testing.assert_allclose(np.unique(model.cv_results_["param_gamma"]), scale_gamma(X) * 4.0 ** np.arange(-3, 2))
    assert model.n_splits_ == 5
    w = (np.arange(len(X)) % 2).astype(float)  # rows of weight 0 do not count for the width
    weighted = PursuitSearchCV(KMPRegressor(), max_atoms=3).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(np.unique(weighted.cv_results_["param_gamma"])[3], scale_gamma(X[1::2]))


def test_one_standard_error_takes_fewer():
    X, y = data()
    plain = PursuitSearchCV(KMPRegressor(), **SMALL | {"max_atoms": 20}).fit(X, y)
    fewer = clone(plain).set_params(one_standard_error=True).fit(X, y)
    assert fewer.best_params_["n_atoms"] <= plain.best_params_["n_atoms"]
    table = splits(plain)
    i, k = GAMMAS.index(plain.best_params_["gamma"]), plain.best_params_["n_atoms"] - 1
    limit = plain.best_score_ - table[i, :, k].std(ddof=1) / np.sqrt(3)
    assert plain.best_score_ >= fewer.best_score_ >= limit
    assert np.all(table.mean(axis=1)[:, : fewer.best_params_["n_atoms"] - 1] < limit)


def test_a_choice_between_ties_does_not_depend_on_the_scale_of_weights():
    X, _ = data(75)
    y, gammas = labels(X, 2), [0.03, 0.1, 0.3, 1.0]
    models = [
        PursuitSearchCV(KMPClassifier(), max_atoms=8, gammas=gammas, cv=5).fit(
            X, y, sample_weight=None if w is None else np.full(75, w)
        )
        for w in (None, 1.0, 0.1, 0.7, 1 / 75)
    ]
    assert (models[0].cv_results_["rank_test_score"] == 1).sum() > 1, "no tie, and nothing is tested"
    for model in models[1:]:
        np.testing.assert_array_equal(model.cv_results_["rank_test_score"], models[0].cv_results_["rank_test_score"])
        assert model.best_params_ == models[0].best_params_


def test_jobs_and_repetitions_do_not_change_the_result():
    X, y = data()
    one = PursuitSearchCV(KMPRegressor(candidates=7, random_state=3), **SMALL).fit(X, y)
    for jobs in (None, 2):
        other = clone(one).set_params(n_jobs=jobs).fit(X, y)
        for name, values in one.cv_results_.items():
            np.testing.assert_array_equal(values, other.cv_results_[name])
        np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_kernels_without_a_width():
    X, y = data()
    for kernel in ("linear", [("rbf", {"gamma": 0.5}), "linear"], lambda A, B: A @ B.T):
        model = PursuitSearchCV(KMPRegressor(kernel=kernel), max_atoms=2, cv=FOLDS).fit(X, y)
        assert "gamma" not in model.best_params_ and len(model.cv_results_["mean_test_score"]) == 2
        with pytest.raises(ValueError, match="gammas"):
            PursuitSearchCV(KMPRegressor(kernel=kernel), max_atoms=2, gammas=[1.0]).fit(X, y)


@pytest.mark.parametrize("estimator", [KMPRegressor(), SparseKernelFDA()], ids=str)
def test_precomputed_kernel(estimator):
    X, y = data()
    y = y > 0 if is_classifier(estimator) else y
    K = rbf_kernel(X, gamma=0.7)
    ready = PursuitSearchCV(clone(estimator).set_params(kernel="precomputed"), max_atoms=6, cv=FOLDS).fit(K, y)
    direct = PursuitSearchCV(estimator, max_atoms=6, gammas=[0.7], cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(splits(ready), splits(direct), rtol=1e-7)
    np.testing.assert_array_equal(ready.best_estimator_.support_, direct.best_estimator_.support_)
    np.testing.assert_allclose(ready.predict(K), direct.predict(X), rtol=1e-7)
    with pytest.raises(ValueError, match="square"):
        clone(ready).fit(K[:, :10], y)


def test_short_paths_keep_their_last_score():
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PursuitSearchCV(KMPRegressor(kernel="linear"), max_atoms=8, cv=FOLDS).fit(X, y)
    curve = model.cv_results_["mean_test_score"]
    assert np.all(curve[2:] == curve[1]) and model.best_params_["n_atoms"] <= 2


@pytest.mark.parametrize("weights", [None, np.ones(60)])
@pytest.mark.parametrize("scoring", [None, "r2"])
def test_constant_targets(scoring, weights):
    X, _ = data()
    model = PursuitSearchCV(KMPRegressor(), max_atoms=3, cv=FOLDS, scoring=scoring)
    model.fit(X, np.full(60, 2.0), sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), 2.0)
    assert model.best_score_ == pytest.approx(0 if scoring is None else 1)


@pytest.mark.parametrize("estimator", [KMPRegressor(), KMPClassifier(), SparseKernelFDA()], ids=str)
def test_folds_as_in_scikit_learn(estimator):
    X, y = data()
    groups, y = np.arange(len(X)) % 4, y > 0 if is_classifier(estimator) else y
    pairs = list(GroupKFold(4).split(X, y, groups))
    model = PursuitSearchCV(estimator, max_atoms=3, gammas=GAMMAS, cv=GroupKFold(4))
    scores = model.fit(X, y, groups=groups).cv_results_["mean_test_score"]
    for cv in (pairs, iter(pairs)):
        other = clone(model).set_params(cv=cv).fit(X, y)
        np.testing.assert_array_equal(other.cv_results_["mean_test_score"], scores)
    with pytest.raises(ValueError, match="groups"):
        clone(model).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(model).fit(X, y, groups=groups[:-1])
    with config_context(enable_metadata_routing=True):
        outer = cross_val_score(
            clone(model).set_params(cv=GroupKFold(2)).set_fit_request(groups=True), X, y, cv=GroupKFold(3),
            params={"groups": np.arange(len(X)) % 6},
        )  # fmt: skip
    assert np.all(np.isfinite(outer))


def test_every_ridge_is_tried_with_every_width():
    X, y = data()
    ridges = [0.0, 1e-3, 0.1]
    found = PursuitSearchCV(KMPRegressor(), **SMALL, alphas=ridges).fit(X, y)
    results = found.cv_results_
    assert len(results["mean_test_score"]) == len(GAMMAS) * len(ridges) * 6
    alone = {alpha: PursuitSearchCV(KMPRegressor(alpha=alpha), **SMALL).fit(X, y) for alpha in ridges}
    for alpha, single in alone.items():
        mine = results["param_alpha"] == alpha
        np.testing.assert_allclose(results["mean_test_score"][mine], single.cv_results_["mean_test_score"], rtol=1e-9)
        np.testing.assert_array_equal(results["param_gamma"][mine], single.cv_results_["param_gamma"])
        assert "param_alpha" not in single.cv_results_ and single.best_estimator_.alpha_ == alpha
    best = max(alone.values(), key=lambda single: single.best_score_)
    assert found.best_params_ == best.best_params_ | {"alpha": best.best_estimator_.alpha_}
    np.testing.assert_array_equal(found.predict(X), best.predict(X))
    with pytest.raises(ValueError, match="PolytopeFacesRegressor has no alpha"):
        PursuitSearchCV(PolytopeFacesRegressor(), alphas=[0.1]).fit(X, y)


@pytest.mark.parametrize("estimator", [KMPRegressor(), KMPClassifier()], ids=str)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_atoms", 0), ("cv", 1), ("scoring", "best"), ("n_jobs", "all"), ("one_standard_error", "yes"),
        ("variant", "forward"), ("kernel", "gauss"),
        *((name, grid) for name in ("gammas", "alphas") for grid in ([], [-1.0], [np.nan], [[1.0]], ["wide"], 1.0)),
    ],
)  # fmt: skip
def test_errors_name_the_parameter(estimator, name, value):
    X, y = data()
    named = {"cv": "k-fold|cv|n_splits"}.get(name, name)
    with pytest.raises(ValueError, match=named):
        search = PursuitSearchCV(clone(estimator))
        search.set_params(**{name if name in search.get_params(deep=False) else f"estimator__{name}": value})
        search.fit(X, labels(X, 2) if is_classifier(search) else y)


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


@pytest.mark.parametrize("estimator", [KMPClassifier(), SparseKernelFDA()], ids=str)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_folds_without_a_second_class_are_refused(estimator):
    X, row = data()[0], np.arange(60)
    for y, weights, cv, said in (
        (np.where(row == 7, "rare", "usual"), None, 5, "of class usual; .* 1 row in all"),
        (np.where(row < 9, "rare", "usual"), (row > 7) * 2.0, 3, "of class usual; .* 1 row in all"),
        ((row < 10).astype(int), None, KFold(3), r"fold 1 of 3 are all of class 0; .* 10 rows in all.*StratifiedKFold"),
        (np.zeros(60), None, 5, "y must have two classes or more"),
    ):
        with pytest.raises(ValueError, match=said):
            PursuitSearchCV(estimator, max_atoms=5, cv=cv).fit(X, y, sample_weight=weights)
    three = np.r_[2, row[:-1] % 2]  # a rare class among three is no reason to stop
    assert PursuitSearchCV(estimator, max_atoms=5, gammas=[1.0]).fit(X, three).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "search",
    [
        PursuitSearchCV(KMPClassifier(), max_atoms=3, gammas=[0.5], cv=KFold(3)),
        PursuitSearchCV(KMPClassifier(), max_atoms=3, gammas=[0.5], cv=KFold(3), input_weights="learned"),
        PursuitSearchCV(SparseKernelFDA(), max_atoms=3, gammas=[0.5], cv=KFold(3)),
    ],
    ids=["kmp", "learned inputs", "fda"],
)
def test_a_fold_without_a_class_that_has_a_weight(search):
    """Classes that are not named have weight 1 there, too."""
    y = np.repeat([0, 1, 2], [60, 57, 3])
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    one = clone(search).set_params(estimator__class_weight={2: 5.0}).fit(X, y)
    two = clone(search).set_params(estimator__class_weight={0: 1.0, 1: 1.0, 2: 5.0}).fit(X, y)
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    with pytest.raises(ValueError, match=r"class_weight names \[7\].*\[0, 1, 2\]"):
        clone(search).set_params(estimator__class_weight={7: 5.0}).fit(X, y)


def test_weights_of_classes_make_no_rows_in_the_last_fit():
    X, _ = data(150)
    y = labels(X, 2)
    search = PursuitSearchCV(KMPClassifier(class_weight={"a": 5.0}), **SMALL).fit(X, y)
    plain = KMPClassifier(class_weight={"a": 5.0}).set_params(**search.best_params_).fit(X, y)
    assert search.best_estimator_.alpha_ == pytest.approx(plain.alpha_, rel=1e-6)
    np.testing.assert_allclose(search.predict_proba(X), plain.predict_proba(X), rtol=1e-5)


def test_rows_in_float32():
    X, y = data(120)
    single = X.astype(np.float32)
    one, other = (PursuitSearchCV(KMPRegressor(), gammas=[0.3, 1.0], max_atoms=15).fit(rows, y) for rows in (single, X))
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-3)
    assert one.predict(single).dtype == np.float32
    np.testing.assert_allclose(one.predict(single), other.predict(X), atol=1e-3)


@pytest.mark.parametrize(
    "target", ["species", "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"]
)
def test_an_ordinary_table(target):
    """The penguins, encoded in an ordinary way, without the column that is the target."""
    table = pd.read_csv(PENGUINS)
    table = table[table[target].notna()]
    texts = [name for name in ("species", "island", "sex") if name != target]
    X = make_column_transformer(
        (OneHotEncoder(sparse_output=False), texts),
        remainder=make_pipeline(SimpleImputer(), StandardScaler()),
    ).fit_transform(table.drop(columns=target))
    if target == "species":
        search = PursuitSearchCV(KMPClassifier(), cv=StratifiedKFold(3)).fit(X, table[target])
        assert search.best_score_ > 0.97
    else:
        search = PursuitSearchCV(KMPRegressor(), cv=3).fit(X, table[target])
        assert np.all(np.isfinite(search.cv_results_["mean_test_score"])) and search.score(X, table[target]) > 0


def test_lines_name_fold_and_setting(capsys):
    X, _ = data()
    with pytest.warns(ConvergenceWarning, match="max_atoms=1"):
        PursuitSearchCV(KMPClassifier(), max_atoms=1, gammas=[0.5], alphas=[0.0, 1.0], cv=2, verbose=1).fit(
            X, labels(X)
        )
    said = capsys.readouterr().out
    assert "fold 2 of 2, gamma=0.5, alpha=1:" in said and "chosen: gamma=0.5, alpha=" in said
