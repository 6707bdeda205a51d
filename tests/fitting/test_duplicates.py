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

from kernelpursuit import (
    ConformalRegressor,
    KMPClassifier,
    KMPRanker,
    KMPRegressor,
    PursuitNystroem,
    PursuitSearchCV,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
)
from kernelpursuit.fitting.duplicates import duplicate_ids

DUPLICATES = "are duplicates of others, targets and all"


def rows(n=60, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


def discrete(n=400, noise=0.5):
    """Two columns of few values: many rows have equal inputs, and their targets differ."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(n, 2)).astype(float)
    return X, np.sin(X[:, 0]) + X[:, 1] / 5 + noise * rng.normal(size=n)


CHOOSERS = {
    "auto": KMPRegressor(gamma=2.0),
    "leave_one_out": KMPRegressor(40, gamma=2.0, stop="leave_one_out", alpha=0.0),
    "huber": KMPRegressor(loss="huber", gamma=2.0),
    "basic": KMPRegressor(variant="basic", gamma=2.0),
    "validation": KMPRegressor(stop="validation", gamma=2.0),
    "certificate": KMPRegressor(15, stop="certificate", gamma=0.5, random_state=0),
    "two classes": KMPClassifier(gamma=2.0),
    "three classes": KMPClassifier(gamma=2.0),
    "certificate of classes": KMPClassifier(stop="certificate", gamma=0.5, random_state=0),
    "ridge": KMPRegressor(40, gamma=2.0),
    "ridge of another loss": KMPRegressor(40, gamma=2.0, loss="huber"),
    "ridge and a rule of the user": KMPRegressor(40, gamma=2.0, stop=lambda path: None),
    "ridge of a ranker": KMPRanker(40, gamma=2.0),
    "ranker": KMPRanker(gamma=2.0),
    "ranker by groups": KMPRanker(gamma=2.0, stop="validation", random_state=0),
    "groups left out": KMPRanker(gamma=2.0, stop="leave_one_group_out"),
    "search": PursuitSearchCV(KMPRegressor(), max_atoms=40, gammas=[2.0], cv=3, scoring="neg_median_absolute_error"),
    "landmarks": PursuitNystroem(n_components=10, selection="prefit", task="regression"),
    "refined": RefinedKMPRegressor(random_state=0),
    "refined classes": RefinedKMPClassifier(random_state=0),
    "intervals": ConformalRegressor(KMPRegressor(gamma=2.0), random_state=0),
    "intervals in proportion": ConformalRegressor(KMPRegressor(gamma=2.0), adaptive=True, random_state=0),
    "intervals by rows left out": ConformalRegressor(KMPRegressor(20, gamma=2.0), calibration_fraction=None),
}


def remarks(model, X, y, group=None, **options):
    """Warnings of a fit that are about duplicates or weights."""
    group = {"group": group} if isinstance(model, KMPRanker) else {}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y, **group, **options)
    return [str(one.message) for one in found if re.search(f"{DUPLICATES}|sample_weight sums to", str(one.message))]


def targets(name, y):
    if "classes" in name:
        return np.digitize(y, np.quantile(y, [0.4, 0.7][: 1 + (name == "three classes")]))
    return y


@pytest.mark.parametrize("name", CHOOSERS)
def test_whatever_chooses_warns_of_duplicates_once(name):
    """Held-out rows are no better judges than rows left out: their duplicates were fitted to."""
    X, y = rows(noise=2.0)
    (about,) = remarks(clone(CHOOSERS[name]), np.tile(X, (5, 1)), np.tile(targets(name, y), 5), group=[60] * 5)
    assert about.startswith(f"240 of 300 rows {DUPLICATES}. ") and "leave out duplicate rows" in about


@pytest.mark.parametrize("kind", ["once", "weights", "drawn", "discrete", "in one group", "exact", "few"])
@pytest.mark.parametrize("name", CHOOSERS)
def test_healthy_data_are_left_in_peace(name, kind):
    """Moderate weights are counts, targets that differ show the noise; a group is held out with its duplicates."""
    promise = "certificate" in name or "intervals" in name  # of errors of new rows: few duplicates are too many
    if (kind == "in one group" and "group" not in name) or (kind == "drawn" and promise):
        return
    if kind == "weights" and "certificate" in name:  # which takes none
        return
    X, y = discrete() if kind == "discrete" else rows(noise=0.0 if kind == "exact" else 2.0)
    group, options = [len(X) // 5] * 5, {}
    if kind == "weights":
        options["sample_weight"] = np.full(60, 3.0)
    if kind == "drawn":
        J = np.random.default_rng(2).integers(0, 60, 60)
        X, y = X[J], y[J]
    if kind == "few":
        X, y, group = np.tile(X[:8], (10, 1)), np.tile(y[:8], 10), [16] * 5
    if kind == "in one group":
        X, y, group = np.repeat(X, 5, axis=0), np.repeat(y, 5), [60] * 5
    assert remarks(clone(CHOOSERS[name]), X, targets(name, y), group, **options) == []


@pytest.mark.parametrize("kind", ["a number of atoms and a ridge", "basic", "bound", "landmarks by X"])
def test_nothing_is_said_where_nothing_is_chosen_by_errors(kind):
    X, y = rows()
    models = {
        "a number of atoms and a ridge": KMPRegressor(40, gamma=2.0, alpha=0.1),
        "basic": KMPRegressor(40, gamma=2.0, variant="basic"),
        "bound": KMPClassifier(stop="bound", gamma=2.0),
        "landmarks by X": PursuitNystroem(n_components=10),
    }
    assert remarks(models[kind], np.tile(X, (5, 1)), np.tile(y > 0 if kind == "bound" else y, 5)) == []


def test_rows_of_few_categories_that_have_one_class_each_coincide():
    X = np.random.default_rng(0).integers(0, 10, size=(900, 2)).astype(float)
    y = (X[:, 0] + X[:, 1] > 9).astype(int)
    for model in (KMPClassifier(loss="log_loss", gamma=0.1), KMPClassifier(stop="validation", gamma=0.01)):
        assert remarks(model, X, y) == []


@pytest.mark.parametrize("share", [0.25, None])
def test_a_promise_needs_fewer_duplicates_to_be_broken(share):
    X, y = rows(120, noise=2.0)
    for J, n in ((np.repeat(np.arange(120), 2), 1), (np.r_[:120, :30], 1), (np.r_[:120, :5], 0)):
        model = ConformalRegressor(KMPRegressor(20, gamma=2.0), calibration_fraction=share, random_state=0)
        assert len(remarks(model, X[J], y[J])) == n
        if share is not None:
            assert len(remarks(KMPClassifier(stop="certificate", gamma=0.5, random_state=0), X[J], y[J] > 0)) == n


def test_rows_of_weight_0_are_no_duplicates():
    X, y = rows(120)
    weights = np.repeat([1.0, 0.0], [120, 240])
    for model in (ConformalRegressor(KMPRegressor(10, gamma=2.0), random_state=0), KMPRegressor(gamma=2.0)):
        assert remarks(model, np.tile(X, (3, 1)), np.tile(y, 3), sample_weight=weights) == []


@pytest.mark.parametrize("kind", ["float32", "sparse", "pandas", "precomputed", "shuffled", "drawn", "many"])
def test_duplicates_are_known_in_all_forms(kind):
    X, y = rows(800 if kind == "many" else 60)
    n = len(y)
    rng = np.random.default_rng(1)
    J = {
        "shuffled": rng.permutation(np.tile(np.arange(n), 5)),
        "drawn": np.concatenate([np.arange(n), rng.integers(0, n, 4 * n)]),
        "many": np.tile(np.arange(n), 2),  # more than are looked at first
    }.get(kind, np.tile(np.arange(n), 5))
    model, X, y = KMPRegressor(5, gamma=0.5), X[J], y[J]
    if kind == "precomputed":
        X = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2))
        model.set_params(kernel="precomputed")
    X = {"float32": X.astype(np.float32), "sparse": sparse.csr_array(X), "pandas": pd.DataFrame(X)}.get(kind, X)
    (about,) = remarks(model, X, y)
    assert about.startswith(f"{len(J) - n} of {len(J)} rows {DUPLICATES}")


@pytest.mark.parametrize("kind", ["text", "objects", "list"])
def test_duplicates_are_known_in_tables(kind):
    X, y = rows(120, noise=2.0)
    J = np.tile(np.arange(120), 3)
    model, X, y = KMPRegressor(20, gamma=2.0), X[J], y[J]
    if kind != "list":
        X = pd.DataFrame({"word": np.char.add("w", J.astype(str)), "number": X[:, 0]})
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), model)
    X = {"text": X, "objects": np.asarray(X), "list": np.asarray(X).tolist()}[kind]
    assert len(remarks(ConformalRegressor(model, random_state=0), X, y)) == 1


def test_equal_rows_have_one_number():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 3)).astype(float)
    X[X == 0] *= rng.choice([-1.0, 1.0], np.sum(X == 0))
    wanted = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    for form in (X, X.astype(np.float32), sparse.csr_matrix(X), X[:, :1]):
        found = duplicate_ids(form)
        expected = wanted if form.shape[1] == 3 else np.unique(X[:, 0], return_inverse=True)[1]
        assert len(set(zip(found, expected, strict=True))) == len(set(found)) == len(set(expected))
