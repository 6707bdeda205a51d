"""Kernel matching pursuit for regression."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kernelpursuit._sklearn import StrOptions
from kernelpursuit.arrays import on_host
from kernelpursuit.fitting.auto_ridge import curvatures, mean_curvature
from kernelpursuit.fitting.constraints import KMP_CONSTRAINTS
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.fit_pursuit import TargetKind, fit_pursuit
from kernelpursuit.fitting.model import PursuitModel
from kernelpursuit.fitting.pipeline import fits
from kernelpursuit.fitting.placement import host_dtype
from kernelpursuit.fitting.rows import lazy_for_collections, rows_of_fit
from kernelpursuit.fitting.splits import random_split
from kernelpursuit.fitting.training import TrainingData, check_training, training_data
from kernelpursuit.fitting.values import (
    Units,
    ValueScore,
    as_targets,
    beyond_spread,
    cast_targets,
    clip_outliers,
    grows_linearly,
    link_of,
    near_zero,
    regression_loss,
    scale_targets,
    suits_any_unit,
)
from kernelpursuit.losses import Loss
from kernelpursuit.math.medians import medians
from kernelpursuit.parameters import bound, certificate, record_of


@described
class KMPRegressor(ValueScore, PursuitModel):
    """Kernel regression on a few training points, chosen one at a time by matching pursuit.

    The model is ``f(x) = intercept_ + sum_j dual_coef_[j] * k(x, support_vectors_[j])``. Each step takes the atom
    ``k(., z)`` that lowers the training loss most. You choose how many terms the model has, and one fit holds the
    models of all smaller numbers (`staged_predict`, `truncate`).

    parameter_groups

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of steps. Each step adds an atom; only the basic variant may change the weight of an old one instead.
        "auto" means ``stop="gcv"``, the rule that came closest to the best number in hindsight on 28 data sets and
        three widths (:doc:`measured </evidence/auto_n_atoms>`). For other losses and for the basic variant it means
        ``stop="validation"``. It takes 1,000 at most, and warns there: without noise in y more are always better, and
        the time grows with their square. With `stop` given, a number is the most steps to take.
    kernels
    gamma
    alpha
    value_loss
    centers
    variant
    stop : {"gcv", "leave_one_out", "validation", "bound", "certificate"}, record, callable or None, default=None
        Rule that chooses the number of steps, by name or with parameters of its own, as ``validation(0.2,
        patience=10)`` and ``tolerance(1e-3)`` of `kernelpursuit.parameters`. "gcv" is generalised cross-validation that
        charges two degrees of freedom for an atom, one of them for having searched for it. "leave_one_out" is the exact
        leave-one-out error of the atoms as they are; it does not know that they were chosen. "validation" holds rows
        out and judges by the loss that is fitted. "bound" is ``bounds.vc_bound(k, n, errors, form="tight", dimension=k
        + 1)`` for one target, with `errors` the rows missed by more than the standard deviation of y; no strict
        promise, as the same y are fitted. "certificate" fits the model to some rows and leaves it at that; the others
        give a limit of the same share, `bounds.holdout_bound`, that holds for all numbers of atoms at once with
        probability 95 %. It is ``path_.values("bound")[-1]``. Or write a rule of your own, ``stop(path) -> Stop |
        None``.
    candidates
    weakness
    memory
    fit_intercept
    kmp_resume
    fit_seed
    verbose

    Attributes
    ----------
    chosen_support_
    support_vectors_
    support_kernels_
    gamma_
    target_alpha_
    target_dual_coef_
    target_intercept_
    path_
    n_features_in_
    feature_names_in_

    Notes
    -----
    With ``sklearn.config_context(array_api_dispatch=True)`` tensors are fitted where they are, on any device. The
    targets and weights follow X, and so do the fitted arrays and the predictions. Indices (`support_`,
    `support_kernels_`) and `path_` are NumPy's. New data must be where X was.

    An interrupt (Ctrl-C) leaves the model of the steps taken so far and is then raised again.

    References
    ----------
    Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KMPRegressor(n_atoms=5).fit(X, np.sin(X[:, 0]))
    >>> len(model.support_), round(model.score(X, np.sin(X[:, 0])), 4)
    (5, 0.9999)
    """

    _parameter_constraints: ClassVar[dict] = {
        **KMP_CONSTRAINTS,
        "loss": [StrOptions({"squared_error", "huber", "absolute_error", "poisson"}), Loss],
    }

    def __init__(
        self,
        n_atoms="auto",
        *,
        kernel="rbf",
        gamma="scale",
        alpha="auto",
        loss="squared_error",
        centers=None,
        variant="prefit",
        stop=None,
        candidates=None,
        weakness=1.0,
        memory=None,
        fit_intercept=True,
        resume=False,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.loss = loss
        self.centers = centers
        self.variant = variant
        self.stop = stop
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.fit_intercept = fit_intercept
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KMPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or a Dask array or dataframe, and so y and the weights: its rows stay on the workers of the cluster.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets share the atoms; scale them alike if they should count alike.
        sample_weight : array-like of shape (n_samples,), optional
            Weights are counts: a row of weight w counts as w rows, so that weights that sum to more also buy more atoms
            under ``n_atoms="auto"``. A row of weight 0 is absent and cannot become an atom.

        Returns
        -------
        self
        """
        with rows_of_fit(self, X, y, sample_weight, self._check_rows, as_targets) as data:
            self._one_target = data.given_y.ndim == 1
            return self._fit_rows(data)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked."""
        X, y = check_training(self, X, y, sample_weight=sample_weight, multi_output=True, y_numeric=True)
        columns = on_host(y).reshape(X.shape[0], -1)
        cast_targets(columns, host_dtype(X))  # or an error
        return training_data(X, columns, sample_weight)._replace(given_y=y)

    def _fit_rows(self, data: TrainingData) -> KMPRegressor:
        """Fit to targets from which their zero was taken, and which were divided by their unit."""
        dtype, columns = host_dtype(data.X), data.y
        zero: np.ndarray | float = 0.0
        # A loss of the user's own may mean something else for scaled targets.
        scaled = suits_any_unit(self.loss)
        if scaled and self.fit_intercept:
            columns, zero = near_zero(columns, dtype)
            if self.loss != "squared_error":  # so that iterations begin alike wherever y is, outliers having no say
                middle = medians(columns, data.weights)
                columns, zero = columns - middle, zero + middle
        targets, unit = scale_targets(cast_targets(columns, dtype), wanted=scaled)
        data = data._replace(y=targets)
        loss = regression_loss(self.loss, data)
        counts_errors = isinstance(record_of(self.stop, bound, certificate), bound | certificate)
        if loss is not None and loss.link is not None and counts_errors:
            raise ValueError(f"stop={self.stop!r} counts large residuals, which a loss with a link does not have")
        kind = TargetKind(
            "values",
            loss=lambda rows: loss,
            loss_of_rows=partial(regression_loss, self.loss),
            split=random_split,
            is_error=beyond_spread,
            n_comparisons=2 * targets.shape[1],
            units=Units(unit, zero, linear=grows_linearly(self.loss)),
            curvature=curvatures if isinstance(self.alpha, str) else mean_curvature,  # a number is the ridge of all
            clip_outliers=partial(clip_outliers, weights=data.weights),
        )
        self._set(fit_pursuit(self, data, targets, kind))
        return self

    @lazy_for_collections
    def predict(self, X: Any) -> np.ndarray:
        """Predict targets for X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        return self._predicted(self._raw(X, "predict"))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions of the models with 1, 2, ... steps, the kernel evaluated once for all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        for values in self._staged_raw(X, "staged_predict"):
            yield self._predicted(values)

    def _predicted(self, values: Any) -> Any:
        link = link_of(self.loss)
        values = values if link is None else link.mean(values)
        return values[:, 0] if self._one_target else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = isinstance(self.loss, str) and self.loss == "poisson"
        return tags
