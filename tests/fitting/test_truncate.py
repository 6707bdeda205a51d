"""Models cut to fewer steps: the stages of a path, shorter fits, the constant; targets share the atoms."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

import kernelpursuit as kp
from kernelpursuit.parameters import basic, bound, columns, gcv
from tests.problems import data

X, TARGETS = data(80, targets=2)
Y = TARGETS[:, 0]
NEW = data(20, seed=9)[0]


def fit(model, y=Y):
    if isinstance(model, kp.KMPRegressor):
        return model.fit(X, y)
    if isinstance(model, kp.KMPClassifier | kp.SparseKernelFDA):
        return model.fit(X, Y > 1)
    return model.fit(X, Y, group=[40, 40]) if isinstance(model, kp.KMPRanker) else model.fit(X, Y)


PATHS = [  # with one ridge at all lengths
    kp.KMPRegressor(9, alpha=0.0),
    kp.KMPRegressor(9, variant="backfit", alpha=0.1),
    kp.KMPRegressor(9, variant=basic(0.5)),  # for which "auto" is 0
    kp.KMPRegressor(9, loss="huber", alpha=0.0),
    kp.KMPRegressor(9, kernel=["rbf", "linear", columns(np.sin)], fit_intercept=False, alpha=0.0),
    kp.KMPRegressor(12, variant="prefit", alpha=0.1),
    kp.KMPRegressor(12, variant="backfit", alpha=0.0),
    kp.KMPRegressor(12, variant="basic", alpha=0.1),
    kp.KMPRegressor(12, loss="huber", alpha=0.1),
    kp.KMPRegressor(12, candidates=10, alpha=0.1, random_state=0),
    kp.KMPRegressor(12, kernel="sigmoid", alpha=0.1),
    kp.KMPRegressor(alpha=0.0),
    kp.KMPRegressor(stop="gcv", alpha=0.0),
    kp.KMPClassifier(12, alpha=0.0),
    kp.KMPClassifier(12, alpha=0.1),
    kp.KMPClassifier(12, loss="log_loss", alpha=0.1),
    kp.SparseKernelFDA(12),
    kp.PolytopeFacesRegressor(12, release=False),
]


@pytest.mark.parametrize("estimator", PATHS, ids=repr)
@pytest.mark.parametrize(("k", "y"), [(1, Y), (5, TARGETS)], ids=["one target", "two targets"])
def test_a_truncated_model_is_a_stage_and_a_shorter_fit(estimator, k, y):
    model = fit(clone(estimator), y)
    whole, stages = model.predict(NEW), list(model.staged_predict(NEW))
    short, steps, taken = model.truncate(k), len(stages), len(stages) + len(model.path_.discarded)
    assert short.n_atoms == len(short.path_) == k and short.path_.sentence == f"truncated to {k} of {taken} steps"
    assert len(short.path_) + len(short.path_.discarded) == taken
    np.testing.assert_allclose(short.predict(NEW), stages[k - 1], rtol=1e-9, atol=1e-9)
    fresh = fit(clone(short), y)
    np.testing.assert_array_equal(fresh.support_, short.support_)
    np.testing.assert_allclose(fresh.dual_coef_, short.dual_coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(fresh.predict(NEW), short.predict(NEW), rtol=1e-8, atol=1e-10)
    assert len(model.path_) == steps and model.get_params() == estimator.get_params(), "the model itself stays"
    np.testing.assert_array_equal(model.predict(NEW), whole)


def test_under_auto_the_ridge_is_that_of_the_whole_path():
    model = kp.KMPRegressor(12).fit(X, Y)
    short, fresh = model.truncate(4), kp.KMPRegressor(4).fit(X, Y)
    assert short.alpha_ == model.alpha_ != fresh.alpha_
    same = kp.KMPRegressor(4, alpha=model.alpha_).fit(X, Y)
    assert short.support_.tolist() == fresh.support_.tolist() == same.support_.tolist()
    np.testing.assert_allclose(short.predict(X), same.predict(X), atol=1e-8)


def test_other_numbers_are_refused():
    model = kp.KMPRegressor(4)
    with pytest.raises(NotFittedError):
        model.truncate(1)
    model.fit(X, Y)
    for k in (-1, 5, 1.5, "2"):
        with pytest.raises(ValueError, match="k must be an integer from 0 to 4"):
            model.truncate(k)


# ---------------------------------------------------------------------------------------------- no atoms at all


CONSTANT = [
    kp.KMPRegressor(3),
    kp.KMPRegressor(3, alpha=0.1),
    kp.KMPRegressor(3, variant="basic"),
    kp.KMPRegressor(3, loss="huber"),
    kp.KMPRegressor(3, stop="validation", random_state=0),
    kp.KMPRegressor(3, candidates=5, random_state=0),
    kp.KMPRegressor(3, fit_intercept=False),
    kp.PolytopeFacesRegressor(3),
    kp.KMPClassifier(3),
    kp.KMPClassifier(3, loss="log_loss"),
    kp.SparseKernelFDA(3),
    kp.KMPRanker(3),
]


@pytest.mark.parametrize("model", CONSTANT, ids=repr)
def test_a_model_cut_to_nothing_is_the_constant(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = fit(clone(model)).truncate(0)
        again = fit(clone(empty))
    for one in (empty, again):
        assert one.n_atoms == len(one.support_) == len(one.path_) == 0
    # A ridge by evidence, of which nothing is left, may have rounded the constant; else every bit is the same.
    by_evidence = getattr(model, "alpha", 0) == "auto"
    np.testing.assert_allclose(again.predict(X), empty.predict(X), rtol=1e-14 if by_evidence else 0)
    assert len(np.unique(again.predict(X))) == 1


def test_the_constant_is_the_mean():
    np.testing.assert_allclose(kp.KMPRegressor(0).fit(X, TARGETS).predict(X), np.tile(TARGETS.mean(axis=0), (80, 1)))


# ---------------------------------------------------------------------------------------------- more and other models


@pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")
@pytest.mark.parametrize("k", [0, 2])
def test_a_truncated_search_is_its_best_estimator(k):
    model = kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=8, gammas=[0.3], cv=3).fit(X, Y)
    short = model.truncate(k)
    assert isinstance(short, kp.KMPRegressor) and short.n_atoms == len(short.support_) == k
    assert model.best_params_["n_atoms"] == len(model.best_estimator_.support_) > 2


def rows_with_noise(n=120):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.KMPClassifier])
def test_steps_that_were_discarded_can_be_had(make):
    X, y = rows_with_noise()
    model = make(stop=gcv(patience=4), alpha=0.0).fit(X, y)
    k = len(model.path_)
    longer, more = make(k + 4, alpha=0.0).fit(X, y), model.truncate(k + 4)
    assert len(model.path_.discarded) == 4
    np.testing.assert_array_equal(more.support_, longer.support_)
    np.testing.assert_allclose(more.predict(X), longer.predict(X))
    np.testing.assert_allclose(more.truncate(k).predict(X), model.predict(X))
    np.testing.assert_allclose(model.truncate(1).truncate(k).dual_coef_, model.dual_coef_)
    with pytest.raises(ValueError, match=f"from 0 to {k + 4}"):
        model.truncate(k + 5)


def test_discriminants_beyond_the_chosen_number():
    X, y = rows_with_noise(150)
    model = kp.SparseKernelFDA(12, stop=bound(patience=3), gamma=0.5).fit(X, y)
    k = len(model.path_) + 3
    longer = kp.SparseKernelFDA(k, gamma=0.5).fit(X, y)
    np.testing.assert_allclose(model.truncate(k).decision_function(X), longer.decision_function(X))
    np.testing.assert_allclose(model.truncate(k).transform(X), longer.transform(X))


@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_targets_share_one_support(variant):
    X, Y = data(targets=3)
    model = kp.KMPRegressor(7, variant=variant).fit(X, Y)
    assert model.support_.ndim == 1 and model.dual_coef_.shape == (len(model.support_), 3)
    assert model.intercept_.shape == (3,)
    K = rbf_kernel(X, X[model.support_], gamma=1 / (3 * X.var()))
    np.testing.assert_allclose(model.predict(X), K @ model.dual_coef_ + model.intercept_, rtol=1e-9)


def test_a_target_in_a_column_is_the_same_model():
    column, vector = kp.KMPRegressor(7).fit(X, Y[:, None]), kp.KMPRegressor(7).fit(X, Y)
    assert column.predict(X).shape == (len(X), 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], vector.predict(X))


@pytest.mark.parametrize("options", [{}, {"loss": "huber"}, {"variant": "basic"}], ids=str)
def test_without_atoms_and_constant_the_loss_is_that_of_zero(options):
    X, y = data(40)
    model = kp.KMPRegressor(0, fit_intercept=False, alpha=0.0, **options).fit(X, 3 + y)
    np.testing.assert_array_equal(model.predict(X), np.zeros(40))
    first = kp.KMPRegressor(1, fit_intercept=False, alpha=0.0, **options).fit(X, 3 + y).path_
    assert model.path_.start.loss == pytest.approx(first.start.loss, rel=1e-12) and len(model.path_) == 0
    if not options.get("loss"):
        assert model.path_.start.loss == pytest.approx(np.mean((3 + y) ** 2), rel=1e-12)
