"""Errors say what the user gave and what would be valid."""

import re
import warnings
from contextlib import nullcontext
from pathlib import Path

import joblib
import matplotlib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kernelpursuit as kp
from kernelpursuit.plots import (
    BoundDisplay,
    MovedCentersDisplay,
    PursuitPathDisplay,
    ResidualTraceDisplay,
    SupportDisplay,
)

matplotlib.use("Agg")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60)


@pytest.mark.parametrize("stop", ["certificate", "bound"])
def test_class_weight_is_named_where_equal_rows_are_needed(stop):
    model = kp.KMPClassifier(5, stop=stop, class_weight="balanced")
    with pytest.raises(ValueError, match=r"does not take class_weight, got 'balanced', nor sample_weight"):
        model.fit(X, Y > 0)
    with pytest.raises(ValueError, match=r"it does not take sample_weight$"):
        kp.KMPClassifier(5, stop=stop).fit(X, Y > 0, sample_weight=np.ones(60))


@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.RefinedKMPRegressor])
def test_a_collection_beside_an_array(make):
    array = pytest.importorskip("dask.array")
    y = array.from_array(Y)
    with pytest.raises(TypeError, match=r"fit got a Dask collection beside an X that is none.*all be Dask") as error:
        make(3).fit(X, y)
    assert "that do" not in str(error.value)


def test_methods_that_do_not_take_collections_name_no_estimator_that_has_the_same_method():
    array = pytest.importorskip("dask.array")
    rows = array.from_array(X)
    with pytest.raises(TypeError, match=r"KMPRegressor.staged_predict does not take Dask") as error:
        list(kp.KMPRegressor(3).fit(X, Y).staged_predict(rows))
    assert "that do" not in str(error.value) and "compute()" in str(error.value)
    with pytest.raises(TypeError, match=r"KMPRanker.fit does not take Dask.*those that do: KMPRegressor"):
        kp.KMPRanker(3).fit(rows, rows[:, 0])


@pytest.mark.parametrize("rows", [X[:, :2], X[:, :2].tolist()])
def test_refinement_of_other_features(rows):
    with pytest.raises(ValueError, match="X has 2 features, but the estimator was fitted with 3"):
        kp.refine(kp.KMPRegressor(3).fit(X, Y), rows, Y)


DISPLAYS = {
    "path": PursuitPathDisplay.from_estimator,
    "bound": BoundDisplay.from_estimator,
    "trace": ResidualTraceDisplay.from_estimator,
    "support": lambda model: SupportDisplay.from_estimator(model, X[:, :2], Y),
    "moved": lambda model: MovedCentersDisplay.from_estimator(model, X[:, :2]),
}


REFINED = [make(3, epochs=1, random_state=0) for make in (kp.RefinedKMPRegressor, kp.RefinedKMPClassifier)]


@pytest.mark.parametrize("draw", DISPLAYS.values(), ids=DISPLAYS)
@pytest.mark.parametrize("model", [kp.KMPRegressor(3), REFINED[1], kp.ConformalRegressor(), kp.SparseKernelPCA(3)])
def test_pictures_of_models_that_are_not_fitted(draw, model):
    for one in (model, make_pipeline(model)):
        with pytest.raises(NotFittedError):
            draw(one)


PLAIN = [*REFINED, kp.ConformalRegressor(kp.KMPRegressor(3))]
UNDRAWN = [(model, name, r"fitted .*\(`.*_`\)") for model in PLAIN for name in ("path", "bound", "trace", "support")]


@pytest.mark.parametrize(
    ("model", "name", "what"), [*UNDRAWN, (kp.KMPRegressor(3), "moved", "fitted refined model")], ids=str
)
def test_pictures_of_models_that_have_nothing_to_draw(model, name, what):
    fitted = clone(model).fit(X[:, :2], Y > 0 if hasattr(model, "predict_proba") else Y)
    with pytest.raises(TypeError, match=rf"must be a {what}, got {type(model).__name__}"):
        DISPLAYS[name](fitted)


@pytest.mark.parametrize(
    ("bound", "arguments", "words"),
    [
        (kp.bounds.holdout_bound, (51, 50), "errors must be from 0 to 50, the rows, got"),
        (kp.bounds.holdout_bound, (61, np.array([50, 60])), r"errors must be from 0 to \[50. 60.\], the rows, got"),
        (kp.bounds.vc_bound, (5, 50, 46), "from 0 to 44, the points outside the support"),
    ],
)
def test_more_errors_than_rows(bound, arguments, words):
    with pytest.raises(ValueError, match=words):
        bound(*arguments)


@pytest.mark.parametrize("dispatch", [False, True])
@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.RefinedKMPRegressor, kp.FeatureWidths, kp.SparseKernelPCA])
def test_tensors_that_no_array_can_stand_for(make, dispatch):
    torch = pytest.importorskip("torch")
    rows, y = torch.asarray(X), torch.asarray(Y)
    with sklearn.config_context(array_api_dispatch=dispatch):
        cases = {
            r"X is a tensor with requires_grad=True.*X.detach\(\)": (rows.clone().requires_grad_(), y),
            r"X must be a dense tensor.*X.to_dense\(\)": (rows.to_sparse(), y),
        }
        if make is not kp.SparseKernelPCA:  # which has no targets
            cases[r"y.*requires_grad=True.*detach\(\)"] = rows, y.clone().requires_grad_()
            cases[r"sample_weight.*requires_grad=True.*detach\(\)"] = rows, y, torch.ones(60).requires_grad_()
        for words, given in cases.items():
            with pytest.raises(ValueError, match=words):
                make().fit(*given)


def test_new_rows_that_require_a_gradient():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"X.detach\(\)"):
        kp.KMPRegressor(3).fit(X, Y).predict(torch.asarray(X).requires_grad_())


@pytest.mark.parametrize(
    "model", [kp.KMPRegressor(5), kp.PursuitSearchCV(kp.KMPRegressor(), max_atoms=3, cv=2)], ids=["fixed", "search"]
)
def test_columns_weighted_on_purpose_are_told_what_to_do(model):
    """A fit cannot know where its columns come from: the warning speaks of both cases, and a width is an answer."""
    pipeline = make_pipeline(kp.FeatureWidths(random_state=0), model)
    width = {"gamma": 1.0} if hasattr(model, "gamma") else {"gammas": [0.25, 1, 4, 16]}
    with pytest.warns(UserWarning) as caught:
        pipeline.fit(X, Y)
    about = [one for one in caught if re.search("weighted on purpose, give the width as a number", str(one.message))]
    assert len(about) == 1
    model.set_params(**width)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the best number of atoms")
        pipeline.fit(X, Y)


@pytest.mark.parametrize("backend", [None, "threading"])
def test_a_warning_is_at_a_line_that_asked_for_the_fit(backend):
    search = GridSearchCV(kp.KMPRegressor(), {"n_atoms": [100]}, cv=2)
    rows = X[:, :1].round(1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with nullcontext() if backend is None else joblib.parallel_config(backend, n_jobs=2):
            search.fit(rows, Y)
    files = {Path(one.filename).name for one in found if "n_atoms=100 was asked for" in str(one.message)}
    assert files == {Path(__file__).name} | (set() if backend is None else {"_validation.py"})
