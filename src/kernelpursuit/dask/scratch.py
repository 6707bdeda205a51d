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

from kernelpursuit.dask.shard import Command, Ref, RowCount, Shard, carry_out, references

SMALL = 4096  # bytes that stay in memory
VIEWS = (operator.getitem, np.transpose)  # functions whose results may be views of what they are given


class StoredArray(NamedTuple):
    """An array in a file."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype


class File:
    """The file of an array, deleted with the last reference to it."""

    def __init__(self, array: StoredArray):
        self.array = array

    def __del__(self) -> None:
        with suppress(OSError):
            os.unlink(self.array.path)


class Recipe(NamedTuple):
    """A value that is made when it is needed: a view of a file, or an object that would hold rows in memory."""

    command: Command
    held: dict[int, Any]  # the values that it refers to


def reserve_file(shape: tuple[int, ...], dtype: Any, directory: str) -> StoredArray:
    """A new file with room for an array; entries that are never set take no room on the disk."""
    stored = StoredArray(os.path.join(directory, uuid.uuid4().hex), tuple(shape), np.dtype(dtype))
    with open(stored.path, "wb") as file:
        file.truncate(int(np.prod(shape, dtype=np.int64)) * stored.dtype.itemsize)
    return stored


def open_array(stored: StoredArray) -> np.ndarray:
    """The array of a file, which changes with it."""
    return np.asarray(np.memmap(stored.path, dtype=stored.dtype, mode="r+", shape=stored.shape))


def store(array: np.ndarray, directory: str) -> Any:
    """A small array itself, any other in a new file."""
    if array.nbytes <= SMALL:
        return np.array(array)
    stored = reserve_file(array.shape, array.dtype, directory)
    open_array(stored)[...] = array
    return stored


def store_chunk(arrays: Sequence[Any], rows: int, directory: str) -> list[tuple]:
    """Store arrays of one length, `rows` at a time: for each block its part of each array."""
    os.makedirs(directory, exist_ok=True)
    arrays = [None if array is None else without_objects(array) for array in arrays]
    return [
        tuple(None if array is None else store(array[start : start + rows], directory) for array in arrays)
        for start in range(0, len(arrays[0]), rows)
    ]


def without_objects(array: np.ndarray) -> np.ndarray:
    """An array of the same values that can be written to a file: Python's texts as NumPy's."""
    if not array.dtype.hasobject:
        return array
    plain = np.array(array.tolist())
    if plain.dtype.hasobject:
        kind = type(array.flat[0]).__name__
        raise TypeError(f"values of type {kind} cannot be kept in files: use numbers or strings")
    return plain


def shard_in_files(nodes: list[tuple[int, int]], *chunks: tuple[str, list[tuple]]) -> Shard:
    """A shard with a group for each chunk of rows, given their directory and what `store_chunk` made of them."""
    groups = ([StoredBlock(block, directory) for block in blocks] for directory, blocks in chunks)
    return Shard(*groups, nodes=nodes)


class StoredBlock:
    """A block of rows in files, with the methods of `Block`.

    Parameters
    ----------
    values : sequence of StoredArray, array or None
        Arrays over the rows. The files belong to the block from now on.
    directory : str
        For further files.
    """

    def __init__(self, values: Sequence[Any], directory: str):
        self._directory = directory
        self.n_rows = values[0].shape[0]
        # Between messages: `File`, `Recipe`, or a small value.
        self.values: dict[int, Any] = {
            number: File(value) if isinstance(value, StoredArray) else value for number, value in enumerate(values)
        }
        self._opened: dict[int, Any] = {}  # values in memory, while a message is carried out

    def execute(self, commands: Sequence[Command], reads: Iterable[int]) -> list[Any]:
        """Carry out the commands in order, and give the values of some numbers away: they are not kept."""
        for command in commands:
            self._carry_out(command)
        found = [self._give(number) for number in reads]
        self._close()
        return found

    def _value(self, number: int) -> Any:
        if number not in self._opened:
            self._opened[number] = self._open(self.values[number])
        return self._opened[number]

    def _open(self, held: Any) -> Any:
        if isinstance(held, File):
            return open_array(held.array)
        if isinstance(held, Recipe):
            return carry_out(held.command, lambda number: self._open(held.held[number]), self.n_rows)
        return held

    def _carry_out(self, command: Command) -> None:
        out = command.out
        if command.function is None:
            self.values.pop(out, None)
            self._opened.pop(out, None)
        elif command.function is np.empty:  # room for directions: it never has to be in memory as a whole
            shape = tuple(self.n_rows if isinstance(size, RowCount) else size for size in command.args[0])
            self.values[out] = File(reserve_file(shape, command.options["dtype"], self._directory))
        else:
            result = carry_out(command, self._value, self.n_rows)
            if command.writes:
                return
            self._opened[out] = result
            if not isinstance(result, np.ndarray | np.generic | float | int) or self._is_view(command, result):
                uses = references(command)
                if uses <= self.values.keys():
                    self.values[out] = Recipe(command, {number: self.values[number] for number in uses})

    def _is_view(self, command: Command, result: Any) -> bool:
        """Whether a result shares memory with the first argument, and so changes with it."""
        source = command.args[0] if command.args else None
        if command.function not in VIEWS or not isinstance(source, Ref) or not isinstance(result, np.ndarray):
            return False
        return np.may_share_memory(result, self._opened[source.number])

    def _give(self, number: int) -> Any:
        """A value that is not kept; a copy, where it lies in a file."""
        value = self._value(number)
        self.values.pop(number, None)
        del self._opened[number]
        return np.array(value) if isinstance(value, np.ndarray) else value

    def _close(self) -> None:
        """Write new arrays to files."""
        for number, value in self._opened.items():
            if number not in self.values:
                stored = store(value, self._directory) if isinstance(value, np.ndarray) else value
                self.values[number] = File(stored) if isinstance(stored, StoredArray) else stored
        self._opened = {}
