"""Refinement of a model that was fitted otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from kernelpursuit.arrays import to_host
from kernelpursuit.fitting.expansion import Expansion
from kernelpursuit.refined.estimators import RefinedKMPClassifier, RefinedKMPRegressor

REFINED_LOSSES = ("squared_error", "log_loss")  # of classes; the first of values


def refine(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    epochs: int | str = "auto",
    random_state: Any = None,
    verbose: int = 0,
) -> RefinedKMPRegressor | RefinedKMPClassifier:
    """Refined model that starts from the terms of a fitted one, in place of a choice of its own.

    Parameters
    ----------
    estimator : fitted estimator
        A regressor or classifier of this package with one Gaussian kernel: `KMPRegressor`, `KMPClassifier`,
        `PolytopeFacesRegressor`, a search of these, a refined model. It is left as it is. Its loss must be one that
        refinement fits: squared for values, squared or logistic for classes. Its `class_weight` is used.
    X, y, sample_weight
        Rows to refine on, as for `fit`: those of the first fit, or others.
    epochs, random_state, verbose
        See `RefinedKMPRegressor`.

    Returns
    -------
    RefinedKMPRegressor or RefinedKMPClassifier
        Fitted, with as many terms.

    Notes
    -----
    The terms were chosen with all rows in view, so what rows held out say of them is a little too good.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRegressor, refine
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.sin(3 * X[:, 0])
    >>> chosen = KMPRegressor(n_atoms=6, gamma=0.5).fit(X, y)
    >>> bool(refine(chosen, X, y, random_state=0).score(X, y) > chosen.score(X, y))
    True
    """
    check_is_fitted(estimator)
    if not (is_classifier(estimator) or is_regressor(estimator)):
        raise TypeError(f"estimator must be a regressor or a classifier, got {type(estimator).__name__}")
    options = _options(estimator)
    given = _terms(estimator)
    features, shape = given[0].shape[1], np.shape(X)
    if len(shape) == 2 and shape[1] != features:
        raise ValueError(f"X has {shape[1]} features, but the estimator was fitted with {features}")
    kind = RefinedKMPClassifier if is_classifier(estimator) else RefinedKMPRegressor
    model: Any = kind(n_atoms=len(given[1]), epochs=epochs, random_state=random_state, verbose=verbose, **options)
    model._given = given
    try:
        return model.fit(X, y, sample_weight)
    finally:
        del model._given


def _options(estimator: Any) -> dict[str, Any]:
    """Parameters of the estimator that the refined model has, too; an error where it fits what that one does not."""
    fitted: Any = getattr(estimator, "best_estimator_", estimator)
    loss, classes = getattr(fitted, "loss", "squared_error"), is_classifier(estimator)
    if loss not in (REFINED_LOSSES if classes else REFINED_LOSSES[:1]):
        fits = (
            "classes with loss='squared_error' or 'log_loss'"
            if classes
            else "values with loss='squared_error', their mean"
        )
        raise ValueError(f"estimator has loss={loss!r}, which cannot be refined: a refined model fits {fits}")
    return {"class_weight": getattr(fitted, "class_weight", None)} if classes else {}


def _terms(estimator: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres, widths and weights of the inputs, on the host."""
    expansion: Any = getattr(getattr(estimator, "best_estimator_", estimator), "_expansion", None)
    plain = isinstance(expansion, Expansion) and [kernel.name for kernel in expansion.kernels] == ["rbf"]
    if not plain or expansion.precomputed is not None or len(expansion.function_columns):
        raise ValueError(
            f"estimator must have terms of one Gaussian kernel (kernel='rbf') and no others, to be refined; got "
            f"{type(estimator).__name__}. Of a pipeline give the last step, and X as it sees it."
        )
    centers = expansion.centers.toarray() if sparse.issparse(expansion.centers) else to_host(expansion.centers)
    if len(centers) == 0:
        raise ValueError("estimator must have at least one term to be refined, got none")
    widths, weights = expansion.widths, expansion.input_weights
    if widths is None:
        widths = np.full(len(centers), float(expansion.kernels[0].params["gamma"]))
    return centers, np.asarray(widths), np.ones(centers.shape[1]) if weights is None else np.asarray(weights)
