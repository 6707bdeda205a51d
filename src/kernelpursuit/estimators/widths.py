"""A width for each input: scale the columns of X so that one Gaussian kernel suits them all."""

from __future__ import annotations

import time
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length

from kernelpursuit._sklearn import (
    ARRAY_API_SUPPORT,
    EstimatorSupport,
    Interval,
    StrOptions,
    fit_context,
)
from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, eps, from_host, namespace, on_host, to_host
from kernelpursuit.atoms.threads import in_threads, one_blas_thread
from kernelpursuit.estimators.width_evidence import WidthEvidence, evidence
from kernelpursuit.fitting.callbacks import verbosity, with_callbacks
from kernelpursuit.fitting.constraints import AT_LEAST_ONE, NOT_NEGATIVE
from kernelpursuit.fitting.duplicates import OTHER_TARGETS, warn_of_duplicates
from kernelpursuit.fitting.pipeline import generator, say
from kernelpursuit.fitting.placement import (
    check_new,
    host_dtype,
    labels_on_host,
    take_rows,
    to_namespace_of,
    validated,
    widest,
    x_options,
)
from kernelpursuit.fitting.rows import refuse_collections
from kernelpursuit.fitting.targets import TASKS, checked_targets, target_columns
from kernelpursuit.fitting.training import (
    constant_but_for_rounding,
    row_counts,
    training_data,
)

LOG_WEIGHTS = (np.log(1e-4), np.log(1e2))  # of standardised columns
# Each start is gamma times the number of inputs, and the variances of signal and noise in the first iterations. With
# one width for all inputs nothing may be explained, although one input alone, with a small width, would explain y. The
# best noise variance is then all of the variance of y, and the slope is almost 0. A smaller one leads to that input.
STARTS = ((1 / 4, None), (1 / 2, (1.0, 0.1)), (4.0, (1.0, 0.1)))
FIRST_ITERATIONS = 15
ROWS_FOR_STARTS = 1000  # enough to tell which start leads highest
# An ascent is at its top by its slope, in nats for each unit of a log weight, or by the relative gain of a step.
ROUGH, FINE = {"gtol": 0.1, "ftol": 1e-6}, {"gtol": 1e-3, "ftol": 1e-11}
ROUNDED = 0.01  # most that rounding may change a weighted value, for a kernel of width 1
STEEP = 0.1  # an ascent that ends where it is steeper has not reached the top


def _warn_of_rounding(X: Array, weighted: Array) -> None:
    """Warn where the dtype of X cannot hold its weighted columns."""
    xp = namespace(weighted)
    with np.errstate(over="ignore"):
        error = eps(X) * to_host(xp.max(xp.abs(weighted), axis=0))
    if np.any(error > ROUNDED):
        columns = ", ".join(str(column) for column in np.flatnonzero(error > ROUNDED)[:10])
        warn(
            f"columns {columns} of X lie so far from 0 that {host_dtype(X)} rounds their weighted values by up to "
            f"{np.max(error):.2g}, where a kernel of gamma=1 has a width of 1: give X in float64, or take off each "
            "column its mean first"
        )


def _distinct(X: np.ndarray, Y: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Distinct rows, sorted, how often each counts, and the order in which they came.

    So sums over the rows are the same, whatever order they come in and however often they are repeated.

    Returns
    -------
    X, Y, counts : arrays of shape (n_distinct, ...)
    inputs, order : arrays of int
        Rows with distinct inputs, and all rows, in the order of their first appearance.
    """
    _, first, place = np.unique(np.concatenate([X, Y], axis=1), axis=0, return_index=True, return_inverse=True)
    _, first_input = np.unique(X, axis=0, return_index=True)
    place = place.reshape(-1)
    return X[first], Y[first], np.bincount(place, counts), place[np.sort(first_input)], place[np.sort(first)]


def _duplicates_show_noise(X: np.ndarray, counts: np.ndarray) -> bool:
    """Whether enough of the inputs that count more than once have several targets. X are rows of `_distinct`.

    If not, a row that counts twice is no second measurement of its input. Counted as one, it would show no noise, and
    the evidence would be highest at widths that let each row stand alone.
    """
    _, which, targets = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    several = targets > 1
    repeated = several | (np.bincount(which.reshape(-1), counts) > 1)
    return bool(np.sum(several) > OTHER_TARGETS * np.sum(repeated))


def _evidence_arguments(
    X: Array, Y: Array, counts: np.ndarray, rows: np.ndarray, landmarks: np.ndarray
) -> dict[str, Any]:
    """Arguments of `evidence` for some rows and landmarks."""
    rows, landmarks = np.sort(rows), np.sort(landmarks)
    chosen = None if np.all(counts == 1) else counts[rows]
    return {"X": take_rows(X, rows), "Z": take_rows(X, landmarks), "Y": take_rows(Y, rows), "counts": chosen}


def _standardised(
    X: np.ndarray, counts: np.ndarray, precision: float = np.finfo(float).eps
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of mean 0 and variance 1, and what they were multiplied by; constant columns, but for rounding, by 0."""
    largest = np.max(np.abs(X), axis=0)
    largest = np.where(largest > np.finfo(float).tiny, largest, 1)  # first, so that no square overflows or vanishes
    X = X / largest
    X = X - np.average(X, axis=0, weights=counts)
    spread = np.sqrt(np.average(X**2, axis=0, weights=counts))
    constant = constant_but_for_rounding(np.ptp(X, axis=0), precision)
    spread = np.where(constant, 1, spread)
    return np.where(constant, 0, X / spread), np.where(constant, 0, 1 / spread / largest)


class Ascent:
    """The search for the weights by L-BFGS: from several common widths on some of the rows, then on all of them.

    On all rows it begins twice, at the best point found on some of them and at a common width: some rows may lose an
    input that all of them need. The higher top is kept.

    Parameters
    ----------
    all_rows, few_rows : dict
        Arguments of `evidence`. Rows are standardised, so that two of them are 2p apart (squared) in the mean.
    prior : float
    max_iter, verbose : int

    Attributes
    ----------
    best : WidthEvidence or None
        Of all rows.
    log_weights : ndarray
        Those that it was found at.
    iterations : int
    """

    def __init__(self, all_rows: dict[str, Any], few_rows: dict[str, Any], prior: float, max_iter: int, verbose: int):
        self.all_rows, self.few_rows = all_rows, few_rows
        self.prior, self.max_iter, self.verbose = prior, max_iter, verbose
        self.best: WidthEvidence | None = None
        self.log_weights = np.empty(0)
        self.iterations = 0

    def run(self) -> None:
        """Search; warn where the best ascent on all rows did not end at a top."""
        p = self.all_rows["X"].shape[1]
        starts = [(np.full(p, 0.5 * np.log(gamma / p)), variances) for gamma, variances in STARTS]
        self._evidence(starts[0][0], self.all_rows)  # an interrupt from now on leaves weights
        on_host = isinstance(self.few_rows["X"], np.ndarray)
        rough = in_threads(lambda start: self._ascend(*start, self.few_rows, ROUGH), starts, parallel=on_host)
        tops = [self._ascend(min(rough, key=lambda end: end.fun).x, None, self.all_rows, FINE)]
        if self.few_rows["Y"].shape[0] < self.all_rows["Y"].shape[0]:
            tops.append(self._ascend(*starts[0], self.all_rows, FINE))
        top = min(tops, key=lambda end: end.fun)
        self.iterations = sum(end.steps for end in [*rough, *tops])
        steepness = np.max(np.abs(np.clip(top.x - top.jac, *LOG_WEIGHTS) - top.x), initial=0)
        if not top.success and steepness > STEEP:
            warn(
                f"the weights are not at a maximum of the evidence after {top.nit} iterations: its slope is still "
                f"{steepness:.2g}; max_iter={self.max_iter} may be too few ({top.message})",
                ConvergenceWarning,
            )

    def _ascend(self, start: np.ndarray, variances: Any, problem: dict[str, Any], precision: dict[str, float]) -> Any:
        """Ascend to a top. Where `variances` are given, they are held fixed in the first iterations."""
        began, first = time.perf_counter(), 0
        if variances is not None:
            end = self._maximise(start, variances, problem, min(FIRST_ITERATIONS, self.max_iter), precision)
            start, first = end.x, end.nit
        end = self._maximise(start, None, problem, self.max_iter, precision)
        end.steps = first + end.nit
        if self.verbose:
            seconds, (n, p) = time.perf_counter() - began, problem["X"].shape
            say(
                f"widths: {n} rows, {p} inputs, {problem['Z'].shape[0]} landmarks: log evidence {-end.fun:.3f} after "
                f"{end.steps} iterations, {seconds:.1f} s"
            )
        return end

    def _maximise(
        self, start: np.ndarray, variances: Any, problem: dict[str, Any], max_iter: int, precision: dict[str, float]
    ) -> Any:
        """L-BFGS on minus the evidence."""

        def value(log_weights: np.ndarray) -> tuple[float, np.ndarray]:
            found = self._evidence(log_weights, problem, variances)
            return -found.value, -found.gradient

        return minimize(
            value, start, method="L-BFGS-B", jac=True, bounds=[LOG_WEIGHTS] * len(start),
            options={"maxiter": max_iter, "maxcor": 20, **precision},
        )  # fmt: skip

    def _evidence(self, log_weights: np.ndarray, problem: dict[str, Any], variances: Any = None) -> WidthEvidence:
        """Evidence; the best on all rows is remembered."""
        found = evidence(log_weights, **problem, prior=self.prior, variances=variances)
        if problem is self.all_rows and (self.best is None or found.value > self.best.value):
            self.best, self.log_weights = found, log_weights.copy()
        return found


class FeatureWidths(OneToOneFeatureMixin, TransformerMixin, EstimatorSupport, BaseEstimator):
    """Multiply each column of X by its own weight, so that a Gaussian kernel with ``gamma=1`` fits y.

    ``exp(-Σ w_d² (x_d - z_d)²)`` has a width for each input. Inputs that say nothing about y get a weight near 0 and
    those that matter most the largest. A constant input gets 0: it says nothing about rows that differ in it. The
    weights maximise the evidence (marginal likelihood) of Gaussian process regression of y through random landmarks:
    the variational bound of Titsias (2009), plus a normal prior that draws the logarithms of the weights to each other.
    Columns are compared after standardisation, so their units do not matter.

    Put it before any estimator with a Gaussian kernel and choose ``gamma`` among 1, 4, 16, ...: through few landmarks
    only smooth functions can be seen, so with many rows the common width comes out too large, while the ratios of the
    weights are right. A pursuit on weighted inputs often needs a fraction of the atoms; where all inputs matter alike
    nothing is gained, so let cross-validation decide.

    Parameters
    ----------
    n_landmarks : int, default=150
        Rows that the Gaussian process is expanded on.
    max_rows : int, default=10000
        Rows used, drawn at random if there are more.
    prior : float, default=1
        Precision of the prior: 1 / variance of the logarithms of the weights. 0 leaves them to the data; large values
        make all weights equal.
    max_iter : int, default=100
        Most iterations of each ascent by L-BFGS.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or values. "auto" takes strings, booleans and up to 20 distinct whole numbers for
        classes, and warns where that is doubtful.
    random_state : int, RandomState or None, default=None
        Draws the rows and landmarks.
    verbose : int, default=0
        1 prints a line for each ascent.

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        What the columns are multiplied by.
    noise_ : float
        Share of the variance of y that the inputs do not explain.
    evidence_ : float
        Logarithm of the evidence that was reached, up to a constant: the prior included, the targets standardised.
    n_iter_ : int
        Iterations of all ascents together.
    n_features_in_ : int
        Number of columns of X in `fit`.
    feature_names_in_ : ndarray of str
        Names of the columns of X, where it has them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import FeatureWidths
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> widths = FeatureWidths(random_state=0).fit(X, np.sin(2 * X[:, 3]))
    >>> int(np.argmax(widths.weights_)), bool(np.sort(widths.weights_)[-1] > 10 * np.sort(widths.weights_)[-2])
    (3, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_landmarks": [AT_LEAST_ONE],
        "max_rows": [Interval(Integral, 2, None, closed="left")],
        "prior": [NOT_NEGATIVE],
        "max_iter": [AT_LEAST_ONE],
        "task": [StrOptions(set(TASKS))],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_landmarks=150,
        *,
        max_rows=10_000,
        prior=1.0,
        max_iter=100,
        task="auto",
        random_state=None,
        verbose=0,
    ):
        self.n_landmarks = n_landmarks
        self.max_rows = max_rows
        self.prior = prior
        self.max_iter = max_iter
        self.task = task
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = ARRAY_API_SUPPORT
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FeatureWidths:
        """Find the weights. Ctrl-C ends the search, keeps the best weights so far and is raised again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Classes or values, see `task`.
        sample_weight : array-like of shape (n_samples,), optional
            How many times each row counts: weight 2 is the same as the row twice. Weights are taken in proportion
            where they sum to less than the number of rows, and rows that count several times where hardly an input
            comes with several targets: without these a duplicate does not show how large the noise is.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        refuse_collections(self, "fit", X, y, sample_weight)
        X = validated(self, X, **x_options("precomputed", X))  # dense: sparse data have too many columns
        y = checked_targets(labels_on_host(y))
        check_consistent_length(X, y)
        data = training_data(X, y, sample_weight)
        n, rng = data.X.shape[0], generator(self.random_state)
        counts = row_counts(data)
        targets = target_columns(data.y, self.task, float(np.sum(counts)))
        drawn = rng.permutation(n)[: self.max_rows] if n > self.max_rows else np.arange(n)
        rows, Y, counts, inputs, order = _distinct(to_host(take_rows(data.X, drawn)), targets[drawn], counts[drawn])
        if _duplicates_show_noise(rows, counts):
            warn_of_duplicates(data.X, targets, data.total)
        else:
            counts = counts * (len(counts) / np.sum(counts))
        landmarks, order = rng.permutation(inputs)[: self.n_landmarks], rng.permutation(order)
        rows, unit = _standardised(rows, counts, eps(data.X))
        varies = unit > 0 if np.any(unit) else np.ones(len(unit), dtype=bool)
        rows = rows[:, varies]
        there = widest(take_rows(data.X, drawn[:1]))  # where, and how precisely, to compute
        Y, unit_of_targets = _standardised(Y, counts)
        Y = Y[:, unit_of_targets > 0] if np.any(unit_of_targets) else Y  # a constant target has no say in the noise
        rows, Y = from_host(rows, there), from_host(Y, there)
        all_rows = _evidence_arguments(rows, Y, counts, np.arange(len(counts)), landmarks)
        few_rows = _evidence_arguments(rows, Y, counts, order[:ROWS_FOR_STARTS], landmarks)
        ascent = Ascent(all_rows, few_rows, self.prior, self.max_iter, verbosity(self))
        try:
            with one_blas_thread():  # tiles have threads of their own; small matrices lose time by them
                ascent.run()
        except KeyboardInterrupt as interrupt:
            if ascent.best is None:
                raise
            self._interrupt = interrupt
        assert ascent.best is not None
        unit[varies] *= np.exp(ascent.log_weights)
        self.weights_ = to_namespace_of(unit, X)
        self.noise_, self.evidence_, self.n_iter_ = ascent.best.noise, ascent.best.value, ascent.iterations
        return self

    def transform(self, X: Any) -> Array:
        """Weighted columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
            With the dtype of X. A warning says where float32 cannot hold the products: a column of map coordinates or
            of times lies far from 0.
        """
        X = check_new(self, X, "precomputed", getattr(self, "weights_", None), "transform")
        wide = widest(X)  # a column in small units has a weight that float32 does not hold
        wide = wide * from_host(on_host(self.weights_), wide)
        _warn_of_rounding(X, wide)
        return namespace(X).astype(wide, X.dtype, copy=False)
