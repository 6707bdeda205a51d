"""Pipelines and whatever else holds objects of other packages, as skops files read with a fixed list of types."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics

from kernelpursuit._warning import warn
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.saving.files import ModelFileError
from kernelpursuit.saving.limits import SCHEMA, check_limits
from kernelpursuit.saving.tensors import FORMAT, VERSION, check_version, one_line
from kernelpursuit.saving.tree import Writer, check_expansion
from kernelpursuit.saving.types import full_names

MADE_WITH = ("scikit-learn", "skrub", "numpy")  # whose objects are in the file

METRIC_ENDINGS = ("_score", "_error", "_loss", "_deviance", "_corrcoef")

ALLOWED = (
    "they hold what is of kernelpursuit, and of scikit-learn and skrub.TableVectorizer what is made of arrays, numbers "
    "and texts, but no trees, no distributions and no functions of yours"
)
# Module -> names that files may hold, besides the types of this package and those that skops trusts by itself (NumPy,
# SciPy, estimators of scikit-learn): parts of these, and of a fitted skrub.TableVectorizer. They are data and pure
# functions. Not here are trees (a forged one reads memory that is not its own) and distributions of SciPy (they compile
# text).
TRUSTED = {
    "numpy": "dtype",
    "kernelpursuit.cli.model": "TableModel",
    "scipy.sparse._csr": "csr_array csr_matrix",
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.feature_selection._univariate_selection": "chi2 f_regression f_classif r_regression",
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
    "sklearn.metrics._scorer": "_CurveScorer _MultimetricScorer _PassthroughScorer _Scorer",
    "sklearn.model_selection._search_successive_halving": "HalvingGridSearchCV HalvingRandomSearchCV",
    "sklearn.model_selection._split": (
        "GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut LeavePGroupsOut LeavePOut PredefinedSplit "
        "RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedGroupKFold StratifiedKFold "
        "StratifiedShuffleSplit TimeSeriesSplit _CVIterableWrapper"
    ),
    "sklearn.multiclass": "_ConstantPredictor",
    "sklearn.utils._bunch": "Bunch",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
    "skrub._apply_to_cols": "ApplyToCols",
    "skrub._apply_to_each_col": "ApplyToEachCol",
    "skrub._apply_to_frame": "ApplyToFrame",
    "skrub._check_input": "CheckInputDataFrame",
    "skrub._clean_categories": "CleanCategories",
    "skrub._clean_null_strings": "CleanNullStrings",
    "skrub._dataframe._common": "is_any_date is_categorical is_numeric is_string",
    "skrub._datetime_encoder": "DatetimeEncoder",
    "skrub._drop_uninformative": "DropUninformative",
    "skrub._duration_to_float": "DurationToFloat",
    "skrub._string_encoder": "StringEncoder",
    "skrub._table_vectorizer": "PassThrough ShortReprDict TableVectorizer _created_by_predicate",
    "skrub._to_categorical": "ToCategorical",
    "skrub._to_datetime": "ToDatetime",
    "skrub._to_float": "ToFloat",
    "skrub._to_str": "ToStr",
    "skrub.selectors._base": "All And Cols Filter Not Or Sub",
    "skrub.selectors._selectors": "_cardinality_below",
}


def pack_archive(model: Any) -> bytes:
    """The file of a model; TypeError where it holds a type that is not on the list, ValueError where it is too long."""
    import skops.io

    refuse_generators(model)
    stream = io.BytesIO()
    content = {"format": FORMAT, "version": VERSION, "made_with": versions(), "model": model}
    with requests_without_owners(model):
        skops.io.dump(content, stream)
    data = compress(stream)
    name = type(model).__name__
    if unknown := untrusted_types(data):
        hint = "; a search can be saved without it as its best_estimator_" if hasattr(model, "best_estimator_") else ""
        raise TypeError(f"{name} holds {unknown[0]}, which model files may not hold: {ALLOWED}{hint}")
    try:
        check_limits(data)
    except ValueError as error:
        raise ValueError(f"{name} would make a file that cannot be read: {error}") from error
    return data


def compress(stream: Any) -> bytes:
    """An archive of skops with its entries deflated and its schema without the indentation, most of its length."""
    packed = io.BytesIO()
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == SCHEMA:
                content = json.dumps(json.loads(content), separators=(",", ":")).encode()
            new.writestr(name, content)
    return packed.getvalue()


def refuse_generators(model: Any) -> None:
    """TypeError where a parameter is a generator of random numbers, as `Writer` has it."""
    for name, value in model.get_params(deep=True).items() if hasattr(model, "get_params") else ():
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            Writer().node(value, f"{type(model).__name__}.{name}")


def versions() -> dict[str, str]:
    """Versions of the libraries whose objects are in the file."""
    found = {}
    for name in MADE_WITH:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def untrusted_types(data: bytes) -> list[str]:
    """Types in a file that are not on the list."""
    import skops.io

    return sorted(set(skops.io.get_untrusted_types(data=data)) - set(trusted_types()))


@cache
def trusted_types() -> list[str]:
    """Full names of the types and functions that files may hold, among them the metrics of scikit-learn."""
    known = [f"{module}.{name}" for module, names in TRUSTED.items() for name in names.split()]
    of_scorers = [name for name in metrics.__all__ if name.endswith(METRIC_ENDINGS)]
    return [*known, *full_names(), *(f"{getattr(metrics, name).__module__}.{name}" for name in of_scorers)]


def load_archive(path: Path) -> Any:
    """The model of a file, or ModelFileError."""
    import skops.io

    data = path.read_bytes()
    try:
        check_limits(data)
        if unknown := untrusted_types(data):
            raise ModelFileError(f"{path}: holds {one_line(unknown[0])}, which model files may not hold")
        content = skops.io.loads(data, trusted=trusted_types())
        if type(content) is not dict or content.get("format") != FORMAT:
            raise ModelFileError(f"{path}: a skops file, but not one that kernelpursuit.save wrote")
        check_version(path, content.get("version"))
        compare_versions(path, content["made_with"])
        model = content["model"]
        if not hasattr(model, "predict") and not hasattr(model, "transform"):
            raise ValueError(f"a {type(model).__name__} is not a model")
        for part in objects_in(model, set()):
            if isinstance(part, Expansion):
                check_expansion(part)
        return model
    except (ModelFileError, OSError, MemoryError):
        raise
    except Exception as error:  # whatever the parts of a damaged or forged file do when they are put together
        raise ModelFileError(f"{path}: damaged, or not a model file: {one_line(error)}") from error


def compare_versions(path: Path, made_with: dict[str, str]) -> None:
    """Warn where the libraries whose objects are in the file are not those that are here."""
    here = versions()
    for name, was in made_with.items():
        is_now = here.get(name)
        if is_now is None:
            raise ModelFileError(f"{path}: needs {name}, which is not installed (the file was made with {was})")
        if was.split(".")[:2] != is_now.split(".")[:2] and name != "numpy":
            warn(f"{path} was made with {name} {was}, and here is {is_now}: check its predictions, or fit again")


def objects_in(model: Any, seen: set[int]) -> Iterator[Any]:
    """The model and all objects in it, each once."""
    if id(model) in seen or isinstance(model, type):
        return
    seen.add(id(model))
    yield model
    inside = [*vars(model).values()] if hasattr(model, "__dict__") else []
    if isinstance(model, dict):
        inside += model.values()
    elif isinstance(model, (list, tuple)):
        inside += model
    for part in inside:
        yield from objects_in(part, seen)


@contextmanager
def requests_without_owners(model: Any) -> Iterator[None]:
    """Give requests of metadata the name of the estimator that holds them in its place: skops cannot write a circle."""
    module = "sklearn.utils._metadata_requests"
    requests = [part for part in objects_in(model, set()) if type(part).__module__ == module and hasattr(part, "owner")]
    owners = [request.owner for request in requests]
    try:
        for request in requests:
            if not isinstance(request.owner, str):
                request.owner = type(request.owner).__name__
        yield
    finally:
        for request, owner in zip(requests, owners, strict=True):
            request.owner = owner
