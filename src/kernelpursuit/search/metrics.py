"""Scores that a search computes without a scorer, from the predictions for all numbers of atoms at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from kernelpursuit.estimators.ranker import KMPRanker
from kernelpursuit.estimators.regression import regression_loss
from kernelpursuit.fitting.rules import mean_loss
from kernelpursuit.fitting.training import training_data
from kernelpursuit.losses import LOSSES
from kernelpursuit.ranking import ndcg

SQUARED_UNITS = ("squared_error", "huber")  # losses in units of the squared target
FAR_FROM_ONE = 300  # exponent of two of targets whose squares, and sums of these, may overflow or have few digits
LARGEST_EXPONENT = 1000  # of two, whose inverse is a number too


class Metric(NamedTuple):
    """A score of predictions, larger is better."""

    score: Callable[..., float]  # score(y, prediction, sample_weight=None), for a ranker also group=None
    unit: float = 1.0  # what scores are counted in, so that none overflows


def metric_for(estimator: Any, X: Any, y: np.ndarray, weights: np.ndarray | None) -> Metric:
    """Accuracy of a classifier, NDCG of a ranker, else minus the mean of the loss that the estimator fits."""
    if is_classifier(estimator):
        return Metric(accuracy)
    if isinstance(estimator, KMPRanker):
        return Metric(lambda y, f, sample_weight=None, group=None: ndcg(y, f, group, sample_weight=sample_weight))
    return loss_metric(estimator, X, y, weights)


def loss_metric(estimator: Any, X: Any, y: np.ndarray, weights: np.ndarray | None) -> Metric:
    """Minus the mean loss of a regressor.

    Very large or small targets are divided by a power of two, which is exact: their squares would be no numbers.
    """
    name = getattr(estimator, "loss", "squared_error")
    scaled = isinstance(name, str) and name in SQUARED_UNITS and np.any(y)
    exponent = np.frexp(np.max(np.abs(y)))[1] if scaled else 0
    exponent = np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT) if abs(exponent) >= FAR_FROM_ONE else 0
    unit = float(2.0**exponent)
    columns = y.reshape(len(y), -1).astype(np.float64) / unit
    data = training_data(X, columns, weights)
    loss = regression_loss(name, data) or LOSSES["squared_error"]

    def score(y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        targets = y.reshape(len(y), -1) / unit
        values = prediction.reshape(len(y), -1).astype(np.float64) / unit
        values = values if loss.link is None else loss.link.of_mean(values)
        return -mean_loss(loss.value, targets, values, sample_weight) / targets.shape[1]

    return Metric(score, unit)


def is_metric_of(estimator: Any, scoring: Any) -> bool:
    """Whether `scoring` asks by name for what `metric_for` computes."""
    if is_classifier(estimator):
        name = "accuracy"
    else:
        name = "neg_mean_squared_error" if getattr(estimator, "loss", "squared_error") == "squared_error" else ""
    return isinstance(scoring, str) and scoring == name


def accuracy(y: np.ndarray, prediction: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Share of rows whose class is right, or all of whose labels are.

    scikit-learn's checks of its arguments would take longer than the fit.
    """
    right = y == prediction
    right = right.all(axis=1) if right.ndim == 2 else right
    return float(np.average(right, weights=sample_weight))
