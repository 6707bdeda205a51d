"""Dask collections: fitted where their rows are, predicted lazily, refused where that is not possible."""

import os
import signal
import threading
import time
from contextlib import nullcontext
from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

pytest.importorskip("distributed")
import dask.array as da
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

import dask
from dask import delayed
from kernelpursuit import (
    KMPClassifier,
    KMPRegressor,
    PursuitNystroem,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
    SparseKernelFDA,
    SparseKernelPCA,
)
from kernelpursuit.dask.cluster import Actors
from kernelpursuit.dask.collections import rows_on_cluster
from kernelpursuit.fitting.memory import free_memory
from tests.processes import forking
from tests.registry import CLASSES

pytestmark = pytest.mark.filterwarnings("default")  # those of Dask's own
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=300)
LABELS = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 0.5])]
W = RNG.integers(0, 3, size=300).astype(float)
QUIET = {"dashboard_address": None, "silence_logs": 50}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, **QUIET) as cluster,
        Client(cluster) as client,
    ):
        yield client


def chunks(array, sizes=(100, 1, 199)):
    return da.from_array(array, chunks=(sizes, *[-1] * (array.ndim - 1)))


@pytest.mark.parametrize(
    "model, y, weights",
    [
        (KMPRegressor(12), Y, None),
        (KMPRegressor(), Y, None),
        (KMPRegressor(12, alpha=0.1, centers=80, random_state=0), Y, W),
        (KMPRegressor(12, variant="basic", kernel=["rbf", ("rbf", {"gamma": 0.1})]), Y, None),
        (KMPRegressor(8, variant="backfit", candidates=30, random_state=0), np.stack([Y, X[:, 0]], axis=1), W),
        (KMPRegressor(8, centers=X[:50], functions=[lambda X: X], gamma=0.5), 1e9 * Y, None),
        (KMPClassifier(12, weakness=0.5, memory=0), LABELS, None),
        (KMPClassifier(8, stop="leave_one_out"), Y > 0, W),
        (KMPClassifier(), LABELS, None),
    ],
)
def test_the_model_is_that_of_one_machine(client, model, y, weights):
    wanted = clone(model).fit(X, y, weights)
    w = None if weights is None else chunks(weights)
    found = clone(model).fit(chunks(X), da.from_array(y, chunks=150), w)
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(
        found.dual_coef_, wanted.dual_coef_, rtol=1e-6, atol=1e-7 * np.abs(wanted.dual_coef_).max()
    )
    np.testing.assert_allclose(found.path_.values("loss"), wanted.path_.values("loss"), rtol=1e-8)
    assert isinstance(found.support_vectors_, np.ndarray) and found.n_features_in_ == 3
    lazy = found.predict(chunks(X))
    assert isinstance(lazy, da.Array) and lazy.shape == np.shape(found.predict(X))
    assert np.array_equal(lazy.compute(), found.predict(X)) or np.allclose(lazy.compute(), found.predict(X))


@pytest.mark.parametrize(
    "model, weights",
    [
        (SparseKernelPCA(15, n_components=4), None),
        (SparseKernelPCA(12, selection="diagonal", kernel="poly"), W),
        (SparseKernelPCA(12, weakness=0.5, memory=0, center=False), W),
        (SparseKernelPCA(10, candidates=30, random_state=1), W),
        (PursuitNystroem(n_components=12, gamma=0.3), W),
        (PursuitNystroem(n_components=8, selection="random", random_state=0), None),
    ],
)
@pytest.mark.parametrize("sizes", [(300,), (100, 1, 199), (1, 50, 0, 49, 100, 60, 40)], ids=str)
def test_points_are_those_of_one_machine(client, model, weights, sizes):
    """Duplicates included."""
    rows = np.concatenate([X[:250], X[:50]])
    wanted = clone(model).fit(rows, None, weights)
    found = clone(model).fit(chunks(rows, sizes), None, None if weights is None else chunks(weights))
    assert found.path_.atoms.tolist() == wanted.path_.atoms.tolist()
    np.testing.assert_allclose(found.residual_trace_, wanted.residual_trace_, rtol=1e-8, atol=1e-10)
    lazy = found.transform(chunks(rows))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), wanted.transform(rows), atol=1e-8)


@pytest.mark.parametrize(
    "model, y, weights, sizes",
    [
        (SparseKernelFDA(6), Y > 0, None, (300,)),
        (SparseKernelFDA(6, weakness=0.5, memory=0, class_weight={"mid": 3.0}), LABELS, W, (150, 150)),
        (SparseKernelFDA(6, candidates=60, random_state=0), LABELS, W / 100, (100, 1, 199)),
        (SparseKernelFDA(6, labels="raw"), LABELS, W, (1, 50, 0, 49, 100, 60, 40)),
    ],
)
def test_discriminants_are_those_of_one_machine(client, model, y, weights, sizes):
    """Duplicates included."""
    rows = np.concatenate([X[:250], X[:50]])
    wanted = clone(model).fit(rows, y, weights)
    w = None if weights is None else chunks(weights)
    found = clone(model).fit(chunks(rows, sizes), da.from_array(y, chunks=150), w)
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(found.path_.values("loss"), wanted.path_.values("loss"), rtol=1e-8)
    lazy = {name: getattr(found, name)(chunks(rows)) for name in ("transform", "predict", "predict_proba")}
    assert all(isinstance(one, da.Array) for one in lazy.values())
    values = da.compute(lazy)[0]
    np.testing.assert_allclose(values["transform"], wanted.transform(rows), atol=1e-5)
    np.testing.assert_allclose(values["predict_proba"], wanted.predict_proba(rows), atol=1e-5)
    assert np.array_equal(values["predict"], wanted.predict(rows))


@pytest.mark.parametrize(
    "y, weights, sizes",
    [(Y, None, (300,)), (LABELS, W, (100, 1, 199)), (np.stack([Y, X[:, 0] > 1], axis=1), W, (150, 150))],
)
def test_landmarks_by_y_are_those_of_one_machine(client, y, weights, sizes):
    model = PursuitNystroem(selection="prefit", n_components=25, gamma=0.3)
    wanted = clone(model).fit(X, y, weights)
    w = None if weights is None else chunks(weights)
    found = clone(model).fit(chunks(X, sizes), da.from_array(y, chunks=150), w)
    assert found.component_indices_.tolist() == wanted.component_indices_.tolist()
    np.testing.assert_allclose(found.residual_trace_, wanted.residual_trace_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.transform(chunks(X)).compute(), wanted.transform(X), atol=1e-6)


def test_whole_numbers_are_classes_or_values_as_on_one_machine(client):
    counts = np.round(30 * Y)
    for y, warns in [(np.digitize(Y, [-1, 0, 1]), False), (counts, False), (counts.astype(int), True)]:
        model = PursuitNystroem(selection="prefit", n_components=4, gamma=0.3)
        with pytest.warns(UserWarning, match="more than 20 distinct") if warns else nullcontext():
            found = clone(model).fit(chunks(X), chunks(y))
        with pytest.warns(UserWarning, match="more than 20 distinct") if warns else nullcontext():
            assert found.component_indices_.tolist() == clone(model).fit(X, y).component_indices_.tolist()


def test_many_rows_have_some_of_them_for_points(client, monkeypatch):
    monkeypatch.setattr("kernelpursuit.fitting.atom_family.MOST_CENTRES", 200)
    monkeypatch.setattr("kernelpursuit.fitting.atom_family.DRAWN", 90)
    model = SparseKernelPCA(12, random_state=0).fit(chunks(X), None, chunks(W))
    assert np.array_equal(model.support_vectors_, X[model.support_]) and np.all(W[model.support_] > 0)
    np.testing.assert_allclose(model.residual_trace_[-1], W @ model.residual(X))  # of all rows
    features = PursuitNystroem(n_components=12, random_state=0).fit(chunks(X))
    left = 1 - np.sum(features.transform(X) ** 2, axis=1)
    np.testing.assert_allclose(features.residual_trace_[-1], np.sum(left))


def test_single_precision_and_whole_numbers(client):
    wanted = KMPRegressor(8).fit(X.astype(np.float32), Y)
    found = KMPRegressor(8).fit(chunks(X.astype(np.float32)), chunks(Y))
    assert found.support_.tolist() == wanted.support_.tolist()
    assert found.support_vectors_.dtype == found.predict(chunks(X.astype(np.float32))).dtype == np.float32
    counts = np.round(10 * X).astype(int)
    found = KMPRegressor(8, gamma=0.01).fit(chunks(counts), chunks(np.round(Y).astype(int)))
    assert found.support_.tolist() == KMPRegressor(8, gamma=0.01).fit(counts, np.round(Y)).support_.tolist()


def test_dataframes(client):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    table = dd.from_pandas(frame, npartitions=3)
    target = dd.from_pandas(pd.Series(Y), npartitions=2)
    model = KMPRegressor(8).fit(table, target)
    wanted = KMPRegressor(8).fit(frame, Y)
    assert model.support_.tolist() == wanted.support_.tolist()
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict(table).compute(), wanted.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"a": "z"}))


def test_files_that_dask_reads_together(client, tmp_path):
    """Of small files with a column Dask makes fewer partitions than of those with all columns."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    for start in range(0, 300, 50):
        frame[start : start + 50].to_parquet(tmp_path / f"part.{start:03d}.parquet")
    table = dd.read_parquet(tmp_path)
    model = KMPRegressor(6).fit(table[["a", "b", "c"]], table["y"])
    assert model.support_.tolist() == KMPRegressor(6).fit(X, Y).support_.tolist()
    np.testing.assert_allclose(model.predict(table[["a", "b", "c"]]).compute(), model.predict(frame[["a", "b", "c"]]))


def test_lengths_that_nobody_knows_and_chunks_without_rows(client):
    rows = chunks(X)[da.from_array(np.ones(300, dtype=bool), chunks=100)]  # of unknown lengths
    target = chunks(Y)[da.from_array(np.ones(300, dtype=bool), chunks=60)]
    empty = da.concatenate([da.zeros((0, 3)), chunks(X), da.zeros((0, 3))])
    wanted = KMPRegressor(6).fit(X, Y).support_.tolist()
    assert KMPRegressor(6).fit(rows, target).support_.tolist() == wanted
    model = KMPRegressor(6).fit(empty, Y)
    assert model.support_.tolist() == wanted
    assert model.predict(empty).compute().shape == (300,)
    assert model.predict(rows).compute().shape == (300,)


def test_decision_functions_are_lazy(client):
    model = KMPClassifier(6).fit(chunks(X), chunks(LABELS))
    assert model.classes_.tolist() == ["high", "low", "mid"]
    values = model.decision_function(chunks(X))
    assert values.shape == (300, 3) and values.numblocks == (3, 1)
    np.testing.assert_allclose(values.compute(), model.decision_function(X))
    assert np.array_equal(model.predict(chunks(X)).compute(), model.predict(X))


@pytest.mark.parametrize("make", CLASSES, ids=lambda make: make.__name__)
def test_nothing_is_brought_into_memory_unasked(client, make):
    """What does not take collections says so, before a chunk is computed."""

    @delayed
    def never():
        raise AssertionError("a chunk was computed")

    rows = da.from_delayed(never(), shape=(300, 3), dtype=float)
    model = make()
    column, y = da.from_delayed(never(), shape=(300,), dtype=float), Y > 0 if is_classifier(model) else Y
    data = [(X, column)] if getattr(model, "_fits_collections", False) else [(rows, y), (X, column)]
    if "sample_weight" in signature(model.fit).parameters:
        data.append((X, y, column))
    reason = r"does not take Dask collections.*X\.compute\(\)"
    if getattr(model, "_fits_collections", False):
        reason = r"got a Dask collection beside an X that is none.*y\.compute\(\)"
    for given in data:
        with pytest.raises(TypeError, match=rf"^{make.__name__}.fit {reason}"):
            model.fit(*given)


def promised(shape, said=(10, 3)):
    """An array whose chunk is not what it says."""
    return da.from_delayed(delayed(np.ones)(shape), said, float)


def test_bad_input(client):
    model = KMPRegressor(5)
    for data, error, reason in [
        ((chunks(X), chunks(Y)[:200]), ValueError, "y must have a value for each of the 300 rows of X, got 200"),
        ((chunks(X), Y, chunks(W)[:10]), ValueError, "sample_weight must have a value"),
        ((chunks(X), Y, 0 * chunks(W)), ValueError, "all weights are zero"),
        ((chunks(X), Y, -chunks(W)), ValueError, "sample_weight must be finite numbers from 0 on"),
        ((chunks(X)[:, 0], Y), ValueError, "two dimensions"),
        ((chunks(X)[:0], Y[:0]), ValueError, "with rows and columns"),
        ((chunks(np.where(X > 2, np.nan, X)), Y), ValueError, "X contains NaN"),
        ((chunks(X), np.where(Y > 1, np.inf, Y)), ValueError, "y contains infinity"),
        ((chunks(X), Y, chunks(np.stack([W, W], axis=1))), ValueError, "sample_weight must have one dimension"),
        ((da.ma.masked_greater(chunks(X), 2), Y), ValueError, "X has masked values"),
        ((chunks(np.where(X > 2, ..., X)), Y), ValueError, "X must hold numbers"),
        ((promised((5, 3)), Y[:10]), ValueError, r"from row 0 on, was to have shape \(10, 3\) and has \(5, 3\)"),
        ((promised((10, 2)), Y[:10]), ValueError, r"was to have shape \(10, 3\) and has \(10, 2\)"),
        ((chunks(X[:10], (10,)), promised((5,), (10,))), ValueError, "has another length there"),
        ((client.submit(np.ones, (5, 2)), Y), TypeError, "X is a future"),
        ((delayed(np.ones)((5, 2)), Y), TypeError, "X must be a Dask array or dataframe, got Delayed"),
    ]:
        with pytest.raises(error, match=reason):
            model.fit(*data)
    for options, reason in [
        ({"stop": "validation"}, "stop='validation'"),
        ({"loss": "huber"}, "loss='huber' is not for Dask collections"),
        ({"kernel": "precomputed"}, "precomputed"),
    ]:
        with pytest.raises(ValueError, match=reason):
            clone(model).set_params(**options).fit(chunks(X), chunks(Y))
    with pytest.raises(ValueError, match="selection='prefit' chooses landmarks by y, which is None"):
        PursuitNystroem(selection="prefit").fit(chunks(X))
    with pytest.raises(ValueError, match="task='regression' needs numbers in y"):
        PursuitNystroem(selection="prefit", task="regression").fit(chunks(X), chunks(LABELS))
    with pytest.raises(ValueError, match="stop='bound'"):
        SparseKernelPCA(stop="bound").fit(chunks(X))
    big = da.random.default_rng(0).normal(size=(60_000, 1), chunks=30_000)
    with pytest.raises(ValueError, match="centers=None makes each of the 60000 rows a centre"):
        model.fit(big, big[:, 0])
    with pytest.raises(ValueError, match="two classes or more"):
        KMPClassifier(5).fit(chunks(X), chunks(np.zeros(300)))


def test_without_a_client_that_is_open(client):
    with client.as_current():
        pass
    closed = Client(client.cluster)
    with closed.as_current():
        closed.close()
        with pytest.raises(RuntimeError, match="needs a cluster and a client that is open"):
            KMPRegressor(5).fit(chunks(X), chunks(Y))


def test_a_journal_on_many(client, tmp_path):
    model = KMPRegressor(20, resume=tmp_path / "file")
    wanted = model.fit(chunks(X), chunks(Y)).dual_coef_.tobytes()
    content = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(content[: len(content) * 2 // 3])
    assert model.fit(chunks(X), chunks(Y)).dual_coef_.tobytes() == wanted
    with pytest.raises(ValueError, match="made on other data"):
        model.fit(chunks(X), chunks(Y + (Y == Y[5])))


def test_workers_of_one_machine_share_its_memory(client):
    with rows_on_cluster(KMPRegressor(), chunks(X), chunks(Y), None, np.asarray) as data:
        assert 0 < data.X.free_memory() < 1.5 * free_memory(None)


@pytest.mark.parametrize("where", ["memory", "files"])
def test_chunks_are_asked_of_no_worker_in_particular(client, monkeypatch, where):
    """With all workers gone at once, Dask would wait for ever for the one that was wished for."""
    if where == "files":
        monkeypatch.setattr("kernelpursuit.dask.collections.room_in_memory", lambda *given: 2**22)
    asked, compute = [], Client.compute

    def noted(self, *args, **options):
        asked.append(options)
        return compute(self, *args, **options)

    monkeypatch.setattr(Client, "compute", noted)
    KMPRegressor(3).fit(chunks(X), chunks(Y))
    assert asked and not any(options.get("workers") for options in asked)


@pytest.mark.parametrize("where", ["memory", "files"])
def test_bits_do_not_depend_on_the_number_of_workers(client, monkeypatch, where):
    if where == "files":
        monkeypatch.setattr("kernelpursuit.dask.collections.room_in_memory", lambda *given: 2**22)
    sizes = (40, 1, 0, 59, 3, 97, 100)
    rows, y, weights = chunks(X, sizes), chunks(1e3 * Y, sizes), W * (np.arange(300) >= 40)  # one chunk has none
    model = KMPRegressor(12, weakness=0.5, memory=0, centers=100, random_state=0)
    both = clone(model).fit(rows, y, weights).dual_coef_.tobytes()
    one = min(client.scheduler_info()["workers"])
    monkeypatch.setattr("kernelpursuit.dask.cluster.workers_of", lambda client: {one: 1})
    assert clone(model).fit(rows, y, weights).dual_coef_.tobytes() == both


def forked_workers():
    """Workers that start with everything imported, and so do those that come for the killed."""
    setting = dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context()  # names what the server imports, once
    forking()
    return setting


def test_workers_that_are_killed(monkeypatch):
    """Twice in one fit: it ends with the atoms and weights of a fit that nobody disturbed, to the last bit."""
    made = []
    start = Actors.__init__

    def remember(self, *args):
        start(self, *args)
        made.append(self)

    monkeypatch.setattr(Actors, "__init__", remember)
    with (
        forked_workers(),
        LocalCluster(n_workers=3, threads_per_worker=1, **QUIET) as cluster,
        Client(cluster) as client,
    ):
        model = KMPRegressor(12, centers=80, random_state=0)
        wanted = model.fit(chunks(X), chunks(Y)).dual_coef_.tobytes()
        victims = list(client.run(os.getpid).values())
        trips = made[0]._first

        def kill():
            for share, victim in zip((0.2, 0.6), victims[:2], strict=True):
                while len(made) < 2 or made[1]._first < share * trips:
                    time.sleep(0.002)
                os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = model.fit(chunks(X), chunks(Y)).dual_coef_.tobytes()
        killer.join()
        assert found == wanted
        assert made[1].lost >= 2


def test_workers_without_the_package():
    """Such a worker would end at the first message that it cannot read."""
    without = {"preload": ["import sys; sys.modules['kernelpursuit'] = None"]}
    with LocalCluster(n_workers=1, threads_per_worker=1, **without, **QUIET) as cluster, Client(cluster) as client:
        (address,) = client.nthreads()
        with pytest.raises(RuntimeError, match=f"kernelpursuit cannot be imported at {address}: install it there"):
            KMPRegressor(5).fit(chunks(X), chunks(Y))


def test_workers_with_another_version(client, monkeypatch):
    monkeypatch.setattr("kernelpursuit.dask.cluster.PACKAGE", "numpy")
    monkeypatch.setattr(client, "run_on_scheduler", lambda *args: "0.9")
    with client.as_current(), pytest.raises(RuntimeError, match=r"numpy is .* here and 0\.9 at the scheduler"):
        KMPRegressor(5).fit(chunks(X), chunks(Y))


def test_workers_without_a_module_of_the_users(client, monkeypatch):
    def absent(*args):
        raise ModuleNotFoundError("No module named 'mine'")

    monkeypatch.setattr("kernelpursuit.dask.collections.prepared_chunk", absent)
    with pytest.raises(RuntimeError, match=r"a worker lacks a module that is installed here.*No module named 'mine'"):
        KMPRegressor(5).fit(chunks(X), chunks(Y))


@pytest.mark.parametrize(
    "model, y, weights",
    [
        (RefinedKMPRegressor(6, epochs=4, random_state=0), Y, None),
        (RefinedKMPRegressor(6, epochs=2, random_state=0), np.stack([Y, 1e6 * X[:, 0]], axis=1), W),
        (RefinedKMPClassifier(6, epochs=4, random_state=0), LABELS, W),
    ],
)
def test_refined_models_of_many_rows(client, model, y, weights, monkeypatch):
    """Some rows come, the others take part where they are; the model is about as good as that of one machine."""
    monkeypatch.setattr("kernelpursuit.refined.refined_shards.SAMPLE", 120)
    w = None if weights is None else chunks(weights)
    found = clone(model).fit(chunks(X), chunks(y), w)
    here = clone(model).fit(X, y, weights)
    assert found.score(X, y) > here.score(X, y) - 0.1
    assert found.moved_ == "all" and found.centers_.shape == (6, 3) and found.n_features_in_ == 3
    again = clone(model).fit(chunks(X), chunks(y), w)
    assert again.dual_coef_.tobytes() == found.dual_coef_.tobytes()
    lazy = found.predict(chunks(X))
    assert isinstance(lazy, da.Array) and lazy.dtype == found.predict(X).dtype
    same = lazy.compute() == found.predict(X) if is_classifier(model) else np.isclose(lazy.compute(), found.predict(X))
    assert np.all(same)


def test_refined_models_of_float32_rows_far_from_0(client, monkeypatch):
    monkeypatch.setattr("kernelpursuit.refined.refined_shards.SAMPLE", 120)
    far = (X + np.array([0, 1e5, 0])).astype(np.float32)
    model = RefinedKMPRegressor(6, epochs=4, random_state=0)
    found, wanted = (clone(model).fit(chunks(far.astype(dtype)), chunks(Y)) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(found.predict(far), wanted.predict(far.astype(np.float64)), atol=1e-3)


@pytest.mark.parametrize("model", [KMPRegressor(8), RefinedKMPRegressor(3, epochs=2, random_state=0)])
def test_a_constant_target_has_no_say_in_the_others(client, model, monkeypatch):
    monkeypatch.setattr("kernelpursuit.refined.refined_shards.SAMPLE", 120)
    alone = clone(model).fit(chunks(X), chunks(Y))
    found = clone(model).fit(chunks(X), chunks(np.stack([np.full(len(Y), 1e6), Y], axis=1)))
    np.testing.assert_allclose(found.predict(X)[:, 1], alone.predict(X), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.predict(X)[:, 0], 1e6, rtol=1e-9)


def test_refined_models_of_few_rows_are_those_of_one_machine(client):
    """No more rows than would come anyway: they all do."""
    model = RefinedKMPRegressor(3, epochs=5, random_state=0)
    found = clone(model).fit(chunks(X[:60], (20, 40)), chunks(Y[:60], (60,)))
    assert found.dual_coef_.tobytes() == clone(model).fit(X[:60], Y[:60]).dual_coef_.tobytes()
    values, deviations = found.predict(chunks(X), return_std=True)
    wanted = found.predict(X, return_std=True)
    np.testing.assert_allclose(values.compute(), wanted[0])
    np.testing.assert_allclose(deviations.compute(), wanted[1])


def test_refined_journal_on_many(client, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelpursuit.refined.refined_shards.SAMPLE", 120)
    model = RefinedKMPClassifier(5, epochs=4, random_state=0, resume=tmp_path / "file")
    wanted = model.fit(chunks(X), chunks(LABELS)).dual_coef_.tobytes()
    content = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(content[: len(content) // 2])
    assert model.fit(chunks(X), chunks(LABELS)).dual_coef_.tobytes() == wanted
    with pytest.raises(ValueError, match="made on other data"):
        model.fit(chunks(X + (X == X[0, 0])), chunks(LABELS))
