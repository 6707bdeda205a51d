"""Rows that stay in files: blocks of which one at a time is in memory.

Arrays of a block are mapped from their files while a message is carried out, and what it leaves is written to files of
its own. So a fit takes the memory of a block, and as much room on the disk as it would take memory.
"""

from __future__ import annotations

import operator
import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.dask.shard import Command, Ref, RowCount, called, references

SMALL = 4096  # bytes that stay in memory
VIEWS = (operator.getitem, np.transpose)  # functions whose results may be views of what they are given


class StoredArray(NamedTuple):
    """Where an array lies: the name of its file, its shape and its dtype."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype


def written(array: np.ndarray, directory: str) -> StoredArray:
    """The array in a new file."""
    place = reserved(array.shape, array.dtype, directory)
    mapped(place)[...] = array
    return place


def reserved(shape: tuple[int, ...], dtype: Any, directory: str) -> StoredArray:
    """A new file, as long as an array; nothing is written that nobody sets."""
    place = StoredArray(os.path.join(directory, uuid.uuid4().hex), tuple(shape), np.dtype(dtype))
    with open(place.path, "wb") as file:
        file.truncate(int(np.prod(shape, dtype=np.int64)) * place.dtype.itemsize)
    return place


def mapped(place: StoredArray) -> np.ndarray:
    """The array of a file; what is set in it is set in the file."""
    return np.asarray(np.memmap(place.path, dtype=place.dtype, mode="r+", shape=place.shape))


def in_files(arrays: Sequence[Any], rows: int, directory: str) -> list[tuple]:
    """Arrays of one length, `rows` at a time: for each block the places of its parts. Small parts stay as they are."""
    os.makedirs(directory, exist_ok=True)
    arrays = [None if array is None else without_objects(array) for array in arrays]
    return [
        tuple(None if array is None else kept(array[start : start + rows], directory) for array in arrays)
        for start in range(0, len(arrays[0]), rows)
    ]


def kept(array: np.ndarray, directory: str) -> Any:
    """The array itself if it is small, else the place of its file."""
    return np.array(array) if array.nbytes <= SMALL else written(array, directory)


def without_objects(array: np.ndarray) -> np.ndarray:
    """An array of these values that can be written to a file: labels of Python's as NumPy's."""
    if not array.dtype.hasobject:
        return array
    plain = np.array(array.tolist())
    if plain.dtype.hasobject:
        kind = type(array.flat[0]).__name__
        raise TypeError(f"values of type {kind} cannot be kept in files: use numbers or strings")
    return plain


class File:
    """An array in a file, which is deleted with the last that knows it."""

    def __init__(self, place: StoredArray):
        self.place = place

    def __del__(self) -> None:
        with suppress(OSError):
            os.unlink(self.place.path)


class Recipe(NamedTuple):
    """A value that is made when it is asked for: a view of a file, or an object that would hold rows in memory."""

    command: Command
    held: dict[int, Any]  # what its references mean


class StoredBlock:
    """A block of rows in files, with the methods of `Block`.

    Parameters
    ----------
    values : sequence of StoredArray, array or None
        What is held of the rows. The files belong to the block from now on.
    directory : str
        For further files.
    """

    def __init__(self, values: Sequence[Any], directory: str):
        self._directory = directory
        # Between messages: `File`, `Recipe`, or what is small.
        self.values: dict[int, Any] = {
            number: File(value) if isinstance(value, StoredArray) else value for number, value in enumerate(values)
        }
        first = values[0]
        self.n_rows = first.shape[0]

    def execute(self, commands: Sequence[Command], reads: Iterable[int]) -> list[Any]:
        """Carry out the commands in order, and give the values of some numbers away: they are not kept."""
        message = Message(self.values, self.n_rows, self._directory)
        for command in commands:
            message.carry_out(command)
        found = [message.give(number) for number in reads]
        self.values = message.held()
        return found


class Message:
    """The values of a block while a message is carried out.

    Parameters
    ----------
    held : dict
        What the block holds.
    n_rows : int
    directory : str
    """

    def __init__(self, held: dict[int, Any], n_rows: int, directory: str):
        self._held, self._n_rows, self._directory = dict(held), n_rows, directory
        self._now: dict[int, Any] = {}  # values as they are in memory

    def value(self, number: int) -> Any:
        """A value, from its file if need be."""
        if number not in self._now:
            self._now[number] = self._opened(self._held[number])
        return self._now[number]

    def _opened(self, held: Any) -> Any:
        if isinstance(held, File):
            return mapped(held.place)
        if isinstance(held, Recipe):
            return called(held.command, lambda number: self._opened(held.held[number]), self._n_rows)
        return held

    def carry_out(self, command: Command) -> None:
        """Carry out one command."""
        out = command.out
        if command.function is None:
            self._held.pop(out, None)
            self._now.pop(out, None)
        elif command.function is np.empty:  # room for directions: it never has to be in memory as a whole
            shape = tuple(self._n_rows if isinstance(size, RowCount) else size for size in command.args[0])
            self._held[out] = File(reserved(shape, command.options["dtype"], self._directory))
        else:
            result = called(command, self.value, self._n_rows)
            if command.writes:
                return
            self._now[out] = result
            if not isinstance(result, np.ndarray | np.generic | float | int) or self._is_view(command, result):
                uses = references(command.args) | references(command.options)
                if uses <= self._held.keys():
                    self._held[out] = Recipe(command, {number: self._held[number] for number in uses})

    def _is_view(self, command: Command, result: Any) -> bool:
        source = command.args[0] if command.args else None
        if command.function not in VIEWS or not isinstance(source, Ref) or not isinstance(result, np.ndarray):
            return False
        return np.may_share_memory(result, self._now[source.number])

    def give(self, number: int) -> Any:
        """A value that is not kept; a copy, where it lies in a file."""
        value = self.value(number)
        self._held.pop(number, None)
        del self._now[number]
        return np.array(value) if isinstance(value, np.ndarray) else value

    def held(self) -> dict[int, Any]:
        """What stays when the message is over: new arrays go to files."""
        for number, value in self._now.items():
            if number not in self._held:
                place = kept(value, self._directory) if isinstance(value, np.ndarray) else value
                self._held[number] = File(place) if isinstance(place, StoredArray) else place
        self._now = {}
        return self._held
