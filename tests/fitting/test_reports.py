"""What an estimator says: warnings with their advice, lines of `verbose`, errors, what a truncated model is."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import PredefinedSplit

import kernelpursuit as kp
from kernelpursuit.parameters import basic, tolerance


def data(n=120, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


# ---------------------------------------------------------------------------------------------- warnings


def test_a_model_without_atoms_says_so():
    X, _ = data()
    noise = np.random.default_rng(2).normal(size=len(X))
    with pytest.warns(ConvergenceWarning, match=r"no atoms and predicts a constant.*scale.*gamma.*n_atoms"):
        model = kp.KMPRegressor().fit(X, noise)
    assert len(model.support_) == 0
    with pytest.warns(ConvergenceWarning, match="no atoms"):
        kp.KMPRegressor(gamma=0).fit(X, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kp.KMPRegressor().fit(X, np.ones(len(X)))  # there is nothing to fit


@pytest.mark.parametrize("n", [2, 5, 8, 10])
@pytest.mark.parametrize("model", [kp.KMPRegressor(), kp.KMPClassifier(), kp.KMPRanker()], ids=repr)
def test_so_does_one_of_few_rows(model, n):
    """A path that fits all few rows before the rule keeps none of its atoms ends by its tolerance."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    with pytest.warns(ConvergenceWarning, match=r"no atoms and predicts a constant.*gcv was lowest after 0"):
        model.fit(X, np.arange(n) % 2 if isinstance(model, kp.KMPClassifier) else y)
    assert model.path_.reason == "tolerance" and len(model.support_) == 0


def test_so_does_one_whose_steps_are_all_given_up_though_their_number_is_given():
    X, _ = data()
    with pytest.warns(ConvergenceWarning, match="no atoms and predicts a constant"):
        kp.KMPRegressor(5, stop="gcv").fit(X, np.random.default_rng(2).normal(size=len(X)))


@pytest.mark.parametrize("n", [2, 30])
def test_so_does_one_chosen_by_rows_of_one_class(n):
    """The rows that are not held out may have one class, where the other is rare."""
    X, y = data(n)[0], np.zeros(n)
    for rare in range(n):
        y[:] = np.arange(n) == rare
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model = kp.KMPClassifier(loss="log_loss").fit(X, y)
        if len(model.support_) == 0:
            assert any("no atoms and predicts a constant" in str(one.message) for one in found)
            assert model.path_.reason == "validation"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kp.KMPRegressor(loss="huber").fit(X, np.ones(n))


@pytest.mark.parametrize("estimator", [kp.KMPRegressor(), kp.KMPClassifier(), kp.SparseKernelFDA()], ids=str)
def test_a_search_that_ends_at_its_longest_path_says_so(estimator):
    X, y = data(noise=0)
    y = (y > 0).astype(int) if is_classifier(estimator) else y
    with pytest.warns(ConvergenceWarning, match=r"max_atoms=1, the largest.*Raise max_atoms"):
        kp.PursuitSearchCV(estimator, max_atoms=1, gammas=[0.3], cv=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kp.PursuitSearchCV(estimator, max_atoms=60, gammas=[3.0], cv=3, one_standard_error=True).fit(X, y)


ON_RAW_UNITS = [
    kp.KMPRegressor(5), kp.KMPClassifier(5), kp.SparseKernelFDA(5), kp.SparseKernelPCA(5),
    kp.PursuitNystroem(n_components=5),
    kp.SparseKernelNovelty(5), kp.PolytopeFacesRegressor(5), kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, cv=2),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize("estimator", ON_RAW_UNITS, ids=lambda estimator: type(estimator).__name__)
def test_a_column_of_other_units_is_noticed(estimator):
    X, y = data()
    y = (y > 0).astype(int) if isinstance(estimator, kp.KMPClassifier | kp.SparseKernelFDA) else y
    raw = X * [1.0, 2000.0, 1.0]
    with pytest.warns(UserWarning, match=r"column 1 of X has 100.0% of the variance.*StandardScaler"):
        clone(estimator).fit(raw, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the best number of atoms")
        clone(estimator).fit(X * [1.0, 5.0, 1.0], y)
        clone(estimator).fit(X * [0.0, 5.0, 0.0], y)  # there is nothing else to see
        if "gamma" in estimator.get_params():
            clone(estimator).set_params(gamma=1e-6).fit(raw, y)  # a width for these inputs


def test_a_column_of_other_units_is_noticed_in_either_view():
    X, y = data()
    views = np.column_stack([X[:, 0], y]), X[:, 1:]
    with pytest.warns(UserWarning, match="column 1 of y has"):
        kp.SparseKernelCCA(5).fit(views[0], views[1] * [1.0, 1e4])
    with pytest.warns(UserWarning, match="column 0 of X has"):
        kp.SparseKernelCCA(5).fit(views[0] * [1e4, 1.0], views[1])


COUNTING = {  # where the sum of the weights is taken for a number of rows
    "auto": kp.KMPRegressor(),
    "ridge by evidence": kp.KMPRegressor(5),
    "leave_one_out": kp.KMPRegressor(stop="leave_one_out", alpha=0),
    "absolute loss": kp.KMPRegressor(loss="absolute_error"),
    "two classes": kp.KMPClassifier(),
    "three classes": kp.KMPClassifier(alpha=0),
    "search": kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, cv=2, gammas=[0.3]),
    "search of classes": kp.PursuitSearchCV(kp.KMPClassifier(), max_atoms=3, cv=2, gammas=[0.3]),
    "both": kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, cv=2, gammas=[1.0], input_weights="both"),
    "ranker": kp.KMPRanker(),
    "ranker by pairs": kp.KMPRanker(2, loss="log_loss"),
    "refined": kp.RefinedKMPRegressor(3, epochs=2, random_state=0),
    "refined classes": kp.RefinedKMPClassifier(3, epochs=2, random_state=0),
    "landmarks by y": kp.PursuitNystroem(n_components=5, selection="prefit", task="regression"),
    "adaptive": kp.ConformalRegressor(kp.KMPRegressor(), adaptive=True),
}


def counted(name, X, y):
    if name == "three classes":
        return np.digitize(y, [-0.5, 0.5])
    return y > 0 if "classes" in name else np.abs(y) if "ranker" in name else y


def remarks_on_weights(name, weight):
    X, y = data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(COUNTING[name]).fit(X, counted(name, X, y), sample_weight=np.full(len(X), weight))
    return [warning for warning in caught if "sample_weight" in str(warning.message)]


@pytest.mark.parametrize("name", COUNTING)
def test_weights_that_are_no_counts_are_noticed_once_at_the_line_of_the_user(name):
    about = remarks_on_weights(name, 10.0)
    assert len(about) == 1 and about[0].filename == __file__
    rows = 90 if name == "adaptive" else 120  # the others calibrate
    assert f"sums to {10 * rows} for {rows} rows" in str(about[0].message)
    assert "divide the weights by their mean" in str(about[0].message)


@pytest.mark.parametrize("name", COUNTING)
def test_weights_that_may_be_counts_are_not_remarked_on(name):
    assert not remarks_on_weights(name, 3.0)


@pytest.mark.parametrize(
    "estimator",
    [
        kp.KMPRegressor(5, alpha=0),
        kp.PursuitSearchCV(kp.KMPRegressor(alpha=0), max_atoms=3, cv=2, gammas=[0.3]),
        kp.KMPRanker(3, alpha=0),
        kp.SparseKernelFDA(5),
        kp.PursuitSearchCV(kp.SparseKernelFDA(), max_atoms=3, cv=2, gammas=[0.3]),
        kp.SparseKernelPCA(5),
        kp.SparseKernelNovelty(5),
        kp.PursuitNystroem(n_components=5),
        kp.PolytopeFacesRegressor(5),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_common_factor_of_the_weights_changes_nothing_where_nothing_is_said(estimator):
    X, y = data()
    y = y > 0 if is_classifier(estimator) else np.abs(y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain, many = (clone(estimator).fit(X, y, sample_weight=weights) for weights in (None, np.full(len(X), 10.0)))
    assert not [warning for warning in caught if "sample_weight" in str(warning.message)]
    use = next(name for name in ("decision_function", "predict", "transform") if hasattr(plain, name))
    np.testing.assert_allclose(getattr(many, use)(X), getattr(plain, use)(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: kp.KMPRegressor(90, kernel="linear").fit(X, y),
        lambda X, y: kp.SparseKernelFDA(90, kernel="linear").fit(X, y > 0),
        lambda X, y: kp.SparseKernelPCA(90, kernel="linear").fit(X),
        lambda X, y: kp.SparseKernelNovelty(90, kernel="linear", stop=tolerance(0)).fit(X),
        lambda X, y: kp.PursuitNystroem(kernel="linear", n_components=90).fit(X),
        lambda X, y: kp.PursuitNystroem(kernel="linear", n_components=90, selection="prefit").fit(X, y),
        lambda X, y: kp.SparseKernelCCA(90, kernel=("linear", "rbf")).fit(X, np.column_stack([y, y**2])),
        lambda X, y: kp.PolytopeFacesRegressor(90, kernel="linear", theta_tol=0).fit(X, y),
        lambda X, y: kp.KMPRegressor(gamma=0).fit(X, y),
        lambda X, y: kp.KMPRegressor(5).fit(X * [1, 1e5, 1], y),
        lambda X, y: kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=2, gammas=[0.3], cv=2).fit(X, y),
    ],
)
def test_warnings_point_at_the_line_of_the_user(fit):
    X, y = data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(X, y)
    assert caught and {warning.filename for warning in caught} == {__file__}


# ---------------------------------------------------------------------------------------------- verbose


def test_losses_are_printed_in_the_units_of_the_targets(capsys):
    X, y = data()
    for model, scale in ((kp.KMPRegressor(7, alpha=0.0), 500.0), (kp.PolytopeFacesRegressor(7), 1e-4)):
        model.set_params(verbose=2).fit(X, scale * y)
        lines = capsys.readouterr().out.splitlines()
        printed = [float(match[1]) for line in lines if (match := re.search(r"loss (\S+),", line))]
        np.testing.assert_allclose(printed, model.path_.values("loss")[1:], rtol=1e-3)
        assert lines[1].startswith("[kernelpursuit] 1 step, ") and lines[2].startswith("[kernelpursuit] 2 steps, ")
        assert lines[-1].startswith(f"[kernelpursuit] stopped with {len(printed)} steps: ")


@pytest.mark.parametrize(
    "estimator",
    [
        kp.SparseKernelPCA(4, verbose=1),
        kp.SparseKernelNovelty(4, verbose=1),
        kp.PursuitNystroem(n_components=4, verbose=1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_estimator_reports(estimator, capsys):
    estimator.fit(data()[0])
    lines = capsys.readouterr().out.splitlines()
    assert "kernel matrix kept" in lines[0] and "stopped with 4 steps" in lines[-1] and len(lines) == 4


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_search_reports_folds_widths_and_what_came_out(capsys):
    X, y = data()
    model = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=4, gammas=[0.1, 0.5], cv=3, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert sum("best so far" in line for line in lines) == 2, "after each width"
    lines = [line for line in lines if "best so far" not in line]
    scores = [float(re.search(r"best score (\S+) with \d atoms?, ", line)[1]) for line in lines[:6]]
    table = np.stack([model.cv_results_[f"split{i}_test_score"] for i in range(3)]).reshape(3, 2, 4)
    np.testing.assert_allclose(np.reshape(scores, (2, 3)), table.max(axis=2).T, rtol=1e-3)
    assert "fold 1 of 3, gamma=0.1:" in lines[0] and "fold 3 of 3, gamma=0.5:" in lines[5]
    assert f"chosen: gamma={model.best_params_['gamma']:.4g}, {model.best_params_['n_atoms']} atom" in lines[6]
    assert "stopped with" in lines[-1]


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.KMPClassifier])
def test_an_unknown_parameter_is_refused_in_the_name_of_the_class(make):
    with pytest.raises(TypeError, match=rf"^{make.__name__}.__init__\(\) got an unexpected keyword argument 'depth"):
        make(depth=3)
    assert clone(make(3, weakness=0.5)).get_params()["weakness"] == 0.5


def test_what_cannot_be_is_named():
    X, y = data()
    for candidates in (True, (0.1,), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"candidates must be.*got"):
            kp.KMPRegressor(5, candidates=candidates).fit(X, y)
    for make in (kp.KMPRegressor, kp.KMPClassifier, kp.PolytopeFacesRegressor, kp.SparseKernelFDA):
        with pytest.raises(ValueError, match=r"y must be a dense array.*toarray"):
            make(5).fit(X, sparse.csr_array(y[:, None]))


# ---------------------------------------------------------------------------------------------- shrinkage, kp.losses


def test_shrinkage_slows_the_basic_variant():
    X, y = data()
    scores = [kp.KMPRegressor(20, variant=basic(share)).fit(X, y).score(X, y) for share in (1.0, 0.1)]
    assert scores[1] < scores[0]


def test_the_basic_variant_takes_as_many_steps_as_it_needs():
    """It keeps no basis, so memory does not limit its steps."""
    X, y = data()
    model = kp.KMPRegressor(variant="basic", random_state=0).fit(X, y)
    assert len(model.path_) > 10 and model.path_.reason == "validation"
    assert "memory" not in model.path_.sentence and model.score(X, y) > 0.7


def outliers(n=300):
    """Some targets are far off: their squares would decide everything."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    y[rng.choice(n, n // 10, replace=False)] += rng.choice([-30.0, 30.0], n // 10)
    return X, y


def test_rows_held_out_are_judged_by_the_loss_that_is_fitted():
    X, y = outliers()
    errors = []
    for seed in range(5):
        model = kp.KMPRegressor(loss="huber", random_state=seed).fit(X, y)
        errors.append(np.mean((model.predict(X) - np.sin(2 * X[:, 0])) ** 2))
    assert np.median(errors) < 0.03


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_search_judges_by_the_loss_that_is_fitted():
    X, y = outliers()
    loss = kp.losses.huber(0.5)
    judge = make_scorer(lambda y, f: -np.mean(loss.value(y, f)))
    own = kp.PursuitSearchCV(kp.KMPRegressor(loss=loss, alpha=0.0), max_atoms=8, gammas=[0.3, 1.0], cv=3).fit(X, y)
    named = kp.PursuitSearchCV(
        kp.KMPRegressor(loss=loss, alpha=0.0), max_atoms=8, gammas=[0.3, 1.0], cv=3, scoring=judge
    ).fit(X, y)
    np.testing.assert_allclose(own.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"])
    model = kp.PursuitSearchCV(kp.KMPRegressor(loss="huber"), max_atoms=8, gammas=[0.3, 1.0], cv=3).fit(X, y)
    assert mean_squared_error(np.sin(2 * X[:, 0]), model.predict(X)) < 0.03


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities_are_exact_in_the_tails(loss, n_classes):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 1)) + 4 * c for c in range(n_classes)])
    y = np.repeat(np.arange(n_classes), 60)
    model = kp.KMPClassifier(6, loss=loss, kernel="linear" if n_classes == 2 else "rbf", fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    new = np.linspace(-2000, 2000, 81)[:, None] if n_classes == 2 else np.linspace(-6, 14, 81)[:, None]
    logs, f = model.predict_log_proba(new), model.decision_function(new).reshape(81, -1)
    odds = f if loss == "log_loss" else 2 * f
    assert np.all(np.isfinite(logs))
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(new))
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
    if n_classes == 2:
        np.testing.assert_allclose(logs[:, 1] - logs[:, 0], odds[:, 0], rtol=1e-9, atol=1e-9)
        assert logs.min() < -1000
    else:
        alone = -np.logaddexp(0, -odds)
        np.testing.assert_allclose(logs - logs[:, :1], alone - alone[:, :1], rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------------------------------- nan


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_score_that_is_nan_is_never_chosen():
    X, y = data()

    def scoring(model, X, y):
        return np.nan if len(model.support_) in (1, 4) else model.score(X, y)

    model = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=4, gammas=[0.1, 0.5], cv=3, scoring=scoring).fit(X, y)
    assert model.best_params_["n_atoms"] in (2, 3) and np.isfinite(model.best_score_)
    ranks, means = model.cv_results_["rank_test_score"], model.cv_results_["mean_test_score"]
    assert ranks[np.isnan(means)].min() > ranks[~np.isnan(means)].max()
    with pytest.raises(ValueError, match="every score is nan"):
        kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=4, gammas=[0.1], cv=3, scoring=lambda model, X, y: np.nan).fit(
            X, y
        )


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_a_fold_of_one_class_does_not_decide():
    X, y = data()
    y = (y > 0).astype(int)
    places = np.arange(len(X)) % 3
    places[y == 0] = np.arange(np.sum(y == 0)) % 2  # fold 2 has the second class only
    assert len(set(y[places == 2])) == 1 and UndefinedMetricWarning is not None
    options = {"gammas": [0.01, 0.5], "scoring": "roc_auc"}
    with pytest.warns(UserWarning, match=r"folds \[2\].*StratifiedKFold"):
        model = kp.PursuitSearchCV(kp.KMPClassifier(), max_atoms=6, cv=PredefinedSplit(places), **options).fit(X, y)
    folds = [(np.flatnonzero(places != i), np.flatnonzero(places == i)) for i in (0, 1)]
    two = kp.PursuitSearchCV(kp.KMPClassifier(), max_atoms=6, cv=folds, **options).fit(X, y)
    assert model.best_params_ == two.best_params_
    assert model.best_score_ == pytest.approx(two.best_score_)


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_fold_without_weight_does_not_decide():
    X, y = data()
    places = np.arange(len(X)) % 3
    weights = np.where(places == 1, 0.0, 1.0)
    with pytest.warns(UserWarning, match=r"folds \[1\]"):
        model = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=6, gammas=[0.3], cv=PredefinedSplit(places)).fit(
            X, y, sample_weight=weights
        )
    assert np.isnan(model.cv_results_["split1_test_score"]).all() and np.isfinite(model.best_score_)


# ---------------------------------------------------------------------------------------------- truncated models, paths


@pytest.mark.parametrize(
    "estimator",
    [
        kp.KMPRegressor(12, alpha=0.0), kp.KMPRegressor(alpha=0.0), kp.KMPRegressor(stop="gcv", alpha=0.0),
        kp.KMPRegressor(12, variant="basic"), kp.KMPClassifier(12, alpha=0.0),
        kp.SparseKernelFDA(12), kp.PolytopeFacesRegressor(12, release=False),
    ],
    ids=repr,
)  # fmt: skip
def test_a_truncated_model_says_what_it_is(estimator):
    X, y = data()
    y = (y > 0).astype(int) if isinstance(estimator, kp.KMPClassifier | kp.SparseKernelFDA) else y
    model = clone(estimator).fit(X, y)
    short = model.truncate(5)
    taken = len(model.path_) + len(model.path_.discarded)
    assert short.n_atoms == 5 and short.path_.sentence == f"truncated to 5 of {taken} steps"
    assert estimator.get_params() == model.get_params()
    again = clone(short).fit(X, y)
    np.testing.assert_array_equal(again.support_, short.support_)
    np.testing.assert_allclose(again.predict(X), short.predict(X), rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_truncated_search_says_what_it_is():
    X, y = data()
    model = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=8, gammas=[0.3], cv=3).fit(X, y)
    short = model.truncate(2)
    assert isinstance(short, kp.KMPRegressor) and short.n_atoms == len(short.support_) == 2
    assert model.best_params_["n_atoms"] == len(model.best_estimator_.support_) > 2


def test_a_path_prints_in_a_line_and_is_a_table():
    X, y = data()
    model = kp.KMPRegressor().fit(X, y)
    path = model.path_
    assert "\n" not in repr(path) and repr(path).startswith(f"Path({len(path)} steps, {len(path)} atoms, loss ")
    assert repr(path).endswith(f": {path.sentence})")
    frame = path.to_frame()
    assert isinstance(frame, pd.DataFrame) and frame.index.name == "n_steps"
    assert len(frame) == 1 + len(path) + len(path.discarded) and frame["kept"].sum() == 1 + len(path)
    np.testing.assert_array_equal(frame.loc[frame["kept"], "loss"], path.values("loss"))
    assert frame["atom"].iloc[1] == path.steps[0].atom
