"""Warnings of a fit, all but those about duplicate rows (duplicates.py).

About the data: `warn_if_one_column_rules`. About the number of atoms: `warn_if_cut`, `warn_if_short`,
`warn_if_constant`, `warn_of_choice`. About losses other than the squared one: `warn_if_astray`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._warning import warn
from kernelpursuit.arrays import namespace, to_host
from kernelpursuit.fitting.placement import host_dtype, host_weights, take_rows
from kernelpursuit.kernels.gaussian import center_of, centred
from kernelpursuit.kernels.kernels import kernel_list
from kernelpursuit.losses import Loss
from kernelpursuit.parameters import is_basic
from kernelpursuit.pursuit.loop import Path, count

_OFF_QUANTILE = 0.05  # share of rows by which a quantile may be missed without a warning
_UNCONVERGED = 0.01  # share of the first loss that one more refit may save without a warning
_FLAT, _FITTED = 1e-3, 1e-2  # shares of the slope and of the loss before the first atom
ONE_COLUMN = 0.99  # share of the variance of X from which one column is said to rule the kernel
FEWEST_ROWS = 10  # with fewer, variances say nothing
UNASKED = "n_atoms='auto'"  # why a path ends there


def warn_if_one_column_rules(
    X: Any, kernel: Any, gamma: Any, sample_weight: Any = None, name: str = "X", columns: Any = None
) -> None:
    """Warn when one column has nearly all of the variance of X: a kernel of distances then hardly sees the others.

    No warning where the user gave a number for gamma, chosen for these columns. `columns` are their names.
    """
    kinds = [one[0] if isinstance(one, tuple) and one else one for one in kernel_list(kernel)]
    by_distance = any(kind in ("rbf", "laplacian") for kind in kinds)
    if sparse.issparse(X) or not by_distance or not (gamma is None or isinstance(gamma, str)):
        return
    if sample_weight is not None:
        X = take_rows(X, np.flatnonzero(host_weights(sample_weight, X) > 0))
    if X.shape[0] < FEWEST_ROWS:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        xp = namespace(X)
        varies = to_host(xp.max(X, axis=0)) > to_host(xp.min(X, axis=0))
        # centred first: the mean of many float32 numbers far from 0 is wrong by more than they vary
        variance = np.where(varies, to_host(xp.var(centred(X, center_of(X)), axis=0)), 0.0)
        share = np.max(variance, initial=0.0) / np.maximum(np.sum(variance), np.finfo(float).tiny)
    if share > ONE_COLUMN and np.sum(varies) > 1:
        largest = int(np.argmax(variance))
        column = largest if columns is None else repr(str(columns[largest]))
        warn(
            f"column {column} of {name} has {share:.1%} of the variance, so the kernel hardly sees the others. Scale "
            "the columns alike (StandardScaler) or by what they are worth (FeatureWidths). If they are weighted on "
            "purpose, give the width as a number: 1, or for a search 0.25, 1, 4 and 16, suits FeatureWidths"
        )


def found_constant(path: Path) -> bool:
    """Whether nothing was left to fit before the first step, as with equal targets."""
    return path.reason == "tolerance" and not path.steps and not path.discarded


def warn_if_cut(path: Path) -> None:
    """ConvergenceWarning when a limit ended the path before the rule that chooses the number of steps."""
    if path.reason in (UNASKED, "memory"):
        more = " and a larger `memory`" if path.reason == "memory" else ""
        warn(
            f"n_atoms='auto' has not found a number: {path.sentence}, and more would do better still, as where y has "
            f"no noise. The model can be used. A number for n_atoms{more} goes on, with `stop` as far as that rule "
            "does; stop=tolerance(1e-3), say, ends earlier",
            ConvergenceWarning,
        )


def warn_if_short(path: Path, criterion: Any, data: Any, wanted: int, name: str = "n_atoms") -> None:
    """ConvergenceWarning when the data cannot give as many atoms as the parameter `name` asks for.

    Of an indefinite kernel the estimator says what that means.
    """
    if getattr(criterion, "indefinite", False) or path.reason != "exhausted" or len(path) >= wanted:
        return
    size = len(criterion.available)
    single = criterion.ends_early_in_float32 and host_dtype(data.X) == np.float32
    digits = ", to the digits of float32 (X in float64 has more of them)" if single else ""
    noun = "row" if size == len(data.rows) else "atom"
    why = (
        f", more than there is to choose from ({count(size, noun)}): all of it is taken. Ask for no more"
        if len(path.atoms) == size
        else f" but {path.sentence}: the other atoms lie in their span{digits}. Ask for fewer, or use a kernel that "
        "tells more points apart (a larger gamma, say)"
    )
    warn(f"{name}={wanted} was asked for{why}", ConvergenceWarning)


def warn_of_choice(path: Path, known: str) -> None:
    """ConvergenceWarning that a callback ended the choice of a number of atoms; `known` is what was known by then."""
    warn(
        f"{path.sentence}: {known}, and the model may be worse than one of a choice that was finished. Let the "
        "callback wait longer, or ask for less: fewer atoms, widths or folds",
        ConvergenceWarning,
    )


def warn_if_constant(path: Path) -> None:
    """ConvergenceWarning when no atom was kept although the targets vary and atoms were asked for.

    With few rows a path may fit all of them before a rule discards its steps: the reason is then not the rule's name.
    """
    asked = path.discarded or path.reason != "n_atoms"
    if asked and not path.steps and path.reason != "interrupted" and not found_constant(path):
        warn(
            f"the model has no atoms and predicts a constant: {path.sentence}. Either X says nothing about y, or the "
            "kernel does not see it: scale the columns of X alike, try another gamma, or give n_atoms",
            ConvergenceWarning,
        )


def warn_if_astray(estimator: Any, loss: Loss, path: Path, criterion: Any) -> None:
    """ConvergenceWarning when a model does not do what its loss is for."""
    if not loss.convex:
        warn_if_flat(estimator, path, criterion)
    if not warn_if_unconverged(criterion) and loss.rounded is not None:
        warn_if_off_quantile(estimator, criterion)


def warn_if_unconverged(criterion: Any) -> bool:
    """ConvergenceWarning when the weights do not minimise the loss; returns whether it warned."""
    shares = criterion.unconverged()
    worst = int(np.argmax(shares))
    if shares[worst] <= _UNCONVERGED:
        return False
    whose = f" of column {worst} of y" if len(shares) > 1 else ""
    warn(
        f"the weights do not minimise the loss{whose}: the optimiser gave up, and another try lowers it by "
        f"{shares[worst]:.0%} of what it was without atoms. Take a larger alpha or fewer atoms",
        ConvergenceWarning,
    )
    return True


def warn_if_off_quantile(estimator: Any, criterion: Any) -> None:
    """ConvergenceWarning when the share of rows below the predictions is not the quantile."""
    off = float(max(criterion.imbalance(), key=abs))
    if abs(off) <= min(_OFF_QUANTILE, criterion.smaller_share() / 2):
        return
    if is_basic(estimator.variant):
        advice = "variant='basic' never fits a weight again. Take more steps, or variant='backfit'"
    elif not estimator.fit_intercept:
        advice = "take fit_intercept=True, or more atoms"
    else:
        advice = "y is too skewed for this loss. Take its logarithm or the like, which keeps quantiles in their order"
    warn(
        f"the share of training rows below the predictions is {abs(off):.2g} {'above' if off > 0 else 'below'} the "
        f"quantile that was asked for: {advice}",
        ConvergenceWarning,
    )


def warn_if_flat(estimator: Any, path: Path, criterion: Any) -> None:
    """ConvergenceWarning when a loss is flat at all values of a model that does not fit: its slope is no guide then.

    Also when it will become flat: "doom2" drives values up, and nothing keeps those of the basic variant small.
    """
    loss = estimator.loss
    if not path.steps or path.steps[-1].loss <= _FITTED * path.start.loss:
        return
    name = f"loss={loss!r}" if isinstance(loss, str) else "the loss"
    if criterion.flatness() < _FLAT:
        warn(
            f"{name} hardly changes any more with the values of the model, which have become too large: its slope no "
            "longer says which atoms would help. A larger alpha keeps them small; or take another loss: 'tanh' wants "
            "values near 1, 'log_loss' never becomes flat at a row that is wrong",
            ConvergenceWarning,
        )
    elif loss == "doom2" and is_basic(estimator.variant) and estimator.alpha == "auto":
        warn(
            f"{name} with variant='basic' has no ridge under alpha='auto', and values grow until the loss is flat: few "
            "rows then say which atoms would help. Give a number for alpha, such as 0.1, or take variant='backfit'",
            ConvergenceWarning,
        )
