"""Kernel matching pursuit for ranking."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kernelpursuit._sklearn import StrOptions
from kernelpursuit.arrays import Array, on_host
from kernelpursuit.criteria.pairs import pairwise_logistic
from kernelpursuit.fitting.auto_ridge import curvature_of_pairs
from kernelpursuit.fitting.constraints import KMP_CONSTRAINTS
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.fit_pursuit import TargetKind, fit_pursuit
from kernelpursuit.fitting.model import PursuitModel
from kernelpursuit.fitting.pipeline import fits
from kernelpursuit.fitting.placement import host_dtype, labels_on_host
from kernelpursuit.fitting.splits import split_groups
from kernelpursuit.fitting.training import TrainingData, check_training, training_data
from kernelpursuit.fitting.values import Units, cast_targets, scale_targets
from kernelpursuit.losses import Loss
from kernelpursuit.parameters import certificate, gcv, leave_one_group_out, tolerance, validation
from kernelpursuit.ranking import group_numbers, ndcg


def check_pairs(groups: np.ndarray) -> None:
    """An error where no group has two rows."""
    if len(np.unique(groups)) == len(groups):
        what = "a single row, n_samples=1" if len(groups) == 1 else f"{len(groups)} groups of one row each"
        raise ValueError(f"ranking needs a group with two rows of positive weight, got {what}")


def ranking_loss(data: TrainingData, loss: str) -> Loss | None:
    """Loss of the pairs of rows behind the parameter; None is the squared one, which has a criterion of its own."""
    return None if loss == "squared_error" else pairwise_logistic(data.groups, data.weights)


@described
class KMPRanker(PursuitModel):
    """Order the rows of a group by a kernel model on a few training points, chosen one at a time by matching pursuit.

    The model is ``f(x) = sum_j dual_coef_[j] * k(x, support_vectors_[j])``; the higher its value, the further in front
    a row comes. Rows come in groups: answers to one query, products of one page, judgements of one person. Only
    differences inside a group count. With the squared loss each step takes the atom that most lowers

        ``sum over groups of 1/m * sum over pairs (i, j) of ((y_i - y_j) - (f_i - f_j))**2``

    with m the rows of the group: this is least squares after the mean of each group is taken out of targets and atoms,
    and costs about twice as much as `KMPRegressor`.

    parameter_groups

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of steps. "auto" means ``stop="gcv"``, and ``stop="validation"`` for the logistic loss and for the basic
        variant. It takes 1,000 at most, and warns there. With `stop` given, a number is the most steps to take.
    kernels
    gamma
    alpha : float or "auto", default="auto"
        Ridge penalty: ``alpha * cᵀ K c`` is added to the loss, with c the weights of the chosen atoms and K their
        kernel matrix (``alpha * c²`` for a column of a function, and for all atoms where the kernel matrix has
        eigenvalues below zero, as K is no penalty then). "auto" chooses the atoms without a ridge, and then the ridge
        under which the differences of y are most probable given these atoms. 0 is least squares. With all atoms the
        squared loss and a ridge are RankRLS.
    loss : {"squared_error", "log_loss"}, default="squared_error"
        Loss of a pair. "squared_error" is that above. "log_loss" is ``log(1 + exp(f_j - f_i))`` for each pair with y_i
        > y_j, which asks for the order alone and not for differences; an evaluation takes as long as there are pairs.
    centers
    variant
    stop : {"gcv", "leave_one_group_out", "validation", "certificate"}, record, callable or None, default=None
        Rule that chooses the number of steps, by name or with parameters of its own, as ``validation(0.2,
        patience=10)`` of `kernelpursuit.parameters`, of which the share is that of the groups. "gcv" is generalised
        cross-validation that charges two degrees of freedom for an atom, one of them for having searched for it, and
        one for the level of each group. "leave_one_group_out" is the exact error in groups that had no part in the
        weights; it does not know that the atoms were chosen with them. "validation" holds groups out (rows, if there is
        a single group) and judges by the loss that is fitted. "certificate" fits the model to some groups and leaves it
        at that; the others give a limit of the mean share of wrongly ordered pairs, `bounds.loss_bound`, that holds for
        all numbers of atoms at once with probability 95 %. It is ``path_.values("bound")[-1]``. Or write a rule of your
        own, ``stop(path) -> Stop | None``.
    candidates
    weakness
    memory
    kmp_resume
    random_state : int, RandomState or None, default=None
        Seed for `centers`, `candidates` and the groups held out.
    verbose

    Attributes
    ----------
    chosen_support_
    support_vectors_
    support_kernels_
    gamma_
    alpha_
    dual_coef_ : ndarray of shape (k,)
        Weights of the atoms.
    intercept_ : float
        Always 0: a constant changes no order.
    path_
    n_features_in_
    feature_names_in_

    Notes
    -----
    scikit-learn has no contract for ranking, so this follows LightGBM: `group` holds the sizes of groups of consecutive
    rows, and the default measure is NDCG with gains ``2**y - 1``. A label for each row, as XGBoost's ``qid``, is turned
    into sizes by `ranking.group_sizes`. `group` is optional in `fit` and `score`: without it all rows are one group. It
    has no entry for each row, so that scikit-learn's cross-validation cannot split it: give the rows of each fold,
    and their sizes, yourself. A `Pipeline` takes ``kmpranker__group`` in `fit`. Its `score` leaves `group` out, without
    a warning, unless metadata routing is on.

    ``path_.steps[i].leave_one_out`` is the left-out error of groups, nan where there is one group.

    References
    ----------
    Pahikkala, Tsivtsivadze, Airola, Järvinen and Boberg, An efficient algorithm for learning to rank from preference
    graphs, Machine Learning 75 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRanker
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + np.repeat([5.0, 1.0], 100)  # groups have levels of their own
    >>> model = KMPRanker(n_atoms=5).fit(X, y, group=[100, 100])
    >>> round(model.score(X, y, group=[100, 100]), 4)
    1.0
    """

    _one_target = True
    _parameter_constraints: ClassVar[dict] = {
        **{name: rules for name, rules in KMP_CONSTRAINTS.items() if name != "fit_intercept"},
        "loss": [StrOptions({"squared_error", "log_loss"})],
        "stop": [
            StrOptions({"certificate", "gcv", "leave_one_group_out", "validation"}),
            certificate,
            gcv,
            leave_one_group_out,
            tolerance,
            validation,
            callable,
            None,
        ],
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
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, group: Any = None) -> KMPRanker:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Grades, or any numbers of which larger ones come first. Only their differences inside a group matter.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows: a pair counts ``w_i w_j / W``, W the sum of the weights of the group. A
            row of weight 0 is absent and cannot become an atom. The size of its group as the weight of each row makes
            all pairs count alike; divide these weights by their mean.
        group : array-like of shape (n_groups,), optional
            Sizes of the groups of consecutive rows, which sum to n_samples. None: all rows are one group.

        Returns
        -------
        self
        """
        X, y = check_training(self, X, y, sample_weight=sample_weight, y_numeric=True)
        numbers = group_numbers(None if group is None else labels_on_host(group), X.shape[0])
        # The logistic loss sees the order of the targets alone: its weights have no unit.
        targets, unit = scale_targets(
            cast_targets(on_host(y)[:, None], host_dtype(X)), wanted=self.loss == "squared_error"
        )
        data = training_data(X, targets, sample_weight)
        data = data._replace(groups=numbers[data.rows])
        check_pairs(data.groups)
        kind = TargetKind(
            "groups",
            loss=partial(ranking_loss, loss=self.loss),
            split=split_groups,
            units=Units(unit),
            curvature=curvature_of_pairs,
        )
        self._set(fit_pursuit(self, data, data.y, kind))
        return self

    def predict(self, X: Any) -> Array:
        """Scores of X: within a group, rows of higher scores come first. Across groups they mean nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._raw(X, "predict")[:, 0]

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Scores of the models with 1, 2, ... steps, the kernel evaluated once for all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        for values in self._staged_raw(X, "staged_predict"):
            yield values[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, group: Any = None) -> float:
        """Mean NDCG over the groups, `ranking.ndcg` with all places and gains ``2**y - 1``: 1 for a perfect order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Grades, at least 0.
        sample_weight : array-like of shape (n_samples,), optional
            A group counts by the mean weight of its rows.
        group : array-like of shape (n_groups,), optional
            Sizes of the groups of consecutive rows. None: all rows are one group.

        Returns
        -------
        float
        """
        sizes, weights = (None if given is None else labels_on_host(given) for given in (group, sample_weight))
        return ndcg(labels_on_host(y), on_host(self.predict(X)), sizes, sample_weight=weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
