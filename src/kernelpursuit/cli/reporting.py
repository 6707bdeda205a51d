"""Tables and sentences of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelpursuit.cli.tables import Task

DIGITS: dict[Task, str] = {"regression": ".5g", "classification": ".4f"}
FOOTNOTE = """\
Inputs are standardised and every model has an RBF kernel. Its width and the
penalty (C of SVC and SVR, alpha of the others) come from 3-fold
cross-validation on the training rows; those of all KMP rows from "auto", which
chooses its number of atoms. Terms are kernel evaluations per prediction:
atoms, support vectors, training rows, components. Fit seconds are those of the
final fit, without the cross-validation. Times: best of 2 to 7, on one thread."""


class Record(NamedTuple):
    """One line of the comparison."""

    model: str
    family: str
    error: float
    terms: int
    fit_seconds: float
    predict_us: float  # per row
    losses: NDArray[np.float64]  # of each test row: 0 or 1, or the squared error


def heading(task: Task) -> str:
    """Names of the columns.

    Parameters
    ----------
    task : {"regression", "classification"}

    Returns
    -------
    str
        Like the rows, of at most 80 characters.
    """
    error = "misclassified" if task == "classification" else "RMSE"
    return f"{'model':<30}{error:>14}{'terms':>8}{'fit s':>11}{'predict us/row':>17}"


def row(record: Record, task: Task) -> str:
    """A record as a line of the table.

    Parameters
    ----------
    record : Record
    task : {"regression", "classification"}

    Returns
    -------
    str
    """
    error = f"{record.error:{DIGITS[task]}}"
    return f"{record.model:<30}{error:>14}{record.terms:>8}{record.fit_seconds:>11.4f}{record.predict_us:>17.2f}"


def conclusion(records: Sequence[Record], task: Task) -> str:
    """Say in one sentence what kernel matching pursuit gained over the more accurate of the exact models.

    The "auto" row speaks for it: its number of atoms was chosen without the test rows.

    Parameters
    ----------
    records : sequence of Record
    task : {"regression", "classification"}

    Returns
    -------
    str
    """
    pursuit = next(record for record in records if record.family == "KMP auto")
    peer = min((record for record in records if record.family == "exact"), key=lambda record: record.error)
    digits = DIGITS[task]
    sketches = [record for record in records if record.family == "Nystroem"]
    return (
        f"{_verdict(pursuit, peer)}: KMP with {_terms(pursuit)} has error {pursuit.error:{digits}}, "
        f"{peer.model} needs {_terms(peer)} for {peer.error:{digits}}; {_speed(pursuit, peer)}; "
        f"{_beside_nystroem(pursuit, sketches, digits)}{_enough(records, pursuit, peer, digits)}."
    )


def _enough(records: Sequence[Record], pursuit: Record, peer: Record, digits: str) -> str:
    """Smallest listed number of atoms that is as good as the peer on these test rows, where that is below auto's."""
    smaller = [record for record in records if record.family == "KMP" and record.terms < pursuit.terms]
    for record in sorted(smaller, key=lambda record: record.terms):
        if record.error <= peer.error:
            return f"; of the sizes above, KMP with {_terms(record)} is enough to match {peer.model} on these rows"
    return ""


def _verdict(pursuit: Record, peer: Record) -> str:
    """Weigh the errors by the standard error of their difference, row by row, and the terms by their number."""
    difference = pursuit.losses - peer.losses
    noise = difference.std() / np.sqrt(len(difference))
    if difference.mean() < -noise:
        return "Gained accuracy"
    if difference.mean() > noise:
        return "Traded accuracy for terms" if pursuit.terms < peer.terms else "Nothing gained"
    return "Gained terms at no loss beyond noise" if pursuit.terms < peer.terms else "Nothing gained"


def _terms(record: Record) -> str:
    return f"{record.terms} term" if record.terms == 1 else f"{record.terms} terms"


def _speed(pursuit: Record, peer: Record) -> str:
    ratio = peer.predict_us / pursuit.predict_us
    if 0.95 < ratio < 1.05:
        return "prediction takes as long"
    return f"prediction is {ratio:.1f} times faster" if ratio > 1 else f"prediction is {1 / ratio:.1f} times slower"


def _beside_nystroem(pursuit: Record, sketches: Sequence[Record], digits: str) -> str:
    rivals = [record for record in sketches if record.terms <= pursuit.terms and record.error <= pursuit.error]
    if rivals:
        rival = min(rivals, key=lambda record: record.terms)
        return f"but Nystroem does as well with {_terms(rival)}: {rival.error:{digits}}"
    equal = next(record for record in sketches if record.terms >= pursuit.terms)
    return f"Nystroem with {_terms(equal)}: {equal.error:{digits}}"
