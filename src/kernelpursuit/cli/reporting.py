"""Lines and sentences of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelpursuit.cli.contenders import ROWS_FOR_SETTINGS, Contender, SplitResult
from kernelpursuit.cli.scores import ERROR, beats_chance, error_in_words, error_text, quantity, unequal_in_words
from kernelpursuit.cli.tables import Task

FRACTIONS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 10: "a tenth", 20: "a twentieth"}
SAME, UNCLEAR, MORE, LESS = "the same accuracy", "no clear difference in accuracy", "more accurate", "less accurate"
ACCURATE = {SAME: "as accurate as", UNCLEAR: "neither clearly more nor clearly less accurate than"}
ACCURATE |= {MORE: "more accurate than", LESS: "less accurate than"}
WELL = {SAME: "as well", UNCLEAR: "neither clearly better nor clearly worse", MORE: "better", LESS: "worse"}
GOOD = {SAME: "as good as", UNCLEAR: "neither clearly better nor clearly worse than", MORE: "better than"}
GOOD |= {LESS: "worse than"}
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
    class_losses: dict[str, list[NDArray[np.float64]]]  # the same by measures that see rare classes
    never_named: list[str]  # classes, on no split
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
            {name: [one.class_losses[name] for one in outcomes] for name in outcomes[0].class_losses},
            sorted(set.intersection(*(set(one.never_named) for one in outcomes))),
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

    def losses_by(self, measure: str) -> list[NDArray[np.float64]]:
        """Losses of the test rows of each split by "error", "log loss" or "AUC", of which they are what is missing."""
        return self.losses if measure == "error" else self.class_losses[measure]

    def judged(self, measure: str) -> float:
        """Mean over the splits of what a measure says."""
        return self.error if measure == "error" else float(np.mean([one.mean() for one in self.class_losses[measure]]))

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": self.model,
            "family": self.family,
            "error": self.error,
            "errors": self.errors,
            **self.scores,
            "never_named": self.never_named,
            "terms": self.terms,
            **{name: getattr(self, name) for name in TIMES},
        }


def table_heading(task: Task, unequal: bool) -> str:
    """Names of the columns; like the rows, of at most 80 characters."""
    found = f"{'wrong':>7}{'log loss':>9}{'AUC':>6}{'terms':>6}" if unequal else f"{ERROR[task]:>18}{'terms':>7}"
    return f"{'model':<22}{found}{'fit s':>7}{'encoded':>8}{'us/row':>7}{'encoded':>8}"


def table_row(record: ModelSummary, task: Task, unequal: bool) -> str:
    """A record as a line of the table."""
    terms = "" if record.terms is None else f"{record.terms:.0f}"
    if unequal:
        log_loss = f"{record.scores['log loss']:.3f}" if "log loss" in record.scores else ""
        found = f"{record.error:>7.4f}{log_loss:>9}{record.scores['AUC']:>6.3f}{terms:>6}"
    else:
        around = quantity(record.spread, 2) if task == "regression" else f"{record.spread:.3f}"
        found = f"{error_text(task, record.error) + (f' ±{around}' if len(record.errors) > 1 else ''):>18}{terms:>7}"
    times = f"{record.fit_seconds:>7.2f}{record.encoded_fit_seconds:>8.2f}"
    return f"{record.model:<22}{found}{times}{record.predict_us:>7.1f}{record.encoded_predict_us:>8.1f}"


def footnote(unequal: bool) -> str:
    """Explanation of the columns of the table; `unequal`: also of those for classes of unequal size."""
    spread = "" if unequal else ", ± half of the distance from the lowest to the highest"
    judged = "Log loss judges probabilities, and AUC, the area under the ROC curve, the order of the rows. "
    return fill(
        f"Errors are of rows not trained on: the mean over the splits{spread}. Terms are kernel evaluations for a "
        "prediction: atoms, support vectors, training rows, landmarks. "
        f"{judged if unequal else ''}Times are those of one fit and one row, on one thread, without the search for "
        'settings: from the table on, and, under "encoded", on rows that are numbers already, which trees and kernels '
        "take in other forms. SVM, "
        "KernelRidge, Nystroem and KMP have an RBF kernel on standardised inputs, its width and the penalty from "
        f"3-fold cross-validation on at most {ROWS_FOR_SETTINGS} training rows. Refined KMP and HistGradientBoosting "
        "are as they come.",
        width=80,
    )


def conclusion(records: Sequence[ModelSummary], task: Task, unequal: bool = False) -> list[str]:
    """Result of the comparison in sentences that need no table.

    The refined model with the number of terms that it chose speaks for this package: that was chosen without test rows.
    Where classes are unequal, models that name the frequent one always are hardly wrong, and all alike: their
    probabilities are judged, or, of those that have none, how they rank the rows.
    """
    named = {record.family: record for record in records}
    ours, chance, boosting = named["refined auto"], named["chance"], named["boosting"]
    by = "AUC" if unequal else "error"
    exact = min((record for record in records if record.family == "exact"), key=lambda record: record.judged(by))
    says = f"In words: Refined KMP, with {terms_in_words(ours)},"
    if task == "classification":
        says += f" is wrong in {error_in_words(task, ours.error)} of rows that it has not seen; "
        words = [f"{says}always naming the most frequent class is wrong in {error_in_words(task, chance.error)}."]
    else:
        says += f" errs by {error_in_words(task, ours.error)} on rows that it has not seen; "
        words = [f"{says}always naming the mean errs by {error_in_words(task, chance.error)}."]
    if unequal:
        words += unequal_in_words(ours.scores, chance.scores["log loss"], ours.never_named)
    if not beats_chance(ours.losses, chance.losses, ours.scores):
        words.append("That is no better than chance: it has learned nothing from these columns.")
        return words
    terms, speed = terms_beside(ours, exact), speed_in_words(ours, exact)
    if unequal:
        better = WELL[accuracy_in_words(ours, exact, "AUC")]
        words.append(
            f"Beside {exact.model} (area {exact.scores['AUC']:.3f}): it ranks the rows {better}, {terms}; {speed}."
        )
        says = f"Its probabilities are {GOOD[accuracy_in_words(ours, boosting, 'log loss')]} those of"
        its = f"log loss {boosting.scores['log loss']:.3f}"
    else:
        accuracy = accuracy_in_words(ours, exact)
        words.append(f"Beside {exact.model} ({error_in_words(task, exact.error)}): {accuracy}, {terms}; {speed}.")
        says, its = f"It is {ACCURATE[accuracy_in_words(ours, boosting)]}", error_in_words(task, boosting.error)
    words.append(f"{says} HistGradientBoosting ({its}), the usual choice for tables.")
    return words


def terms_in_words(record: ModelSummary) -> str:
    """Number of terms in words."""
    assert record.terms is not None
    return f"{record.terms:.0f} term" if round(record.terms) == 1 else f"{record.terms:.0f} terms"


def accuracy_in_words(ours: ModelSummary, peer: ModelSummary, by: str = "error") -> str:
    """Weigh the errors by the standard error of their difference, row by row within a split.

    Within one standard error they cannot be told apart; the same they are if the errors differ by little as well.
    """
    differences = [mine - its for mine, its in zip(ours.losses_by(by), peer.losses_by(by), strict=True)]
    mean = float(np.mean([difference.mean() for difference in differences]))
    noise = float(np.sqrt(np.mean([difference.var() / len(difference) for difference in differences])))
    if abs(mean) <= noise:
        mine, its = ours.judged(by), peer.judged(by)
        return SAME if abs(mine - its) <= ALIKE * max(mine, its) else UNCLEAR
    return MORE if mean < 0 else LESS


def terms_beside(ours: ModelSummary, peer: ModelSummary) -> str:
    """Numbers of terms in words, such as "with a tenth of the terms (12 for 124)"."""
    assert ours.terms is not None and peer.terms is not None
    return f"with {terms_ratio_in_words(ours.terms, peer.terms)} ({ours.terms:.0f} for {peer.terms:.0f})"


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
