"""The side of the rows: what one process holds, and how it carries out commands. It needs NumPy and this package."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

CACHED = 16_000  # rows of a block in memory: a vector of doubles over them has less than 128 KiB, and stays in a cache


class Ref(NamedTuple):
    """A value that the shards hold, by its number."""

    number: int


class RowCount(int):
    """The number of all rows, as a length: each block of rows reads its own number of rows for it."""


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


class Read(NamedTuple):
    """A value to send back, and how those of several blocks of rows are joined; None for a list of them.

    Values are joined along a tree of halves over all groups of blocks, so that the last bits do not depend on how the
    groups are spread over shards.
    """

    number: int
    how: str | None


# -- values of several blocks


def root(rows: np.ndarray) -> np.ndarray:
    """Upper triangular N with NᵀN = rowsᵀrows; with fewer rows than columns it has as many rows as they are."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


def root_of_both(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """`root` of rows, from those of two parts of them."""
    return root(np.concatenate([one, two]))


def moments(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Of each column its weight, mean, and sum of squares around that, (3, n_columns)."""
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.ones(len(rows)) if weights is None else weights
        total = np.sum(shares)
        mean = shares @ rows / (total or 1.0)
        return np.stack([np.full_like(mean, total), mean, shares @ (rows - mean) ** 2])


def moments_of_both(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """`moments` of rows, from those of two parts of them.

    Examples
    --------
    >>> x = np.arange(4.0)[:, None]
    >>> np.array_equal(moments_of_both(moments(x[:1], None), moments(x[1:], None)), moments(x, None))
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = one[0] + two[0]
        share, apart = two[0] / np.where(total > 0, total, 1.0), two[1] - one[1]
        return np.stack([total, one[1] + share * apart, one[2] + two[2] + one[0] * share * apart**2])


JOINS: dict[str, Callable] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "root": root_of_both,
    "moments": moments_of_both,
}


def combine(parts: Iterable[Any], how: str) -> Any:
    """Join values in the order of the rows, in float64. None stands for no rows.

    Examples
    --------
    >>> combine([np.ones(2), None, np.ones(2)], "sum")
    array([2., 2.])
    """
    total: Any = None
    for part in parts:
        if part is not None:
            wide = np.asarray(part, dtype=np.float64)
            total = wide if total is None else JOINS[how](total, wide)
    return total if total is None else np.array(total)


def fold_tree(node: tuple[int, int], known: Callable, value: Callable, join: Callable) -> Any:
    """Join the values of groups from the first to the last of `node`, by halves down to the nodes that are `known`.

    Examples
    --------
    >>> fold_tree((0, 5), lambda node: node[1] == node[0] + 1, lambda node: node[0], lambda one, two: (one, two))
    (((0, 1), 2), (3, 4))
    """
    if known(node):
        return value(node)
    middle = sum(node, 1) // 2
    return join(fold_tree((node[0], middle), known, value, join), fold_tree((middle, node[1]), known, value, join))


def nodes_within(first: int, stop: int, start: int, end: int) -> list[tuple[int, int]]:
    """The largest parts of the tree over groups `first` to `stop` that lie between `start` and `end`, in order.

    Examples
    --------
    >>> nodes_within(0, 8, 0, 4), nodes_within(0, 8, 3, 8)
    ([(0, 4)], [(3, 4), (4, 8)])
    """
    if start <= first and stop <= end:
        return [(first, stop)]
    middle = (first + stop + 1) // 2
    left = nodes_within(first, middle, start, end) if start < middle else []
    return left + (nodes_within(middle, stop, start, end) if end > middle else [])


# -- commands


def carry_out(command: Command, value: Callable[[int], Any], n_rows: int) -> Any:
    """Call the function of a command, given the values that it refers to and the number of rows."""
    assert command.function is not None
    args = resolve(command.args, value, n_rows)
    return command.function(*args, **{name: resolve(arg, value, n_rows) for name, arg in command.options.items()})


def resolve(arg: Any, value: Callable[[int], Any], n_rows: int) -> Any:
    """An argument with values, and the number of rows, in the place of references."""
    if isinstance(arg, Ref):
        return value(arg.number)
    if isinstance(arg, RowCount):
        return n_rows
    if type(arg) is tuple or type(arg) is list:
        return type(arg)(resolve(one, value, n_rows) for one in arg)
    return arg


def call_method(thing: Any, method: str, *args: Any) -> Any:
    """A method of a value."""
    return getattr(thing, method)(*args)


def references(arg: Any) -> set[int]:
    """Numbers of the values that an argument, or a command, refers to.

    Examples
    --------
    >>> references((1, [Ref(3)], Ref(4)))
    {3, 4}
    """
    if isinstance(arg, Ref):
        return {arg.number}
    if isinstance(arg, Command):
        return references(arg.args) | references(list(arg.options.values()))
    if type(arg) is tuple or type(arg) is list:
        return set().union(*(references(one) for one in arg))
    return set()


def needed_commands(log: Sequence[Command], live: set[int]) -> list[Command]:
    """The commands of a log on which the values `live` depend; what else they make is forgotten after its last use.

    Examples
    --------
    >>> log = [Command(1, np.sqrt, (Ref(0),)), Command(2, np.sum, (Ref(1),)), Command(3, np.negative, (Ref(1),))]
    >>> [(command.out, command.function) for command in needed_commands(log, {3})]
    [(1, <ufunc 'sqrt'>), (3, <ufunc 'negative'>), (1, None)]
    """
    made = {command.out for command in log if command.function is not None}  # the rows themselves are not
    wanted, kept = set(live), []
    for command in reversed(log):
        if command.function is None or command.out not in wanted:
            continue
        uses = references(command)
        kept += [Command(number, None) for number in (uses & made) - wanted]
        kept.append(command)
        wanted |= uses
    return kept[::-1]


# -- rows


class Block:
    """Some of the rows, in memory, and the values made of them.

    Parameters
    ----------
    values : sequence of arrays or None
        Arrays over the rows, such as X, y and weights; their numbers are 0, 1, ...
    """

    def __init__(self, values: Sequence[Any]):
        self.values: dict[int, Any] = dict(enumerate(values))
        self.n_rows = len(self.values[0])

    def execute(self, commands: Sequence[Command], reads: Iterable[int]) -> list[Any]:
        """Carry out the commands in order, and give the values of some numbers away: they are not kept."""
        for command in commands:
            if command.function is None:
                self.values.pop(command.out, None)
                continue
            result = carry_out(command, self.values.__getitem__, self.n_rows)
            if not command.writes:
                self.values[command.out] = result
        return [self.values.pop(number) for number in reads]


class Shard:
    """The rows of one worker, in groups of blocks. Each message is carried out for one block after the other.

    No command needs rows of another block, so that only one of them has to be in memory at a time.

    Parameters
    ----------
    *groups : list of Block, or of anything with its methods
        A group may be empty.
    nodes : list of tuple of int
        Parts of the tree over all groups that this shard has (see `nodes_within`). It answers with a value for each.

    Examples
    --------
    >>> shard = Shard([Block([np.arange(3.0)])], [Block([np.arange(2.0)])])
    >>> shard.execute([Command(1, np.sum, (Ref(0),))], [Read(1, "sum")])
    [[array(4.)]]
    """

    def __init__(self, *groups: Sequence[Any], nodes: Sequence[tuple[int, int]] | None = None):
        self.nodes = [(0, len(groups))] if nodes is None else list(nodes)
        leaves = [(leaf, leaf + 1) for first, stop in self.nodes for leaf in range(first, stop)]
        self._groups = dict(zip(leaves, map(list, groups), strict=True))

    @property
    def blocks(self) -> list[Any]:
        """The blocks of rows of all groups."""
        return [block for group in self._groups.values() for block in group]

    def execute(self, commands: Sequence[Command], reads: Sequence[Read]) -> list[list[Any]]:
        """Carry out the commands, and give some values away: of each a list, one for each node or for each block."""

        def value(leaf: tuple[int, int]) -> list[Any]:
            answers: list[Any] = [[] if how is None else None for _, how in reads]
            for block in self._groups[leaf]:  # joined one by one: products with all atoms are large
                found = block.execute(commands, [number for number, _ in reads])
                found = [[one] if how is None else one for (_, how), one in zip(reads, found, strict=True)]
                answers = join(answers, found)
            return answers

        def join(one: list[Any], two: list[Any]) -> list[Any]:
            pairs = zip(reads, one, two, strict=True)
            return [mine + theirs if how is None else combine([mine, theirs], how) for (_, how), mine, theirs in pairs]

        found = [fold_tree(node, self._groups.__contains__, value, join) for node in self.nodes]
        return [
            [one for values in found for one in values[index]] if how is None else [values[index] for values in found]
            for index, (_, how) in enumerate(reads)
        ]

    def answer(self, commands: bytes, reads: list[Read]) -> tuple[bool, Any]:
        """Carry out commands from another process, and give some values away.

        Returns whether all went well, and the values or the error.
        """
        try:
            return True, self.execute(pickle.loads(commands), reads)
        except Exception as error:
            return False, error


def shard_in_memory(nodes: list[tuple[int, int]], *chunks: tuple) -> Shard:
    """A shard with a group for each chunk of rows."""
    return Shard(*map(blocks_of, chunks), nodes=nodes)


def blocks_of(arrays: tuple) -> list[Block]:
    """A chunk in blocks of about the same length, in memory of their own; none where it has no rows."""
    rows = len(arrays[0])
    count = -(-rows // CACHED)
    edges = [rows * index // max(1, count) for index in range(count + 1)]
    return [
        Block([None if one is None else np.array(one[start:stop], order="C") for one in arrays])
        for start, stop in pairwise(edges)
    ]
