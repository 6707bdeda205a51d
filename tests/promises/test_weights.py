"""A row of weight w is w rows, a row of weight 0 is none, and a common factor of all weights changes nothing."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import kernelpursuit as kp
from kernelpursuit import DenseDictionary, Gradient, Squares, pursue
from kernelpursuit.losses import LOSSES, huber
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.stopping import search_charge
from tests.pairwise import pairwise
from tests.registry import BY_DESCENT, MODELS, target_of

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=60)
CLASSES, TWO = target_of("classes", X, Y), target_of("two classes", X, Y)
VIEW = target_of("views", X, Y)
COUNTS = rng.integers(0, 4, size=60)
ROWS = np.repeat(np.arange(60), COUNTS)
ESTIMATORS = {name: (model, target_of(kind, X, Y)) for name, (model, kind) in (MODELS | BY_DESCENT).items()}
del ESTIMATORS["weak"]  # a pass takes fewer atoms where rows are there twice
ESTIMATORS["fda-sampled"] = kp.SparseKernelFDA(8, candidates=1000, random_state=0), CLASSES
UNEQUAL = {"even": rng.uniform(0.5, 1.5, 60), "skewed": rng.exponential(size=60) + 0.01}
ATTRIBUTES = ("alpha_", "residual_trace_", "eigenvalues_", "correlations_", "cosines_", "offset_")
OUTPUTS = ("predict", "transform", "decision_function", "score_samples", "residual")
pytestmark = pytest.mark.filterwarnings(
    *("ignore:.*are duplicates of others", "ignore:about .* of new rows", "ignore:sample_weight sums to"),
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


def fitted(name, weights=None, rows=slice(None)):
    estimator, y = ESTIMATORS[name]
    weights = {} if weights is None else {"sample_weight": weights}
    return clone(estimator).fit(X[rows], None if y is None else y[rows], **weights)


def chosen(model, n=60):
    """Rows that are atoms, whichever kernel they are atoms of; functions are of no row."""
    places = model.component_indices_ if hasattr(model, "component_indices_") else model.support_
    return places[getattr(model, "support_kernels_", 0 * places) >= 0] % n


def assert_same_outputs(name, one, two, *more):
    """The same outputs, up to what a descent leaves of digits."""
    rtol, atol = (1e-5, 1e-5) if name in BY_DESCENT else (1e-7, 1e-7)
    for method in (*OUTPUTS, *more):
        if hasattr(two, method):
            found, expected = getattr(one, method)(X), getattr(two, method)(X)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=method)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_are_counts(name):
    weighed, repeated = fitted(name, COUNTS), fitted(name, rows=ROWS)
    np.testing.assert_array_equal(chosen(weighed), ROWS[chosen(repeated, len(ROWS))])
    assert np.all(COUNTS[chosen(weighed)] > 0)
    if hasattr(weighed, "support_vectors_"):
        np.testing.assert_array_equal(weighed.support_vectors_, X[chosen(weighed)])
    assert weighed.path_.reason == repeated.path_.reason and len(weighed.path_) == len(repeated.path_)
    rtol = 1e-6 if name in BY_DESCENT else 1e-7
    np.testing.assert_allclose(weighed.path_.values("loss"), repeated.path_.values("loss"), rtol=rtol, atol=1e-12)
    for attribute in ATTRIBUTES:
        if hasattr(weighed, attribute):
            found, expected = getattr(weighed, attribute), getattr(repeated, attribute)
            rtol = 1e-9 if attribute == "alpha_" else 1e-6
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-9, err_msg=attribute)
    assert_same_outputs(name, weighed, repeated, "predict_proba")


@pytest.mark.parametrize("scale", [1e-100, 1 / 60, 0.9])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in ("ridge-auto", "backfit-ridge")])
def test_equal_weights_below_one_are_none(name, scale):
    assert_same_outputs(name, fitted(name, np.full(60, scale)), fitted(name), "predict_proba")


# No number, noise or probability is estimated here, which would depend on how many rows there are.
OF_ANY_SIZE = ("no-ridge", "ranker", "two-classes", "faces", "fda", "pca", "cca")


@pytest.mark.parametrize(
    "name", [*(name for name in MODELS if name.startswith(OF_ANY_SIZE)), "nystroem", "nystroem-diagonal"]
)
def test_a_factor_of_weights_is_nothing(name):
    for weights in (None, UNEQUAL["even"]):
        plain = fitted(name, weights)
        weighed = fitted(name, np.full(60, 1e100) if weights is None else weights * 1e100)
        np.testing.assert_array_equal(chosen(weighed), chosen(plain))
        assert_same_outputs(name, weighed, plain)


NOISY = Y + np.random.default_rng(3).normal(size=60)
PROPORTIONAL = {
    name: ESTIMATORS[name] for name in ("classifier", "two-classes", "class-weight", "labels", "fda", "hinge")
}
PROPORTIONAL |= {
    "leave-one-out": (kp.KMPRegressor(40, stop="leave_one_out"), NOISY),
    "auto": (kp.KMPRegressor(), NOISY),
    "auto-classes": (kp.KMPClassifier(), TWO),
    "auto-balanced": (kp.KMPClassifier(class_weight="balanced"), TWO),
}


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.parametrize("name", PROPORTIONAL)
def test_unequal_weights_are_taken_in_proportion(name, kind):
    """No weight is compared with 1: a row left out would be one of its copies, or all of it, by the unit of weights."""
    estimator, y = PROPORTIONAL[name]
    weights = UNEQUAL[kind] / np.mean(UNEQUAL[kind])
    first, *others = (clone(estimator).fit(X, y, sample_weight=weights * c) for c in (1.0, 0.999, 0.1, 1e-9))
    for other in others:
        assert len(other.path_) == len(first.path_)
        if name.startswith(("leave", "auto")):  # what chooses the number of atoms
            curves = [model.path_.values("leave_one_out") for model in (first, other)]
            np.testing.assert_allclose(*curves, rtol=1e-6)
        if hasattr(first, "predict_proba"):
            np.testing.assert_allclose(other.predict_proba(X), first.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("model", [kp.KMPRegressor(8), kp.KMPClassifier(8)], ids=repr)
@pytest.mark.parametrize("squared", [True, False])
def test_a_row_may_be_given_in_parts(model, squared):
    y = TWO if isinstance(model, kp.KMPClassifier) else Y
    if not squared:
        model = clone(model).set_params(loss="log_loss" if isinstance(model, kp.KMPClassifier) else "absolute_error")
    weights, part, split = rng.uniform(2, 4, 60), rng.uniform(0.3, 0.7, 60), np.arange(0, 60, 3)
    parts = np.concatenate([weights, part[split] * weights[split]])
    parts[split] *= 1 - part[split]
    whole = clone(model).fit(X, y, sample_weight=weights)
    other = clone(model).fit(np.concatenate([X, X[split]]), np.concatenate([y, y[split]]), parts)
    assert whole.alpha_ == pytest.approx(other.alpha_, rel=1e-9)
    method = "decision_function" if isinstance(model, kp.KMPClassifier) else "predict"
    np.testing.assert_allclose(getattr(whole, method)(X), getattr(other, method)(X), rtol=1e-5, atol=1e-5)


OF_KERNELS = {name: ESTIMATORS[name] for name in ("fda", "pca", "nystroem", "nystroem-prefit")}
OF_KERNELS |= {
    f"regressor {options}": (kp.KMPRegressor(6, random_state=0, **options), Y)
    for options in ({}, {"alpha": 0.1}, {"centers": 15}, {"centers": 15, "alpha": 0.1})
}


@pytest.mark.parametrize("name", OF_KERNELS)
def test_kernel_matrices_and_weights(name):
    """As rows with the same kernel, and as the matrix without the rows of weight 0."""
    estimator, y = OF_KERNELS[name]
    K, kept = rbf_kernel(X, gamma=0.7), np.flatnonzero(COUNTS)
    precomputed = clone(estimator).set_params(kernel="precomputed")
    ready = clone(precomputed).fit(K, y, sample_weight=COUNTS)
    absent = clone(precomputed).fit(K[np.ix_(kept, kept)], None if y is None else y[kept], sample_weight=COUNTS[kept])
    direct = clone(estimator).set_params(gamma=0.7).fit(X, y, sample_weight=COUNTS)
    np.testing.assert_array_equal(chosen(ready), chosen(direct))
    np.testing.assert_array_equal(chosen(ready), kept[chosen(absent)])
    method = "predict" if hasattr(ready, "predict") else "transform"
    expected = getattr(ready, method)(K)
    np.testing.assert_allclose(getattr(direct, method)(X), expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(getattr(absent, method)(K[:, kept]), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*validation_fraction")
@pytest.mark.parametrize("name", ["fda", "pca", "pca-diagonal", "nystroem", "nystroem-classes", "novelty", "cca"])
def test_other_arrays_and_weights(name):
    """Sparse matrices, float32 and arrays of another library."""
    strict = pytest.importorskip("array_api_strict")
    estimator, y = ESTIMATORS[name]
    plain = fitted(name, COUNTS)
    if name != "cca":  # scikit-learn does not centre sparse data, so the width must be given
        given = clone(estimator).set_params(gamma=0.5)
        dense, thin = (clone(given).fit(rows, y, sample_weight=COUNTS) for rows in (X, sparse.csr_array(X)))
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
    model = kp.PursuitSearchCV(kp.SparseKernelFDA(), max_atoms=4, gammas=[0.5], cv=3)
    assert list(model.fit(X, CLASSES, sample_weight=weights).classes_) == [1, 2]


def test_held_out_rows_count_by_their_weights():
    """The threshold of a novelty: the share of the weight below it is the one asked for."""
    data = np.random.default_rng(1).normal(size=(400, 2))
    weights = np.random.default_rng(2).integers(1, 5, size=400).astype(float)
    model = kp.SparseKernelNovelty(15, contamination=0.2, validation_fraction=0.5, random_state=0)
    share = np.average(model.fit(data, sample_weight=weights).predict(data) == -1, weights=weights)
    assert abs(share - 0.2) < 0.06


@pytest.mark.parametrize("make", [kp.SparseKernelPCA, kp.SparseKernelFDA])
def test_bounds_are_about_equal_rows(make):
    with pytest.raises(ValueError, match="does not take sample_weight"):
        make(8, stop="bound").fit(X, TWO, sample_weight=COUNTS)


@pytest.mark.parametrize(("weight", "count"), [(0, 60), (-1, 60), (np.nan, 60), (1, 59)])
def test_bad_weights_are_named(weight, count):
    with pytest.raises(ValueError, match=r"[wW]eight"):
        kp.KMPRegressor(3).fit(X, Y, sample_weight=np.full(count, weight))


def test_weights_that_leave_one_class_are_refused():
    with pytest.raises(ValueError, match="y must have two classes"):
        kp.KMPClassifier(3).fit(X, TWO, sample_weight=TWO)


@pytest.mark.parametrize(
    "model",
    [
        kp.RefinedKMPRegressor(3, random_state=0, epochs=2),
        kp.RefinedKMPClassifier(3, random_state=0, epochs=2),
        kp.FeatureWidths(random_state=0),
        kp.KMPClassifier(3),
    ],
    ids=repr,
)
def test_enormous_weights(model):
    """Nobody has so many rows; squares of these numbers overflow."""
    y = Y if isinstance(model, kp.RefinedKMPRegressor) else TWO
    fits = [clone(model).fit(X, y, sample_weight=np.full(60, size)) for size in (1e100, 1e200, 1e305)]
    first, *others = [one.weights_ if isinstance(one, kp.FeatureWidths) else one.predict(X) for one in fits]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-6)
    with pytest.raises(ValueError, match="the sum of sample_weight overflows: divide"):
        clone(model).fit(X, y, sample_weight=np.full(60, 1.7e308))


# ---------------------------------------------------------------------------------------------- criteria

K = rbf_kernel(X, gamma=0.5)
WEIGHTS = np.random.default_rng(3).uniform(0.5, 2, 60)
CRITERIA = {
    "squares": lambda D, y, **options: Squares(D, y, **options),
    "basic": lambda D, y, **options: Squares(D, y, variant="basic", **options),
    "log_loss": lambda D, y, **options: Gradient(D, np.sign(y - 1), LOSSES["log_loss"], **options),
    "huber": lambda D, y, **options: Gradient(D, y, huber(0.5), **options),
}
FACTORS = [1e-300, 1e-170, 1e-100, 1e-12, 1e-3, 7.0, 1e100, 1e290]


@cache
def pursued(name, scale, alpha, uniform):
    weights = np.ones(60) if uniform else WEIGHTS
    run = CRITERIA[name](DenseDictionary(K, gram=K), NOISY, weights=scale * weights, alpha=scale * alpha)
    return run, pursue(run, n_atoms(8))


@pytest.mark.parametrize(("name", "factor", "alpha", "uniform"), pairwise(CRITERIA, FACTORS, [0.0, 0.1], [True, False]))
def test_a_factor_of_weights_and_ridge_changes_no_criterion(name, factor, alpha, uniform):
    (run, one), (scaled, two) = (pursued(name, scale, alpha, uniform) for scale in (1.0, factor))
    assert one.atoms.tolist() == two.atoms.tolist() and len(one) == 8
    rtol = 1e-10 if name in ("squares", "basic") else 1e-6  # optimisers stop at a small gradient
    expected, found = (np.array([*criterion.weight_path(8)]) for criterion in (run, scaled))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    for field, power in (("loss", 0), ("score", 1), ("weight", 0.5)):
        if 1e-290 < factor**power < 1e280:
            values = [np.array([np.ravel(getattr(step, field)) for step in path.steps]) for path in (one, two)]
            np.testing.assert_allclose(values[1] / factor**power, values[0], rtol=1e-4)


@pytest.mark.parametrize("name", ["squares", "log_loss"])
def test_equal_weights_are_none_to_a_criterion(name):
    runs = [CRITERIA[name](DenseDictionary(K), NOISY, weights=weights) for weights in (None, np.full(60, 1e-12))]
    one, two = (pursue(run, n_atoms(8)) for run in runs)
    assert one.atoms.tolist() == two.atoms.tolist()
    np.testing.assert_allclose(runs[1].coef(), runs[0].coef(), rtol=1e-5, atol=1e-6 * np.abs(runs[0].coef()).max())


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_the_charge_of_a_search_has_no_unit(unit):
    """Squares of such weights are 0 or infinite: once an error about a division."""
    assert search_charge(VIEW, unit * WEIGHTS) == pytest.approx(search_charge(VIEW, WEIGHTS), rel=1e-9)
