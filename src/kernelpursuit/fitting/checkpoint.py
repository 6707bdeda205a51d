"""Fits that survive their process: each step is appended to a file, and the same call goes on from there.

What goes on must end with the bits that an undisturbed fit ends with, although the products that a pursuit keeps up to
date carry rounding errors of their own history. So a fit that keeps a checkpoint runs in *legs*: after 8, 12, 18, ...
steps it makes its criterion anew and takes the atoms of the path again. At these points its state is a function of the
path alone. A fit that goes on does so at the last of them, and takes the recorded steps after it once more.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Number
from pathlib import Path as File
from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.dask.arrays import Sharded
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.pursuit.loop import Path, Step, StopRule
from kernelpursuit.pursuit.stopping import n_atoms

FORMAT = 2
BEGINNING = 20  # bytes, up to the format, by which a file whose first line is torn is known
LEG = "end of a leg"
FIRST_LEG, GROWTH = 8, 1.5  # steps; a leg that is taken once more is at most a third of the path
WITHOUT_EFFECT = {"checkpoint", "verbose", "n_jobs", "random_state", "warm_start"}  # on what is fitted


class Journal:
    """A file to which lines are added: first one that says what it is of, then what was reached.

    Each line ends with a checksum. The first that is torn or damaged ends what is known, whatever comes after it: a fit
    goes on from there.

    Parameters
    ----------
    file : str or path
        Read if it is there, made if not.
    of : str
        What is fitted, and by which parameters: those of the file must be the same.
    parameters : dict of str
    seed : int
        Of the random draws, for a new file.

    Attributes
    ----------
    seed : int
        Of the file: draws are those of the fit that began it.
    lines : list
        Values that the file held, each with the place at which its line ends.
    begun : int
        Place at which the first of them begins.
    """

    def __init__(self, file: Any, of: str, parameters: dict[str, str], seed: int):
        self.name = os.fspath(file)
        if not File(self.name).parent.is_dir():
            raise ValueError(f"checkpoint={self.name!r}: there is no folder {str(File(self.name).parent)!r}")
        self._handle = os.open(self.name, os.O_RDWR | os.O_CREAT, 0o644)
        lock(self._handle, self.name)
        content = os.pread(self._handle, os.fstat(self._handle).st_size, 0)
        lines, self._size = whole_lines(content)
        header = {"kernelpursuit": FORMAT, "estimator": of, "parameters": parameters, "seed": seed}
        if lines or not json.dumps(header).encode().startswith(content[:BEGINNING]):
            check_header(lines[0][0] if lines else None, header, self.name)
        os.ftruncate(self._handle, self._size)  # what is torn or damaged
        if not lines:
            self.append(header)
        self.seed = int(lines[0][0]["seed"]) if lines else seed
        self.lines, self.begun = lines[1:], lines[0][1] if lines else self._size

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            os.close(self._handle)

    def append(self, *values: Any) -> None:
        """Add lines."""
        text = memoryview(b"".join(line_of(value) for value in values))
        os.lseek(self._handle, self._size, os.SEEK_SET)
        while text:  # by one call of the system, but for what is too large for one
            written = os.write(self._handle, text)
            self._size += written
            text = text[written:]

    def shorten(self, size: int) -> None:
        """Forget what the file holds beyond its first `size` bytes."""
        os.ftruncate(self._handle, size)
        self._size = size


class Checkpoint(Journal):
    """The file of a pursuit, or several: for each a line, and one for each step.

    Parameters
    ----------
    file : str or path
    estimator : estimator
        Its parameters must be those of the file.
    seed : int
        See `Journal`.
    """

    def __init__(self, file: Any, estimator: Any, seed: int):
        super().__init__(file, type(estimator).__name__, described_parameters(estimator), seed)
        self._recorded = split_pursuits(self.lines)
        self._begun = 0

    def cut(self, size: int) -> None:
        """Forget what the file holds beyond its first `size` bytes."""
        self.shorten(size)
        del self._recorded[self._begun :]

    def next_pursuit(self, data: TrainingData, memory: tuple[int, int]) -> Record:
        """The record of the next pursuit of the fit, on these rows and with this much memory."""
        place, known = self._begun, self._recorded[self._begun : self._begun + 1]
        self._begun += 1
        rows = fingerprint_of(data)
        if not known:
            self.append({"rows": rows, "memory": memory})
            return Record(self, place, memory)
        header, lines = known[0]
        if header["rows"] != rows:
            raise ValueError(other_data(self.name))
        return Record(self, place, tuple(header["memory"]), lines)


@dataclass
class Record:
    """Steps of one pursuit: those that the file holds, then those that are added."""

    checkpoint: Checkpoint
    place: int  # of the pursuit within its fit
    memory: tuple[int, int]
    lines: list[tuple[Any, int]] = field(default_factory=list)  # the start and each step with its passes; end in file

    def path(self, k: int) -> Path | None:
        """The first `k` steps as a path to go on with."""
        if k == 0:
            return None
        start, *steps = [Step(*tuples(values[:-1])) for values, _ in self.lines[: k + 1]]
        return Path(start=start, steps=steps, passes=self.lines[k][0][-1])

    def keep(self, path: Path, passes: float) -> None:
        """Write the last step, unless it is there; `passes` of this and earlier legs."""
        k = len(path)
        if k < len(self.lines):
            if path.steps[-1].atom == self.lines[k][0][0]:
                return
            warn(
                f"step {k} of checkpoint={self.checkpoint.name!r} took another atom this time: another number of "
                "threads or other versions of libraries round differently. The fit goes on with the new one"
            )
            self.checkpoint.cut(self.lines[k - 1][1])
            del self.lines[k:]
        values = [[*path.start.known(), 0.0]] if k == 1 and not self.lines else []
        values.append([*path.steps[-1].known(), passes])
        self.checkpoint.append(*values)
        self.lines += [(one, self.checkpoint._size) for one in values]


@dataclass
class Leg:
    """A part of a pursuit, from a path to the next point at which it is begun anew."""

    path: Path | None = None
    record: Record | None = None
    end: int = 0

    @property
    def rules(self) -> list[StopRule]:
        """Where it ends, if it has an end."""
        return [n_atoms(self.end, LEG)] if self.record is not None else []

    def keep(self, path: Path, passes: float) -> None:
        """Record the last step."""
        if self.record is not None:
            self.record.keep(path, path.passes + passes)


def legs(record: Record | None, path: Path | None) -> Iterator[Leg]:
    """The legs of a pursuit, one after the other. The caller runs each and stores its path in it."""
    if record is None:
        yield Leg(path)
        return
    if path is not None:
        raise ValueError("warm_start=True goes on with the model in memory, checkpoint with a file: give one of them")
    ends = leg_ends()
    end = next(ends)
    done = 0
    while end < len(record.lines) - 1:  # with a step after it: where a pursuit ended, no leg begins
        done, end = end, next(ends)
    leg = Leg(record.path(done), record, end)
    yield leg
    while leg.path is not None and leg.path.reason == LEG:
        leg = Leg(leg.path, record, next(ends))
        yield leg


def leg_ends() -> Iterator[int]:
    """Numbers of steps at which a pursuit is begun anew.

    Examples
    --------
    >>> ends = leg_ends()
    >>> [next(ends) for _ in range(6)]
    [8, 12, 18, 27, 40, 60]
    """
    end = FIRST_LEG
    while True:
        yield end
        end = int(end * GROWTH)


def line_of(value: Any) -> bytes:
    """A value as JSON, its checksum, and the end of the line.

    Examples
    --------
    >>> line_of([2, 3]).decode().rstrip()
    '[2, 3] 3f72ac6e'
    """
    text = json.dumps(value).encode()
    return text + b" " + checksum_of(text)


def checksum_of(text: bytes) -> bytes:
    """What ends the line of a text."""
    return b"%08x\n" % zlib.crc32(text)


def whole_lines(content: bytes) -> tuple[list[tuple[Any, int]], int]:
    """Values of the lines up to the first that is not as it was written, each with its end; the end of the last.

    Examples
    --------
    >>> whole_lines(line_of(1) + line_of([2, 3]) + line_of([4])[:-1])
    ([(1, 11), ([2, 3], 27)], 27)
    """
    lines: list[tuple[Any, int]] = []
    end = 0
    for line in content.splitlines(keepends=True):
        text, _, checksum = line.rpartition(b" ")
        if checksum != checksum_of(text):
            break
        end += len(line)
        lines.append((json.loads(text), end))
    return lines, end


def split_pursuits(lines: list[tuple[Any, int]]) -> list[tuple[dict, list[tuple[Any, int]]]]:
    """Lines by pursuits: the line that begins one, and those of its start and steps."""
    found: list[tuple[dict, list[tuple[Any, int]]]] = []
    for value, end in lines:
        if isinstance(value, dict):
            found.append((value, []))
        else:
            found[-1][1].append((value, end))
    return found


def tuples(values: list[Any]) -> list[Any]:
    """JSON's lists as tuples."""
    return [tuple(value) if isinstance(value, list) else value for value in values]


def check_header(header: Any, wanted: dict[str, Any], name: str) -> None:
    """An error that says what differs where a file is of another fit."""
    if not isinstance(header, dict) or header.get("kernelpursuit") != FORMAT:
        raise ValueError(f"checkpoint={name!r} is no checkpoint of this version: give another file, or delete this one")
    theirs, ours = header["parameters"], wanted["parameters"]
    differences = [
        f"{key}={theirs.get(key, 'absent')} there and {ours.get(key, 'absent')} here"
        for key in sorted(theirs.keys() | ours.keys())
        if theirs.get(key) != ours.get(key)
    ]
    if header["estimator"] != wanted["estimator"]:
        differences = [f"{header['estimator']} there and {wanted['estimator']} here"]
    if differences:
        raise ValueError(
            f"checkpoint={name!r} is of another fit: {'; '.join(differences)}. Give another file, or delete this one"
        )


def other_data(name: str) -> str:
    """Why a file is refused whose parameters are the same."""
    return (
        f"checkpoint={name!r} was made on other data than these: X, y or sample_weight differ. "
        "Give those, another file, or delete this one"
    )


def described_parameters(estimator: Any) -> dict[str, str]:
    """Parameters that decide what is fitted, in words that can be compared."""
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


def fingerprint_of(data: TrainingData) -> str:
    """Hash of the rows of a fit, wherever they are."""
    if not isinstance(data.X, Sharded):
        return fingerprint(data.X, data.y, data.weights)
    program, numbers = data.X.program, data.X.numbered.rows  # type: ignore[attr-defined]
    arrays = [array for array in data[:3] if array is not None]
    sums = [np.sum(program.collect(checksum, array, numbers), dtype=np.uint64) for array in arrays]
    return hashlib.sha256(repr([program.n_rows, *map(int, sums)]).encode()).hexdigest()[:32]


def checksum(array: np.ndarray, numbers: np.ndarray) -> np.uint64:
    """A number that changes with any bit of any row, or with its place; those of several shards are added."""
    width = array[:1].nbytes
    odd = np.random.default_rng(0).integers(2**63, size=width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    total = np.uint64(0)
    for start in range(0, len(array), 4096):
        some = slice(start, start + 4096)
        plain = np.ascontiguousarray(array[some]).view(np.uint8).reshape(-1, width)
        places = numbers[some].astype(np.uint64) * np.uint64(2) + np.uint64(1)
        total += np.sum((plain @ odd) * places, dtype=np.uint64)
    return total


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


def lock(handle: int, name: str) -> None:
    """An error where another process fits with this file; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ValueError(f"checkpoint={name!r} is in use by another fit: give each fit a file of its own") from error
