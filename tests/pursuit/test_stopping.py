"""Stop rules on paths made by hand and at the end of pursuits."""

import numpy as np
import pytest

from kernelpursuit import DenseDictionary, Squares, pursue
from kernelpursuit.pursuit import (
    Path,
    Step,
    first_of,
    loss_below,
    lowest,
    lowest_gcv,
    lowest_leave_one_out,
    lowest_validation,
    n_atoms,
    search_charge,
)


def path_of(losses, left_out=None, ending=False):
    left_out = [np.nan] * len(losses) if left_out is None else left_out
    steps = [Step(i - 1, loss=a, leave_one_out=b) for i, (a, b) in enumerate(zip(losses, left_out, strict=True))]
    return Path(steps[0], steps[1:], ending=ending)


def verdicts(rule, losses, **options):
    """What the rule says after 0, 1, ... steps."""
    return [rule(path_of(losses[: k + 1], **options)) for k in range(len(losses))]


def test_n_atoms():
    assert [v is None for v in verdicts(n_atoms(2), [4.0, 3.0, 2.0, 1.0])] == [True, True, False, False]
    verdict = n_atoms(2)(path_of([4.0, 3.0, 2.0, 1.0]))
    assert verdict.keep == 2 and verdict.reason == "n_atoms" and "2" in verdict.sentence


def test_tolerance():
    losses = [8.0, 4.0, 2.0, 1.0]
    assert [v is None for v in verdicts(loss_below(0.25), losses)] == [True, True, False, False]
    assert loss_below(0.25)(path_of(losses[:3])).keep == 2
    assert [v is None for v in verdicts(loss_below(0.0, floor=4.0), losses)] == [True, False, False, False]
    assert loss_below(0.0)(path_of([0.0])).keep == 0  # nothing to fit
    assert loss_below(1.0)(path_of([3.0])).keep == 0
    for bad in (np.nan, np.inf):
        assert loss_below(0.5)(path_of([2.0, bad])) is None


def test_minimum_waits_for_its_patience():
    curve = np.array([5.0, 3.0, 4.0, 2.0, 6.0, 6.0, 6.0])
    rule = lowest(lambda path: path.values("loss"), "mine", patience=2)
    said = verdicts(rule, curve)
    assert [v is None for v in said] == [True] * 5 + [False] * 2
    assert said[5].keep == 3 and said[5].reason == "mine"
    assert [v is None for v in verdicts(lowest(lambda p: p.values("loss"), "mine", patience=1), curve)][:3] == [
        True,
        True,
        False,
    ]
    # a path that is over has no time to wait
    assert [v.keep for v in verdicts(rule, curve, ending=True)] == [0, 1, 1, 3, 3, 3, 3]


def test_minimum_takes_the_first_of_equals():
    rule = lowest(lambda path: path.values("loss"), "mine", patience=1)
    assert rule(path_of([3.0, 1.0, 1.0], ending=True)).keep == 1
    assert rule(path_of([3.0, 1.0, 1.0])).keep == 1


def test_minimum_with_a_margin():
    rule = lowest(lambda path: path.values("loss"), "mine", patience=1, margin=0.2)
    assert rule(path_of([9.0, 1.3, 1.15, 1.0, 1.1])).keep == 2
    assert rule(path_of([0.0, 1.0])).keep == 0


def test_margin_of_negative_values():
    """The margin is a share of the size of the minimum: the minimum itself always is within it."""
    rule = lowest(lambda path: path.values("loss"), "mine", patience=1, margin=0.1)
    assert rule(path_of([-1.0, -9.5, -10.0, -2.0])).keep == 1
    assert rule(path_of([-1.0, -5.0, -2.0])).keep == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_minimum_never_takes_what_is_no_number(bad):
    rule = lowest(lambda path: path.values("loss"), "mine", patience=2)
    assert rule(path_of([bad, 2.0, bad, bad])).keep == 1
    assert rule(path_of([bad, 2.0, bad], ending=True)).keep == 1
    assert rule(path_of([bad, bad, bad])).keep == 0
    assert rule(path_of([bad])) is None


def test_leave_one_out_and_margin():
    left_out = [5.0, 2.0, 1.9, 3.0]
    assert lowest_leave_one_out(1)(path_of([1.0] * 4, left_out)).keep == 2
    assert lowest_leave_one_out(1, margin=0.1)(path_of([1.0] * 4, left_out)).keep == 1
    assert lowest_leave_one_out(1)(path_of([1.0] * 4, left_out)).reason == "leave_one_out"


def test_gcv_by_hand():
    losses, n, charge = np.array([5.0, 3.0, 2.9, 2.89]), 20, 3.0
    score = losses / (1 - (1 + charge * np.arange(4)) / n) ** 2
    assert lowest_gcv(n, charge, patience=1)(path_of(losses)).keep == np.argmin(score)
    assert lowest_gcv(n, charge, patience=1)(path_of(losses)).reason == "gcv"
    # with more degrees of freedom than samples nothing is to be had, and nothing divides by zero
    assert lowest_gcv(7, 3.0, patience=1)(path_of([5.0, 0.5, 0.0, 0.0])).keep == 1
    assert lowest_gcv(1, 1.0, patience=1)(path_of([5.0, 3.0])).keep == 0


def test_validation_asks_once_for_each_length():
    asked = []

    def error(path):
        asked.append(len(path))
        return [3.0, 1.0, 2.0, 2.0][len(path)]

    rule = lowest_validation(error, patience=2)
    said, path = [], path_of([1.0])
    for k in range(4):
        path.steps += [Step(k)] if k else []
        for _ in range(2):
            said.append(rule(path))
    assert asked == [0, 1, 2, 3]
    assert [v is None for v in said] == [True] * 6 + [False] * 2
    assert said[-1].keep == 1 and said[-1].reason == "validation"


def test_validation_of_nan():
    rule = lowest_validation(lambda path: [3.0, np.nan, np.nan][len(path)], patience=2)
    assert [rule(path_of([1.0] * (k + 1))) for k in range(2)] == [None, None]
    assert rule(path_of([1.0] * 3)).keep == 0


def test_first_of():
    rule = first_of(n_atoms(3), loss_below(0.25))
    assert verdicts(rule, [8.0, 7.0])[-1] is None
    assert rule(path_of([8.0, 7.0, 1.0])).reason == "tolerance"
    assert rule(path_of([8.0, 7.0, 6.0, 5.0])).reason == "n_atoms"
    both = first_of(n_atoms(2), lowest(lambda path: path.values("loss"), "mine", patience=9))
    assert both(path_of([3.0, 1.0, 2.0])).keep == 2
    assert both(path_of([3.0, 1.0, 2.0], ending=True)).keep == 1
    assert first_of()(path_of([1.0])) is None


def example(rng=0):
    rng = np.random.default_rng(rng)
    return rng.normal(size=(40, 12)), rng.normal(size=40)


def test_exhausted_path_keeps_the_best_of_its_rule():
    D, y = example()
    path = pursue(Squares(DenseDictionary(D), y), lowest_leave_one_out(patience=1000))
    curve = np.concatenate([path.values("leave_one_out"), [s.leave_one_out for s in path.discarded]])
    assert path.reason == "exhausted" and len(curve) == 13
    assert len(path) == np.argmin(curve) < 12
    assert "leave_one_out" in path.sentence and "no atom is left" in path.sentence


def test_end_by_n_atoms_keeps_the_best_of_the_other_rule():
    D, y = example()
    path = pursue(Squares(DenseDictionary(D), y), first_of(n_atoms(10), lowest_leave_one_out(patience=1000)))
    curve = np.concatenate([path.values("leave_one_out"), [s.leave_one_out for s in path.discarded]])
    assert path.reason == "n_atoms" and len(curve) == 11 and len(path) == np.argmin(curve)


def test_interrupted_path_keeps_the_best_of_its_rule():
    D, y = example()

    def interrupt(path):
        if len(path) == 9:
            raise KeyboardInterrupt

    path = pursue(Squares(DenseDictionary(D), y), lowest_leave_one_out(patience=1000), callback=interrupt)
    curve = np.concatenate([path.values("leave_one_out"), [s.leave_one_out for s in path.discarded]])
    assert path.reason == "interrupted" and len(curve) == 10 and len(path) == np.argmin(curve)


def test_validation_in_a_pursuit():
    D, y = example()
    test, target = np.random.default_rng(1).normal(size=(30, 12)), np.random.default_rng(2).normal(size=30)
    run = Squares(DenseDictionary(D), y)
    errors = []

    def error(path):
        coef = run.coef()[:, 0]
        errors.append(np.mean((target - coef[0] - test[:, path.atoms] @ coef[1:]) ** 2))
        return errors[-1]

    path = pursue(run, lowest_validation(error, patience=3))
    assert len(path) == np.argmin(errors) and path.reason in ("validation", "exhausted")
    assert len(errors) == len(path) + len(path.discarded) + 1


def test_search_charge_is_two_for_one_target_and_shared_by_several():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(40, 3))
    assert search_charge(Y[:, :1]) == pytest.approx(2)
    assert search_charge(5 * Y[:, :1] + 7) == pytest.approx(2)
    assert 1 + 1 / 3 <= search_charge(Y) < 2
    assert search_charge(np.hstack([Y, Y])) == pytest.approx(search_charge(Y))  # a target given twice changes nothing
    assert search_charge(np.ones((5, 2))) == 2
    w = rng.integers(1, 4, 40)
    assert search_charge(Y, w.astype(float)) == pytest.approx(search_charge(np.repeat(Y, w, axis=0)))


def test_a_rule_that_ended_the_path_is_quoted_once():
    path = pursue(Squares(DenseDictionary(np.eye(5)), np.arange(5.0)), n_atoms(3))
    assert path.sentence == n_atoms(3)(path).sentence


@pytest.mark.parametrize("level", [False, True])
def test_fewest_for_classes_follows_its_formula(level):
    """Losses that fall slowly: the fewest steps within the margin of the lowest score, and an end in time.

    Where the error rate falls no longer the margin is wider.
    """
    from kernelpursuit.pursuit.stopping import fewest_for_classes

    losses, rates = 0.9 ** np.minimum(np.arange(200), 40) * 0.9995 ** np.arange(200), np.linspace(0.02, 0.001, 200)
    rates = np.maximum(rates, 0.019) if level else rates
    n, charge = 20000, 1.2
    path, step = Path(Step(-1, loss=losses[0])), iter(rates)
    rule = fewest_for_classes(lambda: next(step), n, charge, patience=10)
    while (verdict := rule(path)) is None:
        path.steps.append(Step(len(path), loss=losses[len(path) + 1]))
    taken = len(path)
    curve = losses[: taken + 1] / (1 - (1 + charge * np.arange(taken + 1)) / n) ** 2
    rate = rates[: taken + 1].min()
    error = np.sqrt((1 - rate) / (rate * n))
    near, far = (int(np.flatnonzero(curve <= curve.min() * (1 + m * error))[0]) for m in (0.75, 4.5))
    flat = int(np.flatnonzero(rates[: taken + 1] <= rate * (1 + 0.75 * error))[0])
    keep = min(near, max(far, flat))
    assert far < near and (keep < near) == level
    assert verdict.keep == keep and verdict.reason == "gcv" and 2 * near + 10 <= taken < 199
    path.ending = True
    assert rule(path).keep == keep
