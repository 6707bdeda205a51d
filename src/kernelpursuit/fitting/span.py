"""The span of chosen points in feature space, shared by sparse kernel PCA and novelty detection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning

from kernelpursuit._sklearn import ARRAY_API_SUPPORT
from kernelpursuit._warning import warn
from kernelpursuit.arrays import Array, namespace
from kernelpursuit.atoms.threads import spans
from kernelpursuit.bounds import compression_bound
from kernelpursuit.criteria.rayleigh import Rayleigh
from kernelpursuit.fitting.atom_family import atoms_of
from kernelpursuit.fitting.constraints import AT_LEAST_ONE, KERNEL_CONSTRAINTS, ONE_KERNEL, PURSUIT_CONSTRAINTS
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.fitting.fit_warnings import warn_if_short
from kernelpursuit.fitting.pipeline import Pursuit, Settings
from kernelpursuit.fitting.placement import model_precision, rows_between, widest
from kernelpursuit.fitting.training import TrainingData, refuse_weights
from kernelpursuit.kernels.gaussian import all_finite
from kernelpursuit.kernels.kernels import SHIFT_INVARIANT, Kernel, kernel_list
from kernelpursuit.parameters import bound, tolerance
from kernelpursuit.pursuit.loop import Path, StopRule, count
from kernelpursuit.pursuit.stopping import loss_below, lowest_bound, n_atoms

SPAN_CONSTRAINTS: dict[str, list] = {
    "n_atoms": [AT_LEAST_ONE],
    "kernel": ONE_KERNEL,
    "gamma": KERNEL_CONSTRAINTS["gamma"],
    **PURSUIT_CONSTRAINTS,
}
POSITIVE = (
    "Use a kernel that is, such as 'rbf', 'laplacian' or 'cosine', or a precomputed matrix whose negative eigenvalues "
    "are set to 0"
)
OVERFLOW = "kernel gives infinite or undefined values on X: scale X, or change kernel or gamma"


class Span(NamedTuple):
    """Chosen points, and the coordinates ψ(x) = Λ⁻¹ k_A(x) of other points in their span.

    ΛΛᵀ is the kernel matrix of the chosen points A. ⟨ψ(x), ψ(z)⟩ is the inner product of the projections of x and z
    onto the span (Nyström).
    """

    path: Path
    support: np.ndarray
    expansion: Expansion

    def features(self, X: Any) -> Array:
        """ψ of the rows of X, (n_rows, k), where X is, in the widest precision there."""
        return finite_values(self.expansion, X)

    def residual(self, X: Any, diagonal: Array) -> Array:
        """Squared distance of the rows of X to the span, ``k(x, x) - ‖ψ(x)‖²``, `diagonal` being k(x, x)."""
        batches = (self.features(rows_between(X, batch)) for batch in self.expansion.batches(X))
        inside = joined([namespace(part).sum(part * part, axis=1) for part in batches])
        return namespace(inside).clip(diagonal - inside, 0, None)

    def diagonal(self, X: Any) -> Array:
        """k(x, x) of the rows of X."""
        return kernel_diagonal(self.expansion.kernels[0], model_precision(X, self.expansion.precision))


def finite_values(expansion: Expansion, X: Any) -> Array:
    """Values of an expansion at the rows of X in the widest precision, or an error where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = expansion.predict(X, wide=True)
    if not all_finite(values):
        raise ValueError(OVERFLOW)
    return values


def joined(parts: list[Array]) -> Array:
    """Concatenate batches of rows."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=0)


def kernel_diagonal(kernel: Kernel, X: Any, block: int = 32) -> Array:
    """k(x, x) of the rows of X: diagonals of small squares, or 1 where the kernel is shift-invariant.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit.kernels.kernels import make_kernel
    >>> X = np.array([[1.0], [3.0]])
    >>> kernel_diagonal(make_kernel("linear", X), X), kernel_diagonal(make_kernel("rbf", X), X)
    (array([1., 9.]), array([1., 1.]))
    """
    if kernel.name in SHIFT_INVARIANT:
        on_host = isinstance(X, np.ndarray) or sparse.issparse(X)
        return np.ones(X.shape[0]) if on_host else widest(namespace(X).ones_like(X[:, 0]))
    parts = spans(0, X.shape[0], block)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [kernel.between(rows_between(X, part), rows_between(X, part)) for part in parts]
    diagonal = widest(joined([namespace(square).linalg.diagonal(square) for square in squares]))
    if not all_finite(diagonal):
        raise ValueError(OVERFLOW)
    return diagonal


def compression_bound_rule(n: int, ceiling: float, patience: int) -> StopRule:
    """Rule that keeps the number of points with the lowest `compression_bound`.

    The mean residual of the points that were not chosen is the residual trace over n - k.
    """

    def current(path: Path) -> float:
        k = len(path)
        if k == n:  # with all points in the support none is left to test them
            return np.inf
        return compression_bound(path.values("loss")[-1] * n / (n - k), k, n, ceiling=ceiling)

    return lowest_bound(current, patience)


def rayleigh(
    dictionary: Any, selection: str, data: TrainingData, family: Any, rng: np.random.Generator | None = None
) -> Rayleigh:
    """The `Rayleigh` criterion for rows of `data` and atoms of `family`; an error if the kernel is 0 everywhere."""
    make = data.source.criterion(Rayleigh, data, family)
    criterion = make(dictionary, selection=selection, weights=data.weights, rng=rng)
    if not criterion.available.any():
        found = "k(x, x) < 0 or = 0" if criterion.indefinite else "k(x, x) = 0"
        wanted = ". Take kernel='chi2'" if any(one.name == "additive_chi2" for one in family.kernels) else ""
        raise ValueError(f"kernel gives {found} at every row of X: there is nothing to span{wanted}")
    if selection == "rayleigh" and criterion.diagonal.max() < np.sqrt(np.finfo(float).tiny):  # no score would be left
        raise ValueError("kernel gives values on X whose squares vanish: scale X, or change kernel or gamma")
    return criterion


def indefinite(kernel: Any) -> str:
    """The first half of a warning about a kernel with negative eigenvalues.

    Examples
    --------
    >>> indefinite("sigmoid")
    "kernel='sigmoid' is not positive semidefinite on X: its matrix has negative eigenvalues"
    """
    kernel = kernel[0] if isinstance(kernel, tuple) else kernel
    name = getattr(kernel, "__name__", None) or repr(kernel)
    return f"kernel={name} is not positive semidefinite on X: its matrix has negative eigenvalues"


class SpanParameters:
    """Mixin of estimators that learn in the span of chosen points: the choice of points, and the tags."""

    n_atoms: int
    selection: str = "rayleigh"  # of an estimator without the parameter
    kernel: Any

    def _choose_points(
        self, data: TrainingData, settings: Settings, stop: bound | tolerance | None = None
    ) -> tuple[Span, np.ndarray]:
        """Choose points one at a time until their span explains enough of the data.

        Parameters
        ----------
        data : TrainingData
            Its rows, or the kernel matrix itself for ``kernel="precomputed"``.
        settings : Settings
        stop : bound, tolerance or None
            When to stop before `n_atoms` points: where the bound is lowest, or when enough is explained.

        Returns
        -------
        span : Span
        features : array of shape (n_samples, k)
            ψ of the training rows, on the host, but remote where the rows are remote.
        """
        n = data.X.shape[0]
        if isinstance(stop, bound):
            refuse_weights(data, "bound")
        if len(kernel_list(self.kernel)) != 1:
            raise ValueError(f"kernel must be a single kernel here, got {self.kernel!r}")
        family = atoms_of(self, data, settings.rng)

        pursuit = Pursuit.plan(
            [family.dictionary], settings, data, self.n_atoms, reads_matrix=self.selection == "rayleigh"
        )
        criterion = rayleigh(pursuit.dictionaries[0], self.selection, data, family, settings.rng)
        rules = [n_atoms(self.n_atoms)]
        if isinstance(stop, bound):
            rules.append(compression_bound_rule(n, float(criterion.diagonal.max(initial=0)), stop.patience))
        elif stop is not None:
            rules.append(loss_below(stop.share))
        path = pursuit.run(criterion, rules, steps=self.n_atoms)
        warn_if_short(path, criterion, data, self.n_atoms)
        if criterion.indefinite:
            few = f"only {count(len(path), 'atom')} could be chosen, and " if path.reason == "exhausted" else ""
            warn(
                f"{indefinite(self.kernel)}, so that {few}distances to the span of the atoms count as 0 where they are "
                f"negative. {POSITIVE}",
                ConvergenceWarning,
            )
        atoms = path.atoms
        inverse = solve_triangular(criterion.factor_at(atoms)[:, : len(atoms)], np.eye(len(atoms)), lower=True)
        coef = np.concatenate([np.zeros((1, len(atoms))), inverse.T])
        span = Span(path, family.support(atoms), replace(family.expansion(atoms), coef=coef))
        return span, criterion.factor()[:, : len(atoms)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        tags.array_api_support = ARRAY_API_SUPPORT
        return tags
