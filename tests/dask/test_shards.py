"""Arrays whose rows are held by shards: the same numbers as NumPy's, and the same atoms whatever the shards."""

import operator
from itertools import pairwise

import numpy as np
import pytest

from kernelpursuit import Squares, pursue
from kernelpursuit.atoms import KernelDictionary
from kernelpursuit.dask.arrays import NAMESPACE, Handle, Program, RemoteArray
from kernelpursuit.dask.atoms import RemoteDictionary, dictionary_at
from kernelpursuit.dask.cluster import shares
from kernelpursuit.dask.criteria import RemoteSquares
from kernelpursuit.dask.scratch import StoredBlock, open_array, store_chunk
from kernelpursuit.dask.shard import Block, Command, Ref, Shard, moments, nodes_within
from kernelpursuit.fitting.atom_family import AtomFamily
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms

CUTS = {"1": [], "2": [31], "3": [1, 40], "7": [3, 4, 10, 30, 31, 50], "empty": [20, 20]}


class Here:
    """Transport of commands to shards in this process, which counts messages."""

    def __init__(self, shards):
        self.shards, self.messages = list(shards), 0
        self.nodes = [(place, place + 1) for place in range(len(self.shards))]

    def execute(self, commands, reads):
        self.messages += 1
        return [shard.execute(commands, reads) for shard in self.shards]


def program_of(*arrays, cuts=(), directory=None):
    """Shards of some arrays in this process, and the arrays as they see them; in files, two blocks a shard."""
    edges = [0, *cuts, len(arrays[0])]
    parts = [tuple(array[a:b] for array in arrays) for a, b in pairwise(edges)]
    if directory is None:
        shards = [Shard([Block(part)]) for part in parts]
    else:
        halves = [store_chunk(part, max(1, len(part[0]) // 2), str(directory)) for part in parts if len(part[0])]
        shards = [Shard([StoredBlock(half, str(directory)) for half in some]) for some in halves]
    program = Program(Here(shards), len(arrays[0]), len(arrays))
    return program, [RemoteArray(program, number, array[:0], 0) for number, array in enumerate(arrays)]


def joined(array):
    """All rows of a sharded array, for comparison."""
    return np.concatenate(array.program.collect(operator.pos, array), axis=array.axis)


@pytest.fixture
def everything_in_files(monkeypatch, tmp_path):
    """A directory; arrays that are small go to files as well."""
    monkeypatch.setattr("kernelpursuit.dask.scratch.SMALL", 0)
    return tmp_path


def test_moments_of_shards_without_weight():
    """Means of rows of weight 0 are not defined, and must not make the others undefined."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    weights = np.where(np.arange(30) < 20, 0.0, 2.0)
    program, (X, W) = program_of(x, weights, cuts=[10, 20])
    found = program.reduce(moments, X, W, how="moments")
    np.testing.assert_allclose(found, moments(x[20:], weights[20:]), rtol=1e-12)


@pytest.mark.parametrize("where", ["memory", "files"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_the_operations_of_sample_space(cuts, where, everything_in_files):
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(60, 4)), rng.normal(size=60)
    _, (X, V) = program_of(x, v, cuts=cuts, directory=everything_in_files if where == "files" else None)
    xp, small = NAMESPACE, rng.normal(size=(4, 3))
    for ours, theirs in [
        (X @ small, x @ small),
        (small.T @ X.T, small.T @ x.T),
        (2 - X * V[:, None] / 3, 2 - x * v[:, None] / 3),
        (X[:, 1], x[:, 1]),
        (X[:, 1:3].T[0, :], x[:, 1:3].T[0]),
        (X[..., None], x[..., None]),
        (X.T[None, ...], x.T[None, ...]),
        (V[None, :], v[None, :]),
        (xp.where(V > 0, V, -V), np.abs(v)),
        (xp.concat([X, V[:, None]], axis=1), np.column_stack([x, v])),
        (xp.stack([V, V + 1], axis=0), np.stack([v, v + 1])),
        (xp.take(X, np.array([2, 0]), axis=1), x[:, [2, 0]]),
        (xp.sum(X, axis=1), x.sum(axis=1)),
        (xp.astype(X, np.float32), x.astype(np.float32)),
        (xp.ones((X.shape[0], 2), device=X.device), np.ones((60, 2))),
        (-(X**2) + xp.exp(X), -(x**2) + np.exp(x)),
    ]:
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(joined(ours), theirs, rtol=1e-14)
    for ours, theirs in [(X.T @ X, x.T @ x), (V @ X, v @ x), (xp.sum(X, axis=0), x.sum(axis=0)), (V @ V, v @ v)]:
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-12, atol=1e-12)
    assert float(xp.max(X)) == x.max()
    assert np.asarray(xp.min(X, axis=0)).tolist() == x.min(axis=0).tolist()


def test_what_waits_goes_in_one_message():
    x = np.arange(6.0)[:, None]
    program, (X,) = program_of(x, cuts=[2])
    rows = NAMESPACE.empty((3, X.shape[0]), device=X.device)
    rows[1, :] = X[:, 0]
    one, two = X.T @ X, rows[1, :] @ X
    assert program.transport.messages == 0
    assert np.asarray(one).item() == np.asarray(two).item() == 55
    assert program.transport.messages == 1
    del one, two, rows
    assert np.asarray(X.T @ X).item() == 55
    assert len(program.transport.shards[0].blocks[0].values) <= 3  # what nobody holds is dropped


def test_rows_do_not_come_here_by_themselves():
    _, (X,) = program_of(np.eye(3))
    with pytest.raises(TypeError, match="not brought together"):
        np.asarray(X)
    for key in (0, slice(1), np.array([1])):
        with pytest.raises(IndexError, match="rows"):
            X[key]
    with pytest.raises(IndexError, match="rows"):
        NAMESPACE.take(X, [0], axis=0)
    with pytest.raises(TypeError, match="over the rows"):
        X @ X.T


@pytest.mark.parametrize("seed", range(15))
def test_the_atoms_are_those_of_one_machine(seed, everything_in_files):
    """Duplicates included; weights and ridge by turns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2))
    x[40:] = x[:20] if seed % 2 else x[40:]
    y = rng.normal(size=(60, 1 + seed % 3))
    weights = rng.integers(1, 4, size=60).astype(float) if seed % 5 == 0 else np.ones(60)
    options = {"alpha": 0.1 * (seed % 4 == 1), "variant": ("prefit", "backfit", "basic")[seed % 3]}
    kernel, weakness = make_kernel("rbf", x), (1.0, 0.5)[seed % 2]
    one = KernelDictionary(x, x, kernel, storage="tiles")
    wanted = pursue(Squares(one, y, weights=weights, **options), n_atoms(10), lookahead=8, weakness=weakness)
    for cuts in [CUTS[name] for name in (("1", "7"), ("2", "3"))[seed % 2]]:
        program, (X, Y, W) = program_of(x, y, weights, cuts=cuts, directory=everything_in_files if seed < 6 else None)
        parts = Handle(program, program.add(KernelDictionary, X, x, kernel, storage="tiles"))
        dictionary = RemoteDictionary(program, parts, one, 16, float)
        found = pursue(RemoteSquares(dictionary, Y, weights=W, **options), n_atoms(10), lookahead=8, weakness=weakness)
        assert [step.atom for step in found.steps] == [step.atom for step in wanted.steps]
        np.testing.assert_allclose(found.values("loss"), wanted.values("loss"), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.values("leave_one_out"), wanted.values("leave_one_out"), rtol=1e-7)


def test_messages_are_for_blocks_of_atoms():
    """Not for each atom: steps of a block, and all that is known of it, are read together."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 4))
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=800))[:, None]
    program, (X, Y) = program_of(x, y, cuts=[300])
    kernel, centres = make_kernel("rbf", x), x[:500]
    parts = Handle(program, program.add(KernelDictionary, X, centres, kernel, storage="tiles"))
    here = KernelDictionary(centres, centres, kernel, storage="tiles")
    criterion = RemoteSquares(RemoteDictionary(program, parts, here, 1000, float), Y)
    path = pursue(criterion, n_atoms(60), lookahead=64, weakness=0.5)
    assert len(path) == 60 and program.transport.messages < 60
    Q = criterion.deflation.basis.directions
    np.testing.assert_allclose(np.asarray(Q @ Q.T), np.eye(Q.shape[0]), atol=1e-13)


def test_files_are_deleted_with_the_arrays(everything_in_files):
    _, (X,) = program_of(np.arange(8.0)[:, None], cuts=[4], directory=everything_in_files)
    files = len(list(everything_in_files.iterdir()))
    rows = NAMESPACE.empty((3, X.shape[0]), device=X.device)
    rows[1, :] = X[:, 0]
    view, twice = rows[1, :], 2 * X
    assert np.asarray(view @ X).item() == 140
    assert len(list(everything_in_files.iterdir())) == files + 2 * 4  # one for the room, one for the product; blocks
    rows[1, :] = twice[:, 0]
    assert np.asarray(view @ X).item() == 280  # a view sees what is written later
    del rows, view, twice
    assert np.asarray(X.T @ X).item() == 140
    assert len(list(everything_in_files.iterdir())) == files


def test_labels_in_files(tmp_path):
    ((place,),) = store_chunk([np.array(["yes", "no"] * 4000, dtype=object)], 8000, str(tmp_path))
    assert open_array(place)[:2].tolist() == ["yes", "no"]
    with pytest.raises(TypeError, match="values of type dict cannot be kept in files"):
        store_chunk([np.array([{}, {}])], 2, str(tmp_path))


@pytest.mark.parametrize("count", [1, 2, 5, 12, 13])
def test_sums_do_not_depend_on_how_chunks_are_spread(count):
    """To the last bit: they are made along one tree over all chunks."""
    x = np.random.default_rng(0).normal(size=(count, 40, 3)) * 10.0 ** np.arange(-3, 3).repeat(20).reshape(1, 40, 3)
    found = []
    for workers in range(1, count + 1):
        members = shares(0, count, workers)
        nodes = [nodes_within(0, count, share.start, share.stop) for share in members]
        shards = [
            Shard(*([Block([x[i]])] for i in share), nodes=some) for share, some in zip(members, nodes, strict=True)
        ]
        assert [i for share in members for i in share] == list(range(count))
        assert max(map(len, members)) - min(map(len, members)) <= 2
        assert workers & (workers - 1) or all(len(some) == 1 for some in nodes)  # powers of two: one value from each
        transport = Here(shards)
        transport.nodes = [node for some in nodes for node in some]
        X = RemoteArray(Program(transport, 40 * count, 1), 0, x[0, :0], 0)
        found.append([np.asarray(one).tobytes() for one in (X.T @ X, NAMESPACE.sum(X, axis=0), NAMESPACE.root(X))])
    assert all(one == found[0] for one in found)


def test_blocks_of_a_worker_share_their_centres():
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    data = TrainingData(x[:20], np.zeros(20), None, np.arange(20), 20)
    family = AtomFamily(data, np.random.default_rng(0), kernel=["rbf", "poly"], gamma=0.5)
    shard = Shard(*([Block([x[start : start + 20]])] for start in range(0, 60, 20)))
    shard.execute([Command(1, dictionary_at, (Ref(0), family, 1e6, "tiles", None))], [])
    first, *others = [block.values[1] for block in shard.blocks]
    for parts in (
        lambda one: [part._Z for part in one.parts],
        lambda one: [part._in_double()[1] for part in one.parts],
    ):
        assert all(mine is theirs for other in others for mine, theirs in zip(parts(first), parts(other), strict=True))
    for block in shard.blocks:
        wanted = family.at(block.values[0]).dictionary(10**6, "tiles")
        assert np.array_equal(block.values[1].columns(np.arange(40)), wanted.columns(np.arange(40)))
