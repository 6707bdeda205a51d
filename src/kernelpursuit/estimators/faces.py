"""Kernel polytope faces pursuit for regression."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._sklearn import ARRAY_API_SUPPORT, EstimatorSupport
from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.criteria.faces import Faces, Stage
from kernelpursuit.fitting.atom_family import atoms_of
from kernelpursuit.fitting.constraints import KERNEL_CONSTRAINTS, KMP_CONSTRAINTS, NOT_NEGATIVE, ONE_KERNEL
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.pipeline import Pursuit, Settings, fits
from kernelpursuit.fitting.placement import as_like, check_new, host_dtype, is_precomputed, to_namespace_of
from kernelpursuit.fitting.training import check_centers, check_training, training_data
from kernelpursuit.fitting.values import ValueScore, cast_targets, in_units, near_zero, scale_targets
from kernelpursuit.kernels.kernels import gamma_of
from kernelpursuit.pursuit.loop import Path, Stop, StopRule, count

ROUNDS = 10  # iteration cap: so many steps for each atom asked for
SHARED = ("fit_intercept", "memory", "random_state", "verbose")


def walk_rule(criterion: Faces, most: int, theta_tol: float) -> StopRule:
    """Stop at `most` active atoms, at a small θ or at the iteration cap.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import DenseDictionary, pursue
    >>> run = Faces(DenseDictionary(np.eye(3)), np.array([3.0, 2.0, 0.0]), intercept=False)
    >>> path = pursue(run, walk_rule(run, 3, 1e-5))
    >>> len(path), path.reason
    (2, 'tolerance')
    """
    limit = theta_tol * criterion.scale

    def rule(path: Path) -> Stop | None:
        t = len(path)
        if len(criterion.stages[t].atoms) >= most:
            return Stop(t, "n_atoms", f"n_atoms={most} atoms were active after {count(t, 'step')}")
        if criterion.theta[t] <= (limit if t else max(limit, criterion.floor)):  # targets may be constant
            return Stop(t, "tolerance", f"theta fell to theta_tol={theta_tol:g} of the norms of y and the atoms")
        if t >= ROUNDS * most:
            return Stop(t, "iteration cap", f"{count(t, 'step')} were taken, the most for n_atoms={most}")
        return None

    return rule


def warn_if_unfinished(path: Path, active: int, wanted: int) -> None:
    """ConvergenceWarning when the walk ended before it had `wanted` atoms or a small θ."""
    if path.reason == "exhausted":
        why = f"n_atoms={wanted} was asked for but no other face can be met: the model has {count(active, 'atom')}"
    elif path.reason == "iteration cap":
        why = f"{path.sentence}; {active} atoms are active"
    else:
        return
    warn(why, ConvergenceWarning)


@described
class PolytopeFacesRegressor(ValueScore, EstimatorSupport, BaseEstimator):
    """Kernel regression on a few training points, chosen by walking along the faces of the polar polytope.

    The model is ``f(x) = intercept_ + sum_j dual_coef_[j] * k(x, support_vectors_[j])``. Kernel polytope faces pursuit
    moves towards the solution of basis pursuit, min ‖α‖₁ subject to Kα = y. Each step goes from the vertex reached so
    far along the residual, takes the atom whose face it meets first, and fits all weights again. With `release` it then
    lets go of atoms whose weight has changed its sign. `Faces` has the formulas, :doc:`its page </polytope>` a picture.

    Parameters
    ----------
    n_atoms : int, default=100
        Stop when so many atoms are active. Because atoms may leave, there can be more steps than atoms; after
        ``10 * n_atoms`` steps the walk ends in any case.
    kernel : str, callable or (str, dict), default="rbf"
        A name of ``sklearn.metrics.pairwise``, a function of two matrices or of two rows, or "precomputed", with the
        kernel matrix as X. A pair such as ``("rbf", {"gamma": 0.5})`` has parameters of its own. The kernel need not be
        positive definite.
    gamma
    release : bool, default=True
        Whether atoms leave whose weight turns against their sign ("KPFPv"). Without releases ("KPFP") the fit is least
        squares on the chosen atoms, and only the choice differs from orthogonal matching pursuit.
    theta_tol : float, default=1e-5
        Stop when θ, the largest ``|kᵢᵀr|`` of an atom that is not active, is at most this share of ``‖y‖ max‖kᵢ‖``. No
        other atom would change the fit much then.
    guard : bool, default=False
        Whether a face that was crossed (after a release, or without releases) is taken at once. Otherwise its atom is
        passed over until the walk comes back to the near side.
    centers
    memory
    fit_intercept : bool, default=True
        Whether the model has a constant term. The constant has no face and never leaves; atoms and targets are taken
        orthogonal to it.
    random_state : int, RandomState or None, default=None
        Seed for `centers`.
    verbose

    Attributes
    ----------
    support_ : ndarray of shape (k,)
        Atoms of the model, oldest first: indices of training rows, or of `centers` if those were given.
    support_vectors_
    gamma_
    dual_coef_ : ndarray of shape (k,)
        Weights of the atoms.
    intercept_ : float
        Constant term.
    theta_ : ndarray of shape (n_steps + 1,)
        θ at the start and after each step. ``truncate(theta_.argmin())`` is the model where it was smallest.
    path_ : Path
        Record of the walk: a `Step` for each step with the atoms it released, and why it ended: "n_atoms", "tolerance"
        (`theta_tol`), "exhausted" (no other face can be met), "iteration cap" or "interrupted".
    n_features_in_
    feature_names_in_

    Notes
    -----
    *Not an exact solver of the linear program.* After a release, and always without releases, c may leave the
    polytope, and the walk may end elsewhere than at the optimum. With 15 x 40 Gaussian dictionaries and dense targets
    the optimum of the linear program was reached in 74 of 100 runs without and in 92 with `guard`; with 6-sparse
    targets (20 x 40) in 194 and 198 of 200; on RBF kernel matrices of 12 points in 59 and 60 of 60. (A literal
    prototype on other draws: 17 and 24 of 30; 39 and 40 of 40; 30 and 29 of 30.) Where the target has a sparse
    representation that basis pursuit finds, the walk nearly always finds it too. Use ``scipy.optimize.linprog``
    where the optimum itself is wanted.

    Where training points are so dense that neighbours have nearly the same column, atoms slide: each step swaps one for
    its neighbour, and the iteration cap may come before `n_atoms` are active. A ConvergenceWarning says so.

    References
    ----------
    Diethe and Hussain, Kernel polytope faces pursuit, ECML PKDD 2009.
    Plumbley, Recovery of sparse representations by polytope faces pursuit, ICA 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import PolytopeFacesRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> y = np.sin(X[:, 0]) + X[:, 1]
    >>> model = PolytopeFacesRegressor(n_atoms=20).fit(X, y)
    >>> len(model.support_), round(model.score(X, y), 2)
    (20, 1.0)
    >>> len(model.path_) - sum(len(step.released) for step in model.path_.steps)
    20
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": KMP_CONSTRAINTS["n_atoms"][:1],
        "release": ["boolean"],
        "theta_tol": [NOT_NEGATIVE],
        "guard": ["boolean"],
        "kernel": ONE_KERNEL,
        **{name: KERNEL_CONSTRAINTS[name] for name in ("gamma", "centers")},
        **{name: KMP_CONSTRAINTS[name] for name in SHARED},
    }

    def __init__(
        self,
        n_atoms=100,
        *,
        kernel="rbf",
        gamma="scale",
        release=True,
        theta_tol=1e-5,
        guard=False,
        centers=None,
        memory=None,
        fit_intercept=True,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.kernel = kernel
        self.gamma = gamma
        self.release = release
        self.theta_tol = theta_tol
        self.guard = guard
        self.centers = centers
        self.memory = memory
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.verbose = verbose

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PolytopeFacesRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The square kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            One target.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows: one of weight w counts as w rows, one of weight 0 is left out.

        Returns
        -------
        self
        """
        X, y = check_training(self, X, y, sample_weight=sample_weight, y_numeric=True)
        data, settings = training_data(X, on_host(y), sample_weight), Settings.of(self)
        X, weights = data.X, None if data.weights is None else as_like(data.weights, data.X)
        cast_targets(data.y, host_dtype(X))  # or an error
        column = data.y.reshape(-1, 1)
        column, zero = near_zero(column, host_dtype(X)) if self.fit_intercept else (column, 0.0)
        targets, unit = scale_targets(cast_targets(column, host_dtype(X)))
        family = atoms_of(self, data, settings.rng, check_centers(self.centers, X))
        how = {"release": self.release, "guard": self.guard, "intercept": self.fit_intercept, "weights": weights}
        pursuit = Pursuit.plan([family.dictionary], settings, data, self.n_atoms)
        criterion = Faces(pursuit.dictionaries[0], as_like(targets[:, 0], X), **how)
        path = pursuit.run(criterion, [walk_rule(criterion, self.n_atoms, self.theta_tol)], unit=unit * unit)
        warn_if_unfinished(path, len(criterion.stages[len(path)].atoms), self.n_atoms)
        self.theta_ = to_namespace_of(np.array(criterion.theta[: len(path) + 1]) * unit, X)
        self._stages = [
            stage._replace(coef=np.concatenate([stage.coef[:1] * unit + zero, stage.coef[1:] * unit]))
            for stage in criterion.stages[: len(path) + 1]
        ]
        ever = np.array(list(dict.fromkeys(atom for stage in self._stages for atom in stage.atoms)), dtype=np.intp)
        self._place = {int(atom): place for place, atom in enumerate(ever)}
        self._ever = family.expansion(ever), family.support(ever)
        self._set(in_units(path, unit, score=unit))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets for X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Kernel values with all training rows for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.support_vectors_, "predict")
        return self._expansion.predict(X)[:, 0]

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions of the models after 1, 2, ... steps, the kernel evaluated once for all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_new(self, X, self.kernel, self.support_vectors_, "staged_predict")
        stages = self._stages[1 : len(self.path_) + 1]
        coef = np.zeros((len(stages), 1 + len(self._place), 1))  # over all atoms that were ever active
        for row, stage in zip(coef[:, :, 0], stages, strict=True):
            row[0], row[1 + self._places(stage)] = stage.coef[0], stage.coef[1:]
        for values in self._ever[0].staged(X, coef):
            yield values[:, 0]

    def truncate(self, k: int) -> PolytopeFacesRegressor:
        """Model after the first `k` steps of the path, with the atoms and weights of then.

        Parameters
        ----------
        k : int
            From 0 (the constant) to the number of steps kept.

        Returns
        -------
        PolytopeFacesRegressor
            A fitted copy; this model does not change.
        """
        check_is_fitted(self)
        if not isinstance(k, Integral) or not 0 <= k <= len(self.path_):
            raise ValueError(f"k must be an integer from 0 to {len(self.path_)}, the steps of this model, got {k!r}")
        model = copy.copy(self)
        model._set(self.path_.truncate(k))
        model.n_atoms = len(model.support_)
        return model

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.array_api_support = ARRAY_API_SUPPORT
        return tags

    @property
    def support_(self) -> np.ndarray:
        """Atoms of the model, oldest first, NumPy wherever X lives."""
        return self._ever[1][self._places(self._stages[len(self.path_)])]

    def _places(self, stage: Stage) -> np.ndarray:
        """Where the atoms of `stage` are among all that were ever active."""
        return np.array([self._place[atom] for atom in stage.atoms], dtype=np.intp)

    def _set(self, path: Path) -> None:
        """Attributes of the model at the end of `path`."""
        stage = self._stages[len(path)]
        places = self._places(stage)
        self.path_ = path
        self._expansion = self._ever[0].subset(places)
        self._expansion.coef = stage.coef[:, None]
        centers = self.support_vectors_ = self._expansion.centers
        coef = stage.coef.astype(host_dtype(centers))
        self.dual_coef_, self.intercept_ = to_namespace_of(coef[1:], centers), float(stage.coef[0])
        self.gamma_ = gamma_of(self._expansion.kernels)
