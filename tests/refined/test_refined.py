"""The refined estimators: what they learn, what they say of it, and bad input."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

import kernelpursuit.refined.refining as refining
from kernelpursuit import KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor, refine
from kernelpursuit.refined.base import outcome_of
from kernelpursuit.refined.evidence import Evidence, Rise
from kernelpursuit.refined.judging import Judged
from kernelpursuit.refined.moving_atoms import Atoms
from kernelpursuit.refined.refining import Fit, RefinementSetting, Start, Task, frame_of, squared_errors


def smooth(n=200, d=3, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=n)


@pytest.fixture(params=["evidence", "descent"])
def route(request, monkeypatch):
    """By the evidence, and by mini-batches for data of any size."""
    if request.param == "descent":
        monkeypatch.setattr(refining, "AFFORDABLE", 0)


def test_terms_that_moved_are_worth_many_that_did_not():
    X, y = smooth(250)
    new, truth = smooth(2000, seed=1)
    model = RefinedKMPRegressor(n_atoms=8, random_state=0).fit(X, y)
    assert len(model.dual_coef_) == 8 and model.moved_ != "nothing"
    assert model.score(new, truth) > KMPRegressor(n_atoms=24).fit(X, y).score(new, truth)


def test_units_do_not_matter():
    X, y = smooth(150)
    plain = RefinedKMPRegressor(n_atoms=6, random_state=0).fit(X, y)
    for unit in (1e-8, 1e8):
        Z = X * [unit, 1, 1 / unit] + [3 * unit, 0, 0]
        scaled = RefinedKMPRegressor(n_atoms=6, random_state=0).fit(Z, y * unit)
        assert np.corrcoef(scaled.predict(Z) / unit, plain.predict(X))[0, 1] > 0.99
        assert scaled.score(Z, y * unit) > 0.9


def test_the_frame_of_the_inputs():
    """A constant leaves no trace, however its mean is rounded; an indicator is not stretched for being rare."""
    rng = np.random.default_rng(0)
    for n in range(1700, 1750):
        rare = (np.arange(n) < 2).astype(float)
        frame = frame_of(np.column_stack([np.full(n, 9.1), 5 * rare, rng.normal(size=n)]), None)
        assert np.isinf(frame.spread[0]) and frame.spread[1] == 5 and frame.spread[2] == pytest.approx(1, abs=0.1)


def predicted(model, X, y, new, start=None):
    """What a model says of new rows: of values with their deviation, of classes their probabilities."""
    if start is not None:
        return refine(start.fit(X, y), X, y, random_state=0).predict(new)
    model.fit(X, y)
    return np.array(model.predict(new, return_std=True)) if is_regressor(model) else model.predict_proba(new)


@pytest.mark.parametrize(
    ("rows", "model", "start"),
    [
        (120, RefinedKMPRegressor(8, random_state=0), None),
        (120, None, KMPRegressor(6, gamma=0.5)),
        (120, RefinedKMPClassifier(8, random_state=0), None),
        (1600, RefinedKMPClassifier(8, epochs=3, random_state=0), None),  # by mini-batches
    ],
)
def test_constant_inputs_change_nothing(rows, model, start):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(rows, 3)), rng.normal(size=(50, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=rows)
    y = y > 0 if start is None and is_classifier(model) else y
    wide = [np.column_stack([Z[:, :1], np.full(len(Z), 7.0), Z[:, 1:], np.zeros((len(Z), 20))]) for Z in (X, new)]
    plain = predicted(model, X, y, new, start)
    np.testing.assert_allclose(predicted(model, wide[0], y, wide[1], start), plain, atol=1e-4)
    assert start is not None or np.array_equal(np.flatnonzero(model.input_weights_), [0, 2, 3])


def test_noise_alone_is_left_alone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 6)), rng.normal(size=100)
    new, truth = rng.normal(size=(2000, 6)), rng.normal(size=2000)
    model = RefinedKMPRegressor(random_state=0).fit(X, y)
    assert np.mean((model.predict(new) - truth) ** 2) < 1.15 * np.mean(truth**2)


def test_the_standard_deviation_covers_new_targets():
    X, y = smooth(300, noise=0.3)
    new, truth = smooth(3000, noise=0.3, seed=1)
    model = RefinedKMPRegressor(n_atoms=10, random_state=0).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    inside = np.mean(np.abs(truth - mean) < 1.96 * std)
    assert 0.9 < inside < 0.99
    assert model.noise_ == pytest.approx(0.3, rel=0.3)


def test_several_targets_share_the_terms():
    X, y = smooth()
    model = RefinedKMPRegressor(n_atoms=8, random_state=0).fit(X, np.column_stack([y, 1000 * X[:, 2]]))
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (200, 2) and model.dual_coef_.shape == (8, 2)
    assert std[0, 1] > 10 * std[0, 0]
    assert model.score(X, np.column_stack([y, 1000 * X[:, 2]])) > 0.8


@pytest.mark.usefixtures("route")
def test_both_routes_serve_regression_and_classes():
    X, y = smooth(400)
    assert RefinedKMPRegressor(n_atoms=8, random_state=0).fit(X, y).score(X, y) > 0.9
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = RefinedKMPClassifier(n_atoms=12, random_state=0, epochs=100).fit(X, labels)
    assert model.score(X, labels) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.decision_function(X).shape == (400, 3)


@pytest.mark.parametrize("n", [300, 2000])
def test_probabilities_are_calibrated(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 4000, 2))
    p = 1 / (1 + np.exp(-2 * X[:, 0] - np.sin(2 * X[:, 1])))
    y = (rng.random(len(p)) < p).astype(int)
    model = RefinedKMPClassifier(n_atoms=6, random_state=0).fit(X[:n], y[:n])
    found = model.predict_proba(X[n:])[:, 1]
    groups = np.array_split(np.argsort(found), 5)  # of all rows given a probability, that share is of the class
    assert np.mean([abs(np.mean(found[J]) - np.mean(p[n:][J])) for J in groups]) < 0.07
    np.testing.assert_array_equal(model.predict(X[n:]) == 1, found > 0.5)
    np.testing.assert_allclose(model.predict_log_proba(X[n:])[:, 1], np.log(found))


def test_class_weights_count():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(180, 2)), rng.normal(size=(20, 2)) + 1.5])
    y = np.repeat([0, 1], [180, 20])
    plain = RefinedKMPClassifier(n_atoms=5, random_state=0).fit(X, y)
    balanced = RefinedKMPClassifier(n_atoms=5, random_state=0, class_weight="balanced").fit(X, y)
    assert np.mean(balanced.predict(X) == 1) > 1.5 * np.mean(plain.predict(X) == 1)


def test_same_seed_same_model_and_it_can_be_pickled():
    X, y = smooth(100)
    models = [RefinedKMPRegressor(n_atoms=5, random_state=3, epochs=10).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(models[0])).predict(X), models[0].predict(X))


def test_single_precision():
    X, y = smooth()
    model = RefinedKMPRegressor(n_atoms=6, random_state=0).fit(X.astype(np.float32), y.astype(np.float32))
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    assert model._expansion.columns(X[:2].astype(np.float32)).dtype == np.float32
    assert model.score(X, y) > 0.9


def test_tensors_are_fitted_where_they_are():
    torch = pytest.importorskip("torch")
    X, y = smooth(100)
    host = RefinedKMPRegressor(n_atoms=5, random_state=0, epochs=30).fit(X, y)
    with config_context(array_api_dispatch=True):
        model = RefinedKMPRegressor(n_atoms=5, random_state=0, epochs=30).fit(torch.from_numpy(X), torch.from_numpy(y))
        values = model.predict(torch.from_numpy(X))
    assert isinstance(values, torch.Tensor)
    assert np.corrcoef(values.numpy(), host.predict(X))[0, 1] > 0.99


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("n_atoms", [5, "auto"])
def test_an_interrupt_leaves_a_model_and_is_raised(n_atoms, monkeypatch):
    X, y = smooth(200)
    model, sentences = RefinedKMPRegressor(n_atoms=n_atoms, random_state=0), []

    def interrupt(self, sentence):
        sentences.append(sentence)
        if "terms" in sentence or "epoch" in sentence:
            raise KeyboardInterrupt

    monkeypatch.setattr(RefinedKMPRegressor, "_say", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert sentences and model.score(X, y) > 0


def test_progress_is_printed(capsys):
    X, y = smooth(100)
    RefinedKMPRegressor(n_atoms=3, random_state=0, verbose=1).fit(X, y)
    assert "rows held out" in capsys.readouterr().out


def test_sparse_input_is_refused():
    X, y = smooth(50)
    with pytest.raises(TypeError, match="dense data is required"):
        RefinedKMPRegressor().fit(sparse.csr_array(X), y)


ROWS, VALUES = smooth(40, d=2)
BAD = {
    "constant input": (np.column_stack([ROWS, np.full(40, 7.0)]), VALUES),
    "all inputs constant": (np.full((40, 2), 3.0), VALUES),
    "duplicated rows": (np.repeat(ROWS[:4], 10, axis=0), np.repeat(VALUES[:4], 10)),
    "constant target": (ROWS, np.full(40, 2.0)),
    "fewer rows than terms": (ROWS[:5], VALUES[:5]),
    "two rows": (ROWS[:2], VALUES[:2]),
    "huge": (ROWS * 1e8, VALUES * 1e8),
    "tiny": (ROWS * 1e-8, VALUES * 1e-8),
    "enormous": (ROWS * 1e200, VALUES * 1e200),
    "whole numbers": (np.round(3 * ROWS).astype(int), np.round(3 * VALUES).astype(int)),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:return_std=True of a model of")
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("n_atoms", [8, "auto"])
def test_bad_input_gives_a_finite_model(name, n_atoms):
    X, y = BAD[name]
    model = RefinedKMPRegressor(n_atoms, random_state=0, epochs=8).fit(X, y)  # far enough to go wrong
    mean, std = model.predict(X, return_std=True)
    assert np.all(np.isfinite(mean)) and np.all(np.isfinite(std))
    # Rows of y that differ for the same x apart, the mean squared error is below the variance.
    assert np.mean(((mean - y) / np.max(np.abs(y))) ** 2) <= np.var(y / np.max(np.abs(y))) * 1.01 + 1e-12
    if n_atoms == "auto" and name not in ("constant target", "enormous"):  # a given number is one of those tried
        labels = y > (np.median(y) if len(y) > 2 else np.min(y))
        classifier = RefinedKMPClassifier(n_atoms, random_state=0, epochs=8).fit(X, labels)
        assert np.all(np.isfinite(classifier.predict_proba(X)))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class"):
        RefinedKMPClassifier().fit(ROWS, np.ones(40))


@pytest.mark.parametrize("passes", [1, 3])
def test_epochs_limit_every_climb(passes, monkeypatch):
    taken, go = [], Rise.go

    def noted(self, steps, report=None):
        found = go(self, steps, report)
        taken.append(found.steps)
        return found

    monkeypatch.setattr(Rise, "go", noted)
    X = np.linspace(0, 6, 120)[:, None]
    RefinedKMPRegressor(4, epochs=passes, random_state=0).fit(X, np.sin(X[:, 0]))
    assert max(taken) == passes


# ---------------------------------------------------------------------------------------------- what they say


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("route")
def test_each_target_has_a_noise_of_its_own():
    X, y = smooth(1300, noise=0.05)
    Y = np.column_stack([y, np.random.default_rng(1).normal(size=1300), np.full(1300, 3e8)])
    model = RefinedKMPRegressor(8, random_state=0).fit(X[:300], Y[:300])
    mean, std = model.predict(X[300:], return_std=True)
    ratio = np.mean(std, axis=0)[:2] / np.sqrt(np.mean((Y[300:] - mean) ** 2, axis=0)[:2])
    assert np.all((ratio > 0.5) & (ratio < 2.5)), ratio  # one noise for both would be 7 times too large for one
    assert model.noise_[2] == 0 and np.all(std[:, 2] == 0)
    np.testing.assert_allclose(mean[:, 2], 3e8)


@pytest.mark.parametrize("make", [RefinedKMPRegressor, RefinedKMPClassifier])
def test_small_weights_are_taken_in_proportion(make):
    X, y = smooth()
    y = y > 0 if make is RefinedKMPClassifier else y
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 200)
    weights *= 200 / weights.sum()
    expected, tiny = (make(6, random_state=0, epochs=20).fit(X, y, sample_weight=c * weights) for c in (1.0, 1 / 200))
    assert expected.score(X, y) > 0.9
    np.testing.assert_allclose(tiny.score(X, y), expected.score(X, y), atol=0.01)


def test_models_without_terms_are_quiet(capfd):
    """LAPACK has its own words for matrices of no rows."""
    X, _ = smooth(50)
    words = "n_atoms=4 terms were asked for, but none would help: it is a constant"
    with pytest.warns(ConvergenceWarning, match=words):
        assert np.all(RefinedKMPRegressor(4, random_state=0).fit(X, np.ones(50)).predict(X) == 1)
    RefinedKMPClassifier(4, random_state=0).fit(X, np.arange(50) == 7)  # most folds have one class
    RefinedKMPRegressor(random_state=0).fit(X, (np.arange(50) == 7) * 1.0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("make", [RefinedKMPRegressor, RefinedKMPClassifier])
@pytest.mark.parametrize(
    ("distinct", "times", "wanted", "terms"),
    [(40, 1, 39, "(31|32) terms"), (2, 1, 5, "1 term"), (5, 20, 5, "4 terms")],
)
def test_what_limits_the_number_of_terms_is_said(make, distinct, times, wanted, terms):
    """It is how many rows are not held out, 32 of 40 here, not that rows depend on each other."""
    X = np.random.default_rng(0).normal(size=(distinct, 3)).repeat(times, axis=0)
    y = X[:, 0] > np.median(X[:, 0]) if make is RefinedKMPClassifier else X[:, 0]
    words = rf"^n_atoms={wanted} terms .* the model has {terms}: more of them, .* rows that are not held out\."
    with pytest.warns(ConvergenceWarning, match=words):
        model = make(wanted, epochs=2, random_state=0).fit(X, y)
    assert len(model.widths_) < min(wanted, distinct)


@pytest.mark.parametrize(("of_folds", "held_out", "factor"), [(4.0, 1.5, 1.0), (4.0, 0.1, 0.1), (0.5, 2.0, 4.0)])
def test_rows_held_out_lower_the_variance_no_further_than_to_their_errors(of_folds, held_out, factor):
    """Variance that the folds predict and that of the errors, of a model whose own is 1; the factor that it gets."""
    X, y = smooth(60)
    task = Task(X, y[:, None], None, squared_errors, 1e-7)
    atoms, nothing = Atoms(X[:2], np.zeros(2), np.zeros(3)), np.zeros((2, 2))
    fit = Fit(Evidence(atoms, 1.0, 60 / 61, 0.0), nothing[:, :1], np.zeros(1), np.zeros(2), nothing, 60)
    judged = Judged(RefinementSetting(2, Start(1.0)), np.zeros(60), task.Y - np.sqrt(held_out), of_folds)
    np.testing.assert_allclose(outcome_of(fit, task, (np.arange(60), judged)).inflation, factor)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_noise_the_deviation_is_of_the_size_of_the_errors():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 3))
    y = np.exp(-(X[:, 0] ** 2)) * X[:, 1] + 0.5 * X[:, 2]
    mean, std = RefinedKMPRegressor(30, random_state=0).fit(X[:300], y[:300]).predict(X[300:], return_std=True)
    ratio = np.sqrt(np.mean(std**2) / np.mean((y[300:] - mean) ** 2))
    assert 0.7 < ratio < 3, ratio


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of the means
def test_rows_however_far_have_the_deviation_of_those_where_all_terms_vanish():
    X, y = smooth(100)
    model = RefinedKMPRegressor(5, random_state=0).fit(X, y)
    far, farther = (
        model.predict(size * np.array([[1.0, 0, 0], [1, 1, 1], [-1, 1, 0]]), return_std=True)
        for size in (1e3, np.array([[1e160], [1e308], [1.7e308]]))
    )
    np.testing.assert_allclose(farther, far)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_deviations_of_few_rows_say_that_they_mean_little(n):
    X, y = smooth(20)
    model = RefinedKMPRegressor(random_state=0).fit(X[:n], y[:n])
    with pytest.warns(UserWarning, match=f"of a model of {n} row.*do not rely"):
        model.predict(X, return_std=True)


@pytest.mark.filterwarnings("error:return_std")
def test_deviations_of_more_rows_are_silent():
    X, y = smooth(20)
    RefinedKMPRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
    RefinedKMPRegressor(random_state=0).fit(X[:2], y[:2]).predict(X)
