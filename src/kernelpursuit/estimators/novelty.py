"""Novelty detection by the distance to the span of normal data in feature space."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._sklearn import EstimatorSupport, Interval, StrOptions
from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, namespace, on_host
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.pipeline import Settings, fits
from kernelpursuit.fitting.placement import check_new, host_dtype
from kernelpursuit.fitting.span import SPAN_CONSTRAINTS, SpanParameters
from kernelpursuit.fitting.training import check_training, row_counts, training_data
from kernelpursuit.kernels.kernels import KERNEL_NAMES, SHIFT_INVARIANT, gamma_of
from kernelpursuit.parameters import tolerance

_MORE = 0.15  # share of new rows called outliers beyond `contamination` that is worth a warning
_ROUNDED = 1 + 1e-9  # sums of weights that were scaled are whole numbers but for rounding
ENOUGH = tolerance(0.01)  # of the data in the span, unless `stop` says otherwise


def hold_out(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random rows to choose from and rows to hold out, at least one of each, in order.

    Examples
    --------
    >>> import numpy as np
    >>> train, held_out = hold_out(10, 0.2, np.random.default_rng(0))
    >>> len(train), len(held_out)
    (8, 2)
    """
    size = min(max(1, round(share * n)), n - 1)
    order = rng.permutation(n)
    return np.sort(order[size:]), np.sort(order[:size])


def order_statistic(values: np.ndarray, counts: np.ndarray, rank: float) -> float:
    """Value with `rank` others below it, each counting as often as `counts` says.

    Examples
    --------
    >>> import numpy as np
    >>> [order_statistic(np.array([3.0, 1.0]), np.array(counts), 1) for counts in ([1.0, 1.0], [1.0, 2.0])]
    [3.0, 1.0]
    """
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(counts[order]), rank * _ROUNDED, side="right")
    return float(values[order[min(int(place), len(values) - 1)]])


@described
class SparseKernelNovelty(SpanParameters, OutlierMixin, EstimatorSupport, BaseEstimator):
    """Novelty detection by the distance to the span of a few training points in feature space.

    The points A are chosen as in `SparseKernelPCA`, each as the one that brings the others closest to the span. The
    score of x is minus its squared distance to their span, ``-(k(x, x) - k_A(x)ᵀ K[A, A]⁻¹ k_A(x))``. It is 0 for a
    point that normal data explain and ``-k(x, x)`` for one that has nothing in common with them.

    Parameters
    ----------
    n_atoms : int, default=100
        The most points to choose.
    kernel : str, callable or (str, dict), default="rbf"
        A positive semidefinite kernel: a name of ``sklearn.metrics.pairwise``, or a function of two matrices or of two
        rows. A pair such as ``("rbf", {"gamma": 0.5})`` has parameters of its own. It cannot be precomputed, because
        k(x, x) of new points is needed.
    gamma
    contamination : float in (0, 0.5], default=0.05
        Share of the training rows to call outliers.
    stop : tolerance or None, default=None
        ``tolerance(share)`` of `kernelpursuit.parameters`: stop when the mean squared distance to the span has fallen
        to this share of what it was. None is a share of 0.01, and ``tolerance(0)`` never stops.
    validation_fraction : float or None, default=None
        Share of the rows to hold out, so that `contamination` becomes a promise about new data. With m rows held out
        the span comes from the others, and the threshold is the ⌊contamination (m + 1)⌋-th lowest score of those held
        out, less rounding error. A new point that is exchangeable with them is called an outlier with probability at
        most `contamination` (or 1 / (m + 1), if that is more). None holds out nothing and promises nothing, because the
        chosen rows themselves lie in the span. A warning says where that is many of them, so that far more than the
        share `contamination` of new rows would be called outliers.
    candidates
    weakness
    memory
    random_state : int, RandomState or None, default=None
        Seed for the rows held out and `candidates`.
    verbose

    Attributes
    ----------
    offset_ : float
        Threshold: ``decision_function(X) = score_samples(X) - offset_`` is negative for outliers.
    support_ : ndarray of shape (k,)
        Indices of the chosen training rows, in the order of choice.
    support_vectors_
    gamma_
    path_
    n_features_in_
    feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import SparseKernelNovelty
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = SparseKernelNovelty(random_state=0).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SPAN_CONSTRAINTS,
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable, tuple],
        "stop": [tolerance, None],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
    }

    def __init__(
        self,
        n_atoms=100,
        *,
        kernel="rbf",
        gamma="scale",
        contamination=0.05,
        stop=None,
        validation_fraction=None,
        candidates=None,
        weakness=1.0,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.kernel = kernel
        self.gamma = gamma
        self.contamination = contamination
        self.stop = stop
        self.validation_fraction = validation_fraction
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SparseKernelNovelty:
        """Choose the points and set the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Normal data, or normal data with a share `contamination` of outliers.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; a row of weight 0 is absent and cannot be chosen. Weights that sum to
            less than the number of rows are taken in proportion.

        Returns
        -------
        self
        """
        X = check_training(self, X, sample_weight=sample_weight, ensure_min_samples=2)
        data, settings = training_data(X, None, sample_weight), Settings.of(self)
        train = held_out = np.arange(len(data.rows))
        if self.validation_fraction is not None:
            train, held_out = hold_out(len(data.rows), self.validation_fraction, settings.rng)
        self._span, _ = self._choose_points(data.subset(train), settings, self.stop or ENOUGH)
        self._expansion = self._span.expansion
        self.gamma_ = gamma_of(self._expansion.kernels)
        self.path_ = self._span.path
        self.support_vectors_ = self._span.expansion.centers
        scores, counts = on_host(self._scores(data.subset(held_out).X)), row_counts(data)[held_out]
        if self.validation_fraction is not None:
            rank = float(max(1, np.floor(self.contamination * (np.sum(counts) + 1) * _ROUNDED)) - 1)
        else:
            rank = self.contamination * (np.sum(counts) - 1)
        below, above = (order_statistic(scores, counts, i) for i in (np.floor(rank), np.ceil(rank)))
        # Less what rounding may change: a row that sets the threshold must not fall below it in another batch.
        slack = max(1e-10, 1000 * float(np.finfo(host_dtype(X)).eps)) * float(np.max(on_host(self._span.diagonal(X))))
        self.offset_ = float(below + (rank - np.floor(rank)) * (above - below)) - slack
        if self.validation_fraction is None:
            self._warn_if_rows_are_the_span(scores, counts)
        if self._expansion.kernels[0].name in SHIFT_INVARIANT and self.offset_ <= -1:
            warn(
                f"no row can be called an outlier: more than the share contamination={self.contamination:g} of the "
                "rows have nothing in common with the atoms, and farther from them no row can be. Make gamma smaller "
                "(a wider kernel), or n_atoms larger"
            )
        return self

    def _warn_if_rows_are_the_span(self, scores: np.ndarray, counts: np.ndarray) -> None:
        """Warn where atoms, left out of the span one at a time, say that the threshold will not do for new rows.

        Rows that are atoms have distance 0, whatever the data. As a new row, an atom would have the squared distance
        1 / (K[A, A]⁻¹)ᵢᵢ to the span of the others. Of several duplicates of an atom one counts as new: its weight is
        the median weight of the rows at most.
        """
        coef, atoms = self._span.expansion.coef, self.path_.atoms
        assert coef is not None
        left_out = scores.copy()
        left_out[atoms] = -1 / np.sum(coef[1:] ** 2, axis=1)
        weight_if_new = counts.copy()
        weight_if_new[atoms] = np.minimum(weight_if_new[atoms], np.median(counts))
        share = float(np.sum(weight_if_new[left_out < self.offset_]) / np.sum(counts))
        if share > self.contamination + _MORE:
            warn(
                f"about {share:.0%} of new rows like those of X will be called outliers, not "
                f"contamination={self.contamination:g}: so says each of the {len(atoms)} atoms, left out. They are "
                f"{len(atoms)} of {len(scores)} rows and lie in the span, so that training rows say little of new "
                "ones. Set validation_fraction (0.3, say), or make n_atoms or gamma smaller"
            )

    def score_samples(self, X: Any) -> Array:
        """Minus the squared distance to the span: the lower, the more abnormal.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._checked_scores(X, "score_samples")

    def decision_function(self, X: Any) -> Array:
        """Score less the threshold `offset_`: negative for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._checked_scores(X, "decision_function") - self.offset_

    def predict(self, X: Any) -> Array:
        """-1 for outliers, 1 for the rest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int, shape (n_samples,)
        """
        outlying = self._checked_scores(X, "predict") - self.offset_ < 0
        xp = namespace(outlying)
        return 1 - 2 * xp.astype(outlying, xp.int64)

    @property
    def support_(self) -> np.ndarray:
        """Training rows chosen, in order, NumPy wherever X lives."""
        return self._span.support

    def _checked_scores(self, X: Any, method: str) -> Array:
        check_is_fitted(self)
        return self._scores(check_new(self, X, self.kernel, self.support_vectors_, method))

    def _scores(self, X: Any) -> Array:
        """Minus the residuals in float64, whatever X is: nearly equal distances must not become ties."""
        return -self._span.residual(X, self._span.diagonal(X))
