"""Sparse kernel Fisher discriminants with the number of atoms and the kernel width chosen by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils.multiclass import check_classification_targets

from kernelpursuit.estimators.discriminant import FISHER_CONSTRAINTS, FisherModel, SparseKernelFDA
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.parameters import SEARCH_CONSTRAINTS
from kernelpursuit.fitting.pipeline import fits
from kernelpursuit.fitting.training import check_training
from kernelpursuit.search.score_table import accuracy
from kernelpursuit.search.search import SearchModel, search


@described
class SparseKernelFDACV(SearchModel, FisherModel):
    """`SparseKernelFDA` with the number of atoms and the kernel width chosen by cross-validation.

    A path of `max_atoms` steps holds the models of all smaller numbers. So each fold and width costs one fit, and every
    number of atoms is cross-validated.

    Parameters
    ----------
    max_atoms : int, default=50
        Number of steps of the longest path. A warning says when the best number is this one.
    gammas
    scatter_alpha
    class_weight : dict, "balanced" or None, default=None
        How much a mistake about a class costs. All classes have equal say as it is, which is what "balanced" means too;
        a dictionary moves the thresholds, and the probabilities, by the logarithms of its weights (by default 1).
    labels
    cv
    class_scoring
    one_standard_error
    n_jobs
    class_kernels
    degree
    coef0
    kernel_params
    label_tol
    candidates
    weakness
    memory
    candidates_seed
    search_verbose

    Attributes
    ----------
    classes_
    best_n_atoms_
    gamma_
    best_score_
    cv_results_
    support_ : ndarray of shape (k,)
        Training rows chosen for the model that is fitted to all rows with this choice.
    support_vectors_
    dual_coef_ : ndarray of shape (k,) or (k, n_classes)
        Weights of the kernel functions.
    class_intercept_
    path_
    n_features_in_
    feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelpursuit import SparseKernelFDACV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SparseKernelFDACV(max_atoms=10).fit(X, y)
    >>> len(model.support_) == model.best_n_atoms_, model.score(X, y) > 0.95
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **SEARCH_CONSTRAINTS,
        **{name: rule for name, rule in FISHER_CONSTRAINTS.items() if name != "gamma"},
    }

    def __init__(
        self,
        max_atoms=50,
        *,
        gammas=None,
        alpha=1e-8,
        class_weight=None,
        labels="centred",
        cv=None,
        scoring=None,
        one_standard_error=False,
        n_jobs=None,
        kernel="rbf",
        degree=3,
        coef0=1,
        kernel_params=None,
        tol=1e-10,
        candidates=None,
        weakness=1.0,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        self.max_atoms = max_atoms
        self.gammas = gammas
        self.alpha = alpha
        self.class_weight = class_weight
        self.labels = labels
        self.cv = cv
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.tol = tol
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> SparseKernelFDACV:
        """Choose width and number of atoms, then fit on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Used in the fits and in the scores; `class_weight` is used in the fits alone.
        groups : array-like of shape (n_samples,), optional
            Group of each row, for a `cv` that keeps the rows of a group together, such as ``GroupKFold()``.

        Returns
        -------
        self
        """
        X, y = check_training(self, X, y, sample_weight=sample_weight)
        check_classification_targets(y)
        found = search(self, SparseKernelFDA, accuracy, X, y, sample_weight, groups)
        self._adopt(found)
        self.classes_, self._projections = found.model.classes_, found.model._projections
        return self
