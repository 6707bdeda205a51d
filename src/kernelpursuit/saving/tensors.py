"""Estimators of this package as safetensors files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from kernelpursuit.saving.files import ModelFileError
from kernelpursuit.saving.tree import Reader, Writer

FORMAT = "kernelpursuit"
OLDEST, VERSION = 2, 2  # of what the header means: the first version that is read, and the one that is written
KEYS = {"version", "model", "sha256"}


def pack_tensors(model: Any) -> bytes:
    """The file of a model; ForeignObject where it holds an object that is not of this package."""
    writer = Writer()
    tree = writer.node(model, type(model).__name__)
    from safetensors.numpy import save

    arrays = {str(i): np.array(array, order="C") for i, array in enumerate(writer.arrays)}
    header = {"version": VERSION, "model": tree, "sha256": digest(tree, arrays)}
    return save(arrays, metadata={FORMAT: json.dumps(header, allow_nan=False)})  # one key: several come in any order


def digest(tree: Any, arrays: dict[str, np.ndarray]) -> str:
    """Checksum of a tree and its arrays: a changed weight would be noticed nowhere else."""
    total = hashlib.sha256(json.dumps(tree).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def load_tensors(path: Path) -> Any:
    """The model of a file, or ModelFileError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if FORMAT not in metadata:
                raise ModelFileError(f"{path}: a safetensors file, but not of a kernelpursuit model")
            header = json.loads(metadata[FORMAT])
            check_version(path, header["version"])
            if unknown := header.keys() - KEYS:
                raise ValueError(f"it holds {', '.join(sorted(unknown))} beside the model")
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        if digest(header["model"], arrays) != header["sha256"]:
            raise ModelFileError(f"{path}: the file is damaged: its checksum is not that of its content")
        model = Reader([arrays[str(i)] for i in range(len(arrays))]).value(header["model"])
        if not hasattr(model, "get_params"):
            raise ValueError(f"a {type(model).__name__} is not an estimator")
        return model
    except (ModelFileError, OSError, MemoryError):
        raise
    except (SafetensorError, UnicodeError) as error:
        raise ModelFileError(f"{path}: not a kernelpursuit model file, or a damaged one: {one_line(error)}") from error
    except Exception as error:  # whatever the parts of a forged file do when they are put together
        raise ModelFileError(f"{path}: the file does not hold a model: {one_line(error)}") from error


def check_version(path: Path, version: Any) -> None:
    """Refuse a version that is not known here."""
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path}: version {one_line(version)} of the format is not a number from 1 on")
    if version < OLDEST:
        raise ModelFileError(
            f"{path}: version {version} of the format, from before the first release: fit the model again"
        )
    if version > VERSION:
        raise ModelFileError(
            f"{path}: written by a newer kernelpursuit: version {one_line(version)} of the format, and here {VERSION} "
            "is the last known"
        )


def one_line(value: Any) -> str:
    """Text of an error or a value in one line of limited length."""
    text = " ".join(str(value).split()) or type(value).__name__
    return text if len(text) <= 200 else text[:197] + "..."
