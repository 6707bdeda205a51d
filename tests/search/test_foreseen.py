"""Atoms that a search foresees from a kernel matrix that they share are those that plain pursuits on the folds take."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

import kernelpursuit.search.foreseeing as foreseeing
import kernelpursuit.search.search as search
import kernelpursuit.search.split_kernel as split_kernel
from kernelpursuit import DenseDictionary, KMPClassifier, KMPClassifierCV, KMPRegressor, KMPRegressorCV, Squares, pursue
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.search.foreseen import FoldPursuit, foresee
from kernelpursuit.search.shared_matrix import values_of_matrix
from kernelpursuit.search.split_kernel import SplitKernel, smooth_directions, well_spread

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True, params=["products kept", "passes"])
def few_rows(request, monkeypatch):
    """Both ways to know what a step adds: that of few rows, and that of more."""
    monkeypatch.setattr(split_kernel, "FEW_ROWS", 1500 if request.param == "products kept" else 0)
    return request.param


def data(n=150, targets=1, seed=0, inputs=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, inputs))
    return X, np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(targets) + 0.1 * rng.normal(size=(n, targets))


def plain(K, y, rows, k, foreseen=None, **options):
    if (weights := options.pop("weights", None)) is not None:
        options["weights"] = weights[rows]
    A = np.ascontiguousarray(K[np.ix_(rows, rows)])
    return pursue(Squares(DenseDictionary(A, gram=A), y[rows], **options), n_atoms(k), foreseen=foreseen)


def split(K, y, parts, roots=None, intercept=True, twins=None):
    return SplitKernel(values_of_matrix(K), y, roots, parts, intercept, np.arange(len(K)) if twins is None else twins)


def foreseen(K, y, parts, part, k, intercept=True, variant="prefit", weights=None, twins=None):
    shared = split(K, y, parts, None if weights is None else np.sqrt(weights), intercept, twins)
    return foresee(shared, part, k, variant == "prefit")[0]


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
        found = foreseen(K, y, parts, part, 25, **options)
        assert len(found.atoms) >= (20 if gamma > 1e-3 else 8)
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
        parts = [rng.permutation(120)[:90] for _ in range(2)]
        for known in (twins, None):
            found = foreseen(K, y, parts, 1, 20, twins=known)
            assert found.atoms.tolist() == plain(K, y, parts[1], 20).atoms.tolist()


@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize(("apart", "gamma"), [(1e-3, 0.5), (1e-5, 5.0), (1e-6, 0.5), (1e-6, 0.02)])
def test_rows_that_are_nearly_equal(apart, gamma, variant):
    """Next to nothing is left of an atom whose neighbour was taken, yet it explains most where their targets differ."""
    X, _ = data(100)
    rng = np.random.default_rng(0)
    X = np.concatenate([X, X + apart * rng.normal(size=X.shape)])
    K = rbf_kernel(X, gamma=gamma)
    between = K[:, [100, 101, 102]] - K[:, [0, 1, 2]]
    y = np.sum(K[:, :3] + between / np.linalg.norm(between, axis=0), axis=1, keepdims=True)
    y += 0.01 * rng.normal(size=y.shape)
    parts = [np.delete(np.arange(200), range(10 + part, 90, 4)) for part in range(3)]
    found = [foreseen(K, y, parts, part, 20, variant=variant) for part in range(3)]
    for rows, one in zip(parts, found, strict=True):
        assert one.atoms.tolist() == plain(K, y, rows, 20, variant=variant).atoms.tolist()[: len(one.atoms)]
    assert sum(len(one.atoms) for one in found) >= 20


def test_where_very_many_atoms_are_equal():
    """It ends, where a step would look at all of them."""
    X, _ = data(200)
    K, y = rbf_kernel(X, gamma=1e6), np.where(np.arange(200) % 2, 1.0, -1.0)[:, None]
    assert len(foreseen(K, y, [np.arange(150)], 0, 20, intercept=False).atoms) == 1
    few = foreseen(K[:60, :60], y[:60], [np.arange(50)], 0, 20, intercept=False)
    assert few.atoms.tolist() == plain(K[:60, :60], y[:60], np.arange(50), 20, intercept=False).atoms.tolist()


def test_where_it_ends(few_rows):
    X, y = data(60)
    low_rank = X @ X.T
    found = foreseen(low_rank, y, [np.arange(40)], 0, 20)
    assert found.atoms.tolist() == plain(low_rank, y, np.arange(40), 20).atoms.tolist() and len(found.atoms) == 3
    assert found.over and found.first(3).over and not found.first(2).over
    exact = foreseen(rbf_kernel(X), rbf_kernel(X)[:, :2] @ np.ones((2, 1)), [np.arange(50)], 0, 20)
    assert len(exact.atoms) < 20 and not exact.over  # nothing is left to explain, but other atoms
    # Too much is lost by differences: with rows that no direction may hold, and products in float32.
    parts = [np.arange(30), np.arange(30, 60)]
    wide = scipy.linalg.block_diag(*[rbf_kernel(X[rows], gamma=1e-3) for rows in parts])
    found = foreseen(wide, y, parts, 0, 10, intercept=False)
    assert (len(found.atoms) < 10) == (few_rows == "passes") and found.atoms.tolist() == plain(
        wide, y, parts[0], len(found.atoms), intercept=False
    ).atoms.tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_whether_all_atoms_lie_in_a_span(weighted):
    """By the rank of the atoms themselves; far more of them than are looked at together."""
    X, y = data(1200, inputs=5)
    roots = np.sqrt(np.random.default_rng(1).integers(0, 3, len(X))) if weighted else None
    counted = np.arange(len(X)) if roots is None else np.flatnonzero(roots)
    K, parts = X @ X.T, [counted[counted % 4 > 0], counted[counted % 4 < 3]]
    shared = split(K, y, parts, roots)
    for part in (0, 1, 2):
        run = FoldPursuit(shared, part, most=10, jointly=True)
        rows, known = shared.parts[part], np.argsort(run.places)
        weights = np.ones(len(rows)) if roots is None else roots[rows]
        atoms = np.column_stack([np.ones(len(rows)), K[np.ix_(rows, rows)]]) * weights[:, None]
        whole, taken = np.linalg.matrix_rank(atoms), [0]
        for atom in range(7):
            assert run.nothing_left() == (np.linalg.matrix_rank(atoms[:, taken]) == whole) == (atom >= 5)
            assert (run.take(known[atom], 1e9) > 0) == (atom < 5)
            taken.append(1 + atom)


KINDS = {
    "turns": list(KFold(5).split(np.zeros(53))),
    "shuffled": list(KFold(4, shuffle=True, random_state=0).split(np.zeros(53))),
    "uneven": [(np.delete(np.arange(53), some), some) for some in np.split(np.arange(53), [4, 34])],
    "two": list(KFold(2).split(np.zeros(53))), "overlapping": list(ShuffleSplit(3, random_state=0).split(np.zeros(53))),
    "one": [(np.arange(40), np.arange(40, 53))],
    "all rows": [(np.arange(20), 0), (np.arange(53), 0), (np.arange(20, 53), 0)],
}  # fmt: skip


@pytest.mark.parametrize("gamma", [0.01, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_of_atoms_make_them_up(kind, weighted, gamma, few_rows, monkeypatch):
    """By the definition: what each pursuit reads of the rest, and sums over its rows."""
    monkeypatch.setattr(split_kernel, "_COLUMNS", 7)
    X, y = data(53, targets=2)
    K, parts = rbf_kernel(X, gamma=gamma), [train for train, _ in KINDS[kind]]
    roots = np.sqrt(np.random.default_rng(1).uniform(0.5, 2, 53)) if weighted else np.ones(53)
    shared = split(K, y, parts, roots)
    for part, rows in enumerate([*parts, np.arange(53)]):
        where, places = shared.places(part)
        ordered = shared.order[where]
        np.testing.assert_array_equal(rows[places], ordered)
        V, C = shared.V[ordered], shared.C[:, ordered]
        wanted = roots[ordered, None] * K[np.ix_(ordered, ordered)] - V @ C
        if few_rows == "passes":
            for some in [shared, shared.for_all_rows()] if len(rows) == 53 else [shared]:
                rest = np.tril(some.rest_of(where)[0])
                np.testing.assert_allclose(roots[ordered, None] * (rest + np.tril(rest, -1).T), wanted, atol=1e-6)
        else:
            found = np.array([shared.product_row(part, atom)[where] for atom in where])
            np.testing.assert_allclose(found, wanted.T @ wanted, atol=1e-12)
        squared, along, of_targets = shared.over(part, where)
        np.testing.assert_allclose(squared, np.sum(wanted**2, axis=0), atol=1e-12)
        np.testing.assert_allclose(along, V.T @ wanted, atol=1e-12)
        np.testing.assert_allclose(of_targets, (roots[:, None] * y)[ordered].T @ wanted, atol=1e-10)


@pytest.mark.parametrize("gamma", [1e-3, 0.02, 0.5, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_scores_are_known_to_the_error_that_is_told(gamma, weighted, intercept):
    """Norms and products of all atoms outside the span, against their definition, as long as a pursuit goes on."""
    X, y = data(200, targets=2)
    K, parts = rbf_kernel(X, gamma=gamma), [train for train, _ in KFold(4).split(X)]
    roots = np.sqrt(np.random.default_rng(1).uniform(0.1, 3, 200)) if weighted else np.ones(200)
    run = FoldPursuit(split(K, y, parts, roots, intercept), 1, most=60, jointly=True)
    rows = parts[1][run.places]
    D, targets = K[np.ix_(rows, rows)] * roots[rows, None], y[rows] * roots[rows, None]
    columns = [roots[rows]] if intercept else []
    while len(columns) < 60:
        atom, error = run.best(5e-4)
        if atom < 0:
            if not run.deflate():
                break
            continue
        Q = np.linalg.qr(np.column_stack(columns))[0] if columns else np.zeros((len(rows), 0))
        left, residual = (A - Q @ (Q.T @ A) for A in (D - Q @ (Q.T @ D), targets - Q @ (Q.T @ targets)))
        wanted = np.sum((residual.T @ left) ** 2, axis=0) / np.maximum(np.sum(left**2, axis=0), 1e-300)
        assert run.take(atom, error) == pytest.approx(wanted[atom], rel=2 * error)
        assert wanted[atom] >= (1 - 2 * error) * np.max(wanted[np.isfinite(run.squared)], initial=0.0)
        columns.append(D[:, atom])
    assert len(columns) >= (15 if gamma > 1e-3 else 8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("variant", ["prefit", "backfit"])
@pytest.mark.parametrize(("inputs", "gamma"), [(3, 0.1), (2, 0.5), (1, 2.0)])
def test_paths_go_on_where_rests_have_no_digits_left(inputs, gamma, variant, weighted, few_rows, monkeypatch):
    X, y = data(400, inputs=max(2, inputs))
    K, parts = rbf_kernel(X[:, :inputs], gamma=gamma), [train for train, _ in KFold(4).split(X)]
    options = {"variant": variant} | ({"weights": np.linspace(0.1, 3, 400)} if weighted else {})
    deflate, sizes = FoldPursuit.deflate, []

    def noting(run):
        done = deflate(run)
        return done and sizes.append(run.size) is None

    monkeypatch.setattr(FoldPursuit, "deflate", noting)
    found, path = foreseen(K, y, parts, 1, 120, **options), plain(K, y, parts[1], 120, **options)
    assert found.atoms.tolist() == path.atoms.tolist()[: len(found.atoms)]
    assert len(found.atoms) >= 0.9 * len(path.atoms)
    if few_rows == "products kept":
        assert not sizes
    elif variant == "prefit":
        assert sizes and sizes[0] < len(found.atoms) and np.all(np.diff(sizes) >= 8)


def test_rests_stay_where_it_is_float64_that_has_no_digits_left(few_rows):
    """Of a cubic kernel and targets that are linear in the inputs, of which nothing but rounding error is left."""
    X = np.random.default_rng(2).normal(size=(400, 4))
    parts = [train for train, _ in KFold(4).split(X)]
    run = FoldPursuit(split((0.02 * X @ X.T + 1) ** 3, X[:, :1] + X[:, 1:2], parts), 1, most=80, jointly=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        while (known := run.best(1e-4))[0] >= 0 and run.take(*known) > 0:
            pass
        assert 8 < run.size < 40 and known[1] > 0.05
        assert not run.deflate()
        run._double = 0.0
        assert run.deflate() == (few_rows == "passes")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_fits_of_all_steps(intercept, weighted):
    X, y = data(80, targets=2)
    K, rows = rbf_kernel(X, gamma=0.1), np.arange(60)
    roots = np.sqrt(np.random.default_rng(1).uniform(0.1, 3, 80)) if weighted else np.ones(80)
    found, fit = foresee(split(K, y, [rows], roots, intercept), 0, 8, True)
    columns = np.column_stack([np.ones((60, int(intercept))), K[np.ix_(rows, rows[found.atoms])]]) * roots[rows, None]
    targets = y[rows] * roots[rows, None]
    np.testing.assert_allclose(fit.R.T @ fit.R, columns.T @ columns, rtol=1e-10)
    assert np.all(np.diagonal(fit.R) > 0) and np.allclose(np.tril(fit.R, -1), 0)
    for k in range(len(fit.R) + 1):
        left = targets - columns[:, :k] @ np.linalg.lstsq(columns[:, :k], targets, rcond=None)[0]
        np.testing.assert_allclose(np.sum(targets**2) - np.sum(fit.lengths[:k] ** 2), np.sum(left**2), rtol=1e-6)
        if k == intercept:
            np.testing.assert_allclose(fit.energy, np.sum(left**2, axis=0))
    np.testing.assert_allclose(found.gains, np.sum(fit.lengths[int(intercept) :] ** 2, axis=1) / np.sum(fit.energy))


def test_directions_that_some_part_does_not_know_are_left_out():
    X, y = data(60)
    X[50:] += 100.0 * np.arange(10)[:, None]  # far from all others, and outside of the first part
    K, parts = rbf_kernel(X, gamma=0.05), [np.arange(50), np.arange(10, 60)]
    V = np.linalg.qr(smooth_directions(values_of_matrix(K), 60, double=False))[0]
    outside = [np.arange(50, 60), np.arange(10)]
    kept = V[:, well_spread(V, outside)]
    assert 20 < kept.shape[1] < V.shape[1]
    assert all(np.linalg.svd(np.delete(kept, rows, axis=0))[1][-1] > 1e-3 for rows in outside)
    for part in (0, 1):
        found = foreseen(K, y, parts, part, 15)
        assert found.atoms.tolist() == plain(K, y, parts[part], 15).atoms.tolist()


def test_directions_of_a_wide_kernel_hold_it():
    X, _ = data(100)
    K = rbf_kernel(X, gamma=0.01)
    U, few = (smooth_directions(values_of_matrix(K), 100, double, 30) for double in (False, True))
    assert np.max(np.abs(U @ U.T - K)) < 1e-6 < np.max(np.abs(few @ few.T - K)) < 1e-3 and U.shape > few.shape
    for double in (False, True):
        assert smooth_directions(values_of_matrix(np.eye(100)), 100, double).shape == (100, 0)
        assert smooth_directions(values_of_matrix(np.zeros((4, 4))), 4, double).shape == (4, 0)


def test_a_wrong_prophecy_is_noticed():
    """The pursuit ends where gains are not what they should be, and goes on by itself."""
    X, y = data()
    K = rbf_kernel(X, gamma=0.5)
    found, path = foreseen(K, y, [np.arange(150)], 0, 70), plain(K, y, np.arange(150), 80)
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

    def known(trains=trains, y=y[:, 0], **options):
        kind = KMPClassifier if y.dtype.kind != "f" else KMPRegressor
        return of(kind(5, **options), X, y, None, [(train, train[:5]) for train in trains], 20) is not None

    assert known() and known(variant="backfit") and known(y=np.arange(150) % 2)
    assert not known(loss="huber") and not known(variant="basic") and not known(weakness=0.5)
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
