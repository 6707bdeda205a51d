"""Files of models of tables: what was measured is one text in them, and was a tree of objects in older ones."""

import json
import zipfile

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer

from kernelpursuit import ModelFileError, RefinedKMPRegressor, load, save

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")
model_of_tables = pytest.importorskip("kernelpursuit.cli.model")

ABOUT = {
    "rows": 7,
    "notes": ['a "quoted" ü'],
    "curve": {"errors": [0.1, float("inf"), 1e-300]},
    "none": None,
    "yes": True,
}


def table_model(about):
    X = np.random.default_rng(0).normal(size=(40, 2))
    encoder = ColumnTransformer([("numbers", "passthrough", [0, 1])]).fit(X)
    estimator = RefinedKMPRegressor(2, epochs=1, random_state=0).fit(X, X[:, 0])
    kinds = {"a": "number", "b": "number"}
    return model_of_tables.TableModel(encoder, estimator, "y", "regression", kinds, np.arange(3.0), about)


def test_what_was_measured_comes_back_from_one_text(tmp_path):
    model = table_model(ABOUT | {"shown": [[float(i), "text"] for i in range(100)]})
    save(model, tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.about == model.about and model.about["rows"] == 7  # which writing leaves as it is
    assert vars(read).keys() == vars(model).keys()
    np.testing.assert_array_equal(read.errors, model.errors)
    schema = json.loads(zipfile.ZipFile(tmp_path / "model").read("schema.json"))
    stored = schema["content"]["model"]["content"]["content"]["about"]
    assert json.loads(json.loads(stored["content"])) == model.about


def test_older_files_are_read(tmp_path, monkeypatch):
    model = table_model(ABOUT)
    with monkeypatch.context() as older:
        older.delattr(model_of_tables.TableModel, "__getstate__")
        save(model, tmp_path / "model")
    assert load(tmp_path / "model").about == ABOUT


def test_a_text_that_is_no_json_is_refused(tmp_path, monkeypatch):
    model = table_model(ABOUT)
    monkeypatch.setattr(model_of_tables.TableModel, "__getstate__", lambda self: {**vars(self), "about": "{"})
    save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "model")


def test_a_table_of_many_texts_is_read_back(tmp_path):
    """The vocabularies of its columns are most of its file, which skops indents to six times the length."""
    pytest.importorskip("skrub")
    from kernelpursuit.cli.encoding import make_encoder

    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefghij -"), 15)) for _ in range(50)]
    frame = pd.DataFrame({name: rng.permutation(texts) for name in ("from", "to", "by")})
    encoder = make_encoder(dict.fromkeys(frame, "text"))
    X = encoder.fit_transform(frame)
    estimator = RefinedKMPRegressor(2, epochs=1, random_state=0).fit(X, X[:, 0])
    model = model_of_tables.TableModel(
        encoder, estimator, "y", "regression", dict.fromkeys(frame, "text"), np.arange(3.0), {}
    )
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(frame), model.predict(frame))
    with zipfile.ZipFile(tmp_path / "model") as archive:
        schema = archive.read("schema.json")
    assert b"\n" not in schema and b": " not in schema and len(schema) > 1e6
    assert len(json.dumps(json.loads(schema), indent=2)) > 4 * len(schema)
