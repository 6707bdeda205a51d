"""Small fits have one thread, large ones as many as there were; afterwards all is as before."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from kernelpursuit import KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.atoms.threads import _of_scipy, one_blas_thread
from kernelpursuit.fitting.pipeline import ONE_THREAD_ROWS, threads_for
from kernelpursuit.parameters import columns


def threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_few_rows_have_one_thread_and_many_have_all():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with threads_for(np.zeros((ONE_THREAD_ROWS, 1))):
            assert threads() == {1}
        assert threads() == before
        for X in (np.zeros((ONE_THREAD_ROWS + 1, 1)), None, np.zeros((0, 2))):
            with threads_for(X):
                assert threads() == before


def test_a_fit_has_one_and_gives_them_back_when_it_fails():
    seen = []

    def spy(X):
        seen.append(threads())
        return X

    X = np.random.default_rng(0).normal(size=(30, 2))
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        KMPRegressor(2, kernel=["rbf", columns(spy)]).fit(X, X[:, 0])
        assert seen and all(one == {1} for one in seen) and threads() == before
        with pytest.raises(ValueError, match="alpha"):
            KMPRegressor(2, alpha=-1).fit(X, X[:, 0])
        with pytest.raises(ValueError, match="NaN"):
            KMPRegressor(2).fit(X * np.nan, X[:, 0])
        assert threads() == before
        for table in (pd.DataFrame(X), X.tolist(), sparse.csr_array(X)):
            with threads_for(table):
                assert threads() == {1}


class Watch(np.random.RandomState):
    """Random numbers that note how many threads there are when a fit draws them."""

    def randint(self, *args, **options):
        self.seen = threads()
        return super().randint(*args, **options)


@pytest.mark.parametrize("rows", [60, ONE_THREAD_ROWS + 1])
@pytest.mark.parametrize("make", [RefinedKMPRegressor, RefinedKMPClassifier])
def test_a_refined_fit_has_one_for_any_number_of_rows(make, rows):
    X, watch = np.random.default_rng(0).normal(size=(rows, 2)), Watch(0)
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        make(3, epochs=1, random_state=watch).fit(X, X[:, 0] > 0)
        assert watch.seen == {1} and threads() == before


def test_fits_that_overlap_give_threads_back_when_the_last_one_ends():
    with threadpool_limits(2, user_api="blas"):
        before, few = threads(), np.zeros((10, 1))
        first, second = threads_for(few), threads_for(few)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1} and not one_blas_thread.held
        second.__exit__(None, None, None)
        assert threads() == before


def threads_of(scipys):
    return {
        one["num_threads"]
        for one in threadpool_info()
        if one["user_api"] == "blas" and _of_scipy(one["filepath"]) == scipys
    }


def test_scipys_threads_may_stay_and_all_are_given_back_in_any_order():
    with threadpool_limits(2, user_api="blas"):
        before = threads_of(True), threads_of(False)
        numpys, everything = one_blas_thread(scipy_too=False), one_blas_thread()
        numpys.__enter__()
        assert (threads_of(True), threads_of(False)) == (before[0], {1})
        everything.__enter__()
        assert threads_of(True) <= {1} and threads_of(False) == {1}
        numpys.__exit__(None, None, None)
        assert threads_of(True) <= {1} and threads_of(False) == {1}
        everything.__exit__(None, None, None)
        assert (threads_of(True), threads_of(False)) == before
