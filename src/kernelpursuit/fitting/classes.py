"""Classes as targets: checks, the codes -1 and +1 and the way back, errors, and the losses for classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets, is_multilabel
from sklearn.utils.validation import column_or_1d

from kernelpursuit.arrays import Array, is_array, on_host
from kernelpursuit.fitting.placement import labels_to, to_namespace_of
from kernelpursuit.fitting.training import TrainingData, check_training
from kernelpursuit.losses import LOSSES, Loss, huber


def has_labels(estimator: Any) -> bool:
    """Whether a fitted classifier was given several labels a row."""
    return getattr(estimator, "_labels", False)


def check_training_classes(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, bool]:
    """Checked X and y of a fit, and whether y is a matrix of labels."""
    if not is_multilabel(y):
        X, y = check_training(estimator, X, y, sample_weight=sample_weight)
        check_classification_targets(y)
        return X, y, False
    if estimator.class_weight is not None:
        raise ValueError(
            f"class_weight={estimator.class_weight!r} is for classes of which each row has one; y is a matrix of "
            "labels: give sample_weight"
        )
    y = y.toarray() if sparse.issparse(y) else y
    X, y = check_training(estimator, X, y, sample_weight=sample_weight, multi_output=True)
    values = np.unique(on_host(y))
    if not np.all((values == 0) | (values == 1)):
        raise ValueError(f"y with several columns must be 0 and 1, whether a row has the label, got {values.tolist()}")
    return X, y, True


def classification_loss(loss: Any) -> Loss:
    """Loss that the parameter `loss` stands for."""
    if not isinstance(loss, str):
        return loss
    return huber(1.0) if loss == "huber" else LOSSES[loss]


def two_or_more_classes(data: TrainingData) -> np.ndarray:
    """Sorted classes of the rows of positive weight; an error if there is only one."""
    classes = np.unique(np.concatenate(data.source.collect(np.unique, data.y)))
    if len(classes) < 2:
        raise ValueError(f"y must have two classes or more among rows of positive weight, got one class: {classes[0]}")
    return classes


def as_labels(y: np.ndarray) -> np.ndarray:
    """Labels of some rows, checked."""
    y = column_or_1d(y)
    check_classification_targets(y)
    return y


def code_classes(y: np.ndarray, classes: np.ndarray, dtype: Any) -> np.ndarray:
    """Targets -1 and +1: one column for two classes, else one for each class against the rest."""
    index = np.searchsorted(classes, y)
    member = index[:, None] == (np.arange(len(classes)) if len(classes) > 2 else np.array([1]))
    return np.where(member, 1, -1).astype(dtype)


def code_labels(y: np.ndarray, dtype: Any) -> np.ndarray:
    """Targets -1 and +1: one column for each label."""
    return np.where(y == 1, 1, -1).astype(dtype)


def mislabelled(targets: np.ndarray, residuals: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Rows with a wrong label."""
    return np.any((targets - residuals > 0) != (targets > 0), axis=1)


def misclassified(targets: np.ndarray, residuals: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Rows whose class is wrong, given the residuals of their ±1 targets."""
    values = targets - residuals
    if targets.shape[1] == 1:
        return (values[:, 0] > 0) != (targets[:, 0] > 0)
    return np.argmax(values, axis=1) != np.argmax(targets, axis=1)


def like_labels(classes: np.ndarray, y: Any) -> Any:
    """Sorted classes in the library of the labels y, as scikit-learn keeps them; NumPy's if y is no array."""
    return to_namespace_of(classes, y) if is_array(y) else classes


def take_classes(classes: Any, index: Array) -> Any:
    """Class of each index: strings in a NumPy array, others in the library of the index."""
    if isinstance(classes, np.ndarray) and isinstance(index, np.ndarray):
        return classes[index]
    return labels_to(on_host(classes)[on_host(index)], index)
