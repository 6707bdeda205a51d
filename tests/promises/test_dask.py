"""What docs/dask.md promises: collections are fitted where their rows are, predicted lazily, else refused."""

import _thread
import os
import signal
import threading
from contextlib import contextmanager, nullcontext
from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import rbf_kernel

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
from kernelpursuit.parameters import columns
from kernelpursuit.pursuit import Stop
from tests.processes import forking
from tests.registry import DEFAULTS, label

pytestmark = pytest.mark.filterwarnings("default")  # those of Dask's own
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=300)
LABELS = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 0.5])]
W = RNG.integers(0, 3, size=300).astype(float)
DUPLICATES = np.concatenate([X[:250], X[:50]])
SIZES = [(300,), (100, 1, 199), (1, 50, 0, 49, 100, 60, 40)]
COLLECTING = {
    KMPRegressor,
    KMPClassifier,
    RefinedKMPRegressor,
    RefinedKMPClassifier,
    SparseKernelFDA,
    SparseKernelPCA,
    PursuitNystroem,
}
QUIET = {"dashboard_address": None, "silence_logs": 50}


def cluster_of(workers, **options):
    return LocalCluster(n_workers=workers, threads_per_worker=1, **QUIET, **options)


@pytest.fixture(scope="module")
def client():
    with cluster_of(2, processes=False) as cluster, Client(cluster) as client:
        yield client


@contextmanager
def worker_processes(workers):
    """A client of workers in processes, which start with everything imported; so do those that replace killed ones."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # names what the server imports, once
        forking()
        with cluster_of(workers) as cluster, Client(cluster) as client:
            yield client


def chunks(array, sizes=(100, 1, 199)):
    return None if array is None else da.from_array(array, chunks=(sizes, *[-1] * (array.ndim - 1)))


@delayed
def never():
    raise AssertionError("a chunk was computed")


def uncomputed(*shape):
    """A collection that fails the test where it is computed."""
    return da.from_delayed(never(), shape=shape, dtype=float)


# Equal models


@pytest.mark.parametrize(
    "model, y, weights",
    [
        (KMPRegressor(12), Y, None),
        (KMPRegressor(), Y, None),
        (KMPRegressor(12, alpha=0.1, centers=80, random_state=0), Y, W),
        (KMPRegressor(12, variant="basic", kernel=["rbf", ("rbf", {"gamma": 0.1})]), Y, None),
        (KMPRegressor(8, variant="backfit", candidates=30, random_state=0), np.stack([Y, X[:, 0]], axis=1), W),
        (KMPRegressor(8, centers=X[:50], kernel=["rbf", columns(lambda X: X)], gamma=0.5), 1e9 * Y, None),
        (KMPClassifier(12, weakness=0.5, memory=0), LABELS, None),
        (KMPClassifier(8, stop="leave_one_out"), Y > 0, W),
        (KMPClassifier(), LABELS, None),
    ],
)
def test_the_model_is_that_of_one_machine(client, model, y, weights):
    wanted = clone(model).fit(X, y, weights)
    found = clone(model).fit(chunks(X), da.from_array(y, chunks=150), chunks(weights))
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(
        found.dual_coef_, wanted.dual_coef_, rtol=1e-6, atol=1e-7 * np.abs(wanted.dual_coef_).max()
    )
    np.testing.assert_allclose(found.path_.values("loss"), wanted.path_.values("loss"), rtol=1e-8)
    assert isinstance(found.support_vectors_, np.ndarray) and found.n_features_in_ == 3
    if is_classifier(model):
        np.testing.assert_allclose(found.predict_proba(X), wanted.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "model, weights",
    [
        (SparseKernelPCA(15, n_components=4), None),
        (SparseKernelPCA(12, selection="diagonal", kernel="poly"), W),
        (SparseKernelPCA(12, weakness=0.5, memory=0), W),
        (SparseKernelPCA(10, candidates=30, random_state=1), W),
        (PursuitNystroem(n_components=12, gamma=0.3), W),
        (PursuitNystroem(n_components=8, selection="random", random_state=0), None),
    ],
)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_points_are_those_of_one_machine(client, model, weights, sizes):
    wanted = clone(model).fit(DUPLICATES, None, weights)
    found = clone(model).fit(chunks(DUPLICATES, sizes), None, chunks(weights))
    assert found.path_.atoms.tolist() == wanted.path_.atoms.tolist()
    np.testing.assert_allclose(found.residual_trace_, wanted.residual_trace_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.transform(DUPLICATES), wanted.transform(DUPLICATES), atol=1e-8)


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
    wanted = clone(model).fit(DUPLICATES, y, weights)
    found = clone(model).fit(chunks(DUPLICATES, sizes), da.from_array(y, chunks=150), chunks(weights))
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(found.path_.values("loss"), wanted.path_.values("loss"), rtol=1e-8)
    np.testing.assert_allclose(found.transform(DUPLICATES), wanted.transform(DUPLICATES), atol=1e-5)
    np.testing.assert_allclose(found.predict_proba(DUPLICATES), wanted.predict_proba(DUPLICATES), atol=1e-5)
    assert np.array_equal(found.predict(DUPLICATES), wanted.predict(DUPLICATES))


@pytest.mark.parametrize(
    "y, weights, sizes",
    [(Y, None, (300,)), (LABELS, W, (100, 1, 199)), (np.stack([Y, X[:, 0] > 1], axis=1), W, (150, 150))],
)
def test_landmarks_by_y_are_those_of_one_machine(client, y, weights, sizes):
    model = PursuitNystroem(selection="prefit", n_components=25, gamma=0.3)
    wanted = clone(model).fit(X, y, weights)
    found = clone(model).fit(chunks(X, sizes), da.from_array(y, chunks=150), chunks(weights))
    assert found.component_indices_.tolist() == wanted.component_indices_.tolist()
    np.testing.assert_allclose(found.residual_trace_, wanted.residual_trace_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.transform(X), wanted.transform(X), atol=1e-6)


def test_whole_numbers_are_classes_or_values_as_on_one_machine(client):
    counts = np.round(30 * Y)
    for y, warns in [(np.digitize(Y, [-1, 0, 1]), False), (counts, False), (counts.astype(int), True)]:
        model = PursuitNystroem(selection="prefit", n_components=4, gamma=0.3)
        with pytest.warns(UserWarning, match="more than 20 distinct") if warns else nullcontext():
            found = clone(model).fit(chunks(X), chunks(y))
        with pytest.warns(UserWarning, match="more than 20 distinct") if warns else nullcontext():
            assert found.component_indices_.tolist() == clone(model).fit(X, y).component_indices_.tolist()


def test_refined_models_of_few_rows_are_those_of_one_machine(client):
    """Up to 20,000 rows, all of them come."""
    model = RefinedKMPRegressor(3, epochs=5, random_state=0)
    found = clone(model).fit(chunks(X[:60], (20, 40)), chunks(Y[:60], (60,)))
    assert found.dual_coef_.tobytes() == clone(model).fit(X[:60], Y[:60]).dual_coef_.tobytes()
    model = RefinedKMPClassifier(3, epochs=5, random_state=0)
    found = clone(model).fit(chunks(X[:60], (20, 40)), chunks(LABELS[:60], (60,)))
    assert found.dual_coef_.tobytes() == clone(model).fit(X[:60], LABELS[:60]).dual_coef_.tobytes()


def test_refined_models_of_many_rows_are_as_good(client):
    """More than 20,000 rows: some of them come, all take part."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_800, 2))
    y = np.sin(3 * rows[:, 0]) * rows[:, 1] + 0.1 * rng.normal(size=len(rows))
    model = RefinedKMPRegressor(8, epochs=2, random_state=0)
    found = clone(model).fit(da.from_array(rows, chunks=(5_200, 2)), da.from_array(y, chunks=4_000))
    here = clone(model).fit(rows, y)
    assert found.moved_ == "all" and isinstance(found.centers_, np.ndarray)
    assert found.score(rows, y) > here.score(rows, y) - 0.05


def test_single_precision_and_whole_numbers(client):
    single = X.astype(np.float32)
    wanted = KMPRegressor(8).fit(single, Y)
    found = KMPRegressor(8).fit(chunks(single), chunks(Y))
    assert found.support_.tolist() == wanted.support_.tolist()
    assert found.support_vectors_.dtype == found.predict(chunks(single)).dtype == np.float32
    counts = np.round(10 * X).astype(int)
    found = KMPRegressor(8, gamma=0.01).fit(chunks(counts), chunks(np.round(Y).astype(int)))
    assert found.support_.tolist() == KMPRegressor(8, gamma=0.01).fit(counts, np.round(Y)).support_.tolist()


def test_a_constant_target_has_no_say_in_the_others(client):
    alone = KMPRegressor(8).fit(chunks(X), chunks(Y))
    found = KMPRegressor(8).fit(chunks(X), chunks(np.stack([np.full(len(Y), 1e6), Y], axis=1)))
    np.testing.assert_allclose(found.predict(X)[:, 1], alone.predict(X), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.predict(X)[:, 0], 1e6, rtol=1e-9)


# Kinds of collections


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


# Lazy predictions


@pytest.mark.parametrize(
    "model, y, methods",
    [
        (KMPRegressor(4), Y, ["predict"]),
        (KMPRegressor(4), np.stack([Y, X[:, 0]], axis=1), ["predict"]),
        (KMPClassifier(4), LABELS, ["predict", "decision_function", "predict_proba", "predict_log_proba"]),
        (KMPClassifier(4), Y > 0, ["predict", "decision_function", "predict_proba", "predict_log_proba"]),
        (SparseKernelFDA(4), LABELS, ["predict", "decision_function", "predict_proba", "transform"]),
        (SparseKernelPCA(4), None, ["transform"]),
        (PursuitNystroem(n_components=4), None, ["transform"]),
        (RefinedKMPRegressor(2, epochs=1, random_state=0), Y, ["predict"]),
        (RefinedKMPClassifier(2, epochs=1, random_state=0), LABELS, ["predict", "decision_function", "predict_proba"]),
    ],
)
def test_predictions_are_lazy(model, y, methods):
    """Of a model that was fitted to NumPy arrays too, and without a client."""
    model = clone(model).fit(X, y)
    for method in methods:
        predict = getattr(model, method)
        wanted = predict(X)
        lazy = predict(uncomputed(300, 3))
        assert isinstance(lazy, da.Array) and lazy.shape == wanted.shape and lazy.dtype == wanted.dtype
        lazy = predict(chunks(X))
        assert lazy.numblocks[0] == 3
        found = lazy.compute(scheduler="sync")
        assert np.array_equal(found, wanted) if wanted.dtype.kind in "UbiO" else np.allclose(found, wanted)
    if method == "predict" and hasattr(model, "noise_"):
        values, deviations = model.predict(chunks(X), return_std=True)
        assert isinstance(values, da.Array) and isinstance(deviations, da.Array)
        for lazy, wanted in zip((values, deviations), model.predict(X, return_std=True), strict=True):
            np.testing.assert_allclose(lazy.compute(scheduler="sync"), wanted)


# Refusals


@pytest.mark.parametrize("model", DEFAULTS, ids=label)
def test_nothing_is_brought_into_memory_unasked(model):
    """What does not take collections says so, before a chunk is computed."""
    rows, column = uncomputed(300, 3), uncomputed(300)
    model = clone(model)
    y = Y > 0 if is_classifier(model) else Y
    data = [(X, column)] if type(model) in COLLECTING else [(rows, y), (X, column)]
    if "sample_weight" in signature(model.fit).parameters:
        data.append((X, y, column))
    reason = r"does not take Dask collections.*X\.compute\(\)"
    if type(model) in COLLECTING:
        reason = r"got a Dask collection beside an X that is none.*y\.compute\(\)"
    for given in data:
        with pytest.raises(TypeError, match=rf"^{type(model).__name__}.fit {reason}"):
            model.fit(*given)


@pytest.mark.parametrize(
    "model, method",
    [
        (KMPRegressor(3), "staged_predict"),
        (KMPClassifier(3), "staged_predict"),
        (SparseKernelPCA(3), "residual"),
        (SparseKernelPCA(3), "approximate_kernel"),
    ],
)
def test_methods_that_do_not_take_collections_say_so(model, method):
    model = clone(model).fit(X, Y > 0)
    with pytest.raises(TypeError, match=rf"{type(model).__name__}.{method} does not take Dask"):
        list(getattr(model, method)(uncomputed(300, 3)))


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
        ((chunks(X.astype(np.float32)), 1e300 * Y), ValueError, "y has values too large for float32"),
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
    with pytest.raises(ValueError, match="task='regression' needs numbers in y"):
        PursuitNystroem(selection="prefit", task="regression").fit(chunks(X), chunks(LABELS))
    big = da.random.default_rng(0).normal(size=(60_000, 1), chunks=30_000)
    with pytest.raises(ValueError, match="centers=None makes each of the 60000 rows a centre"):
        model.fit(big, big[:, 0])
    with pytest.raises(ValueError, match="two classes or more"):
        KMPClassifier(5).fit(chunks(X), chunks(np.zeros(300)))


@pytest.mark.parametrize(
    "model, y, reason",
    [
        (KMPRegressor(5, stop="validation"), Y, "stop='validation'"),
        (KMPRegressor(5, stop="certificate"), Y, "stop='certificate'"),
        (KMPRegressor(5, stop="bound"), Y, "stop='bound'"),
        (KMPRegressor(variant="basic"), Y, "n_atoms='auto' and variant='basic'"),
        (KMPRegressor(5, loss="huber"), Y, "loss='huber' is not for Dask collections"),
        (KMPRegressor(5, kernel="precomputed"), Y, "precomputed"),
        (KMPClassifier(5, class_weight="balanced"), LABELS, "class_weight is not for Dask collections"),
        (KMPClassifier(5), np.stack([Y > 0, X[:, 0] > 0], axis=1), "a matrix of labels is not for Dask collections"),
        (RefinedKMPClassifier(5, class_weight="balanced"), LABELS, "class_weight is not for Dask collections"),
        (PursuitNystroem(selection="prefit"), None, "chooses landmarks by y.*requires y to be passed"),
        (SparseKernelPCA(stop="bound"), None, "stop='bound'"),
        (SparseKernelFDA(stop="bound"), Y > 0, "stop='bound'"),
    ],
)
def test_settings_that_need_all_rows_in_one_place(client, model, y, reason):
    with pytest.raises(ValueError, match=reason):
        clone(model).fit(chunks(X), chunks(y))


# Clusters


def test_without_a_client_that_is_open(client):
    closed = Client(client.cluster)
    with closed.as_current():
        closed.close()
        with pytest.raises(RuntimeError, match="needs a cluster and a client that is open"):
            KMPRegressor(5).fit(chunks(X), chunks(Y))


def test_two_clusters_in_one_process(client):
    """Each fit is made on the cluster of its own client."""
    found = []

    def fit():
        for one in (client, other):
            with one.as_current():
                found.append(KMPRegressor(5).fit(chunks(X), chunks(Y)).support_.tolist())

    with cluster_of(2, processes=False) as cluster, Client(cluster) as other:
        thread = threading.Thread(target=fit, daemon=True)
        thread.start()
        thread.join(timeout=60)
    assert found == 2 * [KMPRegressor(5).fit(X, Y).support_.tolist()]


def test_workers_without_the_package():
    """Such a worker would end at the first message that it cannot read."""
    without = {"preload": ["import sys; sys.modules['kernelpursuit'] = None"]}
    with cluster_of(1, **without) as cluster, Client(cluster) as client:
        (address,) = client.nthreads()
        with pytest.raises(RuntimeError, match=f"kernelpursuit cannot be imported at {address}: install it there"):
            KMPRegressor(5).fit(chunks(X), chunks(Y))


@pytest.fixture(params=["memory", "files"])
def place_of_rows(request, monkeypatch):
    """Where the workers hold rows, which does not depend on how few they are."""
    room = None if request.param == "memory" else 2**22
    monkeypatch.setattr("kernelpursuit.dask.collections.room_in_memory", lambda *given: room)


def test_bits_depend_on_the_chunks_alone(client, place_of_rows):
    """And not on how many workers there are."""
    sizes = (40, 1, 0, 59, 3, 97, 100)
    data = chunks(X, sizes), chunks(1e3 * Y, sizes), W * (np.arange(300) >= 40)  # one chunk has none
    model = KMPRegressor(12, weakness=0.5, memory=0, centers=100, random_state=0)
    wanted = clone(model).fit(*data).dual_coef_.tobytes()
    with worker_processes(1):
        assert clone(model).fit(*data).dual_coef_.tobytes() == wanted


class Disturbed:
    """A stop rule after 12 atoms, which does something at some steps before.

    Parameters
    ----------
    *steps : tuple of int and callable
    """

    def __init__(self, *steps):
        self.steps = dict(steps)

    def __call__(self, path):
        if (act := self.steps.pop(len(path), None)) is not None:
            act()
        return Stop(12, "enough") if len(path) == 12 else None


def test_workers_that_are_killed(place_of_rows):
    """One, and then all others at once: the fit ends with the atoms and weights of one undisturbed, to the last bit."""
    with worker_processes(3) as client:
        model = KMPRegressor(centers=80, random_state=0)
        wanted = clone(model).set_params(stop=Disturbed()).fit(chunks(X), chunks(Y))
        victims = list(client.run(os.getpid).values())

        def kill(*pids):
            return lambda: [os.kill(pid, signal.SIGKILL) for pid in pids]

        rule = Disturbed((2, kill(victims[0])), (7, kill(*victims[1:])))
        found = model.set_params(stop=rule).fit(chunks(X), chunks(Y))
        assert not rule.steps
        assert found.support_.tolist() == wanted.support_.tolist() and len(found.support_) == 12
        assert found.dual_coef_.tobytes() == wanted.dual_coef_.tobytes()


calls_until_interrupt = []


def interrupting_kernel(A, B):
    """A kernel that interrupts this process, which waits for the answer to a message, at the last of some calls."""
    if calls_until_interrupt and calls_until_interrupt.pop() == "interrupt":
        _thread.interrupt_main()
    return rbf_kernel(A, B, gamma=0.5)


def test_an_interrupt_in_a_message_leaves_the_model_of_the_steps_taken(client):
    model = KMPRegressor(12, kernel=interrupting_kernel, centers=80, memory=0, alpha=0.1, random_state=0)
    wanted = clone(model).fit(chunks(X), chunks(Y))
    calls_until_interrupt[:] = ["interrupt", *["go on"] * 20]  # of 29
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after \d+ steps"):
        model.fit(chunks(X), chunks(Y))
    steps = len(model.support_)
    assert 0 < steps < 12 and model.support_.tolist() == wanted.support_[:steps].tolist()
    np.testing.assert_allclose(model.predict(X), wanted.truncate(steps).predict(X), rtol=1e-9)


def test_a_client_that_is_closed_ends_the_fit_at_once():
    with worker_processes(1) as client:
        with pytest.raises(RuntimeError, match="the client has lost its cluster"):
            KMPRegressor(stop=Disturbed((2, client.close))).fit(chunks(X), chunks(Y))


# Fits that go on


def test_a_journal(client, tmp_path):
    model = KMPRegressor(20, resume=tmp_path / "file")
    wanted = model.fit(chunks(X), chunks(Y)).dual_coef_.copy()
    content = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(content[: len(content) * 2 // 3])
    np.testing.assert_allclose(model.fit(chunks(X), chunks(Y)).dual_coef_, wanted, rtol=1e-9)
    with pytest.raises(ValueError, match="made on other data"):
        model.fit(chunks(X), chunks(Y + (Y == Y[5])))


def test_a_fit_that_goes_on(client):
    model = KMPRegressor(6, resume=True).fit(chunks(X), chunks(Y))
    model.set_params(n_atoms=12).fit(chunks(X), chunks(Y))
    wanted = KMPRegressor(12).fit(X, Y)
    assert model.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(model.dual_coef_, wanted.dual_coef_, rtol=1e-6, atol=1e-7)
