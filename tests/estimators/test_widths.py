"""FeatureWidths: a width for each input."""

import os

import array_api_compat
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import load_iris, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from kernelpursuit import FeatureWidths, KMPClassifier, KMPRegressor, PursuitSearchCV
from kernelpursuit._sklearn import ARRAY_API_SUPPORT
from kernelpursuit.estimators import widths as module
from papers import s4_forest
from papers.datasets import find_file


def problem(n=150, p=6, noise=0.1, seed=0):
    """Targets that depend on inputs 1 and 4 only, quickly on the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(3 * X[:, 1]) + 0.5 * X[:, 4] + noise * rng.normal(size=n)


def test_inputs_without_effect_get_small_weights():
    X, y = problem()
    weights = FeatureWidths(50, random_state=0).fit(X, y).weights_
    assert weights.argmax() == 1
    assert weights[[0, 2, 3, 5]].max() < 0.3 * weights[4] < weights[1]


def weights(X, y, **options):
    return FeatureWidths(30, random_state=0, **options).fit(X, y).weights_


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_units_do_not_matter(noise):
    X, y = problem(noise=noise)
    unit = np.array([1e-6, 10.0, 1e5, 1.0, 1e-3, 7.0])
    plain = weights(X, y)
    np.testing.assert_allclose(weights(X * unit + 3 * unit, y) * unit, plain, rtol=1e-3)
    np.testing.assert_allclose(weights(X, 1e6 * y - 5), plain, rtol=1e-3)
    for extreme in (1e200, 1e-170, 1e-300):
        np.testing.assert_allclose(weights(X * extreme, y) * extreme, plain, rtol=1e-3)
    single = X.astype(np.float32)
    near, small = (FeatureWidths(30, random_state=0).fit(one, y) for one in (single, single * np.float32(1e-37)))
    found = small.transform(single * np.float32(1e-37))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, near.transform(single), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_order_of_the_columns_does_not_matter(noise):
    order = [4, 2, 0, 5, 3, 1]
    for X, y in (problem(noise=noise), make_friedman1(300, 6, noise=noise, random_state=0)):
        np.testing.assert_allclose(weights(X[:, order], y), weights(X, y)[order], rtol=1e-3)


def test_constant_columns():
    X, y = problem()
    rounded = 0.1 * (1 + np.finfo(float).eps * np.random.default_rng(0).integers(-2, 3, 150))
    with_constants = np.column_stack([X, np.full(150, 0.1), np.zeros(150), np.full(150, 1e200), rounded])
    found = weights(with_constants, y)
    np.testing.assert_allclose(found[:6], weights(X, y), rtol=1e-6)
    np.testing.assert_array_equal(found[6:], 0)
    single = np.column_stack([X, 7 + 1e-8 * np.arange(150)]).astype(np.float32)
    assert np.unique(single[:, 6]).size > 1, "rounding of single precision, not of double"
    with pytest.warns(UserWarning, match="columns 6 of X differ between rows by hardly more than float32 rounds"):
        assert weights(single, y)[6] == 0
    assert weights(single.astype(np.float64), y)[6] > 0
    found = FeatureWidths(random_state=0).fit(np.full((60, 2), 3.0), y[:60])
    np.testing.assert_array_equal(found.weights_, 0)
    np.testing.assert_array_equal(found.transform([[1.0, 2.0]]), 0)


@pytest.mark.filterwarnings("ignore:the best number of atoms")
def test_new_rows_may_differ_in_a_constant_column():
    X, y = problem()
    model = make_pipeline(FeatureWidths(50, random_state=0), KMPRegressor(10, gamma=1.0))
    search = PursuitSearchCV(KMPRegressor(random_state=0), max_atoms=10, gammas=[1.0], input_weights="learned", cv=2)
    for one in (model, search):
        one.fit(np.column_stack([X, np.full(150, 7.0)]), y)
        seen, moved = (one.predict(np.column_stack([X, np.full(150, value)])) for value in (7.0, 1e6))
        np.testing.assert_allclose(moved, seen, rtol=1e-9, atol=1e-12)


def test_weight_k_is_the_row_k_times():
    X, y = problem(80)
    counts = np.random.default_rng(1).integers(0, 4, size=80)
    widths = FeatureWidths(30, random_state=0)
    twice = widths.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).weights_
    counted, plain = widths.fit(X, y, sample_weight=counts).weights_, widths.fit(X, y).weights_
    np.testing.assert_allclose(counted, twice, rtol=1e-7)
    assert np.abs(counted / plain - 1).max() > 1e-3
    for constant in (1.0, 1e-3, 1e-200):  # which stands for whole rows
        found = widths.fit(X, y, sample_weight=np.full(80, constant)).weights_
        np.testing.assert_allclose(found, plain, rtol=1e-3)


@pytest.mark.parametrize("noise", [0.1, 0.5])
@pytest.mark.parametrize("weight", [1.5, 2.0, 3.0, 100.0])
@pytest.mark.filterwarnings("error")
def test_rows_that_count_several_times_do_not_stand_alone(weight, noise):
    """Widths of 0.01 explained all of y, noise included, where each row was a landmark and counted twice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.sin(2 * X[:, 0]) + noise * rng.normal(size=100)
    plain = FeatureWidths(random_state=0).fit(X, y)
    counted = FeatureWidths(random_state=0).fit(X, y, sample_weight=np.full(100, weight))
    uneven = FeatureWidths(random_state=0).fit(X, y, sample_weight=weight * rng.uniform(0.7, 1.3, size=100))
    np.testing.assert_allclose(counted.weights_, plain.weights_, rtol=1e-6)
    assert uneven.noise_ == pytest.approx(plain.noise_, rel=0.3)
    assert uneven.weights_.max() < 2


def test_copies_with_other_targets_are_rows_of_their_own():
    """A thousand looks at ten inputs say how often a class is another one."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, size=(1000, 1)).astype(float)
    y = np.where(rng.random(1000) < 0.2, X[:, 0] < 5, X[:, 0] >= 5).astype(int)
    assert FeatureWidths(random_state=0).fit(X, y).noise_ == pytest.approx(1 - 0.6**2, abs=0.1)


def test_whole_numbers_with_many_values_are_values():
    X, y = make_friedman1(300, 8, noise=0.5, random_state=0)
    plain, whole = weights(X, y), weights(X, np.rint(30 * y).astype(int))
    np.testing.assert_allclose(whole[:5], plain[:5], rtol=0.05)
    assert whole[5:].max() < 0.1 * whole[:3].min()
    with pytest.warns(UserWarning, match="taken for values"):
        coarse = FeatureWidths(30, random_state=0).fit(X, np.rint(y).astype(int)).weights_
    np.testing.assert_allclose(coarse[:3], plain[:3], rtol=0.3)
    np.testing.assert_array_equal(coarse, weights(X, np.rint(y).astype(int), task="regression"))


def test_a_search_that_is_cut_short_says_so():
    X, y = problem()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = FeatureWidths(50, random_state=0, max_iter=2).fit(X, y)
    assert 1 <= model.n_iter_ <= 13


def test_an_interrupt_leaves_weights_and_is_raised(monkeypatch):
    X, y = problem()
    values, true = [], module.evidence

    def interrupted(*arguments, **given):
        if len(values) == 5:
            raise KeyboardInterrupt
        values.append(true(*arguments, **given).value)
        return true(*arguments, **given)

    monkeypatch.setattr(module, "evidence", interrupted)
    model = FeatureWidths(50, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.evidence_ == values[0]  # all rows were looked at once, at the first start
    assert np.all(np.isfinite(model.transform(X)))


def test_verbose_tells_each_climb(capsys):
    X, y = problem(60)
    FeatureWidths(20, random_state=0).fit(X, y)
    assert capsys.readouterr().out == ""
    FeatureWidths(20, random_state=0, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and "60 rows, 6 inputs, 20 landmarks" in lines[0] and "log evidence" in lines[-1]


def test_prior_makes_weights_equal():
    X, y = problem()
    X /= X.std(axis=0)
    spread = [
        np.ptp(np.log(FeatureWidths(50, prior=prior, random_state=0).fit(X, y).weights_)) for prior in (0, 1, 1e8)
    ]
    assert spread[0] > spread[1] > 1 and spread[2] < 1e-3


def test_classes_of_any_kind():
    X, y = problem()
    sign = np.where(y > 0, 1, -1)
    first = FeatureWidths(50, random_state=0).fit(X, sign).weights_
    for same in (np.where(y > 0, "yes", "no"), y > 0, sign.astype(float)):
        np.testing.assert_allclose(FeatureWidths(50, random_state=0).fit(X, same).weights_, first, rtol=1e-6)
    X, y = load_iris(return_X_y=True)
    assert FeatureWidths(50, random_state=0).fit(X, y).weights_.argmax() in (2, 3)  # the petals


def test_several_targets():
    X, y = problem()
    weights = FeatureWidths(50, random_state=0).fit(X, np.column_stack([y, 100 * X[:, 2]])).weights_
    assert weights[2] > 3 * weights[[0, 3, 5]].max()


def test_fewer_atoms_are_enough():
    X, y = problem(300, 10)
    scores = [
        cross_val_score(model, X, y, cv=3).mean()
        for model in (
            KMPRegressor(15, gamma=0.05),
            make_pipeline(FeatureWidths(50, random_state=0), KMPRegressor(15, gamma=1.0)),
        )
    ]
    assert scores[0] < 0.8 < 0.95 < scores[1]
    classifier = make_pipeline(FeatureWidths(50, random_state=0), KMPClassifier(10, gamma=1.0))
    assert classifier.fit(X, y > 0).score(X, y > 0) > 0.9


@pytest.mark.parametrize("y", [np.ones(40), np.full(40, "a"), np.arange(40.0) * 1e300])
def test_targets_without_information(y):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 2] = 5
    widths = FeatureWidths(50, random_state=0).fit(X, y)
    assert np.all(np.isfinite(widths.weights_)) and np.all(widths.weights_[:2] > 0) and widths.weights_[2] == 0
    assert np.all(np.isfinite(widths.transform(X)))


def test_what_cannot_be_used():
    X, y = problem(30)
    with pytest.raises(TypeError, match="dense data is required"):
        FeatureWidths().fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="requires y"):
        FeatureWidths().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FeatureWidths().fit(X, y[:-1])
    with pytest.raises(ValueError, match="at least one"):
        FeatureWidths().fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="Negative"):
        FeatureWidths().fit(X, y, sample_weight=-np.ones(30))


@pytest.mark.parametrize("space", ["torch", "array_api_strict"])
def test_other_arrays(space):
    xp = pytest.importorskip(space)
    if not ARRAY_API_SUPPORT:
        pytest.skip("scikit-learn before 1.9")
    X, y = problem(60)
    expected = FeatureWidths(n_landmarks=20, random_state=0).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        there = xp.asarray(X)
        widths = FeatureWidths(n_landmarks=20, random_state=0).fit(there, xp.asarray(y))
        found = widths.transform(there)
        assert array_api_compat.array_namespace(found) is array_api_compat.array_namespace(there)
        np.testing.assert_allclose(np.asarray(found), expected.transform(X), rtol=1e-3, atol=1e-4)
        with pytest.raises(ValueError, match="same namespace"):
            widths.transform(X)


@pytest.mark.data
def test_all_rows_find_the_input_that_few_rows_lose(monkeypatch):
    """Forest cover: from where the climb on a thousand rows ends, the one on ten thousand does not come back."""
    folder = os.environ.get("KERNELPURSUIT_DATA")
    if find_file("covtype", folder) is None:
        pytest.skip("no covtype.npz: set KERNELPURSUIT_DATA to the folder with the data")
    forest = s4_forest._scaled({"split": 0, "quick": False, "size": 15_000}, folder)
    found = FeatureWidths(random_state=0).fit(forest.X, forest.y)
    monkeypatch.setattr(module, "STARTS", module.STARTS[:1])
    monkeypatch.setattr(module, "ROWS_FOR_STARTS", 10**6)
    plain = FeatureWidths(random_state=0).fit(forest.X, forest.y)
    assert found.evidence_ >= plain.evidence_ - 0.01
