"""Rows of Dask collections as tensors on the workers: the same models, whatever mix of workers has them.

Tensors on the CPU stand for those on a GPU; ``KERNELPURSUIT_DEVICE=cuda`` runs the same tests there.
"""

import os
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

pytest.importorskip("distributed")
pytest.importorskip("torch")
import dask.array as da
from distributed import Client, LocalCluster

import dask
from kernelpursuit import (
    KMPClassifier,
    KMPRegressor,
    PursuitNystroem,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
    SparseKernelFDA,
    SparseKernelPCA,
)
from kernelpursuit.dask import tensors
from kernelpursuit.dask.cluster import Actors, Lost
from kernelpursuit.dask.shard import Block
from tests.processes import elsewhere, imports_to_predict
from tests.promises.test_dask import LABELS, QUIET, W, X, Y

DEVICE = os.environ.get("KERNELPURSUIT_DEVICE", "cpu")
pytestmark = pytest.mark.filterwarnings("default")  # those of Dask's own
TWO = np.stack([Y, 1e6 * X[:, 0]], axis=1)
SIZES = (40, 1, 0, 59, 3, 97, 100)


@pytest.fixture(scope="module")
def client():
    """Of three workers, so that one of them has several parts of the tree of sums."""
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, processes=False, **QUIET) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def blocks(monkeypatch):
    """Kinds of the blocks that are made."""
    made, start = [], Block.__init__

    def noted(self, values):
        start(self, values)
        made.append(type(self))

    monkeypatch.setattr(Block, "__init__", noted)
    return made


def chunks(array, sizes=SIZES):
    return None if array is None else da.from_array(array, chunks=(sizes, *[-1] * (array.ndim - 1)))


def fitted(model, rows, y, weights, device=DEVICE):
    with dask.config.set({"kernelpursuit.device": device}):
        return clone(model).fit(chunks(rows), chunks(y), chunks(weights))


@pytest.mark.parametrize(
    "dtype, model, y, weights",
    [
        ("float64", KMPRegressor(), Y, W),
        ("float32", KMPRegressor(12, alpha=0.1, weakness=0.5, memory=0, centers=80, random_state=0), Y, W),
        ("float64", KMPRegressor(12, variant="basic", kernel=["rbf", ("laplacian", {"gamma": 0.1})]), Y, None),
        ("float32", KMPRegressor(8, variant="backfit", candidates=30, random_state=0), TWO, W),
        ("float64", KMPRegressor(8, centers=X[:50], functions=[lambda X: X], gamma=0.5), 1e9 * Y, None),
        ("float32", KMPRegressor(8, kernel="poly"), np.round(Y).astype(int), None),
        ("float64", KMPClassifier(12, weakness=0.5, memory=0), LABELS, W),
        ("float64", KMPClassifier(8, stop="leave_one_out"), Y > 0, W),
        ("float32", KMPClassifier(8), np.sign(Y), None),
    ],
)
def test_the_model_is_that_of_one_machine(client, blocks, dtype, model, y, weights):
    rows = X.astype(dtype)
    wanted = clone(model).fit(rows, y, weights)
    found = fitted(model, rows, y, weights)
    assert set(blocks) == {tensors.TensorBlock}
    assert found.support_.tolist() == wanted.support_.tolist()
    close = 1e-8 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(found.path_.values("loss"), wanted.path_.values("loss"), rtol=close)
    theirs, ours = (getattr(one, "decision_function", one.predict)(rows) for one in (wanted, found))
    np.testing.assert_allclose(ours, theirs, atol=10 * close * np.abs(theirs).max())


@pytest.mark.parametrize(
    "model, y, weights",
    [
        (SparseKernelPCA(15, n_components=4), None, None),
        (SparseKernelPCA(12, weakness=0.5, memory=0, center=False), None, W),
        (SparseKernelPCA(10, candidates=30, random_state=1, kernel="poly"), None, W),
        (PursuitNystroem(n_components=12, gamma=0.3), None, W),
        (PursuitNystroem(selection="prefit", n_components=25, gamma=0.3), LABELS, W),
        (SparseKernelFDA(6), Y > 0, None),
        (SparseKernelFDA(6, weakness=0.5, memory=0), LABELS, W),
        (SparseKernelFDA(6, candidates=60, labels="raw", random_state=0), LABELS, None),
    ],
)
def test_features_are_those_of_one_machine(client, blocks, model, y, weights):
    """Duplicates included."""
    rows = np.concatenate([X[:250], X[:50]])
    wanted = clone(model).fit(rows, y, weights)
    found = fitted(model, rows, y, weights)
    assert set(blocks) == {tensors.TensorBlock}
    assert found.path_.atoms.tolist() == wanted.path_.atoms.tolist()
    np.testing.assert_allclose(found.transform(chunks(rows)).compute(), wanted.transform(rows), atol=1e-5)


@pytest.mark.parametrize(
    "model, y, weights",
    [
        (RefinedKMPRegressor(6, epochs=4, random_state=0), TWO, W),
        (RefinedKMPClassifier(6, epochs=4, random_state=0), LABELS, None),
    ],
)
def test_refined_models(client, monkeypatch, model, y, weights):
    """Sums of gradients in single precision differ in their last digits, and with them the steps of a descent."""
    monkeypatch.setattr("kernelpursuit.refined.refined_shards.SAMPLE", 120)
    wanted, found = (fitted(model, X, y, weights, device) for device in (None, DEVICE))
    np.testing.assert_allclose(found.score(X, y), wanted.score(X, y), atol=0.05)
    assert isinstance(found.centers_, np.ndarray)


def test_workers_with_and_without_a_device(client, blocks, monkeypatch):
    """The first of them has none."""
    rows = X.astype(np.float32)
    model = KMPRegressor(12, alpha=0.1, weakness=0.5, memory=0, centers=80, random_state=0)
    wanted = clone(model).fit(rows, Y, W)
    turns = iter([None, DEVICE, DEVICE])
    monkeypatch.setattr(tensors, "settled", lambda device: next(turns))
    found = fitted(model, rows, Y, W, "auto")
    assert set(blocks) == {Block, tensors.TensorBlock}
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(found.predict(rows), wanted.predict(rows), atol=1e-4)


@pytest.mark.parametrize("then", [DEVICE, None], ids=str)
def test_a_shard_that_is_lost(client, monkeypatch, blocks, then):
    """Its rows go on as tensors of another, or as NumPy arrays: the atoms are those of an undisturbed fit."""
    model = KMPRegressor(12, centers=80, random_state=0)
    wanted = clone(model).fit(X, Y)
    actors, result = [], Actors._result

    def losing(self, place, call):
        if not actors and self._first == 5 and place == 1:
            actors.append(self)
            monkeypatch.setattr(tensors, "settled", lambda device: then)
            raise Lost("its worker")
        return result(self, place, call)

    monkeypatch.setattr(Actors, "_result", losing)
    found = fitted(model, X, Y, None)
    assert actors[0].lost == 1 and blocks[-1] is (tensors.TensorBlock if then else Block)
    assert found.support_.tolist() == wanted.support_.tolist()
    np.testing.assert_allclose(found.dual_coef_, wanted.dual_coef_, rtol=1e-6, atol=1e-7)


def test_a_journal_does_not_know_the_device(client, tmp_path):
    model = KMPRegressor(8, resume=tmp_path / "file")
    wanted = fitted(model, X, Y, None)
    content = (tmp_path / "file").read_bytes()
    for device in (DEVICE, None):
        (tmp_path / "file").write_bytes(content[: len(content) * 2 // 3])
        found = fitted(model, X, Y, None, device)
        assert found.support_.tolist() == wanted.support_.tolist()
        np.testing.assert_allclose(found.dual_coef_, wanted.dual_coef_, rtol=1e-9)


def test_pipelines_and_files_need_no_torch(client, tmp_path):
    """Features of a collection, fitted as tensors, are a collection; what is fitted is NumPy's."""
    with dask.config.set({"kernelpursuit.device": DEVICE}):
        model = make_pipeline(PursuitNystroem(n_components=12, gamma=0.3), KMPRegressor(5, kernel="linear"))
        model.fit(chunks(X), chunks(Y))
        lazy = model.predict(chunks(X))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), model.predict(X))
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    assert not elsewhere(imports_to_predict, tmp_path / "model", [0, 0, 0], "torch")


def test_devices_that_are_not_there(client, monkeypatch):
    with pytest.raises(ValueError, match=r"kernelpursuit.device='gpu' of Dask is unknown; valid: 'cuda'"):
        fitted(KMPRegressor(3), X, Y, None, "gpu")
    address = min(client.nthreads())
    with pytest.raises(RuntimeError, match=rf"device='cuda:99' is not to be had at {address} \(torch sees"):
        fitted(KMPRegressor(3), X, Y, None, "cuda:99")
    monkeypatch.setattr(tensors, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=rf"at {address} \(torch is not installed\).*'auto' takes it where it is"):
        fitted(KMPRegressor(3), X, Y, None, "cuda")
    with pytest.raises(RuntimeError, match=r"device='cpu' is not to be had at tcp://worker \(torch is not installed\)"):
        tensors.TensorRows([(0, 1)], "cpu", "tcp://worker", (X,))
    assert len(fitted(KMPRegressor(3), X, Y, None, "auto").support_) == 3
