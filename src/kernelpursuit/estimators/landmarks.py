"""Nyström features on chosen landmarks: a drop-in for scikit-learn's Nystroem."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernelpursuit._sklearn import EstimatorSupport, StrOptions
from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, eps, in_double, to_host
from kernelpursuit.atoms import Dictionary
from kernelpursuit.criteria.rayleigh import SELECTIONS, Rayleigh
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.fitting.atom_family import AtomFamily
from kernelpursuit.fitting.constraints import AT_LEAST_ONE, NOT_NEGATIVE, ONE_KERNEL, PURSUIT_CONSTRAINTS
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.duplicates import warn_of_duplicates
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.fitting.fit_warnings import warn_if_short
from kernelpursuit.fitting.pipeline import Pursuit, Settings, fits, follow_criterion
from kernelpursuit.fitting.placement import (
    as_dtype,
    as_like,
    check_new,
    host_dtype,
    is_precomputed,
    labels_on_host,
    take_rows,
    to_namespace_of,
)
from kernelpursuit.fitting.rows import lazy_for_collections, rows_of_fit
from kernelpursuit.fitting.span import POSITIVE, SpanParameters, finite_values, indefinite, rayleigh
from kernelpursuit.fitting.targets import TASKS, checked_targets, target_columns
from kernelpursuit.fitting.training import TrainingData, check_training, training_data
from kernelpursuit.fitting.values import cast_targets, near_zero, scale_targets
from kernelpursuit.kernels.kernels import Kernel, gamma_of, make_kernel
from kernelpursuit.math.cholesky import pivot_limit
from kernelpursuit.pursuit.candidates import why_none
from kernelpursuit.pursuit.loop import Path, StopRule, count
from kernelpursuit.pursuit.stopping import loss_below, lowest_gcv, n_atoms, search_charge

_LARGE = 1e-2  # share of the largest eigenvalue that those of a kernel count from that has negative ones too


def worth_of(targets: Array, data: TrainingData) -> StopRule:
    """How many landmarks to choose by y: beyond the minimum of `gcv` they would follow its noise."""
    n = max(len(data.rows), data.total)
    return lowest_gcv(n, search_charge(in_double(targets), data.weights), patience=10)


def fill(criterion: Rayleigh, first: Path, limit: int, settings: Settings) -> Path:
    """The path of another criterion, continued by `criterion`."""
    for atom in first.atoms:
        list(criterion.take([int(atom)], weakness=0.0))
    more = follow_criterion(criterion, n_atoms(limit - len(first)), settings)
    path = Path(first.start, [*first.steps, *more.steps], [], more.reason, more.sentence, first.passes + more.passes)
    if more.reason == "exhausted":  # by all steps, not those of `more` alone
        path.sentence = f"{why_none(path.atoms, criterion.available)} after {count(len(path), 'step')}"
    return path


@described
class PursuitNystroem(
    SpanParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, EstimatorSupport, BaseEstimator
):
    """Approximate a kernel map with landmarks that are chosen, not drawn: scikit-learn's `Nystroem`, fewer features.

    With landmarks A the features are ``φ(x) = K[A, A]^(-1/2) k_A(x)``, so that ⟨φ(x), φ(z)⟩ approximates k(x, z). Each
    landmark is the training row that helps most after those before it; `selection` says what "helps" means.

    Parameters
    ----------
    kernel : str, callable or pair, default="rbf"
        The kernel, as for `Nystroem`; a pair such as ``("poly", {"degree": 2})`` or ``(function, {"width": 0.1})`` has
        parameters of its own. A function may also take two matrices. "precomputed" works with any `n_components`. The
        kernel should be positive semidefinite. Where it is not ("sigmoid"), a warning says so, and landmarks that
        cannot be chosen are drawn; the features are of its part with positive eigenvalues, without those below 1 % of
        the largest, which come near 0 by chance.
    gamma : float, default=None
        Parameter of the kernel. None leaves it to the kernel, as for `Nystroem`: 1 / n_features, for chi2 1.
    n_components : int, default=100
        Number of landmarks.
    random_state : int, RandomState or None, default=None
        Seed for ``selection="random"`` and `candidates`.
    selection : {"rayleigh", "diagonal", "random", "prefit"}, default="rayleigh"
        Which landmark comes next. "rayleigh" takes the one that brings the other points closest to the span, summed
        over the squared distances. "diagonal" takes the one farthest from the span (pivoted Cholesky, P-greedy).
        "random" draws one with probability proportional to its squared distance (randomly pivoted Cholesky). "prefit"
        looks at y: it takes the landmark that lowers the squared error of a least-squares fit of y most, until
        generalised cross-validation says that more would follow the noise of y. "rayleigh" then adds what is missing to
        `n_components`.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or values, for ``selection="prefit"``. "auto" takes strings, booleans and up to 20
        distinct whole numbers for classes, and warns where that is doubtful.
    candidates
    weakness
    memory
    verbose

    Attributes
    ----------
    components_ : {ndarray, CSR array} of shape (n_components, n_features)
        The landmarks. There are fewer than asked for when there are no more rows, or the others lie in their span.
    component_indices_ : ndarray of shape (n_components,)
        Their indices among the training rows, in the order of choice, drawn ones last.
    normalization_ : ndarray of shape (n_components, n_components)
        Inverse root of the kernel matrix of the landmarks.
    gamma_
    path_
    residual_trace_ : ndarray of shape (n_components + 1,)
        Trace of K - K̃, what is left of the kernel matrix, after 0, 1, ... landmarks that were chosen.
    n_features_in_
    feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelpursuit import PursuitNystroem
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> model = make_pipeline(PursuitNystroem(gamma=0.2, n_components=40), RidgeClassifier()).fit(X[::2] / 16, y[::2])
    >>> bool(model.score(X[1::2] / 16, y[1::2]) > 0.98)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "kernel": ONE_KERNEL,
        "gamma": [NOT_NEGATIVE, None],
        "n_components": [AT_LEAST_ONE],
        "selection": [StrOptions({*SELECTIONS, "prefit"})],
        "task": [StrOptions(set(TASKS))],
        **PURSUIT_CONSTRAINTS,
    }

    def __init__(
        self,
        kernel="rbf",
        *,
        gamma=None,
        n_components=100,
        random_state=None,
        selection="rayleigh",
        task="auto",
        candidates=None,
        weakness=1.0,
        memory=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state
        self.selection = selection
        self.task = task
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PursuitNystroem:
        """Choose the landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The square kernel matrix for ``kernel="precomputed"``. Or a Dask array or dataframe: its rows stay on the
            workers, and of more than 50,000 rows 10,000 drawn at random are the points to choose from.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            For ``selection="prefit"``; ignored otherwise.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; a row of weight 0 is absent and cannot be chosen.

        Returns
        -------
        self
        """
        self._check_gamma()
        supervised = self.selection == "prefit"
        if supervised and y is None:
            raise ValueError(
                "selection='prefit' chooses landmarks by y: PursuitNystroem requires y to be passed, but the target y "
                "is None"
            )
        with rows_of_fit(self, X, y if supervised else None, sample_weight, self._check_rows, checked_targets) as data:
            settings, precomputed = Settings.of(self), is_precomputed(self.kernel)
            kernel = "precomputed" if precomputed else "linear"
            family = data.source.make_atoms(AtomFamily, data, settings.rng, kernel=kernel, gamma="auto")
            self._kernel = None if precomputed else self._make_kernel(family.centers)
            family = family if self._kernel is None else family.with_kernel(self._kernel)
            self.path_, atoms, dictionary = self._choose_landmarks(data, family, settings)
            self._set(data, family, atoms, dictionary)
        return self

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Rows in this process, checked."""
        X = check_training(self, X, sample_weight=sample_weight)
        if y is not None:
            y = checked_targets(labels_on_host(y))
            check_consistent_length(X, y)
        return training_data(X, y, sample_weight)

    def _choose_landmarks(
        self, data: TrainingData, family: AtomFamily, settings: Settings
    ) -> tuple[Path, np.ndarray, Dictionary]:
        """Landmarks by y as long as they promise to fit new data better, the rest by the kernel alone.

        Where that is not positive semidefinite the rest is drawn, as by `Nystroem`: the atoms are more than the path's.
        """
        supervised, X = self.selection == "prefit", data.X
        targets: Any = None
        if supervised:
            columns = near_zero(target_columns(data.y, self.task, source=data.source), host_dtype(X))[0]
            columns = scale_targets(cast_targets(columns, host_dtype(X)))[0]
            targets = as_like(columns, X)
            warn_of_duplicates(None if data.source.remote else X, targets, data.total)

        reads_matrix = self.selection in ("rayleigh", "prefit")
        pursuit = Pursuit.plan([family.dictionary], settings, data, self.n_components, reads_matrix=reads_matrix)
        (dictionary,), rules = pursuit.dictionaries, [n_atoms(self.n_components)]
        criterion: Any
        if supervised:
            weights = None if data.weights is None else as_like(data.weights, X)
            criterion = data.source.criterion(Squares, data, family)(dictionary, targets, weights=weights)
            rules += [loss_below(0.0, (16 * eps(targets)) ** 2), worth_of(columns, data)]
        else:
            criterion = rayleigh(dictionary, self.selection, data, family, settings.rng)
        path = pursuit.run(criterion, rules, steps=self.n_components)
        if supervised and len(path) < self.n_components and path.reason != "interrupted":
            criterion = rayleigh(dictionary, "rayleigh", data, family)
            path = fill(criterion, path, self.n_components, settings)
        warn_if_short(path, criterion, data, self.n_components, "n_components")
        atoms = path.atoms
        if getattr(criterion, "indefinite", False) and path.reason != "interrupted":
            others = np.setdiff1d(np.arange(dictionary.shape[1]), atoms)
            atoms = np.concatenate([atoms, settings.rng.permutation(others)[: self.n_components - len(atoms)]])
        return path, atoms, dictionary

    @lazy_for_collections
    def transform(self, X: Any) -> Array:
        """Features of X, ``k_A(X) @ normalization_.T``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Kernel values with all training rows for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.components_, "transform")
        return as_dtype(finite_values(self._expansion, X), X.dtype)

    @property
    def component_indices_(self) -> np.ndarray:
        """Training rows that the landmarks are, in the order chosen, NumPy wherever X lives."""
        return np.array(self._chosen, dtype=np.intp)

    def _set(self, data: TrainingData, family: AtomFamily, atoms: np.ndarray, dictionary: Any) -> None:
        """Attributes, as `Nystroem` computes them."""
        X = family.centers
        self._chosen = family.support(atoms).tolist()
        self.normalization_ = as_like(self._inverse_root(dictionary.gram(atoms, atoms)), X)
        self.components_ = take_rows(X, atoms)
        self.residual_trace_ = to_namespace_of(self._traces(dictionary, data, family) * data.total, X)
        if self._kernel is None:
            self._expansion = Expansion(self.components_, precomputed=self.component_indices_)
        else:
            self._expansion = Expansion(self.components_, [self._kernel])
        weights = to_host(self.normalization_).T
        self._expansion.coef = np.concatenate([np.zeros((1, len(weights))), weights])
        self.gamma_ = gamma_of(self._expansion.kernels)
        self._n_features_out = len(atoms)

    def _inverse_root(self, gram: np.ndarray) -> np.ndarray:
        """K[A, A]^(-1/2), as `Nystroem` has it; of a kernel with negative eigenvalues that of the large ones alone.

        The smallest come near 0 by chance there, where columns of the kernel matrix do not: their inverses are wrong.
        """
        eigenvalues, U = np.linalg.eigh(in_double(gram))
        largest = max(eigenvalues[-1], 0.0)
        drawn = len(gram) - len(self.path_)
        if not drawn and eigenvalues[0] >= -np.sqrt(pivot_limit(eps(gram))) * largest:
            U, S, V = np.linalg.svd(gram)
            return U / np.sqrt(np.maximum(S, 1e-12)) @ V
        chosen = f"only {count(len(self.path_), 'landmark')} could be chosen and {drawn} were drawn at random. "
        warn(
            f"{indefinite(self.kernel)}{', so that ' + chosen if drawn else '. '}"
            f"The features are of its part with eigenvalues above {_LARGE:.0%} of the largest. {POSITIVE}",
            ConvergenceWarning,
        )
        large = eigenvalues > _LARGE * largest
        return (U[:, large] / np.sqrt(eigenvalues[large])) @ U[:, large].T

    def _traces(self, dictionary: Any, data: TrainingData, family: AtomFamily) -> np.ndarray:
        """Mean of the diagonal of K - K̃ after each landmark; the path of landmarks chosen by y has other losses."""
        if self.selection != "prefit":
            return self.path_.values("loss")
        # This one needs no pass to take an atom.
        make = data.source.criterion(Rayleigh, data, family)
        criterion = make(dictionary, selection="diagonal", weights=data.weights)
        losses = [criterion.initial_step().loss]
        for atom in self.path_.atoms:
            losses += [step.loss for step in criterion.take([int(atom)], weakness=0.0)] or losses[-1:]
        return np.array(losses)

    def _check_gamma(self) -> None:
        """Refuse a gamma that the kernel would ignore, as `Nystroem` does."""
        name = self.kernel[0] if isinstance(self.kernel, tuple) and self.kernel else self.kernel
        if self.gamma is not None and (callable(name) or is_precomputed(name)):
            raise ValueError(
                f"gamma={self.gamma} has no effect with kernel={self.kernel!r}: leave it None. A function has its "
                "parameters in a pair, as in kernel=(function, {'gamma': 0.5})"
            )

    def _make_kernel(self, X: Any) -> Kernel:
        """The kernel, with the gamma that `Nystroem` would take where none is given."""
        gamma = self.gamma if self.gamma is not None else 1.0 if self.kernel == "chi2" else "auto"
        return make_kernel(self.kernel, X, gamma=gamma)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.selection == "prefit"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
