"""Remote arrays: their rows are held by shards, and have the operations that the criteria use.

Operations become commands, which wait until a number is needed in this process. Then they go to all shards in one
message, with all that is to be read. So a read is one message, however many operations came before it, and every result
that waits is read with the first that is needed.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any

import numpy as np

from kernelpursuit.arrays import register_namespace
from kernelpursuit.dask.shard import Command, Read, Ref, RowCount, combine, fold_tree, root

EXTREMES: dict[str, dict[str, float]] = {"max": {"initial": -np.inf}, "min": {"initial": np.inf}}  # of no numbers


class Program:
    """The commands that wait for the next message, and the numbers of the values that they make.

    Parameters
    ----------
    transport : cluster.Actors
        Or anything with its attribute `nodes` and its method `execute`.
    n_rows : int
        Of all shards together.
    n_given : int
        Values that the shards hold from the start, with numbers 0, 1, ...
    """

    def __init__(self, transport: Any, n_rows: int, n_given: int):
        self.transport, self.n_rows = transport, RowCount(n_rows)
        self._next = n_given
        self._waiting: list[Command] = []
        self._unread: weakref.WeakValueDictionary[int, Reduced] = weakref.WeakValueDictionary()

    def add(self, function: Callable, *args: Any, **options: Any) -> int:
        """Add a command; returns the number of its value."""
        number, self._next = self._next, self._next + 1
        sent = {name: _as_sent(option) for name, option in options.items()}
        self._waiting.append(Command(number, function, _as_sent(args), sent))
        return number

    def write(self, number: int, function: Callable, *args: Any) -> None:
        """Add a command that changes a value."""
        self._waiting.append(Command(number, function, _as_sent(args), {}, True))

    def forget(self, number: int) -> None:
        """Let the shards drop a value."""
        self._waiting.append(Command(number, None))

    def array(self, function: Callable, *args: Any, axis: int = 0, **options: Any) -> RemoteArray:
        """The remote array that a function makes at each block of rows, with the rows along `axis`.

        The function is tried out on arrays without rows, to know the other axes and the dtype.
        """
        like = function(*map(_without_rows, args), **options)
        return RemoteArray(self, self.add(function, *args, **options), like, axis % like.ndim)

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
        """Send what waits in one message; all reductions that are still referred to get their values.

        Returns what `others` read, a list for each shard. An interrupt (Ctrl-C) is raised when the answers are here, as
        values are read only once, and the steps that were taken become a model.
        """
        with ThreadPoolExecutor(1) as pool:  # interrupts come in the main thread, and leaving waits
            return pool.submit(self._read, others).result()

    def _read(self, others: Sequence[Read]) -> list[list[Any]]:
        unread = list(self._unread.values())
        commands, self._waiting = self._waiting, []
        answers = self.transport.execute(commands, [*others, *(Read(one.number, one.how) for one in unread)])
        for index, one in enumerate(unread, start=len(others)):
            parts = [part for answer in answers for part in answer[index]]
            one.value = self._joined(dict(zip(self.transport.nodes, parts, strict=True)), one.how)
        self._unread.clear()
        return answers

    @staticmethod
    def _joined(parts: dict[tuple[int, int], Any], how: str) -> np.ndarray:
        """Values of the parts of the tree as one."""
        everything = next(iter(parts))[0], next(reversed(parts))[1]
        total = fold_tree(everything, parts.__contains__, parts.__getitem__, lambda *two: combine(two, how))
        return np.array(total, dtype=np.float64)


def _as_sent(arg: Any) -> Any:
    """An argument as the shards get it."""
    if isinstance(arg, RemoteArray | Handle):
        return Ref(arg.number)
    if isinstance(arg, Reduced):
        return np.asarray(arg)
    if type(arg) is tuple or type(arg) is list:
        return type(arg)(_as_sent(one) for one in arg)
    return arg


def _without_rows(arg: Any) -> Any:
    """An argument as if there were no rows."""
    if isinstance(arg, RemoteArray):
        return arg.like
    if type(arg) is list or (type(arg) is tuple and any(isinstance(one, RemoteArray | RowCount) for one in arg)):
        return type(arg)(_without_rows(one) for one in arg)
    return 0 if isinstance(arg, RowCount) else np.asarray(arg) if isinstance(arg, Reduced) else arg


class Reduced(np.lib.mixins.NDArrayOperatorsMixin):
    """A small array of this process that is read when its entries are needed, or with what is read before."""

    def __init__(self, program: Program, number: int, how: str):
        self._program, self.number, self.how = program, number, how
        self.value: np.ndarray | None = None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.value is None:
            self._program.read()
        return np.asarray(self.value, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, Reduced) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)

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


class RemoteArray(np.lib.mixins.NDArrayOperatorsMixin):
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

    def __init__(self, program: Program, number: int, like: np.ndarray, axis: int):
        self.program, self.number, self.like, self.axis = program, number, like, axis
        self._free = weakref.finalize(self, program.forget, number)
        self._free.atexit = False

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError("the rows of this array are remote: they are not brought together in this process")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        options.pop("out", None)  # x += y makes a new array
        return matmul(*inputs) if ufunc is np.matmul else elementwise(ufunc, *inputs, **options)

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
        return self.program.array(np.transpose, self, axis=self.ndim - 1 - self.axis)

    def __getitem__(self, key: Any) -> RemoteArray:
        key = key if isinstance(key, tuple) else (key,)
        if dots := [index for index, one in enumerate(key) if one is Ellipsis]:
            named = sum(one is not None for one in key) - 1
            key = (*key[: dots[0]], *[slice(None)] * (self.ndim - named), *key[dots[0] + 1 :])
        new, old = 0, 0  # axes of the result and of this array before the long one
        for one in key:
            if old == self.axis and one is not None:
                if not (isinstance(one, slice) and one == slice(None)):
                    raise IndexError("rows of a remote array cannot be taken out")
                break
            new += not isinstance(one, Integral)
            old += one is not None
        return self.program.array(operator.getitem, self, key, axis=new + max(0, self.axis - old))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.program.write(self.number, operator.setitem, self, key, value)


def matmul(one: Any, two: Any) -> Any:
    """The product of a remote and a small array, or of two remote ones over their rows, which is small."""
    remote = [isinstance(arg, RemoteArray) for arg in (one, two)]
    if all(remote) and one.axis == one.ndim - 1 and two.axis == max(0, two.ndim - 2):
        return one.program.reduce(np.matmul, one, two)
    if all(remote) or (remote[0] and one.axis == one.ndim - 1):
        raise TypeError("a product of remote arrays must run over the rows, or have a small array on one side")
    if remote[0]:
        return one.program.array(np.matmul, one, np.asarray(two), axis=one.axis)
    return two.program.array(np.matmul, np.asarray(one), two, axis=two.axis)


def elementwise(function: Callable, *args: Any, **options: Any) -> Any:
    """A function of arrays that broadcast, some of them remote."""
    remote = [arg for arg in args if isinstance(arg, RemoteArray)]
    if not remote:
        return function(*args, **options)
    # `RowCount` is a number here, and not a length: that of all rows, wherever it goes.
    args = tuple(np.asarray(a) if isinstance(a, Reduced) else int(a) if isinstance(a, RowCount) else a for a in args)
    (from_the_end,) = {arg.ndim - arg.axis for arg in remote}
    return remote[0].program.array(function, *args, axis=-from_the_end, **options)


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

    def empty(self, shape: tuple, dtype: Any = np.float64, device: Any = None) -> Any:
        """A new array; remote if one of its lengths is the number of all rows."""
        return _new_array(np.empty, shape, dtype, device)

    def ones(self, shape: tuple, dtype: Any = np.float64, device: Any = None) -> Any:
        """A new array of ones."""
        return _new_array(np.ones, shape, dtype, device)

    def concat(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Arrays one after the other along a short axis."""
        return _joined_along(np.concatenate, arrays, axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Arrays side by side along a new axis."""
        return _joined_along(np.stack, arrays, axis)

    def take(self, x: Any, indices: Any, axis: int = 0) -> Any:
        """Some entries along a short axis."""
        return x[(*[slice(None)] * axis, np.asarray(indices))]

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


def _new_array(function: Callable, shape: tuple, dtype: Any, device: Any) -> Any:
    long = [axis for axis, size in enumerate(shape) if isinstance(size, RowCount)]
    if not long:
        return function(shape, dtype=dtype)
    return device.array(function, shape, axis=long[0], dtype=np.dtype(dtype))


def _joined_along(function: Callable, arrays: Sequence[Any], axis: int) -> Any:
    remote = [one for one in arrays if isinstance(one, RemoteArray)]
    if not remote:
        return function(arrays, axis=axis)
    long = remote[0].axis
    if function is np.concatenate and axis == long:
        raise IndexError("remote arrays cannot be joined along their rows")
    long += function is np.stack and axis <= long
    like = function([_without_rows(one) for one in arrays], axis=axis)
    program = remote[0].program
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
