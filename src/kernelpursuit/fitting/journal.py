"""Fits that survive their process: results are appended to a file, from which the same call continues."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import weakref
import zlib
from base64 import b64decode, b64encode
from collections import deque
from numbers import Number
from pathlib import Path as File
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from scipy import sparse

from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.pursuit.loop import Path, Step

FORMAT = 3
BEGINNING = b'{"kernelpursuit": '  # of every journal, also of one whose first line is torn
WITHOUT_EFFECT = {"resume", "verbose", "random_state"}  # parameters by which the same model is fitted


_journals: WeakValueDictionary[tuple[int, str], Journal] = WeakValueDictionary()  # by thread and file


class JournalError(ValueError):
    """A file from which a fit cannot continue."""


class Journal:
    """A file with the results of a fit, in the order in which they were found.

    Each line is JSON with a checksum. The first line names the estimator, its parameters and a hash of the rows. A
    resumed fit reads the results of the file one by one, and appends new ones.

    Parameters
    ----------
    file : str or path
        Made if it does not exist. A torn or damaged line is dropped with all lines after it.
    fit : dict
        "estimator", "parameters" and "rows", which must equal those of the file, and "seed" for a new file.

    Attributes
    ----------
    name : str
        Of the file.
    seed : int
        Of the random draws of the fit that began the file.
    """

    def __init__(self, file: Any, fit: dict[str, Any]):
        self.name = os.fspath(file)
        if not File(self.name).parent.is_dir():
            raise JournalError(f"resume={self.name!r}: there is no folder {str(File(self.name).parent)!r}")
        mine = (threading.get_ident(), os.path.realpath(self.name))
        if (before := _journals.get(mine)) is not None:  # of a fit that is over, held by its traceback say
            before._file.close()
        _journals[mine] = self
        self._file: Any = open(self.name, "a+b", buffering=0)
        weakref.finalize(self, self._file.close)
        lock(self._file, self.name)
        self._file.seek(0)
        content = self._file.read()
        self._unread = deque(whole_lines(content))
        header = {"kernelpursuit": FORMAT} | fit
        if self._unread:
            found, self._end = self._unread.popleft()
            check_header(found, header, self.name)
            self.seed = int(found["seed"])
            self._file.truncate(self._unread[-1][1] if self._unread else self._end)
        elif content[: len(BEGINNING)] == BEGINNING[: len(content)]:
            self.seed = fit["seed"]
            self._file.truncate(0)
            self._append(header)
        else:
            raise JournalError(no_journal(self.name))

    def read(self, name: str) -> Any:
        """The next result of the file, if it has this name; None if it must be computed and written."""
        if not self._unread or self._unread[0][0][0] != name:
            return None
        (_, value), self._end = self._unread.popleft()
        return value

    def write(self, name: str, value: Any) -> None:
        """Append a result. Results not yet read belong to a fit that took another way, and are dropped."""
        if self._unread:
            self._file.truncate(self._end)
            self._unread.clear()
        self._append([name, value])

    def _append(self, value: Any) -> None:
        """Append a line. After an error, of a full disk say, nothing more is written and the fit continues."""
        if self._file.closed:
            return
        line = line_of(value)
        try:
            while line:  # usually one system call
                line = line[self._file.write(line) :]
        except OSError as error:
            self._file.close()
            warn(
                f"resume={self.name!r} cannot be written to ({error.strerror}). This fit goes on; if it is killed, "
                "the next one finds only what was written before"
            )

    def read_path(self, rows: int) -> Path | None:
        """The steps of the next pursuit, which is on so many rows; None if the file has none."""
        beginning = f"pursuit on {rows} rows"
        if self.read(beginning) is None:
            self.write(beginning, True)
        steps, passes = [], 0.0
        while (found := self.read("step")) is not None:
            passes, *values = found
            steps += [step_of(one) for one in values]
        return Path(steps[0], steps[1:], passes=passes) if steps else None

    def write_step(self, path: Path, passes: float) -> None:
        """Append the last step of a path and the number of passes; before the first step, the initial state too."""
        steps = path.steps[-1:] if len(path) > 1 else [path.start, *path.steps]
        self.write("step", [passes, *(step.known() for step in steps)])


def journal_of(estimator: Any, data: TrainingData, seed: int) -> Journal | None:
    """The journal that the parameter `resume` names, for a fit to these rows; None if `resume` is True or False."""
    if not isinstance(estimator.resume, str | os.PathLike):
        return None
    fit = {"estimator": type(estimator).__name__, "parameters": described_parameters(estimator)}
    return Journal(estimator.resume, fit | {"rows": fingerprint(*data.source.identity(data)), "seed": seed})


def step_of(values: list[Any]) -> Step:
    """A step from its fields as JSON returns them."""
    fields: Any = [tuple(value) if isinstance(value, list) else value for value in values]
    return Step(*fields)


def line_of(value: Any) -> bytes:
    """A value as JSON, its checksum, and the end of the line.

    Examples
    --------
    >>> line_of([2, 3]).decode().rstrip()
    '[2, 3] 3f72ac6e'
    """
    text = json.dumps(value, default=encoded).encode()
    return text + b" " + checksum_of(text)


def checksum_of(text: bytes) -> bytes:
    """The end of the line that begins with this text."""
    return b"%08x\n" % zlib.crc32(text)


def whole_lines(content: bytes) -> list[tuple[Any, int]]:
    """Values of the lines before the first torn or damaged one, each with the position at which its line ends.

    Examples
    --------
    >>> whole_lines(line_of(1) + line_of([2, 3]) + line_of([4])[:-1])
    [(1, 11), ([2, 3], 27)]
    """
    lines: list[tuple[Any, int]] = []
    end = 0
    for line in content.splitlines(keepends=True):
        text, _, checksum = line.rpartition(b" ")
        if checksum != checksum_of(text):
            break
        end += len(line)
        lines.append((json.loads(text, object_hook=decoded), end))
    return lines


def encoded(value: Any) -> Any:
    """An array or NumPy number in a form that JSON stores exactly."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a journal holds numbers, texts and arrays, not {type(value).__name__}")
    return {"dtype": value.dtype.str, "shape": value.shape, "array": b64encode(value.tobytes()).decode()}


def decoded(value: dict[str, Any]) -> Any:
    """The array that `encoded` turned into this dictionary; other dictionaries are returned."""
    if "array" not in value:
        return value
    array = np.frombuffer(b64decode(value["array"]), dtype=np.dtype(value["dtype"]))
    return array.reshape(value["shape"]).copy()


def check_header(header: Any, wanted: dict[str, Any], name: str) -> None:
    """Raise an error that names the differences if a file belongs to another fit."""
    if not isinstance(header, dict) or header.get("kernelpursuit") != FORMAT:
        raise JournalError(no_journal(name))
    theirs, ours = header["parameters"], wanted["parameters"]
    differences = [
        f"{key}={theirs.get(key, 'absent')} there and {ours.get(key, 'absent')} here"
        for key in sorted(theirs.keys() | ours.keys())
        if theirs.get(key) != ours.get(key)
    ]
    if header["estimator"] != wanted["estimator"]:
        differences = [f"{header['estimator']} there and {wanted['estimator']} here"]
    if differences:
        raise JournalError(
            f"resume={name!r} is of another fit: {'; '.join(differences)}. Give another file, or delete this one"
        )
    if header["rows"] != wanted["rows"]:
        raise JournalError(
            f"resume={name!r} was made on other data than these: X, y or sample_weight differ. "
            "Give those, another file, or delete this one"
        )


def no_journal(name: str) -> str:
    """The error about a file of another kind."""
    return f"resume={name!r} is no journal of a fit by this version: give another file, or delete this one"


def described_parameters(estimator: Any) -> dict[str, str]:
    """Parameters that the fitted model depends on, as texts that can be compared."""
    parameters = estimator.get_params(deep=False)
    words = {name: in_words(value) for name, value in parameters.items() if name not in WITHOUT_EFFECT}
    if isinstance(estimator.random_state, Number):
        words["random_state"] = in_words(estimator.random_state)
    return words


def in_words(value: Any) -> str:
    """A parameter as a short text: arrays by their hash, functions by their names."""
    if hasattr(value, "shape"):
        return f"array {fingerprint(value)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(in_words(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {in_words(one)}' for key, one in value.items())}}}"
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
    return repr(value.item() if isinstance(value, np.generic) else value)


def fingerprint(*arrays: Any) -> str:
    """Hash of shapes, dtypes and bytes of arrays and sparse matrices."""
    digest = hashlib.sha256()
    for array in arrays:
        if sparse.issparse(array):
            parts = [array.data, array.indices, array.indptr]
        else:
            parts = [np.zeros(0) if array is None else on_host(array)]
        for part in parts:
            digest.update(f"{part.shape}{part.dtype}".encode())
            plain = np.array([repr(one) for one in part.ravel()]) if part.dtype.hasobject else part
            digest.update(np.ascontiguousarray(plain).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:32]


def lock(file: Any, name: str) -> None:
    """Lock the file, or raise an error if another process or thread has locked it; a lock ends with its process."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise JournalError(f"resume={name!r} is in use by another fit: give each fit a file of its own") from error
