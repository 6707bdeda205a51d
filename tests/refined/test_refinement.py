"""The mathematics of refinement against its literal form, finite differences and other array libraries."""

from itertools import product

import numpy as np
import pytest

import tests.oracle.refinement as reference
from kernelpursuit.refined import evidence
from kernelpursuit.refined.bound import JITTER, bound_coefficients, negative_bound
from kernelpursuit.refined.descent import Batch, Model, Rates, batch_loss, descend, gradient, one_cycle, slope
from kernelpursuit.refined.evidence import (
    MOVES,
    Prior,
    Rows,
    coefficients,
    maximise_evidence,
    negative_evidence,
    settle,
    settle_nearby,
)
from kernelpursuit.refined.moving_atoms import Atoms, atom_values

N, D, K, Q = 24, 3, 5, 2
USUAL, FLAT = Prior(), Prior(0, 0, 0)


def problem(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)).astype(dtype)
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 0]]) + 0.1 * rng.normal(size=(N, Q))
    Y = (Y - Y.mean(axis=0)).astype(dtype)
    atoms = Atoms(X[:K] + 0.1, 0.3 * rng.normal(size=K), 0.3 * rng.normal(size=D))
    return X, Y, Atoms(*(np.asarray(part, dtype=np.float64) for part in atoms))


def evidence_of(atoms, rows, prior=USUAL, at=(0.2, -1.0)):
    """The negative evidence and its gradient, at logarithms of the variances of signal and noise."""
    return negative_evidence(atoms, *at, rows, prior, atoms.centers)


def as_vector(atoms, *more):
    return np.concatenate([np.ravel(part) for part in (*atoms, *more)])


def as_atoms(theta):
    return Atoms(theta[: K * D].reshape(K, D), theta[K * D : K * D + K], theta[K * D + K : K * D + K + D])


def differences(f, theta, step=1e-5):
    return np.array([(f(theta + step * e) - f(theta - step * e)) / (2 * step) for e in np.eye(len(theta))])


def test_atoms_match_their_definition():
    X, _, atoms = problem()
    np.testing.assert_allclose(atom_values(atoms, X)[0], reference.gaussians(X, *atoms), rtol=1e-12)


@pytest.mark.parametrize(("signal", "noise"), [(1.0, 0.3), (50.0, 1e-4), (1e-3, 2.0)])
def test_evidence_matches_the_literal_covariance(signal, noise):
    X, Y, atoms = problem()
    value = evidence_of(atoms, Rows(X, Y), FLAT, np.log([signal, noise]))[0]
    literal = reference.negative_log_evidence(X, Y, *atoms, signal, noise)
    np.testing.assert_allclose(value, literal, rtol=1e-9)


def test_a_row_of_weight_three_is_the_row_three_times():
    X, Y, atoms = problem()
    weights = np.resize([1.0, 3.0, 2.0], N)
    repeated = np.repeat(np.arange(N), weights.astype(int))
    Y = Y - np.average(Y, axis=0, weights=weights)
    one, other = evidence_of(atoms, Rows(X, Y, weights)), evidence_of(atoms, Rows(X[repeated], Y[repeated]))
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12)
    np.testing.assert_allclose(as_vector(one[1]), as_vector(other[1]), rtol=1e-9, atol=1e-12)
    literal = reference.negative_log_evidence(X[repeated], Y[repeated], *atoms, np.exp(0.2), np.exp(-1.0))
    np.testing.assert_allclose(evidence_of(atoms, Rows(X, Y, weights), FLAT)[0], literal, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("at", [(0.2, -1.0), (4.0, -5.0), (6.0, -7.0)])
@pytest.mark.parametrize("objective", [negative_evidence, negative_bound])
def test_gradient_of_the_evidence_and_of_its_bound(objective, weighted, at):
    X, Y, atoms = problem()
    weights = np.random.default_rng(1).uniform(0.5, 2, size=N) if weighted else None
    rows, prior, start = Rows(X, Y, weights), Prior(1.0, 0.5, 0.3), atoms.centers + 0.2
    rows = Rows(X, Y - rows.mean(Y), weights)
    if objective is negative_bound:  # all atoms have one width, which stays
        atoms = atoms._replace(log_widths=np.full(K, -1.0))

    def value(theta):
        return objective(as_atoms(theta), theta[-2], theta[-1], rows, prior, start)[0]

    _, by, *by_variances = objective(atoms, *at, rows, prior, start)
    found, literal = as_vector(by, by_variances), differences(value, as_vector(atoms, at))
    moving = np.ones(len(found), dtype=bool)
    moving[K * D : K * D + K] = objective is negative_evidence
    rtol, atol = (1e-5, 1e-4) if objective is negative_evidence else (1e-4, 1e-5 * np.max(np.abs(found)))
    np.testing.assert_allclose(found[moving], literal[moving], rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("library", "dtype", "rtol"),
    [("torch", "f8", 1e-9), ("array_api_strict", "f8", 1e-9), ("numpy", "f4", 1e-3)],
)
def test_other_libraries_and_single_precision_give_the_same_evidence(library, dtype, rtol):
    xp = pytest.importorskip(library)
    X, Y, atoms = problem()
    host = evidence_of(atoms, Rows(X, Y))
    there = evidence_of(atoms, Rows(xp.asarray(X.astype(dtype)), xp.asarray(Y.astype(dtype))))
    np.testing.assert_allclose(there[0], host[0], rtol=rtol / 10)
    np.testing.assert_allclose(as_vector(there[1]), as_vector(host[1]), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("moves", MOVES)
def test_only_what_may_move_moves_and_the_evidence_never_falls(moves):
    X, Y, atoms = problem()
    start = evidence_of(atoms, Rows(X, Y), at=(0.0, np.log(0.3)))[0]
    found = maximise_evidence(atoms, Rows(X, Y), moves=moves, max_iter=20)
    assert found.value <= start
    for part, (before, after) in enumerate(zip(atoms, found.atoms, strict=True)):
        should_move = MOVES.index(moves) >= 3 - part
        assert np.allclose(before, after, atol=1e-12) != should_move
    with pytest.raises(ValueError, match="moves must be one of"):
        maximise_evidence(atoms, Rows(X, Y), moves="some")


@pytest.mark.parametrize("weights", [None, np.resize([1.0, 2.0], N)])
def test_settled_variances_are_those_of_largest_evidence(weights):
    X, Y, atoms = problem()
    rows = Rows(X, Y, weights)
    rows = Rows(X, Y - rows.mean(Y), weights)
    found = settle(atoms, rows)
    at = np.log([found.signal, found.noise])
    np.testing.assert_allclose(evidence_of(atoms, rows, FLAT, at)[0], found.value, rtol=1e-8)
    for step in ([0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]):
        assert evidence_of(atoms, rows, FLAT, at + step)[0] > found.value


def wide_terms(seed, noise=0.0):
    """Rows and atoms of which the evidence has two peaks: much noise, or little and large coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 1))
    Y = np.sin(3 * X) + noise * rng.normal(size=(60, 1))
    return Rows(X, (Y - Y.mean()) / Y.std()), Atoms(X[:15], np.full(15, np.log(0.3)), np.zeros(1))


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_no_other_variances_have_a_larger_evidence(noise, seed):
    rows, atoms = wide_terms(seed, noise)
    found = settle(atoms, rows)
    for at in product(np.linspace(*np.log(evidence.SIGNAL), 25), np.linspace(*np.log(evidence.NOISE), 15)):
        assert evidence_of(atoms, rows, FLAT, at)[0] >= found.value - 1e-4 * abs(found.value)


def test_atoms_that_will_move_leave_from_a_peak_near_usual_variances():
    rows, atoms = wide_terms(0)
    near, highest = settle_nearby(atoms, rows), settle(atoms, rows)
    _, _, *slopes = evidence_of(atoms, rows, FLAT, np.log([near.signal, near.noise]))
    np.testing.assert_allclose(slopes, 0, atol=0.05)
    assert near.value >= highest.value and near.noise >= highest.noise


def test_a_strong_prior_holds_the_centres():
    X, Y, atoms = problem()
    free = maximise_evidence(atoms, Rows(X, Y), max_iter=30).atoms.centers
    held = maximise_evidence(atoms, Rows(X, Y), prior=Prior(centers=1e6), max_iter=30).atoms.centers
    assert np.abs(held - atoms.centers).max() < 1e-2 < np.abs(free - atoms.centers).max()


def test_an_interrupt_leaves_the_best_so_far():
    X, Y, atoms = problem()

    def stop_at_three(step, evidence):
        if step == 3:
            raise KeyboardInterrupt

    found = maximise_evidence(atoms, Rows(X, Y), report=stop_at_three)
    assert found.interrupted and found.steps == 3
    assert found.value < evidence_of(atoms, Rows(X, Y), at=(0.0, np.log(0.3)))[0]


def test_coefficients_and_their_uncertainty_match_the_literal_posterior():
    X, Y, atoms = problem()
    new = np.random.default_rng(3).normal(size=(7, D))
    found = coefficients(atoms, Rows(X, Y), 2.0, 0.1)
    phi = atom_values(atoms, new)[0]
    mean, variance = reference.posterior(X, Y, *atoms, 2.0, 0.1, new)
    np.testing.assert_allclose(phi @ found.coef + found.intercept, mean, rtol=1e-8, atol=1e-10)
    spread = np.sum(((phi - found.mean) @ found.factor.T) ** 2, axis=1)
    np.testing.assert_allclose(0.1 * (1 + 1 / N) + spread, variance, rtol=1e-8)


def bound_problem():
    X, Y, atoms = problem()
    return X, Y, atoms._replace(log_widths=np.full(K, -1.0))


def kernel(atoms, A, B, signal):
    """Literally."""
    difference = (A[:, None] - B[None]) * np.exp(atoms.log_weights)
    return signal * np.exp(-np.exp(-1.0) * np.sum(difference**2, axis=-1))


def test_the_bound_is_that_of_titsias():
    (X, Y, atoms), s, v = bound_problem(), np.exp(0.3), np.exp(-1.0)
    among = kernel(atoms, atoms.centers, atoms.centers, s) + JITTER * s * np.eye(K)
    covered = kernel(atoms, X, atoms.centers, s) @ np.linalg.solve(among, kernel(atoms, atoms.centers, X, s))
    covariance = covered + v * np.eye(N)
    literal = np.linalg.slogdet(covariance)[1] + (N * s - np.trace(covered)) / v
    literal = 0.5 * (2 * literal + np.trace(Y.T @ np.linalg.solve(covariance, Y)))
    value, *_ = negative_bound(atoms, 0.3, -1.0, Rows(X, Y), FLAT, atoms.centers)
    assert value == pytest.approx(literal, rel=1e-10)


def test_prediction_with_the_bound_is_that_of_the_process():
    (X, Y, atoms), s, v = bound_problem(), np.exp(0.3), np.exp(-1.0)
    new = np.random.default_rng(3).normal(size=(7, D))
    found = bound_coefficients(atoms, Rows(X, Y), s, v)
    among = kernel(atoms, atoms.centers, atoms.centers, s) + JITTER * s * np.eye(K)
    cross, here = kernel(atoms, atoms.centers, X, s), kernel(atoms, new, atoms.centers, s)
    precision = among + cross @ cross.T / v
    np.testing.assert_allclose((here / s) @ found.coef, here @ np.linalg.solve(precision, cross @ Y) / v, rtol=1e-8)
    phi = here / s
    variance = np.sum((phi @ found.factor.T) ** 2, axis=1) + found.outside
    variance -= np.sum((phi @ found.outside_factor.T) ** 2, axis=1)
    literal = s - np.sum(here * np.linalg.solve(among, here.T).T, axis=1)
    literal += np.sum(here * np.linalg.solve(precision, here.T).T, axis=1)
    np.testing.assert_allclose(variance, literal, rtol=1e-8)


def test_widths_stay_under_the_bound_and_targets_without_noise_are_fitted():
    line = np.linspace(-3, 3, 60)[:, None]
    atoms, rows = Atoms(line[::6], np.full(10, np.log(0.3)), np.zeros(1)), Rows(line, np.sin(2 * line))
    found = maximise_evidence(atoms, rows, objective=negative_bound, noise=0.3, max_iter=150)
    np.testing.assert_array_equal(found.atoms.log_widths, atoms.log_widths)
    assert found.noise < 1e-4 and not found.interrupted
    value, *_ = negative_bound(atoms, np.log(1e8), np.log(1e-7), rows, Prior(), atoms.centers)
    assert np.isfinite(value)


def targets(loss, Y):
    index = (Y[:, 0] > 0) + (Y[:, 1] > 0.3).astype(int)
    classes = (index[:, None] == np.arange(3)).astype(float)
    return {"squared_error": Y, "log_loss": np.where(Y > 0, 1.0, -1.0), "softmax": classes}[loss]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "softmax"])
def test_gradient_of_each_loss(loss):
    X, Y, atoms = problem()
    Y = targets(loss, Y)
    rng = np.random.default_rng(2)
    weights, q = rng.uniform(0.5, 2, size=N), Y.shape[1]
    coef, intercept = rng.normal(size=(K, q)), rng.normal(size=q)
    found = gradient(Model(coef, intercept, atoms), X, Y, weights, loss, 0.1)

    def value(theta):
        c, b = theta[: K * q].reshape(K, q), theta[K * q : K * q + q]
        return reference.total_loss(loss, X, Y, weights, c, b, *as_atoms(theta[K * q + q :]), 0.1)

    theta = np.concatenate([coef.ravel(), intercept, as_vector(atoms)])
    expected = np.concatenate([found.coef.ravel(), found.intercept, as_vector(found.atoms)])
    np.testing.assert_allclose(expected, differences(value, theta), rtol=1e-5, atol=1e-5)
    by_hand = batch_loss(loss, Y, atom_values(atoms, X)[0] @ coef + intercept, weights)
    literal = reference.total_loss(loss, X, Y, weights, coef, intercept, *atoms, 0.0) / weights.sum()
    np.testing.assert_allclose(by_hand, literal, rtol=1e-10)


def larger_problem(n=600):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 2))
    y = np.where(np.sin(3 * X[:, :1]) + X[:, 1:] > 0, 1.0, -1.0)
    start = Model(np.zeros((8, 1)), np.zeros(1), Atoms(X[:8].copy(), np.zeros(8), np.zeros(2)))
    return X, y, start


def loss_of(model, X, y):
    return batch_loss("log_loss", y, atom_values(model.atoms, X)[0] @ model.coef + model.intercept)


def descended(X, y, start, epochs, batch, **options):
    rng = np.random.default_rng(0)
    return descend(start, Batch(X, y), loss="log_loss", epochs=epochs, batch=batch, rng=rng, **options)


def test_descent_lowers_the_loss_and_repeats_itself():
    X, y, start = larger_problem()
    (model, interrupted), (again, _) = (descended(X, y, start, 25, 100) for _ in range(2))
    assert loss_of(model, X, y) < 0.6 * loss_of(start, X, y) and not interrupted
    for one, other in zip(model.atoms, again.atoms, strict=True):
        np.testing.assert_array_equal(one, other)


def test_threads_do_not_change_the_descent(monkeypatch):
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("kernelpursuit.refined.descent.usable_threads", lambda t=threads: t)
        found.append(descended(*larger_problem(), 3, 600)[0].atoms.centers)
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("library", "dtype", "tolerance"), [("torch", "f4", 1e-3), ("torch", "f8", 1e-9), ("array_api_strict", "f8", 1e-9)]
)
def test_other_libraries_descend_alike(library, dtype, tolerance):
    xp = pytest.importorskip(library)
    X, y, start = larger_problem(600 if library == "torch" else 100)
    X, y = X.astype(dtype), y.astype(dtype)
    host, there = (descended(*data, start, 2, len(X) // 3)[0] for data in ((X, y), (xp.asarray(X), xp.asarray(y))))
    np.testing.assert_allclose(there.atoms.centers, host.atoms.centers, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(there.coef, host.coef, rtol=tolerance, atol=tolerance)


def test_an_interrupt_ends_the_descent_with_the_model_it_had():
    X, y, start = larger_problem()

    def report(epoch, model):
        if epoch == 2:
            raise KeyboardInterrupt

    model, interrupted = descended(X, y, start, 50, 100, report=report)
    assert interrupted and loss_of(model, X, y) < loss_of(start, X, y)


def test_a_report_may_end_the_descent():
    seen = []
    descended(*larger_problem(), 50, 100, rates=Rates(coef=0.1), report=lambda e, model: seen.append(e) or e == 2)
    assert seen == [1, 2]


def test_unknown_losses_are_refused():
    with pytest.raises(ValueError, match="loss must be 'squared_error', 'log_loss' or 'softmax', got 'hinge'"):
        slope("hinge", np.ones((1, 1)), np.ones((1, 1)))
    assert one_cycle(0) == pytest.approx(0.1) and one_cycle(1) == pytest.approx(0)


def test_targets_without_noise_are_fitted():
    """The ratio of the variances is 1e15 there: rounding leaves no Cholesky factor."""
    X = np.linspace(-3, 3, 80)[:, None]
    phi = np.exp(-0.1 * (X - X[::4, 0]) ** 2)
    solved = evidence._solve(phi, np.sin(X), 1e15)
    stacked = np.vstack([phi, np.sqrt(1e-15) * np.eye(20)])
    literal = np.linalg.lstsq(stacked, np.append(np.sin(X), np.zeros(20)))[0]
    np.testing.assert_allclose(phi @ solved.beta[:, 0], phi @ literal, atol=1e-9)
    stretched = 1 + 1e15 * np.linalg.svd(phi, compute_uv=False) ** 2
    assert solved.log_determinant == pytest.approx(np.sum(np.log(stretched)), rel=1e-6)
    inverse = solved.inverse_factor @ np.linalg.svd(phi)[2].T  # its singular vectors are those of phi
    np.testing.assert_allclose(np.sum(inverse**2, axis=0), 1 / stretched, rtol=1e-4)
