"""Copies of rows held out or left out: what fits noise because of them is said, what does not is left in peace."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from kernelpursuit import (
    ConformalRegressor,
    KMPClassifier,
    KMPRanker,
    KMPRegressor,
    KMPRegressorCV,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
)
from kernelpursuit.fitting.duplicates import row_numbers

COPIES = "distinct rows, which count as"


def rows(n=60, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_copies_and_weights_are_told(classes):
    """Each row five times is each row with weight five, in the model and in what is said of it."""
    X, y = rows()
    model = KMPRegressor() if classes == 0 else KMPClassifier()
    y = y if classes == 0 else np.digitize(y, [-0.3, 0.6][: classes - 1])
    with pytest.warns(UserWarning, match=rf"n_atoms='auto' has kept \d+ atoms, and X has only 60 {COPIES} 300\. "):
        copied = model.fit(np.tile(X, (5, 1)), np.tile(y, 5)).path_.values("loss")
    with pytest.warns(UserWarning, match=rf"60 {COPIES} 300\. .* divide weights that are not counts by their mean"):
        weighted = model.fit(X, y, sample_weight=np.full(60, 5.0)).path_.values("loss")
    assert len(copied) > 31
    np.testing.assert_allclose(copied[:10], weighted[:10], rtol=1e-6)


@pytest.mark.parametrize("kind", ["twice", "three times", "weights"])
@pytest.mark.parametrize("name", ["values", "classes", "three classes", "leave_one_out", "ranker"])
def test_copies_that_buy_atoms_are_told(name, kind):
    """Long before half of the distinct rows are atoms."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=300)
    y = {"classes": y > 0, "three classes": np.digitize(y, [-0.5, 0.5])}.get(name, y)
    makes = {"leave_one_out": KMPRegressor(60, stop="leave_one_out"), "ranker": KMPRanker(), "values": KMPRegressor()}
    model = makes.get(name, KMPClassifier())
    once = len(model.fit(X, y).support_)
    times, weights = {"twice": (2, None), "three times": (3, None), "weights": (1, np.full(300, 3.0))}[kind]
    with pytest.warns(UserWarning, match=rf"300 {COPIES} .* most likely fits noise") as found:
        model.fit(np.tile(X, (times, 1)), np.tile(y, times), sample_weight=weights)
    assert len(model.support_) >= 1.5 * once
    if name in ("values", "classes", "ranker"):
        assert len(model.support_) <= 150, "more than half were told before"
        about = int(re.search(r"of rows that count once it would be about (\d+)\)", str(found[0].message))[1])
        assert abs(about - once) <= (name == "ranker"), "the path of a ranker has the losses under its ridge"


@pytest.mark.parametrize("classes", [False, True])
def test_rows_held_out_that_are_copies_of_rows_fitted_to_are_told(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4))  # more than are looked at first
    y = np.sin(2 * X[:, 0]) + rng.normal(size=1200)
    model, y = (KMPClassifier(loss="logistic"), y > 0) if classes else (KMPRegressor(loss="huber"), y)
    with pytest.warns(UserWarning, match=rf"1200 {COPIES} 2400\. [^(]*: leave out the copies"):
        model.fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert 5 <= len(model.support_) < 600


@pytest.mark.parametrize("kind", ["weights", "drawn", "replicates", "categories", "some"])
@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_many_rows_that_are_as_they_should_be_are_left_in_peace(noise, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(2 * X[:, 0]) + noise * rng.normal(size=300)
    weights = rng.uniform(0.5, 2, 300) if kind == "weights" else None
    if kind == "replicates":
        X, y = np.tile(X, (3, 1)), np.tile(y, 3) + noise * rng.normal(size=900)
    if kind in ("drawn", "some"):
        J = rng.integers(0, 300, 300) if kind == "drawn" else np.r_[:300, :100]
        X, y = X[J], y[J]
    if kind == "categories":  # of which each has one class
        X = rng.integers(0, 10, size=(900, 2)).astype(float)
        y = (X[:, 0] + X[:, 1] > 9).astype(int)
        models = KMPClassifier(loss="logistic", gamma=0.1), KMPClassifier(stop="validation", gamma=0.01)
    else:
        models = KMPRegressor(), KMPRegressor(loss="huber")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for model in models:
            model.fit(X, y, sample_weight=weights)
    assert not [one for one in said if "distinct rows" in str(one.message)]


@pytest.mark.parametrize("kind", ["float32", "sparse", "pandas", "precomputed", "shuffled", "drawn", "rule"])
def test_copies_are_known_in_all_forms(kind):
    X, y = rows()
    J = np.tile(np.arange(60), 5)
    if kind in ("shuffled", "drawn"):
        rng = np.random.default_rng(1)
        J = rng.permutation(J) if kind == "shuffled" else np.concatenate([np.arange(60), rng.integers(0, 60, 240)])
    model, X, y = KMPRegressor(gamma=0.5), X[J], y[J]
    if kind == "precomputed":
        X = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2))
        model.set_params(kernel="precomputed")
    model.set_params(**{"stop": "leave_one_out"} if kind == "rule" else {})
    X = {"float32": X.astype(np.float32), "sparse": sparse.csr_array(X), "pandas": pd.DataFrame(X)}.get(kind, X)
    with pytest.warns(UserWarning, match=f"{'stop=.leave_one_out. ' if kind == 'rule' else ''}.*60 {COPIES} 300"):
        model.fit(X, y)


def discrete(n=400, noise=0.5):
    """Two columns of few values: many rows are alike, and their targets differ."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(n, 2)).astype(float)
    return X, np.sin(X[:, 0]) + X[:, 1] / 5 + noise * rng.normal(size=n)


@pytest.mark.filterwarnings("error:.*distinct rows")
@pytest.mark.parametrize("kind", ["once", "bootstrap", "discrete", "classes of discrete", "few", "given", "exact"])
def test_what_is_as_it_should_be_is_not(kind):
    X, y = discrete() if "discrete" in kind else rows(noise=0.0 if kind == "exact" else 0.3)
    if kind == "bootstrap":
        J = np.random.default_rng(2).integers(0, 60, 60)
        X, y = X[J], y[J]
    if kind == "few":
        X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (25, 1))
        y = (X[:, 0] != X[:, 1]).astype(float)
    if kind == "given":
        X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    if kind == "classes of discrete":
        assert len(np.unique(np.column_stack([X, y > 0.5]), axis=0)) < len(X) / 4
        KMPClassifier(gamma=2.0).fit(X, y > 0.5)
    given = {"n_atoms": 40, "alpha": 0.1} if kind == "given" else {}
    KMPRegressor(**given, gamma=2.0).fit(X, y)


CHOOSERS = {
    "huber": KMPRegressor(loss="huber", gamma=2.0),
    "basic": KMPRegressor(variant="basic", gamma=2.0),
    "validation": KMPRegressor(stop="validation", gamma=2.0),
    "ranker": KMPRanker(gamma=2.0),
    "ranker by groups": KMPRanker(gamma=2.0, stop="validation", random_state=0),
    "groups left out": KMPRanker(gamma=2.0, stop="leave_one_group_out"),
    "refined": RefinedKMPRegressor(random_state=0),
    "refined classes": RefinedKMPClassifier(random_state=0),
}


def fitted(name, X, y, group=None, **options):
    model = clone(CHOOSERS[name])
    y = y > np.median(y) if isinstance(model, RefinedKMPClassifier) else y
    return model.fit(X, y, **options, **({"group": group} if isinstance(model, KMPRanker) else {}))


@pytest.mark.parametrize("name", CHOOSERS)
def test_whatever_chooses_tells_of_copies(name):
    """Rows held out are no better judges than rows left out: they have been seen."""
    X, y = rows(noise=2.0)
    with pytest.warns(UserWarning, match=rf"60 {COPIES} 300\. .* leave out the copies"):
        fitted(name, np.tile(X, (5, 1)), np.tile(y, 5), group=[60] * 5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a constant, where there is much noise
@pytest.mark.filterwarnings("error:.*distinct rows")
@pytest.mark.parametrize("kind", ["once", "weights", "discrete", "in one group", "exact", "few"])
@pytest.mark.parametrize("name", CHOOSERS)
def test_nor_do_others_tell_of_what_is_as_it_should_be(name, kind):
    """Weights make no copies for rows held out, and copies inside of a group are held out with it."""
    X, y = discrete() if kind == "discrete" else rows(noise=0.0 if kind == "exact" else 2.0)
    group, options = [len(X) // 5] * 5, {}
    if kind == "weights" and name != "ranker":
        options["sample_weight"] = np.full(60, 3.0)
    if kind == "few":
        X, y, group = np.tile(X[:8], (10, 1)), np.tile(y[:8], 10), [16] * 5
    if kind == "in one group" and "group" in name:
        X, y, group = np.repeat(X, 5, axis=0), np.repeat(y, 5), [60] * 5
    fitted(name, X, y, group, **options)


RIDGES = {
    "squared": KMPRegressor(40, gamma=2.0),
    "huber": KMPRegressor(40, gamma=2.0, loss="huber"),
    "classes": KMPClassifier(40, gamma=2.0),
    "rule of the user": KMPRegressor(40, gamma=2.0, stop=lambda path: None),
    "ranker": KMPRanker(40, gamma=2.0),
    "search": KMPRegressorCV(max_atoms=40, gammas=[2.0], cv=3, scoring="neg_median_absolute_error"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", RIDGES)
def test_a_ridge_that_copies_have_chosen_is_told(name):
    """Once, also by a search, whose folds have copies too. Half as many atoms as distinct rows it takes, or more."""
    X, y = rows(noise=2.0)
    y = y > 0 if name == "classes" else y
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        group = {"group": [60] * 5} if name == "ranker" else {}
        model = clone(RIDGES[name]).fit(np.tile(X, (5, 1)), np.tile(y, 5), **group)
    k = len(np.unique(model.support_))
    wanted = f"alpha='auto' has chosen a ridge for {k} atoms, and X has only 60 {COPIES} 300. "
    told = [str(one.message) for one in said if "distinct rows" in str(one.message)]
    assert len(told) == 1 and told[0].startswith(wanted) and told[0].endswith("or give a number for alpha")


@pytest.mark.filterwarnings("error:.*distinct rows")
@pytest.mark.parametrize("kind", ["once", "few atoms", "basic", "discrete", "a number"])
def test_nor_is_a_ridge_of_rows_of_their_own(kind):
    X, y = discrete() if kind == "discrete" else rows(noise=2.0)
    times = 1 if kind in ("once", "discrete") else 5
    given = {"basic": {"variant": "basic"}, "a number": {"alpha": 0.1}}.get(kind, {})
    model = KMPRegressor(20 if kind == "few atoms" else 40, gamma=2.0, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.tile(X, (times, 1)), np.tile(y, times))


SEEN = "of the rows held out for stop='certificate' are equal to rows that were fitted to"


@pytest.mark.parametrize("model", [KMPClassifier(), KMPRegressor(15)], ids=repr)
def test_a_certificate_by_rows_that_have_been_seen_is_told(model):
    """Each row three times: at most 4 % of new rows would be wrong, it said of classes, and 12 % were."""
    X, y = rows(120)
    y = y > 0 if isinstance(model, KMPClassifier) else y
    model = clone(model).set_params(stop="certificate", gamma=0.5, random_state=0)
    with pytest.warns(UserWarning, match=SEEN):
        model.fit(np.tile(X, (3, 1)), np.tile(y, 3))


@pytest.mark.filterwarnings("error:.*rows held out for")
@pytest.mark.parametrize("kind", ["once", "hardly", "discrete", "few"])
def test_nor_is_a_certificate_by_rows_of_their_own(kind):
    X, y = discrete() if kind == "discrete" else rows(120)
    J = {"hardly": np.r_[:120, :5], "few": np.arange(240) % 6}.get(kind, np.arange(len(y)))
    KMPClassifier(stop="certificate", gamma=0.5, random_state=0).fit(X[J], y[J] > 0.3)


TOO_NARROW = "intervals most likely cover fewer than coverage=0.9"


@pytest.mark.parametrize("share", [0.25, None])
@pytest.mark.parametrize(
    "kind", ["array", "float32", "sparse", "pandas", "precomputed", "text", "objects", "list", "twice", "some"]
)
def test_intervals_by_copies_of_fitted_rows_are_told(kind, share):
    X, y = rows(120, noise=2.0)
    J = {"twice": np.repeat(np.arange(120), 2), "some": np.r_[:120, :30]}.get(kind, np.tile(np.arange(120), 3))
    model, X, y = KMPRegressor(20, gamma=2.0), X[J], y[J]
    if kind == "precomputed":
        X = np.exp(-2 * np.sum((X[:, None] - X) ** 2, axis=2))
        model.set_params(kernel="precomputed")
    if kind in ("text", "objects"):
        if share is None:
            pytest.skip("pipelines leave no rows out")
        X = pd.DataFrame({"word": np.char.add("w", J.astype(str)), "number": X[:, 0]})
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), model)
    forms = {
        "float32": lambda X: X.astype(np.float32),
        "sparse": sparse.csr_array,
        "pandas": pd.DataFrame,
        "objects": pd.DataFrame.to_numpy,
        "list": np.ndarray.tolist,
    }
    with pytest.warns(UserWarning, match=TOO_NARROW):
        ConformalRegressor(model, calibration_fraction=share, random_state=0).fit(forms.get(kind, lambda X: X)(X), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("error:.*intervals")
@pytest.mark.parametrize("share", [0.25, None])
@pytest.mark.parametrize("kind", ["once", "weights", "discrete", "absent", "hardly", "constant"])
def test_intervals_by_rows_of_their_own_are_not(kind, share):
    X, y = discrete() if kind == "discrete" else rows(120)
    weights = np.full(len(y), 3.0) if kind == "weights" else np.ones(len(y))
    if kind == "absent":
        X, y, weights = np.tile(X, (3, 1)), np.tile(y, 3), np.repeat([1.0, 0.0], [120, 240])
    if kind == "hardly":
        X, y, weights = np.r_[X, X[:5]], np.r_[y, y[:5]], np.ones(125)
    if kind == "constant":
        X, y = np.round(X), np.ones(120)
    model = ConformalRegressor(KMPRegressor(10, gamma=2.0), calibration_fraction=share, random_state=0)
    model.fit(X, y, sample_weight=weights)


def test_rows_are_numbered_alike_where_they_are_equal():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 3)).astype(float)
    X[X == 0] *= rng.choice([-1.0, 1.0], np.sum(X == 0))
    wanted = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    for form in (X, X.astype(np.float32), sparse.csr_matrix(X), X[:, :1]):
        found = row_numbers(form)
        expected = wanted if form.shape[1] == 3 else np.unique(X[:, 0], return_inverse=True)[1]
        assert len(set(zip(found, expected, strict=True))) == len(set(found)) == len(set(expected))
