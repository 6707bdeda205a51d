"""How good predictions are, in numbers that a stranger understands, with the chance level and an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from kernelpursuit.cli.sources import quoted
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


def error_in_words(task: Task, error: float) -> str:
    """An error in a sentence: a percentage, or a quantity."""
    return f"{error:.1%}" if task == "classification" else quantity(error)


def unequal_in_words(scores: dict[str, float], chance: float, never: Sequence[str]) -> list[str]:
    """What is to be known of a model where classes are unequal; `chance` is the log loss of their shares."""
    area = f"area under the ROC curve {scores['AUC']:.3f} (chance 0.500)"
    words = [f"The classes are unequal: {area}, log loss {scores['log loss']:.3f} (chance {chance:.3f})."]
    return words + ([f"It never names {' or '.join(quoted(label) for label in never)}."] if never else [])


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


def log_losses(y: NDArray[Any], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log loss of each row, by the probabilities of the sorted classes; what was called impossible counts as 1e-15."""
    of_own_class = np.take_along_axis(probabilities, np.unique(y, return_inverse=True)[1][:, None], axis=1)[:, 0]
    return -np.log(np.maximum(of_own_class, 1e-15))


def ranking_losses(y: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row what it adds to 1 less the area under the ROC curve, which is their mean.

    Their spread tells that of the area, as DeLong has it: a row stands for the share of the other class that it is
    ranked right of, and a rare class has few rows to do so.

    Parameters
    ----------
    y : ndarray of classes
    values : ndarray of shape (n, n_classes)
        What ranks the rows for each class, in the order of the sorted classes; of two classes the second counts.

    Examples
    --------
    >>> y, p = np.array(["a", "a", "b"]), np.array([0.1, 0.6, 0.3])
    >>> round(float(np.mean(ranking_losses(y, np.stack([1 - p, p], axis=1)))), 3)  # one of the two pairs is right
    0.5
    """
    classes = np.unique(y)
    losses = [_pair_losses(y == label, values[:, i]) for i, label in enumerate(classes)]
    return losses[1] if len(classes) == 2 else np.mean(losses, axis=0)


def _pair_losses(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Losses of the rows in a ranking of one class before all others."""
    wrong = np.empty(len(values))
    for own, other, sign in ((positive, ~positive, 1.0), (~positive, positive, -1.0)):
        mine, theirs = sign * values[own], np.sort(sign * values[other])
        right = np.searchsorted(theirs, mine, "left") + np.searchsorted(theirs, mine, "right")
        wrong[own] = 1 - right / (2 * len(theirs))
    share = np.where(positive, positive.mean(), 1 - positive.mean())
    mean = wrong[positive].mean()
    return mean + (wrong - mean) / share


def never_named(y: NDArray[Any], predicted: NDArray[Any]) -> list[str]:
    """Classes of the rows that are predicted for none of them."""
    return [str(label) for label in np.setdiff1d(y, predicted)]


def class_scores(
    y: NDArray[Any],
    predicted: NDArray[Any],
    values: NDArray[Any],
    probabilities: NDArray[np.float64] | None = None,
) -> dict[str, float]:
    """Balanced accuracy, the mean over classes of the share that was found, area under the ROC curve, and log loss.

    Parameters
    ----------
    y, predicted : ndarray of classes
    values : ndarray of shape (n, n_classes)
        What ranks the rows for each class, in the order of the sorted classes.
    probabilities : ndarray of shape (n, n_classes), optional
        Without them there is no log loss.
    """
    from sklearn.metrics import balanced_accuracy_score

    rarest = int(np.min(np.unique(y, return_counts=True)[1]))
    scores = {
        "balanced accuracy": float(balanced_accuracy_score(y, predicted)),
        "AUC": 1 - float(ranking_losses(y, values).mean()),
        # Standard deviation of the area where there is nothing to see (Mann and Whitney), for the rarest class.
        "AUC noise": float(np.sqrt((len(y) + 1) / (12 * rarest * (len(y) - rarest)))),
    }
    return scores if probabilities is None else scores | {"log loss": float(log_losses(y, probabilities).mean())}
