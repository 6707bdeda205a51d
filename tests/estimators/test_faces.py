"""PolytopeFacesRegressor: what its attributes promise."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit import PolytopeFacesRegressor


def rbf(X, Z, gamma):
    return np.exp(-gamma * np.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=2))


def regression(n=80, seed=0):
    rng = np.random.default_rng([seed, 8])
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("release", [True, False])
def test_attributes_tell_the_walk(release):
    X, y = regression()
    model = PolytopeFacesRegressor(n_atoms=15, release=release).fit(X, y)
    path = model.path_
    assert path.reason == "n_atoms" and "15 atoms" in path.sentence
    assert any(step.released for step in path.steps) == release
    assert model.support_.tolist() == path.atoms.tolist() and len(model.support_) == 15
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    gamma = 1 / (3 * X.var())
    K = rbf(X, X, gamma)
    np.testing.assert_allclose(model.predict(X), K[:, model.support_] @ model.dual_coef_ + model.intercept_, atol=1e-10)
    r = y - model.predict(X)
    assert path.steps[-1].loss == pytest.approx(np.mean(r**2))
    assert len(model.theta_) == len(path) + 1
    others = np.delete(np.arange(80), model.support_)
    assert model.theta_[-1] == pytest.approx(np.abs(K[:, others].T @ r).max())
    assert model.theta_[0] == pytest.approx(np.abs(K.T @ (y - y.mean())).max())


def test_an_earlier_step_is_the_model_of_then():
    """The path with releases is not nested: stage t is what a fit that ends there gives."""
    X, y = regression()
    full = PolytopeFacesRegressor(n_atoms=15).fit(X, y)
    staged = list(full.staged_predict(X))
    assert len(staged) == len(full.path_)
    assert any(step.released for step in full.path_.steps)
    K = rbf(X, X, 1 / (3 * X.var()))
    for t in (0, 1, 7, len(full.path_)):
        part = full.truncate(t)
        A = np.column_stack([np.ones(80), K[:, part.support_]])
        fit = A @ np.linalg.lstsq(A, y, rcond=None)[0]
        np.testing.assert_allclose(part.predict(X), fit, atol=1e-9)
        assert part.support_.tolist() == part.path_.atoms.tolist()
        if t:
            np.testing.assert_allclose(staged[t - 1], fit, atol=1e-9)
    assert len(full.support_) == 15
    for k in (-1, len(full.path_) + 1, 1.5):
        with pytest.raises(ValueError, match="k must be an integer"):
            full.truncate(k)


def test_the_step_of_the_smallest_theta_need_not_be_the_last():
    for seed in range(4):
        X, y = regression(60, seed)
        model = PolytopeFacesRegressor(n_atoms=9, gamma=0.05).fit(X, y)
        best = model.truncate(model.theta_.argmin())
        if len(best.path_) < len(model.path_):
            np.testing.assert_allclose(best.predict(X), list(model.staged_predict(X))[len(best.path_) - 1])
            return
    raise AssertionError("theta fell to the last step in all four")


@pytest.mark.parametrize("power", [-1000, -60, -1, 7, 300])
@pytest.mark.parametrize("release", [True, False])
def test_scale_of_y(power, release):
    X, y = regression()
    one = PolytopeFacesRegressor(n_atoms=12, release=release).fit(X, y)
    two = PolytopeFacesRegressor(n_atoms=12, release=release).fit(X, np.ldexp(y, power))
    assert one.support_.tolist() == two.support_.tolist()
    assert [s.released for s in one.path_.steps] == [s.released for s in two.path_.steps]
    np.testing.assert_allclose(np.ldexp(two.predict(X), -power), one.predict(X), rtol=1e-8)
    np.testing.assert_allclose(np.ldexp(two.theta_, -power), one.theta_, rtol=1e-8)
    scores = np.array([s.score for s in two.path_.steps])
    np.testing.assert_allclose(np.ldexp(scores, -power), [s.score for s in one.path_.steps], rtol=1e-8)


def test_centres():
    X, y = regression()
    model = PolytopeFacesRegressor(n_atoms=10, gamma=0.3).fit(X, y)
    given = PolytopeFacesRegressor(n_atoms=10, gamma=0.3, centers=X).fit(X, y)
    assert given.support_.tolist() == model.support_.tolist()
    np.testing.assert_allclose(given.predict(X), model.predict(X), atol=1e-9)
    few = [PolytopeFacesRegressor(n_atoms=5, centers=20, random_state=seed).fit(X, y).support_ for seed in (0, 0, 1)]
    assert few[0].tolist() == few[1].tolist() != few[2].tolist()


def test_why_it_ends(capsys):
    X, y = regression()
    constant = PolytopeFacesRegressor().fit(X, np.where(y > 0, 3.3, np.nextafter(3.3, 4)))  # to rounding error
    assert len(constant.support_) == 0 and constant.path_.reason == "tolerance"
    np.testing.assert_allclose(constant.predict(X), 3.3)
    assert list(constant.staged_predict(X)) == []
    X_twice = np.repeat(X[:5], 2, axis=0)
    with pytest.warns(ConvergenceWarning, match="n_atoms=9 was asked for"):
        model = PolytopeFacesRegressor(n_atoms=9, release=False, theta_tol=0).fit(X_twice, y[:10])
    assert model.path_.reason == "exhausted" and len(model.support_) <= 5
    fitted = PolytopeFacesRegressor(n_atoms=9, release=False).fit(X_twice, y[:10])
    assert fitted.path_.reason == "tolerance" and fitted.support_.tolist() == model.support_.tolist()
    x = np.linspace(0, 6, 200)[:, None]
    with pytest.warns(ConvergenceWarning, match="80 steps were taken"):
        model = PolytopeFacesRegressor(n_atoms=8, verbose=1).fit(x, np.sin(x[:, 0]))
    assert model.path_.reason == "iteration cap" and len(model.path_) == 80
    assert "50 steps" in capsys.readouterr().out
    with pytest.raises(ValueError, match="1d array"):
        PolytopeFacesRegressor().fit(X, np.column_stack([y, y]))
