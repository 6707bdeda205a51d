"""Lines and sentences of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelpursuit.cli.contenders import ROWS_FOR_SETTINGS, Contender, SplitResult
from kernelpursuit.cli.scores import ERROR, beats_chance, error_text, quantity
from kernelpursuit.cli.tables import Task

FRACTIONS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 10: "a tenth", 20: "a twentieth"}
SAME, UNCLEAR, MORE, LESS = "the same accuracy", "no clear difference in accuracy", "more accurate", "less accurate"
ALIKE = 0.03  # relative difference of two errors that are called the same
FRACTIONS |= {50: "a fiftieth", 100: "a hundredth"}

TIMES = ("fit_seconds", "predict_us", "encoded_fit_seconds", "encoded_predict_us")


class ModelSummary(NamedTuple):
    """One line of the comparison: means over the splits."""

    model: str
    family: str
    errors: list[float]
    losses: list[NDArray[np.float64]]  # for each split, of each test row: 0 or 1, or the squared error
    scores: dict[str, float]
    terms: float | None
    fit_seconds: float  # from the table on, as a user has them
    predict_us: float  # per row
    encoded_fit_seconds: float  # on inputs that are there
    encoded_predict_us: float

    @classmethod
    def of(cls, contender: Contender, outcomes: Sequence[SplitResult]) -> ModelSummary:
        """From what a model did on each split."""
        terms = [one.terms for one in outcomes if one.terms is not None]
        names = outcomes[0].scores
        return cls(
            contender.name,
            contender.family,
            [one.error for one in outcomes],
            [one.losses for one in outcomes],
            {name: float(np.mean([one.scores[name] for one in outcomes])) for name in names},
            float(np.mean(terms)) if terms else None,
            *(float(np.mean([getattr(one, name) for one in outcomes])) for name in TIMES),
        )

    @property
    def error(self) -> float:
        """Mean over the splits."""
        return float(np.mean(self.errors))

    @property
    def spread(self) -> float:
        """Half the distance between the largest and the smallest error."""
        return (max(self.errors) - min(self.errors)) / 2

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": self.model,
            "family": self.family,
            "error": self.error,
            "errors": self.errors,
            **self.scores,
            "terms": self.terms,
            **{name: getattr(self, name) for name in TIMES},
        }


def table_heading(task: Task, unequal: bool) -> str:
    """Names of the columns; like the rows, of at most 80 characters."""
    found = f"{'wrong':>7}{'balanced':>9}{'AUC':>6}{'terms':>6}" if unequal else f"{ERROR[task]:>18}{'terms':>7}"
    return f"{'model':<22}{found}{'fit s':>7}{'encoded':>8}{'us/row':>7}{'encoded':>8}"


def table_row(record: ModelSummary, task: Task, unequal: bool) -> str:
    """A record as a line of the table."""
    terms = "" if record.terms is None else f"{record.terms:.0f}"
    if unequal:
        found = f"{record.error:>7.4f}{record.scores['balanced accuracy']:>9.3f}{record.scores['AUC']:>6.3f}{terms:>6}"
    else:
        around = quantity(record.spread, 2) if task == "regression" else f"{record.spread:.3f}"
        found = f"{error_text(task, record.error) + (f' ±{around}' if len(record.errors) > 1 else ''):>18}{terms:>7}"
    times = f"{record.fit_seconds:>7.2f}{record.encoded_fit_seconds:>8.2f}"
    return f"{record.model:<22}{found}{times}{record.predict_us:>7.1f}{record.encoded_predict_us:>8.1f}"


def footnote(unequal: bool) -> str:
    """Explanation of the columns of the table; `unequal`: also of those for classes of unequal size."""
    spread = "" if unequal else ", ± half of the distance from the lowest to the highest"
    balanced = '"balanced" is the mean over the classes of the share that was found. ' if unequal else ""
    return fill(
        f"Errors are of rows not trained on: the mean over the splits{spread}. Terms are kernel evaluations for a "
        "prediction: atoms, support vectors, training rows, landmarks. "
        f"{balanced}Times are those of one fit and one row, on one thread, without the search for settings: from the "
        'table on, and, under "encoded", on rows that are numbers already, which trees and kernels take in other '
        "forms. SVM, "
        "KernelRidge, Nystroem and KMP have an RBF kernel on standardised inputs, its width and the penalty from "
        f"3-fold cross-validation on at most {ROWS_FOR_SETTINGS} training rows. Refined KMP and HistGradientBoosting "
        "are as they come.",
        width=80,
    )


def conclusion(records: Sequence[ModelSummary], task: Task) -> list[str]:
    """Result of the comparison in sentences that need no table.

    The refined model with the number of terms that it chose speaks for this package: that was chosen without test rows.
    """
    named = {record.family: record for record in records}
    ours, chance, boosting = named["refined auto"], named["chance"], named["boosting"]
    exact = min((record for record in records if record.family == "exact"), key=lambda record: record.error)
    says = f"In words: Refined KMP, with {terms_in_words(ours)},"
    if task == "classification":
        says += f" is wrong in {error_in_words(ours, task)} of rows that it has not seen; "
        words = [f"{says}always naming the most frequent class is wrong in {error_in_words(chance, task)}."]
    else:
        says += f" errs by {error_in_words(ours, task)} on rows that it has not seen; "
        words = [f"{says}always naming the mean errs by {error_in_words(chance, task)}."]
    if not beats_chance(ours.losses, chance.losses, ours.scores):
        words.append("That is no better than chance: it has learned nothing from these columns.")
        return words
    accuracy, speed = accuracy_and_terms_in_words(ours, exact), speed_in_words(ours, exact)
    words.append(f"Beside {exact.model} ({error_in_words(exact, task)}): {accuracy}; {speed}.")
    against = {SAME: "as accurate as", UNCLEAR: "neither clearly more nor clearly less accurate than"}
    against |= {MORE: "more accurate than", LESS: "less accurate than"}
    says = against[accuracy_in_words(ours, boosting)]
    words.append(f"It is {says} HistGradientBoosting ({error_in_words(boosting, task)}), the usual choice for tables.")
    return words


def error_in_words(record: ModelSummary, task: Task) -> str:
    """The error in words."""
    return f"{record.error:.1%}" if task == "classification" else quantity(record.error)


def terms_in_words(record: ModelSummary) -> str:
    """Number of terms in words."""
    assert record.terms is not None
    return f"{record.terms:.0f} term" if round(record.terms) == 1 else f"{record.terms:.0f} terms"


def accuracy_in_words(ours: ModelSummary, peer: ModelSummary) -> str:
    """Weigh the errors by the standard error of their difference, row by row within a split.

    Within one standard error they cannot be told apart; the same they are if the errors differ by little as well.
    """
    differences = [mine - its for mine, its in zip(ours.losses, peer.losses, strict=True)]
    mean = float(np.mean([difference.mean() for difference in differences]))
    noise = float(np.sqrt(np.mean([difference.var() / len(difference) for difference in differences])))
    if abs(mean) <= noise:
        return SAME if abs(ours.error - peer.error) <= ALIKE * max(ours.error, peer.error) else UNCLEAR
    return MORE if mean < 0 else LESS


def accuracy_and_terms_in_words(ours: ModelSummary, peer: ModelSummary) -> str:
    """Accuracy and number of terms in words, such as "the same accuracy with a tenth of the terms (12 for 124)"."""
    assert ours.terms is not None and peer.terms is not None
    ratio = terms_ratio_in_words(ours.terms, peer.terms)
    return f"{accuracy_in_words(ours, peer)}, with {ratio} ({ours.terms:.0f} for {peer.terms:.0f})"


def terms_ratio_in_words(ours: float, peers: float) -> str:
    """Ratio of two numbers of terms in words.

    Examples
    --------
    >>> terms_ratio_in_words(12, 124), terms_ratio_in_words(100, 99), terms_ratio_in_words(300, 100)
    ('a tenth of the terms', 'as many terms', '3 times as many terms')
    """
    ratio = ours / peers if peers else np.inf
    if ratio > 1.5:
        return f"{ratio:.0f} times as many terms" if np.isfinite(ratio) else "more terms"
    if ratio > 0.75:
        return "as many terms"
    nearest = min(FRACTIONS, key=lambda parts: abs(np.log(ratio * parts)) if ratio else parts)
    return f"{FRACTIONS[nearest]} of the terms" if nearest > 2 else "half of the terms"


def speed_in_words(ours: ModelSummary, peer: ModelSummary) -> str:
    """Ratio of the times of a prediction, from the table on, in words."""
    ratio = peer.predict_us / ours.predict_us
    if 0.8 < ratio < 1.25:
        return "a prediction from a row of the table takes as long"
    times = max(ratio, 1 / ratio)
    return f"a prediction from a row of the table is {quantity(times, 2)} times {'faster' if ratio > 1 else 'slower'}"
