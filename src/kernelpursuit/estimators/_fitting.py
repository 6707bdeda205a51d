"""What the estimators share: parameters, stop rules from plain values, the fit itself, prediction along the path."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from numbers import Integral, Number
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from kernelpursuit._array import Array, from_host, namespace, to_host
from kernelpursuit._sklearn import check_sample_weight
from kernelpursuit.bounds import vc_bound
from kernelpursuit.estimators._atoms import AtomFamily
from kernelpursuit.estimators._expansion import Expansion
from kernelpursuit.estimators._parameters import KERNEL_CONSTRAINTS
from kernelpursuit.estimators._running import announce, plan_memory, progress, run, storage_for
from kernelpursuit.estimators._spaces import (
    beside,
    check_new,
    follow,
    host_dtype,
    is_precomputed,
    labels_on_host,
    place,
    take_rows,
    x_options,
)
from kernelpursuit.losses import Loss
from kernelpursuit.pursuit.gradient import Gradient
from kernelpursuit.pursuit.loop import Path, StopRule
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
    y: np.ndarray  # labels or targets, on the host wherever X is: what decides about rows is decided there
    weights: np.ndarray | None  # on the host as well
    rows: np.ndarray
    n_rows: int

    def subset(self, J: np.ndarray) -> TrainingData:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[J]
        return TrainingData(take_rows(self.X, J), self.y[J], weights, self.rows[J], self.n_rows)


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
    weights = host_weights(sample_weight, X)
    rows = np.flatnonzero(weights > 0)
    if len(rows) == 0:
        raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
    if len(rows) < n:
        X, y, weights = take_rows(X, rows), y[rows], weights[rows]
    return TrainingData(X, y, weights, rows, n)


def host_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Checked weights of the rows of X on the host, with its dtype."""
    if not isinstance(sample_weight, Number):
        sample_weight = labels_on_host(sample_weight)
    return check_sample_weight(sample_weight, np.empty((X.shape[0], 0)), dtype=host_dtype(X), ensure_non_negative=True)


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
    n, itemsize = data.X.shape[0], host_dtype(data.X).itemsize
    columns = 1 if options["variant"] == "basic" else limit
    matrix, most_atoms = plan_memory(n, columns, itemsize, options["memory"])
    dictionary = family.dictionary(matrix, storage_for(options))
    announce(dictionary, options["verbose"])
    common = {name: options[name] for name in ("variant", "alpha", "shrinkage")}
    weights = None if data.weights is None else beside(data.weights, data.X)
    common |= {"weights": weights, "intercept": options["fit_intercept"]}
    criterion: Any
    if loss is None:
        criterion = Squares(dictionary, beside(targets, data.X), **common)
    else:
        criterion = Gradient(dictionary, beside(targets, data.X), loss, refit_every=options["refit_every"], **common)
    # Below the rounding error of the targets there is nothing left to fit.
    floor = 0.0 if loss else (16 * np.finfo(targets.dtype).eps) ** 2 * float(np.max(np.abs(targets), initial=0)) ** 2
    most = n_atoms(most_atoms, reason="memory") if limit is None else n_atoms(limit)
    stop = first_of(most, tolerance(options["tol"], floor), *rules(family, criterion))
    callback = progress(options["verbose"]) if options["verbose"] else None
    path = run(criterion, stop, rng, options, callback)
    if path.reason == "interrupted":
        warnings.warn(f"the fit was {path.sentence}; the model has those terms", ConvergenceWarning, stacklevel=3)
    atoms = path.atoms
    coef_path = criterion.coef_path(len(path))
    return Fitted(path, family.support(atoms), family.expansion(atoms), coef_path)


def validation_rule(
    held_out: TrainingData, error: Callable[[np.ndarray], float], patience: int
) -> Callable[[AtomFamily, Any], list[StopRule]]:
    """Rule that follows `error` of the predictions on rows held out."""

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        columns: dict[int, Any] = {}  # values of the chosen atoms at the rows held out

        def current_error(path: Path) -> float:
            for atom in set(path.atoms.tolist()) - columns.keys():
                columns[atom] = family.expansion(np.array([atom])).columns(held_out.X)[:, 0]
            coef = criterion.coef()
            values = np.zeros((held_out.X.shape[0], coef.shape[1])) + coef[0]
            if len(coef) > 1:
                chosen = [columns[atom] for atom in path.atoms.tolist()]
                stacked = namespace(chosen[0]).stack(chosen, axis=1)
                values += to_host(stacked @ from_host(coef[1:], stacked))
            return error(values)

        return [validation(current_error, patience)]

    return rules


def bound_rule(
    targets: np.ndarray,
    wrong: Callable[[np.ndarray, np.ndarray], np.ndarray],
    cuts: int,
    intercept: bool,
    patience: int,
) -> Callable[[AtomFamily, Any], list[StopRule]]:
    """Rule that follows the compression bound `vc_bound` on the share of `wrong(targets, residuals)` rows.

    All targets have weights and an intercept of their own; `cuts` is as in `vc_bound`.
    """

    def rules(family: AtomFamily, criterion: Any) -> list[StopRule]:
        known: list[float] = []

        def values(path: Path) -> np.ndarray:
            if len(known) <= len(path):
                atoms, n = path.atoms, len(targets)
                misses = wrong(targets, to_host(criterion.residual()))
                misses[family.rows(atoms)] = False  # only rows outside the support test the model
                k, errors = len(atoms), int(misses.sum())
                space = {"dimension": targets.shape[1] * (k + intercept), "choices": len(criterion.alive)}
                known.append(vc_bound(k, n, errors, cuts=cuts, **space, form="tight") if k + errors < n else np.inf)
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
        tags.array_api_support = True
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
        fitted = self._fitted
        model._set(Fitted(path, fitted.support[:width], fitted.expansion.truncate(width), fitted.coef_path[: k + 1]))
        return model

    @property
    def support_(self) -> np.ndarray:
        """Atoms in the order chosen, NumPy wherever X lives."""
        return self._fitted.support

    @property
    def support_kernels_(self) -> np.ndarray:
        """Kernel of each atom, -1 for a column of `functions`, NumPy wherever X lives."""
        return self._fitted.expansion.sources

    def _set(self, fitted: Fitted) -> None:
        """Attributes of a fitted model."""
        width = len(fitted.path.atoms)
        self._fitted = fitted._replace(coef_path=fitted.coef_path[:, : 1 + width])
        self.path_ = fitted.path
        centers = self.support_vectors_ = fitted.expansion.centers
        coef = self._fitted.coef_path[-1].astype(host_dtype(centers))
        self.dual_coef_ = follow(coef[1:, 0] if self._one_target else coef[1:], centers)
        self.intercept_ = float(coef[0, 0]) if self._one_target else follow(coef[0], centers)

    def _raw(self, X: Any, method: str) -> Array:
        """Values of the expansion, (n_rows, n_targets), where X is; `method` is who asks."""
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.support_vectors_, method)
        return self._fitted.expansion.predict(X, self._fitted.coef_path[-1])

    def _staged_raw(self, X: Any, method: str) -> Iterator[Array]:
        """Values after 1, 2, ... steps: the kernel is evaluated once for as many of them as memory holds."""
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.support_vectors_, method)
        yield from self._fitted.expansion.staged(X, self._fitted.coef_path[1:])


def fewer_centers(centers: Any, n: int) -> Any:
    """As many random centres as there are rows at most; anything else as it is."""
    return min(centers, n) if isinstance(centers, Integral) else centers


def check_centers(centers: Any, X: Any) -> Any:
    """User's array of centres with the dtype and the columns of X."""
    if centers is None or isinstance(centers, Integral):
        return centers
    centers = check_array(centers, input_name="centers", **x_options(None, centers))
    if place(centers) != place(X):
        raise ValueError(f"centers must be where X is, {' on '.join(place(X))}, got {' on '.join(place(centers))}")
    if centers.shape[1] != X.shape[1]:
        raise ValueError(f"centers must have the {X.shape[1]} columns of X, got {centers.shape[1]}")
    return centers.astype(X.dtype) if sparse.issparse(centers) else namespace(centers).astype(centers, X.dtype)


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
    cuts: int,
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
    cuts : int
        How many linear conditions on the weights decide whether a row is wrong, see `vc_bound`.
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
        rules = bound_rule(targets, wrong, cuts, options["fit_intercept"], patience)
    else:
        rules = path_rule(stop, data, targets, patience)
    fitted = fit_pursuit(data, targets, loss, rng, options, limit=limit, rules=rules)
    warn_if_short(fitted.path, options["n_atoms"])
    return fitted
