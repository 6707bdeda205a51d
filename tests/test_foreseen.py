"""Atoms that a search foresees from shared products are those that plain pursuits on the folds take."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

import kernelpursuit.estimators._foreseeing as foreseeing
import kernelpursuit.estimators._search as search
from kernelpursuit import DenseDictionary, KMPClassifier, KMPClassifierCV, KMPRegressor, KMPRegressorCV, Squares, pursue
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.foreseen import FoldPursuit, foresee
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.shared_products import Products, smooth_directions, well_spread

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


def foreseen(K, y, parts, part, k, dtype, intercept=True, variant="prefit", weights=None, twins=None):
    roots = None if weights is None else np.sqrt(weights)
    twins = np.arange(len(K)) if twins is None else twins
    shared = Products(K, y, roots, parts, intercept, twins, dtype)
    return foresee(shared, part, most=k, jointly=variant == "prefit", K=K)


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
        path = plain(K, y, parts[part], 25, **options)
        for dtype in (np.float64, np.float32):
            found = foreseen(K, y, parts, part, 25, dtype, **options)
            assert len(found.atoms) >= (20 if gamma > 1e-3 else 8)
            assert found.atoms.tolist() == path.atoms.tolist()[: len(found.atoms)]
            again = plain(K, y, parts[part], 25, foreseen=found, **options)
            assert again.atoms.tolist() == path.atoms.tolist()
            np.testing.assert_allclose(again.values("loss"), path.values("loss"), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_equal(dtype):
    """Of equal atoms the first in the order of the rows is taken, as plain pursuit does."""
    X, y = data(60)
    X, y = np.concatenate([X, X[::-1]]), np.concatenate([y, y[::-1] + 0.01])
    K, rng = rbf_kernel(X, gamma=0.5), np.random.default_rng(0)
    twins = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    for _ in range(3):
        parts = [rng.permutation(120)[:90] for _ in range(2)]
        for known in (twins, None):
            found = foreseen(K, y, parts, 1, 20, dtype, twins=known)
            assert found.atoms.tolist() == plain(K, y, parts[1], 20).atoms.tolist()


def test_where_it_ends():
    X, y = data(60)
    low_rank = X @ X.T
    found = foreseen(low_rank, y, [np.arange(40)], 0, 20, np.float64)
    assert found.atoms.tolist() == plain(low_rank, y, np.arange(40), 20).atoms.tolist() and len(found.atoms) == 3
    assert found.over and found.first(3).over and not found.first(2).over
    exact = foreseen(rbf_kernel(X), rbf_kernel(X)[:, :2] @ np.ones((2, 1)), [np.arange(50)], 0, 20, np.float64)
    assert len(exact.atoms) < 20 and not exact.over  # nothing is left to explain, but other atoms
    # Too much is lost by differences: with rows that no direction may hold, and products in float32.
    parts = [np.arange(30), np.arange(30, 60)]
    wide = scipy.linalg.block_diag(*[rbf_kernel(X[rows], gamma=1e-3) for rows in parts])
    found = foreseen(wide, y, parts, 0, 10, np.float32, intercept=False)
    assert (
        len(found.atoms) < 10
        and found.atoms.tolist() == plain(wide, y, parts[0], len(found.atoms), intercept=False).atoms.tolist()
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_whether_all_atoms_lie_in_a_span(dtype, weighted):
    """By the rank of the atoms themselves; far more of them than are looked at together."""
    X, y = data(1200, inputs=5)
    roots = np.sqrt(np.random.default_rng(1).integers(0, 3, len(X))) if weighted else None
    counted = np.arange(len(X)) if roots is None else np.flatnonzero(roots)
    K, parts = X @ X.T, [counted[counted % 4 > 0], counted[counted % 4 < 3]]
    shared = Products(K, y, roots, parts, True, np.arange(len(X)), dtype)
    for part in (0, 1, 2):
        run = FoldPursuit(shared, part, most=10, jointly=True, K=K)
        rows = shared.parts[part]
        weights = np.ones(len(rows)) if roots is None else roots[rows]
        atoms = np.column_stack([np.ones(len(rows)), K[np.ix_(rows, rows)]]) * weights[:, None]
        for taken in (list(range(3)), list(range(4)), list(range(5)), list(range(6))):
            in_span = np.linalg.matrix_rank(atoms[:, [0, *[1 + atom for atom in taken]]]) == np.linalg.matrix_rank(atoms)
            assert run.nothing_left(taken) == in_span == (len(taken) >= 5)


def test_directions_that_some_part_does_not_know_are_left_out():
    X, y = data(60)
    X[50:] += 100.0 * np.arange(10)[:, None]  # far from all others, and outside of the first part
    K, parts = rbf_kernel(X, gamma=0.05), [np.arange(50), np.arange(10, 60)]
    V = np.linalg.qr(smooth_directions(K, np.float32))[0]
    kept = well_spread(V, [np.arange(50, 60), np.arange(10)], 1e-2).shape[1]
    assert kept < V.shape[1]
    for part in (0, 1):
        found = foreseen(K, y, parts, part, 15, np.float64)
        assert found.atoms.tolist() == plain(K, y, parts[part], 15).atoms.tolist()


def test_directions_of_a_wide_kernel_hold_it():
    X, _ = data(100)
    K = rbf_kernel(X, gamma=0.01)
    U, few = smooth_directions(K, np.float32, 30), smooth_directions(K, np.float64, 30)
    assert np.max(np.abs(U @ U.T - K)) < 1e-6 < np.max(np.abs(few @ few.T - K)) < 1e-3 and U.shape > few.shape
    assert smooth_directions(np.eye(100), np.float32).shape == (100, 0)
    assert smooth_directions(np.zeros((4, 4)), np.float64).shape == (4, 0)


def test_a_wrong_prophecy_is_noticed():
    """The pursuit ends where gains are not what they should be, and goes on by itself."""
    X, y = data()
    K = rbf_kernel(X, gamma=0.5)
    found, path = foreseen(K, y, [np.arange(150)], 0, 70, np.float64), plain(K, y, np.arange(150), 80)
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


@pytest.mark.parametrize("rows", [foreseeing.WIDE_ROWS, 0])  # products in float64, in float32
def test_searches_for_classes(rows, monkeypatch):
    monkeypatch.setattr(foreseeing, "WIDE_ROWS", rows)
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
        return of(kind(5, **options), X, y, None, [(train, train[:5]) for train in trains], most) is not None

    assert known() and known(variant="backfit") and known(y=np.arange(150) % 2)
    assert not known(loss="huber") and not known(variant="basic") and not known(weakness=0.5) and not known(most=1)
    assert not known([np.array([0, 1, 1, 2])]) and not known([np.ones(150, dtype=bool)])
    assert not known(y=np.repeat([0, 1, 2], 50))  # folds without one of the classes
    assert of(model, X, y, None, [(train, train) for train in trains], 20) is None  # not a pursuit itself


def test_groups_and_interrupted_threads_leave_warnings_alone():
    X, y = load_iris(return_X_y=True)
    folds = list(GroupKFold(3).split(X, y, np.arange(150) % 10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KMPClassifierCV(30, cv=folds, gammas=[0.1], one_standard_error=True).fit(X, y)
    assert model.score(X, y) > 0.9


def test_the_same_ridge_twice():
    X, y = data()
    model = KMPRegressorCV(6, cv=3, gammas=[0.1, 0.5], alphas=[0.0, 0.0]).fit(X, y[:, 0])
    scores = model.cv_results_["mean_test_score"].reshape(4, -1)
    np.testing.assert_array_equal(scores[::2], scores[1::2])
