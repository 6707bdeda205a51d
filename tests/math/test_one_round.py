"""Directions made in one round, panel by panel: Q R = columns to the last digit, orthonormal to a few digits less."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPRegressor
from kernelpursuit.math.basis import Basis, orthonormal
from kernelpursuit.pursuit.directions import Joined


def columns_that_overlap(n, k, gamma):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return rbf_kernel(X, X[rng.choice(n, k, replace=False)], gamma=gamma)


def grown(columns, tails, once):
    """A basis of all columns in blocks of 16, given products as inexact as those of passes in float32."""
    k = columns.shape[1]
    basis, rng = Basis(columns), np.random.default_rng(1)
    for start in range(0, k, 16):
        block = slice(start, start + 16)
        own = None if tails is None else tails[block]
        known = basis.inside(columns[:, block], np.zeros((16, 0)) if own is None else own, basis.size)
        known *= 1 + 1e-8 * rng.normal(size=known.shape)
        assert basis.extend(columns[:, block], own, known, once=once) == 16
    return basis


@pytest.mark.parametrize("with_tails", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 3.0, 10.0])  # of the first, less than a millionth is left: two rounds
def test_one_round_is_a_factorisation_whatever_is_left(gamma, with_tails):
    columns = columns_that_overlap(400, 192, gamma)
    tails = 0.01 * np.tril(np.random.default_rng(2).normal(size=(192, 192))) if with_tails else None
    basis, exact = (grown(columns, tails, once) for once in (True, False))
    whole, expected = [np.hstack([one.directions, one.tails]) for one in (basis, exact)]
    joined = np.hstack([columns.T, np.zeros((192, 0)) if tails is None else tails])
    np.testing.assert_allclose((basis.R.T @ whole)[:, : joined.shape[1]], joined, atol=1e-13)
    left = np.diagonal(basis.R) ** 2 / np.sum(joined**2, axis=1)
    assert np.abs(whole @ whole.T - np.eye(192)).max() < (1e-10 if gamma == 0.5 else 1e-12)
    np.testing.assert_allclose(np.sum(whole * expected, axis=1), 1, atol=1e-9)
    assert with_tails or (left.min() < 1e-6) == (gamma == 0.5)


def test_one_round_is_one_round(monkeypatch):
    columns, rounds = columns_that_overlap(300, 96, 5.0), []
    complement = Basis.complement
    monkeypatch.setattr(Basis, "complement", lambda *args, **options: rounds.append(1) or complement(*args, **options))
    for once in (True, False):
        basis = Basis(columns)
        basis.extend(columns[:, :80])
        known = basis.inside(columns[:, 80:], np.zeros((16, 0)), 80)
        rounds.clear()
        basis.extend(columns[:, 80:], None, known, once=once)
        assert len(rounds) == (not once), "by known products and again, or once for all"


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_fits_in_one_round_are_those_in_two(gamma, alpha, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(700, 4)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=700)
    Y = np.stack([y, y**2], axis=1)
    fits, made = [], []
    for once in (True, False):
        original = Joined.__init__

        def chosen(self, *args, original=original, allowed=once, once=False, **options):
            made.append((allowed, once))
            original(self, *args, once=allowed and once, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Joined, "__init__", chosen)
            model = KMPRegressor(150, gamma=gamma, alpha=alpha, weakness=0.5).fit(X, Y)
        fits.append((model.support_, model.predict(X), model.path_.values("loss"), model.path_.values("leave_one_out")))
    assert all(once for _, once in made), "data in float32 may have one round"
    np.testing.assert_array_equal(fits[0][0], fits[1][0])
    np.testing.assert_allclose(fits[0][2], fits[1][2], rtol=1e-9)
    np.testing.assert_allclose(fits[0][3], fits[1][3], rtol=1e-7)
    np.testing.assert_allclose(fits[0][1], fits[1][1], atol=1e-5)


def test_room_for_all_directions_is_made_once():
    basis = Basis(np.zeros((50, 1)))
    basis.append(np.ones(50))
    basis.reserve(200)
    before, first = basis.directions, basis.directions.copy()
    rng = np.random.default_rng(4)
    for _ in range(49):
        basis.append(rng.normal(size=50))
    assert np.shares_memory(before, basis.directions) and basis.size == 50
    np.testing.assert_array_equal(basis.directions[:1], first)


def test_columns_that_are_orthonormal_are_let_be_and_others_turned():
    columns = np.linalg.qr(np.random.default_rng(5).normal(size=(40, 6)))[0]
    none = np.zeros((6, 0))
    kept, _, factor = orthonormal(columns, none, 1e-12)
    assert kept is columns
    np.testing.assert_array_equal(factor, np.eye(6))
    slanted = columns.copy()
    slanted[:, 3] += 1e-9 * slanted[:, 1]
    turned, _, factor = orthonormal(slanted, none, 1e-12)
    assert np.abs(turned.T @ turned - np.eye(6)).max() < 1e-15
    np.testing.assert_allclose(turned @ factor, slanted, atol=1e-15)
    assert orthonormal(columns, none)[0] is not columns, "nothing is let be unless one says so"
