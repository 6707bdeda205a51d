"""Data sets by name: where they are looked for, what a file must hold, what is fetched and how it is checked."""

import gzip
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from scipy import sparse
from sklearn.utils import Bunch

from papers import datasets
from papers.datasets import NAMES, DatasetNotFoundError, cache_folder, find_file, load

DATA = Path(os.environ.get("KERNELPURSUIT_DATA") or "no folder").resolve()
IDA = [name for name in NAMES if name.startswith("ida_")]
FILES = [name for name in NAMES if name not in datasets._SCIKIT_LEARN]
POSITIVE = {  # rows of class +1, from the description of the data
    "ida_banana": 2376, "ida_breast_cancer": 81, "ida_diabetis": 268, "ida_flare_solar": 589, "ida_german": 300,
    "ida_heart": 120, "ida_image": 1320, "ida_ringnorm": 3664, "ida_splice": 1527, "ida_thyroid": 65,
    "ida_titanic": 711, "ida_twonorm": 3703, "ida_waveform": 1647, "arcene": 44, "dexter": 150, "dorothea": 78,
    "mushrooms": 4208, "breast_wisconsin": 239, "sonar": 111, "pima": 268, "ionosphere": 225,
}  # fmt: skip
MEAN = {
    "abalone": 9.934, "bodyfat": 1.0556, "cpusmall": 83.969, "housing": 22.533, "mpg": 23.446, "mg": 0.930,
    "pyrim": 0.659, "space_ga": -0.576, "triazines": 0.652, "cal_housing": 206855.8,
}  # fmt: skip
ORIGINAL_SPLITS = {"diabetis": 0, "flare_solar": 0, "image": 9, "splice": 0, "thyroid": 0, "twonorm": 0}


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Neither files nor a network, unless a test gives them."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("KERNELPURSUIT_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def no_network(*args, **options):
        raise OSError("no network in tests")

    for fetcher in ("fetch_openml", "fetch_file", "fetch_covtype", "fetch_california_housing"):
        monkeypatch.setattr(sklearn.datasets, fetcher, no_network)


def made(name, fill=1):
    """Arrays of the right shapes."""
    shapes = datasets._SETS[name][0]
    arrays = {key: np.full([3 if n is None else n for n in shape], fill, np.int8) for key, shape in shapes.items()}
    if "shape" in arrays:
        arrays["shape"] = np.array([shapes["y"][0], 20])
        for part in ("", "_valid"):
            rows = shapes[f"y{part}"][0]
            arrays[f"indptr{part}"] = np.minimum(np.arange(rows + 1), 3)
            arrays[f"indices{part}"] = np.array([0, 7, 19], np.uint16)
    if name == "mushrooms":
        arrays |= {"X": np.arange(8124 * 22).reshape(8124, 22) % 2, "n_categories": np.full(22, 2, np.uint8)}
    return arrays


def put(folder, name, fill=1, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {key: value for key, value in (made(name, fill) | changes).items() if value is not None}
    np.savez(folder / f"{name}.npz", **arrays)
    return folder / f"{name}.npz"


# Looking


def test_the_order_of_places(tmp_path, monkeypatch):
    kept = put(tmp_path / "cache" / "kernelpursuit", "mg", 3)
    assert find_file("mg") == kept and load("mg").target[0] == 3 and load("mg").source == str(kept)
    named = put(tmp_path / "named", "mg", 2)
    monkeypatch.setenv("KERNELPURSUIT_DATA", str(named.parent))
    assert find_file("mg") == named and load("mg").target[0] == 2
    given = put(tmp_path / "given", "mg", 1)
    assert find_file("mg", given.parent) == given and load("mg", str(given.parent)).target[0] == 1
    assert find_file("mg", tmp_path / "empty") == named, "a folder without the file does not end the search"
    monkeypatch.setenv("KERNELPURSUIT_DATA", "")
    assert load("mg").target[0] == 3


def test_the_folder_in_the_cache(tmp_path, monkeypatch):
    """Named by the user's variable or in the home folder, wherever the process stands; nothing is made by looking."""
    assert cache_folder() == tmp_path / "cache" / "kernelpursuit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    assert cache_folder() == tmp_path / "somebody" / ".cache" / "kernelpursuit"
    put(tmp_path / "shared" / "data", "mg")
    assert find_file("mg") is None, "a folder beside the one the user stands in is none of ours"
    assert not (tmp_path / "somebody").exists()


def test_a_set_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELPURSUIT_DATA", "/nowhere")
    with pytest.raises(DatasetNotFoundError) as caught:
        load("ida_heart", tmp_path)
    text = str(caught.value)
    assert isinstance(caught.value, FileNotFoundError) and "\n" not in text
    places = [text.index(place) for place in (f"data_dir ({tmp_path})", "/nowhere", str(tmp_path / "cache"))]
    assert places == sorted(places)
    shapes = "X (270 x 13), y (270), train_idx (any x 170)"
    assert all(part in text for part in ("'ida_heart'", "ida_heart.npz", shapes, "no source", "Raetsch"))
    assert find_file("ida_heart") is None


@pytest.mark.parametrize("name", datasets._SOURCES)
def test_without_a_network(name):
    with pytest.raises(DatasetNotFoundError, match=r"failed \(OSError: no network in tests\)") as caught:
        load(name)
    assert datasets._SOURCES[name][0] in str(caught.value) and "data_dir (not given)" in str(caught.value)


@pytest.mark.parametrize("action", [load, find_file])
def test_unknown_name(action):
    with pytest.raises(ValueError, match="must be one of mushrooms, ") as caught:
        action("mushroom")
    assert all(name in str(caught.value) for name in NAMES) and "got 'mushroom'" in str(caught.value)


def test_every_set_is_described():
    assert len(set(NAMES)) == len(NAMES) and len(IDA) == 13
    assert set(datasets._PINS) == set(datasets._SOURCES) <= set(datasets._SETS)
    assert all(len(pin) == 64 for pin in datasets._PINS.values())


@pytest.mark.parametrize("name", datasets._SCIKIT_LEARN)
def test_sets_of_scikit_learn(name):
    found = load(name)
    own = getattr(sklearn.datasets, f"load_{name}")()
    np.testing.assert_array_equal(found.data, own.data)
    np.testing.assert_array_equal(found.target, own.target)
    assert found.source == "scikit-learn" and found.data.dtype == np.float64
    assert find_file(name)


# Files


@pytest.mark.parametrize("name", [name for name in FILES if name != "covtype"])
def test_what_a_file_becomes(name, tmp_path):
    found = load(name, put(tmp_path, name).parent)
    shapes = datasets._SETS[name][0]
    assert found.name == name and found.source == str(tmp_path / f"{name}.npz")
    assert found.target.shape == shapes["y"] and len(found.target) == found.data.shape[0]
    assert found.target.dtype == int and found.data.dtype == np.float64
    for part in ("test", "valid"):
        assert (f"data_{part}" in found) == (f"target_{part}" in found) == (f"y_{part}" in shapes)
    assert ("splits" in found) == (name in IDA) and ("views" in found) == (name == "mfeat")


def test_sparse_sets(tmp_path):
    values = np.array([30000, 20000, 5], np.int16)  # of a type in which their sum would not fit
    found = load("dexter", put(tmp_path, "dexter", data=values).parent)
    for X, rows in ((found.data, 300), (found.data_valid, 300)):
        assert sparse.issparse(X) and X.format == "csr" and X.shape == (rows, 20) and X.dtype == np.float64
    assert found.data[0, 0] == 30000 and found.data[2, 19] == 5 and found.data.sum() == 50005
    found = load("dorothea", put(tmp_path, "dorothea").parent)
    assert found.data.shape == (800, 20) and found.data_valid.shape == (350, 20) and found.data.sum() == 3


def test_splits_original_ones_first(tmp_path):
    first, more = np.full((2, 170), 1, np.uint16), np.full((4, 170), 2, np.uint16)
    put(tmp_path, "ida_heart", train_idx=first, made_train_idx=more)
    found = load("ida_heart", tmp_path)
    assert found.n_original_splits == 2 and found.splits.shape == (6, 170) and found.splits.dtype == int
    assert (found.splits[:2] == 1).all() and (found.splits[2:] == 2).all()
    put(tmp_path, "ida_heart", train_idx=first[:0], made_train_idx=more)
    found = load("ida_heart", tmp_path)
    assert found.n_original_splits == 0 and found.splits.shape == (4, 170)


def test_categories_become_columns(tmp_path):
    found = load("mushrooms", put(tmp_path, "mushrooms").parent)
    assert found.data.shape == (8124, 44) and (found.data.sum(axis=1) == 22).all()


@pytest.mark.parametrize(
    ("name", "changes", "wrong"),
    [
        ("mg", {"y": None}, "y is not there"),
        ("mg", {"X": np.zeros((1385, 7))}, "X is 1385 x 7, not 1385 x 6"),
        ("mg", {"y": np.zeros((1385, 1))}, "y is 1385 x 1, not 1385"),
        ("mg", {"y": np.full(1385, "a")}, "y has type <U1, not numbers"),
        ("mg", {"y": np.full(1385, None)}, "plain arrays: .*pickle"),
        ("mushrooms", {"n_categories": np.ones(22)}, "is not the data set 'mushrooms': index 1"),
        ("dorothea", {"indices": np.array([0, 7, 20])}, "is not the data set 'dorothea'"),
    ],
)
def test_a_wrong_file_is_named(name, changes, wrong, tmp_path):
    file = put(tmp_path, name, **changes)
    with pytest.raises(ValueError, match=wrong) as caught:
        load(name, tmp_path)
    assert str(file) in str(caught.value)


def plain_array():
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [b"", b"no archive", pickle.dumps([1, 2]), plain_array()], ids=["empty", "text", "pickle", "npy"]
)
def test_a_file_of_another_kind(content, tmp_path):
    (tmp_path / "mg.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"mg\.npz cannot be read as a \.npz file of plain arrays"):
        load("mg", tmp_path)


# Fetching


def openml(columns, kinds):
    """Stand-in for fetch_openml: columns of numbers, or of categories as positions in the list of their names."""

    def fetch(name, *, version, target_column, as_frame, parser, n_retries):
        assert (version, target_column, as_frame, parser) == (1, None, False, "liac-arff")
        table = []
        for column, kind in zip(columns, kinds, strict=True):
            position = {label: j for j, label in enumerate(kind or ())}
            table.append([position.get(value, np.nan) for value in column] if kind else column)
        names = [f"column {j}" for j in range(len(columns))]
        categories = {name: list(kind) for name, kind in zip(names, kinds, strict=True) if kind}
        return Bunch(data=np.array(table, dtype=float).T, feature_names=names, categories=categories)

    return fetch


def small(monkeypatch, name, shapes, expected=None):
    """Let a set be small, and pin what is expected of it."""
    monkeypatch.setitem(datasets._SETS, name, (shapes, "tests"))
    if expected is not None:
        bunch = Bunch(data=np.array(expected[0], float), target=np.array(expected[1], float))
        monkeypatch.setitem(datasets._PINS, name, datasets._checksum(bunch))


FETCHED = {  # columns and their kinds, as OpenML has them, and what becomes of them
    "abalone": (  # categories of numbers, and coded ones
        [["F", "I", "M"], [0.1, 0.2, 0.3], ["24", "1", "1"], ["9", "15", "9"]],
        ["FIM", None, ("1", "24"), ("15", "9")],
        [[2, 0.1, 24], [3, 0.2, 1], [1, 0.3, 1]],
        [9.0, 15.0, 9.0],
    ),
    "breast_wisconsin": (  # an incomplete row is dropped, the class is named
        [[1, 2, 3], [4, np.nan, 6], [7, 8, 9], ["benign", "benign", "malignant"]],
        [None, None, None, ("malignant", "benign")],
        [[1, 4, 7], [3, 6, 9]],
        [-1, 1],
    ),
    "space_ga": ([[0.5, 0.6], [1, 2], [3, 4], [5, 6]], [None] * 4, [[1, 3, 5], [2, 4, 6]], [0.5, 0.6]),
    "mushrooms": (  # letters, one of them missing
        [["x", "b", "?", "b"], ["p", "p", "p", "p"], ["e", "p", "p", "e"]],
        ["bcx", "pu", "ep"],
        [[0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1]],  # ?, b, x, and p
        [1, -1, -1, 1],
    ),
}


@pytest.mark.parametrize("name", FETCHED)
def test_sets_of_openml(name, monkeypatch):
    columns, kinds, X, y = FETCHED[name]
    shapes = datasets._dense(len(y), 3)
    if name == "mushrooms":
        shapes = datasets._dense(len(y), 2) | {"n_categories": (2,)}
    small(monkeypatch, name, shapes, (X, y))
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml(columns, kinds))
    found = load(name)
    np.testing.assert_array_equal(found.data, X)
    np.testing.assert_array_equal(found.target, y)
    assert found.target.dtype == np.array(y).dtype
    assert found.source == f"OpenML ({datasets._OPENML[name].name}, version 1)"


def test_density_is_the_target_and_fat_the_first_column(monkeypatch):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml(np.arange(30.0).reshape(15, 2), [None] * 15))
    arrays = datasets._OPENML["bodyfat"].fetch()
    np.testing.assert_array_equal(arrays["y"], [0, 1])
    np.testing.assert_array_equal(arrays["X"][0], [28, *range(2, 28, 2)])


def test_what_is_not_the_same_data_is_refused(monkeypatch):
    columns, _, _, y = FETCHED["space_ga"]
    small(monkeypatch, "space_ga", datasets._dense(2, 3), ([[1, 3, 5], [2, 4, 6.001]], y))
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml(columns, [None] * 4))
    with pytest.raises(DatasetNotFoundError, match=r"is not the same data \(SHA-256") as caught:
        load("space_ga")
    assert datasets._PINS["space_ga"] in str(caught.value) and "Put a file space_ga.npz" in str(caught.value)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml(columns[:3], [None] * 3))
    with pytest.raises(DatasetNotFoundError, match=r"ValueError: .* X is 2 x 2, not 2 x 3"):
        load("space_ga")


def test_checksum_ignores_the_order_of_rows_only():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    order = rng.permutation(300)
    own = datasets._checksum(Bunch(data=X, target=y))
    assert own == datasets._checksum(Bunch(data=X[order], target=y[order]))
    assert own == datasets._checksum(Bunch(data=sparse.csr_matrix(X).astype(np.float32), target=y))
    assert own == datasets._checksum(Bunch(data=np.where(X == 0, -0.0, X), target=y))
    others = [Bunch(data=X[order], target=y), Bunch(data=X[:, ::-1], target=y), Bunch(data=X[:-1], target=y[:-1])]
    others += [Bunch(data=X * (1 + 1e-6), target=y), Bunch(data=X, target=y, data_test=X, target_test=y)]
    assert own not in [datasets._checksum(other) for other in others]
    zeros = [Bunch(data=np.full((1, 1), zero), target=np.zeros(1)) for zero in (0.0, -0.0)]
    assert datasets._checksum(zeros[0]) == datasets._checksum(zeros[1])


def files(monkeypatch, tmp_path, contents):
    """Stand-in for fetch_file that has these files."""

    def fetch(url, n_retries):
        content = contents[url.removeprefix(datasets._UCI).removeprefix(datasets._ESL)]
        path = tmp_path / url.split("/")[-1]
        path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
        return path

    monkeypatch.setattr(sklearn.datasets, "fetch_file", fetch)


@pytest.mark.parametrize(
    ("name", "train", "valid"),
    [
        ("arcene", "1 0 0 2 \n0 3 0 0 \n", "0 0 0 1 \n"),
        ("dexter", "1:1 4:2 \n2:3 \n", "4:1 \n"),
        ("dorothea", "1 4 \n2 \n", "4 \n"),
    ],
)
def test_files_of_the_challenge(name, train, valid, monkeypatch, tmp_path):
    contents = {
        f"{name}/{name.upper()}/{name}_train.data": train,
        f"{name}/{name.upper()}/{name}_train.labels": "1\n-1\n",
        f"{name}/{name.upper()}/{name}_valid.data": valid,
        f"{name}/{name}_valid.labels": "-1\n-1\n"[: 3 * len(valid.splitlines())],
    }
    files(monkeypatch, tmp_path, contents)
    shapes = {"X": (2, 4), "y": (2,), "X_valid": (1, 4)} if name == "arcene" else {"y": (2,)}
    monkeypatch.setitem(datasets._SETS, name, (shapes, "tests"))
    arrays = datasets._fetch_challenge(name, 4)
    expected = np.array([[1, 0, 0, 2], [0, 3, 0, 0]])
    expected = (expected > 0).astype(float) if name == "dorothea" else expected
    for part, rows in (("", expected), ("_valid", [[0, 0, 0, 1]])):
        X = datasets._matrix(name, arrays, part)
        np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, rows)
    np.testing.assert_array_equal(arrays["y"], [1, -1])
    np.testing.assert_array_equal(arrays["y_valid"].ravel(), [-1])


def test_files_of_the_digits(monkeypatch, tmp_path):
    contents = {"zip.train.gz": "6.0000 -1.0 0.5 \n5.0000 1.0 0.25 \n", "zip.test.gz": "9 0 1 \n2 1 0\n"}
    files(monkeypatch, tmp_path, contents)
    arrays = datasets._fetch_usps()
    np.testing.assert_array_equal(arrays["X"], [[-1, 0.5], [1, 0.25]])
    np.testing.assert_array_equal(arrays["y"], [6, 5])
    np.testing.assert_array_equal(arrays["y_test"], [9, 2])


def test_fetchers_of_scikit_learn(monkeypatch):
    X = np.array([[8.3252, 41.0, 880 / 126, 129 / 126, 322.0, 322 / 126, 37.88, -122.23]])
    y = np.array([4.526])
    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", lambda return_X_y, n_retries: (X, y))
    arrays = datasets._fetch_cal_housing()
    np.testing.assert_array_equal(arrays["X"], [[-122.23, 37.88, 41, 880, 129, 322, 126, 8.3252]])
    np.testing.assert_array_equal(arrays["y"], [452600])
    small(monkeypatch, "covtype", datasets._dense(1, 8), (X.astype(np.float32), [2]))
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda return_X_y, n_retries: (X, np.array([2], np.int32)))
    assert load("covtype").data.dtype == np.float32


# The real data: `make test-data` runs what is marked so


def real(name):
    if not (DATA / f"{name}.npz").exists():
        pytest.skip(f"no {DATA / name}.npz: set KERNELPURSUIT_DATA to the folder with the data")
    return load(name, DATA)


@pytest.mark.data
@pytest.mark.parametrize("name", POSITIVE)
def test_real_classes(name):
    found = real(name)
    assert set(found.target) == {-1, 1} and np.sum(found.target == 1) == POSITIVE[name]
    if "target_valid" in found:
        assert np.sum(found.target_valid == 1) == {"arcene": 44, "dexter": 150, "dorothea": 34}[name]
    if name == "mushrooms":
        assert found.data.shape == (8124, 117)


@pytest.mark.data
@pytest.mark.parametrize("name", IDA)
def test_real_splits(name):
    found = real(name)
    assert found.n_original_splits == ORIGINAL_SPLITS.get(name.removeprefix("ida_"), 10)
    assert len(found.splits) == (20 if name in ("ida_image", "ida_splice") else 100)
    assert all(len(np.unique(split)) == len(split) for split in found.splits)
    assert found.splits.min() >= 0 and found.splits.max() < len(found.data)


@pytest.mark.data
@pytest.mark.parametrize("name", MEAN)
def test_real_targets(name):
    found = real(name)
    assert found.target.mean() == pytest.approx(MEAN[name], rel=1e-3)
    assert np.isfinite(found.data).all()


@pytest.mark.data
def test_real_digits():
    usps, mfeat = real("usps"), real("mfeat")
    assert set(usps.target) == set(usps.target_test) == set(mfeat.target) == set(range(10))
    assert usps.data.shape == (7291, 256) and usps.data_test.shape == (2007, 256)
    assert {view: X.shape[1] for view, X in mfeat.views.items()} == datasets._VIEWS
    assert mfeat.data.shape == (2000, 649) and (np.bincount(mfeat.target) == 200).all()


@pytest.mark.data
@pytest.mark.parametrize("name", datasets._SOURCES)
def test_pins_are_those_of_the_real_data(name):
    found = real(name)
    assert datasets._checksum(found) == datasets._PINS[name]
    if name == "covtype":
        assert found.data.dtype == np.float32 and set(np.unique(found.target)) == set(range(1, 8))


@pytest.mark.data
def test_california_averages_can_be_turned_back(monkeypatch):
    """What scikit-learn makes of the data, and what we make of that, is the data again."""
    longitude, latitude, age, rooms, bedrooms, people, households, income = real("cal_housing").data.T
    averages = [rooms / households, bedrooms / households, people, people / households]
    X, y = np.column_stack([income, age, *averages, latitude, longitude]), real("cal_housing").target / 100_000.0
    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", lambda return_X_y, n_retries: (X, y))
    assert load("cal_housing").source == "scikit-learn's fetch_california_housing"


@pytest.mark.data
def test_real_mushrooms_from_their_letters(monkeypatch):
    found = real("mushrooms")
    with np.load(DATA / "mushrooms.npz", allow_pickle=False) as file:
        columns = [np.array(list(letters))[codes] for letters, codes in zip(file["letters"], file["X"].T, strict=True)]
    columns.append(np.where(found.target == 1, "e", "p"))
    kinds = ["".join(sorted(set(column) - {"?"})) + "z" * ("z" not in column) for column in columns]
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml(columns, kinds))
    np.testing.assert_array_equal(load("mushrooms").data, found.data)
