"""Named data sets of the papers' experiments: read from .npz files, fetched where a known source has the same data."""

from __future__ import annotations

import difflib
import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

Arrays = dict[str, Any]
Shapes = dict[str, tuple[int | None, ...]]


class DatasetNotFoundError(FileNotFoundError):
    """No file of a data set is there, and it could not be fetched."""


def _dense(rows: int, columns: int, suffix: str = "") -> Shapes:
    return {f"X{suffix}": (rows, columns), f"y{suffix}": (rows,)}


def _compressed(rows: int, suffix: str = "", values: bool = True) -> Shapes:
    """Compressed rows; without values all entries are 1."""
    kept: Shapes = {f"data{suffix}": (None,)} if values else {}
    return kept | {f"indices{suffix}": (None,), f"indptr{suffix}": (rows + 1,), f"y{suffix}": (rows,)}


_VIEWS = {"fou": 76, "zer": 47, "kar": 64, "fac": 216, "mor": 6, "pix": 240}
_PARTS = "training and validation part; columns counted from 0"
# Arrays of each file with their shapes, None being any number, and where the data come from.
_SETS: dict[str, tuple[Shapes, str]] = {
    "abalone": (_dense(4177, 8), "UCI, abalone; sex coded M=1, F=2, I=3; y is the number of rings"),
    "arcene": (_dense(100, 10000) | _dense(100, 10000, "_valid"), "UCI, arcene (NIPS 2003 challenge), both parts"),
    "bodyfat": (_dense(252, 14), "StatLib, bodyfat; y is the density, column 0 the percentage of fat"),
    "breast_wisconsin": (_dense(683, 9), "UCI, breast cancer Wisconsin (original), complete rows; malignant is +1"),
    "cal_housing": (_dense(20640, 8), "StatLib, houses (California); y is the median value of a house"),
    "covtype": (_dense(581012, 54), "UCI, covertype; y is the cover type, 1 to 7"),
    "cpusmall": (_dense(8192, 12), "DELVE, comp-activ (small); y is usr"),
    "dexter": ({"shape": (2,)} | _compressed(300) | _compressed(300, "_valid"), f"UCI, dexter, {_PARTS}"),
    "dorothea": (
        {"shape": (2,)} | _compressed(800, "", False) | _compressed(350, "_valid", False),
        f"UCI, dorothea, {_PARTS}; all values are 1",
    ),
    "housing": (_dense(506, 13), "StatLib, boston; y is the median value of a home"),
    "ionosphere": (_dense(351, 34), "UCI, ionosphere; good is +1"),
    "mfeat": (
        {view: (2000, columns) for view, columns in _VIEWS.items()} | {"y": (2000,)},
        "UCI, multiple features, one array for each of its files; y is the digit",
    ),
    "mg": (_dense(1385, 6), "LIBSVM's collection, mg_scale (Mackey-Glass)"),
    "mpg": (_dense(392, 7), "UCI, auto mpg, 6 rows without horsepower dropped; y is mpg"),
    "mushrooms": (
        _dense(8124, 22) | {"n_categories": (22,)},
        "UCI, mushroom; X has codes of categories, '?' being one, n_categories how many a column has; edible is +1",
    ),
    "pima": (_dense(768, 8), "UCI, Pima Indians diabetes; diabetes is +1"),
    "pyrim": (_dense(74, 27), "UCI, qualitative structure activity relationships (pyrimidines)"),
    "sonar": (_dense(208, 60), "UCI, connectionist bench (sonar); mine is +1"),
    "space_ga": (_dense(3107, 6), "StatLib, space_ga; y is ln(VOTES/POP)"),
    "triazines": (_dense(186, 60), "UCI, qualitative structure activity relationships (triazines)"),
    "usps": (_dense(7291, 256) | _dense(2007, 256, "_test"), "Elements of Statistical Learning, zip.train, zip.test"),
}
_IDA_ORIGIN = (
    "the benchmarks of Raetsch and others (IDA repository, benchmarks.mat); train_idx has the published splits, one a "
    "row, counted from 0, made_train_idx further ones of the same sizes; y is -1 or +1"
)
_IDA = """banana 5300 2 400, breast_cancer 277 9 200, diabetis 768 8 468, flare_solar 1066 9 666, german 1000 20 700,
    heart 270 13 170, image 2310 18 1300, ringnorm 7400 20 400, splice 3175 60 1000, thyroid 215 5 140,
    titanic 2201 3 150, twonorm 7400 20 400, waveform 5000 21 400"""  # rows, columns, training rows of a split
for _entry in _IDA.split(","):
    _name, _rows, _columns, _train = _entry.split()
    _splits: Shapes = {key: (None, int(_train)) for key in ("train_idx", "made_train_idx")}
    _SETS[f"ida_{_name}"] = (_dense(int(_rows), int(_columns)) | _splits, _IDA_ORIGIN)
_KEEL = "letter 20000 16, satimage 6435 36, segment 2310 19, phoneme 5404 5, spambase 4597 57, vowel 990 13"
for _entry in _KEEL.split(","):
    _name, _rows, _columns = _entry.split()
    _SETS[f"keel_{_name}"] = (
        _dense(int(_rows), int(_columns)),
        f"KEEL repository, {_name}; y counts the classes from 0",
    )
_SCIKIT_LEARN = ("iris", "digits", "wine", "breast_cancer", "diabetes")
NAMES = (*sorted(_SETS), *_SCIKIT_LEARN)


@dataclass(frozen=True)
class _OpenML:
    """A set of OpenML, always its version 1, and how its table is turned into ours."""

    name: str
    positive: str = ""  # the class that is +1
    target: int = -1  # column of y
    columns: tuple[int, ...] = ()  # columns of X; all others in their order where empty
    codes: dict[str, float] = field(default_factory=dict)  # of categories that are not numbers
    letters: bool = False  # all categories are letters, a missing one is "?"

    def fetch(self) -> Arrays:
        from sklearn.datasets import fetch_openml

        # Without pandas, and with y among the columns: categories then come as positions in lists of their names.
        found = fetch_openml(self.name, version=1, target_column=None, as_frame=False, parser="liac-arff", n_retries=1)
        table = np.array(found.data, dtype=np.float64)
        target = self.target % table.shape[1]
        for j, column in enumerate(found.feature_names):
            if column in found.categories:
                names = [str(name) for name in found.categories[column]]
                values = np.array([self._value(name, j == target) for name in names] + [np.nan])
                table[:, j] = values[np.where(np.isnan(table[:, j]), len(names), table[:, j]).astype(int)]
        if self.letters:
            table[np.isnan(table)] = ord("?")
        table = table[~np.isnan(table).any(axis=1)]
        X, y = table[:, self.columns or [j for j in range(table.shape[1]) if j != target]], table[:, target]
        if not self.letters:
            return {"X": X, "y": y.astype(int) if self.positive else y}
        coded = [np.unique(column, return_inverse=True) for column in X.T]
        return {
            "X": np.column_stack([codes for _, codes in coded]),
            "n_categories": np.array([len(found) for found, _ in coded]),
            "y": y.astype(int),
        }

    def _value(self, name: str, is_target: bool) -> float:
        if is_target and self.positive:
            return 1.0 if name == self.positive else -1.0
        if name in self.codes:
            return self.codes[name]
        return float(ord(name)) if self.letters else float(name)


def _fetch_cal_housing() -> Arrays:
    """Scikit-learn's copy, its averages turned back into numbers of rooms, bedrooms and households."""
    from sklearn.datasets import fetch_california_housing

    X, y = fetch_california_housing(return_X_y=True, n_retries=1)
    income, age, rooms, bedrooms, people, occupation, latitude, longitude = X.T
    households = np.round(people / occupation)
    numbers = [np.round(rooms * households), np.round(bedrooms * households), people, households]
    return {"X": np.column_stack([longitude, latitude, age, *numbers, income]), "y": np.round(y * 100_000)}


def _fetch_covtype() -> Arrays:
    from sklearn.datasets import fetch_covtype

    X, y = fetch_covtype(return_X_y=True, n_retries=1)
    return {"X": X, "y": y}


def _fetch_usps() -> Arrays:
    from sklearn.datasets import fetch_file

    arrays: Arrays = {}
    for part, suffix in (("train", ""), ("test", "_test")):
        table = np.loadtxt(fetch_file(f"{_ESL}zip.{part}.gz", n_retries=1))
        arrays |= {f"X{suffix}": table[:, 1:], f"y{suffix}": table[:, 0].astype(int)}
    return arrays


def _fetch_challenge(name: str, columns: int) -> Arrays:
    """Both parts of a set of the NIPS 2003 challenge: numbers, column:value pairs, or columns whose value is 1."""
    from sklearn.datasets import fetch_file

    folder, inner = f"{_UCI}{name}/", f"{_UCI}{name}/{name.upper()}/"
    arrays: Arrays = {"shape": np.array([_SETS[name][0]["y"][0], columns])}
    for part, suffix, labels in (("train", "", inner), ("valid", "_valid", folder)):
        lines = fetch_file(f"{inner}{name}_{part}.data", n_retries=1).read_text().splitlines()
        rows = [line.split() for line in lines if line.strip()]
        arrays[f"y{suffix}"] = np.loadtxt(fetch_file(f"{labels}{name}_{part}.labels", n_retries=1)).astype(int)
        if name == "arcene":
            arrays[f"X{suffix}"] = np.array(rows, dtype=np.float64)
            continue
        entries = [entry.split(":") for row in rows for entry in row]
        arrays[f"indices{suffix}"] = np.array([int(entry[0]) for entry in entries]) - 1
        arrays[f"indptr{suffix}"] = np.cumsum([0, *map(len, rows)])
        if name == "dexter":
            arrays[f"data{suffix}"] = np.array([float(entry[1]) for entry in entries])
    return arrays


_ESL = "https://hastie.su.domains/ElemStatLearn/datasets/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_OPENML = {
    "abalone": _OpenML("abalone", codes={"M": 1, "F": 2, "I": 3}),
    "bodyfat": _OpenML("bodyfat", target=0, columns=(14, *range(1, 14))),
    "breast_wisconsin": _OpenML("breast-w", positive="malignant"),
    "cpusmall": _OpenML("cpu_small"),
    "housing": _OpenML("boston"),
    "ionosphere": _OpenML("ionosphere", positive="g"),
    "mpg": _OpenML("autoMpg"),
    "mushrooms": _OpenML("mushroom", positive="e", letters=True),
    "pima": _OpenML("diabetes", positive="tested_positive"),
    "pyrim": _OpenML("pyrim"),
    "sonar": _OpenML("sonar", positive="Mine"),
    "space_ga": _OpenML("space_ga", target=0),
    "triazines": _OpenML("triazines"),
}
# Only sources known to have these very rows; how they were turned into ours is checked by _PINS.
_SOURCES: dict[str, tuple[str, Callable[[], Arrays]]] = {
    **{name: (f"OpenML ({entry.name}, version 1)", entry.fetch) for name, entry in _OPENML.items()},
    "arcene": (_UCI, lambda: _fetch_challenge("arcene", 10_000)),
    "cal_housing": ("scikit-learn's fetch_california_housing", _fetch_cal_housing),
    "covtype": ("scikit-learn's fetch_covtype", _fetch_covtype),
    "dexter": (_UCI, lambda: _fetch_challenge("dexter", 20_000)),
    "dorothea": (_UCI, lambda: _fetch_challenge("dorothea", 100_000)),
    "usps": (_ESL, _fetch_usps),
}
_PINS = {  # of what load gives, see _checksum
    "abalone": "98989c3f411dec95848d7fcb2c8a57975bf74d570b6e4a94136e2530f79ea9f1",
    "bodyfat": "58035cca5ca2262a1b6af5eb2eb3e3d5c9bb14f732d6af2e7402c0abc56454cd",
    "breast_wisconsin": "eb2332e54bb1d9fbfadd6c2df9fb4ad740715f5fc761483e030b60e6b87a9be1",
    "cpusmall": "d927e76168b1cb5e8a33a38c55e8a45ab345677bb59aa7eae374efd24312622e",
    "housing": "e06c68a7ab75cc2df007885975dfe2cfca0e931ff9adc7569eca6e9af2da4000",
    "ionosphere": "55402154a7329c807b19cf12a5b3d2ef79477cc2b26de178121f73bb3a7a921a",
    "mpg": "2525ee2877022b5c089bfa40975311c5e49ac8ffca134916cd885a6ea9f4df1d",
    "mushrooms": "3825cd9205dcd1eeca847fc60371a4a3f8fd22bf1b963db6a0bb82039485f530",
    "pima": "501c9c8f5b503c4c55f2a86a8e2d67bd9ecd0f1c7b58e07f6340524ab86146bb",
    "pyrim": "96c9782cdcdda1678f5ee5d52b3671f88f82aab1d20c1e88cbe3e3f0c19a4353",
    "sonar": "55165f74bf3057e447fa371102329989c42bd33796d4d340a1f8513ba5201c1b",
    "space_ga": "55e1bd6aa4d591ce34cdddf46f8fe00e0563e086ccd01a55b9b4e5bd6c5c9bf6",
    "triazines": "d53b4058d7a39506ed1d4918e0559d058c9d7fa9464d07bf72e1676b67b35e54",
    "arcene": "53f0ac38d318bfc21e73c52a9edc4cfa085f6b83b0503e0eeab9c43e8df3d18b",
    "cal_housing": "ccc26b3ad99b75a1c66c9241f174261375be09e104bcdaa5f13f6844eca2b990",
    "covtype": "330c6394c022b076754351d65d322aed4c92a5a5ebdb142b4cd7df8bb4c94984",
    "dexter": "f040490e64f56d977b1b173cc10a7d81c15d8f4c8f03444332fec24b575c35df",
    "dorothea": "ba0ef98afaf6965bc2dff0c59cb6d994a03a551bfb0f6eaa566698ed18d30a52",
    "usps": "f851850eb2a740f6b4af88a94628f771d007cd254308a0fb3eac3a1950b64d84",
}


def load(name: str, data_dir: str | os.PathLike | None = None) -> Bunch:
    """Load a data set by name.

    The file ``NAME.npz`` is looked for in ``data_dir``, in the folder that the environment variable
    KERNELPURSUIT_DATA names, and in the user's cache, see `cache_folder`. Where it is in none of them the set is
    fetched, if a source of the same data is known; scikit-learn keeps what it has downloaded. The content of a fetched
    set is compared with a checksum, but its rows may be in another order than those of a file; a file is taken as it
    is, if its arrays have the right names and shapes. Sets that come with scikit-learn need no file.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_dir : str or path, optional
        Folder to look in first.

    Returns
    -------
    Bunch
        ``name``, ``source`` (the file or where it was fetched), ``data``, ``target``, and, where the set has them,
        ``data_test`` and ``target_test``, ``data_valid`` and ``target_valid``, ``views`` (a dict of matrices whose
        rows belong together), ``splits`` (training rows of each split, the first ``n_original_splits`` as published).
        Two classes are -1 and +1, more are numbers; scikit-learn's sets are as it has them.

    Raises
    ------
    ValueError
        There is no such set, or a file does not hold what it should.
    DatasetNotFoundError
        There is no file, and the set could not be fetched or was not the right one.

    Examples
    --------
    >>> from papers.datasets import load
    >>> iris = load("iris")
    >>> iris.data.shape, iris.target.shape, iris.source
    ((150, 4), (150,), 'scikit-learn')
    """
    _check_name(name)
    if name in _SCIKIT_LEARN:
        from sklearn import datasets

        own = getattr(datasets, f"load_{name}")()
        return Bunch(name=name, source="scikit-learn", data=own.data.astype(np.float64), target=own.target)
    if (file := find_file(name, data_dir)) is not None:
        return _prepare(name, _read(file), str(file))
    if name not in _SOURCES:
        raise DatasetNotFoundError(_missing(name, data_dir, "no source is known to have exactly these arrays"))
    source, fetch = _SOURCES[name]
    try:
        bunch = _prepare(name, fetch(), source)
    except Exception as error:  # of the network, of the archive, of what it sent: the reader needs the same answer
        reason = f"fetching it from {source} failed ({type(error).__name__}: {error})"
        raise DatasetNotFoundError(_missing(name, data_dir, reason)) from error
    if (found := _checksum(bunch)) != _PINS[name]:
        reason = f"what {source} sent is not the same data (SHA-256 of the rows {found}, not {_PINS[name]})"
        raise DatasetNotFoundError(_missing(name, data_dir, reason))
    return bunch


def find_file(name: str, data_dir: str | os.PathLike | None = None) -> Path | None:
    """The file that `load` would read, for a set of scikit-learn the folder of its sets; None if it must be fetched."""
    _check_name(name)
    if name in _SCIKIT_LEARN:
        from sklearn import datasets

        return Path(datasets.__file__).parent
    files = (Path(folder).expanduser() / f"{name}.npz" for _, folder in _places(data_dir) if folder)
    return next((file for file in files if file.is_file()), None)


def cache_folder() -> Path:
    """The user's folder of data sets where none is named, ``kernelpursuit`` in XDG_CACHE_HOME or ~/.cache; not made."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kernelpursuit"


def _check_name(name: str) -> None:
    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, n=3)
        raise ValueError(f"data set must be one of {', '.join(dict.fromkeys([*near, *NAMES]))}; got {name!r}")


def _places(data_dir: str | os.PathLike | None) -> list[tuple[str, str | os.PathLike | None]]:
    """Folders in the order in which they are looked at, with what each is called."""
    environment = os.environ.get("KERNELPURSUIT_DATA")
    return [("data_dir", data_dir), ("KERNELPURSUIT_DATA", environment), ("the cache", cache_folder())]


def _missing(name: str, data_dir: str | os.PathLike | None, reason: str) -> str:
    """What to say of a set that is not there."""
    looked = [f"{called} ({folder or 'not given'})" for called, folder in _places(data_dir)]
    arrays = [f"{key} ({_times(shape)})" for key, shape in _SETS[name][0].items()]
    return (
        f"data set {name!r}: no {name}.npz in {', '.join(looked)}; {reason}. Put a file {name}.npz with the arrays "
        f"{', '.join(arrays)} into one of these folders. It comes from {_SETS[name][1]}."
    )


def _times(shape: tuple[int | None, ...]) -> str:
    return " x ".join("any" if length is None else str(length) for length in shape)


def _read(file: Path) -> Arrays:
    """All arrays of a file; pickled objects are refused."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file} cannot be read as a .npz file of plain arrays: {error}") from error


def _check_arrays(name: str, arrays: Arrays, source: str) -> None:
    wrong = []
    for key, shape in _SETS[name][0].items():
        if key not in arrays:
            wrong.append(f"{key} is not there (it has {', '.join(arrays) or 'no arrays'})")
            continue
        array = arrays[key]
        fits = len(shape) == array.ndim and all(a in (b, None) for a, b in zip(shape, array.shape, strict=True))
        if not fits:
            wrong.append(f"{key} is {_times(array.shape)}, not {_times(shape)}")
        elif array.dtype.kind not in "biuf":
            wrong.append(f"{key} has type {array.dtype}, not numbers")
    if wrong:
        raise ValueError(f"{source} is not the data set {name!r}: {'; '.join(wrong)}")


def _prepare(name: str, arrays: Arrays, source: str) -> Bunch:
    """The set as `load` gives it; integers, which files keep in small types, are cast before any arithmetic."""
    _check_arrays(name, arrays, source)
    bunch = Bunch(name=name, source=source)
    for part in ("", "_test", "_valid"):
        if f"y{part}" in _SETS[name][0]:
            y = arrays[f"y{part}"]
            bunch[f"target{part}"] = y.astype(np.float64) if y.dtype.kind == "f" else y.astype(int)
            try:
                bunch[f"data{part}"] = _matrix(name, arrays, part)
            except (ValueError, IndexError) as error:  # columns or categories that there are not
                raise ValueError(f"{source} is not the data set {name!r}: {error}") from error
    if name == "mfeat":
        bunch.views = {view: arrays[view].astype(np.float64) for view in _VIEWS}
    if "train_idx" in _SETS[name][0]:
        bunch.n_original_splits = len(arrays["train_idx"])
        bunch.splits = np.vstack([arrays["train_idx"], arrays["made_train_idx"]]).astype(int)
    return bunch


def _matrix(name: str, arrays: Arrays, part: str) -> Any:
    """Inputs of one part of a set."""
    if name in ("dexter", "dorothea"):
        indices, indptr = arrays[f"indices{part}"].astype(int), arrays[f"indptr{part}"].astype(int)
        values = arrays[f"data{part}"].astype(np.float64) if name == "dexter" else np.ones(len(indices))
        X = sparse.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, int(arrays["shape"][1])))
        X.check_format(full_check=True)
        return X
    if name == "mfeat":
        return np.hstack([arrays[view].astype(np.float64) for view in _VIEWS])
    if name == "mushrooms":
        categories = zip(arrays["n_categories"], arrays["X"].T, strict=True)
        return np.hstack([np.eye(int(count))[codes.astype(int)] for count, codes in categories])
    return np.ascontiguousarray(arrays[f"X{part}"], dtype=np.float32 if name == "covtype" else np.float64)


def _checksum(bunch: Bunch) -> str:
    """SHA-256 of the rows, target last, as little-endian float32; archives differ in the order of rows, this does not.

    It is that of the sorted checksums of the rows, so that nothing large is sorted.
    """
    whole = hashlib.sha256()
    for part in ("", "_test", "_valid"):
        digests: list[bytes] = []
        X, y = bunch.get(f"data{part}", np.empty((0, 0))), bunch.get(f"target{part}", np.empty(0))
        for start in range(0, len(y), 256):
            block = X[start : start + 256].astype("<f4")
            block = block.toarray() if sparse.issparse(block) else block
            rows = np.column_stack([block, y[start : start + 256].astype("<f4")]) + np.float32(0)  # -0 becomes 0
            digests += [hashlib.sha256(row).digest() for row in rows]
        whole.update(b"".join(sorted(digests)))
    return whole.hexdigest()
