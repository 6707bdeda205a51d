"""Losses that become flat where values are large: "tanh" and "doom2"."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from kernelpursuit import DenseDictionary, Gradient, KMPClassifier, losses, pursue
from kernelpursuit.pursuit import n_atoms


def moons():
    X, y = make_moons(300, noise=0.3, random_state=0)
    return scale(X), y


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize(
    "data, options",
    [
        (moons, {}),
        (iris, {}),
        (moons, {"variant": "prefit"}),
    ],
)
def test_more_atoms_fit_better(data, options):
    X, new, y, expected = train_test_split(*data(), random_state=0)
    model = KMPClassifier(10, loss="doom2", **options).fit(X, y)  # a warning is an error
    other = KMPClassifier(10, loss="tanh", **options).fit(X, y)
    assert model.alpha_ > 0 and other.alpha_ > 0
    assert np.max(np.abs(model.decision_function(X))) < 20
    few, many = (model.truncate(k).score(new, expected) for k in (1, 10))
    assert many > few + 0.05 and many > other.score(new, expected) - 0.1
    losses = model.path_.values("loss")
    assert losses[-1] < 0.6 * losses[1]


@pytest.mark.parametrize("scale_of_X", [1.0, 1e3])
def test_weights_of_classes_and_rows_do_not_matter(scale_of_X):
    X, y = moons()
    weights = np.random.default_rng(0).uniform(0.01, 1, size=len(y))
    model = KMPClassifier(15, loss="doom2", class_weight="balanced").fit(scale_of_X * X, y, sample_weight=weights)
    assert model.score(scale_of_X * X, y) > 0.88


@pytest.mark.parametrize("options", [{"alpha": 0}, {"alpha": 0, "variant": "prefit"}, {"variant": "basic"}], ids=str)
def test_a_model_that_ran_into_the_flat_says_so(options):
    X, _, y, _ = train_test_split(*moons(), random_state=0)
    with pytest.warns(ConvergenceWarning, match="loss='doom2' hardly changes any more.*larger alpha"):
        KMPClassifier(20, loss="doom2", **options).fit(X, y)


def test_the_basic_variant_says_that_it_has_no_ridge():
    X, new, y, expected = train_test_split(*iris(), random_state=0)
    model = KMPClassifier(20, loss="doom2", variant="basic")
    with pytest.warns(ConvergenceWarning, match=r"variant='basic' has no ridge under alpha='auto'.*such as 0\.1"):
        plain = clone(model).fit(X, y)
    advised = clone(model).set_params(alpha=0.1).fit(X, y)  # a warning is an error
    assert advised.score(new, expected) > plain.score(new, expected)
    assert 5 * np.max(np.abs(advised.dual_coef_)) < np.max(np.abs(plain.dual_coef_))
    clone(model).set_params(loss="tanh").fit(X, y)


def test_a_loss_that_fits_is_not_called_flat():
    X, y = iris()
    KMPClassifier(30, loss="doom2", alpha=0).fit(X[:100], y[:100])  # two classes that are apart: a warning is an error


def test_a_refit_does_not_stay_where_all_rows_are_of_one_class():
    """A third of the rows are of class 1: the constant -infinity is a minimum, in which no slope is left."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(90, 4))
    y = np.where(D[:, 0] + D[:, 1] > np.quantile(D[:, 0] + D[:, 1], 2 / 3), 1.0, -1.0)
    criterion = Gradient(DenseDictionary(D), y, losses.LOSSES["doom2"], alpha=0.1)
    path = pursue(criterion, n_atoms(2))
    assert sorted(path.atoms) == [0, 1]
    assert np.mean((y - criterion.residual()[:, 0] > 0) == (y > 0)) > 0.95
