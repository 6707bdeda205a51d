"""Objects as a tree of JSON values and a list of arrays, and back.

None, booleans, integers, finite floats and strings stand for themselves. Everything else is a dict with one key, which
says what it is: see the two functions below, which mirror each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit.arrays import is_array, on_host
from kernelpursuit.losses import Loss
from kernelpursuit.saving.types import HOMES, name_of, restore, state_of, type_of

SPARSE = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class ForeignObject(Exception):
    """The model holds an object that is not of this package."""


class Writer:
    """Turns objects into a tree; `arrays` collects what does not fit into JSON. An object met twice is written once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._array_number: dict[int, int] = {}
        self._object_number: dict[int, int] = {}
        self._alive: list[Any] = []  # or the number of an object would be given to another

    def node(self, value: Any, where: str) -> Any:
        """Tree of a value; `where` names it in errors."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, np.generic):
            return {"scalar": self.array(np.asarray(value))}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray) or is_array(value):
            return self.array(on_host(value))
        if sparse.issparse(value):
            parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
            nodes = {name: self.array(part) for name, part in parts.items()}
            return {"sparse": [type(value).__name__, list(value.shape), nodes]}
        if (name := name_of(type(value))) is not None:
            return self.object(value, name, where)
        return self.plain(value, where)

    def plain(self, value: Any, where: str) -> Any:
        """Tree of a container or a slice."""
        if type(value) is dict:
            return {"dict": [[self.node(k, where), self.node(v, f"{where}[{k!r}]")] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        for name, kind in CONTAINERS.items():
            if type(value) is kind:
                items: Any = value
                return {name: [self.node(item, f"{where}[{i}]") for i, item in enumerate(items)]}
        if callable(value) and not hasattr(value, "fit"):
            raise TypeError(f"{where} is a function, {value!r}: a file that runs no code cannot hold it")
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            raise TypeError(f"{where} is a generator of random numbers: set it to an int or None to save the model")
        if isinstance(value, Loss):
            raise TypeError(f"{where} is a loss of your own, {value!r}: a file that runs no code cannot hold it")
        raise ForeignObject(f"{where} is a {type(value).__name__}")

    def object(self, value: Any, name: str, where: str) -> Any:
        """Tree of an object of this package."""
        if id(value) in self._object_number:
            return {"same": self._object_number[id(value)]}
        state = {}
        for key, part in state_of(value).items():
            if hasattr(value, "get_params"):  # parameters, and what a fit added
                state[key] = {"dict": [[k, self.node(v, f"{where}.{k}")] for k, v in part.items()]}
            else:
                state[key] = self.node(part, f"{where}.{key}")
        self._object_number[id(value)] = len(self._object_number)  # numbered when complete, as they are read
        self._alive.append(value)
        return {"object": [name, state]}

    def array(self, value: np.ndarray) -> Any:
        """Tree of an array."""
        if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            if id(value) not in self._array_number:
                self._array_number[id(value)] = len(self.arrays)
                self.arrays.append(value)
                self._alive.append(value)
            order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
            return {"array": [self._array_number[id(value)], order]}
        if value.dtype.kind in "UO" and all(isinstance(text, str) for text in value.flat):
            return {"strings": [value.dtype.str if value.dtype.kind == "U" else "O", list(value.shape), value.tolist()]}
        if value.dtype.kind == "O":
            items = [self.node(item, "an array of objects") for item in value.flat]
            return {"objects": [list(value.shape), items]}
        raise TypeError(f"arrays of type {value.dtype} cannot be saved")


class Reader:
    """Turns a tree back into objects. Whatever is not as `Writer` makes it raises ValueError, KeyError or TypeError."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays
        self._objects: list[Any] = []

    def value(self, node: Any) -> Any:
        """Value of a tree."""
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if not isinstance(node, dict) or len(node) != 1:
            raise ValueError("a node of the header is neither a plain value nor a dict with one key")
        ((kind, content),) = node.items()
        if kind in CONTAINERS:
            return CONTAINERS[kind](self.value(item) for item in content)
        read = {
            "float": lambda text: float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[text]),
            "dict": lambda pairs: {self.value(k): self.value(v) for k, v in pairs},
            "slice": lambda ends: slice(*ends),
            "scalar": lambda inner: self.value(inner)[()],
            "same": lambda number: self._objects[plain_index(number, len(self._objects))],
            "array": self._array,
            "strings": self._strings,
            "objects": self._object_array,
            "sparse": self._sparse,
            "object": self._object,
        }.get(kind)
        if read is None:
            raise ValueError(f"the header has a node of unknown kind {kind!r}")
        return read(content)

    def _array(self, content: Any) -> np.ndarray:
        number, order = content
        array = self.arrays[plain_index(number, len(self.arrays))]
        if order == "F" and not array.flags.f_contiguous:  # the same array for all who share it
            array = self.arrays[number] = np.asfortranarray(array)
        return array

    def _strings(self, content: Any) -> np.ndarray:
        dtype, shape, nested = content
        texts = np.array(nested, dtype=object).reshape(shape)
        if not all(isinstance(text, str) for text in texts.flat):
            raise ValueError("an array of strings holds something else")
        longest = max((len(text) for text in texts.flat), default=0)
        if dtype != "O" and int(dtype.removeprefix("<U")) > max(longest, 1):
            raise ValueError("an array of strings says that it is longer than it is")  # or a lie would take memory
        return texts if dtype == "O" else texts.astype(dtype)

    def _object_array(self, content: Any) -> np.ndarray:
        shape, items = content
        values = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            values[i] = self.value(item)
        return values.reshape(shape)

    def _sparse(self, content: Any) -> Any:
        name, shape, parts = content
        data, indices, indptr = (self.value(parts[key]) for key in ("data", "indices", "indptr"))
        matrix = SPARSE[name]((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _object(self, content: Any) -> Any:
        name, state = content
        if name not in HOMES:
            raise ValueError(f"the header names the type {name!r}, which model files do not hold")
        value = restore(type_of(name), {key: self.value(part) for key, part in state.items()})
        if name == "Expansion":
            check_expansion(value)
        self._objects.append(value)
        return value


def plain_index(number: Any, length: int) -> int:
    """An index that counts from the front."""
    if type(number) is not int or not 0 <= number < length:
        raise ValueError(f"the header refers to {number!r} of {length}")
    return number


def check_expansion(expansion: Any) -> None:
    """ValueError where the parts of an expansion do not fit together, which prediction might not notice."""
    k, of_kernels = len(expansion.sources), int(np.sum(expansion.sources >= 0))
    if expansion.precomputed is None and expansion.centers.shape[0] != of_kernels:
        raise ValueError(f"{expansion.centers.shape[0]} centres for {of_kernels} atoms")
    if k and int(np.max(expansion.sources)) >= max(len(expansion.kernels), 1):
        raise ValueError("an atom names a kernel that is not there")
    for name, length in {"widths": k, "coef": k + 1, "input_weights": expansion.centers.shape[-1]}.items():
        part = getattr(expansion, name)
        if part is not None and len(part) != length:
            raise ValueError(f"{name} has length {len(part)} where {length} is needed")
