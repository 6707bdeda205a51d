"""Atoms that a search foresees from a shared kernel matrix are those that plain pursuits on the folds take."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

import kernelpursuit.estimators._foreseeing as foreseeing
import kernelpursuit.estimators._search as search
import kernelpursuit.pursuit.foreseen as foreseen_module
from kernelpursuit import DenseDictionary, KMPClassifier, KMPClassifierCV, KMPRegressor, KMPRegressorCV, Squares, pursue
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.foreseen import FoldPursuit, SplitKernel, foresee, smooth_directions, square_part
from kernelpursuit.pursuit.lookahead import Foreseen

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def data(n=150, targets=1, seed=0, inputs=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, inputs))
    return X, np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(targets) + 0.1 * rng.normal(size=(n, targets))


def plain(K, y, rows, k, foreseen=None, **options):
    if (weights := options.pop("weights", None)) is not None:
        options["weights"] = weights[rows]
    A = np.ascontiguousarray(K[np.ix_(rows, rows)])
    return pursue(Squares(DenseDictionary(A, gram=A), y[rows], **options), n_atoms(k), foreseen=foreseen)


def pursuit(K, y, rows, k, intercept=True, variant="prefit", weights=None, twins=None):
    roots = np.ones(len(K)) if weights is None else np.sqrt(weights)
    twins = np.arange(len(K)) if twins is None else twins
    how = {"most": k, "intercept": intercept, "jointly": variant == "prefit"}
    return FoldPursuit(SplitKernel(K, roots), rows, y, roots, twins, **how)


def foreseen(K, y, rows, k, **options):
    return foresee(pursuit(K, y, rows, k, **options), k)


@pytest.mark.parametrize("gamma", [1e-3, 0.03, 0.5, 20.0])
@pytest.mark.parametrize(
    "options",
    [{}, {"intercept": False}, {"variant": "backfit"}, {"weights": np.random.default_rng(1).uniform(0.1, 3, 150)}],
    ids=["plain", "no constant", "backfit", "weights"],
)
@pytest.mark.parametrize("targets", [1, 3])
def test_atoms_and_gains_are_those_of_plain_pursuit(gamma, options, targets):
    X, y = data(targets=targets)
    K, parts = rbf_kernel(X, gamma=gamma), [train for train, _ in KFold(4).split(X)]
    for part in (0, 2):
        found = foreseen(K, y, parts[part], 25, **options)
        path = plain(K, y, parts[part], 25, **options)
        assert len(found.atoms) >= (25 if gamma > 1e-3 else 8)  # then few directions are left
        assert found.atoms.tolist() == path.atoms.tolist()[: len(found.atoms)]
        again = plain(K, y, parts[part], 25, foreseen=found, **options)
        assert again.atoms.tolist() == path.atoms.tolist()
        np.testing.assert_allclose(again.values("loss"), path.values("loss"), rtol=1e-6)


def test_rows_that_are_equal():
    """Of equal atoms the first in the order of the rows is taken, as plain pursuit does."""
    X, y = data(60)
    X, y = np.concatenate([X, X[::-1]]), np.concatenate([y, y[::-1] + 0.01])
    K, rng = rbf_kernel(X, gamma=0.5), np.random.default_rng(0)
    twins = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    for _ in range(3):
        rows = rng.permutation(120)[:90]
        for known in (twins, None):
            found = foreseen(K, y, rows, 20, twins=known)
            assert found.atoms.tolist() == plain(K, y, rows, 20).atoms.tolist()


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).uniform(0.1, 3, 300)], ids=["", "weights"])
@pytest.mark.parametrize("gamma", [1e-3, 0.02, 0.1, 1.0, 20.0])
def test_errors_are_within_their_bounds(gamma, weights):
    """d̃ᵀr and ‖d̃‖² of all atoms, against the definition."""
    X, y = data(300, 2)
    K, rows = rbf_kernel(X, gamma=gamma), np.arange(50, 290)
    run = pursuit(K, y, rows, 40, weights=weights)
    roots = np.ones(len(rows)) if weights is None else np.sqrt(weights[rows])
    D, targets = K[np.ix_(rows, rows)] * roots[:, None], y[rows] * roots[:, None]
    for _ in range(40):
        Q = run._Q[: run._size].T
        outside, r = D, targets
        for _ in range(2):
            outside, r = outside - Q @ (Q.T @ outside), r - Q @ (Q.T @ r)
        known = np.isfinite(run.squared)
        norms, products = np.sum(outside**2, axis=0), outside.T @ r
        assert np.all(np.abs(run.squared - norms)[known] <= run._errors_of_squares[known] + 1e-13 * run.raw[known])
        assert np.all(np.abs(run._a.T - products)[known] <= run._errors_of_products[known, None])
        run.take(run.best())


def test_where_it_ends():
    X, y = data(60)
    low_rank = X @ X.T
    found = foreseen(low_rank, y, np.arange(40), 20)
    assert found.atoms.tolist() == plain(low_rank, y, np.arange(40), 20).atoms.tolist() and len(found.atoms) == 3
    exact = foreseen(rbf_kernel(X), rbf_kernel(X)[:, :2] @ np.ones((2, 1)), np.arange(50), 20)
    path = plain(rbf_kernel(X), rbf_kernel(X)[:, :2] @ np.ones((2, 1)), np.arange(50), 20, foreseen=exact)
    assert path.steps[-1].loss < 1e-20


def test_columns_are_not_computed_without_end(monkeypatch):
    X, y = data(60)
    monkeypatch.setattr(foreseen_module, "MARGIN", 10.0)  # nothing is ever sure
    K = rbf_kernel(X, gamma=0.5)
    found = foreseen(K, y, np.arange(60), 20)
    assert 4 <= len(found.atoms) < 10
    assert found.atoms.tolist() == plain(K, y, np.arange(60), len(found.atoms)).atoms.tolist()


def test_rows_outside_hold_directions():
    X, y = data(60)
    X[50:] += 100.0 * np.arange(10)[:, None]  # far from all others, and outside of the first part
    K = rbf_kernel(X, gamma=0.05)
    for rows in (np.arange(50), np.arange(10, 60)):
        assert foreseen(K, y, rows, 15).atoms.tolist() == plain(K, y, rows, 15).atoms.tolist()


def test_parts_of_a_matrix():
    matrix, rng = np.arange(10000.0).reshape(100, 100), np.random.default_rng(0)
    for rows in (np.arange(100), np.delete(np.arange(100), slice(40, 60)), rng.permutation(100)[:70], np.array([3])):
        np.testing.assert_array_equal(square_part(matrix, rows), matrix[np.ix_(rows, rows)])


def test_directions_of_a_wide_kernel_hold_it():
    X, _ = data(100)
    K = rbf_kernel(X, gamma=0.01)
    U = smooth_directions(K, 30)
    assert np.max(np.abs(U @ U.T - K)) < 1e-6 and U.shape == (100, 30)
    assert smooth_directions(np.eye(100)).shape == (100, 0)
    assert smooth_directions(np.zeros((4, 4))).shape == (4, 0)


def test_a_wrong_prophecy_is_noticed():
    """The pursuit ends where gains are not what they should be, and goes on by itself."""
    X, y = data()
    K = rbf_kernel(X, gamma=0.5)
    found, path = foreseen(K, y, np.arange(150), 70), plain(K, y, np.arange(150), 80)
    for place in (0, 5, 66):
        gains = found.gains.copy()
        gains[place] *= 1.01
        atoms = found.atoms.copy()
        atoms[place:] = atoms[place:][::-1]
        criterion = Squares(DenseDictionary(K, gram=K), y)
        again = pursue(criterion, n_atoms(80), foreseen=Foreseen(atoms, gains, found.errors))
        assert again.atoms.tolist() == path.atoms.tolist()
        np.testing.assert_allclose(again.values("loss"), path.values("loss"), rtol=1e-9)


SEARCHES = [
    KMPRegressorCV(15, cv=3),
    KMPRegressorCV(15, cv=4, gammas=[0.01, 1.0], scoring="r2"),
    KMPRegressorCV(15, cv=3, gammas=[0.3], alphas=[0.0, 0.1]),
    KMPRegressorCV(15, cv=ShuffleSplit(3, random_state=0), gammas=[0.3], variant="backfit"),
    KMPRegressorCV(15, cv=3, gammas=[0.3], kernel="poly", fit_intercept=False),
    KMPRegressorCV(15, cv=3, gammas=[0.3], n_jobs=1),
    KMPRegressorCV(15, cv=[(np.arange(20, 150), np.arange(20)), (np.arange(90), np.arange(80, 150))]),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", SEARCHES, ids=lambda model: str(model)[14:])
def test_searches(model, weighted, monkeypatch):
    X, y = data(targets=2 if model.scoring else 1)
    weights = np.random.default_rng(2).integers(0, 3, len(X)).astype(float) if weighted else None
    used = []
    ahead = foreseeing.Foreseeing.ahead
    monkeypatch.setattr(foreseeing.Foreseeing, "ahead", lambda *given: used.append(1) or ahead(*given))
    one = clone(model).fit(X, y, sample_weight=weights)
    assert used
    monkeypatch.setattr(search.Foreseeing, "of", lambda *given: None)
    other = clone(model).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(one.support_, other.support_)
    for name, values in other.cv_results_.items():
        if "score" in name and "rank" not in name:
            np.testing.assert_allclose(one.cv_results_[name], values, rtol=1e-6, err_msg=name)


def test_searches_for_classes(monkeypatch):
    X, y = load_digits(return_X_y=True)
    model = KMPClassifierCV(20, cv=StratifiedKFold(3), gammas=[1e-4, 1e-3]).fit(X[:300], y[:300])
    monkeypatch.setattr(search.Foreseeing, "of", lambda *given: None)
    other = clone(model).fit(X[:300], y[:300])
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


def test_where_atoms_are_not_foreseen():
    X, y = data()
    trains = [train for train, _ in KFold(3).split(X)]
    of, model = foreseeing.Foreseeing.of, KMPRegressorCV(5)

    def known(trains=trains, most=20, y=y[:, 0], **options):
        kind = KMPClassifier if y.dtype.kind != "f" else KMPRegressor
        return of(kind(5, **options), X, y, None, trains, most) is not None

    assert known() and known(variant="backfit") and known(y=np.arange(150) % 2)
    assert not known(loss="huber") and not known(variant="basic") and not known(weakness=0.5)
    assert not known([np.array([0, 1, 1, 2])]) and not known([np.ones(150, dtype=bool)])
    assert not known(y=np.repeat([0, 1, 2], 50))  # folds without one of the classes
    assert of(model, X, y, None, trains, 20) is None  # not a pursuit itself


def test_groups_and_interrupted_threads_leave_warnings_alone():
    X, y = load_iris(return_X_y=True)
    folds = list(GroupKFold(3).split(X, y, np.arange(150) % 10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KMPClassifierCV(30, cv=folds, gammas=[0.1], one_standard_error=True).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("model", [KMPRegressorCV(15, cv=3), KMPClassifierCV(15, cv=3, fit_intercept=False)], ids=str)
def test_the_final_fit_takes_the_same_steps(model, monkeypatch):
    X, y = data(150)
    y = y[:, 0] if isinstance(model, KMPRegressorCV) else y[:, 0] > 0
    monkeypatch.setattr(search, "FEW_ROWS", 1)
    for options in ({}, {"alpha": 0.0}):
        one = clone(model).set_params(**options).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(search, "foreseen_on_all_rows", lambda *given: None)
            other = clone(model).set_params(**options).fit(X, y)
        assert one.path_.passes < other.path_.passes
        np.testing.assert_array_equal(one.support_, other.support_)
        for name in ("loss", "leave_one_out", "score", "weakness", "bound"):
            np.testing.assert_allclose(one.path_.values(name), other.path_.values(name), rtol=1e-7, err_msg=name)
        assert one.path_.start.loss == pytest.approx(other.path_.start.loss)
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-7)


@pytest.mark.parametrize("after", [0, 5])
def test_interrupts_while_atoms_are_looked_for(after, monkeypatch):
    X, y = data(150)
    monkeypatch.setattr(search, "FEW_ROWS", 1)
    take, steps = FoldPursuit.take, []

    def interrupted(self, atom):
        steps.append(atom)
        if len(steps) == before + after + 1:
            raise KeyboardInterrupt
        return take(self, atom)

    model = KMPRegressorCV(8, cv=3, gammas=[0.1, 0.5], n_jobs=1)
    monkeypatch.setattr(FoldPursuit, "take", interrupted)
    before = 0  # in the first fold
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y[:, 0])
    assert hasattr(model, "path_") == (after > 0) and (after == 0 or model.best_n_atoms_ == after)
    before, steps[:] = 3 * 2 * 8, []  # in the fit on all rows
    model = clone(model)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y[:, 0])
    assert hasattr(model, "path_") == (after > 0)
    if after:
        assert len(model.support_) == after and model.path_.reason == "interrupted" and model.predict(X).shape == (150,)
