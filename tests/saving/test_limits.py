"""Archives that would take far more memory than their size are refused before it is taken."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import KMPRegressor, ModelFileError, load, save
from kernelpursuit.saving import limits

pytest.importorskip("skops")

X = np.random.default_rng(0).normal(size=(40, 3))
MIB = 1 << 20


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """Names and content of the entries of a pipeline's file."""
    file = tmp_path_factory.mktemp("limits") / "model"
    save(make_pipeline(StandardScaler(), KMPRegressor(n_atoms=3)).fit(X, X[:, 0]), file)
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def refusal(entries, tmp_path, compression=zipfile.ZIP_DEFLATED):
    """What `load` says of an archive; it takes little memory to say so."""
    with zipfile.ZipFile(tmp_path / "model", "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    entries = None
    tracemalloc.start()
    with pytest.raises(ModelFileError) as caught:
        load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 200 * MIB
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed_schema(entries, change):
    """Entries with a schema in which `change` was applied to each node that names an entry."""

    def walk(node):
        if isinstance(node, list):
            return [walk(part) for part in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("file"), str):
            return change(node)
        return {key: walk(part) for key, part in node.items()}

    return entries | {"schema.json": json.dumps(walk(json.loads(entries["schema.json"]))).encode()}


def test_a_long_schema(tmp_path):
    assert "header of" in refusal({"schema.json": bytes(100 * MIB)}, tmp_path)


def test_an_entry_that_is_named_many_times(entries, tmp_path):
    """Each of a thousand nodes would inflate the only large entry."""
    stream = io.BytesIO()
    np.save(stream, np.zeros(MIB))

    def many(node):
        content = [node | {"file": "large.npy", "__id__": 10**6 + i} for i in range(1000)]
        return {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": content}

    forged = changed_schema(entries, many) | {"large.npy": stream.getvalue()}
    assert "more than 1024 MiB" in refusal(forged, tmp_path)


def test_arrays_that_lie_about_their_size(entries, tmp_path):
    forged = {name: content.replace(b"(3,)", b"(3000000000,)") for name, content in entries.items()}
    assert "shape (3000000000,)" in refusal(forged, tmp_path)


@pytest.mark.parametrize("name", ["array.dat", "array.npz", "array"])
def test_arrays_in_entries_of_another_name(entries, tmp_path, name):
    """Their heads would not be read; and a zip archive in place of an array would become one of arrays."""
    forged = changed_schema(entries, lambda node: node | {"file": name}) | {name: entries_of_arrays(entries)[0]}
    assert f"an entry called {name} for a NdArrayNode" in refusal(forged, tmp_path)


def entries_of_arrays(entries):
    return [content for name, content in entries.items() if name.endswith(".npy")]


def test_an_array_that_is_an_archive(entries, tmp_path):
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.zeros(MIB))
    forged = {name: stream.getvalue() if name.endswith(".npy") else content for name, content in entries.items()}
    assert "magic string" in refusal(forged, tmp_path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_entries_that_are_inflated_at_once(entries, tmp_path, compression):
    """Python inflates these in whole, however few bytes are asked for."""
    assert "compressed as those of model files are not" in refusal(entries, tmp_path, compression)


@pytest.fixture(scope="module")
def sparse_entries(tmp_path_factory):
    """The same of a pipeline with sparse centres, and the name of the entry that holds them."""
    file = tmp_path_factory.mktemp("sparse") / "model"
    texts = [f"one{i % 5} two{i % 7}" for i in range(40)]
    model = make_pipeline(CountVectorizer(), KMPRegressor(n_atoms=3)).fit(texts, X[:, 0])
    save(model, file)
    np.testing.assert_array_equal(load(file).predict(texts), model.predict(texts))
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    return content, next(name for name in content if name.endswith(".npz"))


def matrix_entry(**changed):
    """A sparse matrix as a file of SciPy, with some of its parts changed."""
    stream = io.BytesIO()
    parts = {"indices": [0, 1], "indptr": [0, 1, 2], "format": b"csr", "shape": [2, 2], "data": [1.0, 2.0]}
    np.savez_compressed(stream, **(parts | changed))
    return stream.getvalue()


def test_a_sparse_matrix_that_is_a_bomb(sparse_entries, tmp_path):
    """A zip archive in another: what is inside it counts, as often as it is read."""
    entries, name = sparse_entries
    large = matrix_entry(data=np.zeros(20 * MIB), indices=np.zeros(20 * MIB, np.int64))
    assert len(large) < MIB
    forged = entries | {name: large}
    many = changed_schema(
        forged,
        lambda node: (
            node
            if node["file"] != name
            else {
                "__class__": "list",
                "__module__": "builtins",
                "__loader__": "ListNode",
                "content": [node | {"__id__": 10**6 + i} for i in range(4)],
            }
        ),
    )
    assert "more than 1024 MiB" in refusal(many, tmp_path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"indices": [0, 7]}, "indices"),
        ({"indices": [0, -1]}, "indices"),
        ({"indptr": [0, 9, 2]}, "ind"),
        ({"shape": [3 * 10**9, 2]}, "ind"),
        ({"format": b"dia", "offsets": [0, 1]}, "dia"),
        ({"format": b"coo", "row": [0, 9], "col": [0, 1]}, ""),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_sparse_matrix_of_false_parts(sparse_entries, tmp_path, changed, words):
    """Products with indices beside the matrix would read memory that is not its own."""
    entries, name = sparse_entries
    assert words in refusal(entries | {name: matrix_entry(**changed)}, tmp_path)


def test_a_model_whose_file_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LARGEST_SCHEMA", 1000)
    model = make_pipeline(StandardScaler(), KMPRegressor(n_atoms=3)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="Pipeline would make a file that cannot be read: a header of"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())
