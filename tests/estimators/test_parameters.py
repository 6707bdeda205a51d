"""Errors name the parameter."""

import numpy as np
import pytest

from kernelpursuit import KMPClassifier, KMPRegressor
from kernelpursuit.losses import Loss
from kernelpursuit.parameters import gcv, tolerance, validation
from tests.problems import classes, data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_atoms", -1), ("n_atoms", "many"), ("variant", "forward"), ("loss", "cubic"), ("kernel", "gauss"),
        ("kernel", ["rbf", "gauss"]), ("kernel", [("rbf", {"width": 1})]), ("gamma", -1.0), ("gamma", "wide"),
        ("candidates", (0.1,)), ("candidates", (0.1, 2.0)), ("candidates", 0), ("alpha", -1),
        ("stop", "never"), ("memory", -1), ("centers", 0), ("kernel", 5),
        ("random_state", "seed"), ("fit_intercept", "yes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [KMPRegressor, KMPClassifier])
def test_errors_name_the_parameter(make, name, value):
    X, y = data()
    y = classes(X) if make is KMPClassifier else y
    # epsilon and quantile are named inside "candidates"
    with pytest.raises(ValueError, match=name.replace("_", "[_ ]")):
        make(**{name: value}).fit(X, y)


@pytest.mark.parametrize("options", [{"stop": validation}, {"stop": tolerance}, {"n_atoms": 3, "stop": gcv}])
def test_a_class_instead_of_a_record_is_named(options):
    X, y = data()
    with pytest.raises(ValueError, match=rf"the class {options['stop'].__name__}, not a record"):
        KMPRegressor(**options).fit(X, y)


class RootLoss(Loss):
    """sqrt(1 + r²)."""

    def value(self, y, f):
        return np.sqrt(1 + (y - f) ** 2)

    def gradient(self, y, f):
        return (f - y) / np.sqrt(1 + (y - f) ** 2)


def test_own_loss():
    X, y = data()
    model = KMPRegressor(6, loss=RootLoss(), alpha=0.0).fit(X, y)
    assert model.path_.values("loss")[-1] == pytest.approx(np.mean(np.sqrt(1 + (y - model.predict(X)) ** 2)))
