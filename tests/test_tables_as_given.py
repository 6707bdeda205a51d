"""Tables and targets as pandas has them: categories, nullable types, strings, names of columns."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import cross_validate

from kernelpursuit import KMPClassifier, KMPClassifierCV, KMPRegressor, KMPRegressorCV, SparseKernelFDA

X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 3)), columns=["age", "income", "size"])
OLD = X["age"] > 0
WORDS = OLD.map({True: "yes", False: "no"})
CLASSES = {
    "category": WORDS.astype("category"), "string": WORDS.astype("string"), "object": WORDS.astype(object),
    "Int64": OLD.astype("Int64"), "boolean": OLD.astype("boolean"), "int8": OLD.astype("int8"), "bool": OLD,
}  # fmt: skip
VALUES = {
    "Int64": (10 * X["age"]).round().astype("Int64"), "Float64": X["age"].astype("Float64"),
    "int8": (10 * X["age"]).round().astype("int8"), "frame": X[["age"]], "float32": X["age"].astype("float32"),
}  # fmt: skip
SEARCH = {"cv": 3, "gammas": [0.3], "one_standard_error": True}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("model", [KMPClassifier(5), KMPClassifierCV(4, **SEARCH), SparseKernelFDA(5)], ids=repr)
def test_classes(model, kind):
    y = CLASSES[kind]
    fitted = sklearn.clone(model).fit(X, y)
    assert fitted.score(X, y) > 0.8 and set(fitted.predict(X)) <= set(y)
    assert fitted.feature_names_in_.tolist() == list(X.columns)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("model", [KMPRegressor(5), KMPRegressorCV(4, **SEARCH)], ids=repr)
def test_values(model, kind):
    y = VALUES[kind]
    fitted = sklearn.clone(model).fit(X, y)
    numbers = np.asarray(y, dtype=np.float64)
    np.testing.assert_allclose(fitted.predict(X), sklearn.clone(model).fit(X.to_numpy(), numbers).predict(X.to_numpy()))


def test_messages_name_columns():
    with pytest.warns(UserWarning, match="column 'income' of X has 100.0% of the variance"):
        KMPRegressor(3).fit(X.assign(income=1e4 * X["income"]), X["age"])
    with pytest.raises(ValueError, match="income"):
        KMPRegressor(3).fit(X, X["age"]).predict(X[["age", "size"]])


def test_output_and_routing():
    table = SparseKernelFDA(3).set_output(transform="pandas").fit(X, WORDS).transform(X)
    assert list(table.columns) == ["sparsekernelfda0"] and table.index.equals(X.index)
    with sklearn.config_context(enable_metadata_routing=True):
        model = KMPRegressor(3).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weights = np.random.default_rng(0).integers(1, 3, 80)
        routed = cross_validate(model, X, X["age"], params={"sample_weight": weights})["test_score"]
    assert not np.allclose(routed, cross_validate(KMPRegressor(3), X, X["age"])["test_score"])
