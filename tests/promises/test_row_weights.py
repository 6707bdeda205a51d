"""A row of weight w is w rows, a row of weight 0 is none, for every estimator that takes weights."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import kernelpursuit as kp
from kernelpursuit.parameters import tolerance

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=60)
CLASSES = np.digitize(Y, np.quantile(Y, [0.2, 0.6]))
VIEW = np.column_stack([Y, np.cos(X[:, 1]), X[:, 0]]) + 0.05 * rng.normal(size=(60, 3))
COUNTS = rng.integers(0, 4, size=60)
ROWS = np.repeat(np.arange(60), COUNTS)
ESTIMATORS = {
    "regressor": (kp.KMPRegressor(8, alpha=0.0), Y),
    "ranker": (kp.KMPRanker(8, alpha=0.0), Y),
    "classifier": (kp.KMPClassifier(8, alpha=0.0), CLASSES),
    "faces": (kp.PolytopeFacesRegressor(8), Y),
    "faces-keeps": (kp.PolytopeFacesRegressor(8, release=False, guard=True, fit_intercept=False), Y),
    "fda": (kp.SparseKernelFDA(8), CLASSES),
    "fda-two": (kp.SparseKernelFDA(8, alpha=0.1, labels="raw"), CLASSES > 1),
    "fda-sampled": (kp.SparseKernelFDA(8, candidates=1000, random_state=0), CLASSES),
    "pca": (kp.SparseKernelPCA(8, n_components=3), None),
    "pca-plain": (kp.SparseKernelPCA(8, n_components=3, kernel="laplacian"), None),
    "pca-diagonal": (kp.SparseKernelPCA(8, n_components=3, selection="diagonal"), None),
    "pca-tol": (kp.SparseKernelPCA(60, n_components=3, stop=tolerance(0.1)), None),
    "nystroem": (kp.PursuitNystroem(n_components=8), None),
    "nystroem-diagonal": (kp.PursuitNystroem(n_components=8, selection="diagonal"), None),
    "nystroem-prefit": (kp.PursuitNystroem(n_components=20, selection="prefit"), Y),
    "nystroem-classes": (kp.PursuitNystroem(n_components=20, selection="prefit"), CLASSES),
    "novelty": (kp.SparseKernelNovelty(8, contamination=0.13), None),
    "cca": (kp.SparseKernelCCA(8), VIEW),
    "cca-projection": (kp.SparseKernelCCA(8, deflation="projection", signed=False, alpha=0.01), VIEW),
    "cca-plain": (kp.SparseKernelCCA(3, kernel=("rbf", "linear"), n_components=1), VIEW),
}


def chosen(model):
    return model.component_indices_ if hasattr(model, "component_indices_") else model.support_


def values(model, X):
    """All that a model says about new rows."""
    names = ("predict", "transform", "decision_function", "score_samples", "residual")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


def assert_same(one, two, X=X):
    assert one.path_.reason == two.path_.reason
    np.testing.assert_allclose(one.path_.values("loss"), two.path_.values("loss"), rtol=1e-7, atol=1e-12)
    for name, expected in values(two, X).items():
        np.testing.assert_allclose(values(one, X)[name], expected, rtol=1e-6, atol=1e-7, err_msg=name)
    for name in ("residual_trace_", "eigenvalues_", "correlations_", "cosines_", "offset_"):
        if hasattr(one, name):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.filterwarnings("ignore:.*are duplicates of others")  # which is right
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_are_counts(name):
    estimator, y = ESTIMATORS[name]
    weighed = clone(estimator).fit(X, y, sample_weight=COUNTS)
    repeated = clone(estimator).fit(X[ROWS], None if y is None else y[ROWS])
    np.testing.assert_array_equal(chosen(weighed), ROWS[chosen(repeated)])
    assert np.all(COUNTS[chosen(weighed)] > 0)
    assert_same(weighed, repeated)


@pytest.mark.parametrize("scale", [1e-100, 0.3, 1e100])
@pytest.mark.parametrize(
    "name", [name for name in ESTIMATORS if not name.startswith(("novelty", "nystroem-prefit", "nystroem-classes"))]
)
def test_equal_weights_are_none(name, scale):
    estimator, y = ESTIMATORS[name]
    plain, weighed = clone(estimator).fit(X, y), clone(estimator).fit(X, y, sample_weight=np.full(60, scale))
    np.testing.assert_array_equal(chosen(weighed), chosen(plain))
    for method, expected in values(plain, X).items():
        np.testing.assert_allclose(values(weighed, X)[method], expected, rtol=1e-6, atol=1e-7, err_msg=method)


LABELS = np.column_stack([Y > 1, X[:, 0] > 0]).astype(int)
PROBABLE = {
    "classifier": (kp.KMPClassifier(8), CLASSES),
    "two classes": (kp.KMPClassifier(8), CLASSES > 1),
    "class_weight": (kp.KMPClassifier(8, class_weight="balanced"), CLASSES),
    "hinge": (kp.KMPClassifier(8, loss="squared_hinge"), CLASSES > 1),
    "labels": (kp.KMPClassifier(8), LABELS),
    "fda": (kp.SparseKernelFDA(8), CLASSES),
}


@pytest.mark.parametrize("scale", [0.9, 1 / 60, 1e-100])
@pytest.mark.parametrize("name", PROBABLE)
def test_weights_that_sum_to_less_than_the_rows_are_taken_in_proportion(name, scale):
    """Equal weights of any size below 1 are no weights, in probabilities too."""
    estimator, y = PROBABLE[name]
    plain, weighed = clone(estimator).fit(X, y), clone(estimator).fit(X, y, sample_weight=np.full(60, scale))
    np.testing.assert_allclose(weighed.predict_proba(X), plain.predict_proba(X), rtol=1e-5)


UNEQUAL = {"even": rng.uniform(0.5, 1.5, 60), "skewed": rng.exponential(size=60) + 0.01}


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.parametrize("name", PROBABLE)
def test_unequal_weights_are_taken_in_proportion_in_probabilities(name, kind):
    """No weight is compared with 1: a row left out would be one of its copies, or all of it, by the unit of weights."""
    estimator, y = PROBABLE[name]
    weights = UNEQUAL[kind] / np.mean(UNEQUAL[kind])
    found = [
        clone(estimator).fit(X, y, sample_weight=weights * scale).predict_proba(X) for scale in (1.0, 0.999, 0.1, 1e-9)
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-6)


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.parametrize(
    "model",
    [
        kp.KMPRegressor(40, stop="leave_one_out"),
        kp.KMPRegressor(),
        kp.KMPClassifier(),
        kp.KMPClassifier(class_weight="balanced"),
    ],
    ids=repr,
)
def test_unequal_weights_are_taken_in_proportion_in_the_number_of_atoms(model, kind):
    noisy = Y + np.random.default_rng(3).normal(size=60)
    y = noisy if isinstance(model, kp.KMPRegressor) else CLASSES > 1
    weights = UNEQUAL[kind] / np.mean(UNEQUAL[kind])
    paths = [clone(model).fit(X, y, sample_weight=weights * scale).path_ for scale in (1.0, 0.999, 0.1, 1e-9)]
    assert len({len(path) for path in paths}) == 1
    for path in paths[1:]:
        np.testing.assert_allclose(path.values("leave_one_out"), paths[0].values("leave_one_out"), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*are duplicates of others")  # which is right
@pytest.mark.parametrize("name", PROBABLE)
def test_probabilities_know_how_many_rows_weights_stand_for(name):
    estimator, y = PROBABLE[name]
    weighed, repeated = clone(estimator).fit(X, y, sample_weight=COUNTS), clone(estimator).fit(X[ROWS], y[ROWS])
    np.testing.assert_allclose(weighed.predict_proba(X), repeated.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("name", ["fda", "pca", "nystroem", "nystroem-prefit"])
def test_kernel_matrices_and_weights(name):
    estimator, y = ESTIMATORS[name]
    K = rbf_kernel(X, gamma=0.7)
    ready = clone(estimator).set_params(kernel="precomputed").fit(K, y, sample_weight=COUNTS)
    direct = clone(estimator).set_params(gamma=0.7).fit(X, y, sample_weight=COUNTS)
    np.testing.assert_array_equal(chosen(ready), chosen(direct))
    method = "predict" if hasattr(ready, "predict") else "transform"
    np.testing.assert_allclose(getattr(ready, method)(K), getattr(direct, method)(X), rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*validation_fraction")
@pytest.mark.parametrize("name", ["fda", "pca", "pca-diagonal", "nystroem", "nystroem-classes", "novelty", "cca"])
def test_other_arrays_and_weights(name):
    """Sparse matrices, float32 and arrays of another library."""
    strict = pytest.importorskip("array_api_strict")
    estimator, y = ESTIMATORS[name]
    plain = clone(estimator).fit(X, y, sample_weight=COUNTS)
    if name != "cca":  # scikit-learn does not centre sparse data, so the width must be given
        options = {"gamma": 0.5}
        dense = clone(estimator).set_params(**options).fit(X, y, sample_weight=COUNTS)
        thin = clone(estimator).set_params(**options).fit(sparse.csr_array(X), y, sample_weight=COUNTS)
        np.testing.assert_array_equal(chosen(thin), chosen(dense))
    single = clone(estimator).fit(X.astype(np.float32), y, sample_weight=COUNTS)
    np.testing.assert_allclose(single.path_.values("loss")[0], plain.path_.values("loss")[0], rtol=1e-4)
    with config_context(array_api_dispatch=True):
        other = clone(estimator).fit(strict.asarray(X), y, sample_weight=strict.asarray(COUNTS.astype(float)))
        np.testing.assert_array_equal(chosen(other), chosen(plain))
        method = "decision_function" if hasattr(other, "decision_function") else "transform"
        values = np.asarray(getattr(other, method)(strict.asarray(X)))
    np.testing.assert_allclose(values, getattr(plain, method)(X), rtol=1e-6, atol=1e-7)


def test_a_search_weighs_its_fits_and_scores():
    weights = np.where(CLASSES == 0, 0.0, 1.0)
    model = kp.PursuitSearchCV(kp.SparseKernelFDA(), max_atoms=4, gammas=[0.5], cv=3).fit(
        X, CLASSES, sample_weight=weights
    )
    assert list(model.classes_) == [1, 2]


@pytest.mark.parametrize(
    "estimator", [kp.SparseKernelPCA(8, stop="bound"), kp.SparseKernelFDA(8, stop="bound")], ids=repr
)
def test_bounds_are_about_equal_rows(estimator):
    with pytest.raises(ValueError, match="does not take sample_weight"):
        estimator.fit(X, CLASSES > 1, sample_weight=COUNTS)


def test_rows_held_out_count_by_their_weights():
    """A threshold of rows held out: the share of their weight below it is the one asked for."""
    data = np.random.default_rng(1).normal(size=(400, 2))
    weights = np.random.default_rng(2).integers(1, 5, size=400).astype(float)
    model = kp.SparseKernelNovelty(15, contamination=0.2, validation_fraction=0.5, random_state=0)
    model.fit(data, sample_weight=weights)
    share = np.average(model.predict(data) == -1, weights=weights)
    assert abs(share - 0.2) < 0.06
