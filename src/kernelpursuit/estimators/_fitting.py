"""What the estimators share: parameters, stop rules from plain values, the fit itself, prediction along the path."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, validate_data

from kernelpursuit.bounds import vc_bound
from kernelpursuit.dictionaries.kernel import MIB
from kernelpursuit.estimators._atoms import AtomFamily, Expansion
from kernelpursuit.estimators._parameters import KERNEL_CONSTRAINTS
from kernelpursuit.losses import Loss
from kernelpursuit.pursuit.candidates import Candidates, active_set_size, everything, random_subset
from kernelpursuit.pursuit.gradient import Gradient
from kernelpursuit.pursuit.loop import Path, StopRule, pursue
from kernelpursuit.pursuit.squares import Squares
from kernelpursuit.pursuit.stopping import (
    first_of,
    gcv,
    leave_one_out,
    minimum,
    n_atoms,
    search_charge,
    tolerance,
    validation,
)


class TrainingData(NamedTuple):
    """Rows of positive weight, and where they came from."""

    X: Any
    y: np.ndarray
    weights: np.ndarray | None
    rows: np.ndarray
    n_rows: int

    def subset(self, J: np.ndarray) -> TrainingData:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[J]
        return TrainingData(self.X[J], self.y[J], weights, self.rows[J], self.n_rows)


class Fitted(NamedTuple):
    """Result of a pursuit, ready for an estimator's attributes."""

    path: Path
    support: np.ndarray
    expansion: Expansion
    coef_path: np.ndarray  # (steps + 1, 1 + atoms, targets), the intercept first


def training_data(X: Any, y: np.ndarray, sample_weight: Any) -> TrainingData:
    """Check the weights and leave out rows that have none: weight 0 is the same as being absent."""
    n = X.shape[0]
    if sample_weight is None:
        return TrainingData(X, y, None, np.arange(n), n)
    weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    rows = np.flatnonzero(weights > 0)
    if len(rows) == 0:
        raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
    if len(rows) < n:
        X, y, weights = X[rows], y[rows], weights[rows]
    return TrainingData(X, y, weights, rows, n)


def generator(random_state: Any) -> np.random.Generator:
    """NumPy generator from scikit-learn's `random_state`."""
    return np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def fit_pursuit(
    data: TrainingData,
    targets: np.ndarray,
    loss: Loss | None,
    rng: np.random.Generator,
    options: dict[str, Any],
    *,
    limit: int | None = None,
    rules: Callable[[AtomFamily, Any], list[StopRule]] = lambda family, criterion: [],
) -> Fitted:
    """Run one pursuit on the rows of `data`.

    Parameters
    ----------
    data : TrainingData
    targets : ndarray of shape (n_samples, n_targets)
    loss : Loss or None
        None is the squared loss.
    rng : numpy.random.Generator
    options : dict
        The parameters named in `KERNEL_CONSTRAINTS` and `PURSUIT_CONSTRAINTS`.
    limit : int, optional
        Most steps to take; default as many as memory allows.
    rules : callable
        Makes further stop rules from the atoms and the criterion.

    Returns
    -------
    Fitted
    """
    family = AtomFamily(
        data.X, data.rows, data.n_rows, data.weights, rng, **{name: options[name] for name in KERNEL_CONSTRAINTS}
    )
    n, itemsize = data.X.shape[0], data.X.dtype.itemsize
    columns = 1 if options["variant"] == "basic" else limit
    matrix, most_atoms = plan_memory(n, columns, itemsize, options["memory"])
    dictionary = family.dictionary(matrix, options["storage"])
    common = {name: options[name] for name in ("variant", "alpha", "shrinkage")}
    common |= {"weights": data.weights, "intercept": options["fit_intercept"]}
    criterion: Any
    if loss is None:
        criterion = Squares(dictionary, targets, **common)
    else:
        criterion = Gradient(dictionary, targets, loss, refit_every=options["refit_every"], **common)
    # Below the rounding error of the targets there is nothing left to fit.
    floor = 0.0 if loss else (16 * np.finfo(targets.dtype).eps) ** 2 * float(np.max(np.abs(targets), initial=0)) ** 2
    most = n_atoms(most_atoms, reason="memory") if limit is None else n_atoms(limit)
    stop = first_of(most, tolerance(options["tol"], floor), *rules(family, criterion))
    callback = progress(options["verbose"]) if options["verbose"] else None
    path = pursue(criterion, stop, candidates(options["active_set"], rng), callback)
    if path.reason == "interrupted":
        warnings.warn(f"the fit was {path.sentence}; the model has those terms", ConvergenceWarning, stacklevel=3)
    atoms = path.atoms
    coef_path = criterion.coef_path(len(path))
    return Fitted(path, family.support(atoms), family.expansion(atoms), coef_path)


def candidates(active_set: Any, rng: np.random.Generator) -> Candidates:
    """Candidates of each step from the parameter `active_set`."""
    if active_set is None:
        return everything
    if isinstance(active_set, tuple):
        if len(active_set) != 2:
            raise ValueError(f"active_set must be an int or a pair (epsilon, quantile), got {active_set!r}")
        active_set = active_set_size(*active_set)
    return random_subset(active_set, rng)


def plan_memory(n: int, limit: int | None, itemsize: int, memory: int | None) -> tuple[int, int]:
    """Bytes for the kernel matrix or a tile of it, and the most atoms whose orthonormal basis fits beside it.

    `memory` bounds the fit. By default the matrix may take scikit-learn's ``working_memory``, and the machine's memory
    is the bound. A fit of `limit` atoms that cannot fit is refused; with no limit half of the bound is for the basis.
    """
    column = n * itemsize
    basis = column * min(limit or 1, n)
    bound = physical_memory() if memory is None else memory
    if basis > bound:
        what = f"memory={bound}" if memory is not None else f"the {bound} bytes of this machine"
        fits = f"n_atoms={bound // column} would fit" if bound >= column else f"one column alone takes {column} bytes"
        raise ValueError(f"{limit} atoms on {n} rows need {basis} bytes, more than {what} allows; {fits}")
    if limit is None:
        basis = bound // 2
    matrix = int(get_config()["working_memory"] * MIB) if memory is None else memory - basis
    return max(matrix, column), max(1, basis // column)


def physical_memory() -> int:
    """Bytes of memory of this machine; unbounded where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**62


def progress(verbose: int) -> Callable[[Path], None]:
    """Callback that prints a line at 1, 2, 5, 10, 20, 50, ... steps, or at each one with ``verbose > 1``."""

    def callback(path: Path) -> None:
        k = len(path)
        leading = k // 10 ** (len(str(k)) - 1)
        if verbose > 1 or (leading in (1, 2, 5) and k == leading * 10 ** (len(str(k)) - 1)):
            step = path.steps[-1]
            print(f"[kernelpursuit] {k} steps, loss {step.loss:.4g}, {step.seconds:.1f} s", flush=True)

    return callback


def validation_rule(
    held_out: TrainingData, error: Callable[[np.ndarray], float], patience: int
) -> Callable[[AtomFamily, Any], list[StopRule]]:
    """Rule that follows `error` of the predictions on rows held out."""

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        columns: dict[int, np.ndarray] = {}  # values of the chosen atoms at the rows held out

        def current_error(path: Path) -> float:
            for atom in set(path.atoms.tolist()) - columns.keys():
                columns[atom] = family.expansion(np.array([atom])).columns(held_out.X)[:, 0]
            coef = criterion.coef()
            values = np.zeros((held_out.X.shape[0], coef.shape[1])) + coef[0]
            if len(coef) > 1:
                values += np.column_stack([columns[atom] for atom in path.atoms.tolist()]) @ coef[1:]
            return error(values)

        return [validation(current_error, patience)]

    return rules


def bound_rule(
    targets: np.ndarray, wrong: Callable[[np.ndarray, np.ndarray], np.ndarray], patience: int
) -> Callable[[AtomFamily, Any], list[StopRule]]:
    """Rule that follows the compression bound `vc_bound` on the share of `wrong(targets, residuals)` rows."""

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        known: list[float] = []

        def values(path: Path) -> np.ndarray:
            if len(known) <= len(path):
                atoms, n = path.atoms, len(targets)
                misses = wrong(targets, np.asarray(criterion.residual()))
                misses[family.rows(atoms)] = False  # only rows outside the support test the model
                k, errors = len(atoms), int(misses.sum())
                known.append(vc_bound(k, n, errors, form="tight") if k + errors < n else np.inf)
            return np.array(known)

        return [minimum(values, "bound", patience)]

    return rules


def path_rule(
    stop: Any, data: TrainingData, targets: np.ndarray, patience: int
) -> Callable[[AtomFamily, Any], list[StopRule]]:
    """Rule that reads the path alone, from the parameter `stop`; None has none."""
    rules = [] if stop is None else [stop]
    if stop == "gcv":
        # A row of weight w counts as w rows, but weights that were scaled down still stand for whole rows.
        n = len(targets) if data.weights is None else max(len(targets), float(np.sum(data.weights)))
        rules = [gcv(n, search_charge(targets.astype(np.float64), data.weights), patience)]
    elif stop == "leave_one_out":
        rules = [leave_one_out(patience)]
    return lambda family, criterion: rules


def warn_if_short(path: Path, wanted: Any) -> None:
    """ConvergenceWarning when a number of atoms was asked for that the data cannot give."""
    if wanted != "auto" and path.reason == "exhausted" and len(path) < wanted:
        warnings.warn(
            f"n_atoms={wanted} was asked for but {path.sentence}: the other atoms lie in their span",
            ConvergenceWarning,
            stacklevel=3,
        )


class PursuitModel(BaseEstimator):
    """Prediction, truncation and tags of a fitted expansion; estimators add `fit` and what they predict."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        return tags

    def truncate(self, k: int) -> Any:
        """Model with the first `k` steps of the path only, weights as they were fitted then.

        Parameters
        ----------
        k : int
            From 0 (the constant) to the number of steps taken.

        Returns
        -------
        estimator
            A fitted copy; this one stays as it is.
        """
        check_is_fitted(self)
        if not isinstance(k, Integral) or not 0 <= k <= len(self.path_):
            raise ValueError(f"k must be an integer from 0 to {len(self.path_)}, the steps of this model, got {k!r}")
        model = copy.copy(self)
        path = copy.copy(self.path_)
        path.steps, path.discarded = path.steps[:k], path.steps[k:] + path.discarded
        width = len(path.atoms)
        model._set(Fitted(path, self.support_[:width], self._expansion.truncate(width), self._coef_path[: k + 1]))
        return model

    def _set(self, fitted: Fitted) -> None:
        """Attributes of a fitted model."""
        width = len(fitted.path.atoms)
        self._expansion = fitted.expansion
        self._coef_path = fitted.coef_path[:, : 1 + width]
        self.path_ = fitted.path
        self.support_ = fitted.support
        self.support_kernels_ = fitted.expansion.sources
        self.support_vectors_ = fitted.expansion.centers
        coef = self._coef_path[-1].astype(fitted.expansion.centers.dtype)
        self.dual_coef_ = coef[1:, 0] if self._one_target else coef[1:]
        self.intercept_ = float(coef[0, 0]) if self._one_target else coef[0]

    def _raw(self, X: Any) -> np.ndarray:
        """Values of the expansion, (n_rows, n_targets)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **x_options(self.kernel))
        return self._expansion.predict(X, self._coef_path[-1])

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        """Values after 1, 2, ... steps: the kernel is evaluated once for all of them."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **x_options(self.kernel))
        columns = self._expansion.columns(X)
        steps, width, targets = self._coef_path.shape
        if steps == 1:
            return
        for block in gen_batches(steps - 1, 32):  # one matrix product for 32 stages
            coef = np.moveaxis(self._coef_path[1:][block], 0, 1).reshape(width, -1).astype(X.dtype)
            values = columns @ coef[1:] + coef[0]
            yield from np.moveaxis(values.reshape(X.shape[0], -1, targets), 1, 0)


def is_precomputed(kernel: Any) -> bool:
    """Whether X is the kernel matrix itself."""
    return isinstance(kernel, str) and kernel == "precomputed"


def x_options(kernel: Any) -> dict[str, Any]:
    """How `validate_data` treats X."""
    return {"accept_sparse": False if is_precomputed(kernel) else "csr", "dtype": [np.float64, np.float32]}


def fewer_centers(centers: Any, n: int) -> Any:
    """As many random centres as there are rows at most; anything else as it is."""
    return min(centers, n) if isinstance(centers, Integral) else centers


def check_centers(centers: Any, X: Any) -> Any:
    """User's array of centres with the dtype and the columns of X."""
    if centers is None or isinstance(centers, Integral):
        return centers
    centers = check_array(centers, accept_sparse="csr", dtype=X.dtype, input_name="centers")
    if centers.shape[1] != X.shape[1]:
        raise ValueError(f"centers must have the {X.shape[1]} columns of X, got {centers.shape[1]}")
    return centers


def check_split(n: int, share: float) -> None:
    """Whether `n` rows can be split for validation."""
    if n - int(np.ceil(share * n)) < 1:
        raise ValueError(f"validation_fraction={share} of {n} rows leaves none to train on: give more rows, or n_atoms")


def check_square(X: Any, kernel: Any) -> None:
    """A precomputed kernel of the training data is square."""
    if is_precomputed(kernel) and X.shape[0] != X.shape[1]:
        raise ValueError(f"with kernel='precomputed' X must be the square kernel matrix in fit, got shape {X.shape}")


def choose_and_fit(
    data: TrainingData,
    targets: np.ndarray,
    loss: Loss | None,
    rng: np.random.Generator,
    options: dict[str, Any],
    *,
    split: Callable[[TrainingData, float, np.random.Generator], tuple[np.ndarray, np.ndarray]],
    error: Callable[[np.ndarray, np.ndarray, np.ndarray | None], float],
    wrong: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Fitted:
    """Fit with the stop rule that `n_atoms` and `stop` ask for.

    Parameters
    ----------
    data, targets, loss, rng, options
        As in `fit_pursuit`; `options` has the parameters of `STOP_CONSTRAINTS` as well.
    split : callable
        ``split(data, share, rng)``: rows to train on and rows to hold out, for the validation rule.
    error : callable
        ``error(targets, values, weights)`` on rows held out.
    wrong : callable
        ``wrong(targets, residuals)``, which training rows count as errors of the bound.
    """
    options = options | {"centers": check_centers(options["centers"], data.X)}
    limit = None if options["n_atoms"] == "auto" else options["n_atoms"]
    stop, patience = options["stop"], options["patience"]
    closed_form = loss is None and options["variant"] != "basic"
    if stop is None and limit is None:
        stop = "gcv" if closed_form else "validation"
    if stop in ("gcv", "leave_one_out") and not closed_form:
        raise ValueError(f"stop={stop!r} needs loss='squared' and variant 'prefit' or 'backfit'; 'validation' does not")
    if stop == "validation":
        train, held_out = split(data, options["validation_fraction"], rng)
        aside = data.subset(held_out)

        def held_out_error(values: np.ndarray) -> float:
            return error(targets[held_out], values, aside.weights)

        rules = validation_rule(aside, held_out_error, patience)
        fewer = options | {"centers": fewer_centers(options["centers"], len(train))}
        first = fit_pursuit(data.subset(train), targets[train], loss, rng, fewer, limit=limit, rules=rules)
        if first.path.reason == "interrupted":
            return first
        fitted = fit_pursuit(data, targets, loss, rng, options, limit=len(first.path))
        if fitted.path.reason != "interrupted":
            fitted.path.reason, fitted.path.sentence = "validation", f"on held-out rows, {first.path.sentence}"
        return fitted
    if stop == "bound":
        if data.weights is not None:
            raise ValueError("stop='bound' is a statement about equal rows: it does not take sample_weight")
        rules = bound_rule(targets, wrong, patience)
    else:
        rules = path_rule(stop, data, targets, patience)
    fitted = fit_pursuit(data, targets, loss, rng, options, limit=limit, rules=rules)
    warn_if_short(fitted.path, options["n_atoms"])
    return fitted
