"""A common factor of all weights changes no atom and no coefficient."""

from functools import cache

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, Gradient, Squares, pursue
from kernelpursuit.losses import LOSSES, huber
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.stopping import search_charge
from tests.pairwise import pairwise

FACTORS = [1e-300, 1e-170, 1e-100, 1e-12, 1e-3, 7.0, 1e100, 1e290]


def problem():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    return K, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=80), rng.uniform(0.5, 2, 80)


CRITERIA = {
    "squares": lambda D, y, **kw: Squares(D, y, **kw),
    "basic": lambda D, y, **kw: Squares(D, y, variant="basic", **kw),
    "log_loss": lambda D, y, **kw: Gradient(D, np.sign(y), LOSSES["log_loss"], **kw),
    "huber": lambda D, y, **kw: Gradient(D, y, huber(0.5), **kw),
}


@cache
def pursued(name, scale, alpha, uniform):
    K, y, w = problem()
    w = np.ones(len(y)) if uniform else w
    run = CRITERIA[name](DenseDictionary(K, gram=K), y, weights=scale * w, alpha=scale * alpha)
    return run, pursue(run, n_atoms(8))


@pytest.mark.parametrize(("name", "factor", "alpha", "uniform"), pairwise(CRITERIA, FACTORS, [0.0, 0.1], [True, False]))
def test_scale_of_weights(name, factor, alpha, uniform):
    (run, one), (scaled, two) = (pursued(name, scale, alpha, uniform) for scale in (1.0, factor))
    assert [step.atom for step in one.steps] == [step.atom for step in two.steps] and len(one) == 8
    tolerance = 1e-10 if "squares" in name or name == "basic" else 1e-6  # optimisers stop at a small gradient
    coefs = [np.array([*one_run.weight_path(8)]) for one_run in (run, scaled)]
    np.testing.assert_allclose(coefs[1], coefs[0], rtol=tolerance, atol=tolerance * np.abs(coefs[0]).max())
    for field, power in (("loss", 0), ("score", 1), ("weight", 0.5)):
        if 1e-290 < factor**power < 1e280:
            values = [np.array([np.ravel(getattr(s, field)) for s in path.steps]) for path in (one, two)]
            np.testing.assert_allclose(values[1] / factor**power, values[0], rtol=1e-4)


@pytest.mark.parametrize("name", ["squares", "log_loss"])
def test_uniform_weights_are_no_weights(name):
    K, y, _ = problem()
    runs = [CRITERIA[name](DenseDictionary(K), y, weights=w) for w in (None, np.full(len(y), 1e-12))]
    one, two = (pursue(run, n_atoms(8)) for run in runs)
    assert one.atoms.tolist() == two.atoms.tolist()
    np.testing.assert_allclose(runs[1].coef(), runs[0].coef(), rtol=1e-5, atol=1e-6 * np.abs(runs[0].coef()).max())


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_the_charge_of_a_search_has_no_unit(unit):
    """Squares of such weights are 0 or infinite: once an error about a division."""
    targets = np.random.default_rng(0).normal(size=(30, 2))
    weights = np.linspace(1, 2, 30)
    assert search_charge(targets, unit * weights) == pytest.approx(search_charge(targets, weights), rel=1e-9)
