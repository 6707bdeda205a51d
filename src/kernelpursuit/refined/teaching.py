"""A kernel regression on all rows as the teacher of a few terms, and the units of the inputs that suit it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, from_host, gather, namespace, to_host
from kernelpursuit.refined.descending import values_of
from kernelpursuit.refined.descent import Model, normal
from kernelpursuit.refined.moving_atoms import Atoms, atom_values
from kernelpursuit.refined.refining import Task

JUDGED_ON = 600  # rows that width and penalty are chosen on
WIDTHS, PENALTIES = (0.3, 1.0, 3.0), (1e-3, 1e-2, 1e-1, 1.0)  # gamma times the variance of the inputs; the ridge
TAUGHT = 8000  # rows up to which there is a teacher: its matrix has their square
LESSONS, COPIES = 40_000, (2, 10)  # rows that it is asked about, as copies of each training row
DOUBT = 2.0  # standard errors that common units must gain


class TeacherRidge(NamedTuple):
    """A kernel ridge regression: its width, its penalty, and the left-out error of each row it was chosen on."""

    gamma: float
    penalty: float
    errors: np.ndarray


def best_ridge(task: Task) -> TeacherRidge:
    """Width and penalty with the lowest error of rows left out one at a time, which one decomposition gives for all."""
    X, centred = to_host(task.X), task.Y - task.mean()
    found = []
    for width in WIDTHS:
        gamma = width / task.variance()
        eigenvalues, V = np.linalg.eigh(kernel_of(X, gamma))
        for penalty in PENALTIES:
            shrunk = 1 / (np.maximum(eigenvalues, 0) + penalty)
            left_out = ((V * shrunk) @ (V.T @ centred)) / np.sum(V * V * shrunk, axis=1)[:, None]
            found.append(TeacherRidge(gamma, penalty, task.error(task.Y, task.Y - left_out)))
    return min(found, key=lambda one: float(np.average(one.errors, weights=task.weights)))


def kernel_of(X: Array, gamma: float) -> Array:
    """Kernel values of all pairs of rows."""
    return atom_values(atoms_at(to_host(X), gamma).like(X), X)[0]


def atoms_at(centers: np.ndarray, gamma: float) -> Atoms:
    """Atoms of one width, all inputs weighing alike."""
    return Atoms(centers, np.full(len(centers), np.log(gamma)), np.zeros(centers.shape[1]))


def in_common_units(task: Task, spread: np.ndarray) -> np.ndarray | None:
    """Factors that bring standardised inputs back to units that all share, where that suits the targets; else None.

    The pixels of an image have one unit. To give each the variance 1 makes much of those that are hardly ever inked.
    """
    known = np.isfinite(spread)
    typical = float(np.sqrt(np.mean(spread[known] ** 2))) if np.any(known) else 0.0
    if typical == 0 or task.given is not None:
        return None
    units = np.where(known, spread / typical, 1.0)
    if np.min(units) > 0.8:  # there is little to choose from
        return None
    units = np.maximum(units, 0.05)
    gain = best_ridge(task).errors - best_ridge(task._replace(X=task.X * from_host(units, task.X))).errors
    better = np.mean(gain) > DOUBT * np.std(gain) / np.sqrt(len(gain))
    return units if better else None


def teacher_of(task: Task, ridge: TeacherRidge) -> Model:
    """Kernel ridge regression on all rows: as many terms as rows."""
    xp, n = namespace(task.X), task.X.shape[0]
    noise = np.full(n, ridge.penalty) if task.weights is None else ridge.penalty / np.maximum(task.weights, 1e-6)
    K = kernel_of(task.X, ridge.gamma)
    K[range(n), range(n)] += from_host(noise, K)
    coef = to_host(xp.linalg.solve(K, from_host(task.Y - task.mean(), K)))
    return Model(coef, task.mean(), atoms_at(to_host(task.X), ridge.gamma))


def lessons(task: Task, teacher: Model, jitter: float, rng: np.random.Generator) -> Task:
    """Rows near the training rows, with what the teacher says of them."""
    xp, n = namespace(task.X), task.X.shape[0]
    copies = int(np.clip(LESSONS // n, *COPIES))
    X = xp.astype(gather(task.X, np.tile(np.arange(n), copies)), xp.float32)
    X = X + jitter * normal(X, rng)
    weights = None if task.weights is None else np.tile(task.weights, copies)
    return task._replace(X=X, Y=values_of(teacher, X), weights=weights)
