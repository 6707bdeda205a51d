"""Directions made by products that are known to few digits are as orthonormal as those made without."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernelpursuit.atoms.threads import _of_scipy, one_blas_thread
from kernelpursuit.math.basis import Basis


def grown(columns, tails, block, digits, rng):
    """A basis by blocks, the products of the later ones known to so many digits; None: not known."""
    basis = Basis(columns[:, :1])
    for start in range(0, columns.shape[1], block):
        part, tail = columns[:, start : start + block], tails[start : start + block]
        known = None
        if digits is not None and basis.size:
            T = basis.tails[:, : tail.shape[1]]
            known = basis.directions @ part + T @ tail.T
            known += 10.0**-digits * np.linalg.norm(part, axis=0) * rng.normal(size=known.shape)
        assert basis.extend(part, tail, known) == part.shape[1]
    return basis


@pytest.mark.parametrize("digits", [None, 15, 7, 2, 0])
@pytest.mark.parametrize("left", [1.0, 1e-3, 1e-5])
@pytest.mark.parametrize("ridge", [False, True])
def test_directions_do_not_depend_on_the_digits_that_are_known(digits, left, ridge):
    rng = np.random.default_rng(0)
    common = rng.normal(size=(200, 4))
    columns = common @ rng.normal(size=(4, 24)) + left * rng.normal(size=(200, 24))
    columns[:, :4] = common
    tails = 0.1 * rng.normal(size=(24, 3)) if ridge else np.zeros((24, 0))
    basis = grown(columns, tails, 6, digits, rng)
    whole = np.concatenate([basis.directions.T, basis.tails[:, : tails.shape[1]].T])
    np.testing.assert_allclose(whole.T @ whole, np.eye(24), atol=1e-12)
    given = np.concatenate([columns, tails.T])
    np.testing.assert_allclose(whole @ basis.R, given, atol=1e-12 * np.abs(given).max() * 24)


def threads(scipys):
    return {
        one["num_threads"]
        for one in threadpool_info()
        if one["user_api"] == "blas" and _of_scipy(one["filepath"]) == scipys
    }


def test_scipys_threads_may_stay_and_all_are_given_back_in_any_order():
    with threadpool_limits(2, user_api="blas"):
        before = threads(True), threads(False)
        numpys, everything = one_blas_thread(scipy_too=False), one_blas_thread()
        numpys.__enter__()
        assert (threads(True), threads(False)) == (before[0], {1})
        everything.__enter__()
        assert threads(True) <= {1} and threads(False) == {1}
        numpys.__exit__(None, None, None)
        assert threads(True) <= {1} and threads(False) == {1}
        everything.__exit__(None, None, None)
        assert (threads(True), threads(False)) == before
