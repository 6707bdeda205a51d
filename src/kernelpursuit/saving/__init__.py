"""Model files that run no code when they are read.

Estimators of this package become safetensors files: arrays, and a header in JSON that says what they belong to. What
holds anything else, such as a scikit-learn pipeline, becomes a skops file, read with a fixed list of types. The format
and its versions are described in :doc:`model files </model_files>`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernelpursuit.saving.files import ModelFileError, new_file

__all__ = ["ModelFileError", "load", "save"]

ZIP = b"PK\x03\x04"
NEEDS = "model files need {}: install kernelpursuit with its extra 'save'"


def save(model: Any, file: str | os.PathLike[str]) -> None:
    """Write a model to a file that holds data and no code.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted, of this package or of scikit-learn. Tensors are written as NumPy arrays.
    file : str or path-like
        Written in whole or not at all; an old file of that name is replaced and keeps its permissions. Pipes, devices
        and symbolic links stay what they are.

    Raises
    ------
    TypeError
        Where the model holds what only code could bring back (a function of yours, a generator of random numbers), or
        what is not safe to read (trees of scikit-learn, distributions of SciPy).
    ValueError
        Where a pipeline holds so much (vocabularies of many texts) that `load` would refuse the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from kernelpursuit import KMPRegressor, load, save
    >>> X, y = load_diabetes(return_X_y=True)
    >>> file = os.path.join(tempfile.mkdtemp(), "diabetes.model")
    >>> save(KMPRegressor(n_atoms=5).fit(X, y), file)
    >>> load(file).predict(X[:2]).shape
    (2,)
    """
    from kernelpursuit.saving.archive import pack_archive
    from kernelpursuit.saving.tensors import pack_tensors
    from kernelpursuit.saving.tree import ForeignObject

    try:
        try:
            content = pack_tensors(model)
        except ForeignObject:
            content = pack_archive(model)
    except ModuleNotFoundError as error:
        raise ImportError(NEEDS.format(error.name)) from error
    with new_file(file) as stream:
        stream.write(content)


def load(file: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    file : str or path-like

    Returns
    -------
    estimator or Pipeline
        Its predictions are those of the saved model, to the last bit on the same machine with the same libraries.

    Raises
    ------
    ModelFileError
        For anything but a whole model file of a version that this package knows.
    """
    from kernelpursuit.saving.archive import load_archive
    from kernelpursuit.saving.tensors import load_tensors

    path = Path(file)
    try:
        with path.open("rb") as stream:
            start = stream.read(8)
        return load_archive(path) if start.startswith(ZIP) else load_tensors(path)
    except ModuleNotFoundError as error:
        raise ImportError(NEEDS.format(error.name)) from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise ModelFileError(f"{path}: there is not enough memory for what this file says that it holds") from error
