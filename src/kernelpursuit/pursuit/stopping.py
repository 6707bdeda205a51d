"""Stop rules: functions of a path that return the number of steps to keep, or None to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, from_host, namespace, to_host
from kernelpursuit.pursuit.loop import Path, Stop, StopRule, checked_verdict, count

UsedShares = Callable[[int], np.ndarray]

_ROUNDING = 1e-12  # of leverages
_NARROW, _WIDE = 0.75, 4.5  # of the standard error: chosen on five sets of several classes, judged on eleven
_BEYOND = 2  # times the steps of the narrower margin: where the path ends at the latest


@dataclass(frozen=True)
class PredictableRule:
    """A stop rule that may know beforehand that it will end the path, so that no needless atoms are proposed.

    Attributes
    ----------
    rule : callable
        The stop rule.
    ends : callable
        ``ends(path, steps, loss)``: whether so many steps, after which the loss is so much (nan: not known), end it.
    """

    rule: StopRule
    ends: Callable[[Path, int, float], bool]

    def __call__(self, path: Path) -> Stop | None:
        """The verdict of the rule now."""
        return self.rule(path)


def n_atoms(k: int, reason: str = "n_atoms") -> StopRule:
    """Stop after `k` steps; `reason` says what limits them."""

    def rule(path: Path) -> Stop | None:
        if len(path) < k:
            return None
        return Stop(k, reason, f"{count(k, 'step')} {'was' if k == 1 else 'were'} taken, the most that {reason} allows")

    return PredictableRule(rule, lambda path, steps, loss: steps >= k)


def loss_below(tol: float, floor: float = 0.0) -> StopRule:
    """Stop once the training loss is at most `tol` times the loss before the first atom, or at most `floor`."""

    def ends(path: Path, steps: int, loss: float) -> bool:
        return loss <= max(tol * path.start.loss, floor)

    def rule(path: Path) -> Stop | None:
        if ends(path, len(path), path.steps[-1].loss if path.steps else path.start.loss):
            return Stop(len(path), "tolerance", f"the training loss fell to tol={tol:g} of what it was without atoms")
        return None

    return PredictableRule(rule, ends)


def lowest(values: Callable[[Path], np.ndarray], reason: str, patience: int, margin: float = 0.0) -> StopRule:
    """Keep as many steps as make a quantity smallest. Stop when `patience` steps have brought nothing smaller.

    Parameters
    ----------
    values : callable
        ``values(path)``, one number for each number of steps from 0 on; nan never wins.
    reason : str
        Code for ``Path.reason``.
    patience : int
        Steps without a new minimum after which to stop.
    margin : float
        Keep the fewest steps whose value exceeds the minimum by at most this share of its size.

    Examples
    --------
    >>> from kernelpursuit.pursuit.loop import Path, Step
    >>> path = Path(Step(-1, loss=3.0), [Step(0, loss=1.0), Step(1, loss=2.0)])
    >>> lowest(lambda path: path.values("loss"), "example", patience=1)(path).keep
    1
    """

    def rule(path: Path) -> Stop | None:
        curve = np.asarray(values(path), dtype=np.float64)
        curve = np.where(np.isnan(curve), np.inf, curve)
        best = int(np.argmin(curve))
        if not path.ending and len(curve) - 1 - best < patience:
            return None
        limit = curve[best] + margin * abs(curve[best]) if np.isfinite(curve[best]) else curve[best]
        keep = int(np.argmax(curve <= limit))
        return Stop(keep, reason, f"{reason} was lowest after {keep} of {count(len(curve) - 1, 'step')}")

    return rule


def lowest_leave_one_out(patience: int, margin: float = 0.0) -> StopRule:
    """Minimum of the leave-one-out error, known exactly at each step of a squared-loss pursuit."""
    return lowest(lambda path: path.values("leave_one_out"), "leave_one_out", patience, margin)


def lowest_gcv(n: float | UsedShares, charge: float, patience: int) -> StopRule:
    """Minimum of the generalised cross-validation score with a charge for the search.

    ``loss / (1 - (1 + charge * k) / n)**2`` after k steps on `n` samples: `charge` degrees of freedom for each atom,
    one for fitting its weight and the rest for having chosen it. `search_charge` gives the charge that proved best.
    Where some rows count for more than others, `n` is a function that gives ``h_0, ..., h_k`` for k steps, the mean
    leverage of a row; the score is then ``loss / (1 - h_0 - charge * (h_k - h_0))**2``. With equal rows h is (1 + k)/n.
    """
    return lowest(lambda path: gcv_curve(path, n, charge), "gcv", patience)


def gcv_curve(path: Path, n: float | UsedShares, charge: float) -> np.ndarray:
    """The generalised cross-validation score of `lowest_gcv`, one number for each number of steps from 0 on."""
    if callable(n):
        used = n(len(path))
        left = 1 - used[0] - charge * (used - used[0])
        left[left < _ROUNDING] = 0.0
    else:
        left = 1 - (1 + charge * np.arange(len(path) + 1)) / n
    return np.where(left > 0, path.values("loss") / np.where(left > 0, left, 1) ** 2, np.inf)


def fewest_for_classes(
    error_rate: Callable[[], float], n: float, charge: float, patience: int, fewest: int = 0
) -> StopRule:
    """The fewest steps whose `lowest_gcv` score is as low as error rates can tell from the lowest.

    The squared error of classes that are easily told apart falls long after their error rate does. A rate w on n rows
    has the standard error sqrt(w (1 - w) / n). Three quarters of it, as a share of w, is what a score may exceed the
    lowest by; where the left-out error rate is within the same margin of its lowest, so that more atoms do not help the
    classes, four and a half times the standard error. The path ends where the score did not fall for `patience` steps,
    or after twice the steps that the narrower margin keeps: what is more would be given up again. At least `fewest`
    steps are kept, if the score falls so long: few left-out errors of easy classes say little about new rows.

    Parameters
    ----------
    error_rate : callable
        Share of the rows whose class is wrong when they are left out of the current fit; called once a step.
    n, charge, patience
        As in `lowest_gcv`.
    fewest : int
    """
    rates = recorded("validation", lambda path: error_rate())

    def rule(path: Path) -> Stop | None:
        known = rates(path)
        curve = gcv_curve(path, n, charge)
        best = int(np.argmin(curve))
        least = float(np.nanmin(known))
        lowest = float(np.clip(least, 1 / n, 0.5))
        error = np.sqrt((1 - lowest) / (lowest * n))  # relative standard error
        narrow, wide = (int(np.argmax(curve[: best + 1] <= curve[best] * (1 + m * error))) for m in (_NARROW, _WIDE))
        keep = min(narrow, max(wide, int(np.argmax(known <= least + _NARROW * error * lowest))))
        keep = max(keep, min(best, fewest))
        taken = len(curve) - 1
        if not path.ending and taken - best < patience and taken < _BEYOND * narrow + patience:
            return None
        return Stop(keep, "gcv", f"gcv after {keep} of {count(taken, 'step')} is as low as error rates can tell")

    return rule


def search_charge(targets: Array, weights: Array | None = None) -> float:
    """Degrees of freedom that an atom costs under `lowest_gcv`: one for its weight, and one for the search.

    Several targets share the cost of the search: the charge is ``1 + sum(S**2) / trace(S)**2`` with S the covariance
    matrix of the targets. That is 2 for one target and 1 + 1/t for t uncorrelated ones of equal variance. A target
    that is given twice changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, -1.0, 1.0, -1.0])
    >>> search_charge(y[:, None]), search_charge(np.stack([y, [1, 1, -1, -1]], axis=1))
    (2.0, 1.5)
    """
    xp, weighed = namespace(targets), targets if weights is None else targets * weights[:, None]
    total = targets.shape[0] if weights is None else float(to_host(xp.sum(weights)))
    centred = targets - from_host(to_host(xp.sum(weighed, axis=0)) / total, targets)[None, :]
    S = to_host((centred if weights is None else centred * weights[:, None]).T @ centred)
    trace = float(np.trace(S))
    return 1.0 + float(np.sum((S / trace) ** 2)) if trace > 0 else 2.0  # as shares: their squares do not overflow


def lowest_validation(error: Callable[[Path], float], patience: int) -> StopRule:
    """Minimum of an error on data held out; `error(path)` is called once for each number of steps."""
    return lowest(recorded("validation", error), "validation", patience)


def lowest_bound(bound: Callable[[Path], float], patience: int) -> StopRule:
    """Minimum of a bound on the error; `bound(path)` is called once for each number of steps."""
    return lowest(recorded("bound", bound), "bound", patience)


def recorded(name: str, current: Callable[[Path], float]) -> Callable[[Path], np.ndarray]:
    """Values of a quantity that is computed after each step and kept in field `name` of the path's steps.

    A stop rule remembers nothing but the path, so a path that is resumed ends where it would have ended.
    """

    def values(path: Path) -> np.ndarray:
        last = path.steps[-1] if path.steps else path.start
        if np.isnan(getattr(last, name)):
            change: dict[str, Any] = {name: float(current(path))}
            last = last._replace(**change)
            if path.steps:
                path.steps[-1] = last
            else:
                path.start = last
        return path.values(name)

    return values


def first_of(*rules: StopRule) -> StopRule:
    """Stop as soon as one of several rules does. Of a path that is over, keep the fewest steps that any rule keeps."""

    def rule(path: Path) -> Stop | None:
        verdicts = [verdict for one in rules if (verdict := checked_verdict(one(path))) is not None]
        return min(verdicts, key=lambda verdict: verdict.keep) if verdicts else None

    known = [one.ends for one in rules if isinstance(one, PredictableRule)]
    return PredictableRule(rule, lambda path, steps, loss: any(ends(path, steps, loss) for ends in known))
