"""SparseKernelNovelty: scores and thresholds."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import estimator_checks

from kernelpursuit import SparseKernelNovelty
from kernelpursuit.estimators.novelty import hold_out
from kernelpursuit.fitting.pipeline import generator
from kernelpursuit.parameters import tolerance


def normal(n, seed=0, inputs=3):
    return np.random.default_rng(seed).normal(size=(n, inputs))


def test_scores_are_distances_to_the_span():
    X, new = normal(100), normal(30, 1)
    model = SparseKernelNovelty(15, contamination=0.1, gamma=0.2, stop=tolerance(0)).fit(X)
    A = X[model.support_]
    inside = rbf_kernel(new, A, gamma=0.2) @ np.linalg.inv(rbf_kernel(A, gamma=0.2)) @ rbf_kernel(A, new, gamma=0.2)
    np.testing.assert_allclose(model.score_samples(new), np.diag(inside) - 1, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(new), model.score_samples(new) - model.offset_)
    np.testing.assert_array_equal(model.predict(new), np.where(model.decision_function(new) < 0, -1, 1))
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))
    assert len(model.support_) == 15 == len(model.path_)
    np.testing.assert_array_equal(model.support_vectors_, A)
    n_outliers = int(np.sum(model.predict(X) == -1))
    estimator_checks.check_outlier_corruption(n_outliers, 10, model.decision_function(X))


@pytest.mark.parametrize("contamination", [0.05, 0.2, 0.5])
def test_contamination_is_the_share_of_training_rows(contamination):
    X = normal(400)
    predicted = SparseKernelNovelty(40, contamination=contamination).fit_predict(X)
    assert np.mean(predicted == -1) == pytest.approx(contamination, abs=0.01)


def test_false_alarms_stay_at_their_level():
    """Mean share of normal points called outliers; exchangeability promises at most `contamination`."""
    shares = []
    for seed in range(40):
        model = SparseKernelNovelty(20, contamination=0.1, validation_fraction=0.2, random_state=seed)
        model.fit(normal(245, seed))
        shares.append(np.mean(model.predict(normal(300, 1000 + seed)) == -1))
    assert 0.06 < np.mean(shares) < 0.1 + 3 * np.std(shares) / np.sqrt(40)


def test_few_rows_use_the_lowest_score():
    model = SparseKernelNovelty(3, contamination=0.01, validation_fraction=0.2, random_state=0).fit(normal(12))
    assert np.isfinite(model.offset_)
    sizes = [
        len(hold_out(n, share, np.random.default_rng(0))[1]) for n, share in ((2, 0.9), (7, 0.25), (9, 0.25), (7, 0.01))
    ]
    assert sizes == [1, 2, 2, 1]  # the nearest number of rows, and always some on either side
    with pytest.raises(ValueError, match="minimum of 2"):
        SparseKernelNovelty().fit(normal(1))


def test_outliers_are_found():
    X = normal(400)
    far = np.random.default_rng(5).uniform(-8, 8, size=(200, 3))
    far = far[np.sum(far**2, axis=1) > 16]
    model = SparseKernelNovelty(random_state=0).fit(X)
    scores = -np.r_[model.score_samples(normal(200, 1)), model.score_samples(far)]
    assert roc_auc_score(np.r_[np.zeros(200), np.ones(len(far))], scores) > 0.98


def test_support_counts_rows_of_the_data():
    """Rows held out are no candidates, and indices are those of X."""
    X = normal(50)
    model = SparseKernelNovelty(10, stop=tolerance(0), validation_fraction=0.2, random_state=1).fit(X)
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)


def test_huge_values_are_refused():
    with pytest.raises(ValueError, match=r"scale X|overflow"):
        SparseKernelNovelty(3, gamma=1.0).fit(normal(20) * 1e200)
    assert np.all(SparseKernelNovelty(gamma=0.1).fit(normal(100)).predict(normal(20) * 1e200) == -1)
    with pytest.raises(ValueError, match="scale X"):
        SparseKernelNovelty(gamma=0.1, kernel="poly").fit(normal(100)).predict(normal(20) * 1e200)
    rows = sparse.csr_array(normal(100))
    assert np.all(SparseKernelNovelty(gamma=0.1).fit(rows).predict(rows * 1e200) == -1)


@pytest.mark.filterwarnings("ignore:.*validation_fraction")
@pytest.mark.parametrize("share", [0.05, 0.123, 0.5])
def test_threshold_by_the_training_rows_is_a_quantile(share):
    X = normal(90)
    model = SparseKernelNovelty(20, contamination=share).fit(X)
    assert model.offset_ == pytest.approx(np.quantile(model.score_samples(X), share), abs=1e-8)


@pytest.mark.parametrize(("share", "rank"), [(0.1, 5), (0.0985, 5), (0.05, 2), (0.3, 15), (0.001, 1)])
def test_threshold_is_the_score_of_the_rank_below(share, rank):
    """51 share is no integer: one rank more would call more than that share of exchangeable points outliers."""
    X = normal(250)
    model = SparseKernelNovelty(20, contamination=share, validation_fraction=0.2, random_state=0).fit(X)
    held_out = hold_out(250, 0.2, generator(0))[1]
    assert len(held_out) == 50
    assert model.offset_ == pytest.approx(np.sort(model.score_samples(X[held_out]))[rank - 1], abs=1e-8)
    assert np.sum(model.predict(X[held_out]) == -1) == rank - 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(50, 5), (80, 10), (100, 10), (200, 10)])
def test_a_span_of_most_rows_is_named_with_what_new_rows_will_meet(shape, weighted):
    """The share that the warning names is about that of new rows."""
    rng = np.random.default_rng(1)
    X, new = rng.normal(size=shape), rng.normal(size=(2000, shape[1]))
    weights = np.ones(len(X)) if weighted else None
    with pytest.warns(UserWarning, match="validation_fraction") as caught:
        model = SparseKernelNovelty(random_state=0).fit(X, sample_weight=weights)
    named = float(re.search(r"about (\d+)%", str(caught[0].message)).group(1)) / 100
    assert abs(named - np.mean(model.predict(new) == -1)) < 0.15
    assert model.contamination + 0.15 < named


@pytest.mark.parametrize("n_atoms", [20, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("validation_fraction", [None, 0.3])
@pytest.mark.parametrize("scale", [1 / 200, 0.5, 0.9, 1e-30, 1.0, 2.0, 3.0])
def test_a_share_does_not_depend_on_the_scale_of_weights(scale, validation_fraction, dtype, n_atoms):
    """Neither the threshold nor what is said of it; only copies lie between order statistics of their own."""
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(dtype)
    options = {"contamination": 0.1, "validation_fraction": validation_fraction, "random_state": 0}
    said = []
    for weights in (None, np.full(200, scale)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = SparseKernelNovelty(n_atoms, **options).fit(X, sample_weight=weights)
        said.append(([str(one.message) for one in caught], np.mean(model.predict(X) == -1), model.offset_))
    plain, weighed = said
    assert weighed[:2] == plain[:2]
    assert weighed[2] == pytest.approx(plain[2], rel=1e-4 if scale <= 1 else 0.05)


@pytest.mark.parametrize("held_out", [None, 0.3])
def test_a_model_that_can_call_nothing_new_says_so(held_out):
    X = normal(200, inputs=2)
    with pytest.warns(UserWarning, match="gamma smaller"):
        model = SparseKernelNovelty(20, gamma=1000.0, validation_fraction=held_out, random_state=0).fit(X)
    assert model.predict(np.full((1, 2), 1e3)) == 1


def test_spans_of_few_rows_and_rows_held_out_do_not_warn():
    X = np.random.default_rng(1).normal(size=(80, 10))
    copies = np.repeat(X[:40], 10, axis=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SparseKernelNovelty(validation_fraction=0.3, random_state=0).fit(X)
        SparseKernelNovelty(10, gamma=0.01, random_state=0).fit(X)
        SparseKernelNovelty(random_state=0).fit(copies)
        SparseKernelNovelty(random_state=0).fit(X[:60], sample_weight=np.repeat([100, 1], [20, 40]))
        SparseKernelNovelty(random_state=0).fit(np.random.default_rng(0).normal(size=(1000, 10)))
    assert not said
