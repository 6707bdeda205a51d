"""Tensors and strict arrays are fitted where they live, and give what NumPy arrays give.

Runs on machines with a GPU as well; libraries and devices that are not there are skipped.
"""

import os
import pickle
import warnings

import array_api_compat
import numpy as np
import pytest
import sklearn
from sklearn.base import is_classifier, is_regressor

import kernelpursuit as kp
from kernelpursuit.arrays import on_host
from tests.registry import BY_DESCENT, DRAWING, MODELS, target_of

pytestmark = [
    pytest.mark.skipif(os.environ.get("SCIPY_ARRAY_API") != "1", reason="SCIPY_ARRAY_API=1 must be set at the start"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

SPACES = ["torch-cpu", "torch-cuda", "strict"]
LOSSES = ["squared_error", "log_loss", "exponential", "tanh", "doom2", "squared_hinge", "huber"]


def moved(space):
    """Function that makes arrays of a library on a device from NumPy ones."""
    if space in ("strict", "device1"):
        xp = pytest.importorskip("array_api_strict")
        device = xp.Device("CPU_DEVICE" if space == "strict" else space)
        return lambda x: xp.asarray(x, device=device)
    torch = pytest.importorskip("torch")
    device = space.removeprefix("torch-")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return lambda x: torch.asarray(x, device=device)


def dispatch():
    return sklearn.config_context(array_api_dispatch=True)


def plain(n=90, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def duplicated():
    X, y = plain(45, seed=1)
    return np.concatenate([X, X]), np.concatenate([y, y + 0.2])


def offset():
    X, y = plain(80, 5, seed=2)
    return X + 1000, 50 * y + 7


DATA = {"duplicated": duplicated, "offset": offset}
# What array-api-strict refuses does not depend on the numbers: one kind of data is enough, the one with most branches.
# Plain data are those of all other tests.
DATA_IN_SPACES = [(data, space) for data in ("duplicated", "offset") for space in SPACES[:2]]
DATA_IN_SPACES.append(("duplicated", "strict"))

ESTIMATORS = MODELS | BY_DESCENT | DRAWING
CLASSIFIERS = {
    # The tails of two losses are flat: an intercept, which has no penalty, would run away.
    **{name: kp.KMPClassifier(6, loss=name, alpha=0.1, fit_intercept=name not in ("tanh", "doom2")) for name in LOSSES},
    **{name: ESTIMATORS[name][0] for name in ("classifier-auto", "validation-classes", "cv-classes", "fda", "cv-fda")},
}
OTHERS = [name for name, (model, _) in ESTIMATORS.items() if not is_classifier(model)]
OUTPUTS = [
    *("predict", "decision_function", "predict_proba", "predict_log_proba"),
    *("transform", "score_samples", "residual"),
]


def support(model):
    model = getattr(model, "estimator_", getattr(model, "best_estimator_", model))
    return model.component_indices_ if isinstance(model, kp.PursuitNystroem) else model.support_


def same_place(x, like):
    assert array_api_compat.array_namespace(x) is array_api_compat.array_namespace(like)
    assert x.device == like.device


FITTED: dict = {}


def on_numpy(estimator, X, y, **fit):
    """Fitted once for all libraries it is compared with."""
    key = (id(estimator), *(b"" if array is None else array.tobytes() for array in (X, y, *fit.values())))
    if key not in FITTED:
        FITTED[key] = estimator, sklearn.clone(estimator).fit(X, y, **fit)  # kept, so that no other has its id
    return FITTED[key][1]


def compare(estimator, X, y, move, atol=1e-10, **fit):
    """Fit on NumPy and on moved arrays; the same atoms and outputs, the outputs where X is."""
    expected = on_numpy(estimator, X, y, **fit)
    with dispatch():
        X_there, y_there = move(X), None if y is None else move(y)
        model = sklearn.clone(estimator).fit(X_there, y_there, **{name: move(value) for name, value in fit.items()})
        found = support(model)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, support(expected))
        for name in OUTPUTS:
            if not hasattr(expected, name):
                continue
            there, here = getattr(model, name)(X_there), getattr(expected, name)(X)
            same_place(there, X_there)
            there = on_host(there)
            assert there.dtype == here.dtype and there.shape == here.shape
            np.testing.assert_allclose(there, here, rtol=1e-10, atol=atol * max(1.0, float(np.max(np.abs(here)))))
        if hasattr(expected, "staged_predict"):
            stages = list(model.staged_predict(X_there))
            assert len(stages) == len(getattr(model, "best_estimator_", model).path_)
            np.testing.assert_allclose(on_host(stages[-1]), on_host(model.predict(X_there)), atol=1e-9)
    return model, expected, X_there


@pytest.mark.filterwarnings("ignore:column . of y has", "ignore:about .* of new rows")
@pytest.mark.parametrize(("data", "space"), DATA_IN_SPACES)
@pytest.mark.parametrize("name", OTHERS)
def test_regressors_transformers_and_detectors(name, data, space):
    move, (X, y), (estimator, kind) = moved(space), DATA[data](), ESTIMATORS[name]
    y = target_of(kind, X, y)
    atol = 1e-6 if name in BY_DESCENT else 1e-10 if is_regressor(estimator) else 1e-8
    model, expected, there = compare(estimator, X, y, move, atol)
    fitted = getattr(model, "best_estimator_", model)
    with dispatch():
        if hasattr(fitted, "dual_coef_"):
            same_place(fitted.dual_coef_, there)
            same_place(fitted.support_vectors_, there)
        if is_regressor(model):
            assert model.score(there, move(y)) == pytest.approx(expected.score(X, y))
        if name == "conformal":
            interval = model.predict_interval(there)
            same_place(interval, there)
            np.testing.assert_allclose(on_host(interval), expected.predict_interval(X), atol=1e-8)
        if name == "pca":
            same_place(model.approximate_kernel(there, there), there)
            distances = on_host(model.residual(there))
            np.testing.assert_allclose(distances, expected.residual(X), atol=1e-8)
            np.testing.assert_array_equal(distances, on_host(model.residual(there, np.ones(len(X)))))
        if kind == "views":
            assert 0 < model.score(there, move(y)) <= 1
            same_place(model.transform(there, move(y))[1], there)


# Each classifier has two classes and three, each in one of the libraries; on a GPU both.
CLASSES_IN_SPACES = [
    (name, n_classes, space)
    for place, name in enumerate(CLASSIFIERS)
    for n_classes, space in zip((2, 3), ("torch-cpu", "strict")[:: 1 if place % 2 else -1], strict=True)
]
CLASSES_IN_SPACES += [(name, n_classes, "torch-cuda") for name in CLASSIFIERS for n_classes in (2, 3)]


@pytest.mark.parametrize(("name", "n_classes", "space"), CLASSES_IN_SPACES)
def test_classifiers(name, n_classes, space):
    X, y = plain()
    y = target_of("two classes" if n_classes == 2 else "classes", X, y)
    # The optimiser of the other losses stops at a relative change of 1e-15 of the loss: weights know eight digits.
    atol = 1e-6 if name in LOSSES and name != "squared_error" else 1e-10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model, _, X_there = compare(CLASSIFIERS[name], X, y, moved(space), atol)
    same_place(model.classes_, X_there)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("make", [kp.KMPRegressor, kp.KMPClassifier, kp.SparseKernelFDA])
def test_precomputed_kernels(make, space):
    X, y = plain()
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    compare(
        make(8, kernel="precomputed"), K, y if make is kp.KMPRegressor else target_of("classes", X, y), moved(space)
    )


@pytest.mark.parametrize("space", SPACES)
def test_weights_and_several_targets(space):
    X, y = plain()
    weights = np.random.default_rng(3).integers(0, 3, size=len(X)).astype(float)
    model, expected, X_there = compare(
        kp.KMPRegressor(10, alpha=0.01), X, np.stack([y, X[:, 0]], axis=1), moved(space), sample_weight=weights
    )
    assert model.dual_coef_.shape == expected.dual_coef_.shape == (10, 2)
    same_place(model.intercept_, X_there)


KERNELS = ["linear", "poly", "sigmoid", "laplacian", "cosine", "chi2", "additive_chi2"]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel, space):
    X, y = plain()
    compare(kp.KMPRegressor(3, kernel=kernel, gamma=0.1), np.abs(X), y, moved(space))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "name", ["regressor", "huber", "tiles", "log_loss", "fda", "pca", "nystroem-prefit", "novelty", "cca", "faces"]
)
def test_single_precision(name, space):
    (estimator, kind), (X, y), move = ESTIMATORS[name], plain(), moved(space)
    X, y = X.astype(np.float32), target_of(kind if kind != "none" else "values", X, y)
    expected = on_numpy(estimator, X, y)
    with dispatch():
        model = sklearn.clone(estimator).fit(move(X), move(y))
        for method in ("predict", "decision_function", "transform"):
            if hasattr(model, method):
                values = getattr(model, method)(move(X))
                same_place(values, move(X))
                assert on_host(values).dtype == getattr(expected, method)(X).dtype
    overlap = len(set(support(model).tolist()) & set(support(expected).tolist()))
    assert overlap >= 0.5 * len(support(expected))  # the same but for ties within rounding


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("make", ["kmp", "fda", "search"])
def test_labels_of_strings_beside_tensors(make, space):
    X, y = plain()
    names, there = np.array(["low", "middle", "high"])[target_of("classes", X, y)], moved(space)(X)
    search = kp.PursuitSearchCV(kp.KMPClassifier(), max_atoms=4, cv=3, gammas=[0.3])
    estimator = {"kmp": kp.KMPClassifier(6), "fda": kp.SparseKernelFDA(6), "search": search}[make]
    expected = on_numpy(estimator, X, names)
    with dispatch():
        model = sklearn.clone(estimator).fit(there, names)
        prediction = model.predict(there)
        assert isinstance(prediction, np.ndarray) and isinstance(model.classes_, np.ndarray)
        np.testing.assert_array_equal(prediction, expected.predict(X))
        same_place(model.decision_function(there), there)
        assert model.score(there, names) == expected.score(X, names)


@pytest.mark.parametrize("space", SPACES)
def test_targets_and_weights_come_to_where_X_is(space):
    X, y = plain()
    weights, there = np.ones(len(y)), moved(space)(X)
    expected = kp.KMPRegressor(8).fit(X, y, weights)
    with dispatch():
        model, back = kp.KMPRegressor(8).fit(there, y, weights), kp.KMPRegressor(8).fit(X, moved(space)(y))
        same_place(model.predict(there), there)
    assert isinstance(back.predict(X), np.ndarray)
    for one in (model, back):
        np.testing.assert_array_equal(one.support_, expected.support_)


EACH = ["regressor", "log_loss", "fda", "pca", "nystroem", "novelty", "cca", "faces"]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", EACH)
def test_data_elsewhere_are_refused(name, space):
    (X, y), (estimator, kind), move = plain(), ESTIMATORS[name], moved(space)
    y = target_of(kind if kind != "none" else "values", X, y)
    method = "transform" if hasattr(estimator, "transform") else "predict"
    with dispatch():
        model = sklearn.clone(estimator).fit(move(X), move(y))
        with pytest.raises(ValueError, match=rf"{method}\(\) must use the same namespace and the same device"):
            getattr(model, method)(X)
        with pytest.raises(ValueError, match="same namespace"):
            getattr(on_numpy(estimator, X, y), method)(move(X))
    with pytest.raises(ValueError, match="must use the same namespace"):  # NumPy again, where dispatch is off
        getattr(model, method)(X)


def test_centres_elsewhere_are_refused():
    move = moved("torch-cpu")
    X, y = plain()
    with dispatch(), pytest.raises(ValueError, match="centers must be where X is"):
        kp.KMPRegressor(3, centers=X[:9]).fit(move(X), move(y))


@pytest.mark.parametrize(("here", "there"), [("strict", "device1"), ("torch-cuda", "torch-cpu")])
def test_devices_are_told_apart(here, there):
    X, y = plain()
    with dispatch():
        model = kp.KMPRegressor(3).fit(moved(here)(X), moved(here)(y))
        with pytest.raises(ValueError, match="same device"):
            model.predict(moved(there)(X))


def test_without_dispatch_tensors_become_numpy():
    move = moved("torch-cpu")
    X, y = plain()
    model = kp.KMPRegressor(8).fit(move(X), move(y))
    assert isinstance(model.predict(move(X)), np.ndarray) and isinstance(model.support_vectors_, np.ndarray)
    np.testing.assert_array_equal(model.support_, kp.KMPRegressor(8).fit(X, y).support_)


def test_without_dispatch_the_gpu_is_refused():
    move = moved("torch-cuda")
    X, y = plain()
    with pytest.raises(TypeError):
        kp.KMPRegressor(8).fit(move(X), move(y))


@pytest.mark.parametrize("space", ["torch-cpu", "torch-cuda"])
@pytest.mark.parametrize("name", [*EACH, "conformal"])
def test_pickle(name, space):
    (X, y), (estimator, kind), move = plain(), ESTIMATORS[name], moved(space)
    y = target_of(kind if kind != "none" else "values", X, y)
    with dispatch():
        model = sklearn.clone(estimator).fit(move(X), move(y))
        method = "transform" if hasattr(model, "transform") else "predict"
        before = getattr(model, method)(move(X))
        after = getattr(pickle.loads(pickle.dumps(model)), method)(move(X))
    same_place(after, before)
    np.testing.assert_array_equal(on_host(after), on_host(before))


@pytest.mark.parametrize("space", SPACES)
def test_truncated_models_and_other_precision(space):
    move = moved(space)
    X, y = plain()
    with dispatch():
        model = kp.KMPRegressor(8, alpha=0.0).fit(move(X), move(y))
        short = model.truncate(3)
        same_place(short.support_vectors_, move(X))
        shorter = kp.KMPRegressor(3, alpha=0.0).fit(X, y)
        np.testing.assert_allclose(on_host(short.predict(move(X))), shorter.predict(X), atol=1e-10)
        single = model.predict(move(X.astype(np.float32)))
        assert on_host(single).dtype == np.float32
        np.testing.assert_allclose(on_host(single), on_host(model.predict(move(X))), atol=1e-3)
