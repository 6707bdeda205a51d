"""What an estimator says: warnings with their advice, lines of `verbose`, errors, the table of a path."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit

import kernelpursuit as kp
from kernelpursuit.parameters import tolerance


def data(n=120, noise=0.1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


X, Y = data()
LABELS = (Y > 0).astype(int)
NOISE = np.random.default_rng(2).normal(size=120)


def targets(estimator):
    return LABELS if is_classifier(estimator) else Y


# ---------------------------------------------------------------------------------------------- warnings

NO_ATOMS = "no atoms and predicts a constant"


@pytest.mark.parametrize("options", [{}, {"gamma": 0}, {"n_atoms": 5, "stop": "gcv"}], ids=str)
def test_a_model_without_atoms_says_so(options):
    with pytest.warns(ConvergenceWarning, match=rf"{NO_ATOMS}.*scale.*gamma.*n_atoms"):
        model = kp.KMPRegressor(**options).fit(X, NOISE)
    assert len(model.support_) == 0
    kp.KMPRegressor(**options).fit(X, np.ones(120))  # there is nothing to fit: a warning would be an error


@pytest.mark.parametrize("n", [2, 5, 8, 10])
@pytest.mark.parametrize("model", [kp.KMPRegressor(), kp.KMPClassifier(), kp.KMPRanker()], ids=repr)
def test_a_model_of_few_rows_says_so_too(model, n):
    """A path that fits all few rows before the rule keeps none of its atoms ends by its tolerance."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    with pytest.warns(ConvergenceWarning, match=rf"{NO_ATOMS}.*gcv was lowest after 0"):
        model.fit(X, np.arange(n) % 2 if is_classifier(model) else y)
    assert model.path_.reason == "tolerance" and len(model.support_) == 0


@pytest.mark.parametrize("n", [2, 30])
def test_a_model_chosen_by_rows_of_one_class_says_so_too(n):
    """The rows that are not held out may have one class, where the other is rare."""
    for rare in range(n):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model = kp.KMPClassifier(loss="log_loss").fit(X[:n], np.arange(n) == rare)
        if len(model.support_) == 0:
            assert any(NO_ATOMS in str(one.message) for one in found)
            assert model.path_.reason == "validation"
    kp.KMPRegressor(loss="huber").fit(X[:n], np.ones(n))


@pytest.mark.parametrize("estimator", [kp.KMPRegressor(), kp.KMPClassifier(), kp.SparseKernelFDA()], ids=repr)
def test_a_search_that_ends_at_its_longest_path_says_so(estimator):
    X, y = data(noise=0)
    y = (y > 0).astype(int) if is_classifier(estimator) else y
    with pytest.warns(ConvergenceWarning, match=r"max_atoms=1, the largest.*Raise max_atoms"):
        kp.PursuitSearchCV(estimator, max_atoms=1, gammas=[0.3], cv=3).fit(X, y)
    kp.PursuitSearchCV(estimator, max_atoms=60, gammas=[3.0], cv=3, one_standard_error=True).fit(X, y)


ON_RAW_UNITS = [
    kp.KMPRegressor(5), kp.KMPClassifier(5), kp.SparseKernelFDA(5), kp.SparseKernelPCA(5),
    kp.PursuitNystroem(n_components=5), kp.SparseKernelNovelty(5), kp.PolytopeFacesRegressor(5),
    kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, cv=2),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize("estimator", ON_RAW_UNITS, ids=lambda estimator: type(estimator).__name__)
def test_a_column_of_other_units_is_noticed(estimator):
    y, raw = targets(estimator), X * [1.0, 2000.0, 1.0]
    with pytest.warns(UserWarning, match=r"column 1 of X has 100.0% of the variance.*StandardScaler"):
        clone(estimator).fit(raw, y)
    clone(estimator).fit(X * [1.0, 5.0, 1.0], y)
    clone(estimator).fit(X * [0.0, 5.0, 0.0], y)  # there is nothing else to see
    if "gamma" in estimator.get_params():
        clone(estimator).set_params(gamma=1e-6).fit(raw, y)  # a width for these inputs


def test_a_column_of_other_units_is_noticed_in_either_view():
    one, other = np.column_stack([X[:, 0], Y]), X[:, 1:]
    with pytest.warns(UserWarning, match="column 1 of y has"):
        kp.SparseKernelCCA(5).fit(one, other * [1.0, 1e4])
    with pytest.warns(UserWarning, match="column 0 of X has"):
        kp.SparseKernelCCA(5).fit(one * [1e4, 1.0], other)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: kp.KMPRegressor(90, kernel="linear").fit(X, Y),
        lambda: kp.SparseKernelFDA(90, kernel="linear").fit(X, LABELS),
        lambda: kp.SparseKernelPCA(90, kernel="linear").fit(X),
        lambda: kp.SparseKernelNovelty(90, kernel="linear", stop=tolerance(0)).fit(X),
        lambda: kp.PursuitNystroem(kernel="linear", n_components=90).fit(X),
        lambda: kp.PursuitNystroem(kernel="linear", n_components=90, selection="prefit").fit(X, Y),
        lambda: kp.SparseKernelCCA(90).fit(X[:, :1], Y[:, None]),
        lambda: kp.PolytopeFacesRegressor(90, kernel="linear", theta_tol=0).fit(X, Y),
        lambda: kp.KMPRegressor(gamma=0).fit(X, Y),
        lambda: kp.KMPRegressor(5).fit(X * [1, 1e5, 1], Y),
        lambda: kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=2, gammas=[0.3], cv=2).fit(X, Y),
    ],
)
def test_warnings_point_at_the_line_of_the_user(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    assert caught and {warning.filename for warning in caught} == {__file__}


# ---------------------------------------------------------------------------------------------- folds without a score


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_score_that_is_nan_is_never_chosen():
    def scoring(model, X, y):
        return np.nan if len(model.support_) in (1, 4) else model.score(X, y)

    search = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=4, gammas=[0.1, 0.5], cv=3, scoring=scoring).fit(X, Y)
    assert search.best_params_["n_atoms"] in (2, 3) and np.isfinite(search.best_score_)
    ranks, means = search.cv_results_["rank_test_score"], search.cv_results_["mean_test_score"]
    assert ranks[np.isnan(means)].min() > ranks[~np.isnan(means)].max()
    with pytest.raises(ValueError, match="every score is nan"):
        search.set_params(scoring=lambda model, X, y: np.nan).fit(X, Y)


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_a_fold_of_one_class_does_not_decide():
    fold = np.arange(120) % 3
    fold[LABELS == 0] = np.arange(np.sum(LABELS == 0)) % 2  # fold 2 has the second class only
    search = kp.PursuitSearchCV(kp.KMPClassifier(), max_atoms=6, gammas=[0.01, 0.5], scoring="roc_auc")
    with pytest.warns(UserWarning, match=r"folds \[2\].*StratifiedKFold"):
        found = clone(search).set_params(cv=PredefinedSplit(fold)).fit(X, LABELS)
    others = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in (0, 1)]
    two = clone(search).set_params(cv=others).fit(X, LABELS)
    assert found.best_params_ == two.best_params_ and found.best_score_ == pytest.approx(two.best_score_)


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_a_fold_without_weight_does_not_decide():
    fold = np.arange(120) % 3
    search = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=6, gammas=[0.3], cv=PredefinedSplit(fold))
    with pytest.warns(UserWarning, match=r"folds \[1\]"):
        search.fit(X, Y, sample_weight=np.where(fold == 1, 0.0, 1.0))
    assert np.isnan(search.cv_results_["split1_test_score"]).all() and np.isfinite(search.best_score_)


# ---------------------------------------------------------------------------------------------- verbose


@pytest.mark.parametrize(
    "estimator",
    [kp.KMPRegressor(12), kp.SparseKernelPCA(12), kp.SparseKernelNovelty(12), kp.PursuitNystroem(n_components=12)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_fits_report_now_and_then(estimator, capsys):
    estimator.fit(X, Y)
    assert capsys.readouterr().out == ""
    estimator.set_params(verbose=1).fit(X, Y)
    plan, *lines, last = capsys.readouterr().out.splitlines()
    assert "kernel matrix kept" in plan and "stopped with 12 steps: 12 steps were taken" in last
    assert [int(line.split()[1]) for line in lines] == [1, 2, 5, 10] and all("loss" in line for line in lines)


@pytest.mark.parametrize(
    ("model", "unit"), [(kp.KMPRegressor(7, alpha=0.0), 500.0), (kp.PolytopeFacesRegressor(7), 1e-4)], ids=str
)
def test_losses_are_printed_in_the_units_of_the_targets(model, unit, capsys):
    model.set_params(verbose=2).fit(X, unit * Y)
    _, *lines, last = capsys.readouterr().out.splitlines()
    printed = [float(re.search(r"loss (\S+),", line)[1]) for line in lines]
    np.testing.assert_allclose(printed, model.path_.values("loss")[1:], rtol=1e-3)
    assert lines[0].startswith("[kernelpursuit] 1 step, ") and lines[1].startswith("[kernelpursuit] 2 steps, ")
    assert last.startswith(f"[kernelpursuit] stopped with {len(lines)} steps: ")


@pytest.mark.filterwarnings("ignore:the best number of atoms")
@pytest.mark.parametrize("jobs", [None, 2])
def test_a_search_reports_folds_widths_and_what_came_out(jobs, capfd):
    search = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=4, gammas=[0.5, 1e-4], cv=3, verbose=1, n_jobs=jobs)
    with parallel_config(backend="threading"):
        search.fit(X, Y)
    lines = capfd.readouterr().out.splitlines()
    folds = sorted(line for line in lines if "fold" in line)
    assert "fold 1 of 3, gamma=0.0001:" in folds[0] and "fold 3 of 3, gamma=0.5:" in folds[5]
    scores = [float(re.search(r"best score (\S+) with \d atoms?, ", line)[1]) for line in folds]
    table = np.stack([search.cv_results_[f"split{i}_test_score"] for i in range(3)]).reshape(3, 2, 4)
    np.testing.assert_allclose(np.reshape(scores, (3, 2)), table.max(axis=2)[:, ::-1], rtol=1e-3)
    first, second, chosen = (line for line in lines if "mean score" in line)
    assert first.startswith("[kernelpursuit] gamma=0.5: mean score") and first.endswith("; the best so far")
    assert "gamma=0.0001: mean score" in second and "; best so far gamma=0.5: mean score" in second
    assert f"chosen: gamma=0.5, {search.best_params_['n_atoms']} atom" in chosen and "stopped with" in lines[-1]


# ---------------------------------------------------------------------------------------------- errors, the path


@pytest.mark.parametrize("candidates", [True, (1, 2, 3)])
def test_wrong_candidates_are_named(candidates):
    with pytest.raises(ValueError, match=r"candidates must be.*got"):
        kp.KMPRegressor(5, candidates=candidates).fit(X, Y)


@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.KMPClassifier, kp.PolytopeFacesRegressor, kp.SparseKernelFDA])
def test_sparse_targets_are_named(make):
    with pytest.raises(ValueError, match=r"y must be a dense array.*toarray"):
        make(5).fit(X, sparse.csr_array(Y[:, None]))


def test_a_path_prints_in_a_line_and_is_a_table():
    path = kp.KMPRegressor().fit(X, Y).path_
    assert "\n" not in repr(path) and repr(path).startswith(f"Path({len(path)} steps, {len(path)} atoms, loss ")
    assert repr(path).endswith(f": {path.sentence})")
    frame = path.to_frame()
    assert isinstance(frame, pd.DataFrame) and frame.index.name == "n_steps"
    assert len(frame) == 1 + len(path) + len(path.discarded) and frame["kept"].sum() == 1 + len(path)
    np.testing.assert_array_equal(frame.loc[frame["kept"], "loss"], path.values("loss"))
    assert frame["atom"].iloc[1] == path.steps[0].atom
