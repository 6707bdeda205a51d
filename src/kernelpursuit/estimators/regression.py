"""Kernel matching pursuit for regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.model_selection import train_test_split

from kernelpursuit._array import on_host
from kernelpursuit._sklearn import StrOptions
from kernelpursuit.estimators._kmp import KernelMatchingPursuit
from kernelpursuit.estimators._model import PursuitModel
from kernelpursuit.estimators._parameters import PursuitParameters
from kernelpursuit.estimators._pipeline import fits, in_units
from kernelpursuit.estimators._spaces import host_dtype
from kernelpursuit.estimators._training import TrainingData, check_split, check_training, training_data
from kernelpursuit.losses import Loss, huber

REGRESSION_LOSS: list = [StrOptions({"squared", "huber"}), Loss]


class RegressorModel(RegressorMixin, PursuitModel):
    """What a fitted expansion says about numbers."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets for X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        values = self._raw(X, "predict")
        return values[:, 0] if self._one_target else values

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
            yield values[:, 0] if self._one_target else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class KMPRegressor(KernelMatchingPursuit, RegressorModel):
    """Kernel regression on a few training points, chosen one at a time by matching pursuit.

    The model is ``f(x) = intercept_ + sum_j dual_coef_[j] * k(x, support_vectors_[j])``. Each step takes the atom
    ``k(., z)`` that lowers the training loss most, so the number of terms is yours to choose, and one fit holds the
    models of every smaller number (`staged_predict`, `truncate`).

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of steps, each adding an atom (the basic variant may add to the weight of an old one instead). "auto"
        means ``stop="gcv"``, the rule that came closest to the best number in hindsight on 28 data sets and three
        widths (``docs/evidence/auto_n_atoms.md``), or, for other losses and the basic variant, ``stop="validation"``.
        With `stop` given, a number is the most steps to take.
    variant : {"prefit", "backfit", "basic"}, default="prefit"
        "prefit" takes the atom whose joint refit with all others leaves the smallest residual; "backfit" the atom most
        correlated with the residual, then refits (orthogonal matching pursuit); "basic" sets only the new weight.
    loss : {"squared", "huber"} or Loss, default="squared"
        "huber" is squared up to 1.345 times a robust estimate of the spread of y and linear beyond; `losses.huber`
        takes a number of your own.
    refit_every : int or None, default=1
        For losses other than the squared one: steps between refits of all weights.
    kernel : str, callable, (str, dict), list of these or None, default="rbf"
        A kernel of ``sklearn.metrics.pairwise``, ``"precomputed"``, or a function of two matrices (as for SVC) or of
        two rows (as for KernelRidge). A pair such as ``("rbf", {"gamma": 0.5})`` has parameters of its own. A list
        puts several kernels or widths into one dictionary. None uses `functions` alone. Need not be positive definite.
    gamma : {"scale", "auto"} or float, default="scale"
    degree : float, default=3
    coef0 : float, default=1
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    functions : list of callables, optional
        Each maps X to one or more columns that join the dictionary: terms you know, trends, raw features.
    centers : None, int or array-like of shape (n_centers, n_features), default=None
        Where kernel atoms may sit: on all training points, on a random subset, on points of your own.
    candidates : None, int, (epsilon, quantile) or "growing", default=None
        Look at a fresh random set of atoms each step instead of all. The best of s atoms drawn is among the best share
        g of all with probability at least ``1 - (1 - g)**s``, whatever the data; that they are drawn without
        replacement only makes it more likely. The pair means the size ``ceil(ln epsilon / ln quantile)``, with which
        this probability is 1 - epsilon for g = 1 - quantile: 59 for (0.05, 0.95). "growing" looks at 59 atoms in the
        first step and at 1.7 more in each further one, because late atoms are harder to find.
    weakness : float, default=1
        1 gives exactly the atoms of plain greedy choice. With 0.5, say, an atom is accepted while its score is at least
        half of the best score of all atoms at that moment, which saves most of the passes. `path_` has the certificate
        of each step (``Step.weakness``) and the number of passes.
    alpha : float, default=0
        Ridge penalty ``alpha * cᵀ K c`` on the weights c of the chosen atoms, in selection and fit, K their kernel
        matrix (for columns of `functions`: ``alpha * c²``). With all atoms this is kernel ridge regression.
    shrinkage : float, default=1
        Share of the full step that the basic variant takes.
    fit_intercept : bool, default=True
    tol : float, default=1e-10
        Stop when the training loss has fallen to this share of what it was without atoms.
    stop : {"gcv", "leave_one_out", "validation", "bound", "certificate"}, callable or None, default=None
        Rule that chooses the number of steps. "gcv": generalised cross-validation that charges two degrees of freedom
        for an atom, one of them for the search. "leave_one_out": exact for the atoms as they are, but blind to their
        having been chosen. "validation": rows held out. "bound": `bounds.vc_bound` on the share of rows missed by more
        than the standard deviation of y. "certificate": the model is fitted to some rows and stays as it is; the others
        give a limit of that share, `bounds.holdout_bound`, which holds with probability 95 %, for all numbers of atoms
        at once. It is ``path_.steps[-1].bound``. Or a rule of your own, ``stop(path) -> Stop | None``.
    validation_fraction : float, default=0.2
        Share of the rows that ``stop="validation"`` and ``stop="certificate"`` hold out. The final model of the former
        is fitted on all rows.
    patience : int, default=10
        Steps without improvement after which these rules stop looking.
    memory : int, optional
        Bytes the fit may take. The kernel matrix is kept if it fits and computed in tiles, again at each pass, if it
        does not. By default the matrix may take scikit-learn's ``working_memory``, and with sampled `candidates` none
        is kept: only the columns looked at are computed. 0 never keeps it.
    random_state : int, RandomState or None, default=None
        For `centers`, `candidates` and the validation split.
    verbose : int, default=0
        1 prints how the atoms are held and a line at 1, 2, 5, 10, ... steps, 2 a line for each step.

    Attributes
    ----------
    support_ : ndarray of shape (k,)
        Atoms in the order chosen. For one kernel the index of the training row (of `centers`, if those were given);
        kernel i of a list counts from ``i * n_centers``, and the columns of `functions` follow the last kernel.
    support_vectors_ : {ndarray, CSR array} of shape (number of kernel atoms, n_features)
        Their centres; empty for a precomputed kernel.
    support_kernels_ : ndarray of shape (k,)
        Which kernel of the list each atom belongs to, -1 for a column of `functions`.
    dual_coef_ : ndarray of shape (k,) or (k, n_targets)
    intercept_ : float or ndarray of shape (n_targets,)
    path_ : Path
        A `Step` for each step taken, and why the pursuit ended.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        When X has column names.

    Notes
    -----
    With ``sklearn.config_context(array_api_dispatch=True)`` tensors, on any device, are fitted where they live: y and
    the weights follow X, as do the fitted arrays and the predictions. Indices (`support_`, `support_kernels_`) and
    `path_` are NumPy's. New data must be where X was.

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

    _parameter_constraints: ClassVar[dict] = {**PursuitParameters._parameter_constraints, "loss": REGRESSION_LOSS}

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KMPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Several targets share the atoms; scale them alike if they should count alike.
        sample_weight : array-like of shape (n_samples,), optional
            Weights are counts: a row of weight w counts as w rows, so that weights that sum to more also buy more atoms
            under ``n_atoms="auto"``. A row of weight 0 is absent and cannot become an atom.

        Returns
        -------
        self
        """
        X, y = check_training(self, X, y, multi_output=True, y_numeric=True)
        self._one_target = y.ndim == 1
        # A loss of the user's own may mean something else for scaled targets.
        targets, unit = scale_targets(cast_targets(on_host(y), host_dtype(X)), wanted=isinstance(self.loss, str))
        data = training_data(X, targets, sample_weight)
        loss = regression_loss(self.loss, data)
        how: dict[str, Any] = {"split": random_split, "wrong": beyond_spread, "cuts": 2 * targets.shape[1]}
        fitted = self._choose_and_fit(data, data.y, loss, **how, unit=unit)
        path = in_units(fitted.path, unit, score=unit * unit)
        self._set(fitted._replace(path=path, coef_path=fitted.coef_path * unit))
        return self


def cast_targets(y: np.ndarray, dtype: Any) -> np.ndarray:
    """Targets as columns of the dtype of X."""
    with np.errstate(over="ignore"):
        targets = y.reshape(len(y), -1).astype(dtype)
    if not np.all(np.isfinite(targets)):
        raise ValueError(
            f"y has values too large for {np.dtype(dtype)}, the precision of X: scale y or give X as float64"
        )
    return targets


def scale_targets(y: np.ndarray, wanted: bool = True) -> tuple[np.ndarray, float]:
    """Targets divided by a power of two that brings them near 1: exact, and their squares cannot overflow."""
    largest = float(np.max(np.abs(y)))
    if largest == 0 or not wanted:
        return y, 1.0
    bound = 120 if y.dtype == np.float32 else 1000
    exponent = int(np.clip(np.frexp(largest)[1], -bound, bound))
    return np.ldexp(y, -exponent), float(2.0**exponent)


def regression_loss(loss: Any, data: TrainingData) -> Loss | None:
    """Loss behind the parameters; None is the squared one, which has a criterion of its own."""
    if loss == "squared":
        return None
    if not isinstance(loss, str):
        return loss
    return huber(1.345 * spread(data))


def spread(data: TrainingData) -> float:
    """Standard deviation of normal targets, from the weighted median of |y - median|; robust against outliers."""
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    deviation = np.concatenate([np.abs(y - weighted_median(y, weights)) for y in data.y.T])
    weights = np.tile(weights, data.y.shape[1])
    return float(1.4826 * weighted_median(deviation, weights)) or float(np.average(deviation, weights=weights)) or 1.0


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Smallest value with at least half of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, 0.5 * cumulative[-1])])


def random_split(data: TrainingData, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to hold out."""
    check_split(len(data.y), share)
    seed = int(rng.integers(2**31))
    train, held_out = train_test_split(np.arange(len(data.y)), test_size=share, random_state=seed)
    return np.sort(train), np.sort(held_out)


def beyond_spread(targets: np.ndarray, residuals: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Rows that miss a target by more than its standard deviation in training."""
    return np.any(np.abs(residuals) > np.std(seen, axis=0), axis=1)
