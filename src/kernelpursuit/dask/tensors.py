"""The side of the rows where they are tensors of PyTorch, on the device of a worker: the same commands, done there.

Numbers with a fraction and truth values are on the device; labels, indices and all that is no array stay as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np

from kernelpursuit.arrays import namespace, on_host
from kernelpursuit.dask.shard import Block, Command, Shard, blocks_of, resolved

FIRST_USE = Lock()  # of linear algebra on CUDA: PyTorch loads it then, and fails if two threads of a process ask for it
DEVICES = "'cuda', 'cuda:1' and so on, 'cpu', 'auto' (CUDA where there is one, else NumPy), or None"


def check_name(device: Any) -> None:
    """An error for what is no name of a device."""
    known = device in (None, "auto", "cpu", "cuda")
    if not known and not (isinstance(device, str) and device.startswith("cuda:") and device[5:].isdigit()):
        raise ValueError(f"the configuration kernelpursuit.device={device!r} of Dask is unknown; valid: {DEVICES}")


def lacking(device: str | None) -> str | None:
    """What this process lacks to keep rows on a device; None if nothing."""
    if device is None or device == "auto":
        return None
    if find_spec("torch") is None:
        return "torch is not installed"
    cuda = import_module("torch").cuda
    if device != "cpu" and not cuda.is_available():
        return "torch sees no CUDA device"
    _, _, number = device.partition(":")
    if number and int(number) >= cuda.device_count():
        return f"torch sees {cuda.device_count()} CUDA devices"
    return None


def no_device(device: str | None, where: str) -> str:
    """What to say where workers do not have the device."""
    return (
        f"kernelpursuit.device={device!r} is not to be had at {where}; 'auto' takes it where it is, and NumPy elsewhere"
    )


def settled(device: str | None) -> str | None:
    """The device of this process: "auto" is CUDA where there is one, else None, which is NumPy."""
    return ("cuda" if lacking("cuda") is None else None) if device == "auto" else device


def is_tensor(x: Any) -> bool:
    """Whether it is one of PyTorch's."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "device")


def placed(value: Any, device: Any) -> Any:
    """Arrays of numbers with a fraction, or of truth values, on the device; also those in tuples."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fb":
        return moved(value, device)
    if isinstance(value, tuple):
        return rebuilt(value, [placed(one, device) for one in value])
    return value


def moved(array: np.ndarray, device: Any) -> Any:
    """A NumPy array on the device; what is written there is not written here."""
    return import_module("torch").tensor(array, device=device)


def hosted(value: Any) -> Any:
    """Tensors as NumPy arrays; also those in lists, tuples and dicts."""
    if is_tensor(value):
        return on_host(value)
    if isinstance(value, dict):
        return {name: hosted(one) for name, one in value.items()}
    return rebuilt(value, [hosted(one) for one in value]) if isinstance(value, list | tuple) else value


def rebuilt(like: Any, parts: list[Any]) -> Any:
    """A list, tuple or named tuple of other things."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def contains_tensor(value: Any) -> bool:
    """Whether there is a tensor, perhaps inside of lists or tuples."""
    return any(map(contains_tensor, value)) if isinstance(value, list | tuple) else is_tensor(value)


class TensorRows(Shard):
    """A shard whose rows are tensors, in one block for each part of the tree; where "auto" finds no device, NumPy's.

    Parameters
    ----------
    nodes : list of tuple of int
        As `Shard` has them.
    device, address : str
        Of the tensors, and of the worker.
    *parts : tuple
        What the chunks hold.
    """

    def __init__(self, nodes: list[tuple[int, int]], device: str, address: str, *parts: tuple):
        if lack := lacking(device):
            raise RuntimeError(no_device(device, f"{address} ({lack})"))
        where, origin = settled(device), nodes[0][0]
        if where is None:
            super().__init__(*map(blocks_of, parts), nodes=nodes)
            return
        torch = import_module("torch")
        with FIRST_USE:
            torch.linalg.qr(torch.ones((1, 1), device=where))
        try:
            groups = [block_of(parts[first - origin : stop - origin], where) for first, stop in nodes]
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            rows = sum(len(part[0]) for part in parts)
            raise MemoryError(
                f"{rows:,} rows do not fit onto device {where} of the worker at {address}: {error}"
            ) from error
        super().__init__(*groups, nodes=nodes, whole=True)


def block_of(parts: Sequence[tuple], device: str) -> list[TensorBlock]:
    """Chunks as one block of tensors; none where they have no rows."""
    some = [part for part in parts if len(part[0])]
    return [TensorBlock([list(values) for values in zip(*some, strict=True)], device)] if some else []


class TensorBlock(Block):
    """Some of the rows as tensors, and the values made of them.

    Parameters
    ----------
    values : sequence of ndarray, list of ndarray, or None
        What is held of the rows, as `Block` has it; parts in a list are joined on the device.
    device : str
    """

    def __init__(self, values: Sequence[Any], device: str):
        self._device = device
        super().__init__([self._joined(one) if isinstance(one, list) else placed(one, device) for one in values])

    def _joined(self, parts: list[Any]) -> Any:
        """Parts as one array; each is moved alone, so that all of them are nowhere twice on the host."""
        if parts[0] is None or len({part.dtype for part in parts}) > 1 or parts[0].dtype.kind not in "fb":
            return None if parts[0] is None else placed(np.concatenate(parts), self._device)
        torch, rows = import_module("torch"), [len(part) for part in parts]
        like = torch.from_numpy(parts[0][:0])
        whole = torch.empty((sum(rows), *parts[0].shape[1:]), dtype=like.dtype, device=self._device)
        for part, stop in zip(parts, np.cumsum(rows), strict=True):
            whole[stop - len(part) : stop] = torch.from_numpy(np.ascontiguousarray(part))
        return whole

    def _given(self, value: Any) -> Any:
        return hosted(value)

    def _called(self, command: Command) -> Any:
        function: Any = command.function
        args = [resolved(arg, self.values.__getitem__, self.n_rows) for arg in command.args]
        options = {name: resolved(arg, self.values.__getitem__, self.n_rows) for name, arg in command.options.items()}
        if hasattr(function, "takes_tensors"):
            return function(*args, **options)
        new = function in (np.empty, np.ones)
        if new or (contains_tensor(args) and (function in for_tensors() or function.__module__ == "_operator")):
            if "dtype" in options:
                options["dtype"] = getattr(import_module("torch"), np.dtype(options["dtype"]).name)
            where = {"device": self._device} if new else {}
            return for_tensors().get(function, function)(*map(self._operand, args), **options, **where)
        return placed(function(*hosted(args), **hosted(options)), self._device)

    def _operand(self, arg: Any) -> Any:
        """A constant as tensors meet it."""
        if isinstance(arg, np.ndarray):
            return moved(arg, self._device)
        if isinstance(arg, np.generic):
            return arg.item()
        return type(arg)(map(self._operand, arg)) if type(arg) in (list, tuple) else arg


@cache
def for_tensors() -> dict[Callable, Callable]:
    """Functions of NumPy's that sample-space code uses often, as tensors have them. All others work on the host."""
    torch = import_module("torch")
    xp = namespace(torch.empty(0))

    def matmul(x: Any, y: Any) -> Any:
        wide = torch.promote_types(x.dtype, y.dtype)
        return x.to(wide) @ y.to(wide)

    def counted(function: Callable) -> Callable:
        """Arithmetic with truth values as 0 and 1, in the precision of the other side."""

        def arithmetic(x: Any, y: Any) -> Any:
            wide = [getattr(one, "dtype", torch.float64) for one in (y, x)]
            both = zip((x, y), wide, strict=True)
            return function(*(one.to(to) if getattr(one, "dtype", None) == torch.bool else one for one, to in both))

        return arithmetic

    # A block has rows, so that no value is needed for the largest of none.
    return {
        **{function: counted(function) for function in (operator.add, operator.sub, operator.mul, operator.truediv)},
        np.absolute: xp.abs,
        np.asarray: lambda x, dtype: x.to(dtype),
        np.concatenate: xp.concat,
        np.empty: xp.empty,
        np.exp: xp.exp,
        np.matmul: matmul,
        np.max: lambda x, axis, initial: xp.max(x, axis=axis),
        np.min: lambda x, axis, initial: xp.min(x, axis=axis),
        np.ones: xp.ones,
        np.ones_like: xp.ones_like,
        np.sqrt: xp.sqrt,
        np.stack: xp.stack,
        np.sum: xp.sum,
        np.transpose: lambda x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
        np.where: xp.where,
    }
