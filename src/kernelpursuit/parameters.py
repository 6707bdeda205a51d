"""Values of parameters that have parameters of their own, such as ``stop=validation(0.2, patience=10)``.

Each is a frozen record: equal by value, copied by `sklearn.base.clone`, varied by `GridSearchCV`, and kept in model
files. Where a parameter takes the name of a record, as ``stop="validation"`` does, the name stands for its defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

__all__ = [
    "basic",
    "bound",
    "certificate",
    "columns",
    "gcv",
    "leave_one_group_out",
    "leave_one_out",
    "tolerance",
    "validation",
]


def check_share(name: str, share: Any, valid: str, *, zero: bool = False, one: bool = False) -> None:
    """ValueError unless `share` lies between 0 and 1; `zero` and `one` say whether these are valid themselves."""
    number = isinstance(share, Real) and not isinstance(share, bool)
    if not (number and (0 < share < 1 or (zero and share == 0) or (one and share == 1))):
        raise ValueError(f"{name} must be {valid}, got {share!r}")


@dataclass(frozen=True)
class LowestPoint:
    """Keep the number of steps at which a curve is lowest: the base of the stop rules that follow a curve.

    Parameters
    ----------
    patience : int, default=10
        Steps without a new minimum after which the search for a lower one ends.
    """

    _: KW_ONLY
    patience: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.patience, Integral) or isinstance(self.patience, bool) or self.patience < 1:
            raise ValueError(f"patience must be an int of at least 1, got {self.patience!r}")


class gcv(LowestPoint):
    """The curve is generalised cross-validation, with a charge for the search."""


class leave_one_out(LowestPoint):
    """The curve is the exact leave-one-out error of the chosen atoms."""


class leave_one_group_out(LowestPoint):
    """The curve is the exact error of groups of rows that are left out; for rankings."""


class bound(LowestPoint):
    """The curve is a bound on the error of new rows, computed from the training rows."""


@dataclass(frozen=True)
class HeldOutRows(LowestPoint):
    """Keep the number of steps at which a curve over held-out rows is lowest."""

    share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("share", self.share, "a number between 0 and 1")


class validation(HeldOutRows):
    """The curve is the loss on held-out rows; then as many steps are fitted to all rows.

    Parameters
    ----------
    share : float, default=0.2
        Share of the rows that are held out.
    patience : int, default=10
        Steps without a new minimum after which the search for a lower one ends.

    Examples
    --------
    >>> validation(patience=20)
    validation(patience=20, share=0.2)
    """


class certificate(HeldOutRows):
    """The curve is an exact limit of the error rate by held-out rows; the model is the one of the other rows.

    Parameters
    ----------
    share : float, default=0.2
        Share of the rows that are held out.
    patience : int, default=10
        Steps without a new minimum after which the search for a lower one ends.
    """


@dataclass(frozen=True)
class tolerance:
    """Stop once the training loss has fallen to a share of what it was without atoms.

    Parameters
    ----------
    share : float
        0 never stops.
    """

    share: float

    def __post_init__(self) -> None:
        check_share("share", self.share, "a number from 0 on and below 1", zero=True)


@dataclass(frozen=True)
class basic:
    """Matching pursuit that fits the weight of the newest atom only, as in its first form of 1993.

    Parameters
    ----------
    shrinkage : float, default=1
        Share of the full step that each new weight takes.
    """

    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        check_share("shrinkage", self.shrinkage, "a number above 0 and at most 1", one=True)


@dataclass(frozen=True)
class columns:
    """Columns computed from X that join the atoms: terms you know of, trends, the inputs themselves.

    A member of the list `kernel`, as in ``kernel=["rbf", columns(trend)]``.

    Parameters
    ----------
    function : callable
        ``function(X)`` returns one column or several.
    """

    function: Callable[[Any], Any]


def record_of(value: Any, *kinds: type) -> Any:
    """The record that a name stands for, one of `kinds` with its defaults; any other value is returned.

    Examples
    --------
    >>> record_of("gcv", gcv, validation), record_of(None, gcv), record_of(gcv(patience=3), gcv)
    (gcv(patience=10), None, gcv(patience=3))
    """
    if isinstance(value, type):
        raise ValueError(f"got the class {value.__name__}, not a record: give {value.__name__}(...) with parentheses")
    names = {kind.__name__: kind for kind in kinds}
    return names[value]() if isinstance(value, str) and value in names else value


def is_basic(variant: Any) -> bool:
    """Whether a value of the parameter `variant` is the basic variant."""
    return isinstance(record_of(variant, basic), basic)
