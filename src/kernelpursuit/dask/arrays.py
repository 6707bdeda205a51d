"""Remote arrays: their rows are held by shards, and have the operations that the criteria use.

Nothing is computed when an operation is written down: commands wait until a number is needed in this process, and go to
all shards in one message with all that is to be read. So a read is one message, however many operations came before it,
and all results that wait come along with the first that is asked for.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kernelpursuit.arrays import register_namespace
from kernelpursuit.dask.shard import Command, Read, Ref, RowCount, combined, in_tree, root

EXTREMES: dict[str, dict[str, float]] = {"max": {"initial": -np.inf}, "min": {"initial": np.inf}}  # of no numbers


class Transport(Protocol):
    """How commands get to the shards, see `dask.cluster`.

    Attributes
    ----------
    nodes : list of tuple of int
        Parts of the tree that the shards answer for, in the order of the rows: see `shard.nodes_within`.
    """

    nodes: list[tuple[int, int]]

    def execute(self, commands: list[Command], reads: list[Read]) -> list[list[Any]]:
        """Carry out commands at all shards. Returns what each reads, in the order of the rows: see `Shard.execute`."""


class Program:
    """The commands that wait for the next message, and the numbers of the values that they make.

    Parameters
    ----------
    transport : Transport
    n_rows : int
        Of all shards together.
    n_given : int
        Values that the shards hold from the start, with numbers 0, 1, ...

    Attributes
    ----------
    round_trips : int
        Messages to the shards, so far.
    """

    def __init__(self, transport: Transport, n_rows: int, n_given: int):
        self.transport, self.n_rows = transport, RowCount(n_rows)
        self.round_trips = 0
        self._next = n_given
        self._waiting: list[Command] = []
        self._unread: weakref.WeakValueDictionary[int, Reduced] = weakref.WeakValueDictionary()

    def add(self, function: Callable, *args: Any, **options: Any) -> int:
        """Write down a command; returns the number of its value."""
        number, self._next = self._next, self._next + 1
        self._waiting.append(Command(number, function, _sent(args), {key: _sent(one) for key, one in options.items()}))
        return number

    def map(self, function: Callable, *args: Any) -> RemoteArray:
        """The array of what a function makes of each row."""
        like = function(*map(_without_rows, args))
        return RemoteArray(self, self.add(function, *args), like, 0)

    def write(self, number: int, function: Callable, *args: Any) -> None:
        """Write down a command that changes a value."""
        self._waiting.append(Command(number, function, _sent(args), {}, True))

    def forget(self, number: int) -> None:
        """Let the shards drop a value."""
        self._waiting.append(Command(number, None))

    def reduce(self, function: Callable, *args: Any, how: str = "sum", **options: Any) -> Reduced:
        """A small array, joined of those that a function makes at each block of rows, when it is read."""
        found = Reduced(self, self.add(function, *args, **options), how)
        self._unread[found.number] = found
        return found

    def collect(self, function: Callable, *args: Any, **options: Any) -> list[Any]:
        """The values of a function at each block of rows, in the order of the rows, in a message of their own."""
        answers = self.read([Read(self.add(function, *args, **options), None)])
        return [value for answer in answers for value in answer[0]]

    def read(self, others: Sequence[Read] = ()) -> list[list[Any]]:
        """Send what waits in one message; all reductions that somebody still holds get their values.

        Returns what `others` read, a list for each shard.
        """
        unread = list(self._unread.values())
        commands, self._waiting = self._waiting, []
        self.round_trips += 1
        answers = self.transport.execute(commands, [*others, *(Read(one.number, one.how) for one in unread)])
        for place, one in enumerate(unread, start=len(others)):
            parts = [part for answer in answers for part in answer[place]]
            one.value = self._joined(dict(zip(self.transport.nodes, parts, strict=True)), one.how)
        self._unread.clear()
        return answers

    @staticmethod
    def _joined(parts: dict[tuple[int, int], Any], how: str) -> np.ndarray:
        """Values of the parts of the tree as one."""
        everything = next(iter(parts))[0], next(reversed(parts))[1]
        total = in_tree(everything, parts.__contains__, parts.__getitem__, lambda *two: combined(two, how))
        return np.array(total, dtype=np.float64)


def _sent(arg: Any) -> Any:
    """An argument as the shards get it."""
    if isinstance(arg, RemoteArray | Handle):
        return Ref(arg.number)
    if isinstance(arg, Reduced):
        return np.asarray(arg)
    if type(arg) is tuple or type(arg) is list:
        return type(arg)(_sent(one) for one in arg)
    return arg


class Reduced:
    """A small array of this process that is read when NumPy asks for it, or comes along with what is read before."""

    __array_ufunc__ = None

    def __init__(self, program: Program, number: int, how: str):
        self._program, self.number, self.how = program, number, how
        self.value: np.ndarray | None = None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.value is None:
            self._program.read()
        return np.asarray(self.value, dtype=dtype)

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def __del__(self) -> None:
        if self.value is None:
            self._program.forget(self.number)


class Handle:
    """A value that the shards hold and that is no array, such as a dictionary of their rows."""

    def __init__(self, program: Program, number: int):
        self.program, self.number = program, number


class RemoteArray:
    """An array with one long axis, whose entries along it are held by the shards.

    Parameters
    ----------
    program : Program
    number : int
        Of the value.
    like : ndarray
        What the array would be without rows: its dtype and its shape, 0 at the long axis.
    axis : int
        The long one.
    """

    __array_ufunc__ = None

    def __init__(self, program: Program, number: int, like: np.ndarray, axis: int):
        self.program, self.number, self.like, self.axis = program, number, like, axis
        self._free = weakref.finalize(self, program.forget, number)
        self._free.atexit = False

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError("the rows of this array are remote: they are not brought together in this process")

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths; that of the long axis is `RowCount`."""
        return tuple(self.program.n_rows if i == self.axis else size for i, size in enumerate(self.like.shape))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.like.ndim

    @property
    def dtype(self) -> np.dtype:
        """As NumPy's."""
        return self.like.dtype

    @property
    def device(self) -> Any:
        """Where new arrays of this kind are to be made."""
        return self.program

    @property
    def T(self) -> RemoteArray:
        """The axes in reverse."""
        return self._made(np.transpose, self, axis=self.ndim - 1 - self.axis)

    def _made(self, function: Callable, *args: Any, axis: int, **options: Any) -> RemoteArray:
        """An array by a function of arrays, tried out on arrays without rows."""
        like = function(*map(_without_rows, args), **options)
        return RemoteArray(self.program, self.program.add(function, *args, **options), like, axis)

    def __getitem__(self, key: Any) -> RemoteArray:
        key = key if isinstance(key, tuple) else (key,)
        if Ellipsis in key:
            place = key.index(Ellipsis)
            named = sum(one is not None for one in key) - 1
            key = (*key[:place], *[slice(None)] * (self.ndim - named), *key[place + 1 :])
        new, old = 0, 0  # axes of the result and of this array that are done with
        for one in key:
            if old == self.axis and one is not None:
                if one != slice(None):
                    raise IndexError("rows of a remote array cannot be taken out")
                break
            new += one is None or isinstance(one, slice)
            old += one is not None
        return self._made(operator.getitem, self, key, axis=new + max(0, self.axis - old))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.program.write(self.number, operator.setitem, self, key, value)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, RemoteArray) and self.axis == self.ndim - 1 and other.axis == max(0, other.ndim - 2):
            return self.program.reduce(np.matmul, self, other)
        if isinstance(other, RemoteArray) or self.axis == self.ndim - 1:
            raise TypeError("a product of remote arrays must run over the rows, or have a small array on one side")
        return self._made(np.matmul, self, np.asarray(other), axis=self.axis)

    def __rmatmul__(self, other: Any) -> RemoteArray:
        return self._made(np.matmul, np.asarray(other), self, axis=self.axis)


def _without_rows(arg: Any) -> Any:
    if isinstance(arg, RemoteArray):
        return arg.like
    if type(arg) is list or (type(arg) is tuple and any(isinstance(one, RemoteArray | RowCount) for one in arg)):
        return type(arg)(_without_rows(one) for one in arg)
    return 0 if isinstance(arg, RowCount) else np.asarray(arg) if isinstance(arg, Reduced) else arg


def elementwise(function: Callable, *args: Any, **options: Any) -> Any:
    """A function of arrays that broadcast, some of them remote."""
    some = [arg for arg in args if isinstance(arg, RemoteArray)]
    if not some:
        return function(*args, **options)
    # `RowCount` is a number here, and not a length: that of all rows, wherever it goes.
    args = tuple(np.asarray(a) if isinstance(a, Reduced) else int(a) if isinstance(a, RowCount) else a for a in args)
    like = function(*map(_without_rows, args), **options)
    (from_the_end,) = {arg.ndim - arg.axis for arg in some}
    program = some[0].program
    return RemoteArray(program, program.add(function, *args, **options), like, like.ndim - from_the_end)


def _operators() -> None:
    """Arithmetic and comparisons, forwards and backwards."""

    def forwards(function: Callable) -> Callable:
        return lambda self, other: elementwise(function, self, other)

    def backwards(function: Callable) -> Callable:
        return lambda self, other: elementwise(function, other, self)

    def alone(function: Callable) -> Callable:
        return lambda self: elementwise(function, self)

    for name in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne", "and_", "or_"):
        function = getattr(operator, name)
        setattr(RemoteArray, f"__{name.strip('_')}__", forwards(function))
        if name in ("add", "sub", "mul", "truediv", "pow", "and_", "or_"):
            setattr(RemoteArray, f"__r{name.strip('_')}__", backwards(function))
    for name in ("neg", "abs", "invert"):
        setattr(RemoteArray, f"__{name}__", alone(getattr(operator, name)))


_operators()


class RemoteNamespace:
    """The namespace of remote arrays: NumPy's functions, carried out where the rows are."""

    float64, float32 = np.float64, np.float32
    finfo = staticmethod(np.finfo)

    def __getattr__(self, name: str) -> Callable:
        function = getattr(np, name)
        return lambda *args, **options: elementwise(function, *args, **options)

    def asarray(self, x: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
        """Small arrays stay here, and go with the commands that use them."""
        return self.astype(x, dtype or x.dtype) if isinstance(x, RemoteArray) else np.asarray(x, dtype=dtype)

    def astype(self, x: Any, dtype: Any, copy: bool = True) -> Any:
        """With another dtype."""
        return x if x.dtype == dtype else elementwise(np.asarray, x, dtype=np.dtype(dtype))

    def _new(self, function: Callable, shape: tuple, dtype: Any, device: Any) -> Any:
        long = [i for i, size in enumerate(shape) if isinstance(size, RowCount)]
        if not long:
            return function(shape, dtype=dtype)
        like = function(tuple(0 if i in long else size for i, size in enumerate(shape)), dtype=dtype)
        return RemoteArray(device, device.add(function, shape, dtype=np.dtype(dtype)), like, long[0])

    def empty(self, shape: tuple, dtype: Any = np.float64, device: Any = None) -> Any:
        """A new array; remote if one of its lengths is the number of all rows."""
        return self._new(np.empty, shape, dtype, device)

    def ones(self, shape: tuple, dtype: Any = np.float64, device: Any = None) -> Any:
        """A new array of ones."""
        return self._new(np.ones, shape, dtype, device)

    def concat(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Arrays one after the other along a short axis."""
        return _joined_along(arrays, axis, False)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Arrays side by side along a new axis."""
        return _joined_along(arrays, axis, True)

    def take(self, x: Any, indices: Any, axis: int = 0) -> Any:
        """Some entries along a short axis."""
        if not isinstance(x, RemoteArray):
            return np.take(x, indices, axis=axis)
        key: list[Any] = [slice(None)] * x.ndim
        key[axis] = np.asarray(indices)
        if axis == x.axis:
            raise IndexError("rows of a remote array cannot be taken out")
        like = x.like[tuple(key)]
        return RemoteArray(x.program, x.program.add(operator.getitem, x, tuple(key)), like, x.axis)

    def sum(self, x: Any, axis: int | None = None, dtype: Any = None) -> Any:
        """Sums; over the rows they are known when they are read."""
        return _reduction("sum", x, axis, dtype=dtype or np.float64)

    def max(self, x: Any, axis: int | None = None) -> Any:
        """The largest entries, in the same way."""
        return _reduction("max", x, axis)

    def min(self, x: Any, axis: int | None = None) -> Any:
        """The smallest entries."""
        return _reduction("min", x, axis)

    def root(self, x: Any) -> Any:
        """Upper triangular N with NᵀN = xᵀx."""
        return x.program.reduce(root, x, how="root")


def _joined_along(arrays: Sequence[Any], axis: int, new: bool) -> Any:
    some = [one for one in arrays if isinstance(one, RemoteArray)]
    function: Callable = np.stack if new else np.concatenate
    if not some:
        return function(arrays, axis=axis)
    like = function([_without_rows(one) for one in arrays], axis=axis)
    if not new and axis == some[0].axis:
        raise IndexError("remote arrays cannot be joined along their rows")
    program = some[0].program
    long = some[0].axis + (new and axis <= some[0].axis)
    return RemoteArray(program, program.add(function, list(arrays), axis=axis), like, long)


def _reduction(name: str, x: Any, axis: int | None, **options: Any) -> Any:
    function = getattr(np, name)
    if not isinstance(x, RemoteArray):
        return function(x, axis=axis, **options)
    if axis is None or axis % x.ndim == x.axis:
        if name in EXTREMES:  # a shard may have no rows, and the largest of no numbers is no whole one
            x, options = NAMESPACE.astype(x, np.result_type(x.dtype, np.float32)), options | EXTREMES[name]
        return x.program.reduce(function, x, how=name, axis=axis, **options)
    axis = axis % x.ndim
    like = function(x.like, axis=axis, **options)
    return RemoteArray(x.program, x.program.add(function, x, axis=axis, **options), like, x.axis - (axis < x.axis))


NAMESPACE = RemoteNamespace()
register_namespace(RemoteArray, NAMESPACE)
