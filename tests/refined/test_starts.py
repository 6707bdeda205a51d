"""Where refined terms start from, how far they are taken, and who teaches them."""

from itertools import product

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import kernelpursuit.refined.by_descent as by_descent
from kernelpursuit import RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.refined.bound import negative_bound
from kernelpursuit.refined.descent import Batch, Model, descend, normal
from kernelpursuit.refined.evidence import PATIENCE, maximise_evidence
from kernelpursuit.refined.judging import BOUND, CHEAP, MORE_TERMS, STEPS, Judged, Trial, best_size
from kernelpursuit.refined.refining import (
    Outcome,
    Place,
    RefinementSetting,
    Start,
    Task,
    frame_of,
    highest,
    likeness_for,
    means,
    placed,
    raise_bound,
    rise_of_bound,
)
from kernelpursuit.refined.teaching import (
    PENALTIES,
    WIDTHS,
    atoms_at,
    best_ridge,
    in_common_units,
    lessons,
    teacher_of,
)


def squared(Y, values):
    return np.sum((Y - values) ** 2, axis=1)


def task_of(n=120, d=3, seed=0, weights=None, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)
    return Task(X, ((y - y.mean()) / y.std())[:, None], weights, squared, 1e-7)


def atoms_of(task, terms=5, start=BOUND[0]):
    return placed(task, terms, start, np.random.default_rng(0))


def test_of_several_starts_the_one_that_leads_goes_on():
    task = task_of()
    places = [Place(atoms_of(task, 6, start)) for start in BOUND]
    alone = [rise_of_bound(place, task.rows(), 3.0) for place in places]
    after_five = [rise.go(5).value for rise in alone]
    found, number = highest([rise_of_bound(place, task.rows(), 3.0) for place in places], 5, 30)
    assert number == int(np.argmin(after_five))
    assert found.value == alone[number].go(30).value < after_five[number]
    best, same = raise_bound(places, task, 3.0, screened=5)
    assert best.of_process and same == number


def test_means_of_clusters_are_spread_out_and_distinct():
    task = task_of()
    atoms = means(task, 7, 0.5, np.random.default_rng(0))
    assert atoms.centers.shape == (7, 3)
    nearest = np.min(np.sum((task.X[:, None] - atoms.centers) ** 2, axis=2), axis=1)
    assert np.mean(nearest) < 0.6 * np.mean(np.sum(task.X**2, axis=1))
    few = task._replace(X=np.repeat(task.X[:4], 30, axis=0))
    assert len(means(few, 7, 0.5, np.random.default_rng(0)).centers) == 4  # and no warning


def test_weights_of_inputs_are_held_together_less_where_there_are_many():
    """Of many inputs only one counts: held together by the precision for few inputs, the others stay."""
    assert likeness_for(5) == 3 and likeness_for(60) == 2 and likeness_for(1000) == 1

    def log_weights(task, likeness):
        return raise_bound([Place(atoms_of(task))], task, likeness)[0].atoms.log_weights

    noisy, many = task_of(60, d=8, noise=1.0), task_of(100, d=30)
    assert np.std(log_weights(noisy, 100)) < np.std(log_weights(noisy, 0.1)) / 5
    lead, held = (w[0] - np.median(w[1:]) for w in (log_weights(many, likeness_for(30)), log_weights(many, 10.0)))
    assert lead > 1.5 and held < lead


def test_a_climb_ends_where_the_evidence_rises_no_more():
    task = task_of(80, d=3, noise=0.5)
    options = {"objective": negative_bound, "max_iter": 500}
    short, long = (
        maximise_evidence(atoms_of(task, 8, Start(0.25)), task.rows(), least_rise=rise, **options)
        for rise in (0.2, 0.0)
    )
    assert short.at_rest and PATIENCE < short.steps < long.steps
    assert long.value <= short.value < long.value + 2


def test_the_bound_takes_one_width_where_others_are_given():
    """The matrix of the atoms at their centres is a kernel's only then."""
    task = task_of()
    atoms = atoms_of(task, 6)
    uneven = atoms._replace(log_widths=atoms.log_widths + np.linspace(-4, 4, 6))
    found = [raise_bound([Place(one)], task, 3.0)[0] for one in (atoms, uneven)]
    np.testing.assert_allclose(found[0].value, found[1].value, rtol=1e-9)
    assert np.ptp(found[1].atoms.log_widths) == 0


def trial_of(task, folds=2, terms=5):
    numbers = np.arange(len(task.Y)) % folds
    parts = [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(folds)]
    return Trial(task, parts, terms, np.random.default_rng(0))


def test_a_free_move_after_the_bound_starts_where_the_bound_did():
    """What rows held out judged and what is fitted to all rows have one start."""
    trial = trial_of(task_of(300))
    safe = trial.bound(5, 3.0)[0]
    judged = trial.refined([RefinementSetting(5, Start(99.0), bound=True, moves="all", steps=5, likeness=3.0)])
    assert judged[0].setting.start == safe.setting.start
    assert len(judged[0].places) == 2


def test_ways_far_behind_on_the_first_fold_are_not_followed_on_the_others(monkeypatch):
    trial, followed = trial_of(task_of(200), 3), []
    wide, narrow = (RefinementSetting(5, Start(width), moves="all", steps=40) for width in (0.25, 99.0))

    def follow(fold, setting, steps):
        followed.append((fold, setting.start.width, steps))
        place = Place(trial._atoms(fold, setting.start, 5))
        errors = {5: 2.0, 10: 1.0, 20: 3.0, 40: 3.0} if setting == wide else dict.fromkeys((5, 10, 20, 40), 9.0)
        return [(step, (np.full(2, errors[step]), np.zeros((2, 1)), 1.0, place)) for step in STEPS if step <= steps]

    monkeypatch.setattr(trial, "_follow", follow)
    judged = trial.refined([wide, narrow])
    assert followed == [(0, 0.25, 40), (0, 99.0, 40), (1, 0.25, 40), (2, 0.25, 40)]
    assert [one.setting.steps for one in judged] == [5, 10, 20, 40] and all(isinstance(one, Judged) for one in judged)


def test_free_moves_of_classes_must_not_put_more_rows_on_the_wrong_side(monkeypatch):
    """A lower squared error is not enough: it may come from rows that were on the right side before."""
    task = task_of(200)._replace(classes=True)
    task = task._replace(Y=np.sign(task.Y))
    trial = trial_of(task)
    Y = task.Y[trial.rows]
    lean, sure = 0.3 * Y, 0.9 * Y
    sure[:4] *= -1  # four rows wrong, all others nearer to their class
    for name, values in (("bound", lean), ("unrefined", lean), ("refined", sure)):
        judged = Judged(RefinementSetting(5, BOUND[0], moves=name), squared(Y, values), values, 1.0)
        monkeypatch.setattr(trial, name, lambda *args, judged=judged: [judged])
    assert trial.better(trial.refined()[0], trial.bound()[0], 2.0)
    assert trial.of_terms(5, lambda sentence: None).setting.moves != "refined"
    sure[:4] *= -1
    assert trial.of_terms(5, lambda sentence: None).setting.moves == "refined"
    assert trial.of_terms(5, lambda sentence: None, np.inf).setting.moves != "refined"


def classes_of(n=200, columns=1):
    task = task_of(n)
    codes = np.digitize(task.Y[:, 0], [-0.5, 0.5]) if columns == 3 else (task.Y[:, 0] > 0).astype(int)
    Y = np.where(codes[:, None] == np.arange(3), 1.0, -1.0) if columns == 3 else 2.0 * codes[:, None] - 1
    return task._replace(Y=Y, classes=True)


@pytest.mark.parametrize("columns", [1, 3])
def test_classes_are_judged_by_the_log_loss_of_their_probabilities(columns):
    """Whatever the scale of the values: literally, for each row, minus the log of what its class is given."""
    trial, place = trial_of(classes_of(columns=columns)), Place(None)
    Y = trial.task.Y[trial.rows]
    values = 0.3 * Y + np.random.default_rng(1).normal(size=Y.shape)

    def losses(values):
        halves = np.split(values, 2)
        return trial._join(
            RefinementSetting(5, BOUND[0]), [(np.zeros(100), half, 1.0, place) for half in halves]
        ).errors

    def literal(slope):
        if columns == 1:
            return -np.log(1 / (1 + np.exp(-slope * Y * values)))[:, 0]
        raised = np.exp(slope * values)
        return -np.log(raised / raised.sum(axis=1, keepdims=True))[Y > 0]

    slopes = np.exp(np.linspace(-4, 4, 2001))
    best = slopes[np.argmin([np.mean(literal(slope)) for slope in slopes])]
    np.testing.assert_allclose(losses(values), literal(best), atol=1e-2)
    np.testing.assert_allclose(losses(7 * values), losses(values), atol=1e-4)


def test_a_few_rows_far_off_do_not_decide_about_few_terms():
    trial = trial_of(task_of(200))
    rng = np.random.default_rng(0)
    before, after = np.full(200, 1.0), rng.uniform(0.7, 1.0, size=200)
    after[:3] = 25.0  # on three rows much is lost, on all others a little is won
    values = np.zeros((200, 1))
    less, more = (Judged(RefinementSetting(5, BOUND[0]), errors, values, 1.0) for errors in (before, after))
    assert not trial.better(more, less, 2.0) and trial.better(more, less, 2.0, far_off=0.05)
    assert not trial.better(less, more, 2.0, far_off=0.05)


def test_of_few_terms_four_times_as_many_are_tried_as_well():
    """Twice as many gain nothing, four times as many do; of many terms only twice as many are asked for."""

    def found(errors):
        trial, asked = trial_of(task_of(200)), []
        trial.most = 384

        def of_terms(terms, say, doubt):
            asked.append(terms)
            wave = 1e-3 * np.arange(200) / 200
            return Judged(RefinementSetting(terms, BOUND[0]), errors.get(terms, 1.0) + wave, np.zeros((200, 1)), 1.0)

        trial.of_terms = of_terms
        return best_size(trial, print).setting.terms, asked

    assert MORE_TERMS > 0 and CHEAP == 48
    assert found({}) == (6, [6, 12, 24])
    assert found({24: 0.5}) == (24, [6, 12, 24, 48])
    assert found({12: 0.9, 24: 0.95, 48: 0.5, 96: 0.6}) == (48, [6, 12, 24, 48, 96])
    assert found({6: 1.0, 12: 0.9, 24: 0.8, 48: 0.7, 96: 0.75, 192: 0.1}) == (48, [6, 12, 24, 48, 96])


def descended(**options):
    """Few atoms that descend to two classes, each time with the same random numbers."""
    X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    y = np.where(X[:, :1] > 0, 1, -1).astype(np.float32)
    start = Model(np.zeros((3, 1)), np.zeros(1), atoms_at(X[:3].astype(float), 0.5))
    return descend(start, Batch(X, y), loss="log_loss", batch=100, rng=np.random.default_rng(0), **options)[0]


def test_shaken_inputs_are_drawn_anew_and_can_be_repeated():
    still, shaken, again = (descended(epochs=3, jitter=jitter) for jitter in (0, 0.5, 0.5))
    assert np.array_equal(shaken.coef, again.coef) and not np.allclose(still.coef, shaken.coef)


def test_the_last_epochs_alone_have_the_low_rates():
    epochs = []
    moved = [
        np.abs(descended(epochs=20, begun=begun, report=lambda epoch, _: bool(epochs.append(epoch))).coef).max()
        for begun in (0, 18)
    ]
    assert epochs[-3:] == [20, 19, 20] and moved[1] < 0.1 * moved[0]


def test_noise_is_drawn_where_the_rows_are():
    torch = pytest.importorskip("torch")
    X = torch.zeros((2000, 3), dtype=torch.float32)
    drawn = [normal(X, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert drawn[0].dtype == torch.float32 and abs(float(drawn[0].std()) - 1) < 0.05


@pytest.mark.parametrize("weighted", [False, True])
def test_the_teacher_is_kernel_ridge_regression(weighted):
    rng = np.random.default_rng(0)
    task = task_of(60, weights=rng.integers(1, 4, 60).astype(float) if weighted else None)
    ridge = best_ridge(task)
    peer = KernelRidge(alpha=ridge.penalty, kernel="rbf", gamma=ridge.gamma)
    peer.fit(task.X, task.Y - task.mean(), sample_weight=task.weights)
    teacher = teacher_of(task, ridge)
    assert np.allclose(teacher.coef, peer.dual_coef_, rtol=1e-6, atol=1e-8)


def test_the_ridge_of_the_teacher_has_the_lowest_error_of_rows_left_out():
    """Each row left out in turn, literally; the mean of the targets is that of all."""
    task = task_of(25, d=2)
    found, mean = best_ridge(task), task.mean()
    literal = {}
    for gamma, penalty in product([width / task.variance() for width in WIDTHS], PENALTIES):
        peer = KernelRidge(alpha=penalty, kernel="rbf", gamma=gamma)
        left_out = cross_val_predict(peer, task.X, task.Y - mean, cv=LeaveOneOut())
        literal[gamma, penalty] = (left_out + mean - task.Y)[:, 0] ** 2
    best = min(literal, key=lambda key: np.mean(literal[key]))
    assert best == (found.gamma, found.penalty)
    assert np.allclose(found.errors, literal[best])


def test_lessons_lie_near_the_rows_and_tell_what_the_teacher_says():
    task = task_of(60)
    teacher = teacher_of(task, best_ridge(task))
    rows = lessons(task, teacher, 0.1, np.random.default_rng(0))
    copies = len(rows.Y) // 60
    assert copies >= 2 and rows.X.shape == (60 * copies, 3)
    assert 0.08 < np.std(np.asarray(rows.X) - np.tile(task.X, (copies, 1))) < 0.12
    kernel = np.exp(-np.exp(teacher.atoms.log_widths[0]) * np.sum((rows.X[:, None] - task.X) ** 2, axis=2))
    assert np.allclose(rows.Y, kernel @ teacher.coef + teacher.intercept, atol=1e-4)


def test_inputs_keep_units_that_they_share_where_that_suits_the_targets():
    rng = np.random.default_rng(0)
    loud, quiet = rng.normal(size=(300, 2)), 0.05 * rng.normal(size=(300, 30))
    alone = np.hstack([quiet[:, :2], 20 * rng.normal(size=(300, 1))])
    for X, wanted in ((np.hstack([loud, quiet]), True), (alone, False)):
        y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)[:, None]
        frame = frame_of(X, None)
        units = in_common_units(Task(frame(X), y, None, squared, 1e-2, True), frame.spread)
        assert (units is not None) == wanted
        if units is not None:
            assert np.allclose(units[:2] / units[2], 20, rtol=0.5)


def test_atoms_of_other_units_are_the_same_function():
    rng = np.random.default_rng(0)
    X, units = rng.normal(size=(20, 3)), np.array([1.0, 0.1, 3.0])
    model = Model(rng.normal(size=(4, 1)), np.zeros(1), atoms_at(rng.normal(size=(4, 3)), 0.3))
    back = by_descent.in_standard_units(Outcome(model, None, None, None, start=model.atoms.centers), units)
    assert np.allclose(by_descent.values_of(model, X * units), by_descent.values_of(back.model, X))
    assert np.allclose(back.start * units, model.atoms.centers)


def test_the_last_descent_is_on_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    monkeypatch.setattr("kernelpursuit.refined.base.BY_EVIDENCE", {"log_loss": 0})
    rows, plain = [], by_descent.descend

    def noted(start, batch_of_all, *, epochs, begun, **options):
        rows.append((batch_of_all.n_rows, epochs - begun))
        return plain(start, batch_of_all, epochs=epochs, begun=begun, **options)

    monkeypatch.setattr(by_descent, "descend", noted)
    model = RefinedKMPClassifier(n_atoms=8, epochs=20, random_state=0).fit(X, y)
    assert [one[0] for one in rows] == [600] and 1 <= rows[0][1] <= 6 and model.moved_ == "all"
    assert model.score(X, y) > 0.9


def test_a_teacher_serves_many_terms(monkeypatch):
    """Checkered classes: the taught descent is among those tried, and the result is as good as any."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(700, 2))
    y = (np.floor(X[:, 0]) + np.floor(X[:, 1])) % 2
    monkeypatch.setattr("kernelpursuit.refined.base.BY_EVIDENCE", {"log_loss": 0})
    monkeypatch.setattr(by_descent, "TEACHING_FROM", 10)
    taught, plain = [], by_descent.descend_from

    def noted(*args, **options):
        taught.append(options["taught"])
        return plain(*args, **options)

    monkeypatch.setattr(by_descent, "descend_from", noted)
    model = RefinedKMPClassifier(n_atoms=20, epochs=40, random_state=0).fit(X, y)
    assert taught[:3] == [False, False, True] and len(taught) == 4  # the last goes on
    assert model.score(X, y) > 0.85


def ridge(X):
    """A ridge that curves, and a bump: from a wide start alone three quarters of the variance are left."""
    bump = 0.8 * np.exp(-4 * ((X[:, 0] + 1) ** 2 + (X[:, 1] - 1.2) ** 2))
    return np.exp(-2 * (X[:, 1] - np.sin(2 * X[:, 0])) ** 2) + bump


def wave(X):
    return np.sin(6 * X[:, 0]) * np.cos(3 * X[:, 1])


@pytest.mark.parametrize(
    ("truth", "n", "terms", "most"), [(ridge, 150, 8, 0.5), (ridge, 700, 8, 0.5), (wave, 700, 50, 0.6)]
)
def test_narrow_and_wavy_functions_are_found_from_narrower_starts(truth, n, terms, most):
    """At most that share of the variance of new rows is left."""
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-2, 2, size=(n, 3)), rng.uniform(-2, 2, size=(2000, 3))
    model = RefinedKMPRegressor(terms, random_state=0).fit(X, truth(X) + 0.05 * rng.normal(size=n))
    assert np.mean((model.predict(new) - truth(new)) ** 2) < most * np.var(truth(new))
