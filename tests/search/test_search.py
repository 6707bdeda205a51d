"""Cross-validation along the path: the scores of a plain loop, at the price of one path for each fold and width."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, get_scorer, mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score

from kernelpursuit import KMPClassifier, KMPRegressor, PursuitSearchCV, SparseKernelFDA
from kernelpursuit.kernels import scale_gamma
from kernelpursuit.plots.path import _cross_validated
from kernelpursuit.search.score_table import best_pair, cv_results
from kernelpursuit.search.settings import Setting

# Short paths keep the tests fast; that warning is asserted in `test_reports.py`.
pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")
FOLDS = KFold(3, shuffle=True, random_state=0)
GAMMAS = [0.1, 1.0]
MOST = 6


def data(n=60, targets=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, np.cos(X[:, 1])]) + 0.2 * rng.normal(size=(n, 2))
    return X, Y[:, 0] if targets is None else Y[:, :targets]


def labels(X, n_classes=3):
    edges = np.quantile(X[:, 0] + X[:, 1] ** 2, np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1] ** 2, edges)]


def by_hand(make, metric, X, y, w=None, gammas=GAMMAS, folds=FOLDS, most=MOST, **options):
    """(widths, folds, numbers) scores, each of a fit of its own."""
    table = np.empty((len(gammas), folds.get_n_splits(), most))
    for i, gamma in enumerate(gammas):
        for j, (train, test) in enumerate(folds.split(X, y)):
            for k in range(1, most + 1):
                model = make(k, gamma=gamma, **options)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(X[train], y[train], sample_weight=None if w is None else w[train])
                weights = None if w is None else w[test]
                table[i, j, k - 1] = metric(y[test], model.predict(X[test]), sample_weight=weights)
    return table


def negative_error(y, f, sample_weight=None):
    return -mean_squared_error(y, f, sample_weight=sample_weight)


def splits(model):
    n_folds = sum(name.startswith("split") for name in model.cv_results_)
    columns = [model.cv_results_[f"split{i}_test_score"] for i in range(n_folds)]
    return np.stack(columns).reshape(n_folds, -1, model.max_atoms).transpose(1, 0, 2)


def assert_best(model, table, gammas):
    mean = table.mean(axis=1)
    k, i = np.argwhere(mean.T > mean.max() - 1e-12)[0]  # of several the fewest atoms
    assert model.best_params_["n_atoms"] == k + 1 == len(model.best_estimator_.path_) and model.best_params_[
        "gamma"
    ] == pytest.approx(gammas[i])
    assert model.best_score_ == pytest.approx(mean.max())


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options", [{"alpha": 0.0}, {"variant": "backfit", "alpha": 0.1}, {"variant": "basic"}], ids=str
)
def test_scores_are_those_of_a_loop(options, weighted, targets):
    X, y = data(targets=targets)
    w = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    model = PursuitSearchCV(KMPRegressor(**options), max_atoms=MOST, gammas=GAMMAS, cv=FOLDS).fit(X, y, sample_weight=w)
    table = by_hand(KMPRegressor, negative_error, X, y, w, **options)
    np.testing.assert_allclose(splits(model), table, rtol=1e-8)
    assert_best(model, table, GAMMAS)
    same = KMPRegressor(**model.best_params_, **options).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    for name in ("support_", "support_vectors_", "support_kernels_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model.best_estimator_, name), getattr(same, name))
    np.testing.assert_array_equal(model.truncate(1).predict(X), same.truncate(1).predict(X))
    assert len(list(model.staged_predict(X))) == model.best_params_["n_atoms"]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_classifier_scores_are_those_of_a_loop(loss, n_classes):
    X, _ = data()
    y = labels(X, n_classes)
    folds = StratifiedKFold(3)
    model = PursuitSearchCV(KMPClassifier(loss=loss, alpha=0.0), max_atoms=4, gammas=GAMMAS, cv=3).fit(X, y)
    table = by_hand(KMPClassifier, accuracy_score, X, y, folds=folds, most=4, loss=loss, alpha=0.0)
    np.testing.assert_allclose(splits(model), table)
    assert_best(model, table, GAMMAS)
    assert list(model.classes_) == sorted(set(y)) and set(model.predict(X)) <= set(y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_results_load_as_a_table():
    X, y = data()
    model = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, gammas=GAMMAS, cv=FOLDS).fit(X, y)
    frame = pd.DataFrame(model.cv_results_)
    assert len(frame) == 2 * MOST
    parts = frame[["split0_test_score", "split1_test_score", "split2_test_score"]].to_numpy()
    np.testing.assert_allclose(frame["mean_test_score"], parts.mean(axis=1))
    np.testing.assert_allclose(frame["std_test_score"], parts.std(axis=1))
    best = frame.loc[frame["rank_test_score"].idxmin()]
    assert best["param_n_atoms"] == model.best_params_["n_atoms"] and best["param_gamma"] == model.best_params_["gamma"]
    assert best["rank_test_score"] == 1 and best["mean_test_score"] == model.best_score_
    order = frame.sort_values("rank_test_score")["mean_test_score"].to_numpy()
    assert np.all(np.diff(order) <= 0)


def test_default_widths_and_folds():
    X, y = data()
    model = PursuitSearchCV(KMPRegressor(), max_atoms=3).fit(X, y)
    widths = np.unique(model.cv_results_["param_gamma"])
    np.testing.assert_allclose(widths, scale_gamma(X) * 4.0 ** np.arange(-3, 2))
    assert "split4_test_score" in model.cv_results_ and "split5_test_score" not in model.cv_results_
    # rows of weight 0 do not count for the width
    w = (np.arange(len(X)) % 2).astype(float)
    weighted = PursuitSearchCV(KMPRegressor(), max_atoms=3).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(np.unique(weighted.cv_results_["param_gamma"])[3], scale_gamma(X[1::2]))


def test_one_standard_error_takes_fewer():
    X, y = data()
    plain = PursuitSearchCV(KMPRegressor(), max_atoms=20, gammas=GAMMAS, cv=FOLDS).fit(X, y)
    fewer = clone(plain).set_params(one_standard_error=True).fit(X, y)
    assert fewer.best_params_["n_atoms"] <= plain.best_params_["n_atoms"] and fewer.best_score_ <= plain.best_score_
    table = splits(plain)
    i, k = list(GAMMAS).index(plain.best_params_["gamma"]), plain.best_params_["n_atoms"] - 1
    limit = plain.best_score_ - table[i, :, k].std(ddof=1) / np.sqrt(3)
    assert fewer.best_score_ >= limit
    smaller = table.mean(axis=1)[:, : fewer.best_params_["n_atoms"] - 1]
    assert np.all(smaller < limit)


def test_one_standard_error_of_one_split():
    """One split has no standard error: the rule then changes nothing, and nothing is divided by zero."""
    X, y = data()
    split = [(np.arange(40), np.arange(40, 60))]
    plain = PursuitSearchCV(KMPRegressor(), max_atoms=10, gammas=GAMMAS, cv=split).fit(X, y)
    one = PursuitSearchCV(KMPRegressor(), max_atoms=10, gammas=GAMMAS, cv=split, one_standard_error=True).fit(X, y)
    assert one.best_params_["n_atoms"] == plain.best_params_["n_atoms"]


def test_best_pair():
    table = np.array([[[3.05, 3.0, 3.1], [3.05, 3.0, 3.3]], [[0.0, 3.1, 0.0], [0.0, 3.2, 0.0]]])
    assert best_pair(table, False) == (0, 3)
    # the best is 3.2 with a standard error of 0.1: one atom has 3.05, two reach 3.15, at the other width
    assert best_pair(table, True) == (1, 2)


@pytest.mark.parametrize("one_standard_error", [False, True])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e100])
def test_ties_are_not_decided_by_rounding(size, one_standard_error):
    """The fewest atoms, and of these the first width, have it; all of them have rank 1."""
    better = np.zeros((5, 6), dtype=bool)
    better[[3, 4, 1], [2, 2, 4]] = True
    scores = np.where(better, 1.0, -99.0)[:, None] * np.array([0.1, 0.2, 0.7])[None, :, None]  # of three folds
    table = size * scores * (1 + 1e-15 * np.random.default_rng(0).normal(size=scores.shape))
    assert best_pair(table, one_standard_error) == (3, 3)
    ranks = cv_results(table, [Setting(float(i)) for i in range(5)])["rank_test_score"].reshape(5, 6)
    np.testing.assert_array_equal(ranks, np.where(better, 1, 4))


def test_means_that_are_0_but_for_rounding_tie():
    folds = np.random.default_rng(0).normal(size=(5, 3, 6))
    assert best_pair(np.concatenate([folds, -folds], axis=1), False) == (0, 1)


def test_small_differences_of_errors_are_no_ties():
    """Errors that differ by far less than some others are."""
    table = -np.array([[[1e6, 1.000001e-8, 1e-8]]])
    assert best_pair(table, False) == (0, 3)
    np.testing.assert_array_equal(cv_results(table, [Setting(1.0)])["rank_test_score"], [3, 2, 1])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_scores_that_are_no_numbers_are_never_the_best(value):
    assert best_pair(np.array([[[value, 1.0, 2.0, value]]]), False) == (0, 3)


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


def test_jobs_do_not_change_the_result():
    X, y = data()
    one = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, gammas=GAMMAS, cv=FOLDS).fit(X, y)
    two = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, gammas=GAMMAS, cv=FOLDS, n_jobs=2).fit(X, y)
    for name, values in one.cv_results_.items():
        np.testing.assert_array_equal(values, two.cv_results_[name])
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_scorer_by_name_equals_the_default(weighted):
    X, y = data()
    w = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
    options = {"gammas": GAMMAS, "cv": FOLDS}
    default = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, **options).fit(X, y, sample_weight=w)
    named = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, **options, scoring="neg_mean_squared_error").fit(
        X, y, sample_weight=w
    )
    np.testing.assert_allclose(named.cv_results_["mean_test_score"], default.cv_results_["mean_test_score"], rtol=1e-9)
    rooted = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, **options, scoring="neg_root_mean_squared_error").fit(
        X, y, sample_weight=w
    )
    np.testing.assert_allclose(splits(rooted) ** 2, -splits(default), rtol=1e-9)
    own = PursuitSearchCV(
        KMPRegressor(), max_atoms=MOST, **options, scoring=lambda model, X, y: -len(model.support_)
    ).fit(X, y)
    assert own.best_params_["n_atoms"] == 1 and own.best_score_ == -1
    accuracy = PursuitSearchCV(KMPClassifier(), max_atoms=MOST, **options, scoring="accuracy").fit(
        X, labels(X), sample_weight=w
    )
    plain = PursuitSearchCV(KMPClassifier(), max_atoms=MOST, **options).fit(X, labels(X), sample_weight=w)
    np.testing.assert_allclose(splits(accuracy), splits(plain))


@pytest.mark.parametrize("kind", ["values", "two targets", "basic", "two classes", "three classes", "labels", "fisher"])
def test_the_metric_by_name_is_what_its_scorer_gives(kind, monkeypatch):
    """It is computed for all numbers of atoms at once; the scorer itself is called for each of them."""
    X, y = data(targets=2 if kind == "two targets" else None)
    make, name = KMPRegressor, "neg_mean_squared_error"
    if kind in ("two classes", "three classes", "labels", "fisher"):
        y = np.digitize(y, [0.0] if kind == "two classes" else [-0.3, 0.3])
        y = np.stack([y > 0, X[:, 0] > 0], axis=1).astype(int) if kind == "labels" else y
        make, name = SparseKernelFDA if kind == "fisher" else KMPClassifier, "accuracy"
    estimator = make(variant="basic") if kind == "basic" else make()
    called = PursuitSearchCV(estimator, max_atoms=MOST, scoring=get_scorer(name), gammas=GAMMAS, cv=FOLDS).fit(X, y)
    monkeypatch.setattr("kernelpursuit.search.search.check_scoring", None)  # so that none is made
    named = clone(called).set_params(scoring=name).fit(X, y)
    for key in ("mean_test_score", "std_test_score", "rank_test_score", "split2_test_score"):
        np.testing.assert_allclose(named.cv_results_[key], called.cv_results_[key], rtol=1e-10, atol=1e-15)
    assert named.best_params_ == called.best_params_


def test_kernels_without_a_width():
    X, y = data()
    for kernel in ("linear", "cosine", [("rbf", {"gamma": 0.5}), "linear"], lambda A, B: A @ B.T):
        model = PursuitSearchCV(KMPRegressor(kernel=kernel), max_atoms=2, cv=FOLDS).fit(X, y)
        assert "gamma" not in model.best_params_ and len(model.cv_results_["mean_test_score"]) == 2
        with pytest.raises(ValueError, match="gammas"):
            PursuitSearchCV(KMPRegressor(kernel=kernel), max_atoms=2, gammas=[1.0]).fit(X, y)


def test_precomputed_kernel():
    X, y = data()
    K = rbf_kernel(X, gamma=0.7)
    ready = PursuitSearchCV(KMPRegressor(kernel="precomputed"), max_atoms=MOST, cv=FOLDS).fit(K, y)
    direct = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, gammas=[0.7], cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(splits(ready), splits(direct), rtol=1e-7)
    np.testing.assert_array_equal(ready.best_estimator_.support_, direct.best_estimator_.support_)
    np.testing.assert_allclose(ready.predict(K), direct.predict(X), rtol=1e-7)
    assert ready.best_estimator_.gamma_ is None
    with pytest.raises(ValueError, match="square"):
        PursuitSearchCV(KMPRegressor(kernel="precomputed")).fit(K[:, :10], y)


def test_short_paths_keep_their_last_score():
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PursuitSearchCV(KMPRegressor(kernel="linear"), max_atoms=8, cv=FOLDS).fit(X, y)
    curve = model.cv_results_["mean_test_score"]
    assert np.all(curve[2:] == curve[1]) and model.best_params_["n_atoms"] <= 2


@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error"])
def test_constant_targets(scoring):
    X, _ = data()
    w = np.ones(len(X))
    for weights in (None, w):
        model = PursuitSearchCV(KMPRegressor(), max_atoms=3, cv=FOLDS, scoring=scoring).fit(
            X, np.full(len(X), 2.0), sample_weight=weights
        )
        np.testing.assert_allclose(model.predict(X), 2.0)
        assert model.best_score_ == pytest.approx(0)


def test_folds_as_in_scikit_learn():
    X, y = data()
    groups = np.arange(len(X)) % 4
    pairs = list(GroupKFold(4).split(X, y, groups))
    listed = PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=GAMMAS, cv=pairs).fit(X, y)
    generated = PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=GAMMAS, cv=iter(pairs)).fit(X, y)
    np.testing.assert_array_equal(listed.cv_results_["mean_test_score"], generated.cv_results_["mean_test_score"])
    assert "split3_test_score" in listed.cv_results_
    for model in (
        PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=GAMMAS),
        PursuitSearchCV(KMPClassifier(), max_atoms=3, gammas=GAMMAS),
        PursuitSearchCV(SparseKernelFDA(), max_atoms=3),
    ):
        target = y > 0 if is_classifier(model) else y
        scores = [
            clone(model).set_params(cv=cv).fit(X, target, **given).cv_results_["split1_test_score"]
            for cv, given in ((pairs, {}), (GroupKFold(4), {"groups": groups}))
        ]
        np.testing.assert_array_equal(*scores)
        with pytest.raises(ValueError, match="groups"):
            clone(model).set_params(cv=GroupKFold(4)).fit(X, target)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            clone(model).set_params(cv=GroupKFold(4)).fit(X, target, groups=groups[:-1])


def test_groups_are_routed():
    X, y = data()
    groups = np.arange(len(X)) % 6
    with config_context(enable_metadata_routing=True):
        model = PursuitSearchCV(KMPRegressor(), max_atoms=3, gammas=GAMMAS, cv=GroupKFold(2)).set_fit_request(
            groups=True
        )
        scores = cross_val_score(model, X, y, cv=GroupKFold(3), params={"groups": groups})
    assert np.all(np.isfinite(scores))


@pytest.mark.parametrize("estimator", [KMPRegressor(), KMPClassifier()], ids=str)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_atoms", 0), ("gammas", []), ("gammas", [-1.0]), ("gammas", [np.nan]), ("gammas", [[1.0]]),
        ("gammas", 1.0), ("cv", 1), ("scoring", "best"), ("n_jobs", "all"), ("one_standard_error", "yes"),
        ("variant", "forward"), ("kernel", "gauss"), ("gammas", ["wide"]),
    ],
)  # fmt: skip
def test_errors_name_the_parameter(estimator, name, value):
    X, y = data()
    named = {"cv": "k-fold|cv|n_splits"}.get(name, name)
    with pytest.raises(ValueError, match=named):
        search = PursuitSearchCV(clone(estimator))
        search.set_params(**{name if name in search.get_params(deep=False) else f"estimator__{name}": value})
        search.fit(X, labels(X, 2) if is_classifier(search) else y)


def test_random_state_reproduces():
    X, y = data()
    models = [
        PursuitSearchCV(KMPRegressor(candidates=7, random_state=3), max_atoms=5, gammas=GAMMAS, cv=FOLDS).fit(X, y)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(models[0].cv_results_["mean_test_score"], models[1].cv_results_["mean_test_score"])
    np.testing.assert_array_equal(models[0].best_estimator_.support_, models[1].best_estimator_.support_)


@pytest.mark.parametrize(("gap", "chosen"), [(0.052, 1), (0.06, 2)])
def test_standard_error_is_that_of_a_sample(gap, chosen):
    """Folds .8, .9 and 1: the standard error is .1 / sqrt(3) = .0577 (.0471 if they were all folds there are)."""
    best = np.array([0.8, 0.9, 1.0])
    table = np.stack([best - gap, best], axis=1)[None]
    assert best_pair(table, True) == (0, chosen)
    assert best_pair(table, False) == (0, 2)


def test_every_ridge_is_tried_with_every_width():
    X, y = data()
    ridges = [0.0, 1e-3, 0.1]
    found = PursuitSearchCV(KMPRegressor(), max_atoms=MOST, gammas=GAMMAS, alphas=ridges, cv=FOLDS).fit(X, y)
    results = found.cv_results_
    assert len(results["mean_test_score"]) == len(GAMMAS) * len(ridges) * MOST
    alone = {
        alpha: PursuitSearchCV(KMPRegressor(alpha=alpha), max_atoms=MOST, gammas=GAMMAS, cv=FOLDS).fit(X, y)
        for alpha in ridges
    }
    for alpha, single in alone.items():
        mine = results["param_alpha"] == alpha
        # Folds go together where no ridges are searched for: the same but for rounding.
        np.testing.assert_allclose(results["mean_test_score"][mine], single.cv_results_["mean_test_score"], rtol=1e-9)
        np.testing.assert_array_equal(results["param_gamma"][mine], single.cv_results_["param_gamma"])
        assert "param_alpha" not in single.cv_results_ and single.best_estimator_.alpha_ == alpha
    best = max(alone.values(), key=lambda single: single.best_score_)
    assert found.best_params_ == best.best_params_ | {"alpha": best.best_estimator_.alpha_}
    np.testing.assert_array_equal(found.predict(X), best.predict(X))


@pytest.mark.parametrize("alphas", [[], [-1.0], ["a"], [[1.0]], [np.nan]])
def test_ridges_that_are_none(alphas):
    with pytest.raises(ValueError, match="alphas must be a list of non-negative numbers"):
        PursuitSearchCV(KMPClassifier(), alphas=alphas).fit(data()[0], labels(data()[0]))


def test_a_search_over_ridges_is_drawn_and_told(capsys):
    X = data()[0]
    found = PursuitSearchCV(KMPClassifier(), max_atoms=4, gammas=[0.5], alphas=[0.0, 1.0], cv=2, verbose=1).fit(
        X, labels(X)
    )
    assert "fold 2 of 2, gamma=0.5, alpha=1:" in capsys.readouterr().out
    k, errors = _cross_validated(found, classifier=True)
    assert len(k) == 4
    assert 1 - errors.min() == pytest.approx(found.best_score_)
