"""The side of the rows: what one process holds, and how it carries out commands. It needs NumPy and this package."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Ref(NamedTuple):
    """A value that the shards hold, by its number."""

    number: int


class Rows(int):
    """The number of all rows, as a length: each shard reads its own number of rows for it."""


class Command(NamedTuple):
    """A function to call with values and constants.

    Attributes
    ----------
    out : int
        Number of the value that the result becomes. With `writes`, of the value that the function changes.
    function : callable or None
        Found by its name in another process. None forgets the value.
    args : tuple
        Constants, or `Ref` where the shards have the value, also inside of lists, tuples and slices.
    options : dict
    writes : bool
    """

    out: int
    function: Callable | None
    args: tuple = ()
    options: dict[str, Any] = {}  # noqa: RUF012
    writes: bool = False


class Shard:
    """Some of the rows, and the values made of them.

    Parameters
    ----------
    *parts : tuples of arrays or None
        What to hold of each chunk of rows, such as (X, y, weights).

    Examples
    --------
    >>> shard = Shard((np.arange(3.0),), (np.arange(2.0),))
    >>> [float(value) for value in shard.execute([Command(1, np.sum, (Ref(0),))], [1])]
    [4.0]
    """

    def __init__(self, *parts: tuple):
        columns = list(zip(*parts, strict=True))
        self.values: dict[int, Any] = {
            number: None if column[0] is None else np.concatenate(column) for number, column in enumerate(columns)
        }
        self.n_rows = len(self.values[0])
        self.done = 0  # batches carried out

    def execute(self, commands: Sequence[Command], reads: Iterable[int]) -> list[Any]:
        """Carry out the commands in order, and give the values of some numbers away."""
        for command in commands:
            if command.function is None:
                self.values.pop(command.out, None)
                continue
            result = command.function(
                *(self._resolve(arg) for arg in command.args),
                **{name: self._resolve(value) for name, value in command.options.items()},
            )
            if not command.writes:
                self.values[command.out] = result
        return [self.values[number] for number in reads]

    def answer(self, batches: list[tuple[int, bytes]], reads: list[int]) -> tuple[bool, Any]:
        """The same for commands on their way from another process; a batch that was carried out before is not again.

        Returns whether all went well, and the values or what went wrong.
        """
        try:
            for number, batch in batches:
                if number > self.done:
                    self.done = number
                    self.execute(pickle.loads(batch), [])
            return True, [self.values[number] for number in reads]
        except Exception as error:
            return False, error

    def _resolve(self, arg: Any) -> Any:
        """An argument with values in the place of references."""
        if isinstance(arg, Ref):
            return self.values[arg.number]
        if isinstance(arg, Rows):
            return self.n_rows
        if type(arg) is tuple or type(arg) is list:
            return type(arg)(self._resolve(one) for one in arg)
        return arg


def references(arg: Any) -> set[int]:
    """Numbers of the values that an argument refers to.

    Examples
    --------
    >>> references((1, [Ref(3)], Ref(4)))
    {3, 4}
    """
    if isinstance(arg, Ref):
        return {arg.number}
    if isinstance(arg, dict):
        return references(list(arg.values()))
    if type(arg) is tuple or type(arg) is list:
        return set().union(*(references(one) for one in arg))
    return set()


def needed(log: Sequence[Command], live: set[int]) -> list[Command]:
    """The commands of a log on which the values `live` depend; what else they make is forgotten after its last use.

    Examples
    --------
    >>> log = [Command(1, np.sqrt, (Ref(0),)), Command(2, np.sum, (Ref(1),)), Command(3, np.negative, (Ref(1),))]
    >>> [(command.out, command.function) for command in needed(log, {3})]
    [(1, <ufunc 'sqrt'>), (3, <ufunc 'negative'>), (1, None)]
    """
    made = {command.out for command in log if command.function is not None}  # the rows themselves are not
    wanted, kept = set(live), []
    for command in reversed(log):
        if command.function is None or command.out not in wanted:
            continue
        uses = references(command.args) | references(command.options)
        kept += [Command(number, None) for number in (uses & made) - wanted]
        kept.append(command)
        wanted |= uses
    return kept[::-1]


def call(thing: Any, method: str, *args: Any, **options: Any) -> Any:
    """A method of a value."""
    return getattr(thing, method)(*args, **options)
