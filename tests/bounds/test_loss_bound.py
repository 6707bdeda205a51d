"""The mean of a bounded loss: the bet written out, and how often the bound fails."""

import numpy as np
import pytest

from kernelpursuit.bounds import loss_bound

DRAWS = {  # name -> draw and mean
    "coin": (lambda rng, size: (rng.random(size) < 0.15) * 1.0, 0.15),
    "rare": (lambda rng, size: (rng.random(size) < 0.02) * 1.0, 0.02),
    "narrow": (lambda rng, size: rng.beta(2, 8, size), 0.2),
    "skewed": (lambda rng, size: rng.beta(0.1, 0.9, size), 0.1),
    "uniform": (lambda rng, size: rng.random(size), 0.5),
}


def owned(losses, m, delta):
    """What is owned after all rows, bet by bet."""
    n, wealth, seen, squares = len(losses), 1.0, [0.5], [0.25]
    for loss in losses:
        bet = np.sqrt(2 * np.log(1 / delta) / (n * np.mean(squares)))
        wealth *= 1 + min(bet, 0.75 / (1 - m)) * (m - loss)
        seen.append(loss)
        squares.append((loss - np.mean(seen)) ** 2)
    return wealth


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("delta", [0.05, 0.005])
def test_the_bet_written_out(name, delta):
    losses = DRAWS[name][0](np.random.default_rng(0), 60)
    for weight in (1.0, 0.3):
        bound = loss_bound(losses, delta, weight=weight)
        assert owned(losses, bound - 1e-9, weight * delta) <= 1 / (weight * delta)
        assert owned(losses, min(bound + 1e-9, 1 - 1e-12), weight * delta) >= (1 - 1e-5) / (weight * delta)


@pytest.mark.parametrize("name", DRAWS)
def test_it_fails_no_more_often_than_it_says(name):
    draw, mean = DRAWS[name]
    losses = draw(np.random.default_rng(1), (1000, 60))
    assert np.mean(loss_bound(losses, 0.2) < mean) <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 1000)


def test_nothing_is_gained_in_the_mean():
    """The mean of what is owned is 1 where the mean of the loss is m, whatever the losses."""
    draw, mean = DRAWS["narrow"]
    rng = np.random.default_rng(2)
    found = np.array([owned(draw(rng, 20), mean, 0.2) for _ in range(4000)])
    assert abs(found.mean() - 1) < 4 * found.std() / np.sqrt(len(found))


@pytest.mark.parametrize(
    ("name", "n", "most"), [("narrow", 400, 0.018), ("uniform", 400, 0.037), ("skewed", 400, 0.033)]
)
def test_it_is_not_slack(name, n, most):
    """At most 1.8 times the normal approximation; Hoeffding's inequality has 0.061."""
    draw, mean = DRAWS[name]
    assert np.mean(loss_bound(draw(np.random.default_rng(3), (200, 400)))) - mean < most


def test_several_models_at_once_and_wrong_arguments():
    losses = np.random.default_rng(4).random((3, 50))
    weights = np.array([0.9, 0.05, 0.05])
    each = [loss_bound(one, weight=weight) for one, weight in zip(losses, weights, strict=True)]
    np.testing.assert_allclose(loss_bound(losses, weight=weights), each)
    assert loss_bound(np.ones(10)) == 1
    for wrong in ([0.5, 1.5], [-0.1], [], 0.3):
        with pytest.raises(ValueError, match="losses"):
            loss_bound(wrong)
    with pytest.raises(ValueError, match="weight"):
        loss_bound(losses, weight=2.0)
