"""Duplicate rows, and weights that are no counts: a warning where noise looks like signal, none on healthy data."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import kernelpursuit as kp
from kernelpursuit.fitting.duplicates import duplicate_ids

DUPLICATES = "are duplicates of others, targets and all"
NO_COUNTS = "sample_weight sums to"
SEARCH = {"max_atoms": 40, "gammas": [2.0], "cv": 3}
CHOOSERS = {
    "auto": kp.KMPRegressor(gamma=2.0),
    "leave_one_out": kp.KMPRegressor(40, gamma=2.0, stop="leave_one_out", alpha=0.0),
    "huber": kp.KMPRegressor(loss="huber", gamma=2.0),
    "basic": kp.KMPRegressor(variant="basic", gamma=2.0),
    "validation": kp.KMPRegressor(stop="validation", gamma=2.0),
    "certificate": kp.KMPRegressor(15, stop="certificate", gamma=0.5, random_state=0),
    "two classes": kp.KMPClassifier(gamma=2.0),
    "three classes": kp.KMPClassifier(gamma=2.0),
    "certificate of classes": kp.KMPClassifier(stop="certificate", gamma=0.5, random_state=0),
    "ridge": kp.KMPRegressor(40, gamma=2.0),
    "ridge of another loss": kp.KMPRegressor(40, gamma=2.0, loss="huber"),
    "ridge and a rule of the user": kp.KMPRegressor(40, gamma=2.0, stop=lambda path: None),
    "ridge of a ranker": kp.KMPRanker(40, gamma=2.0),
    "ranker": kp.KMPRanker(gamma=2.0),
    "ranker by groups": kp.KMPRanker(gamma=2.0, stop="validation", random_state=0),
    "groups left out": kp.KMPRanker(gamma=2.0, stop="leave_one_group_out"),
    "search": kp.PursuitSearchCV(kp.KMPRegressor(), scoring="neg_median_absolute_error", **SEARCH),
    "landmarks": kp.PursuitNystroem(n_components=10, selection="prefit", task="regression"),
    "refined": kp.RefinedKMPRegressor(3, epochs=2, random_state=0),
    "refined classes": kp.RefinedKMPClassifier(3, epochs=2, random_state=0),
    "intervals": kp.ConformalRegressor(kp.KMPRegressor(gamma=2.0), random_state=0),
    "intervals in proportion": kp.ConformalRegressor(kp.KMPRegressor(gamma=2.0), adaptive=True, random_state=0),
    "intervals by rows left out": kp.ConformalRegressor(kp.KMPRegressor(20, gamma=2.0), calibration_fraction=None),
}
COUNTING = CHOOSERS | {  # where the sum of the weights is taken for a number of rows
    "absolute loss": kp.KMPRegressor(loss="absolute_error"),
    "classes without a ridge": kp.KMPClassifier(alpha=0),
    "search of classes": kp.PursuitSearchCV(kp.KMPClassifier(), **SEARCH),
    "both": kp.PursuitSearchCV(kp.KMPRegressor(), input_weights="both", **SEARCH),
    "ranker by pairs": kp.KMPRanker(2, loss="log_loss"),
}
for name in ("basic", "certificate", "certificate of classes"):  # certificates take no weights
    del COUNTING[name]


def rows(n=60, noise=0.3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


def remarks(model, X, y, group=None, **options):
    """Warnings of a fit that are about duplicates or weights."""
    group = {"group": group} if isinstance(model, kp.KMPRanker) else {}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        clone(model).fit(X, y, **group, **options)
    return [one for one in found if re.search(f"{DUPLICATES}|{NO_COUNTS}", str(one.message))]


def targets(name, y):
    if "classes" in name:
        return np.digitize(y, np.quantile(y, [0.4, 0.7][: 1 + (name == "three classes")]))
    return y


@pytest.mark.parametrize("name", CHOOSERS)
def test_whatever_chooses_warns_of_duplicates_once(name):
    """Held-out rows are no better judges than rows left out: their duplicates were fitted to."""
    X, y = rows(noise=2.0)
    (about,) = remarks(CHOOSERS[name], np.tile(X, (5, 1)), np.tile(targets(name, y), 5), group=[60] * 5)
    assert str(about.message).startswith(f"240 of 300 rows {DUPLICATES}. ")
    assert "leave out duplicate rows" in str(about.message)


@pytest.mark.parametrize("name", COUNTING)
def test_weights_that_are_no_counts_are_noticed_once_at_the_line_of_the_user(name):
    X, y = rows(120)
    (about,) = remarks(COUNTING[name], X, targets(name, y), [60, 60], sample_weight=np.full(120, 10.0))
    n = 90 if name in ("intervals", "intervals in proportion") else 120  # they calibrate by the other rows
    assert str(about.message).startswith(f"{NO_COUNTS} {10 * n} for {n} rows")
    assert "divide the weights by their mean" in str(about.message)
    assert about.filename == __file__
    assert remarks(COUNTING[name], X, targets(name, y), [60, 60], sample_weight=np.full(120, 3.0)) == []


def healthy(kind):
    """Rows, targets and sizes of groups that are no reason to warn."""
    X, y = rows(noise=0.0 if kind == "exact" else 2.0)
    if kind == "drawn":  # with replacement
        J = np.random.default_rng(2).integers(0, 60, 60)
        return X[J], y[J], [12] * 5
    if kind == "discrete":  # two columns of few values: many rows have equal inputs, and their targets differ
        rng = np.random.default_rng(0)
        X = rng.integers(0, 6, size=(400, 2)).astype(float)
        return X, np.sin(X[:, 0]) + X[:, 1] / 5 + 0.5 * rng.normal(size=400), [80] * 5
    if kind == "in one group":  # which is held out with its duplicates
        return np.repeat(X, 5, axis=0), np.repeat(y, 5), [60] * 5
    if kind == "few":
        return np.tile(X[:8], (10, 1)), np.tile(y[:8], 10), [16] * 5
    return X, y, [12] * 5


PROMISES = [name for name in CHOOSERS if "certificate" in name or "intervals" in name]  # of the errors of new rows
HEALTHY = [(kind, name) for kind in ("once", "discrete", "exact", "few") for name in CHOOSERS]
HEALTHY += [("drawn", name) for name in CHOOSERS if name not in PROMISES]  # which few duplicates break
HEALTHY += [("in one group", name) for name in ("ranker by groups", "groups left out")]


@pytest.mark.parametrize(("kind", "name"), HEALTHY)
def test_healthy_data_are_left_in_peace(kind, name):
    X, y, group = healthy(kind)
    assert remarks(CHOOSERS[name], X, targets(name, y), group) == []


def test_nothing_is_said_of_duplicates_where_nothing_is_chosen_by_errors():
    X, y = rows()
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    assert remarks(kp.KMPRegressor(40, gamma=2.0, alpha=0.1), X, y) == []
    assert remarks(kp.KMPRegressor(40, gamma=2.0, variant="basic"), X, y) == []
    assert remarks(kp.KMPClassifier(stop="bound", gamma=2.0), X, y > 0) == []
    assert remarks(kp.PursuitNystroem(n_components=10), X, y) == []


def test_nothing_is_said_of_weights_where_a_common_factor_changes_nothing():
    X, y = rows()
    for model, targets in ((kp.KMPRegressor(alpha=0), y), (kp.SparseKernelFDA(), y > 0)):
        search = kp.PursuitSearchCV(model, max_atoms=3, cv=2, gammas=[0.3])
        assert remarks(search, X, targets, sample_weight=np.full(60, 10.0)) == []


def test_rows_of_few_categories_that_have_one_class_each_coincide():
    X = np.random.default_rng(0).integers(0, 10, size=(900, 2)).astype(float)
    y = (X[:, 0] + X[:, 1] > 9).astype(int)
    for model in (kp.KMPClassifier(loss="log_loss", gamma=0.1), kp.KMPClassifier(stop="validation", gamma=0.01)):
        assert remarks(model, X, y) == []


@pytest.mark.parametrize("name", ["certificate of classes", "intervals", "intervals by rows left out"])
def test_a_promise_needs_fewer_duplicates_to_be_broken(name):
    X, y = rows(120, noise=2.0)
    for J, n in ((np.repeat(np.arange(120), 2), 1), (np.r_[:120, :30], 1), (np.r_[:120, :5], 0)):
        assert len(remarks(CHOOSERS[name], X[J], targets(name, y)[J])) == n


@pytest.mark.parametrize("name", ["auto", "intervals"])
def test_rows_of_weight_0_are_no_duplicates(name):
    X, y = rows(120)
    weights = np.repeat([1.0, 0.0], [120, 240])
    assert remarks(CHOOSERS[name], np.tile(X, (3, 1)), np.tile(y, 3), sample_weight=weights) == []


@pytest.mark.parametrize("kind", ["float32", "sparse", "pandas", "precomputed", "shuffled", "drawn", "many"])
def test_duplicates_are_known_in_all_forms(kind):
    X, y = rows(800 if kind == "many" else 60)
    n, rng = len(y), np.random.default_rng(1)
    J = {
        "shuffled": rng.permutation(np.tile(np.arange(n), 5)),
        "drawn": np.concatenate([np.arange(n), rng.integers(0, n, 4 * n)]),
        "many": np.tile(np.arange(n), 2),  # more than are looked at first
    }.get(kind, np.tile(np.arange(n), 5))
    X, y = X[J], y[J]
    X = {
        "float32": X.astype(np.float32),
        "sparse": sparse.csr_array(X),
        "pandas": pd.DataFrame(X),
        "precomputed": np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2)) if kind == "precomputed" else None,
    }.get(kind, X)
    (about,) = remarks(kp.KMPRegressor(5, gamma=0.5, kernel="precomputed" if kind == "precomputed" else "rbf"), X, y)
    assert str(about.message).startswith(f"{len(J) - n} of {len(J)} rows {DUPLICATES}")


@pytest.mark.parametrize("kind", ["text", "objects", "list"])
def test_duplicates_are_known_in_tables(kind):
    X, y = rows(120, noise=2.0)
    J = np.tile(np.arange(120), 3)
    model, X, y = kp.KMPRegressor(20, gamma=2.0), X[J], y[J]
    if kind != "list":
        X = pd.DataFrame({"word": np.char.add("w", J.astype(str)), "number": X[:, 0]})
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), model)
    X = {"text": X, "objects": np.asarray(X), "list": np.asarray(X).tolist()}[kind]
    assert len(remarks(kp.ConformalRegressor(model, random_state=0), X, y)) == 1


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_matrix])
@pytest.mark.parametrize("columns", [1, 3])
def test_equal_rows_have_one_number(form, columns):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, columns)).astype(float)
    X[X == 0] *= rng.choice([-1.0, 1.0], np.sum(X == 0))
    expected = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    found = duplicate_ids(form(X))
    assert len(set(zip(found, expected, strict=True))) == len(set(found)) == len(set(expected))
