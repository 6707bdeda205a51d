"""The path of one fold of a search whose atoms are foreseen: scores of all numbers of atoms by a few products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit.atoms.tiles import spans
from kernelpursuit.fitting.orthogonal import equal_rows
from kernelpursuit.fitting.training import TrainingData
from kernelpursuit.fitting.units import least_loss
from kernelpursuit.math.shrinkage import shrunk_by_evidence
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.pursuit.ridge import penalty_products
from kernelpursuit.search.foreseen import Fit
from kernelpursuit.search.shared_matrix import Values

_AT_ONCE = 2**19  # predictions that are in memory at the same time


@dataclass(frozen=True, eq=False)
class FoldRows:
    """Rows of a fold, and what they are fitted to.

    Parameters
    ----------
    train : ndarray of int
        Training rows of positive weight.
    test : ndarray of int
    y : ndarray
        Of all rows, as the metric takes it.
    targets : ndarray of shape (n, t)
        Of all rows, of the squared loss, divided by `unit`.
    unit : float
    weights : ndarray of shape (n,) or None
    classes : ndarray or None
        What the targets stand for where rows have one class each.
    """

    train: np.ndarray
    test: np.ndarray
    y: np.ndarray
    targets: np.ndarray
    unit: float
    weights: np.ndarray | None
    classes: np.ndarray | None

    def weighed(self, columns: np.ndarray) -> np.ndarray:
        """Columns of the training rows times the roots of the weights."""
        return columns if self.weights is None else columns * np.sqrt(self.weights[self.train])[:, None]

    def equal_rows(self) -> float:
        """How many rows of equal weight the training rows stand for."""
        weights = None if self.weights is None else self.weights[self.train]
        return equal_rows(TrainingData(None, self.y[self.train], weights, self.train, len(self.y)))

    def end_early(self, fit: Fit, model: Any) -> bool:
        """Whether a fit would end at its tolerance."""
        gains = np.sum(fit.lengths[int(model.fit_intercept) :] ** 2, axis=1)
        total = len(self.train) if self.weights is None else float(np.sum(self.weights[self.train]))
        losses = (np.sum(fit.energy) - np.cumsum(np.concatenate([[0.0], gains]))) / total
        return bool(np.min(losses) <= max(model.tol * losses[0], least_loss(self.targets[self.train])))

    def scores_of(self, values: np.ndarray, of_classes: bool) -> np.ndarray:
        """Scores of several predictions for the test rows, (some, n_targets, n_rows)."""
        y, weights = self.y[self.test], None if self.weights is None else self.weights[self.test]
        return class_scores(y, values, weights, self.classes) if of_classes else value_scores(y, values, weights)


class FoldPath:
    """One fold of a search at one width.

    Parameters
    ----------
    foresee : callable
        Finds the atoms of the path, as far as they can be foreseen, and the fits by them.
    values : callable
        Kernel values of some of all rows with some others.
    rows : FoldRows
    """

    def __init__(self, foresee: Callable[[], tuple[Foreseen, Fit]], values: Values, rows: FoldRows):
        self._foresee, self._values, self._rows = foresee, values, rows

    def atoms(self) -> Foreseen:
        """The atoms, as far as foreseen."""
        return self._foresee()[0]

    def scores(self, model: Any) -> np.ndarray | Foreseen:
        """Scores for 1, 2, ... atoms, the last one again once a path is over; or the atoms, as far as foreseen."""
        (foreseen, fit), constants = self._foresee(), int(model.fit_intercept)
        if len(foreseen.atoms) < model.n_atoms and not (foreseen.over and len(foreseen.atoms)):
            return foreseen
        rows, atoms = self._rows, self._rows.train[foreseen.atoms]
        if rows.end_early(fit, model):
            return foreseen
        lengths, coefficients = fit.lengths, None
        if isinstance(model.alpha, str):
            G = penalty_products(lambda one, other: self._values(rows.train[one], rows.train[other]), len(rows.train))
            gram = G(foreseen.atoms, foreseen.atoms)
            small = shrunk_by_evidence(fit.R, gram, fit.lengths, fit.energy, rows.equal_rows())[1]
            if small is not None:
                lengths, coefficients = small.lengths, small.coefficients
        coefficients = np.linalg.inv(fit.R) if coefficients is None else coefficients
        columns = np.ones((constants + len(atoms), len(rows.test)))
        columns[constants:] = self._values(atoms, rows.test)
        values = staged(columns.T @ coefficients, lengths * rows.unit, constants)
        scores = np.concatenate([rows.scores_of(some, is_classifier(model)) for some in values])
        return np.concatenate([scores, np.repeat(scores[-1:], model.n_atoms - len(scores))])


def staged(directions: np.ndarray, lengths: np.ndarray, constants: int) -> Iterator[np.ndarray]:
    """Predictions after 1, 2, ... steps, (some, n_targets, n_rows), along directions at the rows, (n_rows, size)."""
    n, targets = len(directions), lengths.shape[1]
    values = lengths[:constants].T @ directions[:, :constants].T
    for some in spans(constants, len(lengths), max(1, _AT_ONCE // (n * targets))):
        steps = directions.T[some, None, :] * lengths[some, :, None]
        steps[0] += values
        np.cumsum(steps, axis=0, out=steps)
        values = steps[-1]
        yield steps


def value_scores(y: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Minus the mean squared error of each of several predictions, (some, n_targets, n_rows)."""
    missed = values - y.reshape(len(y), -1).T
    np.square(missed, out=missed)
    losses = missed[:, 0] if missed.shape[1] == 1 else missed.mean(axis=1)
    return -(losses.mean(axis=1) if weights is None else np.average(losses, axis=1, weights=weights))


def class_scores(
    y: np.ndarray, values: np.ndarray, weights: np.ndarray | None, classes: np.ndarray | None
) -> np.ndarray:
    """Share of rows whose class, or all of whose labels, each of several predictions has right."""
    if classes is None:
        right = np.all((values > 0) == (y.T == 1), axis=1)
    else:
        place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        right = highest_at(values, place) & (classes[place] == y)
    if weights is None:
        return np.count_nonzero(right, axis=1) / right.shape[1]
    return np.average(right, axis=1, weights=weights)


def highest_at(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Whether the first of the highest values, (some, n_targets, n_rows), is where each row should have it.

    Target by target: an argmax over few entries for each of many rows takes ten times as long.
    """
    if values.shape[1] == 1:
        return (values[:, 0] > 0) == (place == 1)
    own = values[:, place, np.arange(len(place))]
    right = np.ones(own.shape, dtype=bool)
    for target, others in enumerate(values.swapaxes(0, 1)):
        right &= (others < own) | ((others == own) & (target >= place))
    return right
