"""Blocks of atoms that end with the path, and the short ways to scores, bounds and certificates of all atoms."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, KernelDictionary, Squares, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import first_of, loss_below, lowest_gcv, n_atoms
from kernelpursuit.pursuit.loop import Path, Step, certified_weakness


class Watched(Squares):
    """Notes the length of each block and the steps before it, and compares each certificate with its definition."""

    def take(self, block, weakness=1.0):
        self.__dict__.setdefault("blocks", []).append((len(block), len(self._steps)))
        return super().take(block, weakness)

    def _certify(self, atom):
        score, share = super()._certify(atom)
        scores = self.scores()
        assert score == scores[atom]
        assert share == certified_weakness(scores, self.tie_tolerance, atom, self.baseline)
        return score, share


def problem(dtype=np.float64, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(dtype)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)).astype(dtype)
    return KernelDictionary(X, X, make_kernel("rbf", X, gamma=0.3)), y


def plain(rule):
    """The same rule, of which nothing is known before it is asked."""
    return lambda path: rule(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weakness", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("options", [{}, {"alpha": 1e-3}, {"variant": "backfit"}, {"variant": "basic"}])
def test_no_more_atoms_are_proposed_than_the_rule_takes(dtype, weakness, options):
    D, y = problem(dtype)
    run, blind = Watched(D, y, **options), Watched(D, y, **options)
    path = pursue(run, first_of(n_atoms(21), loss_below(0.0)), lookahead=16, weakness=weakness)
    other = pursue(blind, plain(n_atoms(21)), lookahead=16, weakness=weakness)
    np.testing.assert_array_equal(path.atoms, other.atoms)
    assert len(path) == 21 and path.reason == "n_atoms"
    assert all(length <= 22 - taken for length, taken in run.blocks)  # the best atom may have been in no pool
    assert sum(length for length, _ in run.blocks) <= sum(length for length, _ in blind.blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_ends_where_the_loss_is_low_enough(dtype):
    D, y = problem(dtype)
    losses = [step.loss for step in pursue(Squares(D, y), n_atoms(60), lookahead=64, weakness=0.2).steps]
    goal = losses[40]
    run, blind = Watched(D, y), Watched(D, y)
    path = pursue(run, loss_below(0.0, goal), lookahead=64, weakness=0.2)
    other = pursue(blind, plain(loss_below(0.0, goal)), lookahead=64, weakness=0.2)
    np.testing.assert_array_equal(path.atoms, other.atoms)
    assert path.steps[-1].loss <= goal < path.steps[-2].loss
    (length, taken), (longer, _) = run.blocks[-1], blind.blocks[-1]
    assert length < longer and length <= len(path) - taken + 2


def test_a_rule_that_reads_more_than_the_loss_says_nothing_ahead():
    path = Path(Step(-1, loss=4.0), [Step(0, loss=2.0)])
    rule = first_of(n_atoms(5), loss_below(0.1), lowest_gcv(100, 2.0, patience=3))
    assert rule.ends(path, 5, np.nan) and rule.ends(path, 2, 0.4)
    assert not rule.ends(path, 4, np.nan) and not rule.ends(path, 4, 0.41)
    assert not first_of(lowest_gcv(100, 2.0, patience=3)).ends(path, 99, 0.0)


def test_one_atom_that_is_left_is_not_simulated(monkeypatch):
    D, y = problem()
    monkeypatch.setattr(Squares, "simulate", None)  # not to be called
    assert len(pursue(Squares(D, y), n_atoms(1), lookahead=16, weakness=0.5)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certificates_of_equal_atoms_are_those_of_the_definition(dtype):
    rng = np.random.default_rng(1)
    D = rng.normal(size=(40, 12)).astype(dtype)
    D = np.concatenate([D, D + dtype(1e-4) * rng.normal(size=D.shape).astype(dtype), D], axis=1)
    y = (D[:, :6] @ rng.normal(size=6)).astype(dtype)
    path = pursue(Watched(DenseDictionary(D), y), n_atoms(8), lookahead=8, weakness=0.1)
    assert len(path) == 8
