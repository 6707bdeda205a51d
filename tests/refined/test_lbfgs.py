"""L-BFGS between bounds, against SciPy's."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from kernelpursuit.refined.lbfgs import Climb


def bumpy(x):
    return float(rosen(x)), rosen_der(x)


def ended(climb, steps=300):
    taken = sum(climb.step() for _ in range(steps))
    return climb, taken


@pytest.mark.parametrize("highest", [np.inf, 0.7])
def test_it_ends_where_the_one_of_scipy_ends(highest):
    start, bounds = np.full(4, 0.4), (np.full(4, -2.0), np.array([np.inf, highest, np.inf, np.inf]))
    climb, taken = ended(Climb(bumpy, start, *bounds))
    peer = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", bounds=list(zip(*bounds, strict=True)), tol=1e-14)
    np.testing.assert_allclose(climb.theta, peer.x, atol=1e-4)
    assert climb.at_rest and taken < 2 * peer.nit + 20
    assert np.all(climb.theta <= bounds[1])


def test_it_goes_on_where_it_was_left_and_never_rises():
    start, wide = np.array([-1.2, 1.0]), np.full(2, 9.0)
    whole, _ = ended(Climb(bumpy, start, -wide, wide), 12)
    parts, values = Climb(bumpy, start, -wide, wide), []
    for steps in (5, 7):
        ended(parts, steps)
        values.append(parts.value)
    assert parts.value == whole.value == bumpy(whole.theta)[0] and values[1] < values[0]


def test_a_wall_of_nan_is_not_entered():
    def walled(x):
        return (float("nan"), x) if x[0] > 2 else (float((x[0] - 1.9) ** 2), 2 * (x - 1.9))

    climb, _ = ended(Climb(walled, np.array([-50.0]), np.array([-99.0]), np.array([99.0])))
    assert climb.theta[0] == pytest.approx(1.9)


def test_a_start_outside_is_brought_inside():
    climb, _ = ended(Climb(bumpy, np.array([5.0, 5.0]), np.zeros(2), np.ones(2)))
    np.testing.assert_allclose(climb.theta, 1, atol=1e-4)
