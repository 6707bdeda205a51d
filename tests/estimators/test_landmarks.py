"""PursuitNystroem: scikit-learn's Nystroem with chosen landmarks."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import chi2_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import tests.oracle.rayleigh as ref
from kernelpursuit import DenseDictionary, KMPRegressor, PursuitNystroem, Squares, pursue
from kernelpursuit.estimators import landmarks
from kernelpursuit.fitting.training import training_data


def data(n=80, p=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


def same_landmarks(model, **options):
    """scikit-learn's Nystroem on the landmarks of `model`, in their order."""

    class Fixed(np.random.RandomState):
        def permutation(self, n):
            return np.arange(n)

    name, own = options["kernel"] if isinstance(options.get("kernel"), tuple) else (options.get("kernel", "rbf"), {})
    options = options | {"kernel": name} | own
    return Nystroem(n_components=len(model.components_), random_state=Fixed(), **options).fit(model.components_)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 0.3},
        {"kernel": ("poly", {"degree": 2})},
        {"kernel": ("poly", {"degree": 2, "coef0": 3.0})},
        {"kernel": "laplacian"},
        {"kernel": ("rbf", {"gamma": 0.7})},
        {"kernel": "cosine"},
    ],
    ids=str,
)
def test_output_is_that_of_nystroem_on_the_same_landmarks(options):
    X, new = data(), data(20, seed=1)
    model = PursuitNystroem(n_components=4, **options).fit(X)
    peer = same_landmarks(model, **options)
    np.testing.assert_allclose(model.normalization_, peer.normalization_, atol=1e-9)
    np.testing.assert_allclose(model.transform(new), peer.transform(new), atol=1e-9)
    np.testing.assert_array_equal(model.components_, X[model.component_indices_])


def test_gamma_is_left_to_the_kernel():
    X = np.abs(data())
    model = PursuitNystroem(n_components=5, kernel="chi2").fit(X)
    assert model.component_indices_.tolist() == ref.deflation(chi2_kernel(X), 5)[0]
    np.testing.assert_allclose(model.transform(X), same_landmarks(model, kernel="chi2").transform(X), atol=1e-9)


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal"])
def test_landmarks_are_the_literal_ones(selection):
    X = data(90, 3)
    model = PursuitNystroem(gamma=0.4, n_components=12, selection=selection).fit(X)
    assert model.component_indices_.tolist() == ref.deflation(rbf_kernel(X, gamma=0.4), 12, selection)[0]
    assert [step.atom for step in model.path_.steps] == model.component_indices_.tolist()


def test_all_landmarks_reproduce_the_kernel():
    X = data(30)
    Z = PursuitNystroem(gamma=0.5, n_components=30).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, rbf_kernel(X, gamma=0.5), atol=1e-9)


def test_prefit_landmarks_are_those_of_the_regressor():
    X = data(100)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = PursuitNystroem(gamma=0.5, n_components=9, selection="prefit").fit(X, y)
    np.testing.assert_array_equal(model.component_indices_, KMPRegressor(9, gamma=0.5).fit(X, y).support_)
    two = PursuitNystroem(gamma=0.5, n_components=9, selection="prefit").fit(X, np.column_stack([y, X[:, 2]]))
    assert len(two.components_) == 9
    with pytest.raises(ValueError, match="requires y"):
        PursuitNystroem(selection="prefit").fit(X)
    with pytest.raises(ValueError, match="inconsistent"):
        PursuitNystroem(selection="prefit").fit(X, y[:5])


def test_prefit_does_not_follow_noise():
    """Targets that are noise give at most a few landmarks; the kernel's own criterion chooses the others."""
    X = data(200)
    noise = np.random.default_rng(3).normal(size=200)
    first = pursue(
        Squares(DenseDictionary(rbf_kernel(X)), noise),
        landmarks.worth_of(noise[:, None], training_data(X, noise, None)),
    )
    assert len(first) < 10
    model = PursuitNystroem(n_components=50, selection="prefit").fit(X, noise)
    np.testing.assert_array_equal(model.component_indices_[: len(first)], first.atoms)
    assert len(set(model.component_indices_)) == 50


def test_prefit_classes_have_one_column_each():
    X = data(100)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    names = np.array(["a", "b", "c"])[y]
    hot = (y[:, None] == np.arange(3)).astype(float)
    chosen = [
        PursuitNystroem(n_components=8, selection="prefit").fit(X, target).component_indices_.tolist()
        for target in (y, names, names.astype(object), hot)
    ]
    assert chosen[0] == chosen[1] == chosen[2] == chosen[3]
    two = (y > 0).astype(int)
    signs = 2.0 * two - 1
    one, other = (
        PursuitNystroem(n_components=8, selection="prefit").fit(X, t).component_indices_ for t in (two, signs)
    )
    np.testing.assert_array_equal(one, other)


def test_prefit_goes_on_where_y_is_fitted():
    """A constant y gives nothing to choose by: the kernel's own criterion takes over."""
    X = data(60)
    model = PursuitNystroem(gamma=0.3, n_components=7, selection="prefit").fit(X, np.ones(60))
    plain = PursuitNystroem(gamma=0.3, n_components=7).fit(X)
    np.testing.assert_array_equal(model.component_indices_, plain.component_indices_)
    K = rbf_kernel(X, gamma=0.3)
    y = K[:, 5] + 2 * K[:, 9]
    model = PursuitNystroem(gamma=0.3, n_components=7, selection="prefit").fit(X, y)
    assert len(set(model.component_indices_)) == 7 == len(model.path_)


def test_more_landmarks_than_the_rank():
    X = data(40, 3)
    with pytest.warns(ConvergenceWarning, match="n_components=10"):
        Z = PursuitNystroem("linear", n_components=10).fit_transform(X)
    assert Z.shape == (40, 3)
    with pytest.warns(ConvergenceWarning, match="n_components=100"):
        assert PursuitNystroem(gamma=1).fit_transform(X).shape == (40, 40)
    with pytest.raises(ValueError, match="nothing to span"):
        PursuitNystroem("linear", n_components=2).fit(np.zeros((4, 2)))
    y = X @ np.ones(3)
    with pytest.warns(ConvergenceWarning):
        model = PursuitNystroem("linear", n_components=10, selection="prefit").fit(X, y)
    assert model.transform(X).shape == (40, 3)


def test_huge_new_values():
    with pytest.raises(ValueError, match="scale X"):
        PursuitNystroem("poly", n_components=5).fit(data()).transform(data() * 1e200)


def test_drop_in_for_a_pipeline_and_a_search():
    X = data(150)
    y = np.sin(2 * X[:, 0])
    pipeline = make_pipeline(PursuitNystroem(gamma=0.3), Ridge(1e-3))
    grid = {"pursuitnystroem__n_components": [5, 30], "pursuitnystroem__selection": ["rayleigh", "prefit"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_["pursuitnystroem__n_components"] == 30 and search.best_score_ > 0.6
    labels = np.where(y > 0, "up", "down")
    pipeline = make_pipeline(PursuitNystroem(gamma=0.3, n_components=20, selection="prefit"), LogisticRegression(C=100))
    assert pipeline.fit(X, labels).score(X, labels) > 0.9


def test_chosen_landmarks_approximate_better_than_random_ones():
    X = data(300, 3)
    K = rbf_kernel(X)

    def error(model):
        Z = model.fit_transform(X)
        return np.linalg.norm(K - Z @ Z.T)

    drawn = [error(Nystroem(n_components=20, random_state=seed)) for seed in range(10)]
    assert error(PursuitNystroem(n_components=20)) < min(drawn)


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal", "prefit"])
def test_residual_trace_is_what_the_features_leave(selection):
    X, y = load_iris(return_X_y=True)
    model = PursuitNystroem(gamma=0.5, n_components=8, selection=selection).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    assert len(model.residual_trace_) == 9 and model.residual_trace_[0] == pytest.approx(len(X))
    for k, trace in enumerate(model.residual_trace_[1:], start=1):
        chosen = model.component_indices_[:k]
        left = K - K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
        assert trace == pytest.approx(np.trace(left), rel=1e-6)


def test_small_eigenvalues_keep_their_features():
    """Features of the landmarks have the roots of the eigenvalues as singular values, down to 1e-9."""
    X = data(150)
    model = PursuitNystroem(gamma=0.002, n_components=25).fit(X)
    values = np.linalg.eigvalsh(rbf_kernel(model.components_, gamma=0.002))
    assert 1e-11 < values[0] < 1e-7
    features = np.linalg.svd(model.transform(model.components_), compute_uv=False)[::-1]
    np.testing.assert_allclose(features[values > 1e-10], np.sqrt(values[values > 1e-10]), rtol=1e-2)


@pytest.mark.parametrize("selection", ["rayleigh", "diagonal", "prefit"])
def test_more_landmarks_than_rows_are_said_to_be_that(selection):
    """No kernel tells more points apart than there are."""
    X, weights = data(50), np.arange(50) > 9.0
    model = PursuitNystroem(gamma=5.0, n_components=70, selection=selection)
    with pytest.warns(ConvergenceWarning, match=r"n_components=70 was asked for, more than .* \(40 rows\): all of it"):
        model.fit(X, X[:, 0], sample_weight=weights)
    assert model.path_.sentence == "no atom is left after 40 steps"
    with pytest.warns(ConvergenceWarning, match=r"no other atom would .* after \d+ steps: the other atoms lie in"):
        model.set_params(gamma=1e-4).fit(X, X[:, 0])


@pytest.mark.parametrize(
    "kernel", ["precomputed", rbf_kernel, (rbf_kernel, {})], ids=["precomputed", "function", "pair"]
)
def test_a_gamma_that_the_kernel_would_ignore_is_refused(kernel):
    """As by scikit-learn's Nystroem."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    rows = rbf_kernel(X) if isinstance(kernel, str) else X
    with pytest.raises(ValueError, match=r"gamma=0\.5 has no effect"):
        PursuitNystroem(kernel, gamma=0.5, n_components=3).fit(rows)
    PursuitNystroem(kernel, n_components=3).fit(rows)


def test_a_kernel_of_two_rows_is_asked_for_each_value_once():
    asked = []

    def smaller(x, z):
        asked.append((x, z))
        return np.minimum(x, z).sum()

    rows = np.random.default_rng(0).uniform(size=(10, 4))
    PursuitNystroem(smaller, n_components=9).fit(rows)
    pairs = 10 * 11 / 2
    assert len(asked) <= pairs + 1 + 2 * (4 + 2)  # and a trial with few rows, whether it takes matrices


def test_the_kernel_that_is_zero_on_the_diagonal_names_the_one_that_is_wanted():
    with pytest.raises(ValueError, match="Take kernel='chi2'"):
        PursuitNystroem("additive_chi2", n_components=3).fit(np.random.default_rng(0).uniform(size=(20, 2)))
