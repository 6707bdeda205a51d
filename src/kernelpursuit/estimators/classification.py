"""Kernel matching pursuit for classification."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from kernelpursuit._sklearn import StrOptions
from kernelpursuit.arrays import namespace, on_host
from kernelpursuit.fitting.classes import (
    as_labels,
    check_training_classes,
    classification_loss,
    code_classes,
    code_labels,
    has_labels,
    like_labels,
    misclassified,
    mislabelled,
    take_classes,
    two_or_more_classes,
)
from kernelpursuit.fitting.constraints import CLASS_CONSTRAINTS, KMP_CONSTRAINTS
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.fit_pursuit import TargetKind, fit_pursuit
from kernelpursuit.fitting.model import PursuitModel
from kernelpursuit.fitting.pipeline import fits
from kernelpursuit.fitting.placement import host_dtype
from kernelpursuit.fitting.probabilities import log_softmax
from kernelpursuit.fitting.rows import lazy_for_collections, rows_of_fit
from kernelpursuit.fitting.splits import stratified_split
from kernelpursuit.fitting.training import TrainingData, training_data, with_class_weight
from kernelpursuit.losses import LOSSES, Loss


class ClassModel(ClassifierMixin, PursuitModel):
    """What a fitted expansion says about classes."""

    @lazy_for_collections
    def decision_function(self, X: Any) -> np.ndarray:
        """Value of the expansion for each row: positive for the second of two classes, else one a class or label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        values = self._raw(X, "decision_function")
        return self._one_or_more(values)

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """`decision_function` of the models with 1, 2, ... steps, the kernel evaluated once for all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        for values in self._staged_raw(X, "staged_decision_function"):
            yield self._one_or_more(values)

    def _one_or_more(self, values: Any) -> Any:
        return values[:, 0] if self._one_target else values

    @lazy_for_collections
    def predict(self, X: Any) -> np.ndarray:
        """Predict classes for X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_labels) of 0 and 1 where rows have several labels
        """
        return self._classes_of(self._raw(X, "predict"))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Classes that the models with 1, 2, ... steps predict.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        for values in self._staged_raw(X, "staged_predict"):
            yield self._classes_of(values)

    def _classes_of(self, values: Any) -> Any:
        xp = namespace(values)
        if has_labels(self):
            return xp.astype(values > 0, xp.int64)
        index = xp.astype(values[:, 0] > 0, xp.int64) if self._one_target else xp.argmax(values, axis=1)
        return take_classes(self.classes_, index)

    @lazy_for_collections
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._log_probabilities(X, "predict_log_proba")


@described
class KMPClassifier(ClassModel):
    """Kernel classifier on a few training points, chosen one at a time by matching pursuit.

    Two classes are coded -1 and +1. More classes share one set of atoms, and each has weights of its own against the
    rest. The class with the largest value wins. Rows may also have several labels at once: y is then a matrix of 0 and
    1 with a column for each label. All labels share the atoms, and a label is predicted where its value is positive.

    parameter_groups

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of steps. Each step adds an atom; only the basic variant may change the weight of an old one instead.
        "auto" chooses it by generalised cross-validation: for two classes, and for labels, where that is lowest; for
        more classes the fewest atoms that error rates on so many rows could not tell from the lowest. For other losses
        and the basic variant it is chosen on rows held out. It takes 1,000 at most, and warns there. With `stop` given,
        a number is the most steps to take.
    kernels
    gamma
    alpha
    class_loss
    class_weight
    centers
    variant
    stop : {"gcv", "leave_one_out", "validation", "bound", "certificate"}, record, callable or None, default=None
        Rule that chooses the number of steps, by name or with parameters of its own, as ``validation(0.2,
        patience=10)`` and ``tolerance(1e-3)`` of `kernelpursuit.parameters`. "gcv" is generalised cross-validation that
        charges an atom for its weight and for having searched for it. "leave_one_out" is the exact leave-one-out error
        of the atoms as they are; it does not know that they were chosen. "validation" holds rows out and judges by the
        loss that is fitted. "bound" is ``bounds.vc_bound(k, n, errors, form="tight", dimension=k + 1,
        n_comparisons=1)`` for two classes, with `errors` the rows whose class is wrong. "certificate" fits the model to
        some rows and leaves it at that; the others give a limit of the same share, `bounds.holdout_bound`, that holds
        for all numbers of atoms at once with probability 95 %. It is ``path_.values("bound")[-1]``. Or write a rule of
        your own, ``stop(path) -> Stop | None``.
    candidates
    weakness
    memory
    fit_intercept
    kmp_resume
    fit_seed
    verbose

    Attributes
    ----------
    classes_
    chosen_support_
    support_vectors_
    support_kernels_
    gamma_
    alpha_
    dual_coef_ : ndarray of shape (k,) or (k, n_classes)
        Weights of the atoms, for more than two classes a column for each.
    class_intercept_
    path_
    n_features_in_
    feature_names_in_

    References
    ----------
    Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelpursuit import KMPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KMPClassifier(n_atoms=8).fit(X, y)
    >>> len(model.support_vectors_), model.score(X, y) > 0.95
    (8, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **KMP_CONSTRAINTS,
        **CLASS_CONSTRAINTS,
        "loss": [StrOptions({*LOSSES, "huber"}), Loss],
    }

    def __init__(
        self,
        n_atoms="auto",
        *,
        kernel="rbf",
        gamma="scale",
        alpha="auto",
        loss="squared_error",
        class_weight=None,
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
        self.class_weight = class_weight
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KMPClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or a Dask array or dataframe, and so y and the weights: its rows stay on the workers of the cluster.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes, two or more; or 0 and 1, which labels each row has.
        sample_weight : array-like of shape (n_samples,), optional
            Weights are counts: a row of weight w counts as w rows, so that weights that sum to more also buy more atoms
            under ``n_atoms="auto"``. A row of weight 0 is absent and cannot become an atom.

        Returns
        -------
        self
        """
        with rows_of_fit(self, X, y, sample_weight, self._check_rows, as_labels) as data:
            return self._fit_rows(data)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked; `class_weight` is a part of their weights."""
        X, y, _ = check_training_classes(self, X, y, sample_weight)
        weights, factors = with_class_weight(self.class_weight, on_host(y), sample_weight, X)
        data = training_data(X, on_host(y), weights)
        data = data if factors is None else factors.without(data)
        return data._replace(given_y=y)

    def _fit_rows(self, data: TrainingData) -> KMPClassifier:
        """Fit to classes, or to labels, coded -1 and +1."""
        self._labels = data.y.ndim == 2
        classes = np.arange(data.y.shape[1]) if self._labels else two_or_more_classes(data)
        self.classes_ = like_labels(classes, data.given_y)
        code = code_labels if self._labels else partial(code_classes, classes=classes)
        targets = data.source.map(partial(code, dtype=host_dtype(data.X)), data.y)
        self._one_target = targets.shape[1] == 1
        loss = None if self.loss == "squared_error" else classification_loss(self.loss)
        kind = TargetKind(
            "labels" if self._labels else "classes",
            loss=lambda rows: loss,
            split=stratified_split,
            is_error=mislabelled if self._labels else misclassified,
            n_comparisons=len(classes) if self._labels else len(classes) * (len(classes) - 1) // 2,
        )
        self._set(fit_pursuit(self, data, targets, kind))
        return self

    @lazy_for_collections
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class.

        The losses "log_loss" and "exponential" estimate probabilities. For the squared loss the values of
        `decision_function` are calibrated: they are multiplied by a slope. It makes the classes of the training rows
        most probable, each row with the value that it has in the model fitted without it; that value is exact and in
        closed form. Values outside the range of those of the training rows, as rows have that an atom fits alone, count
        as its ends, and no row is surer of a class than the surest training row. The most probable class is always the
        one that `predict` names. Other losses and the basic variant have no such closed form. Their slope comes from
        the training rows as they were fitted, so their probabilities are somewhat too sure.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            With more than two classes and a loss that estimates them: the one-against-rest probabilities, scaled to sum
            to 1. Where rows have several labels, (n_samples, n_labels): the probability that a row has the label.
        """
        logarithms = self._log_probabilities(X, "predict_proba")
        return namespace(logarithms).exp(logarithms)

    def _log_probabilities(self, X: Any, method: str) -> Any:
        """Logarithms, exact where the probabilities themselves would round to 0 or 1."""
        values = self._raw(X, method)
        xp, log_odds = namespace(values), classification_loss(self.loss).log_odds
        if log_odds is None:
            odds = self._calibrated(values)
        else:
            odds = log_odds(values)
        zero = xp.zeros_like(odds)
        if has_labels(self):
            return -xp.logaddexp(zero, -odds)
        if self._one_target:
            return -xp.concat([xp.logaddexp(zero, odds), xp.logaddexp(zero, -odds)], axis=1)
        return log_softmax(odds if log_odds is None else -xp.logaddexp(zero, -odds))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
