"""Sparse kernel Fisher discriminants: the literal algorithm, linear discriminant analysis, thresholds."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

import tests.oracle.fisher as literal
from kernelpursuit import PursuitSearchCV, SparseKernelFDA
from kernelpursuit.estimators.discriminant import weights_along_path
from kernelpursuit.math.discriminants import feature_factor
from kernelpursuit.parameters import tolerance


def blobs(n=150, n_classes=3, seed=0):
    """Rings and corners: classes of unequal size that no line separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    value = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    edges = np.quantile(value, np.linspace(0, 1, n_classes + 1)[1:-1] ** 1.3)
    return X, np.array(["a", "b", "c", "d", "e"])[np.digitize(value, edges)]


@pytest.mark.parametrize("labels", ["centred", "raw"])
@pytest.mark.parametrize("alpha", [1e-8, 0.1])
def test_two_classes_are_the_literal_algorithm(labels, alpha):
    X, y = blobs(n_classes=2)
    index = (y == "b").astype(int)
    model = SparseKernelFDA(8, labels=labels, gamma=1.0, alpha=alpha).fit(X, y)
    K = rbf_kernel(X, gamma=1.0)
    atoms = literal.fisher(K, index, 8, labels).atoms
    assert model.support_.tolist() == atoms
    coef, bias = literal.discriminant(K, atoms, index, alpha, labels)
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-6, atol=1e-9 * np.abs(coef).max())
    assert model.intercept_ == pytest.approx(bias, rel=1e-6)
    f = model.decision_function(X)
    np.testing.assert_allclose(f, K[:, atoms] @ coef + bias, atol=1e-7 * np.abs(f).max())
    assert f[index == 1].mean() == pytest.approx(-f[index == 0].mean(), rel=1e-9)  # the midpoint is the threshold
    assert np.array_equal(model.predict(X) == "b", f > 0)


def test_classes_of_equal_size_make_the_labels_the_same():
    X, y = blobs(200, 2)
    X = np.concatenate([X[y == "a"][:60], X[y == "b"][:60]])
    y = np.repeat(["a", "b"], 60)
    one, two = (SparseKernelFDA(6, labels=labels).fit(X, y) for labels in ("centred", "raw"))
    assert one.support_.tolist() == two.support_.tolist()
    np.testing.assert_allclose(one.dual_coef_, two.dual_coef_, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("labels", ["centred", "raw"])
def test_path_equals_refits(n_classes, labels):
    X, y = blobs(n_classes=n_classes)
    new = blobs(40, seed=1)[0]
    model = SparseKernelFDA(12, labels=labels).fit(X, y)
    decisions = list(model.staged_decision_function(new))
    predictions = list(model.staged_predict(new))
    assert len(decisions) == len(predictions) == 12
    for k in (1, 2, 5, 12):
        refitted, cut = SparseKernelFDA(k, labels=labels).fit(X, y), model.truncate(k)
        values = refitted.decision_function(new)
        atol = 1e-7 * np.abs(values).max()
        np.testing.assert_allclose(decisions[k - 1], values, atol=atol)
        np.testing.assert_allclose(cut.decision_function(new), values, atol=atol)
        np.testing.assert_allclose(cut.transform(new), refitted.transform(new), atol=1e-6)
        assert np.array_equal(predictions[k - 1], cut.predict(new))
        assert cut.support_.tolist() == refitted.support_.tolist() == model.support_[:k].tolist()
        assert len(cut.dual_coef_) == len(cut.support_vectors_) == len(cut.path_) == k
    empty = model.truncate(0)
    assert np.all(empty.decision_function(new) == 0) and np.all(empty.transform(new) == 0)
    with pytest.raises(ValueError, match="k must be"):
        model.truncate(13)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_all_atoms_of_a_linear_kernel_are_linear_discriminant_analysis(n_classes):
    """Classes of equal size and equal priors: the pooled covariance is then the mean of the class covariances."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 40)
    mix = rng.normal(size=(4, 4))
    X = (rng.normal(size=(len(y), 4)) + 1.5 * rng.normal(size=(n_classes, 4))[y]) @ mix
    X -= X.mean(axis=0)  # without an intercept among the atoms the span must hold the same functions
    model = SparseKernelFDA(4, kernel="linear", alpha=0).fit(X, y)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    new = rng.normal(size=(30, 4)) @ mix * 2
    ours, theirs = model.transform(new), lda.transform(new)
    assert ours.shape == theirs.shape == (30, n_classes - 1)
    for column in range(n_classes - 1):
        assert abs(np.corrcoef(ours[:, column], theirs[:, column])[0, 1]) == pytest.approx(1, abs=1e-9)
    assert np.array_equal(model.predict(new), lda.predict(new))
    f, g = model.decision_function(new), lda.decision_function(new)
    if n_classes > 2:
        f, g = f - f.mean(axis=1, keepdims=True), g - g.mean(axis=1, keepdims=True)
    ratio = f.ravel() @ g.ravel() / (g.ravel() @ g.ravel())
    np.testing.assert_allclose(f, ratio * g, atol=1e-8 * np.abs(f).max())


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_discriminant_coordinates(n_classes):
    X, y = blobs(300, n_classes)
    model = SparseKernelFDA(10).fit(X, y)
    Z = model.transform(X)
    groups = [Z[y == c] for c in model.classes_]
    within = np.mean([np.cov(group.T, bias=True).reshape(n_classes - 1, -1) for group in groups], axis=0)
    np.testing.assert_allclose(within, np.eye(n_classes - 1), atol=1e-5)
    means = np.array([group.mean(axis=0) for group in groups])
    np.testing.assert_allclose(means.mean(axis=0), 0, atol=1e-9)
    assert np.all(means[-1] > -1e-9)
    spread = np.sum(means**2, axis=0)
    assert np.all(np.diff(spread) <= 1e-9)
    # the nearest class mean in these coordinates is the prediction
    nearest = np.argmin(((Z[:, None] - means[None]) ** 2).sum(axis=2), axis=1)
    assert np.array_equal(model.classes_[nearest], model.predict(X))
    assert model.get_feature_names_out().tolist() == [f"sparsekernelfda{i}" for i in range(n_classes - 1)]
    few = model.truncate(1).transform(X)
    assert few.shape == Z.shape and np.all(few[:, 1:] == 0)


def test_two_of_three_values_add_up_to_the_binary_one():
    """f_c of the formula for more classes, at two classes: f₂ − f₁ = f."""
    X, y = blobs(n_classes=2)
    model = SparseKernelFDA(6).fit(X, y)
    found = model._discriminants
    both = np.concatenate([-found.codes, found.codes], axis=1) / np.sqrt(2)
    two = weights_along_path(found._replace(codes=both)).last()
    np.testing.assert_allclose(two[:, 1] - two[:, 0], np.r_[model.intercept_, model.dual_coef_], rtol=1e-10)


def test_a_duplicate_is_no_second_atom():
    X, _ = blobs(n_classes=2)
    twice = np.concatenate([X[:10], X[:10]])
    with pytest.warns(ConvergenceWarning):
        model = SparseKernelFDA(15, stop=tolerance(0)).fit(twice, np.arange(20) // 3 % 2)
    assert len(model.support_) <= 10 and np.all(model.support_ < 10)
    assert np.all(np.isfinite(model.decision_function(twice)))


def test_nothing_to_separate():
    X, y = np.ones((10, 2)), np.arange(10) % 2
    with pytest.warns(ConvergenceWarning):
        model = SparseKernelFDA(3).fit(X, y)
    assert len(model.support_) == 0 and model.predict(X).tolist() == [0] * 10
    with pytest.warns(ConvergenceWarning):
        search = PursuitSearchCV(SparseKernelFDA(), max_atoms=3, cv=2).fit(X, y)
    assert 0.4 <= search.best_score_ <= 0.6 and len(search.best_estimator_.support_) == 0
    rng = np.random.default_rng(0)
    for n in range(3, 40):  # the products of constant columns and labels are zero up to rounding
        with pytest.warns(ConvergenceWarning):
            y = np.r_[0, 1, rng.integers(2, size=n - 2)]
            assert len(SparseKernelFDA(3, kernel="poly").fit(np.full((n, 2), 0.3), y).support_) == 0


def test_atoms_of_several_kernels():
    X, y = blobs(120, 3)
    model = SparseKernelFDA(12, kernel=["rbf", "linear"]).fit(X, y)
    assert np.all(model.support_ < 240) and set(model.support_kernels_) == {0, 1}
    columns = np.hstack([rbf_kernel(X, gamma=model.gamma_[0]), linear_kernel(X)])[:, model.support_]
    np.testing.assert_allclose(model.decision_function(X), columns @ model.dual_coef_ + model.intercept_, atol=1e-6)


def test_indefinite_kernel_is_finite():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(40, 40))
    K = K + K.T - 5 * np.eye(40)
    y = np.arange(40) % 3
    for k in (1, 10, 40):
        model = SparseKernelFDA(k, kernel="precomputed", stop=tolerance(0)).fit(K, y)
        assert np.all(np.isfinite(model.decision_function(K)))
    assert model.score(K, y) == 1
    X, y = blobs(60, 2)
    for kernel in (
        ("sigmoid", {"coef0": -1}),
        lambda A, B: -rbf_kernel(A, B),
        lambda A, B: 1e-3 * linear_kernel(A, B) - rbf_kernel(A, B),
    ):
        model = SparseKernelFDA(15, kernel=kernel, alpha=0.1).fit(X, y)
        assert np.all(np.isfinite(model.decision_function(X))) and model.score(X, y) > 0.6


def unequal(n_classes, n=200):
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=n) < 0.15, "rare", "often")
    X = rng.normal(size=(n, 2)) + 1.2 * (y == "rare")[:, None]
    return X, np.where((n_classes == 3) & (X[:, 0] < -1), "third", y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_classes_move_thresholds(n_classes):
    X, y = unequal(n_classes)
    plain = SparseKernelFDA(5).fit(X, y)
    balanced = SparseKernelFDA(5, class_weight="balanced").fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), balanced.predict(X))
    dear = SparseKernelFDA(5, class_weight={"rare": 5.0}).fit(X, y)
    assert np.sum(dear.predict(X) == "rare") > np.sum(plain.predict(X) == "rare")
    place = plain.classes_.tolist().index("rare")
    odds, before = (np.exp(model.predict_log_proba(X)) for model in (dear, plain))
    ratio = odds[:, place] / (1 - odds[:, place]) / (before[:, place] / (1 - before[:, place]))
    np.testing.assert_allclose(ratio, 5.0, rtol=1e-6)
    with pytest.raises(ValueError, match="class_weight"):
        SparseKernelFDA(5, class_weight={"rare": -1.0}).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_truncated_discriminant_has_the_thresholds_of_its_size(n_classes):
    X, y = unequal(n_classes)
    long = SparseKernelFDA(9, gamma=0.3, class_weight={"rare": 5.0}).fit(X, y)
    for k in (1, 5, 9):
        fit = SparseKernelFDA(k, gamma=0.3, class_weight={"rare": 5.0}).fit(X, y)
        np.testing.assert_allclose(long.truncate(k).decision_function(X), fit.decision_function(X), rtol=1e-8)
        np.testing.assert_allclose(long.truncate(k).predict_proba(X), fit.predict_proba(X), rtol=1e-8)


def test_norms_too_small_for_numbers_are_an_error():
    """Squared norms of 2e-312 are above zero, their share of 1e-12 is not."""
    X = np.array([[-1e-78], [1e-78]])
    with pytest.raises(ValueError, match="too small for floating point: scale X"):
        SparseKernelFDA(1, kernel="linear").fit(X, [0, 1])


def test_features_of_nearly_equal_atoms_are_told_apart():
    """What is left of the second atom is a millionth of it, far above rounding: it is no feature of its own."""
    gram = rbf_kernel(np.array([[0.0], [1e-3], [2.0]]), gamma=0.5)
    assert 0 < 1 - gram[0, 1] ** 2 < 2e-6
    factor = feature_factor(gram, np.eye(3), 100.0, np.finfo(float).eps)
    np.testing.assert_allclose(factor @ factor.T, gram, rtol=1e-12)
