"""Threads: numbers do not depend on how many there are, and BLAS gets its own back."""

from concurrent.futures import ThreadPoolExecutor
from threading import get_ident

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernelpursuit import KernelDictionary
from kernelpursuit.atoms import threads
from kernelpursuit.atoms.threads import _of_scipy, in_threads, one_blas_thread
from kernelpursuit.kernels import make_kernel

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_nothing(monkeypatch, kernel, dtype):
    X, Z, V = (RNG.normal(size=size).astype(dtype) for size in ((1200, 5), (900, 5), (1200, 4)))
    k, results = make_kernel(kernel, X, gamma=0.1), []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_threads", lambda count=count: count)
        D, kept = (KernelDictionary(X, Z, k, storage=storage) for storage in ("tiles", "dense"))
        columns = D.columns(np.arange(900)[::-1]), kept.columns(np.arange(700))
        results.append([D.correlate(V), *columns, KernelDictionary(X, X, k).correlate(V), D.gram(None, np.arange(700))])
    for several in results[1:]:
        for one, other in zip(results[0], several, strict=True):
            limit = np.max(np.abs(one)) * (1e-6 if dtype is np.float32 else 1e-14)
            np.testing.assert_allclose(other, one, rtol=0, atol=limit)
            assert np.array_equal(np.argmax(np.abs(other), axis=0), np.argmax(np.abs(one), axis=0))


def test_users_callables_are_called_from_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "usable_threads", lambda: 4)
    seen = set()

    def function(A, B):
        seen.add(get_ident())
        return A @ B.T + A[:, :1]  # not symmetric

    X, Z, V = RNG.normal(size=(1200, 5)), RNG.normal(size=(900, 5)), np.ones((1200, 2))
    D = KernelDictionary(X, Z, make_kernel(function, X), storage="tiles")
    np.testing.assert_allclose(D.correlate(V), function(X, Z).T @ V, rtol=1e-10, atol=1e-10)
    assert seen == {get_ident()}


def blas_threads(of_scipy):
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [pool["num_threads"] for pool in pools if _of_scipy(pool["filepath"]) == of_scipy]


def test_blas_gets_its_threads_back(monkeypatch):
    """Also when passes overlap, and when a task fails."""
    monkeypatch.setattr(threads, "usable_threads", lambda: 3)
    before = blas_threads(True), blas_threads(False)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: in_threads(np.square, range(20)), range(30)):
            assert np.array_equal(result, np.arange(20) ** 2)
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k: 1 / k, range(3))
    assert (blas_threads(True), blas_threads(False)) == before


def test_scipys_threads_may_stay_and_all_are_given_back_in_any_order():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads(True), blas_threads(False)
        numpys, everything = one_blas_thread(scipy_too=False), one_blas_thread()
        numpys.__enter__()
        assert blas_threads(True) == before[0] and set(blas_threads(False)) == {1}
        everything.__enter__()
        assert set(blas_threads(True)) <= {1} and set(blas_threads(False)) == {1}
        numpys.__exit__(None, None, None)
        assert set(blas_threads(True)) <= {1} and set(blas_threads(False)) == {1}
        everything.__exit__(None, None, None)
        assert (blas_threads(True), blas_threads(False)) == before
