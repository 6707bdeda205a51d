"""Every threshold of the engine decides something: inputs for which another value gives another result."""

import numpy as np
import pytest

import tests.oracle.kmp as ref
from kernelpursuit import DenseDictionary, Fisher, Squares, pursue
from kernelpursuit.arrays import squared_norms
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.loop import propose


def test_a_row_of_high_leverage_is_left_out_exactly():
    """A leverage of 0.9999 is not 1: the left-out residual of that row is thousands of times its residual."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(30, 2))
    D[0, 0] = 400.0
    y = rng.normal(size=(30, 1))
    run = Squares(DenseDictionary(D), y)
    list(run.take([0]))
    leverage = np.sum(run.atoms.basis.directions[:, 0] ** 2)
    assert 1e-6 < 1 - leverage < 1e-3
    np.testing.assert_allclose(run.left_out(), ref.leave_one_out(D[:, [0]], y, intercept=True), rtol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_products_are_recomputed_when_the_residual_is_small(scale):
    """A target that lies in the span of some atoms but for 1e-13: products with what is left are not differences."""
    rng = np.random.default_rng(1)
    D = rng.normal(size=(40, 12))
    run = Squares(DenseDictionary(D), scale * (D[:, :4] @ rng.normal(size=4) + 1e-13 * D[:, 7]), intercept=False)
    run.scores()
    atoms = [step.atom for _ in range(4) for step in run.take(propose(run))]
    J = np.flatnonzero(run.available)
    a_true = D[:, J].T @ run.residual()
    assert sorted(atoms) == [0, 1, 2, 3]
    np.testing.assert_allclose(run.running_moments(J)[0], a_true, atol=1e-8 * np.abs(a_true).max())


def test_an_atom_whose_penalised_part_is_rounding_error_is_barred():
    """Two atoms equal to 1e-6: under a ridge 1e-12 of the second is left, less than its coordinates know."""
    rng = np.random.default_rng(2)
    D = rng.normal(size=(30, 3))
    D[:, 1] = D[:, 0] + 1e-6 * rng.normal(size=30)
    y = D @ np.ones(3)
    plain, ridge = (Squares(DenseDictionary(D, gram=D.T @ D), y, alpha=alpha, intercept=False) for alpha in (0.0, 1e-3))
    assert len(pursue(plain, n_atoms(3))) == 3
    path = pursue(ridge, n_atoms(3))
    assert len(path) == 2 and 2 in path.atoms


def classes(n=40):
    rng = np.random.default_rng(3)
    return np.arange(n) % 2, rng


def test_a_scatter_of_nothing_has_a_floor():
    """An atom that is constant on each class but for 1e-9 has a finite ratio, as if 1e-12 of it varied."""
    index, rng = classes()
    means = np.where(index == 1, 1.0, -1.0)
    D = np.column_stack([means + 1e-9 * rng.normal(size=40), means, means + rng.normal(size=40)])
    run = Fisher(DenseDictionary(D), index)
    scores = run.scores()
    # The codes are ±1 and the atom too: (dᵀu)² / (1e-12 ‖d‖²) = 40² / (1e-12 · 40).
    np.testing.assert_allclose(scores[:2], 40 * 1e12, rtol=1e-6)
    assert scores[2] < 1e4


def test_scatters_are_renewed_where_they_lose_their_digits():
    """Atoms that share all but 1e-6 of their scatter with the first: long still, but of a scatter that cancelled."""
    index, rng = classes(60)
    within = rng.normal(size=60)
    within -= np.where(index, within[index == 1].mean(), within[index == 0].mean())
    atoms = [within + np.where(index, 1.0, -1.0) + 1e-6 * rng.normal(size=60) for _ in range(8)]
    run = Fisher(DenseDictionary(np.column_stack([within, *atoms])), index)
    run.scores()
    list(run.take([0], weakness=0.0))
    (_, scatter, norms), (_, true, true_norms) = run.running_moments(np.arange(1, 9)), run.moments(np.arange(1, 9))
    assert np.all(true < 1e-9 * true_norms)
    np.testing.assert_allclose(norms, true_norms, rtol=1e-10)
    np.testing.assert_allclose(scatter, true, rtol=1e-6)


def test_long_sums_in_float32_keep_their_digits():
    """A large entry first: a float32 sum that has reached 2²⁴ does not see quarters any more."""
    for width in (1, 3):
        column = np.full(100_000, 0.5, dtype=np.float32)
        column[0] = 2.0**12
        found = squared_norms(np.repeat(column[:, None], width, axis=1))
        np.testing.assert_allclose(found, 2.0**24 + 0.25 * 99_999, rtol=1e-4)
