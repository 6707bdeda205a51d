"""The ridge that the atoms' own evidence prefers, beside the formulas written out."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import scale

from kernelpursuit import KMPClassifier, KMPRanker, KMPRegressor, PursuitSearchCV
from kernelpursuit.math.evidence import evidence_ridge

GAMMA = 0.5


def noisy(n=80, seed=0, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, :1]) + X[:, 1:] * np.arange(targets) + 0.4 * rng.normal(size=(n, targets))
    return X, y[:, 0] if targets == 1 else y


def penalised(model, X, y, k, weights=None):
    """Weights of the first k atoms by the normal equations: intercept first, then the penalty and the columns."""
    Z, c = model.support_vectors_[:k], int(model.fit_intercept)
    A = np.column_stack([np.ones((len(X), c)), rbf_kernel(X, Z, gamma=GAMMA)])
    P = np.zeros((c + k, c + k))
    P[c:, c:] = model.alpha_ * rbf_kernel(Z, gamma=GAMMA)
    W = np.diag(np.ones(len(X)) if weights is None else weights)
    return np.linalg.solve(A.T @ W @ A + P, A.T @ W @ y), A, P, W


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"variant": "backfit"}, {"stop": "gcv"}], ids=str)
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_stages_are_penalised_fits_of_the_same_atoms(options, targets, weighted):
    X, y = noisy(targets=targets)
    w = np.random.default_rng(1).uniform(0.5, 3, len(X)) if weighted else None
    model = KMPRegressor(12, gamma=GAMMA, **options).fit(X, y, sample_weight=w)
    plain = clone(model).set_params(alpha=0.0).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(model.support_, plain.support_)
    assert model.alpha_ > 0 and plain.alpha_ == 0
    for k in (1, len(model.support_)):
        short = model.truncate(k)
        c, A, P, W = penalised(model, X, y, k, w)
        np.testing.assert_allclose(short.predict(X), A @ c, rtol=1e-7, atol=1e-9)
        r = np.reshape(y - A @ c, (len(X), -1))
        total = np.sum(W)
        loss = (np.sum(W @ r**2) + np.sum(np.reshape(c, (len(c), -1)) * (P @ np.reshape(c, (len(c), -1))))) / total
        assert short.path_.steps[-1].loss == pytest.approx(loss)
        if not weighted:
            gap = 1 - np.diag(A @ np.linalg.solve(A.T @ A + P, A.T))
            left_out = np.mean(np.sum((r / gap[:, None]) ** 2, axis=1))
            assert short.path_.steps[-1].leave_one_out == pytest.approx(left_out)


def test_the_ridge_maximises_the_density_of_the_targets():
    """The marginal likelihood of y, written out with its covariance matrix, at the best scale, over a fine grid."""
    X, y = noisy(60)
    model = KMPRegressor(10, gamma=GAMMA, fit_intercept=False).fit(X, y)
    Z = model.support_vectors_
    K, G = rbf_kernel(X, Z, gamma=GAMMA), rbf_kernel(Z, gamma=GAMMA)
    prior = K @ np.linalg.solve(G, K.T)

    def density(ridge):
        C = prior / ridge + np.eye(len(y))  # in units of the noise
        noise = y @ np.linalg.solve(C, y) / len(y)
        return multivariate_normal.logpdf(y, cov=noise * C, allow_singular=True)

    grid = model.alpha_ * np.geomspace(0.3, 3, 41)
    best = grid[np.argmax([density(ridge) for ridge in grid])]
    assert best == pytest.approx(model.alpha_, rel=0.15)
    assert density(model.alpha_) > density(best) - 0.01


def test_weights_are_counts_and_units_do_not_matter():
    X, y = noisy(40)
    w = np.random.default_rng(0).integers(1, 4, len(X))
    one = KMPRegressor(8, gamma=GAMMA).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(len(X)), w)
    two = KMPRegressor(8, gamma=GAMMA).fit(X[rows], y[rows])
    assert one.alpha_ == pytest.approx(two.alpha_, rel=1e-6)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7, atol=1e-9)
    scaled = KMPRegressor(8, gamma=GAMMA).fit(X, 1000 + 1e-6 * y)
    plain = KMPRegressor(8, gamma=GAMMA).fit(X, y)
    assert scaled.alpha_ == pytest.approx(plain.alpha_, rel=1e-4)
    single = KMPRegressor(8, gamma=GAMMA).fit(X.astype("f4"), y)
    assert single.alpha_ == pytest.approx(plain.alpha_, rel=1e-3)


@pytest.mark.parametrize("seed", [3, 5])
@pytest.mark.parametrize("n_atoms", [29, 30])
def test_rounding_does_not_decide_where_atoms_interpolate(n_atoms, seed):
    """The order of the rows changes how sums are rounded, and nothing else."""
    rng = np.random.default_rng(seed)
    X, y = noisy(30, seed)
    orders = [np.arange(30), *(rng.permutation(30) for _ in range(3))]
    models = [KMPRegressor(n_atoms, gamma=10.0, fit_intercept=False).fit(X[J], y[J]) for J in orders]
    np.testing.assert_allclose([model.alpha_ for model in models], models[0].alpha_, rtol=1e-6)


def test_nothing_is_shrunk_where_nothing_is_noise():
    X = np.linspace(0, 6, 200)[:, None]
    model = KMPRegressor(12).fit(X, np.sin(X[:, 0]))
    assert model.score(X, np.sin(X[:, 0])) > 1 - 1e-7
    assert KMPRegressor(3).fit(X, np.zeros(200)).alpha_ == 0
    R = np.triu(np.ones((2, 2)))
    assert evidence_ridge(R, np.zeros((2, 2)), np.ones((2, 1)), np.array([5.0]), 10) == 0  # no penalty to speak of


def test_a_hundred_atoms_do_no_worse_than_tuned_kernel_ridge():
    X, y = load_diabetes(return_X_y=True)
    X = scale(X)
    peer = GridSearchCV(KernelRidge(kernel="rbf", gamma=0.1), {"alpha": 10.0 ** np.arange(-4, 3)}, cv=5)
    ours = cross_val_score(KMPRegressor(100, gamma=0.1), X, y, cv=3).mean()
    assert ours > cross_val_score(peer, X, y - y.mean(), cv=3).mean() - 0.01
    assert cross_val_score(KMPRegressor(100, gamma=0.1, alpha=0.0), X, y, cv=3).mean() < ours - 0.15


def test_searches_and_other_losses_have_one():
    X, y = noisy(60)
    search = PursuitSearchCV(KMPRegressor(), max_atoms=8, gammas=[GAMMA], cv=3, one_standard_error=True).fit(X, y)
    same = KMPRegressor(search.best_params_["n_atoms"], gamma=GAMMA).fit(X, y)
    assert search.best_estimator_.alpha_ == same.alpha_ > 0
    labels = (y > 0).astype(int)
    search.set_params(estimator=KMPClassifier(), max_atoms=5).fit(X, labels)
    assert search.best_estimator_.alpha_ > 0
    for loss in ("log_loss", "squared_hinge", "huber", "tanh", "doom2"):
        assert KMPClassifier(5, loss=loss).fit(X, labels).alpha_ > 0
    assert KMPRegressor(5, variant="basic").fit(X, y).alpha_ == 0
    assert KMPRegressor(5, stop="bound").fit(X, y).alpha_ == 0
    with pytest.raises(ValueError, match="alpha"):
        KMPRegressor(3, alpha="best").fit(X, y)


def test_the_translated_ridge_of_the_squared_loss_is_its_own():
    """A loss that is the squared one in disguise: the ridge of the two must agree."""
    from kernelpursuit.losses import LOSSES

    X, y = noisy(60)
    plain = KMPRegressor(6, gamma=GAMMA).fit(X, y)
    assert KMPRegressor(6, gamma=GAMMA, loss=LOSSES["squared_error"]).fit(X, y).alpha_ == pytest.approx(plain.alpha_)


NOISE = [
    (KMPClassifier(loss="log_loss"), 2, {}),
    (KMPClassifier(loss="exponential"), 2, {}),
    (KMPClassifier(loss="log_loss"), (2, 3), {}),  # rows with several labels
    (KMPRegressor(loss="poisson"), 5, {}),
    (KMPRanker(loss="log_loss"), 3, {"group": np.full(10, 4)}),
]


@pytest.mark.filterwarnings("ignore:the model has no atoms")
@pytest.mark.parametrize(("model", "values", "groups"), NOISE, ids=lambda case: str(case)[:30])
def test_noise_has_a_ridge_though_the_squared_loss_keeps_no_atom_of_it(model, values, groups):
    kept = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(40, 3)), rng.integers(0, np.ravel(values)[0], size=(40, *np.ravel(values)[1:]))
        fitted = clone(model).set_params(random_state=0).fit(X, y, **groups)
        assert fitted.alpha_ > 0
        kept.append(len(clone(model).set_params(loss="squared_error").fit(X, y, **groups).support_))
    assert 0 in kept


def test_probabilities_of_noise_are_not_certain():
    """Without a ridge the logistic loss had decision values of 2390 here."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(20, 3)), rng.integers(0, 2, size=20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = KMPClassifier(loss="log_loss", random_state=seed).fit(X, y)
        assert np.max(np.abs(model.decision_function(rng.normal(size=(400, 3))))) < 20
