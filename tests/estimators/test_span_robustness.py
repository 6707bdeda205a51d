"""Estimators that learn in the span of chosen points, on hostile data: finite output or an error that says why."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import PursuitNystroem, SparseKernelNovelty, SparseKernelPCA


def hostile(seed):
    """Up to 50 rows and 5 columns with magnitudes to 1e150, duplicates, constant columns, and now and then a NaN."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rng.integers(1, 51), rng.integers(1, 6))) * 10.0 ** rng.choice([-150, -8, 0, 0, 0, 8, 150])
    if rng.uniform() < 0.3:
        X = X[rng.integers(0, len(X), len(X))]
    if rng.uniform() < 0.2:
        X[:, rng.integers(X.shape[1])] = rng.normal()
    if rng.uniform() < 0.1:
        X[rng.integers(len(X)), 0] = rng.choice([np.nan, np.inf])
    return X, rng


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*validation_fraction", "ignore:no row"
)
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_finite_output_or_an_error_that_says_why(seed):
    X, rng = hostile(seed)
    kernel = rng.choice(["rbf", "linear", "poly", "laplacian"])
    selection = rng.choice(["rayleigh", "diagonal", "random"])
    models = [
        (SparseKernelPCA(5, kernel=kernel, selection=selection, random_state=0), "transform"),
        (PursuitNystroem(kernel, n_components=5, selection=selection, random_state=0), "transform"),
        (SparseKernelNovelty(5, kernel=kernel, random_state=0), "score_samples"),
    ]
    for model, method in models:
        try:
            out = getattr(model.fit(X), method)(X)
        except ValueError as error:
            assert any(word in str(error) for word in ("X", "kernel", "gamma", "sample", "rows", "alpha"))
        else:
            assert np.all(np.isfinite(out))


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
def test_shift_and_scale_change_nothing(selection):
    """Points on a coarse binary grid, so that the shift is exact."""
    X = np.round(np.random.default_rng(0).normal(size=(80, 3)) * 2**10) / 2**10
    model = SparseKernelPCA(10, gamma=0.5, selection=selection).fit(X)
    shifted = SparseKernelPCA(10, gamma=0.5, selection=selection).fit(X + 1e6)
    scaled = SparseKernelPCA(10, gamma=0.5 / 2**8, selection=selection).fit(X * 2**4)
    for other, data in ((shifted, X + 1e6), (scaled, X * 2**4)):
        np.testing.assert_array_equal(other.support_, model.support_)
        np.testing.assert_allclose(other.transform(data), model.transform(X), rtol=1e-8, atol=1e-10)


def test_more_atoms_than_the_rank():
    X = np.random.default_rng(0).normal(size=(30, 2))
    for model in (SparseKernelPCA(20, kernel="linear"), PursuitNystroem("linear", n_components=20)):
        with pytest.warns(ConvergenceWarning):
            model.fit(X)
        assert len(model.path_) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(SparseKernelPCA(2, kernel="linear").fit(X).support_) == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [SparseKernelPCA(2, kernel="linear"), PursuitNystroem("linear", n_components=2)])
def test_values_whose_squares_vanish_are_refused(model):
    X = np.random.default_rng(0).normal(size=(20, 3)) * 1e-150
    with pytest.raises(ValueError, match="scale X"):
        model.fit(X)
