"""How good predictions are, in numbers that a stranger understands, with the chance level and an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from kernelpursuit.cli.tables import Task

UNEQUAL = 0.5  # a class with less than this part of an equal share: shares of errors hide how it fares
LEVEL = 0.95  # of intervals
DRAWS = 1000  # of the bootstrap
ERROR: dict[Task, str] = {"regression": "RMSE", "classification": "misclassified"}


def are_unequal(y: NDArray[Any]) -> bool:
    """Whether a class is so rare that a model which never names it still errs little.

    Examples
    --------
    >>> are_unequal(np.array(["a"] * 9 + ["b"])), are_unequal(np.array(["a"] * 6 + ["b"] * 4))
    (True, False)
    """
    counts = np.unique(y, return_counts=True)[1]
    return bool(counts.min() < UNEQUAL * len(y) / len(counts))


def quantity(value: float, digits: int = 4) -> str:
    """A number to so many digits, thousands apart; powers of ten only where there would be many zeros.

    Examples
    --------
    >>> quantity(83784.2), quantity(516.84), quantity(0.01234), quantity(1e-7), quantity(3.2e12), quantity(0.0)
    ('83,780', '516.8', '0.01234', '1.000e-07', '3.200e+12', '0')
    """
    rounded = float(f"{value:.{digits - 1}e}")
    if not 1e-4 <= abs(rounded) < 1e10:
        return f"{value:.{digits - 1}e}" if value else "0"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(rounded)))))
    return f"{rounded:,.{decimals}f}"


def error_text(task: Task, error: float) -> str:
    """An error in a table: a share, or a quantity."""
    return f"{error:.4f}" if task == "classification" else quantity(error)


def share_text(share: float, decimals: int = 0) -> str:
    """A share as a percentage, which is 100 only where it is all.

    Examples
    --------
    >>> share_text(0.987), share_text(0.9995), share_text(1 - 1e-12), share_text(1.0), share_text(-2.0)
    ('99%', '99.95%', '99.9999%', '100%', '-200%')
    """
    if share < 1:
        share = min(share, 1 - 1e-6)
        while f"{share:.{decimals}%}".startswith("100"):
            decimals += 1
    return f"{share:.{decimals}%}"


def losses_of(task: Task, y: NDArray[Any], predicted: NDArray[Any]) -> NDArray[np.float64]:
    """Loss of each row: 0 or 1, or the squared error."""
    return (predicted != y).astype(np.float64) if task == "classification" else (predicted - y) ** 2


def error_of(task: Task, losses: NDArray[np.float64]) -> float:
    """Share of rows in the wrong class, or the root mean squared error."""
    return float(losses.mean() if task == "classification" else np.sqrt(losses.mean()))


def chance_prediction(task: Task, y_train: NDArray[Any], rows: int) -> NDArray[Any]:
    """Predictions that ignore the inputs: the most frequent class, or the mean."""
    if task == "regression":
        return np.full(rows, y_train.mean())
    classes, counts = np.unique(y_train, return_counts=True)
    return np.full(rows, classes[np.argmax(counts)])


def interval_of(task: Task, losses: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """Interval of the error at which it would be found on other rows: exact for classes, else by the bootstrap.

    Examples
    --------
    >>> low, high = interval_of("classification", np.array([1.0] * 10 + [0.0] * 90))
    >>> round(low, 3), round(high, 3)
    (0.049, 0.176)
    """
    n, tail = len(losses), (1 - LEVEL) / 2
    if task == "classification":
        wrong = int(losses.sum())
        low = float(beta.ppf(tail, wrong, n - wrong + 1)) if wrong else 0.0
        return low, float(beta.ppf(1 - tail, wrong + 1, n - wrong)) if wrong < n else 1.0
    rng = np.random.default_rng(seed)
    means = np.sqrt([losses[rng.integers(0, n, n)].mean() for _ in range(DRAWS)])
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))


def beats_chance(
    losses: list[NDArray[np.float64]], chance: list[NDArray[np.float64]], scores: dict[str, float]
) -> bool:
    """Whether a model has learned anything: its losses are below those of chance, or it ranks the rows.

    With rare classes a good model may be wrong as often as one that never names them.

    Parameters
    ----------
    losses, chance : lists of ndarray
        Of each row, for one split or several.
    scores : dict
        Those of `class_scores`; empty for a regression.
    """
    differences = [its - mine for mine, its in zip(losses, chance, strict=True)]
    mean = np.mean([difference.mean() for difference in differences])
    noise = np.sqrt(np.mean([difference.var() / len(difference) for difference in differences]))
    ranks = "AUC" in scores and scores["AUC"] > 0.5 + 3 * scores["AUC noise"]
    return bool(mean > 2 * noise or ranks)


def class_scores(y: NDArray[Any], predicted: NDArray[Any], values: NDArray[Any] | None) -> dict[str, float]:
    """Balanced accuracy, the mean over classes of the share that was found, and the area under the ROC curve.

    Parameters
    ----------
    y, predicted : ndarray of classes
    values : ndarray of shape (n, n_classes) or None
        What ranks the rows for each class, in the order of the sorted classes; None: there is no area.
    """
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    scores = {"balanced accuracy": float(balanced_accuracy_score(y, predicted))}
    if values is not None:
        classes = np.unique(y)
        areas = [roc_auc_score(y == label, values[:, i]) for i, label in enumerate(classes)]
        scores["AUC"] = float(areas[1] if len(classes) == 2 else np.mean(areas))
        rarest = int(np.min(np.unique(y, return_counts=True)[1]))
        # Standard deviation of the area where there is nothing to see (Mann and Whitney), for the rarest class.
        scores["AUC noise"] = float(np.sqrt((len(y) + 1) / (12 * rarest * (len(y) - rarest))))
    return scores
