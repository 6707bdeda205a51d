"""Dask collections: what is decided for their rows, with limits made small so that few rows meet them."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

pytest.importorskip("distributed")
import dask.array as da
from distributed import Client

from kernelpursuit import KMPRegressor, PursuitNystroem, RefinedKMPClassifier, RefinedKMPRegressor, SparseKernelPCA
from kernelpursuit.dask.collections import rows_of_collection
from kernelpursuit.fitting.memory import free_memory
from tests.promises.test_dask import LABELS, W, X, Y, chunks, cluster_of

pytestmark = pytest.mark.filterwarnings("default")  # those of Dask's own


@pytest.fixture(scope="module")
def client():
    with cluster_of(2, processes=False) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def few_come(monkeypatch):
    """Of many rows 120 come to start a refined fit."""
    monkeypatch.setattr("kernelpursuit.dask.descent.ROWS_HERE", 120)


def test_many_rows_have_some_of_them_for_points(client, monkeypatch):
    monkeypatch.setattr("kernelpursuit.dask.atoms.MOST_CENTRES", 200)
    monkeypatch.setattr("kernelpursuit.dask.atoms.DRAWN", 90)
    model = SparseKernelPCA(12, random_state=0).fit(chunks(X), None, chunks(W))
    assert np.array_equal(model.support_vectors_, X[model.support_]) and np.all(W[model.support_] > 0)
    np.testing.assert_allclose(model.residual_trace_[-1], W @ model.residual(X))  # of all rows
    features = PursuitNystroem(n_components=12, random_state=0).fit(chunks(X))
    left = 1 - np.sum(features.transform(X) ** 2, axis=1)
    np.testing.assert_allclose(features.residual_trace_[-1], np.sum(left))


def test_workers_of_one_machine_share_its_memory(client):
    with rows_of_collection(KMPRegressor(), chunks(X), chunks(Y), None, np.asarray) as data:
        assert 0 < data.source.free_memory(data.X) < 1.5 * free_memory(None)


def test_workers_with_another_version(client, monkeypatch):
    monkeypatch.setattr("kernelpursuit.dask.cluster.PACKAGE", "numpy")
    monkeypatch.setattr(client, "run_on_scheduler", lambda *args: "0.9")
    with client.as_current(), pytest.raises(RuntimeError, match=r"numpy is .* here and 0\.9 at the scheduler"):
        KMPRegressor(5).fit(chunks(X), chunks(Y))


def test_workers_without_a_module_of_the_users(client, monkeypatch):
    def absent(*args):
        raise ModuleNotFoundError("No module named 'mine'")

    monkeypatch.setattr("kernelpursuit.dask.collections.checked_chunk", absent)
    with pytest.raises(RuntimeError, match=r"a worker lacks a module that is installed here.*No module named 'mine'"):
        KMPRegressor(5).fit(chunks(X), chunks(Y))


@pytest.mark.parametrize(
    "model, y, weights",
    [
        (RefinedKMPRegressor(6, epochs=2, random_state=0), np.stack([Y, 1e6 * X[:, 0]], axis=1), W),
        (RefinedKMPClassifier(6, epochs=4, random_state=0), LABELS, W),
    ],
)
def test_refined_models_of_many_rows(client, few_come, model, y, weights):
    """Some rows come, the others take part where they are; the model is about as good as that of one machine."""
    found = clone(model).fit(chunks(X), chunks(y), chunks(weights))
    here = clone(model).fit(X, y, weights)
    assert found.score(X, y) > here.score(X, y) - 0.1
    assert found.moved_ == "all" and found.centers_.shape == (6, 3) and found.n_features_in_ == 3
    again = clone(model).fit(chunks(X), chunks(y), chunks(weights))
    assert again.dual_coef_.tobytes() == found.dual_coef_.tobytes()
    lazy = found.predict(chunks(X))
    assert isinstance(lazy, da.Array) and lazy.dtype == found.predict(X).dtype
    same = lazy.compute() == found.predict(X) if is_classifier(model) else np.isclose(lazy.compute(), found.predict(X))
    assert np.all(same)


def test_refined_models_of_float32_rows_far_from_0(client, few_come):
    far = (X + np.array([0, 1e5, 0])).astype(np.float32)
    model = RefinedKMPRegressor(6, epochs=4, random_state=0)
    found, wanted = (clone(model).fit(chunks(far.astype(dtype)), chunks(Y)) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(found.predict(far), wanted.predict(far.astype(np.float64)), atol=1e-3)


def test_a_constant_target_has_no_say_in_the_others(client, few_come):
    model = RefinedKMPRegressor(3, epochs=2, random_state=0)
    alone = clone(model).fit(chunks(X), chunks(Y))
    found = clone(model).fit(chunks(X), chunks(np.stack([np.full(len(Y), 1e6), Y], axis=1)))
    np.testing.assert_allclose(found.predict(X)[:, 1], alone.predict(X), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.predict(X)[:, 0], 1e6, rtol=1e-9)


def test_refined_journal_on_many(client, few_come, tmp_path):
    model = RefinedKMPClassifier(5, epochs=4, random_state=0, resume=tmp_path / "file")
    wanted = model.fit(chunks(X), chunks(LABELS)).dual_coef_.tobytes()
    content = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(content[: len(content) // 2])
    assert model.fit(chunks(X), chunks(LABELS)).dual_coef_.tobytes() == wanted
    with pytest.raises(ValueError, match="made on other data"):
        model.fit(chunks(X + (X == X[0, 0])), chunks(LABELS))
