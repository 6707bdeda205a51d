"""Sparse kernel Fisher discriminant analysis."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._sklearn import Interval, StrOptions
from kernelpursuit.arrays import from_host, namespace, on_host, to_host
from kernelpursuit.bounds import fisher_bound
from kernelpursuit.criteria.fisher import Fisher
from kernelpursuit.estimators.classification import ClassModel
from kernelpursuit.fitting.atom_family import atoms_of
from kernelpursuit.fitting.classes import as_labels, like_labels, two_or_more_classes
from kernelpursuit.fitting.constraints import (
    CLASS_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    NOT_NEGATIVE,
    PURSUIT_CONSTRAINTS,
    RESUME_CONSTRAINTS,
)
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.fit_warnings import warn_if_short
from kernelpursuit.fitting.model import Fitted
from kernelpursuit.fitting.pipeline import Pursuit, Settings, fits
from kernelpursuit.fitting.placement import as_like, check_new, host_dtype
from kernelpursuit.fitting.probabilities import calibrated_discriminants, log_softmax, opposed
from kernelpursuit.fitting.rows import lazy_for_collections, rows_of_fit
from kernelpursuit.fitting.rules import EXPLAINED
from kernelpursuit.fitting.training import (
    TrainingData,
    by_class,
    check_training,
    factors_of,
    refuse_weights,
    training_data,
)
from kernelpursuit.math.discriminants import LABELS, Discriminants
from kernelpursuit.math.weights import WeightPath
from kernelpursuit.parameters import bound, record_of, tolerance
from kernelpursuit.pursuit.loop import Path, StopRule
from kernelpursuit.pursuit.stopping import loss_below, lowest_bound, n_atoms


def moves_thresholds(class_weight: Any) -> bool:
    """Whether classes have weights of their own; "balanced" is what discriminants are without any."""
    return class_weight is not None and class_weight != "balanced"


def thresholds_moved(fitted: Fitted, classes: np.ndarray, class_weight: Any) -> Fitted:
    """The fit with constants under which classes are named in proportion to their weights.

    A class of weight w is named where w times its probability is largest, that is, its log-odds grow by log w.
    """
    if not moves_thresholds(class_weight):
        return fitted
    calibration = fitted.calibration
    assert calibration is not None and calibration.limits is not None and isinstance(fitted.weights, WeightPath)
    costs = factors_of(class_weight, classes)
    if not (np.all(np.isfinite(costs)) and np.all(costs > 0)):
        raise ValueError(f"class_weight must have positive numbers, got {class_weight!r}")
    slopes = np.array([calibration.at(k)[0] for k in range(len(fitted.weights) + 1)])
    shifts = np.log(costs) / slopes[:, None]
    shifts = shifts[:, 1:] - shifts[:, :1] if len(classes) == 2 else shifts
    constants = fitted.weights.constants + np.diff(shifts, axis=0, prepend=0)  # what each step adds
    moved = replace(calibration, limits=calibration.limits + np.ptp(np.log(costs)))
    return fitted._replace(weights=replace(fitted.weights, constants=constants), calibration=moved)


def fisher_bound_rule(criterion: Fisher, index: np.ndarray, alpha: float, patience: int) -> StopRule:
    """Minimum of `fisher_bound` along the path, from the values of f at the training rows outside the support."""
    dictionary, basis = criterion.deflation.D, criterion.deflation.basis
    radius = float(np.sqrt(np.max(dictionary.gram_diagonal(None))))

    def current(path: Path) -> float:
        atoms, k = path.atoms, len(path)
        if k == 0:
            return np.inf  # no atoms, no discriminant
        intercept, coef = np.split(weights_along_path(criterion.discriminants(k, alpha)).last()[:, 0], [1])
        length = np.sqrt(coef @ dictionary.gram(atoms, atoms) @ coef)  # norm of the weight vector in feature space
        values = to_host(basis.directions[:k, :].T @ from_host(basis.R[:k, :k] @ coef, basis.directions)) / length
        outside = np.delete(np.arange(len(index)), atoms)
        groups = [values[outside][index[outside] == label] for label in (1, 0)]
        if not all(len(group) for group in groups):
            return np.inf
        moments = [group.mean() for group in groups], [group.var() for group in groups]
        bias = float(intercept[0]) / length
        return fisher_bound(*moments, [len(group) for group in groups], bias, k, len(index), radius=radius)

    return lowest_bound(current, patience)


def weights_along_path(found: Discriminants) -> WeightPath:
    """Weights of the atoms in f, or in f_c for each class, with 0 .. k atoms.

    Coordinate t contributes its product z_t with the codes, times its distance from the midpoint: of the two class
    means, or of the mean of class c and the mean of the class means.
    """
    grand = found.means.mean(axis=0)
    if found.codes.shape[1] == 1:
        lengths, midpoints = found.codes, grand[:, None]
    else:
        lengths, midpoints = found.codes / np.sqrt(2), (found.means.T + grand[:, None]) / 2
    constants = np.concatenate([np.zeros((1, lengths.shape[1])), -midpoints * lengths])
    return WeightPath.of(constants, lengths, np.triu(found.axes))


def coordinates(found: Discriminants) -> np.ndarray:
    """Coefficients of the discriminant coordinates, (1 + k, n_classes - 1), the constant first."""
    n_classes, k = found.means.shape
    out = np.zeros((1 + k, n_classes - 1))
    if k == 0:
        return out
    directions = np.linalg.svd(found.codes, full_matrices=False)[0][:, : n_classes - 1]
    centre = found.means.mean(axis=0)
    directions = directions * np.where((found.means[-1] - centre) @ directions < 0, -1.0, 1.0) * found.scale
    width = directions.shape[1]
    out[1:, :width] = found.axes @ directions
    out[0, :width] = -centre @ directions
    return out


@described
class SparseKernelFDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassModel):
    """Fisher discriminant analysis on a few kernel functions, chosen one at a time by matching pursuit.

    Each step takes the training point whose kernel column separates the classes best, by Fisher's ratio, outside the
    span of those chosen before (see `Fisher`). Discriminant analysis then runs in the span of the k chosen. With F the
    features of the rows in this span, u the codes of the classes and S = FᵀBF the scatter within the classes,
    w = (S + λ)⁻¹Fᵀu and, for two classes,

        f(x) = wᵀ(F(x) − (μ₊ + μ₋) / 2).

    The threshold is the midpoint of the projected class means, whatever the class sizes. More classes share the atoms;
    each has w_c = (S + λ)⁻¹Fᵀu_c and f_c(x) = w_cᵀ(F(x) − (μ_c + μ̄) / 2), where μ̄ is the mean of the class means, and
    the largest f_c wins. With centred labels this is the nearest class mean under S, that is, linear discriminant
    analysis with equal priors. For two classes f₂ − f₁ is f.

    Parameters
    ----------
    n_atoms : int, default=20
        Number of atoms. There are fewer, with a warning, where the others lie in their span.
    class_kernels
    gamma
    scatter_alpha
    class_weight : dict, "balanced" or None, default=None
        How much a mistake about a class costs. Without weights, and under "balanced", all classes have equal say; a
        dictionary moves the thresholds, and the probabilities, by the logarithms of its weights (by default 1).
    labels
    stop : {"bound"}, bound, tolerance or None, default=None
        "bound" keeps the number of atoms, up to `n_atoms`, for which `bounds.fisher_bound` is lowest. It is for two
        classes. Below some thousand rows the bound is 1 for every number, and the first atom alone is kept.
        ``tolerance(1e-3)`` stops when the part of the labels outside the span has fallen to that share. See
        `kernelpursuit.parameters`.
    candidates
    weakness
    memory
    resume
    candidates_seed
    verbose

    Attributes
    ----------
    classes_
    support_ : ndarray of shape (k,)
        Indices of the chosen training rows, in the order of choice.
    support_vectors_
    support_kernels_
    gamma_
    dual_coef_ : ndarray of shape (k,) or (k, n_classes)
        Weights of the kernel functions in f, or in each f_c.
    class_intercept_
    path_ : Path
        Record of the pursuit. Its loss is the mean square of the part of the labels outside the span.
    n_features_in_
    feature_names_in_

    References
    ----------
    Diethe, Hussain, Hardoon and Shawe-Taylor, Matching pursuit kernel Fisher discriminant analysis, AISTATS 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelpursuit import SparseKernelFDA
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SparseKernelFDA(n_atoms=8).fit(X, y)
    >>> len(model.support_vectors_), model.score(X, y) > 0.95, model.transform(X).shape
    (8, True, (150, 2))
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_atoms": [Interval(Integral, 0, None, closed="left")],
        "kernel": KERNEL_CONSTRAINTS["kernel"],
        "gamma": KERNEL_CONSTRAINTS["gamma"],
        "alpha": [NOT_NEGATIVE],
        "labels": [StrOptions(set(LABELS))],
        "stop": [StrOptions({"bound"}), bound, tolerance, None],
        **CLASS_CONSTRAINTS,
        **PURSUIT_CONSTRAINTS,
        **RESUME_CONSTRAINTS,
    }

    def __init__(
        self,
        n_atoms=20,
        *,
        kernel="rbf",
        gamma="scale",
        alpha=1e-8,
        class_weight=None,
        labels="centred",
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
        self.class_weight = class_weight
        self.labels = labels
        self.stop = stop
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseKernelFDA:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or a Dask array or dataframe, and so y and the weights: its rows stay on the workers of the cluster, and
            of more than 50,000 rows 10,000 drawn at random are the points to choose from.
        y : array-like of shape (n_samples,)
            Classes, two or more.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; a row of weight 0 is absent and cannot be chosen.

        Returns
        -------
        self
        """
        with rows_of_fit(self, X, y, sample_weight, self._check_rows, as_labels) as data:
            return self._fit_rows(data)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked."""
        X, y = check_training(self, X, y, sample_weight=sample_weight)
        check_classification_targets(y)
        return training_data(X, on_host(y), sample_weight)._replace(given_y=y)

    def _fit_rows(self, data: TrainingData) -> SparseKernelFDA:
        """Fit to rows and their classes."""
        classes = two_or_more_classes(data)
        self.classes_ = like_labels(classes, data.given_y)
        # A class of weight 0 may be named, too.
        class_weight = by_class(self.class_weight, classes if data.source.remote else on_host(data.given_y))
        self._one_target = len(classes) == 2
        fitted, found = self._pursue(data, data.source.map(np.searchsorted, classes, data.y))
        self._projections = found.codes, found.means, found.scale
        self._set(thresholds_moved(fitted, classes, class_weight))
        return self

    def _pursue(self, data: TrainingData, index: np.ndarray) -> tuple[Fitted, Discriminants]:
        """Run the pursuit and solve in the span of its atoms; `index` is the class of each row, from 0 on."""
        dtype, settings = host_dtype(data.X), Settings.of(self, data, getattr(self, "path_", None))
        weights = None if data.weights is None else as_like(data.weights, data.X)
        stop = record_of(self.stop, bound)
        if isinstance(stop, bound):
            refuse_weights(data, "bound")
            if len(np.unique(index)) > 2:
                raise ValueError("stop='bound' is for two classes: the bound is a statement about two of them")
        family = atoms_of(self, data, settings.rng)
        pursuit = Pursuit.plan([family.dictionary], settings, data, self.n_atoms)
        make = data.source.criterion(Fisher, data, family)
        criterion = make(pursuit.dictionaries[0], index, labels=self.labels, weights=weights)
        # Below the rounding error of the labels there is nothing left to explain.
        floor = (16 * np.finfo(dtype).eps) ** 2 * criterion.initial_step().loss
        rules = [n_atoms(self.n_atoms), loss_below(stop.share if isinstance(stop, tolerance) else EXPLAINED, floor)]
        if isinstance(stop, bound):
            rules.append(fisher_bound_rule(criterion, index, self.alpha, stop.patience))
        path = pursuit.run(criterion, rules, steps=self.n_atoms)
        warn_if_short(path, criterion, data, self.n_atoms)
        taken = path.truncate(len(path) + len(path.discarded))
        found, atoms = criterion.discriminants(len(taken), self.alpha), taken.atoms
        expansion = family.expansion(atoms)
        along, each = weights_along_path(found), moves_thresholds(self.class_weight)
        given = self.labels, data, criterion.within.sizes
        calibration = calibrated_discriminants(found, along, expansion, path, index, *given, each=each)
        return Fitted(path, family.support(atoms), expansion, along, calibration=calibration), found

    @property
    def _n_features_out(self) -> int:
        return self.classes_.shape[0] - 1

    @property
    def _discriminants(self) -> Discriminants:
        """Discriminants of the steps of this model; their axes are the directions of its weights."""
        codes, means, scale = self._projections
        k, weights = len(self.path_), self._weights
        assert isinstance(weights, WeightPath)
        return Discriminants(weights.directions(), codes[:k], means[:, :k], scale)

    @lazy_for_collections
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class if all were equally frequent: a slope for the values of `decision_function`.

        It is chosen so that the classes are most probable given the values that the rows have in discriminants made
        without them, in closed form; values outside the range of those of the training rows count as its ends. No row
        is surer of a class than the surest training row: many atoms on few rows have enormous values elsewhere. All
        classes have equal say, as in `predict`, which names the most probable one. Where they are not equally frequent,
        `class_weight` with their shares gives the usual probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        logarithms = self._log_probabilities(X, "predict_proba")
        return namespace(logarithms).exp(logarithms)

    def _log_probabilities(self, X: Any, method: str) -> Any:
        return log_softmax(opposed(self._calibrated(self._raw(X, method))))

    @lazy_for_collections
    def transform(self, X: Any) -> np.ndarray:
        """Discriminant coordinates, the one that separates best first.

        Their variance within the classes is 1 on average, they are uncorrelated within the classes, and the mean of
        the class means is 0. The last class lies on the positive side. Where fewer atoms than columns were chosen the
        last columns are 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes - 1)
        """
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.support_vectors_, "transform")
        return self._expansion.predict(X, coordinates(self._discriminants))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
