"""Refined models of remote rows: sums of gradients over blocks, and descents that a few rows start and judge."""

import numpy as np
import pytest

from kernelpursuit.dask.arrays import Handle
from kernelpursuit.dask.descent import RemoteBatch, standardised, sum_of_gradients
from kernelpursuit.refined.descending import values_of
from kernelpursuit.refined.descent import Batch, Model, _Flat, descend, gradient
from kernelpursuit.refined.moving_atoms import Atoms
from kernelpursuit.refined.refining import frame_of
from tests.dask.test_shards import CUTS, program_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 1e4, 1e-3] + [0, 1e5, 0]
X[:, 2] = X[:, 2] > 0  # an indicator
Y = np.sign(X[:, :1]) + 0.1 * RNG.normal(size=(60, 1))
W = RNG.random(60) + 0.5


@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_units_are_those_of_one_machine(cuts, weights):
    _, (rows, of_rows) = program_of(X, W, cuts=cuts)
    wanted, found = frame_of(X, weights), frame_of(rows, None if weights is None else of_rows)
    np.testing.assert_allclose(found.center, wanted.center, rtol=1e-12)
    np.testing.assert_allclose(found.spread, wanted.spread, rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "softmax"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_a_gradient_is_a_sum_over_blocks(cuts, loss):
    """Batches of an epoch have every row once but those held out, whatever the blocks."""
    frame, aside = frame_of(X, W), np.array([3, 40])
    codes = np.column_stack([Y > 0, Y <= 0]) * 2.0 - 1 if loss == "softmax" else Y
    atoms = Atoms(RNG.normal(size=(4, 3)), RNG.normal(size=4), 0.1 * RNG.normal(size=3))
    model = Model(RNG.normal(size=(4, codes.shape[1])), np.zeros(codes.shape[1]), atoms)
    program, (rows, targets, weights, numbers) = program_of(X, codes, W, np.arange(60), cuts=cuts)
    how = (frame, aside, 2.0, loss == "softmax")
    standard = Handle(program, program.add(standardised, rows, targets, weights, numbers, *how))
    batch, flat = RemoteBatch(program, standard, 58), _Flat(model)
    theta, order = flat.join(model.like(batch.like)), batch.shuffled(np.random.default_rng(0), 0.0)
    before = program.transport.messages
    shares = [(edge, edge + 1 / 4) for edge in (0, 0.25, 0.5, 0.75)]
    parts = [
        np.asarray(program.reduce(sum_of_gradients, standard, order, flat, theta, (loss, 0.1), share))
        for share in shares
    ]
    assert program.transport.messages - before == 4
    kept = np.setdiff1d(np.arange(60), aside)
    coded = (codes + 1) / 2 if loss == "softmax" else codes
    wanted = flat.join(gradient(model, frame(X[kept]), coded[kept], W[kept] / 2, loss, 0.1))
    np.testing.assert_allclose(np.sum(parts, axis=0), [*wanted, 58], rtol=1e-4, atol=1e-4)
    with batch.mean_gradients() as mean_gradient:
        mean = mean_gradient(order, flat, theta, (loss, 0.1), slice(0, 58))
    np.testing.assert_allclose(mean, wanted / 58, rtol=1e-4, atol=1e-5)


def test_a_descent_is_one_message_a_step():
    program, (rows, targets, numbers) = program_of(X, Y, np.arange(60), cuts=[20])
    how = (frame_of(X, None), np.array([], dtype=int), 1.0, False)
    standard = Handle(program, program.add(standardised, rows, targets, None, numbers, *how))
    start = Model(np.zeros((4, 1)), np.zeros(1), Atoms(RNG.normal(size=(4, 3)), np.full(4, -1.0), np.zeros(3)))
    found, _ = descend(
        start,
        RemoteBatch(program, standard, 60),
        loss="squared_error",
        epochs=40,
        batch=20,
        rng=np.random.default_rng(0),
    )
    assert program.transport.messages == 40 * 3
    here, _ = descend(
        start, Batch(frame_of(X, None)(X), Y), loss="squared_error", epochs=40, batch=20, rng=np.random.default_rng(0)
    )
    errors = [np.mean((Y - values_of(model, frame_of(X, None)(X))) ** 2) for model in (start, found, here)]
    assert errors[1] < 0.2 * errors[0] and errors[1] < 1.5 * errors[2]
