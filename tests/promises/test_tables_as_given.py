"""Tables and targets as pandas has them: categories, nullable types, strings, names of columns, in every estimator."""

from email.message import Message

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import has_fit_parameter

from kernelpursuit import ConformalRegressor, KMPRanker, KMPRegressor, SparseKernelCCA, _sklearn
from tests.registry import DEFAULTS, few_atoms

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["age", "income", "size"])
OLD = X["age"] > 0
WORDS = OLD.map({True: "yes", False: "no"})
CLASSES = {
    "category": WORDS.astype("category"), "string": WORDS.astype("string"), "object": WORDS.astype(object),
    "Int64": OLD.astype("Int64"), "boolean": OLD.astype("boolean"), "int8": OLD.astype("int8"), "bool": OLD,
    "three": X["age"].map(lambda age: "old" if age > 0.5 else "young" if age < -0.5 else "between"),
    "unused category": WORDS.astype(pd.CategoricalDtype(["maybe", "no", "yes"])),
}  # fmt: skip
TENS = (10 * X["age"]).round()
VALUES = {
    "Int64": TENS.astype("Int64"), "Float64": TENS.astype("Float64"), "int8": TENS.astype("int8"),
    "float32": TENS.astype("float32"), "object": TENS.astype(object), "list": TENS.tolist(),
}  # fmt: skip


def few(model):
    """A quick setting, alike in every fit."""
    model = few_atoms(model)
    given = {"n_atoms": 5, "random_state": 0}
    return model.set_params(**{name: value for name, value in given.items() if name in model.get_params()})


def name(model):
    return type(model).__name__


ALL = [few(model) for model in DEFAULTS]
CLASSIFIERS = [model for model in ALL if is_classifier(model)]
REGRESSORS = [model for model in ALL if is_regressor(model)]
OTHERS = [model for model in ALL if not (is_classifier(model) or is_regressor(model))]
TRANSFORMERS = [model for model in ALL if hasattr(model, "set_output")]


def fitted(model, X):
    """A new model of X and the target that it takes: words, numbers, or two columns of them."""
    y = CLASSES["object"].to_numpy() if is_classifier(model) else TENS.to_numpy()
    return clone(model).fit(X, np.column_stack([y, y[::-1]]) if isinstance(model, SparseKernelCCA) else y)


def each(models, kinds):
    """Every model with every kind, but those that take long to fit with the first only."""
    slow = ("Refined", "FeatureWidths")
    return [
        pytest.param(model, kind, id=f"{name(model)}-{kind}")
        for model in models
        for kind in (list(kinds)[:1] if name(model).startswith(slow) else kinds)
    ]


@pytest.mark.parametrize(("model", "kind"), each(CLASSIFIERS, CLASSES))
def test_classes(model, kind):
    """Whatever a column of classes is, it is those of the plain labels, and the predictions are of its kind."""
    y = CLASSES[kind]
    ours, plain = clone(model).fit(X, y), clone(model).fit(X, np.asarray(y.tolist()))
    assert ours.score(X, y) > 0.6 and set(ours.predict(X)) <= set(y)
    assert ours.predict(X).tolist() == plain.predict(X).tolist()
    assert ours.feature_names_in_.tolist() == list(X.columns)


@pytest.mark.parametrize(("model", "kind"), each(REGRESSORS, VALUES))
def test_values(model, kind):
    """Whole numbers, nullable ones and numbers kept as objects are the same as floats."""
    plain = clone(model).fit(X.to_numpy(), TENS.to_numpy()).predict(X.to_numpy())
    np.testing.assert_allclose(clone(model).fit(X, VALUES[kind]).predict(X), plain, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["Int64", "Float64", "category"])
@pytest.mark.parametrize("model", [one for one in OTHERS if not isinstance(one, SparseKernelCCA)], ids=name)
def test_targets_of_those_that_need_not_have_any(model, kind):
    y = (VALUES | CLASSES)[kind]
    if isinstance(model, KMPRanker) and kind == "category":
        pytest.skip("an order needs numbers")
    assert clone(model).fit(X, y).n_features_in_ == 3


@pytest.mark.parametrize(("model", "kind"), each(ALL, ["Float64", "bool", "Int64", "int8"]))
def test_inputs(model, kind):
    """Columns of any numeric type are their values as floats."""
    table = X.round(0) > 0 if kind == "bool" else (10 * X).round().astype(kind)
    values = table.to_numpy(dtype=np.float64)
    ours, plain = fitted(model, table), fitted(model, values)
    for method in ("predict", "transform"):
        if hasattr(ours, method):
            there, here = getattr(ours, method)(table), getattr(plain, method)(values)
            assert np.array_equal(there, here) if here.dtype.kind in "OU" else np.allclose(there, here, rtol=1e-6)


@pytest.mark.parametrize("model", ALL, ids=name)
def test_messages_name_columns(model):
    missing = X.assign(income=X["income"].where(X["age"] > 0))
    words = X.assign(size="large")
    for table, column in ((missing, "income"), (words, "size")):
        with pytest.raises(ValueError, match=f"column '{column}'"):
            fitted(model, table)
    ours = fitted(model, X)
    ask = ours.predict if hasattr(ours, "predict") else ours.transform
    with pytest.raises(ValueError, match="column 'income'"):
        ask(missing)
    with pytest.raises(ValueError, match="income"):
        ask(X[["age", "size"]])


RULED = [model for model in ALL if name(model).startswith(("KMP", "Sparse", "Pursuit", "Polytope"))]


@pytest.mark.parametrize("model", RULED, ids=name)
def test_a_column_that_rules_is_named(model):
    if "gammas" in model.get_params():
        model = clone(model).set_params(gammas=None, max_atoms=2)
    with pytest.warns(UserWarning, match="column 'income' of X has 100.0% of the variance"):
        fitted(model, X.assign(income=1e4 * X["income"]))


def test_a_column_of_the_other_view_that_rules_is_named():
    other = pd.DataFrame({"weight": TENS, "height": 1e6 * X["size"], "depth": X["age"]})
    with pytest.warns(UserWarning, match="column 'height' of y has 100.0% of the variance"):
        SparseKernelCCA(3).fit(X, other)


@pytest.mark.parametrize("model", TRANSFORMERS, ids=name)
def test_output_as_a_table(model):
    table = fitted(clone(model).set_output(transform="pandas"), X).transform(X)
    assert isinstance(table, pd.DataFrame) and table.index.equals(X.index)
    assert list(table.columns) == list(fitted(model, X).get_feature_names_out())


WEIGHED = [model for model in CLASSIFIERS + REGRESSORS if has_fit_parameter(model, "sample_weight")]


@pytest.mark.parametrize("model", WEIGHED, ids=name)
def test_weights_are_routed(model):
    """With metadata routing on, weights reach a fit and its score through a pipeline and a cross-validation."""
    y = CLASSES["object"] if is_classifier(model) else X["age"] + X["size"] ** 2
    w = np.arange(40) % 4  # weight 0 leaves a row out
    train, test = np.arange(30), np.arange(30, 40)
    scaler = MinMaxScaler().fit(X.iloc[train])
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        # Before 1.9 weights do not get through a pipeline with a scaler, also those of scikit-learn's own models.
        old = parse_version(sklearn.__version__) < parse_version("1.9")
        pipe, inputs = (routed, scaler.transform(X)) if old else (make_pipeline(MinMaxScaler(), routed), X)
        (score,) = cross_validate(pipe, inputs, y, params={"sample_weight": w}, cv=[(train, test)])["test_score"]
    alone = clone(model).fit(scaler.transform(X.iloc[train]), y.iloc[train], sample_weight=w[train])
    assert score == pytest.approx(alone.score(scaler.transform(X.iloc[test]), y.iloc[test], sample_weight=w[test]))
    (plain,) = cross_validate(make_pipeline(MinMaxScaler(), clone(model)), X, y, cv=[(train, test)])["test_score"]
    assert is_classifier(model) or score != plain


def test_weights_of_intervals_are_for_the_fit():
    """`ConformalRegressor` takes weights as fit parameters; with routing on they still reach its regressor."""
    y, w = X["age"] + X["size"] ** 2, np.arange(40) % 4
    model = ConformalRegressor(KMPRegressor(5), coverage=0.5, random_state=0).fit(X, y, sample_weight=w)
    assert model.predict(X).shape == (40,)


@pytest.mark.parametrize("model", ALL, ids=name)
def test_the_link_in_notebooks(model, monkeypatch):
    """Where the package names its documentation, the HTML of an estimator links its page; else there is no link."""
    monkeypatch.setattr("kernelpursuit._sklearn.documentation", lambda: "")
    assert model._get_doc_link() == "" and 'href="http' not in model._repr_html_()
    monkeypatch.setattr("kernelpursuit._sklearn.documentation", lambda: "https://example.org/docs")
    page = f"https://example.org/docs/reference/generated/kernelpursuit.{name(model)}.html"
    assert model._get_doc_link() == page and page in model._repr_html_()


def test_the_address_of_the_documentation(monkeypatch):
    """It is the one that the installed package names; without one there is none."""
    given = Message()
    monkeypatch.setattr(_sklearn, "metadata", lambda name: given)
    assert _sklearn.documentation.__wrapped__() == ""
    for line, address in (
        ("Source, https://example.org/code", ""),
        ("Documentation, https://example.org/docs/", "https://example.org/docs"),
    ):
        given["Project-URL"] = line
        assert _sklearn.documentation.__wrapped__() == address
